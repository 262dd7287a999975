//! The numbers of names that one transaction has looked up.
//!
//! Items of a batch have the same few names, mostly in the same order. So a look behind the name that was found
//! last is nearly always enough, and the dictionary, which all writers share, is asked once for each name. Numbers
//! stay what they are as long as the transaction holds its [`PathsInUse`](super::PathsInUse).

use super::ROOT;
use std::sync::Arc;

/// Names that are remembered.
const NAMES_MAX: usize = 64;

/// Numbers of names, below the paths of their parents.
#[derive(Debug, Default)]
pub(crate) struct PathMemo {
    is_on: bool,
    known: Vec<(u32, Arc<str>, u32)>,
    /// Behind the name that was found last.
    next: usize,
    /// That of the timestamp, which every item has.
    timestamp: Option<u32>,
    /// Memory that the walk through an item leaves to the next one.
    pub(crate) scratch: (Vec<u8>, String),
}

impl PathMemo {
    /// Begins to remember: for a single item it would be in vain.
    pub(crate) fn turn_on(&mut self) {
        self.is_on = true;
    }

    /// The number of a name below a path, if it is remembered.
    pub(crate) fn find(&mut self, parent: u32, name: &Arc<str>) -> Option<u32> {
        let is_it = |known: &(u32, Arc<str>, u32)| {
            known.0 == parent && (Arc::ptr_eq(&known.1, name) || known.1 == *name)
        };
        let at = match self.known.get(self.next) {
            Some(known) if is_it(known) => self.next,
            _ => self.known.iter().position(is_it)?,
        };
        self.next = at + 1;
        self.known.get(at).map(|known| known.2)
    }

    /// Remembers a number. That of the root stands for a path that there is no room for, which is asked for again.
    pub(crate) fn add(&mut self, parent: u32, name: &Arc<str>, number: u32) {
        if self.is_on && number != ROOT && self.known.len() < NAMES_MAX {
            self.known.push((parent, name.clone(), number));
            self.next = self.known.len();
        }
    }
}

impl PathMemo {
    /// The number of the timestamp's path, if it is remembered.
    pub(crate) fn timestamp(&self) -> Option<u32> {
        self.timestamp
    }

    /// Remembers it, as [`add`](Self::add) does.
    pub(crate) fn add_timestamp(&mut self, number: u32) {
        self.timestamp = (self.is_on && number != ROOT).then_some(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_order_below_their_own_parents() {
        let names = ["a", "b", "c"].map(Arc::<str>::from);
        let mut memo = PathMemo::default();
        memo.add(0, &names[0], 1);
        assert_eq!(memo.find(0, &names[0]), None, "it was not turned on");
        memo.turn_on();
        for (name, number) in names.iter().zip(1..) {
            assert_eq!(memo.find(0, name), None);
            memo.add(0, name, number);
            memo.add(7, name, number + 10);
        }
        for order in [[0, 1, 2], [2, 1, 0], [1, 1, 2]] {
            for at in order {
                let (name, number) = (Arc::from(&*names[at]), at as u32 + 1);
                assert_eq!(memo.find(0, &names[at]), Some(number));
                assert_eq!(memo.find(7, &name), Some(number + 10));
                assert_eq!(memo.find(8, &name), None);
            }
        }
    }

    #[test]
    fn what_has_no_number_and_what_is_too_much_is_not_remembered() {
        let mut memo = PathMemo::default();
        memo.turn_on();
        memo.add(0, &"a".into(), ROOT);
        assert_eq!(memo.find(0, &"a".into()), None);
        for number in 1..1000 {
            memo.add(0, &number.to_string().into(), number);
        }
        assert_eq!(memo.known.len(), NAMES_MAX);
        assert_eq!(memo.find(0, &"1".into()), Some(1));
        assert_eq!(memo.find(0, &"999".into()), None);
    }
}
