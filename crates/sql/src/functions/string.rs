//! String functions: comparing, joining, trimming and replacing. Comparison is by code unit, or in lower
//! case where case is to be ignored.

use super::{
    ARRAY_RESULT_MAX, Function, Kind, STRING_RESULT_MAX, all_of, any_of, case, defined, elements,
    integer, optional, text,
};
use crate::effort::Effort;
use armilla_model::Value;

/// Bytes that are searched in the time of a step.
const BYTES_SEARCHED_PER_STEP: u64 = 16;
/// Longest result of `REPLICATE`, in code points. It is the published one; the service's evaluator, asked
/// by itself, goes to ten times as many.
pub const REPLICATE_LENGTH_MAX: usize = 10_000;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::variadic("CONCAT", 2, |_, arguments| defined(concat(arguments)))
        .gives(Kind::String, "The strings one behind the other."),
    Function::between("CONTAINS", 2, 3, |_, arguments| compare(arguments, contains)).gives(
        Kind::Bool,
        "True when the first string holds the second; in any letter case if third is `true`.",
    ),
    Function::between("STARTSWITH", 2, 3, |_, arguments| compare(arguments, starts_with)).gives(
        Kind::Bool,
        "True when the first begins with the second; in any letter case if third is `true`.",
    ),
    Function::between("ENDSWITH", 2, 3, |_, arguments| compare(arguments, ends_with)).gives(
        Kind::Bool,
        "True when the first ends with the second; in any letter case if third is `true`.",
    ),
    Function::between("STRINGEQUALS", 2, 3, |_, arguments| compare(arguments, equals))
        .or(&["STRING_EQUALS"])
        .gives(
            Kind::Bool,
            "True when both strings are equal; letter case is ignored when the third is `true`.",
        ),
    Function::variadic("CONTAINS_ANY_CS", 2, |context, arguments| {
        defined(any_of(contains_each(arguments, Case::Sensitive, &mut context.effort)))
    })
    .seeing_undefined()
    .or(&["CONTAINSANYCS"])
    .gives(Kind::Bool, "True when the first string holds one of the others."),
    Function::variadic("CONTAINS_ANY_CI", 2, |context, arguments| {
        defined(any_of(contains_each(arguments, Case::Ignored, &mut context.effort)))
    })
    .seeing_undefined()
    .or(&["CONTAINSANYCI"])
    .gives(Kind::Bool, "True when the first string holds one of the others in any letter case."),
    Function::variadic("CONTAINS_ALL_CS", 2, |context, arguments| {
        defined(all_of(contains_each(arguments, Case::Sensitive, &mut context.effort)))
    })
    .seeing_undefined()
    .or(&["CONTAINSALLCS"])
    .gives(Kind::Bool, "True when the first string holds all the others."),
    Function::variadic("CONTAINS_ALL_CI", 2, |context, arguments| {
        defined(all_of(contains_each(arguments, Case::Ignored, &mut context.effort)))
    })
    .seeing_undefined()
    .or(&["CONTAINSALLCI"])
    .gives(Kind::Bool, "True when the first string holds all the others in any letter case."),
    Function::exact("LOWER", 1, |_, arguments| defined(text(arguments, 0).map(case::lower)))
        .gives(Kind::String, "The string in lower case, one character for one."),
    Function::exact("UPPER", 1, |_, arguments| defined(text(arguments, 0).map(case::upper)))
        .gives(Kind::String, "The string in upper case, one character for one."),
    Function::between("TRIM", 1, 2, |_, arguments| trim(arguments, Side::Start, Side::End)).gives(
        Kind::String,
        "The string without white space, or the characters given, at both ends.",
    ),
    Function::between("LTRIM", 1, 2, |_, arguments| trim(arguments, Side::Start, Side::Start))
        .gives(
            Kind::String,
            "The string without white space, or the characters given, at its start.",
        ),
    Function::between("RTRIM", 1, 2, |_, arguments| trim(arguments, Side::End, Side::End)).gives(
        Kind::String,
        "The string without white space, or the characters given, at its end.",
    ),
    Function::exact("REPLACE", 3, |_, arguments| defined(replace(arguments))).gives(
        Kind::String,
        "The first with every occurrence of the second (not empty) replaced by the third.",
    ),
    Function::exact("REPLICATE", 2, |_, arguments| defined(replicate(arguments)))
        .gives(Kind::String, "The string `n` times; at most 10,000 code points."),
    Function::exact("REVERSE", 1, |_, arguments| defined(text(arguments, 0).map(reverse)))
        .gives(Kind::String, "The code points in reverse order."),
    Function::exact("STRINGJOIN", 2, |_, arguments| defined(join(arguments)))
        .or(&["STRING_JOIN"])
        .gives(Kind::String, "The strings of an array with a separator between them."),
    Function::exact("STRINGSPLIT", 2, |_, arguments| defined(split(arguments)))
        .or(&["STRING_SPLIT"])
        .gives(
            Kind::Array,
            "The pieces between the separators; the whole string when the separator is empty.",
        ),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Sensitive,
    Ignored,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Start,
    End,
}

