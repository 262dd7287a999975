//! `docs/functions.md` is made of the table of functions and is as new as the table.
//!
//! `ARMILLA_WRITE_DOCS=1 cargo test -p armilla-sql --test functions_page` writes it anew.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use armilla_sql::functions::{self, SPECIAL, Volatility};
use std::fmt::Write;
use std::path::Path;

const HEAD: &str = "\
# Functions

Every built-in function of the query language. This page is made of the table in the code (`armilla_sql::functions`); a test
keeps it current. Names are case-insensitive. A wrong type is never an error: the result is then `undefined`, and so it is when an
argument is `undefined`, unless the line says otherwise.

*Depends on* says what the result depends on beside the arguments: nothing (then a call over constants is computed once), the
container's definition, the query (one moment serves the whole of it), or each call. Only the first two are allowed in computed
properties of new containers.

| function | arguments | result | depends on | what it does |
|---|---|---|---|---|
";

const TAIL: &str = "
Known to the service and refused here with 400: `HASH`, `GenerateEmbeddings`, and the internal names of its other APIs (`_M_…`,
`C_…`, `_Compare_…`, `_Mask`, `_Proxy_Projection`, `_Regex_Match`).
";

fn page() -> String {
    let mut rows: Vec<(&str, String)> = functions::all()
        .map(|function| {
            let names = std::iter::once(&function.name).chain(function.aliases);
            let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
            let arguments = arguments(function.arguments_min, function.arguments_max);
            let line = format!(
                "| {} | {arguments} | {} | {} | {} |",
                names.join(" "),
                function.result.name(),
                depends_on(function.volatility),
                function.documentation
            );
            (function.name, line)
        })
        .chain(SPECIAL.iter().map(|special| {
            let arguments = arguments(special.arguments_min, special.arguments_max);
            let line = format!(
                "| `{}` | {arguments} | {} | {} | {} |",
                special.name,
                special.result.name(),
                depends_on(special.volatility),
                special.documentation
            );
            (special.name, line)
        }))
        .collect();
    rows.sort_unstable();
    let mut page = HEAD.to_owned();
    for (_, line) in rows {
        writeln!(page, "{line}").unwrap();
    }
    page + TAIL
}

fn arguments(min: usize, max: usize) -> String {
    match max {
        _ if min == max => min.to_string(),
        usize::MAX => format!("{min} or more"),
        _ => format!("{min} to {max}"),
    }
}

fn depends_on(volatility: Volatility) -> &'static str {
    match volatility {
        Volatility::Immutable => "nothing",
        Volatility::Container => "container",
        Volatility::Query => "query",
        Volatility::Call => "each call",
    }
}

#[test]
fn the_page_of_functions_is_as_new_as_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/functions.md");
    let page = page();
    if std::env::var_os("ARMILLA_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/functions.md is not what the table says; write it with \
         ARMILLA_WRITE_DOCS=1 cargo test -p armilla-sql --test functions_page"
    );
}

#[test]
fn every_function_has_a_line() {
    for function in functions::all() {
        assert!(function.documentation.ends_with('.'), "{}", function.name);
        assert!(!function.documentation.contains('|'), "{}", function.name);
    }
}
