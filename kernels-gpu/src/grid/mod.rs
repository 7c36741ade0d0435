//! Whole kernels: what a host launches.

pub mod blur;
pub mod copy;
pub mod equalize;
pub mod fill;
pub mod grayscale;
pub mod histogram;
pub mod map;
pub mod merge;
pub mod merge_path;
pub mod noise;
pub mod norm;
pub mod norm_backward;
pub mod norm_weights;
pub mod particles;
pub mod random;
pub mod reduce;
pub mod ring;
pub mod rows;
pub mod saxpy;
pub mod scan;
pub mod search;
pub mod select;
pub mod smooth;
pub mod sobel;
pub mod softmax;
pub mod sort;
pub mod spheres;
pub mod spmv;
pub mod stencil;
pub mod transpose;
pub mod vecadd;
pub mod zero_copy;

use cuda_std::dependent;

/// Most bytes of an input beside which the next kernel may wait in its places: for a larger one they are needed.
const SMALL_BYTES: usize = 1 << 24;

/// Lets the kernel behind this one take its places early, if this one reads as little as `x`.
#[inline(always)]
pub(crate) fn let_next_start<T>(x: &[T]) {
    if size_of_val(x) <= SMALL_BYTES {
        dependent::let_next_start();
    }
}
