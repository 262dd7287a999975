//! What a query answers over some ranges, and how it is printed.

use crate::support::stripped;
use armilla_engine::query::Page;
use armilla_model::charge::RequestCharge;
use armilla_model::json;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Rows of one page that are printed before the rest is only counted.
const ROWS_SHOWN: usize = 8;
/// Of those that are not all printed, how many are.
const ROWS_SHOWN_OF_MANY: usize = 4;

/// All pages of a query, or why there are none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Pages(Vec<Told>),
    Refused(String),
}

impl Answer {
    /// The same rows, if not in the same pages.
    pub(crate) fn has_rows_of(&self, other: &Self) -> bool {
        let (Self::Pages(these), Self::Pages(those)) = (self, other) else { return self == other };
        let rows = |pages: &[Told]| -> Vec<String> {
            pages.iter().flat_map(|page| page.rows.clone()).collect()
        };
        rows(these) == rows(those)
    }
}

/// What is told of a page.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    rows: Vec<String>,
    charge: RequestCharge,
    shares: Vec<(u32, RequestCharge)>,
    pub(crate) continuation: Option<String>,
}

impl Told {
    pub(crate) fn of(page: &Page) -> Self {
        let row = |row: &bytes::Bytes| stripped(&json::parse(row).unwrap()).to_json();
        Self {
            rows: page.rows.iter().map(row).collect(),
            charge: page.charge,
            shares: page.shares.clone(),
            continuation: page.continuation.clone(),
        }
    }

    /// `14.1 RU (0: 3.4, 1: 3.6, …)`.
    fn cost(&self) -> String {
        let share = |(range, charge): &(u32, RequestCharge)| format!("{range}: {charge}");
        let shares: Vec<String> = self.shares.iter().map(share).collect();
        match shares.is_empty() {
            true => format!("{} RU", self.charge),
            false => format!("{} RU ({})", self.charge, shares.join(", ")),
        }
    }
}

/// A query that was asked over so many ranges.
pub(crate) struct Asked {
    pub(crate) ranges: u32,
    pub(crate) answer: Answer,
    /// How its first page is answered.
    pub(crate) plan: Vec<String>,
}

/// Prints the answers of one range and of four: rows once if they are the same, then what each cost and
/// how it was answered.
pub(crate) fn print(all: &[Asked]) -> Vec<String> {
    let mut lines = Vec::new();
    let rows_are_shared = all.windows(2).all(|two| same_rows(&two[0].answer, &two[1].answer));
    if let (true, Some(Answer::Pages(pages))) = (rows_are_shared, all.first().map(|it| &it.answer))
    {
        lines.extend(pages.iter().flat_map(|page| rows(&page.rows)));
    }
    for Asked { ranges, answer, plan } in all {
        let over = if *ranges == 1 { "1 range".to_owned() } else { format!("{ranges} ranges") };
        match answer {
            Answer::Refused(message) => lines.push(format!("{over}: error: {message}")),
            Answer::Pages(pages) if rows_are_shared => {
                lines.extend(pages.iter().map(|page| format!("{over}: {}", page.cost())));
            }
            Answer::Pages(pages) => lines.extend(print_pages(&over, pages)),
        }
        lines.extend(plan.iter().map(|line| format!("  {line}")));
    }
    lines
}

fn print_pages(over: &str, pages: &[Told]) -> Vec<String> {
    let mut lines = Vec::new();
    for (number, page) in pages.iter().enumerate() {
        let is_only = pages.len() == 1 && page.continuation.is_none();
        let page_number = if is_only { String::new() } else { format!(", page {}", number + 1) };
        lines.push(format!("{over}{page_number}: {}", page.cost()));
        lines.extend(rows(&page.rows));
        lines.extend(page.continuation.as_deref().map(|token| format!("goes on {}", place(token))));
    }
    lines
}

/// True for two answers of a single page each, with the same rows.
fn same_rows(one: &Answer, other: &Answer) -> bool {
    let whole = |answer: &Answer| match answer {
        Answer::Pages(pages) => match pages.as_slice() {
            [page] if page.continuation.is_none() => Some(page.rows.clone()),
            _ => None,
        },
        Answer::Refused(_) => None,
    };
    let (one, other) = (whole(one), whole(other));
    one.is_some() && one == other
}

/// Where a token points. That of a group holds a hash under a key that each account draws by lot, so it is
/// not printed.
fn place(token: &str) -> String {
    /// Behind the hash of the query, a byte says what kind of place it is.
    const KIND_AT: usize = 8;
    const GROUP: u8 = 2;
    let bytes = token.strip_prefix("Q1:").and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    match bytes.unwrap()[KIND_AT] {
        GROUP => "behind a group".to_owned(),
        _ => format!("at {token}"),
    }
}

fn rows(rows: &[String]) -> Vec<String> {
    if rows.len() <= ROWS_SHOWN {
        return if rows.is_empty() { vec!["no rows".to_owned()] } else { rows.to_vec() };
    }
    let mut shown = rows[..ROWS_SHOWN_OF_MANY].to_vec();
    let digest = rows.iter().flat_map(|row| row.bytes().chain([b'\n'])).fold(FNV_BASIS, fnv);
    shown.push(format!("… {} rows in all, fingerprint {digest:016x}", rows.len()));
    shown
}

/// FNV-1a, so that rows which are not printed are pinned all the same.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

fn fnv(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
}
