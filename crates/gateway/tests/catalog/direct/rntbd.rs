//! RNTBD as a client speaks it: frames written and read from the table of the captured vectors. It shares
//! nothing with the server's codec.

use armilla_model::{Value, json};
use std::collections::HashMap;
use std::sync::LazyLock;

/// Id and type of each token, by name.
type Table = HashMap<String, (u16, String)>;

pub(crate) static VECTORS: LazyLock<Value> =
    LazyLock::new(|| json::parse(include_bytes!("../../vectors/direct.json")).unwrap());

fn table(name: &str) -> Table {
    let rows = VECTORS.get("tables").unwrap().get(name).unwrap().as_array().unwrap();
    let row = |row: &Value| {
        let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or("?").to_owned();
        (text("name"), (row.get("id").unwrap().as_i64().unwrap() as u16, text("type")))
    };
    rows.iter().map(row).collect()
}

pub(crate) static REQUEST: LazyLock<Table> = LazyLock::new(|| table("request"));
pub(crate) static RESPONSE: LazyLock<Table> = LazyLock::new(|| table("response"));

/// Tables of the first exchange, which the vectors do not list.
pub(crate) static CONTEXT_REQUEST: LazyLock<Table> = LazyLock::new(|| {
    named(&[
        ("ProtocolVersion", 0, "u4"),
        ("ClientVersion", 1, "s"),
        ("UserAgent", 2, "s"),
        ("CallerId", 3, "B"),
        ("EnableChannelMultiplexing", 4, "B"),
    ])
});
pub(crate) static CONTEXT_RESPONSE: LazyLock<Table> = LazyLock::new(|| {
    named(&[
        ("ProtocolVersion", 0, "u4"),
        ("ClientVersion", 1, "s"),
        ("ServerAgent", 2, "s"),
        ("ServerVersion", 3, "s"),
        ("IdleTimeoutInSeconds", 4, "u4"),
        ("UnauthenticatedTimeoutInSeconds", 5, "u4"),
    ])
});

fn named(rows: &[(&str, u16, &str)]) -> Table {
    rows.iter().map(|(name, id, kind)| ((*name).to_owned(), (*id, (*kind).to_owned()))).collect()
}

/// The number of a resource or operation.
pub(crate) fn number(group: &str, name: &str) -> u16 {
    let numbers = VECTORS.get("tables").unwrap().get(group).unwrap();
    numbers.get(name).unwrap_or_else(|| panic!("no {name}")).as_i64().unwrap() as u16
}

/// The value of a token.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Field {
    Number(i64),
    Double(f64),
    Text(String),
    Bytes(Vec<u8>),
}

impl From<&str> for Field {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<i64> for Field {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

const CODES: [&str; 15] =
    ["B", "u2", "u4", "i4", "u8", "i8", "G", "s", "S", "Z", "y", "Y", "W", "f", "d"];

/// Appends one token.
pub(crate) fn write_token(id: u16, kind: &str, value: &Field, out: &mut Vec<u8>) {
    let code = CODES.iter().position(|code| *code == kind).unwrap();
    out.extend_from_slice(&id.to_le_bytes());
    out.push(code as u8);
    match (kind, value) {
        ("B", Field::Number(number)) => out.push(*number as u8),
        ("u2", Field::Number(number)) => out.extend_from_slice(&(*number as u16).to_le_bytes()),
        ("u4" | "i4", Field::Number(number)) => {
            out.extend_from_slice(&(*number as u32).to_le_bytes());
        }
        ("u8" | "i8", Field::Number(number)) => out.extend_from_slice(&number.to_le_bytes()),
        ("d", Field::Double(double)) => out.extend_from_slice(&double.to_le_bytes()),
        ("G", Field::Bytes(bytes)) => out.extend_from_slice(bytes),
        (_, Field::Text(text)) => write_counted(kind, text.as_bytes(), out),
        (_, Field::Bytes(bytes)) => write_counted(kind, bytes, out),
        other => panic!("{other:?}"),
    }
}

fn write_counted(kind: &str, bytes: &[u8], out: &mut Vec<u8>) {
    match kind {
        "s" | "y" => out.push(u8::try_from(bytes.len()).unwrap()),
        "S" | "Y" => {
            out.extend_from_slice(&u16::try_from(bytes.len()).unwrap().to_le_bytes());
        }
        _ => out.extend_from_slice(&u32::try_from(bytes.len()).unwrap().to_le_bytes()),
    }
    out.extend_from_slice(bytes);
}

/// Head, tokens and payload as one frame; `second` is resource and operation, or the status.
pub(crate) fn write_frame(
    second: [u8; 4],
    activity: [u8; 16],
    tokens: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let mut out = (24 + tokens.len() as u32).to_le_bytes().to_vec();
    out.extend_from_slice(&second);
    out.extend_from_slice(&activity);
    out.extend_from_slice(tokens);
    if !payload.is_empty() {
        out.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        out.extend_from_slice(payload);
    }
    out
}

/// Reads tokens by their type bytes; the names come from a table, the type of a known one must be its own.
pub(crate) fn read_tokens(table: &Table, mut rest: &[u8]) -> Vec<(String, Field)> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let id = u16::from_le_bytes([rest[0], rest[1]]);
        let kind = CODES[usize::from(rest[2])];
        rest = &rest[3..];
        let known = table.iter().find(|(_, (known, _))| *known == id);
        let name = match known {
            Some((name, (_, expected))) => {
                assert_eq!(kind, expected, "the type of {name}");
                name.clone()
            }
            None => format!("{id:#x}"),
        };
        found.push((name, read_value(kind, &mut rest)));
    }
    found
}

fn read_value(kind: &str, rest: &mut &[u8]) -> Field {
    let mut take = |length: usize| {
        let (taken, behind) = rest.split_at(length);
        *rest = behind;
        taken
    };
    match kind {
        "B" => Field::Number(take(1)[0].into()),
        "u2" => Field::Number(u16::from_le_bytes(take(2).try_into().unwrap()).into()),
        "u4" => Field::Number(u32::from_le_bytes(take(4).try_into().unwrap()).into()),
        "i4" => Field::Number(i32::from_le_bytes(take(4).try_into().unwrap()).into()),
        "u8" | "i8" => Field::Number(i64::from_le_bytes(take(8).try_into().unwrap())),
        "d" => Field::Double(f64::from_le_bytes(take(8).try_into().unwrap())),
        "G" => Field::Bytes(take(16).to_vec()),
        _ => {
            let length = match kind {
                "s" | "y" => usize::from(take(1)[0]),
                "S" | "Y" => usize::from(u16::from_le_bytes(take(2).try_into().unwrap())),
                _ => u32::from_le_bytes(take(4).try_into().unwrap()) as usize,
            };
            let bytes = take(length).to_vec();
            match kind {
                "s" | "S" | "Z" => Field::Text(String::from_utf8(bytes).unwrap()),
                _ => Field::Bytes(bytes),
            }
        }
    }
}

/// Pairs of hexadecimal digits.
pub(crate) fn from_hex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}
