//! Numbers as header values, without the formatter.

use armilla_model::charge::RequestCharge;
use std::time::Duration;

/// Digits.
pub(super) fn write_decimal(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Request units with at most two decimals: `1`, `5.71`, `0.5`.
pub(super) fn write_charge(charge: RequestCharge, out: &mut Vec<u8>) {
    write_fraction(charge.hundredths(), 2, out);
}

/// Milliseconds with three decimals.
pub(super) fn write_millis(duration: Duration, out: &mut Vec<u8>) {
    write_fraction(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX), 3, out);
}

/// `number / 10^decimals` without trailing zeros.
fn write_fraction(number: u64, decimals: u32, out: &mut Vec<u8>) {
    let mut scale = 10u64.pow(decimals);
    write_decimal(number / scale, out);
    let mut rest = number % scale;
    if rest > 0 {
        out.push(b'.');
    }
    while rest > 0 {
        scale /= 10;
        out.push(b'0' + (rest / scale) as u8);
        rest %= scale;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn charges_have_at_most_two_decimals() {
        for (micros, text) in [
            (0, "0"),
            (1_000_000, "1"),
            (5_714_000, "5.71"),
            (500_000, "0.5"),
            (10_045_000, "10.05"),
        ] {
            let charge = RequestCharge::from_micros(micros);
            assert_eq!(written(|out| write_charge(charge, out)), text);
        }
    }

    #[test]
    fn durations_are_milliseconds() {
        for (micros, text) in [(7, "0.007"), (20_000, "20"), (1_070, "1.07"), (0, "0")] {
            let duration = Duration::from_micros(micros);
            assert_eq!(written(|out| write_millis(duration, out)), text);
        }
    }
}
