//! Takes the Rust snippet out of the guide, so that a test compiles and runs what is printed there. Only the server's
//! address and the database's name become those of the test.

use std::path::Path;

const GUIDE: &str = "../../docs/guide.md";

fn main() {
    println!("cargo:rerun-if-changed={GUIDE}");
    let guide = std::fs::read_to_string(GUIDE).expect("the guide is part of the repository");
    let snippets: Vec<&str> = guide
        .split("```rust\n")
        .skip(1)
        .filter_map(|behind| behind.split("\n```").next())
        .collect();
    let [snippet] = snippets.as_slice() else {
        panic!("the guide has {} snippets in Rust", snippets.len());
    };
    let program = snippet
        .replace("\"http://localhost:8081/\"", "super::plain_endpoint()")
        .replace("\"blog\"", "super::DATABASE");
    let folder = std::env::var("OUT_DIR").expect("cargo sets it");
    std::fs::write(Path::new(&folder).join("guide.rs"), program).expect("cargo made the folder");
}
