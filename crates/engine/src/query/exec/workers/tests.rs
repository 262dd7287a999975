//! Threads that share a page: who works, what they may hold, and how they end.

use crate::account::{Account, NewContainer, Options as AccountOptions};
use crate::items::WriteOptions;
use crate::limits::QUERY_TIME_MAX;
use crate::query::exec::workers::*;
use crate::query::{Limit, PageOptions, Query, Request, Scope, Threads};
use crate::ranges::EpkSpan;
use crate::{Container, Txn};
use armilla_model::json;
use armilla_model::partition_key::PartitionKey;
use armilla_storage::MemoryStore;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

#[test]
fn every_number_comes_once_and_in_order() {
    for count in [0, 1, 2, 7, 500] {
        let made = map(count, |number| number * 2);
        assert_eq!(made, (0..count).map(|number| number * 2).collect::<Vec<_>>());
    }
}

#[test]
fn askers_do_not_wait_for_each_other() {
    // Far more than there are helpers, some inside others.
    let sums = map(64, |number| map(16, |inner| number * inner).into_iter().sum::<usize>());
    assert_eq!(sums, (0..64).map(|number| number * 120).collect::<Vec<_>>());
}

#[test]
fn helpers_are_given_back_when_one_fails() {
    let failing = || map(8, |number| assert!(number != 5, "this one fails"));
    assert!(std::panic::catch_unwind(failing).is_err());
    let taken = Permits::take(usize::MAX);
    assert!(taken.0 < threads());
}

#[test]
fn peaks_add_up() {
    let budget = SharedBudget::default();
    assert!(budget.may_hold(PARALLEL_MEMORY_MAX - 1) && budget.may_hold(1));
    assert!(!budget.may_hold(1));
}

/// A container of three ranges whose items have many rows.
fn container() -> Arc<Container> {
    let options =
        AccountOptions { partitions: Some(3), background: false, ..AccountOptions::default() };
    let account = Account::open(Arc::new(MemoryStore::new()), options).unwrap();
    account.create_database("d", None).unwrap();
    let definition = json::parse(br#"{"id":"c","partitionKey":{"paths":["/id"]}}"#).unwrap();
    let new = NewContainer { definition: &definition, throughput: None };
    let container = account.create_container("d", &new).unwrap();
    for id in 0..12 {
        let key = PartitionKey::parse(&format!("[\"{id}\"]")).unwrap();
        let epk = container.settings().policy.partition_key.epk(&key);
        let lock = container.lock_and_wait(&epk);
        let mut txn = Txn::begin(container.clone(), key, lock).unwrap();
        let list: Vec<String> = (0..60).map(|number| number.to_string()).collect();
        let text = format!(r#"{{"id":"{id}","list":[{}]}}"#, list.join(","));
        txn.create_item(text.as_bytes(), &WriteOptions::default()).unwrap();
        let (sender, receiver) = mpsc::sync_channel(1);
        txn.commit(move |outcome| sender.send(outcome).unwrap());
        receiver.recv().unwrap().unwrap();
    }
    container
}

#[test]
fn the_end_of_the_time_is_the_same_on_many_threads() {
    let container = container();
    let scope = Scope { span: EpkSpan::all(), limit: Limit::Container, cross_partition: true };
    let late = Instant::now().checked_sub(QUERY_TIME_MAX).expect("the machine is up for a minute");
    for (started, is_late) in [(Instant::now(), false), (late, true)] {
        for threads in [Threads::One, Threads::Many] {
            for text in [
                "SELECT VALUE COUNT(1) FROM c JOIN a IN c.list JOIN b IN c.list",
                "SELECT VALUE c.id FROM c JOIN a IN c.list JOIN b IN c.list ORDER BY c.none",
            ] {
                let request = Request::of_text(text);
                let query = Query::new(container.clone(), request, &scope).unwrap().on(threads);
                let options =
                    PageOptions { count_max: 10, continuation: None, range_by_range: false };
                let plan = query.plan(options).unwrap();
                let mut work = Work::new(started, Duration::ZERO, container.rates());
                let page = crate::query::exec::run(&query, &plan, &mut work);
                assert_eq!(page.is_err(), is_late, "{text} on {threads:?}: {page:?}");
            }
        }
    }
}
