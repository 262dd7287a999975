//! Work that is too heavy for the committer: sealing, merging, rewriting, writing files.
//!
//! A job is cut off from the index: it holds immutable inputs and may run on any thread for as
//! long as it takes, while the index goes on. Its result is handed back to the index's owner.

use std::{
    io::{BufWriter, Write},
    sync::Arc,
};

use bytes::Bytes;

use crate::{
    deleted::DeadSet,
    error::{Error, Result},
    files::Files,
    manifest::{Manifest, file_name},
    merge::merge,
    part::PartData,
    segment::{Segment, SegmentWriter, Trust},
    tail::Chunk,
};

/// Small pieces of a file are gathered up to this many bytes.
const FILE_BUFFER: usize = 256 << 10;

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobKind {
    /// Sorts a frozen piece of the tail into a segment.
    Seal,
    /// Makes one segment of several neighbours.
    Merge,
    /// Writes a segment again without its many dead.
    Rewrite,
    /// Makes the present list of files durable and removes the files it replaced.
    Manifest,
}

/// A piece of work, taken with [`crate::Index::take_job`].
pub struct Job {
    pub(crate) kind: JobKind,
    pub(crate) documents: u64,
    pub(crate) work: Work,
}

/// What became of a job, for [`crate::Index::install`].
pub struct JobResult {
    pub(crate) outcome: Outcome,
}

pub(crate) enum Work {
    Combine(Combine),
    Persist(Persist),
}

pub(crate) enum Outcome {
    Combined(Combined),
    Persisted(Persist),
    NotPersisted {
        work: Persist,
        error: Error,
    },
    /// The inputs are as they were and free again.
    Failed {
        ids: Vec<u64>,
        error: Error,
    },
}

/// Makes one segment of neighbouring parts.
pub(crate) struct Combine {
    pub(crate) inputs: Vec<Input>,
    pub(crate) target: Option<(Arc<dyn Files>, u64)>,
}

pub(crate) struct Input {
    pub(crate) id: u64,
    pub(crate) data: Arc<PartData>,
    /// As it was when the job was taken.
    pub(crate) dead: DeadSet,
}

pub(crate) struct Combined {
    pub(crate) inputs: Vec<Input>,
    /// Per input the new local number of each document.
    pub(crate) maps: Vec<Vec<u32>>,
    /// Nothing when every document was dead.
    pub(crate) part: Option<Arc<PartData>>,
    pub(crate) file: Option<u64>,
}

/// Writes segments that are not files yet, then the manifest, and removes old files.
pub(crate) struct Persist {
    pub(crate) files: Arc<dyn Files>,
    pub(crate) manifest: Manifest,
    /// Parts that become files now; they are replaced by their mapped selves.
    pub(crate) inputs: Vec<Unwritten>,
    /// Files that were listed before and are no more.
    pub(crate) obsolete: Vec<u64>,
    /// How many changes were applied when the job was taken.
    pub(crate) changes: u64,
}

/// A part that becomes a file without changing.
pub(crate) struct Unwritten {
    pub(crate) id: u64,
    pub(crate) file: u64,
    pub(crate) data: Arc<PartData>,
}

impl Job {
    /// What the job does.
    #[must_use]
    pub fn kind(&self) -> JobKind {
        self.kind
    }

    /// How many documents the job goes through: small jobs should go first, and large ones should
    /// have a thread of their own so that they do not hold up the small.
    #[must_use]
    pub fn documents(&self) -> u64 {
        self.documents
    }

    /// Does the work. May take long; may be called on any thread.
    #[must_use]
    pub fn run(self) -> JobResult {
        let outcome = match self.work {
            Work::Combine(combine) => combine.run(),
            Work::Persist(persist) => persist.run(),
        };
        JobResult { outcome }
    }
}

impl JobResult {
    /// The error of a job that failed.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        match &self.outcome {
            Outcome::Failed { error, .. } | Outcome::NotPersisted { error, .. } => Some(error),
            Outcome::Combined(_) | Outcome::Persisted(_) => None,
        }
    }
}

