//! EXPLAIN for clients: the request of `POST /_armilla/explain`, and how a query is answered as JSON.
//!
//! The tree of steps goes out as a list: a step has a number and names those whose rows it works on.
//! Members that a step has no value for are left out.

use crate::headers::PartitionKeyHeader;
use armilla_engine::query::explain::{
    Alternative, ExplainedRange, Explanation, NumberedStep, Times,
};
use armilla_engine::query::{Metrics, Page};
use armilla_model::value::{Object, Value};
use armilla_model::{Error, Result};
use std::time::Duration;

/// Bytes that an explanation takes as a header. Clients refuse answers whose headers are much longer.
const EXPLAIN_HEADER_MAX: usize = 8 * 1024;

/// What `POST /_armilla/explain` is asked.
#[derive(Debug)]
pub(crate) struct ExplainRequest {
    pub(crate) database: String,
    pub(crate) container: String,
    /// The query with its parameters, as the body of a query.
    pub(crate) query: Vec<u8>,
    /// The partition key as its header would have it.
    pub(crate) partition_key: Option<String>,
    /// Whether a page is made, and not only planned.
    pub(crate) run: bool,
    pub(crate) count_max: Option<u32>,
    pub(crate) continuation: Option<String>,
}

impl ExplainRequest {
    /// Reads the body.
    pub(crate) fn parse(body: &[u8]) -> Result<Self> {
        let body = super::object(body)?;
        let [database, container, query] =
            super::required(&body, ["database", "container", "query"])?;
        let mut asked = Object::of([("query", query.into())]);
        if let Some(parameters) = given(&body, "parameters") {
            asked.insert("parameters", parameters.clone());
        }
        Ok(Self {
            database: database.to_owned(),
            container: container.to_owned(),
            query: super::text(&asked),
            partition_key: given(&body, "partitionKey").map(partition_key).transpose()?,
            run: match given(&body, "run") {
                None => false,
                Some(run) => run.as_bool().ok_or_else(|| wrong("run", "true or false"))?,
            },
            count_max: given(&body, "maxItemCount").map(count).transpose()?,
            continuation: match given(&body, "continuation") {
                None => None,
                Some(token) => {
                    Some(token.as_str().ok_or_else(|| wrong("continuation", "a text"))?.to_owned())
                }
            },
        })
    }
}

fn given<'v>(body: &'v Value, name: &str) -> Option<&'v Value> {
    body.get(name).filter(|value| !matches!(value, Value::Null))
}

fn wrong(name: &str, wanted: &str) -> Error {
    Error::bad_request(format!("The member '{name}' of the request must be {wanted}."))
}

/// The values of a key in an array, or the only one by itself.
fn partition_key(key: &Value) -> Result<String> {
    let text = match key {
        Value::Array(_) => key.to_json(),
        scalar => Value::array(vec![scalar.clone()]).to_json(),
    };
    match PartitionKeyHeader::parse("partitionKey", text.as_bytes()) {
        Ok(_) => Ok(text),
        Err(_) => Err(wrong("partitionKey", "an array of scalars, with {} for a missing value")),
    }
}

fn count(count: &Value) -> Result<u32> {
    let number = count.as_i64().and_then(|count| u32::try_from(count).ok());
    let number = number.filter(|count| *count > 0);
    number.ok_or_else(|| wrong("maxItemCount", "a whole number from 1 on"))
}

/// The whole answer: how the query is answered, and the page if one was made.
pub(crate) fn answer(
    explanation: &Explanation,
    page: Option<&Page>,
    continuation: Option<&str>,
) -> Vec<u8> {
    let mut out = super::text(&plan(explanation));
    let Some(page) = page else { return out };
    out.pop();
    out.extend_from_slice(b",\"result\":{\"rows\":[");
    for (number, row) in page.rows.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        out.extend_from_slice(row);
    }
    out.extend_from_slice(b"],\"charge\":");
    Value::from(page.charge.units()).write_json(&mut out);
    out.extend_from_slice(b",\"metrics\":");
    metrics(&page.metrics).write_json(&mut out);
    out.extend_from_slice(b",\"continuation\":");
    continuation.map_or(Value::Null, Value::from).write_json(&mut out);
    out.extend_from_slice(b"}}");
    out
}

fn metrics(metrics: &Metrics) -> Object {
    Object::of([
        ("itemsRead", whole(metrics.retrieved_count)),
        ("bytesRead", whole(metrics.retrieved_size)),
        ("rows", whole(metrics.output_count)),
        ("rowBytes", whole(metrics.output_size)),
        ("compileMilliseconds", milliseconds(metrics.compile_time)),
        ("milliseconds", milliseconds(metrics.total_time)),
    ])
}

