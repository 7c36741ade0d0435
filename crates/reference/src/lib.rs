//! What the kernels should compute, as plain loops on the CPU, in wider arithmetic where there is a wider one.
//!
//! Nothing here shares code with a kernel. The tests and `ferrowarp demo` both check against it.

pub mod all_reduce;
pub mod attention;
pub mod blur;
pub mod equalize;
pub mod grayscale;
pub mod histogram;
pub mod map;
pub mod matmul;
pub mod merge;
pub mod norm;
pub mod particles;
pub mod polynomial;
pub mod random;
pub mod reduce;
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
pub mod training;
pub mod transpose;
pub mod vecadd;
