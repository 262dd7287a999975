//! Simulation of a pattern's program, all its states side by side, one character after the other.
//!
//! It takes at most states times bytes steps, each of them counted, and finds of all matches the
//! leftmost one that the pattern prefers, with its groups.

use crate::effort::{Effort, Stopped};
use regex_automata::nfa::thompson::{NFA, State};
use regex_automata::util::primitives::StateID;

/// What a slot of a state costs in steps: tables of them are made for every search, and must not become
/// large.
const STEPS_PER_SLOT: usize = 32;

/// Where groups begin and end.
pub(super) type Slots = Vec<Option<usize>>;

/// The simulation of a program on a text.
pub(super) struct Simulation<'a> {
    nfa: &'a NFA,
    text: &'a str,
    now: States,
    next: States,
    threads: Threads,
}

impl<'a> Simulation<'a> {
    /// A simulation that finds the first `slot_count` slots of matches. With none, any match will do.
    pub(super) fn new(
        nfa: &'a NFA,
        text: &'a str,
        slot_count: usize,
        effort: &mut Effort<'_>,
    ) -> Result<Self, Stopped> {
        effort.spend((nfa.states().len() * (slot_count * STEPS_PER_SLOT + 1)) as u64)?;
        let threads = Threads { slots: vec![None; slot_count], stack: Vec::new(), steps: 0 };
        let states = || States::new(nfa, slot_count);
        Ok(Self { nfa, text, now: states(), next: states(), threads })
    }

    /// Finds the first match that begins at `from` or behind it.
    pub(super) fn search(
        &mut self,
        from: usize,
        effort: &mut Effort<'_>,
    ) -> Result<Option<Slots>, Stopped> {
        let Self { nfa, text, now, next, threads } = self;
        now.clear();
        next.clear();
        let slot_count = threads.slots.len();
        let mut found = None;
        for at in from..=text.len() {
            // A thread that begins here comes behind all that began earlier.
            if found.is_none() && text.is_char_boundary(at) {
                threads.slots.fill(None);
                threads.enter(nfa, text.as_bytes(), now, nfa.start_anchored(), at);
            }
            if let Some(slots) = threads.step(nfa, text.as_bytes(), now, next, at) {
                found = Some(slots);
            }
            effort.spend(std::mem::take(&mut threads.steps) * (slot_count as u64 / 8 + 1) + 1)?;
            if found.is_some() && (slot_count == 0 || next.order.is_empty()) {
                break;
            }
            std::mem::swap(now, next);
            next.clear();
        }
        Ok(found)
    }
}

/// The thread at hand, and those that wait while it enters states.
struct Threads {
    slots: Slots,
    stack: Vec<Follow>,
    steps: u64,
}

/// What is left to do while states are entered.
enum Follow {
    Enter(StateID),
    Restore(usize, Option<usize>),
}

impl Threads {
    /// Moves every thread over the byte at `at`; the slots of the match, if one ends before it. Threads
    /// behind a match are preferred less than it and end.
    fn step(
        &mut self,
        nfa: &NFA,
        bytes: &[u8],
        now: &States,
        next: &mut States,
        at: usize,
    ) -> Option<Slots> {
        let byte = bytes.get(at).copied();
        for &id in &now.order {
            self.steps += 1;
            let target = match (nfa.state(id), byte) {
                (State::Match { .. }, _) => return Some(now.slots_of(id).to_vec()),
                (State::ByteRange { trans }, Some(byte)) => {
                    trans.matches_byte(byte).then_some(trans.next)
                }
                (State::Sparse(transitions), Some(byte)) => transitions.matches_byte(byte),
                (State::Dense(transitions), Some(byte)) => transitions.matches_byte(byte),
                _ => None,
            };
            if let Some(target) = target {
                self.slots.copy_from_slice(now.slots_of(id));
                self.enter(nfa, bytes, next, target, at + 1);
            }
        }
        None
    }

    /// Adds a state and all that can be reached from it without a character, in order of preference.
    fn enter(&mut self, nfa: &NFA, bytes: &[u8], states: &mut States, id: StateID, at: usize) {
        self.stack.push(Follow::Enter(id));
        while let Some(follow) = self.stack.pop() {
            match follow {
                Follow::Restore(slot, before) => self.slots[slot] = before,
                Follow::Enter(id) => self.enter_one(nfa, bytes, states, id, at),
            }
        }
    }

    fn enter_one(
        &mut self,
        nfa: &NFA,
        bytes: &[u8],
        states: &mut States,
        mut id: StateID,
        at: usize,
    ) {
        loop {
            self.steps += 1;
            if !states.mark(id) {
                return;
            }
            id = match nfa.state(id) {
                State::Fail => return,
                State::ByteRange { .. }
                | State::Sparse(_)
                | State::Dense(_)
                | State::Match { .. } => {
                    states.push(id, &self.slots);
                    return;
                }
                State::Look { look, next } => {
                    if !nfa.look_matcher().matches(*look, bytes, at) {
                        return;
                    }
                    *next
                }
                State::Union { alternates } => {
                    let Some((first, others)) = alternates.split_first() else { return };
                    self.steps += others.len() as u64;
                    self.stack.extend(others.iter().rev().map(|id| Follow::Enter(*id)));
                    *first
                }
                State::BinaryUnion { alt1, alt2 } => {
                    self.stack.push(Follow::Enter(*alt2));
                    *alt1
                }
                State::Capture { next, slot, .. } => {
                    let slot = slot.as_usize();
                    if let Some(kept) = self.slots.get_mut(slot) {
                        self.stack.push(Follow::Restore(slot, kept.replace(at)));
                    }
                    *next
                }
            };
        }
    }
}

/// The states that are alive at a place of the text, in order of preference, with their slots.
struct States {
    order: Vec<StateID>,
    /// The round in which a state was entered last.
    entered: Vec<u32>,
    round: u32,
    slots: Slots,
    slot_count: usize,
}

impl States {
    fn new(nfa: &NFA, slot_count: usize) -> Self {
        let count = nfa.states().len();
        Self {
            order: Vec::new(),
            entered: vec![0; count],
            round: 1,
            slots: vec![None; count * slot_count],
            slot_count,
        }
    }

    fn clear(&mut self) {
        self.order.clear();
        match self.round.checked_add(1) {
            Some(round) => self.round = round,
            None => {
                self.entered.fill(0);
                self.round = 1;
            }
        }
    }

    /// Notes that a state is entered; false when it was before.
    fn mark(&mut self, id: StateID) -> bool {
        std::mem::replace(&mut self.entered[id.as_usize()], self.round) != self.round
    }

    fn push(&mut self, id: StateID, slots: &[Option<usize>]) {
        self.order.push(id);
        let start = id.as_usize() * self.slot_count;
        self.slots[start..start + self.slot_count].copy_from_slice(slots);
    }

    fn slots_of(&self, id: StateID) -> &[Option<usize>] {
        let start = id.as_usize() * self.slot_count;
        &self.slots[start..start + self.slot_count]
    }
}
