//! A transaction lent to a script, so that it can be taken back from one that does not come back.
//!
//! The script's thread and the watchdog share the transaction and the callback of whoever waits for it.
//! One of them takes both out, once: the thread when the script has ended, to commit or to drop, or the
//! watchdog when it is late, to drop and to answer. What a script has written is only staged, so a
//! transaction that was taken back leaves nothing behind, and the script finds nothing to write to.

use super::host::TxnHost;
use armilla_model::error::{Error, Result};
use armilla_script::host::{
    CollectionLinks, CollectionSize, Host, HostError, HostErrorKind, IndexDirective, ItemLink,
    Page, ReadOutcome, Upserted,
};
use parking_lot::Mutex;
use std::sync::Arc;

/// A transaction that is lent, and who waits for it.
pub(super) struct Custody<D> {
    held: Mutex<Option<(TxnHost, D)>>,
}

impl<D> Custody<D> {
    pub(super) fn new(host: TxnHost, done: D) -> Arc<Self> {
        Arc::new(Self { held: Mutex::new(Some((host, done))) })
    }

    /// Takes everything out; nothing when it was taken before.
    pub(super) fn take(&self) -> Option<(TxnHost, D)> {
        self.held.lock().take()
    }

    /// The same, unless an operation of the script is under way: those end by themselves.
    pub(super) fn take_back(&self) -> Option<(TxnHost, D)> {
        self.held.try_lock()?.take()
    }

    /// Does something with the transaction.
    pub(super) fn with<T>(&self, act: impl FnOnce(&mut TxnHost) -> Result<T>) -> Result<T> {
        match self.held.lock().as_mut() {
            Some((host, _)) => act(host),
            // Nobody hears this: the answer has been given.
            None => Err(Error::Timeout("The script was given up.".to_owned())),
        }
    }
}

/// The host of a script, over a transaction that may be taken back.
pub(super) struct Lent<D> {
    custody: Arc<Custody<D>>,
    links: CollectionLinks,
    size: CollectionSize,
}

impl<D> Lent<D> {
    pub(super) fn new(custody: &Arc<Custody<D>>) -> Result<Self> {
        let (links, size) = custody.with(|host| Ok((host.collection(), host.collection_size())))?;
        Ok(Self { custody: custody.clone(), links, size })
    }

    fn with<T>(
        &self,
        act: impl FnOnce(&mut TxnHost) -> Result<T, HostError>,
    ) -> Result<T, HostError> {
        match self.custody.held.lock().as_mut() {
            Some((host, _)) => act(host),
            None => Err(HostError::new(HostErrorKind::Internal, "The script was given up.")),
        }
    }
}

impl<D> Host for Lent<D> {
    fn collection(&self) -> CollectionLinks {
        self.links.clone()
    }

    fn collection_size(&self) -> CollectionSize {
        self.size
    }

    fn read_item(
        &mut self,
        link: &ItemLink,
        if_none_match: Option<&str>,
    ) -> Result<ReadOutcome, HostError> {
        self.with(|host| host.read_item(link, if_none_match))
    }

    fn read_items(
        &mut self,
        page_size: usize,
        continuation: Option<&str>,
    ) -> Result<Page, HostError> {
        self.with(|host| host.read_items(page_size, continuation))
    }

    fn query_items(
        &mut self,
        query_json: &str,
        page_size: usize,
        continuation: Option<&str>,
    ) -> Result<Page, HostError> {
        self.with(|host| host.query_items(query_json, page_size, continuation))
    }

    fn create_item(
        &mut self,
        body: &str,
        index_directive: Option<IndexDirective>,
    ) -> Result<String, HostError> {
        self.with(|host| host.create_item(body, index_directive))
    }

    fn upsert_item(
        &mut self,
        body: &str,
        etag: Option<&str>,
        index_directive: Option<IndexDirective>,
    ) -> Result<Upserted, HostError> {
        self.with(|host| host.upsert_item(body, etag, index_directive))
    }

    fn replace_item(
        &mut self,
        link: &ItemLink,
        body: &str,
        etag: Option<&str>,
        index_directive: Option<IndexDirective>,
    ) -> Result<String, HostError> {
        self.with(|host| host.replace_item(link, body, etag, index_directive))
    }

    fn delete_item(&mut self, link: &ItemLink, etag: Option<&str>) -> Result<(), HostError> {
        self.with(|host| host.delete_item(link, etag))
    }

    fn accepts(&mut self) -> bool {
        self.with(|host| Ok(host.accepts())).unwrap_or(false)
    }

    fn new_guid(&mut self) -> String {
        self.with(|host| Ok(host.new_guid())).unwrap_or_default()
    }
}
