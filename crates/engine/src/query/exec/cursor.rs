//! Cursor of an ordered query: where its page begins, and which rows lie behind that.

use super::context::{Execution, PageRun};
use super::top_k::SortedRow;
use crate::query::descends;
use crate::query::request::{ResumeFilter, ResumeValue};
use crate::query::token::{KeyValue, OrderedPosition, Position, Window};
use armilla_model::error::{Error, Result};
use armilla_model::partition_key::Epk;
use armilla_model::value::Value;
use armilla_sql::compiled::{Order, OrderKey};
use armilla_sql::eval::{compare_keys, order_keys};
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// Where the page begins.
pub(super) struct Cursor<'a> {
    keys: &'a [OrderKey],
    descending: bool,
    after: Option<OrderedPosition>,
    resume: Option<&'a ResumeFilter>,
    /// Only another slice knows the values of the position exactly: what may lie behind it passes, and whoever puts the page together looks again.
    is_loose: bool,
    pub(super) window: Window,
}

impl<'a> Cursor<'a> {
    pub(super) fn begin(run: &PageRun<'a>) -> Result<Self> {
        let compiled = run.compiled();
        let Order::Keys { keys, .. } = &compiled.order else {
            return Err(Error::Internal(
                "a query that was planned as ordered has no ORDER BY".to_owned(),
            ));
        };
        let resume = run.query.request.resume.as_ref();
        if resume.is_some_and(|resume| resume.values.len() != keys.len()) {
            return Err(Error::bad_request(
                "A position to resume from needs one value per ORDER BY key.",
            ));
        }
        let (after, window) = match &run.plan.position {
            None => (None, Window::of(compiled)),
            Some(Position::Ordered(after, window)) if after.values.len() == keys.len() => {
                (Some(after.clone()), *window)
            }
            Some(_) => {
                return Err(Error::bad_request("The continuation token is of another query."));
            }
        };
        let window = run.plan.part.unwrap_or(window);
        Ok(Self { keys, descending: descends(compiled), after, resume, is_loose: false, window })
    }

    /// Replaces values that were too long for the token by those of the last item, if it is there.
    pub(super) fn sharpen(
        &mut self,
        run: &PageRun<'_>,
        execution: &mut Execution<'_>,
    ) -> Result<()> {
        let Some(after) = &mut self.after else { return Ok(()) };
        if after.values.iter().all(KeyValue::is_exact) {
            return Ok(());
        }
        let Some(found) = run.items.find(&after.place) else {
            self.is_loose = run.plan.part.is_some();
            return Ok(());
        };
        let loaded = run.items.reader().load(&found, &mut execution.work.loads)?;
        let mut row = 0;
        let mut values = None;
        let wanted = after.row;
        execution.visit_rows(run.compiled(), &loaded.value, &mut |frame, runtime, _| {
            if row == wanted {
                values = Some(order_keys(run.compiled(), frame, runtime)?);
                return Ok(ControlFlow::Break(()));
            }
            row += 1;
            Ok(ControlFlow::Continue(()))
        })?;
        // Another state of the item is another position.
        let same = |values: &Vec<Value>| {
            after.values.iter().zip(values).all(|(known, value)| known.compare(value).is_eq())
        };
        if let Some(values) = values.filter(same) {
            after.values = values.into_iter().map(KeyValue::Exact).collect();
        }
        Ok(())
    }

    /// True when the position has values that are not known exactly.
    pub(super) fn is_inexact(&self) -> bool {
        self.after.as_ref().is_some_and(|after| !after.is_exact())
    }

    /// The exact values of the position, if it has some.
    pub(super) fn exact_values(&self) -> Option<Vec<Value>> {
        let exact = |value: &KeyValue| match value {
            KeyValue::Exact(value) => Some(value.clone()),
            _ => None,
        };
        self.after.as_ref()?.values.iter().map(exact).collect()
    }

    /// Replaces the values of the position by those that another slice knows.
    pub(super) fn make_exact(&mut self, values: Vec<Value>) {
        if let Some(after) = self.after.as_mut().filter(|after| after.values.len() == values.len())
        {
            after.values = values.into_iter().map(KeyValue::Exact).collect();
        }
    }

