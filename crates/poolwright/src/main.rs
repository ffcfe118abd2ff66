//! Poolwright: fits storage to a database.
fn main() {}
