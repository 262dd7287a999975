//! The items of a server, range by range and page by page, so that a reader can go on anywhere.
//!
//! A [`Position`] names a range by its first key, which outlives a split, and by its id, to which
//! the continuation belongs. When ranges have changed under a reader, the one it was in is read
//! again from its first key ([`Arrived::Again`]); after a merge, everything is.

use super::members::Members;
use crate::client::items::ContainerName;
use crate::client::query::{Page, QueryText, Range, Scope};
use crate::client::{Answer, Client};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use tokio::sync::mpsc;

/// Rows asked for at once.
const PAGE_ROWS: u32 = 1000;
/// Pages that may wait for whoever takes them.
const PAGES_WAITING: usize = 2;
/// The first key behind all ranges.
const END: &str = "FF";
/// How often ranges that have just changed are asked for again.
const MOVES_MAX: u32 = 100;
/// Pause before that.
const MOVED_PAUSE: Duration = Duration::from_millis(100);

/// A place in a container. The default is its beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// First key of the range, as hexadecimal text.
    pub(super) range: String,
    /// The range's id, to which the continuation belongs.
    #[serde(default)]
    id: String,
    /// Where to go on in it; at its first key without one.
    #[serde(default)]
    continuation: Option<String>,
}

/// What a reader gets.
pub(super) enum Arrived {
    /// Items, each as an object without the server's own properties, and the position behind them.
    Page(Vec<Members>, Position),
    /// The ranges have changed: everything from here on comes again.
    Again(Position),
}

/// Pages as they come, or why there are no more.
pub(super) type Pages = mpsc::Receiver<Result<Arrived, String>>;

/// Reads a container from a position to its end, ahead of whoever takes the pages.
pub(super) fn read(client: &Client, container: ContainerName<'_>, from: Position) -> Pages {
    let (sender, receiver) = mpsc::channel(PAGES_WAITING);
    let client = client.clone();
    let (database, name) = (container.database.to_owned(), container.container.to_owned());
    tokio::spawn(async move {
        let container = ContainerName::new(&database, &name);
        if let Err(error) = walk(&client, container, from, &sender).await {
            // Whoever has gone away does not hear of it.
            let _ = sender.send(Err(error)).await;
        }
    });
    receiver
}

async fn walk(
    client: &Client,
    container: ContainerName<'_>,
    mut position: Position,
    sender: &mpsc::Sender<Result<Arrived, String>>,
) -> Result<(), String> {
    let mut ranges = client.ranges(container).await?;
    let mut moves = 0;
    while position.range != END {
        let Some(range) = position.among(&ranges) else {
            position = position.begin_again(&ranges);
            if sender.send(Ok(Arrived::Again(position.clone()))).await.is_err() {
                return Ok(());
            }
            continue;
        };
        let answer = page(client, container, range, &position).await?;
        if answer.status == 410 && moves < MOVES_MAX {
            moves += 1;
            tokio::time::sleep(MOVED_PAUSE).await;
            ranges = client.ranges(container).await?;
            continue;
        }
        let answer = answer.success()?;
        position = Position::behind(range, answer.continuation());
        let rows = answer.rows()?;
        let items: Result<_, _> = rows.iter().map(|row| Members::of_item(row.get())).collect();
        if sender.send(Ok(Arrived::Page(items?, position.clone()))).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}

async fn page(
    client: &Client,
    container: ContainerName<'_>,
    range: &Range,
    position: &Position,
) -> Result<Answer, String> {
    let query = QueryText::new("SELECT * FROM c", &[]);
    let continuation = position.continuation.as_deref();
    let page = Page { count_max: Some(PAGE_ROWS), continuation, explained: false };
    Ok(client.query_page(container, Scope::Range(&range.id), &query, page).await?)
}

impl Position {
    /// The range it is in, if that is still the one it was.
    fn among<'r>(&self, ranges: &'r [Range]) -> Option<&'r Range> {
        ranges.iter().find(|range| {
            range.min_inclusive == self.range
                && (self.continuation.is_none() || range.id == self.id)
        })
    }

    /// Where to begin when it is not.
    fn begin_again(&self, ranges: &[Range]) -> Self {
        let begins_here = ranges.iter().any(|range| range.min_inclusive == self.range);
        let range = if begins_here { self.range.clone() } else { String::new() };
        Self { range, ..Self::default() }
    }

    /// The position behind a page.
    fn behind(range: &Range, continuation: Option<String>) -> Self {
        match continuation {
            Some(_) => {
                Self { range: range.min_inclusive.clone(), id: range.id.clone(), continuation }
            }
            None => Self { range: range.max_exclusive.clone(), ..Self::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(id: &str, min: &str, max: &str) -> Range {
        Range { id: id.into(), min_inclusive: min.into(), max_exclusive: max.into() }
    }

    #[test]
    fn a_split_repeats_its_range_and_a_merge_everything() {
        let before = [range("0", "", "80"), range("1", "80", "FF")];
        let inside = Position::behind(&before[1], Some("token".into()));
        assert_eq!(inside.among(&before).unwrap().id, "1");
        let split = [range("0", "", "80"), range("2", "80", "C0"), range("3", "C0", "FF")];
        assert!(inside.among(&split).is_none());
        let again = inside.begin_again(&split);
        assert_eq!(again, Position { range: "80".into(), ..Position::default() });
        assert_eq!(again.among(&split).unwrap().id, "2");
        let merged = [range("4", "", "FF")];
        assert_eq!(inside.begin_again(&merged), Position::default());
        assert_eq!(Position::default().among(&merged).unwrap().id, "4");
        assert_eq!(Position::behind(&before[1], None).range, END);
    }
}
