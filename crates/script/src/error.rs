//! How scripts fail, and the sentences clients get to read about it.

use std::fmt::{self, Display, Write};

/// Name under which user code is compiled; replaced by the script's id in stack traces.
pub(crate) const USER_FILE: &str = "script.js";
/// What the engine calls the file of our own functions, which are compiled without file names.
const LIBRARY_FILE: &str = "<null>";
/// Longest error text kept, so that a thrown novel does not travel to the client.
const TEXT_BYTES_MAX: usize = 16 << 10;
/// Most stack frames shown.
const FRAMES_MAX: usize = 16;

/// A call that did not end well. The transaction it ran in must be dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// What happened.
    pub kind: ScriptErrorKind,
    /// The sentence for the client, without the `{"Errors":[…]}` around it.
    pub detail: String,
}

/// What happened to a call; the gateway gives each its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptErrorKind {
    /// An uncaught error or an abort.
    Threw {
        /// The `number` of the error, own or from an operation.
        number: Option<u32>,
    },
    /// Stopped by the time limit.
    Timeout,
    /// Stopped by the memory limit.
    OutOfMemory,
    /// Stopped too often before.
    Blocked,
    /// Not the script's fault.
    Internal,
}

impl ScriptError {
    pub(crate) fn new(kind: ScriptErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, detail: detail.into() }
    }

    pub(crate) fn internal(what: &str) -> Self {
        Self::new(ScriptErrorKind::Internal, format!("The script engine failed: {what}"))
    }

    /// Whether the script failed by itself, rather than being stopped.
    pub(crate) fn is_throw(&self) -> bool {
        matches!(self.kind, ScriptErrorKind::Threw { .. })
    }

    /// The number of the error that was thrown, if it has one.
    pub fn number(&self) -> Option<u32> {
        match self.kind {
            ScriptErrorKind::Threw { number } => number,
            _ => None,
        }
    }

    /// The text that goes into the `message` of the error envelope: `{"Errors":["…"]}`.
    pub fn message(&self) -> String {
        let mut out = String::with_capacity(self.detail.len() + 16);
        out.push_str("{\"Errors\":[");
        push_json_text(&mut out, &self.detail);
        out.push_str("]}");
        out
    }
}

impl Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)
    }
}

impl std::error::Error for ScriptError {}

/// A body that does not parse, or is too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileError {
    /// What the parser says.
    pub message: String,
    /// Line in the user's own source, from 1.
    pub line: Option<u32>,
    /// Column in that line, from 1.
    pub column: Option<u32>,
}

impl Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match (self.line, self.column) {
            (Some(line), Some(column)) => write!(f, " (line {line}, column {column})"),
            (Some(line), None) => write!(f, " (line {line})"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for CompileError {}

/// An uncaught value as `describe` in the library shows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Thrown {
    pub(crate) number: Option<u32>,
    pub(crate) text: String,
    pub(crate) stack: String,
}

impl Thrown {
    /// The error for the client, in the form the service uses.
    pub(crate) fn into_error(self, script_id: &str) -> ScriptError {
        let text = clipped(&self.text);
        let mut detail = format!(
            "Encountered exception while executing function. Exception = {text}\r\n\
             Stack trace: {text}"
        );
        for frame in user_frames(&self.stack) {
            let file = if frame.file == USER_FILE { format!("{script_id}.js") } else { frame.file };
            let _ = write!(
                detail,
                "\n   at {} ({file}:{}:{})",
                frame.function, frame.line, frame.column
            );
        }
        ScriptError::new(ScriptErrorKind::Threw { number: self.number }, detail)
    }
}

struct Frame {
    function: String,
    file: String,
    line: u32,
    column: u32,
}

/// The frames of the user's own code in an engine stack trace such as
/// `    at name (script.js:3:14)`.
fn user_frames(stack: &str) -> impl Iterator<Item = Frame> {
    stack.lines().filter_map(parse_frame).filter(|frame| is_user_file(&frame.file)).take(FRAMES_MAX)
}

fn is_user_file(file: &str) -> bool {
    file != LIBRARY_FILE
}

fn parse_frame(line: &str) -> Option<Frame> {
    let line = line.trim().strip_prefix("at ")?;
    let (function, place) = match line.split_once(" (") {
        Some((function, place)) => (function, place.strip_suffix(')')?),
        None => ("<anonymous>", line),
    };
    let (rest, column) = place.rsplit_once(':')?;
    let (file, line) = rest.rsplit_once(':')?;
    let (line, column): (u32, u32) = (line.parse().ok()?, column.parse().ok()?);
    // The body is compiled behind an opening parenthesis, which shifts its first line by one.
    let column =
        if line == 1 && file == USER_FILE { column.saturating_sub(1).max(1) } else { column };
    Some(Frame { function: function.to_owned(), file: file.to_owned(), line, column })
}

/// Line and column of the first frame in user code.
pub(crate) fn first_place(stack: &str) -> Option<(u32, u32)> {
    let frame = user_frames(stack).next()?;
    Some((frame.line, frame.column))
}

fn clipped(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Appends text as a JSON string.
pub(crate) fn push_json_text(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if (control as u32) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_the_library_are_hidden_and_the_first_line_is_shifted_back() {
        let thrown = Thrown {
            number: Some(409),
            text: "Error: no".into(),
            stack: "    at Error (<null>:0:1)\n    at f (script.js:1:20)\n    at g (script.js:2:5)\n    at apply (native)\n".into(),
        };
        let error = thrown.into_error("add");
        assert_eq!(
            error.detail,
            "Encountered exception while executing function. Exception = Error: no\r\n\
             Stack trace: Error: no\n   at f (add.js:1:19)\n   at g (add.js:2:5)"
        );
        assert_eq!(error.number(), Some(409));
    }

    #[test]
    fn message_is_json_around_the_detail() {
        let error = ScriptError::new(ScriptErrorKind::Timeout, "a \"b\"\r\n\u{1}");
        assert_eq!(error.message(), "{\"Errors\":[\"a \\\"b\\\"\\r\\n\\u0001\"]}");
    }

    #[test]
    fn long_text_is_clipped_at_a_character() {
        let text = "ä".repeat(TEXT_BYTES_MAX);
        assert!(clipped(&text).len() <= TEXT_BYTES_MAX);
    }
}
