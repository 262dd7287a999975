//! A container's whole definition.

use super::encryption;
use super::indexing::IndexingPolicy;
use super::search::{self, FullTextPath, VectorEmbedding};
use super::{list, refuse, text};
use crate::error::{Error, Result};
use crate::limits::{COMPUTED_PROPERTIES_MAX, UNIQUE_KEY_PATHS_MAX, UNIQUE_KEYS_MAX};
use crate::partition_key::{Definition, Hashing};
use crate::path::{Path, Segment, split_segments};
use crate::ttl::Liveness;
use crate::value::{Object, Value};

/// A property that is computed from the item by a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputedProperty {
    /// Its name.
    pub name: String,
    /// `SELECT VALUE … FROM c`.
    pub query: String,
}

/// Everything a container's definition says, typed, and as clients read it back.
#[derive(Clone, Debug)]
pub struct ContainerPolicy {
    /// Where the partition key is and how it is hashed.
    pub partition_key: Definition,
    /// What is indexed.
    pub indexing: IndexingPolicy,
    /// Unique keys: each a list of paths.
    pub unique_keys: Vec<Vec<Path>>,
    /// Time to live in seconds; `-1` switches it on without a default; `None` is off.
    pub default_ttl: Option<i32>,
    /// Computed properties.
    pub computed: Vec<ComputedProperty>,
    /// Planar geometry instead of the globe.
    pub geometry: bool,
    /// Minutes for which every version is kept; 0 is off.
    pub retention_minutes: u32,
    /// Vector properties.
    pub vectors: Vec<VectorEmbedding>,
    /// Text properties.
    pub full_text: Vec<FullTextPath>,
    /// The definition with every default filled in, without `id` and system properties.
    pub definition: Object,
}

/// Members that the server writes and ignores on the way in.
const SYSTEM: [&str; 13] = [
    "_rid",
    "_ts",
    "_self",
    "_etag",
    "_docs",
    "_sprocs",
    "_triggers",
    "_udfs",
    "_conflicts",
    "statistics",
    "materializedViews",
    "rekeyOf",
    "rekeyedInto",
];

impl ContainerPolicy {
    /// What a reader at the second `now` must know to leave expired items out.
    pub fn liveness(&self, now: u64) -> Liveness {
        Liveness { now, default_ttl: self.default_ttl }
    }

    /// Reads a definition that a client sends, and fills in its defaults.
    pub fn parse(body: &Value) -> Result<Self> {
        let body = &*encryption::with_wide_key(body);
        IndexingPolicy::check_depth(body.get("indexingPolicy"))?;
        let policy = Self::parse_stored(body)?;
        let own_ttl_path = body.get("ttlPropertyPath").filter(|path| !matches!(path, Value::Null));
        if own_ttl_path.is_some() && policy.default_ttl.is_none() {
            return refuse("'ttlPropertyPath' has no effect without 'defaultTtl': give both.");
        }
        analytical_ttl(body.get("analyticalStorageTtl"))?;
        search::check_numbers(body)?;
        IndexingPolicy::check_new(body.get("indexingPolicy"))?;
        encryption::check(body, &policy.partition_key)?;
        Ok(policy)
    }

