//! The tables of a run.

use std::fmt::Write as _;

use crate::cell::Measured;
use crate::processes;
use crate::run::{FloorResult, Results, RowResult};

/// Below this share of free processors the wall-clock figures of a row are marked.
const BUSY: f64 = 0.9;
/// Average rows of two systems may differ by this part, where writers of earlier cells chose differently.
const ROWS_TOLERANCE: f64 = 0.02;

/// A row while the run goes on.
pub(crate) fn line(result: &RowResult) -> String {
    let RowResult { row, connections, armilla, postgres, .. } = result;
    let (cost, rate) = (armilla.cpu_us(), armilla.per_second());
    let mut text = format!("{row} @{connections}: {cost:.1} CPU µs, {rate:.0}/s");
    if let Some(postgres) = postgres {
        let (cost, rate) = (postgres.cpu_us(), postgres.per_second());
        let ratios = (ratio(cost, armilla.cpu_us()), ratio(armilla.per_second(), rate));
        let _ = write!(
            text,
            "; PostgreSQL {cost:.1} CPU µs, {rate:.0}/s; {} CPU, {} rate",
            ratios.0, ratios.1
        );
    }
    if armilla.failures > 0 {
        let _ = write!(
            text,
            "; FAILED {}: {}",
            armilla.failures,
            armilla.first_failure.as_deref().unwrap_or_default()
        );
    }
    text
}

/// The whole report in Markdown.
pub(crate) fn report(results: &Results) -> String {
    let mut text = String::new();
    let version = results.postgres_version.as_deref().unwrap_or("absent");
    let _ = writeln!(text, "Machine: {}. PostgreSQL: {version}.", processes::machine());
    let _ = writeln!(
        text,
        "Data: {} users, {} items in five containers, one range each.\n",
        results.users, results.items
    );
    let mut widths: Vec<usize> = results.rows.iter().map(|result| result.connections).collect();
    widths.sort_unstable_by(|one, other| other.cmp(one));
    widths.dedup();
    for connections in widths {
        rows(&mut text, results, connections);
    }
    loads(&mut text, results);
    others(&mut text, results);
    growth(&mut text, results);
    text
}

/// `part` over `whole`, or nothing where one of them was not measured.
fn ratio(part: f64, whole: f64) -> String {
    if part > 0.0 && whole > 0.0 { format!("{:.2}", part / whole) } else { "–".to_owned() }
}

