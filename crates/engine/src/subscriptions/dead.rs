//! Dead letters: items of a container of the same database, one for each entry that was given up.

use super::Subscription;
use super::entry::SubscriptionEntry;
use super::members::number;
use super::queue::Exhausted;
use crate::container::Container;
use crate::feed_entry::Origin;
use crate::items::WriteOptions;
use crate::keys;
use crate::limits::DEAD_LETTERS_SHOWN_MAX;
use crate::record::Record;
use crate::store_failure;
use crate::txn::{Txn, parse_stored};
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::{Component, PartitionKey};
use armilla_model::value::{Object, Value};
use armilla_storage::{Direction, Keyspace};
use std::sync::Arc;
use std::sync::mpsc;

/// The path of the partition key that a container of dead letters has.
pub(crate) const KEY_PATH: &str = "/subscription";

/// Refuses a container that cannot take dead letters.
pub(crate) fn check(container: &Container) -> Result<()> {
    let paths = &container.key_definition().paths;
    let fits = paths.len() == 1 && paths[0].to_string() == KEY_PATH && container.view().is_none();
    if fits {
        return Ok(());
    }
    Err(Error::bad_request(format!(
        "'{}' cannot take dead letters: that needs a container whose partition key is {KEY_PATH}.",
        container.settings().name
    )))
}

fn key(subscription: &Subscription) -> PartitionKey {
    PartitionKey(vec![Component::String(subscription.name.clone())])
}

/// Keeps the entries of an exhausted batch. Doing it twice changes nothing.
///
/// # Errors
///
/// [`Error::Overloaded`] when somebody else, a procedure of a client perhaps, has the key of the dead letters:
/// the thread of all subscriptions does not wait for it.
pub(super) fn write(
    place: &Arc<Container>,
    subscription: &Subscription,
    exhausted: &Exhausted,
) -> Result<()> {
    let key = key(subscription);
    let epk = place.key_definition().epk(&key);
    let lock = subscription.turn.lock(place, &epk, &place.core.subscribers)?;
    let mut txn = Txn::begin(place.clone(), key, lock)?;
    txn.set_origin(Origin { number: subscription.number, depth: 0 });
    for entry in exhausted.groups.iter().flat_map(|group| &group.entries) {
        let letter = Object::of([
            ("id", entry.key.to_string().into()),
            ("subscription", Value::String(subscription.name.clone())),
            ("entry", Value::object(entry.members())),
            ("attempts", number(exhausted.attempts)),
            ("firstAttempt", number(exhausted.tried.0)),
            ("lastAttempt", number(exhausted.tried.1)),
            ("error", Value::object(exhausted.failure.members())),
        ]);
        let mut text = Vec::new();
        letter.write_json(&mut text);
        txn.upsert_item(&text, &WriteOptions::default())?;
    }
    commit(txn)
}

/// The dead letters of a subscription, oldest first, and whether there are more.
pub(crate) fn list(place: &Container, subscription: &Subscription) -> Result<(Vec<Value>, bool)> {
    let epk = place.key_definition().epk(&key(subscription));
    let range = keys::items_of_partition(place.number, place.key_definition(), &epk);
    let snapshot = place.core.snapshot();
    let most = DEAD_LETTERS_SHOWN_MAX + 1;
    let page = snapshot.page(Keyspace::Items, &range, Direction::Forward, most);
    let mut letters = Vec::new();
    for (_, value) in page.map_err(store_failure)? {
        let record = Record::new(value).map_err(store_failure)?;
        if !record.is_tombstone() {
            letters.push((record.lsn(), record.sequence(), parse_stored(&record.text())?));
        }
    }
    let has_more = letters.len() > DEAD_LETTERS_SHOWN_MAX;
    letters.sort_by_key(|(lsn, sequence, _)| (*lsn, *sequence));
    letters.truncate(DEAD_LETTERS_SHOWN_MAX);
    Ok((letters.into_iter().map(|(_, _, letter)| letter).collect(), has_more))
}

/// The entry in a dead letter.
pub(crate) fn entry_of(letter: &Value) -> Result<SubscriptionEntry> {
    SubscriptionEntry::read(letter.get("entry").unwrap_or(&Value::Null))
}

/// Removes a dead letter that was delivered.
pub(crate) fn remove(place: &Arc<Container>, subscription: &Subscription, id: &str) -> Result<()> {
    let key = key(subscription);
    let lock = place.lock_and_wait(&place.key_definition().epk(&key));
    let mut txn = Txn::begin(place.clone(), key, lock)?;
    match txn.delete_item(id, &WriteOptions::default()) {
        Ok(_) => commit(txn),
        // Somebody was faster.
        Err(Error::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

fn commit(txn: Txn) -> Result<()> {
    let (sender, receiver) = mpsc::sync_channel(1);
    txn.commit(move |outcome| {
        let _gone = sender.send(outcome.map(drop));
    });
    let stopping = || Error::Internal("the server is stopping".to_owned());
    receiver.recv().map_err(|_| stopping())?
}
