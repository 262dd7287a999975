//! Queries over an account that is cut into slices, put together of the parts of all of them: the same rows in the same pages at the same
//! charges as over one account with the same ranges.

use crate::generate::{Generator, Random};
use crate::random::POLICIES;
use crate::support::everything;
use armilla_engine::account::NewContainer;
use armilla_engine::items::WriteOptions;
use armilla_engine::query::{Access, Onward, Page, PageOptions, Query, Request};
use armilla_engine::restore::{JoinedSlices, raise_heads};
use armilla_engine::{Account, Container, Options, Slice, SliceBounds, Txn};
use armilla_model::charge::RequestCharge;
use armilla_model::clock::ManualClock;
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Result, Value, json};
use armilla_storage::{
    Batch, Direction, Durability, KeyRange, Keyspace, MemoryStore, Snapshot, Store,
};
use std::sync::{Arc, mpsc};

const SLICES: u32 = 3;
const QUERIES: usize = 450;

/// One container, whole and in slices.
struct Both {
    whole: Arc<Container>,
    slices: Vec<Arc<Container>>,
    _accounts: Vec<Arc<Account>>,
}

fn open(store: &Arc<MemoryStore>, slice: Slice) -> Arc<Account> {
    let clock = Arc::new(ManualClock::at_seconds(1_700_000_000));
    let options = Options { slice, clock, background: false, ..Options::default() };
    Account::open(store.clone(), options).unwrap()
}

fn container_of(account: &Arc<Account>) -> Arc<Container> {
    account.container("d", "c").unwrap()
}

impl Both {
    /// Writes items into slices, and joins these to an account that is not cut: the same ranges, ordinals and secrets.
    fn new(definition: &str, items: &[Value]) -> Self {
        let stores: Vec<_> = (0..SLICES).map(|_| Arc::new(MemoryStore::new())).collect();
        let open_all = |stores: &[Arc<MemoryStore>]| -> Vec<Arc<Account>> {
            let slices = (0..).map(|index| Slice::new(index, SLICES).unwrap());
            stores.iter().zip(slices).map(|(store, slice)| open(store, slice)).collect()
        };
        let accounts = open_all(&stores);
        accounts[0].create_database("d", None).unwrap();
        let mut named = json::parse(definition.as_bytes()).unwrap().as_object().cloned().unwrap();
        named.insert("id", Value::from("c"));
        let (definition, throughput) = (&Value::object(named), None);
        accounts[0].create_container("d", &NewContainer { definition, throughput }).unwrap();
        let first = accounts[0].snapshot();
        accounts[1..].iter().for_each(|account| assert!(account.adopt_catalog(&*first).unwrap()));
        let slices: Vec<_> = accounts.iter().map(container_of).collect();
        items.iter().for_each(|item| put(&slices, item));
        drop(slices);
        accounts.iter().for_each(|account| account.close().unwrap());
        let stores: Vec<_> = stores.iter().map(|store| Arc::new(store.fork())).collect();
        let whole = Arc::new(MemoryStore::new());
        let joined = JoinedSlices::new(stores.iter().map(|store| store.snapshot()).collect());
        let (joined, mut batch) = (joined.unwrap(), Batch::new());
        for keyspace in Keyspace::ALL {
            let all = joined.page(keyspace, &KeyRange::all(), Direction::Forward, usize::MAX);
            all.unwrap().into_iter().for_each(|(key, value)| batch.put(keyspace, key, value));
        }
        whole.commit(batch, Durability::Synced).unwrap();
        raise_heads(&*whole).unwrap();
        // All of them anew, so that their indexes are built in the same way.
        let mut accounts = open_all(&stores);
        let slices = accounts.iter().map(container_of).collect();
        accounts.push(open(&whole, Slice::WHOLE));
        let whole = container_of(&accounts[SLICES as usize]);
        assert_eq!(whole.ranges().len(), SLICES as usize);
        Self { whole, slices, _accounts: accounts }
    }

    fn query(&self, slice: usize, text: &str, access: Access) -> Result<Query> {
        let request = Request::of_text(text);
        Ok(Query::new(self.slices[slice].clone(), request, &everything())?.by(access).in_turn(true))
    }

    /// A page that a slice makes of the parts of all.
    fn gathered(&self, text: &str, options: PageOptions<'_>, access: Access) -> Result<Page> {
        let part = |slice| Ok(self.query(slice, text, access)?.part(options)?.bytes);
        let parts = (0..self.slices.len()).map(part).collect::<Result<Vec<_>>>()?;
        self.query(1, text, access)?.merge(options, &parts)
    }

