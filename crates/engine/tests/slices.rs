//! An account that is cut into slices: each has its keys and no others, the catalog is the same in all, and together they are one account.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

use armilla_engine::account::{NewContainer, NewScript};
use armilla_engine::items::WriteOptions;
use armilla_engine::offers::Throughput;
use armilla_engine::ranges::EpkSpan;
use armilla_engine::restore::{CutAccount, JoinedSlices, raise_heads};
use armilla_engine::scripts::Kind;
use armilla_engine::{Account, Container, Options, Slice, SliceBounds, Txn};
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Error, Result, json};
use armilla_storage::{
    Batch, Direction, Durability, KeyRange, Keyspace, MemoryStore, Snapshot, Store,
};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::{Arc, mpsc};

const SLICES: u32 = 3;

fn open(store: &Arc<dyn Store>, index: u32) -> Arc<Account> {
    let slice = Slice::new(index, SLICES).unwrap();
    let options = Options { background: false, slice, ..Options::default() };
    Account::open(store.clone(), options).unwrap()
}

/// The stores of all slices and their accounts.
fn cut() -> (Vec<Arc<dyn Store>>, Vec<Arc<Account>>) {
    let store = || -> Arc<dyn Store> { Arc::new(MemoryStore::new()) };
    let stores: Vec<_> = (0..SLICES).map(|_| store()).collect();
    let accounts = (0..).zip(&stores).map(|(index, store)| open(store, index)).collect();
    (stores, accounts)
}

fn adopt_all(accounts: &[Arc<Account>]) {
    let first = accounts[0].snapshot();
    for account in &accounts[1..] {
        account.adopt_catalog(&*first).unwrap();
        assert!(!account.adopt_catalog(&*first).unwrap(), "it has that already");
        assert_eq!(account.edition(), accounts[0].edition());
    }
}

fn create(account: &Account, definition: &str, throughput: Option<Throughput>) -> Arc<Container> {
    let definition = json::parse(definition.as_bytes()).unwrap();
    account.create_container("d", &NewContainer { definition: &definition, throughput }).unwrap()
}

const ITEMS: &str = r#"{"id":"c","partitionKey":{"paths":["/pk"],"version":2}}"#;

