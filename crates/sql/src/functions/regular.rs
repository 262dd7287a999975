//! Functions of regular expressions, under the budget of [`Regex`].

use super::{ARRAY_RESULT_MAX, Function, Kind, STRING_RESULT_MAX, defined, optional, text};
use crate::effort::Effort;
use crate::regex::{PatternGroups, Regex};
use armilla_model::Value;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::between("REGEXMATCH", 2, 3, |context, arguments| {
        defined(regex_match(arguments, &mut context.effort))
    })
    .gives(Kind::Bool, "True when the pattern matches somewhere; modifiers `m`, `s`, `i`, `x`."),
    Function::between("REGEXEXTRACT", 2, 4, |context, arguments| {
        defined(extract(arguments, &mut context.effort))
    })
    .gives(
        Kind::String,
        "The first match, or its group of a number (third modifiers); undefined for none.",
    ),
    Function::between("REGEXEXTRACTALL", 2, 4, |context, arguments| {
        defined(extract_all(arguments, &mut context.effort))
    })
    .gives(
        Kind::Array,
        "All matches, or their group of a number (third modifiers), but for groups not there.",
    ),
    Function::between("REGEXREPLACE", 3, 4, |context, arguments| {
        defined(replace(arguments, 1, &mut context.effort))
    })
    .gives(Kind::String, "The first match replaced by the third string, taken as it is."),
    Function::between("REGEXREPLACEALL", 3, 4, |context, arguments| {
        defined(replace(arguments, usize::MAX, &mut context.effort))
    })
    .gives(Kind::String, "Every match replaced by the third string, taken as it is."),
];

fn compiled(
    arguments: &[Value],
    modifiers_at: usize,
    effort: &mut Effort<'_>,
) -> Option<Arc<Regex>> {
    let modifiers = optional(arguments, modifiers_at, "", Value::as_str)?;
    Regex::new(text(arguments, 1)?, modifiers, effort).ok()?
}

fn regex_match(arguments: &[Value], effort: &mut Effort<'_>) -> Option<bool> {
    compiled(arguments, 2, effort)?.is_match(text(arguments, 0)?, effort).ok()
}

// The whole match is group 0; a group beyond the pattern's is never part of a match.
fn group(arguments: &[Value]) -> Option<usize> {
    usize::try_from(optional(arguments, 3, 0, Value::as_i64)?).ok()
}

fn extract(arguments: &[Value], effort: &mut Effort<'_>) -> Option<Value> {
    let (text, group) = (text(arguments, 0)?, group(arguments)?);
    let groups = compiled(arguments, 2, effort)?.first_match(text, effort).ok()??;
    Some(text.get(groups.get(group)?)?.into())
}

fn extract_all(arguments: &[Value], effort: &mut Effort<'_>) -> Option<Value> {
    let (text, group) = (text(arguments, 0)?, group(arguments)?);
    let mut found: Vec<Value> = Vec::new();
    let mut take = |groups: PatternGroups| {
        found.extend(groups.get(group).and_then(|range| text.get(range)).map(Value::from));
        match found.len() {
            0..=ARRAY_RESULT_MAX => ControlFlow::Continue(()),
            _ => ControlFlow::Break(()),
        }
    };
    compiled(arguments, 2, effort)?.each_match(text, effort, &mut take).ok()?;
    (found.len() <= ARRAY_RESULT_MAX).then(|| Value::array(found))
}

fn replace(arguments: &[Value], count_max: usize, effort: &mut Effort<'_>) -> Option<String> {
    let (text, new) = (text(arguments, 0)?, text(arguments, 2)?);
    let regex = compiled(arguments, 3, effort)?;
    let mut matches: Vec<Range<usize>> = Vec::new();
    let mut take = |groups: PatternGroups| {
        matches.push(groups.whole());
        if matches.len() < count_max { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    regex.each_match(text, effort, &mut take).ok()?;
    let removed: usize = matches.iter().map(ExactSizeIterator::len).sum();
    let added = matches.len().checked_mul(new.len())?;
    let length = (text.len() - removed).checked_add(added)?;
    if length > STRING_RESULT_MAX {
        return None;
    }
    let mut result = String::with_capacity(length);
    let mut kept_to = 0;
    for range in matches {
        result.push_str(text.get(kept_to..range.start)?);
        result.push_str(new);
        kept_to = range.end;
    }
    result.push_str(text.get(kept_to..)?);
    Some(result)
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::check;

    #[test]
    fn documented_examples() {
        check(&[
            ("REGEXEXTRACT", r#"["SKU-93821-BLUE","[A-Z]+"]"#, r#""SKU""#),
            ("REGEXEXTRACT", r#"["SKU-93821-BLUE","[0-9]+"]"#, r#""93821""#),
            ("REGEXEXTRACT", r#"["SKU-93821-BLUE","sku-([0-9]+)","i",1]"#, r#""93821""#),
            ("REGEXEXTRACT", r#"["SKU-93821-BLUE","sku-([0-9]+)","",0]"#, "undefined"),
            ("REGEXEXTRACTALL", r#"["A12-B34-C56","[0-9]+"]"#, r#"["12","34","56"]"#),
            ("REGEXEXTRACTALL", r#"["a1b2","[A-Z]([0-9])","i",1]"#, r#"["1","2"]"#),
            ("REGEXREPLACE", r##"["A12-B34-C56","[0-9]+","#"]"##, r##""A#-B34-C56""##),
            ("REGEXREPLACEALL", r##"["A12-B34-C56","[0-9]+","#"]"##, r##""A#-B#-C#""##),
        ]);
    }

    #[test]
    fn what_is_no_pattern_or_does_not_match() {
        check(&[
            ("REGEXEXTRACT", r#"["abc","x"]"#, "undefined"),
            ("REGEXEXTRACT", r#"["abc","("]"#, "undefined"),
            ("REGEXEXTRACT", r#"["abc","b","",-1]"#, "undefined"),
            ("REGEXEXTRACT", r#"["abc","b","",2]"#, "undefined"),
            ("REGEXEXTRACT", r#"["abc","b",1]"#, "undefined"),
            ("REGEXEXTRACTALL", r#"["abc","x"]"#, "[]"),
            ("REGEXEXTRACTALL", r#"["ab","a|(b)","",1]"#, r#"["b"]"#),
            ("REGEXREPLACEALL", r#"["abc","x","y"]"#, r#""abc""#),
            ("REGEXREPLACEALL", r#"["abc","","-"]"#, r#""-a-b-c-""#),
            ("REGEXREPLACEALL", r#"["aé","(.)","$1"]"#, r#""$1$1""#),
            ("REGEXREPLACE", r#"["abc","B","$","i"]"#, r#""a$c""#),
            ("REGEXREPLACE", r#"["abc","b",1]"#, "undefined"),
        ]);
    }
}
