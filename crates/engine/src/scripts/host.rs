//! What a script can do to items, over an open transaction.
//!
//! Reads by link and feeds see the transaction's own writes. A query takes its candidates from the
//! start of the transaction and shows them as they are now: items that the script created are not
//! found, those it deleted are gone, those it changed show their new content. A write that is
//! refused leaves the transaction as it was; a failing store fails the whole script in the end,
//! whatever the script makes of the error.

use super::failure::into_script;
use crate::items::{WriteOptions, Written};
use crate::limits::{SCRIPT_QUICK_BYTES, SCRIPT_WRITTEN_SIZE_MAX};
use crate::listing::index_range;
use crate::partition::Partition;
use crate::query::{Limit, PageOptions, Query, Request, Scope, ScriptDeadline};
use crate::ranges::EpkSpan;
use crate::record::Record;
use crate::txn::Txn;
use armilla_index::Direction;
use armilla_model::charge::{Rates, RequestCharge};
use armilla_model::error::{Error, Result};
use armilla_model::limits::PAGE_SIZE_MAX;
use armilla_model::rid;
use armilla_script::host::{
    CollectionLinks, CollectionSize, Host, HostError, IndexDirective, ItemLink, Page, ReadOutcome,
    Upserted,
};
use bytes::Bytes;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// How the text of an item tells its resource id, behind everything the client wrote.
const RID_MARK: &[u8] = b"\"_rid\":\"";
/// Length of an item's resource id as text.
const RID_LENGTH: usize = 24;

/// A transaction as scripts see it.
pub(super) struct TxnHost {
    txn: Txn,
    partition: Arc<Partition>,
    clock: ScriptDeadline,
    /// Ids of the items that were read or written by the script, by ordinal.
    known: HashMap<u64, Arc<str>>,
    /// Ordinals of the items that were read or queried.
    seen: HashSet<u64>,
    written: usize,
    charge: RequestCharge,
    rates: Arc<Rates>,
    broken: Option<Error>,
    /// Nothing may be done that takes its time.
    is_bounded: bool,
    /// It was asked for all the same.
    is_beyond: bool,
}

impl TxnHost {
    /// A host over a transaction, for a script with this much time.
    pub(super) fn new(txn: Txn, clock: ScriptDeadline) -> Self {
        Self {
            partition: txn.container().partition_of(txn.epk()),
            rates: txn.container().rates(),
            txn,
            clock,
            known: HashMap::new(),
            seen: HashSet::new(),
            written: 0,
            charge: RequestCharge::ZERO,
            broken: None,
            is_bounded: false,
            is_beyond: false,
        }
    }

    /// The same on a thread that must not be held up: [`is_beyond`](Self::is_beyond) tells of what was refused.
    pub(super) fn bounded(mut txn: Txn, clock: ScriptDeadline) -> Self {
        txn.limit_loading(Some(SCRIPT_QUICK_BYTES));
        Self { is_bounded: true, ..Self::new(txn, clock) }
    }

    /// Whether something was refused that is not done on this thread.
    pub(super) fn is_beyond(&self) -> bool {
        self.is_beyond || self.txn.is_heavy()
    }

    /// Refuses what would take its time on a thread that must not be held up.
    fn check_bounds(&mut self, is_within: bool) -> Result<()> {
        if is_within || !self.is_bounded {
            return Ok(());
        }
        self.is_beyond = true;
        Err(Error::Internal("this takes too long for this thread".to_owned()))
    }

    /// The transaction, what the operations cost, and what makes it impossible to commit.
    pub(super) fn into_parts(self) -> (Txn, RequestCharge, Option<Error>) {
        (self.txn, self.charge, self.broken)
    }

    /// The transaction, for the write that triggers belong to.
    pub(super) fn txn(&mut self) -> &mut Txn {
        &mut self.txn
    }

    /// Remembers the write that triggers belong to.
    pub(super) fn remember(&mut self, written: &Written) {
        self.known.insert(written.docno, written.id.clone());
    }

    fn pay(&mut self, charge: RequestCharge) {
        self.charge += self.rates.in_script(charge);
    }