    /// Reads a definition that is stored. What is refused to clients since it was written is
    /// taken: a container that is there goes on.
    pub fn parse_stored(body: &Value) -> Result<Self> {
        let Some(members) = body.as_object() else {
            return refuse("The definition of a container must be a JSON object.");
        };
        let (partition_key, partition_key_echo) = partition_key(body.get("partitionKey"))?;
        let (indexing, mut indexing_echo) = IndexingPolicy::parse(body.get("indexingPolicy"))?;
        if !is_system_key(&partition_key_echo) {
            indexing_echo = IndexingPolicy::without_kinds(&indexing_echo);
        }
        let default_ttl = default_ttl(body.get("defaultTtl"))?;
        if default_ttl.is_some() && !indexing.enabled {
            return refuse("'defaultTtl' needs an index: the indexing mode may not be 'none'.");
        }
        let vectors = search::vectors(body.get("vectorEmbeddingPolicy"))?;
        let full_text = search::full_text(body.get("fullTextPolicy"))?;
        search::check_indexes(&indexing_echo, &vectors, &full_text)?;
        let geometry = geometry(body.get("geospatialConfig"))?;
        check_bounding_boxes(&indexing_echo, geometry)?;
        let mut definition = Object::new();
        definition.insert("indexingPolicy", indexing_echo);
        definition.insert("partitionKey", partition_key_echo);
        definition.insert("conflictResolutionPolicy", conflict_resolution(body)?);
        definition.insert(
            "geospatialConfig",
            one_member("type", if geometry { "Geometry".into() } else { "Geography".into() }),
        );
        for (name, value) in members.iter() {
            let known = definition.contains(name) || &**name == "id" || SYSTEM.contains(&&**name);
            if !known && !matches!(value, Value::Null) {
                definition.insert(name.clone(), value.clone());
            }
        }
        Ok(Self {
            unique_keys: unique_keys(body.get("uniqueKeyPolicy"))?,
            computed: computed(body)?,
            retention_minutes: retention(body.get("changeFeedPolicy"))?,
            partition_key,
            indexing,
            default_ttl,
            geometry,
            vectors,
            full_text,
            definition,
        })
    }

    /// The ids of the client encryption keys that the container's clients use.
    pub fn encryption_key_ids(&self) -> impl Iterator<Item = &str> {
        encryption::key_ids(&self.definition)
    }

    /// True for a container that was made without a partition key, by a client older than them: its
    /// items have none, and its clients may leave it out.
    pub fn has_system_key(&self) -> bool {
        self.definition.get("partitionKey").is_some_and(is_system_key)
    }

    /// Checks that `next` changes only what may change.
    pub fn check_replacement(&self, next: &Self) -> Result<()> {
        let changed = |name: &str| {
            let given = next.definition.get(name);
            given.is_some() && given != self.definition.get(name)
        };
        // The same key may be written with and without its version.
        let moved = next.partition_key != self.partition_key;
        let fixed = [
            ("partitionKey", moved),
            ("uniqueKeyPolicy", changed("uniqueKeyPolicy")),
            ("conflictResolutionPolicy", changed("conflictResolutionPolicy")),
        ];
        if let Some((name, _)) = fixed.iter().find(|(_, changed)| *changed) {
            return refuse(format!("'{name}' cannot be changed once the container exists."));
        }
        if next.definition.get(encryption::MEMBER) != self.definition.get(encryption::MEMBER) {
            // In the service's words, which .NET's tests look for.
            return refuse(format!(
                "'{}' cannot be changed as part of collection replace operation.",
                encryption::MEMBER
            ));
        }
        let kept = |vector: &VectorEmbedding| next.vectors.contains(vector);
        if !self.vectors.iter().all(kept) {
            return refuse(
                "Paths in existing embedding policy cannot be modified in Collection Replace. They can only be added.",
            );
        }
        super::search::check_replaced_indexes(&self.definition, &next.definition)
    }
}

fn one_member(name: &str, value: Value) -> Value {
    Value::object(Object::from_unique(vec![(name.into(), value)]))
}

/// True for the definition of a key that the server made up, because the client knew of none.
fn is_system_key(key: &Value) -> bool {
    key.get("systemKey").and_then(Value::as_bool) == Some(true)
}

