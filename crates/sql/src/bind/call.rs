//! Calls: the table of built-in functions, user functions, and those that need more than values.

use super::Binder;
use super::fold::fold;
use crate::ast::{self, ExprKind, Name};
use crate::compiled::{Expr, Step};
use crate::error::{Code, Location};
use crate::functions::{self, DistanceFunction, Function, VectorSetting};
use armilla_model::{Object, Value};

impl Binder<'_> {
    pub(super) fn call(
        &mut self,
        name: &Name,
        user: bool,
        arguments: &[ast::Expr],
        location: Location,
    ) -> Expr {
        if user {
            self.calls_user_functions = true;
            return Expr::User(name.clone(), self.list(arguments));
        }
        if name.eq_ignore_ascii_case("DOCUMENTID") {
            return self.document_id(arguments, location);
        }
        for ranking in ["FullTextScore", "RRF"] {
            if name.eq_ignore_ascii_case(ranking) {
                let message =
                    format!("The {ranking} function is only allowed in the ORDER BY RANK clause.");
                return self.wrong(Code::Unsupported, message, location);
            }
        }
        if functions::is_refused(name) {
            let message = format!("The function '{name}' is not supported by this server.");
            return self.wrong(Code::Unsupported, message, location);
        }
        let Some(function) = functions::lookup(name) else {
            let message = format!("'{name}' is not a recognized built-in function name.");
            return self.wrong(Code::UnknownFunction, message, location);
        };
        if !function.takes(arguments.len()) {
            return self.wrong(Code::ArgumentCount, argument_count(function), location);
        }
        let mut compiled = self.list(arguments);
        if function.name == "VECTORDISTANCE" {
            self.add_vector_policy(&mut compiled);
        }
        fold(Expr::Call(function, compiled))
    }

    fn document_id(&mut self, arguments: &[ast::Expr], location: Location) -> Expr {
        let [argument] = arguments else {
            let message = "The DOCUMENTID function requires 1 argument(s).";
            return self.wrong(Code::ArgumentCount, message, location);
        };
        if let ExprKind::Identifier(name) = &argument.kind {
            match self.find(name) {
                Some(binding) if binding.is_item && !binding.hidden => return Expr::DocumentId,
                Some(_) => {}
                None => return self.expression(argument),
            }
        }
        let message = "The argument of DOCUMENTID must be the alias of the items.";
        self.wrong(Code::Unsupported, message, argument.location)
    }

    /// The container's vector policy says how vectors at a path are compared, unless the call
    /// itself does.
    fn add_vector_policy(&self, arguments: &mut Vec<Expr>) {
        let Some(setting) = arguments.iter().take(2).find_map(|expr| self.vector_setting(expr))
        else {
            return;
        };
        let options = arguments.get(3).map(Expr::constant);
        let mut members = match options {
            None => Object::new(),
            Some(Some(Value::Object(object))) if object.contains("distanceFunction") => return,
            Some(Some(Value::Object(object))) => Object::clone(object),
            Some(_) => return,
        };
        let name = match setting.distance_function {
            DistanceFunction::Cosine => "cosine",
            DistanceFunction::DotProduct => "dotproduct",
            DistanceFunction::Euclidean => "euclidean",
        };
        members.insert("distanceFunction", Value::from(name));
        arguments.truncate(3);
        arguments.resize_with(3, || Expr::Constant(Value::Bool(false)));
        arguments.push(Expr::Constant(Value::object(members)));
    }

    fn vector_setting(&self, expr: &Expr) -> Option<&VectorSetting> {
        let Expr::Path(path) = expr else { return None };
        let text: Option<String> = path
            .steps
            .iter()
            .map(|step| match step {
                Step::Member(name) => Some(format!("/{name}")),
                Step::Element(_) => None,
            })
            .collect();
        let text = text?;
        self.schema.vectors.iter().find(|setting| setting.path == text)
    }
}

fn argument_count(function: &Function) -> String {
    let Function { name, arguments_min: min, arguments_max: max, .. } = function;
    if min == max {
        format!("The {name} function requires {min} argument(s).")
    } else if *max == usize::MAX {
        format!("The {name} function requires at least {min} argument(s).")
    } else {
        format!("The {name} function requires {min} to {max} argument(s).")
    }
}
