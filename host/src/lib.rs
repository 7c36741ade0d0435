//! The host crate.
