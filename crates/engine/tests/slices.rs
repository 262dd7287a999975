//! An account that is cut into slices: each has its keys and no others, the catalog is the same in all, and together they are one account.
#![allow(clippy::unwrap_used, reason = "every function here is part of a test")]

use armilla_engine::account::{NewContainer, NewScript};
use armilla_engine::items::WriteOptions;
use armilla_engine::offers::Throughput;
use armilla_engine::ranges::EpkSpan;
use armilla_engine::scripts::Kind;
use armilla_engine::{Account, Container, Options, Slice, SliceBounds, Txn};
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Error, Result, json};
use armilla_storage::{MemoryStore, Store};
use std::collections::HashSet;
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
