//! The report as one page that needs nothing else: bars per request and design on a log scale.

use super::report::{Cell, Report, Row};
use super::table::grouped;
use std::fmt::Write as _;

/// Colours of the designs, told apart also without colour sight; further designs begin again.
const COLOURS: [&str; 4] = ["#c2410c", "#1d4ed8", "#15803d", "#7e22ce"];
/// The sizes a chart is drawn in: the page shows the one that fits, with letters of the same size.
const SHAPES: [Shape; 2] = [
    Shape { class: "wide", label: 60.0, bars: 620.0, margin: 90.0 },
    Shape { class: "narrow", label: 34.0, bars: 230.0, margin: 54.0 },
];
const BAR_HEIGHT: f64 = 16.0;
const BAR_STEP: f64 = 20.0;
const ROW_GAP: f64 = 16.0;
/// Room above the first bar, for the numbers of the scale.
const TOP: f64 = 26.0;
/// Room that a figure takes.
const VALUE_WIDTH: f64 = 44.0;

/// How wide a chart is.
struct Shape {
    class: &'static str,
    /// Room for the names of requests.
    label: f64,
    /// Length of a bar at the end of the scale.
    bars: f64,
    /// Room behind the longest bar, for its figure.
    margin: f64,
}

/// The whole page.
pub(crate) fn page(report: &Report) -> String {
    let mut out = String::with_capacity(64 * 1024);
    let title = escaped(&report.title);
    let _ = write!(
        out,
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style></head><body><main>\n\
         <p class=\"kicker\">Armilla model lab</p><h1>{title}</h1>\n"
    );
    for paragraph in report.about.split("\n\n").filter(|paragraph| !paragraph.trim().is_empty()) {
        let _ = writeln!(out, "<p class=\"about\">{}</p>", escaped(paragraph.trim()));
    }
    figures(report, &mut out);
    legend(report, &mut out);
    let charts = [
        Chart { report, title: "Request units", unit: "RU", value: |cell| cell.request_units },
        Chart {
            report,
            title: "Milliseconds (median)",
            unit: "ms",
            value: |cell| cell.milliseconds,
        },
        Chart {
            report,
            title: "Requests sent",
            unit: "requests",
            value: |cell| cell.requests as f64,
        },
    ];
    charts.iter().for_each(|chart| chart.draw(&mut out));
    table(report, &mut out);
    containers(report, &mut out);
    out.push_str("</main></body></html>\n");
    out
}

fn figures(report: &Report, out: &mut String) {
    out.push_str("<div class=\"figures\">");
    let mut figure = |number: String, what: &str| {
        let _ = write!(out, "<div><b>{}</b><span>{}</span></div>", escaped(&number), escaped(what));
    };
    if let Some(verdict) = &report.verdict {
        figure(
            format!("{} of {}", verdict.within, verdict.compared),
            "charges within 10 % of the source",
        );
        figure(
            format!("{} of {}", verdict.rows_in_order, verdict.rows),
            "rows in the source's order",
        );
    }
    for (name, number) in &report.scale {
        figure(grouped(*number), name);
    }
    figure(grouped(report.load.items), "items loaded");
    figure(grouped(report.load.items_per_second as u64), "items loaded per second");
    if let Some(bytes) = report.footprint.disk_bytes_per_item {
        figure(grouped(bytes as u64), "bytes on disk per item");
    }
    if let Some(bytes) = report.footprint.memory_bytes_loaded {
        figure(format!("{} MB", grouped(bytes / 1_000_000)), "memory after the load");
    }
    out.push_str("</div>\n");
}

fn legend(report: &Report, out: &mut String) {
    out.push_str("<p class=\"legend\">");
    for (position, design) in report.designs.iter().enumerate() {
        let _ = write!(
            out,
            "<span><i style=\"background:{}\"></i>{}</span>",
            colour(position),
            escaped(design)
        );
    }
    if report.verdict.is_some() {
        out.push_str("<span><i class=\"tick\"></i>the source's figure</span>");
    }
    out.push_str("<span class=\"muted\">log scale</span></p>\n");
}

fn colour(position: usize) -> &'static str {
    COLOURS[position % COLOURS.len()]
}

/// A log scale over everything that is drawn.
struct LogScale {
    low: f64,
    decades: f64,
    length: f64,
}

impl LogScale {
    fn over(values: impl Iterator<Item = f64>, length: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| *value > 0.0) {
            low = low.min(value);
            high = high.max(value);
        }
        let low = if low.is_finite() { low.log10().floor() } else { 0.0 };
        // A value on the lowest line must still have a bar.
        let low = low - 0.25;
        let high = if high > 0.0 { high.log10().ceil() } else { 1.0 };
        Self { low, decades: (high - low).max(0.5), length }
    }

    fn position(&self, value: f64) -> f64 {
        ((value.max(1e-9).log10() - self.low) / self.decades).clamp(0.0, 1.0) * self.length
    }

    fn lines(&self) -> impl Iterator<Item = f64> {
        let first = self.low.ceil() as i32;
        let last = (self.low + self.decades).floor() as i32;
        (first..=last).map(|power| 10_f64.powi(power))
    }
}

