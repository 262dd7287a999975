//! The plain map an index is compared with, and the comparison.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use armilla_index::{Direction, Document, EpkRange, Part, Terms, Value, ValueRange, View};
use proptest::prelude::*;

pub(crate) const PATHS: u32 = 4;
pub(crate) type Term = (u32, Vec<u8>, bool);

/// A document in the making: all but docno and LSN.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) epk: Vec<u8>,
    pub(crate) terms: Vec<Term>,
    pub(crate) ttl: i32,
}

pub(crate) fn epk() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![proptest::collection::vec(0u8..3, 1..=1), proptest::collection::vec(0u8..2, 0..3),]
}

pub(crate) fn row() -> impl Strategy<Value = Row> {
    let value = prop_oneof![
        proptest::collection::vec(0u8..3, 0..3),
        proptest::collection::vec(Just(1u8), 0..24),
        any::<[u8; 9]>().prop_map(|bytes| bytes.to_vec()),
    ];
    let term = (0..PATHS, value, proptest::bool::weighted(0.1));
    let ttl = prop_oneof![6 => Just(0), 1 => Just(-1), 1 => 1i32..9];
    (epk(), proptest::collection::vec(term, 0..6), ttl).prop_map(|(epk, terms, ttl)| Row {
        epk,
        terms,
        ttl,
    })
}

pub(crate) fn terms<'a>(list: impl IntoIterator<Item = &'a Term>) -> Terms {
    let mut terms = Terms::new();
    for (path, value, cut) in list {
        if *cut { terms.push_cut(*path, value) } else { terms.push(*path, value) }
    }
    terms
}

/// All live documents with their terms.
#[derive(Debug, Clone, Default)]
pub(crate) struct Plain {
    rows: BTreeMap<(Vec<u8>, u64), (Document, BTreeSet<Term>)>,
}

impl Plain {
    pub(crate) fn insert(&mut self, row: Row, docno: u64, lsn: u64) -> (Document, Terms) {
        let Row { epk, terms: list, ttl } = row;
        let ts = u32::try_from(lsn / 3).unwrap();
        let document = Document {
            epk,
            docno,
            lsn,
            hash: docno.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            ts,
            ttl,
            size: 7,
        };
        let mut terms = Terms::new();
        for (path, value, cut) in &list {
            if *cut { terms.push_cut(*path, value) } else { terms.push(*path, value) }
        }
        let key = (document.epk.clone(), docno);
        self.rows.insert(key, (document.clone(), list.into_iter().collect()));
        (document, terms)
    }

    pub(crate) fn choose(&self, which: prop::sample::Index) -> Option<(Document, BTreeSet<Term>)> {
        (!self.rows.is_empty())
            .then(|| self.rows.values().nth(which.index(self.rows.len())).unwrap().clone())
    }

    pub(crate) fn remove(&mut self, document: &Document) {
        self.rows.remove(&(document.epk.clone(), document.docno));
    }