    /// The order of two rows by their values alone.
    pub(super) fn compare_values(&self, left: &[Value], right: &[Value]) -> Ordering {
        compare_keys(left, right, self.keys)
    }

    /// True when a row lies behind the position and is not yet handed out.
    pub(super) fn admits(&self, values: &[Value], epk: &Epk, docno: u64, row: u32) -> bool {
        let behind_token = self
            .after
            .as_ref()
            .is_none_or(|after| self.compare_position(after, values, epk, docno, row).is_gt());
        behind_token && self.resume.is_none_or(|resume| self.is_resumed(resume, values, docno))
    }

    pub(super) fn directed(&self, key: &OrderKey, order: Ordering) -> Ordering {
        if key.descending { order.reverse() } else { order }
    }

    pub(super) fn tie(&self, order: Ordering) -> Ordering {
        if self.descending { order.reverse() } else { order }
    }

    /// The values of the position, as far as they are known.
    pub(super) fn start(&self) -> Vec<Option<Value>> {
        if let Some(after) = &self.after {
            let known = |value: &KeyValue| match value {
                KeyValue::Exact(value) => Some(value.clone()),
                _ => None,
            };
            return after.values.iter().map(known).collect();
        }
        let known = |value: &ResumeValue| match value {
            ResumeValue::Exact(value) => Some(value.clone()),
            ResumeValue::OfType(_) => None,
        };
        self.resume.map(|resume| resume.values.iter().map(known).collect()).unwrap_or_default()
    }

    /// True when a document with the values of the position was handed out before it.
    pub(super) fn is_passed(&self, epk: &[u8], docno: u64) -> bool {
        let Some(after) = &self.after else { return false };
        if epk < after.min.as_bytes() {
            return true;
        }
        let behind = after.max.as_ref().is_some_and(|max| max.as_bytes() <= epk);
        !behind && self.tie(docno.cmp(&after.place.docno)).is_lt()
    }

    pub(super) fn compare_position(
        &self,
        after: &OrderedPosition,
        values: &[Value],
        epk: &Epk,
        docno: u64,
        row: u32,
    ) -> Ordering {
        for ((known, value), key) in after.values.iter().zip(values).zip(self.keys) {
            let order = self.directed(key, known.compare(value));
            if order.is_ne() {
                return order;
            }
        }
        if self.is_loose {
            return Ordering::Greater;
        }
        if *epk < after.min {
            return Ordering::Less;
        }
        if after.max.as_ref().is_some_and(|max| max <= epk) {
            return Ordering::Greater;
        }
        self.tie(docno.cmp(&after.place.docno).then(row.cmp(&after.row)))
    }

    pub(super) fn is_resumed(&self, resume: &ResumeFilter, values: &[Value], docno: u64) -> bool {
        for ((known, value), key) in resume.values.iter().zip(values).zip(self.keys) {
            let order = match known {
                ResumeValue::Exact(known) => value.order(known),
                ResumeValue::OfType(kind) => value.kind().cmp(kind),
            };
            match self.directed(key, order) {
                Ordering::Less => return false,
                Ordering::Greater => return true,
                Ordering::Equal => {}
            }
        }
        match resume.docno {
            _ if resume.exclude => false,
            // The item itself comes again: of its several rows only the client knows which it has.
            Some(known) => self.tie(docno.cmp(&known)).is_ge(),
            None => true,
        }
    }

    pub(super) fn compare(&self, left: &SortedRow, right: &SortedRow) -> Ordering {
        compare_keys(&left.values, &right.values, self.keys)
            .then_with(|| left.target.cmp(&right.target))
            .then_with(|| {
                let left = (left.place.docno, left.row);
                self.tie(left.cmp(&(right.place.docno, right.row)))
            })
    }

    /// Rows that can be handed out at most, those to be skipped included, and one to know of more.
    pub(super) fn wanted(&self, count_max: usize) -> usize {
        self.window.wanted(count_max)
    }
}
