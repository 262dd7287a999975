//! Numbers as header values.

use armilla_model::charge::RequestCharge;
use http::HeaderValue;
use std::time::Duration;

pub(super) fn decimal_value(number: u64) -> HeaderValue {
    HeaderValue::from_str(itoa::Buffer::new().format(number)).expect("digits only")
}

/// Request units with at most two decimals: `1`, `5.71`, `0.5`.
pub(super) fn charge_value(charge: RequestCharge) -> HeaderValue {
    fraction_value(charge.hundredths(), 2)
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
        for (micros, text) in [
            (0, "0"),
            (1_000_000, "1"),
            (5_714_000, "5.71"),
            (500_000, "0.5"),
            (10_045_000, "10.05"),
        ] {
            assert_eq!(charge_value(RequestCharge::from_micros(micros)), text);
        }
    }

    #[test]
    fn durations_are_milliseconds() {
        assert_eq!(millis_value(Duration::from_micros(7)), "0.007");
        assert_eq!(millis_value(Duration::from_millis(20)), "20");
    }
}
