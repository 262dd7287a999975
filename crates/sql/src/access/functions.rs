//! Built-in functions an index can serve.

use super::atoms::{equal, is_in, is_not_in};
use super::{Found, Node, PathStep, Scope, Spatial, Test, and, or};
use crate::ast::BinaryOperator;
use crate::compiled::{CompiledExpr, ValueSet};
use armilla_model::Value;
use armilla_model::value::Type;

/// True for functions that always answer true or false.
pub(super) fn is_type_check(name: &str) -> bool {
    types_of(name).is_some()
        || matches!(name, "IS_DEFINED" | "IS_FINITE_NUMBER" | "IS_INTEGER" | "IS_DATETIME")
}

fn types_of(name: &str) -> Option<Vec<Type>> {
    Some(match name {
        "IS_ARRAY" => vec![Type::Array],
        "IS_BOOL" => vec![Type::Bool],
        "IS_NULL" => vec![Type::Null],
        "IS_NUMBER" => vec![Type::Number],
        "IS_OBJECT" => vec![Type::Object],
        "IS_STRING" => vec![Type::String],
        "IS_PRIMITIVE" => vec![Type::Null, Type::Bool, Type::Number, Type::String],
        _ => return None,
    })
}

impl Scope {
    /// The items where a call is `wanted`, if the index can tell.
    pub(super) fn function(
        &self,
        name: &str,
        arguments: &[CompiledExpr],
        wanted: bool,
    ) -> Option<Node> {
        match name {
            "IS_DEFINED" => {
                let found = self.find(arguments.first()?)?;
                Some(found.atom(if wanted { Test::Defined } else { Test::NotDefined }))
            }
            "STRINGEQUALS" | "STARTSWITH" => self.text(name, arguments, wanted),
            "ARRAY_CONTAINS" => self.array_contains(arguments, wanted),
            "ARRAY_CONTAINS_ANY" | "ARRAY_CONTAINS_ALL" if wanted => {
                let elements = elements_of(self.find(arguments.first()?)?);
                let values: Option<Vec<_>> =
                    arguments[1..].iter().map(CompiledExpr::constant).collect();
                let parts = values?.into_iter().map(|value| {
                    if value.is_undefined() {
                        Node::Nothing
                    } else {
                        element_equal(&elements, value)
                    }
                });
                let parts = parts.collect();
                Some(if name.ends_with("ANY") { or(parts) } else { and(parts) })
            }
            "ST_WITHIN" | "ST_INTERSECTS" if wanted => self.spatial(arguments),
            _ => {
                let types = types_of(name)?;
                let found = self.find(arguments.first()?)?;
                Some(found.atom(if wanted { Test::Type(types) } else { Test::NotType(types) }))
            }
        }
    }

    /// `STARTSWITH(c.a, 'x')` and `STRINGEQUALS(c.a, 'x')`, letter case observed.
    fn text(&self, name: &str, arguments: &[CompiledExpr], wanted: bool) -> Option<Node> {
        let ignores_case = match arguments.get(2) {
            None => false,
            Some(flag) => flag.constant()?.as_bool()?,
        };
        let found = self.find(arguments.first()?)?;
        let Value::String(text) = arguments.get(1)?.constant()? else { return None };
        if ignores_case || !wanted {
            return None;
        }
        Some(if name == "STARTSWITH" {
            found.atom(Test::StartsWith(text.clone()))
        } else {
            found.atom(Test::Equal(Value::String(text.clone())))
        })
    }

    fn array_contains(&self, arguments: &[CompiledExpr], wanted: bool) -> Option<Node> {
        let partial = match arguments.get(2) {
            None => false,
            Some(flag) => flag.constant()?.as_bool()?,
        };
        let (array, element) = (arguments.first()?, arguments.get(1)?);
        // `ARRAY_CONTAINS(@names, c.name)` is `c.name IN (…)`.
        if let Some(Value::Array(values)) = array.constant() {
            if partial {
                return None;
            }
            let found = self.find(element)?;
            let set = ValueSet::new(values.to_vec());
            return Some(if wanted { is_in(&found, &set) } else { is_not_in(&found, &set) });
        }
        let elements = elements_of(self.find(array)?);
        let value = element.constant()?;
        if !wanted || value.is_undefined() {
            return if value.is_undefined() { Some(Node::Nothing) } else { None };
        }
        Some(if partial {
            partial_equal(&elements, value)
        } else {
            element_equal(&elements, value)
        })
    }

    fn spatial(&self, arguments: &[CompiledExpr]) -> Option<Node> {
        let (left, right) = (arguments.first()?, arguments.get(1)?);
        let (found, shape) = match (self.find(left), self.find(right)) {
            (Some(found), None) => (found, right.constant()?),
            (None, Some(found)) => (found, left.constant()?),
            _ => return None,
        };
        Some(found.atom(Test::Spatial(Spatial::Intersects(shape.clone()))))
    }

    /// `ST_DISTANCE(c.p, shape) < d`.
    pub(super) fn distance(
        &self,
        operator: BinaryOperator,
        call: &CompiledExpr,
        value: &Value,
        wanted: bool,
    ) -> Option<Node> {
        let CompiledExpr::Call(function, arguments) = call else { return None };
        let below = matches!(operator, BinaryOperator::Less | BinaryOperator::LessOrEqual);
        if function.name != "ST_DISTANCE" || !below || !wanted {
            return None;
        }
        let distance = value.as_f64()?;
        match self.spatial(arguments)? {
            Node::Atom(mut atom) => {
                if let Test::Spatial(Spatial::Intersects(shape)) = atom.test {
                    atom.test = Test::Spatial(Spatial::Near { shape, distance });
                    return Some(Node::Atom(atom));
                }
                None
            }
            _ => None,
        }
    }
}

fn elements_of(mut array: Found) -> Found {
    array.path.push(PathStep::Element);
    array
}

/// An element equal to the value: exact for scalars, since one array step is as good as none.
fn element_equal(elements: &Found, value: &Value) -> Node {
    match equal(elements, value) {
        Node::Atom(atom) => {
            let exact = elements.precise && atom.can_be_exact() && super::is_scalar(value);
            Node::Atom(super::Atom { exact, ..atom })
        }
        other => other.inexact(),
    }
}

/// An element that has all members of the value: its scalars are candidates.
fn partial_equal(elements: &Found, value: &Value) -> Node {
    let object = match value {
        Value::Object(object) => object,
        // Its elements match partly too.
        Value::Array(_) => return Node::Unknown,
        _ => return element_equal(elements, value).inexact(),
    };
    let parts = object.iter().map(|(name, value)| {
        let mut inner = elements.clone();
        inner.path.push(PathStep::Name(name.clone()));
        if super::is_scalar(value) { equal(&inner, value).inexact() } else { Node::Unknown }
    });
    let marker = elements.atom(Test::Type(vec![Type::Object])).inexact();
    and(std::iter::once(marker).chain(parts).collect())
}
