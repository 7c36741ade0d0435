//! The kernels that every functor of scores has, and how one is launched.

use super::{Problem, Schedule, Score, hopper, warps};
use bytemuck::Pod;
use cuda_std::grid_constant::MapWords;
#[cfg(not(target_os = "cuda"))]
use cuda_std::launch::{DeviceRead, DeviceWrite, Launch};

/// [`hopper`], with rows of at most as many elements as the form's number; [`WARPS`] and [`FEW`] add to it.
pub const HOPPER: usize = 0;
/// [`warps`] with many rows.
pub const WARPS: usize = 1000;
/// [`warps`] with at most 16 rows.
pub const FEW: usize = 2000;

/// Elements of a row that kernels are made for; shorter rows are filled up with zeros.
pub const DEPTHS: [usize; 4] = [64, 128, 192, 256];

/// The elements of a row.
#[must_use]
pub const fn depth(form: usize) -> usize {
    form % 1000
}

/// Threads of a block.
#[must_use]
pub const fn threads(form: usize) -> usize {
    match form / 1000 * 1000 {
        HOPPER => hopper::threads(depth(form)),
        kind => 32 * warps::warps(depth(form), kind == FEW),
    }
}

/// Dynamic shared memory of a block, in bytes.
#[must_use]
pub const fn shared_bytes(form: usize) -> usize {
    match form / 1000 * 1000 {
        HOPPER => hopper::shared_bytes(depth(form)),
        kind => warps::shared_bytes(depth(form), kind == FEW),
    }
}

/// Rows of a tile.
#[must_use]
pub const fn rows_of_tile(form: usize) -> usize {
    match form / 1000 * 1000 {
        HOPPER => hopper::rows_of_tile(depth(form)),
        kind => warps::rows_of_tile(kind == FEW),
    }
}

/// Keys of a block of keys.
#[must_use]
pub const fn keys_of_block(form: usize) -> usize {
    match form / 1000 * 1000 {
        HOPPER => hopper::keys_of_block(depth(form)),
        _ => warps::keys_of_block(depth(form)),
    }
}

/// What all forms are launched with, but for the tensors: of 16-bit elements, and of [8-bit floats](super::scaled::form).
#[derive(Clone, Copy, Debug, Default)]
pub struct Arguments {
    /// The kernel.
    pub form: usize,
    /// Blocks.
    pub blocks: u32,
    /// The tensor maps of queries, keys and values; zeros where the form takes none.
    pub maps: [MapWords; 3],
    /// The tiles.
    pub schedule: Schedule,
    /// Sizes and strides.
    pub problem: Problem,
}

/// A [`Score`] that has kernels for elements of `T`. [`attention_kernels!`](crate::attention_kernels) implements it.
#[cfg(not(target_os = "cuda"))]
#[diagnostic::on_unimplemented(
    message = "there is no attention kernel for elements of `{T}` whose scores go through `{Self}`",
    label = "the functor `{Self}` has no instance for `{T}`",
    note = "write `kernels_gpu::attention_kernels! {{ NAME, {Self}, {T} }}` in the kernel crate that declares `{Self}`"
)]
pub trait AttentionKernel<T: Pod>: Score {
    /// Enqueues a kernel. `pages`, `lengths` and `lse` may be empty; so are `offsets`, of queries and of keys, where these are not packed, and `parts` without
    /// splits. `lists` are those of blocks of keys, or empty. `counters` are 0, and 0 again afterwards: one of the tiles that blocks take, and after it with splits one
    /// for each tile.
    ///
    /// # Errors
    /// Those of the launch.
    ///
    /// # Safety
    /// As the form's function has it: [`hopper::attend`] or [`warps::attend`].
    #[allow(clippy::too_many_arguments)]
    unsafe fn launch<L: Launch>(
        self,
        on: &L,
        arguments: &Arguments,
        q: &impl DeviceRead<T>,
        k: &impl DeviceRead<T>,
        v: &impl DeviceRead<T>,
        pages: &impl DeviceRead<u32>,
        lengths: &impl DeviceRead<u32>,
        offsets: [&impl DeviceRead<u32>; 2],
        lists: &impl DeviceRead<u32>,
        counters: &mut impl DeviceWrite<u32>,
        parts: &mut impl DeviceWrite<f32>,
        lse: &mut impl DeviceWrite<f32>,
        o: &mut impl DeviceWrite<T>,
    ) -> Result<(), L::Error>;
}

