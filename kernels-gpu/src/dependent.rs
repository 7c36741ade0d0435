//! Programmatic dependent launch: when the next kernel of a stream may be scheduled.

use cuda_std::dependent;

/// Inputs of up to this many bytes let the dependent grid start early. It occupies slots of the multiprocessors while it
/// waits, which a kernel with a larger input needs for its own blocks.
const SMALL_BYTES: usize = 1 << 24;

/// Lets the dependent grid be scheduled early if the input `x` is small.
#[inline(always)]
pub(crate) fn let_next_start<T>(x: &[T]) {
    let_next_start_by(size_of_val(x));
}

/// As [`let_next_start`], of so many bytes.
#[inline(always)]
pub(crate) fn let_next_start_by(bytes: usize) {
    if bytes <= SMALL_BYTES {
        dependent::let_next_start();
    }
}
