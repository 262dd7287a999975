//! A host for scripts whose own time is measured.

use armilla_script::host::{
    CollectionLinks, Host, HostError, HostErrorKind, IndexDirective, ItemLink, Page, ReadOutcome,
    Upserted,
};

/// A host that answers at once, so that only the script is measured.
pub(crate) struct Instantly {
    /// What every read finds; nothing is there otherwise.
    pub(crate) item: Option<String>,
}

impl Host for Instantly {
    fn collection(&self) -> CollectionLinks {
        CollectionLinks {
            self_link: "dbs/AAAAAA==/colls/AAAAAAAAAAA=/".to_owned(),
            alt_link: "dbs/blog/colls/posts".to_owned(),
        }
    }
    fn read_item(&mut self, _: &ItemLink, _: Option<&str>) -> Result<ReadOutcome, HostError> {
        let item = self.item.clone();
        item.map(ReadOutcome::Found).ok_or_else(|| HostError::new(HostErrorKind::NotFound, "none"))
    }
    fn read_items(&mut self, _: usize, _: Option<&str>) -> Result<Page, HostError> {
        Ok(Page::default())
    }
    fn query_items(&mut self, _: &str, _: usize, _: Option<&str>) -> Result<Page, HostError> {
        Ok(Page::default())
    }
    fn create_item(&mut self, body: &str, _: Option<IndexDirective>) -> Result<String, HostError> {
        Ok(body.to_owned())
    }
    fn upsert_item(
        &mut self,
        body: &str,
        _: Option<&str>,
        _: Option<IndexDirective>,
    ) -> Result<Upserted, HostError> {
        Ok(Upserted::Created(body.to_owned()))
    }
    fn replace_item(
        &mut self,
        _: &ItemLink,
        body: &str,
        _: Option<&str>,
        _: Option<IndexDirective>,
    ) -> Result<String, HostError> {
        Ok(body.to_owned())
    }
    fn delete_item(&mut self, _: &ItemLink, _: Option<&str>) -> Result<(), HostError> {
        Ok(())
    }
    fn new_guid(&mut self) -> String {
        "5b2c9c0e-2f0a-4d7e-9d2f-0b7a5a1f6a11".to_owned()
    }
}
