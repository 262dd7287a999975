//! The report as one page of HTML without outside resources.

use super::text::{list, number, text};
use armilla_model::value::Value;

/// A report as a page.
pub fn page(document: &Value) -> String {
    let mut body = format!("<h1>Advice</h1><p class=says>{}</p>", escaped(text(document, "says")));
    if let Some(proof) = document.get("proof").filter(|proof| proof.as_object().is_some()) {
        body.push_str(&format!("<p class=small>{}</p>", escaped(text(proof, "says"))));
    }
    if !list(document, "findings").is_empty() {
        body.push_str(&points(document));
    }
    for (at, finding) in list(document, "findings").iter().enumerate() {
        body.push_str(&article(at + 1, finding));
    }
    for praise in list(document, "praise") {
        body.push_str(&format!("<p class=praise>✓ {}</p>", escaped(text(praise, "title"))));
    }
    body.push_str(&workload(document));
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width,initial-scale=1\"><title>Advice</title><style>{STYLE}</style><main>{body}</main></html>\n"
    )
}

const STYLE: &str = "
:root{color-scheme:light dark;--line:#d8dbe0;--soft:#f4f5f7;--accent:#1463c9;--good:#157a43;--bad:#b23b1e}
@media(prefers-color-scheme:dark){:root{--line:#3a3f47;--soft:#22262c;--accent:#7db3ff;--good:#62cf95;--bad:#ff9a7d}}
*{box-sizing:border-box}body{margin:0;font:16px/1.5 system-ui,sans-serif}main{max-width:68rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.9rem;margin:.2em 0}h2{font-size:1.2rem;margin:0 0 .3em}.says{font-size:1.1rem;margin-top:0}
article{border:1px solid var(--line);border-radius:10px;padding:1.1rem 1.2rem;margin:1.2rem 0}
.saved{font-weight:600;color:var(--good)}.small{color:GrayText;font-size:.88rem}
.points{display:grid;grid-template-columns:repeat(auto-fit,minmax(13rem,1fr));gap:.8rem;margin:1.2rem 0}
.points div{border:1px solid var(--line);border-radius:10px;padding:.8rem 1rem}.points b{display:block}
.row{border-top:1px solid var(--line);padding:.55rem 0}.row code{word-break:break-word}.step{padding:.2rem 0}.ru{white-space:nowrap;margin-right:.4em}
.bars{display:grid;grid-template-columns:4.2rem 1fr 5.5rem;gap:.2rem .6rem;align-items:center;margin-top:.25rem;font-size:.86rem}
.bars i{display:block;height:.65rem;border-radius:4px;background:var(--bad);min-width:2px}.bars i.after{background:var(--good)}.bars span:nth-child(3n){text-align:right;font-variant-numeric:tabular-nums}
details{border-top:1px solid var(--line);padding:.5rem 0}summary{cursor:pointer}
pre{background:var(--soft);border-radius:8px;padding:.8rem;overflow:auto;font-size:.84rem;margin:.5rem 0;white-space:pre-wrap;word-break:break-word}
code{font-size:.86rem}.praise{border-left:4px solid var(--good);padding:.3rem .8rem;background:var(--soft)}
.why{display:inline-block;border:1px solid var(--bad);color:var(--bad);border-radius:99px;padding:0 .6em;font-size:.78rem;white-space:nowrap}
";

fn points(document: &Value) -> String {
    let card = |point: &Value| {
        format!(
            "<div><b>{}</b>{} change{}<br><span class=saved>{:.0} % saved</span><br><span class=small>{} more stored</span></div>",
            escaped(text(point, "name")),
            number(point, "changes"),
            if number(point, "changes") == 1.0 { "" } else { "s" },
            number(point, "savedShare") * 100.0,
            bytes(number(point, "storageBytes"))
        )
    };
    let cards: String = list(document, "points").iter().map(card).collect();
    format!("<section class=points>{cards}</section>")
}

fn bytes(number: f64) -> String {
    match number {
        n if n < 1e3 => format!("{n:.0} B"),
        n if n < 1e6 => format!("{:.0} kB", n / 1e3),
        n if n < 1e9 => format!("{:.1} MB", n / 1e6),
        n => format!("{:.1} GB", n / 1e9),
    }
}

fn article(at: usize, finding: &Value) -> String {
    let mut out = format!("<article><h2>{at}. {}</h2>", escaped(text(finding, "title")));
    if let Some(share) = finding.get("savedShare").and_then(Value::as_f64) {
        out.push_str(&format!(
            "<p><span class=saved>saves {:.1} %</span> <span class=small>{:.0} RU of what was observed; upkeep of {:.0} RU is taken off. Confidence {}: {}.</span></p>",
            share * 100.0, number(finding, "savedUnits"), number(finding, "costUnits"),
            escaped(text(finding, "confidence")), escaped(text(finding, "confidenceReason"))
        ));
    }
    if let Some(bill) = finding.get("bill").filter(|bill| bill.as_object().is_some()) {
        out.push_str(&format!(
            "<p><span class=saved>saves {:.1} % of the bill</span> <span class=small>{:.0} hours cost {:.0} instead of {:.0} hours of one RU/s. Confidence {}: {}.</span></p>",
            number(bill, "savedShare") * 100.0, number(bill, "hours"), number(bill, "after"), number(bill, "before"),
            escaped(text(finding, "confidence")), escaped(text(finding, "confidenceReason"))
        ));
    }
    out.push_str(&format!("<p>{}</p>", escaped(text(finding, "reason"))));
    list(finding, "requests").iter().for_each(|request| out.push_str(&bars(request)));
    for step in list(finding, "apply") {
        out.push_str(&format!(
            "<details><summary>{}: {}</summary><pre>{}</pre></details>",
            escaped(text(step, "what")),
            escaped(text(step, "title")),
            escaped(text(step, "text"))
        ));
    }
    out.push_str(&format!(
        "<p class=small>more: <code>{}</code></p></article>",
        escaped(text(finding, "page"))
    ));
    out
}

fn bars(request: &Value) -> String {
    let (before, after) = (number(request, "unitsBefore"), number(request, "unitsAfter"));
    let measured = request.get("measured").and_then(Value::as_f64);
    let most = before.max(after).max(measured.unwrap_or(0.0)).max(1e-9);
    let bar = |name: &str, class: &str, units: f64| {
        format!(
            "<span>{name}</span><span><i class=\"{class}\" style=\"width:{:.2}%\"></i></span><span>{units:.2} RU</span>",
            units.max(0.0) / most * 100.0
        )
    };
    // What a change makes dearer is not shown in the colour of a saving.
    let class = |units: f64| if units > before { "" } else { "after" };
    let measured = measured.map_or(String::new(), |units| bar("measured", class(units), units));
    format!(
        "<div class=row><code>{}</code><div class=bars>{}{}{measured}</div></div>",
        escaped(text(request, "head")),
        bar("before", "", before),
        bar("after", class(after), after)
    )
}

fn workload(document: &Value) -> String {
    let rows = list(document, "workload");
    if rows.is_empty() {
        return String::new();
    }
    let step = |step: &Value| {
        let why = text(step, "why");
        let why = if why.is_empty() {
            String::new()
        } else {
            format!("<span class=why>{}</span>", escaped(why))
        };
        format!(
            "<div class=\"small step\">{:.1} × <code>{}</code> <span class=ru>{:.2} RU</span>{why}</div>",
            number(step, "times"),
            escaped(text(step, "shape")),
            number(step, "units")
        )
    };
    let row = |row: &Value| {
        let steps: String = list(row, "steps").iter().map(step).collect();
        format!(
            "<div class=row><b>{:.1} %</b> {} times {steps}</div>",
            number(row, "share") * 100.0,
            number(row, "times")
        )
    };
    let rows: String = rows.iter().map(row).collect();
    format!("<article><h2>What was asked</h2>{rows}</article>")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_fit_and_what_becomes_dearer_is_no_saving() {
        let row = |text: &str| bars(&armilla_model::json::parse(text.as_bytes()).unwrap());
        let cheaper = row(r#"{"head":"<q>","unitsBefore":10,"unitsAfter":5,"measured":12}"#);
        assert!(cheaper.contains("width:100.00%") && !cheaper.contains("width:120"), "{cheaper}");
        assert!(cheaper.contains("&lt;q&gt;") && cheaper.contains("class=\"after\""));
        let dearer = row(r#"{"head":"q","unitsBefore":5,"unitsAfter":10,"measured":null}"#);
        assert!(!dearer.contains("class=\"after\""), "{dearer}");
    }
}
