//! What clients ask of an account in slices, in a calm: every kind of request that is for one slice, for one after the other, or for all.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::history::KEY_HEADER;
use crate::Outcome;
use crate::rest::{Answer, Client};

const COLLECTION: &str = "/dbs/sliced/colls/items";
const LEVELS: &str = "/dbs/sliced/colls/levels";
const ITEMS: usize = 40;
const RANGE_HEADER: &str = "x-ms-documentdb-partitionkeyrangeid";

/// Asks everything through the nodes in turn.
pub(super) fn check(clients: &[Client]) -> Outcome<()> {
    let any = |number: usize| &clients[number % clients.len()];
    expect(
        &any(0).send("POST", "/dbs", &[], Some(&json!({ "id": "sliced" })))?,
        201,
        "a database",
    )?;
    let plain = json!({ "id": "items", "partitionKey": { "paths": ["/pk"], "version": 2 } });
    let paths = json!({ "paths": ["/a", "/b"], "kind": "MultiHash", "version": 2 });
    let levels = json!({ "id": "levels", "partitionKey": paths });
    for (number, definition) in [plain, levels].iter().enumerate() {
        let answer = any(number + 1).send("POST", "/dbs/sliced/colls", &[], Some(definition))?;
        expect(&answer, 201, "a container")?;
    }
    for number in 0..ITEMS {
        let item = json!({ "id": number.to_string(), "pk": format!("key {number}"), "n": number });
        // The key stands in the item alone.
        let answer = any(number).send("POST", &format!("{COLLECTION}/docs"), &[], Some(&item))?;
        expect(&answer, 201, "an item without a key in a header")?;
    }
    for (number, client) in clients.iter().enumerate() {
        let told = |error| format!("through node {number}: {error}");
        check_rows(client).map_err(told)?;
        check_gathered(client).map_err(told)?;
        check_all_slices(client).map_err(told)?;
        check_ranges(client).map_err(told)?;
        check_levels(client, number).map_err(told)?;
        check_refusals(client).map_err(told)?;
    }
    Ok(())
}

fn expect(answer: &Answer, status: u16, what: &str) -> Outcome<()> {
    if answer.status == status {
        return Ok(());
    }
    Err(format!("{what} was answered {}, not {status}: {}", answer.status, answer.body).into())
}

fn query(client: &Client, path: &str, text: &str, headers: &[(&str, &str)]) -> Outcome<Answer> {
    let mut all = vec![
        ("content-type", "application/query+json"),
        ("x-ms-documentdb-isquery", "True"),
        ("x-ms-documentdb-query-enablecrosspartition", "True"),
    ];
    all.extend_from_slice(headers);
    client.send("POST", &format!("{path}/docs"), &all, Some(&json!({ "query": text })))
}

/// Rows one after the other come through all slices, each once.
fn check_rows(client: &Client) -> Outcome<()> {
    let mut found = Vec::new();
    let mut continuation = None::<String>;
    loop {
        let mut headers = vec![("x-ms-max-item-count", "3")];
        headers.extend(continuation.as_deref().map(|token| ("x-ms-continuation", token)));
        let answer = query(client, COLLECTION, "SELECT * FROM c WHERE c.n >= 4", &headers)?;
        expect(&answer, 200, "a query for rows")?;
        let rows = answer.body["Documents"].as_array().cloned().unwrap_or_default();
        found.extend(rows.iter().map(|row| row["n"].to_string()));
        continuation = answer.header("x-ms-continuation").map(str::to_owned);
        if continuation.is_none() {
            break;
        }
    }
    let distinct: HashSet<_> = found.iter().collect();
    if (distinct.len(), found.len()) == (ITEMS - 4, ITEMS - 4) {
        return Ok(());
    }
    Err(format!("a query shows {found:?}").into())
}

