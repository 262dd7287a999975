//! Compiles QuickJS-ng and chooses the bindings of the target.
use std::env;
use std::fs;
use std::path::Path;

const SOURCES: [&str; 4] = ["libregexp.c", "libunicode.c", "quickjs.c", "dtoa.c"];

fn main() {
    println!("cargo:rerun-if-changed=quickjs");
    println!("cargo:rerun-if-env-changed=CARGO_CFG_SANITIZE");
    let (os, environment) = (variable("CARGO_CFG_TARGET_OS"), variable("CARGO_CFG_TARGET_ENV"));
    let mut builder = cc::Build::new();
    builder.extra_warnings(false).define("_GNU_SOURCE", None);
    builder.flag_if_supported("-Wno-implicit-const-int-float-conversion");
    if env::var_os("CARGO_FEATURE_DISABLE_ASSERTIONS").is_some() {
        builder.define("NDEBUG", None);
    }
    if os == "windows" {
        builder.define("WIN32_LEAN_AND_MEAN", None);
        let flags: &[&str] =
            if environment == "msvc" { &["/std:c11", "/experimental:c11atomics"] } else { &["-std=c11"] };
        for flag in flags {
            builder.flag(flag);
        }
    }
    if let Ok(sanitizer) = env::var("CARGO_CFG_SANITIZE") {
        builder.flag(format!("-fsanitize={sanitizer}"));
        builder.flag("-fno-sanitize-recover=all").flag("-fno-omit-frame-pointer");
    }
    for source in SOURCES {
        builder.file(Path::new("quickjs").join(source));
    }
    builder.compile("libquickjs.a");
    choose_bindings(&os, &environment);
}

/// Bindings differ by system, not by processor; those of 32 bits are not here.
fn choose_bindings(os: &str, environment: &str) {
    let name = match (os, environment) {
        ("macos", _) => "apple.rs",
        ("windows", "msvc") => "windows_msvc.rs",
        ("windows", _) => "windows_gnu.rs",
        _ => "linux.rs",
    };
    let out = Path::new(&variable("OUT_DIR")).join("bindings.rs");
    println!("cargo:rerun-if-changed=src/bindings/{name}");
    fs::copy(Path::new("src/bindings").join(name), out).expect("the bindings are beside this file");
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
