//! A server over an account in memory, and a client that allocates nothing while it asks.

use armilla_engine::{Account, Options};
use armilla_gateway::activity::ActivityIds;
use armilla_gateway::auth::{Authenticator, MasterKeys, Signer, WELL_KNOWN_KEY, WellKnownKey};
use armilla_gateway::ops::EngineService;
use armilla_gateway::serve::{Protocols, runtime};
use armilla_gateway::{Gateway, Settings};
use armilla_model::clock::ManualClock;
use armilla_storage::MemoryStore;
use http::Method;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

/// The server's clock and the client's date agree.
const NOW: u64 = 1_794_770_659;
const DATE: &str = "Sun, 15 Nov 2026 19:24:19 GMT";
const ITEMS: &str = "/dbs/blog/colls/posts/docs";
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Posts in the container, and comments of the first one.
const POSTS: usize = 50;
const COMMENTS: usize = 20;
const PROCEDURE: &str = "function like(id) { var all = getContext().getCollection(); \
    all.readDocument(all.getAltLink() + '/docs/' + id, function (error, post) { \
    if (error) throw error; post.likes += 1; \
    all.replaceDocument(post._self, post, function (error) { if (error) throw error; }); }); }";

/// A server on a thread of its own.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

impl Server {
    pub(crate) fn start() -> Self {
        let clock = Arc::new(ManualClock::at_seconds(NOW));
        let options = Options { clock: clock.clone(), background: false, ..Options::default() };
        let account = Account::open(Arc::new(MemoryStore::new()), options).unwrap();
        let keys = MasterKeys::new(WellKnownKey::OnLoopback);
        let authenticator = Arc::new(Authenticator::new(keys, &[1; 32]));
        let gateway = Gateway {
            service: EngineService::new(account, authenticator.clone()),
            settings: Settings::default(),
            authenticator,
            clock,
            activity_ids: ActivityIds::new(1),
        };
        let runtime = runtime(Some(1)).unwrap();
        let any_port = ["127.0.0.1:0".parse().unwrap()];
        let server = {
            let _inside = runtime.enter();
            armilla_gateway::Server::bind(&any_port, Protocols::Plain, gateway).unwrap()
        };
        let address = server.local_addresses().unwrap()[0];
        runtime.spawn(server.run(std::future::pending()));
        Self { address, _runtime: runtime }
    }
}

/// One connection.
pub(crate) struct Client {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, answer: vec![0; ANSWER_BYTES_MAX] }
    }

    /// Sends a request and reads its answer, which must be a success.
    pub(crate) fn ask(&mut self, request: &[u8]) {
        self.stream.write_all(request).unwrap();
        let mut read = 0;
        loop {
            let more = self.stream.read(&mut self.answer[read..]).unwrap();
            assert!(more > 0, "the connection was closed");
            read += more;
            let answer = &self.answer[..read];
            if is_whole(answer) {
                assert_eq!(answer[9], b'2', "{}", String::from_utf8_lossy(answer));
                return;
            }
        }
    }
}

/// Whether the head and as much body as it says are there.
fn is_whole(answer: &[u8]) -> bool {
    let find = |text: &[u8]| answer.windows(text.len()).position(|found| found == text);
    let Some(head) = find(b"\r\n\r\n") else { return false };
    let length = find(b"content-length: ").map_or(0, |at| {
        let digits = answer[at + 16..].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |number, digit| number * 10 + usize::from(digit - b'0'))
    });
    answer.len() >= head + 4 + length
}

/// A request as it goes over the wire.
fn request(method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let signer = Signer::new(WELL_KNOWN_KEY).unwrap();
    let authorization = signer.authorization(&method, path, DATE).unwrap();
    let length = body.len().to_string();
    let common = [
        ("host", "localhost"),
        ("x-ms-date", DATE),
        ("x-ms-version", "2020-07-15"),
        ("user-agent", "allocations"),
        ("authorization", authorization.as_str()),
        ("content-length", length.as_str()),
    ];
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    for (name, value) in common.iter().chain(headers) {
        text.extend([*name, ": ", *value, "\r\n"]);
    }
    (text + "\r\n" + body).into_bytes()
}

fn post(number: usize) -> String {
    format!(
        r#"{{"id":"p{number}","postId":"p{number}","type":"post","likes":0,"title":"A title","creationDate":"2026-11-{number:04}"}}"#
    )
}

