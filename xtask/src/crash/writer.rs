//! One client of the crash test: picks an operation, sends it, tells the model what became of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use serde_json::{Value, json};

use super::model::{
    Effect, IDS_PER_WRITER, JOURNAL, JournalReport, KEY_HEADER, Partition, key_header, user_part,
};
use super::{CONTAINER, brief};
use crate::Outcome;
use crate::rest::{Answer, Client, unix_seconds};

/// Most items are small, a few fill many blocks.
const FILLER_BYTES_MAX: usize = 1500;
const FILLER_BYTES_LARGE: usize = 150_000;
const LARGE_ONE_IN: u32 = 60;
/// Items in one transactional batch.
const BATCH_ITEMS: std::ops::RangeInclusive<u64> = 2..=6;

/// Works on one partition until the server is gone.
pub(crate) struct Writer<'a> {
    client: Client,
    partition: &'a mut Partition,
    random: fastrand::Rng,
    killed: &'a AtomicBool,
    journal: JournalReport,
    until: Option<Instant>,
}

/// A request and what it makes of the items it touches.
struct Operation {
    verb: &'static str,
    path: String,
    headers: Vec<(&'static str, String)>,
    body: Option<Value>,
    effect: Effect,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(
        client: Client,
        partition: &'a mut Partition,
        random: fastrand::Rng,
        killed: &'a AtomicBool,
    ) -> Self {
        let journal = JournalReport::default();
        Self { client, partition, random, killed, journal, until: None }
    }

    /// Ends at a moment, if nobody kills the server before.
    pub(crate) fn until(mut self, moment: Instant) -> Self {
        self.until = Some(moment);
        self
    }

    /// Writes until the connection breaks. It may break only after the kill was announced.
    pub(crate) fn run(mut self) -> Outcome<JournalReport> {
        loop {
            if self.until.is_some_and(|until| Instant::now() >= until) {
                return Ok(self.journal);
            }
            let goes_on = if self.random.u32(0..6) == 0 {
                self.write_journal()?
            } else if self.random.u32(0..6) == 0 {
                self.write_brief()?
            } else {
                let operation = self.choose();
                self.perform(operation)?
            };
            if !goes_on {
                return Ok(self.journal);
            }
        }
    }

    /// Sends one operation on the own partition; false when the server is gone.
    fn perform(&mut self, operation: Operation) -> Outcome<bool> {
        let Operation { verb, path, headers, body, effect } = operation;
        match self.send(verb, &path, &self.partition.key.clone(), &headers, body.as_ref())? {
            None => self.partition.doubt(effect),
            Some(answer) if answer.is_success() && answer.status != 207 => {
                let effect = as_answered(effect, &answer.body)?;
                self.partition.acknowledge(effect);
                return Ok(true);
            }
            Some(answer) if is_busy(&answer) => return Ok(true),
            Some(answer) => {
                return Err(
                    format!("{verb} {path} answered {}: {}", answer.status, answer.body).into()
                );
            }
        }
        Ok(false)
    }

    /// One batch on the shared partition: add an entry and count it. False when the server is gone.
    fn write_journal(&mut self) -> Outcome<bool> {
        self.partition.marker += 1;
        let entry = format!("{}-{}", self.partition.key, self.partition.marker);
        let body = json!([
            {"operationType": "Create", "resourceBody": {"id": entry, "pk": JOURNAL, "kind": "entry"}},
            {"operationType": "Patch", "id": "counter", "resourceBody":
                {"operations": [{"op": "incr", "path": "/count", "value": 1}]}},
        ]);
        let path = format!("{CONTAINER}/docs");
        match self.send("POST", &path, JOURNAL, &batch_headers(), Some(&body))? {
            None => {
                self.journal.doubt = Some(entry);
                Ok(false)
            }
            Some(answer) if answer.status == 200 => {
                self.journal.acknowledged.push(entry);
                Ok(true)
            }
            Some(answer) if is_busy(&answer) => Ok(true),
            Some(answer) => {
                Err(format!("a journal batch answered {}: {}", answer.status, answer.body).into())
            }
        }
    }

    /// One write in the partition of items that come to an end. False when the server is gone.
    fn write_brief(&mut self) -> Outcome<bool> {
        let id = format!("brief-{}", self.random.u64(0..brief::IDS));
        let key = self.partition.brief.key.clone();
        let (path, sent) = (brief::path_of(&id), unix_seconds());
        if self.partition.brief.has(&id) && self.random.u32(0..4) == 0 {
            match self.send("DELETE", &path, &key, &[], None)? {
                None => {
                    self.partition.brief.doubt(&id, None, sent);
                    return Ok(false);
                }
                Some(answer) if answer.status == 204 => {
                    self.partition.brief.acknowledge(&id, None);
                }
                Some(answer) if answer.status == 404 => {
                    self.partition.brief.acknowledge_absence(&id)?;
                }
                Some(answer) if is_busy(&answer) => {}
                Some(answer) => {
                    let (status, body) = (answer.status, answer.body);
                    return Err(format!("DELETE {path} answered {status}: {body}").into());
                }
            }
            return Ok(true);
        }
        let life = brief::LIVES[self.random.usize(0..brief::LIVES.len())];
        let content = self.partition.brief.content(&id, life);
        let headers = [("x-ms-documentdb-is-upsert", "True".to_owned())];
        let path = format!("{CONTAINER}/docs");
        match self.send("POST", &path, &key, &headers, Some(&content))? {
            None => {
                self.partition.brief.doubt(&id, Some(content), sent);
                Ok(false)
            }
            Some(answer) if answer.is_success() => {
                self.partition.brief.acknowledge(&id, Some(answer.body));
                Ok(true)
            }
            Some(answer) if is_busy(&answer) => Ok(true),
            Some(answer) => {
                Err(format!("an upsert answered {}: {}", answer.status, answer.body).into())
            }
        }
    }

    /// The answer, or nothing when the server was killed meanwhile.
    fn send(
        &self,
        verb: &str,
        path: &str,
        key: &str,
        headers: &[(&'static str, String)],
        body: Option<&Value>,
    ) -> Outcome<Option<Answer>> {
        let key = key_header(key);
        let mut all = vec![(KEY_HEADER, key.as_str())];
        all.extend(headers.iter().map(|(name, value)| (*name, value.as_str())));
        match self.client.send(verb, path, &all, body) {
            Ok(answer) => Ok(Some(answer)),
            Err(_) if self.killed.load(Ordering::SeqCst) => Ok(None),
            Err(error) => Err(format!("{verb} {path} broke off before the kill: {error}").into()),
        }
    }

    fn choose(&mut self) -> Operation {
        if self.random.u32(0..5) == 0 {
            return self.batch();
        }
        let id = self.any_id();
        match self.partition.items.get(&id).cloned() {
            None if self.random.bool() => self.create(id),
            None => self.upsert(id),
            Some(item) => match self.random.u32(0..4) {
                0 => self.replace(id, &item),
                1 => self.upsert(id),
                2 => self.patch(id, &item),
                _ => self.delete(id),
            },
        }
    }

    fn create(&mut self, id: String) -> Operation {
        let content = self.content(&id);
        self.write("POST", None, vec![], content, id)
    }

    fn upsert(&mut self, id: String) -> Operation {
        let content = self.content(&id);
        self.write("POST", None, vec![("x-ms-documentdb-is-upsert", "True".into())], content, id)
    }

    fn replace(&mut self, id: String, item: &Value) -> Operation {
        let content = self.content(&id);
        let etag = item.get("_etag").and_then(Value::as_str);
        let headers = match etag {
            Some(etag) if self.random.bool() => vec![("if-match", etag.to_owned())],
            _ => vec![],
        };
        self.write("PUT", Some(&id.clone()), headers, content, id)
    }

    fn patch(&mut self, id: String, item: &Value) -> Operation {
        self.partition.marker += 1;
        let marker = self.partition.marker;
        let body = json!({"operations": [
            {"op": "set", "path": "/marker", "value": marker},
            {"op": "incr", "path": "/patches", "value": 1},
        ]});
        let patched = patched(item, marker);
        Operation {
            verb: "PATCH",
            path: format!("{CONTAINER}/docs/{id}"),
            headers: vec![],
            body: Some(body),
            effect: vec![(id, Some(patched))],
        }
    }

    fn delete(&self, id: String) -> Operation {
        Operation {
            verb: "DELETE",
            path: format!("{CONTAINER}/docs/{id}"),
            headers: vec![],
            body: None,
            effect: vec![(id, None)],
        }
    }

    /// Several items change together, all with one marker.
    fn batch(&mut self) -> Operation {
        let mut ids: Vec<String> = Vec::new();
        for _ in 0..self.random.u64(BATCH_ITEMS) {
            let id = self.any_id();
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        self.partition.marker += 1;
        let marker = self.partition.marker;
        let (mut operations, mut effect) = (Vec::new(), Effect::new());
        for id in ids {
            let (operation, content) = self.batch_member(&id, marker);
            operations.push(operation);
            effect.push((id, content));
        }
        Operation {
            verb: "POST",
            path: format!("{CONTAINER}/docs"),
            headers: batch_headers(),
            body: Some(Value::Array(operations)),
            effect,
        }
    }

    fn batch_member(&mut self, id: &str, marker: u64) -> (Value, Option<Value>) {
        let content = content(&self.partition.key, id, marker, "in a batch");
        match self.partition.items.get(id) {
            None => (json!({"operationType": "Create", "resourceBody": content}), Some(content)),
            Some(item) => match self.random.u32(0..4) {
                0 => (json!({"operationType": "Delete", "id": id}), None),
                1 => {
                    let patch = json!({"operations": [
                        {"op": "set", "path": "/marker", "value": marker},
                        {"op": "incr", "path": "/patches", "value": 1},
                    ]});
                    let patched = patched(item, marker);
                    (
                        json!({"operationType": "Patch", "id": id, "resourceBody": patch}),
                        Some(patched),
                    )
                }
                2 => (json!({"operationType": "Upsert", "resourceBody": content}), Some(content)),
                _ => (
                    json!({"operationType": "Replace", "id": id, "resourceBody": content}),
                    Some(content),
                ),
            },
        }
    }

    fn write(
        &self,
        verb: &'static str,
        at: Option<&str>,
        headers: Vec<(&'static str, String)>,
        content: Value,
        id: String,
    ) -> Operation {
        let path = match at {
            Some(id) => format!("{CONTAINER}/docs/{id}"),
            None => format!("{CONTAINER}/docs"),
        };
        Operation {
            verb,
            path,
            headers,
            body: Some(content.clone()),
            effect: vec![(id, Some(content))],
        }
    }

    fn content(&mut self, id: &str) -> Value {
        self.partition.marker += 1;
        let size = if self.random.u32(0..LARGE_ONE_IN) == 0 {
            FILLER_BYTES_LARGE
        } else {
            self.random.usize(0..FILLER_BYTES_MAX)
        };
        let filler: String =
            std::iter::repeat_with(|| self.random.alphanumeric()).take(size).collect();
        content(&self.partition.key, id, self.partition.marker, &filler)
    }

    fn any_id(&mut self) -> String {
        format!("item-{}", self.random.u64(0..IDS_PER_WRITER))
    }
}

fn content(key: &str, id: &str, marker: u64, filler: &str) -> Value {
    json!({"id": id, "pk": key, "marker": marker, "patches": 0, "filler": filler})
}

/// The user's part of an item after the patch that the writers send.
fn patched(item: &Value, marker: u64) -> Value {
    let mut patched = user_part(item);
    let patches = patched["patches"].as_u64().unwrap_or(0) + 1;
    patched["marker"] = json!(marker);
    patched["patches"] = json!(patches);
    patched
}

fn batch_headers() -> Vec<(&'static str, String)> {
    vec![
        ("x-ms-cosmos-is-batch-request", "True".into()),
        ("x-ms-cosmos-batch-atomic", "True".into()),
        ("x-ms-cosmos-batch-continue-on-error", "False".into()),
    ]
}

/// The server asked to come back later; nothing was done.
fn is_busy(answer: &Answer) -> bool {
    matches!(answer.status, 429 | 449)
}

/// The effect with the items as the server answered them, after a look that they are what was sent.
fn as_answered(effect: Effect, body: &Value) -> Outcome<Effect> {
    let answered: Vec<&Value> = match body {
        Value::Array(results) => results.iter().map(|result| &result["resourceBody"]).collect(),
        single => vec![single],
    };
    if answered.len() != effect.len() {
        return Err(
            format!("{} results came for {} operations", answered.len(), effect.len()).into()
        );
    }
    let paired = effect.into_iter().zip(answered).map(|((id, content), shown)| match content {
        None => Ok((id, None)),
        Some(content) if user_part(shown) == content => Ok((id, Some(shown.clone()))),
        Some(content) => {
            Err(format!("{id} was written as {content} and answered as {shown}").into())
        }
    });
    paired.collect()
}
