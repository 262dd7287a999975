//! The file of observations: what is known outlives the server.
//!
//! ```text
//! "ARMOBS1\n" | length u32 | CRC-32 u32 | JSON
//! ```
//!
//! It is written whole, aside, and renamed. Observations are nobody's data: a file that is damaged is set aside under
//! another name, the log names it, and observing begins anew.

mod sketches;

use super::workload::{Asked, Pattern, Shape, StepFigures, Trace, Verb, Workload};
use armilla_model::json;
use armilla_model::value::{Object, Value};
use armilla_storage::StoreError;
use armilla_storage::disk::Disk;
use std::path::Path;

/// Where it lies, below the data folder.
pub const FILE: &str = "advice/observed";
const SET_ASIDE: &str = "advice/observed.damaged";
const MAGIC: &[u8; 8] = b"ARMOBS1\n";

/// What was found at the start.
#[derive(Debug, PartialEq)]
pub enum Kept {
    /// Nothing: the first start.
    Nothing,
    /// What was observed before.
    Found(Box<Workload>),
    /// The file is damaged, and why; it was set aside.
    Damaged(&'static str),
}

/// Writes what was observed.
///
/// # Errors
///
/// When the disk refuses.
pub fn keep(disk: &dyn Disk, workload: &Workload) -> Result<(), StoreError> {
    let text = told(workload).to_json().into_bytes();
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&text).to_le_bytes());
    bytes.extend_from_slice(&text);
    disk.replace(Path::new(FILE), &bytes)
}

/// Reads what was observed before; a damaged file is set aside.
///
/// # Errors
///
/// When the disk refuses.
pub fn kept(disk: &dyn Disk) -> Result<Kept, StoreError> {
    let Some(bytes) = disk.read(Path::new(FILE))? else { return Ok(Kept::Nothing) };
    match read(&bytes) {
        Ok(workload) => Ok(Kept::Found(Box::new(workload))),
        Err(why) => {
            disk.rename(Path::new(FILE), Path::new(SET_ASIDE))?;
            tracing::warn!(
                file = FILE,
                why,
                set_aside = SET_ASIDE,
                "the file of observations is damaged; observing begins anew"
            );
            Ok(Kept::Damaged(why))
        }
    }
}

fn read(bytes: &[u8]) -> Result<Workload, &'static str> {
    let rest = bytes.strip_prefix(MAGIC).ok_or("it does not begin as such a file does")?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or("it is too short")?;
    let (sum, text) = rest.split_first_chunk::<4>().ok_or("it is too short")?;
    if u32::from_le_bytes(*length) as usize != text.len() {
        return Err("its length is not the one that was written");
    }
    if u32::from_le_bytes(*sum) != crc32fast::hash(text) {
        return Err("its checksum does not agree");
    }
    let value = json::parse(text).map_err(|_| "it is no JSON")?;
    workload(&value).ok_or("a member is missing")
}

fn number(value: u64) -> Value {
    i64::try_from(value).unwrap_or(i64::MAX).into()
}

fn text(value: &Option<String>) -> Value {
    value.as_deref().map_or(Value::Null, Value::from)
}

fn told(workload: &Workload) -> Value {
    let shapes = workload.shapes.iter().map(|shape| {
        Value::array(vec![
            shape.database.as_str().into(),
            shape.container.as_str().into(),
            shape.verb.name().into(),
            text(&shape.kind),
            shape.text.as_str().into(),
            shape.keyed.into(),
        ])
    });
    Value::object(Object::of([
        ("since", number(workload.since_millis)),
        ("until", number(workload.until_millis)),
        ("requests", workload.requests.into()),
        ("units", workload.units.into()),
        ("missed", number(workload.missed)),
        ("leftOut", number(workload.left_out)),
        ("shapes", Value::array(shapes.collect())),
        ("patterns", Value::array(workload.patterns.iter().map(told_pattern).collect())),
        ("containers", sketches::told(&workload.containers)),
    ]))
}

fn told_pattern(pattern: &Pattern) -> Value {
    let steps = pattern.steps.iter().map(|step| {
        let figures = [step.times, step.requests, step.units, step.rows, step.ranges];
        let figures = figures.into_iter().map(Value::from);
        Value::array(std::iter::once(number(step.shape as u64)).chain(figures).collect())
    });
    let asked = |asked: &Asked| {
        Value::array(vec![
            number(asked.shape as u64),
            text(&asked.key),
            text(&asked.item),
            text(&asked.query),
            text(&asked.written),
            asked.units.into(),
        ])
    };
    let traces =
        pattern.traces.iter().map(|trace| Value::array(trace.steps.iter().map(asked).collect()));
    Value::object(Object::of([
        ("head", number(pattern.head as u64)),
        ("writes", pattern.writes.into()),
        ("times", pattern.times.into()),
        ("steps", Value::array(steps.collect())),
        ("traces", Value::array(traces.collect())),
    ]))
}

