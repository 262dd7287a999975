//! The bytes of a batch in the journal.
//!
//! ```text
//! version u8 = 1 │ flags u8 │ body │ CRC-32C of all before it, u32
//! body, or with flag 1: its length u32 and one LZ4 block of it:
//!   count u32, then per operation: keyspace u8, key length u16, key, value length u32 (FFFFFFFF = delete), value
//! ```
//!
//! All numbers are big-endian. A reader that meets another version stops and says so.

use bytes::Bytes;

use super::LedgerError;
use crate::{Batch, KEY_LENGTH_MAX, Keyspace, VALUE_LENGTH_MAX};

const VERSION: u8 = 1;
const FLAG_LZ4: u8 = 1;
const DELETED: u32 = u32::MAX;
const HEAD_LENGTH: usize = 2;
const CHECKSUM_LENGTH: usize = 4;
/// Compression is kept when it saves at least this part of the bytes.
const SAVING_PART: usize = 8;
/// No body is longer, compressed or not: what a reader allocates before it has seen the content.
const BODY_LENGTH_MAX: usize = 1 << 30;

/// The bytes of a batch.
#[must_use]
pub fn encode_batch(batch: &Batch) -> Bytes {
    let mut body = Vec::with_capacity(batch.bytes() + 4);
    body.extend_from_slice(&length32(batch.len()).to_be_bytes());
    for operation in batch.iter() {
        body.push(operation.keyspace as u8);
        let key_length = u16::try_from(operation.key.len()).expect("keys end at 32 KiB");
        body.extend_from_slice(&key_length.to_be_bytes());
        body.extend_from_slice(&operation.key);
        let value_length = operation.value.as_ref().map_or(DELETED, |value| length32(value.len()));
        body.extend_from_slice(&value_length.to_be_bytes());
        body.extend_from_slice(operation.value.as_deref().unwrap_or_default());
    }
    assert!(body.len() <= BODY_LENGTH_MAX, "a batch of {} bytes is too large", body.len());
    let packed = lz4_flex::block::compress(&body);
    let mut bytes = Vec::with_capacity(body.len() + HEAD_LENGTH + CHECKSUM_LENGTH);
    if packed.len() + CHECKSUM_LENGTH <= body.len() - body.len() / SAVING_PART {
        bytes.extend_from_slice(&[VERSION, FLAG_LZ4]);
        bytes.extend_from_slice(&length32(body.len()).to_be_bytes());
        bytes.extend_from_slice(&packed);
    } else {
        bytes.extend_from_slice(&[VERSION, 0]);
        bytes.extend_from_slice(&body);
    }
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_be_bytes());
    bytes.into()
}

/// The batch that these bytes hold.
///
/// # Errors
///
/// When they are not what [`encode_batch`] writes.
pub fn decode_batch(bytes: &[u8]) -> Result<Batch, LedgerError> {
    decode(bytes).map_err(|reason| LedgerError::Damage(format!("a batch of the journal: {reason}")))
}

fn decode(bytes: &[u8]) -> Result<Batch, String> {
    let Some((content, checksum)) = bytes.split_last_chunk::<CHECKSUM_LENGTH>() else {
        return Err(format!("{} bytes are too few", bytes.len()));
    };
    let [version, flags, rest @ ..] = content else {
        return Err(format!("{} bytes are too few", bytes.len()));
    };
    if *version != VERSION {
        return Err(format!("version {version}, this program reads version {VERSION}"));
    }
    if crc32c::crc32c(content) != u32::from_be_bytes(*checksum) {
        return Err("its checksum does not match".into());
    }
    match *flags {
        0 => decode_body(&Bytes::copy_from_slice(rest)),
        FLAG_LZ4 => {
            let (length, packed) = rest.split_first_chunk::<4>().ok_or("its length is missing")?;
            let length = u32::from_be_bytes(*length) as usize;
            if length > BODY_LENGTH_MAX {
                return Err(format!("{length} bytes are too many"));
            }
            let body = lz4_flex::block::decompress(packed, length)
                .map_err(|error| format!("it cannot be decompressed: {error}"))?;
            decode_body(&body.into())
        }
        other => Err(format!("unknown flags {other}")),
    }
}

fn decode_body(body: &Bytes) -> Result<Batch, String> {
    let mut reader = BodyReader { body, at: 0 };
    let count = u32::from_be_bytes(reader.array()?);
    let mut batch = Batch::new();
    for _ in 0..count {
        let [number] = reader.array()?;
        let keyspace = Keyspace::ALL
            .get(usize::from(number))
            .copied()
            .ok_or_else(|| format!("unknown keyspace {number}"))?;
        let key_length = usize::from(u16::from_be_bytes(reader.array()?));
        if !(1..=KEY_LENGTH_MAX).contains(&key_length) {
            return Err(format!("a key of {key_length} bytes"));
        }
        let key = reader.bytes(key_length)?.to_vec();
        match u32::from_be_bytes(reader.array()?) {
            DELETED => batch.delete(keyspace, key),
            length if length as usize <= VALUE_LENGTH_MAX => {
                batch.put(keyspace, key, reader.bytes(length as usize)?);
            }
            length => return Err(format!("a value of {length} bytes")),
        }
    }
    if reader.at == body.len() { Ok(batch) } else { Err("bytes are left behind its end".into()) }
}

struct BodyReader<'a> {
    body: &'a Bytes,
    at: usize,
}

impl BodyReader<'_> {
    fn bytes(&mut self, length: usize) -> Result<Bytes, String> {
        let end = self.at.checked_add(length).filter(|end| *end <= self.body.len());
        let end = end.ok_or("it ends in the middle of an operation")?;
        let found = self.body.slice(self.at..end);
        self.at = end;
        Ok(found)
    }

    fn array<const LENGTH: usize>(&mut self) -> Result<[u8; LENGTH], String> {
        let found = self.bytes(LENGTH)?;
        Ok(<[u8; LENGTH]>::try_from(&found[..]).expect("so many bytes were asked for"))
    }
}

fn length32(length: usize) -> u32 {
    u32::try_from(length).expect("batches end at a gigabyte")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn batches() -> impl Strategy<Value = Batch> {
        let value = proptest::option::of(prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..40),
            (0usize..600).prop_map(|length| vec![7; length]),
        ]);
        let operation = (0usize..7, proptest::collection::vec(any::<u8>(), 1..30), value);
        proptest::collection::vec(operation, 0..12).prop_map(|operations| {
            let mut batch = Batch::new();
            for (space, key, value) in operations {
                match value {
                    Some(value) => batch.put(Keyspace::ALL[space], key, value),
                    None => batch.delete(Keyspace::ALL[space], key),
                }
            }
            batch
        })
    }

    proptest! {
        #[test]
        fn batches_come_back(batch in batches()) {
            let back = decode_batch(&encode_batch(&batch)).unwrap();
            prop_assert!(batch.iter().eq(back.iter()));
        }

        #[test]
        fn a_changed_byte_is_refused(batch in batches(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let mut bytes = encode_batch(&batch).to_vec();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(decode_batch(&bytes).is_err());
        }

        #[test]
        fn any_bytes_are_a_batch_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut sealed = vec![VERSION, 0];
            sealed.extend(&bytes);
            sealed.extend(crc32c::crc32c(&sealed).to_be_bytes());
            let _ = (decode_batch(&bytes), decode_batch(&sealed));
        }
    }

    #[test]
    fn repeated_bytes_are_compressed() {
        let mut batch = Batch::new();
        batch.put(Keyspace::Items, b"k".to_vec(), vec![b'x'; 10_000]);
        assert!(encode_batch(&batch).len() < 200);
    }
}
