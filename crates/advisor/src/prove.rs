//! Proving: the proposal is built in a throw-away account from the data, and what was recorded is replayed on it.
//!
//! Of more data than fits, what the recorded requests touch is taken, what that refers to, and a part of the rest. There a query over
//! all ranges counts with what it was charged when it was recorded.
//!
//! The data is built anew for every step of the proposal, one change more each time, so that each finding is measured by
//! itself: what the recorded activities cost before it and after it, with what keeping its copies up costs.

mod replay;
mod sample;
mod world;

use crate::choose;
use crate::flow::Flow;
use crate::propose::Case;
use crate::report::{Finding, Judged};
use armilla_model::Result;
use replay::Replay;
use sample::ProofData;
use world::World;

/// What was measured under a set of changes.
pub(crate) struct Measured {
    /// One activity of each flow.
    pub(crate) flows: Vec<f64>,
    /// Everything observed, upkeep included.
    pub(crate) total: f64,
}

/// What a proof found, and on how much of the data.
#[derive(Default)]
pub(crate) struct Proof {
    pub(crate) measured: Vec<Measured>,
    /// Items that were built, and of how many.
    pub(crate) items: (usize, f64),
    pub(crate) is_sample: bool,
}

/// Measures every step of a proposal: before the first change, and after each.
pub(crate) fn measure(case: &Case<'_>, part: &Judged, items_max: usize) -> Result<Proof> {
    let Some(point) = part.points.first() else { return Ok(Proof::default()) };
    let data = ProofData::of(case, items_max);
    let mut made = vec![false; point.made.len()];
    let mut measured = vec![measure_once(case, part, &made, &data)?];
    for at in choose::order(&part.proposal, &point.made) {
        made[at] = true;
        measured.push(measure_once(case, part, &made, &data)?);
    }
    let (of, here) = data.counts();
    Ok(Proof { measured, items: (here, of), is_sample: data.is_sample() })
}

fn measure_once(
    case: &Case<'_>,
    part: &Judged,
    made: &[bool],
    data: &ProofData,
) -> Result<Measured> {
    let world = World::build(case, &part.proposal, made, data)?;
    let mut replay = Replay { case, proposal: &part.proposal, made, world, data, upkeep: 0.0 };
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
pub(crate) fn tell(findings: &mut [Finding], part: &Judged, proof: &Proof) {
    let own = findings
        .iter_mut()
        .filter(|finding| finding.database == part.database && finding.saved.is_some());
    for (finding, pair) in own.zip(proof.measured.windows(2)) {
        let [before, after] = pair else { continue };
        finding.proved = Some(before.total - after.total);
        for (flow, units) in part.flows.iter().zip(&after.flows) {
            let title = crate::report::figures(flow).title;
            let rows = finding.requests.iter_mut().filter(|row| row.title == title);
            rows.for_each(|row| row.measured = Some(*units));
        }
    }
}
