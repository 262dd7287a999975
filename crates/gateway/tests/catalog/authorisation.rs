//! The table of who may do what (`authorisation.txt`), walked row by row over real sockets: over HTTP, and
//! in Direct mode where that has the operation.

mod direct;

use crate::support::{Answer, Armilla, encoded, signed_with};
use armilla_engine::Options;
use armilla_gateway::Settings;
use armilla_gateway::auth::{
    Access, Authenticator, DevelopmentTokens, MasterKeys, WELL_KNOWN_KEY, WellKnownKey,
};
use armilla_gateway::direct::DirectMode;
use armilla_gateway::locality::HostNames;
use armilla_gateway::routes::{Intent, Operation, Route, Segments};
use std::collections::BTreeSet;

const TABLE: &str = include_str!("authorisation.txt");
const OPERATIONS: &str = include_str!("../../src/routes/operation.rs");

const CREDENTIALS: [&str; 15] = [
    "master", "read", "all", "reads", "key", "item", "other", "dead", "forged", "none", "unsigned",
    "session", "viewer", "known", "local",
];
/// From here on the server has no keys of its own.
const OPEN_SERVER: usize = 13;

const READ_WRITE: &str =
    "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQQ==";
const READ_ONLY: &str =
    "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQg==";
/// `{"alg":"none"}` and no claims.
const UNSIGNED: &str = "type=aad&ver=1.0&sig=eyJhbGciOiJub25lIn0.e30.";
const STALE: &str = "\"00000000-0000-0000-0000-000000000000\"";

/// One request of the table.
struct Row {
    operation: &'static str,
    method: &'static str,
    path: String,
    words: Vec<&'static str>,
    through: u16,
    cells: Vec<&'static str>,
}

/// Where requests come from, and what that changes.
struct Situation {
    name: &'static str,
    header: Option<(&'static str, &'static str)>,
    cells: Vec<&'static str>,
}

/// Lines of a part of the table, without its head.
fn lines(part: usize) -> Vec<&'static str> {
    let mut parts = vec![Vec::new()];
    let is_told = |line: &&str| !line.is_empty() && !line.starts_with('#') && !is_exception(line);
    for line in TABLE.lines().filter(is_told) {
        if line.starts_with("operation ") || line.starts_with("from ") {
            let head: Vec<&str> = line.split_whitespace().collect();
            assert!(head.ends_with(&CREDENTIALS), "the columns are {CREDENTIALS:?}");
            parts.push(Vec::new());
        } else {
            parts.last_mut().unwrap().push(line);
        }
    }
    parts.swap_remove(part)
}

fn is_exception(line: &str) -> bool {
    line.starts_with("except ")
}

/// The status of a row that a situation treats unlike all others.
fn exception(operation: &str, situation: &str) -> Option<u16> {
    let words = TABLE.lines().filter(|line| is_exception(line)).map(str::split_whitespace);
    words.map(Iterator::collect::<Vec<_>>).find_map(|words| match *words {
        [_, row, place, status] if row == operation && place == situation => {
            Some(status.parse().unwrap())
        }
        _ => None,
    })
}

fn rows() -> Vec<Row> {
    let row = |line: &'static str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let split = words.len() - CREDENTIALS.len();
        let (left, cells) = words.split_at(split);
        let [operation, method, path, ref middle @ .., through] = *left else { panic!("{line}") };
        let path = match path.split_at(2.min(path.len())) {
            ("/c", rest) if rest.is_empty() || rest.starts_with('/') => {
                format!("/dbs/d/colls/c{rest}")
            }
            ("/d", rest) if rest.is_empty() || rest.starts_with('/') => format!("/dbs/d{rest}"),
            _ => path.to_owned(),
        };
        let (words, cells) = (middle.to_vec(), cells.to_vec());
        Row { operation, method, path, words, through: through.parse().unwrap(), cells }
    };
    lines(1).into_iter().map(row).collect()
}

fn situations() -> Vec<Situation> {
    let here = Situation { name: "here", header: None, cells: vec!["="; CREDENTIALS.len()] };
    let elsewhere = lines(2).into_iter().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let cells = words[words.len() - CREDENTIALS.len()..].to_vec();
        let [name, header, value, ..] = *words else { panic!("{line}") };
        Situation { name, header: Some((header.trim_end_matches(':'), value)), cells }
    });
    [here].into_iter().chain(elsewhere).collect()
}

