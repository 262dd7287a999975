//! A container in memory and queries on it.

#[path = "../support/mod.rs"]
mod base;

use armilla_engine::Options;
use armilla_engine::items::WriteOptions;
use armilla_engine::query::{Access, Page, PageOptions, Query, Request, Scope, Threads};
use armilla_model::{Object, Result, Value, json};
use armilla_storage::{Batch, Direction, Durability, KeyRange, Keyspace, MemoryStore, Store};
#[allow(unused_imports, reason = "not every target that uses this bench throws dice")]
pub(crate) use base::{Random, everything};
use std::ops::{ControlFlow, Deref};
use std::sync::Arc;

/// A container whose queries are asked page by page.
pub(crate) struct Bench(base::Bench);

impl Deref for Bench {
    type Target = base::Bench;

    fn deref(&self) -> &base::Bench {
        &self.0
    }
}

impl Bench {
    /// A container with these members of its definition beside the id, over so many ranges.
    pub(crate) fn new(definition: &Value, ranges: u32) -> Self {
        let change = |options: &mut Options| options.partitions = Some(ranges);
        Self(base::Bench::new(&named(definition), change))
    }

    /// A container as an older server left it, with computed properties that are refused now.
    pub(crate) fn of_before(definition: &Value, ranges: u32) -> Self {
        let mut body = definition.as_object().cloned().unwrap();
        let computed = body.remove("computedProperties").unwrap();
        let Self(mut bench) = Self::new(&Value::object(body), ranges);
        bench.account.close().unwrap();
        let store = Arc::new(bench.store.fork());
        define_computed(&store, &computed);
        bench.reopen(store);
        Self(bench)
    }

