//! The index on disk: opening it, and keeping its manifest up to date.

use std::{ops::Range, sync::Arc};

use super::{Index, Pending, Slot, State};
use crate::{
    error::{Error, Result},
    files::Files,
    job::{Job, JobKind, Persist, Unwritten, Work},
    limits::{CHECK_REPLACED_MAX, Limits},
    manifest::{Listed, Manifest, file_name},
    part::PartData,
    segment::{Segment, Trust},
};

/// What is known about the files.
#[derive(Default)]
pub(super) struct Durable {
    generation: u64,
    covered: u64,
    /// The newest LSN that the manifest knew when the index was opened.
    found: Option<u64>,
    /// No manifest may claim more than this, and none is written unasked.
    limit: Option<u64>,
    /// Changes applied since the last manifest was taken up.
    pub(super) changes: u64,
    /// The list of files is not what the manifest says.
    dirty: bool,
    /// A manifest is being written.
    writing: bool,
    /// Files that the next manifest does not name any more.
    obsolete: Vec<u64>,
}

/// How far a manifest reaches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// Up to the last part that is a file: what lies before it becomes files too.
    LastFile,
    /// Every segment, however small.
    AllSegments,
}

impl Index {
    /// Makes an empty index on disk, removing whatever is there: the first step of a rebuild.
    pub fn create(limits: Limits, files: Arc<dyn Files>) -> Result<Self> {
        let mut names = files.list().map_err(Error::io("folder"))?;
        // The manifest goes first: a half-removed index must not look like a damaged one.
        names.sort_by_key(|name| name != crate::manifest::MANIFEST);
        for name in names {
            files.remove(&name).map_err(Error::io(&name))?;
        }
        Ok(Self { files: Some(files), ..Self::in_memory(limits) })
    }

    /// An empty index that is filled in any order, not in that of LSNs: with every document there is,
    /// or from several logs. Until [`Index::limit_covered`] says otherwise it covers nothing. Given
    /// files, whatever lies in their folder is removed.
    pub fn begin(limits: Limits, files: Option<Arc<dyn Files>>) -> Result<Self> {
        let mut index = match files {
            Some(files) => Self::create(limits, files)?,
            None => Self::in_memory(limits),
        };
        index.durable.limit = Some(0);
        Ok(index)
    }

    /// Says how far manifests may claim to cover, where changes do not come in the order of LSNs:
    /// only up to an LSN of which everything was applied. While there is a limit a manifest is
    /// written by [`Index::checkpoint`] alone. `None` says that all changes from now on lie above
    /// what was applied, and come in order.
    pub fn limit_covered(&mut self, limit: Option<u64>) {
        self.durable.limit = limit;
    }

    /// Opens the index on disk; an empty one if there is none.
    ///
    /// Everything written above [`Index::covered_lsn`] has to be applied again, in the order of
    /// LSNs: every deletion, and the present version of every document with
    /// `replaces: Some(itself)`. [`Error::Damaged`] says that a file is lost or changed: then
    /// [`Index::create`] and apply every document there is.
    pub fn open(limits: Limits, files: Arc<dyn Files>) -> Result<Self> {
        let names = files.list().map_err(Error::io("folder"))?;
        let Some(manifest) = Manifest::load(files.as_ref(), &names)? else {
            return Self::create(limits, files);
        };
        let mut slots = vec![];
        for listed in &manifest.segments {
            slots.push(open_segment(files.as_ref(), &names, listed, Trust::Checksums)?);
        }
        // Only now, and only here: while the index runs, an unlisted file may be in the making.
        let listed: Vec<String> = manifest.segments.iter().map(|s| file_name(s.id)).collect();
        for name in names.iter().filter(|name| *name != crate::manifest::MANIFEST) {
            if !listed.contains(name) {
                files.remove(name).map_err(Error::io(name))?;
            }
        }
        let Manifest { generation, covered, applied, next_id, .. } = manifest;
        Ok(Self {
            limits,
            lsn: covered,
            slots,
            next_id,
            files: Some(files),
            pending: Pending::default(),
            durable: Durable { generation, covered, found: Some(applied), ..Durable::default() },
        })
    }

