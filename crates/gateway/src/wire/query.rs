//! Queries as clients send them: `{"query", "parameters"}` or the bare text of old clients, and beside
//! them the position from which a client wants an ordered query to go on.

use armilla_engine::query::{Request, ResumeFilter, ResumeValue};
use armilla_model::rid;
use armilla_model::value::{Type, Value};
use armilla_model::{Error, Result, json};

/// Reads the body of a query.
pub fn parse(body: &[u8]) -> Result<Request> {
    let body = json::parse(body)?;
    let request = Request::from_value(&body)?;
    let resume = match body.get("resumeFilter") {
        None | Some(Value::Null) => None,
        Some(filter) => Some(resume_filter(filter)?),
    };
    Ok(Request { resume, ..request })
}

fn resume_filter(filter: &Value) -> Result<ResumeFilter> {
    let malformed = || Error::bad_request("'resumeFilter' is malformed.");
    let values = filter.get("value").and_then(Value::as_array).ok_or_else(malformed)?;
    let values = values.iter().map(resume_value).collect::<Option<_>>();
    let docno = match filter.get("rid") {
        None | Some(Value::Null) => None,
        Some(rid) => Some(docno_of(rid).ok_or_else(malformed)?),
    };
    let exclude = filter.get("exclude").and_then(Value::as_bool).unwrap_or(false);
    Ok(ResumeFilter { values: values.ok_or_else(malformed)?, docno, exclude })
}

fn docno_of(rid: &Value) -> Option<u64> {
    let bytes = rid::decode(rid.as_str()?)?;
    rid::split_document(&bytes).map(|(_, docno)| docno)
}

/// `[]` is undefined; arrays and objects come as the hash of their text.
fn resume_value(value: &Value) -> Option<ResumeValue> {
    match value {
        Value::Array(elements) => {
            elements.is_empty().then_some(ResumeValue::Exact(Value::Undefined))
        }
        Value::Object(object) => match object.get("type")?.as_str()? {
            "array" => Some(ResumeValue::OfType(Type::Array)),
            "object" => Some(ResumeValue::OfType(Type::Object)),
            _ => None,
        },
        scalar => Some(ResumeValue::Exact(scalar.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resume_filters() {
        let read =
            |text: &str| parse(format!(r#"{{"query":"q","resumeFilter":{text}}}"#).as_bytes());
        let filter = read(r#"{"value":[1,[],{"type":"array","low":1,"high":2}],"exclude":true}"#);
        let filter = filter.unwrap().resume.unwrap();
        assert!(filter.exclude && filter.docno.is_none());
        assert!(matches!(filter.values[2], ResumeValue::OfType(Type::Array)));
        for text in ["1", "{}", r#"{"value":[[1]]}"#, r#"{"value":[1],"rid":"x"}"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_query_without_a_position_begins_at_its_beginning() {
        for body in [&b"\"SELECT 1\""[..], br#"{"query":"SELECT 1","resumeFilter":null}"#] {
            let request = parse(body).unwrap();
            assert!(request.text == "SELECT 1" && request.resume.is_none());
        }
    }
}
