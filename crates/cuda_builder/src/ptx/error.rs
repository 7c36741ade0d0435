//! The errors of the passes.

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
