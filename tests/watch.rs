//! Kernels that change while the program runs: versions of a PTX.

#[path = "watch/compare.rs"]
mod compare;
#[path = "watch/files.rs"]
mod files;
#[path = "watch/folder.rs"]
mod folder;
#[allow(dead_code, reason = "the host crate's tests use the rest")]
#[path = "host/kernels.rs"]
mod kernels;
#[path = "watch/parts.rs"]
mod parts;
#[path = "watch/stamps.rs"]
mod stamps;
#[path = "watch/versions.rs"]
mod versions;
