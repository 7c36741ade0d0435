//! Kernel crates that are compiled while a test runs: these need cargo and the sources.

#[path = "watch/crates.rs"]
mod crates;
#[path = "kernel_crates/projects.rs"]
mod projects;
#[allow(dead_code, reason = "the other tests of hot modules use the rest")]
#[path = "watch/stamps.rs"]
mod stamps;
