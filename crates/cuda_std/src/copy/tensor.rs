//! Tensor maps: TMA copies of a box of a tensor between global and shared memory.

use super::bulk::Reduction;
use super::tile::{Extents, Swizzle, Tile, Unswizzled};
use crate::mbarrier::Mbarrier;
use core::fmt;
use core::marker::PhantomData;
use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use crate::mbarrier::shared_address;
#[cfg(target_os = "cuda")]
use core::arch::asm;

/// A tensor in global memory, of which [`Tile<A, S>`](Tile)s are read. A kernel takes
/// `&TensorMap<A, S>`; the host makes one with `ferrowarp::TensorView`, from the tensor's buffer.
///
/// Coordinates are signed, outermost first, and count elements. What lies outside of the tensor is
/// read as zero: a tile may hang over any edge. The innermost coordinate counts a
/// multiple of 16 bytes; the kernel faults (illegal instruction) otherwise.
#[repr(C, align(64))]
pub struct TensorMap<A: Extents, S: Swizzle = Unswizzled> {
    words: [u64; 16],
    tile: PhantomData<fn() -> Tile<A, S>>,
}

/// A tensor in global memory to which [`Tile<A, S>`](Tile)s are written. A kernel takes
/// `&TensorMapMut<A, S>`; the host makes one with `ferrowarp::TensorViewMut`.
#[repr(C, align(64))]
pub struct TensorMapMut<A: Extents, S: Swizzle = Unswizzled> {
    words: [u64; 16],
    tile: PhantomData<fn() -> Tile<A, S>>,
}

impl<A: Extents, S: Swizzle> fmt::Debug for TensorMap<A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorMap").finish_non_exhaustive()
    }
}

impl<A: Extents, S: Swizzle> fmt::Debug for TensorMapMut<A, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TensorMapMut").finish_non_exhaustive()
    }
}

/// `tensor!("text before", "text after", at; operands)`: one instruction for each rank, with the
/// coordinates innermost first in `{{map}, {{…}}}`.
#[cfg(target_os = "cuda")]
macro_rules! tensor {
    ($before:literal, $tile:literal, $after:literal, $at:ident; $($operands:tt)*) => {{
        let last = $at.len() - 1;
        let coordinate = |dim: usize| $at[last.saturating_sub(dim)];
        match $at.len() {
            1 => asm!(concat!($before, ".1d", $tile, "[{map}, {{{c0}}}]", $after),
                c0 = in(reg32) coordinate(0), $($operands)*),
            2 => asm!(concat!($before, ".2d", $tile, "[{map}, {{{c0}, {c1}}}]", $after),
                c0 = in(reg32) coordinate(0), c1 = in(reg32) coordinate(1), $($operands)*),
            3 => asm!(concat!($before, ".3d", $tile, "[{map}, {{{c0}, {c1}, {c2}}}]", $after),
                c0 = in(reg32) coordinate(0), c1 = in(reg32) coordinate(1),
                c2 = in(reg32) coordinate(2), $($operands)*),
            4 => asm!(concat!($before, ".4d", $tile, "[{map}, {{{c0}, {c1}, {c2}, {c3}}}]", $after),
                c0 = in(reg32) coordinate(0), c1 = in(reg32) coordinate(1),
                c2 = in(reg32) coordinate(2), c3 = in(reg32) coordinate(3), $($operands)*),
            _ => asm!(
                concat!($before, ".5d", $tile, "[{map}, {{{c0}, {c1}, {c2}, {c3}, {c4}}}]", $after),
                c0 = in(reg32) coordinate(0), c1 = in(reg32) coordinate(1),
                c2 = in(reg32) coordinate(2), c3 = in(reg32) coordinate(3),
                c4 = in(reg32) coordinate(4), $($operands)*),
        }
    }};
}

