//! An index agrees with its items when it has every item once, in its present version, with exactly
//! the terms that the policy gives it.

use super::Report;
use crate::container::Container;
use crate::generation::derive::Derivation;
use crate::index_files::IndexName;
use crate::partition::Partition;
use armilla_index::{Change, Document, Index, Terms, Value, ValueRange, View};
use armilla_storage::StoreError;
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Checks the files and the content of every index of a container.
pub(super) fn check(container: &Container, report: &mut Report) -> Result<(), StoreError> {
    for partition in container.partitions().iter() {
        check_files(container, partition, report);
        let (root, published) = container.core.consistent_view(partition);
        let policy = &published.definition.policy;
        let derivation =
            Derivation { container: container.number, policy, paths: &container.paths };
        let about = format!("container {}, range {}", container.number, partition.range.id);
        let (mut documents, mut terms_found) = (0, 0);
        derivation.scan(&*root.snapshot, &partition.range.span(), &mut |change| {
            if let Change::Upsert { document, terms, .. } = change {
                documents += 1;
                terms_found += check_document(&published.view, &document, &terms, &about, report);
            }
            ControlFlow::Continue(())
        })?;
        let (indexed, terms) = (published.view.live_count(), live_terms(&published.view));
        if indexed != documents {
            report.find(format!("{about}: {documents} items and {indexed} indexed documents"));
        }
        if terms != terms_found {
            report.find(format!("{about}: the items have {terms_found} terms, the index {terms}"));
        }
    }
    Ok(())
}

/// Reads the files again, every byte of them.
fn check_files(container: &Container, partition: &Partition, report: &mut Report) {
    let id = partition.view().definition.id;
    let name = IndexName { container: container.number, partition: partition.range.id, id };
    let Some(files) = container.core.folders.files(name) else { return };
    if let Err(error) = Index::check(files.as_ref()) {
        let (container, range) = (name.container, name.partition);
        report.find(format!("index files of container {container}, range {range}: {error}"));
    }
}

/// Looks an item up in the index; returns how many distinct terms it has.
fn check_document(
    view: &View,
    document: &Document,
    terms: &Terms,
    about: &str,
    report: &mut Report,
) -> u64 {
    let docno = document.docno;
    let distinct: HashSet<(u32, Value<'_>)> = terms.iter().collect();
    let Some(found) = view.find(&document.epk, docno) else {
        report.find(format!("{about}: item {docno} is not in the index"));
        return distinct.len() as u64;
    };
    if found.document != document.as_ref() {
        report.find(format!("{about}: the index has another version of item {docno}"));
    }
    let part = &view.parts()[found.part];
    for (path, value) in &distinct {
        let has = part.path(*path).is_some_and(|index| {
            let mut ordinals = index.ordinals(&ValueRange::exact(value.bytes.to_vec()));
            ordinals.any(|ordinal| {
                index.is_cut(ordinal) == value.cut
                    && index.contains(found.local, &(ordinal..ordinal + 1))
            })
        });
        if !has {
            report.find(format!("{about}: item {docno} lacks a term at path {path}"));
        }
    }
    distinct.len() as u64
}

/// How many terms the live documents of a view have.
fn live_terms(view: &View) -> u64 {
    let mut terms = 0;
    for part in view.parts() {
        for index in part.paths().filter_map(|path| part.path(path)) {
            let lists = index.lists(&(0..index.value_count()));
            terms += lists.iter().filter(|local| !part.is_dead(local.get())).count() as u64;
        }
    }
    terms
}
