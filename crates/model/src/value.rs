//! JSON values, `undefined` included, and the one order all of them share.
//!
//! Values are cheap to clone: strings, arrays and objects are shared. Types sort
//! `undefined < null < false < true < numbers < strings < arrays < objects`; strings sort by their
//! UTF-8 bytes everywhere (index, evaluator, merges, tokens), so there is one order and not two.

use crate::number::Number;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// A JSON value, or its absence.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// Nothing there. Never part of a document or an answer; only expressions see it.
    #[default]
    Undefined,
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    String(Arc<str>),
    /// An array.
    Array(Arc<Vec<Self>>),
    /// An object, members in the order they were written.
    Object(Arc<Object>),
}

/// The members of an object in their order. Names are unique.
#[derive(Clone, Debug, Default)]
pub struct Object {
    members: Vec<(Arc<str>, Value)>,
}

/// The type of a value; the order of the variants is the order of types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// Absence.
    Undefined,
    /// `null`.
    Null,
    /// `true`, `false`.
    Bool,
    /// Numbers.
    Number,
    /// Strings.
    String,
    /// Arrays.
    Array,
    /// Objects.
    Object,
}

impl Value {
    /// A string value.
    pub fn string(text: impl Into<Arc<str>>) -> Self {
        Self::String(text.into())
    }

    /// An array value.
    pub fn array(elements: Vec<Self>) -> Self {
        Self::Array(Arc::new(elements))
    }

    /// An object value.
    pub fn object(object: Object) -> Self {
        Self::Object(Arc::new(object))
    }

    /// The value's type.
    pub fn kind(&self) -> Type {
        match self {
            Self::Undefined => Type::Undefined,
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Number(_) => Type::Number,
            Self::String(_) => Type::String,
            Self::Array(_) => Type::Array,
            Self::Object(_) => Type::Object,
        }
    }

    /// True for `undefined`.
    pub fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined)
    }

    /// True for anything but `undefined`.
    pub fn is_defined(&self) -> bool {
        !self.is_undefined()
    }

    /// The boolean, if it is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(bool) = self { Some(*bool) } else { None }
    }

    /// The number, if it is one.
    pub fn as_number(&self) -> Option<Number> {
        if let Self::Number(number) = self { Some(*number) } else { None }
    }

    /// The number as a double, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number().map(Number::as_f64)
    }

    /// The number as an integer, if the language takes it for one ([`Number::as_i64`]).
    pub fn as_i64(&self) -> Option<i64> {
        self.as_number().and_then(Number::as_i64)
    }

    /// The text, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The elements, if it is an array.
    pub fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(elements) = self { Some(elements) } else { None }
    }

    /// The members, if it is an object.
    pub fn as_object(&self) -> Option<&Object> {
        if let Self::Object(object) = self { Some(object) } else { None }
    }

    /// A member of an object; `None` for other types and absent members.
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.as_object().and_then(|object| object.get(name))
    }

    /// The total order over all values, `undefined` first. Equal here means equal in the language,
    /// but for NaN, which has one place here: numbers by value, objects as unordered maps.
    pub fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(left), Self::Bool(right)) => left.cmp(right),
            (Self::Number(left), Self::Number(right)) => left.total_cmp(*right),
            (Self::String(left), Self::String(right)) => left.as_bytes().cmp(right.as_bytes()),
            (Self::Array(left), Self::Array(right)) => order_sequences(left, right),
            (Self::Object(left), Self::Object(right)) => left.order(right),
            _ => self.kind().cmp(&other.kind()),
        }
    }

    /// Appends the value as compact JSON. Undefined members and elements are left out; a lone
    /// undefined writes nothing.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        self.write_with(out, &Number::write);
    }

    /// As [`write_json`](Self::write_json), for a text that is stored: doubles stay doubles.
    pub fn write_kept(&self, out: &mut Vec<u8>) {
        self.write_with(out, &Number::write_kept);
    }

    fn write_with(&self, out: &mut Vec<u8>, number: &impl Fn(Number, &mut Vec<u8>)) {
        match self {
            Self::Undefined => {}
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Number(value) => number(*value, out),
            Self::String(text) => crate::json::write_string(text, out),
            Self::Array(elements) => {
                out.push(b'[');
                let defined = elements.iter().filter(|element| element.is_defined());
                write_separated(defined, out, |element, out| element.write_with(out, number));
                out.push(b']');
            }
            Self::Object(object) => object.write_with(out, number),
        }
    }

    /// The value as compact JSON text; empty for undefined.
    pub fn to_json(&self) -> String {
        let mut out = Vec::new();
        self.write_json(&mut out);
        String::from_utf8(out).expect("JSON text is built from strings")
    }
}

fn write_separated<T>(
    items: impl Iterator<Item = T>,
    out: &mut Vec<u8>,
    mut write: impl FnMut(T, &mut Vec<u8>),
) {
    for (position, item) in items.enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write(item, out);
    }
}

