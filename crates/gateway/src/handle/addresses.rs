//! `/addresses`, which clients in Direct mode ask before they connect to a partition.

use super::Exchange;
use crate::account_document::{self, DIRECT_MODE_ADVICE};
use crate::direct::DirectMode;
use crate::direct::addresses::{AddressQuery, authority, write_master, write_ranges};
use crate::reply::Reply;
use crate::request::Request;
use crate::routes::{ContainerPath, Operation, Route, Segments};
use crate::service::Service;
use armilla_model::Error;

impl<S: Service> Exchange<'_, S> {
    /// The addresses of ranges or of the catalog. What is signed is the path that is asked for, by
    /// `_rid`, as if its items were listed.
    pub(super) fn answer_addresses(&self, request: &Request<'_>) -> Result<Reply, Box<Reply>> {
        let refused = |error: Error| Box::new(Reply::error(error));
        let mode = self.gateway.settings.direct;
        if mode == DirectMode::Off {
            // Clients replace the text of a 404 by their own; that of a 400 reaches their users.
            return Err(refused(Error::bad_request(DIRECT_MODE_ADVICE)));
        }
        let query = self.parts.uri.query().unwrap_or_default();
        let query = AddressQuery::parse(query).map_err(refused)?;
        let segments = Segments::parse(&query.resolve_for).map_err(refused)?;
        let asked = Request { segments: &segments, ..request.clone() };
        let principal = self.gateway.authenticate(&asked)?;
        request.readable.clone().map_err(refused)?;
        let (context, service) = (&asked.context, &self.gateway.service);
        let named = || {
            account_document::endpoint(&self.gateway.settings.account, self.http, self.arrival())
        };
        // The request may have been passed on by another node, at whose name nothing is served in Direct mode.
        let endpoint = self.gateway.settings.advertised.clone().unwrap_or_else(named);
        let authority = authority(&endpoint, mode);
        match asked.route()? {
            Route::Databases => {
                principal.check(&Operation::ListDatabases, context, service)?;
                Ok(Reply::ok(write_master(&authority)))
            }
            Route::Items(path) => {
                principal.check(&Operation::ReadPartitionKeyRanges(path), context, service)?;
                let slice = context.slice;
                self.addresses_of(&authority, (slice, path), &query.ranges).map_err(refused)
            }
            _ => Err(refused(Error::bad_request(
                "Addresses are asked for the items of a container, or for the databases.",
            ))),
        }
    }

    /// The addresses of the ranges that were asked for, all of which must be there.
    fn addresses_of(
        &self,
        authority: &str,
        (slice, path): (u32, ContainerPath<'_>),
        asked: &[u32],
    ) -> Result<Reply, Error> {
        let ranges = self.gateway.service.ranges(slice, path)?;
        if asked.iter().any(|range| !ranges.contains(range)) {
            return Err(Error::PartitionGone);
        }
        let asked = if asked.is_empty() { &ranges[..] } else { asked };
        Ok(Reply::ok(write_ranges(authority, path.container, asked)))
    }
}
