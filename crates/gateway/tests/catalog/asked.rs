//! What public suites ask for: small requests, each with the answer of the service.

use crate::support::{Answer, Armilla, QUERY};
use crate::words::{DOCS, KEY, POSTS};

async fn with_item() -> Armilla {
    let armilla = Armilla::with_posts().await;
    let item = r#"{"id":"1","postId":"p","v":1,"s":"a\tb\u0005","o":[{"n":[{"i":1},{"i":4}]},{"n":[{"i":3}]}]}"#;
    armilla.send("POST", DOCS, &[KEY], item).await.expect(201);
    armilla
}

async fn ask(armilla: &Armilla, query: &str) -> Answer {
    let query = query.replace('\\', r"\\").replace('"', "\\\"").replace('\t', "\\t");
    let body = format!(r#"{{"query":"{query}","parameters":[]}}"#);
    armilla.send("POST", DOCS, &[QUERY, KEY], &body).await
}

async fn rows(armilla: &Armilla, query: &str) -> Vec<String> {
    let answer = ask(armilla, query).await.expect(200);
    answer.rows("Documents").iter().map(|row| row.to_json()).collect()
}

/// N2: LINQ's `Skip` without `Take` sends a limit beyond 32 bits.
#[tokio::test]
async fn a_limit_may_be_larger_than_any_page() {
    let armilla = with_item().await;
    let found = rows(&armilla, "SELECT VALUE c.id FROM c OFFSET 0 LIMIT 2147483697").await;
    assert_eq!(found, [r#""1""#]);
}

/// M18: texts that were put together with the data in them.
#[tokio::test]
async fn string_literals_may_hold_raw_control_characters() {
    let armilla = with_item().await;
    let found = rows(&armilla, "SELECT VALUE c.id FROM c WHERE c.s = \"a\tb\\u0005\"").await;
    assert_eq!(found, [r#""1""#]);
}

/// M6: to the last digit.
#[tokio::test]
async fn the_cosine_is_rounded_as_by_the_service() {
    let armilla = with_item().await;
    let query = "SELECT VALUE VECTORDISTANCE([1,2,3],[2,3,5],true,{'distanceFunction':'cosine'})";
    assert_eq!(rows(&armilla, query).await, ["0.9971764649527379"]);
}

/// F6: a fusion inside a fusion.
#[tokio::test]
async fn a_fusion_of_a_fusion_is_no_function() {
    let armilla = with_item().await;
    let score = "FullTextScore(c.s, 'a')";
    let query = format!("SELECT * FROM c ORDER BY RANK RRF(RRF({score}, {score}), {score})");
    let refused = ask(&armilla, &query).await.refused(400, 0);
    assert!(refused.body.contains("'RRF' is not a recognized built-in function name."));
}

/// N7: the path that is missing is the one that is named.
#[tokio::test]
async fn a_move_names_the_source_that_is_missing() {
    let armilla = with_item().await;
    let body = r#"{"operations":[{"op":"move","from":"/nope","path":"/target"}]}"#;
    let refused = armilla.send("PATCH", &format!("{DOCS}/1"), &[KEY], body).await.refused(400, 0);
    assert!(
        refused.body.contains("/nope") && !refused.body.contains("/target"),
        "{}",
        refused.body
    );
}

/// M17: what is missing is said before what is wrong with the body.
#[tokio::test]
async fn a_replacement_of_nothing_by_nothing_is_not_found() {
    let armilla = with_item().await;
    armilla.send("PUT", &format!("{DOCS}/nope"), &[KEY], "").await.refused(404, 0);
}

/// M20: an answer without a position would begin again for ever.
#[tokio::test]
async fn the_change_feed_takes_no_query() {
    let armilla = with_item().await;
    let headers = [QUERY, KEY, ("a-im", "Incremental Feed")];
    let body = r#"{"query":"SELECT * FROM c","parameters":[]}"#;
    let refused = armilla.send("POST", DOCS, &headers, body).await.refused(400, 0);
    assert!(refused.body.contains("a-im"), "{}", refused.body);
}

/// M33: the service applies a procedure to whatever looks like an array.
#[tokio::test]
async fn the_arguments_of_a_procedure_are_applied() {
    let armilla = with_item().await;
    let body = "function(a,b){getContext().getResponse().setBody(typeof a + typeof b)}";
    let procedure = format!(r#"{{"id":"types","body":"{body}"}}"#);
    armilla.post(&format!("{POSTS}/sprocs"), &procedure).await.expect(201);
    let path = format!("{POSTS}/sprocs/types");
    for (arguments, types) in [
        (r#"{"0":"one","1":"two","length":2}"#, "stringstring"),
        (r#"{"a":1}"#, "undefinedundefined"),
        (r#"["x"]"#, "stringundefined"),
    ] {
        let answer = armilla.send("POST", &path, &[KEY], arguments).await.expect(200);
        assert_eq!(answer.body, format!("\"{types}\""), "{arguments}");
    }
    armilla.send("POST", &path, &[KEY], r#""abc""#).await.refused(400, 0);
}

/// A7, M9: a plan needs no values, no composite index, and no word for lists and sets.
#[tokio::test]
async fn plans_are_made_of_what_only_a_run_would_refuse() {
    let armilla = with_item().await;
    let features = "Aggregate, Distinct, GroupBy, MultipleOrderBy, NonValueAggregate, OrderBy";
    for (query, member, wanted) in [
        ("SELECT * FROM c ORDER BY c.a, c.b DESC", "orderBy", r#"["Ascending","Descending"]"#),
        ("SELECT * FROM c WHERE c.v = @value", "hasSelectValue", "false"),
        ("SELECT VALUE MAKELIST(c.v) FROM c", "aggregates", r#"["MakeList"]"#),
        ("SELECT VALUE MAKESET(c.v) FROM c", "aggregates", r#"["MakeSet"]"#),
    ] {
        let headers = [
            QUERY,
            ("x-ms-cosmos-is-query-plan-request", "True"),
            ("x-ms-cosmos-supported-query-features", features),
        ];
        let body = format!(r#"{{"query":"{query}"}}"#);
        let plan = armilla.send("POST", DOCS, &headers, &body).await.expect(200).json();
        let found = plan.get("queryInfo").and_then(|info| info.get(member)).unwrap().to_json();
        assert_eq!(found, wanted, "{query}");
    }
}

/// N4: read by its id the item is there; no query finds it until it is written again.
#[tokio::test]
async fn an_item_that_its_header_keeps_out_of_the_index_is_only_read() {
    let armilla = with_item().await;
    let item = r#"{"id":"2","postId":"p","v":424242}"#;
    let exclude = ("x-ms-indexing-directive", "Exclude");
    armilla.send("POST", DOCS, &[KEY, exclude], item).await.expect(201);
    let path = format!("{DOCS}/2");
    armilla.send("GET", &path, &[KEY], "").await.expect(200);
    let queries = [
        "SELECT VALUE c.id FROM c WHERE c.v = 424242",
        "SELECT VALUE c.id FROM c WHERE c.v > 1 ORDER BY c.v",
        "SELECT VALUE COUNT(1) FROM c WHERE c.v > 1",
    ];
    for (query, wanted) in queries.iter().zip([&[][..], &[], &["0"]]) {
        assert_eq!(rows(&armilla, query).await, wanted, "{query}");
    }
    armilla.send("PUT", &path, &[KEY], item).await.expect(200);
    for (query, wanted) in queries.iter().zip([r#""2""#, r#""2""#, "1"]) {
        assert_eq!(rows(&armilla, query).await, [wanted], "{query}");
    }
    let bad = ("x-ms-indexing-directive", "Sometimes");
    armilla.send("POST", DOCS, &[KEY, bad], item).await.refused(400, 0);
}

/// A1, A10, F2, F5, F10, I7, M27, M28, P2: words that SDKs and their translators put into queries.
#[tokio::test]
async fn what_clients_write_into_queries_is_understood() {
    let armilla = with_item().await;
    for (query, wanted) in [
        ("SELECT VALUE IS_BOOLEAN(c.v) FROM c", "false"),
        ("SELECT VALUE ContainsAnyCI('ABC', 'x', 'b')", "true"),
        ("SELECT VALUE ContainsAllCI('ABC', 'c', 'x')", "false"),
        ("SELECT VALUE (LET x = 1 IN x)", "1"),
        ("SELECT VALUE [STRING_EQUALS('a', 'a'), ISSTRING(1)]", "[true,false]"),
        ("SELECT VALUE ARRAYCONTAINS([1], 1)", "true"),
        ("SELECT VALUE IS_DEFINED(DOCUMENTID(c[\"x\"])) FROM c", "true"),
        ("SELECT VALUE DateTimePart('hh', '2024-01-02T05:04:05+02:00')", "3"),
        ("SELECT VALUE _VectorScore([1,2], [1,2])", "1"),
        ("SELECT c.id AS \"$type\" FROM c", r#"{"$type":"1"}"#),
        (
            "SELECT VALUE (SELECT VALUE SUM((SELECT VALUE MAX(n.i) FROM n IN a.n)) FROM a IN c.o) FROM c",
            "7",
        ),
        (
            "SELECT VALUE c.id FROM c ORDER BY RANK FullTextScore({\"s\": c[\"s\"]}[\"s\"], 'a')",
            r#""1""#,
        ),
    ] {
        assert_eq!(rows(&armilla, query).await, [wanted], "{query}");
    }
}

/// A9: LINQ's `Distinct` before a `Select`, over the rows of several ranges.
#[tokio::test]
async fn rows_of_a_distinct_sub_query_are_merged() {
    let armilla = Armilla::start();
    armilla.post("/dbs", r#"{"id":"blog"}"#).await.expect(201);
    let definition = r#"{"id":"posts","partitionKey":{"paths":["/postId"]}}"#;
    let throughput = [("x-ms-offer-throughput", "25000")];
    armilla.send("POST", "/dbs/blog/colls", &throughput, definition).await.expect(201);
    for number in 0..12 {
        let item = format!(r#"{{"id":"{number}","postId":"{number}","t":"t{}"}}"#, number % 3);
        armilla.post(DOCS, &item).await.expect(201);
    }
    let everywhere = ("x-ms-documentdb-query-enablecrosspartition", "true");
    let body = r#"{"query":"SELECT VALUE p.t FROM (SELECT DISTINCT c.t FROM c) p"}"#;
    let found = armilla.send("POST", DOCS, &[QUERY, everywhere], body).await.expect(200);
    let mut found: Vec<_> = found.rows("Documents").iter().map(|row| row.to_json()).collect();
    found.sort();
    assert_eq!(found, [r#""t0""#, r#""t1""#, r#""t2""#]);
}
