//! The hot paths, and the data that they are about: posts, with comments and likes beside them.

use super::connection::Connection;
use crate::Outcome;

/// One path: its name, and so many requests of it.
pub(super) struct HotPath {
    pub(super) name: &'static str,
    pub(super) request: fn(&Connection, usize) -> Vec<Vec<u8>>,
}

const ITEMS: &str = "/dbs/blog/colls/posts/docs";
/// Posts, of which the first few have comments and likes.
const POSTS: usize = 40;
const POSTS_LIKED: usize = 4;
const COMMENTS: usize = 12;
const LIKES: usize = 50;
const PROCEDURE: &str = "function like(id) { var all = getContext().getCollection(); \
    all.readDocument(all.getAltLink() + '/docs/' + id, function (error, post) { \
    if (error) throw error; post.likes += 1; \
    all.replaceDocument(post._self, post, function (error) { if (error) throw error; }); }); }";
const NEWEST: &str = "SELECT TOP 10 * FROM c WHERE c.type = 'post' ORDER BY c.creationDate DESC";

const UPSERT: (&str, &str) = ("x-ms-documentdb-is-upsert", "True");
const QUERY: [(&str, &str); 3] = [
    ("x-ms-documentdb-isquery", "True"),
    ("content-type", "application/query+json"),
    ("x-ms-max-item-count", "1000"),
];
const CROSS: (&str, &str) = ("x-ms-documentdb-query-enablecrosspartition", "True");
const PLAN: (&str, &str) = ("x-ms-cosmos-is-query-plan-request", "True");
const FEATURES: (&str, &str) = ("x-ms-cosmos-supported-query-features", "OrderBy, Top");
const BATCH: (&str, &str) = ("x-ms-cosmos-is-batch-request", "True");
const ATOMIC: (&str, &str) = ("x-ms-cosmos-batch-atomic", "True");

/// The paths that are watched.
pub(super) fn hot_paths() -> Vec<HotPath> {
    fn path(name: &'static str, request: fn(&Connection, usize) -> Vec<Vec<u8>>) -> HotPath {
        HotPath { name, request }
    }
    vec![
        path("read an item", |connection, count| {
            each(count, |number| {
                let id = format!("p{}", number % POSTS);
                connection.request("GET", &format!("{ITEMS}/{id}"), &[key(&key_of(&id))], "")
            })
        }),
        path("query comments of a post", |connection, count| of_post(connection, count, "comment")),
        path("query likes of a post", |connection, count| of_post(connection, count, "like")),
        path("count comments of a post", |connection, count| {
            let sql = "SELECT VALUE COUNT(1) FROM c WHERE c.postId = @p AND c.type = 'comment'";
            each(count, |number| query_of_post(connection, number, sql))
        }),
        path("query the newest of all", |connection, count| {
            let headers: Vec<_> = QUERY.into_iter().chain([CROSS]).collect();
            each(count, |_| connection.request("POST", ITEMS, &headers, &query_body(NEWEST, "p0")))
        }),
        path("plan a query", |connection, count| {
            let headers: Vec<_> = QUERY.into_iter().chain([CROSS, PLAN, FEATURES]).collect();
            each(count, |_| connection.request("POST", ITEMS, &headers, &query_body(NEWEST, "p0")))
        }),
        path("upsert an item", |connection, count| {
            each(count, |number| {
                let id = format!("p{}", POSTS_LIKED + number % (POSTS - POSTS_LIKED));
                let key_text = key_of(&id);
                connection.request("POST", ITEMS, &[key(&key_text), UPSERT], &post(&id))
            })
        }),
        path("create an item", |connection, count| {
            each(count, |number| {
                let body = beside(&format!("new-{number}"), "q", "comment");
                connection.request("POST", ITEMS, &[key("[\"q\"]")], &body)
            })
        }),
        path("patch an item", |connection, count| {
            let body = r#"{"operations":[{"op":"incr","path":"/likes","value":1}]}"#;
            let item = format!("{ITEMS}/p9");
            each(count, |_| connection.request("PATCH", &item, &[key("[\"p9\"]")], body))
        }),
        path("write a batch of two", |connection, count| {
            each(count, |number| {
                let ids = [format!("one-{number}"), format!("two-{number}")];
                batch(connection, "r", &ids.map(|id| beside(&id, "r", "comment")))
            })
        }),
        path("run a procedure", |connection, count| {
            let procedure = "/dbs/blog/colls/posts/sprocs/like";
            each(count, |_| connection.request("POST", procedure, &[key("[\"p8\"]")], "[\"p8\"]"))
        }),
    ]
}