/// What needs all rows is put together of all slices.
fn check_gathered(client: &Client) -> Outcome<()> {
    let descending: Vec<usize> = (0..ITEMS).rev().collect();
    for (text, expected) in [
        ("SELECT VALUE COUNT(1) FROM c", json!([ITEMS])),
        ("SELECT VALUE c.n FROM c ORDER BY c.n DESC", json!(descending)),
        ("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 3 LIMIT 2", json!([3, 4])),
        ("SELECT TOP 2 VALUE 7 FROM c", json!([7, 7])),
        ("SELECT DISTINCT VALUE c.n % 3 FROM c", json!([0, 1, 2])),
        (
            "SELECT c.n % 2 AS k, COUNT(1) AS x FROM c WHERE c.n < 9 GROUP BY c.n % 2",
            json!([{ "k": 0, "x": 5 }, { "k": 1, "x": 4 }]),
        ),
        ("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.n % 4 AS k FROM c) x", json!([4])),
    ] {
        let found = gathered(client, text, &[])?;
        if json!(found) != expected {
            return Err(format!("'{text}' shows {found:?}").into());
        }
    }
    // The Python SDK leaves groups to the server, and merges orders itself.
    let python = [("user-agent", "azsdk-python-cosmos/4.9.0 Python/3.11")];
    let groups =
        gathered(client, "SELECT c.n % 2 AS k, COUNT(1) AS x FROM c GROUP BY c.n % 2", &python)?;
    if groups.len() != 2 {
        return Err(format!("the Python SDK is shown the groups {groups:?}").into());
    }
    let answer = query(client, COLLECTION, "SELECT * FROM c ORDER BY c.n", &python)?;
    expect(&answer, 400, "an order for the Python SDK")?;
    if answer.header("x-ms-substatus") != Some("1004") {
        return Err(format!("the Python SDK was refused otherwise: {}", answer.body).into());
    }
    Ok(())
}

/// All rows of a query, three a page.
fn gathered(client: &Client, text: &str, headers: &[(&str, &str)]) -> Outcome<Vec<Value>> {
    let (mut rows, mut continuation) = (Vec::new(), None::<String>);
    loop {
        let mut headers = headers.to_vec();
        headers.push(("x-ms-max-item-count", "3"));
        headers.extend(continuation.as_deref().map(|token| ("x-ms-continuation", token)));
        let answer = query(client, COLLECTION, text, &headers)?;
        expect(&answer, 200, text)?;
        rows.extend(answer.body["Documents"].as_array().cloned().unwrap_or_default());
        continuation = answer.header("x-ms-continuation").map(str::to_owned);
        if continuation.is_none() {
            return Ok(rows);
        }
    }
}

/// The feed of the whole container shows every item once, then nothing; what it holds is the sum of all slices; dials are turned in all of them.
fn check_all_slices(client: &Client) -> Outcome<()> {
    let (mut seen, mut etag) = (HashSet::new(), None::<String>);
    loop {
        let mut headers = vec![("a-im", "Incremental feed"), ("x-ms-max-item-count", "7")];
        headers.extend(etag.as_deref().map(|etag| ("if-none-match", etag)));
        let page = client.send("GET", &format!("{COLLECTION}/docs"), &headers, None)?;
        etag = page.header("etag").map(str::to_owned);
        if page.status == 304 {
            break;
        }
        expect(&page, 200, "a page of the feed")?;
        for item in page.body["Documents"].as_array().ok_or("a page without items")? {
            if !seen.insert(item["id"].to_string()) {
                return Err(format!("the feed shows {} twice", item["id"]).into());
            }
        }
    }
    if seen.len() != ITEMS {
        return Err(format!("the feed shows {} items", seen.len()).into());
    }
    let now = [("a-im", "Incremental feed"), ("if-none-match", "*")];
    let answer = client.send("GET", &format!("{COLLECTION}/docs"), &now, None)?;
    expect(&answer, 304, "the feed from now on")?;
    let quota = [("x-ms-documentdb-populatequotainfo", "True")];
    let answer = client.send("GET", COLLECTION, &quota, None)?;
    expect(&answer, 200, "a container with what it holds")?;
    let usage = answer.header("x-ms-resource-usage").unwrap_or_default();
    if !usage.contains(&format!("documentsCount={ITEMS};")) {
        return Err(format!("the container holds {usage}").into());
    }
    for latency in [1, 0] {
        let turn = json!({ "latency": latency });
        let answer = client.send("PUT", "/_armilla/dials", &[], Some(&turn))?;
        expect(&answer, 200, "a dial in all slices")?;
    }
    Ok(())
}

