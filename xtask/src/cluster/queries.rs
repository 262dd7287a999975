//! `cargo xtask cluster --queries`: the metamorphic corpus through a node that does not own the account, beside a server alone.
//!
//! Both hold the same account: the server's is backed up and restored into the nodes' database. Every query is asked of both, page by page. Rows, their
//! order, their number, charges and continuation tokens must be the same, but for the signature of tokens: accounts have secrets of their own. The owner and the
//! other node go on with the tokens of each other.
//!
//! With `--slices N` the nodes' account is cut, and the server alone has what a backup of the slices holds: the same ranges. What is put together of all
//! slices must be the same in everything. Rows that come as items go by come slice by slice: their pages end where slices end, so all rows together are compared; and the
//! charges of all pages, which may differ by the least that a page costs.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::nodes::{Encryption, Nodes};
use crate::rest::{Answer, Client};
use crate::server::{Server, forget_settings};
use crate::{Outcome, workspace};

const DATABASE: &str = "/dbs/metamorphic";
/// Throughput of a container, and the partitions that it makes.
const SIZES: [(&str, usize); 2] = [("400", 1), ("420000", 42)];
const PAGES: [&str; 2] = ["1000", "7"];
const KEY_HEADER: &str = "x-ms-documentdb-partitionkey";
/// No answer has more pages.
const PAGES_MAX: usize = 500;
/// What makes the items, from the tests of the Python SDK.
const ITEMS: &str = "import json, metamorphic_data as data; \
    print(json.dumps({'items': data.items(), 'policy': data.POLICIES['full'], 'queries': data.queries()}))";

/// What is asked, and of what.
struct Corpus {
    items: Vec<Value>,
    policy: Value,
    queries: Vec<Value>,
}

impl Corpus {
    fn read() -> Outcome<Self> {
        let folder = workspace::root().join("conformance/python");
        let made =
            Command::new("python3").current_dir(folder).args(["-B", "-c", ITEMS]).output()?;
        let mut made: Value = serde_json::from_slice(&made.stdout)
            .map_err(|_| String::from_utf8_lossy(&made.stderr).into_owned())?;
        let mut list = |name: &str| -> Outcome<Vec<Value>> {
            let list = made[name].take();
            Ok(list.as_array().ok_or("the corpus lacks a list")?.clone())
        };
        let (items, queries) = (list("items")?, list("queries")?);
        Ok(Self { items, policy: made["policy"].take(), queries })
    }

    /// Makes the containers, each in two sizes.
    fn load(&self, client: &Client) -> Outcome<()> {
        done(client.send("POST", "/dbs", &[], Some(&json!({ "id": "metamorphic" })))?)?;
        for (name, key) in self.containers() {
            let throughput = SIZES.iter().find(|(_, ranges)| name.ends_with(&format!("-{ranges}")));
            let headers = [("x-ms-offer-throughput", throughput.map_or("400", |size| size.0))];
            let definition =
                json!({ "id": name, "partitionKey": key, "indexingPolicy": self.policy });
            done(client.send(
                "POST",
                &format!("{DATABASE}/colls"),
                &headers,
                Some(&definition),
            )?)?;
            for item in &self.items {
                let key = key_of(item, &key).to_string();
                let path = format!("{DATABASE}/colls/{name}/docs");
                done(client.send("POST", &path, &[(KEY_HEADER, &key)], Some(item))?)?;
            }
        }
        Ok(())
    }

    fn containers(&self) -> Vec<(String, Value)> {
        let plain = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
        let tree =
            json!({ "paths": ["/tenant", "/user", "/session"], "kind": "MultiHash", "version": 2 });
        let named = |(_, ranges): (&str, usize)| {
            [(format!("plain-{ranges}"), plain.clone()), (format!("tree-{ranges}"), tree.clone())]
        };
        SIZES.into_iter().flat_map(named).collect()
    }
}

/// The values of an item at the paths of a key.
fn key_of(item: &Value, key: &Value) -> Value {
    let paths = key["paths"].as_array().map_or(&[][..], Vec::as_slice);
    let value = |path: &Value| {
        let name = path.as_str().unwrap_or_default().trim_start_matches('/');
        // What is not there is said so.
        item.get(name).cloned().unwrap_or_else(|| json!({}))
    };
    paths.iter().map(value).collect()
}

