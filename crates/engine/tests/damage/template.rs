//! A folder with acknowledged items, and what must be true of every copy of it.

use crate::check_named;
use crate::files::new_folder;
use crate::support::{self, FIRST_SECOND, commit, create_container, try_rows};
use armilla_engine::account::{NewRekey, NewScript};
use armilla_engine::feed::Start;
use armilla_engine::items::WriteOptions;
use armilla_engine::query::Access;
use armilla_engine::ranges::EpkSpan;
use armilla_engine::scripts::Kind;
use armilla_engine::views::Followed;
use armilla_engine::{Account, Container, Options, Txn};
use armilla_index::Limits;
use armilla_model::clock::ManualClock;
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::PartitionKey;
use armilla_model::{Value, json};
use armilla_storage::disk::{Disk, FolderDisk, OverlayDisk};
use armilla_storage::{EmbeddedOptions, EmbeddedStore, StoreError};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// How the server of a template was stopped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stop {
    Clean,
    Killed,
}

/// How a copy is opened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Opening {
    ReadOnly,
    Serve,
}

/// When damage was refused.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Refused {
    /// By the guard of the store: everything must be left as it was.
    ByGuard,
    /// By a read while the account was opened or served: by then the engine has written lists of files of its own.
    ByRead,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Outcome {
    /// With a name.
    Refused(Refused),
    Right,
}

pub(crate) struct Template {
    folder: TempDir,
    pub(crate) stop: Stop,
    /// Text of every acknowledged item by partition key and id.
    items: BTreeMap<(u64, u64), String>,
    /// What a view of them shows: it has not seen the last deletes.
    shown: Vec<String>,
    /// Entries that a subscription has delivered.
    delivered: i64,
}

const ITEMS: u64 = 60;
/// Items of containers that get another key.
const REKEYED: u64 = 6;