    /// Reads all files that the manifest names and checks every byte and every reference in them,
    /// without changing anything. Returns how many segments there are. An index that is in use may replace
    /// its manifest meanwhile and remove what only the old one named: then the new one is checked.
    pub fn check(files: &dyn Files) -> Result<usize> {
        let mut replaced = 0;
        loop {
            let names = files.list().map_err(Error::io("folder"))?;
            let Some(manifest) = Manifest::load(files, &names)? else { return Ok(0) };
            let mut segments = manifest.segments.iter();
            let checked = segments.try_for_each(|listed| {
                open_segment(files, &names, listed, Trust::Nothing).map(drop)
            });
            let Err(error) = checked else { return Ok(manifest.segments.len()) };
            let now = Manifest::load(files, &names)?.map(|manifest| manifest.generation);
            replaced += 1;
            if now == Some(manifest.generation) || replaced >= CHECK_REPLACED_MAX {
                return Err(error);
            }
        }
    }

    /// The newest LSN that the files knew when the index was opened; nothing when there were no
    /// files. If the owner's data ends before it, the index knows writes that were lost, and has to
    /// be built anew.
    #[must_use]
    pub fn found_lsn(&self) -> Option<u64> {
        self.durable.found
    }

    /// Everything at or below this LSN survives a crash inside the index. What was kept only for
    /// replaying it (`gone`) may be dropped.
    #[must_use]
    pub fn covered_lsn(&self) -> u64 {
        self.durable.covered
    }

    /// Makes everything durable, on this thread: for a clean stop. Install the results of all jobs
    /// first; what a job still holds, and what is newer, is not covered.
    pub fn checkpoint(&mut self) -> Result<()> {
        self.publish();
        for slot in self.slots.iter_mut().filter(|slot| slot.state == State::Open) {
            slot.state = State::Frozen;
        }
        self.run_jobs()?;
        match self.persist(Reach::AllSegments) {
            Some(job) => self.install(job.run()),
            None => Ok(()),
        }
    }

    /// A job that makes files of all segments in memory, however small: for an owner who has to
    /// free memory or to shorten what a crash would replay. Nothing
    /// while another such job is out.
    pub fn take_flush_job(&mut self) -> Option<Job> {
        self.persist(Reach::AllSegments)
    }

    /// Bytes of segments in memory that [`Index::take_flush_job`] would make files of.
    #[must_use]
    pub fn bytes_without_file(&self) -> usize {
        if self.files.is_none() || self.durable.limit.is_some() {
            return 0;
        }
        let in_memory = |slot: &&Slot| slot.state == State::Settled && slot.file.is_none();
        self.slots.iter().filter(in_memory).map(|slot| slot.data.size()).sum()
    }

    /// The job that writes the manifest, if it is time.
    pub(super) fn manifest_job(&mut self) -> Option<Job> {
        if self.durable.limit.is_some() {
            None
        } else if self.durable.changes >= self.limits.manifest_changes_max {
            self.persist(Reach::AllSegments)
        } else if self.durable.dirty && !self.waits_for_older() {
            self.persist(Reach::LastFile)
        } else {
            None
        }
    }

    /// Whether a job still works on something older than a file, which the manifest could not
    /// name: it is worth waiting for.
    fn waits_for_older(&self) -> bool {
        let end = self.listed_end(Reach::AllSegments);
        self.slots[end..].iter().any(|slot| slot.file.is_some())
    }

    /// Notes which files a job replaced and whether it made one.
    pub(super) fn files_changed(&mut self, replaced: &Range<usize>, with_new: bool) {
        let gone: Vec<u64> =
            self.slots[replaced.clone()].iter().filter_map(|slot| slot.file).collect();
        self.durable.dirty |= with_new || !gone.is_empty();
        self.durable.obsolete.extend(gone);
    }

