//! Aggregates: fed value by value, mergeable across partitions, finished once.

mod sum;

pub use sum::ExactSum;

use crate::key::{key, write_key};
use armilla_model::{Number, Value};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

/// Which aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateKind {
    /// `COUNT`
    Count,
    /// `SUM`
    Sum,
    /// `AVG`
    Average,
    /// `MIN`
    Min,
    /// `MAX`
    Max,
    /// `COUNTIF`
    CountIf,
    /// `MAKELIST`
    MakeList,
    /// `MAKESET`
    MakeSet,
}

const NAMES: [(&str, AggregateKind); 8] = [
    ("COUNT", AggregateKind::Count),
    ("SUM", AggregateKind::Sum),
    ("AVG", AggregateKind::Average),
    ("MIN", AggregateKind::Min),
    ("MAX", AggregateKind::Max),
    ("COUNTIF", AggregateKind::CountIf),
    ("MAKELIST", AggregateKind::MakeList),
    ("MAKESET", AggregateKind::MakeSet),
];

impl AggregateKind {
    /// The aggregate of that name, in any letter case.
    pub fn lookup(name: &str) -> Option<Self> {
        NAMES.iter().find(|(text, _)| text.eq_ignore_ascii_case(name)).map(|(_, kind)| *kind)
    }

    /// Its name in the language.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Its name in query plans.
    pub fn plan_name(self) -> &'static str {
        match self {
            Self::Count => "Count",
            Self::Sum => "Sum",
            Self::Average => "Average",
            Self::Min => "Min",
            Self::Max => "Max",
            Self::CountIf => "CountIf",
            Self::MakeList => "MakeList",
            Self::MakeSet => "MakeSet",
        }
    }
}

/// The state of one aggregate over the values seen so far.
#[derive(Clone, Debug)]
pub enum Accumulator {
    /// Values counted.
    Count(i64),
    /// Values counted that are exactly true.
    CountIf(i64),
    /// Sum and number of values; `None` once something was no number.
    Sum(Option<(ExactSum, i64)>),
    /// As for the sum.
    Average(Option<(ExactSum, i64)>),
    /// The smallest value.
    Min(Extreme),
    /// The largest value.
    Max(Extreme),
    /// All values.
    List(Vec<Value>),
    /// All values once, and their keys.
    Set(Vec<Value>, HashSet<Box<[u8]>>),
}

/// State of MIN and MAX.
#[derive(Clone, Debug, Default)]
pub enum Extreme {
    /// No value yet.
    #[default]
    Empty,
    /// The value so far.
    Found(Value),
    /// An array or object was seen: the result is undefined.
    Spoilt,
}

impl Accumulator {
    /// An aggregate over nothing.
    pub fn new(kind: AggregateKind) -> Self {
        match kind {
            AggregateKind::Count => Self::Count(0),
            AggregateKind::CountIf => Self::CountIf(0),
            AggregateKind::Sum => Self::Sum(Some(Default::default())),
            AggregateKind::Average => Self::Average(Some(Default::default())),
            AggregateKind::Min => Self::Min(Extreme::Empty),
            AggregateKind::Max => Self::Max(Extreme::Empty),
            AggregateKind::MakeList => Self::List(Vec::new()),
            AggregateKind::MakeSet => Self::Set(Vec::new(), HashSet::new()),
        }
    }

    /// Takes one value in. Undefined changes nothing.
    pub fn add(&mut self, value: &Value) {
        if value.is_undefined() {
            return;
        }
        match self {
            Self::Count(count) => *count += 1,
            Self::CountIf(count) => *count += i64::from(value.as_bool() == Some(true)),
            Self::Sum(state) | Self::Average(state) => match (&mut *state, value.as_number()) {
                (Some((sum, count)), Some(number)) => {
                    sum.add(number);
                    *count += 1;
                }
                _ => *state = None,
            },
            Self::Min(extreme) => extreme.add(value, Ordering::Less),
            Self::Max(extreme) => extreme.add(value, Ordering::Greater),
            Self::List(list) => list.push(value.clone()),
            Self::Set(list, seen) => {
                if seen.insert(key(value)) {
                    list.push(value.clone());
                }
            }
        }
    }

