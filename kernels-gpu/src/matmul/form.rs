//! The kernels that every epilogue has, and how one is launched.

use super::hopper::{self, Schedule};
use super::{Epilogue, Factor, Problem, finish, skinny, warps};
use bytemuck::Pod;
use cuda_std::bf16;
use cuda_std::dependent;
use cuda_std::grid_constant::MapWords;
#[cfg(not(target_os = "cuda"))]
use cuda_std::launch::{
    Args, DevicePtr, DeviceRead, DeviceWrite, Instance, Kernel, Launch, LaunchConfig,
};

/// [`hopper`] with tiles of 128 × 256.
pub const WIDE: usize = 256;
/// [`hopper`] with tiles of 128 × 192.
pub const MIDDLE: usize = 192;
/// [`hopper`] with tiles of 128 × 128.
pub const SQUARE: usize = 128;
/// [`hopper`] with tiles of 128 × 64.
pub const NARROW: usize = 64;
/// [`hopper`] with tiles of 128 × 16.
pub const SLIM: usize = 16;
/// [`finish`].
pub const FINISH: usize = 0;
/// [`skinny`].
pub const SKINNY: usize = 1;
/// [`warps`].
pub const WARPS: usize = 2;

/// Threads of a block.
#[must_use]
pub const fn threads(form: usize) -> usize {
    match form {
        FINISH => finish::BLOCK,
        SKINNY => skinny::BLOCK,
        WARPS => warps::THREADS,
        _ => hopper::BLOCK,
    }
}

/// Blocks that a multiprocessor runs at a time, at least.
#[must_use]
pub const fn min_blocks(form: usize) -> usize {
    match form {
        SKINNY | WARPS => 2,
        FINISH => 1,
        _ => hopper::blocks_at_once(form),
    }
}

/// Dynamic shared memory of a block, in bytes.
#[must_use]
pub const fn shared_bytes(form: usize) -> usize {
    match form {
        FINISH => finish::SHARED_BYTES,
        SKINNY => skinny::SHARED_BYTES,
        // Tiles have as many bytes, whatever their elements.
        WARPS => warps::shared_bytes::<bf16>(),
        WIDE => hopper::shared_bytes::<WIDE>(),
        MIDDLE => hopper::shared_bytes::<MIDDLE>(),
        SQUARE => hopper::shared_bytes::<SQUARE>(),
        NARROW => hopper::shared_bytes::<NARROW>(),
        _ => hopper::shared_bytes::<SLIM>(),
    }
}

/// Calls [`take_turn`] for forms that do not call it themselves, after work that does not depend on the previous kernel.
#[inline(always)]
pub fn take_turn_for(form: usize) {
    if !matches!(form, WIDE | MIDDLE | SQUARE | NARROW | SLIM) {
        take_turn();
    }
}

/// Waits until the previous kernel has ended, then lets blocks of the next kernel take the multiprocessors that blocks of this
/// kernel leave. The next kernel takes no multiprocessor that this kernel needs: it is scheduled when all blocks of this kernel have begun.
#[inline(always)]
pub fn take_turn() {
    dependent::wait_for_previous();
    dependent::let_next_start();
}

/// What all forms are launched with, but for the matrices.
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// The kernel: [`WIDE`], [`MIDDLE`], [`SQUARE`], [`NARROW`], [`SLIM`], [`SKINNY`], [`WARPS`] or [`FINISH`].
    pub form: usize,
    /// Blocks: a multiple of those of a cluster.
    pub blocks: u32,
    /// Blocks of a cluster: of [`SQUARE`], [`NARROW`] and [`SLIM`] 1, 2, 4 or 8, else 1.
    pub cluster: u32,
    /// The tensor maps of A, B and D; zeros where the form takes none.
    pub maps: [MapWords; 3],
    /// The tiles; zeros where the form has none.
    pub schedule: Schedule,
    /// The product.
    pub problem: Problem,
}

impl Default for Arguments {
    fn default() -> Self {
        Self {
            form: FINISH,
            blocks: 0,
            cluster: 1,
            maps: Default::default(),
            schedule: Schedule::default(),
            problem: Problem::default(),
        }
    }
}

/// The kernel `K` in clusters of `blocks`.
#[cfg(not(target_os = "cuda"))]
#[doc(hidden)]
#[must_use]
pub const fn in_clusters<K: Instance>(blocks: u64) -> Kernel {
    Kernel { contract: K::KERNEL.contract.with_cluster([blocks, 1, 1]), ..*K::KERNEL }
}

/// Launches `kernel` in place of the one that it is asked for, which is the same but for the clusters: a kernel whose contract has none runs
/// with any, and one entry serves all.
#[cfg(not(target_os = "cuda"))]
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct InClusters<'a, L> {
    /// Where to.
    pub on: &'a L,
    /// From [`in_clusters`].
    pub kernel: &'static Kernel,
}

