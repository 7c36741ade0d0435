//! The PTX parser and printer: what they read, what they refuse and where, and that each undoes
//! the other.

mod constructs;
mod errors;
mod generate;
mod positions;
mod properties;

/// Lines 1 to 3 of most test modules.
const HEADER: &str = ".version 8.3\n.target sm_90a\n.address_size 64\n";

/// What rustc's NVPTX back end wrote for two kernels, with line directives.
const COMPILED: &str = include_str!("../ptx/compiled.ptx");

/// Each directive and operand form at least once, written by hand.
const SYNTAX: &str = include_str!("../ptx/syntax.ptx");
