//! What is allowed of views, and what they show.

use super::support::{Bench, begin, commit, rows, value};
use super::{check_equal, create_view, follow};
use armilla_engine::account::NewContainer;
use armilla_engine::items::WriteOptions;
use armilla_engine::items::patch::Patch;
use armilla_engine::views::{Followed, Status};
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Error, Result};
use std::sync::Arc;

const SOURCE: &str =
    r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":-1}"#;

fn bench() -> Bench {
    Bench::new(SOURCE, |_| {})
}

fn extended() -> Bench {
    Bench::new(SOURCE, |options| options.dials.turn("views", "extended").unwrap())
}

fn status<T>(outcome: Result<T>) -> &'static str {
    match outcome {
        Ok(_) => "ok",
        Err(Error::Forbidden(_)) => "forbidden",
        Err(Error::BadRequest(_) | Error::QuerySyntax(_)) => "bad request",
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn a_view_is_built_and_then_follows() {
    let bench = bench();
    for number in 0..1000 {
        bench.upsert(&format!(r#"{{"id":"{number}","pk":"{}","k":{}}}"#, number % 7, number % 11));
    }
    let view = create_view(&bench.account, ("v", "/k"), "c", "SELECT c.id, c.k FROM c").unwrap();
    assert_eq!(view.view().unwrap().status(), Status::Building { percent: 0, restored: false });
    assert!(bench.container.view_lag(view.view().unwrap()).transactions >= 1000);
    bench.account.follow_views();
    let building = view.view().unwrap().status();
    assert!(matches!(building, Status::Building { percent: 1..=99, .. }), "{building:?}");
    follow(&bench);
    assert_eq!(view.view().unwrap().status(), Status::Active);
    assert_eq!(bench.container.view_lag(view.view().unwrap()), Default::default());
    assert_eq!(view.document_count(), 1000);
    check_equal(&bench.container, &view);

    // A change, a move of the key, a removal, and an item whose key is missing.
    bench.upsert(r#"{"id":"1","pk":"1","k":1,"other":true}"#);
    bench.upsert(r#"{"id":"2","pk":"2","k":"elsewhere"}"#);
    bench.upsert(r#"{"id":"3","pk":"3"}"#);
    let key = PartitionKey::parse(r#"["4"]"#).unwrap();
    bench.change(&key, |txn| txn.delete_item("4", &WriteOptions::default()).unwrap());
    bench.clock.advance(std::time::Duration::from_secs(5));
    assert_eq!(bench.container.view_lag(view.view().unwrap()).seconds, 5);
    assert_eq!(view.view().unwrap().status(), Status::Active, "for good");
    follow(&bench);
    check_equal(&bench.container, &view);
    assert_eq!(view.document_count(), 999);
    bench.verify();
}

#[test]
fn expired_items_leave_a_view_and_ttl_is_only_a_value_there() {
    let bench = bench();
    let body = value(
        r#"{"id":"v","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":-1,
            "globalSecondaryIndexDefinition":{"sourceCollectionId":"c","definition":"SELECT * FROM c"}}"#,
    );
    let new = armilla_engine::account::NewContainer { definition: &body, throughput: None };
    let view = bench.account.create_container("d", &new).unwrap();
    bench.upsert(r#"{"id":"a","pk":"p","ttl":10}"#);
    bench.upsert(r#"{"id":"b","pk":"p","ttl":-1}"#);
    follow(&bench);
    assert_eq!(view.document_count(), 2);
    bench.clock.advance(std::time::Duration::from_secs(11));
    bench.account.clean_up().unwrap();
    follow(&bench);
    assert_eq!(view.document_count(), 1);
    check_equal(&bench.container, &view);
}

#[test]
fn nothing_is_written_to_a_view() {
    let bench = bench();
    let view = create_view(&bench.account, ("v", "/k"), "c", "SELECT * FROM c").unwrap();
    bench.upsert(r#"{"id":"a","pk":"p","k":1}"#);
    follow(&bench);
    let id =
        super::rows(&view, "SELECT VALUE c.id FROM c", 10, |_| {})[0].as_str().unwrap().to_owned();
    let options = WriteOptions::default();
    let body = format!(r#"{{"id":"{id}","k":1}}"#);
    let patch = Patch::new(None, Vec::new());
    let key = PartitionKey::parse("[1]").unwrap();
    for id in [id.as_str(), "missing"] {
        let mut txn = begin(&view, &key);
        assert_eq!(status(txn.create_item(body.as_bytes(), &options)), "forbidden");
        assert_eq!(status(txn.upsert_item(body.as_bytes(), &options)), "forbidden");
        assert_eq!(status(txn.replace_item(id, body.as_bytes(), &options)), "forbidden");
        if let Ok(patch) = &patch {
            assert_eq!(status(txn.patch_item(id, patch, &options)), "forbidden");
        }
        assert_eq!(status(txn.delete_item(id, &options)), "forbidden");
        assert_eq!(status(txn.delete_partition()), "forbidden");
        assert!(txn.is_clean());
        commit(txn).unwrap();
    }
    check_equal(&bench.container, &view);
}

#[test]
fn definitions_are_tied_to_their_source() {
    let bench = bench();
    let account = &bench.account;
    let named = |name: &str| account.container("d", name).unwrap();
    let create = |name: &str, source: &str, definition: &str| {
        create_view(account, (name, "/k"), source, definition)
    };
    assert_eq!(status(create("v", "nobody", "SELECT * FROM c")), "bad request");
    assert_eq!(status(create("v", "c", "SELECT VALUE c FROM c")), "bad request");
    for number in 0..5 {
        create(&format!("v{number}"), "c", "SELECT * FROM c").unwrap();
    }
    assert_eq!(status(create("v5", "c", "SELECT * FROM c")), "bad request");
    assert_eq!(status(create("v5", "v1", "SELECT * FROM c")), "bad request");
    assert_eq!(bench.container.views().len(), 5);

    assert_eq!(status(account.delete_container(&bench.container, None)), "bad request");
    let replace = |body: &str| status(account.replace_container(&named("v1"), &value(body), None));
    let key = r#""partitionKey":{"paths":["/k"],"kind":"Hash","version":2}"#;
    assert_eq!(replace(&format!(r#"{{"id":"v1",{key}}}"#)), "ok");
    let defined = |text: &str| {
        format!(
            r#"{{"id":"v1",{key},"globalSecondaryIndexDefinition":{{"sourceCollectionId":"c","definition":"{text}","status":"Active"}}}}"#
        )
    };
    assert_eq!(replace(&defined("SELECT * FROM c")), "ok");
    assert_eq!(replace(&defined("SELECT c.k FROM c")), "bad request");
    assert_eq!(replace(&format!(r#"{{"id":"v1",{key},"defaultTtl":60}}"#)), "bad request");
    let view = account.container("d", "v1").unwrap();
    assert!(view.settings().policy.definition.contains("globalSecondaryIndexDefinition"));

    for number in 0..5 {
        account.delete_container(&named(&format!("v{number}")), None).unwrap();
    }
    assert!(bench.container.views().is_empty());
    account.delete_container(&bench.container, None).unwrap();
}

#[test]
fn what_a_view_has_not_seen_is_kept_for_it() {
    let bench = bench();
    let view = create_view(&bench.account, ("v", "/k"), "c", "SELECT * FROM c").unwrap();
    let key = PartitionKey::parse(r#"["p"]"#).unwrap();
    for number in 0..50 {
        bench.upsert(&format!(r#"{{"id":"{number}","pk":"p","k":{number}}}"#));
    }
    follow(&bench);
    for number in 0..40 {
        let id = number.to_string();
        bench.change(&key, |txn| txn.delete_item(&id, &WriteOptions::default()).unwrap());
        bench.account.clean_up().unwrap();
    }
    follow(&bench);
    check_equal(&bench.container, &view);
    assert_eq!(view.document_count(), 10);
}

#[test]
fn the_dial_allows_conditions_names_and_one_level_more() {
    let bench = extended();
    let account = &bench.account;
    let define = "SELECT c.k AS colour, c.n FROM c WHERE c.n > 3";
    let some = create_view(account, ("some", "/colour"), "c", define).unwrap();
    let again =
        create_view(account, ("again", "/n"), "some", "SELECT c.n, c.colour FROM c").unwrap();
    let third = create_view(account, ("third", "/n"), "again", "SELECT * FROM c");
    assert_eq!(status(third), "bad request");
    for number in 0..20 {
        bench
            .upsert(&format!(r#"{{"id":"{number}","pk":"p","k":"k{}","n":{number}}}"#, number % 3));
    }
    follow(&bench);
    assert_eq!((some.document_count(), again.document_count()), (16, 16));
    bench.upsert(r#"{"id":"7","pk":"p","k":"k1","n":0}"#);
    bench.upsert(r#"{"id":"1","pk":"p","k":"k9","n":100}"#);
    bench.upsert(r#"{"id":"8","pk":"p","k":"k9","n":8}"#);
    follow(&bench);
    check_equal(&bench.container, &some);
    check_equal(&some, &again);
    assert_eq!(status(account.delete_container(&some, None)), "bad request");
}

#[test]
fn a_capped_view_keeps_the_first_items_of_each_key() {
    let bench = extended();
    let define = "SELECT TOP 100 c.at, c.k FROM c ORDER BY c.at DESC";
    let view = create_view(&bench.account, ("newest", "/k"), "c", define).unwrap();
    for number in 0..250 {
        bench.upsert(&format!(r#"{{"id":"{number}","pk":"p","k":{},"at":{number}}}"#, number % 2));
    }
    follow(&bench);
    assert_eq!(view.document_count(), 200);
    check_equal(&bench.container, &view);
    // One of the newest goes, and the next takes its place; an old one becomes the newest.
    let key = PartitionKey::parse(r#"["p"]"#).unwrap();
    bench.change(&key, |txn| txn.delete_item("249", &WriteOptions::default()).unwrap());
    bench.upsert(r#"{"id":"0","pk":"p","k":0,"at":1000}"#);
    follow(&bench);
    check_equal(&bench.container, &view);
    // Those that move away leave room, too.
    for number in 100..240 {
        bench.upsert(&format!(r#"{{"id":"{number}","pk":"p","k":2,"at":{number}}}"#));
    }
    follow(&bench);
    check_equal(&bench.container, &view);
    assert_eq!(view.document_count(), 55 + 54 + 100);
    bench.verify();
}

#[test]
fn a_large_source_is_split_and_restarted_in_the_middle_of_the_build() {
    let mut bench = bench();
    for key in 0..100 {
        let of_key = PartitionKey::parse(&format!(r#"["{key}"]"#)).unwrap();
        bench.change(&of_key, |txn| {
            for number in 0..100 {
                let k = (key * 7 + number) % 40;
                let item = format!(r#"{{"id":"{number}","pk":"{key}","k":{k}}}"#);
                txn.create_item(item.as_bytes(), &WriteOptions::default()).unwrap();
            }
        });
    }
    create_view(&bench.account, ("v", "/k"), "c", "SELECT c.id, c.pk, c.k FROM c").unwrap();
    for step in 0..3 {
        for _ in 0..3 {
            bench.account.follow_views();
        }
        let view = bench.account.container("d", "v").unwrap();
        let status = view.view().unwrap().status();
        assert!(matches!(status, Status::Building { .. }), "{step}: {status:?}");
        match step {
            0 => bench.scale_to(3),
            1 => bench.beside(view).scale_to(2),
            _ => {
                bench.account.close().unwrap();
                let store = std::sync::Arc::new(bench.store.fork());
                bench.reopen(store);
            }
        }
    }
    follow(&bench);
    let view = bench.account.container("d", "v").unwrap();
    assert_eq!(view.view().unwrap().status(), Status::Active);
    assert_eq!(view.document_count(), 10_000);
    check_equal(&bench.container, &view);
}

/// A view gathers under one key what its source holds under many. Refused, it would stop for good.
#[test]
fn a_view_holds_more_of_one_key_than_clients_may_write() {
    let bench = Bench::new(SOURCE, |options| options.logical_partition_size = 10_000);
    let view = create_view(&bench.account, ("v", "/k"), "c", "SELECT * FROM c").unwrap();
    let item = |number: u32, k: u32| {
        let padding = "x".repeat(400);
        format!(r#"{{"id":"{number}","pk":"{number}","k":{k},"padding":"{padding}"}}"#)
    };
    (0..10).for_each(|number| drop(bench.upsert(&item(number, number))));
    follow(&bench);
    (0..60).for_each(|number| drop(bench.upsert(&item(number, 7))));
    follow(&bench);
    check_equal(&bench.container, &view);
    (5..60).for_each(|number| drop(bench.upsert(&item(number, number))));
    follow(&bench);
    check_equal(&bench.container, &view);
    bench.verify();
}

/// What was found by its `_rid` was found by its name before, if another container had that for a name.
#[test]
fn a_container_called_by_the_rid_of_another_is_not_taken_for_it() {
    let mut bench = bench();
    let account = bench.account.clone();
    let source_rid = bench.container.rid_text.to_string();
    let impostor = value(&format!(
        r#"{{"id":"{source_rid}","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}}}}"#
    ));
    let new = NewContainer { definition: &impostor, throughput: None };
    let impostor = account.create_container("d", &new).unwrap();
    let view = create_view(&account, ("v", "/k"), "c", "SELECT * FROM c").unwrap();
    let gone = create_view(&account, ("gone", "/k"), "c", "SELECT * FROM c").unwrap();
    account.delete_container(&gone, None).unwrap();
    assert_eq!(bench.container.views().len(), 1);

    bench.upsert(r#"{"id":"1","pk":"p","k":1}"#);
    follow(&bench);
    check_equal(&bench.container, &view);
    drop((account, impostor, view, gone));
    bench.restart();
    bench.upsert(r#"{"id":"2","pk":"p","k":2}"#);
    follow(&bench);
    let account = bench.account.clone();
    let view = account.container("d", "v").unwrap();
    check_equal(&bench.container, &view);

    account.delete_container(&view, None).unwrap();
    account.delete_container(&bench.container, None).unwrap();
    let left = account.database("d").unwrap();
    let left: Vec<_> = left.containers.keys().map(|name| name.to_string()).collect();
    assert_eq!(left, [source_rid]);
}

#[test]
fn system_properties_are_neither_copied_nor_keys() {
    let bench = extended();
    let create = |key: &str, definition: &str| {
        status(create_view(&bench.account, ("v", key), "c", definition))
    };
    assert_eq!(create("/_ts", "SELECT * FROM c"), "bad request");
    assert_eq!(create("/_etag/x", "SELECT * FROM c"), "bad request");
    assert_eq!(create("/k", "SELECT c.k, c._ts FROM c"), "bad request");
    assert_eq!(create("/k", "SELECT c.k, c.at AS _etag FROM c"), "bad request");
    assert_eq!(create("/k", "SELECT c.k, c.s AS s1, c.s AS s2 FROM c"), "bad request");
    let many: Vec<String> = (0..1001).map(|number| format!("c.p{number}")).collect();
    assert_eq!(create("/k", &format!("SELECT {} FROM c", many.join(", "))), "bad request");
    assert_eq!(create("/changed", "SELECT c.k, c._ts AS changed FROM c"), "ok");
}

/// The condition would take hours on this item, and one thread keeps all views up.
#[test]
fn an_item_on_which_the_condition_takes_too_long_is_left_out() {
    let bench = extended();
    let define = "SELECT c.k FROM c WHERE (SELECT VALUE COUNT(1) FROM x IN c.a JOIN y IN c.a JOIN z IN c.a) > 0";
    let view = create_view(&bench.account, ("v", "/k"), "c", define).unwrap();
    let large: Vec<String> = (0..2000).map(|number| number.to_string()).collect();
    bench.upsert(&format!(r#"{{"id":"1","pk":"p","k":1,"a":[{}]}}"#, large.join(",")));
    bench.upsert(r#"{"id":"2","pk":"p","k":2,"a":[1,2,3]}"#);
    follow(&bench);
    assert_eq!(view.document_count(), 1);
    check_equal(&bench.container, &view);
}

#[test]
fn a_key_that_is_locked_holds_up_its_own_view_alone() {
    let bench = bench();
    let held = create_view(&bench.account, ("held", "/k"), "c", "SELECT * FROM c").unwrap();
    let free = create_view(&bench.account, ("free", "/k"), "c", "SELECT * FROM c").unwrap();
    let key = PartitionKey::parse("[1]").unwrap();
    let epk = held.key_definition().epk(&key);
    let lock = held.lock_and_wait(&epk);
    bench.upsert(r#"{"id":"1","pk":"p","k":1}"#);
    while free.document_count() == 0 {
        assert_ne!(bench.account.follow_views(), Followed::Everything);
    }
    check_equal(&bench.container, &free);
    assert_eq!(held.document_count(), 0);

    // Its place in the queue is before whoever comes now.
    let (sender, receiver) = std::sync::mpsc::channel();
    held.lock(&epk, move |lock| {
        sender.send(lock).unwrap();
        None
    })
    .unwrap();
    drop(lock);
    assert!(receiver.try_recv().is_err());
    follow(&bench);
    check_equal(&bench.container, &held);
    drop(receiver.recv().unwrap());

    // A view that is deleted while it waits leaves the queue.
    let lock = held.lock_and_wait(&epk);
    bench.upsert(r#"{"id":"2","pk":"p","k":1}"#);
    assert_ne!(bench.account.follow_views(), Followed::Everything);
    bench.account.delete_container(&held, None).unwrap();
    drop(lock);
    drop(held.lock_and_wait(&epk));
}

#[test]
fn a_restored_view_is_gone_through_again() {
    let mut bench = Bench::new(SOURCE, |_| {});
    for number in 0..20 {
        bench.upsert(&format!(r#"{{"id":"{number}","pk":"p{}","k":"k"}}"#, number % 4));
    }
    let view = create_view(&bench.account, ("v", "/k"), "c", "SELECT c.id, c.k FROM c").unwrap();
    follow(&bench);
    assert_eq!(view.view().unwrap().status().word(), "Active");
    // The view has not seen these when the backup is taken.
    let key = bench.key_of(&value(r#"{"pk":"p1"}"#));
    bench.change(&key, |txn| drop(txn.delete_item("1", &WriteOptions::default()).unwrap()));
    bench.upsert(r#"{"id":"new","pk":"p1","k":"k"}"#);
    drop(view);
    bench.account.close().unwrap();
    let store = Arc::new(bench.store.fork());
    armilla_engine::restore::raise_heads(&*store).unwrap();
    bench.reopen(store);
    let view = bench.account.container("d", "v").unwrap();
    assert_eq!(view.view().unwrap().status().word(), "InitialBuildAfterRestore");
    follow(&bench);
    assert_eq!(view.view().unwrap().status().word(), "Active");
    check_equal(&bench.container, &view);
    bench.upsert(r#"{"id":"later","pk":"p2","k":"k"}"#);
    follow(&bench);
    check_equal(&bench.container, &view);
}

/// Written out and read again, a large double became the integer beside it.
#[test]
fn a_large_double_stays_a_double() {
    let bench = bench();
    let view = create_view(&bench.account, ("v", "/k"), "c", "SELECT * FROM c").unwrap();
    bench.upsert(r#"{"id":"1","pk":"p","k":1,"n":9007199254740993.0,"deep":[{"n":-1e16}]}"#);
    bench.upsert(r#"{"id":"2","pk":"p","k":1,"n":9007199254740993,"deep":[{"n":1.0}]}"#);
    follow(&bench);
    let query = "SELECT VALUE [c.n + 1, c.deep[0].n + 1, c.n] FROM c ORDER BY c.n";
    let of = |container| {
        let rows = rows(container, query, 10, |_| {});
        rows.iter().map(|row| row.to_json()).collect::<Vec<_>>()
    };
    assert_eq!(of(&view), of(&bench.container));
}
