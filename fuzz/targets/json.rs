//! Any bytes are JSON or an error, and what was read is written and read back as the same value.
#![no_main]

use armilla_model::json;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let mut compact = Vec::new();
    let compacted = json::parse_compact(text, &mut compact);
    let Ok(value) = json::parse(text) else {
        assert!(compacted.is_err(), "one reader takes what the other refuses");
        return;
    };
    assert!(compacted.is_ok(), "one reader takes what the other refuses");
    let written = value.to_json();
    let again = json::parse(written.as_bytes()).expect("what we wrote is JSON");
    assert_eq!(again.to_json(), written);
    let again = json::parse(&compact).expect("what was compacted is JSON");
    assert_eq!(again.to_json(), written);
});
