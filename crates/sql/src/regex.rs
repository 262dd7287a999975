//! Regular expressions under a budget.
//!
//! Patterns are compiled once and kept in a bounded cache that all queries share. Look-around and
//! back-references do not exist here, because they have no linear matcher; a pattern with them, or
//! one that is malformed or too large, is none.
//!
//! Two matchers share one program. A lazily built automaton goes over the text at a few nanoseconds a
//! byte, in a cache of bounded size; a pattern that would need ever new states of it is given to the
//! simulation, which counts its steps ([`Effort`]) and so ends in time whatever the pattern and the
//! text are. Groups are always found by the simulation.

mod simulation;

use crate::effort::{Effort, Stopped};
use crate::limits::{
    PATTERN_LENGTH_MAX, PATTERN_MATCHER_SIZE_MAX, PATTERN_NESTING_MAX, PATTERN_SIZE_MAX,
    PATTERNS_CACHED_MAX,
};
use quick_cache::Equivalent;
use quick_cache::sync::Cache;
use regex_automata::hybrid::dfa::{self, DFA};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::util::prefilter::Prefilter;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};
use simulation::Simulation;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// Automata kept per pattern for the next match; one is as large as a matcher may be.
const AUTOMATA_KEPT_MAX: usize = 2;
/// Bytes of a compiled pattern that are made in the time of a step.
const COMPILED_BYTES_PER_STEP: usize = 4;

/// A compiled pattern.
pub struct Regex {
    nfa: NFA,
    /// Nothing when not even the smallest automaton fits into its memory.
    automaton: Option<DFA>,
    kept: Mutex<Vec<dfa::Cache>>,
}

/// The groups of a match as ranges of the text; the first is the whole match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternGroups(Vec<Option<Range<usize>>>);

impl PatternGroups {
    /// The whole match.
    pub fn whole(&self) -> Range<usize> {
        self.get(0).unwrap_or_default()
    }

    /// A group by its number, if it took part in the match.
    pub fn get(&self, number: usize) -> Option<Range<usize>> {
        self.0.get(number)?.clone()
    }
}

impl Regex {
    /// The compiled pattern, from the cache if it is there; nothing when it is no pattern, or the
    /// modifiers are not among `m`, `s`, `i` and `x`.
    pub fn new(
        pattern: &str,
        modifiers: &str,
        effort: &mut Effort<'_>,
    ) -> Result<Option<Arc<Self>>, Stopped> {
        let Some(modifiers) = Modifiers::parse(modifiers) else { return Ok(None) };
        let key = BorrowedKey { pattern, modifiers };
        if let Some(known) = CACHE.get(&key) {
            return Ok(known);
        }
        let compiled = Self::compile(&key).map(Arc::new);
        // What is refused for its size has been made up to that size.
        let size = compiled.as_ref().map_or(PATTERN_SIZE_MAX, |regex| regex.nfa.memory_usage());
        CACHE.insert(Key { pattern: pattern.into(), modifiers }, compiled.clone());
        effort.count((size / COMPILED_BYTES_PER_STEP) as u64)?;
        Ok(compiled)
    }

    fn compile(key: &BorrowedKey<'_>) -> Option<Self> {
        if key.pattern.len() > PATTERN_LENGTH_MAX {
            return None;
        }
        let syntax = syntax::Config::new()
            .multi_line(key.modifiers.multi_line)
            .dot_matches_new_line(key.modifiers.dot_matches_new_line)
            .case_insensitive(key.modifiers.ignore_case)
            .ignore_whitespace(key.modifiers.ignore_whitespace)
            .nest_limit(PATTERN_NESTING_MAX);
        let hir = syntax::parse_with(key.pattern, &syntax).ok()?;
        let program = thompson::Config::new()
            .nfa_size_limit(Some(PATTERN_SIZE_MAX))
            .which_captures(WhichCaptures::All);
        let nfa = thompson::Compiler::new().configure(program).build_from_hir(&hir).ok()?;
        let config = DFA::config()
            .prefilter(Prefilter::from_hir_prefix(MatchKind::LeftmostFirst, &hir))
            // Gives up at the first character that is not ASCII, where it must know words.
            .unicode_word_boundary(true)
            .cache_capacity(PATTERN_MATCHER_SIZE_MAX)
            // One full cache is all the work that is done before the simulation takes over.
            .minimum_cache_clear_count(Some(0));
        let automaton = DFA::builder().configure(config).build_from_nfa(nfa.clone()).ok();
        Some(Self { nfa, automaton, kept: Mutex::default() })
    }

