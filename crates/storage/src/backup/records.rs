//! The files of entries inside a backup.
//!
//! A file is a magic word and a row of frames; a frame is the length of its payload, the CRC-32C
//! of its payload, and the payload; a payload is a row of whole records; a record is the length of
//! the key, the length of the value, the key and the value. All numbers are 32 bits, big-endian.
//!
//! ```text
//!   "ARMBKP01" │ length │ crc │ klen vlen key value │ klen vlen key value … │ length │ crc │ …
//! ```

use std::path::Path;

use crate::disk::{Disk, DiskFile};
use crate::{KEY_LENGTH_MAX, Keyspace, StoreError};

use super::BackupFile;

const MAGIC: &[u8; 8] = b"ARMBKP01";

/// A frame is closed when its payload reaches this many bytes.
const FRAME_BYTES: usize = 1024 * 1024;

/// A file is closed when it reaches this many bytes.
const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Writes the entries of one keyspace.
pub(super) struct RecordWriter<'disk> {
    disk: &'disk dyn Disk,
    folder: &'disk Path,
    keyspace: Keyspace,
    current: Option<OpenFile>,
    done: Vec<BackupFile>,
}

struct OpenFile {
    file: Box<dyn DiskFile>,
    description: BackupFile,
    payload: Vec<u8>,
}

impl<'disk> RecordWriter<'disk> {
    pub(super) fn new(disk: &'disk dyn Disk, folder: &'disk Path, keyspace: Keyspace) -> Self {
        Self { disk, folder, keyspace, current: None, done: Vec::new() }
    }

    pub(super) fn write(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let mut open = match self.current.take() {
            Some(open) => open,
            None => self.begin()?,
        };
        open.add(key, value)?;
        if open.description.bytes >= FILE_BYTES_MAX {
            self.done.push(open.finish()?);
        } else {
            self.current = Some(open);
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Vec<BackupFile>, StoreError> {
        if let Some(open) = self.current.take() {
            self.done.push(open.finish()?);
        }
        Ok(self.done)
    }

    fn begin(&self) -> Result<OpenFile, StoreError> {
        let name = format!("{}-{:04}.records", self.keyspace, self.done.len());
        let file = self.disk.create(&self.folder.join(&name))?;
        let keyspace = self.keyspace;
        let description = BackupFile { name, keyspace, entries: 0, bytes: 0, checksum: 0 };
        let mut open = OpenFile { file, description, payload: Vec::new() };
        open.put(MAGIC)?;
        Ok(open)
    }
}

impl OpenFile {
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).expect("batches bound both lengths");
        self.payload.extend_from_slice(&length(key).to_be_bytes());
        self.payload.extend_from_slice(&length(value).to_be_bytes());
        self.payload.extend_from_slice(key);
        self.payload.extend_from_slice(value);
        self.description.entries += 1;
        if self.payload.len() >= FRAME_BYTES { self.close_frame() } else { Ok(()) }
    }

    fn close_frame(&mut self) -> Result<(), StoreError> {
        let payload = std::mem::take(&mut self.payload);
        let length =
            u32::try_from(payload.len()).expect("one value more than a frame fits 32 bits");
        self.put(&length.to_be_bytes())?;
        self.put(&crc32c::crc32c(&payload).to_be_bytes())?;
        self.put(&payload)?;
        self.payload = payload;
        self.payload.clear();
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.file.write(bytes)?;
        self.description.bytes += bytes.len() as u64;
        self.description.checksum = crc32c::crc32c_append(self.description.checksum, bytes);
        Ok(())
    }

    fn finish(mut self) -> Result<BackupFile, StoreError> {
        if !self.payload.is_empty() {
            self.close_frame()?;
        }
        self.file.sync()?;
        Ok(self.description)
    }
}

/// Checks a file against its description and its own checksums.
pub(super) fn check(disk: &dyn Disk, folder: &Path, file: &BackupFile) -> Result<(), StoreError> {
    let mut entries = 0;
    let mut last: Vec<u8> = Vec::new();
    let mut ordered = true;
    read(disk, folder, file, &mut |key, _| {
        ordered &= key > last.as_slice();
        last.clear();
        last.extend_from_slice(key);
        entries += 1;
        Ok(())
    })?;
    if entries != file.entries {
        return Err(damage(folder, file, "it does not hold the number of entries it should"));
    }
    if !ordered {
        return Err(damage(folder, file, "its keys are not in order"));
    }
    Ok(())
}

/// Sees the key and the value of a record; an error ends the reading.
type RecordVisit<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), StoreError> + 'a;

/// Shows every record of a file, after checking its length and checksum.
pub(super) fn read(
    disk: &dyn Disk,
    folder: &Path,
    file: &BackupFile,
    visit: &mut RecordVisit<'_>,
) -> Result<(), StoreError> {
    let bytes = disk.map(&folder.join(&file.name))?;
    if bytes.len() as u64 != file.bytes {
        return Err(damage(folder, file, "it does not have the length it should"));
    }
    if crc32c::crc32c(&bytes) != file.checksum {
        return Err(damage(folder, file, "its checksum does not match"));
    }
    let mut rest = Reader(&bytes);
    if rest.take(MAGIC.len()) != Some(MAGIC) {
        return Err(damage(folder, file, "it does not begin as a backup file does"));
    }
    while !rest.0.is_empty() {
        let frame = rest.frame().ok_or_else(|| damage(folder, file, "a frame is damaged"))?;
        let mut records = Reader(frame);
        while !records.0.is_empty() {
            let record = records.record();
            let (key, value) = record.ok_or_else(|| damage(folder, file, "a record is damaged"))?;
            visit(key, value)?;
        }
    }
    Ok(())
}

struct Reader<'bytes>(&'bytes [u8]);

impl<'bytes> Reader<'bytes> {
    fn take(&mut self, length: usize) -> Option<&'bytes [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u32> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*taken))
    }

    fn frame(&mut self) -> Option<&'bytes [u8]> {
        let (length, checksum) = (self.number()?, self.number()?);
        self.take(length as usize).filter(|payload| crc32c::crc32c(payload) == checksum)
    }

    fn record(&mut self) -> Option<(&'bytes [u8], &'bytes [u8])> {
        let (key, value) = (self.number()? as usize, self.number()? as usize);
        let key = self.take(key).filter(|key| (1..=KEY_LENGTH_MAX).contains(&key.len()))?;
        Some((key, self.take(value)?))
    }
}

fn damage(folder: &Path, file: &BackupFile, reason: &str) -> StoreError {
    StoreError::corruption(folder.join(&file.name).display().to_string(), reason)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::disk::MemoryDisk;

    fn described(bytes: &[u8]) -> BackupFile {
        BackupFile {
            name: "f".into(),
            keyspace: Keyspace::Items,
            entries: 0,
            bytes: bytes.len() as u64,
            checksum: crc32c::crc32c(bytes),
        }
    }

    proptest! {
        /// Even a file whose outer checksum was made to match is read without panic.
        #[test]
        fn any_file_is_survived(mut bytes: Vec<u8>, frame: Vec<u8>) {
            let mut whole = MAGIC.to_vec();
            whole.extend(u32::try_from(frame.len()).unwrap().to_be_bytes());
            whole.extend(crc32c::crc32c(&frame).to_be_bytes());
            whole.extend(&frame);
            whole.append(&mut bytes);
            let disk = MemoryDisk::new();
            disk.replace(Path::new("f"), &whole).unwrap();
            let _result = read(&disk, Path::new(""), &described(&whole), &mut |_, _| Ok(()));
        }
    }
}
