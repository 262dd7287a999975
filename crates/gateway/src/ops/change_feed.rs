//! The change feed of a range, a logical partition, a prefix of a key, or the whole container.
//!
//! The position in one range is an LSN, a plain number, because clients read it. A position in several
//! ranges is a list that only this server reads; it goes out sealed ([`crate::auth::Seal`]).

mod rows;

use super::EngineService;
use super::addressed::ItemTarget;
use super::placement::{self, Place};
use crate::auth::Belongs;
use crate::headers::FeedMode;
use crate::reply::{FeedBody, FeedKind};
use crate::{Call, Reply};
use armilla_engine::Container;
use armilla_engine::feed::{Positions, Start};
use armilla_engine::partition::Partition;
use armilla_model::charge::RequestCharge;
use armilla_model::limits::FEED_PAGE_DEFAULT;
use armilla_model::lsn::Lsn;
use armilla_model::{Error, Result};
use rows::ChangeForm;
use std::sync::Arc;

/// What a page is asked for.
#[derive(Clone)]
struct Question {
    start: Start,
    /// Where a reader of several ranges is.
    positions: Option<Positions>,
    count_max: usize,
    rows: ChangeForm,
}

/// A page: its rows as texts, and the position behind them.
struct ChangePage {
    rows: Vec<Vec<u8>>,
    position: Behind,
    charge: RequestCharge,
}

/// A position in the feed of one range or of several.
enum Behind {
    Lsn(Lsn),
    Several(Positions),
}

/// Answers with the changes behind a position, or 304.
pub(super) async fn read(
    service: &EngineService,
    call: &Call<'_>,
    target: ItemTarget,
) -> Result<Reply> {
    let (container, scope) = (&target.container, target.scope()?);
    if let Some(refusal) = target.session_refusal() {
        return Ok(refusal);
    }
    let key = scope.one_key().unwrap_or_default();
    let belongs = Belongs { kind: "changes", owner: &container.rid_text, scope: key };
    let seal = service.authenticator.seal();
    let question = question(call, |position| seal.open(belongs, position))?;
    let behind = |partition: &Arc<Partition>| container.changes_behind(partition, question.start);
    let behind = scope.partitions.iter().map(behind).sum::<u64>();
    let is_parsed = question.rows != ChangeForm::Bare;
    let (owner, span, range) = (container.clone(), scope.span.clone(), scope.range.clone());
    let count_max = question.count_max;
    let work = move || question.page(&owner, &span, range.as_deref());
    let page = match placement::of_feed(&scope.partitions, count_max, behind, is_parsed) {
        Place::Here => work(),
        Place::Pool => service.reading(work).await,
    };
    let reply = match page {
        Err(error) => Reply::error(error).charge(RequestCharge::ONE),
        Ok(page) => {
            let reply = if page.rows.is_empty() {
                // .NET parses the count of every answer, this one too.
                Reply::not_modified().item_count(0)
            } else {
                let body = FeedBody::of(FeedKind::Items, &container.rid_text, &page.rows);
                Reply::feed(body)
            };
            let position = match page.position {
                Behind::Lsn(lsn) => lsn.to_string(),
                Behind::Several(positions) => seal.close(belongs, &positions.to_string()),
            };
            reply.etag(format!("\"{position}\"")).charge(page.charge)
        }
    };
    Ok(target.with_one_position(reply))
}

fn question<'a>(call: &Call<'a>, open: impl Fn(&'a str) -> Result<&'a str>) -> Result<Question> {
    let context = call.context;
    let (start, positions) = start(call, open)?;
    let count_max = context.max_item_count.map_or(FEED_PAGE_DEFAULT, |count| count as usize).max(1);
    let rows = match context.feed_mode {
        Some(FeedMode::AllVersionsAndDeletes) => ChangeForm::Versions,
        _ if context.feed_wire_format.is_some() => ChangeForm::Wrapped,
        _ => ChangeForm::Bare,
    };
    Ok(Question { start, positions, count_max, rows })
}

/// `If-None-Match` wins over `If-Modified-Since`, which some clients go on sending beside it.
fn start<'a>(
    call: &Call<'a>,
    open: impl Fn(&'a str) -> Result<&'a str>,
) -> Result<(Start, Option<Positions>)> {
    let known = call.context.if_none_match.map(|etag| etag.trim().trim_matches('"'));
    match (known, call.context.if_modified_since) {
        (Some("*"), _) => Ok((Start::Now, None)),
        (Some(position), _) => {
            if let Ok(lsn) = position.parse() {
                return Ok((Start::After(Lsn(lsn)), None));
            }
            let positions = Positions::parse(open(position)?).ok_or_else(|| {
                Error::bad_request(format!("'{position}' is not a position in the change feed."))
            })?;
            Ok((Start::Beginning, Some(positions)))
        }
        (None, Some(second)) => Ok((Start::AfterSecond(second), None)),
        (None, None) => Ok((Start::Beginning, None)),
    }
}

impl Question {
    /// Reads a page of one range, or of all that the span touches.
    fn page(
        &self,
        container: &Container,
        span: &armilla_engine::ranges::EpkSpan,
        named: Option<&Partition>,
    ) -> Result<ChangePage> {
        let (start, count_max) = (self.start, self.count_max);
        if self.positions.is_none() {
            let touched = container.partitions_in(span);
            if touched.is_empty() {
                // Another slice of the account has these keys.
                let (position, charge) = (Behind::Lsn(Lsn(0)), RequestCharge::ONE);
                return Ok(ChangePage { rows: Vec::new(), position, charge });
            }
            let only = match (named, touched.as_slice()) {
                (Some(named), _) => Some(named),
                (None, [(only, _)]) => Some(&**only),
                _ => None,
            };
            if let Some(partition) = only {
                let changes = self.rows.read(container, partition, span, start, count_max)?;
                return Ok(ChangePage {
                    rows: changes.items,
                    position: Behind::Lsn(changes.position),
                    charge: changes.charge,
                });
            }
        }
        let read = |partition: &Partition,
                    span: &armilla_engine::ranges::EpkSpan,
                    start: Start,
                    count_max: usize| {
            self.rows.read(container, partition, span, start, count_max)
        };
        let changes =
            container.read_across(span, start, self.positions.as_ref(), count_max, read)?;
        let position = Behind::Several(changes.positions);
        Ok(ChangePage { rows: changes.items, position, charge: changes.charge })
    }
}
