//! What a page looks up: every selector once, whoever asks for it.

use crate::account::{Account, NewContainer, Options as AccountOptions};
use crate::items::WriteOptions;
use crate::query::find::SELECTORS_MADE;
use crate::query::{Access, Limit, Page, PageOptions, Plan, Query, Request, Scope, Threads};
use crate::ranges::EpkSpan;
use crate::{Container, Txn};
use armilla_model::json;
use armilla_model::partition_key::PartitionKey;
use armilla_storage::MemoryStore;
use std::sync::{Arc, mpsc};

/// A container of three ranges with some parts each.
fn container() -> Arc<Container> {
    let options =
        AccountOptions { partitions: Some(3), background: false, ..AccountOptions::default() };
    let account = Account::open(Arc::new(MemoryStore::new()), options).unwrap();
    account.create_database("d", None).unwrap();
    let definition = json::parse(br#"{"id":"c","partitionKey":{"paths":["/id"]}}"#).unwrap();
    let new = NewContainer { definition: &definition, throughput: None };
    let container = account.create_container("d", &new).unwrap();
    for id in 0..60 {
        let key = PartitionKey::parse(&format!("[\"{id}\"]")).unwrap();
        let epk = container.settings().policy.partition_key.epk(&key);
        let lock = container.lock_and_wait(&epk);
        let mut txn = Txn::begin(container.clone(), key, lock).unwrap();
        let text = format!(r#"{{"id":"{id}","n":{},"t":"t{}"}}"#, id % 7, id % 3);
        txn.create_item(text.as_bytes(), &WriteOptions::default()).unwrap();
        let (sender, receiver) = mpsc::sync_channel(1);
        txn.commit(move |outcome| sender.send(outcome).unwrap());
        receiver.recv().unwrap().unwrap();
    }
    container
}

fn planned(container: &Arc<Container>, text: &str, continuation: Option<&str>) -> (Query, Plan) {
    let scope = Scope { span: EpkSpan::all(), limit: Limit::Container, cross_partition: true };
    let query = Query::new(container.clone(), Request::of_text(text), &scope).unwrap();
    let query = query.by(Access::Index).on(Threads::One);
    let plan =
        query.plan(PageOptions { count_max: 5, continuation, range_by_range: false }).unwrap();
    (query, plan)
}

/// Runs a page and gives it with the selectors that were made for it, and how many parts it could see.
fn selectors(container: &Arc<Container>, text: &str, after: Option<&str>) -> (Page, u64, u64) {
    let before = SELECTORS_MADE.get();
    let (query, plan) = planned(container, text, after);
    let is_small = plan.cost().is_small();
    let page = query.run(&plan).unwrap();
    let again = query.run(&plan).unwrap();
    assert_eq!((&page.rows, page.charge), (&again.rows, again.charge), "{text}, small: {is_small}");
    query.explain(&plan, Some(&page));
    let parts = plan.view.ranges.iter().map(|range| range.parts().len() as u64).sum();
    (page, SELECTORS_MADE.get() - before, parts)
}

#[test]
fn selectors_are_made_once_per_page() {
    let container = container();
    for text in [
        "SELECT * FROM c WHERE c.n = 1",
        "SELECT * FROM c WHERE c.n > 1 AND c.t = 't1'",
        "SELECT * FROM c WHERE c.t = 't1' ORDER BY c.n",
        "SELECT TOP 3 c.id FROM c WHERE c.n > 1 ORDER BY c.t DESC",
        "SELECT VALUE COUNT(1) FROM c WHERE c.t = 't2'",
        "SELECT VALUE MAX(c.n) FROM c WHERE c.t = 't2'",
        "SELECT c.t, COUNT(1) AS n FROM c WHERE c.n > 2 GROUP BY c.t",
        "SELECT DISTINCT c.t FROM c WHERE c.n > 2",
        "SELECT * FROM c WHERE CONTAINS(c.t, '1')",
        "SELECT * FROM c WHERE CONTAINS(c.t, '1') AND c.n > 1",
    ] {
        let (page, made, parts) = selectors(&container, text, None);
        assert!(0 < made && made <= parts, "{text}: {made} selectors for {parts} parts");
        let Some(token) = page.continuation else { continue };
        let (_, made, parts) = selectors(&container, text, Some(&token));
        assert!(made <= parts, "page 2 of {text}: {made} selectors for {parts} parts");
    }
}

#[test]
fn a_plan_can_be_run_on_another_thread() {
    let container = container();
    let (query, plan) = planned(&container, "SELECT VALUE c.n FROM c WHERE c.n = 3", None);
    let here = query.run(&plan).unwrap();
    let there = std::thread::spawn(move || query.run(&plan).unwrap()).join().unwrap();
    assert_eq!((here.rows, here.charge), (there.rows, there.charge));
}
