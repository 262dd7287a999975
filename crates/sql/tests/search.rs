//! Full text and ranking: how texts become words, what BM25 makes of them, and the orders that the official suites
//! expect of their hundred shared items.
//!
//! The items themselves are not ours to keep. What the scores depend on is: how many words a title and a text have
//! and how often the terms stand in them. Texts with the same counts are made here.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use armilla_model::json::parse as parse_json;
use armilla_model::policy::ContainerPolicy;
use armilla_model::{Object, Value};
use armilla_sql::plan::{Features, PlanRange, PlanRequest, partitioned_plan};
use armilla_sql::reference::{Options, run};
use armilla_sql::{Schema, compile, parse};

fn vectors(part: &str) -> Value {
    let text = include_bytes!("vectors/search.json");
    parse_json(text).unwrap().get(part).unwrap().clone()
}

fn list(part: &str) -> Vec<Value> {
    vectors(part).as_array().unwrap().to_vec()
}

fn schema() -> Schema {
    let body = br#"{"id":"c","partitionKey":{"paths":["/pk"],"version":2},
        "fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[
            {"path":"/title","language":"en-US"},{"path":"/text","language":"en-US"}]}}"#;
    Schema::new(&ContainerPolicy::parse(&parse_json(body).unwrap()).unwrap()).unwrap()
}

fn rows(query: &str, documents: &[Value]) -> Vec<Value> {
    let (schema, query) = (schema(), parse(query).unwrap());
    run(&query, &[], documents.iter().cloned(), Options::new(&schema)).unwrap()
}

fn number(value: &Value, name: &str) -> i64 {
    value.get(name).and_then(Value::as_i64).unwrap_or(0)
}

/// A text of so many words that holds the phrases so many times.
fn text_of(words: i64, phrases: &[(&str, i64)]) -> String {
    let mut text = Vec::new();
    let mut left = words;
    for (phrase, times) in phrases {
        for _ in 0..*times {
            // A word of its own behind each keeps phrases from joining.
            text.push(format!("{phrase} zebra"));
            left -= phrase.split(' ').count() as i64 + 1;
        }
    }
    assert!(left >= 0, "{words} words do not hold {phrases:?}");
    text.extend((0..left).map(|_| "zebra".to_owned()));
    text.join(" ")
}

/// The hundred items, as far as scores can tell.
fn corpus() -> Vec<Value> {
    let corpus = vectors("corpus");
    let item = |item: &Value| {
        let both = number(item, "textUnitedStates");
        let text = [
            ("United States", both),
            ("United", number(item, "textUnited") - both),
            ("John", number(item, "textJohn")),
        ];
        let title = text_of(number(item, "title"), &[("John", number(item, "titleJohn"))]);
        Value::object(Object::of([
            ("index", number(item, "index").into()),
            ("title", title.into()),
            ("text", text_of(number(item, "text"), &text).into()),
        ]))
    };
    corpus.get("items").and_then(Value::as_array).unwrap().iter().map(item).collect()
}

#[test]
fn texts_become_words_by_the_recipe() {
    let texts = list("texts");
    assert_eq!(texts.len(), 8);
    for vector in &texts {
        let text = vector.get("text").unwrap();
        let document = Value::object(Object::of([("text", text.clone())]));
        let ask = |expression: &str| {
            let query = format!("SELECT VALUE {expression} FROM c");
            rows(&query, std::slice::from_ref(&document))
        };
        let length = ask("_FullTextWordCount(c.text)");
        assert_eq!(length, [vector.get("length").unwrap().clone()], "{text}");
        for (term, times) in vector.get("terms").and_then(Value::as_object).unwrap().iter() {
            let found = ask(&format!("FullTextContains(c.text, '{term}')"));
            assert_eq!(found, [Value::from(times.as_i64() > Some(0))], "'{term}' in {text}");
        }
    }
}

#[test]
fn every_stop_word_of_the_documentation_is_dropped() {
    let words = list("stopWords");
    assert_eq!(words.len(), 586);
    // Apostrophes separate words, so entries with one never stand in a text as they are.
    for word in words.iter().filter(|word| !word.as_str().unwrap().contains('\'')) {
        let document = Value::object(Object::of([("text", word.clone())]));
        let count = rows("SELECT VALUE _FullTextWordCount(c.text) FROM c", &[document]);
        assert_eq!(count, [Value::from(0)], "{word}");
    }
}

