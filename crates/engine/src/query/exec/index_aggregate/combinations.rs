//! Combinations of values over the parts of a range, so that each is evaluated once.
//!
//! Every part has a dictionary of its own, and most values are in most of them. They are told apart by
//! the bytes that the index has for them.

use crate::query::find::PathColumn;
use crate::query::find::known_value;
use crate::query::plan::costs::COMBINATIONS_MAX;
use armilla_model::value::Value;
use std::collections::HashMap;
use std::rc::Rc;

/// A value as the index has it; nothing for undefined.
type Encoded<'s> = Option<&'s [u8]>;

/// Combinations of known values in the order they were first seen, and how many documents have each.
#[derive(Default)]
pub(in crate::query) struct Combinations<'s> {
    numbers: HashMap<Rc<[Encoded<'s>]>, usize>,
    counted: Vec<(Rc<[Encoded<'s>]>, u64)>,
    scratch: Vec<Encoded<'s>>,
}

impl<'s> Combinations<'s> {
    /// Counts documents of a part with these ordinals, one more than they are; false when only the
    /// items know their values.
    pub(in crate::query) fn count(
        &mut self,
        columns: &[PathColumn<'s>],
        ordinals: &[u32],
        count: u64,
    ) -> bool {
        self.scratch.clear();
        for (column, ordinal) in columns.iter().zip(ordinals) {
            let value = ordinal.checked_sub(1).and_then(|ordinal| column.encoded(ordinal));
            if value.is_some_and(|value| value.cut) {
                return false;
            }
            self.scratch.push(value.map(|value| value.bytes));
        }
        if let Some(number) = self.numbers.get(self.scratch.as_slice()) {
            self.counted[*number].1 += count;
            return true;
        }
        if self.scratch.iter().any(|bytes| decoded(*bytes).is_none()) {
            return false;
        }
        let key: Rc<[Encoded<'s>]> = self.scratch.as_slice().into();
        self.numbers.insert(key.clone(), self.counted.len());
        self.counted.push((key, count));
        true
    }

    /// True when they should be taken out before more are counted.
    pub(in crate::query) fn is_full(&self) -> bool {
        self.counted.len() >= COMBINATIONS_MAX
    }

    /// Takes all of them out.
    pub(in crate::query) fn take(&mut self) -> Vec<(Rc<[Encoded<'s>]>, u64)> {
        self.numbers.clear();
        std::mem::take(&mut self.counted)
    }
}

/// The value of some bytes; nothing when only the items know it.
pub(in crate::query) fn decoded(bytes: Encoded<'_>) -> Option<Value> {
    let Some(bytes) = bytes else { return Some(Value::Undefined) };
    known_value(armilla_index::Value { bytes, cut: false })
}
