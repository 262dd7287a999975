//! Which kind of item one is: what it says itself, or which properties it has.
//!
//! Where items have a property like `type`, its value is the kind. Where they have none, items that share most of their properties are one kind,
//! if every kind then has properties of its own: one of these is its *mark*, and tells it from the others without looking at all of them.

use armilla_model::value::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Properties that say which kind of item one is.
const SAYING: [&str; 7] =
    ["type", "kind", "docType", "entityType", "_type", "discriminator", "$type"];
/// Items of which kinds are made; fewer say too little about which properties belong together.
const SAMPLE_MIN: usize = 12;
/// Kinds that are told apart by their properties.
const MARKED_MAX: usize = 8;
/// The least part of a sample that a kind has.
const PART_MIN: f64 = 0.05;
/// Sets of properties that have so much in common are one kind.
const COMMON_MIN: f64 = 0.6;
/// Properties that all items of a kind have, and no others.
const MARKS_MIN: usize = 2;
/// What the name of a kind with a mark begins with.
const WITH: &str = "with ";

/// How items of a container are told apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KindRule {
    /// A property says it.
    Says(Arc<str>),
    /// Each kind has a property of its own.
    Marks(Arc<[Arc<str>]>),
}

impl KindRule {
    /// The rule that items of a container follow, if there is one.
    pub(crate) fn of(items: &[Value], key: &[String]) -> Option<Self> {
        let says = |name: &&&str| {
            let texts =
                items.iter().filter(|item| item.get(name).and_then(Value::as_str).is_some());
            !items.is_empty() && texts.count() * 10 >= items.len() * 9
        };
        match SAYING.iter().find(says) {
            Some(name) => Some(Self::Says(Arc::from(*name))),
            None => marks(items, key).map(|marks| Self::Marks(marks.into())),
        }
    }

    /// The kind of an item.
    pub(crate) fn kind(&self, item: &Value) -> Option<String> {
        match self {
            Self::Says(name) => item.get(name).and_then(Value::as_str).map(str::to_owned),
            Self::Marks(marks) => {
                let mark = marks.iter().find(|mark| item.get(mark).is_some())?;
                Some(format!("{WITH}{mark}"))
            }
        }
    }

    /// The mark of a kind that has one.
    pub(crate) fn mark(&self, kind: &str) -> Option<Arc<str>> {
        match self {
            Self::Says(_) => None,
            Self::Marks(marks) => {
                marks.iter().find(|mark| kind.strip_prefix(WITH) == Some(&***mark)).cloned()
            }
        }
    }
}

/// Names of properties, but for those that every item has to have.
fn names<'i>(item: &'i Value, key: &[String]) -> BTreeSet<&'i str> {
    let is_own = |name: &str| {
        name != "id"
            && !crate::live::is_system(name)
            && !key.iter().any(|path| path.trim_start_matches('/').split('/').next() == Some(name))
    };
    let members = item.as_object().into_iter().flat_map(|members| members.iter());
    members.map(|(name, _)| &**name).filter(|name| is_own(name)).collect()
}

/// A mark for each kind; nothing when there is one kind, or they cannot be told apart for certain.
fn marks(items: &[Value], key: &[String]) -> Option<Vec<Arc<str>>> {
    if items.len() < SAMPLE_MIN {
        return None;
    }
    let mut groups: Vec<Vec<BTreeSet<&str>>> = Vec::new();
    for item in items {
        let names = names(item, key);
        let is_near = |group: &Vec<BTreeSet<&str>>| group.iter().any(|known| common(known, &names));
        // One item may show that two groups are one.
        let (near, mut far): (Vec<_>, Vec<_>) = groups.into_iter().partition(is_near);
        let mut joined: Vec<BTreeSet<&str>> = near.into_iter().flatten().collect();
        joined.push(names);
        far.push(joined);
        groups = far;
    }
    let is_large = |group: &Vec<BTreeSet<&str>>| {
        group.len() as f64 >= items.len() as f64 * PART_MIN && group.len() > 1
    };
    if !(2..=MARKED_MAX).contains(&groups.len()) || !groups.iter().all(is_large) {
        return None;
    }
    let mark = |at: usize| -> Option<Arc<str>> {
        let own = groups.get(at)?;
        let others = || groups.iter().enumerate().filter(move |(other, _)| *other != at);
        let is_mark = |name: &&&str| {
            own.iter().all(|names| names.contains(**name))
                && others().all(|(_, group)| group.iter().all(|names| !names.contains(**name)))
        };
        let found: Vec<&&str> = own.first()?.iter().filter(is_mark).collect();
        // The first by name: the same one from any sample.
        found.first().filter(|_| found.len() >= MARKS_MIN).map(|name| Arc::from(**name))
    };
    let mut marks = (0..groups.len()).map(mark).collect::<Option<Vec<_>>>()?;
    marks.sort_unstable();
    Some(marks)
}

/// Whether two sets of properties have most in common.
fn common(one: &BTreeSet<&str>, other: &BTreeSet<&str>) -> bool {
    let (shared, all) = (one.intersection(other).count(), one.union(other).count());
    shared as f64 >= all as f64 * COMMON_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(texts: &[&str]) -> Vec<Value> {
        let all = (0..24).map(|number| texts[number % texts.len()].replace('#', "x"));
        all.map(|text| armilla_model::json::parse(text.as_bytes()).unwrap()).collect()
    }

    const POST: &str = r#"{"id":"1","postId":"1","title":"t","body":"b","tags":[]}"#;
    const COMMENT: &str = r#"{"id":"2","postId":"1","author":"a","text":"x"}"#;

    fn rule(texts: &[&str]) -> Option<KindRule> {
        KindRule::of(&items(texts), &["/postId".to_owned()])
    }

    #[test]
    fn kinds_are_told_apart_by_their_properties() {
        let rule = rule(&[POST, COMMENT, COMMENT]).unwrap();
        assert_eq!(rule, KindRule::Marks([Arc::from("author"), Arc::from("body")].into()));
        let kinds: Vec<_> =
            items(&[POST, COMMENT]).iter().filter_map(|one| rule.kind(one)).collect();
        assert_eq!(kinds[..2], ["with body", "with author"]);
        assert_eq!(rule.mark("with body"), Some(Arc::from("body")));
        assert_eq!(rule.mark("body"), None);
    }

    #[test]
    fn what_an_item_says_comes_first() {
        let typed = r#"{"id":"1","type":"post","title":"t","body":"b"}"#;
        let other = r#"{"id":"1","type":"like","who":"t","when":"b"}"#;
        assert_eq!(rule(&[typed, other]), Some(KindRule::Says("type".into())));
    }

    #[test]
    fn properties_that_some_items_lack_make_no_kinds() {
        let long = r#"{"id":"1","name":"n","mail":"m","phone":"p","city":"c","note":"n"}"#;
        let short = r#"{"id":"1","name":"n","mail":"m","phone":"p"}"#;
        assert_eq!(rule(&[long, short]), None);
        // Nothing but one property tells these apart.
        let mail = r#"{"id":"1","mail":"m"}"#;
        let phone = r#"{"id":"1","phone":"p"}"#;
        assert_eq!(rule(&[mail, phone]), None);
        assert_eq!(rule(&[POST]), None);
        assert_eq!(KindRule::of(&items(&[POST, COMMENT])[..6], &[]), None);
    }
}
