//! Proving: the proposal is built in a throw-away account from the whole data, and what was recorded is replayed on it.
//!
//! The data is built anew for every step of the proposal, one change more each time, so that each finding is measured by
//! itself: what the recorded activities cost before it and after it, with what keeping its copies up costs.

mod replay;
mod world;

use crate::choose;
use crate::flow::Flow;
use crate::limits::PROOF_ITEMS_MAX;
use crate::propose::Case;
use crate::report::{Finding, Judged};
use crate::understand::DataModel;
use armilla_model::{Error, Result};
use replay::Replay;
use world::World;

/// What was measured under a set of changes.
pub(crate) struct Measured {
    /// One activity of each flow.
    pub(crate) flows: Vec<f64>,
    /// Everything observed, upkeep included.
    pub(crate) total: f64,
}

/// Measures every step of a proposal: before the first change, and after each.
pub(crate) fn measure(case: &Case<'_>, part: &Judged) -> Result<Vec<Measured>> {
    check_size(case.model)?;
    let Some(point) = part.points.first() else { return Ok(Vec::new()) };
    let mut made = vec![false; point.made.len()];
    let mut measured = vec![measure_once(case, part, &made)?];
    for at in choose::order(&part.proposal, &point.made) {
        made[at] = true;
        measured.push(measure_once(case, part, &made)?);
    }
    Ok(measured)
}

fn check_size(model: &DataModel) -> Result<()> {
    let items: f64 = model.entities.iter().map(|entity| entity.items).sum();
    if items > PROOF_ITEMS_MAX as f64 {
        return Err(Error::bad_request(format!(
            "The containers that were asked hold {items:.0} items; a proof copies at most {PROOF_ITEMS_MAX}. Ask for one database, or prove it on a restored backup of a part."
        )));
    }
    Ok(())
}

fn measure_once(case: &Case<'_>, part: &Judged, made: &[bool]) -> Result<Measured> {
    let world = World::build(case, &part.proposal, made)?;
    let mut replay = Replay { case, proposal: &part.proposal, made, world, upkeep: 0.0 };
    let (mut flows, mut total) = (Vec::new(), 0.0);
    for at in 0..case.flows.len() {
        let (units, upkeep) = replay.flow(at)?;
        let times = case.flows.get(at).map_or(0.0, |flow: &Flow| flow.times);
        total += (units + upkeep) * times;
        flows.push(units);
    }
    Ok(Measured { flows, total })
}

/// Writes what was measured beside what was predicted.
pub(crate) fn tell(findings: &mut [Finding], part: &Judged, measured: &[Measured]) {
    let own = findings
        .iter_mut()
        .filter(|finding| finding.database == part.database && finding.saved.is_some());
    for (finding, pair) in own.zip(measured.windows(2)) {
        let [before, after] = pair else { continue };
        finding.proved = Some(before.total - after.total);
        for (flow, units) in part.flows.iter().zip(&after.flows) {
            let title = crate::report::figures(flow).title;
            let rows = finding.requests.iter_mut().filter(|row| row.title == title);
            rows.for_each(|row| row.measured = Some(*units));
        }
    }
}