fn rows(text: &mut String, results: &Results, connections: usize) {
    let _ =
        writeln!(text, "### {connections} connection{}\n", if connections == 1 { "" } else { "s" });
    text.push_str("| row | rows | trips | RU | CPU µs | PostgreSQL | **CPU ratio** | op/s | PostgreSQL | **rate ratio** | of the HTTP floor's CPU | p50 µs | p99 µs | worst ms | free |\n");
    text.push_str("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    let mut means = Means::default();
    let mut ordered: Vec<_> =
        results.rows.iter().filter(|result| result.connections == connections).collect();
    ordered.sort_by_key(|result| result.row.to_string());
    for result in ordered {
        row(text, results, result, &mut means);
    }
    let _ = writeln!(
        text,
        "| geometric mean | | | | | | {} | | | {} | | | | | |",
        means.cpu(),
        means.rate()
    );
    let _ = writeln!(
        text,
        "\nOf {} rows {} cost less CPU than PostgreSQL ({} at most half), {} do more operations a second.\n",
        means.count, means.cheaper, means.half, means.faster
    );
}

/// Sums of logarithms, and how many rows are ahead.
#[derive(Default)]
struct Means {
    count: u32,
    cpu: f64,
    rate: f64,
    cheaper: u32,
    half: u32,
    faster: u32,
}

impl Means {
    fn add(&mut self, cpu: f64, rate: f64) {
        self.count += 1;
        self.cpu += cpu.ln();
        self.rate += rate.ln();
        self.cheaper += u32::from(cpu >= 1.0);
        self.half += u32::from(cpu >= 2.0);
        self.faster += u32::from(rate >= 1.0);
    }

    fn mean(&self, sum: f64) -> String {
        if self.count == 0 {
            String::new()
        } else {
            format!("{:.2}", (sum / f64::from(self.count)).exp())
        }
    }

    fn cpu(&self) -> String {
        self.mean(self.cpu)
    }

    fn rate(&self) -> String {
        self.mean(self.rate)
    }
}

fn row(text: &mut String, results: &Results, result: &RowResult, means: &mut Means) {
    let RowResult { row, connections, armilla, postgres, .. } = result;
    let cpu = armilla.cpu_us();
    let (mut theirs, mut rate) = (String::from("–"), String::from("–"));
    let (mut cpu_ratio, mut rate_ratio) = (String::from("–"), String::from("–"));
    if let Some(postgres) =
        postgres.as_ref().filter(|it| it.operations() > 0.0 && armilla.operations() > 0.0)
    {
        theirs = format!("{:.1}", postgres.cpu_us());
        rate = format!("{:.0}", postgres.per_second());
        cpu_ratio = ratio(postgres.cpu_us(), cpu);
        rate_ratio = ratio(armilla.per_second(), postgres.per_second());
        if cpu > 0.0 && postgres.cpu_us() > 0.0 {
            means.add(postgres.cpu_us() / cpu, armilla.per_second() / postgres.per_second());
        }
    }
    let of_floor =
        floor_cpu(&results.floors, *connections, armilla.bytes() / armilla.trips().max(1.0))
            .map_or_else(|| "–".to_owned(), |floor| ratio(cpu / armilla.trips().max(1.0), floor));
    let _ = writeln!(
        text,
        "| {row}{} | {:.1} | {:.1} | {:.2} | {cpu:.1} | {theirs} | **{cpu_ratio}** | {:.0} | {rate} | **{rate_ratio}** | {of_floor} | {:.0} | {:.0} | {:.1} | {:.2} |",
        remarks(armilla, postgres.as_ref(), row.act.writes()),
        armilla.rows(),
        armilla.trips(),
        armilla.charge(),
        armilla.per_second(),
        armilla.latency_us(50),
        armilla.latency_us(99),
        armilla.latency_us(100) / 1e3,
        postgres.as_ref().map_or(armilla.free, |postgres| postgres.free.min(armilla.free)),
    );
}

/// What makes the figures of a row worth less.
fn remarks(armilla: &Measured, postgres: Option<&Measured>, writes: bool) -> String {
    let mut remarks = String::new();
    let failures = armilla.failures + postgres.map_or(0, |postgres| postgres.failures);
    if failures > 0 {
        let _ = write!(remarks, " ({failures} failed)");
    }
    if armilla.throttled() > 0 {
        let _ = write!(remarks, " ({} throttled)", armilla.throttled());
    }
    if let Some(postgres) = postgres.filter(|_| !writes) {
        let (ours, theirs) = (armilla.rows(), postgres.rows());
        if (ours - theirs).abs() > theirs * ROWS_TOLERANCE + 1.0 {
            let _ = write!(remarks, " (PostgreSQL: {theirs:.1} rows)");
        }
    }
    if armilla.free.min(postgres.map_or(1.0, |postgres| postgres.free)) < BUSY {
        remarks.push_str(" (busy)");
    }
    remarks
}

/// CPU of one exchange of so many bytes at the floor, linear between the sizes that were measured.
fn floor_cpu(floors: &[FloorResult], connections: usize, bytes: f64) -> Option<f64> {
    let points: Vec<(f64, f64)> = floors
        .iter()
        .filter(|floor| floor.connections == connections)
        .map(|floor| (floor.measured.bytes(), floor.measured.cpu_us()))
        .collect();
    let behind =
        points.iter().position(|point| point.0 >= bytes).unwrap_or(points.len().checked_sub(1)?);
    if behind == 0 {
        return points.first().map(|point| point.1);
    }
    let (before, behind) = (points.get(behind - 1)?, points.get(behind)?);
    let slope = (behind.1 - before.1) / (behind.0 - before.0).max(1.0);
    Some(before.1 + slope * (bytes - before.0))
}

fn loads(text: &mut String, results: &Results) {
    text.push_str("### Load\n\n| system | container | items | items/s | CPU µs an item | bytes on disk an item |\n|---|---|--:|--:|--:|--:|\n");
    for (system, loaded) in results.loads.iter().filter(|(_, loaded)| loaded.items > 10_000) {
        let size = loaded.bytes.map(|bytes| format!("{:.0}", bytes as f64 / loaded.items as f64));
        let _ = writeln!(
            text,
            "| {system} | {} | {} | {:.0} | {:.1} | {} |",
            loaded.container,
            loaded.items,
            loaded.per_second(),
            loaded.cpu_us(),
            size.as_deref().unwrap_or("–")
        );
    }
    text.push('\n');
}

fn others(text: &mut String, results: &Results) {
    text.push_str("### Floors, scan, stalls, memory\n\n| what | measured |\n|---|--:|\n");
    for FloorResult { connections, measured } in &results.floors {
        let _ = writeln!(
            text,
            "| HTTP floor, {:.0} bytes, {connections} connections | {:.0}/s, {:.1} CPU µs |",
            measured.bytes(),
            measured.per_second(),
            measured.cpu_us()
        );
    }
    for (writers, rate) in &results.appends {
        let _ = writeln!(text, "| durable appends of 400 bytes, {writers} writers | {rate:.0}/s |");
    }
    if let Some(scan) = results.scan {
        let rate = scan.items as f64 / scan.used.max(1e-9);
        let _ = writeln!(
            text,
            "| scan of {} items that no index serves | {:.2} s, {rate:.0} items per CPU second |",
            scan.items, scan.seconds
        );
    }
    for result in results.rows.iter().filter(|result| result.gin.is_some()) {
        if let Some(gin) = &result.gin {
            let (cpu, rate) = (
                ratio(gin.cpu_us(), result.armilla.cpu_us()),
                ratio(result.armilla.per_second(), gin.per_second()),
            );
            let _ = writeln!(
                text,
                "| {} against PostgreSQL with GIN, {} connections | CPU {cpu}, rate {rate} |",
                result.row, result.connections
            );
        }
    }
    if let Some(sustained) = &results.sustained {
        let _ = writeln!(
            text,
            "| sustained durable writes | {:.0}/s, p99 {:.1} ms, worst {:.1} ms |",
            sustained.per_second(),
            sustained.latency_us(99) / 1e3,
            sustained.latency_us(100) / 1e3
        );
    }
    for (what, memory) in [
        ("idle", results.idle_mb),
        ("loaded", results.loaded_mb),
        ("after the run", results.after_mb),
        ("ten seconds later", results.rested_mb),
    ] {
        let _ = writeln!(
            text,
            "| resident memory, {what} | {} |",
            memory.map_or_else(|| "–".into(), |mb| format!("{mb:.0} MB"))
        );
    }
    if let Some(wrong) = results.wrong_counters {
        let _ = writeln!(text, "| counters that differ from what is stored | {wrong} |");
    }
    text.push('\n');
}

fn growth(text: &mut String, results: &Results) {
    if results.growth.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "### Growth from {} to {} users, one connection\n",
        results.users, results.growth_users
    );
    if let Some(loaded) = &results.growth_load {
        let _ = writeln!(
            text,
            "Loaded {} items at {:.0} items/s.\n",
            loaded.items,
            loaded.per_second()
        );
    }
    if let Some(bytes) = results.bytes_an_item {
        let _ = writeln!(
            text,
            "On disk: {bytes:.0} bytes for each item of both sizes, indexes and journal included.\n"
        );
    }
    if let Some(peak) = results.peak_mb {
        let _ = writeln!(text, "Resident memory of the server, at most: {peak:.0} MB.\n");
    }
    text.push_str("| row | p50 µs | p50 µs, large | ratio | p99 µs | p99 µs, large | CPU µs | CPU µs, large | ratio |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for grown in &results.growth {
        let (small, large) = (&grown.small, &grown.large);
        let _ = writeln!(
            text,
            "| {} | {:.0} | {:.0} | {} | {:.0} | {:.0} | {:.1} | {:.1} | {} |",
            grown.row,
            small.latency_us(50),
            large.latency_us(50),
            ratio(large.latency_us(50), small.latency_us(50)),
            small.latency_us(99),
            large.latency_us(99),
            small.cpu_us(),
            large.cpu_us(),
            ratio(large.cpu_us(), small.cpu_us())
        );
    }
}
