//! Kernel crates that are compiled while a test runs: these need cargo and the sources.

#[path = "watch/crates.rs"]
mod crates;
mod fused;
#[allow(dead_code, reason = "the other tests of hot modules use the rest")]
#[path = "watch/stamps.rs"]
mod stamps;
#[path = "watch/types.rs"]
mod types;
