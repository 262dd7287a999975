//! A node that has lost its lease: what it read may be old, what it has written is in the ledger.

use crate::support::{Answer, Armilla, QUERY};

const POSTS: &str = "/dbs/blog/colls/posts";
const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", "[\"p\"]");
const BATCH: (&str, &str) = ("x-ms-cosmos-is-batch-request", "True");
const ATOMIC: (&str, &str) = ("x-ms-cosmos-batch-atomic", "True");
const PERMISSIONS: &str = "/dbs/blog/users/mary/permissions";

/// A procedure that asks for an item, and makes one if it is told to.
const PROCEDURE: &str = r#"{"id":"look","body":"function (id) {
    const here = getContext().getCollection();
    here.readDocument(here.getAltLink() + '/docs/a', (error, item) => getContext().getResponse().setBody(item.n));
    if (id) here.createDocument(here.getSelfLink(), {id, postId: 'p'});
}"}"#;

async fn batch(node: &Armilla, operations: &str) -> Answer {
    node.send("POST", &format!("{POSTS}/docs"), &[BATCH, ATOMIC, KEY], operations).await
}

async fn procedure(node: &Armilla, arguments: &str) -> Answer {
    node.send("POST", &format!("{POSTS}/sprocs/look"), &[KEY], arguments).await
}

async fn delete_all(node: &Armilla, key: &str) -> Answer {
    let key = ("x-ms-documentdb-partitionkey", key);
    node.send("POST", &format!("{POSTS}/operations/partitionkeydelete"), &[key], "").await
}

#[tokio::test]
async fn what_a_node_without_its_lease_only_read_is_not_told() {
    let owner = Armilla::with_posts().await;
    let docs = format!("{POSTS}/docs");
    owner.send("POST", &docs, &[KEY], r#"{"id":"a","postId":"p","n":1}"#).await.expect(201);
    owner.post(&format!("{POSTS}/sprocs"), &PROCEDURE.replace('\n', " ")).await.expect(201);
    owner.post("/dbs/blog/users", r#"{"id":"mary"}"#).await.expect(201);
    let permission =
        format!(r#"{{"id":"p","permissionMode":"Read","resource":"{}"}}"#, &POSTS[1..]);
    owner.post(PERMISSIONS, &permission).await.expect(201);
    let cut_off = owner.without_lease();

    let reads = r#"[{"operationType":"Read","id":"a"}]"#;
    for (node, expected) in [(&owner, 200), (&cut_off, 429)] {
        batch(node, reads).await.expect(expected);
        procedure(node, "[]").await.expect(expected);
        delete_all(node, "[\"nobody\"]").await.expect(expected);
        node.get(PERMISSIONS).await.expect(expected);
        node.get(&format!("{PERMISSIONS}/p")).await.expect(expected);
        let query = r#"{"query":"SELECT * FROM c","parameters":[]}"#;
        node.send("POST", PERMISSIONS, &[QUERY], query).await.expect(expected);
    }

    let writes = r#"[{"operationType":"Read","id":"a"},
        {"operationType":"Create","resourceBody":{"id":"b","postId":"p"}}]"#;
    batch(&cut_off, writes).await.expect(200);
    procedure(&cut_off, r#"["c"]"#).await.expect(200);
    for id in ["b", "c"] {
        owner.send("GET", &format!("{docs}/{id}"), &[KEY], "").await.expect(200);
    }
    delete_all(&cut_off, "[\"p\"]").await.expect(200);
    // Several transactions, and the catalog: nobody says which of it is in the ledger.
    let range = ("x-ms-documentdb-partitionkeyrangeid", "0");
    let bulk = r#"[{"operationType":"Read","id":"a","partitionKey":"[\"p\"]"}]"#;
    cut_off.send("POST", &docs, &[BATCH, range], bulk).await.expect(408);
    cut_off.post("/dbs", r#"{"id":"other"}"#).await.expect(408);
}
