//! Users.

use super::{etag_member, ts_member};
use crate::Reply;
use armilla_engine::catalog::Database;
use armilla_engine::users::User;
use armilla_model::rid;
use armilla_model::value::{Object, Value};

/// The resource.
pub(crate) fn shape(database: &Database, user: &User) -> Object {
    Object::of([
        ("id", Value::String(user.name.clone())),
        ("_rid", rid_text(database, user).into()),
        ("_self", self_link(database, user).into()),
        ("_etag", etag_member(user.etag)),
        ("_permissions", "permissions/".into()),
        ("_ts", ts_member(user.ts)),
    ])
}

/// The rid as text.
pub(crate) fn rid_text(database: &Database, user: &User) -> String {
    rid::encode(&rid::user(database.number, user.number))
}

/// `dbs/…/users/…/`.
pub(crate) fn self_link(database: &Database, user: &User) -> String {
    format!("{}users/{}/", database.self_link(), rid_text(database, user))
}

/// Says that the answer is about a permission of this user.
pub(crate) fn owned_by(reply: Reply, database: &Database, user: &User) -> Reply {
    let path = format!("dbs/{}/users/{}", database.name, user.name);
    reply.owner(path, rid_text(database, user))
}