    /// Compares all pages; answers how many there were, or nothing where both refuse.
    fn compare(&self, text: &str, count_max: usize, access: Access) -> Option<usize> {
        let is_gathered = match self.query(0, text, access) {
            Ok(query) => query.is_gathered(),
            Err(_) => return None,
        };
        if !is_gathered {
            return self.compare_in_turn(text, count_max, access);
        }
        let (mut own, mut other): (Option<String>, Option<String>) = (None, None);
        for page in 1.. {
            let options =
                |continuation| PageOptions { count_max, continuation, range_by_range: false };
            let query = Query::new(self.whole.clone(), Request::of_text(text), &everything());
            let one = query.unwrap().by(access).page(options(own.as_deref()));
            let merged = self.gathered(text, options(other.as_deref()), access);
            let (one, merged) = match (one, merged) {
                (Ok(one), Ok(merged)) => (one, merged),
                (Err(_), Err(_)) => return None,
                (one, merged) => panic!("{text}: {one:?} alone, {merged:?} in slices"),
            };
            let told = |page: &Page| {
                let text = |row: &bytes::Bytes| String::from_utf8_lossy(row).into_owned();
                let rows: Vec<_> = page.rows.iter().map(text).collect();
                (rows, page.continuation.clone(), page.charge)
            };
            assert_eq!(told(&one), told(&merged), "{text}, page {page} of {count_max}, {access:?}");
            (own, other) = (one.continuation, merged.continuation);
            if own.is_none() {
                return Some(page);
            }
        }
        None
    }

    /// Rows that come slice by slice: pages end where slices end, so all of them together are compared.
    fn compare_in_turn(&self, text: &str, count_max: usize, access: Access) -> Option<usize> {
        let query = Query::new(self.whole.clone(), Request::of_text(text), &everything());
        let query = query.ok()?.by(access);
        let options = PageOptions { count_max: 10_000, continuation: None, range_by_range: false };
        let expected = query.page(options).ok()?;
        assert!(expected.continuation.is_none());
        let (mut rows, mut slice, mut pages) = (Vec::new(), 0, 0);
        let mut token: Option<String> = None;
        while slice < self.slices.len() {
            let continuation = token.as_deref();
            let options = PageOptions { count_max, continuation, range_by_range: false };
            let page = self.query(slice, text, access).unwrap().page(options).unwrap();
            rows.extend(page.rows);
            token = page.continuation;
            pages += 1;
            match page.onward {
                Onward::Nowhere => break,
                Onward::NextSlice => slice += 1,
                Onward::Here => assert!(token.is_some(), "{text} ends in a slice without a word"),
            }
        }
        assert_eq!(rows, expected.rows, "{text} in pages of {count_max}");
        Some(pages)
    }
}

fn put(slices: &[Arc<Container>], item: &Value) {
    let definition = slices[0].key_definition();
    let key = PartitionKey::of_item(item, definition);
    let epk = definition.epk(&key);
    let slice = SliceBounds::new(definition.hashing, SLICES).slice_of(&epk);
    let container = &slices[slice as usize];
    let locked = container.lock_and_wait(&epk);
    let mut txn = Txn::begin(container.clone(), key, locked).unwrap();
    txn.create_item(item.to_json().as_bytes(), &WriteOptions::default()).unwrap();
    let (sender, receiver) = mpsc::channel();
    txn.commit(move |outcome| drop(sender.send(outcome)));
    receiver.recv().unwrap().unwrap();
}

fn items(count: u32, text: impl Fn(u32) -> String) -> Vec<Value> {
    (0..count).map(|number| json::parse(text(number).as_bytes()).unwrap()).collect()
}

#[test]
fn random_queries_over_slices_are_those_of_one_account() {
    let mut random = Random(20_261_118);
    let (mut asked, mut pages, mut refused) = (0, 0, 0);
    while asked < QUERIES {
        // Not the last policy, which throws dice.
        let definition = random.one_of(&POLICIES[..7]);
        let mut known: Vec<Value> = Vec::new();
        for number in 0..60 {
            let item = Generator { random: &mut random }.item(number);
            if !known.iter().any(|other| other.get("id") == item.get("id")) {
                known.push(item);
            }
        }
        let both = Both::new(definition, &known);
        for _ in 0..150 {
            let (text, _) = Generator { random: &mut random }.query();
            let count_max = random.one_of(&[1, 2, 7, 1000]);
            let access = random.one_of(&[Access::ByCost, Access::Index, Access::Items]);
            match both.compare(&text, count_max, access) {
                Some(made) => pages += made,
                None => refused += 1,
            }
            asked += 1;
        }
    }
    assert!(refused * 5 < asked, "{refused} of {asked} were refused");
    assert!(pages > asked, "{pages} pages of {asked} queries");
}

