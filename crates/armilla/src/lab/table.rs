//! The report as a table in a terminal.

use super::report::{Cell, Report, Row};
use std::fmt::Write as _;

/// The whole report as text.
pub(crate) fn text(report: &Report) -> String {
    let mut out = String::new();
    let scale: Vec<String> =
        report.scale.iter().map(|(name, number)| format!("{name} = {number}")).collect();
    let _ = writeln!(out, "{} ({}; seed {})", report.title, scale.join(", "), report.seed);
    for container in &report.containers {
        let _ = writeln!(
            out,
            "  {:14} key {:12} {:>11} items on {} {}",
            container.name,
            container.key,
            grouped(container.items),
            container.ranges,
            if container.ranges == 1 { "range" } else { "ranges" }
        );
    }
    let load = &report.load;
    let _ = writeln!(
        out,
        "  loaded {} items ({} MB) in {:.1} s: {} items/s",
        grouped(load.items),
        load.bytes / 1_000_000,
        load.seconds,
        grouped(load.items_per_second as u64)
    );
    footprint(report, &mut out);
    out.push('\n');
    rows(report, &mut out);
    verdict(report, &mut out);
    out
}

fn footprint(report: &Report, out: &mut String) {
    let taken = &report.footprint;
    if let (Some(bytes), Some(each)) = (taken.disk_bytes, taken.disk_bytes_per_item) {
        let _ = writeln!(out, "  disk {} MB: {each:.0} bytes per item", bytes / 1_000_000);
    }
    if let (Some(loaded), Some(peak)) = (taken.memory_bytes_loaded, taken.memory_bytes_peak) {
        let _ = writeln!(
            out,
            "  memory {} MB after the load, at most {} MB (server and lab together)",
            loaded / 1_000_000,
            peak / 1_000_000
        );
    }
}

fn rows(report: &Report, out: &mut String) {
    let with_source =
        report.rows.iter().flat_map(|row| &row.cells).flatten().any(|cell| cell.source.is_some());
    let width = report.rows.iter().map(|row| label(row).chars().count()).max().unwrap_or(0).max(8);
    let design_width =
        report.designs.iter().map(|name| name.chars().count()).max().unwrap_or(2).max(6);
    let source = if with_source { "  source ms  source RU    off" } else { "" };
    let _ = writeln!(
        out,
        "{:width$}  {:design_width$}  requests  partitions         ms          RU{source}",
        "request", "design"
    );
    let line = width + design_width + 48 + source.len();
    for row in &report.rows {
        let _ = writeln!(out, "{}", "─".repeat(line));
        let mut name = label(row);
        for (design, cell) in report.designs.iter().zip(&row.cells) {
            let Some(cell) = cell else { continue };
            let _ = writeln!(
                out,
                "{name:width$}  {design:design_width$}  {:>8}  {:>10}  {:>9.2}  {:>10.2}{}",
                cell.requests,
                cell.partitions,
                cell.milliseconds,
                cell.request_units,
                compared(cell)
            );
            name.clear();
        }
    }
    let _ = writeln!(out, "{}", "─".repeat(line));
}

fn label(row: &Row) -> String {
    format!("{}  {}", row.name, row.title)
}

fn compared(cell: &Cell) -> String {
    let Some(source) = &cell.source else { return String::new() };
    let mark = if cell.is_within() == Some(true) { "" } else { "  ← beyond 10 %" };
    format!(
        "  {:>9.0}  {:>9.2}  {:>+4.1}%{mark}",
        source.milliseconds,
        source.request_units,
        source.deviation * 100.0
    )
}

fn verdict(report: &Report, out: &mut String) {
    let Some(verdict) = &report.verdict else { return };
    let _ = writeln!(
        out,
        "RU within 10 % of the source in {} of {} cells; the order of the designs agrees in {} of {} rows.",
        verdict.within, verdict.compared, verdict.rows_in_order, verdict.rows
    );
    if let Some(source) = &report.source {
        let _ = writeln!(out, "Source: {source}");
    }
}

/// A number with its thousands apart.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