impl Row {
    fn headers(&self) -> Vec<(&'static str, &'static str)> {
        let mut headers = Vec::new();
        for word in &self.words {
            headers.extend_from_slice(match *word {
                "k1" => &[("x-ms-documentdb-partitionkey", "[\"k1\"]")][..],
                "k2" => &[("x-ms-documentdb-partitionkey", "[\"k2\"]")],
                "query" => &[
                    ("x-ms-documentdb-isquery", "true"),
                    ("x-ms-documentdb-query-enablecrosspartition", "true"),
                ],
                "plan" => &[("x-ms-cosmos-is-query-plan-request", "true")],
                "batch" => &[
                    ("x-ms-cosmos-is-batch-request", "true"),
                    ("x-ms-cosmos-batch-atomic", "true"),
                ],
                "feed" => &[("a-im", "Incremental feed")],
                "upsert" => &[("x-ms-documentdb-is-upsert", "true")],
                "stale" => &[("if-match", STALE)],
                word => panic!("{word} is no word of the table"),
            });
        }
        headers
    }

    fn body(&self) -> &'static str {
        match (self.operation, self.method) {
            (_, "GET" | "DELETE") | ("DeletePartitionKey", _) => "",
            ("ExecuteProcedure", _) => "[]",
            _ if self.words.iter().any(|word| matches!(*word, "query" | "plan")) => {
                r#"{"query":"SELECT * FROM c"}"#
            }
            // Whoever is let through is told that something is missing.
            ("TurnDials", _) => "[]",
            _ => "{}",
        }
    }

    /// The operation that the gateway makes of the request.
    fn found(&self) -> String {
        let has = |wanted: &str| self.words.contains(&wanted);
        let intent = Intent {
            query_plan: has("plan"),
            batch: has("batch"),
            query: has("query"),
            upsert: has("upsert"),
            change_feed: has("feed"),
        };
        let segments = Segments::parse(&self.path).unwrap();
        let method = http::Method::from_bytes(self.method.as_bytes()).unwrap();
        let route = Route::find(&segments).unwrap();
        let operation = Operation::find(route, &method, intent);
        let name = operation.map_or_else(|_| "(none)".to_owned(), |found| format!("{found:?}"));
        name.chars().take_while(|letter| letter.is_alphanumeric()).collect()
    }

    fn is_open(&self) -> bool {
        self.cells[CREDENTIALS.iter().position(|name| *name == "none").unwrap()] == "+"
    }

    /// The status that is expected.
    fn expected(&self, credentials: usize, situation: &Situation) -> u16 {
        if let Some(status) = exception(self.operation, situation.name) {
            return status;
        }
        match situation.cells[credentials] {
            "421" => 421,
            status if status != "=" && !self.is_open() => status.parse().unwrap(),
            _ => match self.cells[credentials] {
                "+" => self.through,
                status => status.parse().unwrap(),
            },
        }
    }
}

/// A new operation has no row yet: its author decides who may do it.
#[test]
fn every_operation_has_a_row() {
    let variants = OPERATIONS.split_once("pub enum Operation<'a> {").unwrap().1;
    let variants = variants.split_once("\n}").unwrap().0;
    let variants = variants
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    let name = |line: &str| -> String {
        line.chars().take_while(|letter| letter.is_alphanumeric()).collect()
    };
    let variants: BTreeSet<String> = variants.map(name).collect();
    assert!(variants.len() >= 55, "only {} operations were found in the source", variants.len());
    let rows: BTreeSet<String> = rows()
        .iter()
        .filter(|row| !row.operation.starts_with('('))
        .map(|row| {
            assert_eq!(row.found(), row.operation, "{} {}", row.method, row.path);
            row.operation.to_owned()
        })
        .collect();
    assert_eq!(variants, rows, "operations and rows of authorisation.txt");
}

/// A server with a database, a container, an item, a procedure, and a user with permissions.
struct House {
    server: Armilla,
    key: &'static str,
}