fn order_sequences(left: &[Value], right: &[Value]) -> Ordering {
    let first_difference =
        left.iter().zip(right).map(|(left, right)| left.order(right)).find(|order| order.is_ne());
    first_difference.unwrap_or_else(|| left.len().cmp(&right.len()))
}

impl Object {
    /// An object without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// An object of these members, whose names the caller knows to be unique.
    pub fn from_unique(members: Vec<(Arc<str>, Value)>) -> Self {
        Self { members }
    }

    /// An object of named values, whose names the caller knows to be unique.
    pub fn of<const N: usize>(members: [(&str, Value); N]) -> Self {
        Self { members: members.into_iter().map(|(name, value)| (name.into(), value)).collect() }
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// True without members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The member of that name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.members.iter().find(|(member, _)| &**member == name).map(|(_, value)| value)
    }

    /// The member of that name, to be changed.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value> {
        self.members.iter_mut().find(|(member, _)| &**member == name).map(|(_, value)| value)
    }

    /// True when there is a member of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Sets a member, in place when the name exists, at the end otherwise.
    pub fn insert(&mut self, name: impl Into<Arc<str>>, value: Value) {
        let name = name.into();
        match self.get_mut(&name) {
            Some(slot) => *slot = value,
            None => self.members.push((name, value)),
        }
    }

    /// Removes a member and returns it.
    pub fn remove(&mut self, name: &str) -> Option<Value> {
        let position = self.members.iter().position(|(member, _)| &**member == name)?;
        Some(self.members.remove(position).1)
    }

    /// Members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &Value)> {
        self.members.iter().map(|(name, value)| (name, value))
    }

    /// Writes the object as compact JSON without its undefined members.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        self.write_with(out, &Number::write);
    }

    fn write_with(&self, out: &mut Vec<u8>, number: &impl Fn(Number, &mut Vec<u8>)) {
        out.push(b'{');
        let defined = self.members.iter().filter(|(_, value)| value.is_defined());
        write_separated(defined, out, |(name, value), out| {
            crate::json::write_string(name, out);
            out.push(b':');
            value.write_with(out, number);
        });
        out.push(b'}');
    }

    // Objects are unordered maps to the language, so both sides are read in name order.
    fn order(&self, other: &Self) -> Ordering {
        let (left, right) = (self.sorted(), other.sorted());
        let first_difference = left
            .iter()
            .zip(&right)
            .map(|(left, right)| left.0.cmp(right.0).then_with(|| left.1.order(right.1)))
            .find(|order| order.is_ne());
        first_difference.unwrap_or_else(|| left.len().cmp(&right.len()))
    }

    fn sorted(&self) -> Vec<(&str, &Value)> {
        let defined = self.members.iter().filter(|(_, value)| value.is_defined());
        let mut members: Vec<_> = defined.map(|(name, value)| (&**name, value)).collect();
        members.sort_by_key(|(name, _)| *name);
        members
    }
}

/// The language's equality: numbers by value, NaN equal to nothing, objects as unordered maps.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bool(left), Self::Bool(right)) => left == right,
            (Self::Number(left), Self::Number(right)) => left == right,
            (Self::String(left), Self::String(right)) => left == right,
            (Self::Array(left), Self::Array(right)) => left == right,
            (Self::Object(left), Self::Object(right)) => left == right,
            _ => self.kind() == other.kind(),
        }
    }
}

impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        let (left, right) = (self.sorted(), other.sorted());
        left == right
    }
}

impl FromIterator<(Arc<str>, Value)> for Object {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Value)>>(members: I) -> Self {
        let mut object = Self::new();
        members.into_iter().for_each(|(name, value)| object.insert(name, value));
        object
    }
}

impl From<bool> for Value {
    fn from(bool: bool) -> Self {
        Self::Bool(bool)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Number(Number::Float(number))
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(Number::Int(number))
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undefined => formatter.write_str("undefined"),
            _ => formatter.write_str(&self.to_json()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::json::parse;

    #[test]
    fn types_sort_in_the_documented_order() {
        let texts = ["null", "false", "true", "-1", "2", r#""""#, r#""a""#, "[]", "[1]", "{}"];
        let values: Vec<_> = texts.iter().map(|text| parse(text.as_bytes()).unwrap()).collect();
        for pair in values.windows(2) {
            assert!(pair[0].order(&pair[1]).is_lt(), "{} before {}", pair[0], pair[1]);
        }
    }

    #[test]
    fn objects_are_equal_whatever_the_order_of_their_members() {
        let left = parse(br#"{"a":1,"b":[1.0]}"#).unwrap();
        let right = parse(br#"{"b":[1],"a":1.0}"#).unwrap();
        assert_eq!(left, right);
    }
}