    /// Takes in `count` equal values at once, as an index can count them.
    pub fn add_many(&mut self, value: &Value, count: u64) {
        let times = i64::try_from(count).unwrap_or(i64::MAX);
        match self {
            _ if value.is_undefined() || count == 0 => {}
            Self::Count(total) => *total += times,
            Self::CountIf(total) if value.as_bool() == Some(true) => *total += times,
            Self::Sum(state) | Self::Average(state) => match (&mut *state, value.as_number()) {
                (Some((sum, seen)), Some(number)) => {
                    sum.add_many(number, count);
                    *seen += times;
                }
                _ => *state = None,
            },
            Self::List(list) => (0..count).for_each(|_| list.push(value.clone())),
            other => other.add(value),
        }
    }

    /// Takes in what another accumulator of the same kind has seen.
    pub fn merge(&mut self, other: Self) {
        match (self, other) {
            (Self::Count(left), Self::Count(right))
            | (Self::CountIf(left), Self::CountIf(right)) => *left += right,
            (Self::Sum(left), Self::Sum(right)) | (Self::Average(left), Self::Average(right)) => {
                match (&mut *left, right) {
                    (Some((sum, count)), Some((other_sum, other_count))) => {
                        sum.merge(&other_sum);
                        *count += other_count;
                    }
                    _ => *left = None,
                }
            }
            (Self::Min(left), Self::Min(right)) => left.merge(right, Ordering::Less),
            (Self::Max(left), Self::Max(right)) => left.merge(right, Ordering::Greater),
            (Self::List(left), Self::List(right)) => left.extend(right),
            (left @ Self::Set(..), Self::Set(right, _)) => {
                right.iter().for_each(|value| left.add(value));
            }
            (left, right) => debug_assert!(false, "{left:?} and {right:?} are of two kinds"),
        }
    }

    /// All of it, so that another process can go on: see [`Accumulator::of_state`].
    pub fn state(&self) -> Value {
        match self {
            Self::Count(count) | Self::CountIf(count) => Value::from(*count),
            Self::Sum(None) | Self::Average(None) => Value::Null,
            Self::Sum(Some((sum, count))) | Self::Average(Some((sum, count))) => {
                Value::array(vec![sum.state(), Value::from(*count)])
            }
            Self::Min(Extreme::Empty) | Self::Max(Extreme::Empty) => Value::array(Vec::new()),
            Self::Min(Extreme::Spoilt) | Self::Max(Extreme::Spoilt) => Value::Null,
            Self::Min(Extreme::Found(value)) | Self::Max(Extreme::Found(value)) => {
                Value::array(vec![value.clone()])
            }
            Self::List(list) | Self::Set(list, _) => Value::array(list.clone()),
        }
    }

    /// The aggregate of a kind that is in a state; nothing where the state is of another kind.
    pub fn of_state(kind: AggregateKind, state: &Value) -> Option<Self> {
        let count = || state.as_number()?.as_i64();
        let sum = || match state {
            Value::Null => Some(None),
            state => match state.as_array()? {
                [sum, count] => {
                    Some(Some((ExactSum::of_state(sum)?, count.as_number()?.as_i64()?)))
                }
                _ => None,
            },
        };
        let extreme = || match state {
            Value::Null => Some(Extreme::Spoilt),
            state => match state.as_array()? {
                [] => Some(Extreme::Empty),
                [value] => Some(Extreme::Found(value.clone())),
                _ => None,
            },
        };
        Some(match kind {
            AggregateKind::Count => Self::Count(count()?),
            AggregateKind::CountIf => Self::CountIf(count()?),
            AggregateKind::Sum => Self::Sum(sum()?),
            AggregateKind::Average => Self::Average(sum()?),
            AggregateKind::Min => Self::Min(extreme()?),
            AggregateKind::Max => Self::Max(extreme()?),
            AggregateKind::MakeList => Self::List(state.as_array()?.to_vec()),
            AggregateKind::MakeSet => {
                let mut set = Self::new(kind);
                state.as_array()?.iter().for_each(|value| set.add(value));
                set
            }
        })
    }

