//! The PTX that the compiler wrote: what it contains, what is checked, and what is added.

mod bounds;
mod files;
mod ftz;
mod functions;
mod once;

use std::path::Path;

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
}

/// A finished PTX module.
#[derive(Debug)]
pub(crate) struct Finished {
    pub text: String,
    pub entries: Vec<String>,
}

/// Checks the compiler's PTX and adds what rustc cannot say. Source files below `base` are named from there on.
pub(crate) fn finish(
    raw: &str,
    flush_denormals: bool,
    base: Option<&Path>,
) -> Result<Finished, PtxError> {
    let functions = functions::scan(raw);
    once::check(raw, &functions)?;
    let entries = functions.iter().filter(|f| f.is_entry).map(|f| f.name.to_owned()).collect();
    let mut text = bounds::apply(raw, &functions)?;
    if flush_denormals {
        text = ftz::apply(&text);
    }
    if let Some(base) = base {
        text = files::relative(&text, base);
    }
    Ok(Finished { text, entries })
}
