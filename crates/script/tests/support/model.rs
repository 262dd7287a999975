//! A container in memory, and a transaction over one of its logical partitions: the smallest host
//! that does what the protocol asks. Queries go through a toy evaluator that knows just the statements the
//! cases use; the real query engine runs the same cases in its own crate.

use armilla_script::host::{
    CollectionLinks, Host, HostError, HostErrorKind, IndexDirective, ItemLink, Page, ReadOutcome,
    Upserted,
};
use serde_json::{Map, Value, json};

use super::query;

pub(crate) const SELF_LINK: &str = "dbs/AAAAAA==/colls/AAAAAAAAAAA=/";
pub(crate) const ALT_LINK: &str = "dbs/db/colls/c";

/// A container: items in insertion order.
#[derive(Clone, Default)]
pub(crate) struct Container {
    pub(crate) key_path: String,
    pub(crate) items: Vec<Value>,
    counter: u64,
}

impl Container {
    pub(crate) fn new(key_path: &str) -> Self {
        Self { key_path: key_path.trim_start_matches('/').to_owned(), ..Self::default() }
    }

    #[allow(dead_code, reason = "not every test file fills its container")]
    pub(crate) fn insert(&mut self, item: &Value) {
        let stored = self.stored(item, None);
        self.items.push(stored);
    }

    fn stored(&mut self, item: &Value, old: Option<&Value>) -> Value {
        self.counter += 1;
        let mut item = item.clone();
        let rid = match old {
            Some(old) => old["_rid"].as_str().unwrap().to_owned(),
            None => format!("rid{:08}", self.counter),
        };
        item["_self"] = json!(format!("{SELF_LINK}docs/{rid}/"));
        item["_rid"] = json!(rid);
        item["_etag"] = json!(format!("\"{:08x}\"", self.counter));
        item["_ts"] = json!(1_700_000_000);
        item
    }
}

/// An open transaction. `container` is a copy; the test keeps it or drops it.
pub(crate) struct Transaction {
    pub(crate) container: Container,
    pub(crate) key: Option<Value>,
    at_start: Vec<Value>,
    guids: u64,
}

impl Transaction {
    pub(crate) fn begin(container: &Container, key: Option<Value>) -> Self {
        let at_start = container.items.iter().map(|item| item["_rid"].clone()).collect();
        Self { container: container.clone(), key, at_start, guids: 0 }
    }

    fn is_mine(&self, item: &Value) -> bool {
        item.get(&self.container.key_path) == self.key.as_ref()
    }

    fn mine(&self) -> impl Iterator<Item = &Value> {
        self.container.items.iter().filter(|item| self.is_mine(item))
    }

    fn find(&self, link: &ItemLink) -> Result<usize, HostError> {
        let found = self.container.items.iter().position(|item| {
            self.is_mine(item)
                && match link {
                    ItemLink::ByName(id) => item["id"] == json!(id),
                    ItemLink::ByRid(rid) => item["_rid"] == json!(rid),
                }
        });
        found.ok_or_else(|| HostError::new(HostErrorKind::NotFound, "Resource Not Found"))
    }

    fn parse(&self, body: &str) -> Result<Map<String, Value>, HostError> {
        let Ok(Value::Object(item)) = serde_json::from_str::<Value>(body) else {
            return Err(HostError::new(HostErrorKind::Invalid, "The body is not an object."));
        };
        if item.get("id").and_then(Value::as_str).is_none_or(str::is_empty) {
            return Err(HostError::new(HostErrorKind::Invalid, "The item has no id."));
        }
        if item.get(&self.container.key_path) != self.key.as_ref() {
            return Err(HostError::new(
                HostErrorKind::Invalid,
                "The partition key does not match.",
            ));
        }
        Ok(item)
    }

    fn check_etag(&self, at: usize, etag: Option<&str>) -> Result<(), HostError> {
        match etag {
            Some(etag) if self.container.items[at]["_etag"] != json!(etag) => {
                Err(HostError::new(HostErrorKind::PreconditionFailed, "The etag does not match."))
            }
            _ => Ok(()),
        }
    }