    /// The result.
    pub fn finish(self) -> Value {
        match self {
            Self::Count(count) | Self::CountIf(count) => Value::from(count),
            Self::Sum(state) => {
                state.map_or(Value::Undefined, |(sum, _)| Value::Number(sum.value()))
            }
            Self::Average(Some((sum, count))) if count > 0 => {
                Value::Number(sum.value().divided_by(Number::Int(count)))
            }
            Self::Average(_) => Value::Undefined,
            Self::Min(Extreme::Found(value)) | Self::Max(Extreme::Found(value)) => value,
            Self::Min(_) | Self::Max(_) => Value::Undefined,
            Self::List(list) | Self::Set(list, _) => Value::array(list),
        }
    }
}

impl Extreme {
    fn add(&mut self, value: &Value, wins: Ordering) {
        match (&*self, value) {
            (Self::Spoilt, _) => {}
            (_, Value::Array(_) | Value::Object(_)) => *self = Self::Spoilt,
            (Self::Found(found), _) if value.order(found) != wins => {}
            _ => *self = Self::Found(value.clone()),
        }
    }

    fn merge(&mut self, other: Self, wins: Ordering) {
        match other {
            Self::Empty => {}
            Self::Found(value) => self.add(&value, wins),
            Self::Spoilt => *self = Self::Spoilt,
        }
    }
}

/// Groups by key, in the order their first rows came.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    positions: HashMap<Box<[u8]>, usize>,
    groups: Vec<Group>,
    scratch: Vec<u8>,
}

/// One group: the values of its keys and its aggregates.
#[derive(Clone, Debug)]
pub struct Group {
    /// The keys.
    pub keys: Vec<Value>,
    /// The aggregates.
    pub accumulators: Vec<Accumulator>,
}

impl Groups {
    /// No groups.
    pub fn new() -> Self {
        Self::default()
    }

    /// The group of these keys, made when it is new.
    pub fn group(
        &mut self,
        keys: &[Value],
        kinds: impl Iterator<Item = AggregateKind>,
    ) -> &mut Group {
        self.scratch.clear();
        keys.iter().for_each(|value| write_key(value, &mut self.scratch));
        let position = match self.positions.get(self.scratch.as_slice()) {
            Some(position) => *position,
            None => {
                let accumulators = kinds.map(Accumulator::new).collect();
                self.groups.push(Group { keys: keys.to_vec(), accumulators });
                self.positions.insert(self.scratch.as_slice().into(), self.groups.len() - 1);
                self.groups.len() - 1
            }
        };
        &mut self.groups[position]
    }

    /// Takes in the groups of another partition.
    pub fn merge(&mut self, other: Self) {
        for group in other.groups {
            self.scratch.clear();
            group.keys.iter().for_each(|value| write_key(value, &mut self.scratch));
            match self.positions.get(self.scratch.as_slice()) {
                Some(position) => {
                    let mine = &mut self.groups[*position].accumulators;
                    mine.iter_mut().zip(group.accumulators).for_each(|(mine, its)| mine.merge(its));
                }
                None => {
                    self.positions.insert(self.scratch.as_slice().into(), self.groups.len());
                    self.groups.push(group);
                }
            }
        }
    }

    /// Number of groups.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// True without groups.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// The groups in the order of their first rows.
    pub fn into_groups(self) -> Vec<Group> {
        self.groups
    }
}