impl Template {
    pub(crate) fn new(stop: Stop) -> Self {
        let folder = new_folder();
        let (items, shown) = (BTreeMap::new(), Vec::new());
        let mut template = Self { folder, stop, items, shown, delivered: 0 };
        let account = open(template.path(), Opening::Serve, None).unwrap();
        account.create_database("d", None).unwrap();
        let container = create_container(
            &account,
            r#"{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":-1,
                "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/mail"]}]}}"#,
        );
        create_container(
            &account,
            r#"{"id":"v","partitionKey":{"paths":["/word"],"version":2},"materializedViewDefinition":
                {"sourceCollectionId":"c","definition":"SELECT c.id, c.word FROM c"}}"#,
        );
        (0..ITEMS).for_each(|id| template.put(&container, id, "first"));
        subscribe(&account, &container);
        begin_rekeys(&account);
        follow(&account);
        let swapped = account.container("d", "swapped").unwrap();
        account.swap_rekey(&swapped, None).unwrap();
        drop(swapped);
        drop(container);
        account.close().unwrap();
        drop(account);
        // A second run changes some, deletes some and adds some.
        let account = open(template.path(), Opening::Serve, None).unwrap();
        let container = account.container("d", "c").unwrap();
        (0..ITEMS / 3).for_each(|id| template.put(&container, id, "second"));
        (ITEMS..ITEMS + 10).for_each(|id| template.put(&container, id, "new"));
        follow(&account);
        let shown = template.items.iter().map(|((_, id), word)| format!("{id} {word}"));
        template.shown = shown.collect();
        template.shown.sort();
        template.delivered = delivered(&account, &container).unwrap();
        assert!(template.delivered > 0);
        (10..15).for_each(|id| template.delete(&container, id));
        drop(container);
        if stop == Stop::Clean {
            account.close().unwrap();
        }
        drop(account);
        // The advisor's own file: whatever happens to it, the data is none of it. What the advisor does about it is tested there.
        std::fs::create_dir(template.path().join("advice")).unwrap();
        let observed = b"ARMOBS1\n\x02\0\0\0\x43\xbd\xd7\x43{}";
        std::fs::write(template.path().join("advice/observed"), observed).unwrap();
        let healthy = template.check(template.path(), Opening::ReadOnly, "untouched");
        assert_eq!(healthy, Outcome::Right, "an untouched folder");
        template
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn put(&mut self, container: &Arc<Container>, id: u64, word: &str) {
        let pk = id % 5;
        let text = format!(
            r#"{{"id":"{id}","pk":{pk},"mail":"m{id}","word":"{word}","ttl":100000,"padding":"{}"}}"#,
            "x".repeat(100)
        );
        let mut txn = begin(container, pk);
        txn.upsert_item(text.as_bytes(), &WriteOptions::default()).unwrap();
        commit(txn).unwrap();
        self.items.insert((pk, id), word.to_owned());
    }

    fn delete(&mut self, container: &Arc<Container>, id: u64) {
        let pk = id % 5;
        let mut txn = begin(container, pk);
        txn.delete_item(&id.to_string(), &WriteOptions::default()).unwrap();
        commit(txn).unwrap();
        self.items.remove(&(pk, id));
    }

    /// Opens a copy and asks for everything; panics when an answer is wrong.
    pub(crate) fn check(&self, folder: &Path, opening: Opening, about: &str) -> Outcome {
        let scratch = new_folder();
        let about = format!("{about}, {opening:?}");
        let account = match open(folder, opening, Some(scratch.path())) {
            Ok(account) => account,
            Err((error, refused)) => {
                check_named(&error, &about);
                return Outcome::Refused(refused);
            }
        };
        let container = match account.container("d", "c") {
            Ok(container) => container,
            Err(error) => panic!("{about}: the container is gone: {error}"),
        };
        let asked = self.ask(&container, &about).and_then(|()| self.ask_view(&account, &about));
        let asked = asked.and_then(|()| ask_rekeys(&account, &about));
        match asked.and_then(|()| self.ask_subscription(&account, &container, &about)) {
            Ok(()) => Outcome::Right,
            // Damage that is met by a read is told by that read.
            Err(Error::Damaged(message)) => {
                assert!(message.contains("corruption"), "{about}: {message}");
                Outcome::Refused(Refused::ByRead)
            }
            Err(error) => panic!("{about}: {error}"),
        }
    }

    /// A subscription is there and knows what it has delivered.
    fn ask_subscription(
        &self,
        account: &Account,
        container: &Arc<Container>,
        about: &str,
    ) -> Result<()> {
        assert_eq!(delivered(account, container)?, self.delivered, "{about}: the subscription");
        Ok(())
    }

    /// A view has what it had, and its state could be read.
    fn ask_view(&self, account: &Account, about: &str) -> Result<()> {
        let view = account.container("d", "v")?;
        assert!(view.view().is_some(), "{about}: the view is no view");
        let rows = try_rows(&view, "SELECT * FROM c", 1000, Access::ByCost, |_| {})?;
        let text = |row: &Value, name: &str| row.get(name).unwrap().as_str().unwrap().to_owned();
        let mut shown: Vec<_> =
            rows.iter().map(|row| format!("{} {}", text(row, "_id"), text(row, "word"))).collect();
        shown.sort();
        assert_eq!(shown, self.shown, "{about}: the view");
        Ok(())
    }

    fn ask(&self, container: &Arc<Container>, about: &str) -> Result<()> {
        let word_of = |value: &Value| {
            let word = value.get("word").and_then(Value::as_str).unwrap().to_owned();
            let id = value.get("id").and_then(Value::as_str).unwrap().parse::<u64>().unwrap();
            ((id % 5, id), word)
        };
        for id in 0..ITEMS + 10 {
            let key = key_of(id % 5);
            let found = container.read_item(&key, &id.to_string())?;
            let found = found.map(|item| word_of(&json::parse(&item.text).unwrap()).1);
            assert_eq!(found.as_ref(), self.items.get(&(id % 5, id)), "{about}: item {id}");
        }
        for text in ["SELECT * FROM c", "SELECT * FROM c WHERE c.word != 'nothing'"] {
            let rows = try_rows(container, text, 1000, Access::ByCost, |_| {})?;
            let rows: BTreeMap<_, _> = rows.iter().map(word_of).collect();
            assert_eq!(rows, self.items, "{about}: {text}");
        }
        let mut changes = BTreeMap::new();
        for partition in container.partitions().iter() {
            let page =
                container.read_changes(partition, &EpkSpan::all(), Start::Beginning, 1000)?;
            changes
                .extend(page.items.iter().map(|item| word_of(&json::parse(&item.text).unwrap())));
        }
        assert_eq!(changes, self.items, "{about}: the change feed");
        for (pk, id) in self.items.keys().step_by(7) {
            let text = format!(r#"{{"id":"other{id}","pk":{pk},"mail":"m{id}"}}"#);
            let mut txn = begin(container, *pk);
            let created = txn.create_item(text.as_bytes(), &WriteOptions::default());
            match created {
                Err(Error::UniqueKeyViolation(_)) => {}
                Err(error) => return Err(error),
                Ok(_) => panic!("{about}: the unique key of item {id} no longer holds"),
            }
        }
        Ok(())
    }
}