fn done(answer: Answer) -> Outcome<()> {
    if answer.is_success() {
        return Ok(());
    }
    Err(format!("answered {}: {}", answer.status, answer.body).into())
}

/// Asks everything of both; answers how much that was.
pub(super) fn trial(binary: &Path, slices: u32) -> Outcome<String> {
    let corpus = Corpus::read()?;
    let folder = tempfile::Builder::new().prefix("armilla-queries-").tempdir()?;
    let data = folder.path().join("alone");
    let server = Server::start(binary, &data, &folder.path().join("alone.log"))?;
    corpus.load(&server.client())?;
    let backup = folder.path().join("backup").display().to_string();
    run(binary, &["backup", "--to", &backup, "--data"], &data)?;
    server.stop()?;
    let data = folder.path().join("restored");
    let mut nodes = match slices {
        1 => Nodes::lay_out(binary, "queries", Encryption::None, Vec::new())?,
        _ => Nodes::lay_out_sliced(binary, "queries", slices, vec!["--no-balance".to_owned()])?,
    };
    nodes.command(&["restore", "--from", &backup], "queries")?;
    let alike = if slices > 1 { nodes.backup()?.display().to_string() } else { backup };
    // Restored as the nodes' account is: indexes that are built at once count candidates as such indexes do.
    run(binary, &["restore", "--from", &alike, "--data"], &data)?;
    let server = Server::start(binary, &data, &folder.path().join("alone.log"))?;
    nodes.start_all()?;
    let nodes_asked = if slices > 1 {
        nodes.command(&["cluster", "rebalance"], "queries")?;
        (0..nodes.len()).map(|node| nodes.client(node)).collect::<Outcome<Vec<_>>>()?
    } else {
        let owner = nodes.owner().ok_or("nobody owns the account")?;
        vec![nodes.client((owner + 1) % nodes.len())?, nodes.client(owner)?]
    };
    let (mut pages, mut asked) = (0, 0);
    for (name, _) in corpus.containers() {
        for query in &corpus.queries {
            for page in PAGES {
                let question = Question { container: &name, query, page };
                pages += question.compare(&server.client(), &nodes_asked).map_err(|error| {
                    format!("{name}, {}, pages of {page}: {error}", query["sql"])
                })?;
                asked += 1;
            }
        }
    }
    nodes.stop_all()?;
    Ok(format!("{asked} questions, {pages} pages, all the same as on one machine"))
}

/// Runs a command on a data folder.
fn run(binary: &Path, words: &[&str], data: &Path) -> Outcome<()> {
    let mut command = Command::new(binary);
    forget_settings(&mut command);
    let output = command.args(words).arg(data).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{words:?}: {}", String::from_utf8_lossy(&output.stderr)).into())
}

/// A token without the signature behind its last dot, and anything else as it is.
fn unsigned(token: &str) -> String {
    match token.rsplit_once('.') {
        Some((text, signature)) if token.contains("Q1:") => {
            let rest = signature.find('"').and_then(|end| signature.get(end..));
            format!("{text}{}", rest.unwrap_or_default())
        }
        _ => token.to_owned(),
    }
}

/// A query of the corpus, in a container.
struct Question<'a> {
    container: &'a str,
    query: &'a Value,
    page: &'a str,
}