fn partition_key(value: Option<&Value>) -> Result<(Definition, Value)> {
    let Some(value) = value.filter(|value| value.as_object().is_some()) else {
        return refuse("'partitionKey' is missing: a container needs a partition key definition.");
    };
    let kind = match value.get("kind") {
        None | Some(Value::Null) => "Hash",
        Some(_) => text(value, "kind")?,
    };
    let given = value.get("version").filter(|version| !matches!(version, Value::Null));
    let version = match given {
        // The Java SDK writes the name of its constant.
        Some(Value::String(name)) if &**name == "V1" => 1,
        Some(Value::String(name)) if &**name == "V2" => 2,
        Some(version) => version.as_i64().unwrap_or(0),
        // The protocol is older than its second hash.
        None if kind == "Hash" => 1,
        None => 2,
    };
    let hashing = match (kind, version) {
        ("Hash", 1) => Hashing::V1,
        ("Hash", 2) => Hashing::V2,
        ("MultiHash", 2) => Hashing::MultiHash,
        ("MultiHash", _) => return refuse("A MultiHash partition key must have version 2."),
        ("Hash", _) => return refuse("The partition key version must be 1 or 2."),
        _ => {
            return refuse(format!(
                "The partition key kind '{kind}' is not one of Hash, MultiHash."
            ));
        }
    };
    let written = list(value, "paths")?;
    let path = |path: &Value| match path.as_str() {
        Some(text) => key_path(text),
        None => refuse(format!("A partition key path must be a string, and is {path}.")),
    };
    let definition =
        Definition { paths: written.iter().map(path).collect::<Result<_>>()?, hashing };
    definition.check()?;
    let mut echo = Object::new();
    echo.insert("paths", Value::array(written.to_vec()));
    echo.insert("kind", kind.into());
    // Clients take a definition without a version for version 1, and expect it back without one.
    if given.is_some() || hashing != Hashing::V1 {
        echo.insert("version", version.into());
    }
    if is_system_key(value) {
        echo.insert("systemKey", true.into());
    }
    Ok((definition, Value::object(echo)))
}

/// A path of the partition key. Names with anything unusual in them must be quoted.
fn key_path(written: &str) -> Result<Path> {
    let usual = |letter: char| {
        letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.' | '$' | '@' | ':')
    };
    let plain = |segment: &Segment| match segment {
        Segment::Bare(name) => name.chars().all(usual),
        Segment::Quoted(_) => true,
    };
    let acceptable = split_segments(written).is_ok_and(|segments| segments.iter().all(plain));
    match Path::parse(written) {
        Ok(path) if acceptable => Ok(path),
        _ => refuse(format!(
            "The partition key component definition path '{written}' could not be accepted. Partition key paths must contain only valid characters and not contain a trailing slash or wildcard character."
        )),
    }
}

/// Planar shapes need a box to be indexed in; the globe has its own.
fn check_bounding_boxes(indexing: &Value, geometry: bool) -> Result<()> {
    for index in list(indexing, "spatialIndexes")? {
        let boxed = index.get("boundingBox").is_some_and(|bounds| !matches!(bounds, Value::Null));
        if boxed != geometry {
            return refuse(if geometry {
                "A spatial index of a Geometry container needs a 'boundingBox'."
            } else {
                "A spatial index of a Geography container takes no 'boundingBox'."
            });
        }
    }
    Ok(())
}

fn default_ttl(value: Option<&Value>) -> Result<Option<i32>> {
    let Some(value) = value.filter(|value| !matches!(value, Value::Null)) else { return Ok(None) };
    match value.as_i64().and_then(|seconds| i32::try_from(seconds).ok()) {
        Some(seconds) if seconds == -1 || seconds > 0 => Ok(Some(seconds)),
        _ => refuse(format!(
            "The value {value} specified for 'defaultTtl' is invalid: use -1 or a number of seconds from 1 to 2147483647."
        )),
    }
}

fn unique_keys(value: Option<&Value>) -> Result<Vec<Vec<Path>>> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let keys = list(value, "uniqueKeys")?;
    if keys.len() > UNIQUE_KEYS_MAX {
        return refuse(format!("At most {UNIQUE_KEYS_MAX} unique keys are allowed."));
    }
    let key = |key: &Value| {
        let paths = list(key, "paths")?;
        if paths.is_empty() || paths.len() > UNIQUE_KEY_PATHS_MAX {
            return refuse(format!("A unique key has 1 to {UNIQUE_KEY_PATHS_MAX} paths."));
        }
        let path = |path: &Value| Path::parse(path.as_str().unwrap_or_default());
        paths.iter().map(path).collect()
    };
    keys.iter().map(key).collect()
}

/// Refuses a time to live in the analytical store that is none. There is no such store here: the member is kept and
/// answered, and has no effect.
fn analytical_ttl(value: Option<&Value>) -> Result<()> {
    let seconds = match value {
        None | Some(Value::Null) => return Ok(()),
        Some(value) => value.as_i64(),
    };
    match seconds {
        Some(seconds) if (-1..=i64::from(i32::MAX)).contains(&seconds) => Ok(()),
        _ => refuse(format!(
            "'analyticalStorageTtl' is -1 (for ever), 0 (off) or a number of seconds up to {}.",
            i32::MAX
        )),
    }
}

