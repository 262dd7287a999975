//! What an account needs to run scripts: the engine, its threads, and the compiled bodies.

use super::function_threads::FunctionThreads;
use super::pool::Pool;
use super::{Kind, Script, out_of_script};
use crate::limits::{COMPILED_SCRIPTS_ESTIMATED, COMPILED_SCRIPTS_SIZE_MAX};
use crate::query::ScriptDeadline;
use armilla_model::error::{Error, Result};
use armilla_model::etag::ETag;
use armilla_script::{Compiled, Limits, ScriptEngine, ScriptKind};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Instant;

/// What a compiled script weighs per byte of its source, roughly.
const WEIGHT_PER_BYTE: u64 = 3;

/// Compiles and runs the scripts of an account.
pub(crate) struct Runtime {
    engine: ScriptEngine,
    pub(super) pool: Pool,
    pub(super) functions: Arc<FunctionThreads>,
    /// By the version of the script, which changes with its body.
    compiled: Cache<ETag, Compiled, BySource>,
}

#[derive(Clone)]
struct BySource;

impl Weighter<ETag, Compiled> for BySource {
    fn weight(&self, _: &ETag, compiled: &Compiled) -> u64 {
        (compiled.source().len() as u64 + 256) * WEIGHT_PER_BYTE
    }
}

impl Runtime {
    /// Starts the engine and its threads.
    pub(crate) fn start(limits: Limits) -> Result<Self> {
        let engine = ScriptEngine::new(limits).map_err(|error| Error::Internal(error.detail))?;
        let compiled =
            Cache::with_weighter(COMPILED_SCRIPTS_ESTIMATED, COMPILED_SCRIPTS_SIZE_MAX, BySource);
        Ok(Self { engine, pool: Pool::start()?, functions: FunctionThreads::new(), compiled })
    }

    /// The time of a script that begins now.
    pub(super) fn clock(&self) -> ScriptDeadline {
        let started = Instant::now();
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
        let compile = || self.engine.compile(script.kind.for_engine(), &script.body);
        self.compiled.get_or_insert_with(&script.etag, compile).map_err(|error| {
            Error::ScriptSyntax(format!("The script '{}' does not compile: {error}.", script.name))
        })
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
