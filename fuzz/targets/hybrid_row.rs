//! Any bytes are a batch in HybridRow or an error, and so are the bodies and keys in it. Checksums would stop most
//! inputs, so every input is also read as the rows of a stream that is otherwise right.
#![no_main]

use libfuzzer_sys::fuzz_target;

/// The decoder's own files. Their crate would bring the engine, whose build would be instrumented too.
#[allow(dead_code, reason = "the server uses what the fuzzer does not")]
#[path = "../../crates/gateway/src/wire/hybrid_row"]
mod hybrid_row {
    mod operation;
    mod record;
    mod row;

    use armilla_model::partition_key::PartitionKey;
    use armilla_model::{Error, Result, binary_json, json};

    /// The first byte of every row.
    const VERSION: u8 = 0x81;

    fn malformed<T>(why: &str) -> Result<T> {
        Err(Error::bad_request(why.to_owned()))
    }

    /// Reads every row, and what is in it.
    pub fn read(stream: &[u8]) -> Result<()> {
        for row in record::rows(stream) {
            let row = operation::OperationRow::read(row?)?;
            if let Some(body) = row.resource_body {
                let text = binary_json::to_text(body);
                let _ = json::parse(text.as_deref().unwrap_or(body));
            }
            let _ = row.partition_key.map(PartitionKey::parse);
        }
        Ok(())
    }
}

/// Begins a stream.
const SEGMENT: [u8; 10] = [0x81, 0xf0, 0xd8, 0xff, 0x7f, 1, 10, 0, 0, 0];
/// Begins a record, before its length and checksum.
const RECORD: [u8; 5] = [0x81, 0xf1, 0xd8, 0xff, 0x7f];

fuzz_target!(|bytes: &[u8]| {
    let _ = hybrid_row::read(bytes);
    let mut stream = SEGMENT.to_vec();
    // Rows are cut where the next would begin.
    let mut rest = bytes;
    while !rest.is_empty() {
        let next = rest.get(1..).and_then(|rest| rest.iter().position(|byte| *byte == 0x81));
        let (row, behind) = rest.split_at(next.map_or(rest.len(), |at| at + 1));
        stream.extend_from_slice(&RECORD);
        stream.extend_from_slice(&(row.len() as u32).to_le_bytes());
        stream.extend_from_slice(&crc32fast::hash(row).to_le_bytes());
        stream.extend_from_slice(row);
        rest = behind;
    }
    let _ = hybrid_row::read(&stream);
});