    /// A container by the key path `/pk`.
    pub(crate) fn plain(ranges: u32) -> Self {
        Self::new(&base::value(r#"{"partitionKey":{"paths":["/pk"]}}"#), ranges)
    }

    pub(crate) fn put(&self, item: &Value) {
        self.put_with(item, &WriteOptions::default());
    }

    pub(crate) fn put_with(&self, item: &Value, options: &WriteOptions) {
        self.change(&self.key_of(item), |txn| {
            txn.upsert_item(item.to_json().as_bytes(), options).unwrap();
        });
    }

    /// Writes items of one logical partition together, so that they are one part of the index.
    pub(crate) fn put_all(&self, texts: &[String]) {
        let first = base::value(&texts[0]);
        self.change(&self.key_of(&first), |txn| {
            for text in texts {
                txn.create_item(text.as_bytes(), &WriteOptions::default()).unwrap();
            }
        });
    }

    /// Replaces the definition but for the id.
    pub(crate) fn redefine(&self, definition: &Value) {
        self.0.redefine(&named(definition));
    }

    pub(crate) fn put_text(&self, text: &str) {
        self.put(&base::value(text));
    }

    pub(crate) fn delete(&self, item: &Value) {
        self.change(&self.key_of(item), |txn| {
            let id = item.get("id").and_then(Value::as_str).unwrap();
            txn.delete_item(id, &WriteOptions::default()).unwrap();
        });
    }

    /// Every page of a query over all ranges, as rows per page.
    pub(crate) fn pages(&self, request: &Request, page_size: usize) -> Result<Vec<Vec<Value>>> {
        self.pages_in(request, &everything(), page_size, Access::ByCost)
    }

    pub(crate) fn pages_in(
        &self,
        request: &Request,
        scope: &Scope,
        page_size: usize,
        access: Access,
    ) -> Result<Vec<Vec<Value>>> {
        self.pages_on(request, scope, page_size, access, Threads::ByCost)
    }

    /// The same on one thread or many.
    pub(crate) fn pages_on(
        &self,
        request: &Request,
        scope: &Scope,
        page_size: usize,
        access: Access,
        threads: Threads,
    ) -> Result<Vec<Vec<Value>>> {
        let mut pages = Vec::new();
        let mut continuation: Option<String> = None;
        loop {
            let query = Query::new(self.container.clone(), request.clone(), scope)?.by(access);
            let options = PageOptions {
                count_max: page_size,
                continuation: continuation.as_deref(),
                range_by_range: false,
            };
            let page = match threads {
                Threads::ByCost => explained_page(&query, options, &request.text)?,
                _ => one_and_many(query, options, &request.text)?,
            };
            assert!(page.rows.len() <= page_size);
            pages.push(page.rows.iter().map(|row| json::parse(row).unwrap()).collect());
            match page.continuation {
                None => return Ok(pages),
                Some(token) => {
                    assert!(token.len() < 1024 && token.is_ascii(), "{token}");
                    continuation = Some(token);
                }
            }
            assert!(pages.len() < 100_000, "{} does not end", request.text);
        }
    }

    /// How a query uses the index.
    pub(crate) fn explain(&self, text: &str) -> String {
        let query = Query::new(self.container.clone(), Request::of_text(text), &everything());
        let query = query.unwrap().by(Access::Index);
        let options = PageOptions { count_max: 1000, continuation: None, range_by_range: false };
        let plan = query.plan(options).unwrap();
        let page = query.run(&plan).unwrap();
        query.explain(&plan, Some(&page)).to_string()
    }

    /// All rows of a query.
    pub(crate) fn rows(&self, text: &str) -> Vec<Value> {
        self.pages(&Request::of_text(text), 1000).unwrap().concat()
    }
}

/// A page whose explanation accounts for its charge.
fn explained_page(query: &Query, options: PageOptions<'_>, text: &str) -> Result<Page> {
    let plan = query.plan(options)?;
    let page = query.run(&plan)?;
    let explanation = query.explain(&plan, Some(&page));
    assert_eq!(explanation.charge_of_steps(), page.charge, "{text}\n{explanation}");
    Ok(page)
}

/// A page made on one thread and on many, which must be the same.
fn one_and_many(query: Query, options: PageOptions<'_>, text: &str) -> Result<Page> {
    /// What must be the same of two pages.
    fn told(page: &Result<Page>) -> std::result::Result<String, String> {
        let page = page.as_ref().map_err(ToString::to_string)?;
        let Page { rows, continuation, charge, shares, metrics, .. } = page;
        let read = (metrics.retrieved_count, metrics.retrieved_size);
        let made = (metrics.output_count, metrics.output_size);
        Ok(format!("{rows:?} {continuation:?} {charge} {shares:?} {read:?} {made:?}"))
    }
    let mut query = query;
    loop {
        query = query.on(Threads::One);
        let one = query.page(options);
        query = query.on(Threads::Many);
        let many = explained_page(&query, options, text);
        query = query.on(Threads::One);
        // While an index is built in the background, two pages may see two indexes.
        if told(&one) == told(&query.page(options)) {
            assert_eq!(told(&one), told(&many), "{text}");
            return many;
        }
    }
}

/// A value without the properties that the server adds to items.
pub(crate) fn stripped(value: &Value) -> Value {
    const SYSTEM: [&str; 5] = ["_rid", "_self", "_etag", "_attachments", "_ts"];
    match value {
        Value::Array(elements) => Value::array(elements.iter().map(stripped).collect()),
        Value::Object(object) => {
            let own = object.iter().filter(|(name, _)| !SYSTEM.contains(&&***name));
            let members: Object =
                own.map(|(name, value)| (name.clone(), stripped(value))).collect();
            Value::object(members)
        }
        scalar => scalar.clone(),
    }
}

/// Texts of rows, to be compared and shown.
pub(crate) fn texts(rows: &[Value]) -> Vec<String> {
    rows.iter().map(|row| stripped(row).to_json()).collect()
}

/// A definition with the id that every bench's container has.
fn named(definition: &Value) -> String {
    let mut body = definition.as_object().cloned().unwrap();
    body.insert("id", Value::from("c"));
    Value::object(body).to_json()
}

/// Writes computed properties into the stored definition of the only container.
fn define_computed(store: &MemoryStore, computed: &Value) {
    let mut batch = Batch::new();
    let all = KeyRange::prefix(b"");
    let visit = &mut |key: &[u8], value: bytes::Bytes| {
        let entry = json::parse(&value).ok();
        let definition = entry.as_ref().and_then(|entry| entry.get("definition"));
        if let Some(definition) = definition {
            let mut definition = definition.as_object().cloned().unwrap();
            definition.insert("computedProperties", computed.clone());
            let mut entry = entry.as_ref().unwrap().as_object().cloned().unwrap();
            entry.insert("definition", Value::object(definition));
            batch.put(Keyspace::Meta, key.to_vec(), Value::object(entry).to_json().into_bytes());
        }
        ControlFlow::Continue(())
    };
    store.snapshot().scan(Keyspace::Meta, &all, Direction::Forward, visit).unwrap();
    store.commit(batch, Durability::Synced).unwrap();
}
