//! What a command says: its results on standard output, everything about them on standard error, so
//! that results can be piped.

/// A result.
#[allow(clippy::print_stdout, reason = "this is what the user runs the command to read")]
pub(crate) fn say(text: &str) {
    println!("{text}");
}

/// A word beside the results.
pub(crate) fn note(line: &str) {
    eprintln!("armilla: {line}");
}
