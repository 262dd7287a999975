//! The time of day is handed in, and the monotonic clock is asked in one place of each family of crates.

use super::{crates, name_of, product, rust_files};
use std::fs;

/// Crates that only measure what others do: they may ask a clock by themselves.
const MEASURING: [&str; 1] = ["armilla"];

/// Who asks. `script` knows no other crate of the house, so it has a clock of its own.
const CLOCKS: [&str; 2] = ["crates/model/src/clock.rs", "crates/script/src/clock.rs"];

#[test]
fn the_monotonic_clock_is_asked_in_one_place() {
    for folder in crates().iter().filter(|folder| !MEASURING.contains(&&*name_of(folder))) {
        let mut files = Vec::new();
        rust_files(&folder.join("src"), &mut files);
        for path in files.iter().filter(|path| name_of(path) != "tests") {
            let text = product(&fs::read_to_string(path).unwrap());
            // The clock of tokio is one that tests stop.
            let of_tokio = text.contains("use tokio::time::Instant")
                || text.contains("use tokio::time::{Instant");
            let is_clock = CLOCKS.iter().any(|clock| path.ends_with(clock));
            let asks = text.contains("Instant::now");
            assert!(
                !asks || is_clock || of_tokio,
                "{}: ask `model::clock::monotonic` instead of `Instant::now`",
                path.display()
            );
        }
    }
}
