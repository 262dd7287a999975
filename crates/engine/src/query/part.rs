//! Parts: what one slice of an account has for a page that is put together of all of them.
//!
//! Every slice runs the query on its own items up to where rows of several slices meet: ordered rows with their places, groups with the states
//! of their aggregates, or the items themselves. Whoever puts the page together reads these bytes and goes on as if the ranges
//! were its own. They live as long as a request and are read by nodes of the same version family: there is a number in front.

use crate::limits::QUERY_PART_MAX;
use crate::query::counters::Charges;
use crate::query::token::codec::{TokenReader, TokenWriter};
use crate::query::token::{GroupKey, Place};
use armilla_model::charge::RequestCharge;
use armilla_model::error::{Error, Result};
use armilla_model::json;
use armilla_model::partition_key::Epk;
use armilla_model::value::Value;
use armilla_sql::SqlError;
use armilla_sql::aggregate::{Accumulator, AggregateKind, Group};
use armilla_sql::rank::Statistics;
use bytes::Bytes;

const FORM: u8 = 1;

/// What one slice has.
#[derive(Debug)]
pub(in crate::query) struct Part {
    /// What the slice is charged, without the rows that are handed out.
    pub(in crate::query) charges: Charges,
    /// Items read, and their bytes.
    pub(in crate::query) retrieved: (u64, u64),
    pub(in crate::query) content: PartContent,
}

#[derive(Debug)]
pub(in crate::query) enum PartContent {
    Rows(RowsPart),
    Groups(GroupsPart),
    Items(ItemsPart),
}

/// The next rows of an order.
#[derive(Debug, Default)]
pub(in crate::query) struct RowsPart {
    pub(in crate::query) ranges: Vec<PartRange>,
    pub(in crate::query) rows: Vec<PartRow>,
    /// Of DISTINCT: hashes of the rows whose first copies lie before the page.
    pub(in crate::query) passed: Vec<u128>,
    /// There are more rows behind these.
    pub(in crate::query) more: bool,
    /// The values of the position, where a token was too short for them and their item is here.
    pub(in crate::query) exact: Option<Vec<Value>>,
}

/// A range that rows come from.
#[derive(Debug)]
pub(in crate::query) struct PartRange {
    pub(in crate::query) min: Epk,
    pub(in crate::query) max: Option<Epk>,
    /// Items that match at most.
    pub(in crate::query) may_match: u64,
    /// What reading one of its items costs in the mean.
    pub(in crate::query) load: RequestCharge,
}

/// A row and its place in the order.
#[derive(Debug)]
pub(in crate::query) struct PartRow {
    pub(in crate::query) range: usize,
    pub(in crate::query) values: Vec<Value>,
    pub(in crate::query) place: Place,
    pub(in crate::query) row: u32,
    /// What it costs when it is handed out, besides its bytes.
    pub(in crate::query) charges: Charges,
    pub(in crate::query) text: Bytes,
}

/// The next groups or distinct rows, in the order of their keys.
#[derive(Debug, Default)]
pub(in crate::query) struct GroupsPart {
    pub(in crate::query) groups: Vec<(GroupKey, PartGroup)>,
    /// There are more behind these.
    pub(in crate::query) more: bool,
}

#[derive(Debug)]
pub(in crate::query) enum PartGroup {
    Group(Group),
    Row(Bytes),
}

/// The items that meet the innermost condition.
#[derive(Debug, Default)]
pub(in crate::query) struct ItemsPart {
    pub(in crate::query) items: Vec<PartItem>,
    /// Of ORDER BY RANK: what is known of all items.
    pub(in crate::query) statistics: Statistics,
}

#[derive(Debug)]
pub(in crate::query) struct PartItem {
    pub(in crate::query) docno: u64,
    pub(in crate::query) size: usize,
    pub(in crate::query) value: Value,
}

