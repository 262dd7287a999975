//! Readers of the change feed, each in its own way, and what each of them has learnt.

use crate::support::Random;
use armilla_engine::Container;
use armilla_engine::feed::{Positions, Start};
use armilla_engine::partition::Partition;
use armilla_engine::ranges::EpkSpan;
use armilla_engine::versions::VersionKind;
use armilla_model::lsn::Lsn;
use armilla_model::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Partition key and id.
pub(crate) type Key = (String, String);

fn key_of(item: &Value) -> Key {
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap().to_owned();
    (text("pk"), text("id"))
}

fn version_of(item: &Value) -> i64 {
    item.get("version").and_then(Value::as_i64).unwrap()
}

/// A reader of last versions.
pub(crate) struct Reader {
    how: How,
    span: EpkSpan,
    page_size: usize,
    /// The last version seen of each item.
    pub(crate) seen: BTreeMap<Key, i64>,
    /// The last transaction seen of each logical partition.
    order: BTreeMap<String, u64>,
}

/// Where a reader is.
enum How {
    /// Range by range as SDKs do it: pieces of the key space, each with its position.
    Ranges(Vec<(EpkSpan, Lsn)>),
    /// All ranges at once, by the server.
    Across(Option<String>),
}

impl Reader {
    pub(crate) fn by_ranges(span: EpkSpan, page_size: usize) -> Self {
        Self::new(How::Ranges(vec![(span.clone(), Lsn(0))]), span, page_size)
    }

    pub(crate) fn across(span: EpkSpan, page_size: usize) -> Self {
        Self::new(How::Across(None), span, page_size)
    }

    fn new(how: How, span: EpkSpan, page_size: usize) -> Self {
        Self { how, span, page_size, seen: BTreeMap::new(), order: BTreeMap::new() }
    }

    pub(crate) fn covers(&self, container: &Container, pk: &str) -> bool {
        self.span.contains(&super::feed::epk(container, pk))
    }

    /// Reads one page somewhere; says how many changes came.
    pub(crate) fn poll(&mut self, container: &Arc<Container>, random: &mut Random) -> usize {
        let (span, page_size) = (&self.span, self.page_size);
        let items = match &mut self.how {
            How::Across(token) => {
                let positions = token.as_deref().map(|token| Positions::parse(token).unwrap());
                let read = |partition: &Partition, span: &EpkSpan, start, count| {
                    container.read_changes(partition, span, start, count)
                };
                let page = container
                    .read_across(span, Start::Beginning, positions.as_ref(), page_size, read)
                    .unwrap();
                *token = Some(page.positions.to_string());
                page.items
            }
            How::Ranges(pieces) => {
                let at = random.below(pieces.len() as u64) as usize;
                let (piece, lsn) = pieces.swap_remove(at);
                let mut parts = container.partitions_in(&piece);
                // A range that was split is gone on with as its children, from the same position.
                let (partition, part) = parts.remove(0);
                pieces.extend(parts.into_iter().map(|(_, part)| (part, lsn)));
                let page = container
                    .read_changes(&partition, &part, Start::After(lsn), page_size)
                    .unwrap();
                assert!(page.position >= lsn);
                for item in &page.items {
                    assert!(item.lsn > lsn && item.lsn <= page.position);
                }
                pieces.push((part, page.position));
                page.items
            }
        };
        for item in &items {
            let document = json::parse(&item.text).unwrap();
            let key = key_of(&document);
            let last = self.order.entry(key.0.clone()).or_default();
            assert!(item.lsn.0 >= *last, "{key:?}: {} after {last}", item.lsn);
            *last = item.lsn.0;
            self.seen.insert(key, version_of(&document));
        }
        items.len()
    }

    /// Reads until nothing comes any more; there must be an end.
    pub(crate) fn drain(&mut self, container: &Arc<Container>, random: &mut Random) {
        let mut quiet = 0;
        for _ in 0..100_000 {
            quiet = if self.poll(container, random) == 0 { quiet + 1 } else { 0 };
            if quiet > 100 {
                return;
            }
        }
        panic!("the feed does not end");
    }
}

/// A reader of all versions and deletes, which plays them back.
pub(crate) struct Replayer {
    pieces: Vec<(EpkSpan, Lsn)>,
    /// The container as the log tells it: the text of every item.
    pub(crate) items: BTreeMap<Key, String>,
    pub(crate) expired: usize,
}

impl Replayer {
    /// Begins now; the container is empty.
    pub(crate) fn new(container: &Arc<Container>) -> Self {
        let partition = container.partitions()[0].clone();
        let span = EpkSpan::all();
        let page = container.read_versions(&partition, &span, Start::Now, 1).unwrap();
        assert!(page.items.is_empty());
        Self { pieces: vec![(span, page.position)], items: BTreeMap::new(), expired: 0 }
    }

    pub(crate) fn drain(&mut self, container: &Arc<Container>, page_size: usize) {
        let mut done = Vec::new();
        while let Some((piece, lsn)) = self.pieces.pop() {
            for (partition, part) in container.partitions_in(&piece) {
                let page = container
                    .read_versions(&partition, &part, Start::After(lsn), page_size)
                    .unwrap();
                let ended = page.items.is_empty();
                for version in page.items {
                    let before = version.previous.as_ref().map(text_of);
                    let after = version.current.as_ref().map(text_of);
                    let item = json::parse(version.current.or(version.previous).unwrap().as_ref());
                    let key = key_of(&item.unwrap());
                    let known = self.items.remove(&key);
                    match version.kind {
                        VersionKind::Create => assert_eq!((&before, &known), (&None, &None)),
                        _ => assert_eq!(before, known, "{key:?} at {}", version.lsn),
                    }
                    assert_eq!(
                        after.is_none(),
                        matches!(version.kind, VersionKind::Delete | VersionKind::Expire)
                    );
                    self.expired += usize::from(version.kind == VersionKind::Expire);
                    if let Some(after) = after {
                        self.items.insert(key, after);
                    }
                }
                let target = if ended { &mut done } else { &mut self.pieces };
                target.push((part, page.position));
            }
        }
        self.pieces = done;
    }
}

fn text_of(text: &bytes::Bytes) -> String {
    String::from_utf8(text.to_vec()).unwrap()
}
