//! Every file of a data folder and of a backup, deleted, emptied, cut, zeroed and flipped.
//!
//! Each trial copies a folder with acknowledged items, damages one file, and opens it in both ways: to
//! read only, as `verify` and `backup` do, and to serve. Allowed is a refusal that names something, with
//! the folder left as it was, or answers that are all right: point reads, a query, the change feed and
//! unique keys. Wrong answers, and files that vanish, are not. Damage that only shows when something is read is refused by
//! that read; once the file is put back, everything is there again. Damage of the catalog is never of that kind.
//!
//! `ARMILLA_DAMAGE_SEED` chooses other places inside the files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::print_stdout, reason = "a seed and a table of outcomes are read by people")]

mod files;
#[path = "../support/mod.rs"]
mod support;
mod template;

use armilla_storage::backup::{backup, restore_into};
use armilla_storage::{EmbeddedOptions, EmbeddedStore, Store, StoreError};
use files::{
    ACTIONS, Action, Places, changed, copy, damage, files, folders, kind_of, listing, new_folder,
};
use std::collections::BTreeMap;
use std::path::Path;
use template::{Opening, Outcome, Refused, Stop, Template};

/// What the trials must at least be, so that a change of the format does not empty the test.
const TRIALS_MIN: usize = 300;
const KINDS_MIN: usize = 12;
/// The tree of the catalog, which every new store makes first.
const CATALOG: &str = "engine/keyspaces/2";

fn seed() -> u64 {
    std::env::var("ARMILLA_DAMAGE_SEED").map_or(20_261_117, |text| text.parse().unwrap())
}

#[derive(Default)]
struct Tally(BTreeMap<String, (usize, usize)>);

impl Tally {
    fn count(&mut self, kind: &str, outcome: &Outcome) {
        let (refused, right) = self.0.entry(kind.to_owned()).or_default();
        match outcome {
            Outcome::Refused(_) => *refused += 1,
            Outcome::Right => *right += 1,
        }
    }

    fn trials(&self) -> usize {
        self.0.values().map(|(refused, right)| refused + right).sum()
    }

    fn print(&self, what: &str) {
        println!("{what}: {} trials, seed {}", self.trials(), seed());
        for (kind, (refused, right)) in &self.0 {
            println!("  {kind:<16} {refused:>4} refused, {right:>4} right");
        }
    }
}

#[test]
fn damaged_data_folders_are_refused_by_name_or_answered_right() {
    let mut tally = Tally::default();
    let mut places = Places(seed());
    for stop in [Stop::Killed, Stop::Clean] {
        let template = Template::new(stop);
        assert!(files(template.path()).iter().any(|file| file.starts_with(CATALOG)));
        for file in files(template.path()) {
            // The newest writes are in one small file: more places in it.
            let times = if kind_of(&file) == "journal" { 8 } else { 1 };
            for action in ACTIONS.into_iter().cycle().take(times * ACTIONS.len()) {
                trial(&template, &file, action, &mut places, &mut tally);
            }
        }
        for folder in folders(template.path()) {
            trial(&template, &folder, Action::Delete, &mut places, &mut tally);
        }
    }
    tally.print("data folders");
    assert!(tally.trials() >= TRIALS_MIN, "only {} trials", tally.trials());
    assert!(tally.0.len() >= KINDS_MIN, "only {:?}", tally.0.keys());
}

fn trial(template: &Template, file: &Path, action: Action, places: &mut Places, tally: &mut Tally) {
    let kind = kind_of(file);
    let folder = new_folder();
    copy(template.path(), folder.path());
    let Some(did) = damage(&folder.path().join(file), action, places) else { return };
    let about = format!("{}, {}, {did}, {:?}", kind, file.display(), template.stop);
    let before = listing(folder.path());
    let reading = template.check(folder.path(), Opening::ReadOnly, &about);
    let by_reading = changed(&before, &listing(folder.path()));
    assert!(by_reading.is_empty(), "{about}: reading changed {by_reading:?}");
    tally.count(kind, &reading);
    let serving = template.check(folder.path(), Opening::Serve, &about);
    tally.count(kind, &serving);
    match serving {
        Outcome::Refused(Refused::ByGuard) => {
            let by_start = changed(&before, &listing(folder.path()));
            assert!(by_start.is_empty(), "{about}: a refused start changed {by_start:?}");
        }
        Outcome::Refused(Refused::ByRead) => {
            assert!(
                !file.starts_with(CATALOG),
                "{about}: the catalog is checked before the engine runs"
            );
            let (from, to) = (template.path().join(file), folder.path().join(file));
            std::fs::copy(from, to).unwrap();
            let mended =
                template.check(folder.path(), Opening::Serve, &format!("{about}, put back"));
            assert_eq!(mended, Outcome::Right, "{about}: put back");
        }
        Outcome::Right => {}
    }
}

#[test]
fn damaged_backups_are_refused_before_a_folder_appears_or_restored_right() {
    let mut tally = Tally::default();
    let mut places = Places(seed());
    let template = Template::new(Stop::Clean);
    let whole = new_folder();
    let whole = whole.path().join("backup");
    {
        let scratch = new_folder();
        let options = EmbeddedOptions::default();
        let store = EmbeddedStore::open_read_only(template.path(), scratch.path(), &options);
        backup(&*store.unwrap().snapshot(), &whole).unwrap();
    }
    for file in files(&whole) {
        for action in ACTIONS {
            let above = new_folder();
            let (from, data) = (above.path().join("backup"), above.path().join("data"));
            copy(&whole, &from);
            let Some(did) = damage(&from.join(&file), action, &mut places) else { continue };
            let about = format!("backup, {}, {did}", file.display());
            let before = listing(&from);
            let finish = armilla_engine::restore::raise_heads;
            let restored = restore_into(&from, &data, &EmbeddedOptions::default(), finish);
            assert!(before == listing(&from), "{about}: the backup was changed");
            let outcome = match restored {
                Err(error) => {
                    check_named(&error, &about);
                    assert!(!data.exists(), "{about}: a folder appeared");
                    Outcome::Refused(Refused::ByGuard)
                }
                Ok(_) => template.check(&data, Opening::Serve, &about),
            };
            tally.count(file.extension().map_or("manifest", |_| "records"), &outcome);
        }
    }
    tally.print("backups");
    assert!(tally.trials() >= 30, "only {} trials", tally.trials());
}

/// A refusal says where: a file, or a keyspace.
fn check_named(error: &StoreError, about: &str) {
    let text = error.to_string();
    // A changed digit of `format` is another version to us, which the refusal says.
    let named = text.contains('/')
        || matches!(error, StoreError::FormatVersion { .. })
        || armilla_storage::Keyspace::ALL.iter().any(|keyspace| text.contains(keyspace.name()));
    assert!(named, "{about}: '{text}' names nothing");
}
