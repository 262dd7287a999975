//! The condition in parts, each tested before the JOINs it does not need.

use crate::compiled::CompiledExpr;

/// Splits a condition by the frames its parts need: part `n` is tested on top of `n` sources, and
/// all must be true. Parts with sub-queries or user functions are tested last.
pub(super) fn split_checks(
    filter: Option<&CompiledExpr>,
    sources: usize,
) -> Vec<Option<CompiledExpr>> {
    let mut parts: Vec<Vec<CompiledExpr>> = vec![Vec::new(); sources + 1];
    let conjuncts = match filter {
        None => &[],
        Some(CompiledExpr::And(parts)) => parts.as_slice(),
        Some(other) => std::slice::from_ref(other),
    };
    for conjunct in conjuncts {
        let spare = spare_frames(conjunct).map_or(0, |spare| spare.min(sources));
        let mut conjunct = conjunct.clone();
        lower(&mut conjunct, spare);
        parts[sources - spare].push(conjunct);
    }
    parts.into_iter().map(join).collect()
}

fn join(mut parts: Vec<CompiledExpr>) -> Option<CompiledExpr> {
    match parts.len() {
        0 => None,
        1 => parts.pop(),
        _ => Some(CompiledExpr::And(parts)),
    }
}

/// How many of the innermost frames an expression does without; `None` when that is not known.
fn spare_frames(expr: &CompiledExpr) -> Option<usize> {
    match expr {
        CompiledExpr::Path(path) => Some(path.hops),
        CompiledExpr::Computed { hops, .. } => Some(*hops),
        CompiledExpr::Constant(_) | CompiledExpr::DocumentId => Some(usize::MAX),
        CompiledExpr::User(..) | CompiledExpr::Subquery(..) | CompiledExpr::Slot(_) => None,
        other => other
            .operands()
            .into_iter()
            .try_fold(usize::MAX, |spare, operand| Some(spare.min(spare_frames(operand)?))),
    }
}

/// The expression as seen from a frame further down.
fn lower(expr: &mut CompiledExpr, frames: usize) {
    match expr {
        CompiledExpr::Path(path) => path.hops -= frames.min(path.hops),
        CompiledExpr::Computed { hops, .. } => *hops -= frames.min(*hops),
        other => other.operands_mut().into_iter().for_each(|operand| lower(operand, frames)),
    }
}
