//! The PTX that the compiler wrote: what it contains, what is checked, and what is added.

mod bounds;
mod edits;
mod files;
mod formatters;
mod ftz;
mod functions;
mod graph;
mod handler;
mod leave;
mod needs;
mod once;
mod panics;
mod parts;
mod spaces;
mod templates;
mod unused;
mod version;

use std::path::Path;

pub(crate) use files::named as files;
pub(crate) use parts::{Merged, merge};
pub use parts::{Part, Reading, parts, parts_at_end, read_ptx, with_parts};

/// A rule of the builder that a PTX text breaks.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PtxError {
    /// A collective operation that must stand once in a function stands there several times.
    #[error(
        "the compiler wrote the collective operation `{tag}` {count} times into `{function}`: \
         threads of one block could then wait at different places. Move the operation into an \
         `#[inline(never)]` function, or out of the branch or loop that was duplicated"
    )]
    DuplicatedCollective {
        /// The function's name in the PTX.
        function: String,
        /// The text behind `ferrowarp.once`.
        tag: String,
        /// How often it stands there.
        count: usize,
    },
    /// A `ferrowarp.bounds` comment cannot be read.
    #[error("line {line}: launch bounds `{text}`: {expected}")]
    Bounds {
        /// The line in the PTX.
        line: usize,
        /// The part that cannot be read.
        text: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A `ferrowarp.bounds` comment names a kernel that the PTX does not have.
    #[error("line {line}: launch bounds for `{kernel}`, which is not a kernel of this module")]
    BoundsWithoutKernel {
        /// The line in the PTX.
        line: usize,
        /// The name it gives.
        kernel: String,
    },
    /// Two `ferrowarp.bounds` comments give one kernel different bounds.
    #[error("line {line}: `{kernel}` was already given other launch bounds")]
    ConflictingBounds {
        /// The line of the second comment.
        line: usize,
        /// The kernel's name.
        kernel: String,
    },
    /// A static in shared memory has a value, or another static holds its address.
    #[error("line {line}: `{name}` lies in shared memory, which has no value before a kernel runs")]
    SharedValue {
        /// The line in the PTX.
        line: usize,
        /// The static's name in the PTX.
        name: String,
    },
    /// The address of a static in shared or constant memory is used in a way that cannot be moved.
    #[error(
        "line {line}: `{function}` uses a static of shared or constant memory in `{instruction}`: \
         {reason}"
    )]
    Space {
        /// The line in the PTX.
        line: usize,
        /// The function's name in the PTX.
        function: String,
        /// The instruction.
        instruction: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Whether something in a finished text can say that it panics.
pub(crate) fn can_panic(text: &str) -> bool {
    leave::has_report(text)
}

/// A finished PTX module.
#[derive(Debug)]
pub(crate) struct Finished {
    pub text: String,
    pub entries: Vec<String>,
}

/// Checks the compiler's PTX and adds what rustc cannot say. Source files below `base` are named from there on.
/// `can_panic` says whether kernels that stand in another text can panic.
pub(crate) fn finish(
    raw: &str,
    flush_denormals: bool,
    base: Option<&Path>,
    can_panic: bool,
) -> Result<Finished, PtxError> {
    let text = unused::drop_weak(&spaces::apply(raw, &functions::scan(raw))?);
    let functions = functions::scan(&text);
    once::check(&text, &functions)?;
    let entries = functions.iter().filter(|f| f.is_entry).map(|f| f.name.to_owned()).collect();
    let text = handler::apply(&bounds::apply(&text, &functions)?);
    let mut text = needs::only(panics::apply(&text), false);
    if !can_panic {
        text = leave::drop_unneeded(text);
    }
    text = version::raise(text);
    if flush_denormals {
        text = ftz::apply(&text);
    }
    if let Some(base) = base {
        text = files::relative(&text, base);
    }
    Ok(Finished { text: parts::with_parts(&text), entries })
}
