//! The epilogues that ship with kernels. Each line is 320 to 430 KiB of PTX for `sm_90a`, that with GELU 760, so they are few.

use super::{ColumnBias, Gelu, GeluGradient, Plain, Then};
use cuda_std::matrix::Tf32;
use cuda_std::number::E4m3;
use cuda_std::{bf16, f16};

crate::matmul_kernels! { matmul_bf16, Plain, bf16, bf16, can_split = true }
crate::matmul_kernels! { matmul_bf16_f32, Plain, bf16, f32, can_split = true }
crate::matmul_kernels! { matmul_f16, Plain, f16, f16, can_split = true }
crate::matmul_kernels! { matmul_f16_f32, Plain, f16, f32, can_split = true }
crate::matmul_kernels! { matmul_tf32, Plain, Tf32, f32, can_split = true }
crate::matmul_kernels! { matmul_e4m3, Plain, E4m3, bf16, can_split = true }
crate::matmul_kernels! { matmul_e4m3_f32, Plain, E4m3, f32, can_split = true }
crate::matmul_kernels! { matmul_bias_bf16, ColumnBias, bf16, bf16, can_split = true }
crate::matmul_kernels! { matmul_bias_gelu_bf16, Then<ColumnBias, Gelu>, bf16, bf16, can_split = true }
crate::matmul_kernels! { matmul_gelu_gradient_bf16, GeluGradient, bf16, bf16, can_split = true }