/// Ranges add up.
fn check_ranges(client: &Client) -> Outcome<()> {
    let path = format!("{COLLECTION}/pkranges");
    let ranges = client.send("GET", &path, &[], None)?;
    expect(&ranges, 200, "the ranges")?;
    let etag = ranges.header("etag").ok_or("the ranges have no etag")?;
    let known = client.send("GET", &path, &[("if-none-match", etag)], None)?;
    expect(&known, 304, "the ranges again")?;
    let mut sum = 0;
    for range in ranges.body["PartitionKeyRanges"].as_array().ok_or("there are no ranges")? {
        let id = range["id"].as_str().unwrap_or_default();
        let text = "SELECT VALUE COUNT(1) FROM c";
        let answer = query(client, COLLECTION, text, &[(RANGE_HEADER, id)])?;
        expect(&answer, 200, "a count in a range")?;
        sum += answer.body["Documents"][0].as_u64().unwrap_or(0);
        let changes = [(RANGE_HEADER, id), ("a-im", "Incremental feed")];
        let feed = client.send("GET", &format!("{COLLECTION}/docs"), &changes, None)?;
        if !matches!(feed.status, 200 | 304) {
            return Err(format!("the feed of a range was answered {}", feed.status).into());
        }
    }
    if sum == ITEMS as u64 { Ok(()) } else { Err(format!("the ranges count {sum}").into()) }
}

/// Hierarchical keys, whole and by their first level, scripts and batches.
fn check_levels(client: &Client, number: usize) -> Outcome<()> {
    let docs = format!("{LEVELS}/docs");
    for second in 0..5 {
        let tenant = format!("tenant {number}");
        let key = json!([tenant, second]).to_string();
        let item = json!({ "id": second.to_string(), "a": tenant, "b": second });
        let answer = client.send("POST", &docs, &[(KEY_HEADER, &*key)], Some(&item))?;
        expect(&answer, 201, "an item with two levels")?;
        let operations = json!([{ "operationType": "Read", "id": second.to_string() }]);
        let headers = [
            (KEY_HEADER, &*key),
            ("x-ms-cosmos-is-batch-request", "True"),
            ("x-ms-cosmos-batch-atomic", "True"),
        ];
        let answer = client.send("POST", &docs, &headers, Some(&operations))?;
        expect(&answer, 200, "a batch")?;
    }
    let prefix = json!([format!("tenant {number}")]).to_string();
    let answer = query(client, LEVELS, "SELECT VALUE COUNT(1) FROM c", &[(KEY_HEADER, &prefix)])?;
    expect(&answer, 200, "a query of a tenant")?;
    if answer.body["Documents"] != json!([5]) {
        return Err(format!("a tenant has {}", answer.body["Documents"]).into());
    }
    let name = format!("f{number}");
    let body = "function f(x) { getContext().getResponse().setBody(x + 1); }";
    let script = json!({ "id": name, "body": body });
    let answer = client.send("POST", &format!("{LEVELS}/sprocs"), &[], Some(&script))?;
    expect(&answer, 201, "a procedure")?;
    for second in 0..5 {
        let key = json!([format!("tenant {number}"), second]).to_string();
        let path = format!("{LEVELS}/sprocs/{name}");
        let answer = client.send("POST", &path, &[(KEY_HEADER, &*key)], Some(&json!([second])))?;
        expect(&answer, 200, "a call of a procedure")?;
        if answer.body != second + 1 {
            return Err(format!("a procedure answered {}", answer.body).into());
        }
    }
    Ok(())
}

/// What is not there says so.
fn check_refusals(client: &Client) -> Outcome<()> {
    let key = [(KEY_HEADER, "[\"x\"]")];
    let answer = client.send("GET", "/dbs/sliced/colls/none/docs/1", &key, None)?;
    expect(&answer, 404, "an item of no container")?;
    let answer = client.send("GET", &format!("{COLLECTION}/docs/none"), &key, None)?;
    expect(&answer, 404, "an item that is not there")?;
    let beyond = [("x-ms-continuation", "S99.x")];
    let answer = client.send("GET", &format!("{COLLECTION}/docs"), &beyond, None)?;
    expect(&answer, 400, "a position behind the last slice")?;
    let feed = [("a-im", "Incremental feed"), ("if-none-match", "S0|1")];
    let answer = client.send("GET", &format!("{COLLECTION}/docs"), &feed, None)?;
    expect(&answer, 400, "a place in the feed of some slices")?;
    let bounds = [("x-ms-start-epk", "38"), ("x-ms-end-epk", "FF")];
    let answer = query(client, COLLECTION, "SELECT c.n FROM c", &bounds)?;
    expect(&answer, 200, "a query between two bounds")
}
