//! Queries over an account that is cut into slices: each slice has a part of a page, and one of them puts the page together.
//!
//! Rows that come as items go by need none of this: they come slice by slice, and a page says which one goes on.

use super::part::{Part, PartContent, PartRow};
use super::prepare::Shape;
use super::token::{self, Position, Window};
use super::{Page, PageOptions, Plan, Query, exec};
use armilla_model::charge::RequestCharge;
use armilla_model::error::Result;
use bytes::Bytes;

/// What one slice has for a page.
#[derive(Debug)]
pub struct PartPage {
    /// For whoever puts the page together.
    pub bytes: Bytes,
    /// What this slice did for it.
    pub charge: RequestCharge,
    /// How that is spread over its ranges, where there are several.
    pub shares: Vec<(u32, RequestCharge)>,
}

impl Query {
    /// The same query for all slices of an account, of which this is one.
    #[must_use]
    pub fn in_turn(self, in_turn: bool) -> Self {
        Self { in_turn, ..self }
    }

    /// True when the rows of several slices meet: it is answered by [`Query::part`] and [`Query::merge`].
    pub fn is_gathered(&self) -> bool {
        self.in_turn && self.prepared.shape != Shape::Stream
    }

    /// What this slice has for a page.
    ///
    /// # Errors
    ///
    /// As a page; and when the slice would have to hand out more than fits.
    pub fn part(&self, options: PageOptions<'_>) -> Result<PartPage> {
        let window = self.part_window(options)?;
        let count_max = match window {
            Some(window) => usize::try_from(window.take).unwrap_or(usize::MAX),
            None => options.count_max,
        };
        let mut plan = Plan::choose(self, PageOptions { count_max, ..options }, None)?;
        plan.part = window;
        let mut work = self.work(None);
        let content = exec::part(self, &plan, &mut work);
        let content = content.map_err(|error| work.stopped.take().unwrap_or(error))?;
        let mut charge = work.charges.total();
        if let PartContent::Rows(rows) = &content {
            let of_row = |row: &PartRow| row.charges.total();
            charge += rows.rows.iter().map(of_row).sum();
        }
        let retrieved = (work.loads.items, work.loads.bytes);
        let bytes = Part { charges: work.charges, retrieved, content }.write()?.into();
        Ok(PartPage { bytes, charge, shares: work.bill.shares(charge) })
    }

    /// The rows that are wanted of one slice: those to be skipped, those of a page, and one to know of more. Nothing where rows have no order.
    fn part_window(&self, options: PageOptions<'_>) -> Result<Option<Window>> {
        let compiled = &self.prepared.compiled;
        if self.prepared.shape != Shape::Ordered {
            return Ok(None);
        }
        let read = |text| token::read(text, self.binding);
        let wanted = match options.continuation.map(read).transpose()?.flatten() {
            // Rows of others come first that are equal to some of these.
            _ if compiled.distinct => usize::MAX,
            // Some of these may have been handed out: whoever has the item at the position knows.
            Some(Position::Ordered(after, _)) if !after.is_exact() => usize::MAX,
            Some(Position::Ordered(_, window)) => window.wanted(options.count_max),
            _ => Window::of(compiled).wanted(options.count_max),
        };
        Ok(Some(Window { skip: 0, take: wanted as u64 }))
    }

    /// Puts a page together of the parts of all slices, in their order.
    ///
    /// # Errors
    ///
    /// As a page; and when the parts are too large together, or are not those of this query.
    pub fn merge(&self, options: PageOptions<'_>, parts: &[Bytes]) -> Result<Page> {
        let plan = Plan::choose(self, options, None)?;
        let mut work = self.work(None);
        work.hold(parts.iter().map(Bytes::len).sum())?;
        let aggregation = self.prepared.compiled.aggregation.as_ref();
        let kinds: Vec<_> = aggregation
            .map_or(&[][..], |all| &all.aggregates)
            .iter()
            .map(|aggregate| aggregate.kind)
            .collect();
        let (mut contents, mut items, mut bytes) = (Vec::new(), 0, 0);
        for part in parts {
            let part = Part::read(part, &kinds)?;
            work.charges += part.charges;
            items += part.retrieved.0;
            bytes += part.retrieved.1;
            contents.push(part.content);
        }
        let page = exec::merge(self, &plan, contents, &mut work);
        let mut page = page.map_err(|error| work.stopped.take().unwrap_or(error))?;
        work.finish(&mut page, false);
        page.metrics.retrieved_count += items;
        page.metrics.retrieved_size += bytes;
        Ok(page)
    }
}