    /// Hands a failure to the script. Refusals cost what they cost a client.
    fn refuse(&mut self, error: Error) -> HostError {
        self.pay(self.rates.failure);
        let told = into_script(&error);
        if matches!(error, Error::Internal(_) | Error::Damaged(_)) {
            self.broken.get_or_insert(error);
        }
        told
    }

    /// The id of the item that a link names.
    fn id_of(&self, link: &ItemLink) -> Result<Arc<str>> {
        match link {
            ItemLink::ByName(id) => Ok(id.as_str().into()),
            ItemLink::ByRid(rid) => {
                let docno = self.docno_of(rid.as_bytes()).ok_or_else(Error::not_found)?;
                self.id_of_docno(docno)?.ok_or_else(Error::not_found)
            }
        }
    }

    /// The ordinal in a resource id of this container.
    fn docno_of(&self, rid: &[u8]) -> Option<u64> {
        let bytes = rid::decode(std::str::from_utf8(rid).ok()?)?;
        let (container, docno) = rid::split_document(&bytes)?;
        (container == self.txn.container().rid).then_some(docno)
    }

    /// What the script touched it knows by id; everything else is as the index says.
    fn id_of_docno(&self, docno: u64) -> Result<Option<Arc<str>>> {
        let id = match self.known.get(&docno) {
            Some(id) => id.clone(),
            None => match self.indexed(docno)?.and_then(|record| record.id()) {
                Some(id) => id.into(),
                None => return Ok(None),
            },
        };
        // The id may have gone to another item since.
        let current = self.txn.find(&id)?;
        Ok(current.is_some_and(|current| current.docno() == docno).then_some(id))
    }

    fn indexed(&self, docno: u64) -> Result<Option<Record>> {
        let (container, epk) = (self.txn.container(), self.txn.epk());
        let view = self.partition.view();
        let Some(located) = view.view.find(epk.as_bytes(), docno) else { return Ok(None) };
        container.find_by_docno(&**self.txn.snapshot(), epk, located.document.hash, docno)
    }

    fn read(&mut self, link: &ItemLink, if_none_match: Option<&str>) -> Result<ReadOutcome> {
        let id = self.id_of(link)?;
        let current = self.txn.find_to_write(&id)?.ok_or_else(Error::not_found)?;
        let docno = current.docno();
        let item = current.into_item();
        self.check_bounds(item.text.len() <= SCRIPT_QUICK_BYTES)?;
        self.known.insert(docno, id);
        self.seen.insert(docno);
        if if_none_match.is_some_and(|etag| item.etag.matches(etag)) {
            self.pay(self.rates.failure);
            return Ok(ReadOutcome::NotModified);
        }
        self.pay(item.read_charge(&self.rates));
        text_of(&item.text).map(ReadOutcome::Found)
    }

    /// A page of the logical partition: what was there as it is now, then what the script created.
    fn list(&mut self, page_size: usize, continuation: Option<&str>) -> Result<Page> {
        self.check_bounds(false)?;
        let after = continuation.map(read_token).transpose()?;
        let mut page = Listing::new(page_size, self.rates.clone());
        let overlay = self.txn.overlay()?;
        let container = self.txn.container().clone();
        let (root, published) = container.core.consistent_view(&self.partition);
        let settings = container.settings();
        let now = u64::from(container.core.now_seconds());
        let epk = self.txn.epk();
        let range = index_range(&EpkSpan::of_prefix(epk));
        let start = after.map(|docno| (epk.as_bytes(), docno));
        for located in published.view.documents(&range, start, Direction::Ascending) {
            let document = located.document;
            let liveness = settings.policy.liveness(now);
            let expired = !liveness.is_alive(document.ts, document.ttl);
            if document.epk != epk.as_bytes() || expired {
                continue;
            }
            let record = match overlay.get(&document.docno) {
                Some(None) => continue,
                Some(Some(record)) => record.clone(),
                None => container
                    .find_by_docno(&*root.snapshot, epk, document.hash, document.docno)?
                    .ok_or_else(|| {
                        Error::Internal("the index names an item that is not there".to_owned())
                    })?,
            };
            if !page.offer(document.docno, &record.text())? {
                break;
            }
        }
        let mut created: Vec<_> = self.txn.created().collect();
        created.sort_unstable_by_key(|(docno, _)| *docno);
        for (docno, text) in created {
            if after.is_none_or(|after| docno > after) && !page.offer(docno, text)? {
                break;
            }
        }
        let Listing { rows, docnos, charge, full, .. } = page;
        self.pay(charge.max(RequestCharge::ONE));
        let last = docnos.last().copied().or(after).unwrap_or_default();
        self.seen.extend(docnos);
        Ok(Page { rows, continuation: full.then(|| write_token(last)) })
    }

