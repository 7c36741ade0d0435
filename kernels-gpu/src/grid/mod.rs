//! Whole kernels: what a host launches.

pub mod blur;
pub mod copy;
pub mod equalize;
pub mod grayscale;
pub mod histogram;
pub mod noise;
pub mod norm;
pub mod norm_weights;
pub mod particles;
pub mod random;
pub mod reduce;
pub mod ring;
pub mod rows;
pub mod saxpy;
pub mod scan;
pub mod select;
pub mod sobel;
pub mod softmax;
pub mod sort;
pub mod spheres;
pub mod transpose;
pub mod vecadd;
pub mod zero_copy;
