//! Every chore of the repository as Rust code.
fn main() {}
