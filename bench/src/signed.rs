//! Whole signed requests of Cosmos DB's REST protocol as bytes, with the headers that the SDKs send.

use std::fmt::Write as _;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::json;
use sha2::Sha256;

use crate::Outcome;

/// The published key of local emulators; on loopback the server accepts it by default.
const WELL_KNOWN_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
const VERSION: &str = "2018-12-31";
/// Rows of a page. Every query of a single partition fits.
const PAGE_ROWS: u64 = 1000;
/// What the client of a cross-partition query can merge.
const FEATURES: &str = "Aggregate,CompositeAggregate,Distinct,GroupBy,MultipleAggregates,MultipleOrderBy,NonValueAggregate,OffsetAndLimit,OrderBy,Top";

/// Which part of a container a request is about.
#[derive(Clone, Copy)]
pub(crate) enum Scope<'a> {
    None,
    Key(&'a str),
    Across,
    Range(&'a str),
}

/// A request before it is signed. The path is the link, with the kind behind it where that is asked for.
pub(crate) struct Unsigned<'a> {
    pub(crate) verb: &'static str,
    pub(crate) kind: &'static str,
    /// What is signed: the resource, or the parent of a new one.
    pub(crate) link: &'a str,
    /// Whether the path goes on with the kind: for lists, queries and new resources.
    pub(crate) is_list: bool,
    pub(crate) scope: Scope<'a>,
    /// Further headers, each with its end of line.
    pub(crate) headers: &'a str,
    pub(crate) body: &'a [u8],
}

/// A query with its parameters.
pub(crate) struct Question<'a> {
    pub(crate) text: &'a str,
    pub(crate) parameters: &'a [(&'a str, &'a str)],
}

/// Signs requests for one database of one server.
pub(crate) struct Signer {
    address: String,
    database: String,
    key: Hmac<Sha256>,
}