    /// True when the pattern matches somewhere in the text.
    pub fn is_match(&self, text: &str, effort: &mut Effort<'_>) -> Result<bool, Stopped> {
        self.is_match_at(text, 0, effort)
    }

    /// The groups of the first match. Of several that begin at one place it is the one that the
    /// pattern names first.
    pub fn first_match(
        &self,
        text: &str,
        effort: &mut Effort<'_>,
    ) -> Result<Option<PatternGroups>, Stopped> {
        let mut first = None;
        self.each_match(text, effort, |groups| {
            first = Some(groups);
            ControlFlow::Break(())
        })?;
        Ok(first)
    }

    /// Hands the matches to the visitor, from left to right, none overlapping another.
    pub fn each_match(
        &self,
        text: &str,
        effort: &mut Effort<'_>,
        mut visit: impl FnMut(PatternGroups) -> ControlFlow<()>,
    ) -> Result<(), Stopped> {
        if !self.is_match_at(text, 0, effort)? {
            return Ok(());
        }
        let mut simulation = Simulation::new(&self.nfa, text, self.slot_count(), effort)?;
        let (mut from, mut last_end) = (0, None);
        while from <= text.len() && self.is_match_at(text, from, effort)? {
            let Some(slots) = simulation.search(from, effort)? else { break };
            let range =
                |pair: &[Option<usize>]| Some(pair.first().copied()??..pair.get(1).copied()??);
            let groups = PatternGroups(slots.chunks(2).map(range).collect());
            let whole = groups.whole();
            from = whole.end;
            if whole.is_empty() {
                // The next one begins behind the character that follows.
                from += text[from..].chars().next().map_or(1, char::len_utf8);
                if last_end == Some(whole.end) {
                    continue;
                }
            }
            last_end = Some(whole.end);
            if visit(groups).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn slot_count(&self) -> usize {
        self.nfa.group_info().slot_len()
    }

    fn is_match_at(
        &self,
        text: &str,
        from: usize,
        effort: &mut Effort<'_>,
    ) -> Result<bool, Stopped> {
        if let Some(found) = self.by_automaton(text, from) {
            effort.count((text.len() - from) as u64 / 4)?;
            return Ok(found);
        }
        let mut simulation = Simulation::new(&self.nfa, text, 0, effort)?;
        Ok(simulation.search(from, effort)?.is_some())
    }

    /// The automaton's answer; nothing when it gives up.
    fn by_automaton(&self, text: &str, from: usize) -> Option<bool> {
        let automaton = self.automaton.as_ref()?;
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut is_new = kept.is_none();
        let mut cache = kept.unwrap_or_else(|| automaton.create_cache());
        let input = Input::new(text).range(from..).earliest(true);
        let found = loop {
            match automaton.try_search_fwd(&mut cache, &input) {
                Ok(found) => break Some(found.is_some()),
                Err(_) if is_new => break None,
                // Filled by the texts before: this one may do with less.
                Err(_) => cache.reset(automaton),
            }
            is_new = true;
        };
        if found.is_none() {
            cache.reset(automaton);
        }
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < AUTOMATA_KEPT_MAX {
            kept.push(cache);
        }
        found
    }
}

static CACHE: LazyLock<Cache<Key, Option<Arc<Regex>>>> =
    LazyLock::new(|| Cache::new(PATTERNS_CACHED_MAX));

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Modifiers {
    multi_line: bool,
    dot_matches_new_line: bool,
    ignore_case: bool,
    ignore_whitespace: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    pattern: Box<str>,
    modifiers: Modifiers,
}

// Hashes as `Key` does, so that a hit costs no allocation.
#[derive(Hash)]
struct BorrowedKey<'a> {
    pattern: &'a str,
    modifiers: Modifiers,
}

impl Equivalent<Key> for BorrowedKey<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.pattern == &*key.pattern && self.modifiers == key.modifiers
    }
}

impl Modifiers {
    fn parse(letters: &str) -> Option<Self> {
        let mut modifiers = Self::default();
        for letter in letters.chars() {
            match letter {
                'm' => modifiers.multi_line = true,
                's' => modifiers.dot_matches_new_line = true,
                'i' => modifiers.ignore_case = true,
                'x' => modifiers.ignore_whitespace = true,
                _ => return None,
            }
        }
        Some(modifiers)
    }
}

#[cfg(test)]
mod tests;
