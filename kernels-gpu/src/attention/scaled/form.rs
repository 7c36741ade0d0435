//! The kernels that every functor of scores has, and how one is launched.

#[cfg(not(target_os = "cuda"))]
use super::super::{Score, form::Arguments};
use super::{THREADS, values};
#[cfg(not(target_os = "cuda"))]
use bytemuck::Pod;
#[cfg(not(target_os = "cuda"))]
use cuda_std::{
    launch::{DeviceRead, DeviceWrite, Launch},
    number::E4m3,
};

/// [`values`].
pub const VALUES: usize = 1;

/// Elements of a row that kernels are made for; shorter rows are filled up with zeros.
pub const DEPTHS: [usize; 2] = [128, 256];

/// Threads of a block.
#[must_use]
pub const fn threads(form: usize) -> usize {
    match form {
        VALUES => values::BLOCK,
        _ => THREADS,
    }
}

/// Dynamic shared memory of a block, in bytes.
#[must_use]
pub const fn shared_bytes(form: usize) -> usize {
    match form {
        VALUES => 0,
        depth => super::shared_bytes(depth),
    }
}

/// A [`Score`] that has kernels for 8-bit floats and results of `T`. [`attention_scaled_kernels!`](crate::attention_scaled_kernels) implements it.
#[cfg(not(target_os = "cuda"))]
#[diagnostic::on_unimplemented(
    message = "there is no attention kernel for 8-bit floats and results of `{T}` whose scores go through `{Self}`",
    label = "the functor `{Self}` has no instance for `{T}`",
    note = "write `kernels_gpu::attention_scaled_kernels! {{ NAME, {Self}, {T} }}` in the kernel crate that declares `{Self}`"
)]
pub trait AttentionScaledKernel<T: Pod>: Score {
    /// Enqueues a kernel: [`VALUES`], or one of [`DEPTHS`]. `lengths`, `offsets`, `scales` (of queries, keys and values) and `lse` may be empty; so are `parts` without splits.
    /// `counters` are as [`AttentionKernel`](super::super::form::AttentionKernel::launch) has them.
    ///
    /// # Errors
    /// Those of the launch.
    ///
    /// # Safety
    /// As the form's function has it: [`attend`](super::attend), or [`values::transpose`], which writes `turned`.
    #[allow(clippy::too_many_arguments)]
    unsafe fn launch<L: Launch>(
        self,
        on: &L,
        arguments: &Arguments,
        v: &impl DeviceRead<E4m3>,
        lengths: &impl DeviceRead<u32>,
        offsets: &impl DeviceRead<u32>,
        scales: [&impl DeviceRead<f32>; 3],
        counters: &mut impl DeviceWrite<u32>,
        turned: &mut impl DeviceWrite<E4m3>,
        parts: &mut impl DeviceWrite<f32>,
        lse: &mut impl DeviceWrite<f32>,
        o: &mut impl DeviceWrite<T>,
    ) -> Result<(), L::Error>;
}

