// Copyright (c) 2024-present, fjall-rs
// This source code is licensed under both the Apache 2.0 and MIT License
// (found in the LICENSE-* files in the repository)

use super::entry::{serialize_marker_item, Entry};
use crate::{
    batch::item::Item as BatchItem, file::fsync_directory, journal::recovery::JournalId,
    keyspace::InternalKeyspaceId,
};
use lsm_tree::{CompressionType, SeqNo, ValueType};
use std::{
    fs::{File, OpenOptions},
    hash::Hasher,
    io::{BufWriter, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

// TODO: this should be a database configuration
pub const PRE_ALLOCATED_BYTES: u64 = 64 * 1_024 * 1_024;

/// armilla: A group of large batches goes to the system in few calls.
pub const JOURNAL_BUFFER_BYTES: usize = 128 * 1_024;

/// armilla: How many zeros are written ahead of small batches.
const AHEAD_BYTES: usize = 256 * 1_024;

/// armilla: Larger batches are worth a change of the file's metadata.
const SMALL_BATCH_BYTES: usize = AHEAD_BYTES / 8;

#[cfg(unix)]
static ZEROS: [u8; AHEAD_BYTES] = [0; AHEAD_BYTES];

pub struct Writer {
    pub(crate) path: PathBuf,
    file: BufWriter<File>,
    buf: Vec<u8>,
    is_buffer_dirty: bool,

    /// armilla: Whether the file is written at its end, wherever that is.
    is_append: bool,

    /// armilla: Where the last whole batch ends, if that is known.
    end: Option<u64>,

    /// armilla: Up to here the file has blocks of its own.
    zeroed: u64,

    /// armilla: Whether nothing was written since the last sync.
    is_synced: bool,

    compression: CompressionType,
    compression_threshold: usize,
}

/// The persist mode allows setting the durability guarantee of previous writes
#[derive(Copy, Clone, Debug, Eq, PartialEq)]
pub enum PersistMode {
    /// Flushes data to OS buffers. This allows the OS to write out data in case of an
    /// application crash.
    ///
    /// When this function returns, data is **not** guaranteed to be persisted in case
    /// of a power loss event or OS crash.
    Buffer,

    /// Flushes data using `fdatasync`.
    ///
    /// Use if you know that `fdatasync` is sufficient for your file system and/or operating system.
    SyncData,

    /// Flushes data + metadata using `fsync`.
    SyncAll,
}

impl Writer {
    pub fn set_compression(&mut self, comp: CompressionType, threshold: usize) {
        self.compression = comp;
        self.compression_threshold = threshold;
    }

    pub fn pos(&mut self) -> crate::Result<u64> {
        self.file.stream_position().map_err(Into::into)
    }

    pub fn len(&self) -> crate::Result<u64> {
        Ok(self.file.get_ref().metadata()?.len())
    }

    /// armilla: The number in the file's name.
    pub fn number(&self) -> Option<JournalId> {
        self.path.file_stem()?.to_str()?.parse().ok()
    }

    /// armilla: Goes on in a file that was made before. Commits wait for this, so it does little: the old journal is durable but for
    /// commits that did not ask for it, and the new one but for its name.
    pub fn rotate(&mut self, next: NextJournal) -> crate::Result<(PathBuf, PathBuf)> {
        self.make_durable()?;

        log::debug!(
            "Sealing active journal at {}, len={}B",
            self.path.display(),
            self.path
                .metadata()
                .inspect_err(|e| {
                    log::error!(
                        "Failed to get file metadata of journal file at {}: {e:?}",
                        self.path.display()
                    );
                })?
                .len(),
        );

        let prev_path = self.path.clone();

        let folder = self
            .path
            .parent()
            .expect("should have parent")
            .to_path_buf();

        let Some(basename) = self
            .path
            .file_name()
            .expect("should be valid file name")
            .to_str()
            .expect("should be valid utf-8")
            .strip_suffix(".jnl")
        else {
            log::error!("Invalid journal file name: {}", self.path.display());
            return Err(crate::Error::JournalRecovery(
                crate::JournalRecoveryError::InvalidFileName,
            ));
        };

        let journal_id = basename.parse::<JournalId>().map_err(|_| {
            log::error!("Invalid journal file name: {}", self.path.display());
            crate::Error::JournalRecovery(crate::JournalRecoveryError::InvalidFileName)
        })?;

        let new_path = folder.join(format!("{}.jnl", journal_id + 1));
        log::debug!("Rotating active journal to {}", new_path.display());

        let comp = self.compression;
        let compt = self.compression_threshold;
        let mut new = next.take(new_path.clone())?;
        new.set_compression(comp, compt);

        // IMPORTANT: fsync folder on Unix
        // armilla: Before the new journal is used, so that nothing has changed if that fails.
        fsync_directory(&folder).inspect_err(|_| remove_unused(&new_path))?;

        *self = new;

        Ok((prev_path, new_path))
    }

    /// armilla: Syncs what was written since the last sync, if anything was.
    pub(crate) fn make_durable(&mut self) -> std::io::Result<()> {
        if self.is_synced {
            return Ok(());
        }
        self.persist(PersistMode::SyncAll)
    }

    pub fn create_new<P: Into<PathBuf>>(path: P) -> crate::Result<Self> {
        let path = path.into();

        let file = File::create_new(&path).inspect_err(|e| {
            log::error!("Failed to create journal file at {}: {e:?}", path.display());
        })?;
        preallocate(&file, &path)?;

        Ok(Self::over_empty(path, file))
    }

    /// armilla: A journal in a file that holds nothing.
    fn over_empty(path: PathBuf, file: File) -> Self {
        Self {
            path,
            file: BufWriter::with_capacity(JOURNAL_BUFFER_BYTES, file),
            buf: Vec::new(),
            is_buffer_dirty: false,
            is_append: false,
            end: None,
            zeroed: 0,
            is_synced: true,
            compression: CompressionType::None,
            compression_threshold: 0,
        }
    }

    pub fn from_file<P: AsRef<Path>>(path: P) -> crate::Result<Self> {
        let path = path.as_ref();

        if !path.try_exists()? {
            let file = OpenOptions::new()
                .create_new(true)
                .write(true)
                .open(path)
                .inspect_err(|e| {
                    log::error!("Failed to create journal file at {}: {e:?}", path.display());
                })?;

            file.set_len(PRE_ALLOCATED_BYTES).inspect_err(|e| {
                log::error!(
                    "Failed to set journal file size to {PRE_ALLOCATED_BYTES}B at {}: {e:?}",
                    path.display(),
                );
            })?;

            file.sync_all().inspect_err(|e| {
                log::error!("Failed to fsync journal file at {}: {e:?}", path.display());
            })?;

            return Ok(Self {
                path: path.into(),
                file: BufWriter::with_capacity(JOURNAL_BUFFER_BYTES, file),
                buf: Vec::new(),
                is_buffer_dirty: false,
            is_append: false,
            end: None,
            zeroed: 0,
            is_synced: false,
                compression: CompressionType::None,
                compression_threshold: 0,
            });
        }

        let file = OpenOptions::new()
            .append(true)
            .open(path)
            .inspect_err(|e| {
                log::error!("Failed to open journal file at {}: {e:?}", path.display());
            })?;

        Ok(Self {
            path: path.into(),
            file: BufWriter::with_capacity(JOURNAL_BUFFER_BYTES, file),
            buf: Vec::new(),
            is_buffer_dirty: false,
            is_append: true,
            end: None,
            zeroed: 0,
            is_synced: false,
            compression: CompressionType::None,
            compression_threshold: 0,
        })
    }

    /// Persists the journal file.
    pub(crate) fn persist(&mut self, mode: PersistMode) -> std::io::Result<()> {
        self.write_out(mode)?;
        self.is_synced |= mode != PersistMode::Buffer;
        Ok(())
    }

    fn write_out(&mut self, mode: PersistMode) -> std::io::Result<()> {
        log::trace!(
            "Persisting journal at {} with mode={mode:?}",
            self.path.display(),
        );

        if self.is_buffer_dirty {
            self.file.flush().inspect_err(|e| {
                log::error!(
                    "Failed to flush journal IO buffers at {}: {e:?}",
                    self.path.display(),
                );
            })?;
            self.is_buffer_dirty = false;
        }

        match mode {
            PersistMode::SyncAll => self.file.get_mut().sync_all().inspect_err(|e| {
                log::error!(
                    "Failed to fsync journal file at {}: {e:?}",
                    self.path.display(),
                );
            }),
            PersistMode::SyncData => self.file.get_mut().sync_data().inspect_err(|e| {
                log::error!(
                    "Failed to fsyncdata journal file at {}: {e:?}",
                    self.path.display(),
                );
            }),
            PersistMode::Buffer => Ok(()),
        }
    }

    /// Writes a batch start marker to the journal
    fn write_start(&mut self, item_count: u32, seqno: SeqNo) -> Result<usize, crate::Error> {
        debug_assert!(self.buf.is_empty());

        Entry::Start { item_count, seqno }.encode_into(&mut self.buf)?;

        self.file.write_all(&self.buf)?;

        Ok(self.buf.len())
    }

    /// Writes a batch end marker to the journal
    fn write_end(&mut self, checksum: u64) -> Result<usize, crate::Error> {
        debug_assert!(self.buf.is_empty());

        Entry::End(checksum).encode_into(&mut self.buf)?;

        self.file.write_all(&self.buf)?;

        Ok(self.buf.len())
    }

    pub(crate) fn write_raw(
        &mut self,
        keyspace_id: InternalKeyspaceId,
        key: &[u8],
        value: &[u8],
        value_type: ValueType,
        seqno: u64,
    ) -> crate::Result<usize> {
        self.is_buffer_dirty = true;
        self.is_synced = false;
        self.end = None;

        let mut hasher = xxhash_rust::xxh3::Xxh3::default();
        let mut byte_count = 0;

        self.buf.clear();
        byte_count += self.write_start(1, seqno)?;
        self.buf.clear();

        serialize_marker_item(
            &mut self.buf,
            keyspace_id,
            key,
            value,
            value_type,
            if self.compression_threshold > 0 && value.len() >= self.compression_threshold {
                self.compression
            } else {
                CompressionType::None
            },
        )?;

        self.file.write_all(&self.buf)?;

        hasher.update(&self.buf);
        byte_count += self.buf.len();

        self.buf.clear();
        let checksum = hasher.finish();
        byte_count += self.write_end(checksum)?;

        Ok(byte_count)
    }

    pub(crate) fn write_clear(
        &mut self,
        keyspace_id: InternalKeyspaceId,
        seqno: SeqNo,
    ) -> crate::Result<usize> {
        self.is_buffer_dirty = true;
        self.is_synced = false;
        self.end = None;

        let mut hasher = xxhash_rust::xxh3::Xxh3::default();
        let mut byte_count = 0;

        self.buf.clear();
        byte_count += self.write_start(1, seqno)?;
        self.buf.clear();

        Entry::Clear { keyspace_id }.encode_into(&mut self.buf)?;
        self.file.write_all(&self.buf)?;
        hasher.update(&self.buf);
        byte_count += self.buf.len();

        self.buf.clear();
        let checksum = hasher.finish();
        byte_count += self.write_end(checksum)?;

        Ok(byte_count)
    }

    /// armilla: Writes a batch, and hands it to the system if it is to be durable. A batch for which
    /// the disk has no room leaves nothing behind; any other error leaves the journal undefined.
    pub fn write_whole_batch<'a>(
        &mut self,
        items: impl Iterator<Item = &'a BatchItem>,
        batch_size: usize,
        seqno: SeqNo,
        flush: bool,
    ) -> crate::Result<usize> {
        // Only then is it known what of the buffer belongs to this batch.
        let can_undo = flush && self.file.buffer().is_empty();
        if self.is_append && can_undo && self.end.is_none() {
            if let Err(e) = self.write_in_place() {
                log::warn!("The journal goes on at its end: {e:?}");
            }
        }
        let end = match self.end.take() {
            Some(end) => end,
            None if self.is_append => self.len()?,
            None => self.pos()?,
        };

        let written = self
            .write_batch(items, batch_size, seqno)
            .and_then(|bytes| {
                if flush {
                    self.file.flush()?;
                    self.is_buffer_dirty = false;
                }
                Ok(bytes)
            });

        match written {
            Ok(bytes) => {
                self.end = Some(end + bytes as u64);
                if flush && bytes <= SMALL_BATCH_BYTES {
                    self.zero_ahead(end + bytes as u64);
                }
                Ok(bytes)
            }
            Err(e) if e.is_full_disk() && can_undo => {
                self.cut(end).map_err(|cut| {
                    log::error!("Failed to cut journal at {}: {cut:?}", self.path.display());
                    crate::Error::Poisoned
                })?;
                self.end = Some(end);
                Err(e)
            }
            Err(e) if e.is_full_disk() => {
                log::error!("A batch cannot be taken back: {e:?}");
                Err(crate::Error::Poisoned)
            }
            Err(e) => Err(e),
        }
    }

    /// armilla: Lets a journal that was opened at a start be written where its batches end, so that zeros can be
    /// ahead of them. Written at its end, each batch changes the length of the file, and each sync writes that too.
    fn write_in_place(&mut self) -> std::io::Result<()> {
        // Recovery has cut what was behind the last whole batch.
        let end = self.file.get_ref().metadata()?.len();
        let mut file = OpenOptions::new().write(true).open(&self.path)?;
        file.seek(SeekFrom::Start(end))?;
        self.file = BufWriter::with_capacity(JOURNAL_BUFFER_BYTES, file);
        self.is_append = false;
        self.end = Some(end);
        Ok(())
    }

    /// armilla: Writes zeros behind the last batch, where the preallocated file is a hole or has its end. A batch that
    /// lands there makes the sync wait for the metadata of the file system as well; now one in many
    /// does. What is read back is the same.
    #[cfg(unix)]
    fn zero_ahead(&mut self, end: u64) {
        use std::os::unix::fs::FileExt;

        let until = end + AHEAD_BYTES as u64;
        // Not where the file is written at its end, or longer than others become.
        if self.is_append || end <= self.zeroed || until > PRE_ALLOCATED_BYTES {
            return;
        }
        // Whether there is room for a batch is found out when it is written.
        if self.file.get_ref().write_all_at(&ZEROS, end).is_ok() {
            self.zeroed = until;
        }
    }

    #[cfg(not(unix))]
    fn zero_ahead(&mut self, _end: u64) {}

    /// armilla: Forgets what is in the buffer, and what is in the file from here on.
    fn cut(&mut self, end: u64) -> std::io::Result<()> {
        let file = self.file.get_ref().try_clone()?;
        let file = BufWriter::with_capacity(JOURNAL_BUFFER_BYTES, file);

        // A writer that is taken apart does not write its buffer.
        drop(std::mem::replace(&mut self.file, file).into_parts());
        self.is_buffer_dirty = false;
        self.buf.clear();
        // The file ends here from now on.
        self.zeroed = u64::MAX;
        self.is_synced = false;

        self.file.get_ref().set_len(end)?;
        self.file.seek(SeekFrom::Start(end))?;
        Ok(())
    }

    pub fn write_batch<'a>(
        &mut self,
        items: impl Iterator<Item = &'a BatchItem>,
        batch_size: usize,
        seqno: SeqNo,
    ) -> crate::Result<usize> {
        if batch_size == 0 {
            return Ok(0);
        }

        self.is_buffer_dirty = true;
        self.is_synced = false;

        self.buf.clear();

        // NOTE: entries.len() is surely never > u32::MAX
        #[expect(clippy::cast_possible_truncation)]
        let item_count = batch_size as u32;

        let mut hasher = xxhash_rust::xxh3::Xxh3::default();
        let mut byte_count = 0;

        byte_count += self.write_start(item_count, seqno)?;
        self.buf.clear();

        for item in items {
            debug_assert!(self.buf.is_empty());

            serialize_marker_item(
                &mut self.buf,
                item.keyspace.id,
                &item.key,
                &item.value,
                item.value_type,
                if self.compression_threshold > 0 && item.value.len() >= self.compression_threshold
                {
                    self.compression
                } else {
                    CompressionType::None
                },
            )?;

            self.file.write_all(&self.buf)?;

            hasher.update(&self.buf);
            byte_count += self.buf.len();

            self.buf.clear();
        }

        let checksum = hasher.finish();
        byte_count += self.write_end(checksum)?;

        Ok(byte_count)
    }
}

