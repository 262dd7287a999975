//! The report for a terminal, made of its JSON form.

use armilla_model::value::Value;

/// A report as lines of text.
pub fn page(document: &Value) -> String {
    let mut out = format!("{}\n", text(document, "says"));
    if let Some(proof) = document.get("proof").filter(|proof| proof.as_object().is_some()) {
        out.push_str(&format!("{}\n", text(proof, "says")));
    }
    for (at, finding) in list(document, "findings").iter().enumerate() {
        out.push_str(&format!("\n{}. {}\n", at + 1, text(finding, "title")));
        if let Some(saved) = finding.get("savedShare").and_then(Value::as_f64) {
            let (units, cost) = (number(finding, "savedUnits"), number(finding, "costUnits"));
            out.push_str(&format!("   saves {:.1} % ({units:.2} RU observed; upkeep {cost:.2} RU, already taken off); confidence {}: {}\n",
                saved * 100.0, text(finding, "confidence"), text(finding, "confidenceReason")));
        }
        if let Some(bill) = finding.get("bill").filter(|bill| bill.as_object().is_some()) {
            out.push_str(&format!(
                "   saves {:.1} % of the bill for {} hours: {:.0} → {:.0} hours of one RU/s; confidence {}: {}\n",
                number(bill, "savedShare") * 100.0, number(bill, "hours"), number(bill, "before"), number(bill, "after"),
                text(finding, "confidence"), text(finding, "confidenceReason")
            ));
        }
        out.push_str(&format!("   {}\n", text(finding, "reason")));
        for request in list(finding, "requests") {
            let measured = request.get("measured").and_then(Value::as_f64);
            let measured = measured.map_or(String::new(), |units| format!(", measured {units:.2}"));
            out.push_str(&format!(
                "   {:>9.2} → {:>8.2} RU{measured}  {}\n",
                number(request, "unitsBefore"),
                number(request, "unitsAfter"),
                text(request, "head")
            ));
        }
        for step in list(finding, "apply") {
            out.push_str(&format!("   {}: {}\n", text(step, "what"), text(step, "title")));
            for line in text(step, "text").lines() {
                out.push_str(&format!("       {line}\n"));
            }
        }
        out.push_str(&format!("   more: {}\n", text(finding, "page")));
    }
    let points = list(document, "points");
    if !list(document, "findings").is_empty() && !points.is_empty() {
        out.push_str("\nThree ways to choose:\n");
        for point in points {
            out.push_str(&format!(
                "   {:15} {} changes, {:.0} % saved, {:.1} MB more\n",
                text(point, "name"),
                number(point, "changes"),
                number(point, "savedShare") * 100.0,
                number(point, "storageBytes") / 1e6
            ));
        }
    }
    for praise in list(document, "praise") {
        out.push_str(&format!("\n{}\n", text(praise, "title")));
    }
    out.trim_end().to_owned()
}

pub(super) fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn number(value: &Value, name: &str) -> f64 {
    value.get(name).and_then(Value::as_f64).unwrap_or(0.0)
}

pub(super) fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).unwrap_or_default()
}
