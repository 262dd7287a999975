//! Immutable segments over (path, value): the index of one partition.
//!
//! This crate answers "which documents have this value at this path, in which order, and how
//! many?" It knows bytes, LSNs and document numbers; it does not know JSON, SQL, containers or the
//! storage engine, and it is handed its disk ([`Files`]). It holds nothing that could be lost:
//! whoever owns it can always build it again from the items.
//!
//! # The idea
//!
//! ```text
//!  oldest                                                        newest
//!  ┌───────────────┐ ┌─────────┐ ┌────┐ ┌────┐ ┌──┐┌──┐ ┌─┐┌─┐  ← parts of a view
//!  │ segment 512k  │ │ seg 64k │ │ 8k │ │ 8k │ │1k││1k│ │c││c│
//!  └───────────────┘ └─────────┘ └────┘ └────┘ └──┘└──┘ └─┘└─┘
//!   files                          memory                tail: small chunks
//! ```
//!
//! An index is a list of *parts* in the order of their age. A part is immutable: a table of
//! documents sorted by (epk, docno) under *local numbers* 0, 1, 2 …, and per path a sorted
//! dictionary of values, for each value the list of local numbers, and mostly a column (value
//! ordinal per document). What changes is beside it: a [`DeadSet`] that says which documents were
//! replaced or deleted. A live document lies in exactly one part.
//!
//! Every published group of writes becomes a small part, a chunk of the tail. Full tails are
//! sealed into segments, eight neighbours merge into one, and large ones become files. Chunks and
//! segments answer the same questions through the same type, [`Part`].
//!
//! # Writing
//!
//! One thread, the committer, owns the [`Index`]. It calls [`Index::apply`] for each change in
//! LSN order and [`Index::publish`] once per group, which gives a [`View`]. After publishing it
//! asks [`Index::take_job`] for work and sends it to other threads; what [`Job::run`] returns
//! comes back to the committer for [`Index::install`], and is in the next published view. Deaths
//! that came while a job ran are applied again by `install`. Several jobs may be out at once.
//!
//! Jobs differ in size by a factor of thousands ([`Job::documents`]): give the large ones a
//! thread of their own, or a long merge holds up the seals. If seals do not keep up nothing breaks,
//! but queries visit more parts ([`Index::part_count`]).
//!
//! An upsert has to name the version it replaces; the index does not look for one by itself.
//! Every document is applied, also one without terms: the document table is the one map from
//! `_rid` to key.
//!
//! # On disk
//!
//! With [`Files`], large segments become files, and a `MANIFEST` names them together with their
//! dead and the *covered* LSN. [`Index::open`] takes up what the manifest names; its owner then
//! applies everything above [`Index::covered_lsn`] again, which does no harm if it was applied
//! before. [`Index::checkpoint`] makes all of it durable for a clean stop. If a file is lost or
//! damaged, opening fails with [`Error::Damaged`]; [`Index::create`] and a scan of all items
//! build the index anew. While it runs, an index removes exactly the files that its own merges
//! replaced, after a manifest without them is durable. The modules `segment`, `documents`,
//! `path_index` and `manifest` describe every byte.
//!
//! # Reading
//!
//! A query takes the current `Arc<View>` and visits its parts one by one. Nothing is locked and
//! nothing changes under it.
//!
//! ```
//! use armilla_index::{
//!     Change, Direction, Document, EpkRange, Index, Limits, Terms, ValueRange, Version, intersect,
//! };
//!
//! const TYPE: u32 = 1;
//! const LIKES: u32 = 2;
//!
//! let mut index = Index::in_memory(Limits::default());
//! for docno in 1..=3u8 {
//!     let mut terms = Terms::new();
//!     terms.push(TYPE, if docno == 2 { b"comment" } else { b"post" });
//!     terms.push(LIKES, &[10 * docno]);
//!     let document = Document {
//!         epk: vec![7; 16],
//!         docno: docno.into(),
//!         lsn: docno.into(),
//!         hash: 0xabc,
//!         ts: 1_700_000_000,
//!         ttl: 0,
//!         size: 120,
//!     };
//!     index.apply(Change::Upsert { document, terms, replaces: None });
//! }
//! let view = index.publish();
//!
//! // COUNT(type = "post"), from the dictionary.
//! assert_eq!(view.count(TYPE, &ValueRange::exact("post")), 2);
//!
//! // type = "post" AND likes >= 20: the shorter list first, the other predicate by column.
//! let mut found = vec![];
//! for part in view.parts() {
//!     let Some(likes) = part.path(LIKES) else { continue };
//!     let wanted = likes.ordinals(&ValueRange::at_least([20]));
//!     for local in part.postings(TYPE, &ValueRange::exact("post")) {
//!         let local = local.get();
//!         if !part.is_dead(local) && likes.contains(local, &wanted) {
//!             found.push(part.document(local).docno);
//!         }
//!     }
//!     // The same by intersecting two lists, each of one value and therefore sorted.
//!     let posts = part.postings(TYPE, &ValueRange::exact("post"));
//!     let thirty = part.postings(LIKES, &ValueRange::exact([30]));
//!     assert_eq!(intersect(posts, thirty), [2]);
//! }
//! assert_eq!(found, [3]);
//!
//! // ORDER BY likes DESC: values of all parts in order.
//! let first = view.walk(LIKES, &ValueRange::all(), Direction::Descending).next().unwrap();
//! assert_eq!(first.step.value.bytes, [30]);
//!
//! // Documents of one logical partition in the order of docno, behind a continuation.
//! let epk = vec![7; 16];
//! let rest = view.documents(&EpkRange::exact(epk.clone()), Some((&epk, 1)), Direction::Ascending);
//! assert_eq!(rest.map(|found| found.document.docno).collect::<Vec<_>>(), [2, 3]);
//!
//! // A deletion is seen by the next view, not by this one.
//! let version = Version { epk: epk.clone(), docno: 3, lsn: Some(3) };
//! index.apply(Change::Delete { lsn: 4, version });
//! assert!(index.publish().find(&epk, 3).is_none());
//! assert!(view.find(&epk, 3).is_some());
//! ```
//!
//! | need | call |
//! |---|---|
//! | equality, IN, range, prefix | [`Part::postings`] or [`PathIndex::ordinals`] + [`PathIndex::lists`] |
//! | a second predicate | [`PathIndex::ordinals`] once, then [`Column::matches`] or [`PathIndex::contains`] per document |
//! | OR, NOT | [`LocalSet`]: [`Part::set`], [`PathIndex::set`], `union`, `complement`, `subtract_dead` |
//! | inside one logical partition | [`Part::locals_of`], then [`within`] on sorted lists or the column over the run |
//! | COUNT | [`View::count`], [`View::live_count`]; inside partitions [`View::count_in`], [`View::live_count_in`] |
//! | ORDER BY with few values to pass | [`View::walk`] over all parts, [`Part::walk`] in one |
//! | ORDER BY, TOP k | per part [`PathIndex::lists`] from either end, or the filtered documents through [`PathIndex::column`]; values only of what is kept |
//! | MIN, MAX, GROUP BY, DISTINCT | [`PathIndex::walk`] with list lengths, or the column |
//! | `_rid` to key | [`View::find`] |
//! | all documents in order | [`View::documents`] |
//! | not expired | [`Part::ts_and_ttl`], by the rule of whoever asks |
//!
//! Three things to remember:
//!
//! * Lists, sets of a [`PathIndex`] and walks contain **dead documents**; test with
//!   [`Part::is_dead`]. Counts, [`Part::set`], [`View::find`] and [`View::documents`] do not.
//! * A path may be **multi-valued** in one part and not in another
//!   ([`PathIndex::is_multi_valued`]): then a document stands in several lists and there is no
//!   column. There is none either where few documents have the path.
//! * A **cut** value ([`Value::cut`]) stands for every value that was shortened to it; it orders
//!   behind the whole value with the same bytes and has to be checked on the item.

pub mod limits;

mod column;
mod deleted;
mod document;
mod documents;
mod error;
mod files;
mod index;
mod job;
mod layout;
mod locals;
mod manifest;
mod merge;
mod part;
mod path_builder;
mod path_index;
mod range;
mod segment;
mod tail;
mod terms;
mod tiers;
mod view;

pub use column::Column;
pub use deleted::DeadSet;
pub use document::{Document, DocumentRef, Version};
pub use error::{Error, Result};
pub use files::{Files, MemoryFiles, Output};
pub use index::{Change, Index};
pub use job::{Job, JobKind, JobResult};
pub use limits::Limits;
pub use locals::{Local, LocalSet, intersect, within};
pub use manifest::MANIFEST_FORMAT;
pub use part::Part;
pub use path_index::{Direction, PathIndex, Step};
pub use range::{ByteRange, EpkRange, ValueRange};
pub use segment::SEGMENT_FORMAT;
pub use terms::{Terms, Value};
pub use view::{DocumentsInOrder, Located, LocatedStep, ValuesInOrder, View};
