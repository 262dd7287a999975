//! Calls: the table of built-in functions, user functions, and those that need more than values.

use super::fold::fold;
use super::{Binder, Purpose};
use crate::ast::{self, ExprKind, Name};
use crate::compiled::{CompiledExpr, Step};
use crate::error::{Code, Location};
use crate::functions::{self, DistanceFunction, Function, VectorSetting};
use armilla_model::{Object, Value};

impl Binder<'_> {
    /// Binds a call; `places` are those of its name and of all of it.
    pub(super) fn call(
        &mut self,
        name: &Name,
        user: bool,
        arguments: &[ast::Expr],
        places: (Location, Location),
    ) -> CompiledExpr {
        let (name_location, location) = places;
        if user {
            self.calls_user_functions = true;
            return CompiledExpr::User(name.clone(), self.list(arguments));
        }
        if name.eq_ignore_ascii_case("DOCUMENTID") {
            return self.document_id(name, arguments, location);
        }
        if name.eq_ignore_ascii_case("FULLTEXTSCORE") && arguments.len() >= 2 {
            let message = "The FullTextScore function is only allowed in the ORDER BY RANK clause.";
            return self.wrong(Code::FullTextScorePlace, message, location);
        }
        if functions::is_refused(name) {
            return self.refused(name, arguments, places);
        }
        let special = functions::special(name).filter(|special| special.name == "FULLTEXTSCORE");
        let (function, min, max) = match (functions::lookup(name), special) {
            (Some(function), _) => (function, function.arguments_min, function.arguments_max),
            (None, Some(special)) => {
                let counts = (special.arguments_min, special.arguments_max);
                return self.wrong(Code::ArgumentCount, argument_count(name, counts), location);
            }
            (None, None) => {
                self.list(arguments);
                let message = format!("'{name}' is not a recognized built-in function name.");
                return self.wrong(Code::UnknownFunction, message, name_location);
            }
        };
        if !function.takes(arguments.len()) {
            return self.wrong(Code::ArgumentCount, argument_count(name, (min, max)), location);
        }
        let mut compiled = self.list(arguments);
        if matches!(function.name, "VECTORDISTANCE" | "_VECTORSCORE") {
            self.check_vector_arguments(arguments, &compiled);
            self.add_vector_policy(&mut compiled);
        }
        if is_timespan_call(function, arguments.len()) && !compiled.first().is_some_and(is_timespan)
        {
            let message = "The timespan argument provided to the DateTime function is invalid.";
            return self.wrong(Code::Timespan, message, location);
        }
        fold(CompiledExpr::Call(function, compiled))
    }

    /// A function of the service that this server does not have. Two of them are planned, so that the
    /// refusal comes from whoever runs the query.
    fn refused(
        &mut self,
        name: &Name,
        arguments: &[ast::Expr],
        (name_location, location): (Location, Location),
    ) -> CompiledExpr {
        if self.purpose == Purpose::Run {
            let message = format!("The function '{name}' is not supported by this server.");
            return self.wrong(Code::Unsupported, message, name_location);
        }
        let is_literal = |argument: &ast::Expr| matches!(argument.kind, ExprKind::String(_));
        if name.eq_ignore_ascii_case("GENERATEEMBEDDINGS") {
            if arguments.len() != 1 {
                return self.wrong(Code::ArgumentCount, argument_count(name, (1, 1)), location);
            }
            if !is_literal(&arguments[0]) {
                let message =
                    "The 'GenerateEmbeddings' function requires a single string literal argument.";
                return self.wrong(Code::Embeddings, message, arguments[0].location);
            }
        } else if name.eq_ignore_ascii_case("HASH") {
            if !(1..=3).contains(&arguments.len()) {
                return self.wrong(Code::ArgumentCount, argument_count(name, (1, 3)), location);
            }
            let modulo = arguments.get(1);
            if let Some(modulo) = modulo
                && !matches!(&modulo.kind, ExprKind::Number(number) if number.as_i64() != Some(0))
            {
                let message =
                    "The modulo value for the 'Hash' function must be a non-zero integer literal.";
                return self.wrong(Code::HashModulo, message, modulo.location);
            }
        } else {
            let message = format!("'{name}' is not a recognized built-in function name.");
            return self.wrong(Code::UnknownFunction, message, name_location);
        }
        CompiledExpr::User(name.clone(), self.list(arguments))
    }

    fn document_id(
        &mut self,
        name: &Name,
        arguments: &[ast::Expr],
        location: Location,
    ) -> CompiledExpr {
        let [argument] = arguments else {
            return self.wrong(Code::ArgumentCount, argument_count(name, (1, 1)), location);
        };
        // Whatever is asked about lies in an item.
        let _bound = self.expression(argument);
        CompiledExpr::DocumentId
    }

    /// What VectorDistance takes beside two vectors: a boolean, and options with their ranges.
    fn check_vector_arguments(&mut self, arguments: &[ast::Expr], compiled: &[CompiledExpr]) {
        if let (Some(written), Some(exact)) = (arguments.get(2), compiled.get(2))
            && exact.constant().and_then(Value::as_bool).is_none()
        {
            let message = "The third argument provided in the VectorDistance function is invalid. \
                           This value must be a boolean value set to either \"true\" to execute an \
                           exact search or \"false\" to execute an efficient search leveraging the \
                           index.";
            self.error(Code::VectorExactSearch, message, written.location);
        }
        let (Some(written), Some(options)) = (arguments.get(3), compiled.get(3)) else { return };
        let Some(options) = options.constant() else { return };
        let Some(options) = options.as_object() else {
            let message = "The options argument of the VectorDistance function must be an object.";
            return self.error(Code::VectorOption, message, written.location);
        };
        for (name, value) in options.iter() {
            if let Some((code, message)) = vector_option(name, value) {
                self.error(code, message, written.location);
            }
        }
    }

    /// The container's vector policy says how vectors at a path are compared, unless the call
    /// itself does.
    fn add_vector_policy(&self, arguments: &mut Vec<CompiledExpr>) {
        let Some(setting) = arguments.iter().take(2).find_map(|expr| self.vector_setting(expr))
        else {
            return;
        };
        let options = arguments.get(3).map(CompiledExpr::constant);
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
        arguments.resize_with(3, || CompiledExpr::Constant(Value::Bool(false)));
        arguments.push(CompiledExpr::Constant(Value::object(members)));
    }

    fn vector_setting(&self, expr: &CompiledExpr) -> Option<&VectorSetting> {
        let CompiledExpr::Path(path) = expr else { return None };
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

/// What is wrong with an option of VectorDistance.
fn vector_option(name: &str, value: &Value) -> Option<(Code, String)> {
    let outside = |low: i64, high: i64| {
        let number = value.as_number().and_then(|number| number.as_i64());
        number.is_none_or(|number| !(low..=high).contains(&number))
    };
    let out_of_range = |code: Code, high: i64| {
        let message = format!(
            "The '{name}' value {} specified in the VectorDistance function is outside the supported \
             range. The value must be between 1 and {high}.",
            value.to_json()
        );
        (code, message)
    };
    match name {
        "searchListSizeMultiplier" | "quantizedVectorListMultiplier" | "filterPriority"
            if value.as_number().is_none() =>
        {
            Some((Code::VectorOption, invalid_value(name, value)))
        }
        "distanceFunction" | "dataType" => {
            let known: &[&str] = if name == "dataType" {
                &["float32", "float16", "uint8", "int8"]
            } else {
                &["cosine", "dotproduct", "euclidean"]
            };
            let text = value.as_str();
            let fits =
                text.is_some_and(|text| known.iter().any(|known| text.eq_ignore_ascii_case(known)));
            (!fits).then(|| (Code::VectorOption, invalid_value(name, value)))
        }
        "searchListSizeMultiplier" => {
            outside(1, 100).then(|| out_of_range(Code::VectorSearchList, 100))
        }
        "quantizedVectorListMultiplier" => {
            outside(1, 50).then(|| out_of_range(Code::VectorQuantizedList, 50))
        }
        "filterPriority" => {
            let fits = value.as_f64().is_some_and(|value| (0.0..=1.0).contains(&value));
            (!fits).then(|| {
                let message = "The 'filterPriority' value specified in the VectorDistance function \
                               must be a value between 0 and 1.";
                (Code::VectorFilterPriority, message.to_owned())
            })
        }
        _ => {
            let message = format!(
                "'{name}' is not a valid option name for VectorDistance function options argument."
            );
            Some((Code::VectorOption, message))
        }
    }
}

fn invalid_value(name: &str, value: &Value) -> String {
    let shown = value.as_str().map_or_else(|| value.to_json(), str::to_owned);
    format!(
        "VectorDistance function options argument property value '{shown}' is not a valid value for \
         option '{name}'."
    )
}

/// True for the calls whose first argument is a timespan such as `'1d'`.
fn is_timespan_call(function: &Function, count: usize) -> bool {
    matches!((function.name, count), ("AGO" | "NOW", 1) | ("DATETIMEADD", 2))
}

/// A constant of digits with something behind them. Whether that is a part of a date is a matter of
/// values.
fn is_timespan(expr: &CompiledExpr) -> bool {
    expr.constant().and_then(Value::as_str).is_some_and(functions::date_time::is_time_span)
}

/// The refusal of a number of arguments, in the spelling of the query.
fn argument_count(name: &str, (min, max): (usize, usize)) -> String {
    if min == max {
        format!("The {name} function requires {min} argument(s).")
    } else if max == usize::MAX {
        format!("The {name} function requires at least {min} argument(s).")
    } else {
        format!("The {name} function requires {min} to {max} argument(s).")
    }
}
