//! The constants of the charge formulas, in one table.
//!
//! `article` is the table that the published figures were fitted with; `flat` charges one unit for
//! everything; a JSON document with the members `brackets` and `constants` replaces any of them.

use super::RequestCharge;
use crate::error::{Error, Result};
use crate::value::Value;
use std::sync::{Arc, LazyLock};

/// Most size brackets of a table.
const BRACKETS_MAX: usize = 64;
/// Most units that one constant may be.
const CONSTANT_MAX: f64 = 1_000_000.0;
/// Bytes of a row that cost [`Rates::output_kb`] each 1024; those behind cost less.
const DEAR_BYTES: usize = 2048;

/// What everything costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// By size, ascending.
    brackets: Vec<Bracket>,
    /// One index term.
    pub term: RequestCharge,
    /// One operation of a patch.
    pub patch_operation: RequestCharge,
    /// Each range that a query visits.
    pub query_base: RequestCharge,
    /// Each index seek of a query in a range after the first.
    pub query_seek: RequestCharge,
    /// Loading a candidate of a query.
    pub load_item: RequestCharge,
    /// Each KB of it.
    pub load_kb: RequestCharge,
    /// Handing out a row of a query.
    pub output_item: RequestCharge,
    /// Each of its first two KB.
    pub output_kb: RequestCharge,
    /// Each KB behind those.
    pub output_kb_rest: RequestCharge,
    /// Each matched item of an aggregate.
    pub aggregate_item: RequestCharge,
    /// Each matched item for each aggregate after the first.
    pub further_aggregate: RequestCharge,
    /// A JOIN's tuple beyond an item's first, or a row of a subquery.
    pub inner_row: RequestCharge,
    /// Calling a user function once.
    pub function_call: RequestCharge,
    /// Running a script at all.
    pub script_base: RequestCharge,
    /// Each interrupt tick of a script after the first.
    pub script_tick: RequestCharge,
    /// What a script pays of its operations, in millionths.
    script_share: u64,
    /// Refused writes, and reads that find nothing.
    pub failure: RequestCharge,
    /// Reading or listing databases, containers, scripts, users, offers and ranges.
    pub metadata_read: RequestCharge,
    /// Creating, replacing or deleting them.
    pub metadata_write: RequestCharge,
    /// A replaced item costs no more than the dearer of its versions.
    is_flat: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Bracket {
    size_max: usize,
    read: RequestCharge,
    write: RequestCharge,
}

/// Published charges by item size in KB, in 21sts: read, write.
const PUBLISHED: [(usize, u64, u64); 12] = [
    (1, 21, 104),
    (2, 22, 132),
    (4, 24, 140),
    (8, 28, 148),
    (16, 35, 200),
    (32, 46, 236),
    (64, 100, 476),
    (128, 209, 1012),
    (256, 426, 2064),
    (512, 860, 3876),
    (1024, 3064, 13125),
    (2048, 6128, 26250),
];

static ARTICLE: LazyLock<Arc<Rates>> = LazyLock::new(|| Arc::new(Rates::fitted()));
static FLAT: LazyLock<Arc<Rates>> = LazyLock::new(|| Arc::new(Rates::all_one()));

impl Rates {
    /// The table that the published figures were fitted with.
    pub fn article() -> Arc<Self> {
        ARTICLE.clone()
    }

    /// One unit for everything.
    pub fn flat() -> Arc<Self> {
        FLAT.clone()
    }

    fn fitted() -> Self {
        let bracket = |&(size_kb, read, write): &(usize, u64, u64)| Bracket {
            size_max: size_kb * 1024,
            read: RequestCharge::from_21sts(read),
            write: RequestCharge::from_21sts(write),
        };
        let micros = RequestCharge::from_micros;
        Self {
            brackets: PUBLISHED.iter().map(bracket).collect(),
            term: RequestCharge::from_21sts(4),
            patch_operation: RequestCharge::from_21sts(8),
            query_base: micros(2_820_000),
            query_seek: micros(30_000),
            load_item: micros(35_000),
            load_kb: micros(5_000),
            output_item: micros(10_000),
            output_kb: micros(150_000),
            output_kb_rest: micros(5_000),
            aggregate_item: micros(130_000),
            further_aggregate: micros(10_000),
            inner_row: micros(5_000),
            function_call: micros(10_000),
            script_base: micros(250_000),
            script_tick: micros(10_000),
            script_share: 900_000,
            failure: RequestCharge::ONE,
            metadata_read: RequestCharge::ONE,
            metadata_write: micros(4_950_000),
            is_flat: false,
        }
    }

