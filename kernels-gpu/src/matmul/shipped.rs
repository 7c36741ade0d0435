//! The epilogues that ship with kernels.

use super::Plain;
use cuda_std::{bf16, f16};

crate::matmul_kernels! { matmul_bf16, Plain, bf16, bf16 }
crate::matmul_kernels! { matmul_bf16_f32, Plain, bf16, f32 }
crate::matmul_kernels! { matmul_f16, Plain, f16, f16 }
crate::matmul_kernels! { matmul_f16_f32, Plain, f16, f32 }
