//! Queries: what the language decides, run on what the partitions hold.

use armilla_model::error::{Error, Result};
use armilla_model::policy::ContainerPolicy;
use armilla_model::value::Value;
use armilla_sql::reference::{self, Options};
use armilla_sql::{Schema, SqlError};

/// True when an item meets the condition of a patch.
pub fn condition_holds(condition: &str, item: &Value) -> Result<bool> {
    let query = armilla_sql::parse_condition(condition).map_err(failure)?;
    let schema = Schema::none();
    reference::meets(&query, item, Options::new(&schema)).map_err(failure)
}

/// Refuses computed properties that are no queries over one item.
pub fn check_computed(policy: &ContainerPolicy) -> Result<()> {
    Schema::new(policy).map(drop).map_err(failure)
}

/// A query over a small list, such as the databases of an account.
pub fn over_list(body: &[u8], rows: Vec<Value>) -> Result<Vec<Value>> {
    let request = Request::parse(body)?;
    let query = armilla_sql::parse(&request.text).map_err(failure)?;
    let schema = Schema::none();
    reference::run(&query, &request.parameters, rows.into_iter(), Options::new(&schema))
        .map_err(failure)
}

/// A query as clients send it.
#[derive(Clone, Debug)]
pub struct Request {
    /// The text.
    pub text: String,
    /// Names with their `@`, and values.
    pub parameters: Vec<(std::sync::Arc<str>, Value)>,
}

impl Request {
    /// Reads `{"query", "parameters"}`, or the bare text that old clients send.
    pub fn parse(body: &[u8]) -> Result<Self> {
        let body = armilla_model::json::parse(body)?;
        if let Some(text) = body.as_str() {
            return Ok(Self { text: text.to_owned(), parameters: Vec::new() });
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
        let parameters = parameters.iter().map(parameter).collect::<Result<_>>()?;
        Ok(Self { text: text.to_owned(), parameters })
    }
}

/// What the language refuses is the client's to mend.
pub(crate) fn failure(error: SqlError) -> Error {
    Error::QuerySyntax(error.to_json())
}
