//! Databases.

use super::{etag_member, ts_member};
use crate::Reply;
use armilla_engine::catalog::Database;
use armilla_model::value::{Object, Value};

/// The resource.
pub(crate) fn shape(database: &Database) -> Object {
    Object::of([
        ("id", Value::String(database.name.clone())),
        ("_rid", database.rid_text().into()),
        ("_self", database.self_link().into()),
        ("_etag", etag_member(database.etag)),
        ("_colls", "colls/".into()),
        ("_users", "users/".into()),
        ("_ts", ts_member(database.ts)),
    ])
}

/// Says that the answer is about something in this database.
pub(crate) fn owned_by(reply: Reply, database: &Database) -> Reply {
    reply.owner(format!("dbs/{}", database.name), database.rid_text())
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::etag::ETag;
    use std::collections::{BTreeMap, HashMap};

    #[test]
    fn members_stand_in_the_order_of_the_service() {
        let database = Database {
            number: 0xb901_0000,
            name: "blog".into(),
            etag: ETag([0; 16]),
            ts: 1_763_234_659,
            containers: HashMap::new(),
            users: BTreeMap::new(),
            encryption_keys: BTreeMap::new(),
        };
        assert_eq!(
            Value::object(shape(&database)).to_json(),
            r#"{"id":"blog","_rid":"uQEAAA==","_self":"dbs/uQEAAA==/","_etag":"\"00000000-0000-0000-0000-000000000000\"","_colls":"colls/","_users":"users/","_ts":1763234659}"#
        );
    }
}
