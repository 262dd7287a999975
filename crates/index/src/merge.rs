//! Makes one part of several neighbours, leaving out the dead.
//!
//! First the document tables are merged by (epk, docno), which gives for every old part a map
//! from old to new local numbers. Then the dictionaries are merged path by path, and the lists of
//! equal values are renumbered and joined. Only one path is held in memory at a time.

use std::{cmp::Reverse, collections::BinaryHeap, io};

use crate::{
    deleted::DeadSet,
    documents::{Documents, DocumentsBuilder},
    part::PartData,
    path_builder::PathBuilder,
    path_index::PathIndex,
    segment::SegmentWriter,
    tail::eight_bytes,
    terms::Value,
};

/// In a map of local numbers: the document was dead and is gone.
pub(crate) const DROPPED: u32 = u32::MAX;

/// Writes the merge of `parts` as a segment; returns the map of local numbers of each part.
pub(crate) fn merge<W: io::Write>(
    parts: &[(&PartData, &DeadSet)],
    out: W,
) -> io::Result<(W, Vec<Vec<u32>>)> {
    let tables: Vec<_> = parts.iter().map(|(data, dead)| (data.documents(), *dead)).collect();
    let (documents, maps) = merge_documents(&tables);
    let mut writer = SegmentWriter::new(out)?;
    writer.documents(&documents)?;
    let mut builder = PathBuilder::new(documents.len());
    for path in all_paths(parts) {
        let inputs = parts.iter().zip(&maps);
        let inputs = inputs.filter_map(|((data, _), map)| Some((data.path(path)?, map.as_slice())));
        merge_path(&mut builder, &inputs.collect::<Vec<_>>());
        builder.finish(|pieces| writer.path(path, pieces)).transpose()?;
    }
    Ok((writer.finish()?, maps))
}

fn all_paths(parts: &[(&PartData, &DeadSet)]) -> Vec<u32> {
    let mut paths: Vec<u32> = parts.iter().flat_map(|(data, _)| data.paths()).collect();
    paths.sort_unstable();
    paths.dedup();
    paths
}

/// Merges document tables by (epk, docno), without the dead.
pub(crate) fn merge_documents(tables: &[(&Documents, &DeadSet)]) -> (Documents, Vec<Vec<u32>>) {
    let live = tables.iter().map(|(table, dead)| (table.len() - dead.len()) as usize).sum();
    let mut builder = DocumentsBuilder::with_capacity(live);
    let mut maps: Vec<_> = tables.iter().map(|(t, _)| vec![DROPPED; t.len() as usize]).collect();

    // The next distinct epk of each table: (epk, table, its ordinal there).
    let first = |(number, (table, _)): (usize, &(&Documents, _))| {
        epk_at(tables, number, 0, table.epk_count())
    };
    let mut heap: BinaryHeap<_> = tables.iter().enumerate().filter_map(first).collect();
    let mut rows: Vec<(u64, u64, usize, u32)> = vec![];
    while let Some(Reverse((epk, number, ordinal))) = heap.pop() {
        let mut tables_with = 1;
        gather(tables, number, ordinal, &mut rows);
        heap.extend(epk_at(tables, number, ordinal + 1, u32::MAX));
        while let Some(Reverse((next, number, ordinal))) = heap.peek().copied() {
            if next != epk {
                break;
            }
            heap.pop();
            tables_with += 1;
            gather(tables, number, ordinal, &mut rows);
            heap.extend(epk_at(tables, number, ordinal + 1, u32::MAX));
        }
        if tables_with > 1 {
            rows.sort();
        }
        for (_, _, number, local) in rows.drain(..) {
            let new = builder.push(tables[number].0.with_epk(local, epk));
            maps[number][local as usize] = new;
        }
    }
    (builder.finish(), maps)
}

type NextEpk<'a> = Reverse<(&'a [u8], usize, u32)>;

fn epk_at<'a>(
    tables: &[(&'a Documents, &DeadSet)],
    number: usize,
    ordinal: u32,
    end: u32,
) -> Option<NextEpk<'a>> {
    let table = tables[number].0;
    (ordinal < end.min(table.epk_count())).then(|| Reverse((table.epk(ordinal), number, ordinal)))
}

/// Collects the live documents of one epk as (docno, lsn, table, local).
fn gather(
    tables: &[(&Documents, &DeadSet)],
    number: usize,
    ordinal: u32,
    rows: &mut Vec<(u64, u64, usize, u32)>,
) {
    let (table, dead) = tables[number];
    let live = table.locals_of_epk(ordinal).filter(|local| !dead.contains(*local));
    rows.extend(live.map(|local| (table.docno(local), table.lsn(local), number, local)));
}

/// The lowest value of a dictionary that is not merged yet.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
struct Head<'a> {
    /// The first bytes as a number: decides most comparisons.
    prefix: u64,
    value: Value<'a>,
    input: usize,
    ordinal: u32,
}

/// Gives the builder all values of a path with their renumbered documents.
fn merge_path(builder: &mut PathBuilder, inputs: &[(PathIndex<'_>, &[u32])]) {
    let mut heap: BinaryHeap<_> =
        (0..inputs.len()).filter_map(|input| head_at(inputs, input, 0)).map(Reverse).collect();
    let mut current: Option<Value<'_>> = None;
    while let Some(mut top) = heap.peek_mut() {
        let Head { value, input, ordinal, .. } = top.0;
        if current != Some(value) {
            if current.is_some() {
                builder.end();
            }
            builder.begin(value);
            current = Some(value);
        }
        let (index, map) = &inputs[input];
        for local in index.list(ordinal) {
            let local = map[local.get() as usize];
            if local != DROPPED {
                builder.push(local);
            }
        }
        match head_at(inputs, input, ordinal + 1) {
            Some(next) => *top = Reverse(next),
            None => drop(std::collections::binary_heap::PeekMut::pop(top)),
        }
    }
    if current.is_some() {
        builder.end();
    }
}

fn head_at<'a>(inputs: &[(PathIndex<'a>, &[u32])], input: usize, ordinal: u32) -> Option<Head<'a>> {
    let index = &inputs[input].0;
    (ordinal < index.value_count()).then(|| {
        let value = index.value(ordinal);
        Head { prefix: eight_bytes(value.bytes, 0), value, input, ordinal }
    })
}
