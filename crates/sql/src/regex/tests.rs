//! Both matchers agree, groups are right, and nothing takes longer than it may.

use super::*;
use crate::error::SqlError;

fn matches(text: &str, pattern: &str, modifiers: &str) -> Option<bool> {
    let mut effort = Effort::default();
    let regex = Regex::new(pattern, modifiers, &mut effort).unwrap()?;
    Some(regex.is_match(text, &mut effort).unwrap())
}

fn regex(pattern: &str) -> Arc<Regex> {
    Regex::new(pattern, "", &mut Effort::default()).unwrap().unwrap()
}

/// Every match with its groups, as texts.
fn found(text: &str, pattern: &str) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    let each = |groups: PatternGroups| {
        let group = |range: &Option<Range<usize>>| {
            range.clone().map_or("-".to_owned(), |range| text[range].to_owned())
        };
        all.push(groups.0.iter().map(group).collect());
        ControlFlow::Continue(())
    };
    regex(pattern).each_match(text, &mut Effort::default(), each).unwrap();
    all
}

#[test]
fn modifiers_change_the_match() {
    assert_eq!(matches("Line1\nLine2", "^Line2$", "m"), Some(true));
    assert_eq!(matches("Line1\nLine2", "^Line2$", ""), Some(false));
    assert_eq!(matches("a\nb", "a.b", ""), Some(false));
    assert_eq!(matches("a\nb", "a.b", "s"), Some(true));
    assert_eq!(matches("abcd", "aB c", "ix"), Some(true));
    assert_eq!(matches("abcd", "abc", "g"), None);
}

#[test]
fn what_is_no_pattern_or_too_large_is_unknown() {
    for pattern in ["(", r"(a)\1", "(?=a)", &"a".repeat(20_000), r"\w{1000}{1000}"] {
        assert_eq!(matches("a", pattern, ""), None);
    }
    assert_eq!(matches(&"a".repeat(100_000), "(a*)*b", ""), Some(false));
}

#[test]
fn the_simulation_agrees_with_the_automaton() {
    let patterns = [
        "",
        "a",
        "ab|a",
        "a*?b",
        "^ab",
        "b$",
        "(a|b)+c",
        "[^a]",
        ".",
        "a{2,3}",
        "é",
        r"\d+",
        r"\w",
        "(?i)AB",
        "x|",
        "(?m)^b",
        r"[а-я]+",
        "(ab)*$",
    ];
    let texts = ["", "a", "ab", "ba", "aab", "abc", "é", "xéb", "a1b22", "\nb", "мир", "ababab"];
    for pattern in patterns {
        let regex = regex(pattern);
        for text in texts {
            for from in (0..=text.len()).filter(|from| text.is_char_boundary(*from)) {
                let mut effort = Effort::default();
                let counted = Simulation::new(&regex.nfa, text, 0, &mut effort)
                    .and_then(|mut simulation| simulation.search(from, &mut effort));
                let quick = regex.by_automaton(text, from).expect("small enough");
                assert_eq!(counted.unwrap().is_some(), quick, "{pattern:?} on {text:?} at {from}");
            }
        }
    }
}

#[test]
fn matches_are_leftmost_and_as_the_pattern_prefers() {
    assert_eq!(found("abab", "ab|a"), [["ab"], ["ab"]]);
    assert_eq!(found("abab", "a|ab"), [["a"], ["a"]]);
    assert_eq!(found("aaa", "a+?"), [["a"], ["a"], ["a"]]);
    assert_eq!(found("x=1;y=22", r"(\w)=(\d+)"), [["x=1", "x", "1"], ["y=22", "y", "22"]]);
    assert_eq!(found("ac", "(a)(b)?(c)"), [["ac", "a", "-", "c"]]);
    assert_eq!(found("éa", ""), [[""], [""], [""]]);
    assert_eq!(found("aab", "a*"), [["aa"], [""]]);
    assert_eq!(found("ein мир", r"\b\w+\b"), [["ein"], ["мир"]]);
}

#[test]
fn a_heavy_pattern_is_refused_after_its_steps() {
    let text = "ab".repeat(500_000);
    let heavy = regex("[ab]{0,1000}[ab]{0,1000}c");
    let mut effort = Effort::of_steps(1_000_000);
    assert_eq!(heavy.is_match(&text, &mut effort), Err(Stopped));
    assert!(matches!(effort.check(), Err(SqlError::Refused(_))));
    // So are groups, and patterns that look back from every match.
    effort.begin_call();
    assert!(regex("a.*c|a").each_match(&text, &mut effort, |_| ControlFlow::Continue(())).is_err());
    // A pattern that the automaton can do is not: a megabyte costs next to nothing.
    effort = Effort::of_steps(1_000_000);
    assert_eq!(regex(r"(?:\w+\s*)+!").is_match(&text, &mut effort), Ok(false));
}

#[test]
fn a_heavy_match_looks_whether_to_stop() {
    let interrupted = || true;
    let mut effort = Effort::of_steps(u64::MAX).interrupted_by(&interrupted);
    let text = "ab".repeat(500_000);
    assert!(regex("[ab]{0,1000}[ab]{0,1000}c").is_match(&text, &mut effort).is_err());
    assert_eq!(effort.check(), Err(SqlError::Interrupted));
}

#[test]
fn groups_of_a_pattern_with_very_many_are_refused_before_tables_are_made() {
    let pattern = "(a)".repeat(2000);
    let mut effort = Effort::default();
    let text = "a".repeat(2000);
    assert_eq!(regex(&pattern).first_match(&text, &mut effort), Err(Stopped));
}