/// What one figure shows: a number of each cell, in one unit.
struct Chart<'r> {
    report: &'r Report,
    title: &'static str,
    unit: &'static str,
    value: fn(&Cell) -> f64,
}

impl Chart<'_> {
    fn draw(&self, out: &mut String) {
        let _ = write!(out, "<h2>{}</h2><figure>", escaped(self.title));
        for shape in &SHAPES {
            self.drawing(shape, out);
        }
        out.push_str("</figure>\n");
    }

    /// The source's figure for a cell, where it names one in this unit.
    fn source(&self, cell: &Cell) -> Option<f64> {
        let source = cell.source?;
        match self.unit {
            "RU" => Some(source.request_units),
            "ms" => Some(source.milliseconds),
            _ => None,
        }
    }

    fn drawing(&self, shape: &Shape, out: &mut String) {
        let rows = &self.report.rows;
        let cells = || rows.iter().flat_map(|row| &row.cells).flatten();
        let sources = cells().filter_map(|cell| self.source(cell));
        let scale = LogScale::over(cells().map(self.value).chain(sources), shape.bars);
        let height = rows.iter().map(height_of).sum::<f64>() + TOP;
        let width = shape.label + shape.bars + shape.margin;
        let _ = write!(
            out,
            "<svg class=\"{}\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">",
            shape.class,
            escaped(self.title)
        );
        grid(&scale, shape, height, out);
        let mut y = TOP;
        for row in rows {
            row_name(row, shape, y, out);
            for (position, cell) in row.cells.iter().enumerate() {
                let Some(cell) = cell else { continue };
                let design = &self.report.designs[position];
                let title = format!("{} {}", escaped(&row.name), escaped(design));
                let bar = Bar { colour: colour(position), title, left: shape.label, y };
                self.bar(cell, &bar, &scale, out);
                y += BAR_STEP;
            }
            y += ROW_GAP;
        }
        out.push_str("</svg>");
    }

    /// A bar with its figure, and the mark of the source's figure.
    fn bar(&self, cell: &Cell, bar: &Bar, scale: &LogScale, out: &mut String) {
        let Bar { colour, title, left, y } = bar;
        let ours = (self.value)(cell);
        let length = scale.position(ours).max(2.0);
        let _ = write!(
            out,
            "<rect x=\"{left}\" y=\"{y:.1}\" width=\"{length:.1}\" height=\"{BAR_HEIGHT}\" rx=\"2\" fill=\"{colour}\">\
             <title>{title}: {} {}</title></rect>",
            short(ours),
            self.unit
        );
        let mut end = length;
        if let Some(source) = self.source(cell) {
            let x = scale.position(source);
            // The figure stands behind its bar, and behind the mark where that would cross it.
            if (length - 4.0..length + VALUE_WIDTH).contains(&x) {
                end = end.max(x);
            }
            let x = left + x;
            let _ = write!(
                out,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{:.1}\" class=\"source\"/>",
                y - 1.0,
                y + BAR_HEIGHT + 1.0
            );
        }
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" class=\"value\">{}</text>",
            left + end + 6.0,
            y + 12.0,
            short(ours)
        );
    }
}

/// Where a bar begins, and how it is told apart.
struct Bar {
    colour: &'static str,
    title: String,
    left: f64,
    y: f64,
}

fn bars_of(row: &Row) -> f64 {
    row.cells.iter().flatten().count() as f64 * BAR_STEP
}

fn height_of(row: &Row) -> f64 {
    bars_of(row) + ROW_GAP
}

/// The lines of the scale, with their numbers.
fn grid(scale: &LogScale, shape: &Shape, height: f64, out: &mut String) {
    for line in scale.lines() {
        let x = shape.label + scale.position(line);
        let _ = write!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"18\" y2=\"{height}\" class=\"grid\"/>\
             <text x=\"{x:.1}\" y=\"11\" class=\"axis\">{}</text>",
            short(line)
        );
    }
}

/// The name of a request, beside the middle of its bars.
fn row_name(row: &Row, shape: &Shape, y: f64, out: &mut String) {
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" class=\"name\">{}<title>{}</title></text>",
        shape.label - 8.0,
        y + bars_of(row) / 2.0 + 3.0,
        escaped(&row.name),
        escaped(&row.title)
    );
}

