//! Functions are short and take few parameters: who needs more wants a type for what goes together.

use super::{product, source_files};
use std::fs;

/// Lines of a function, from its name to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Parameters of a function, `self` included.
const PARAMETERS_MAX: usize = 6;

/// A function of a file.
#[derive(Debug, PartialEq)]
struct Function<'t> {
    name: &'t str,
    parameters: usize,
    lines: usize,
}

/// Every function of a text that `cargo fmt` has written: a body ends with the first closing brace that is
/// as far from the margin as the line that begins the function.
fn functions(text: &str) -> Vec<Function<'_>> {
    let lines: Vec<&str> = text.lines().collect();
    let starts = (0..lines.len()).filter_map(|at| Some((at, name_of(lines[at])?)));
    let function = |(at, name): (usize, &str)| {
        let signature = lines[at..].join("\n");
        let behind = &signature[signature.find(&format!("fn {name}")).unwrap() + 3 + name.len()..];
        Function {
            parameters: parameters(behind),
            lines: length(&lines[at..]),
            name: named(name, text),
        }
    };
    starts.map(function).collect()
}

/// The same name, borrowed from the text.
fn named<'t>(name: &str, text: &'t str) -> &'t str {
    let at = text.find(&format!("fn {name}")).unwrap() + 3;
    &text[at..at + name.len()]
}

/// The name of the function that a line begins.
fn name_of(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let word = |word: &str| {
        let visible = word.starts_with("pub") || word.starts_with("in") || word.ends_with(')');
        visible || matches!(word, "const" | "async" | "unsafe" | "extern" | "\"C\"")
    };
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_'))?;
    (before.split_whitespace().all(word) && end > 0).then_some(&rest[..end])
}

/// How many parameters there are behind a name; generic ones are not counted.
fn parameters(behind: &str) -> usize {
    let (mut depth, mut count, mut is_empty, mut before) = (0_usize, 0, true, ' ');
    let list = behind.find('(').unwrap();
    let start = if behind.starts_with('<') { generics(behind) } else { list };
    for letter in behind[start..].chars() {
        match letter {
            '(' | '[' | '{' | '<' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '>' if before != '-' && before != '=' => depth -= 1,
            ',' if depth == 1 => {
                count += usize::from(!is_empty);
                is_empty = true;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
        is_empty &= letter.is_whitespace() || (depth == 1 && matches!(letter, '(' | ','));
        before = letter;
    }
    count + usize::from(!is_empty)
}

/// Where the list of parameters begins behind generic ones.
fn generics(behind: &str) -> usize {
    let (mut depth, mut before) = (0_usize, ' ');
    for (at, letter) in behind.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if before != '-' && before != '=' => depth -= 1,
            '(' if depth == 0 => return at,
            _ => {}
        }
        before = letter;
    }
    behind.len()
}

/// Lines from the first of a function to its last.
fn length(lines: &[&str]) -> usize {
    let margin = lines[0].len() - lines[0].trim_start().len();
    let first = lines[0].trim_end();
    if first.ends_with([';', '}']) {
        return 1;
    }
    let ends = |line: &&str| {
        let inside = line.trim_start();
        let at_margin = line.len() - inside.len() == margin;
        at_margin && (inside.starts_with('}') || (inside.starts_with(')') && inside.ends_with(';')))
    };
    lines[1..].iter().position(ends).map_or(lines.len(), |end| end + 2)
}

#[test]
fn functions_are_short_and_take_few_parameters() {
    let mut seen = 0;
    for path in source_files() {
        let text = fs::read_to_string(&path).unwrap();
        for Function { name, parameters, lines } in functions(&product(&text)) {
            let place = path.display();
            assert!(lines <= FUNCTION_LINES_MAX, "{place}: {name} has {lines} lines");
            assert!(parameters <= PARAMETERS_MAX, "{place}: {name} takes {parameters} parameters");
            seen += 1;
        }
    }
    assert!(seen > 4000, "only {seen} functions were found");
}

#[test]
fn functions_are_measured() {
    let text = "pub(in crate::a) fn one<T: Fn(u8, u8) -> u8>(\n    a: (u8, u8),\n    b: T,\n) -> u8 {\n    1\n}\n\
                fn two() {}\n    async fn three(&self, f: impl Fn(u8, u8)) -> Vec<u8>;\n// a fn four(\n";
    let found = functions(text);
    let measured: Vec<_> = found.iter().map(|it| (it.name, it.parameters, it.lines)).collect();
    assert_eq!(measured, [("one", 2, 6), ("two", 0, 1), ("three", 2, 1)]);
}
