//! ORDER BY RANK: statistics over the corpus, scores, and reciprocal rank fusion.
//!
//! BM25 needs to know the whole container (how many items, how many words, how many hold a term)
//! before it can score one item, so a ranked query reads the container twice: once for
//! [`Statistics`], once for scores (the formula is in `functions::full_text::bm25`). Scores are then fused: each component ranks the rows for itself
//! and a row gets `Σ |weight| / (60 + rank)`. Equal scores share a rank and the next one follows it;
//! a negative weight ranks the worst first.

use crate::compiled::{CompiledExpr, Rank, RankComponent};
use crate::eval::{Frame, Runtime, evaluate};
use crate::functions::{self, Function};
use armilla_model::Value;
use std::borrow::Cow;

/// The constant of reciprocal rank fusion.
pub const FUSION_CONSTANT: f64 = 60.0;

/// What BM25 must know about the container, per full-text component.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    documents: u64,
    components: Vec<ComponentStatistics>,
}

#[derive(Clone, Debug, Default)]
struct ComponentStatistics {
    words: f64,
    hits: Vec<u64>,
}

impl Statistics {
    /// Counts one item in.
    pub fn add(&mut self, rank: &Rank, item: &Value, runtime: &mut Runtime<'_>) {
        self.documents += 1;
        self.components.resize_with(rank.components.len(), ComponentStatistics::default);
        for (component, statistics) in rank.components.iter().zip(&mut self.components) {
            let RankComponent::FullText { text, terms } = component else { continue };
            let frame = Frame::item(item);
            // A text that cannot be made counts as none.
            let text = evaluate(text, &frame, runtime).map(Cow::into_owned).unwrap_or_default();
            statistics.hits.resize(terms.len(), 0);
            let words = run("_FULLTEXTWORDCOUNT", std::slice::from_ref(&text), runtime);
            statistics.words += words.as_f64().unwrap_or(0.0);
            for (term, hits) in terms.iter().zip(&mut statistics.hits) {
                let hit = run("FULLTEXTCONTAINS", &[text.clone(), term.clone()], runtime);
                *hits += u64::from(hit.as_bool() == Some(true));
            }
        }
    }

    /// All of it, so that another process can go on: see [`Statistics::of_state`].
    pub fn state(&self) -> Value {
        let component = |component: &ComponentStatistics| {
            let hits = component.hits.iter().map(|hits| number(Some(*hits)));
            Value::array(vec![Value::from(component.words), Value::array(hits.collect())])
        };
        let components = self.components.iter().map(component).collect();
        Value::array(vec![number(Some(self.documents)), Value::array(components)])
    }

    /// The statistics of a state; nothing where it is none.
    pub fn of_state(state: &Value) -> Option<Self> {
        let count = |value: &Value| u64::try_from(value.as_number()?.as_i64()?).ok();
        let component = |value: &Value| match value.as_array()? {
            [words, hits] => {
                let hits = hits.as_array()?.iter().map(count).collect::<Option<_>>()?;
                Some(ComponentStatistics { words: words.as_f64()?, hits })
            }
            _ => None,
        };
        match state.as_array()? {
            [documents, components] => Some(Self {
                documents: count(documents)?,
                components: components.as_array()?.iter().map(component).collect::<Option<_>>()?,
            }),
            _ => None,
        }
    }

    /// Takes in the statistics of another partition.
    pub fn merge(&mut self, other: &Self) {
        self.documents += other.documents;
        let length = self.components.len().max(other.components.len());
        self.components.resize_with(length, ComponentStatistics::default);
        for (mine, its) in self.components.iter_mut().zip(&other.components) {
            mine.words += its.words;
            mine.hits.resize(mine.hits.len().max(its.hits.len()), 0);
            mine.hits.iter_mut().zip(&its.hits).for_each(|(mine, its)| *mine += its);
        }
    }
}

fn function(name: &str) -> &'static Function {
    functions::lookup(name).expect("the table of functions has the full-text family")
}

fn run(name: &str, arguments: &[Value], runtime: &mut Runtime<'_>) -> Value {
    function(name).run(&mut runtime.functions, arguments)
}