impl Group {
    /// The slots a projection reads: the keys, then the finished aggregates.
    pub fn finish(self) -> Value {
        let finished = self.accumulators.into_iter().map(Accumulator::finish);
        Value::array(self.keys.into_iter().chain(finished).collect())
    }
}

/// The rows of a DISTINCT seen so far.
#[derive(Clone, Debug, Default)]
pub struct Distinct {
    seen: HashSet<Box<[u8]>>,
}

impl Distinct {
    /// True the first time an equal row comes.
    pub fn is_new(&mut self, row: &Value) -> bool {
        self.seen.insert(key(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_model::json::parse;

    fn aggregate(kind: AggregateKind, texts: &[&str]) -> Value {
        let mut whole = Accumulator::new(kind);
        let mut halves = [Accumulator::new(kind), Accumulator::new(kind)];
        for (position, text) in texts.iter().enumerate() {
            let value =
                if text.is_empty() { Value::Undefined } else { parse(text.as_bytes()).unwrap() };
            whole.add(&value);
            halves[usize::from(position * 2 >= texts.len())].add(&value);
        }
        // As between two processes.
        let sent = |half: &Accumulator| {
            let state = parse(half.state().to_json().as_bytes()).unwrap();
            Accumulator::of_state(kind, &state).unwrap()
        };
        let [mut left, right] = [sent(&halves[0]), sent(&halves[1])];
        left.merge(right);
        let (whole, merged) = (whole.finish(), left.finish());
        assert_eq!(whole, merged);
        whole
    }

    #[test]
    fn the_table_of_the_protocol_page() {
        use AggregateKind::*;
        assert_eq!(aggregate(Count, &["1", "", "null", "[]"]), Value::from(3));
        assert_eq!(aggregate(Sum, &["1", "", "2.5"]), Value::from(3.5));
        assert_eq!(aggregate(Sum, &["1", "null"]), Value::Undefined);
        assert_eq!(aggregate(Sum, &[]), Value::from(0));
        assert_eq!(aggregate(Average, &["1", "2", ""]), Value::from(1.5));
        assert_eq!(aggregate(Average, &[]), Value::Undefined);
        assert_eq!(aggregate(Min, &["\"a\"", "5", "true", ""]), Value::Bool(true));
        assert_eq!(aggregate(Max, &["\"a\"", "5", "true"]), Value::from("a"));
        assert_eq!(aggregate(Max, &["1", "{}", "2"]), Value::Undefined);
        assert_eq!(aggregate(Min, &[]), Value::Undefined);
        assert_eq!(aggregate(CountIf, &["true", "1", "false", "true"]), Value::from(2));
        let (even, odd) = ("9007199254740992", "9007199254740993");
        assert_eq!(aggregate(Sum, &[odd, "2"]).to_json(), "9007199254740995");
        assert_eq!(aggregate(Average, &[odd, odd, odd]).to_json(), odd);
        assert_eq!(aggregate(Max, &[even, odd]).to_json(), odd);
        assert_eq!(aggregate(Min, &[odd, even, odd]).to_json(), even);
        assert_eq!(aggregate(MakeSet, &[even, odd, odd]).to_json(), format!("[{even},{odd}]"));
        assert_eq!(aggregate(MakeList, &["1", "1", ""]).to_json(), "[1,1]");
        assert_eq!(aggregate(MakeSet, &["1", "1.0", "[1]", "[1]"]).to_json(), "[1,[1]]");
    }

    #[test]
    fn many_at_once_is_one_by_one() {
        for (_, kind) in NAMES {
            let (mut once, mut singly) = (Accumulator::new(kind), Accumulator::new(kind));
            once.add_many(&Value::from(2), 3);
            (0..3).for_each(|_| singly.add(&Value::from(2)));
            assert_eq!(once.finish(), singly.finish(), "{kind:?}");
        }
    }
}