    fn all_one() -> Self {
        let (one, zero) = (RequestCharge::ONE, RequestCharge::ZERO);
        Self {
            brackets: vec![Bracket { size_max: usize::MAX, read: one, write: one }],
            term: zero,
            patch_operation: zero,
            query_base: zero,
            query_seek: zero,
            load_item: zero,
            load_kb: zero,
            output_item: zero,
            output_kb: zero,
            output_kb_rest: zero,
            aggregate_item: zero,
            further_aggregate: zero,
            inner_row: zero,
            function_call: zero,
            script_base: one,
            script_tick: zero,
            script_share: 0,
            failure: one,
            metadata_read: one,
            metadata_write: one,
            is_flat: true,
        }
    }

    /// Reads a table; what the document leaves out is as in the article's.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let document = crate::json::parse(text)?;
        let mut rates = Self::fitted();
        if let Some(brackets) = document.get("brackets") {
            rates.brackets = read_brackets(brackets)?;
        }
        if let Some(constants) = document.get("constants") {
            let constants = constants
                .as_object()
                .ok_or_else(|| Error::bad_request("'constants' must be an object."))?;
            for (name, value) in constants.iter() {
                rates.set(name, value)?;
            }
        }
        Ok(rates)
    }

    fn set(&mut self, name: &str, value: &Value) -> Result<()> {
        let units = || read_charge(name, value, 1_000_000);
        let in_21sts = || read_charge(name, value, 21);
        match name {
            "TERM21" => self.term = in_21sts()?,
            "PATCH_OP21" => self.patch_operation = in_21sts()?,
            "Q_BASE" => self.query_base = units()?,
            "Q_SEEK" => self.query_seek = units()?,
            "LOAD_ITEM" => self.load_item = units()?,
            "LOAD_KB" => self.load_kb = units()?,
            "OUT_ITEM" => self.output_item = units()?,
            "OUT_KB_FIRST2" => self.output_kb = units()?,
            "OUT_KB_REST" => self.output_kb_rest = units()?,
            "AGG_ITEM" => self.aggregate_item = units()?,
            "AGG_FURTHER" => self.further_aggregate = units()?,
            "INNER_ROW" => self.inner_row = units()?,
            "UDF_CALL" => self.function_call = units()?,
            "SCRIPT_BASE" => self.script_base = units()?,
            "SCRIPT_TICK" => self.script_tick = units()?,
            "SCRIPT_OP_FACTOR" => self.script_share = micros_of(name, value)?,
            "FAIL_MIN" => self.failure = units()?,
            "META_READ" => self.metadata_read = units()?,
            "META_WRITE" => self.metadata_write = units()?,
            // What a term is, is a rule of the index and not a price; told for people.
            "unit" | "LONG_STRING" => {}
            _ => {
                return Err(Error::bad_request(format!(
                    "The charge profile sets '{name}', which is not a constant of charges. The names are those \
                     of crates/gateway/tests/units/request-units.json, such as TERM21, Q_BASE or SCRIPT_TICK."
                )));
            }
        }
        Ok(())
    }

    fn bracket(&self, size: usize) -> &Bracket {
        let position = self.brackets.partition_point(|bracket| bracket.size_max < size);
        // Stored items carry system properties and may pass the client's limit by a little.
        &self.brackets[position.min(self.brackets.len() - 1)]
    }

    /// Reading an item of this size.
    pub fn read(&self, size: usize) -> RequestCharge {
        self.bracket(size).read
    }

    /// The size part of writing an item of this size.
    pub fn write(&self, size: usize) -> RequestCharge {
        self.bracket(size).write
    }

    /// The size part of putting an item of one size in the place of another.
    pub fn replace(&self, before: usize, after: usize) -> RequestCharge {
        match self.is_flat {
            true => self.write(before).max(self.write(after)),
            false => self.write(before) + self.write(after),
        }
    }

    /// So many index terms.
    pub fn terms(&self, count: u64) -> RequestCharge {
        self.term * count
    }

    /// An item's share of a feed page: never more than reading it alone.
    pub fn feed_item(&self, size: usize) -> RequestCharge {
        match self.is_flat {
            true => RequestCharge::ZERO,
            false => self.read(size).min(RequestCharge::ONE.of_bytes(size)),
        }
    }

    /// Loading a candidate of a query.
    pub fn load(&self, size: usize) -> RequestCharge {
        self.load_item + self.load_kb.of_bytes(size)
    }

    /// Handing out a row of a query.
    pub fn output(&self, size: usize) -> RequestCharge {
        self.output_item
            + self.output_kb.of_bytes(size.min(DEAR_BYTES))
            + self.output_kb_rest.of_bytes(size.saturating_sub(DEAR_BYTES))
    }

    /// What a query pays per matched item of an aggregation with so many aggregates.
    pub fn aggregated_item(&self, aggregates: usize) -> RequestCharge {
        self.aggregate_item + self.further_aggregate * aggregates.saturating_sub(1) as u64
    }

    /// The share a script pays for an operation.
    pub fn in_script(&self, charge: RequestCharge) -> RequestCharge {
        let share = u128::from(charge.steps()) * u128::from(self.script_share) / 1_000_000;
        RequestCharge::from_steps(u64::try_from(share).unwrap_or(u64::MAX))
    }

    /// A script without its operations.
    pub fn script(&self, ticks: u64) -> RequestCharge {
        self.script_base + self.script_tick * ticks
    }
}