impl House {
    async fn open(key: &'static str, authenticator: Authenticator) -> Self {
        let host_names = HostNames::new(Vec::new(), true);
        let settings = Settings { host_names, direct: DirectMode::SamePort, ..Settings::default() };
        let server = Armilla::guarded(
            std::sync::Arc::new(armilla_storage::MemoryStore::new()),
            Options::default(),
            |service| service,
            authenticator,
            settings,
        );
        let house = Self { server, key };
        house.put("/dbs", r#"{"id":"d"}"#, &[]).await;
        for name in ["c", "c2"] {
            let body =
                format!(r#"{{"id":"{name}","partitionKey":{{"paths":["/pk"],"version":2}}}}"#);
            house.put("/dbs/d/colls", &body, &[]).await;
        }
        house.furnish().await;
        let procedure = r#"{"id":"s","body":"function(){getContext().getResponse().setBody(1)}"}"#;
        house.put("/dbs/d/colls/c/sprocs", procedure, &[]).await;
        house.put("/dbs/d/users", r#"{"id":"mary"}"#, &[]).await;
        house
    }

    async fn put(&self, path: &str, body: &str, headers: &[(&str, &str)]) -> Answer {
        let signature = signed_with(self.key, "POST", path);
        let answer = self.server.send_as(&signature, "POST", path, headers, body).await;
        assert!(matches!(answer.status, 200 | 201), "{path}: {} {}", answer.status, answer.body);
        answer
    }

    /// The path of the container's range in Direct mode.
    async fn replica(&self) -> String {
        let path = "/dbs/d/colls/c";
        let signature = signed_with(self.key, "GET", path);
        let answer = self.server.send_as(&signature, "GET", path, &[], "").await.expect(200);
        let rid = answer.text("_rid").trim_end_matches('=').to_owned();
        format!("/apps/armilla/services/{rid}/partitions/0/replicas/1p")
    }

    /// The item, which one of the requests may have taken away.
    async fn furnish(&self) {
        let upsert = [("x-ms-documentdb-is-upsert", "true")];
        self.put("/dbs/d/colls/c/docs", r#"{"id":"i","pk":"k1"}"#, &upsert).await;
    }

    /// A token for something; `more` are further members of the permission.
    async fn token(
        &self,
        user: &str,
        name: &str,
        mode: &str,
        resource: &str,
        more: &str,
    ) -> String {
        let body = format!(
            r#"{{"id":"{name}","permissionMode":"{mode}","resource":"dbs/d/colls/{resource}"{more}}}"#
        );
        let path = format!("/dbs/d/users/{user}/permissions");
        let life = [("x-ms-documentdb-expiry-seconds", "86400")];
        encoded(&self.put(&path, &body, &life).await.text("_token"))
    }

    async fn tokens(&self, forged: String) -> Vec<Vec<String>> {
        let key = r#","resourcePartitionKey":["k1"]"#;
        let all = self.token("mary", "all", "All", "c", "").await;
        self.put("/dbs/d/users", r#"{"id":"joe"}"#, &[]).await;
        let reads = self.token("joe", "reads", "Read", "c", "").await;
        let by_key = self.token("mary", "key", "All", "c", key).await;
        let item = self.token("mary", "item", "All", "c/docs/i", key).await;
        let other = self.token("mary", "other", "All", "c2", "").await;
        let dead = self.dead().await;
        let session = vec![self.session("false").await];
        let viewer = vec![self.session("true").await];
        let (all, reads, other) = (vec![all], vec![reads], vec![other]);
        vec![all, reads, vec![by_key], vec![item], other, dead, vec![forged], session, viewer]
    }

    /// The credentials of a session of the explorer.
    async fn session(&self, read_only: &str) -> String {
        let body = format!(r#"{{"key":"{}","readOnly":{read_only}}}"#, self.key);
        let answer = self.server.send_as("", "POST", "/_armilla/session", &[], &body).await;
        let token = answer.expect(201).text("token");
        encoded(&format!("type=session&ver=1.0&sig={token}"))
    }

    /// Tokens that were good once.
    async fn dead(&self) -> Vec<String> {
        let delete = |path: &'static str| async move {
            let signature = signed_with(self.key, "DELETE", path);
            self.server.send_as(&signature, "DELETE", path, &[], "").await.expect(204);
        };
        for user in ["gone", "late", "changed", "revoked"] {
            self.put("/dbs/d/users", &format!(r#"{{"id":"{user}"}}"#), &[]).await;
        }
        let of_user = self.token("gone", "p", "All", "c", "").await;
        delete("/dbs/d/users/gone").await;
        let revoked = self.token("revoked", "p", "All", "c", "").await;
        delete("/dbs/d/users/revoked/permissions/p").await;
        // The same name again is another permission.
        self.token("revoked", "p", "All", "c", "").await;
        let changed = self.token("changed", "p", "All", "c", "").await;
        let path = "/dbs/d/users/changed/permissions/p";
        let body = r#"{"id":"p","permissionMode":"Read","resource":"dbs/d/colls/c"}"#;
        let signature = signed_with(self.key, "PUT", path);
        self.server.send_as(&signature, "PUT", path, &[], body).await.expect(200);
        let path = "/dbs/d/users/late/permissions";
        let body = r#"{"id":"p","permissionMode":"All","resource":"dbs/d/colls/c"}"#;
        let life = [("x-ms-documentdb-expiry-seconds", "10")];
        let late = encoded(&self.put(path, body, &life).await.text("_token"));
        self.server.clock.advance_seconds(11);
        vec![late, revoked, of_user, changed]
    }

    /// The credentials of a column, each in its `authorization` header.
    fn authorizations(&self, credentials: usize, row: &Row, tokens: &[Vec<String>]) -> Vec<String> {
        let signed = |key: &str| vec![signed_with(key, row.method, &row.path)];
        match CREDENTIALS[credentials] {
            "master" => signed(READ_WRITE),
            "read" => signed(READ_ONLY),
            "known" => signed(WELL_KNOWN_KEY),
            "none" => vec![String::new()],
            "unsigned" | "local" => vec![encoded(UNSIGNED)],
            // Behind the tokens of permissions.
            "session" => tokens[7].clone(),
            "viewer" => tokens[8].clone(),
            _ => tokens[credentials - 2].clone(),
        }
    }
}

/// Who lets in whoever has a key of the account's own.
fn locked() -> Authenticator {
    let mut keys = MasterKeys::new(WellKnownKey::Nowhere);
    keys.add(READ_WRITE, Access::ReadWrite).unwrap();
    keys.add(READ_ONLY, Access::ReadOnly).unwrap();
    Authenticator::new(keys, &[1; 32])
}

async fn houses() -> (House, House, Vec<Vec<String>>) {
    let locked = House::open(READ_WRITE, locked()).await;
    let open = Authenticator::new(MasterKeys::new(WellKnownKey::OnLoopback), &[2; 32])
        .accepting_development_tokens(DevelopmentTokens::Local);
    let open = House::open(WELL_KNOWN_KEY, open).await;
    let forged = open.token("mary", "all", "All", "c", "").await;
    let tokens = locked.tokens(forged).await;
    (locked, open, tokens)
}

#[tokio::test]
async fn everybody_may_do_what_the_table_says_and_nothing_else() {
    let (locked, open, tokens) = houses().await;
    let mut wrong = Vec::new();
    let mut count = 0;
    for situation in situations() {
        for row in rows() {
            for (credentials, name) in CREDENTIALS.iter().enumerate() {
                let house = if credentials < OPEN_SERVER { &locked } else { &open };
                let expected = row.expected(credentials, &situation);
                let mut headers = row.headers();
                headers.extend(situation.header);
                for authorization in house.authorizations(credentials, &row, &tokens) {
                    let answer = house.server.send_as(
                        &authorization,
                        row.method,
                        &row.path,
                        &headers,
                        row.body(),
                    );
                    let answer = answer.await;
                    count += 1;
                    if answer.status != expected {
                        wrong.push(format!(
                            "{} by {} {}: {} and not {expected}: {}",
                            row.operation, name, situation.name, answer.status, answer.body
                        ));
                    }
                }
                if row.operation == "DeletePartitionKey" {
                    house.furnish().await;
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 7000, "only {count} requests were sent");
}

/// Every operation by every credentials once more, through a node that does not own the account. Sessions are the owner's alone.
#[tokio::test]
async fn through_another_node_everybody_may_do_the_same_and_no_more() {
    const SESSIONS: [&str; 2] = ["session", "viewer"];
    /// What every node answers for itself, whoever asks.
    const OWN: [&str; 3] = ["(explorer)", "(alive)", "(status)"];
    let (house, _, tokens) = houses().await;
    let node = house.server.through_another_node(locked());
    let here = situations().remove(0);
    let (mut wrong, mut count) = (Vec::new(), 0);
    for row in rows() {
        for (credentials, name) in CREDENTIALS.iter().enumerate().take(OPEN_SERVER) {
            let is_session = !OWN.contains(&row.operation)
                && (SESSIONS.contains(name) || row.path.starts_with("/_armilla/session"));
            let expected = match row.operation {
                // It counts for itself, and knows no session of the owner's.
                "(metrics)" if is_session => 401,
                _ if is_session => 421,
                _ => row.expected(credentials, &here),
            };
            for authorization in house.authorizations(credentials, &row, &tokens) {
                let (headers, body) = (row.headers(), row.body());
                let answer =
                    node.send_as(&authorization, row.method, &row.path, &headers, body).await;
                count += 1;
                if answer.status != expected {
                    let (operation, status) = (row.operation, answer.status);
                    wrong.push(format!("{operation} by {name}: {status} and not {expected}"));
                }
            }
            if row.operation == "DeletePartitionKey" {
                house.furnish().await;
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 1000, "only {count} requests were sent");
}
