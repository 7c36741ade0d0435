//! Every kernel against its CPU reference, one file a kernel, in one program.
//!
//! Runs on the GPU where there is one, else on the emulator; `FERROWARP_DEVICE` chooses.

mod support;

mod all_reduce;
mod attention;
mod attention_backward;
mod attention_dropout;
mod attention_large;
mod attention_lists;
mod attention_packed;
mod attention_scaled;
mod attention_splits;
mod blur;
mod copy;
mod equalize;
mod faults;
mod grayscale;
mod histogram;
mod loads;
mod map;
mod matmul;
mod matmul_backward;
mod matmul_grouped;
mod matmul_scaled;
mod matmul_steps;
mod matmul_stream_k;
mod merge;
mod norm;
mod optimize;
mod out_of_core;
mod particles;
mod polynomial;
mod random;
mod reduce;
mod rotary;
mod rows;
mod safety;
mod saxpy;
mod scan;
mod search;
mod select;
mod smooth;
mod sobel;
mod softmax;
mod sort;
mod spheres;
mod spmv;
mod stencil;
mod training;
mod transpose;
mod vecadd;
