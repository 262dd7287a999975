//! The cache of compiled scripts.

use super::Script;
use crate::limits::{COMPILED_SCRIPTS_ESTIMATED, COMPILED_SCRIPTS_SIZE_MAX};
use armilla_model::error::{Error, Result};
use armilla_model::etag::ETag;
use armilla_script::{Compiled, ScriptEngine};
use quick_cache::Weighter;
use quick_cache::sync::Cache;

/// What a compiled script weighs per byte of its source, roughly.
const WEIGHT_PER_BYTE: u64 = 3;

/// Compiled bodies by the version of their script, which changes with the body.
pub(super) struct CompiledScripts(Cache<ETag, Compiled, BySource>);

#[derive(Clone)]
struct BySource;

impl Weighter<ETag, Compiled> for BySource {
    fn weight(&self, _: &ETag, compiled: &Compiled) -> u64 {
        (compiled.source().len() as u64 + 256) * WEIGHT_PER_BYTE
    }
}

impl CompiledScripts {
    pub(super) fn new() -> Self {
        Self(Cache::with_weighter(COMPILED_SCRIPTS_ESTIMATED, COMPILED_SCRIPTS_SIZE_MAX, BySource))
    }

    /// A script ready to run. It compiled when it was registered, so it does now.
    pub(super) fn get(&self, engine: &ScriptEngine, script: &Script) -> Result<Compiled> {
        let compile = || engine.compile(script.kind.for_engine(), &script.body);
        self.0.get_or_insert_with(&script.etag, compile).map_err(|error| {
            Error::ScriptSyntax(format!("The script '{}' does not compile: {error}.", script.name))
        })
    }
}
