//! Mathematical functions: doubles in, doubles out.
//!
//! An argument that is not a number gives undefined; a number outside a function's domain gives NaN,
//! as IEEE 754 has it. Integers beyond 2^53 stay exact where the function can keep them.

use super::{Context, Function, Kind, defined, optional};
use armilla_model::{Number, Value};
use std::f64::consts::PI;

/// More decimals than a double has: `ROUND` counts no more.
const ROUND_DIGITS_MAX: i64 = 17;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::exact("ABS", 1, |_, arguments| {
        defined(arguments[0].as_number().map(absolute).map(Value::Number))
    })
    .gives(Kind::Number, "Absolute value. Integers stay exact."),
    Function::exact("ACOS", 1, |_, arguments| real(arguments, f64::acos))
        .gives(Kind::Number, "Angle in radians whose cosine is `x`."),
    Function::exact("ASIN", 1, |_, arguments| real(arguments, f64::asin))
        .gives(Kind::Number, "Angle in radians whose sine is `x`."),
    Function::exact("ATAN", 1, |_, arguments| real(arguments, f64::atan))
        .gives(Kind::Number, "Angle in radians whose tangent is `x`."),
    Function::exact("ATN2", 2, |_, arguments| reals(arguments, f64::atan2))
        .gives(Kind::Number, "Angle in radians of the point (`x`, `y`); `y` comes first."),
    Function::exact("CEILING", 1, |_, arguments| whole(arguments, f64::ceil))
        .gives(Kind::Number, "Smallest whole number not below `x`."),
    Function::exact("COS", 1, |_, arguments| real(arguments, f64::cos))
        .gives(Kind::Number, "Cosine of an angle in radians."),
    Function::exact("COT", 1, |_, arguments| real(arguments, |x| 1.0 / x.tan()))
        .gives(Kind::Number, "Cotangent of an angle in radians."),
    Function::exact("DEGREES", 1, |_, arguments| real(arguments, |x| x * 180.0 / PI))
        .gives(Kind::Number, "Radians as degrees."),
    Function::exact("EXP", 1, |_, arguments| real(arguments, f64::exp))
        .gives(Kind::Number, "e to the power of `x`."),
    Function::exact("FLOOR", 1, |_, arguments| whole(arguments, f64::floor))
        .gives(Kind::Number, "Largest whole number not above `x`."),
    Function::between("LOG", 1, 2, |_, arguments| match arguments {
        [_] => real(arguments, f64::ln),
        _ => reals(arguments, logarithm),
    })
    .gives(Kind::Number, "Natural logarithm, or the logarithm to the base given second."),
    Function::exact("LOG10", 1, |_, arguments| real(arguments, f64::log10))
        .gives(Kind::Number, "Logarithm to base 10."),
    Function::between("NUMBERBIN", 1, 2, |_, arguments| {
        defined(number_bin(arguments).map(Value::Number))
    })
    .gives(Kind::Number, "`x` rounded down to a multiple of the size (1 when absent), in doubles."),
    Function::exact("PI", 0, |_, _| PI.into()).gives(Kind::Number, "The constant pi."),
    Function::exact("POWER", 2, |_, arguments| reals(arguments, f64::powf))
        .gives(Kind::Number, "`x` to the power of `y`, as a double."),
    Function::exact("RADIANS", 1, |_, arguments| real(arguments, |x| x * PI / 180.0))
        .gives(Kind::Number, "Degrees as radians."),
    Function::exact("RAND", 0, random)
        .each_call()
        .gives(Kind::Number, "A random number from 0 up to, not including, 1; new at every call."),
    Function::between("ROUND", 1, 2, |_, arguments| defined(round(arguments).map(Value::Number)))
        .gives(
            Kind::Number,
            "Nearest number of so many decimals (0; negative: tens), half away from zero.",
        ),
    Function::exact("SIGN", 1, |_, arguments| defined(arguments[0].as_f64().and_then(sign)))
        .gives(Kind::Number, "-1, 0 or 1; undefined for NaN."),
    Function::exact("SIN", 1, |_, arguments| real(arguments, f64::sin))
        .gives(Kind::Number, "Sine of an angle in radians."),
    Function::exact("SQRT", 1, |_, arguments| real(arguments, f64::sqrt))
        .gives(Kind::Number, "Square root."),
    Function::exact("SQUARE", 1, |_, arguments| {
        defined(arguments[0].as_number().map(|x| Value::Number(x.times(x))))
    })
    .gives(Kind::Number, "`x` times `x`. Integers stay exact while they fit 64 bits."),
    Function::exact("TAN", 1, |_, arguments| real(arguments, f64::tan))
        .gives(Kind::Number, "Tangent of an angle in radians."),
    Function::exact("TRUNC", 1, |_, arguments| whole(arguments, f64::trunc))
        .gives(Kind::Number, "`x` without its fraction."),
];

