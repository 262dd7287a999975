//! A row of the table of functions.

use super::Context;
use armilla_model::Value;

/// One built-in function: everything that binder, folding, computed properties, documentation and
/// completion know about it.
#[derive(Clone, Copy, Debug)]
pub struct Function {
    /// The name in upper case.
    pub name: &'static str,
    /// Other names of the same function, in upper case.
    pub aliases: &'static [&'static str],
    /// Fewest arguments.
    pub arguments_min: usize,
    /// Most arguments; `usize::MAX` when any number is fine.
    pub arguments_max: usize,
    /// What the result depends on beside the arguments.
    pub volatility: Volatility,
    /// The type of the result where it is defined.
    pub result: Kind,
    /// What it does, in one line of Markdown.
    pub documentation: &'static str,
    /// True when it must run although an argument is undefined. All others are undefined then, and
    /// the caller need not run them.
    pub sees_undefined: bool,
    /// The code. The caller has checked the number of arguments.
    pub call: Call,
}

/// The code of a function.
pub type Call = fn(&mut Context<'_>, &[Value]) -> Value;

/// What a result depends on beside the arguments, from nothing to chance. Each one includes those
/// before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Volatility {
    /// Nothing: a call over constants is a constant.
    Immutable,
    /// The container's definition: its geometry, its vector policy, its full-text policy.
    Container,
    /// The query: one moment serves the whole of it.
    Query,
    /// Each call may answer anew: the clock, chance, which item it is.
    Call,
}

/// The type of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Whatever the arguments are.
    Any,
    /// `null`.
    Null,
    /// A boolean.
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl Kind {
    /// The name, as documentation writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::Null => "null",
            Self::Bool => "boolean",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

impl Volatility {
    /// True when the same item gives the same result for ever, under one definition of its
    /// container. Only such functions may be used in computed properties.
    pub fn is_deterministic(self) -> bool {
        self <= Self::Container
    }
}

impl Function {
    /// Calls the function, or answers undefined at once when an argument is undefined and it does
    /// not care to see that.
    pub fn run(&self, context: &mut Context<'_>, arguments: &[Value]) -> Value {
        if !self.sees_undefined && arguments.iter().any(Value::is_undefined) {
            return Value::Undefined;
        }
        (self.call)(context, arguments)
    }

    /// True when it can be called with so many arguments.
    pub fn takes(&self, arguments: usize) -> bool {
        (self.arguments_min..=self.arguments_max).contains(&arguments)
    }

    pub(super) const fn exact(name: &'static str, arguments: usize, call: Call) -> Self {
        Self::between(name, arguments, arguments, call)
    }

    pub(super) const fn between(name: &'static str, min: usize, max: usize, call: Call) -> Self {
        Self {
            name,
            aliases: &[],
            arguments_min: min,
            arguments_max: max,
            volatility: Volatility::Immutable,
            result: Kind::Any,
            documentation: "",
            sees_undefined: false,
            call,
        }
    }

    pub(super) const fn variadic(name: &'static str, min: usize, call: Call) -> Self {
        Self::between(name, min, usize::MAX, call)
    }

    pub(super) const fn seeing_undefined(self) -> Self {
        Self { sees_undefined: true, ..self }
    }

    pub(super) const fn or(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }

    pub(super) const fn by_container(self) -> Self {
        Self { volatility: Volatility::Container, ..self }
    }

    pub(super) const fn each_query(self) -> Self {
        Self { volatility: Volatility::Query, ..self }
    }

    pub(super) const fn each_call(self) -> Self {
        Self { volatility: Volatility::Call, ..self }
    }

    pub(super) const fn gives(self, result: Kind, documentation: &'static str) -> Self {
        Self { result, documentation, ..self }
    }
}
