//! ORDER BY over three ranges as .NET resumes it from a token: `resumeFilter` beside the text, over both wires. Of the
//! rows equal to the last one that was handed out, the ranges to its left have given all, its own range those up to
//! its `_rid`, and the ranges to its right none.

use super::client::{Client, Known, Range};
use crate::support::{Armilla, QUERY};
use armilla_engine::Options;
use armilla_gateway::direct::DirectMode;
use armilla_model::{Value, json};

const PAGE_SIZE: i64 = 4;
const DOCS: &str = "/dbs/blog/colls/posts/docs";

/// A row as the client merges it: the range it is from, and what the rewritten query says of it.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    range: usize,
    rid: String,
    /// In the order of ORDER BY; nothing where the item has none.
    keys: Vec<Option<Value>>,
}

impl Row {
    fn read(range: usize, row: &Value) -> Self {
        let items = row.get("orderByItems").unwrap().as_array().unwrap();
        let keys = items.iter().map(|item| item.get("item").cloned()).collect();
        assert!(row.get("payload").is_some());
        Self { range, rid: row.get("_rid").unwrap().as_str().unwrap().to_owned(), keys }
    }

    /// The filter for a range on the way on from this row. Undefined is written `[]`.
    fn filter(&self, range: usize) -> String {
        let written = |key: &Option<Value>| key.as_ref().map_or("[]".to_owned(), Value::to_json);
        let values = self.keys.iter().map(written).collect::<Vec<_>>().join(",");
        match range.cmp(&self.range) {
            std::cmp::Ordering::Less => format!(r#"{{"value":[{values}],"exclude":true}}"#),
            std::cmp::Ordering::Equal => {
                format!(r#"{{"value":[{values}],"rid":"{}","exclude":false}}"#, self.rid)
            }
            std::cmp::Ordering::Greater => format!(r#"{{"value":[{values}],"exclude":false}}"#),
        }
    }
}

/// How a page is asked for.
enum Wire<'a> {
    Http(&'a Armilla),
    Direct(Box<Client>, &'a Known),
}

impl Wire<'_> {
    /// A page of a range, and where the next one begins.
    async fn page(
        &mut self,
        range: &Range,
        body: &str,
        continuation: Option<&str>,
    ) -> (Vec<Value>, Option<String>) {
        match self {
            Self::Http(armilla) => {
                let size = PAGE_SIZE.to_string();
                let mut headers = vec![
                    QUERY,
                    ("x-ms-documentdb-query-enablecrosspartition", "True"),
                    ("x-ms-documentdb-partitionkeyrangeid", &range.id),
                    ("x-ms-max-item-count", &size),
                ];
                headers.extend(continuation.map(|token| ("x-ms-continuation", token)));
                let page = armilla.send("POST", DOCS, &headers, body).await.expect(200);
                (page.rows("Documents"), page.header("x-ms-continuation").map(str::to_owned))
            }
            Self::Direct(client, known) => {
                let frame = known.frame("Query", &range.path);
                let frame = frame.with("PartitionKeyRangeId", &*range.id);
                let mut frame = frame.with("PageSize", PAGE_SIZE).payload(body);
                if let Some(token) = continuation {
                    frame = frame.with("ContinuationToken", token);
                }
                let page = client.call(&frame).await.expect(200);
                (page.rows("Documents"), page.token("ContinuationToken").map(str::to_owned))
            }
        }
    }

    /// Every row of a range behind a position, page by page.
    async fn rows(
        &mut self,
        ranges: &[Range],
        at: usize,
        text: &str,
        from: Option<&Row>,
    ) -> Vec<Row> {
        let text = Value::from(text).to_json();
        let body = match from {
            None => format!(r#"{{"query":{text}}}"#),
            Some(row) => format!(r#"{{"query":{text},"resumeFilter":{}}}"#, row.filter(at)),
        };
        json::parse(body.as_bytes()).unwrap();
        let (mut rows, mut continuation) = (Vec::new(), None::<String>);
        loop {
            let page = self.page(&ranges[at], &body, continuation.as_deref()).await;
            rows.extend(page.0.iter().map(|row| Row::read(at, row)));
            continuation = page.1;
            if continuation.is_none() {
                return rows;
            }
        }
    }

    /// All ranges, merged as the client does: by key, ties from left to right. `rank` is the order of keys.
    async fn merged(
        &mut self,
        ranges: &[Range],
        text: &str,
        from: Option<&Row>,
        rank: impl Fn(&Row) -> Vec<i64>,
    ) -> Vec<Row> {
        let mut all = Vec::new();
        for at in 0..ranges.len() {
            let mut rows = self.rows(ranges, at, text, from).await;
            assert!(rows.is_sorted_by_key(&rank), "{rows:?}");
            if let Some(row) = from.filter(|row| row.range == at) {
                // The row at the position comes once more, first, and the client passes it over.
                assert_eq!(&rows.remove(0), row);
            }
            all.extend(rows);
        }
        all.sort_by_key(rank);
        all
    }
}

/// Undefined, null, then numbers.
fn rank(key: &Option<Value>) -> i64 {
    match key {
        None => -2,
        Some(value) => value.as_i64().unwrap_or(-1),
    }
}

async fn blog() -> Armilla {
    let options = Options { partitions: Some(3), ..Options::default() };
    let armilla = Armilla::direct_with(options, DirectMode::SamePort);
    armilla.post("/dbs", r#"{"id":"blog"}"#).await.expect(201);
    let definition = r#"{"id":"posts","partitionKey":{"paths":["/postId"],"version":2},"indexingPolicy":{"compositeIndexes":
        [[{"path":"/m","order":"descending"},{"path":"/n","order":"ascending"}]]}}"#;
    armilla.post("/dbs/blog/colls", definition).await.expect(201);
    for number in 0..24 {
        let n = match number % 6 {
            0 => String::new(),
            1 => r#","n":null"#.to_owned(),
            other => format!(r#","n":{other}"#),
        };
        let key = format!("p{}", number % 7);
        let item = format!(r#"{{"id":"i{number}","postId":"{key}","m":{}{n}}}"#, number % 2);
        let header = format!("[\"{key}\"]");
        let headers = [("x-ms-documentdb-partitionkey", header.as_str())];
        armilla.send("POST", DOCS, &headers, &item).await.expect(201);
    }
    armilla
}

async fn goes_on_from_every_row(mut wire: Wire<'_>, ranges: &[Range]) {
    for (order, items, signs) in [
        ("c.n", r#"{"item": c.n}"#, vec![1]),
        ("c.n DESC", r#"{"item": c.n}"#, vec![-1]),
        ("c.m DESC, c.n", r#"{"item": c.m}, {"item": c.n}"#, vec![-1, 1]),
    ] {
        let text = format!(
            "SELECT c._rid, [{items}] AS orderByItems, c AS payload FROM c WHERE (true) ORDER BY {order}"
        );
        let rank = |row: &Row| -> Vec<i64> {
            row.keys.iter().zip(&signs).map(|(key, sign)| rank(key) * sign).collect()
        };
        let all = wire.merged(ranges, &text, None, rank).await;
        assert_eq!(all.len(), 24, "{order}");
        for at in 0..ranges.len() {
            assert!(all.iter().any(|row| row.range == at), "an empty range tells nothing");
        }
        for (position, row) in all.iter().enumerate() {
            let rest = wire.merged(ranges, &text, Some(row), rank).await;
            assert_eq!(rest, all[position + 1..], "{order} behind {row:?}");
        }
    }
}

#[tokio::test]
async fn an_order_over_three_ranges_is_resumed_over_http() {
    let armilla = blog().await;
    let known = Known::read(&armilla, "blog", "posts").await;
    assert_eq!(known.ranges.len(), 3);
    goes_on_from_every_row(Wire::Http(&armilla), &known.ranges).await;
}

#[tokio::test]
async fn an_order_over_three_ranges_is_resumed_in_direct_mode() {
    let armilla = blog().await;
    let known = Known::read(&armilla, "blog", "posts").await;
    assert_eq!(known.ranges.len(), 3);
    let client = Box::new(Client::connect(&armilla).await);
    goes_on_from_every_row(Wire::Direct(client, &known), &known.ranges).await;
}
