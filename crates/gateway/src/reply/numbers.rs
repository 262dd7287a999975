//! Numbers as header values.

use http::HeaderValue;
use std::time::Duration;

pub(super) fn decimal_value(number: u64) -> HeaderValue {
    HeaderValue::from_str(itoa::Buffer::new().format(number)).expect("digits only")
}

/// Request units with at most two decimals: `1`, `5.71`, `0.5`.
pub(super) fn charge_value(units: f64) -> HeaderValue {
    // A float cast saturates and turns NaN into zero, so any charge has a text.
    fraction_value((units * 100.0).round() as u64, 2)
}

/// Milliseconds with three decimals.
pub(super) fn millis_value(duration: Duration) -> HeaderValue {
    fraction_value(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX), 3)
}

/// `number / 10^decimals` without trailing zeros.
fn fraction_value(number: u64, decimals: usize) -> HeaderValue {
    let scale = 10u64.pow(decimals as u32);
    let (whole, fraction) = (number / scale, number % scale);
    if fraction == 0 {
        return decimal_value(whole);
    }
    let mut text = [0u8; 32];
    let mut digits = itoa::Buffer::new();
    let whole = digits.format(whole).as_bytes();
    let length = whole.len();
    text[..length].copy_from_slice(whole);
    text[length] = b'.';
    let mut rest = fraction;
    for position in (1..=decimals).rev() {
        text[length + position] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let mut end = length + decimals;
    while text[end] == b'0' {
        end -= 1;
    }
    HeaderValue::from_bytes(&text[..=end]).expect("digits and a point")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_have_at_most_two_decimals() {
        for (units, text) in
            [(0.0, "0"), (1.0, "1"), (5.714, "5.71"), (0.5, "0.5"), (10.05, "10.05"), (-1.0, "0")]
        {
            assert_eq!(charge_value(units), text);
        }
        assert_eq!(charge_value(f64::NAN), "0");
        assert_eq!(charge_value(f64::INFINITY).len(), "184467440737095516.15".len());
    }

    #[test]
    fn durations_are_milliseconds() {
        assert_eq!(millis_value(Duration::from_micros(7)), "0.007");
        assert_eq!(millis_value(Duration::from_millis(20)), "20");
    }
}