impl<A: Extents, S: Swizzle> TensorMap<A, S> {
    /// Starts to fill `tile` with the box whose first element is at `at`. The barrier gets
    /// [`Tile::BYTES`], whatever part of the box lies inside the tensor.
    ///
    /// # Safety
    /// - `tile` is valid for writes in shared memory, and nothing reaches it until the barrier's phase
    ///   is over.
    /// - The promises of [`Mbarrier`]: the phase expects the bytes.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn load<const RANK: usize>(
        &self,
        tile: *mut Tile<A, S>,
        at: [i32; RANK],
        barrier: Mbarrier,
    ) {
        const { assert!(RANK == A::RANK, "one coordinate for each dimension of the tile") };
        const { assert!(Tile::<A, S>::BYTES > 0) };
        // SAFETY: the caller's promise.
        unsafe {
            tensor!("cp.async.bulk.tensor",
                ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [{t}], ",
                ", [{b}];", at;
                map = in(reg64) self, t = in(reg32) shared_address(tile),
                b = in(reg32) barrier.address(), options(nostack));
        }
    }

    /// [`load`](Self::load) into the same place of every block of the cluster whose bit in `ranks` is
    /// set; the same barrier of each gets the bytes.
    ///
    /// # Safety
    /// As [`load`](Self::load), for each of the blocks, which all still run.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn load_multicast<const RANK: usize>(
        &self,
        tile: *mut Tile<A, S>,
        at: [i32; RANK],
        barrier: Mbarrier,
        ranks: u16,
    ) {
        const { assert!(RANK == A::RANK, "one coordinate for each dimension of the tile") };
        const { assert!(Tile::<A, S>::BYTES > 0) };
        // SAFETY: the caller's promise.
        unsafe {
            tensor!("cp.async.bulk.tensor",
                ".shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [{t}], ",
                ", [{b}], {r};", at;
                map = in(reg64) self, t = in(reg32) shared_address(tile),
                b = in(reg32) barrier.address(), r = in(reg16) ranks, options(nostack));
        }
    }

    /// Asks for the box at `at` to be brought to the L2 cache.
    #[gpu_only]
    #[inline(always)]
    pub fn prefetch_tile<const RANK: usize>(&self, at: [i32; RANK]) {
        const { assert!(RANK == A::RANK, "one coordinate for each dimension of the tile") };
        // SAFETY: the map is valid, and what is outside of its tensor is not reached.
        unsafe {
            tensor!("cp.async.bulk.prefetch.tensor", ".L2.global.tile ", ";", at;
                map = in(reg64) self, options(nostack));
        }
    }

    /// Asks for the map itself to be brought near, so that the first copy does not wait for it.
    #[gpu_only]
    #[inline(always)]
    pub fn prefetch(&self) {
        // SAFETY: the map is valid.
        unsafe { asm!("prefetch.tensormap [{m}];", m = in(reg64) self, options(nostack)) }
    }
}

impl<A: Extents, S: Swizzle> TensorMapMut<A, S> {
    /// Starts to write `tile` to the box whose first element is at `at`, in the thread's current bulk
    /// group. What lies past the tensor's end is left out, in units of 16 bytes: where rows of the tensor end inside of
    /// a unit, an H200 writes all of it, and so does the emulator. The kernel faults (illegal instruction) if a coordinate is
    /// negative.
    ///
    /// # Safety
    /// - Nothing else uses the rest of the last unit of each row, and it is inside the allocation.
    /// - `tile` is valid for reads in shared memory; what was written there has had
    ///   [`fence_proxy_async`](super::fence_proxy_async) in the writing threads, and then a barrier.
    /// - Until the group is done, nothing else reaches the box; until it has been read, nothing writes
    ///   the tile.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn store<const RANK: usize>(&self, at: [i32; RANK], tile: *const Tile<A, S>) {
        const { assert!(RANK == A::RANK, "one coordinate for each dimension of the tile") };
        const { assert!(Tile::<A, S>::BYTES > 0) };
        // SAFETY: the caller's promise.
        unsafe {
            tensor!("cp.async.bulk.tensor", ".global.shared::cta.tile.bulk_group ", ", [{t}];", at;
                map = in(reg64) self, t = in(reg32) shared_address(tile), options(nostack));
        }
    }

    /// [`store`](Self::store) that combines each element with what is there, atomically for each.
    /// The copy engine computes in the element's type; integers wrap.
    ///
    /// # Safety
    /// As [`store`](Self::store), but other reductions may reach the box at the same time. The type
    /// has the operation: floats of 16 bits `Add`, `Min` and `Max`, of 32 bits `Add`, integers of 32
    /// and 64 bits all (`Xor` and its like, and 64-bit `Min` and `Max`, unsigned too).
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn reduce<const RANK: usize>(
        &self,
        at: [i32; RANK],
        tile: *const Tile<A, S>,
        reduction: Reduction,
    ) {
        const { assert!(RANK == A::RANK, "one coordinate for each dimension of the tile") };
        const { assert!(Tile::<A, S>::BYTES > 0) };
        /// One arm for each operation.
        macro_rules! reduce {
            ($tile:literal) => {
                tensor!("cp.reduce.async.bulk.tensor", $tile, ", [{t}];", at;
                    map = in(reg64) self, t = in(reg32) shared_address(tile), options(nostack))
            };
        }
        // SAFETY: the caller's promise.
        unsafe {
            match reduction {
                Reduction::Add => reduce!(".global.shared::cta.add.tile.bulk_group "),
                Reduction::Min => reduce!(".global.shared::cta.min.tile.bulk_group "),
                Reduction::Max => reduce!(".global.shared::cta.max.tile.bulk_group "),
                Reduction::And => reduce!(".global.shared::cta.and.tile.bulk_group "),
                Reduction::Or => reduce!(".global.shared::cta.or.tile.bulk_group "),
                Reduction::Xor => reduce!(".global.shared::cta.xor.tile.bulk_group "),
            }
        }
    }

    /// Asks for the map itself to be brought near, so that the first copy does not wait for it.
    #[gpu_only]
    #[inline(always)]
    pub fn prefetch(&self) {
        // SAFETY: the map is valid.
        unsafe { asm!("prefetch.tensormap [{m}];", m = in(reg64) self, options(nostack)) }
    }
}
