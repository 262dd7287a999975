//! What evaluation may cost: a budget of steps per call of a function, and the question whether to stop.
//!
//! A step is a state of a pattern tried on a character, an element or a few bytes compared: some
//! nanoseconds. Functions whose work grows faster than their arguments count their steps here and end
//! when there are too many; all the others are counted by the size of their arguments. Either way the
//! query is asked every millisecond or so whether it should stop, however few its rows.

use crate::error::SqlError;
use crate::limits::{CALL_STEPS_MAX, STEPS_BETWEEN_LOOKS, STEPS_OF_A_FRAME};
use armilla_model::Value;

/// Counts steps.
pub struct Effort<'a> {
    /// Asked now and then; answers true when the query should stop.
    pub interrupted: &'a dyn Fn() -> bool,
    /// Steps that a call may take, or all calls together.
    steps_max: u64,
    /// A call has all the steps again.
    renews: bool,
    /// Steps that are left to the call at hand.
    left: u64,
    /// Steps until the next question.
    until_look: u64,
    stop: Option<Stop>,
}

/// The work must end here; [`Effort`] knows why. A function answers with anything, nobody sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    TooMuch,
    Interrupted,
}

impl Default for Effort<'_> {
    fn default() -> Self {
        Self::of_steps(CALL_STEPS_MAX)
    }
}

impl<'a> Effort<'a> {
    /// An effort whose calls may take so many steps each, and which is never interrupted.
    pub fn of_steps(steps_max: u64) -> Self {
        Self {
            interrupted: &|| false,
            steps_max,
            renews: true,
            left: steps_max,
            until_look: STEPS_BETWEEN_LOOKS,
            stop: None,
        }
    }

    /// An effort of so many steps for everything together.
    pub fn of_total(steps_max: u64) -> Self {
        Self { renews: false, ..Self::of_steps(steps_max) }
    }

    /// The same, interrupted when the function says so.
    #[must_use]
    pub fn interrupted_by(self, interrupted: &'a dyn Fn() -> bool) -> Self {
        Self { interrupted, ..self }
    }

    /// Begins a call, which has all its steps again.
    pub fn begin_call(&mut self) {
        if self.renews {
            self.left = self.steps_max;
        }
    }

    /// Counts steps. Whoever gets an error ends at once.
    pub fn spend(&mut self, steps: u64) -> Result<(), Stopped> {
        self.take(steps)?;
        self.look(steps)
    }

    /// Counts steps that do not need the budget of a call, because the arguments bound them.
    pub fn count(&mut self, steps: u64) -> Result<(), Stopped> {
        if !self.renews {
            self.take(steps)?;
        }
        self.look(steps)
    }

    /// Counts a row of FROM or JOIN, where everything together has a budget.
    pub(crate) fn count_frame(&mut self) -> Result<(), Stopped> {
        if self.renews {
            return Ok(());
        }
        self.take(STEPS_OF_A_FRAME)
    }

    fn take(&mut self, steps: u64) -> Result<(), Stopped> {
        let Some(left) = self.left.checked_sub(steps) else {
            self.left = 0;
            self.stop.get_or_insert(Stop::TooMuch);
            return Err(Stopped);
        };
        self.left = left;
        Ok(())
    }

    fn look(&mut self, steps: u64) -> Result<(), Stopped> {
        match self.until_look.checked_sub(steps) {
            Some(until_look) => self.until_look = until_look,
            None => {
                self.until_look = STEPS_BETWEEN_LOOKS;
                if (self.interrupted)() {
                    self.stop.get_or_insert(Stop::Interrupted);
                }
            }
        }
        if self.stop.is_some() { Err(Stopped) } else { Ok(()) }
    }

    /// Steps that are left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// The error of a call that was stopped.
    pub fn check(&mut self) -> Result<(), SqlError> {
        match self.stop.take() {
            None => Ok(()),
            Some(Stop::Interrupted) => Err(SqlError::Interrupted),
            Some(Stop::TooMuch) if !self.renews => Err(SqlError::refused(format!(
                "The expression would take more than {} steps for one item. Use a simpler one, with \
                 fewer JOINs over smaller arrays.",
                self.steps_max
            ))),
            Some(Stop::TooMuch) => Err(SqlError::refused(format!(
                "A function of the query would take more than {} steps for one item. Use a simpler \
                 pattern, or filter out large texts and arrays first.",
                self.steps_max
            ))),
        }
    }
}

/// The steps it takes to go through a value once, its parts as often as they occur, up to `max`.
pub fn steps_through(value: &Value, max: u64) -> u64 {
    /// Bytes that are compared or copied in the time of a step.
    const BYTES_PER_STEP: usize = 16;
    fn go(value: &Value, left: &mut u64) {
        let own = match value {
            Value::String(text) => 1 + (text.len() / BYTES_PER_STEP) as u64,
            _ => 1,
        };
        *left = left.saturating_sub(own);
        match value {
            _ if *left == 0 => {}
            Value::Array(elements) => elements.iter().for_each(|element| {
                if *left > 0 {
                    go(element, left);
                }
            }),
            Value::Object(object) => object.iter().for_each(|(_, value)| {
                if *left > 0 {
                    go(value, left);
                }
            }),
            _ => {}
        }
    }
    let mut left = max;
    go(value, &mut left);
    max - left
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_call_that_takes_too_long_is_refused_and_the_next_begins_anew() {
        let mut effort = Effort::of_steps(100);
        assert_eq!(effort.spend(60), Ok(()));
        assert_eq!(effort.spend(60), Err(Stopped));
        assert!(matches!(effort.check(), Err(SqlError::Refused(_))));
        effort.begin_call();
        assert_eq!(effort.spend(60), Ok(()));
        assert_eq!(effort.check(), Ok(()));
    }

    #[test]
    fn the_query_is_asked_by_steps_however_small_they_are() {
        let asked = Cell::new(0);
        let interrupted = || asked.replace(asked.get() + 1) >= 3;
        let mut effort = Effort::default().interrupted_by(&interrupted);
        let mut steps = 0;
        while effort.count(10).is_ok() {
            steps += 10;
        }
        assert!((STEPS_BETWEEN_LOOKS * 3..STEPS_BETWEEN_LOOKS * 5).contains(&steps), "{steps}");
        assert_eq!(effort.check(), Err(SqlError::Interrupted));
    }

    #[test]
    fn shared_parts_are_counted_as_often_as_they_occur() {
        let shared = Value::from("x".repeat(1600));
        let value = Value::array(vec![shared; 10]);
        assert_eq!(steps_through(&value, u64::MAX), 1 + 10 * 101);
        assert_eq!(steps_through(&value, 50), 50);
    }
}
