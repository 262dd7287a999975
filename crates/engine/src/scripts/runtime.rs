//! What an account needs to run scripts: the engine, its threads, and the cache of compiled bodies.

use super::cache::CompiledScripts;
use super::function_threads::FunctionThreads;
use super::pool::Pool;
use super::{Kind, Script, out_of_script};
use crate::query::ScriptDeadline;
use armilla_model::clock::monotonic;
use armilla_model::error::{Error, Result};
use armilla_script::{Compiled, Limits, ScriptEngine, ScriptKind};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

/// Compiles and runs the scripts of an account.
pub(crate) struct Runtime {
    engine: ScriptEngine,
    pub(super) pool: Pool,
    pub(super) functions: Arc<FunctionThreads>,
    compiled: CompiledScripts,
}

impl Runtime {
    /// Starts the engine and its threads.
    pub(crate) fn start(limits: Limits) -> Result<Self> {
        let engine = ScriptEngine::new(limits).map_err(|error| Error::Internal(error.detail))?;
        let compiled = CompiledScripts::new();
        Ok(Self { engine, pool: Pool::start()?, functions: FunctionThreads::new(), compiled })
    }

    /// The time of a script that begins now.
    pub(super) fn clock(&self) -> ScriptDeadline {
        let started = monotonic();
        ScriptDeadline { started, deadline: started + self.engine.limits().time }
    }

    /// When a script that began then is given up.
    pub(super) fn late_at(&self, clock: ScriptDeadline) -> Instant {
        clock.deadline + self.engine.limits().late_max
    }

    /// Scripts that did not end in time, and whose threads were given up.
    pub(crate) fn given_up(&self) -> u64 {
        self.pool.given_up() + self.functions.given_up()
    }

    /// The error of a script that was given up, which is blocked from now on.
    pub(super) fn give_up(&self, script: &Compiled) -> Error {
        out_of_script(&self.engine.give_up(script))
    }

    /// The engine.
    pub(crate) fn engine(&self) -> &ScriptEngine {
        &self.engine
    }

    /// Says that the script's transaction met a conflict: never, unless a test asks for some.
    /// Writers of one logical partition wait for one another, so there are no real ones.
    pub(super) fn check_conflict(&self) -> Result<()> {
        let percent = u64::from(self.engine.limits().conflict_percent);
        if percent > 0 && RandomState::new().hash_one(percent) % 100 < percent {
            return Err(Error::WriteConflict);
        }
        Ok(())
    }

    /// A script ready to run. It compiled when it was registered, so it does now.
    pub(crate) fn compiled(&self, script: &Script) -> Result<Compiled> {
        self.compiled.get(&self.engine, script)
    }

    /// The same for a procedure whose last calls were all quick.
    pub(super) fn quick(&self, script: &Script) -> Option<Compiled> {
        self.compiled.quick(script)
    }

    /// Notes whether a call of a procedure was quick.
    pub(super) fn note(&self, script: &Script, is_quick: bool) {
        self.compiled.note(script, is_quick);
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.functions.close();
    }
}

impl Kind {
    /// The kind as the engine calls it.
    pub(super) fn for_engine(self) -> ScriptKind {
        match self {
            Self::Procedure => ScriptKind::Procedure,
            Self::Trigger => ScriptKind::Trigger,
            Self::Function => ScriptKind::Function,
        }
    }
}
