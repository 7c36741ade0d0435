//! The kernels of the backward pass that every functor of scores has, and how one is launched.

use super::{BLOCK, BackwardProblem, hopper, shared_bytes};
use crate::attention::{Schedule, Score};
use bytemuck::Pod;
use cuda_std::grid_constant::MapWords;
#[cfg(not(target_os = "cuda"))]
use cuda_std::launch::{DeviceRead, DeviceWrite, Launch};

/// [`delta`](super::delta).
pub const DELTA: usize = 0;
/// [`queries`](super::queries), with rows of at most as many elements as are added to this.
pub const QUERIES: usize = 1000;
/// [`keys`](super::keys), with rows of at most as many elements as are added to this.
pub const KEYS: usize = 2000;
/// [`hopper`], with rows of at most as many elements as are added to this.
pub const HOPPER: usize = 3000;
/// What comes before it: [`hopper::prepare()`].
pub const PREPARE: usize = 4000;
/// What comes after it: [`hopper::finish()`].
pub const FINISH: usize = 5000;

/// Elements of a row that kernels are made for; shorter rows are filled up with zeros.
pub const DEPTHS: [usize; 4] = [64, 128, 192, 256];

/// Threads of a block.
#[must_use]
pub const fn threads(form: usize) -> usize {
    if form / 1000 * 1000 == HOPPER { hopper::BLOCK } else { BLOCK }
}

/// Dynamic shared memory of a block, in bytes.
#[must_use]
pub const fn shared(form: usize) -> usize {
    match form / 1000 * 1000 {
        DELTA | PREPARE | FINISH => 0,
        HOPPER => hopper::shared_bytes(form % 1000),
        _ => shared_bytes(form % 1000),
    }
}

/// What all forms are launched with, but for the tensors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Arguments {
    /// The kernel.
    pub form: usize,
    /// Blocks.
    pub blocks: u32,
    /// The tensor maps of queries, keys, values and gradients of the results; zeros where the form takes none.
    pub maps: [MapWords; 4],
    /// The tiles of queries.
    pub schedule: Schedule,
    /// Sizes and strides.
    pub problem: BackwardProblem,
}

/// A [`Score`] that has kernels of the backward pass for elements of `T`. [`attention_backward_kernels!`](crate::attention_backward_kernels) implements it.
#[cfg(not(target_os = "cuda"))]
#[diagnostic::on_unimplemented(
    message = "there is no kernel of attention's backward pass for elements of `{T}` whose scores go through `{Self}`",
    label = "the functor `{Self}` has no instance for `{T}`",
    note = "write `kernels_gpu::attention_backward_kernels! {{ NAME, {Self}, {T} }}` in the kernel crate that declares `{Self}`"
)]
pub trait AttentionBackwardKernel<T: Pod>: Score {
    /// Enqueues a kernel. `offsets`, of queries and of keys, are empty where these are not packed.
    ///
    /// # Errors
    /// Those of the launch.
    ///
    /// # Safety
    /// As the form's function has it: [`delta::add`](super::delta::add), [`queries::add`](super::queries::add), [`keys::add`](super::keys::add),
    /// [`hopper::prepare()`], [`hopper::add`], [`hopper::add_wide`] or [`hopper::finish()`].
    #[allow(clippy::too_many_arguments)]
    unsafe fn launch<L: Launch>(
        self,
        on: &L,
        arguments: &Arguments,
        q: &impl DeviceRead<T>,
        k: &impl DeviceRead<T>,
        v: &impl DeviceRead<T>,
        o: &impl DeviceRead<T>,
        d_o: &impl DeviceRead<T>,
        lse: &impl DeviceRead<f32>,
        offsets: [&impl DeviceRead<u32>; 2],
        delta: &mut impl DeviceWrite<f32>,
        d_q: &mut impl DeviceWrite<T>,
        d_k: &mut impl DeviceWrite<T>,
        d_v: &mut impl DeviceWrite<T>,
    ) -> Result<(), L::Error>;
}

