//! Which items a transaction has touched: their ids and places, in the order in which they were staged.
//!
//! Most transactions touch one item or two. Few are looked through one by one; maps are made for many.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Up to so many are looked through.
const FEW: usize = 8;

/// The touched items of a transaction, by number.
#[derive(Default)]
pub(super) struct Touched {
    items: Vec<(Arc<str>, Place)>,
    /// Both are empty while there are few.
    by_id: HashMap<Arc<str>, usize>,
    places: HashSet<Place>,
}

/// Hash and probe of an item's key.
pub(super) type Place = (u64, u8);

impl Touched {
    /// The number of an item, if it was touched.
    pub(super) fn find(&self, id: &str) -> Option<usize> {
        match self.items.len() <= FEW {
            true => self.items.iter().position(|(known, _)| **known == *id),
            false => self.by_id.get(id).copied(),
        }
    }

    /// Whether a touched item has this place.
    pub(super) fn has_place(&self, place: Place) -> bool {
        match self.items.len() <= FEW {
            true => self.items.iter().any(|(_, known)| *known == place),
            false => self.places.contains(&place),
        }
    }

    /// Adds an item that was not touched before, and returns its number.
    pub(super) fn add(&mut self, id: Arc<str>, place: Place) -> usize {
        debug_assert!(self.find(&id).is_none(), "an item is touched once");
        let number = self.items.len();
        self.items.push((id, place));
        if self.items.len() > FEW {
            let missing = if number == FEW { 0 } else { number };
            for (at, (id, place)) in self.items.iter().enumerate().skip(missing) {
                self.by_id.insert(id.clone(), at);
                self.places.insert(*place);
            }
        }
        number
    }

    /// Makes room for so many more.
    pub(super) fn reserve(&mut self, items: usize) {
        self.items.reserve(items);
        if self.items.len() + items > FEW {
            self.by_id.reserve(items);
            self.places.reserve(items);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_are_found_alike() {
        let mut touched = Touched::default();
        for number in 0..3 * FEW {
            let (id, place) = (number.to_string(), (number as u64, 1));
            assert_eq!((touched.find(&id), touched.has_place(place)), (None, false));
            assert_eq!(touched.add(id.as_str().into(), place), number);
            for earlier in 0..=number {
                assert_eq!(touched.find(&earlier.to_string()), Some(earlier));
                assert!(touched.has_place((earlier as u64, 1)));
                assert!(!touched.has_place((earlier as u64, 0)));
            }
        }
    }
}
