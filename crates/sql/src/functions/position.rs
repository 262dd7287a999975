//! Positions in strings and parts of them. Positions count UTF-16 code units, `LENGTH` code points.

use super::{Function, Kind, defined, integer, optional, text, utf16};
use armilla_model::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::between("INDEX_OF", 2, 3, |_, arguments| defined(index_of(arguments)))
        .or(&["INDEXOF"])
        .gives(
            Kind::Number,
            "Position in UTF-16 units of the first occurrence from the start on; -1 for none.",
        ),
    Function::between("LASTINDEXOF", 2, 3, |_, arguments| defined(last_index_of(arguments)))
        .seeing_undefined()
        .gives(
            Kind::Number,
            "Position in UTF-16 units of the last occurrence that ends by a position; or -1.",
        ),
    Function::exact("LEFT", 2, |_, arguments| defined(left(arguments)))
        .gives(Kind::String, "The first `n` UTF-16 units."),
    Function::exact("RIGHT", 2, |_, arguments| defined(right(arguments)))
        .gives(Kind::String, "The last `n` UTF-16 units."),
    Function::exact("LENGTH", 1, |_, arguments| defined(text(arguments, 0).map(length)))
        .gives(Kind::Number, "Number of code points."),
    Function::exact("SUBSTRING", 3, |_, arguments| defined(substring(arguments))).gives(
        Kind::String,
        "So many UTF-16 units from a start counted from 0; empty when that is outside.",
    ),
    Function::exact("SUBSTRINGBEFORE", 2, |_, arguments| {
        defined(cut(arguments, |whole, part| Some(&whole[..whole.find(part)?])))
    })
    .gives(Kind::String, "What is before the first occurrence; undefined when there is none."),
    Function::exact("SUBSTRINGAFTER", 2, |_, arguments| {
        defined(cut(arguments, |whole, part| Some(&whole[whole.find(part)? + part.len()..])))
    })
    .gives(Kind::String, "What is behind the first occurrence; undefined when there is none."),
    Function::exact("LASTSUBSTRINGBEFORE", 2, |_, arguments| {
        defined(cut(arguments, |whole, part| Some(&whole[..whole.rfind(part)?])))
    })
    .gives(Kind::String, "What is before the last occurrence; undefined when there is none."),
    Function::exact("LASTSUBSTRINGAFTER", 2, |_, arguments| {
        defined(cut(arguments, |whole, part| Some(&whole[whole.rfind(part)? + part.len()..])))
    })
    .gives(Kind::String, "What is behind the last occurrence; undefined when there is none."),
];

fn cut(
    arguments: &[Value],
    find: for<'a> fn(&'a str, &'a str) -> Option<&'a str>,
) -> Option<Value> {
    let (whole, part) = (text(arguments, 0)?, text(arguments, 1)?);
    find(whole, part).map(Value::from)
}

fn length(text: &str) -> i64 {
    signed(text.chars().count())
}

fn index_of(arguments: &[Value]) -> Option<i64> {
    let (whole, part) = (text(arguments, 0)?, text(arguments, 1)?);
    let start = position(optional(arguments, 2, 0, integer)?);
    let found = utf16::byte_at(whole, start)
        .and_then(|start| whole[start..].find(part).map(|found| start + found));
    Some(found.map_or(-1, |found| signed(utf16::length(&whole[..found]))))
}

// The occurrence must end at the position given or before it. A position behind the end finds nothing,
// and undefined is none.
fn last_index_of(arguments: &[Value]) -> Option<i64> {
    let (whole, part) = (text(arguments, 0)?, text(arguments, 1)?);
    let length = utf16::length(whole);
    let last = match arguments.get(2) {
        None | Some(Value::Undefined) => length,
        Some(last) => position(integer(last)?),
    };
    if last > length {
        return Some(-1);
    }
    if part.is_empty() {
        return Some(signed(last.min(length.saturating_sub(1))));
    }
    let reachable = utf16::prefix(whole, last + 1);
    Some(reachable.rfind(part).map_or(-1, |found| signed(utf16::length(&whole[..found]))))
}

// The service takes the low 32 bits, so that a negative position is far behind every end.
fn position(number: i64) -> usize {
    (number as u32) as usize
}

fn left(arguments: &[Value]) -> Option<Value> {
    let count = integer(&arguments[1])?.max(0);
    Some(utf16::slice(text(arguments, 0)?, 0, unsigned(count)).as_ref().into())
}

fn right(arguments: &[Value]) -> Option<Value> {
    let (text, count) = (text(arguments, 0)?, integer(&arguments[1])?.max(0));
    let start = utf16::length(text).saturating_sub(unsigned(count));
    Some(utf16::slice(text, start, usize::MAX).as_ref().into())
}

fn substring(arguments: &[Value]) -> Option<Value> {
    let text = text(arguments, 0)?;
    let (start, count) = (integer(&arguments[1])?, integer(&arguments[2])?);
    // A start before the text is not counted from the end.
    if start < 0 || count <= 0 {
        return Some("".into());
    }
    Some(utf16::slice(text, unsigned(start), unsigned(count)).as_ref().into())
}

fn signed(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

// For numbers known not to be negative; what does not fit is beyond the end of every text.
fn unsigned(number: i64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{check, evaluate};
    use armilla_model::Value;

    #[test]
    fn parts_before_and_behind() {
        check(&[
            ("SUBSTRINGBEFORE", r#"["a/b/c","/"]"#, r#""a""#),
            ("SUBSTRINGAFTER", r#"["a/b/c","/"]"#, r#""b/c""#),
            ("LASTSUBSTRINGBEFORE", r#"["a/b/c","/"]"#, r#""a/b""#),
            ("LASTSUBSTRINGAFTER", r#"["a/b/c","/"]"#, r#""c""#),
            ("LASTSUBSTRINGAFTER", r#"["aaa","aa"]"#, r#""""#),
            ("SUBSTRINGBEFORE", r#"["abc","x"]"#, "undefined"),
            ("SUBSTRINGAFTER", r#"["abc",""]"#, r#""abc""#),
            ("LASTSUBSTRINGBEFORE", r#"["abc",""]"#, r#""abc""#),
            ("SUBSTRINGBEFORE", r#"[1,""]"#, "undefined"),
        ]);
    }

    #[test]
    fn positions_outside_find_nothing() {
        check(&[
            ("INDEX_OF", r#"["abc","b",-1]"#, "-1"),
            ("INDEX_OF", r#"["abc","",3]"#, "3"),
            ("LASTINDEXOF", r#"["abcabc","b",7]"#, "-1"),
            ("LASTINDEXOF", r#"["abcabc","b",6]"#, "4"),
            ("LASTINDEXOF", r#"["abcabc",""]"#, "5"),
            ("LASTINDEXOF", r#"["",""]"#, "0"),
            ("LASTINDEXOF", r#"["abc","b",null]"#, "undefined"),
        ]);
        let undefined = ["abc".into(), "b".into(), Value::Undefined];
        assert_eq!(evaluate("LASTINDEXOF", &undefined), Value::from(1));
    }
}
