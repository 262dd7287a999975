//! Orders that are kept between queries: they must not outlive what they are orders of.

use crate::generate::Random;
use crate::support::{Bench, everything};
use armilla_engine::query::{Access, Request};
use armilla_model::{Value, json};

const PARTITIONS: u64 = 5;
const ITEMS_PER_PARTITION: u64 = 60;

fn item(random: &mut Random, partition: u64, number: u64) -> String {
    let kind = random.one_of(&["post", "like", "like", "like", "note"]);
    let (n, d) = (random.below(40), random.below(100));
    format!(r#"{{"id":"{number}","pk":"p{partition}","kind":"{kind}","n":{n},"d":{d}}}"#)
}

/// Small pages and large ones, found by the index and by going through the items.
fn compare(bench: &Bench, when: &str) {
    let rows = |text: &str, page_size: usize, access: Access| {
        let pages = bench.pages_in(&Request::of_text(text), &everything(), page_size, access);
        Value::array(pages.unwrap().concat()).to_json()
    };
    for condition in [
        "c.kind = 'post'",
        "c.kind = 'post' AND c.d > 30",
        "c.kind IN ('post', 'note')",
        "NOT (c.kind = 'like')",
        "c.d < 20 OR c.kind = 'note'",
    ] {
        for (select, order) in [
            ("c.id, c.n", "c.n DESC"),
            ("*", "c.n"),
            ("VALUE c.d", "c.n DESC, c.d"),
            ("*", "c._ts"),
        ] {
            let text = format!("SELECT {select} FROM c WHERE {condition} ORDER BY {order}");
            let expected = rows(&text, 1000, Access::Items);
            for page_size in [7, 50, 7] {
                let found = rows(&text, page_size, Access::Index);
                assert_eq!(found, expected, "{when}: {text} in pages of {page_size}");
            }
        }
    }
}

#[test]
fn kept_orders_follow_writes_deletes_expiry_and_policies() {
    let policy = |included: &str| {
        let definition = format!(
            r#"{{"partitionKey":{{"paths":["/pk"]}},"defaultTtl":-1,"indexingPolicy":{{
                {included}"compositeIndexes":[[{{"path":"/n","order":"descending"}},{{"path":"/d"}}]]}}}}"#
        );
        json::parse(definition.as_bytes()).unwrap()
    };
    let all = policy("");
    let without_d = policy(r#""excludedPaths":[{"path":"/d/?"}],"#);
    let bench = Bench::new(&all, 2);
    let mut random = Random(23);
    for partition in 0..PARTITIONS {
        let numbers = 0..ITEMS_PER_PARTITION;
        let texts: Vec<_> = numbers.map(|n| item(&mut random, partition, n)).collect();
        bench.put_all(&texts);
    }
    compare(&bench, "new");
    for round in 0..2 {
        for _ in 0..15 {
            let partition = random.below(PARTITIONS);
            let number = random.below(ITEMS_PER_PARTITION + 20);
            let text = item(&mut random, partition, number);
            match random.below(4) {
                0 if number < ITEMS_PER_PARTITION => {
                    let item = json::parse(text.as_bytes()).unwrap();
                    bench.put(&item);
                    bench.delete(&item);
                }
                1 => bench.put_text(&text.replacen('{', r#"{"ttl":5,"#, 1)),
                _ => bench.put_text(&text),
            }
        }
        compare(&bench, &format!("round {round}"));
        bench.clock.advance_seconds(10);
        compare(&bench, &format!("round {round}, later"));
        bench.redefine(if round % 2 == 0 { &without_d } else { &all });
        compare(&bench, &format!("round {round}, another policy"));
    }
}

/// A negative weight turns its component round: the worst of it comes first, by its absolute value. Rows
/// without a score are last either way.
#[test]
fn components_with_negative_weights_are_ranked_from_the_worst() {
    let definition =
        br#"{"partitionKey":{"paths":["/pk"]},"vectorEmbeddingPolicy":{"vectorEmbeddings":[
        {"path":"/v","dataType":"float32","distanceFunction":"euclidean","dimensions":2},
        {"path":"/w","dataType":"float32","distanceFunction":"dotproduct","dimensions":2}]}}"#;
    for ranges in [1, 3] {
        let bench = Bench::new(&json::parse(definition).unwrap(), ranges);
        for (number, (id, v, w)) in
            [("a", 1, 40), ("b", 2, 30), ("c", 3, 20), ("d", 4, 10)].iter().enumerate()
        {
            let vectors = format!(r#""v":[{v},0],"w":[{w},0]"#);
            bench.put_text(&format!(r#"{{"id":"{id}","pk":{number},{vectors}}}"#));
        }
        bench.put_text(r#"{"id":"none","pk":9}"#);
        // By v the nearest to nothing is `a`; by w the largest product is `a` too.
        for (weights, expected) in [
            ("", r#"["a","b","c","d","none"]"#),
            (", [1, 1]", r#"["a","b","c","d","none"]"#),
            (", [-1, -1]", r#"["d","c","b","a","none"]"#),
            (", [1, -5]", r#"["d","c","b","a","none"]"#),
            (", [-1, 5]", r#"["a","b","c","d","none"]"#),
            (", [-5, 1]", r#"["d","c","b","a","none"]"#),
            (", [0, -1]", r#"["d","c","b","a","none"]"#),
        ] {
            let text = format!(
                "SELECT TOP 10 VALUE c.id FROM c ORDER BY RANK \
                 RRF(VectorDistance(c.v, [0, 0]), VectorDistance(c.w, [1, 0]){weights})"
            );
            assert_eq!(Value::array(bench.rows(&text)).to_json(), expected, "{text}");
        }
    }
}

/// Between equal ranks the text of `_rid` decides, as in clients that merge rankings themselves. Items are numbered in
/// their range: of a hundred items that go to two ranges in turn, neighbours stay together.
#[test]
fn equal_ranks_come_in_the_order_of_the_text_of_the_rid() {
    let definition = br#"{"partitionKey":{"paths":["/pk"],"version":2}}"#;
    let numbers = 1..=100_u64;
    // Base64 puts 62 and 63 first, then the digits 52 to 61, then the letters.
    let one: Vec<u64> = (62..=63).chain(52..=61).chain(1..=51).chain(64..=100).collect();
    let two: Vec<u64> = numbers.clone().map(|n| if n % 2 == 0 { n - 1 } else { n + 1 }).collect();
    for (ranges, expected) in [(1, one), (2, two)] {
        let bench = Bench::new(&json::parse(definition).unwrap(), ranges);
        for number in numbers.clone() {
            // The key `2` lies in the lower half of the key space, `1` in the upper.
            let pk = 2 - number % 2;
            bench.put_text(&format!(r#"{{"id":"{number}","pk":"{pk}","n":{number},"t":"tree"}}"#));
        }
        let rows = bench.rows(
            "SELECT VALUE c.n FROM c ORDER BY RANK \
             RRF(FullTextScore(c.t, 'river'), FullTextScore(c.t, 'sea')) OFFSET 0 LIMIT 100",
        );
        let found: Vec<u64> = rows.iter().map(|row| row.as_i64().unwrap() as u64).collect();
        assert_eq!(found, expected, "{ranges} ranges");
        let shown = bench.rows("SELECT VALUE c.n FROM c ORDER BY c._rid");
        assert_eq!(Value::array(shown), Value::array(rows), "{ranges} ranges");
    }
}
