//! Positions and lengths in UTF-16 code units, over text that is kept as UTF-8.
//!
//! The language counts as JavaScript and .NET do. Where a cut goes through a surrogate pair, the
//! half that remains is written as U+FFFD: the text stays Unicode and its length is as asked for.

use std::borrow::Cow;

/// Length of the text in code units.
pub(super) fn length(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().map(char::len_utf16).sum() }
}

/// The code units from `start` on, at most `count` of them.
pub(super) fn slice(text: &str, start: usize, count: usize) -> Cow<'_, str> {
    let end = start.saturating_add(count);
    if text.is_ascii() {
        let end = end.min(text.len());
        return Cow::Borrowed(&text[start.min(end)..end]);
    }
    let mut result = String::new();
    let mut at = 0;
    for char in text.chars() {
        let next = at + char.len_utf16();
        if at >= end {
            break;
        }
        if at >= start && next <= end {
            result.push(char);
        } else if next > start {
            result.push(char::REPLACEMENT_CHARACTER);
        }
        at = next;
    }
    Cow::Owned(result)
}

/// The byte at which the code unit of that position begins, or the next character's when the
/// position is inside a pair; nothing beyond the end of the text.
pub(super) fn byte_at(text: &str, position: usize) -> Option<usize> {
    if text.is_ascii() {
        return (position <= text.len()).then_some(position);
    }
    let mut at = 0;
    for (byte, char) in text.char_indices() {
        if at >= position {
            return Some(byte);
        }
        at += char.len_utf16();
    }
    (at >= position).then_some(text.len())
}

/// The characters that lie wholly within the first `count` code units.
pub(super) fn prefix(text: &str, count: usize) -> &str {
    let end = byte_at(text, count).unwrap_or(text.len());
    let prefix = &text[..end];
    if length(prefix) <= count {
        return prefix;
    }
    // The position is inside a pair, and the bytes found are those behind it.
    prefix.char_indices().next_back().map_or("", |(at, _)| &prefix[..at])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_count_twice_and_halves_are_replaced() {
        let text = "a😀b";
        assert_eq!(length(text), 4);
        assert_eq!(slice(text, 1, 2), "😀");
        assert_eq!(slice(text, 0, 2), "a\u{fffd}");
        assert_eq!(slice(text, 2, 2), "\u{fffd}b");
        assert_eq!(slice(text, 2, 1), "\u{fffd}");
        assert_eq!(slice(text, 4, 1), "");
        assert_eq!(slice(text, 9, usize::MAX), "");
        assert_eq!(slice("abc", 9, 1), "");
    }

    #[test]
    fn positions_become_bytes() {
        let text = "a😀b";
        let bytes = [Some(0), Some(1), Some(5), Some(5), Some(6), None];
        for (position, byte) in bytes.into_iter().enumerate() {
            assert_eq!(byte_at(text, position), byte, "position {position}");
        }
        assert_eq!(byte_at("abc", 3), Some(3));
        assert_eq!(byte_at("abc", 4), None);
        assert_eq!([prefix(text, 1), prefix(text, 2), prefix(text, 3)], ["a", "a", "a😀"]);
        assert_eq!([prefix(text, 9), prefix("abc", 2)], [text, "ab"]);
    }
}