    fn query(
        &mut self,
        query_json: &str,
        page_size: usize,
        continuation: Option<&str>,
    ) -> Result<Page> {
        self.check_bounds(false)?;
        let request = Request::parse(query_json.as_bytes())?;
        let scope = Scope {
            span: EpkSpan::of_prefix(self.txn.epk()),
            limit: Limit::Key,
            cross_partition: false,
        };
        let query = Query::new(self.txn.container().clone(), request, &scope)?;
        let overlay = match self.txn.is_clean() {
            true => None,
            false => Some(self.txn.overlay()?),
        };
        let options = PageOptions { count_max: page_size, continuation, range_by_range: false };
        let page = query.page_over(options, overlay, self.clock)?;
        self.pay(page.charge);
        let seen = page.rows.iter().filter_map(|row| self.docno_of(rid_in(row)?));
        let seen: Vec<_> = seen.collect();
        self.seen.extend(seen);
        let rows = page.rows.iter().map(text_of).collect::<Result<_>>()?;
        Ok(Page { rows, continuation: page.continuation })
    }

    /// Runs one write and settles what it costs.
    fn write(
        &mut self,
        size: usize,
        stage: impl FnOnce(&mut Txn) -> Result<Written>,
    ) -> Result<Written> {
        self.check_bounds(size <= SCRIPT_QUICK_BYTES)?;
        if self.written + size > SCRIPT_WRITTEN_SIZE_MAX {
            return Err(Error::TooLarge(format!(
                "Request size is too large: a script may write at most {SCRIPT_WRITTEN_SIZE_MAX} bytes."
            )));
        }
        let written = stage(&mut self.txn)?;
        self.written += size;
        self.known.insert(written.docno, written.id.clone());
        let replaces = !written.created && written.etag.is_some();
        let known_size = match replaces && self.seen.contains(&written.docno) {
            // What was read already is there to be overwritten: the larger size counts alone.
            true => {
                let (before, after) = (written.size_before, written.text.len());
                let larger = self.rates.write(before.max(after));
                self.rates.replace(before, after).less(larger)
            }
            false => RequestCharge::ZERO,
        };
        self.pay(written.charge.less(known_size));
        Ok(written)
    }
}

impl Host for TxnHost {
    fn collection(&self) -> CollectionLinks {
        let container = self.txn.container();
        CollectionLinks {
            self_link: container.self_link.to_string(),
            alt_link: container.alt_link().to_string(),
        }
    }

    fn collection_size(&self) -> CollectionSize {
        CollectionSize { megabytes: self.txn.container().size() >> 20, megabytes_max: 0 }
    }

    fn read_item(
        &mut self,
        link: &ItemLink,
        if_none_match: Option<&str>,
    ) -> Result<ReadOutcome, HostError> {
        self.read(link, if_none_match).map_err(|error| self.refuse(error))
    }

    fn read_items(
        &mut self,
        page_size: usize,
        continuation: Option<&str>,
    ) -> Result<Page, HostError> {
        self.list(page_size, continuation).map_err(|error| self.refuse(error))
    }

    fn query_items(
        &mut self,
        query_json: &str,
        page_size: usize,
        continuation: Option<&str>,
    ) -> Result<Page, HostError> {
        self.query(query_json, page_size, continuation).map_err(|error| self.refuse(error))
    }

    fn create_item(
        &mut self,
        body: &str,
        index_directive: Option<IndexDirective>,
    ) -> Result<String, HostError> {
        let options = options(None, index_directive);
        self.write(body.len(), |txn| txn.create_item(body.as_bytes(), &options))
            .and_then(|written| text_of(&written.text))
            .map_err(|error| self.refuse(error))
    }