impl Part {
    /// The bytes of it; an error when there are too many.
    pub(in crate::query) fn write(&mut self) -> Result<Vec<u8>> {
        let mut out = TokenWriter(vec![FORM]);
        out.charges(&self.charges);
        out.number(self.retrieved.0);
        out.number(self.retrieved.1);
        match &mut self.content {
            PartContent::Rows(rows) => rows.write(&mut out),
            PartContent::Groups(groups) => groups.write(&mut out),
            PartContent::Items(items) => items.write(&mut out)?,
        }
        check_size(out.0.len())?;
        Ok(out.0)
    }

    /// The part of these bytes; `kinds` are the aggregates of the query.
    pub(in crate::query) fn read(bytes: &Bytes, kinds: &[AggregateKind]) -> Result<Self> {
        let mut reader = TokenReader(bytes);
        let part = (|| {
            let reader = &mut reader;
            if reader.byte()? != FORM {
                return None;
            }
            let charges = reader.charges()?;
            let retrieved = (reader.number()?, reader.number()?);
            let content = match reader.byte()? {
                0 => PartContent::Rows(RowsPart::read(reader)?),
                1 => PartContent::Groups(GroupsPart::read(reader, kinds)?),
                2 => PartContent::Items(ItemsPart::read(reader)?),
                _ => return None,
            };
            Some(Self { charges, retrieved, content })
        })();
        part.filter(|_| reader.0.is_empty()).ok_or_else(unreadable)
    }
}

/// What is said of parts that do not fit the query or each other.
pub(in crate::query) fn unreadable() -> Error {
    Error::Internal("the part of a page that another slice has made cannot be read".to_owned())
}

fn check_size(bytes: usize) -> Result<()> {
    if bytes <= QUERY_PART_MAX {
        return Ok(());
    }
    Err(SqlError::refused(format!(
        "The query needs more than {QUERY_PART_MAX} bytes of one slice of the account at once. Ask for fewer rows, or \
         filter more."
    ))
    .into())
}

impl RowsPart {
    fn write(&self, out: &mut TokenWriter) {
        out.0.push(0);
        out.list(&self.ranges, |out, range| {
            out.bytes(range.min.as_bytes());
            out.bytes(range.max.as_ref().map_or(&[], |max| max.as_bytes()));
            out.number(range.may_match);
            out.number(range.load.steps());
        });
        out.list(&self.rows, |out, row| {
            out.number(row.range as u64);
            out.list(&row.values, TokenWriter::json);
            out.place(&row.place);
            out.number(row.row.into());
            out.charges(&row.charges);
            out.bytes(&row.text);
        });
        out.list(&self.passed, |out, hash| out.0.extend_from_slice(&hash.to_be_bytes()));
        out.0.push(self.more.into());
        out.list(self.exact.as_deref().unwrap_or_default(), TokenWriter::json);
    }

    fn read(reader: &mut TokenReader<'_>) -> Option<Self> {
        let ranges = reader.list(|reader| {
            let min = Epk::from_bytes(reader.bytes()?);
            let max = Some(reader.bytes()?).filter(|max| !max.is_empty()).map(Epk::from_bytes);
            let may_match = reader.number()?;
            let load = RequestCharge::from_steps(reader.number()?);
            Some(PartRange { min, max, may_match, load })
        })?;
        let count = ranges.len();
        let rows = reader.list(|reader| {
            Some(PartRow {
                range: usize::try_from(reader.number()?).ok().filter(|range| *range < count)?,
                values: reader.list(TokenReader::json)?,
                place: reader.place()?,
                row: u32::try_from(reader.number()?).ok()?,
                charges: reader.charges()?,
                text: Bytes::copy_from_slice(reader.bytes()?),
            })
        })?;
        let passed = reader.list(TokenReader::u128)?;
        let more = reader.byte()? != 0;
        let exact = Some(reader.list(TokenReader::json)?).filter(|values| !values.is_empty());
        Some(Self { ranges, rows, passed, more, exact })
    }
}