    pub(crate) fn remove_partition(&mut self, epk: &[u8]) {
        self.rows.retain(|(found, _), _| found != epk);
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &(Document, BTreeSet<Term>)> {
        self.rows.values()
    }

    fn with(&self, path: u32, range: &ValueRange) -> BTreeSet<u64> {
        let has =
            |terms: &BTreeSet<Term>| terms.iter().any(|(p, v, _)| *p == path && range.contains(v));
        self.rows.values().filter(|(_, terms)| has(terms)).map(|(d, _)| d.docno).collect()
    }
}

impl Plain {
    /// Only the documents of a range.
    pub(crate) fn restricted(&self, range: &EpkRange) -> Self {
        let inside = self.rows.iter().filter(|((epk, _), _)| range.contains(epk));
        Self { rows: inside.map(|(key, row)| (key.clone(), row.clone())).collect() }
    }
}

/// Compares everything a view can answer with the plain map.
pub(crate) fn check(view: &View, plain: &Plain) {
    assert_eq!(view.live_count(), plain.rows.len() as u64);
    check_documents(view, plain);
    for path in 0..=PATHS {
        for range in value_ranges(plain) {
            check_postings(view, plain, path, &range);
            check_counts(view, plain, path, &range);
            check_walk(view, plain, path, &range);
        }
        check_columns(view, plain, path);
    }
}

/// Counts inside ranges of effective partition keys.
fn check_counts(view: &View, plain: &Plain, path: u32, range: &ValueRange) {
    for epks in [EpkRange::exact(vec![1]), EpkRange::prefix(&[0]), EpkRange::all()] {
        let expected = plain.restricted(&epks).with(path, range).len() as u64;
        assert_eq!(view.count_in(path, range, &epks), expected, "{path} {range:?} {epks:?}");
    }
}

fn value_ranges(plain: &Plain) -> Vec<ValueRange> {
    let mut ranges = vec![
        ValueRange::all(),
        ValueRange::exact(vec![1]),
        ValueRange::prefix(&[1]),
        ValueRange::prefix(&[1; 9]),
        ValueRange::half_open(vec![0, 1], vec![2]),
        ValueRange::below(vec![1, 1, 1]),
        ValueRange::new(Bound::Excluded(vec![1]), Bound::Included(vec![2, 2])),
        ValueRange::half_open(vec![2], vec![1]),
    ];
    if let Some((_, value, _)) = plain.rows.values().flat_map(|(_, terms)| terms).next() {
        ranges.push(ValueRange::exact(value.clone()));
        ranges.push(ValueRange::at_least(value.clone()));
    }
    ranges
}

fn check_documents(view: &View, plain: &Plain) {
    let ranges = [
        EpkRange::all(),
        EpkRange::exact(vec![1]),
        EpkRange::prefix(&[0]),
        EpkRange::exact(vec![]),
    ];
    for range in &ranges {
        let inside: Vec<_> = plain
            .rows
            .values()
            .map(|(d, _)| d.as_ref())
            .filter(|d| range.contains(d.epk))
            .collect();
        assert_eq!(view.live_count_in(range), inside.len() as u64);
        let ascending = view.documents(range, None, Direction::Ascending);
        assert!(ascending.map(|found| found.document).eq(inside.iter().copied()));
        let descending = view.documents(range, None, Direction::Descending);
        assert!(descending.map(|found| found.document).eq(inside.iter().rev().copied()));
        for position in [0, inside.len() / 2, inside.len().saturating_sub(1)] {
            let Some(last) = inside.get(position) else { continue };
            let after = Some((last.epk, last.docno));
            let rest = view.documents(range, after, Direction::Ascending);
            assert!(rest.map(|found| found.document).eq(inside[position + 1..].iter().copied()));
            let rest = view.documents(range, after, Direction::Descending);
            assert!(rest.map(|found| found.document).eq(inside[..position].iter().rev().copied()));
        }
        let behind_all = view.documents(range, Some((&[0, 0], u64::MAX)), Direction::Ascending);
        let expected = inside.iter().filter(|d| d.epk > &[0, 0][..]).copied();
        assert!(behind_all.map(|found| found.document).eq(expected));
    }
    for (document, _) in plain.rows.values() {
        let found = view.find(&document.epk, document.docno).unwrap();
        assert_eq!(found.document, document.as_ref());
        let part = &view.parts()[found.part];
        assert_eq!(part.hash(found.local), document.hash);
        assert_eq!(part.ts_and_ttl(found.local), (document.ts, document.ttl));
        assert_eq!(part.lsn(found.local), document.lsn);
    }
    assert!(view.find(&[1], u64::MAX).is_none());
}

fn check_postings(view: &View, plain: &Plain, path: u32, range: &ValueRange) {
    let expected = plain.with(path, range);
    assert_eq!(view.count(path, range), expected.len() as u64, "{path} {range:?}");
    let mut by_list = BTreeSet::new();
    let mut by_set = BTreeSet::new();
    for part in view.parts() {
        let list = part.postings(path, range).iter().map(|local| local.get());
        by_list.extend(list.filter(|local| !part.is_dead(*local)).map(|local| part.docno(local)));
        by_set.extend(part.set(path, range).iter().map(|local| part.docno(local)));
        if let Some(index) = part.path(path) {
            let ordinals = index.ordinals(range);
            let contained = (0..part.len()).filter(|local| index.contains(*local, &ordinals));
            let listed: BTreeSet<u32> = index.lists(&ordinals).iter().map(|l| l.get()).collect();
            assert!(contained.eq(listed));
        }
    }
    assert_eq!(by_list, expected);
    assert_eq!(by_set, expected);
}

/// The expected order: every live (value, cut, docno), by value.
fn check_walk(view: &View, plain: &Plain, path: u32, range: &ValueRange) {
    let mut expected: Vec<(&[u8], bool, u64)> = vec![];
    for (document, terms) in plain.rows.values() {
        let here = terms.iter().filter(|(p, v, _)| *p == path && range.contains(v));
        expected.extend(here.map(|(_, value, cut)| (value.as_slice(), *cut, document.docno)));
    }
    expected.sort_unstable();
    assert_eq!(walked(view, path, range, Direction::Ascending), expected);
    let descending = walked(view, path, range, Direction::Descending);
    assert!(descending.is_sorted_by(|a, b| (a.0, a.1) >= (b.0, b.1)));
    let mut sorted = descending;
    sorted.sort_unstable();
    assert_eq!(sorted, expected);
}

fn walked<'a>(
    view: &'a View,
    path: u32,
    range: &ValueRange,
    direction: Direction,
) -> Vec<(&'a [u8], bool, u64)> {
    let mut rows = vec![];
    for found in view.walk(path, range, direction) {
        let part = &view.parts()[found.part];
        let Value { bytes, cut } = found.step.value;
        let live = found.step.locals.iter().map(|l| l.get()).filter(|l| !part.is_dead(*l));
        rows.extend(live.map(|local| (bytes, cut, part.docno(local))));
    }
    let order = rows.clone();
    if direction == Direction::Ascending {
        rows.sort();
        assert!(order.is_sorted_by(|a, b| (a.0, a.1) <= (b.0, b.1)));
    }
    rows
}

fn check_columns(view: &View, plain: &Plain, path: u32) {
    for part in view.parts() {
        let Some(index) = part.path(path) else { continue };
        assert!(index.documents_with() >= part.count(path, &ValueRange::all()));
        let Some(column) = index.column() else {
            let few = index.documents_with() < part.len() / 8;
            assert!(few || index.is_multi_valued());
            continue;
        };
        assert!(!index.is_multi_valued());
        for local in live(part) {
            let document = part.document(local);
            let (_, terms) = &plain.rows[&(document.epk.to_vec(), document.docno)];
            let mut values = terms.iter().filter(|(p, _, _)| *p == path);
            let expected = values.next().map(|(_, bytes, cut)| Value { bytes, cut: *cut });
            assert_eq!(index.value_of(local), expected);
            assert_eq!(column.is_defined(local), expected.is_some());
        }
    }
}

fn live(part: &Part) -> impl Iterator<Item = u32> + '_ {
    (0..part.len()).filter(|local| !part.is_dead(*local))
}