/// Writes the kernels of attention's backward pass for a functor of scores: `attention_backward_kernels! { NAME, FUNCTOR, ELEMENT }`, with `bf16` or
/// `f16` elements.
#[macro_export]
macro_rules! attention_backward_kernels {
    ($(#[$doc:meta])* $name:ident, $c:ty, $t:ty) => {
        $(#[$doc])*
        #[doc = concat!("The backward pass of attention over elements of `", stringify!($t), "` whose scores go through `", stringify!($c),
            "`: see `kernels_gpu::attention::backward`.")]
        ///
        /// # Safety
        /// As the form's function has it.
        #[::cuda_std::kernel(
            0, 1064, 1128, 1192, 1256, 2064, 2128, 2192, 2256, 3064, 3128, 3192, 3256, 4000, 5000,
            block = $crate::attention::backward::form::threads(FORM),
            min_blocks = 1,
            dynamic_shared = $crate::attention::backward::form::shared(FORM)
        )]
        #[allow(unexpected_cfgs, unused_variables, unused_mut, clippy::too_many_arguments)]
        pub unsafe fn $name<const FORM: usize>(
            maps: ::cuda_std::grid_constant::GridConstant<[::cuda_std::grid_constant::MapWords; 4]>,
            schedule: $crate::attention::Schedule,
            problem: $crate::attention::backward::BackwardProblem,
            q: &[$t],
            k: &[$t],
            v: &[$t],
            o: &[$t],
            d_o: &[$t],
            lse: &[f32],
            query_offsets: &[u32],
            key_offsets: &[u32],
            mut delta: ::cuda_std::prelude::DisjointSlice<f32>,
            mut d_q: ::cuda_std::prelude::DisjointSlice<$t>,
            mut d_k: ::cuda_std::prelude::DisjointSlice<$t>,
            mut d_v: ::cuda_std::prelude::DisjointSlice<$t>,
            score: $c,
        ) {
            use $crate::attention::backward::{Operands, delta as of_delta, hopper, keys, queries};
            let batches = $crate::attention::Batches { queries: query_offsets, keys: key_offsets, ..Default::default() };
            let operands = Operands {
                batches,
                q: q.as_ptr(),
                k: k.as_ptr(),
                v: v.as_ptr(),
                o: o.as_ptr(),
                d_o: d_o.as_ptr(),
                lse: lse.as_ptr(),
                delta: delta.as_mut_ptr(),
                d_q: d_q.as_mut_ptr(),
                d_k: d_k.as_mut_ptr(),
                d_v: d_v.as_mut_ptr(),
            };
            let (score, work) = ((score, $crate::attention::factor_of::<$c>(&problem.forward)), (&schedule, &problem));
            // SAFETY: the caller's promise.
            unsafe {
                match FORM {
                    0 => of_delta::add::<$t>(&problem, operands),
                    1064 => queries::add::<$t, $c, 64, 8, 8, 4>(operands, work, score),
                    1128 => queries::add::<$t, $c, 128, 16, 8, 4>(operands, work, score),
                    1192 => queries::add::<$t, $c, 192, 24, 8, 4>(operands, work, score),
                    1256 => queries::add::<$t, $c, 256, 32, 4, 2>(operands, work, score),
                    2064 => keys::add::<$t, $c, 64, 8, 8, 4>(operands, &problem, score),
                    2128 => keys::add::<$t, $c, 128, 16, 8, 4>(operands, &problem, score),
                    2192 => keys::add::<$t, $c, 192, 24, 8, 4>(operands, &problem, score),
                    2256 => keys::add::<$t, $c, 256, 32, 4, 2>(operands, &problem, score),
                    // `wgmma` is an instruction of this architecture alone; the host launches these forms nowhere else.
                    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
                    3000.. => match FORM {
                        3064 => hopper::add::<$t, $c, 64, 1, 8, 128, 8>(maps, &problem, operands, score),
                        3128 => hopper::add::<$t, $c, 128, 2, 16, 64, 4>(maps, &problem, operands, score),
                        3192 => hopper::add_wide::<$t, $c, 192, 3, 24>(maps, &problem, operands, score),
                        3256 => hopper::add_wide::<$t, $c, 256, 4, 32>(maps, &problem, operands, score),
                        4000 => hopper::prepare::<$t>(&problem, operands),
                        _ => hopper::finish::<$t>(&problem, operands),
                    },
                    _ => {}
                }
            }
        }

        #[cfg(not(target_os = "cuda"))]
        impl $crate::attention::backward::form::AttentionBackwardKernel<$t> for $c {
            unsafe fn launch<L: ::cuda_std::launch::Launch>(
                self,
                on: &L,
                arguments: &$crate::attention::backward::form::Arguments,
                q: &impl ::cuda_std::launch::DeviceRead<$t>,
                k: &impl ::cuda_std::launch::DeviceRead<$t>,
                v: &impl ::cuda_std::launch::DeviceRead<$t>,
                o: &impl ::cuda_std::launch::DeviceRead<$t>,
                d_o: &impl ::cuda_std::launch::DeviceRead<$t>,
                lse: &impl ::cuda_std::launch::DeviceRead<f32>,
                offsets: [&impl ::cuda_std::launch::DeviceRead<u32>; 2],
                delta: &mut impl ::cuda_std::launch::DeviceWrite<f32>,
                d_q: &mut impl ::cuda_std::launch::DeviceWrite<$t>,
                d_k: &mut impl ::cuda_std::launch::DeviceWrite<$t>,
                d_v: &mut impl ::cuda_std::launch::DeviceWrite<$t>,
            ) -> ::core::result::Result<(), L::Error> {
                let &$crate::attention::backward::form::Arguments { form, blocks, maps, schedule, problem } =
                    arguments;
                let grid = ::cuda_std::launch::Grid1::new(blocks);
                macro_rules! launch {
                    ($form:literal) => {
                        $name::<$form>::launch(
                            on, grid, maps, schedule, problem, q, k, v, o, d_o, lse, offsets[0], offsets[1],
                            delta, d_q, d_k, d_v, self,
                        )
                    };
                }
                // SAFETY: the caller's promise.
                unsafe {
                    match form {
                        1064 => launch!(1064),
                        1128 => launch!(1128),
                        1192 => launch!(1192),
                        1256 => launch!(1256),
                        2064 => launch!(2064),
                        2128 => launch!(2128),
                        2192 => launch!(2192),
                        2256 => launch!(2256),
                        3064 => launch!(3064),
                        3128 => launch!(3128),
                        3192 => launch!(3192),
                        3256 => launch!(3256),
                        4000 => launch!(4000),
                        5000 => launch!(5000),
                        _ => launch!(0),
                    }
                }
            }
        }
    };
}
