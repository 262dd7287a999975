//! A query as clients send it.

use armilla_model::error::{Error, Result};
use armilla_model::rid::{self, ChildKind};
use armilla_model::value::{Type, Value};
use std::sync::Arc;

/// A query as clients send it.
#[derive(Clone, Debug)]
pub struct Request {
    /// The text.
    pub text: String,
    /// Names with their `@`, and values.
    pub parameters: Vec<(Arc<str>, Value)>,
    /// Where an ordered query goes on, told by the client itself.
    pub resume: Option<ResumeFilter>,
}

/// A position in an order: rows before it are left out.
#[derive(Clone, Debug)]
pub struct ResumeFilter {
    /// One per ORDER BY key.
    pub values: Vec<ResumeValue>,
    /// The item at the position; of the rows equal to `values` only its own and those behind it are
    /// wanted.
    pub docno: Option<u64>,
    /// No row equal to `values` is wanted.
    pub exclude: bool,
}

/// The value of one key at a position.
#[derive(Clone, Debug)]
pub enum ResumeValue {
    /// The value itself, `undefined` included.
    Exact(Value),
    /// Some array or object, of which the client tells a hash only.
    OfType(Type),
}

impl Request {
    /// Reads `{"query", "parameters"}`, or the bare text that old clients send.
    pub fn parse(body: &[u8]) -> Result<Self> {
        let body = armilla_model::json::parse(body)?;
        if let Some(text) = body.as_str() {
            return Ok(Self::of_text(text));
        }
        let text = body.get("query").and_then(Value::as_str);
        let text = text.ok_or_else(|| Error::bad_request("A query needs its text in 'query'."))?;
        let parameters = match body.get("parameters") {
            None | Some(Value::Null) => &[][..],
            Some(Value::Array(parameters)) => parameters,
            Some(_) => return Err(Error::bad_request("'parameters' must be an array.")),
        };
        let parameter = |parameter: &Value| {
            let name = parameter.get("name").and_then(Value::as_str);
            let name =
                name.ok_or_else(|| Error::bad_request("A query parameter needs a 'name'."))?;
            Ok((name.into(), parameter.get("value").cloned().unwrap_or_default()))
        };
        let parameters = parameters.iter().map(parameter).collect::<Result<Vec<_>>>()?;
        armilla_sql::check_parameters(&parameters)?;
        let resume = match body.get("resumeFilter") {
            None | Some(Value::Null) => None,
            Some(filter) => Some(ResumeFilter::parse(filter)?),
        };
        Ok(Self { text: text.to_owned(), parameters, resume })
    }

    /// A query without parameters.
    pub fn of_text(text: &str) -> Self {
        Self { text: text.to_owned(), parameters: Vec::new(), resume: None }
    }
}

impl ResumeFilter {
    fn parse(filter: &Value) -> Result<Self> {
        let malformed = || Error::bad_request("'resumeFilter' is malformed.");
        let values = filter.get("value").and_then(Value::as_array).ok_or_else(malformed)?;
        let values = values.iter().map(ResumeValue::parse).collect::<Option<_>>();
        let docno = match filter.get("rid") {
            None | Some(Value::Null) => None,
            Some(rid) => Some(docno_of(rid).ok_or_else(malformed)?),
        };
        let exclude = filter.get("exclude").and_then(Value::as_bool).unwrap_or(false);
        Ok(Self { values: values.ok_or_else(malformed)?, docno, exclude })
    }
}

fn docno_of(rid: &Value) -> Option<u64> {
    let bytes = rid::decode(rid.as_str()?)?;
    rid::split_child(&bytes, ChildKind::Document).map(|(_, docno)| docno)
}

impl ResumeValue {
    /// `[]` is undefined; arrays and objects come as the hash of their text.
    fn parse(value: &Value) -> Option<Self> {
        match value {
            Value::Array(elements) => elements.is_empty().then_some(Self::Exact(Value::Undefined)),
            Value::Object(object) => match object.get("type")?.as_str()? {
                "array" => Some(Self::OfType(Type::Array)),
                "object" => Some(Self::OfType(Type::Object)),
                _ => None,
            },
            scalar => Some(Self::Exact(scalar.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_of_all_shapes() {
        assert_eq!(Request::parse(b"\"SELECT 1\"").unwrap().text, "SELECT 1");
        let full = br#"{"query":"q","parameters":[{"name":"@a","value":1},{"name":"@b"}]}"#;
        let request = Request::parse(full).unwrap();
        assert_eq!(request.parameters.len(), 2);
        assert!(request.parameters[1].1.is_undefined());
        for body in [&b"{}"[..], b"[]", br#"{"query":"q","parameters":{}}"#, b"{\"query\":1}"] {
            assert!(Request::parse(body).is_err());
        }
    }

    #[test]
    fn resume_filters() {
        let read = |text: &str| {
            Request::parse(format!(r#"{{"query":"q","resumeFilter":{text}}}"#).as_bytes())
        };
        let filter = read(r#"{"value":[1,[],{"type":"array","low":1,"high":2}],"exclude":true}"#);
        let filter = filter.unwrap().resume.unwrap();
        assert!(filter.exclude && filter.docno.is_none());
        assert!(matches!(filter.values[2], ResumeValue::OfType(Type::Array)));
        for text in ["1", "{}", r#"{"value":[[1]]}"#, r#"{"value":[1],"rid":"x"}"#] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