#[cfg(not(target_os = "cuda"))]
impl<L: Launch> Launch for InClusters<'_, L> {
    type Error = L::Error;

    unsafe fn launch(
        &self,
        _: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> Result<(), L::Error> {
        // SAFETY: the caller's promise: both kernels have the same parameters.
        unsafe { self.on.launch(self.kernel, config, args) }
    }
}

/// An [`Epilogue`] that has kernels which multiply matrices of `T` and store elements of `D`.
/// [`instances!`](crate::instances) implements it.
#[cfg(not(target_os = "cuda"))]
#[diagnostic::on_unimplemented(
    message = "there is no kernel that multiplies matrices of `{T}`, applies `{Self}` and stores `{D}`",
    label = "the epilogue `{Self}` has no instance for `{T}` and `{D}`",
    note = "write `kernels_gpu::instances! {{ NAME: matmul({Self}, {T}) -> {D}; }}` in the kernel crate that declares `{Self}`"
)]
pub trait MatmulKernel<T: Factor, D: Pod>: Epilogue {
    /// Whether the crate that has these kernels also has those of [`Plain`](super::Plain) that store `f32`, by which K is split. Only
    /// the shipped ones do: a launch finds kernels in one crate alone.
    const CAN_SPLIT: bool;

    /// Enqueues a product. For [`FINISH`], `a` is the partial sums and `b` is empty. C is at `c_from`; `c` is its memory, empty if C
    /// is D or is not read. `flags` and `sums` are those of [`hopper::Parts`], empty if no tiles are streamed.
    ///
    /// # Errors
    /// Those of the launch.
    ///
    /// # Safety
    /// As the form's function has it: [`hopper::multiply`], [`skinny::multiply`], [`warps::with_epilogue`] or [`finish::finish`].
    #[allow(clippy::too_many_arguments)]
    unsafe fn launch<L: Launch>(
        self,
        on: &L,
        arguments: &Arguments,
        a: &impl DeviceRead<T>,
        b: &impl DeviceRead<T>,
        c: &impl DeviceRead<D>,
        c_from: DevicePtr<D>,
        per_row: &impl DeviceRead<D>,
        per_column: &impl DeviceRead<D>,
        d: &mut impl DeviceWrite<D>,
        flags: &mut impl DeviceWrite<u32>,
        sums: &mut impl DeviceWrite<f32>,
    ) -> Result<(), L::Error>;
}