fn comment(id: &str) -> String {
    format!(
        r#"{{"id":"{id}","postId":"p0","type":"comment","content":"A comment of a few words"}}"#
    )
}

/// A container with posts, the comments of one of them, and a procedure.
pub(crate) fn fill(client: &mut Client) {
    let mut make = |path: &str, headers: &[(&str, &str)], body: &str| {
        client.ask(&request(Method::POST, path, headers, body));
    };
    make("/dbs", &[], r#"{"id":"blog"}"#);
    let container =
        r#"{"id":"posts","partitionKey":{"paths":["/postId"],"kind":"Hash","version":2}}"#;
    make("/dbs/blog/colls", &[], container);
    let procedure = format!(r#"{{"id":"like","body":"{PROCEDURE}"}}"#);
    make("/dbs/blog/colls/posts/sprocs", &[], &procedure);
    for number in 0..POSTS {
        let key = format!(r#"["p{number}"]"#);
        make(ITEMS, &[("x-ms-documentdb-partitionkey", &key)], &post(number));
    }
    for number in 0..COMMENTS {
        make(ITEMS, &[FIRST], &comment(&format!("comment-{number}")));
    }
}

const FIRST: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["p0"]"#);
const UPSERT: (&str, &str) = ("x-ms-documentdb-is-upsert", "True");
const QUERY: (&str, &str) = ("x-ms-documentdb-isquery", "True");
const QUERY_TYPE: (&str, &str) = ("content-type", "application/query+json");
const CROSS: (&str, &str) = ("x-ms-documentdb-query-enablecrosspartition", "True");
const PLAN: (&str, &str) = ("x-ms-cosmos-is-query-plan-request", "True");
const FEATURES: (&str, &str) = ("x-ms-cosmos-supported-query-features", "OrderBy, Top");
const BATCH: (&str, &str) = ("x-ms-cosmos-is-batch-request", "True");
const ATOMIC: (&str, &str) = ("x-ms-cosmos-batch-atomic", "True");

/// The paths that are watched, each with so many requests.
pub(crate) fn requests(count: usize) -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let item = format!("{ITEMS}/p0");
    let same = |request: Vec<u8>| vec![request; count];
    let each = |make: &dyn Fn(usize) -> Vec<u8>| (0..count).map(make).collect::<Vec<_>>();
    let query = |headers: &[(&str, &str)], sql: &str| {
        let headers: Vec<_> = [QUERY, QUERY_TYPE].iter().chain(headers).copied().collect();
        let body = format!(r#"{{"query":"{sql}","parameters":[{{"name":"@p","value":"p0"}}]}}"#);
        same(request(Method::POST, ITEMS, &headers, &body))
    };
    let top = "SELECT TOP 10 * FROM c WHERE c.type = 'post' ORDER BY c.creationDate DESC";
    let patch = r#"{"operations":[{"op":"incr","path":"/likes","value":1}]}"#;
    vec![
        ("read an item", same(request(Method::GET, &item, &[FIRST], ""))),
        ("query the items of a key", {
            query(&[FIRST], "SELECT * FROM c WHERE c.postId = @p AND c.type = 'comment'")
        }),
        ("count the items of a key", {
            query(&[FIRST], "SELECT VALUE COUNT(1) FROM c WHERE c.type = 'comment'")
        }),
        ("query the newest of all", query(&[CROSS], top)),
        ("plan a query", query(&[CROSS, PLAN, FEATURES], top)),
        ("replace an item", same(request(Method::PUT, &item, &[FIRST], &post(0)))),
        ("upsert an item", same(request(Method::POST, ITEMS, &[FIRST, UPSERT], &post(0)))),
        ("patch an item", same(request(Method::PATCH, &item, &[FIRST], patch))),
        ("run a procedure", {
            same(request(Method::POST, "/dbs/blog/colls/posts/sprocs/like", &[FIRST], r#"["p0"]"#))
        }),
        ("create an item", {
            each(&|number| {
                let body = comment(&format!("new-{number}"));
                request(Method::POST, ITEMS, &[FIRST], &body)
            })
        }),
        ("write a batch of two", {
            each(&|number| {
                let operation = |which: &str| {
                    let body = comment(&format!("{which}-{number}"));
                    format!(r#"{{"operationType":"Create","resourceBody":{body}}}"#)
                };
                let body = format!("[{},{}]", operation("one"), operation("two"));
                request(Method::POST, ITEMS, &[FIRST, BATCH, ATOMIC], &body)
            })
        }),
    ]
}