/// Writes the attention kernels of a functor of scores: `attention_kernels! { NAME, FUNCTOR, ELEMENT }`, with `bf16` or `f16` elements.
#[macro_export]
macro_rules! attention_kernels {
    ($(#[$doc:meta])* $name:ident, $c:ty, $t:ty) => {
        $(#[$doc])*
        #[doc = concat!("Attention over elements of `", stringify!($t), "` whose scores go through `", stringify!($c),
            "`: see `kernels_gpu::attention`.")]
        ///
        /// # Safety
        /// As the form's function has it.
        #[::cuda_std::kernel(
            64, 128, 192, 256, 1064, 1128, 1192, 1256, 2064, 2128, 2192, 2256,
            block = $crate::attention::form::threads(FORM),
            min_blocks = 1,
            dynamic_shared = $crate::attention::form::shared_bytes(FORM)
        )]
        #[allow(unexpected_cfgs, unused_variables, unused_mut, clippy::too_many_arguments)]
        pub unsafe fn $name<const FORM: usize>(
            maps: ::cuda_std::grid_constant::GridConstant<[::cuda_std::grid_constant::MapWords; 3]>,
            schedule: $crate::attention::Schedule,
            problem: $crate::attention::Problem,
            q: &[$t],
            k: &[$t],
            v: &[$t],
            pages: &[u32],
            lengths: &[u32],
            query_offsets: &[u32],
            key_offsets: &[u32],
            lists: &[u32],
            mut counters: ::cuda_std::prelude::DisjointSlice<u32>,
            mut parts: ::cuda_std::prelude::DisjointSlice<f32>,
            mut lse: ::cuda_std::prelude::DisjointSlice<f32>,
            mut o: ::cuda_std::prelude::DisjointSlice<$t>,
            score: $c,
        ) {
            use $crate::attention::{Batches, hopper, output::Output, warps};
            let factor = $crate::attention::factor_of::<$c>(&problem);
            let (to, work) = (o.as_mut_ptr(), (&schedule, &problem));
            let factors = (factor, $crate::attention::factor_of_kept(score));
            let counters = counters.as_mut_ptr();
            let output = Output::new(&problem, factors, to, &mut lse, &mut parts, counters);
            let (q, k, v) = (q.as_ptr(), k.as_ptr(), v.as_ptr());
            let batches = Batches { lengths, queries: query_offsets, keys: key_offsets, lists };
            let operands = warps::Operands { q, k, v, pages, batches };
            let (of_hopper, score) = ((&schedule, &problem, pages, batches), (score, factor));
            // SAFETY: the caller's promise.
            unsafe {
                match FORM {
                    // `wgmma` is an instruction of this architecture alone; the host launches these forms nowhere else.
                    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
                    64 => hopper::attend::<$t, $c, 64, 1, 8, 128, 8, 8, 192>(maps, of_hopper, counters, score, output),
                    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
                    128 => hopper::attend::<$t, $c, 128, 2, 16, 176, 11, 4, 128>(maps, of_hopper, counters, score, output),
                    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
                    192 => hopper::attend::<$t, $c, 192, 3, 24, 112, 7, 4, 128>(maps, of_hopper, counters, score, output),
                    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
                    256 => hopper::attend::<$t, $c, 256, 4, 32, 80, 5, 4, 128>(maps, of_hopper, counters, score, output),
                    1064 => warps::attend::<$t, $c, false, 64, 8, 64, 8, 4>(operands, work, score, output),
                    1128 => warps::attend::<$t, $c, false, 128, 16, 64, 8, 4>(operands, work, score, output),
                    1192 => warps::attend::<$t, $c, false, 192, 24, 32, 4, 2>(operands, work, score, output),
                    1256 => warps::attend::<$t, $c, false, 256, 32, 32, 4, 2>(operands, work, score, output),
                    2064 => warps::attend::<$t, $c, true, 64, 8, 64, 2, 1>(operands, work, score, output),
                    2128 => warps::attend::<$t, $c, true, 128, 16, 64, 2, 1>(operands, work, score, output),
                    2192 => warps::attend::<$t, $c, true, 192, 24, 32, 2, 1>(operands, work, score, output),
                    2256 => warps::attend::<$t, $c, true, 256, 32, 32, 2, 1>(operands, work, score, output),
                    _ => {}
                }
            }
        }

        #[cfg(not(target_os = "cuda"))]
        impl $crate::attention::form::AttentionKernel<$t> for $c {
            unsafe fn launch<L: ::cuda_std::launch::Launch>(
                self,
                on: &L,
                arguments: &$crate::attention::form::Arguments,
                q: &impl ::cuda_std::launch::DeviceRead<$t>,
                k: &impl ::cuda_std::launch::DeviceRead<$t>,
                v: &impl ::cuda_std::launch::DeviceRead<$t>,
                pages: &impl ::cuda_std::launch::DeviceRead<u32>,
                lengths: &impl ::cuda_std::launch::DeviceRead<u32>,
                offsets: [&impl ::cuda_std::launch::DeviceRead<u32>; 2],
                lists: &impl ::cuda_std::launch::DeviceRead<u32>,
                counters: &mut impl ::cuda_std::launch::DeviceWrite<u32>,
                parts: &mut impl ::cuda_std::launch::DeviceWrite<f32>,
                lse: &mut impl ::cuda_std::launch::DeviceWrite<f32>,
                o: &mut impl ::cuda_std::launch::DeviceWrite<$t>,
            ) -> ::core::result::Result<(), L::Error> {
                let &$crate::attention::form::Arguments { form, blocks, maps, schedule, problem } = arguments;
                let grid = ::cuda_std::launch::Grid1::new(blocks);
                macro_rules! launch {
                    ($form:literal) => {
                        $name::<$form>::launch(
                            on, grid, maps, schedule, problem, q, k, v, pages, lengths, offsets[0], offsets[1],
                            lists, counters, parts, lse, o, self,
                        )
                    };
                }
                // SAFETY: the caller's promise.
                unsafe {
                    match form {
                        64 => launch!(64),
                        128 => launch!(128),
                        192 => launch!(192),
                        256 => launch!(256),
                        1064 => launch!(1064),
                        1128 => launch!(1128),
                        1192 => launch!(1192),
                        1256 => launch!(1256),
                        2064 => launch!(2064),
                        2128 => launch!(2128),
                        2192 => launch!(2192),
                        _ => launch!(2256),
                    }
                }
            }
        }
    };
}