/// armilla: Makes an empty file as long as a journal, durably. One that could not be made is removed.
fn preallocate(file: &File, path: &Path) -> std::io::Result<()> {
    file.set_len(PRE_ALLOCATED_BYTES).inspect_err(|e| {
        log::error!(
            "Failed to set journal file size to {PRE_ALLOCATED_BYTES}B at {}: {e:?}",
            path.display(),
        );
        remove_unused(path);
    })?;

    file.sync_all().inspect_err(|e| {
        log::error!("Failed to fsync journal file at {}: {e:?}", path.display());
        remove_unused(path);
    })
}

/// armilla: A file for the next journal, which nobody takes for a journal before it has a journal's name. Removed if it gets none.
pub struct NextJournal {
    path: PathBuf,
    file: Option<File>,
}

impl NextJournal {
    /// Makes it in the folder of the journals. One that a process left behind is written over.
    pub fn make(folder: &Path, worker: usize) -> crate::Result<Self> {
        let path = folder.join(format!("next.{worker}"));
        let file = File::create(&path)?;
        preallocate(&file, &path)?;
        Ok(Self { path, file: Some(file) })
    }

    /// Gives it its name, which the caller makes durable.
    fn take(mut self, path: PathBuf) -> std::io::Result<Writer> {
        // A journal is never written over.
        if path.try_exists()? {
            return Err(std::io::ErrorKind::AlreadyExists.into());
        }
        std::fs::rename(&self.path, &path)?;
        let file = self.file.take().expect("is taken once");
        Ok(Writer::over_empty(path, file))
    }
}

impl Drop for NextJournal {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            remove_unused(&self.path);
        }
    }
}

/// armilla: A journal that could not be made must not be in the way of the next try.
fn remove_unused(path: &Path) {
    if let Err(e) = std::fs::remove_file(path) {
        log::error!("Failed to remove journal file at {}: {e:?}", path.display());
    }
}
