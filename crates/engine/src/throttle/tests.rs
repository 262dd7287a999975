//! Throttle vectors that need no container (`docs/protocol/charges.md#throttling`), and the rules beside them.

use super::*;

const WRITE: RequestCharge = RequestCharge::from_21sts(116);

fn rate(units: u32) -> Rate {
    Rate::new(f64::from(units), 1, false)
}

/// Sends requests until one is refused; how many were let in.
fn admitted(bucket: &mut Bucket, rate: Rate, charge: RequestCharge, now: u64, most: u32) -> u32 {
    (0..most)
        .take_while(|_| {
            let granted = bucket.ask(rate, &Ask::default(), now).is_ok();
            if granted {
                bucket.spend(rate, &Ask::default(), charge, now);
            }
            granted
        })
        .count() as u32
}

#[test]
fn the_request_that_overdraws_is_served_and_the_next_second_pays() {
    let (mut bucket, rate) = (Bucket::default(), rate(400));
    assert_eq!(admitted(&mut bucket, rate, WRITE, 10_000, 80), 73);
    assert_eq!(bucket.ask(rate, &Ask::default(), 10_400), Err(Duration::from_millis(600)));
    assert!(bucket.ask(rate, &Ask::default(), 11_000).is_ok());
    assert!((bucket.available() - (400.0 - 3.24)).abs() < 0.01, "{}", bucket.available());
}

#[test]
fn a_clock_that_is_set_back_holds_nobody_up() {
    let (mut bucket, rate) = (Bucket::default(), rate(400));
    let now = 7_200_000;
    assert_eq!(admitted(&mut bucket, rate, WRITE, now, 80), 73);
    // A request that looked at the clock before the others fills nothing up.
    assert!(bucket.ask(rate, &Ask::default(), now - 1).is_err());
    assert!(bucket.ask(rate, &Ask::default(), now).is_err());
    let an_hour_ago = now - 3_600_000;
    assert_eq!(bucket.ask(rate, &Ask::default(), an_hour_ago), Err(Duration::from_secs(1)));
    assert_eq!(admitted(&mut bucket, rate, WRITE, an_hour_ago + 1000, 80), 72);
    assert_eq!(admitted(&mut bucket, rate, WRITE, an_hour_ago + 1999, 80), 0);
}

#[test]
fn a_large_query_blocks_the_seconds_it_has_used() {
    let (mut bucket, rate) = (Bucket::default(), rate(400));
    bucket.spend(rate, &Ask::default(), RequestCharge::ONE * 2000, 5_250);
    let wait = bucket.ask(rate, &Ask::default(), 5_250).unwrap_err();
    assert_eq!(wait, Duration::from_millis(4750));
    assert!(bucket.ask(rate, &Ask::default(), 5_250 + 4749).is_err());
    assert!(bucket.ask(rate, &Ask::default(), 5_250 + 4750).is_ok());
}

#[test]
fn ten_seconds_admit_ten_times_the_rate() {
    let (mut bucket, rate) = (Bucket::default(), rate(1000));
    let mut units = 0.0;
    for now in (0..10_000).step_by(5) {
        let granted = admitted(&mut bucket, rate, WRITE, now, 1000);
        units += f64::from(granted) * WRITE.units();
    }
    assert!((units - 10_000.0).abs() < 10_000.0 * 0.05, "{units}");
}

#[test]
fn unused_throughput_is_banked_and_spent_at_the_burst_rate() {
    let rate = Rate::new(100.0, 1, true);
    let mut bucket = Bucket::default();
    bucket.ask(rate, &Ask::default(), 0).unwrap();
    bucket.ask(rate, &Ask::default(), 300_000).unwrap();
    assert!((bucket.banked() - 30_000.0).abs() < 0.001, "{}", bucket.banked());
    let per_second: Vec<u32> = (300..315)
        .map(|second| admitted(&mut bucket, rate, RequestCharge::ONE, second * 1000, 10_000))
        .collect();
    assert_eq!(per_second[0], 3000);
    assert_eq!(per_second.iter().filter(|count| **count == 3000).count(), 10);
    assert_eq!(*per_second.last().unwrap(), 100);
    let sum: u32 = per_second.iter().sum();
    assert_eq!(sum, 30_000 + 15 * 100);
}

#[test]
fn without_burst_nothing_is_banked() {
    let mut bucket = Bucket::default();
    bucket.ask(rate(100), &Ask::default(), 0).unwrap();
    assert_eq!(admitted(&mut bucket, rate(100), RequestCharge::ONE, 900_000, 10_000), 100);
}

#[test]
fn low_priority_gives_way() {
    let rate = rate(100);
    let (high, low) = (Ask::default(), Ask { low_priority: true, ..Ask::default() });
    let mut bucket = Bucket::default();
    // Alone it may use everything.
    for _ in 0..100 {
        bucket.ask(rate, &low, 0).unwrap();
        bucket.spend(rate, &low, RequestCharge::ONE, 0);
    }
    assert!(bucket.ask(rate, &low, 0).is_err());
    // The others use 80 in a second: 20 are left over in the next.
    (0..80).for_each(|_| bucket.spend(rate, &high, RequestCharge::ONE, 1000));
    let mut served = 0;
    while bucket.ask(rate, &low, 2000).is_ok() {
        bucket.spend(rate, &low, RequestCharge::ONE, 2000);
        served += 1;
    }
    assert_eq!(served, 20);
    assert!(bucket.ask(rate, &high, 2000).is_ok());
}

#[test]
fn a_throughput_bucket_has_its_percentage() {
    let rate = rate(100);
    let ask = Ask { share: Some((1, 10)), ..Ask::default() };
    let mut bucket = Bucket::default();
    let mut served = 0;
    while bucket.ask(rate, &ask, 0).is_ok() {
        bucket.spend(rate, &ask, RequestCharge::ONE, 0);
        served += 1;
    }
    assert_eq!(served, 10);
    assert!(bucket.ask(rate, &Ask::default(), 0).is_ok());
    assert!(bucket.ask(rate, &ask, 1000).is_ok());
}

#[test]
fn a_script_waits_for_its_average() {
    let rate = rate(100);
    let mut bucket = Bucket::default();
    bucket.spend(rate, &Ask::default(), RequestCharge::ONE * 95, 0);
    let script = Ask { reserve: RequestCharge::ONE * 10, ..Ask::default() };
    assert!(bucket.ask(rate, &Ask::default(), 0).is_ok());
    assert!(bucket.ask(rate, &script, 0).is_err());
    assert!(bucket.ask(rate, &script, 1000).is_ok());
    // One that costs more than a second holds waits for a full bucket only.
    let large = Ask { reserve: RequestCharge::ONE * 5000, ..Ask::default() };
    assert!(bucket.ask(rate, &large, 1000).is_ok());
}

#[test]
fn years_of_idleness_are_no_work() {
    let mut bucket = Bucket::default();
    bucket.ask(Rate::new(100.0, 1, true), &Ask::default(), 0).unwrap();
    bucket.ask(Rate::new(100.0, 1, true), &Ask::default(), u64::MAX / 2).unwrap();
    assert!(bucket.banked() <= 30_000.0);
}
