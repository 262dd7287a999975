//! The cache of compiled scripts.

use super::Script;
use super::brief::Pace;
use crate::limits::{COMPILED_SCRIPTS_ESTIMATED, COMPILED_SCRIPTS_SIZE_MAX};
use armilla_model::error::{Error, Result};
use armilla_model::etag::ETag;
use armilla_script::{Compiled, ScriptEngine};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::sync::Arc;

/// What a compiled script weighs per byte of its source, roughly.
const WEIGHT_PER_BYTE: u64 = 3;

/// Compiled bodies by the version of their script, which changes with the body.
pub(super) struct CompiledScripts(Cache<ETag, CachedScript, BySource>);

/// A compiled body, and how long its calls took.
#[derive(Clone)]
pub(super) struct CachedScript {
    pub(super) compiled: Compiled,
    pub(super) pace: Arc<Pace>,
}

#[derive(Clone)]
struct BySource;

impl Weighter<ETag, CachedScript> for BySource {
    fn weight(&self, _: &ETag, script: &CachedScript) -> u64 {
        (script.compiled.source().len() as u64 + 256) * WEIGHT_PER_BYTE
    }
}

impl CompiledScripts {
    pub(super) fn new() -> Self {
        Self(Cache::with_weighter(COMPILED_SCRIPTS_ESTIMATED, COMPILED_SCRIPTS_SIZE_MAX, BySource))
    }

    /// A script ready to run. It compiled when it was registered, so it does now.
    pub(super) fn get(&self, engine: &ScriptEngine, script: &Script) -> Result<CachedScript> {
        let compile = || {
            let compiled = engine.compile(script.kind.for_engine(), &script.body)?;
            Ok(CachedScript { compiled, pace: Arc::default() })
        };
        self.0.get_or_insert_with(&script.etag, compile).map_err(
            |error: armilla_script::CompileError| {
                Error::ScriptSyntax(format!(
                    "The script '{}' does not compile: {error}.",
                    script.name
                ))
            },
        )
    }
}