impl Signer {
    /// For the server at `host:port`.
    pub(crate) fn new(address: &str, database: &str) -> Outcome<Self> {
        let key = Hmac::new_from_slice(&STANDARD.decode(WELL_KNOWN_KEY)?)?;
        Ok(Self { address: address.to_owned(), database: database.to_owned(), key })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn database(&self) -> String {
        format!("dbs/{}", self.database)
    }

    pub(crate) fn container(&self, name: &str) -> String {
        format!("dbs/{}/colls/{name}", self.database)
    }

    /// The request as it goes over the wire.
    pub(crate) fn sign(&self, unsigned: &Unsigned<'_>) -> Vec<u8> {
        let Unsigned { verb, kind, link, is_list, scope, headers, body } = unsigned;
        let date = now();
        let mut key = self.key.clone();
        let lower = (verb.to_lowercase(), date.to_lowercase());
        key.update(format!("{}\n{kind}\n{link}\n{}\n\n", lower.0, lower.1).as_bytes());
        let signature = STANDARD.encode(key.finalize().into_bytes());
        let authorization = escaped(&format!("type=master&ver=1.0&sig={signature}"));
        let slash = if link.is_empty() { "" } else { "/" };
        let path = if *is_list { format!("{slash}{link}/{kind}") } else { format!("/{link}") };
        let mut head = format!(
            "{verb} {path} HTTP/1.1\r\nHost: {}\r\nx-ms-date: {date}\r\nx-ms-version: {VERSION}\r\n\
             authorization: {authorization}\r\naccept: application/json\r\ncache-control: no-cache\r\n\
             user-agent: armilla-bench\r\n",
            self.address
        );
        head.push_str(&match scope {
            Scope::None => String::new(),
            Scope::Key(key) => format!("x-ms-documentdb-partitionkey: [\"{key}\"]\r\n"),
            Scope::Across => "x-ms-documentdb-query-enablecrosspartition: True\r\n".to_owned(),
            Scope::Range(range) => format!(
                "x-ms-documentdb-query-enablecrosspartition: True\r\nx-ms-documentdb-partitionkeyrangeid: {range}\r\n"
            ),
        });
        head.push_str(headers);
        if *verb == "POST" {
            if !headers.contains("content-type") {
                head.push_str("content-type: application/json\r\n");
            }
            let _ = write!(head, "content-length: {}\r\n", body.len());
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }

    /// A point read.
    pub(crate) fn read(&self, container: &str, id: &str) -> Vec<u8> {
        let link = format!("{}/docs/{id}", self.container(container));
        let (kind, scope) = ("docs", Scope::Key(id));
        self.sign(&Unsigned {
            verb: "GET",
            kind,
            link: &link,
            is_list: false,
            scope,
            headers: "",
            body: b"",
        })
    }

    fn post(&self, container: &str, scope: Scope<'_>, headers: &str, body: &[u8]) -> Vec<u8> {
        let link = &self.container(container);
        self.sign(&Unsigned {
            verb: "POST",
            kind: "docs",
            link,
            is_list: true,
            scope,
            headers,
            body,
        })
    }

    /// A new item.
    pub(crate) fn create(&self, container: &str, key: &str, body: &str) -> Vec<u8> {
        self.post(container, Scope::Key(key), "", body.as_bytes())
    }

    /// A new item, or a new state of an old one.
    pub(crate) fn upsert(&self, container: &str, key: &str, body: &str) -> Vec<u8> {
        let headers = "x-ms-documentdb-is-upsert: True\r\n";
        self.post(container, Scope::Key(key), headers, body.as_bytes())
    }

    /// Many operations on one key, all or none of them. What was written is not wanted back, as SDKs can say too.
    pub(crate) fn batch(&self, container: &str, key: &str, operations: &str) -> Vec<u8> {
        let headers = "x-ms-cosmos-is-batch-request: True\r\nx-ms-cosmos-batch-atomic: True\r\nx-ms-cosmos-batch-ordered: True\r\nprefer: return=minimal\r\n";
        self.post(container, Scope::Key(key), headers, operations.as_bytes())
    }

    /// A page of a query.
    pub(crate) fn query(
        &self,
        container: &str,
        scope: Scope<'_>,
        question: &Question<'_>,
        continuation: Option<&str>,
    ) -> Vec<u8> {
        let parameters = question.parameters.iter();
        let parameters: Vec<_> =
            parameters.map(|(name, value)| json!({"name": name, "value": value})).collect();
        let body = json!({"query": question.text, "parameters": parameters}).to_string();
        let mut headers = format!(
            "content-type: application/query+json\r\nx-ms-documentdb-isquery: True\r\nx-ms-max-item-count: {PAGE_ROWS}\r\n"
        );
        if let Some(token) = continuation {
            let _ = write!(headers, "x-ms-continuation: {token}\r\n");
        }
        self.post(container, scope, &headers, body.as_bytes())
    }

    /// The plan of a cross-partition query.
    pub(crate) fn plan(&self, container: &str, text: &str) -> Vec<u8> {
        let body = json!({"query": text, "parameters": []}).to_string();
        let headers = format!(
            "content-type: application/query+json\r\nx-ms-documentdb-isquery: True\r\n\
             x-ms-cosmos-is-query-plan-request: True\r\nx-ms-cosmos-supported-query-features: {FEATURES}\r\n"
        );
        self.post(container, Scope::Across, &headers, body.as_bytes())
    }

    /// A call of a stored procedure.
    pub(crate) fn execute(
        &self,
        container: &str,
        procedure: &str,
        key: &str,
        arguments: &str,
    ) -> Vec<u8> {
        let link = &format!("{}/sprocs/{procedure}", self.container(container));
        let (scope, body) = (Scope::Key(key), arguments.as_bytes());
        self.sign(&Unsigned {
            verb: "POST",
            kind: "sprocs",
            link,
            is_list: false,
            scope,
            headers: "",
            body,
        })
    }
}

#[expect(clippy::disallowed_methods, reason = "the server compares it with the real time")]
fn now() -> String {
    httpdate::fmt_http_date(SystemTime::now())
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}
