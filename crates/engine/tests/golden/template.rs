//! Items made from a template, one per number: `{"id":"post<i:3>","n":<i%50>}`.
//!
//! Between `<` and `>` stands a sum over the number `i`, computed from left to right without
//! precedence, and behind a colon the digits to fill up to.

/// The template with the number put in.
pub(crate) fn fill(template: &str, number: i64) -> String {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, behind)) = rest.split_once('<') {
        let (formula, behind) = behind.split_once('>').unwrap();
        let (formula, width) = formula.split_once(':').unwrap_or((formula, "0"));
        let width: usize = width.parse().unwrap();
        text.push_str(before);
        text.push_str(&format!("{:0width$}", value(formula, number)));
        rest = behind;
    }
    text + rest
}

fn value(formula: &str, number: i64) -> i64 {
    let operand = |text: &str| if text == "i" { number } else { text.parse().unwrap() };
    let end = |text: &str| text.find(['+', '-', '*', '/', '%']).unwrap_or(text.len());
    let (first, mut rest) = formula.split_at(end(formula));
    let mut result = operand(first);
    while let Some(operator) = rest.chars().next() {
        let (next, behind) = rest[1..].split_at(end(&rest[1..]));
        let next = operand(next);
        result = match operator {
            '+' => result + next,
            '-' => result - next,
            '*' => result * next,
            '/' => result / next,
            _ => result % next,
        };
        rest = behind;
    }
    result
}

#[test]
fn numbers_are_put_in() {
    assert_eq!(fill(r#"{"id":"p<i:3>","n":<i*37%10-8>}"#, 7), r#"{"id":"p007","n":1}"#);
    assert_eq!(fill("<i/2+1:2>.<i>", 9), "05.9");
}
