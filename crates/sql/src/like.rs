//! The patterns of LIKE.
//!
//! `%` is any run of characters, `_` any one, `[a-f]` one of a set, `[^a-f]` one outside of it.
//! A match takes at most pattern length times text length steps.

use crate::effort::{Effort, Stopped};
use std::sync::Arc;

/// Steps that are counted at a time.
const STEPS_AT_ONCE: u64 = 4096;

/// A compiled pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct Pattern {
    parts: Vec<Part>,
    shape: LikeShape,
}

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Run,
    One,
    Exactly(char),
    Class { negated: bool, ranges: Vec<(char, char)> },
}

/// Common shapes that need no walk over parts.
#[derive(Clone, Debug, PartialEq)]
enum LikeShape {
    Exact(Arc<str>),
    Prefix(Arc<str>),
    Suffix(Arc<str>),
    Contains(Arc<str>),
    General,
}

impl Pattern {
    /// Compiles a pattern. Every text is one.
    pub fn new(text: &str, escape: Option<char>) -> Self {
        let parts = compile(text, escape);
        let shape = shape(&parts);
        Self { parts, shape }
    }

    /// True when the whole text matches.
    pub fn matches(&self, text: &str, effort: &mut Effort<'_>) -> Result<bool, Stopped> {
        effort.count((text.len() / 16 + self.parts.len() / 4) as u64)?;
        Ok(match &self.shape {
            LikeShape::Exact(literal) => text == &**literal,
            LikeShape::Prefix(literal) => text.starts_with(&**literal),
            LikeShape::Suffix(literal) => text.ends_with(&**literal),
            LikeShape::Contains(literal) => text.contains(&**literal),
            LikeShape::General => return walk(&self.parts, text, effort),
        })
    }

    /// The text all matches are equal to, if the pattern has no wildcard.
    pub fn exact(&self) -> Option<&Arc<str>> {
        if let LikeShape::Exact(literal) = &self.shape { Some(literal) } else { None }
    }

    /// The literal text all matches start with, and whether starting with it is all it takes.
    pub fn prefix(&self) -> (String, bool) {
        let literal = |part: &Part| match part {
            Part::Exactly(character) => Some(*character),
            _ => None,
        };
        let prefix: String = self.parts.iter().map_while(literal).collect();
        (prefix, matches!(self.shape, LikeShape::Prefix(_)))
    }
}

fn compile(text: &str, escape: Option<char>) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        if Some(character) == escape {
            // An escape at the very end stands for itself.
            let literal = rest.chars().next().unwrap_or(character);
            rest = rest.get(literal.len_utf8()..).unwrap_or("");
            parts.push(Part::Exactly(literal));
            continue;
        }
        parts.push(match character {
            '%' if parts.last() == Some(&Part::Run) => continue,
            '%' => Part::Run,
            '_' => Part::One,
            '[' => match class(rest, escape) {
                Some((class, behind)) => {
                    rest = behind;
                    class
                }
                None => Part::Exactly('['),
            },
            other => Part::Exactly(other),
        });
    }
    parts
}

/// The set behind a `[`, or nothing when it is never closed.
fn class(text: &str, escape: Option<char>) -> Option<(Part, &str)> {
    let negated = text.starts_with('^');
    let mut members: Vec<(char, bool)> = Vec::new();
    let mut rest = text.get(usize::from(negated)..)?;
    loop {
        let character = rest.chars().next()?;
        rest = &rest[character.len_utf8()..];
        if Some(character) == escape {
            let literal = rest.chars().next()?;
            rest = &rest[literal.len_utf8()..];
            members.push((literal, true));
        } else if character == ']' {
            return Some((Part::Class { negated, ranges: ranges(&members) }, rest));
        } else {
            members.push((character, false));
        }
    }
}

fn ranges(members: &[(char, bool)]) -> Vec<(char, char)> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while let Some(&(low, _)) = members.get(at) {
        match (members.get(at + 1), members.get(at + 2)) {
            (Some(('-', false)), Some(&(high, _))) => {
                ranges.push((low, high));
                at += 3;
            }
            _ => {
                ranges.push((low, low));
                at += 1;
            }
        }
    }
    ranges
}

