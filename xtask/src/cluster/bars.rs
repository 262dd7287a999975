//! `cargo xtask cluster --bars`: what several nodes cost, beside a server alone and the database alone.
//!
//! Every figure is a ratio inside one run, the median of rounds in which both sides take turns; what is waited for is the longest of a round. The lane
//! is measured by `crates/storage/examples/ledger_bars`. A bar that is missed is said and does not fail the chore: a shared machine proves little.

mod load;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use self::load::{Asked, CONNECTIONS, Target};
use super::nodes::{Encryption, LEASE, Nodes, Ways};
use crate::postgres::Postgres;
use crate::server::Server;
use crate::{Outcome, processes, workspace};

/// What may be measured by itself.
const PARTS: [&str; 4] = ["lane", "owner", "forward", "moves"];
/// The longest wait that a handover may cause.
const HANDOVER_WAIT_MAX: Duration = Duration::from_millis(250);
/// What a lost node may cost beyond its lease.
const LOST_BEYOND_LEASE_MAX: Duration = Duration::from_secs(3);
/// Writers run so long before and after a handover.
const AROUND_HANDOVER: Duration = Duration::from_millis(1200);
/// Between two tries of one who waits for a new owner.
const RETRY_PAUSE: Duration = Duration::from_millis(5);
/// How long a new owner is waited for.
const OWNER_WITHIN: Duration = Duration::from_secs(30);

/// How much is measured.
pub(super) struct Effort {
    pub(super) rounds: usize,
    /// How long one side of a round is asked.
    pub(super) time: Duration,
    /// The parts that are wanted; none means all.
    pub(super) parts: Vec<String>,
}

impl Effort {
    fn wants(&self, part: &str) -> bool {
        self.parts.is_empty() || self.parts.iter().any(|wanted| wanted == part)
    }
}

/// One line of the table.
struct Measured {
    name: String,
    found: String,
    bar: String,
    is_kept: bool,
}

/// Measures, prints the table, and answers how many bars were kept.
pub(super) fn measure(binary: &Path, effort: &Effort) -> Outcome<String> {
    if let Some(unknown) = effort.parts.iter().find(|part| !PARTS.contains(&part.as_str())) {
        return Err(format!("there is no part `{unknown}`; there are {}", PARTS.join(", ")).into());
    }
    let mut table = Vec::new();
    if effort.wants("lane") {
        lane(effort, &mut table)?;
    }
    if effort.wants("owner") || effort.wants("forward") || effort.wants("moves") {
        servers(binary, effort, &mut table)?;
    }
    println!();
    for row in &table {
        let verdict = if row.is_kept { "kept" } else { "MISSED" };
        println!("  {:<44} {:<28} {:<10} {verdict}", row.name, row.found, row.bar);
    }
    println!();
    let kept = table.iter().filter(|row| row.is_kept).count();
    Ok(format!("{kept} of {} bars kept", table.len()))
}

/// The journal beside bare inserts.
fn lane(effort: &Effort, table: &mut Vec<Measured>) -> Outcome<()> {
    let program = build_lane()?;
    let postgres = Postgres::start()?;
    postgres.create_database("lane")?;
    let folder = tempfile::Builder::new().prefix("armilla-lane-").tempdir()?;
    let output = Command::new(program)
        .arg(postgres.address("lane"))
        .arg(folder.path())
        .args([postgres.process()?.to_string(), effort.rounds.to_string()])
        .arg(effort.time.as_millis().to_string())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("the lane: {}", String::from_utf8_lossy(&output.stderr)).into());
    }
    for line in said.lines() {
        let ["bar", name, found, sign, bar, least, most] = line.split('\t').collect::<Vec<_>>()[..]
        else {
            continue;
        };
        let (value, limit): (f64, f64) = (found.parse()?, bar.parse()?);
        table.push(Measured {
            name: name.to_owned(),
            found: format!("{value:.2} [{least}, {most}]"),
            bar: format!("{sign} {bar}"),
            is_kept: if sign == ">=" { value >= limit } else { value <= limit },
        });
    }
    Ok(())
}

/// Builds what measures the lane.
pub(super) fn build_lane() -> Outcome<PathBuf> {
    let mut build = workspace::cargo();
    build.args(["build", "--quiet", "--release", "--workspace", "--example", "ledger_bars"]);
    processes::run("cluster: build what measures the lane", &mut build)?;
    Ok(workspace::target().join("release/examples/ledger_bars"))
}

/// Servers beside each other: one alone, and nodes over a database.
fn servers(binary: &Path, effort: &Effort, table: &mut Vec<Measured>) -> Outcome<()> {
    let folder = tempfile::Builder::new().prefix("armilla-bars-").tempdir()?;
    let log = folder.path().join("alone.log");
    let server = Server::start(binary, &folder.path().join("alone"), &log)?;
    let alone = Target::new(server.address(), server.client());
    let mut nodes =
        Nodes::lay_out(binary, "bars", Encryption::None, Vec::new())?.by(Ways::Straight);
    nodes.start_node(0)?;
    nodes.wait_until_ready(0)?;
    let owner = target(&nodes, 0)?;
    for target in [&alone, &owner] {
        target.prepare()?;
    }
    if effort.wants("owner") {
        for (asked, bar) in [(Asked::Create, 0.5), (Asked::Read, 0.97), (Asked::Query, 0.97)] {
            let ratios = rounds(effort, (&owner, &alone), asked)?;
            let name = format!("{asked:?} at the owner, beside a server alone");
            table.push(at_least(name, ratios, bar));
        }
    }
    if !effort.wants("forward") && !effort.wants("moves") {
        return Ok(());
    }
    for node in [1, 2] {
        nodes.start_node(node)?;
        nodes.wait_until_ready(node)?;
    }
    nodes.wait_until_followed()?;
    if effort.wants("forward") {
        let other = target(&nodes, 1)?;
        let ratios = rounds(effort, (&other, &owner), Asked::Read)?;
        table.push(at_least("Read through another node".into(), ratios, 0.45));
    }
    if effort.wants("moves") {
        moves(&mut nodes, effort, table)?;
    }
    Ok(())
}

