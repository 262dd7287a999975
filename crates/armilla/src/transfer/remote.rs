//! The items of another server, range by range, page by page.

use super::members::Members;
use crate::client::Client;
use crate::client::items::ContainerName;
use crate::client::query::{QueryText, Scope};

/// Rows asked for at once.
const PAGE_ROWS: u32 = 1000;

/// A page of items, each as the text of an object without the server's own properties.
pub(super) struct Page {
    pub(super) items: Vec<Members>,
    /// The range and token to go on from; nothing at the end.
    pub(super) next: Option<(usize, Option<String>)>,
}

/// Reads the page at a position. Ranges are told apart by their order.
pub(super) async fn page(
    client: &Client,
    container: ContainerName<'_>,
    ranges: &[String],
    (range, continuation): (usize, Option<String>),
) -> Result<Page, String> {
    let Some(id) = ranges.get(range) else { return Ok(Page { items: Vec::new(), next: None }) };
    let query = QueryText::new("SELECT * FROM c", &[]);
    let token = continuation.as_deref();
    let answer =
        client.query_page(container, Scope::Range(id), &query, Some(PAGE_ROWS), token).await?;
    if answer.status == 410 {
        return Err(
            "the container was split while it was read; start again with --restart".to_owned()
        );
    }
    let answer = answer.success()?;
    let items =
        answer.rows()?.iter().map(|row| Members::of_item(row.get())).collect::<Result<_, _>>()?;
    let next = match answer.continuation() {
        Some(token) => Some((range, Some(token))),
        None if range + 1 < ranges.len() => Some((range + 1, None)),
        None => None,
    };
    Ok(Page { items, next })
}

/// The ids of a container's ranges, in order.
pub(super) async fn ranges(
    client: &Client,
    container: ContainerName<'_>,
) -> Result<Vec<String>, String> {
    let mut ranges = client.ranges(container).await?;
    ranges.sort_by(|left, right| left.min_inclusive.cmp(&right.min_inclusive));
    Ok(ranges.into_iter().map(|range| range.id).collect())
}