fn workload(value: &Value) -> Option<Workload> {
    let whole = |name: &str| u64::try_from(value.get(name)?.as_i64()?).ok();
    let mut found = Workload {
        since_millis: whole("since")?,
        until_millis: whole("until")?,
        requests: value.get("requests")?.as_f64()?,
        units: value.get("units")?.as_f64()?,
        missed: whole("missed")?,
        left_out: whole("leftOut")?,
        ..Workload::default()
    };
    for row in value.get("shapes")?.as_array()? {
        let [database, container, verb, kind, query, keyed] = row.as_array()? else { return None };
        found.shape(Shape {
            database: database.as_str()?.to_owned(),
            container: container.as_str()?.to_owned(),
            verb: Verb::named(verb.as_str()?),
            kind: kind.as_str().map(str::to_owned),
            text: query.as_str()?.to_owned(),
            keyed: keyed.as_bool()?,
        })?;
    }
    for row in value.get("patterns")?.as_array()? {
        let read = pattern(row, found.shapes.len())?;
        found.patterns.push(read);
    }
    // Files of older versions have none.
    if let Some(containers) = value.get("containers") {
        found.containers = sketches::read(containers)?;
    }
    found.count_bytes();
    Some(found)
}

fn place(value: &Value, below: usize) -> Option<usize> {
    usize::try_from(value.as_i64()?).ok().filter(|place| *place < below)
}

fn pattern(value: &Value, shapes: usize) -> Option<Pattern> {
    let mut found = Pattern {
        head: place(value.get("head")?, shapes)?,
        writes: value.get("writes")?.as_bool()?,
        times: value.get("times")?.as_f64()?,
        ..Pattern::default()
    };
    for row in value.get("steps")?.as_array()? {
        let [shape, times, requests, units, rows, ranges] = row.as_array()? else { return None };
        found.steps.push(StepFigures {
            shape: place(shape, shapes)?,
            times: times.as_f64()?,
            requests: requests.as_f64()?,
            units: units.as_f64()?,
            rows: rows.as_f64()?,
            ranges: ranges.as_f64()?,
        });
    }
    for row in value.get("traces")?.as_array()? {
        let mut trace = Trace::default();
        for asked in row.as_array()? {
            let [shape, key, item, query, written, units] = asked.as_array()? else { return None };
            let text = |value: &Value| value.as_str().map(str::to_owned);
            trace.steps.push(Asked {
                shape: place(shape, shapes)?,
                key: text(key),
                item: text(item),
                query: text(query),
                written: text(written),
                units: units.as_f64()?,
            });
        }
        found.traces.push(trace);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use armilla_storage::disk::MemoryDisk;

    fn observed() -> Workload {
        let mut workload = Workload {
            since_millis: 5,
            until_millis: 9,
            requests: 2.0,
            units: 3.5,
            ..Workload::default()
        };
        let shape = Shape {
            database: "d".into(),
            container: "c".into(),
            verb: Verb::Read,
            kind: Some("post".into()),
            text: String::new(),
            keyed: true,
        };
        let shape = workload.shape(shape).unwrap();
        let step =
            StepFigures { shape, times: 1.0, requests: 1.0, units: 1.0, rows: 1.0, ranges: 1.0 };
        let asked = Asked {
            shape,
            key: Some("[1]".into()),
            item: Some("i".into()),
            units: 1.0,
            ..Asked::default()
        };
        workload.add(vec![(step, asked)], 1.0);
        let (sketch, room) = workload.sketch(&("d".to_owned(), "c".to_owned())).unwrap();
        let item = |text: &str| json::parse(text.as_bytes()).unwrap();
        let (before, after) = (item(r#"{"id":"1","l":[1]}"#), item(r#"{"id":"1","l":[1,2]}"#));
        let taken = sketch.kinds.written(Some("post"), &after, 1.0, room);
        sketch.kinds.replaced(Some("post"), &before, &after, 1.0);
        sketch.hot.add("[1]", 1.0);
        sketch.hours.add(7_200_000, 3.5, 3.5);
        workload.took(&("d".to_owned(), "c".to_owned()), taken);
        workload
    }

    #[test]
    fn what_is_kept_is_found_again() {
        let disk = MemoryDisk::new();
        assert_eq!(kept(&disk).unwrap(), Kept::Nothing);
        keep(&disk, &observed()).unwrap();
        let Kept::Found(found) = kept(&disk).unwrap() else { panic!("not found") };
        assert_eq!((found.shapes, found.patterns), (observed().shapes, observed().patterns));
        assert_eq!((found.requests, found.since_millis), (2.0, 5));
        let (sketch, kept) = (&found.containers, observed().containers);
        let of = ("d".to_owned(), "c".to_owned());
        assert_eq!((&sketch[&of].kinds, &sketch[&of].hot), (&kept[&of].kinds, &kept[&of].hot));
        assert_eq!(sketch[&of].hours.of, kept[&of].hours.of);
        assert_eq!(found.bytes, observed().bytes, "what is kept counts as before");
    }

    #[test]
    fn every_damaged_byte_is_noticed_and_the_file_set_aside() {
        let disk = MemoryDisk::new();
        keep(&disk, &observed()).unwrap();
        let whole = disk.read(Path::new(FILE)).unwrap().unwrap().to_vec();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x20;
            disk.replace(Path::new(FILE), &bytes).unwrap();
            assert!(matches!(kept(&disk).unwrap(), Kept::Damaged(_)), "byte {at}");
            assert_eq!(kept(&disk).unwrap(), Kept::Nothing);
            assert_eq!(disk.read(Path::new(SET_ASIDE)).unwrap().unwrap(), bytes);
        }
        for length in 0..whole.len() {
            disk.replace(Path::new(FILE), &whole[..length]).unwrap();
            assert!(matches!(kept(&disk).unwrap(), Kept::Damaged(_)), "{length} bytes");
        }
    }
}