impl Combine {
    pub(crate) fn run(self) -> Outcome {
        match self.combine() {
            Ok((maps, segment)) => {
                let lives = segment.documents().len() > 0;
                let file = self.target.filter(|_| lives).map(|(_, id)| id);
                let part = lives.then(|| Arc::new(PartData::Segment(segment)));
                Outcome::Combined(Combined { inputs: self.inputs, maps, part, file })
            }
            Err(error) => {
                let ids = self.inputs.iter().map(|input| input.id).collect();
                Outcome::Failed { ids, error }
            }
        }
    }

    fn combine(&self) -> Result<(Vec<Vec<u32>>, Segment)> {
        match &self.target {
            None => {
                let mut bytes = vec![];
                let maps = self.write(&mut bytes).map_err(Error::io("memory"))?;
                Ok((maps, Segment::open(Bytes::from(bytes), Trust::Written)?))
            }
            Some((files, id)) => {
                let name = file_name(*id);
                let maps = write_file(files.as_ref(), &name, |out| self.write(out))?;
                let bytes = files.map(&name).map_err(Error::io(&name))?;
                Ok((maps, Segment::open(bytes, Trust::Written)?))
            }
        }
    }

    fn write<W: Write>(&self, out: W) -> std::io::Result<Vec<Vec<u32>>> {
        let chunks: Option<Vec<(&Chunk, &DeadSet)>> =
            self.inputs.iter().map(|input| Some((input.data.as_chunk()?, &input.dead))).collect();
        if let Some(chunks) = chunks {
            return seal(&chunks, out);
        }
        let parts: Vec<_> = self.inputs.iter().map(|input| (&*input.data, &input.dead)).collect();
        merge(&parts, out).map(|(_, maps)| maps)
    }
}

impl Persist {
    fn run(mut self) -> Outcome {
        match self.persist() {
            Ok(()) => Outcome::Persisted(self),
            Err(error) => Outcome::NotPersisted { work: self, error },
        }
    }

    fn persist(&mut self) -> Result<()> {
        let files = self.files.as_ref();
        for input in &mut self.inputs {
            let PartData::Segment(segment) = &*input.data else { continue };
            let name = file_name(input.file);
            write_file(files, &name, |out| out.write_all(segment.bytes()))?;
            let bytes = files.map(&name).map_err(Error::io(&name))?;
            input.data = Arc::new(PartData::Segment(Segment::open(bytes, Trust::Written)?));
        }
        self.manifest.store(files)?;
        for id in &self.obsolete {
            // Readers may still hold the map; a file that cannot go now goes at the next open.
            files.remove(&file_name(*id)).ok();
        }
        Ok(())
    }
}

/// Sorts chunks of the tail into a segment: all terms of a path at once, which is faster than
/// merging many small dictionaries.
fn seal<W: Write>(chunks: &[(&Chunk, &DeadSet)], out: W) -> std::io::Result<Vec<Vec<u32>>> {
    let (chunk, maps) = Chunk::combine(chunks);
    let mut writer = SegmentWriter::new(out)?;
    writer.documents(chunk.documents())?;
    chunk.visit_blocks(|path, block| writer.path(path, block))?;
    writer.finish()?;
    Ok(maps)
}

/// Writes and syncs a file; one that could not be written whole is removed.
pub(crate) fn write_file<T>(
    files: &dyn Files,
    name: &str,
    write: impl FnOnce(&mut dyn Write) -> std::io::Result<T>,
) -> Result<T> {
    let attempt = || {
        let mut out = BufWriter::with_capacity(FILE_BUFFER, files.create(name)?);
        let result = write(&mut out)?;
        out.flush()?;
        out.get_mut().sync()?;
        Ok(result)
    };
    attempt().map_err(|source| {
        // The name is not in any manifest: if removing fails too, the next open does it.
        files.remove(name).ok();
        Error::io(name)(source)
    })
}