    fn upsert_item(
        &mut self,
        body: &str,
        etag: Option<&str>,
        index_directive: Option<IndexDirective>,
    ) -> Result<Upserted, HostError> {
        let options = options(etag, index_directive);
        let upserted = |written: Written| {
            let text = text_of(&written.text)?;
            Ok(if written.created { Upserted::Created(text) } else { Upserted::Replaced(text) })
        };
        self.write(body.len(), |txn| txn.upsert_item(body.as_bytes(), &options))
            .and_then(upserted)
            .map_err(|error| self.refuse(error))
    }

    fn replace_item(
        &mut self,
        link: &ItemLink,
        body: &str,
        etag: Option<&str>,
        index_directive: Option<IndexDirective>,
    ) -> Result<String, HostError> {
        let options = options(etag, index_directive);
        self.id_of(link)
            .and_then(|id| {
                self.write(body.len(), |txn| txn.replace_item(&id, body.as_bytes(), &options))
            })
            .and_then(|written| text_of(&written.text))
            .map_err(|error| self.refuse(error))
    }

    fn delete_item(&mut self, link: &ItemLink, etag: Option<&str>) -> Result<(), HostError> {
        let options = options(etag, None);
        self.id_of(link)
            .and_then(|id| self.write(0, |txn| txn.delete_item(&id, &options)))
            .map(drop)
            .map_err(|error| self.refuse(error))
    }

    fn new_guid(&mut self) -> String {
        let fresh = self.txn.container().core.ids.next_etag();
        let mut bytes = [0; 16];
        for half in bytes.chunks_mut(8) {
            // Keys of the hash are random, so nobody can foretell ids from the ones they have seen.
            half.copy_from_slice(&RandomState::new().hash_one(fresh).to_be_bytes());
        }
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        armilla_model::etag::ETag(bytes).to_string().trim_matches('"').to_owned()
    }
}

/// A page of items in the making.
struct Listing {
    count_max: usize,
    rows: Vec<String>,
    docnos: Vec<u64>,
    size: usize,
    charge: RequestCharge,
    rates: Arc<Rates>,
    full: bool,
}

impl Listing {
    fn new(page_size: usize, rates: Arc<Rates>) -> Self {
        Self {
            rates,
            count_max: page_size.max(1),
            rows: Vec::new(),
            docnos: Vec::new(),
            size: 0,
            charge: RequestCharge::ZERO,
            full: false,
        }
    }

    /// Adds an item, unless the page is full: then there is more.
    fn offer(&mut self, docno: u64, text: &[u8]) -> Result<bool> {
        if self.rows.len() >= self.count_max || self.size >= PAGE_SIZE_MAX {
            self.full = true;
            return Ok(false);
        }
        self.size += text.len();
        self.charge += self.rates.feed_item(text.len());
        self.rows.push(text_of(text)?);
        self.docnos.push(docno);
        Ok(true)
    }
}

fn options(etag: Option<&str>, index_directive: Option<IndexDirective>) -> WriteOptions {
    WriteOptions {
        minimal: false,
        if_match: etag.map(str::to_owned),
        if_none_match: None,
        exclude_from_index: index_directive == Some(IndexDirective::Exclude),
    }
}

fn text_of(text: impl AsRef<[u8]>) -> Result<String> {
    String::from_utf8(text.as_ref().to_vec())
        .map_err(|_| Error::Internal("an item is not UTF-8".to_owned()))
}

/// The resource id in a row, if the row is an item.
fn rid_in(row: &Bytes) -> Option<&[u8]> {
    let at = row.windows(RID_MARK.len()).rposition(|window| window == RID_MARK)? + RID_MARK.len();
    row.get(at..at + RID_LENGTH)
}

/// A continuation names the last item that was handed out.
fn write_token(docno: u64) -> String {
    format!("S1:{docno}")
}

fn read_token(token: &str) -> Result<u64> {
    let docno = token.strip_prefix("S1:").and_then(|docno| docno.parse().ok());
    docno.ok_or_else(|| Error::bad_request("The continuation token is not one of this server's."))
}
