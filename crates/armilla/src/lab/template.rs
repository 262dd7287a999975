//! Items and parameters with gaps: `{post.id}`, `{count comment}`, `{cut 100 post.content}`.
//!
//! A string that is one gap takes the value as it is, a number stays a number; other strings are
//! filled in as text. A table with `each` and `item` becomes an array with one element per child.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::{Map, Value};

/// A value with gaps.
#[derive(Clone, Debug)]
pub(crate) enum Template {
    /// No gaps.
    Constant(Value),
    /// One gap and nothing around it.
    Gap(Gap),
    /// Text with gaps.
    Text(Vec<Piece>),
    Object(Vec<(String, Self)>),
    Array(Vec<Self>),
    /// One element per child: the way to the children, and what is made of each.
    Each(Vec<String>, Box<Self>),
}

/// A part of a text.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Literal(String),
    Gap(Gap),
}

/// What fills a gap.
#[derive(Clone, Debug)]
pub(crate) enum Gap {
    /// The value at a path.
    Path(Vec<String>),
    /// The number of children.
    Count(String),
    /// The first characters of the value at a path.
    Cut(usize, Vec<String>),
}

/// Where gaps are filled from.
pub(crate) trait Gaps {
    /// The value at a path.
    fn value(&self, path: &[String]) -> Option<Value>;
    /// The number of children of a kind.
    fn count(&self, entity: &str) -> Option<u64>;
    /// Calls for each child on the way.
    fn each(
        &self,
        way: &[String],
        make: &mut dyn FnMut(&dyn Gaps) -> Result<(), String>,
    ) -> Result<(), String>;
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Template {
    /// Reads a value with gaps.
    pub(crate) fn new(value: Value) -> Result<Self, String> {
        Ok(match value {
            Value::String(text) => Self::of_text(&text)?,
            Value::Array(values) => {
                Self::Array(values.into_iter().map(Self::new).collect::<Result<_, _>>()?)
            }
            Value::Object(members) if members.contains_key("each") => Self::of_each(members)?,
            Value::Object(members) => Self::Object(
                members
                    .into_iter()
                    .map(|(name, value)| Ok((name, Self::new(value)?)))
                    .collect::<Result<_, String>>()?,
            ),
            constant => Self::Constant(constant),
        })
    }

    fn of_each(mut members: Map<String, Value>) -> Result<Self, String> {
        let way = match members.remove("each") {
            Some(Value::String(way)) => vec![way],
            Some(Value::Array(way)) => {
                way.iter().filter_map(|step| step.as_str().map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        };
        match (way.is_empty(), members.remove("item"), members.is_empty()) {
            (false, Some(item), true) => Ok(Self::Each(way, Box::new(Self::new(item)?))),
            _ => Err("'each' names children and comes with 'item' alone".to_owned()),
        }
    }

    fn of_text(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once('{') {
            let (inside, after) =
                behind.split_once('}').ok_or_else(|| format!("'{text}' has a gap without end"))?;
            if !before.is_empty() {
                pieces.push(Piece::Literal(before.to_owned()));
            }
            pieces.push(Piece::Gap(Gap::parse(inside)?));
            rest = after;
        }
        if pieces.is_empty() {
            return Ok(Self::Constant(Value::from(text)));
        }
        if !rest.is_empty() {
            pieces.push(Piece::Literal(rest.to_owned()));
        }
        Ok(match pieces.as_slice() {
            [Piece::Gap(gap)] => Self::Gap(gap.clone()),
            _ => Self::Text(pieces),
        })
    }

    /// The value with its gaps filled.
    pub(crate) fn fill(&self, scope: &dyn Gaps) -> Result<Value, String> {
        Ok(match self {
            Self::Constant(value) => value.clone(),
            Self::Gap(gap) => gap.fill(scope)?,
            Self::Text(pieces) => {
                let mut text = String::new();
                for piece in pieces {
                    match piece {
                        Piece::Literal(literal) => text.push_str(literal),
                        Piece::Gap(gap) => match gap.fill(scope)? {
                            Value::String(found) => text.push_str(&found),
                            other => text.push_str(&other.to_string()),
                        },
                    }
                }
                Value::from(text)
            }
            Self::Object(members) => {
                let mut object = Map::with_capacity(members.len());
                for (name, template) in members {
                    object.insert(name.clone(), template.fill(scope)?);
                }
                Value::Object(object)
            }
            Self::Array(values) => Value::Array(
                values.iter().map(|value| value.fill(scope)).collect::<Result<_, _>>()?,
            ),
            Self::Each(way, item) => {
                let mut values = Vec::new();
                scope.each(way, &mut |child| {
                    values.push(item.fill(child)?);
                    Ok(())
                })?;
                Value::Array(values)
            }
        })
    }

    /// The template of a property.
    pub(crate) fn member(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => {
                members.iter().find(|(found, _)| found == name).map(|(_, member)| member)
            }
            _ => None,
        }
    }
}

impl Gap {
    fn parse(text: &str) -> Result<Self, String> {
        let path = |text: &str| text.split('.').map(str::to_owned).collect::<Vec<_>>();
        let words: Vec<&str> = text.split_whitespace().collect();
        match words.as_slice() {
            ["count", entity] => Ok(Self::Count((*entity).to_owned())),
            ["cut", count, of] => {
                let count = count.parse().map_err(|_| format!("'{text}': cut how many?"))?;
                Ok(Self::Cut(count, path(of)))
            }
            [only] => Ok(Self::Path(path(only))),
            _ => Err(format!("'{{{text}}}' is no gap: a path, 'count ENTITY' or 'cut N PATH'")),
        }
    }

    fn fill(&self, scope: &dyn Gaps) -> Result<Value, String> {
        let missing = |path: &[String]| format!("nothing is known as '{}'", path.join("."));
        match self {
            Self::Path(path) => scope.value(path).ok_or_else(|| missing(path)),
            Self::Count(entity) => scope
                .count(entity)
                .map(Value::from)
                .ok_or_else(|| format!("'{entity}' cannot be counted here")),
            Self::Cut(count, path) => match scope.value(path) {
                Some(Value::String(text)) => {
                    Ok(Value::from(text.chars().take(*count).collect::<String>()))
                }
                _ => Err(missing(path)),
            },
        }
    }
}
