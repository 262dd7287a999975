//! Any bytes are binary JSON or an error, and what was read is text that can be parsed, or is refused
//! like any other text.
#![no_main]

use armilla_model::{binary_json, json};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = binary_json::to_text(bytes) {
        if let Ok(value) = json::parse(&text) {
            let written = value.to_json();
            let again = json::parse(written.as_bytes()).expect("what we wrote is JSON");
            assert_eq!(again.to_json(), written);
        }
    }
});
