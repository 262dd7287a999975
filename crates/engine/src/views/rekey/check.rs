//! The check of a re-key: every item of the source that was followed has its copy, and the copy is the same.
//!
//! A page at a time, each on a snapshot of its own, while both containers are written. An item that changed behind the
//! position is not compared; it is when the check is run again. That the target has nothing besides is known when it takes its
//! source's place: both then hold the same number of items.

use super::super::ContainerView;
use super::place_of;
use crate::container::Container;
use crate::items::body::SYSTEM;
use crate::keys;
use crate::limits::{REKEY_CHECK_ITEMS_MAX, REKEY_DIFFERENCES_MAX};
use crate::ranges::Range;
use crate::record::Record;
use crate::store_failure;
use crate::txn::parse_stored;
use armilla_model::error::{Error, Result};
use armilla_model::lsn::Lsn;
use armilla_model::value::Value;
use armilla_storage::{Direction, KeyRange, Keyspace};
use std::ops::Bound;

/// What a page of the check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RekeyCheck {
    /// Items that were compared and are the same.
    pub compared: u64,
    /// Items that changed too lately to be compared.
    pub behind: u64,
    /// Items that differ, a sentence each.
    pub different: Vec<String>,
    /// Where the next page begins; nothing at the end.
    pub next: Option<Vec<u8>>,
}

impl RekeyCheck {
    /// Compares a page of items, behind a key of the last one.
    pub(crate) fn page(
        source: &Container,
        target: &Container,
        view: &ContainerView,
        after: Option<&[u8]>,
    ) -> Result<Self> {
        // Before the snapshot: what was followed by now is in it.
        let positions: Vec<(Range, Lsn)> = source
            .ranges()
            .into_iter()
            .map(|range| {
                let position = view.position(&range);
                (range, position)
            })
            .collect();
        let snapshot = source.core.snapshot();
        let all = keys::items_of(source.number);
        let start = match after {
            None => all.start.clone(),
            Some(key) if key.starts_with(&source.number.to_be_bytes()) => {
                Bound::Excluded(key.to_vec())
            }
            Some(_) => {
                return Err(Error::bad_request(
                    "The 'continuation' is not one that this check gave.",
                ));
            }
        };
        let range = KeyRange { start, end: all.end };
        let page =
            snapshot.page(Keyspace::Items, &range, Direction::Forward, REKEY_CHECK_ITEMS_MAX);
        let page = page.map_err(store_failure)?;
        let mut check = Self::default();
        if page.len() == REKEY_CHECK_ITEMS_MAX {
            check.next = page.last().map(|(key, _)| key.to_vec());
        }
        for (key, value) in page {
            let record = Record::new(value).map_err(store_failure)?;
            let place = keys::read_item(&key, source.key_definition());
            let epk = place.map_err(|_| Error::Internal("a key is malformed".to_owned()))?.epk;
            let followed = positions.iter().find(|(range, _)| range.contains(&epk));
            if record.is_tombstone() {
                continue;
            }
            if followed.is_none_or(|(_, position)| record.lsn() > *position) {
                check.behind += 1;
                continue;
            }
            let item = parse_stored(&record.text())?;
            let (_, epk, id) = place_of(target, &item)?;
            let copy = target.locate(&*snapshot, &epk, &id)?.record;
            match difference(&record, &item, copy.filter(|copy| !copy.is_tombstone()))? {
                None => check.compared += 1,
                Some(what) if check.different.len() < REKEY_DIFFERENCES_MAX => {
                    check.different.push(format!("'{id}': {what}"));
                }
                Some(_) => {}
            }
        }
        Ok(check)
    }
}

fn difference(record: &Record, item: &Value, copy: Option<Record>) -> Result<Option<&'static str>> {
    let Some(copy) = copy else { return Ok(Some("it has no copy")) };
    if (copy.etag(), copy.ts(), copy.ttl()) != (record.etag(), record.ts(), record.ttl()) {
        return Ok(Some("its copy is of another version"));
    }
    let other = parse_stored(&copy.text())?;
    let own = |item: &Value| {
        let members = item.as_object().into_iter().flat_map(|object| object.iter());
        let members = members.filter(|(name, _)| !SYSTEM.contains(&&***name));
        members.map(|(name, value)| format!("{name}:{}", value.to_json())).collect::<Vec<_>>()
    };
    Ok((own(item) != own(&other)).then_some("its copy has another content"))
}
