//! Which ids and names are refused: those of items, and those of everything that stands in an address.
//!
//! Items are freer: slashes of both kinds are allowed in an id, because the service allows them.

use armilla_model::error::{Error, Result};
use armilla_model::limits::{ITEM_ID_LENGTH_MAX, NAME_LENGTH_MAX};
use armilla_model::value::Value;
use std::sync::Arc;

/// Checks an item's id.
pub(crate) fn check_id(id: Option<&Value>) -> Result<Arc<str>> {
    let refuse = |why: &str| {
        Err(Error::bad_request(format!(
            "The input content is invalid because the required property 'id' {why}."
        )))
    };
    let id = match id {
        Some(Value::String(id)) => id,
        None => return refuse("is missing"),
        Some(other) => return refuse(&format!("must be a string, and is {other}")),
    };
    if id.is_empty() {
        return refuse("is empty");
    }
    if id.len() > ITEM_ID_LENGTH_MAX {
        // The second sentence is one that the SDKs' tests look for.
        return refuse(
            "is too long. Ensure to provide a unique non-empty string less than '1024' characters",
        );
    }
    // Slashes of both kinds are taken, as by the service: such items are found by queries, and by addresses that
    // write them as %2F and %5C.
    Ok(id.clone())
}

/// Checks the name of a database, container, script, user or permission.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let refuse =
        |why: &str| Err(Error::bad_request(format!("The name '{name}' is invalid: it {why}.")));
    if name.is_empty() {
        return refuse("is empty");
    }
    if name.chars().count() > NAME_LENGTH_MAX {
        // The sentence in the middle is one that the SDKs' tests look for.
        return refuse(&format!(
            "is too long. Ensure to provide a unique non-empty string less than '{NAME_LENGTH_MAX}' characters"
        ));
    }
    if name.contains(['/', '\\', '?', '#']) {
        return refuse("contains one of the characters / \\ ? #");
    }
    if name.ends_with([' ', '\n', '\r', '\t']) {
        return refuse("ends with white space");
    }
    if name.chars().any(char::is_control) {
        return refuse("contains control characters");
    }
    Ok(())
}

/// Checks the name of a script, in which the service also takes tabs and line ends.
pub(crate) fn check_script_name(name: &str) -> Result<()> {
    check_name(&name.replace(['\t', '\r', '\n'], "_"))
}