/// Two containers that get another key: one is being copied, the other one has been swapped.
fn begin_rekeys(account: &Arc<Account>) {
    for name in ["copied", "swapped"] {
        let definition = format!(r#"{{"id":"{name}","partitionKey":{{"paths":["/pk"]}}}}"#);
        let container = create_container(account, &definition);
        for id in 0..REKEYED {
            let mut txn = begin(&container, id % 2);
            let text = format!(r#"{{"id":"{id}","pk":{},"k":"k{id}"}}"#, id % 2);
            txn.upsert_item(text.as_bytes(), &WriteOptions::default()).unwrap();
            commit(txn).unwrap();
        }
        let partition_key = json::parse(br#"{"paths":["/k"],"kind":"Hash","version":2}"#).unwrap();
        let new = NewRekey { partition_key, name: None, throughput: None };
        account.begin_rekey(&container, &new).unwrap();
    }
}

/// One is still being copied, with what it had; the other one has its new key, and the old container is closed.
fn ask_rekeys(account: &Account, about: &str) -> Result<()> {
    let count = |container: &Arc<Container>| {
        try_rows(container, "SELECT * FROM c", 1000, Access::ByCost, |_| {}).map(|rows| rows.len())
    };
    let target = account.container("d", "copied")?.rekey_target();
    let target = target.unwrap_or_else(|| panic!("{about}: the re-key is gone"));
    let (swapped, old) =
        (account.container("d", "swapped")?, account.container("d", "swapped-before-rekey")?);
    assert!(old.rekeyed_into().is_some() && swapped.view().is_none(), "{about}: the swap");
    for container in [&target, &swapped, &old] {
        assert_eq!(count(container)? as u64, REKEYED, "{about}: a re-keyed container");
    }
    Ok(())
}

/// A subscription whose target does nothing.
fn subscribe(account: &Account, container: &Arc<Container>) {
    let body = "function () {}";
    let new = NewScript { kind: Kind::Procedure, name: "p", body, trigger: None };
    account.create_script(container, &new, false).unwrap();
    let definition =
        r#"{"id":"s","feed":{"start":"beginning"},"target":{"kind":"sproc","id":"p"}}"#;
    let definition = json::parse(definition.as_bytes()).unwrap();
    account.create_subscription(container, &definition).unwrap();
}

/// How many entries the subscription has delivered.
fn delivered(account: &Account, container: &Arc<Container>) -> Result<i64> {
    let subscription = container.subscription("s")?;
    let status = account.subscription_status(container, &subscription);
    Ok(status.get("delivered").and_then(Value::as_i64).unwrap())
}

fn follow(account: &Account) {
    assert!(account.settle_subscriptions(Duration::from_secs(60)));
    while account.follow_views() != Followed::Everything {}
}

fn open(
    folder: &Path,
    opening: Opening,
    scratch: Option<&Path>,
) -> std::result::Result<Arc<Account>, (StoreError, Refused)> {
    let options = EmbeddedOptions { workers: 1, ..EmbeddedOptions::default() };
    let open_once = || match (opening, scratch) {
        (Opening::ReadOnly, Some(scratch)) => {
            EmbeddedStore::open_read_only(folder, scratch, &options)
        }
        _ => EmbeddedStore::open(folder, &options),
    };
    let mut store = open_once();
    // The last threads of an account that was dropped end a moment later.
    while matches!(store, Err(StoreError::Locked { .. })) {
        std::thread::yield_now();
        store = open_once();
    }
    let store = store.map_err(|error| (error, Refused::ByGuard))?;
    let disk: Arc<dyn Disk> = match opening {
        Opening::ReadOnly => Arc::new(OverlayDisk::new(folder)),
        Opening::Serve => Arc::new(FolderDisk::new(folder).unwrap()),
    };
    let index_limits = Limits { tail_documents_max: 8, file_documents_min: 8, ..Limits::default() };
    let options = Options {
        clock: Arc::new(ManualClock::at_seconds(FIRST_SECOND)),
        background: false,
        disk: Some(disk),
        index_limits,
        ..Options::default()
    };
    Account::open(Arc::new(store), options).map_err(|error| (error, Refused::ByRead))
}

fn key_of(pk: u64) -> PartitionKey {
    PartitionKey::parse(&format!("[{pk}]")).unwrap()
}

fn begin(container: &Arc<Container>, pk: u64) -> Txn {
    support::begin(container, &key_of(pk))
}