fn table(report: &Report, out: &mut String) {
    let with_source = report.verdict.is_some();
    out.push_str("<h2>Every figure</h2><div class=\"scroll\"><table><thead><tr><th>Request<th>Design<th>Requests<th>Partitions<th>ms<th>RU");
    if with_source {
        out.push_str("<th>Source ms<th>Source RU<th>Off");
    }
    out.push_str("</tr></thead><tbody>\n");
    for row in &report.rows {
        let count = row.cells.iter().flatten().count();
        let mut first = true;
        for (position, cell) in row.cells.iter().enumerate() {
            let Some(cell) = cell else { continue };
            let _ = write!(out, "<tr{}>", if first { " class=\"first\"" } else { "" });
            if first {
                let _ = write!(
                    out,
                    "<td rowspan=\"{count}\"><b>{}</b> {}</td>",
                    escaped(&row.name),
                    escaped(&row.title)
                );
            }
            first = false;
            let _ = write!(
                out,
                "<td class=\"left\"><i style=\"background:{}\"></i>{}</td><td>{}</td><td>{}</td><td>{:.2}</td><td>{:.2}</td>",
                colour(position),
                escaped(&report.designs[position]),
                cell.requests,
                cell.partitions,
                cell.milliseconds,
                cell.request_units
            );
            if with_source {
                match &cell.source {
                    Some(source) => {
                        let class =
                            if cell.is_within() == Some(true) { "" } else { " class=\"beyond\"" };
                        let _ = write!(
                            out,
                            "<td>{:.0}</td><td>{:.2}</td><td{class}>{:+.1}&nbsp;%</td>",
                            source.milliseconds,
                            source.request_units,
                            source.deviation * 100.0
                        );
                    }
                    None => out.push_str("<td><td><td>"),
                }
            }
            out.push_str("</tr>\n");
        }
    }
    out.push_str("</tbody></table></div>\n");
}

fn containers(report: &Report, out: &mut String) {
    out.push_str("<h2>Data</h2><div class=\"scroll\"><table><thead><tr><th>Container<th>Partition key<th>Items<th>Ranges</tr></thead><tbody>");
    for container in &report.containers {
        let _ = write!(
            out,
            "<tr class=\"first\"><td class=\"left\"><b>{}</b></td><td class=\"left\">{}</td><td>{}</td><td>{}</td></tr>",
            escaped(&container.name),
            escaped(&container.key),
            grouped(container.items),
            container.ranges
        );
    }
    let _ = write!(
        out,
        "</tbody></table></div><p class=\"muted\">Seed {}; {} MB loaded in {:.1} s for {} RU.",
        report.seed,
        report.load.bytes / 1_000_000,
        report.load.seconds,
        grouped(report.load.request_units as u64)
    );
    if let Some(source) = &report.source {
        let _ = write!(out, " Source: {}", escaped(source));
    }
    out.push_str("</p>");
}

/// A number as short as it can be read.
fn short(number: f64) -> String {
    if number >= 1000.0 {
        grouped(number.round() as u64)
    } else if number >= 100.0 || number.fract() == 0.0 {
        format!("{number:.0}")
    } else if number >= 10.0 {
        format!("{number:.1}")
    } else if number >= 0.1 {
        let text = format!("{number:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        format!("{number:.3}").trim_end_matches('0').to_owned()
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

const STYLE: &str = "
:root{--ink:#1c1917;--muted:#78716c;--line:#e7e5e4;--paper:#fff;--back:#fafaf9}
@media(prefers-color-scheme:dark){:root{--ink:#f5f5f4;--muted:#a8a29e;--line:#44403c;--paper:#292524;--back:#1c1917}}
*{box-sizing:border-box}body{margin:0;background:var(--back);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
main{max-width:960px;margin:0 auto;padding:40px 20px 80px}h1{font-size:30px;line-height:1.2;margin:0 0 16px}
h2{font-size:19px;margin:44px 0 12px}.kicker{color:var(--muted);margin:0 0 4px;font-size:14px}.about{max-width:66ch}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:12px;margin:28px 0}
.figures div{background:var(--paper);border:1px solid var(--line);border-radius:8px;padding:12px 14px}
.figures b{display:block;font-size:22px;font-variant-numeric:tabular-nums}.figures span{color:var(--muted);font-size:13px;line-height:1.3;display:block}
.legend{display:flex;flex-wrap:wrap;gap:6px 20px;font-size:14px}.legend i,td i{display:inline-block;width:11px;height:11px;border-radius:2px;margin-right:7px}
.legend i.tick{width:3px;height:15px;border-radius:0;background:var(--ink);vertical-align:-3px}
.muted{color:var(--muted);font-size:14px}figure{margin:0;background:var(--paper);border:1px solid var(--line);border-radius:8px;padding:14px;overflow-x:auto}
svg{display:block;width:100%;font:11px system-ui,sans-serif}svg.narrow{display:none}.grid{stroke:var(--line)}.axis{fill:var(--muted);text-anchor:middle}
.name{fill:var(--ink);font-weight:600;font-size:13px;text-anchor:end}.value{fill:var(--ink);font-variant-numeric:tabular-nums}.source{stroke:var(--ink);stroke-width:2.5}
.scroll{overflow-x:auto;background:var(--paper);border:1px solid var(--line);border-radius:8px}table{border-collapse:collapse;width:100%;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:6px 12px;text-align:right;white-space:nowrap}th:first-child,td:first-child[rowspan],th:nth-child(2),td.left{text-align:left}
td[rowspan]{vertical-align:top;white-space:normal;min-width:190px}tr.first td{border-top:1px solid var(--line)}th{color:var(--muted);font-weight:500;font-size:13px}.beyond{color:#dc2626;font-weight:600}
@media(max-width:640px){main{padding:28px 14px 60px}svg.wide{display:none}svg.narrow{display:block}figure{padding:10px 8px}th,td{padding:6px 7px}td[rowspan]{min-width:104px}}
";