impl Question<'_> {
    /// Asks a server alone and the nodes in turn, page by page.
    fn compare(&self, alone: &Client, nodes: &[Client]) -> Outcome<usize> {
        let first = self.ask(&nodes[0], &None)?;
        let is_in_turn = |token: &str| token.starts_with('S');
        if first.is_success() && first.header("x-ms-continuation").is_some_and(is_in_turn) {
            return self.compare_in_turn(alone, nodes);
        }
        let (mut own, mut token) = (None, None);
        for page in 1..=PAGES_MAX {
            let node = &nodes[(page + 1) % nodes.len()];
            let (first, second) = (self.ask(alone, &own)?, self.ask(node, &token)?);
            let facts = |answer: &Answer| {
                let told = ["x-ms-request-charge", "x-ms-item-count", "x-ms-continuation"];
                told.map(|name| answer.header(name).map(unsigned))
            };
            if first.status != second.status || facts(&first) != facts(&second) {
                return Err(format!(
                    "page {page}: {} {:?} alone, {} {:?} through a node",
                    first.status,
                    facts(&first),
                    second.status,
                    facts(&second)
                )
                .into());
            }
            if !first.is_success() {
                // Some need a plan, which both say.
                return Ok(page);
            }
            if first.body["Documents"] != second.body["Documents"] {
                return Err(format!("page {page}: other rows").into());
            }
            own = first.header("x-ms-continuation").map(str::to_owned);
            token = second.header("x-ms-continuation").map(str::to_owned);
            if token.is_none() {
                return Ok(page);
            }
        }
        Err("it does not end".into())
    }

    /// The same where rows come slice by slice.
    fn compare_in_turn(&self, alone: &Client, nodes: &[Client]) -> Outcome<usize> {
        let (expected, price, pages_alone) = self.all_rows(std::slice::from_ref(alone))?;
        let (found, paid, pages) = self.all_rows(nodes)?;
        if found != expected {
            return Err(
                format!("{} rows, not the {} of one machine", found.len(), expected.len()).into()
            );
        }
        // What is told is rounded, and no page costs less than one unit.
        let rounding = 0.01 * (pages_alone + pages) as f64;
        let least = |pages: usize| pages as f64 + rounding;
        if paid < price - least(pages_alone) || paid > price + least(pages) {
            return Err(format!("{paid} units in {pages} pages, {price} on one machine").into());
        }
        Ok(pages)
    }

    /// The rows of all pages, what they cost together, and how many pages there were.
    fn all_rows(&self, clients: &[Client]) -> Outcome<(Vec<Value>, f64, usize)> {
        let (mut rows, mut price, mut token) = (Vec::new(), 0.0, None);
        for page in 0..PAGES_MAX {
            let answer = self.ask(&clients[page % clients.len()], &token)?;
            if !answer.is_success() {
                return Err(
                    format!("page {page} was answered {}: {}", answer.status, answer.body).into()
                );
            }
            rows.extend(answer.body["Documents"].as_array().cloned().unwrap_or_default());
            price += answer.header("x-ms-request-charge").unwrap_or_default().parse::<f64>()?;
            token = answer.header("x-ms-continuation").map(str::to_owned);
            if token.is_none() {
                return Ok((rows, price, page + 1));
            }
        }
        Err("it does not end".into())
    }

    fn ask(&self, client: &Client, token: &Option<String>) -> Outcome<Answer> {
        let parameters = self.query.get("parameters").cloned().unwrap_or_else(|| json!([]));
        let body = json!({ "query": self.query["sql"], "parameters": parameters });
        let key = self.key();
        let mut headers =
            vec![("x-ms-documentdb-isquery", "True"), ("x-ms-max-item-count", self.page)];
        match &key {
            Some(key) => headers.push((KEY_HEADER, key)),
            None => headers.push(("x-ms-documentdb-query-enablecrosspartition", "True")),
        }
        headers.extend(token.as_deref().map(|token| ("x-ms-continuation", token)));
        client.send(
            "POST",
            &format!("{DATABASE}/colls/{}/docs", self.container),
            &headers,
            Some(&body),
        )
    }

    /// The key that the corpus asks this query inside of.
    fn key(&self) -> Option<String> {
        let levels = usize::try_from(self.query.get("key")?.as_u64()?).ok()?;
        match self.container.starts_with("plain") {
            true => Some(json!([format!("p{levels}")]).to_string()),
            false => Some(json!(["t1", "u1", "s1"][..levels.min(3)]).to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_says_what_its_key_lacks() {
        let item = json!({ "id": "a", "tenant": "t", "session": 3 });
        let paths = json!({ "paths": ["/tenant", "/user", "/session"] });
        assert_eq!(key_of(&item, &paths), json!(["t", {}, 3]));
    }

    #[test]
    fn the_signature_of_a_token_does_not_count() {
        assert_eq!(
            unsigned("{\"token\":\"Q1:abc.def\",\"range\":1}"),
            "{\"token\":\"Q1:abc\",\"range\":1}"
        );
        assert_eq!(unsigned("3.83"), "3.83");
    }
}