fn write(container: &Arc<Container>, number: usize) -> Result<()> {
    let key = PartitionKey::parse(&format!("[\"{number}\"]")).unwrap();
    let epk = container.key_definition().epk(&key);
    let mut txn = Txn::begin(container.clone(), key, container.lock_and_wait(&epk))?;
    let body = format!(r#"{{"id":"{number}","pk":"{number}"}}"#);
    txn.create_item(body.as_bytes(), &WriteOptions::default())?;
    let (sender, receiver) = mpsc::channel();
    txn.commit(move |outcome| drop(sender.send(outcome)));
    receiver.recv().unwrap().map(drop)
}

fn list(container: &Container) -> Vec<String> {
    let page = container.list_items(&EpkSpan::all(), None, 1000).unwrap();
    page.items.iter().map(|item| String::from_utf8_lossy(&item.text).into_owned()).collect()
}

#[test]
fn each_slice_takes_its_own_keys_and_names_the_right_one_for_the_others() {
    let (_, accounts) = cut();
    accounts[0].create_database("d", None).unwrap();
    create(&accounts[0], ITEMS, None);
    adopt_all(&accounts);
    let containers: Vec<_> =
        accounts.iter().map(|account| account.container("d", "c").unwrap()).collect();
    let rids: HashSet<_> = containers.iter().map(|container| container.rid_text.clone()).collect();
    assert_eq!(rids.len(), 1, "it is one container");
    let bounds = SliceBounds::new(containers[0].key_definition().hashing, SLICES);
    for number in 0..100 {
        let key = PartitionKey::parse(&format!("[\"{number}\"]")).unwrap();
        let right = bounds.slice_of(&containers[0].key_definition().epk(&key));
        for (index, container) in (0..).zip(&containers) {
            match write(container, number) {
                Ok(()) => assert_eq!(index, right),
                Err(Error::InOtherSlice { slice, .. }) => assert_eq!(slice, right),
                Err(other) => panic!("{other}"),
            }
        }
    }
    let lists: Vec<_> = containers.iter().map(|container| list(container)).collect();
    assert!(lists.iter().all(|list| !list.is_empty()));
    let all: HashSet<_> = lists.iter().flatten().collect();
    assert_eq!((all.len(), lists.iter().map(Vec::len).sum::<usize>()), (100, 100));
    let rid = |text: &&String| text.split("\"_rid\":\"").nth(1).map(|rest| rest[..24].to_owned());
    let item_rids: HashSet<_> = lists.iter().flatten().map(|text| rid(&text)).collect();
    assert_eq!(item_rids.len(), 100, "no two items have a number in common");
}

#[test]
fn the_catalog_is_adopted_whatever_became_of_it() {
    let (stores, accounts) = cut();
    accounts[0].create_database("d", None).unwrap();
    let container = create(&accounts[0], ITEMS, None);
    create(&accounts[0], r#"{"id":"gone","partitionKey":{"paths":["/pk"]}}"#, None);
    adopt_all(&accounts);
    let gone = accounts[0].container("d", "gone").unwrap();
    accounts[0].delete_container(&gone, None).unwrap();
    let again = create(&accounts[0], r#"{"id":"gone","partitionKey":{"paths":["/x"]}}"#, None);
    let body = "function f() {}";
    let script = NewScript { kind: Kind::Procedure, name: "s", body, trigger: None };
    accounts[0].create_script(&container, &script, false).unwrap();
    accounts[0].create_user("d", "u", false).unwrap();
    let definition = r#"{"id":"c","partitionKey":{"paths":["/pk"],"version":2},"defaultTtl":60}"#;
    let definition = json::parse(definition.as_bytes()).unwrap();
    accounts[0].replace_container(&container, &definition, None).unwrap();
    adopt_all(&accounts);
    let check = |account: &Account| {
        let adopted = account.container("d", "c").unwrap();
        assert_eq!(adopted.settings().etag, container.settings().etag);
        assert_eq!(adopted.settings().policy.definition, container.settings().policy.definition);
        assert!(adopted.script(Kind::Procedure, "s").is_ok());
        assert!(account.database("d").unwrap().user("u").is_some());
        assert_eq!(account.container("d", "gone").unwrap().rid_text, again.rid_text);
        assert_eq!(account.catalog().offers.len(), accounts[0].catalog().offers.len());
        assert!(account.verify().unwrap().findings.is_empty());
    };
    accounts[1..].iter().for_each(|account| check(account));
    for (index, account) in (0..).zip(accounts.iter().cloned()).skip(1) {
        let edition = account.edition();
        let reopened = open(&stores[index as usize], index);
        check(&reopened);
        assert_eq!(reopened.edition(), edition);
    }
}

#[test]
fn ranges_of_all_slices_are_one_container_also_behind_splits() {
    let (_, accounts) = cut();
    accounts[0].create_database("d", None).unwrap();
    create(&accounts[0], ITEMS, Some(Throughput::Manual(20_000)));
    adopt_all(&accounts);
    let offer = accounts[0].catalog().offers.values().next().unwrap().number;
    let more = armilla_engine::account::OfferChange::Set(Throughput::Manual(90_000));
    accounts[0].replace_offer(offer, more, None, None).unwrap();
    adopt_all(&accounts);
    let mut all = Vec::new();
    for (index, account) in (0..).zip(&accounts) {
        account.split_partitions();
        let container = account.container("d", "c").unwrap();
        assert_eq!(container.ranges().len(), 3);
        for range in container.ranges() {
            assert_eq!(Slice::of_range(range.id, SLICES), index);
            assert!(range.parents.iter().all(|id| Slice::of_range(*id, SLICES) == index));
            all.push(range);
        }
    }
    for pair in all.windows(2) {
        assert_eq!(pair[0].max.as_ref(), Some(&pair[1].min));
    }
    let ids: HashSet<_> = all.iter().map(|range| range.id).collect();
    assert_eq!(ids.len(), all.len());
}

#[test]
fn what_would_touch_two_slices_is_refused() {
    let (_, accounts) = cut();
    accounts[0].create_database("d", None).unwrap();
    let container = create(&accounts[0], ITEMS, None);
    adopt_all(&accounts);
    assert!(accounts[1].create_database("e", None).is_err(), "the first slice has the catalog");
    let subscription = json::parse(br#"{"id":"s","webhook":{"url":"http://x"}}"#).unwrap();
    let refused = accounts[0].create_subscription(&container, &subscription).err().unwrap();
    assert!(refused.to_string().contains("slices"), "{refused}");
}

fn all_of(snapshot: &dyn Snapshot, keyspace: Keyspace) -> Vec<(Vec<u8>, bytes::Bytes)> {
    snapshot.page(keyspace, &KeyRange::all(), Direction::Forward, usize::MAX).unwrap()
}

/// One store with what the slices have.
fn joined(stores: &[Arc<dyn Store>]) -> Arc<dyn Store> {
    let joined = JoinedSlices::new(stores.iter().map(|store| store.snapshot()).collect()).unwrap();
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let mut batch = Batch::new();
    for keyspace in Keyspace::ALL {
        let forward = all_of(&joined, keyspace);
        let mut backward = Vec::new();
        let visit = &mut |key: &[u8], value| {
            backward.push((key.to_vec(), value));
            ControlFlow::Continue(())
        };
        joined.scan(keyspace, &KeyRange::all(), Direction::Backward, visit).unwrap();
        backward.reverse();
        assert_eq!(forward, backward);
        assert!(forward.windows(2).all(|pair| pair[0].0 < pair[1].0), "{keyspace:?}");
        for (key, value) in forward {
            assert_eq!(joined.get(keyspace, &key).unwrap(), Some(value.clone()));
            batch.put(keyspace, key, value);
        }
    }
    store.commit(batch, Durability::Synced).unwrap();
    raise_heads(&*store).unwrap();
    store
}

/// The stores of so many slices with what one store has.
fn cut_into(whole: &dyn Snapshot, count: u32) -> Vec<Arc<dyn Store>> {
    let mut plan = CutAccount::plan(all_of(whole, Keyspace::Meta), count).unwrap();
    let mut batches: Vec<Batch> = (0..count).map(|_| Batch::new()).collect();
    for (batch, entries) in batches.iter_mut().zip(plan.take_meta()) {
        for (key, value) in entries {
            batch.put(Keyspace::Meta, key, value);
        }
    }
    for keyspace in Keyspace::ALL.into_iter().skip(1) {
        for (key, value) in all_of(whole, keyspace) {
            let slice = plan.slice_of(keyspace, &key, &value).unwrap();
            if let Some(slice) = slice {
                batches[slice as usize].put(keyspace, key, value);
            }
        }
    }
    let store = |batch: Batch| -> Arc<dyn Store> {
        let store = MemoryStore::new();
        store.commit(batch, Durability::Synced).unwrap();
        raise_heads(&store).unwrap();
        Arc::new(store)
    };
    batches.into_iter().map(store).collect()
}

fn open_of(store: &Arc<dyn Store>, index: u32, count: u32) -> Arc<Account> {
    let slice = Slice::new(index, count).unwrap();
    let options = Options { background: false, slice, ..Options::default() };
    Account::open(store.clone(), options).unwrap()
}

/// The items of a container by their texts, and how many changes its feed shows from the beginning.
fn content(accounts: &[Arc<Account>], name: &str) -> (Vec<String>, usize) {
    let containers = accounts.iter().map(|account| account.container("d", name).unwrap());
    let mut changes = 0;
    let mut items: Vec<_> = containers
        .flat_map(|container| {
            for range in container.ranges() {
                let partition = container.partition(range.id).unwrap();
                let start = armilla_engine::feed::Start::Beginning;
                let page =
                    container.read_changes(&partition, &EpkSpan::all(), start, 10_000).unwrap();
                changes += page.items.len();
            }
            list(&container)
        })
        .collect();
    items.sort();
    (items, changes)
}

fn check_whole(accounts: &[Arc<Account>], name: &str) {
    for account in accounts {
        let findings = account.verify().unwrap().findings;
        assert!(findings.is_empty(), "{findings:?}");
    }
    let ranges = accounts.iter().map(|account| account.container("d", name).unwrap().ranges());
    let ranges: Vec<_> = ranges.flatten().collect();
    assert!(ranges.windows(2).all(|pair| pair[0].max.as_ref() == Some(&pair[1].min)));
    assert!(ranges[0].min.as_bytes().is_empty() && ranges.last().unwrap().max.is_none());
    let ids: HashSet<_> = ranges.iter().map(|range| range.id).collect();
    assert_eq!(ids.len(), ranges.len());
}

#[test]
fn slices_become_one_account_and_other_slices_and_every_item_and_change_is_there() {
    let (stores, accounts) = cut();
    accounts[0].create_database("d", None).unwrap();
    create(&accounts[0], ITEMS, Some(Throughput::Manual(20_000)));
    create(&accounts[0], r#"{"id":"gone","partitionKey":{"paths":["/pk"]}}"#, None);
    adopt_all(&accounts);
    for account in &accounts {
        let (container, gone) =
            (account.container("d", "c").unwrap(), account.container("d", "gone").unwrap());
        for number in 0..100 {
            let _elsewhere = (write(&container, number), write(&gone, number));
        }
        account.split_partitions();
    }
    // The other slices have not heard of these two.
    let gone = accounts[0].container("d", "gone").unwrap();
    accounts[0].delete_container(&gone, None).unwrap();
    create(&accounts[0], r#"{"id":"late","partitionKey":{"paths":["/pk"],"version":1}}"#, None);
    let before = content(&accounts, "c");
    assert_eq!((before.0.len(), before.1), (100, 100));
    let whole = joined(&stores);
    for count in [1, 4, 3, 2] {
        let stores = cut_into(&*whole.snapshot(), count);
        let accounts: Vec<_> =
            (0..).zip(&stores).map(|(index, store)| open_of(store, index, count)).collect();
        check_whole(&accounts, "c");
        check_whole(&accounts, "late");
        assert_eq!(content(&accounts, "c"), before);
        assert!(accounts.iter().all(|account| account.container("d", "gone").is_err()));
        // Numbers of items go on, and no two slices give out the same.
        for number in 100..140 {
            let written = accounts
                .iter()
                .filter(|account| write(&account.container("d", "c").unwrap(), number).is_ok())
                .count();
            assert_eq!(written, 1, "item {number} in {count} slices");
        }
        let (items, changes) = content(&accounts, "c");
        let rid =
            |text: &String| text.split("\"_rid\":\"").nth(1).map(|rest| rest[..24].to_owned());
        let rids: HashSet<_> = items.iter().map(rid).collect();
        assert_eq!((items.len(), rids.len(), changes), (140, 140, 140), "{count} slices");
        let again = joined(&stores);
        let account = open_of(&again, 0, 1);
        check_whole(std::slice::from_ref(&account), "c");
        assert_eq!(content(&[account], "c").0, items);
    }
}

#[test]
fn what_slices_do_not_have_is_not_cut() {
    // A subscription and a re-key of container 1, by the letters of their entries.
    for letter in [b'B', b'M'] {
        let entry = (vec![letter, 0, 0, 0, 1], bytes::Bytes::new());
        let refused = CutAccount::plan([entry], 2).err().unwrap().to_string();
        assert!(refused.contains("subscriptions"), "{refused}");
    }
}
