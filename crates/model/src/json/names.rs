//! Names of members that come again and again, each in memory once per thread.
//!
//! Items of a container have the same few names, and a load reads millions of them. A small table by the hash of the
//! name finds the text that was made for the last item; what is not there takes the place of what is.

use std::cell::RefCell;
use std::sync::Arc;

/// Names that a thread remembers.
const NAMES_MAX: usize = 256;

/// Longer names are not remembered: they are rarely names that come again.
const NAME_LENGTH_MAX: usize = 64;

thread_local! {
    static KNOWN: RefCell<Vec<Option<Arc<str>>>> = const { RefCell::new(Vec::new()) };
}

/// A name as shared text.
pub(super) fn shared(name: &str) -> Arc<str> {
    if name.len() > NAME_LENGTH_MAX {
        return name.into();
    }
    let known = |known: &RefCell<Vec<Option<Arc<str>>>>| {
        let mut known = known.borrow_mut();
        if known.is_empty() {
            known.resize(NAMES_MAX, None);
        }
        let slot = &mut known[place_of(name.as_bytes())];
        match slot {
            Some(text) if **text == *name => text.clone(),
            _ => slot.insert(name.into()).clone(),
        }
    };
    // A thread that ends has no table any more.
    KNOWN.try_with(known).unwrap_or_else(|_| name.into())
}

/// Where a name is looked for: by its length, its beginning and its end. Whoever makes up names for one place gains
/// nothing by it but that they are not remembered.
fn place_of(name: &[u8]) -> usize {
    let byte = |at: usize| u64::from(name.get(at).copied().unwrap_or_default());
    let end = name.len();
    let parts = [end as u64, byte(0), byte(1), byte(2), byte(end / 2), byte(end.wrapping_sub(1))];
    let mixed = parts.iter().fold(0u64, |mixed, part| mixed.rotate_left(9) ^ part);
    (mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as usize % NAMES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_comes_again_is_the_same_text() {
        let first = shared("creationDate");
        assert_eq!(&*first, "creationDate");
        assert!(Arc::ptr_eq(&first, &shared("creationDate")));
    }

    #[test]
    fn names_for_one_place_take_turns() {
        let names: Vec<String> = (0..4 * NAMES_MAX).map(|number| format!("n{number}")).collect();
        for name in names.iter().chain(&names) {
            assert_eq!(&*shared(name), name);
        }
        for name in ["", "a", "\u{e9}"] {
            assert_eq!(&*shared(name), name);
        }
    }

    #[test]
    fn long_names_are_not_remembered() {
        let name = "n".repeat(NAME_LENGTH_MAX + 1);
        assert!(!Arc::ptr_eq(&shared(&name), &shared(&name)));
        let name = "n".repeat(NAME_LENGTH_MAX);
        assert!(Arc::ptr_eq(&shared(&name), &shared(&name)));
    }
}