#[test]
fn the_counts_of_the_corpus_are_those_of_the_official_items() {
    let (corpus, vectors) = (corpus(), vectors("corpus"));
    for field in ["title", "text"] {
        let total =
            rows(&format!("SELECT VALUE SUM(_FullTextWordCount(c.{field})) FROM c"), &corpus);
        assert_eq!(total, [vectors.get("totalWords").unwrap().get(field).unwrap().clone()]);
    }
    for (name, term) in vectors.get("terms").and_then(Value::as_object).unwrap().iter() {
        let term = term.as_array().unwrap();
        let (field, phrase) = (term[0].as_str().unwrap(), term[1].as_str().unwrap());
        let query =
            format!("SELECT VALUE COUNT(1) FROM c WHERE FullTextContains(c.{field}, '{phrase}')");
        assert_eq!(
            rows(&query, &corpus),
            [vectors.get("hitCounts").unwrap().get(name).unwrap().clone()]
        );
    }
}

/// What the suites expect of full-text components. Orders with a vector need the items' vectors, which are not here, and
/// Java's give every row a rank of its own.
#[test]
fn orders_are_those_of_the_official_suites() {
    let corpus = corpus();
    let terms = vectors("corpus").get("terms").and_then(Value::as_object).unwrap().clone();
    let mut asked = 0;
    for order in list("orders") {
        let components = order.get("components").and_then(Value::as_array).unwrap();
        let textual = components.iter().all(|name| terms.contains(name.as_str().unwrap()));
        if !textual || order.get("ranks").is_some() {
            continue;
        }
        asked += 1;
        let found = rows(order.get("query").and_then(Value::as_str).unwrap(), &corpus);
        let found: Vec<_> = found.iter().map(|row| row.get("index").unwrap().clone()).collect();
        let shown = Value::array(found.clone());
        match order.get("expected").and_then(Value::as_array) {
            Some(expected) => assert!(expected.contains(&shown), "{shown}\n{order}"),
            None => {
                let among = order.get("among").and_then(Value::as_array).unwrap();
                assert_eq!(found.len() as i64, number(&order, "count"), "{order}");
                // The last places without a match are ties, which the order of arrival decides here.
                let foreign = found.iter().filter(|index| !among.contains(index)).count();
                assert!(foreign <= 1, "{shown}\n{order}");
            }
        }
    }
    assert_eq!(asked, 13);
}

#[test]
fn components_of_a_plan_are_as_deep_as_the_planner_makes_them() {
    for vector in list("componentDepth") {
        let (skip, take) = (number(&vector, "skip"), number(&vector, "take"));
        let text = format!(
            "SELECT c.id FROM c ORDER BY RANK RRF(FullTextScore(c.title, 'a'), FullTextScore(c.text, 'b')) \
             OFFSET {skip} LIMIT {take}"
        );
        let plan = partitioned_plan(PlanRequest {
            query: &parse(&text).unwrap(),
            parameters: &[],
            schema: &schema(),
            partition_key: &[],
            features: &Features::parse(
                "HybridSearch,WeightedRankFusion,NonStreamingOrderBy,OffsetAndLimit,OrderBy",
            ),
            range_of: &|_| PlanRange {
                min: String::new(),
                max: "FF".to_owned(),
                max_inclusive: false,
            },
            for_one_key: false,
        });
        let plan = plan.unwrap().to_value();
        let info = plan.get("hybridSearchQueryInfo").unwrap();
        for component in info.get("componentQueryInfos").and_then(Value::as_array).unwrap() {
            assert_eq!(number(component, "limit"), number(&vector, "depth"), "{vector}");
        }
    }
}

#[test]
fn ranks_that_cannot_be_are_refused_with_the_codes_of_the_service() {
    // Where the service's own planner, whose answers tests/planner.rs holds, gives another code.
    const PLANNER: [(&str, &str); 1] = [("SC2221", "SC2233")];
    let schema = schema();
    for vector in list("refusedQueries") {
        let text = vector.get("query").and_then(Value::as_str).unwrap();
        let refused = parse(text).and_then(|query| compile(&query, &[], &schema).map(drop));
        let document = refused.expect_err(text).to_string();
        let code = vector.get("code").and_then(Value::as_str).unwrap();
        let planner = PLANNER.iter().find(|(written, _)| *written == code);
        let code = planner.map_or(code, |(_, planned)| planned);
        assert!(document.contains(code), "{text}: {document}");
    }
}