/// One expression per component whose value is larger for better matches.
pub fn score_expressions(rank: &Rank, statistics: &Statistics) -> Vec<CompiledExpr> {
    let score = |(position, component): (usize, &RankComponent)| match component {
        RankComponent::FullText { text, terms } => {
            let empty = ComponentStatistics::default();
            let counted = statistics.components.get(position).unwrap_or(&empty);
            let hits = (0..terms.len()).map(|term| number(counted.hits.get(term).copied()));
            let arguments = vec![
                text.clone(),
                CompiledExpr::Constant(Value::array(terms.clone())),
                CompiledExpr::Constant(number(Some(statistics.documents))),
                CompiledExpr::Constant(Value::from(counted.words)),
                CompiledExpr::Constant(Value::array(hits.collect())),
            ];
            CompiledExpr::Call(function("_FULLTEXTSCORE"), arguments)
        }
        RankComponent::Vector { distance, largest_first: true } => distance.clone(),
        RankComponent::Vector { distance, largest_first: false } => {
            CompiledExpr::Unary(crate::ast::UnaryOperator::Minus, Box::new(distance.clone()))
        }
    };
    rank.components.iter().enumerate().map(score).collect()
}

fn number(count: Option<u64>) -> Value {
    Value::from(i64::try_from(count.unwrap_or(0)).unwrap_or(i64::MAX))
}

/// Orders rows by their fused rank, best first. The keys of a row are its scores; a row without a
/// score is ranked last by that component.
pub fn fuse(rank: &Rank, rows: Vec<(Vec<Value>, Value)>) -> Vec<Value> {
    let mut fused = vec![0.0; rows.len()];
    for component in 0..rank.components.len() {
        let weight = rank.weights.get(component).copied().unwrap_or(1.0);
        let score = |row: usize| rows[row].0.get(component).and_then(Value::as_f64);
        let mut order: Vec<usize> = (0..rows.len()).collect();
        let compare = |left: usize, right: usize| {
            let order = compare_scores(score(left), score(right));
            // Rows without a score come last either way.
            let turned = weight < 0.0 && score(left).is_some() && score(right).is_some();
            if turned { order.reverse() } else { order }
        };
        order.sort_by(|left, right| compare(*left, *right));
        let mut place = 1.0;
        for (at, row) in order.iter().enumerate() {
            if at > 0 && compare(order[at - 1], *row).is_ne() {
                place += 1.0;
            }
            fused[*row] += weight.abs() / (FUSION_CONSTANT + place);
        }
    }
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|left, right| fused[*right].total_cmp(&fused[*left]));
    let mut rows: Vec<_> = rows.into_iter().map(|(_, row)| Some(row)).collect();
    order.into_iter().filter_map(|row| rows[row].take()).collect()
}

/// Best first; no score last.
fn compare_scores(left: Option<f64>, right: Option<f64>) -> std::cmp::Ordering {
    match (left, right) {
        (Some(left), Some(right)) => right.total_cmp(&left),
        (Some(_), None) => std::cmp::Ordering::Less,
        (None, Some(_)) => std::cmp::Ordering::Greater,
        (None, None) => std::cmp::Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fused(weights: &[f64], scores: &[&[f64]]) -> String {
        let components = weights.iter().map(|_| RankComponent::Vector {
            distance: CompiledExpr::UNDEFINED,
            largest_first: true,
        });
        let rank = Rank { components: components.collect(), weights: weights.to_vec() };
        let row = |at: usize| {
            let keys = scores.iter().map(|component| component[at].into()).collect();
            (keys, Value::from(i64::try_from(at).unwrap()))
        };
        Value::array(fuse(&rank, (0..scores[0].len()).map(row).collect())).to_json()
    }

    #[test]
    fn equal_scores_share_a_rank_and_the_next_one_follows() {
        // Ranks 1 1 1 2 and 3 2 4 1: with a gap behind the ties the last row would come after the first.
        assert_eq!(
            fused(&[1.0, 1.0], &[&[5.0, 5.0, 5.0, 1.0], &[2.0, 3.0, 1.0, 4.0]]),
            "[1,3,0,2]"
        );
    }

    #[test]
    fn a_negative_weight_ranks_the_worst_first() {
        assert_eq!(fused(&[-1.0], &[&[1.0, 3.0, 2.0]]), "[0,2,1]");
        assert_eq!(fused(&[1.0, -2.0], &[&[3.0, 2.0, 1.0], &[3.0, 2.0, 1.0]]), "[2,1,0]");
    }
}