/// The explanation as a header: JSON in ASCII. One that is too long is told without its ranges, or in
/// short.
pub(crate) fn header(explanation: &Explanation) -> String {
    let whole = plan(explanation);
    let mut short = whole.clone();
    drop(short.remove("ranges"));
    let mut shortest = short.clone();
    drop(shortest.remove("steps"));
    drop(shortest.remove("indexes"));
    let texts = [whole, short, shortest].map(|object| ascii(&Value::object(object).to_json()));
    texts.into_iter().find(|text| text.len() <= EXPLAIN_HEADER_MAX).unwrap_or_default()
}

/// The explanation as a text tree; lines beyond what a header takes are left out.
pub(crate) fn header_text(explanation: &Explanation) -> String {
    /// Characters outside ASCII take up to nine bytes in a header.
    const TEXT_MAX: usize = EXPLAIN_HEADER_MAX / 2;
    const LINE_MAX: usize = 400;
    let mut text = String::new();
    for line in explanation.lines(Times::Shown) {
        let line: String = line.chars().take(LINE_MAX).collect();
        if text.len() + line.len() > TEXT_MAX {
            text.push_str("…\n");
            break;
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// JSON without characters beyond ASCII, which only stand in its texts.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            text.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}

/// How a query is answered.
fn plan(explanation: &Explanation) -> Object {
    let texts =
        |texts: &[String]| Value::array(texts.iter().map(|text| text.as_str().into()).collect());
    let mut object = Object::of([
        ("shape", explanation.shape.into()),
        ("says", explanation.says.as_str().into()),
        ("why", texts(&explanation.why)),
    ]);
    if let Some(run) = &explanation.run {
        object.insert("charge", run.charge.units().into());
        object.insert("milliseconds", milliseconds(run.time));
        object.insert("rows", whole(run.rows));
    }
    let steps = explanation.numbered();
    object.insert("steps", Value::array(steps.iter().map(step).collect()));
    if let Some(run) = &explanation.run {
        object.insert("ranges", Value::array(run.ranges.iter().map(range).collect()));
    }
    let used = |paths: &Vec<String>| match paths.as_slice() {
        [path] => path.as_str().into(),
        paths => texts(paths),
    };
    let used = explanation.indexes_used.iter().map(used).collect();
    let possible = explanation.indexes_possible.iter().map(|paths| texts(paths)).collect();
    let indexes = Object::of([("used", Value::array(used)), ("possible", Value::array(possible))]);
    object.insert("indexes", Value::object(indexes));
    object
}

fn step(numbered: &NumberedStep<'_>) -> Value {
    let step = numbered.step;
    let mut object = Object::of([
        ("id", whole(numbered.id as u64)),
        ("kind", step.kind.name().into()),
        ("says", step.says.as_str().into()),
    ]);
    let direction = step.direction.map(|direction| direction.name());
    for (name, text) in [
        ("why", step.why.as_deref()),
        ("index", step.index.as_deref()),
        ("direction", direction),
        ("served", step.served.as_deref()),
        ("left", step.left.as_deref()),
    ] {
        if let Some(text) = text {
            object.insert(name, text.into());
        }
    }
    for (name, number) in [
        ("count", step.count),
        ("candidates", step.candidates),
        ("in", step.rows_in),
        ("out", step.rows_out),
        ("items", step.items),
        ("bytes", step.bytes),
    ] {
        if let Some(number) = number {
            object.insert(name, whole(number));
        }
    }
    object.insert("charge", step.charge.units().into());
    if let Some(time) = step.time {
        object.insert("milliseconds", milliseconds(time));
    }
    if !step.alternatives.is_empty() {
        let alternatives = step.alternatives.iter().map(alternative).collect();
        object.insert("alternatives", Value::array(alternatives));
    }
    let inputs = numbered.inputs.iter().map(|input| whole(*input as u64)).collect();
    object.insert("inputs", Value::array(inputs));
    Value::object(object)
}

fn alternative(alternative: &Alternative) -> Value {
    let Alternative { says, taken } = alternative;
    Value::object(Object::of([("says", says.as_str().into()), ("taken", Value::Bool(*taken))]))
}

fn range(range: &ExplainedRange) -> Value {
    let mut object = Object::of([("id", range.id.to_string().as_str().into())]);
    if let Some(rows) = range.rows {
        object.insert("rows", whole(rows));
    }
    object.insert("charge", range.charge.units().into());
    if let Some(time) = range.time {
        object.insert("milliseconds", milliseconds(time));
    }
    Value::object(object)
}

fn whole(number: u64) -> Value {
    i64::try_from(number).unwrap_or(i64::MAX).into()
}

fn milliseconds(time: Duration) -> Value {
    // Microseconds are as fine as anybody measures here.
    ((time.as_secs_f64() * 1e6).round() / 1e3).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_engine::query::explain::{ExplainedRun, Step, StepDirection, StepKind};
    use armilla_model::charge::RequestCharge;

    fn example(ranges: u32) -> Explanation {
        let load = Step {
            items: Some(80),
            bytes: Some(9_000),
            charge: RequestCharge::from_micros(2_500_000),
            ..Step::new(StepKind::Load, "reads items")
        };
        let walk = Step {
            index: Some("/é/?".into()),
            direction: Some(StepDirection::Descending),
            candidates: Some(812),
            rows_out: Some(80),
            charge: RequestCharge::ONE,
            time: Some(Duration::from_micros(1_250)),
            alternatives: vec![Alternative { says: "rank".into(), taken: false }],
            ..Step::new(StepKind::Walk, "the order of /é").over(load)
        };
        let range = |id| ExplainedRange { id, rows: None, charge: RequestCharge::ONE, time: None };
        Explanation {
            shape: "ordered",
            says: "Walks.".into(),
            why: vec!["Because.".into()],
            root: walk,
            run: Some(ExplainedRun {
                charge: RequestCharge::from_micros(3_500_000),
                time: Duration::from_millis(3),
                rows: 20,
                ranges: (0..ranges).map(range).collect(),
            }),
            indexes_used: vec![vec!["/é/?".into()], vec!["/a ASC".into(), "/b DESC".into()]],
            indexes_possible: vec![vec!["/x/?".into()]],
        }
    }

    #[test]
    fn steps_are_a_list_that_names_its_inputs() {
        let expected = concat!(
            r#"{"shape":"ordered","says":"Walks.","why":["Because."],"charge":3.5,"milliseconds":3,"rows":20,"#,
            r#""steps":[{"id":0,"kind":"walk","says":"the order of /é","index":"/é/?","direction":"descending","#,
            r#""candidates":812,"out":80,"charge":1,"milliseconds":1.25,"#,
            r#""alternatives":[{"says":"rank","taken":false}],"inputs":[1]},"#,
            r#"{"id":1,"kind":"load","says":"reads items","items":80,"bytes":9000,"charge":2.5,"inputs":[]}],"#,
            r#""ranges":[{"id":"0","charge":1}],"#,
            r#""indexes":{"used":["/é/?",["/a ASC","/b DESC"]],"possible":[["/x/?"]]}}"#
        );
        let found = String::from_utf8(answer(&example(1), None, None)).unwrap();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_header_is_ascii_and_not_too_long() {
        let header = header(&example(1));
        assert!(header.is_ascii() && header.contains("/\\u00e9/?"), "{header}");
        let parsed = armilla_model::json::parse(header.as_bytes()).unwrap();
        assert!(parsed.get("ranges").is_some());
        let long = super::header(&example(1_000));
        assert!(long.len() <= EXPLAIN_HEADER_MAX);
        let parsed = armilla_model::json::parse(long.as_bytes()).unwrap();
        assert!(parsed.get("ranges").is_none() && parsed.get("steps").is_some());
        let text = header_text(&example(1_000));
        assert!(text.len() <= EXPLAIN_HEADER_MAX && text.ends_with("…\n"), "{}", text.len());
        assert!(header_text(&example(1)).contains("└─ load"));
    }

    #[test]
    fn requests_are_read() {
        let parse = |text: &str| ExplainRequest::parse(text.as_bytes());
        let plain = parse(r#"{"database":"d","container":"c","query":"SELECT 1"}"#).unwrap();
        assert!(!plain.run && plain.partition_key.is_none() && plain.count_max.is_none());
        assert_eq!(plain.query, br#"{"query":"SELECT 1"}"#);
        let full = parse(
            r#"{"database":"d","container":"c","query":"q","parameters":[{"name":"@a","value":1}],
                "partitionKey":"x","run":true,"maxItemCount":5,"continuation":"t"}"#,
        );
        let full = full.unwrap();
        assert!(full.run && full.count_max == Some(5));
        assert_eq!(full.partition_key.as_deref(), Some(r#"["x"]"#));
        assert_eq!(full.continuation.as_deref(), Some("t"));
        for wrong in [
            r#"{"container":"c","query":"q"}"#,
            r#"{"database":"d","container":"c","query":7}"#,
            r#"{"database":"d","container":"c","query":"q","run":1}"#,
            r#"{"database":"d","container":"c","query":"q","maxItemCount":0}"#,
            r#"{"database":"d","container":"c","query":"q","partitionKey":[[1]]}"#,
            r#"{"database":"d","container":"c","query":"q","continuation":7}"#,
            "[]",
        ] {
            assert!(matches!(parse(wrong), Err(Error::BadRequest(_))), "{wrong}");
        }
    }
}
