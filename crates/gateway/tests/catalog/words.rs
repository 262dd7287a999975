//! Addresses and headers that the tests of clients in other languages share.

pub(crate) const COLLS: &str = "/dbs/blog/colls";
pub(crate) const POSTS: &str = "/dbs/blog/colls/posts";
pub(crate) const DOCS: &str = "/dbs/blog/colls/posts/docs";
pub(crate) const TOKEN: &str = "x-ms-session-token";
pub(crate) const KEY: (&str, &str) = ("x-ms-documentdb-partitionkey", r#"["p"]"#);
pub(crate) const RANGE: (&str, &str) = ("x-ms-documentdb-partitionkeyrangeid", "0");
pub(crate) const FEED: (&str, &str) = ("a-im", "Incremental Feed");
