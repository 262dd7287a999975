//! The client of these tests against the captured frames: what it reads it writes again, byte for byte. So
//! what it says of the server's answers is what the real clients would say.

use super::rntbd::{
    CONTEXT_REQUEST, CONTEXT_RESPONSE, Field, REQUEST, RESPONSE, VECTORS, from_hex, read_tokens,
    write_frame, write_token,
};
use armilla_model::Value;

#[test]
fn frames_of_the_vectors_are_read_and_written_again() {
    let mut count = 0;
    for group in ["built", "captured"] {
        for case in VECTORS.get(group).unwrap().as_array().unwrap() {
            let text = |name: &str| case.get(name).unwrap().as_str().unwrap();
            let table = match text("kind") {
                "req" => &*REQUEST,
                "res" => &*RESPONSE,
                "ctxreq" => &*CONTEXT_REQUEST,
                _ => &*CONTEXT_RESPONSE,
            };
            let bytes = from_hex(text("hex"));
            let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
            let payload = bytes.get(length + 4..).unwrap_or_default();
            // Tokens without a name in the tables keep the type they came with.
            let expected = case.get("frame").unwrap().get("tokens").unwrap().as_array().unwrap();
            if expected.iter().any(|token| token.as_array().unwrap().len() == 3) {
                continue;
            }
            let mut tokens = Vec::new();
            let found = read_tokens(table, &bytes[24..length]);
            for ((name, field), expected) in found.iter().zip(expected) {
                assert_eq!(expected.as_array().unwrap()[0].as_str(), Some(&**name));
                if let (Field::Text(text), Value::String(expected)) =
                    (field, &expected.as_array().unwrap()[1])
                {
                    assert_eq!(text, &**expected);
                }
                let (id, kind) = &table[name];
                write_token(*id, kind, field, &mut tokens);
            }
            let (second, activity) =
                (bytes[4..8].try_into().unwrap(), bytes[8..24].try_into().unwrap());
            assert_eq!(write_frame(second, activity, &tokens, payload), bytes, "{}", text("name"));
            count += 1;
        }
    }
    assert!(count >= 136, "{count} of 138 frames");
}
