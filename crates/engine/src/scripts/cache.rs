//! The cache of compiled scripts.

use super::Script;
use crate::limits::{
    COMPILED_SCRIPTS_ESTIMATED, COMPILED_SCRIPTS_SIZE_MAX, SCRIPT_QUICK_CALLS_MIN,
};
use armilla_model::error::{Error, Result};
use armilla_model::etag::ETag;
use armilla_script::{CompileError, Compiled, ScriptEngine};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// What a compiled script weighs per byte of its source, roughly.
const WEIGHT_PER_BYTE: u64 = 3;

/// Compiled bodies by the version of their script, which changes with the body.
pub(super) struct CompiledScripts(Cache<ETag, KnownScript, BySource>);

#[derive(Clone)]
struct KnownScript {
    compiled: Compiled,
    /// Calls one after the other that were quick.
    quick_calls: Arc<AtomicU32>,
}

#[derive(Clone)]
struct BySource;

impl Weighter<ETag, KnownScript> for BySource {
    fn weight(&self, _: &ETag, known: &KnownScript) -> u64 {
        (known.compiled.source().len() as u64 + 256) * WEIGHT_PER_BYTE
    }
}

impl CompiledScripts {
    pub(super) fn new() -> Self {
        Self(Cache::with_weighter(COMPILED_SCRIPTS_ESTIMATED, COMPILED_SCRIPTS_SIZE_MAX, BySource))
    }

    /// A script ready to run. It compiled when it was registered, so it does now.
    pub(super) fn get(&self, engine: &ScriptEngine, script: &Script) -> Result<Compiled> {
        let compile = || {
            let compiled = engine.compile(script.kind.for_engine(), &script.body)?;
            Ok::<_, CompileError>(KnownScript { compiled, quick_calls: Arc::default() })
        };
        let known = self.0.get_or_insert_with(&script.etag, compile).map_err(|error| {
            Error::ScriptSyntax(format!("The script '{}' does not compile: {error}.", script.name))
        })?;
        Ok(known.compiled)
    }

    /// The same for a script whose last calls were all quick, and that is at hand.
    pub(super) fn quick(&self, script: &Script) -> Option<Compiled> {
        let known = self.0.get(&script.etag)?;
        (known.quick_calls.load(Relaxed) >= SCRIPT_QUICK_CALLS_MIN).then_some(known.compiled)
    }

    /// Notes whether a call was quick.
    pub(super) fn note(&self, script: &Script, is_quick: bool) {
        let Some(known) = self.0.get(&script.etag) else { return };
        match is_quick {
            // It need not go on for ever.
            true if known.quick_calls.load(Relaxed) >= SCRIPT_QUICK_CALLS_MIN => {}
            true => drop(known.quick_calls.fetch_add(1, Relaxed)),
            false => known.quick_calls.store(0, Relaxed),
        }
    }
}