    fn overwrite(&mut self, at: usize, item: Map<String, Value>) -> String {
        let old = self.container.items[at].clone();
        let stored = self.container.stored(&Value::Object(item), Some(&old));
        self.container.items[at] = stored.clone();
        stored.to_string()
    }
}

impl Host for Transaction {
    fn collection(&self) -> CollectionLinks {
        CollectionLinks { self_link: SELF_LINK.to_owned(), alt_link: ALT_LINK.to_owned() }
    }

    fn read_item(
        &mut self,
        link: &ItemLink,
        if_none_match: Option<&str>,
    ) -> Result<ReadOutcome, HostError> {
        let item = &self.container.items[self.find(link)?];
        if if_none_match.is_some_and(|etag| item["_etag"] == json!(etag)) {
            return Ok(ReadOutcome::NotModified);
        }
        Ok(ReadOutcome::Found(item.to_string()))
    }

    fn read_items(&mut self, size: usize, from: Option<&str>) -> Result<Page, HostError> {
        Ok(page(self.mine().map(Value::to_string).collect(), size, from))
    }

    fn query_items(
        &mut self,
        query_json: &str,
        size: usize,
        from: Option<&str>,
    ) -> Result<Page, HostError> {
        let candidates =
            self.mine().filter(|item| self.at_start.contains(&item["_rid"])).cloned().collect();
        let rows = query::run(query_json, candidates, &mut |_, _| Err("no functions".to_owned()))
            .map_err(|message| HostError::new(HostErrorKind::Invalid, message))?;
        Ok(page(rows.iter().map(Value::to_string).collect(), size, from))
    }

    fn create_item(
        &mut self,
        body: &str,
        _directive: Option<IndexDirective>,
    ) -> Result<String, HostError> {
        let item = self.parse(body)?;
        let id = item["id"].as_str().unwrap().to_owned();
        if self.find(&ItemLink::ByName(id)).is_ok() {
            return Err(HostError::new(
                HostErrorKind::Conflict,
                "Resource with specified id already exists.",
            ));
        }
        let stored = self.container.stored(&Value::Object(item), None);
        self.container.items.push(stored.clone());
        Ok(stored.to_string())
    }

    fn upsert_item(
        &mut self,
        body: &str,
        etag: Option<&str>,
        directive: Option<IndexDirective>,
    ) -> Result<Upserted, HostError> {
        let item = self.parse(body)?;
        let id = item["id"].as_str().unwrap().to_owned();
        match self.find(&ItemLink::ByName(id)) {
            Ok(at) => {
                self.check_etag(at, etag)?;
                Ok(Upserted::Replaced(self.overwrite(at, item)))
            }
            Err(_) => self.create_item(body, directive).map(Upserted::Created),
        }
    }

    fn replace_item(
        &mut self,
        link: &ItemLink,
        body: &str,
        etag: Option<&str>,
        _directive: Option<IndexDirective>,
    ) -> Result<String, HostError> {
        let at = self.find(link)?;
        let item = self.parse(body)?;
        self.check_etag(at, etag)?;
        Ok(self.overwrite(at, item))
    }

    fn delete_item(&mut self, link: &ItemLink, etag: Option<&str>) -> Result<(), HostError> {
        let at = self.find(link)?;
        self.check_etag(at, etag)?;
        self.container.items.remove(at);
        Ok(())
    }

    fn new_guid(&mut self) -> String {
        self.guids += 1;
        format!("00000000-0000-0000-0000-{:012}", self.guids)
    }
}

/// A page by position; the token is the position.
fn page(rows: Vec<String>, size: usize, from: Option<&str>) -> Page {
    let from: usize = from.map_or(0, |token| token.parse().unwrap());
    let more = from + size < rows.len();
    let rows = rows.into_iter().skip(from).take(size).collect();
    Page { rows, continuation: more.then(|| (from + size).to_string()) }
}
