//! The plain evaluator: a query over any sequence of documents, in memory, by reading them all.
//!
//! It uses no index and no statistics, keeps rows in vectors and sorts them, and so is the yardstick
//! for every faster way to run a query. It also serves the small lists of the catalogue.

use crate::ast::Query;
use crate::bind::{Parameters, compile};
use crate::compiled::{Compiled, CompiledExpr, Input, Order};
use crate::effort::Effort;
use crate::error::Result;
use crate::eval::{Frame, Runtime, Sink, check_weight, matches_item, visit_rows};
use crate::functions::Context;
use crate::limits::ITEM_STEPS_MAX;
use crate::rank::{self, Statistics};
use crate::schema::Schema;
use crate::udf;
use armilla_model::Value;

/// What a query is run with.
#[derive(Clone, Copy)]
pub struct Options<'o> {
    /// The container's policies.
    pub schema: &'o Schema,
    /// The container's user functions.
    pub users: &'o dyn udf::Functions,
    /// The time, in 100 ns since 1970.
    pub now_ticks: i64,
    /// The seed of RAND.
    pub seed: u64,
    /// Steps for everything together; without them each call of a function has a budget and rows have none.
    pub steps_max: Option<u64>,
}

impl<'o> Options<'o> {
    /// Options without user functions, at the start of 1970.
    pub fn new(schema: &'o Schema) -> Self {
        Self { schema, users: &udf::NoFunctions, now_ticks: 0, seed: 1, steps_max: None }
    }

    /// The same for expressions of clients that run where nobody can stop them. The bound counts steps and no
    /// time, so that the answer is the same on every machine.
    pub fn bounded(schema: &'o Schema) -> Self {
        Self { steps_max: Some(ITEM_STEPS_MAX), ..Self::new(schema) }
    }
}

/// Runs a query over documents.
pub fn run(
    query: &Query,
    parameters: &Parameters,
    documents: impl Iterator<Item = Value>,
    options: Options<'_>,
) -> Result<Vec<Value>> {
    let compiled = compile(query, parameters, options.schema)?;
    with_runtime(options, |runtime| run_compiled(&compiled, documents.collect(), runtime))
}

/// True when a document meets the condition of a patch; see [`crate::parse_condition`].
pub fn meets(condition: &Query, document: &Value, options: Options<'_>) -> Result<bool> {
    let compiled = compile(condition, &[], options.schema)?;
    with_runtime(options, |runtime| matches_item(&compiled, document, runtime))
}

/// Calls a function with a runtime made of the options.
pub fn with_runtime<T>(options: Options<'_>, run: impl FnOnce(&mut Runtime<'_>) -> T) -> T {
    let mut state = options.seed;
    let mut random = || next_random(&mut state);
    let now_ticks = || options.now_ticks;
    let mut runtime = Runtime::new(Context {
        now_ticks: &now_ticks,
        now_static_ticks: options.now_ticks,
        random: &mut random,
        geometry: options.schema.geometry(),
        vectors: options.schema.vectors(),
        effort: options.steps_max.map_or_else(Effort::default, Effort::of_total),
    });
    runtime.users = options.users;
    run(&mut runtime)
}

/// Runs a compiled query over documents.
pub fn run_compiled(
    query: &Compiled,
    documents: Vec<Value>,
    runtime: &mut Runtime<'_>,
) -> Result<Vec<Value>> {
    let inputs = match &query.input {
        Input::Single => vec![Value::Undefined],
        Input::Items => documents,
        Input::Query(inner) => {
            let rows = run_compiled(inner, documents, runtime)?;
            rows.iter().try_for_each(check_weight)?;
            rows
        }
    };
    let scores = rank_scores(query, &inputs, runtime);
    let mut sink = Sink::new(query, &scores);
    for (position, input) in inputs.iter().enumerate() {
        runtime.document_id = position as u64 + 1;
        let flow =
            visit_rows(query, input, runtime, &mut |frame, runtime| sink.push(frame, runtime))?;
        if flow.is_break() {
            break;
        }
    }
    sink.finish(&Frame::item(&Value::Undefined), runtime)
}

fn rank_scores(query: &Compiled, inputs: &[Value], runtime: &mut Runtime<'_>) -> Vec<CompiledExpr> {
    let Order::Rank(rank) = &query.order else { return Vec::new() };
    let mut statistics = Statistics::default();
    inputs.iter().for_each(|item| statistics.add(rank, item, runtime));
    rank::score_expressions(rank, &statistics)
}

/// A small generator (splitmix64): RAND promises nothing but a number in [0, 1).
fn next_random(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^= mixed >> 31;
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}
