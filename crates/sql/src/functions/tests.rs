//! The table as a whole.

use super::*;

#[test]
fn names_are_found_in_any_letter_case() {
    assert_eq!(lookup("Abs").map(|function| function.name), Some("ABS"));
    assert_eq!(lookup("_FullTextScore").map(|function| function.name), Some("_FULLTEXTSCORE"));
    assert!(lookup("ABSOLUTELY").is_none());
    assert!(lookup(&"A".repeat(1000)).is_none());
    assert!(all().all(|function| function.name.len() <= NAME_LENGTH_MAX));
    assert!(all().all(|function| lookup(function.name).is_some()));
}
