//! The parts of a PTX text: what the driver can be given alone.
//!
//! A driver compiles all of a text before one kernel of it runs. So the builder finds the parts that stand
//! alone, each with the functions, variables and source files that its kernels reach, and writes at the end of
//! the text, in comments, where in it the lines of each part are. The text itself stays one module.
//!
//! Two kernels are in one part
//! - if both reach the same state: a variable that is neither a constant of the compiler's own, nor the
//!   panic handler's, of which each module has its own;
//! - if both can panic, are small and begin in the same source file: they share the panic handler, which
//!   is most of what a driver compiles for a small kernel.

mod canonical;
mod groups;
mod index;
mod items;
mod merge;
mod spans;

pub use index::{Part, Reading, parts, parts_at_end, read_ptx, with_parts};
pub(crate) use merge::{Merged, merge};

/// The words of a line that can be names, with their places.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$');
    let pieces = line.split(move |c| !is_name(c)).filter(|word| !word.is_empty());
    pieces.map(|word| (word.as_ptr() as usize - line.as_ptr() as usize, word))
}
