//! Reading items in order: feeds of a container, a range or a logical partition.
//!
//! The order is (effective key, ordinal) on every path, which inside a logical partition is the
//! order of creation. A continuation names the last item handed out, a position in the data and not
//! in any structure, so it survives restarts, merges and splits.

use crate::container::Container;
use crate::items::read::Item;
use crate::partition::Partition;
use crate::ranges::EpkSpan;
use armilla_index::{Direction, EpkRange};
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use armilla_model::limits::PAGE_SIZE_MAX;
use armilla_model::partition_key::Epk;
use std::ops::Bound;

/// A page of items.
#[derive(Debug, Default)]
pub struct ListPage {
    /// The items.
    pub items: Vec<Item>,
    /// Where the next page begins; `None` on the last one.
    pub continuation: Option<String>,
    /// What it costs.
    pub charge: RequestCharge,
}

/// The last item of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ListPosition {
    epk: Epk,
    docno: u64,
}

impl ListPosition {
    fn parse(token: &str) -> Result<Self> {
        let malformed =
            || Error::bad_request("Invalid Continuation Token: it is not one of this server's.");
        let (epk, docno) = token
            .strip_prefix("F1:")
            .and_then(|rest| rest.split_once(':'))
            .ok_or_else(malformed)?;
        let docno = docno.parse().map_err(|_| malformed())?;
        Ok(Self { epk: Epk::parse_hex(epk).map_err(|_| malformed())?, docno })
    }

    fn token(&self) -> String {
        format!("F1:{}:{}", self.epk, self.docno)
    }
}

/// Items of a page in the making.
struct PageOfItems {
    items: Vec<Item>,
    bytes: usize,
    count_max: usize,
}

impl PageOfItems {
    fn is_full(&self) -> bool {
        self.items.len() >= self.count_max || self.bytes >= PAGE_SIZE_MAX
    }
}

impl Container {
    /// Reads items of a span in order, at most `count_max` and a page's worth of bytes.
    pub fn list_items(
        &self,
        span: &EpkSpan,
        continuation: Option<&str>,
        count_max: usize,
    ) -> Result<ListPage> {
        let mut after = continuation.map(ListPosition::parse).transpose()?;
        let mut items = PageOfItems { items: Vec::new(), bytes: 0, count_max };
        let mut page = ListPage::default();
        for (partition, part) in self.partitions_in(span) {
            if after
                .as_ref()
                .is_some_and(|position| part.max.as_ref().is_some_and(|max| *max <= position.epk))
            {
                continue;
            }
            let full = self.list_partition(&partition, &part, after.take(), &mut items)?;
            if let Some(position) = full {
                page.continuation = Some(position.token());
                break;
            }
        }
        let rates = self.rates();
        page.items = items.items;
        let sizes = page.items.iter().map(|item| rates.feed_item(item.text.len()));
        page.charge = sizes.sum::<RequestCharge>().max(RequestCharge::ONE);
        Ok(page)
    }

    /// Adds a partition's items to a page. Returns the last position when the page is full and
    /// there is more.
    fn list_partition(
        &self,
        partition: &Partition,
        span: &EpkSpan,
        after: Option<ListPosition>,
        page: &mut PageOfItems,
    ) -> Result<Option<ListPosition>> {
        let (root, published) = self.core.consistent_view(partition);
        let now = u64::from(self.core.now_seconds());
        let liveness = self.settings().policy.liveness(now);
        let start = after.as_ref().map(|position| (position.epk.as_bytes(), position.docno));
        let mut last = after.clone();
        for located in published.view.documents(&index_range(span), start, Direction::Ascending) {
            let document = located.document;
            if !liveness.is_alive(document.ts, document.ttl) {
                continue;
            }
            if page.is_full() {
                return Ok(last.or_else(|| Some(ListPosition { epk: span.min.clone(), docno: 0 })));
            }
            let epk = Epk::from_bytes(document.epk);
            let found = self.find_by_docno(&*root.snapshot, &epk, document.hash, document.docno)?;
            let record = found.ok_or_else(|| {
                Error::Internal("the index names an item that is not there".to_owned())
            })?;
            page.bytes += record.size();
            page.items.push(Item::of(&record));
            last = Some(ListPosition { epk, docno: document.docno });
        }
        Ok(None)
    }
}

/// A span as the index takes it.
pub(crate) fn index_range(span: &EpkSpan) -> EpkRange {
    let start = Bound::Included(span.min.as_bytes().to_vec());
    let end = match &span.max {
        Some(max) => Bound::Excluded(max.as_bytes().to_vec()),
        None => Bound::Unbounded,
    };
    EpkRange::new(start, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_read_back_and_foreign_tokens_are_refused() {
        let position = ListPosition { epk: Epk::from_bytes(&[1, 0xab]), docno: 7 };
        assert_eq!(ListPosition::parse(&position.token()).unwrap(), position);
        for token in ["", "F1:", "F1:zz:1", "F1:01:x", "-RID:~abc#RT:1"] {
            assert!(ListPosition::parse(token).is_err(), "{token} was accepted");
        }
    }
}