fn shape(parts: &[Part]) -> LikeShape {
    let starts = parts.first() == Some(&Part::Run);
    let ends = parts.len() > 1 && parts.last() == Some(&Part::Run) || (starts && parts.len() == 1);
    let inner = &parts[usize::from(starts)..parts.len() - usize::from(ends && parts.len() > 1)];
    let literal: Option<String> = inner
        .iter()
        .map(|part| if let Part::Exactly(character) = part { Some(*character) } else { None })
        .collect();
    match (literal, starts, ends) {
        (Some(literal), false, false) => LikeShape::Exact(literal.into()),
        (Some(literal), false, true) => LikeShape::Prefix(literal.into()),
        (Some(literal), true, false) => LikeShape::Suffix(literal.into()),
        (Some(literal), true, true) => LikeShape::Contains(literal.into()),
        (None, _, _) => LikeShape::General,
    }
}

/// The usual walk with one point to come back to: the last run seen.
fn walk(parts: &[Part], text: &str, effort: &mut Effort<'_>) -> Result<bool, Stopped> {
    let mut steps = 0;
    let (mut part, mut rest) = (0, text);
    let mut retry: Option<(usize, &str)> = None;
    loop {
        let character = rest.chars().next();
        let current = parts.get(part);
        steps += current.map_or(1, Part::steps);
        if steps >= STEPS_AT_ONCE {
            effort.spend(std::mem::take(&mut steps))?;
        }
        match (current, character) {
            (None, None) => return Ok(true),
            (Some(Part::Run), _) => {
                part += 1;
                retry = Some((part, rest));
                continue;
            }
            (Some(other), Some(character)) if other.accepts(character) => {
                part += 1;
                rest = &rest[character.len_utf8()..];
                continue;
            }
            _ => {}
        }
        // Let the last run swallow one character more.
        let Some((after_run, from)) = retry else { return Ok(false) };
        let Some(swallowed) = from.chars().next() else { return Ok(false) };
        rest = &from[swallowed.len_utf8()..];
        part = after_run;
        retry = Some((after_run, rest));
    }
}

impl Part {
    /// What it costs to try a character.
    fn steps(&self) -> u64 {
        match self {
            Self::Class { ranges, .. } => 1 + ranges.len() as u64 / 4,
            _ => 1,
        }
    }

    fn accepts(&self, character: char) -> bool {
        match self {
            Self::Run => true,
            Self::One => true,
            Self::Exactly(literal) => *literal == character,
            Self::Class { negated, ranges } => {
                let inside = ranges.iter().any(|(low, high)| (*low..=*high).contains(&character));
                inside != *negated
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_agree_with_the_walk() {
        let texts = ["", "a", "ab", "ba", "aba", "b", "abab", "%", "a%b"];
        let patterns = ["", "%", "a", "a%", "%a", "%a%", "a%b", "%%", "_", "a_%", "%_b", "[ab]%"];
        for pattern in patterns {
            let compiled = Pattern::new(pattern, None);
            for text in texts {
                let walked = walk(&compiled.parts, text, &mut Effort::default());
                let matched = compiled.matches(text, &mut Effort::default());
                assert_eq!(matched, walked, "{text} {pattern}");
            }
        }
    }

    #[test]
    fn classes_and_escapes() {
        let check = |pattern: &str, escape, text: &str| {
            Pattern::new(pattern, escape).matches(text, &mut Effort::default()).unwrap()
        };
        assert!(check("[a-c-]x", None, "-x"));
        assert!(check("[^a-c]x", None, "dx") && !check("[^a-c]x", None, "bx"));
        assert!(check("[ab", None, "[ab"));
        assert!(check("50!%", Some('!'), "50%") && !check("50!%", Some('!'), "500"));
        assert!(check("[!]]", Some('!'), "]"));
        assert!(check("a!", Some('!'), "a!"));
        assert!(check("%é_", None, "xéy"));
    }

    #[test]
    fn prefixes() {
        assert_eq!(Pattern::new("abc%", None).prefix(), ("abc".into(), true));
        assert_eq!(Pattern::new("ab_c%", None).prefix(), ("ab".into(), false));
        assert_eq!(Pattern::new("%abc", None).prefix(), (String::new(), false));
    }

    #[test]
    fn hostile_patterns_end() {
        let pattern = Pattern::new(&"%a".repeat(500), None);
        assert_eq!(pattern.matches(&"b".repeat(5000), &mut Effort::default()), Ok(false));
        let pattern = Pattern::new(&format!("%{}b_", "a".repeat(5000)), None);
        let text = "a".repeat(1_000_000);
        assert_eq!(pattern.matches(&text, &mut Effort::of_steps(1_000_000)), Err(Stopped));
    }
}