fn conflict_resolution(body: &Value) -> Result<Value> {
    let given = body.get("conflictResolutionPolicy");
    let field = |name: &str| given.and_then(|given| given.get(name)).and_then(Value::as_str);
    let mode = match field("mode").unwrap_or("LastWriterWins") {
        mode if mode.eq_ignore_ascii_case("LastWriterWins") => "LastWriterWins",
        mode if mode.eq_ignore_ascii_case("Custom") => "Custom",
        mode => return refuse(format!("The conflict resolution mode '{mode}' is not known.")),
    };
    let path = field("conflictResolutionPath").filter(|path| !path.is_empty());
    let path = path.unwrap_or(if mode == "Custom" { "" } else { "/_ts" });
    let mut policy = Object::new();
    policy.insert("mode", mode.into());
    policy.insert("conflictResolutionPath", path.into());
    let procedure = field("conflictResolutionProcedure").unwrap_or_default();
    policy.insert("conflictResolutionProcedure", procedure.into());
    Ok(Value::object(policy))
}

fn geometry(value: Option<&Value>) -> Result<bool> {
    match value.and_then(|value| value.get("type")).map(|kind| kind.as_str()) {
        None | Some(Some("Geography")) => Ok(false),
        Some(Some("Geometry")) => Ok(true),
        Some(_) => refuse("'geospatialConfig.type' must be 'Geography' or 'Geometry'."),
    }
}

fn computed(body: &Value) -> Result<Vec<ComputedProperty>> {
    let properties = list(body, "computedProperties").map_err(|error| {
        Error::bad_request(format!("One of the specified inputs is invalid: {error}"))
    })?;
    if properties.len() > COMPUTED_PROPERTIES_MAX {
        return refuse(format!(
            "At most {COMPUTED_PROPERTIES_MAX} computed properties are allowed."
        ));
    }
    let property = |property: &Value| {
        let name = text(property, "name")?;
        let reserved = ["id", "_rid", "_ts", "_self", "_etag", "_attachments", "_lsn", "ttl"];
        if name.is_empty() || reserved.contains(&name) {
            return refuse(format!("A computed property may not be called '{name}'."));
        }
        Ok(ComputedProperty { name: name.to_owned(), query: text(property, "query")?.to_owned() })
    };
    properties.iter().map(property).collect()
}