fn real(arguments: &[Value], function: fn(f64) -> f64) -> Value {
    defined(arguments[0].as_f64().map(function))
}

fn reals(arguments: &[Value], function: fn(f64, f64) -> f64) -> Value {
    let both = arguments[0].as_f64().zip(arguments[1].as_f64());
    defined(both.map(|(left, right)| function(left, right)))
}

// Rounding leaves an integer as it is, with all its digits.
fn whole(arguments: &[Value], function: fn(f64) -> f64) -> Value {
    match arguments[0].as_number() {
        Some(Number::Int(int)) => int.into(),
        Some(Number::Float(float)) => function(float).into(),
        None => Value::Undefined,
    }
}

// The smallest integer has no counterpart and stays what it is, as in the service.
fn absolute(number: Number) -> Number {
    match number {
        Number::Int(int) => Number::Int(int.wrapping_abs()),
        Number::Float(float) => Number::Float(float.abs()),
    }
}

// NaN has no sign.
fn sign(x: f64) -> Option<i64> {
    match x {
        _ if x.is_nan() => None,
        _ if x > 0.0 => Some(1),
        _ if x < 0.0 => Some(-1),
        _ => Some(0),
    }
}

// Rounds to so many decimals in doubles, without any correction for decimals that doubles miss.
fn round(arguments: &[Value]) -> Option<Number> {
    let number = arguments[0].as_number()?;
    let digits = optional(arguments, 1, 0, Value::as_i64)?.min(ROUND_DIGITS_MAX);
    if number.as_i64().is_some() && digits >= 0 {
        return Some(number);
    }
    let (x, power) = (number.as_f64(), 10f64.powf(digits.unsigned_abs() as f64));
    let rounded =
        if digits >= 0 { (x * power).round() / power } else { (x / power).round() * power };
    Some(as_integer(rounded))
}

// A result without fraction is an integer where it fits.
fn as_integer(x: f64) -> Number {
    let fits = x.fract() == 0.0 && (-(2f64.powi(63))..2f64.powi(63)).contains(&x);
    if fits { Number::Int(x as i64) } else { Number::Float(x) }
}

fn logarithm(x: f64, base: f64) -> f64 {
    // The two common bases have functions of their own, which do not lose the last digit.
    match base {
        2.0 => x.log2(),
        10.0 => x.log10(),
        _ => x.ln() / base.ln(),
    }
}

fn random(context: &mut Context<'_>, _: &[Value]) -> Value {
    (context.random)().into()
}

fn number_bin(arguments: &[Value]) -> Option<Number> {
    let x = arguments[0].as_number()?;
    let size = optional(arguments, 1, Number::Int(1), Value::as_number)?;
    if let (Some(x), Some(size)) = (x.as_i64(), size.as_i64()) {
        return (size != 0).then(|| Number::Int(floor_of_division(x, size).wrapping_mul(size)));
    }
    let (x, size) = (x.as_f64(), size.as_f64());
    let has_bins = size != 0.0 && size.is_finite() && x.is_finite();
    has_bins.then(|| as_integer((x / size).floor() * size))
}

fn floor_of_division(x: i64, size: i64) -> i64 {
    let is_exact = x.wrapping_rem(size) == 0;
    let is_negative = (x < 0) != (size < 0);
    x.wrapping_div(size) - i64::from(!is_exact && is_negative)
}

#[cfg(test)]
mod tests {
    use crate::functions::tests::{check, evaluate};
    use armilla_model::Value;

