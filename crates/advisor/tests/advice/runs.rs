//! Of a busy server runs of requests are seen. What they say about the whole must be near the truth.

use crate::bench::Bench;
use armilla_advisor::observe::{Seen, Verb};

/// Requests of an activity that is long.
const LONG: usize = 12;
const CLIENTS: usize = 16;
const RUN: usize = 2_000;
const GAP: usize = 10_000;

/// Takes a run up, in two pieces.
fn take_run(bench: &Bench, mut requests: Vec<Seen>, dropped: u64) {
    let millis = requests[requests.len() - 1].at_millis - requests[0].at_millis;
    let mut run = bench.observer.begin_run(&bench.account, (requests.len(), millis), dropped);
    let rest = requests.split_off(requests.len() / 3);
    bench.observer.go_on(&bench.account, &mut run, requests);
    bench.observer.go_on(&bench.account, &mut run, rest);
}

#[test]
fn runs_say_how_often_each_activity_was_and_never_take_a_piece_for_a_whole() {
    let bench = Bench::new();
    let posts = bench.container("posts", "/id", 1, "");
    let users = bench.container("users", "/id", 1, "");
    bench.put(&posts, r#"{"id":"1"}"#);
    bench.put(&users, r#"{"id":"1"}"#);
    let (mut left, mut activity, mut next) = ([0_usize; CLIENTS], [0_u64; CLIENTS], 1_u64);
    let (mut long, mut short, mut made) = (0.0, 0.0, 0_usize);
    let mut request = || {
        let client = (made * 7919) % CLIENTS;
        made += 1;
        let begins = left[client] == 0;
        if begins {
            next += 1;
            activity[client] = next;
            // Every third activity is long: a post, and the users that it names.
            left[client] = if next % 3 == 0 { LONG } else { 1 };
            *(if next % 3 == 0 { &mut long } else { &mut short }) += 1.0;
        }
        let container = if begins { &posts } else { &users };
        left[client] -= 1;
        Seen {
            activity: activity[client] + 1_000,
            key: Some("[\"1\"]".to_owned()),
            item: Some("1".to_owned()),
            ..bench.seen(container, Verb::Read)
        }
    };
    for _ in 0..12 {
        for _ in 0..GAP {
            request();
        }
        let run: Vec<Seen> = (0..RUN).map(|_| request()).collect();
        take_run(&bench, run, GAP as u64);
    }
    let workload = bench.observer.workload();
    let [pattern] = workload.patterns.as_slice() else {
        panic!("{} patterns: a piece was taken for a whole", workload.patterns.len())
    };
    let near = |seen: f64, truth: f64| (seen - truth).abs() < 0.1 * truth;
    assert!(near(pattern.times, long + short), "{} of {}", pattern.times, long + short);
    let users = pattern.steps.iter().find(|step| step.shape != pattern.head).unwrap();
    let expected = long * (LONG - 1) as f64;
    assert!(near(users.times, expected), "{} of {expected}", users.times);
    assert!(near(workload.requests, made as f64), "{} of {made}", workload.requests);
}

/// Ten thousand units a second, of which a tenth of a second was seen in a minute: the dearest second is what it was.
#[test]
fn a_run_stands_for_a_minute_and_its_second_stays_a_second() {
    let bench = Bench::new();
    let posts = bench.container("posts", "/id", 1, "");
    bench.put(&posts, r#"{"id":"1"}"#);
    let run = |first: u64| -> Vec<Seen> {
        let request = |number: u64| Seen {
            at_millis: first + number / 10,
            key: Some("[\"1\"]".to_owned()),
            item: Some("1".to_owned()),
            units: 1.0,
            ..bench.seen(&posts, Verb::Read)
        };
        (0..1_000).map(request).collect()
    };
    for minute in 1..4 {
        take_run(&bench, run(minute * 60_000), 599_000);
    }
    let workload = bench.observer.workload();
    let advice = format!("{:?}", workload.containers.values().next().unwrap().hours);
    assert_eq!(workload.units.round(), 1_800_000.0);
    let peak: f64 =
        advice.split("peak: ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((9_000.0..=11_500.0).contains(&peak), "{advice}");
}
