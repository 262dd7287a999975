//! From a script body to something that can be run.
//!
//! A body is one function: a declaration, an anonymous expression or an arrow, with comments
//! around it and perhaps a semicolon behind it. It is compiled as `(` + body + newline + `)`, so
//! that lines count from the body's own first line. If that does not parse, what follows the last
//! semicolon may be the reason, so the part before it is tried; if that fails too, the body is
//! compiled as a script and its first top-level function is used.

use std::sync::Arc;

use rquickjs::context::intrinsic;
use rquickjs::{Context, Ctx, Runtime};

use crate::bytecode::{self, Bytecode, fnv1a};
use crate::error::{CompileError, first_place};

/// Semicolons, counted from the end, that are tried as the end of the function.
const SEMICOLONS_TRIED_MAX: usize = 16;

/// Words whose number the parser's time grows with, faster than with the length of the body.
const COUNTED_WORDS: [&[u8]; 10] = [
    b"let",
    b"const",
    b"class",
    b"catch",
    b"for",
    b"while",
    b"do",
    b"switch",
    b"break",
    b"continue",
];
/// Most of them in a body.
const COUNTED_WORDS_MAX: usize = 5000;
/// Most digits of a large integer in a body.
const NUMBER_DIGITS_MAX: usize = 10_000;

/// Stack for the parser, which goes as deep as the source is nested.
const PARSER_STACK_BYTES: usize = 512 << 10;

/// What a context needs to compile, regular expressions included.
type ParserOnly = (intrinsic::Eval, intrinsic::RegExpCompiler);

/// What a script is for. Its meaning is the caller's; all kinds compile alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScriptKind {
    /// A stored procedure.
    Procedure,
    /// A pre- or post-trigger.
    Trigger,
    /// A user-defined function.
    Function,
}

/// A script body with its bytecode. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Compiled {
    source: Arc<str>,
    kind: ScriptKind,
    body_hash: u64,
    pub(crate) form: Form,
    pub(crate) code: Bytecode,
}

/// How the function is found in the compiled script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// The script's value is the function.
    Expression,
    /// The first new global function is it.
    FirstGlobal,
}

impl Compiled {
    /// The body as it was registered.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What the script is for.
    pub fn kind(&self) -> ScriptKind {
        self.kind
    }

    /// Identifies the body among those that had to be stopped.
    pub(crate) fn body_hash(&self) -> u64 {
        self.body_hash
    }
}

/// Compiles a body; nothing of it is run.
///
/// This happens in a runtime of its own, which is thrown away. It has no memory limit, because the
/// parser does not survive one; what it needs is bounded by the length of the body.
pub(crate) fn compile(
    kind: ScriptKind,
    body: &str,
    body_bytes_max: usize,
) -> Result<Compiled, CompileError> {
    let failed = |message: String| CompileError { message, line: None, column: None };
    if body.len() > body_bytes_max {
        return Err(failed(format!("The script body is larger than {body_bytes_max} bytes.")));
    }
    check_parts(body).map_err(failed)?;
    let context = Runtime::new().and_then(|runtime| {
        runtime.set_max_stack_size(PARSER_STACK_BYTES);
        Context::custom::<ParserOnly>(&runtime)
    });
    let context = context.map_err(|error| failed(error.to_string()))?;
    let (form, code) = context.with(|ctx| first_that_parses(&ctx, body))?;
    let body_hash = fnv1a(body.as_bytes());
    Ok(Compiled { source: body.into(), kind, body_hash, form, code })
}

/// Refuses bodies that would keep the parser busy: it compares every declaration of a function with all
/// the others, every jump with the jumps before it, and takes the square of a large number's length, and
/// nothing can interrupt it. Words are counted wherever they stand; nobody writes so many.
fn check_parts(body: &str) -> Result<(), String> {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_$".contains(byte) || *byte >= 0x80;
    let mut words = 0;
    for word in body.as_bytes().split(|byte| !is_part(byte)) {
        words += usize::from(COUNTED_WORDS.contains(&word));
        let is_large = word.first().is_some_and(u8::is_ascii_digit) && word.ends_with(b"n");
        if is_large && word.len() > NUMBER_DIGITS_MAX {
            return Err(format!("A number has more than {NUMBER_DIGITS_MAX} digits."));
        }
    }
    if words > COUNTED_WORDS_MAX {
        return Err(format!(
            "The script has more than {COUNTED_WORDS_MAX} declarations (let, const, class) and loops."
        ));
    }
    Ok(())
}

