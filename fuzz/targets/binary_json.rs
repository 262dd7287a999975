//! Any bytes are binary JSON or an error, and what was read is text that can be parsed, or is refused
//! like any other text. What can be parsed is written in binary and read again.
#![no_main]

use armilla_model::limits::ITEM_SIZE_MAX;
use armilla_model::{binary_json, json};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = binary_json::to_text(bytes) {
        assert!(text.len() <= ITEM_SIZE_MAX);
        if let Ok(value) = json::parse(&text) {
            let written = value.to_json();
            let again = json::parse(written.as_bytes()).expect("what we wrote is JSON");
            assert_eq!(again.to_json(), written);
            let binary = binary_json::from_text(written.as_bytes()).expect("what we wrote is JSON");
            let read = binary_json::to_text(&binary).expect("what we wrote is binary JSON");
            let read = json::parse(&read).expect("what we read is JSON");
            assert_eq!(read.to_json(), written);
        }
    }
});
