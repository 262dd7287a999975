//! Parallel filter: items tried ahead of a page, on several threads.
//!
//! A page of rows that come as items go by takes the items one after the other, and ends somewhere.
//! Where hardly any of them meets the condition, that is a long way. So once a page has gone through
//! many items for few rows, the next ones are tried in batches, a stretch of each batch per thread.
//!
//! Trying only ever *rejects*: an item that surely gives no row is passed over by the page at the price
//! it would have had. Whatever is not rejected, because it matches or because trying it failed, the page
//! looks at by itself as if nobody had tried. So rows, positions, charges and errors are those of one
//! thread, and what was tried in vain behind the end of a page is charged to nobody.

use super::context::{Execution, PageRun, with_runtime};
use super::work::Work;
use super::workers;
use crate::query::Threads;
use crate::query::plan::costs::{
    FILTER_BATCH_MAX, FILTER_BATCH_MIN, FILTER_BATCH_TIME, FILTER_KEPT_BYTES_MAX, FILTER_RARITY,
    FILTER_SCOUTED, FILTER_STRETCH_MIN, FILTER_STRETCH_TINY, FILTER_STRETCHES_PER_THREAD,
};
use crate::query::read::{Certainty, Found, Reader};
use armilla_model::clock::monotonic;
use armilla_model::error::Result;
use armilla_sql::compiled::Compiled;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The documents of a page in order.
pub(super) struct ParallelFilter<'s> {
    run: &'s PageRun<'s>,
    /// The query that is about items.
    query: &'s Compiled,
    documents: Box<dyn Iterator<Item = Result<Found<'s>>> + 's>,
    tried: VecDeque<Tried<'s>>,
    /// Trying ahead may come to be worth it.
    allowed: bool,
    batch: usize,
    /// Documents given so far.
    given: u64,
}

/// A document, and what became of it.
pub(super) struct Tried<'s> {
    pub(super) found: Found<'s>,
    pub(super) rejected: Option<Rejected>,
}

/// What it took to see that an item gives no row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rejected {
    /// The size of the item, if it was read.
    pub(super) read: Option<usize>,
    /// Rows of FROM and JOIN.
    pub(super) rows: u64,
}

/// How far a page is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    /// Rows that it has.
    pub(super) rows: u64,
    /// Rows that it still takes.
    pub(super) wanted: u64,
}

impl<'s> ParallelFilter<'s> {
    /// The documents of a run.
    pub(super) fn new(run: &'s PageRun<'s>, query: &'s Compiled) -> Self {
        let allowed = query.filter.is_some() && run.plan.threads != Threads::One;
        let batch = if run.plan.threads == Threads::Many {
            FILTER_STRETCH_TINY * 3
        } else {
            FILTER_BATCH_MIN
        };
        let documents = run.items.documents();
        Self { run, query, documents, tried: VecDeque::new(), allowed, batch, given: 0 }
    }

    /// The next document.
    pub(super) fn next(&mut self, progress: Progress, work: &Work) -> Option<Result<Tried<'s>>> {
        if self.allowed && self.tried.is_empty() && self.is_worth_it(progress) {
            self.allowed = workers::may_share(self.run, work);
            if self.allowed {
                self.try_batch(progress, work);
            }
        }
        self.given += 1;
        if let Some(tried) = self.tried.pop_front() {
            return Some(Ok(tried));
        }
        let next = self.documents.next()?;
        Some(next.map(|found| Tried { found, rejected: None }))
    }

    fn is_worth_it(&self, progress: Progress) -> bool {
        self.run.plan.threads == Threads::Many
            || (self.given >= FILTER_SCOUTED
                && progress.wanted > 0
                && progress.rows * FILTER_RARITY < self.given
                && workers::has_help())
    }

    fn try_batch(&mut self, progress: Progress, work: &Work) {
        // Where rows have been found, so many items will probably be enough for the page.
        let enough = match progress.rows {
            0 => usize::MAX,
            rows => {
                let items = progress.wanted.saturating_mul(self.given) / rows;
                usize::try_from(items).unwrap_or(usize::MAX).max(FILTER_STRETCH_MIN)
            }
        };
        let started = monotonic();
        let mut found = Vec::new();
        for next in self.documents.by_ref().take(self.batch.min(enough)) {
            match next {
                Ok(next) => found.push(next),
                // Only items that are named by their ids can fail here, and those are not tried.
                Err(_) => break,
            }
        }
        let is_tiny = self.run.plan.threads == Threads::Many;
        self.tried = try_all(self.run, self.query, found, work, is_tiny);
        let open = self.tried.iter().filter(|tried| tried.rejected.is_none()).count() as u64;
        self.allowed = is_tiny || open * FILTER_RARITY < self.tried.len() as u64;
        let took = started.elapsed();
        if took < FILTER_BATCH_TIME {
            self.batch = (self.batch * 2).min(FILTER_BATCH_MAX);
        } else if took > FILTER_BATCH_TIME * 2 {
            self.batch = (self.batch / 2).max(FILTER_STRETCH_MIN);
        }
    }
}

