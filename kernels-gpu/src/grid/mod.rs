//! Whole kernels: what a host launches.

pub mod blur;
pub mod copy;
pub mod equalize;
pub mod grayscale;
pub mod histogram;
pub mod reduce;
pub mod saxpy;
pub mod sobel;
pub mod transpose;
pub mod vecadd;