fn target(nodes: &Nodes, node: usize) -> Outcome<Target> {
    Ok(Target::new(nodes.address(node), nodes.client(node)?))
}

/// Asks two servers in turn; the ratios of what the first did to what the second did.
fn rounds(effort: &Effort, (one, other): (&Target, &Target), asked: Asked) -> Outcome<Vec<f64>> {
    let mut ratios = Vec::new();
    for round in 0..effort.rounds {
        let ask = |target: &Target| target.ask(asked, effort.time);
        let (first, second) = match round % 2 {
            0 => (ask(one)?, ask(other)?),
            _ => {
                let second = ask(other)?;
                (ask(one)?, second)
            }
        };
        println!("    {asked:?}: {first:.0}/s beside {second:.0}/s");
        ratios.push(first / second);
    }
    Ok(ratios)
}

/// The account changes its owner under writers at all nodes.
fn moves(nodes: &mut Nodes, effort: &Effort, table: &mut Vec<Measured>) -> Outcome<()> {
    let (mut longest, mut errors) = (Vec::new(), Vec::new());
    for _ in 0..effort.rounds {
        let owner = nodes.owner().ok_or("nobody owns the account")?;
        let heir = (owner + 1) % nodes.len();
        let targets: Vec<Target> =
            (0..nodes.len()).map(|node| target(nodes, node)).collect::<Outcome<_>>()?;
        let watched = load::watch(&targets, CONNECTIONS, || {
            thread::sleep(AROUND_HANDOVER);
            let moved = nodes.operate("move", heir);
            thread::sleep(AROUND_HANDOVER);
            moved
        })?;
        println!("    handover: longest wait {:?}, {} writes", watched.longest, watched.done);
        longest.push(watched.longest.as_secs_f64() * 1e3);
        errors.extend(watched.errors);
        (0..nodes.len()).try_for_each(|node| nodes.wait_until_ready(node))?;
        nodes.wait_until_followed()?;
    }
    let first = errors.first().map_or(String::new(), |error| format!(" ({error})"));
    let bar = HANDOVER_WAIT_MAX.as_secs_f64() * 1e3;
    table.push(at_most("handover under 16 writers, longest wait, ms".into(), longest, bar));
    table.push(Measured {
        name: format!("handover, errors{first}"),
        found: errors.len().to_string(),
        bar: "0".into(),
        is_kept: errors.is_empty(),
    });
    let mut away = Vec::new();
    for _ in 0..effort.rounds {
        let owner = nodes.owner().ok_or("nobody owns the account")?;
        let other = target(nodes, (owner + 1) % nodes.len())?;
        nodes.signal(owner, "-KILL")?;
        let begun = Instant::now();
        other.write_until_done(OWNER_WITHIN, RETRY_PAUSE)?;
        println!("    lost node: {:?}", begun.elapsed());
        away.push(begun.elapsed().as_secs_f64());
        nodes.wait_for_end(owner)?;
        nodes.start_node(owner)?;
        nodes.wait_until_ready(owner)?;
        nodes.wait_until_followed()?;
    }
    let bar = (LEASE + LOST_BEYOND_LEASE_MAX).as_secs_f64();
    let lease = LEASE.as_secs();
    table.push(at_most(format!("lost node, lease of {lease} s, seconds"), away, bar));
    Ok(())
}

fn at_least(name: String, found: Vec<f64>, bar: f64) -> Measured {
    let (middle, text) = spread(found);
    Measured { name, found: text, bar: format!(">= {bar}"), is_kept: middle >= bar }
}

fn at_most(name: String, found: Vec<f64>, bar: f64) -> Measured {
    let (middle, text) = spread(found);
    Measured { name, found: text, bar: format!("<= {bar}"), is_kept: middle <= bar }
}

/// The median, and how it is told.
fn spread(mut found: Vec<f64>) -> (f64, String) {
    found.sort_by(f64::total_cmp);
    let middle = found.get(found.len() / 2).copied().unwrap_or_default();
    let (least, most) = (found.first().copied(), found.last().copied());
    let (least, most) = (least.unwrap_or_default(), most.unwrap_or_default());
    (middle, format!("{middle:.2} [{least:.2}, {most:.2}]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_round_is_compared_with_the_bar() {
        assert!(at_least(String::new(), vec![0.1, 0.9, 0.6], 0.5).is_kept);
        assert!(!at_least(String::new(), vec![0.1, 0.9, 0.4], 0.5).is_kept);
        assert!(at_most(String::new(), vec![9.0, 1.0, 2.0], 2.0).is_kept);
        assert_eq!(spread(vec![3.0, 1.0, 2.0]).1, "2.00 [1.00, 3.00]");
    }
}