fn each(count: usize, make: impl Fn(usize) -> Vec<u8>) -> Vec<Vec<u8>> {
    (0..count).map(make).collect()
}

fn key(text: &str) -> (&'static str, &str) {
    ("x-ms-documentdb-partitionkey", text)
}

fn key_of(id: &str) -> String {
    format!("[\"{id}\"]")
}

fn post(id: &str) -> String {
    format!(
        r#"{{"id":"{id}","postId":"{id}","type":"post","likes":0,"title":"A title","content":"A few words of a post that nobody wrote","creationDate":"2026-11-{id:>4}"}}"#
    )
}

fn beside(id: &str, post: &str, kind: &str) -> String {
    format!(
        r#"{{"id":"{id}","postId":"{post}","type":"{kind}","userId":"user-17","content":"A comment of a few words","creationDate":"2026-11-15"}}"#
    )
}

fn query_body(sql: &str, post: &str) -> String {
    format!(r#"{{"query":"{sql}","parameters":[{{"name":"@p","value":"{post}"}}]}}"#)
}

fn query_of_post(connection: &Connection, number: usize, sql: &str) -> Vec<u8> {
    let id = format!("p{}", number % POSTS_LIKED);
    let key_text = key_of(&id);
    let headers: Vec<_> = QUERY.into_iter().chain([key(&key_text)]).collect();
    connection.request("POST", ITEMS, &headers, &query_body(sql, &id))
}

fn of_post(connection: &Connection, count: usize, kind: &str) -> Vec<Vec<u8>> {
    let sql = format!("SELECT * FROM c WHERE c.postId = @p AND c.type = '{kind}'");
    each(count, |number| query_of_post(connection, number, &sql))
}

fn batch(connection: &Connection, post: &str, bodies: &[String]) -> Vec<u8> {
    let operation =
        |body: &String| format!(r#"{{"operationType":"Create","resourceBody":{body}}}"#);
    let operations: Vec<String> = bodies.iter().map(operation).collect();
    let body = format!("[{}]", operations.join(","));
    let key_text = key_of(post);
    connection.request("POST", ITEMS, &[key(&key_text), BATCH, ATOMIC], &body)
}

/// A container with posts, comments and likes of some, and a procedure.
pub(super) fn fill(connection: &mut Connection) -> Outcome<()> {
    let container =
        r#"{"id":"posts","partitionKey":{"paths":["/postId"],"kind":"Hash","version":2}}"#;
    let procedure = format!(r#"{{"id":"like","body":"{PROCEDURE}"}}"#);
    let mut requests = vec![
        connection.request("POST", "/dbs", &[], r#"{"id":"blog"}"#),
        connection.request("POST", "/dbs/blog/colls", &[], container),
        connection.request("POST", "/dbs/blog/colls/posts/sprocs", &[], &procedure),
    ];
    for number in 0..POSTS {
        let id = format!("p{number}");
        requests.push(connection.request("POST", ITEMS, &[key(&key_of(&id))], &post(&id)));
    }
    for number in 0..POSTS_LIKED {
        let id = format!("p{number}");
        let of_kind = |kind: &'static str, count: usize| {
            let id = id.clone();
            (0..count).map(move |number| beside(&format!("{kind}-{number}"), &id, kind))
        };
        let all: Vec<String> = of_kind("comment", COMMENTS).chain(of_kind("like", LIKES)).collect();
        requests.push(batch(connection, &id, &all));
    }
    requests.iter().try_for_each(|request| connection.ask(request))
}