#[test]
fn every_shape_over_slices_is_that_of_one_account() {
    let items = items(90, |number| {
        format!(
            r#"{{"id":"i{number}","pk":"p{}","n":{},"tags":["a{}","b"],"text":"red fox {} dog{}"}}"#,
            number % 23,
            number % 5,
            number % 3,
            if number % 7 == 0 { "blue fox" } else { "green" },
            "x".repeat(number as usize % 11)
        )
    });
    let both = Both::new(
        r#"{"partitionKey":{"paths":["/pk"]},"fullTextPolicy":{"defaultLanguage":"en-US",
            "fullTextPaths":[{"path":"/text","language":"en-US"}]},
            "indexingPolicy":{"fullTextIndexes":[{"path":"/text"}]}}"#,
        &items,
    );
    for text in [
        "SELECT TOP 17 c.id FROM c",
        "SELECT c.id FROM c OFFSET 11 LIMIT 50",
        "SELECT VALUE x.id FROM (SELECT * FROM c) x OFFSET 3 LIMIT 60",
        "SELECT c.id, c.n FROM c ORDER BY c.n",
        "SELECT VALUE t FROM c JOIN t IN c.tags ORDER BY c.n DESC",
        "SELECT TOP 13 c.id FROM c ORDER BY c.n",
        "SELECT c.id FROM c ORDER BY c.n DESC OFFSET 20 LIMIT 30",
        "SELECT * FROM c WHERE c.pk = 'p3' ORDER BY c.n",
        "SELECT DISTINCT c.n FROM c",
        "SELECT DISTINCT VALUE c.n FROM c ORDER BY c.n DESC",
        "SELECT DISTINCT VALUE c.n FROM c ORDER BY c.id",
        "SELECT c.pk, COUNT(1) AS k, SUM(c.n) AS s, AVG(c.n / 3) AS a FROM c GROUP BY c.pk",
        "SELECT c.n, c.pk FROM c GROUP BY c.n, c.pk OFFSET 5 LIMIT 31",
        "SELECT c.n, COUNT(1) AS k FROM c GROUP BY c.n ORDER BY c.n DESC",
        "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.n FROM c)",
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT COUNT(1) AS k, MIN(c.n) AS a, MAX(c.id) AS b FROM c WHERE c.n > 1",
        "SELECT VALUE MAX(c.n) FROM c",
        "SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'p4'",
        "SELECT VALUE 1",
        "SELECT c.n, MAKELIST(c.id) AS all FROM c GROUP BY c.n",
        "SELECT TOP 20 c.id FROM c ORDER BY RANK FullTextScore(c.text, 'blue', 'fox')",
    ] {
        for count_max in [1, 7, 1000] {
            for access in [Access::ByCost, Access::Index] {
                assert!(both.compare(text, count_max, access).is_some(), "{text} was refused");
            }
        }
    }
}

/// A token holds the beginning of a long value: the slice that has the item knows the rest.
#[test]
fn long_values_that_begin_alike_are_paged_through_slices() {
    let items = items(40, |number| {
        let (long, last) = ("y".repeat(400), (number * 7) % 40);
        format!(r#"{{"id":"i{number}","pk":"p{number}","s":"{long}{last:02}"}}"#)
    });
    let both = Both::new(r#"{"partitionKey":{"paths":["/pk"]}}"#, &items);
    for order in ["c.s", "c.s DESC"] {
        let text = format!("SELECT VALUE c.s FROM c ORDER BY {order}");
        assert_eq!(both.compare(&text, 3, Access::ByCost), Some(14), "{text}");
    }
}

#[test]
fn a_slice_is_charged_for_its_part() {
    let items =
        items(30, |number| format!(r#"{{"id":"i{number}","pk":"p{number}","n":{number}}}"#));
    let both = Both::new(r#"{"partitionKey":{"paths":["/pk"]}}"#, &items);
    let options = PageOptions { count_max: 10, continuation: None, range_by_range: false };
    let text = "SELECT VALUE SUM(c.n) FROM c";
    let charge = |slice| both.query(slice, text, Access::ByCost)?.part(options).map(|it| it.charge);
    let parts: RequestCharge = (0..3).map(|slice| charge(slice).unwrap()).sum();
    let merged = both.gathered(text, options, Access::ByCost).unwrap();
    assert_eq!(parts, merged.charge);
}