/// Tries documents on several threads.
fn try_all<'s>(
    run: &'s PageRun<'s>,
    query: &Compiled,
    found: Vec<Found<'s>>,
    work: &Work,
    is_tiny: bool,
) -> VecDeque<Tried<'s>> {
    let shares = workers::threads() * FILTER_STRETCHES_PER_THREAD;
    let length = if is_tiny {
        FILTER_STRETCH_TINY
    } else {
        found.len().div_ceil(shares).max(FILTER_STRETCH_MIN)
    };
    let stretches = stretches(&found, length);
    let (seed, kept) = (work.seed(), AtomicUsize::new(0));
    let outcomes = workers::map(stretches.len(), |number| {
        let stretch = stretches[number];
        let items = run.items.for_worker(stretch.len() as u64);
        with_runtime(run.query, &mut seed.work(), |execution| {
            let mut reader = items.key_reader();
            let try_one = |found| try_one(query, found, &mut reader, &kept, execution);
            stretch.iter().map(try_one).collect::<Vec<_>>()
        })
    });
    let outcomes = outcomes.into_iter().flatten();
    let tried = found.into_iter().zip(outcomes).map(|(found, outcome)| match outcome {
        TrialOutcome::Rejected(rejected) => Tried { found, rejected: Some(rejected) },
        TrialOutcome::Open(record) => Tried { found: Found { record, ..found }, rejected: None },
    });
    tried.collect()
}

/// Cuts documents into stretches of about a length, between logical partitions where that can be: items
/// of one are read together.
fn stretches<'f, 's>(found: &'f [Found<'s>], length: usize) -> Vec<&'f [Found<'s>]> {
    let (mut stretches, mut rest) = (Vec::new(), found);
    while rest.len() > length {
        let last = rest[length - 1].document.epk;
        let same = rest[length..].iter().take(length).take_while(|next| next.document.epk == last);
        let (stretch, behind) = rest.split_at(length + same.count());
        stretches.push(stretch);
        rest = behind;
    }
    stretches.push(rest);
    stretches
}

enum TrialOutcome {
    Rejected(Rejected),
    /// The page has to look at the item, which may have been read.
    Open(Option<crate::record::Record>),
}

fn try_one(
    query: &Compiled,
    found: &Found<'_>,
    reader: &mut Reader<'_>,
    kept: &AtomicUsize,
    execution: &mut Execution<'_>,
) -> TrialOutcome {
    if found.certainty != Certainty::Open {
        return TrialOutcome::Open(None);
    }
    let Ok(loaded) = reader.load_to_test(found, &mut execution.work.loads) else {
        return TrialOutcome::Open(None);
    };
    execution.runtime.document_id = found.document.docno;
    let rows = execution.runtime.rows_visited;
    let met = execution.visit_rows(query, &loaded.value, &mut |_, _, _| Ok(ControlFlow::Break(())));
    if matches!(met, Ok(false)) {
        let read = loaded.record.is_some().then_some(loaded.size);
        return TrialOutcome::Rejected(Rejected {
            read,
            rows: execution.runtime.rows_visited - rows,
        });
    }
    let fits =
        kept.fetch_add(loaded.size, Ordering::Relaxed) + loaded.size <= FILTER_KEPT_BYTES_MAX;
    TrialOutcome::Open(loaded.record.filter(|_| fits))
}
