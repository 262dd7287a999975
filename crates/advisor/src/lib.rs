//! Advice on data modelling, from the data and the workload that a server sees.
//!
//! Which data to embed, which to refer to, which to copy, and by which key: the answer depends on what an application asks
//! and how often, so it is looked for there.
//!
//! ```text
//! observe     requests become shapes and patterns of activities, in the background
//! understand  entities and links, from a sample of the items
//! flow        where the values of each request come from
//! rules       changes of the model, a file each, priced by building real items in a throw-away account
//! choose      the set of changes under which the observed workload costs least
//! prove       the proposal is built, and what was recorded is replayed on it
//! report      findings with what they save, why, and how to apply and undo them
//! ```
//!
//! Nothing is ever applied by itself.

mod choose;
mod flow;
mod kinds;
pub mod limits;
mod live;
pub mod observe;
mod propose;
mod prove;
pub mod report;
mod rules;
mod trial;
mod understand;
mod watch;

use armilla_engine::Account;
use armilla_model::Result;
use flow::flows;
use observe::Workload;
use propose::Case;
use report::{Advice, Judged};
use trial::Trial;
use understand::DataModel;

/// Makes a report of what was observed, for one database or for all.
///
/// # Errors
///
/// When no throw-away account can be opened.
pub fn advise(account: &Account, workload: &Workload, database: Option<&str>) -> Result<Advice> {
    report(account, workload, database, None)
}

/// Makes the same report, builds its proposal in a throw-away account, and replays what was recorded on it.
///
/// # Errors
///
/// When no throw-away account can be opened.
pub fn prove(account: &Account, workload: &Workload, database: Option<&str>) -> Result<Advice> {
    prove_with(account, workload, database, limits::PROOF_ITEMS_MAX)
}

/// The same with so many items at most; of more, it works on a part, and says so.
///
/// # Errors
///
/// When no throw-away account can be opened.
pub fn prove_with(
    account: &Account,
    workload: &Workload,
    database: Option<&str>,
    items_max: usize,
) -> Result<Advice> {
    report(account, workload, database, Some(items_max))
}

fn report(
    account: &Account,
    workload: &Workload,
    database: Option<&str>,
    proof_items: Option<usize>,
) -> Result<Advice> {
    let mut names: Vec<String> = Vec::new();
    for shape in &workload.shapes {
        let wanted = database.is_none_or(|wanted| wanted == shape.database);
        if wanted && !names.contains(&shape.database) {
            names.push(shape.database.clone());
        }
    }
    let mut parts = Vec::new();
    for name in names {
        parts.push(judge(account, workload, name, proof_items)?);
    }
    let judged: Vec<Judged> = parts.iter().map(|(part, _)| part.clone()).collect();
    let mut advice = Advice::of(workload, &judged);
    for (part, proof) in &parts {
        prove::tell(&mut advice.findings, part, proof);
        advice.add_proof(proof);
    }
    Ok(advice)
}

fn judge(
    account: &Account,
    workload: &Workload,
    database: String,
    proof_items: Option<usize>,
) -> Result<(Judged, prove::Proof)> {
    let model = DataModel::of(account, workload, &database);
    let flows = flows(account, workload, &model, &database);
    let trial = Trial::new(account)?;
    let case = Case { database: &database, model: &model, flows: &flows, trial: &trial, workload };
    let proposal = rules::propose(&case);
    let points = choose::points(&proposal, &flows);
    // How to pay comes before what is only to be looked at.
    let mut watched = rules::throughput::advise(&case, account);
    watched.extend(watch::watch(&case, &proposal, points.first()));
    let praise = watch::praise(&database, &model, &flows);
    let part = Judged {
        database: database.clone(),
        flows: flows.clone(),
        proposal,
        points,
        watched,
        praise,
    };
    let proof = match proof_items {
        Some(items_max) => prove::measure(&case, &part, items_max)?,
        None => prove::Proof::default(),
    };
    Ok((part, proof))
}
