//! Which GPU the code is compiled for.

use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
unsafe extern "C" {
    #[link_name = "__nvvm_reflect"]
    fn reflect(name: *const u8) -> u32;
}

/// Ten times the compute capability that the kernel is compiled for: 900 for 9.0, as
/// `__CUDA_ARCH__` of CUDA C++.
///
/// A constant to the optimiser: of `if compute_capability() >= 900 { … } else { … }` one branch is
/// compiled. This library is compiled once for all GPUs, so `cfg` cannot ask this here; a kernel
/// crate can also write `cfg(target_feature = "compute_90")`.
#[gpu_only]
#[inline(always)]
pub fn compute_capability() -> u32 {
    // SAFETY: LLVM answers this while it compiles; the name is one that it knows.
    unsafe { reflect(c"__CUDA_ARCH".as_ptr().cast()) }
}