    fn persist(&mut self, reach: Reach) -> Option<Job> {
        let files = self.files.clone()?;
        if self.durable.writing {
            return None;
        }
        let end = self.listed_end(reach);
        let covered = self.lsn_before(end).min(self.durable.limit.unwrap_or(u64::MAX));
        let (mut segments, mut inputs, mut documents) = (vec![], vec![], 0);
        for position in 0..end {
            let file = self.slots[position].file;
            let id = file.unwrap_or_else(|| self.new_id());
            let slot = &mut self.slots[position];
            let PartData::Segment(segment) = &*slot.data else { continue };
            segments.push(Listed {
                id,
                documents: segment.documents().len(),
                check: segment.check(),
                dead: slot.dead.clone(),
            });
            if file.is_none() {
                documents += u64::from(slot.live());
                slot.state = State::Busy;
                inputs.push(Unwritten { id: slot.id, file: id, data: slot.data.clone() });
            }
        }
        self.durable.writing = true;
        self.durable.dirty = false;
        let changes = std::mem::take(&mut self.durable.changes);
        let obsolete = std::mem::take(&mut self.durable.obsolete);
        let generation = self.durable.generation + 1;
        let (applied, next_id) = (self.lsn, self.next_id);
        let manifest = Manifest { generation, covered, applied, next_id, segments };
        let work = Persist { files, manifest, inputs, obsolete, changes };
        Some(Job { kind: JobKind::Manifest, documents, work: Work::Persist(work) })
    }

    /// How many of the oldest parts the manifest can name: files, and segments that no job holds.
    fn listed_end(&self, reach: Reach) -> usize {
        let can = |slot: &&Slot| slot.file.is_some() || slot.state == State::Settled;
        let end = self.slots.iter().take_while(can).count();
        match reach {
            Reach::AllSegments => end,
            Reach::LastFile => {
                let last = self.slots[..end].iter().rposition(|slot| slot.file.is_some());
                last.map_or(0, |last| last + 1)
            }
        }
    }

    /// The highest LSN of which nothing lies behind the first `end` parts.
    fn lsn_before(&self, end: usize) -> u64 {
        let behind = self.slots[end..].iter().map(|slot| slot.data.documents().lsn_low());
        let lowest = behind.chain(self.pending.lsn_low()).min();
        lowest.map_or(self.lsn, |lowest| lowest.saturating_sub(1))
    }

    pub(super) fn install_persisted(&mut self, work: Persist) {
        for Unwritten { id, file, data } in work.inputs {
            if let Some(slot) = self.slots.iter_mut().find(|slot| slot.id == id) {
                slot.data = data;
                slot.file = Some(file);
                slot.state = State::Settled;
            }
        }
        self.durable.writing = false;
        self.durable.generation = work.manifest.generation;
        self.durable.covered = work.manifest.covered;
    }

    /// After a manifest could not be written: everything is as before.
    pub(super) fn take_back(&mut self, work: Persist) {
        let ids: Vec<u64> = work.inputs.iter().map(|input| input.id).collect();
        self.release(&ids);
        self.durable.writing = false;
        self.durable.dirty = true;
        self.durable.changes += work.changes;
        self.durable.obsolete.extend(work.obsolete);
    }
}

fn open_segment(
    files: &dyn Files,
    names: &[String],
    listed: &Listed,
    trust: Trust,
) -> Result<Slot> {
    let name = file_name(listed.id);
    if !names.contains(&name) {
        return Err(Error::damaged(format!("{name} is lost")));
    }
    let bytes = files.map(&name).map_err(Error::io(&name))?;
    let segment =
        Segment::open(bytes, trust).map_err(|error| Error::damaged(format!("{name}: {error}")))?;
    if segment.check() != listed.check || segment.documents().len() != listed.documents {
        return Err(Error::damaged(format!("{name} is another file")));
    }
    Ok(Slot {
        id: listed.id,
        data: Arc::new(PartData::Segment(segment)),
        dead: listed.dead.clone(),
        state: State::Settled,
        file: Some(listed.id),
    })
}