fn micros_of(name: &str, value: &Value) -> Result<u64> {
    let number = value.as_f64().filter(|number| (0.0..=CONSTANT_MAX).contains(number));
    let number = number.ok_or_else(|| {
        Error::bad_request(format!("'{name}' must be a number of request units."))
    })?;
    Ok((number * 1_000_000.0).round() as u64)
}

/// A charge given in parts of a unit: 21 for 21sts, a million for decimals.
fn read_charge(name: &str, value: &Value, parts: u64) -> Result<RequestCharge> {
    match parts {
        21 => {
            let count = value.as_i64().and_then(|count| u64::try_from(count).ok());
            let count = count.filter(|count| *count <= CONSTANT_MAX as u64);
            count.map(RequestCharge::from_21sts).ok_or_else(|| {
                Error::bad_request(format!("'{name}' must be a whole number of 21sts of a unit."))
            })
        }
        _ => micros_of(name, value).map(RequestCharge::from_micros),
    }
}

fn read_brackets(value: &Value) -> Result<Vec<Bracket>> {
    let malformed = || {
        Error::bad_request(
            "'brackets' must be a list of {maxBytes, read21, write21} with sizes that ascend.",
        )
    };
    let rows = value.as_array().ok_or_else(malformed)?;
    if rows.is_empty() || rows.len() > BRACKETS_MAX {
        return Err(malformed());
    }
    let mut brackets: Vec<Bracket> = Vec::with_capacity(rows.len());
    for row in rows {
        let member = |name: &str| row.get(name).ok_or_else(malformed);
        let size = member("maxBytes")?.as_i64().and_then(|size| usize::try_from(size).ok());
        let bracket = Bracket {
            size_max: size.ok_or_else(malformed)?,
            read: read_charge("read21", member("read21")?, 21)?,
            write: read_charge("write21", member("write21")?, 21)?,
        };
        if brackets.last().is_some_and(|last| last.size_max >= bracket.size_max) {
            return Err(malformed());
        }
        brackets.push(bracket);
    }
    Ok(brackets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_reads_and_writes() {
        let rates = Rates::article();
        assert_eq!(rates.read(1024).to_string(), "1");
        assert_eq!(rates.read(1025).to_string(), "1.05");
        assert_eq!(rates.read(100 * 1024).to_string(), "9.95");
        assert_eq!((rates.write(289) + rates.terms(4)).to_string(), "5.71");
        assert_eq!((rates.write(1713) + rates.terms(13)).to_string(), "8.76");
    }

    #[test]
    fn published_queries() {
        let rates = Rates::article();
        let one = |size| rates.load(size) + rates.output(size);
        assert_eq!((rates.query_base + one(9963)).to_string(), "3.25");
        assert_eq!((rates.query_base + one(1265) * 20).to_string(), "7.55");
    }

    #[test]
    fn flat_is_one_for_everything() {
        let rates = Rates::flat();
        let charges = [
            rates.read(5000),
            rates.write(5000) + rates.terms(9),
            rates.replace(5000, 10),
            rates.script(3) + rates.in_script(rates.write(1)),
            rates.metadata_write,
            (rates.query_base + rates.load(9) + rates.output(9)).max(RequestCharge::ONE),
        ];
        assert!(charges.iter().all(|charge| *charge == RequestCharge::ONE), "{charges:?}");
    }

    #[test]
    fn a_document_replaces_constants() {
        let text = br#"{"brackets":[{"maxBytes":10,"read21":42,"write21":63}],"constants":{"Q_BASE":1.5,"TERM21":21}}"#;
        let rates = Rates::parse(text).unwrap();
        assert_eq!(rates.read(10_000).to_string(), "2");
        assert_eq!(rates.query_base.to_string(), "1.5");
        assert_eq!(rates.term, RequestCharge::ONE);
        assert_eq!(rates.load_item, Rates::article().load_item);
        for text in
            [r#"{"constants":{"Q_BAS":1}}"#, r#"{"constants":{"Q_BASE":-1}}"#, r#"{"brackets":[]}"#]
        {
            assert!(Rates::parse(text.as_bytes()).is_err(), "{text}");
        }
        let error = Rates::parse(br#"{"constants":{"Q_BAS":1}}"#).unwrap_err();
        let told = error.message();
        assert!(told.contains("'Q_BAS'") && told.contains("such as TERM21, Q_BASE"), "{told}");
    }
}
