//! The same table in Direct mode, for the operations that go that way.

use super::{CREDENTIALS, OPEN_SERVER, Row, STALE, Situation, houses, locked, rows};
use crate::direct::client::{Client, Frame, MASTER};
use crate::support::DATE;
use armilla_gateway::routes::Segments;

/// Credentials that are keys of the account come first.
const KEYS: usize = 2;

/// Resource and operation of a frame; nothing for what goes over HTTP alone.
fn numbers_of(operation: &str) -> Option<(&'static str, &'static str)> {
    Some(match operation {
        "ListDatabases" => ("Database", "ReadFeed"),
        "QueryDatabases" => ("Database", "Query"),
        "ReadDatabase" => ("Database", "Read"),
        "ListContainers" => ("Collection", "ReadFeed"),
        "QueryContainers" => ("Collection", "Query"),
        "ListItems" | "ReadChangeFeed" => ("Document", "ReadFeed"),
        "QueryItems" => ("Document", "Query"),
        "ExecuteBatch" => ("Document", "Batch"),
        "CreateItem" => ("Document", "Create"),
        "UpsertItem" => ("Document", "Upsert"),
        "ReadItem" => ("Document", "Read"),
        "ReplaceItem" => ("Document", "Replace"),
        "PatchItem" => ("Document", "Patch"),
        "DeleteItem" => ("Document", "Delete"),
        "ExecuteProcedure" => ("StoredProcedure", "ExecuteJavaScript"),
        "ListConflicts" => ("Conflict", "ReadFeed"),
        "QueryConflicts" => ("Conflict", "Query"),
        "ReadConflict" => ("Conflict", "Read"),
        "DeleteConflict" => ("Conflict", "Delete"),
        "ListUsers" => ("User", "ReadFeed"),
        "QueryUsers" => ("User", "Query"),
        "ReadUser" => ("User", "Read"),
        "ReplaceUser" => ("User", "Replace"),
        "ListPermissions" => ("Permission", "ReadFeed"),
        "QueryPermissions" => ("Permission", "Query"),
        "ReadPermission" => ("Permission", "Read"),
        "ReplacePermission" => ("Permission", "Replace"),
        "DeletePermission" => ("Permission", "Delete"),
        _ => return None,
    })
}

/// The frame that a row of the table stands for; nothing for what goes over HTTP alone.
fn frame_of(row: &Row, replica: &str) -> Option<Frame> {
    let (resource, operation) = numbers_of(row.operation)?;
    let is_item = matches!(resource, "Document" | "StoredProcedure" | "Conflict");
    let mut frame = Frame::new(resource, operation, if is_item { replica } else { MASTER });
    let segments = Segments::parse(&row.path).unwrap();
    for pair in segments.texts().chunks(2) {
        let name = match pair[0] {
            "dbs" => "DatabaseName",
            "colls" => "CollectionName",
            "docs" => "DocumentName",
            "sprocs" => "StoredProcedureName",
            "conflicts" => "ConflictName",
            "users" => "UserName",
            "permissions" => "PermissionName",
            _ => continue,
        };
        if !pair[1].is_empty() {
            frame = frame.with(name, pair[1]);
        }
    }
    for word in &row.words {
        frame = match *word {
            "k1" => frame.with("PartitionKey", "[\"k1\"]"),
            "k2" => frame.with("PartitionKey", "[\"k2\"]"),
            "batch" => frame.with("IsBatchAtomic", 1),
            "feed" => frame.with("A_IM", "Incremental Feed"),
            "stale" => frame.with("Match", STALE),
            _ => frame,
        };
    }
    Some(frame.payload(row.body()).with("Date", DATE))
}

/// What goes in Direct mode is allowed to the same people.
#[tokio::test]
async fn direct_mode_allows_what_http_allows() {
    let (locked, open, tokens) = houses().await;
    let mut wrong = Vec::new();
    let mut count = 0;
    for (name, is_foreign) in [("localhost", false), ("db.example", true)] {
        let mut clients = [
            Client::connect_as(&locked.server, name).await,
            Client::connect_as(&open.server, name).await,
        ];
        let paths = [locked.replica().await, open.replica().await];
        for row in rows() {
            for (credentials, column) in CREDENTIALS.iter().enumerate() {
                let at = usize::from(credentials >= OPEN_SERVER);
                let house = [&locked, &open][at];
                let Some(frame) = frame_of(&row, &paths[at]) else { continue };
                let here =
                    Situation { name: "here", header: None, cells: vec!["="; CREDENTIALS.len()] };
                let expected = if is_foreign { 421 } else { row.expected(credentials, &here) };
                for authorization in house.authorizations(credentials, &row, &tokens) {
                    let frame = match authorization.is_empty() {
                        true => frame.clone(),
                        false => frame.clone().with("AuthorizationToken", &*authorization),
                    };
                    let answer = clients[at].call(&frame).await;
                    count += 1;
                    if answer.status != u32::from(expected) {
                        wrong.push(format!(
                            "{} {} by {column}: {} and not {expected}: {}",
                            row.operation,
                            row.path,
                            answer.status,
                            answer.text()
                        ));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 1000, "only {count} requests were sent");
}

/// At a node that does not own the account, whoever may come in is sent to ask for addresses again (410/0), whatever they want; nobody
/// else learns even that, and nothing is done.
#[tokio::test]
async fn a_node_that_does_not_own_the_account_sends_everybody_to_the_owner() {
    let (house, _, tokens) = houses().await;
    let node = house.server.through_another_node(locked());
    let mut client = Client::connect_as(&node, "localhost").await;
    let path = house.replica().await;
    let here = Situation { name: "here", header: None, cells: vec!["="; CREDENTIALS.len()] };
    let (mut wrong, mut count) = (Vec::new(), 0);
    for row in rows() {
        for (credentials, column) in CREDENTIALS.iter().enumerate().take(OPEN_SERVER) {
            let Some(frame) = frame_of(&row, &path) else { continue };
            let is_key = credentials < KEYS;
            let is_stranger = row.expected(credentials, &here) == 401;
            for authorization in house.authorizations(credentials, &row, &tokens) {
                let frame = match authorization.is_empty() {
                    true => frame.clone(),
                    false => frame.clone().with("AuthorizationToken", &*authorization),
                };
                let answer = client.call(&frame).await;
                count += 1;
                let told = (answer.status, answer.number("SubStatus").unwrap_or(0));
                // Whether a permission still stands, only the owner knows; that a token has expired, everybody.
                let is_right = match told {
                    (410, 0) => !is_stranger,
                    (401, _) => !is_key,
                    (403, _) => *column == "dead",
                    _ => false,
                };
                if !is_right {
                    wrong.push(format!(
                        "{} by {column}: {told:?}: {}",
                        row.operation,
                        answer.text()
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 500, "only {count} requests were sent");
}