fn retention(value: Option<&Value>) -> Result<u32> {
    let Some(minutes) = value.and_then(|value| value.get("retentionDuration")) else {
        return Ok(0);
    };
    match minutes.as_i64().and_then(|minutes| u32::try_from(minutes).ok()) {
        Some(minutes) => Ok(minutes),
        None => {
            refuse("'changeFeedPolicy.retentionDuration' must be a number of minutes, 0 or more.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::NESTING_MAX;

    fn parse(text: &str) -> Result<ContainerPolicy> {
        ContainerPolicy::parse(&crate::json::parse(text.as_bytes()).unwrap())
    }

    #[test]
    fn defaults_are_filled_in_and_unknown_members_kept() {
        let policy =
            parse(r#"{"id":"c","partitionKey":{"paths":["/pk"]},"newer":1,"_rid":"x"}"#).unwrap();
        let echo = policy.definition;
        assert_eq!(
            echo.get("partitionKey").unwrap().to_json(),
            r#"{"paths":["/pk"],"kind":"Hash"}"#
        );
        assert_eq!(policy.partition_key.hashing, Hashing::V1);
        assert_eq!(echo.get("newer"), Some(&Value::from(1)));
        assert!(!echo.contains("_rid") && !echo.contains("id") && !echo.contains("defaultTtl"));
    }

    #[test]
    fn what_is_refused() {
        for text in [
            r#"{"id":"c"}"#,
            r#"{"partitionKey":{"paths":["/a","/b"]}}"#,
            r#"{"partitionKey":{"paths":["/a","/b"],"kind":"MultiHash","version":1}}"#,
            r#"{"partitionKey":{"paths":["/a"],"kind":"Range"}}"#,
            r#"{"partitionKey":{"paths":["/a"]},"defaultTtl":0}"#,
            r#"{"partitionKey":{"paths":["/a"]},"indexingPolicy":{"indexingMode":"none"},"defaultTtl":5}"#,
            r#"{"partitionKey":{"paths":["/a"]},"uniqueKeyPolicy":{"uniqueKeys":[{"paths":[]}]}}"#,
            r#"{"partitionKey":{"paths":["/a"]},"ttlPropertyPath":"/created"}"#,
            r#"{"partitionKey":{"paths":["/a"]},"indexingPolicy":{"spatialIndexes":[{"path":"/s/*","types":[]}]}}"#,
            r#"{"partitionKey":{"paths":["/a","/b","/c","/d"],"kind":"MultiHash"}}"#,
        ] {
            assert!(parse(text).is_err(), "{text} was accepted");
        }
    }

    /// A container that an older server has stored must not keep its folder from opening.
    #[test]
    fn what_is_refused_to_clients_is_read_where_it_is_stored() {
        for text in [
            r#"{"partitionKey":{"paths":["/a"]},"ttlPropertyPath":"/created"}"#,
            r#"{"partitionKey":{"paths":["/a"]},"indexingPolicy":{"spatialIndexes":[{"path":"/s/*","types":[]}]}}"#,
        ] {
            let stored = crate::json::parse(text.as_bytes()).unwrap();
            assert!(ContainerPolicy::parse_stored(&stored).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_time_to_live_in_the_analytical_store_is_checked() {
        let policy = |ttl: &str| {
            parse(&format!(r#"{{"partitionKey":{{"paths":["/a"]}},"analyticalStorageTtl":{ttl}}}"#))
        };
        for ttl in ["-1", "0", "3600", "2147483647", "null"] {
            assert!(policy(ttl).is_ok(), "{ttl}");
        }
        for ttl in ["-2", "2147483648", "1.5", "\"forever\"", "true", "[1]"] {
            assert!(policy(ttl).is_err(), "{ttl} was accepted");
        }
    }

    #[test]
    fn paths_for_vectors_and_texts_have_a_maximum() {
        let policy = |count: usize| {
            let listed = |more: &str| {
                let entry = |number: usize| format!(r#"{{"path":"/p{number}"{more}}}"#);
                (0..count).map(entry).collect::<Vec<_>>().join(",")
            };
            let vectors =
                listed(r#","dataType":"float32","dimensions":4,"distanceFunction":"cosine""#);
            [
                format!(r#""vectorEmbeddingPolicy":{{"vectorEmbeddings":[{vectors}]}}"#),
                format!(r#""fullTextPolicy":{{"fullTextPaths":[{}]}}"#, listed("")),
            ]
            .map(|member| parse(&format!(r#"{{"partitionKey":{{"paths":["/a"]}},{member}}}"#)))
        };
        assert!(policy(100).iter().all(Result::is_ok));
        assert!(policy(101).iter().all(Result::is_err));
    }

    /// A tree of so many levels overflowed the stack, and the process ended.
    #[test]
    fn indexing_paths_are_no_deeper_than_items() {
        let policy = |steps: usize, list: &str| {
            let path = format!("/{}?", "a/".repeat(steps));
            parse(&format!(
                r#"{{"partitionKey":{{"paths":["/a"]}},"indexingPolicy":{{"includedPaths":[{{"path":"/*"}}{}],"excludedPaths":[{}]}}}}"#,
                if list == "includedPaths" {
                    format!(r#",{{"path":"{path}"}}"#)
                } else {
                    String::new()
                },
                if list == "excludedPaths" {
                    format!(r#"{{"path":"{path}"}}"#)
                } else {
                    String::new()
                },
            ))
        };
        for list in ["includedPaths", "excludedPaths"] {
            assert!(policy(NESTING_MAX, list).is_ok());
            assert!(policy(NESTING_MAX + 1, list).is_err());
            assert!(policy(500_000, list).is_err());
        }
    }

    #[test]
    fn a_unique_key_may_lie_on_the_partition_key() {
        let text = r#"{"partitionKey":{"paths":["/a"]},"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/a"]}]},"defaultTtl":-1,"ttlPropertyPath":"/created"}"#;
        assert_eq!(parse(text).unwrap().unique_keys, [[Path::parse("/a").unwrap()]]);
    }

    #[test]
    fn versions_are_answered_as_they_were_given() {
        for (given, answered) in [
            (r#"{"paths":["/a"],"version":1}"#, r#"{"paths":["/a"],"kind":"Hash","version":1}"#),
            (r#"{"paths":["/a"],"version":2}"#, r#"{"paths":["/a"],"kind":"Hash","version":2}"#),
            (r#"{"paths":["/a"],"version":"V1"}"#, r#"{"paths":["/a"],"kind":"Hash","version":1}"#),
            (r#"{"paths":["/a"],"version":"V2"}"#, r#"{"paths":["/a"],"kind":"Hash","version":2}"#),
            (
                r#"{"paths":["/a","/b"],"kind":"MultiHash","version":"V2"}"#,
                r#"{"paths":["/a","/b"],"kind":"MultiHash","version":2}"#,
            ),
            (
                r#"{"paths":["/a","/b"],"kind":"MultiHash"}"#,
                r#"{"paths":["/a","/b"],"kind":"MultiHash","version":2}"#,
            ),
            (
                r#"{"paths":["/_partitionKey"],"systemKey":true}"#,
                r#"{"paths":["/_partitionKey"],"kind":"Hash","systemKey":true}"#,
            ),
        ] {
            let policy = parse(&format!(r#"{{"partitionKey":{given}}}"#)).unwrap();
            assert_eq!(policy.definition.get("partitionKey").unwrap().to_json(), answered);
        }
    }

    /// Python's suite looks for their absence, .NET's for their presence in containers without a key.
    #[test]
    fn kinds_of_index_are_answered_for_containers_as_old_as_they_are() {
        let indexing =
            r#"{"includedPaths":[{"path":"/*","indexes":[{"kind":"Range","dataType":"Number"}]}]}"#;
        for (key, answered) in [
            (r#"{"paths":["/a"]}"#, r#"[{"path":"/*"}]"#),
            (
                r#"{"paths":["/_partitionKey"],"systemKey":true}"#,
                r#"[{"path":"/*","indexes":[{"kind":"Range","dataType":"Number"}]}]"#,
            ),
        ] {
            let text = format!(r#"{{"partitionKey":{key},"indexingPolicy":{indexing}}}"#);
            let policy = parse(&text).unwrap();
            let echo = policy.definition.get("indexingPolicy").unwrap();
            assert_eq!(echo.get("includedPaths").unwrap().to_json(), answered);
        }
    }

    #[test]
    fn the_partition_key_stays() {
        let versioned = parse(r#"{"partitionKey":{"paths":["/a"],"version":1}}"#).unwrap();
        let before = parse(r#"{"partitionKey":{"paths":["/a"]}}"#).unwrap();
        assert!(before.check_replacement(&versioned).is_ok());
        let after = parse(r#"{"partitionKey":{"paths":["/b"]}}"#).unwrap();
        assert!(before.check_replacement(&before.clone()).is_ok());
        assert!(before.check_replacement(&after).is_err());
    }
    #[test]
    fn an_index_over_vectors_stays_as_it_was() {
        let with = |indexes: &str| {
            parse(&format!(
                r#"{{"partitionKey":{{"paths":["/a"]}},"indexingPolicy":{{"vectorIndexes":[{indexes}]}},
                "vectorEmbeddingPolicy":{{"vectorEmbeddings":[{{"path":"/v","dataType":"float32","dimensions":4,"distanceFunction":"cosine"}}]}}}}"#
            ))
            .unwrap()
        };
        let flat = with(r#"{"path":"/v","type":"flat"}"#);
        assert!(flat.check_replacement(&with(r#"{"path":"/v","type":"flat"}"#)).is_ok());
        assert!(with("").check_replacement(&flat).is_ok());
        assert!(flat.check_replacement(&with("")).is_ok());
        assert!(flat.check_replacement(&with(r#"{"path":"/v","type":"quantizedFlat"}"#)).is_err());
    }
}