fn first_that_parses(ctx: &Ctx<'_>, body: &str) -> Result<(Form, Bytecode), CompileError> {
    let wrapped = |text: &str| parse(ctx, &format!("({text}\n)"));
    let mut error = match wrapped(body) {
        Ok(code) => return Ok((Form::Expression, code)),
        Err(error) => error,
    };
    for text in before_trailing_semicolons(body) {
        if let Ok(code) = wrapped(text) {
            return Ok((Form::Expression, code));
        }
    }
    // A blank in place of the parenthesis: columns of the first line are shifted by one either way.
    match parse(ctx, &format!(" {body}")) {
        Ok(code) if body.contains("function") => return Ok((Form::FirstGlobal, code)),
        // The reading that got furthest is the one that was meant.
        Err(other) if (other.line, other.column) > (error.line, error.column) => error = other,
        _ => {}
    }
    Err(error)
}

fn parse(ctx: &Ctx<'_>, text: &str) -> Result<Bytecode, CompileError> {
    bytecode::compile(ctx, text, c"script.js").map_err(|_| {
        let thrown = ctx.catch();
        let exception = thrown.as_exception();
        let message = exception.and_then(rquickjs::Exception::message);
        let place = exception.and_then(rquickjs::Exception::stack).as_deref().and_then(first_place);
        CompileError {
            message: message.unwrap_or_else(|| "The script body cannot be compiled.".to_owned()),
            line: place.map(|(line, _)| line),
            column: place.map(|(_, column)| column),
        }
    })
}

/// The body up to each of its last semicolons that has only blanks, comments and semicolons
/// behind it.
fn before_trailing_semicolons(body: &str) -> impl Iterator<Item = &str> {
    body.rmatch_indices(';')
        .take(SEMICOLONS_TRIED_MAX)
        .filter(|(at, _)| is_trivia(&body[*at..]))
        .map(|(at, _)| &body[..at])
}

/// Whether the text consists of blanks, comments and semicolons.
fn is_trivia(mut text: &str) -> bool {
    loop {
        text = text.trim_start_matches(|letter: char| {
            letter.is_whitespace() || letter == ';' || letter == '\u{feff}'
        });
        if text.is_empty() {
            return true;
        }
        text = if let Some(comment) = text.strip_prefix("//") {
            comment.split_once(['\n', '\r', '\u{2028}', '\u{2029}']).map_or("", |(_, rest)| rest)
        } else if let Some(comment) = text.strip_prefix("/*") {
            match comment.split_once("*/") {
                Some((_, rest)) => rest,
                None => return false,
            }
        } else {
            return false;
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str) -> Result<Form, CompileError> {
        compile(ScriptKind::Procedure, body, 1 << 20).map(|compiled| compiled.form)
    }

    #[test]
    fn all_usual_forms_compile() {
        for body in [
            "function f() { }",
            "function () { }",
            "() => 1",
            "async function () { }",
            "\u{feff}// note\n/* more */ function () { }",
            "function () { };",
            "function () { };;\n // end; of it\n/* ; */ ;",
            "(a, b) => { return a; }; // a;b",
            "function () { } // no newline",
        ] {
            assert_eq!(check(body), Ok(Form::Expression), "{body}");
        }
        assert_eq!(check("function a() { b(); }\nfunction b() { }"), Ok(Form::FirstGlobal));
        assert_eq!(check("var x = 1; function a() { }"), Ok(Form::FirstGlobal));
    }

    #[test]
    fn parse_errors_name_the_line_of_the_body() {
        let error = check("function () {\n  var a = 1;\n  This is not JavaScript!\n}").unwrap_err();
        assert_eq!(error.line, Some(3), "{error}");
        assert!(check("").is_err());
        assert!(check("function () {").is_err());
        assert!(check("function () { /* }").is_err());
        assert!(check("\0").is_err());
    }

    #[test]
    fn long_bodies_are_refused() {
        assert!(check(&format!("function () {{ }}{}", " ".repeat(1 << 20))).is_err());
    }
}