impl GroupsPart {
    /// Writes as many as there is room for: the rest comes with a later page.
    fn write(&mut self, out: &mut TokenWriter) {
        out.0.push(1);
        let mut written = TokenWriter(Vec::new());
        let mut count = 0;
        for (key, group) in &self.groups {
            if count > 0 && written.0.len() >= QUERY_PART_MAX / 4 {
                self.more = true;
                break;
            }
            count += 1;
            written.bytes(&key.prefix);
            written.0.extend_from_slice(&key.hash.to_be_bytes());
            match group {
                PartGroup::Row(row) => {
                    written.0.push(0);
                    written.bytes(row);
                }
                PartGroup::Group(group) => {
                    written.0.push(1);
                    written.list(&group.keys, TokenWriter::json);
                    written.list(&group.accumulators, |out, accumulator| {
                        out.json(&accumulator.state());
                    });
                }
            }
        }
        out.number(count);
        out.0.append(&mut written.0);
        out.0.push(self.more.into());
    }

    fn read(reader: &mut TokenReader<'_>, kinds: &[AggregateKind]) -> Option<Self> {
        let groups = reader.list(|reader| {
            let prefix = reader.bytes()?.to_vec();
            let key = GroupKey { prefix, hash: reader.u128()? };
            let group = match reader.byte()? {
                0 => PartGroup::Row(Bytes::copy_from_slice(reader.bytes()?)),
                _ => {
                    let keys = reader.list(TokenReader::json)?;
                    let states = reader.list(TokenReader::json)?;
                    let of = |(kind, state): (&AggregateKind, &Value)| {
                        Accumulator::of_state(*kind, state)
                    };
                    let accumulators = kinds.iter().zip(&states).map(of).collect::<Option<_>>()?;
                    let fits = states.len() == kinds.len();
                    fits.then_some(PartGroup::Group(Group { keys, accumulators }))?
                }
            };
            Some((key, group))
        })?;
        Some(Self { groups, more: reader.byte()? != 0 })
    }
}

impl ItemsPart {
    fn write(&self, out: &mut TokenWriter) -> Result<()> {
        out.0.push(2);
        out.number(self.items.len() as u64);
        for item in &self.items {
            out.number(item.docno);
            out.number(item.size as u64);
            out.json(&item.value);
            check_size(out.0.len())?;
        }
        out.json(&self.statistics.state());
        Ok(())
    }

    fn read(reader: &mut TokenReader<'_>) -> Option<Self> {
        let items = reader.list(|reader| {
            let (docno, size) = (reader.number()?, usize::try_from(reader.number()?).ok()?);
            Some(PartItem { docno, size, value: reader.json()? })
        })?;
        Some(Self { items, statistics: Statistics::of_state(&reader.json()?)? })
    }
}

impl TokenWriter {
    fn list<T>(&mut self, list: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.number(list.len() as u64);
        list.iter().for_each(|element| write(self, element));
    }

    /// A value of any size, `undefined` included.
    fn json(&mut self, value: &Value) {
        match value {
            Value::Undefined => self.bytes(b""),
            value => self.bytes(value.to_json().as_bytes()),
        }
    }

    fn charges(&mut self, charges: &Charges) {
        let Charges { ranges, items, evaluation, aggregation, output } = charges;
        for charge in [ranges, items, evaluation, aggregation, output] {
            self.number(charge.steps());
        }
    }
}

