//! `ferrowarp watch`, as a user calls it.

#[path = "watch/program.rs"]
mod program;
#[allow(dead_code, reason = "the library's tests of hot modules use the rest")]
#[path = "../../tests/watch/stamps.rs"]
mod stamps;
