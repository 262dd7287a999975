//! HybridRow as .NET writes and reads it: an encoder of operations and a decoder of results, written from
//! captured streams and sharing nothing with the server's.

/// One operation of a batch.
#[derive(Clone, Default)]
pub(crate) struct Operation<'a> {
    pub(crate) kind: i32,
    pub(crate) key: Option<&'a str>,
    pub(crate) id: Option<&'a str>,
    pub(crate) body: Option<&'a [u8]>,
    pub(crate) if_match: Option<&'a str>,
    pub(crate) if_none_match: Option<&'a str>,
    pub(crate) minimal: bool,
}

pub(crate) const CREATE: i32 = 0;
pub(crate) const PATCH: i32 = 1;
pub(crate) const READ: i32 = 2;
pub(crate) const DELETE: i32 = 4;
pub(crate) const REPLACE: i32 = 5;
pub(crate) const UPSERT: i32 = 20;

/// The stream of a request.
pub(crate) fn stream(operations: &[Operation<'_>]) -> Vec<u8> {
    let mut out = vec![0x81, 0xf0, 0xd8, 0xff, 0x7f, 1, 10, 0, 0, 0];
    for operation in operations {
        let row = operation.row();
        out.extend_from_slice(&[0x81, 0xf1, 0xd8, 0xff, 0x7f]);
        out.extend_from_slice(&(row.len() as u32).to_le_bytes());
        out.extend_from_slice(&crc32(&row).to_le_bytes());
        out.extend_from_slice(&row);
    }
    out
}

impl Operation<'_> {
    fn row(&self) -> Vec<u8> {
        let mut row = vec![0x81, 0x70, 0x54, 0xe1, 0x7f, 0b11];
        row.extend_from_slice(&self.kind.to_le_bytes());
        row.extend_from_slice(&2_i32.to_le_bytes());
        let variable =
            [(2, self.key.map(str::as_bytes)), (4, self.id.map(str::as_bytes)), (6, self.body)];
        for (bit, column) in variable {
            if let Some(bytes) = column {
                row[5] |= 1 << bit;
                varuint(bytes.len(), &mut row);
                row.extend_from_slice(bytes);
            }
        }
        for (token, text) in [(9, self.if_match), (10, self.if_none_match)] {
            if let Some(text) = text {
                row.extend_from_slice(&[20, token]);
                varuint(text.len(), &mut row);
                row.extend_from_slice(text.as_bytes());
            }
        }
        if self.minimal {
            row.extend_from_slice(&[3, 12]);
        }
        row
    }
}

fn varuint(mut number: usize, out: &mut Vec<u8>) {
    while number > 127 {
        out.push((number & 127) as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

/// One result of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) status: i32,
    pub(crate) substatus: i32,
    pub(crate) etag: Option<String>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) retry_after: Option<u32>,
    pub(crate) charge: f64,
}

impl Outcome {
    /// The body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(self.body.as_deref().unwrap_or_default()).unwrap()
    }
}

/// The results of an answer, with every checksum, length and type checked as the client's library does.
#[track_caller]
pub(crate) fn outcomes(answer: &[u8]) -> Vec<Outcome> {
    assert_eq!(answer[..10], [0x81, 0xf0, 0xd8, 0xff, 0x7f, 1, 10, 0, 0, 0]);
    let mut rest = &answer[10..];
    let mut found = Vec::new();
    while !rest.is_empty() {
        assert_eq!(rest[..5], [0x81, 0xf1, 0xd8, 0xff, 0x7f]);
        let length = u32_at(rest, 5) as usize;
        let row = &rest[13..13 + length];
        assert_eq!(u32_at(rest, 9), crc32(row), "checksum");
        found.push(outcome(row));
        rest = &rest[13 + length..];
    }
    found
}

#[track_caller]
fn outcome(row: &[u8]) -> Outcome {
    assert_eq!(row[..5], [0x81, 0x71, 0x54, 0xe1, 0x7f]);
    let presence = row[5];
    assert_eq!(presence & 0b11, 0b11, "status and substatus");
    let mut found = Outcome {
        status: u32_at(row, 6) as i32,
        substatus: u32_at(row, 10) as i32,
        ..Outcome::default()
    };
    let mut at = 14;
    if presence & 0b100 != 0 {
        found.etag = Some(String::from_utf8(variable(row, &mut at).to_vec()).unwrap());
    }
    if presence & 0b1000 != 0 {
        found.body = Some(variable(row, &mut at).to_vec());
    }
    while at < row.len() {
        match (row[at], row[at + 1]) {
            (11, 5) => {
                found.retry_after = Some(u32_at(row, at + 2));
                at += 6;
            }
            (16, 6) => {
                found.charge = f64::from_le_bytes(row[at + 2..at + 10].try_into().unwrap());
                at += 10;
            }
            other => panic!("a sparse field of type and token {other:?}"),
        }
    }
    assert_ne!(found.status, 0);
    found
}

fn variable<'r>(row: &'r [u8], at: &mut usize) -> &'r [u8] {
    let (mut length, mut shift) = (0, 0);
    loop {
        let byte = row[*at];
        *at += 1;
        length |= usize::from(byte & 127) << shift;
        shift += 7;
        if byte < 128 {
            break;
        }
    }
    *at += length;
    &row[*at - length..*at]
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}