fn compare(arguments: &[Value], test: fn(&str, &str) -> bool) -> Value {
    defined(compare_texts(arguments, test))
}

fn compare_texts(arguments: &[Value], test: fn(&str, &str) -> bool) -> Option<bool> {
    let (whole, part) = (text(arguments, 0)?, text(arguments, 1)?);
    Some(match optional(arguments, 2, false, Value::as_bool)? {
        false => test(whole, part),
        true => test(&case::fold(whole), &case::fold(part)),
    })
}

fn contains(whole: &str, part: &str) -> bool {
    whole.contains(part)
}

fn starts_with(whole: &str, part: &str) -> bool {
    whole.starts_with(part)
}

fn ends_with(whole: &str, part: &str) -> bool {
    whole.ends_with(part)
}

fn equals(whole: &str, part: &str) -> bool {
    whole == part
}

// One answer per text to look for; what is not a text is unknown.
fn contains_each<'c>(
    arguments: &'c [Value],
    case: Case,
    effort: &'c mut Effort<'_>,
) -> impl Iterator<Item = Option<bool>> {
    let whole = text(arguments, 0).map(|whole| match case {
        Case::Sensitive => whole.into(),
        Case::Ignored => case::fold(whole),
    });
    arguments[1..].iter().map(move |part| {
        let (whole, part) = (whole.as_ref()?, part.as_str()?);
        effort.spend(whole.len() as u64 / BYTES_SEARCHED_PER_STEP + 1).ok()?;
        Some(match case {
            Case::Sensitive => whole.contains(part),
            Case::Ignored => whole.contains(&*case::fold(part)),
        })
    })
}

fn concat(arguments: &[Value]) -> Option<String> {
    let texts: Option<Vec<_>> = arguments.iter().map(Value::as_str).collect();
    joined(&texts?, "")
}

fn join(arguments: &[Value]) -> Option<String> {
    let texts: Option<Vec<_>> = elements(arguments, 0)?.iter().map(Value::as_str).collect();
    joined(&texts?, text(arguments, 1)?)
}

fn joined(texts: &[&str], separator: &str) -> Option<String> {
    let separators = texts.len().saturating_sub(1).checked_mul(separator.len())?;
    let length = texts.iter().try_fold(separators, |sum, text| sum.checked_add(text.len()))?;
    (length <= STRING_RESULT_MAX).then(|| texts.join(separator))
}

fn split(arguments: &[Value]) -> Option<Value> {
    let (whole, separator) = (text(arguments, 0)?, text(arguments, 1)?);
    if separator.is_empty() {
        return Some(Value::array(vec![whole.into()]));
    }
    let pieces: Vec<Value> =
        whole.split(separator).take(ARRAY_RESULT_MAX + 1).map(Value::from).collect();
    (pieces.len() <= ARRAY_RESULT_MAX).then(|| Value::array(pieces))
}

fn trim(arguments: &[Value], first: Side, last: Side) -> Value {
    let Some(text) = text(arguments, 0) else { return Value::Undefined };
    let trimmed = match arguments.get(1) {
        None => trimmed(text, first, last, is_white_space),
        Some(Value::String(characters)) if characters.is_empty() => {
            trimmed(text, first, last, is_white_space)
        }
        Some(Value::String(characters)) => {
            // Sorted, so that a long set does not cost its length per character.
            let mut set: Vec<char> = characters.chars().collect();
            set.sort_unstable();
            trimmed(text, first, last, |char| set.binary_search(&char).is_ok())
        }
        Some(_) => return Value::Undefined,
    };
    trimmed.into()
}

/// White space that is trimmed: Unicode's, and U+180E, which was once among it.
pub(super) fn is_white_space(char: char) -> bool {
    char.is_whitespace() || char == '\u{180e}'
}

fn trimmed(text: &str, first: Side, last: Side, drop: impl Fn(char) -> bool) -> &str {
    let text = if first == Side::Start { text.trim_start_matches(&drop) } else { text };
    if last == Side::End { text.trim_end_matches(&drop) } else { text }
}

fn replace(arguments: &[Value]) -> Option<String> {
    let (whole, old, new) = (text(arguments, 0)?, text(arguments, 1)?, text(arguments, 2)?);
    if old.is_empty() {
        return None;
    }
    let count = whole.matches(old).count();
    let length = (whole.len() - count * old.len()).checked_add(count.checked_mul(new.len())?)?;
    (length <= STRING_RESULT_MAX).then(|| whole.replace(old, new))
}

fn replicate(arguments: &[Value]) -> Option<String> {
    let text = text(arguments, 0)?;
    let count = usize::try_from(integer(&arguments[1])?).ok()?;
    let length = text.chars().count().checked_mul(count)?;
    (length <= REPLICATE_LENGTH_MAX).then(|| text.repeat(count))
}

// Characters are reversed, not code units: a pair stays a pair.
fn reverse(text: &str) -> String {
    text.chars().rev().collect()
}

#[cfg(test)]
mod tests;
