//! What a lab found: a row per request, a cell per design, and how it compares with the source.

use super::footprint::Footprint;
use super::load::Loaded;
use super::model::{Figures, Model};
use super::run::Counts;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// A charge this near to the source's counts as the same.
pub(crate) const TOLERANCE: f64 = 0.10;

/// Everything a lab found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) about: String,
    /// Where the comparison figures come from.
    pub(crate) source: Option<String>,
    pub(crate) scale: BTreeMap<String, u64>,
    pub(crate) seed: u64,
    pub(crate) designs: Vec<String>,
    pub(crate) load: LoadFigures,
    pub(crate) footprint: Footprint,
    pub(crate) containers: Vec<ContainerFigures>,
    pub(crate) rows: Vec<Row>,
    /// How it compares, when there are figures to compare with.
    pub(crate) verdict: Option<Verdict>,
}

/// The load.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LoadFigures {
    pub(crate) items: u64,
    pub(crate) bytes: u64,
    pub(crate) seconds: f64,
    pub(crate) items_per_second: f64,
    pub(crate) request_units: f64,
}

/// A container as it stood.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ContainerFigures {
    pub(crate) name: String,
    pub(crate) key: String,
    pub(crate) items: u64,
    pub(crate) ranges: usize,
}

/// A request.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) title: String,
    /// In the order of the designs; nothing where a design does not answer it.
    pub(crate) cells: Vec<Option<Cell>>,
    /// Whether the designs stand in the same order as in the source.
    pub(crate) order_agrees: Option<bool>,
}

/// What one design took.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cell {
    /// The median.
    pub(crate) milliseconds: f64,
    pub(crate) milliseconds_fastest: f64,
    pub(crate) milliseconds_slowest: f64,
    pub(crate) request_units: f64,
    pub(crate) requests: u64,
    pub(crate) partitions: usize,
    /// The same in the source.
    pub(crate) source: Option<SourceFigures>,
}

/// Figures of the source, and how far ours are from them.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct SourceFigures {
    pub(crate) milliseconds: f64,
    pub(crate) request_units: f64,
    /// Our charge over theirs, less one.
    pub(crate) deviation: f64,
}

/// How it compares.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Verdict {
    /// Cells with a figure to compare with.
    pub(crate) compared: usize,
    /// Those of them within [`TOLERANCE`].
    pub(crate) within: usize,
    /// Rows with several designs to compare.
    pub(crate) rows: usize,
    /// Those of them in the source's order.
    pub(crate) rows_in_order: usize,
}

impl Cell {
    /// A cell from what was counted and the times it took.
    pub(crate) fn new(counts: &Counts, times: &mut [Duration], source: Option<Figures>) -> Self {
        times.sort_unstable();
        let milliseconds = |at: usize| times.get(at).map_or(0.0, Duration::as_secs_f64) * 1000.0;
        let source = source.map(|figures| SourceFigures {
            milliseconds: figures.ms,
            request_units: figures.ru,
            deviation: counts.charge / figures.ru - 1.0,
        });
        Self {
            milliseconds: milliseconds(times.len() / 2),
            milliseconds_fastest: milliseconds(0),
            milliseconds_slowest: milliseconds(times.len().saturating_sub(1)),
            request_units: (counts.charge * 100.0).round() / 100.0,
            requests: counts.requests,
            partitions: counts.ranges.len(),
            source,
        }
    }

    /// Whether the charge is near enough to the source's.
    pub(crate) fn is_within(&self) -> Option<bool> {
        self.source.map(|source| source.deviation.abs() <= TOLERANCE)
    }
}

impl Report {
    /// A report without rows.
    pub(crate) fn new(
        model: &Model,
        scale: BTreeMap<String, u64>,
        loaded: &Loaded,
        containers: Vec<ContainerFigures>,
    ) -> Self {
        let seconds = loaded.took.as_secs_f64();
        Self {
            name: model.name.clone(),
            title: model.title.clone(),
            about: model.about.trim().to_owned(),
            source: model.source.clone(),
            scale,
            seed: model.seed,
            designs: model.designs.clone(),
            load: LoadFigures {
                items: loaded.items,
                bytes: loaded.bytes,
                seconds,
                items_per_second: loaded.items as f64 / seconds.max(1e-9),
                request_units: loaded.charge,
            },
            footprint: Footprint::default(),
            containers,
            rows: Vec::new(),
            verdict: None,
        }
    }

    /// Compares with the source.
    pub(crate) fn judge(&mut self) {
        for row in &mut self.rows {
            row.order_agrees = order_agrees(&row.cells);
        }
        let cells = self.rows.iter().flat_map(|row| &row.cells).flatten();
        let judged: Vec<bool> = cells.filter_map(Cell::is_within).collect();
        if judged.is_empty() {
            return;
        }
        let orders: Vec<bool> = self.rows.iter().filter_map(|row| row.order_agrees).collect();
        self.verdict = Some(Verdict {
            compared: judged.len(),
            within: judged.iter().filter(|within| **within).count(),
            rows: orders.len(),
            rows_in_order: orders.iter().filter(|agrees| **agrees).count(),
        });
    }
}

/// Whether every two designs that clearly differ in the source differ the same way here.
fn order_agrees(cells: &[Option<Cell>]) -> Option<bool> {
    let pairs: Vec<(f64, f64)> = cells
        .iter()
        .flatten()
        .filter_map(|cell| Some((cell.source?.request_units, cell.request_units)))
        .collect();
    if pairs.len() < 2 {
        return None;
    }
    let agrees = pairs.iter().enumerate().all(|(position, (theirs, ours))| {
        pairs[position + 1..].iter().all(|(their_next, our_next)| {
            let differs = (theirs - their_next).abs() > TOLERANCE * theirs.max(*their_next);
            !differs || (theirs > their_next) == (ours > our_next)
        })
    });
    Some(agrees)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(theirs: f64, ours: f64) -> Option<Cell> {
        let counts = Counts { charge: ours, ..Counts::default() };
        let figures = Figures { ms: 1.0, ru: theirs };
        Some(Cell::new(&counts, &mut [Duration::from_millis(1)], Some(figures)))
    }

    #[test]
    fn order_is_judged_where_the_source_differs() {
        assert_eq!(
            order_agrees(&[cell(600.0, 580.0), cell(200.0, 210.0), cell(6.0, 7.0)]),
            Some(true)
        );
        assert_eq!(order_agrees(&[cell(600.0, 5.0), cell(200.0, 210.0)]), Some(false));
        assert_eq!(order_agrees(&[cell(5.71, 5.71), cell(5.71, 6.67)]), Some(true));
        assert_eq!(order_agrees(&[cell(5.71, 5.71), None]), None);
    }

    #[test]
    fn charges_are_judged_by_their_ratio() {
        assert_eq!(cell(10.0, 10.9).unwrap().is_within(), Some(true));
        assert_eq!(cell(10.0, 8.9).unwrap().is_within(), Some(false));
    }
}
