//! `armilla query`: rows on standard output, one JSON line each, and beside them what they cost; with
//! `--explain` also how the server found them.

use crate::client::items::{ContainerName, Key};
use crate::client::query::{Page, QueryText, Scope};
use crate::client::{Client, ConnectOptions};
use crate::terminal::{note, say};
use armilla_model::clock::SystemClock;
use clap::Args;
use serde_json::Value;
use std::sync::Arc;

#[derive(Clone, Debug, Args)]
pub(crate) struct QueryOptions {
    /// The query
    query: String,
    #[command(flatten)]
    connect: ConnectOptions,
    /// The database
    #[arg(long)]
    database: String,
    /// The container
    #[arg(long)]
    container: String,
    /// A parameter of the query: @name=JSON; may be repeated
    #[arg(long = "param", value_name = "@NAME=JSON")]
    parameters: Vec<String>,
    /// Ask in one logical partition: a JSON array of key values
    #[arg(long, value_name = "JSON")]
    partition_key: Option<String>,
    /// Rows in one page
    #[arg(long, value_name = "ROWS")]
    page: Option<u32>,
    /// Show how the first page was found: plan, ranges, items read, request units
    #[arg(long)]
    explain: bool,
}

/// Runs the command.
pub(crate) fn run(options: &QueryOptions) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(ask(options))
}

async fn ask(options: &QueryOptions) -> Result<(), String> {
    let client = Client::new(&options.connect.endpoint()?, Arc::new(SystemClock))?;
    let container = ContainerName::new(&options.database, &options.container);
    let parameters =
        options.parameters.iter().map(|text| parameter(text)).collect::<Result<Vec<_>, _>>()?;
    let query = QueryText::new(&options.query, &parameters);
    let key = options.partition_key.as_deref().map(key).transpose()?;
    let scope = key.as_ref().map_or(Scope::Everywhere, Scope::Key);
    let (mut rows, mut charge, mut continuation) = (0, 0.0, None::<String>);
    loop {
        let page = Page {
            count_max: options.page,
            continuation: continuation.as_deref(),
            explained: options.explain && continuation.is_none(),
        };
        let answer = client.query_page(container, scope, &query, page).await?.success()?;
        if let Some(text) = answer.header("x-armilla-explain") {
            percent_decoded(text).lines().for_each(note);
        }
        for row in answer.rows()? {
            say(row.get());
            rows += 1;
        }
        charge += answer.charge();
        continuation = answer.continuation();
        if continuation.is_none() {
            break;
        }
    }
    note(&format!("{rows} rows, {charge:.2} RU"));
    Ok(())
}

/// Reads `@name=JSON`.
fn parameter(text: &str) -> Result<(String, Value), String> {
    let malformed = || format!("'{text}' is no parameter: it reads @name=JSON");
    let (name, value) = text.split_once('=').ok_or_else(malformed)?;
    let value = serde_json::from_str(value).map_err(|_| malformed())?;
    if name.starts_with('@') { Ok((name.to_owned(), value)) } else { Err(malformed()) }
}

fn key(text: &str) -> Result<Key, String> {
    let values: Vec<Value> = serde_json::from_str(text)
        .map_err(|error| format!("--partition-key is not a JSON array: {error}"))?;
    Ok(Key::of_values(&values))
}

/// Takes a header's text back.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => hex(*high).zip(hex(*low)),
            _ => None,
        };
        if let Some((high, low)) = escaped {
            bytes.push(high << 4 | low);
            rest = &rest[3..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_have_a_name_and_a_value() {
        assert_eq!(parameter("@a=[1,2]").unwrap().1.to_string(), "[1,2]");
        for text in ["@a", "a=1", "@a=word"] {
            assert!(parameter(text).is_err(), "{text}");
        }
    }

    #[test]
    fn headers_are_taken_back() {
        assert_eq!(percent_decoded("a%20b%0Ac%C3%A4%2"), "a b\ncä%2");
    }
}
