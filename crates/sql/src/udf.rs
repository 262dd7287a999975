//! User-defined functions: the trait through which a query calls them.

use armilla_model::Value;

/// The user functions of a container.
pub trait Functions {
    /// Calls a function. The arguments are all defined. An unknown name, a throw and a timeout are
    /// errors with a text for the client; they fail the query.
    fn call(&self, name: &str, arguments: &[Value]) -> Result<Value, String>;
}

/// No user functions at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFunctions;

impl Functions for NoFunctions {
    fn call(&self, name: &str, _: &[Value]) -> Result<Value, String> {
        Err(format!("The user defined function '{name}' does not exist."))
    }
}
