//! A query: its text, its parameters, and where it goes on.

use armilla_model::error::{Error, Result};
use armilla_model::value::{Type, Value};
use std::sync::Arc;

/// A query.
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
    /// Reads a query as a document, `{"query", "parameters"}`, or its bare text.
    pub fn parse(text: &[u8]) -> Result<Self> {
        Self::from_value(&armilla_model::json::parse(text)?)
    }

    /// The same from a value.
    pub fn from_value(body: &Value) -> Result<Self> {
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
        Self::new(text, parameters)
    }

    /// A query with its parameters, checked.
    pub fn new(text: &str, parameters: Vec<(Arc<str>, Value)>) -> Result<Self> {
        armilla_sql::check_parameters(&parameters)?;
        Ok(Self { text: text.to_owned(), parameters, resume: None })
    }

    /// A query without parameters.
    pub fn of_text(text: &str) -> Self {
        Self { text: text.to_owned(), parameters: Vec::new(), resume: None }
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
}