impl TokenReader<'_> {
    fn json(&mut self) -> Option<Value> {
        match self.bytes()? {
            b"" => Some(Value::Undefined),
            text => json::parse(text).ok(),
        }
    }

    fn u128(&mut self) -> Option<u128> {
        self.take(16)?.try_into().ok().map(u128::from_be_bytes)
    }

    fn charges(&mut self) -> Option<Charges> {
        let mut next = || self.number().map(RequestCharge::from_steps);
        Some(Charges {
            ranges: next()?,
            items: next()?,
            evaluation: next()?,
            aggregation: next()?,
            output: next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows() -> Part {
        let range = PartRange {
            min: Epk::from_bytes(&[1; 16]),
            max: None,
            may_match: 7,
            load: RequestCharge::ONE,
        };
        let row = PartRow {
            range: 0,
            values: vec![Value::Undefined, Value::from("a"), Value::from(2)],
            place: Place { epk: Epk::from_bytes(&[3; 16]), docno: 300 },
            row: 4,
            charges: Charges { items: RequestCharge::ONE, ..Charges::default() },
            text: Bytes::from_static(b"{\"a\":1}"),
        };
        let rows = RowsPart {
            ranges: vec![range],
            rows: vec![row],
            passed: vec![5],
            more: true,
            exact: None,
        };
        let charges = Charges { ranges: RequestCharge::ONE, ..Charges::default() };
        Part { charges, retrieved: (3, 4), content: PartContent::Rows(rows) }
    }

    fn groups(count: usize) -> Part {
        let group = |number: usize| {
            let key = GroupKey { prefix: vec![1, 2], hash: number as u128 };
            let mut sum = Accumulator::new(AggregateKind::Sum);
            sum.add(&Value::from(0.1));
            let keys = vec![Value::from("x".repeat(1 << 20))];
            (key, PartGroup::Group(Group { keys, accumulators: vec![sum] }))
        };
        let groups = GroupsPart { groups: (0..count).map(group).collect(), more: false };
        let (charges, retrieved) = Default::default();
        Part { charges, retrieved, content: PartContent::Groups(groups) }
    }

    #[test]
    fn parts_read_back() {
        let bytes = Bytes::from(rows().write().unwrap());
        let part = Part::read(&bytes, &[]).unwrap();
        assert_eq!((part.charges.ranges, part.retrieved), (RequestCharge::ONE, (3, 4)));
        let PartContent::Rows(read) = part.content else { panic!("they were rows") };
        assert_eq!(format!("{read:?}"), {
            let PartContent::Rows(rows) = rows().content else { panic!("they are rows") };
            format!("{rows:?}")
        });
        for end in 0..bytes.len() {
            assert!(Part::read(&bytes.slice(..end), &[]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn groups_beyond_the_room_are_left_for_later() {
        let kinds = [AggregateKind::Sum];
        let read = |count| {
            let bytes = Bytes::from(groups(count).write().unwrap());
            let PartContent::Groups(read) = Part::read(&bytes, &kinds).unwrap().content else {
                panic!("they were groups")
            };
            (read.groups.len(), read.more)
        };
        assert_eq!(read(2), (2, false));
        let (count, more) = read(40);
        assert!(more && (1..40).contains(&count), "{count}");
        let bytes = Bytes::from(groups(1).write().unwrap());
        assert!(Part::read(&bytes, &[]).is_err(), "the aggregates of another query");
    }

    #[test]
    fn items_beyond_the_room_are_refused() {
        let item = |docno| PartItem { docno, size: 1, value: Value::from("x".repeat(1 << 20)) };
        let part = |count: u64| {
            let statistics = Statistics::default();
            let items = ItemsPart { items: (0..count).map(item).collect(), statistics };
            let (charges, retrieved) = Default::default();
            Part { charges, retrieved, content: PartContent::Items(items) }
        };
        let bytes = Bytes::from(part(3).write().unwrap());
        assert!(Part::read(&bytes, &[]).is_ok());
        let refused = part((QUERY_PART_MAX >> 20) as u64 + 1).write();
        assert!(refused.is_err_and(|error| error.to_string().contains("one slice")));
    }

    proptest! {
        #[test]
        fn anything_can_be_read(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            bytes.insert(0, FORM);
            let _ = Part::read(&bytes.into(), &[AggregateKind::Count]);
        }
    }
}