    #[test]
    fn documented_examples() {
        check(&[
            ("ABS", "[-1]", "1"),
            ("ABS", "[-2.5]", "2.5"),
            ("ABS", r#"["1"]"#, "undefined"),
            ("ABS", "[null]", "undefined"),
            ("ACOS", "[-1]", "3.141592653589793"),
            ("ASIN", "[-1]", "-1.5707963267948966"),
            ("ATAN", "[-45.01]", "-1.5485826962062663"),
            ("ATN2", "[35.175643,129.44]", "0.265344532064832"),
            ("ATN2", "[0,-1]", "3.141592653589793"),
            ("CEILING", "[123.45]", "124"),
            ("CEILING", "[-45.72]", "-45"),
            ("CEILING", "[-0.5]", "0"),
            ("COS", "[14.78]", "-0.5994654261946543"),
            ("COT", "[124.1332]", "-0.040311998371148884"),
            ("DEGREES", "[1.5707963267948966]", "90"),
            ("DEGREES", "[4.71238898038469]", "270"),
            ("DEGREES", "[6.283185307179586]", "360"),
            ("EXP", "[10]", "22026.465794806718"),
            ("FLOOR", "[-145.12]", "-146"),
            ("FLOOR", "[null]", "undefined"),
            ("LOG", "[5]", "1.6094379124341003"),
            ("LOG", "[2,10]", "0.3010299956639812"),
            ("LOG", "[8,2]", "3"),
            ("LOG", r#"[8,"2"]"#, "undefined"),
            ("LOG10", "[0.001]", "-3"),
            ("PI", "[]", "3.141592653589793"),
            ("POWER", "[5,5]", "3125"),
            ("POWER", "[9,0.5]", "3"),
            ("POWER", "[null,3]", "undefined"),
            ("RADIANS", "[-181.01]", "-3.1592204790349356"),
            ("RADIANS", "[270]", "4.71238898038469"),
            ("ROUND", "[2.5]", "3"),
            ("ROUND", "[-6.5]", "-7"),
            ("ROUND", "[-0.5]", "-1"),
            ("ROUND", "[0.49]", "0"),
            ("ROUND", "[2.567,2]", "2.57"),
            ("ROUND", "[1.005,2]", "1"),
            ("ROUND", "[1250,-2]", "1300"),
            ("ROUND", "[523,-4]", "0"),
            ("ROUND", "[1.5,0.5]", "undefined"),
            ("SIGN", "[-0.001]", "-1"),
            ("SIGN", "[0]", "0"),
            ("SIN", "[45.175643]", "0.929607286611012"),
            ("SQRT", "[17]", "4.123105625617661"),
            ("SQUARE", "[-4]", "16"),
            ("TAN", "[124.1332]", "-24.80651023035602"),
            ("TAN", "[1.5707963267948966]", "16331239353195370"),
            ("TRUNC", "[-2.78]", "-2"),
            ("RAND", "[]", "0.25"),
        ]);
    }

    #[test]
    fn bins_are_computed_in_doubles() {
        check(&[
            ("NUMBERBIN", "[37.752,-100]", "100"),
            ("NUMBERBIN", "[37.752,10]", "30"),
            ("NUMBERBIN", "[37.752]", "37"),
            ("NUMBERBIN", "[37.752,0]", "undefined"),
            ("NUMBERBIN", "[37.752,0.1]", "37.7"),
            ("NUMBERBIN", "[0.7,0.1]", "0.6000000000000001"),
            ("NUMBERBIN", "[0.3,0.1]", "0.2"),
            ("NUMBERBIN", "[-7,5]", "-10"),
            ("NUMBERBIN", "[1e300,3]", "1e300"),
            ("NUMBERBIN", r#"["x",5]"#, "undefined"),
        ]);
    }

    #[test]
    fn outside_the_domain_is_not_a_number() {
        for (name, argument) in [("ACOS", 2.0), ("SQRT", -1.0), ("LOG", -1.0)] {
            let result = evaluate(name, &[Value::from(argument)]);
            assert!(result.as_f64().is_some_and(f64::is_nan), "{name}({argument}) is {result}");
        }
        assert_eq!(evaluate("LOG", &[Value::from(0.0)]).as_f64(), Some(f64::NEG_INFINITY));
        assert_eq!(evaluate("FLOOR", &[f64::INFINITY.into()]).as_f64(), Some(f64::INFINITY));
        assert!(evaluate("NUMBERBIN", &[f64::INFINITY.into()]).is_undefined());
    }

    #[test]
    fn large_integers_keep_their_digits() {
        check(&[
            ("ABS", "[-9007199254740993]", "9007199254740993"),
            ("ABS", "[-9223372036854775808]", "-9223372036854775808"),
            ("SQUARE", "[94906267]", "9007199515875289"),
            ("ROUND", "[9007199254740993]", "9007199254740993"),
        ]);
    }
}
