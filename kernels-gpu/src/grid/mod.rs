//! Whole kernels: what a host launches.

pub mod blur;
pub mod copy;
pub mod equalize;
pub mod grayscale;
pub mod histogram;
pub mod noise;
pub mod particles;
pub mod reduce;
pub mod ring;
pub mod saxpy;
pub mod scan;
pub mod sobel;
pub mod sort;
pub mod spheres;
pub mod transpose;
pub mod vecadd;
pub mod zero_copy;
