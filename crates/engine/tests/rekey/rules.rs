//! What goes with the name, what stays, what stands against a re-key, and who writes during a swap.

use super::support::{Bench, begin as begin_txn, commit, create_container, rows, value};
use super::{PATIENCE, begin, bench, check, follow, items, wish};
use armilla_engine::Container;
use armilla_engine::account::{NewContainer, NewPermission, NewScript};
use armilla_engine::items::WriteOptions;
use armilla_engine::offers::Throughput;
use armilla_engine::scripts::Kind;
use armilla_engine::users::Mode;
use armilla_model::Error;
use armilla_model::partition_key::PartitionKey;
use armilla_storage::{Direction, KeyRange, Keyspace, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Notes of where the copies of a re-key lie.
fn notes(bench: &Bench, target: &Container) -> usize {
    let prefix = [&[b'Y'][..], &target.number.to_be_bytes()].concat();
    let range = KeyRange::prefix(&prefix);
    let snapshot = bench.store.snapshot();
    snapshot.page(Keyspace::Meta, &range, Direction::Forward, usize::MAX).unwrap().len()
}

fn filled(count: u64) -> Bench {
    let bench = bench();
    for number in 0..count {
        let (pk, k) = (number % 7, number % 5);
        bench.upsert(&format!(
            r#"{{"id":"i{number}","pk":"p{pk}","k":"k{k}","u":{number},"n":{number}.0}}"#
        ));
    }
    bench
}

#[test]
fn items_keep_their_versions_times_and_texts() {
    let bench = filled(50);
    let before = items(&bench.container);
    let target = begin(&bench);
    assert_eq!(&*target.settings().name, "c-rekey");
    follow(&bench.account);
    assert_eq!(check(&bench.account, &bench.container).unwrap(), (50, 0, Vec::new()));
    let status = bench.account.rekey_status(&bench.container).unwrap();
    assert!(status.is_following && status.failure.is_none());
    let swapped = bench.account.swap_rekey(&bench.container, None).unwrap();
    assert!(Arc::ptr_eq(&swapped, &target));
    assert_eq!(items(&swapped), before);
    assert!(Arc::ptr_eq(&swapped, &bench.account.container("d", "c").unwrap()));
    let old = bench.account.container("d", "c-before-rekey").unwrap();
    assert!(Arc::ptr_eq(&old, &bench.container));
    assert_eq!(items(&old), before);
    // Under its new key an item is found by it, and written.
    let new = bench.beside(swapped);
    new.upsert(r#"{"id":"new","pk":"p1","k":"k9","u":"new"}"#);
    assert_eq!(rows(&new.container, "SELECT * FROM c WHERE c.k = 'k9'", 10, |_| {}).len(), 1);
    // Notes are removed, and everything agrees.
    assert_eq!(notes(&bench, &target), 50);
    bench.account.clean_up().unwrap();
    assert_eq!(notes(&bench, &target), 0);
    bench.verify();
    assert!(matches!(bench.account.rekey_status(&bench.container), Err(Error::NotFound(_))));
}

#[test]
fn the_old_container_is_read_only_over_restarts_and_can_be_deleted() {
    let mut bench = filled(5);
    let target = begin(&bench);
    follow(&bench.account);
    bench.account.swap_rekey(&bench.container, Some("old")).unwrap();
    let write = |bench: &Bench| {
        let old = bench.account.container("d", "old").unwrap();
        let mut txn = begin_txn(&old, &PartitionKey::parse(r#"["p1"]"#).unwrap());
        let written = txn.upsert_item(br#"{"id":"x","pk":"p1"}"#, &WriteOptions::default());
        written.and_then(|_| commit(txn).map(drop))
    };
    // Who was on the way when it happened comes again, and finds the other one.
    assert!(matches!(write(&bench), Err(Error::Overloaded { .. })));
    bench.account.close().unwrap();
    let store = Arc::new(bench.store.fork());
    bench.reopen(store);
    let Err(Error::Forbidden(told)) = write(&bench) else {
        panic!("the old container was written")
    };
    assert!(told.contains("re-keyed"), "{told}");
    let old = bench.account.container("d", "old").unwrap();
    assert!(old.rekeyed_into().is_some());
    assert!(bench.account.begin_rekey(&old, &wish()).is_err());
    assert_eq!(bench.account.container("d", "c").unwrap().document_count(), 5);
    assert_eq!(notes(&bench, &target), 5, "the server was gone before they were removed");
    bench.account.delete_container(&old, None).unwrap();
    bench.account.clean_up().unwrap();
    assert_eq!(notes(&bench, &target), 0);
    bench.verify();
}

#[test]
fn scripts_subscriptions_and_offers_go_with_the_name() {
    const COUNT: &str = r#"function (entries) {
        var all = getContext().getCollection();
        entries.forEach(function (entry) {
            all.upsertDocument(all.getSelfLink(), { id: "seen-" + entry.id, pk: "p1", k: entry.item.k, u: entry.key, type: "seen" });
        });
    }"#;
    let bench = bench();
    let script = NewScript { kind: Kind::Procedure, name: "count", body: COUNT, trigger: None };
    bench.account.create_script(&bench.container, &script, false).unwrap();
    let subscription =
        r#"{"id":"s","target":{"kind":"sproc","id":"count"},"filter":{"where":"c.type = 'e'"}}"#;
    bench.account.create_subscription(&bench.container, &value(subscription)).unwrap();
    bench.upsert(r#"{"id":"1","pk":"p1","k":"k1","u":1,"type":"e"}"#);
    assert!(bench.account.settle_subscriptions(PATIENCE));
    begin(&bench);
    // Not yet delivered: a swap waits for it, in vain while nobody runs subscriptions.
    bench.upsert(r#"{"id":"2","pk":"p1","k":"k1","u":2,"type":"e"}"#);
    follow(&bench.account);
    let refused = bench.account.swap_rekey(&bench.container, None).err().unwrap();
    assert!(matches!(&refused, Error::Conflict(told) if told.contains("'s'")), "{refused:?}");
    assert!(bench.account.settle_subscriptions(PATIENCE));
    let swapped = bench.account.swap_rekey(&bench.container, None).unwrap();
    assert!(swapped.script(Kind::Procedure, "count").is_ok());
    let new = bench.beside(swapped.clone());
    new.upsert(r#"{"id":"3","pk":"p1","k":"k1","u":3,"type":"e"}"#);
    assert!(bench.account.settle_subscriptions(PATIENCE));
    let seen =
        rows(&swapped, "SELECT VALUE c.id FROM c WHERE c.type = 'seen' ORDER BY c.id", 10, |_| {});
    let seen: Vec<_> = seen.iter().map(|id| id.as_str().unwrap()).collect();
    assert_eq!(seen, ["seen-1", "seen-2", "seen-3"], "each once, before and after the swap");
}

#[test]
fn throughput_dials_and_policies_are_those_of_the_source() {
    let bench = Bench::new(super::SOURCE, |options| options.background = false);
    let definition = value(
        r#"{"id":"rich","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":500,
            "indexingPolicy":{"includedPaths":[{"path":"/k/?"}],"excludedPaths":[{"path":"/*"}]},
            "computedProperties":[{"name":"low","query":"SELECT VALUE LOWER(c.k) FROM c"}],
            "changeFeedPolicy":{"retentionDuration":600}}"#,
    );
    let throughput = Some(Throughput::Manual(1200));
    let new = NewContainer { definition: &definition, throughput };
    let source = bench.account.create_container("d", &new).unwrap();
    let target = bench.account.begin_rekey(&source, &wish()).unwrap();
    let catalog = bench.account.catalog();
    assert_eq!(catalog.offer_of(&target.self_link).unwrap().throughput, Throughput::Manual(1200));
    let (of, copied) = (source.settings(), target.settings());
    assert_eq!(of.policy.default_ttl, copied.policy.default_ttl);
    for name in ["indexingPolicy", "computedProperties", "changeFeedPolicy"] {
        let text = |settings: &armilla_engine::ContainerSettings| {
            settings.policy.definition.get(name).unwrap().to_json()
        };
        assert_eq!(text(&of), text(&copied), "{name}");
    }
    // The source stays as it is until it is over; the target may get another index, but no other life.
    let replaced = bench.account.replace_container(&source, &definition, None);
    assert!(matches!(replaced, Err(Error::Conflict(_))));
    assert!(bench.account.delete_container(&source, None).is_err());
    let other = |ttl: u32| {
        value(&format!(
            r#"{{"id":"rich-rekey","partitionKey":{{"paths":["/k"],"kind":"Hash","version":2}},"defaultTtl":{ttl}}}"#
        ))
    };
    assert!(bench.account.replace_container(&target, &other(5), None).is_err());
    bench.account.replace_container(&target, &other(500), None).unwrap();
    bench.account.undo_rekey(&source).unwrap();
    bench.account.replace_container(&source, &definition, None).unwrap();
}

#[test]
fn items_end_when_they_would_have_ended() {
    let bench = bench();
    bench.upsert(r#"{"id":"1","pk":"p","k":"k","u":1,"ttl":100}"#);
    bench.upsert(r#"{"id":"2","pk":"p","k":"k","u":2,"ttl":300}"#);
    begin(&bench);
    bench.clock.advance(Duration::from_secs(50));
    follow(&bench.account);
    bench.clock.advance(Duration::from_secs(60));
    bench.account.clean_up().unwrap();
    follow(&bench.account);
    let swapped = bench.account.swap_rekey(&bench.container, None).unwrap();
    assert_eq!(swapped.document_count(), 1);
    bench.clock.advance(Duration::from_secs(200));
    assert!(
        rows(&swapped, "SELECT * FROM c", 10, |_| {}).is_empty(),
        "its time has not begun anew"
    );
    bench.account.clean_up().unwrap();
    assert_eq!(swapped.document_count(), 0);
    bench.verify();
}

#[test]
fn permissions_for_everything_follow_the_name_and_narrow_ones_stay() {
    let bench = filled(3);
    let account = &bench.account;
    account.create_user("d", "u", false).unwrap();
    let permit = |name: &str, resource: &str, key: Option<&str>| {
        let partition_key = key.map(|key| PartitionKey::parse(key).unwrap());
        let new = NewPermission {
            name,
            mode: Mode::All,
            spelling: "All".into(),
            resource,
            partition_key,
        };
        account.create_permission("d", "u", new, false).unwrap();
    };
    permit("whole", "dbs/d/colls/c", None);
    permit("key", "dbs/d/colls/c", Some(r#"["p1"]"#));
    permit("item", "dbs/d/colls/c/docs/i1", Some(r#"["p1"]"#));
    permit("other", "dbs/d/colls/else", Some(r#"["p1"]"#));
    begin(&bench);
    follow(account);
    account.swap_rekey(&bench.container, None).unwrap();
    let resource = |name: &str| {
        let database = account.database("d").unwrap();
        database.user("u").unwrap().permissions.get(name).unwrap().resource.to_string()
    };
    assert_eq!(resource("whole"), "dbs/d/colls/c");
    // Under the new key, ["p1"] would be another logical partition.
    assert_eq!(resource("key"), "dbs/d/colls/c-before-rekey");
    assert_eq!(resource("item"), "dbs/d/colls/c-before-rekey/docs/i1");
    assert_eq!(resource("other"), "dbs/d/colls/else");
}

#[test]
fn items_that_would_be_one_hold_it_up_until_one_of_them_goes() {
    let bench = bench();
    for (pk, u) in [("p1", 1), ("p2", 2)] {
        bench.upsert(&format!(r#"{{"id":"same","pk":"{pk}","k":"k","u":{u}}}"#));
    }
    begin(&bench);
    bench.account.follow_views();
    let failure = bench.account.rekey_status(&bench.container).unwrap().failure.unwrap();
    assert!(
        failure.contains("'same' of [\"p2\"]") && failure.contains("'same' of [\"p1\"]"),
        "{failure}"
    );
    let refused = bench.account.swap_rekey(&bench.container, None).err().unwrap();
    assert!(matches!(&refused, Error::Conflict(told) if told.contains("same id")), "{refused:?}");
    // Nothing was changed: the container is written on.
    bench.upsert(r#"{"id":"same","pk":"p2","k":"other","u":2}"#);
    follow(&bench.account);
    assert_eq!(check(&bench.account, &bench.container).unwrap(), (2, 0, Vec::new()));
    // The same for a unique key, which holds inside a logical partition.
    bench.upsert(r#"{"id":"x","pk":"p3","k":"k","u":1}"#);
    bench.account.follow_views();
    let failure = bench.account.rekey_status(&bench.container).unwrap().failure.unwrap();
    assert!(failure.contains("unique key"), "{failure}");
    let key = PartitionKey::parse(r#"["p1"]"#).unwrap();
    bench.change(&key, |txn| drop(txn.delete_item("same", &WriteOptions::default()).unwrap()));
    follow(&bench.account);
    bench.account.swap_rekey(&bench.container, None).unwrap();
    bench.verify();
}

/// One item leaves a place and another takes it; the entry of the first comes pages later, because it was written again.
#[test]
fn places_and_unique_values_change_hands_across_pages() {
    let bench = bench();
    bench.upsert(r#"{"id":"x","pk":"p1","k":"k1","u":"one"}"#);
    bench.upsert(r#"{"id":"x","pk":"p2","k":"k2","u":"two"}"#);
    bench.upsert(r#"{"id":"y","pk":"p3","k":"k1","u":"three"}"#);
    begin(&bench);
    follow(&bench.account);
    // Both the place of the first item and its unique value go to another one.
    bench.upsert(r#"{"id":"x","pk":"p1","k":"k3","u":"one"}"#);
    bench.upsert(r#"{"id":"x","pk":"p2","k":"k1","u":"two"}"#);
    bench.upsert(r#"{"id":"y","pk":"p3","k":"k1","u":"one"}"#);
    for number in 0..700 {
        bench.upsert(&format!(
            r#"{{"id":"f{number}","pk":"f","k":"f{}","u":{number}}}"#,
            number % 9
        ));
    }
    bench.upsert(r#"{"id":"x","pk":"p1","k":"k3","u":"one","again":true}"#);
    bench.account.follow_views();
    assert_eq!(bench.account.rekey_status(&bench.container).unwrap().failure, None);
    follow(&bench.account);
    assert_eq!(check(&bench.account, &bench.container).unwrap(), (703, 0, Vec::new()));
    let swapped = bench.account.swap_rekey(&bench.container, None).unwrap();
    assert_eq!(items(&swapped), items(&bench.container));
    bench.verify();
}

#[test]
fn what_stands_against_it_is_said() {
    let bench = filled(3);
    let (account, source) = (&bench.account, &bench.container);
    let same = value(r#"{"paths":["/pk"],"kind":"Hash","version":2}"#);
    let same = armilla_engine::account::NewRekey { partition_key: same, ..wish() };
    assert!(matches!(account.begin_rekey(source, &same), Err(Error::BadRequest(_))));
    for error in [account.undo_rekey(source).err(), account.swap_rekey(source, None).err()] {
        assert!(matches!(error, Some(Error::NotFound(_))), "{error:?}");
    }
    let target = begin(&bench);
    // The same again goes on with it, another key does not.
    assert!(Arc::ptr_eq(&begin(&bench), &target));
    let other = value(r#"{"paths":["/n"],"kind":"Hash","version":2}"#);
    let other = armilla_engine::account::NewRekey { partition_key: other, ..wish() };
    assert!(matches!(account.begin_rekey(source, &other), Err(Error::Conflict(_))));
    assert!(account.begin_rekey(&target, &wish()).is_err());
    // It is written by the server alone.
    let mut txn = begin_txn(&target, &PartitionKey::parse(r#"["k1"]"#).unwrap());
    let written = txn.upsert_item(br#"{"id":"x","k":"k1"}"#, &WriteOptions::default());
    assert!(matches!(written, Err(Error::Forbidden(_))));
    drop(txn);
    // Views would go on following the old container.
    let view = r#"{"id":"v","partitionKey":{"paths":["/k"],"kind":"Hash","version":2},
        "materializedViewDefinition":{"sourceCollectionId":"c","definition":"SELECT c.k FROM c"}}"#;
    let definition = value(view);
    let new = NewContainer { definition: &definition, throughput: None };
    let view = account.create_container("d", &new).unwrap();
    follow(account);
    let refused = account.swap_rekey(source, None).err().unwrap();
    assert!(matches!(&refused, Error::Conflict(told) if told.contains("'v'")), "{refused:?}");
    account.delete_container(&view, None).unwrap();
    create_container(account, r#"{"id":"taken","partitionKey":{"paths":["/a"]}}"#);
    let refused = account.swap_rekey(source, Some("taken")).err().unwrap();
    assert!(matches!(&refused, Error::Conflict(told) if told.contains("'taken'")), "{refused:?}");
    // Given up, everything is as it was, and it can begin again.
    account.undo_rekey(source).unwrap();
    bench.upsert(r#"{"id":"later","pk":"p1","k":"k1","u":"later"}"#);
    begin(&bench);
    follow(account);
    account.swap_rekey(source, None).unwrap();
    assert_eq!(account.container("d", "c").unwrap().document_count(), 4);
}

/// Eight writers never stop; what was acknowledged, by the old container or the new one, is in the new one.
#[test]
fn nothing_that_was_acknowledged_during_a_swap_is_lost() {
    let bench = Bench::new(super::SOURCE, |_| {});
    begin(&bench);
    let (over, put_off) = (AtomicBool::new(false), AtomicU64::new(0));
    let account = &bench.account;
    let acknowledged: Vec<u64> = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8_u64)
            .map(|writer| {
                let (over, put_off) = (&over, &put_off);
                scope.spawn(move || {
                    let (mut number, mut done) = (writer, Vec::new());
                    while !over.load(Ordering::SeqCst) {
                        let container = account.container("d", "c").unwrap();
                        let item = format!(
                            r#"{{"id":"i{number}","pk":"p{}","k":"k{}","u":{number}}}"#,
                            number % 5,
                            number % 3
                        );
                        let key = PartitionKey::of_item(&value(&item), container.key_definition());
                        let mut txn = begin_txn(&container, &key);
                        let written = txn.create_item(item.as_bytes(), &WriteOptions::default());
                        match written.and_then(|_| commit(txn)) {
                            Ok(_) => {
                                done.push(number);
                                number += 8;
                            }
                            Err(Error::Overloaded { .. }) => {
                                put_off.fetch_add(1, Ordering::SeqCst);
                                // Pause: between two looks.
                                std::thread::sleep(Duration::from_millis(1));
                            }
                            Err(error) => panic!("{error:?}"),
                        }
                    }
                    done
                })
            })
            .collect();
        let begun = Instant::now();
        while bench.container.document_count() < 300 {
            assert!(begun.elapsed() < PATIENCE);
            // Pause: between two looks.
            std::thread::sleep(Duration::from_millis(1));
        }
        let swapped = account.swap_rekey(&bench.container, None).unwrap();
        let before = swapped.document_count();
        while swapped.document_count() < before + 50 {
            assert!(begun.elapsed() < PATIENCE, "nobody writes to the new container");
            // Pause: between two looks.
            std::thread::sleep(Duration::from_millis(1));
        }
        over.store(true, Ordering::SeqCst);
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect()
    });
    let new = account.container("d", "c").unwrap();
    let stored = rows(&new, "SELECT VALUE c.u FROM c", 1000, |_| {});
    let mut stored: Vec<u64> = stored.iter().map(|u| u.as_i64().unwrap() as u64).collect();
    let mut acknowledged = acknowledged;
    stored.sort_unstable();
    acknowledged.sort_unstable();
    assert_eq!(stored, acknowledged, "{} were put off", put_off.load(Ordering::SeqCst));
    bench.verify();
}
