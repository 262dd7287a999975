//! Measures parsing, compiling and evaluating: `cargo run --release -p armilla-sql --example measure`.
//!
//! Times are of the processor where the system tells them, so that a busy machine does not matter
//! much.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool for people at a terminal")]

use armilla_model::Value;
use armilla_model::json;
use armilla_sql::reference::{Options, with_runtime};
use armilla_sql::{Schema, access, compile, eval, parse};
use std::hint::black_box;
use std::time::Instant;

const QUERIES: &[&str] = &[
    "SELECT * FROM c WHERE c.type = 'post' AND c.likeCount > @n",
    "SELECT c.id, c.title, c.likeCount FROM c WHERE c.userId = 'u1' AND c.type = 'post'",
    "SELECT VALUE c.id FROM c WHERE CONTAINS(c.title, 'x') OR STARTSWITH(c.title, 'T')",
    "SELECT c.id, t FROM c JOIN t IN c.tags WHERE c.likeCount > 5 AND t = 'b'",
    "SELECT c.type, COUNT(1) AS n, AVG(c.likeCount) AS a FROM c GROUP BY c.type",
    "SELECT TOP 10 c.id FROM c WHERE c.likeCount IN (1, 5, 9, 20, 33, 47) ORDER BY c.likeCount DESC",
    "SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t = 'c')",
];

/// Few enough to stay in the cache, as an item does that was just read.
const ITEMS: usize = 500;

fn item(number: usize) -> Value {
    let text = format!(
        r#"{{"id":"p{number}","type":"{}","userId":"u{}","title":"Title {number}","likeCount":{},"tags":["a","b","c{}"],"content":"{}","creationDate":"2024-01-0{}T00:00:00Z"}}"#,
        if number.is_multiple_of(3) { "post" } else { "comment" },
        number % 100,
        number % 50,
        number % 7,
        "lorem ipsum ".repeat(10),
        number % 9 + 1,
    );
    json::parse(text.as_bytes()).unwrap()
}

fn nanoseconds(rounds: usize, mut work: impl FnMut()) -> f64 {
    let (wall, processor) = (Instant::now(), processor_time());
    (0..rounds).for_each(|_| work());
    let spent = match (processor, processor_time()) {
        (Some(before), Some(after)) if after > before => after - before,
        _ => wall.elapsed().as_nanos() as u64,
    };
    spent as f64 / rounds as f64
}

/// Nanoseconds this thread has run, where the system tells.
fn processor_time() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn main() {
    let items: Vec<_> = (0..ITEMS).map(item).collect();
    let parameters = [("@n".into(), Value::from(10))];
    let schema = Schema::none();
    println!(
        "{:>8} {:>8} {:>8} {:>8}  query (ns, evaluation per item)",
        "parse", "compile", "access", "item"
    );
    for text in QUERIES {
        let parsing = nanoseconds(2000, || {
            black_box(parse(black_box(text)).unwrap());
        });
        let query = parse(text).unwrap();
        let compiling = nanoseconds(2000, || {
            black_box(compile(black_box(&query), &parameters, &schema).unwrap());
        });
        let compiled = compile(&query, &parameters, &schema).unwrap();
        let access = nanoseconds(2000, || {
            black_box(access::analyse(black_box(&compiled)));
        });
        let evaluating = with_runtime(Options::new(&schema), |runtime| {
            nanoseconds(400, || {
                let mut sink = eval::Sink::new(&compiled, &[]);
                for item in &items {
                    let _flow =
                        eval::visit_rows(&compiled, item, runtime, &mut |frame, runtime| {
                            sink.push(frame, runtime)
                        })
                        .unwrap();
                }
                black_box(sink.held());
            })
        });
        println!(
            "{parsing:>8.0} {compiling:>8.0} {access:>8.0} {:>8.1}  {text}",
            evaluating / ITEMS as f64
        );
    }
}
