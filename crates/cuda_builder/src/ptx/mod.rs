//! The PTX that the compiler wrote: what it contains, what is checked, and what is added.

mod atomics;
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
    /// An atomic operation on a thread's own memory, for which there is no plain form.
    #[error(
        "{place}: `{function}` does `{instruction}` on a variable of its own thread, which no assembler takes: \
         no other thread reaches the variable, so use plain arithmetic or a `Cell`"
    )]
    OwnAtomic {
        /// File and line of the source, or the line in the PTX.
        place: String,
        /// The function's name in the PTX.
        function: String,
        /// The instruction.
        instruction: String,
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
    /// Functions with atomic operations of an unknown order.
    pub unknown_orders: Vec<String>,
}

/// What the text is to be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'a> {
    /// Whether f32 denormals become zero.
    pub flush_denormals: bool,
    /// Whether the text names source lines.
    pub lines: bool,
    /// The folder from which on source files are named.
    pub base: Option<&'a Path>,
    /// Whether kernels that stand in another text can panic.
    pub can_panic: bool,
}

/// Checks the compiler's PTX and adds what rustc cannot say.
pub(crate) fn finish(raw: &str, options: Options<'_>) -> Result<Finished, PtxError> {
    let atomics::Mended { text, unknown: unknown_orders } = atomics::apply(raw, options.base)?;
    let text = unused::drop_weak(&spaces::apply(&text, &functions::scan(&text))?);
    let functions = functions::scan(&text);
    once::check(&text, &functions)?;
    let entries = functions.iter().filter(|f| f.is_entry).map(|f| f.name.to_owned()).collect();
    let text = handler::apply(&bounds::apply(&text, &functions)?);
    let mut text = needs::only(panics::apply(&text), false);
    if !options.can_panic {
        text = leave::drop_unneeded(text);
    }
    text = version::raise(text);
    if options.flush_denormals {
        text = ftz::apply(&text);
    }
    text = match options.base {
        _ if !options.lines => files::without_lines(&text),
        Some(base) => files::relative(&text, base),
        None => text,
    };
    Ok(Finished { text: parts::with_parts(&text), entries, unknown_orders })
}