/// Writes the attention kernels of 8-bit floats for a functor of scores: `attention_scaled_kernels! { NAME, FUNCTOR, RESULT }`, with results of `bf16` or `f16`.
#[macro_export]
macro_rules! attention_scaled_kernels {
    ($(#[$doc:meta])* $name:ident, $c:ty, $t:ty) => {
        $(#[$doc])*
        #[doc = concat!("Attention over 8-bit floats with results of `", stringify!($t), "` whose scores go through `", stringify!($c),
            "`: see `kernels_gpu::attention::scaled`.")]
        ///
        /// # Safety
        /// As the form's function has it.
        #[::cuda_std::kernel(
            1, 128, 256,
            block = $crate::attention::scaled::form::threads(FORM),
            min_blocks = 1,
            dynamic_shared = $crate::attention::scaled::form::shared_bytes(FORM)
        )]
        #[allow(unexpected_cfgs, unused_variables, unused_mut, clippy::too_many_arguments)]
        pub unsafe fn $name<const FORM: usize>(
            maps: ::cuda_std::grid_constant::GridConstant<[::cuda_std::grid_constant::MapWords; 3]>,
            schedule: $crate::attention::Schedule,
            problem: $crate::attention::Problem,
            v: &[::cuda_std::number::E4m3],
            lengths: &[u32],
            offsets: &[u32],
            of_queries: &[f32],
            of_keys: &[f32],
            of_values: &[f32],
            mut counters: ::cuda_std::prelude::DisjointSlice<u32>,
            mut turned: ::cuda_std::prelude::DisjointSlice<::cuda_std::number::E4m3>,
            mut parts: ::cuda_std::prelude::DisjointSlice<f32>,
            mut lse: ::cuda_std::prelude::DisjointSlice<f32>,
            mut o: ::cuda_std::prelude::DisjointSlice<$t>,
            score: $c,
        ) {
            use $crate::attention::{Batches, output::Output, scaled};
            const { assert!(!<$c as $crate::attention::Score>::DROPS, "8-bit weights are not dropped") };
            let (to, counters) = (o.as_mut_ptr(), counters.as_mut_ptr());
            let output = Output::new(&problem, (1.0, 1.0), to, &mut lse, &mut parts, counters);
            let batches = Batches { lengths, queries: offsets, ..Batches::default() };
            let score = (score, scaled::HeadScales { q: of_queries, k: of_keys, v: of_values });
            let work = (&schedule, &problem, batches);
            // SAFETY: the caller's promise.
            unsafe {
                match FORM {
                    1 => scaled::values::transpose(&problem, batches, v.as_ptr(), turned.as_mut_ptr()),
                    // `wgmma` is an instruction of this architecture alone; the host launches these forms nowhere else.
                    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
                    128 => scaled::attend::<$t, $c, 128, 1, 16, 192, 6, 3, 6>(maps, work, counters, score, output),
                    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
                    256 => scaled::attend::<$t, $c, 256, 2, 32, 128, 4, 2, 4>(maps, work, counters, score, output),
                    _ => {}
                }
            }
        }

        #[cfg(not(target_os = "cuda"))]
        impl $crate::attention::scaled::form::AttentionScaledKernel<$t> for $c {
            unsafe fn launch<L: ::cuda_std::launch::Launch>(
                self,
                on: &L,
                arguments: &$crate::attention::form::Arguments,
                v: &impl ::cuda_std::launch::DeviceRead<::cuda_std::number::E4m3>,
                lengths: &impl ::cuda_std::launch::DeviceRead<u32>,
                offsets: &impl ::cuda_std::launch::DeviceRead<u32>,
                scales: [&impl ::cuda_std::launch::DeviceRead<f32>; 3],
                counters: &mut impl ::cuda_std::launch::DeviceWrite<u32>,
                turned: &mut impl ::cuda_std::launch::DeviceWrite<::cuda_std::number::E4m3>,
                parts: &mut impl ::cuda_std::launch::DeviceWrite<f32>,
                lse: &mut impl ::cuda_std::launch::DeviceWrite<f32>,
                o: &mut impl ::cuda_std::launch::DeviceWrite<$t>,
            ) -> ::core::result::Result<(), L::Error> {
                let &$crate::attention::form::Arguments { form, blocks, maps, schedule, problem } = arguments;
                let grid = ::cuda_std::launch::Grid1::new(blocks);
                macro_rules! launch {
                    ($form:literal) => {
                        $name::<$form>::launch(
                            on, grid, maps, schedule, problem, v, lengths, offsets, scales[0], scales[1], scales[2],
                            counters, turned, parts, lse, o, self,
                        )
                    };
                }
                // SAFETY: the caller's promise.
                unsafe {
                    match form {
                        1 => launch!(1),
                        128 => launch!(128),
                        _ => launch!(256),
                    }
                }
            }
        }
    };
}