/// The body of the kernels of an epilogue: what [`instances!`](crate::instances) writes. `$n` is the form.
#[doc(hidden)]
#[macro_export]
macro_rules! matmul_kernels {
    ($(#[$doc:meta])* $name:ident, $e:ty, $t:ty, $d:ty, can_split = $can_split:literal) => {
        $(#[$doc])*
        #[doc = concat!("Products of matrices of `", stringify!($t), "`, stored as `", stringify!($d), "` by `", stringify!($e),
            "`: see `kernels_gpu::matmul`.")]
        ///
        /// # Safety
        /// As the form's function has it.
        #[::cuda_std::kernel(
            { $crate::matmul::form::WIDE },
            { $crate::matmul::form::MIDDLE },
            { $crate::matmul::form::SQUARE },
            { $crate::matmul::form::NARROW },
            { $crate::matmul::form::SLIM },
            { $crate::matmul::form::FINISH },
            { $crate::matmul::form::SKINNY },
            { $crate::matmul::form::WARPS },
            dependent,
            block = $crate::matmul::form::threads(FORM),
            min_blocks = $crate::matmul::form::min_blocks(FORM),
            dynamic_shared = $crate::matmul::form::shared_bytes(FORM)
        )]
        #[allow(unexpected_cfgs, unused_variables, unused_mut, clippy::too_many_arguments)]
        pub unsafe fn $name<const FORM: usize>(
            maps: ::cuda_std::grid_constant::GridConstant<[::cuda_std::grid_constant::MapWords; 3]>,
            schedule: $crate::matmul::hopper::Schedule,
            problem: $crate::matmul::Problem,
            a: &[$t],
            b: &[$t],
            c: &[$d],
            c_from: *const $d,
            per_row: &[$d],
            per_column: &[$d],
            mut d: ::cuda_std::prelude::DisjointSlice<$d>,
            mut flags: ::cuda_std::prelude::DisjointSlice<u32>,
            mut sums: ::cuda_std::prelude::DisjointSlice<f32>,
            epilogue: $e,
        ) {
            use $crate::matmul::{form, hopper};
            if const { FORM > <$t as $crate::matmul::Factor>::WIDEST } {
                return;
            }
            // `c` orders the launch after what wrote C; C may be D itself, which no slice may be.
            let (c, per_row, per_column) = (c_from, per_row.as_ptr(), per_column.as_ptr());
            let (d, parts) = (d.as_mut_ptr(), hopper::Parts::new(&mut flags, &mut sums));
            form::take_turn_for(FORM);
            // SAFETY: the caller's promise.
            unsafe {
                match FORM {
                    form::FINISH => $crate::matmul::finish::finish::<$d, $e>(
                        &problem, a.as_ptr().cast(), c, [per_row, per_column], d, epilogue,
                    ),
                    form::SKINNY => <$t as $crate::matmul::Factor>::multiply_few_rows::<$d, $e>(
                        &problem, [a.as_ptr(), b.as_ptr()], c, [per_row, per_column], d, epilogue,
                    ),
                    form::WARPS => $crate::matmul::warps::with_epilogue::<$t, $d, $e>(
                        &problem, a.as_ptr(), b.as_ptr(), c, per_row, per_column, d, epilogue,
                    ),
                    // `wgmma` is an instruction of this architecture alone; the host launches these forms nowhere else.
                    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
                    form::WIDE => $crate::matmul::hopper::multiply::<
                        $t, $d, $e, { form::WIDE }, { $crate::matmul::hopper::stages(form::WIDE) },
                    >(maps, &schedule, &problem, c, [per_row, per_column], d, parts, epilogue),
                    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
                    form::MIDDLE => $crate::matmul::hopper::multiply::<
                        $t, $d, $e, { form::MIDDLE }, { $crate::matmul::hopper::stages(form::MIDDLE) },
                    >(maps, &schedule, &problem, c, [per_row, per_column], d, parts, epilogue),
                    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
                    form::SQUARE => $crate::matmul::hopper::multiply::<
                        $t, $d, $e, { form::SQUARE }, { $crate::matmul::hopper::stages(form::SQUARE) },
                    >(maps, &schedule, &problem, c, [per_row, per_column], d, parts, epilogue),
                    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
                    form::NARROW => $crate::matmul::hopper::multiply::<
                        $t, $d, $e, { form::NARROW }, { $crate::matmul::hopper::stages(form::NARROW) },
                    >(maps, &schedule, &problem, c, [per_row, per_column], d, parts, epilogue),
                    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
                    form::SLIM => $crate::matmul::hopper::multiply::<
                        $t, $d, $e, { form::SLIM }, { $crate::matmul::hopper::stages(form::SLIM) },
                    >(maps, &schedule, &problem, c, [per_row, per_column], d, parts, epilogue),
                    _ => {}
                }
            }
        }

        #[cfg(not(target_os = "cuda"))]
        impl $crate::matmul::form::MatmulKernel<$t, $d> for $e {
            const CAN_SPLIT: bool = $can_split;

            unsafe fn launch<L: ::cuda_std::launch::Launch>(
                self,
                on: &L,
                arguments: &$crate::matmul::form::Arguments,
                a: &impl ::cuda_std::launch::DeviceRead<$t>,
                b: &impl ::cuda_std::launch::DeviceRead<$t>,
                c: &impl ::cuda_std::launch::DeviceRead<$d>,
                c_from: ::cuda_std::launch::DevicePtr<$d>,
                per_row: &impl ::cuda_std::launch::DeviceRead<$d>,
                per_column: &impl ::cuda_std::launch::DeviceRead<$d>,
                d: &mut impl ::cuda_std::launch::DeviceWrite<$d>,
                flags: &mut impl ::cuda_std::launch::DeviceWrite<u32>,
                sums: &mut impl ::cuda_std::launch::DeviceWrite<f32>,
            ) -> ::core::result::Result<(), L::Error> {
                use $crate::matmul::form::{self, Arguments};
                let &Arguments { form, blocks, cluster, maps, schedule, problem } = arguments;
                let grid = ::cuda_std::launch::Grid1::new(blocks);
                macro_rules! launch {
                    ($form:expr) => {
                        launch!($form, on)
                    };
                    ($form:expr, $on:expr) => {
                        $name::<{ $form }>::launch(
                            $on, grid, maps, schedule, problem, a, b, c, c_from, per_row, per_column, d, flags, sums,
                            self,
                        )
                    };
                    ($form:expr, clusters of $blocks:literal) => {
                        launch!($form, &form::InClusters {
                            on,
                            kernel: const { &form::in_clusters::<$name<{ $form }>>($blocks) },
                        })
                    };
                    ($form:expr, in cluster) => {
                        match cluster {
                            2 => launch!($form, clusters of 2),
                            4 => launch!($form, clusters of 4),
                            8 => launch!($form, clusters of 8),
                            _ => launch!($form),
                        }
                    };
                }
                // SAFETY: the caller's promise.
                unsafe {
                    match form {
                        form::WIDE => launch!(form::WIDE),
                        form::MIDDLE => launch!(form::MIDDLE),
                        form::SQUARE => launch!(form::SQUARE, in cluster),
                        form::NARROW => launch!(form::NARROW, in cluster),
                        form::SLIM => launch!(form::SLIM, in cluster),
                        form::SKINNY => launch!(form::SKINNY),
                        form::WARPS => launch!(form::WARPS),
                        _ => launch!(form::FINISH),
                    }
                }
            }
        }
    };
}
