//! The 64-bit integer family. Both arguments must be whole (`5.0` is), results wrap around.

use super::{Function, Kind, defined};
use armilla_model::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("INTADD", 2, |_, arguments| total(arguments, i64::wrapping_add))
        .gives(Kind::Number, "Sum of 64-bit integers; wraps around."),
    Function::exact("INTSUB", 2, |_, arguments| total(arguments, i64::wrapping_sub))
        .gives(Kind::Number, "Difference of 64-bit integers; wraps around."),
    Function::exact("INTMUL", 2, |_, arguments| product(arguments))
        .gives(Kind::Number, "Product of 64-bit integers; wraps around."),
    Function::exact("INTDIV", 2, |_, arguments| by_divisor(arguments, i64::checked_div)).gives(
        Kind::Number,
        "Quotient of 64-bit integers, toward zero; undefined for a divisor of 0.",
    ),
    Function::exact("INTMOD", 2, |_, arguments| by_divisor(arguments, i64::checked_rem)).gives(
        Kind::Number,
        "Remainder of 64-bit integers, sign of the dividend; undefined for a divisor of 0.",
    ),
    Function::exact("INTBITAND", 2, |_, arguments| total(arguments, |left, right| left & right))
        .gives(Kind::Number, "Bits set in both 64-bit integers."),
    Function::exact("INTBITOR", 2, |_, arguments| total(arguments, |left, right| left | right))
        .gives(Kind::Number, "Bits set in either 64-bit integer."),
    Function::exact("INTBITXOR", 2, |_, arguments| total(arguments, |left, right| left ^ right))
        .gives(Kind::Number, "Bits set in exactly one of two 64-bit integers."),
    // A shift takes the low six bits of its count, as 64-bit machines do.
    Function::exact("INTBITLEFTSHIFT", 2, |_, arguments| {
        total(arguments, |left, right| left << (right & 63))
    })
    .gives(Kind::Number, "64-bit integer shifted left; the count is taken modulo 64."),
    Function::exact("INTBITRIGHTSHIFT", 2, |_, arguments| {
        total(arguments, |left, right| left >> (right & 63))
    })
    .gives(
        Kind::Number,
        "64-bit integer shifted right with its sign; the count is taken modulo 64.",
    ),
    Function::exact("INTBITNOT", 1, |_, arguments| {
        defined(arguments[0].as_i64().map(|number| !number))
    })
    .gives(Kind::Number, "64-bit integer with every bit turned over."),
];

fn total(arguments: &[Value], function: fn(i64, i64) -> i64) -> Value {
    defined(both(arguments).map(|(left, right)| function(left, right)))
}

// The smallest integer by -1, which has no counterpart, is undefined here and in divisions.
fn product(arguments: &[Value]) -> Value {
    let both = both(arguments).filter(|pair| !matches!(pair, (i64::MIN, -1) | (-1, i64::MIN)));
    defined(both.map(|(left, right)| left.wrapping_mul(right)))
}

fn by_divisor(arguments: &[Value], function: fn(i64, i64) -> Option<i64>) -> Value {
    defined(both(arguments).and_then(|(left, right)| function(left, right)))
}

fn both(arguments: &[Value]) -> Option<(i64, i64)> {
    arguments[0].as_i64().zip(arguments[1].as_i64())
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::check;

    #[test]
    fn documented_examples() {
        check(&[
            ("INTADD", "[20,10]", "30"),
            ("INTADD", "[20,0.10]", "undefined"),
            ("INTADD", r#"[1,"2"]"#, "undefined"),
            ("INTSUB", "[25,50]", "-25"),
            ("INTMUL", "[5,-2]", "-10"),
            ("INTMUL", "[5,2.0]", "10"),
            ("INTDIV", "[-7,2]", "-3"),
            ("INTDIV", "[10,0]", "undefined"),
            ("INTMOD", "[12,-5]", "2"),
            ("INTMOD", "[-12,-5]", "-2"),
            ("INTMOD", "[12,0]", "undefined"),
            ("INTBITAND", "[15,25]", "9"),
            ("INTBITOR", "[56,100]", "124"),
            ("INTBITXOR", "[56,100]", "92"),
            ("INTBITLEFTSHIFT", "[1,40]", "1099511627776"),
            ("INTBITRIGHTSHIFT", "[-8,1]", "-4"),
            ("INTBITNOT", "[65]", "-66"),
            ("INTBITNOT", "[0.1]", "undefined"),
        ]);
    }

    #[test]
    fn results_wrap_around() {
        check(&[
            ("INTADD", "[9223372036854775807,1]", "-9223372036854775808"),
            ("INTDIV", "[-9223372036854775808,-1]", "undefined"),
            ("INTMOD", "[-9223372036854775808,-1]", "undefined"),
            ("INTMUL", "[-9223372036854775808,-1]", "undefined"),
            ("INTBITLEFTSHIFT", "[1,64]", "1"),
            ("INTBITLEFTSHIFT", "[1,-1]", "-9223372036854775808"),
        ]);
    }
}
