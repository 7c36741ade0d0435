//! Software pipeline: tiles of a slice are copied to shared memory while the block works on earlier ones.

use super::group::{commit_group, copy_async_part, wait_groups};
use crate::shared::SharedArray;
use crate::thread;
use cuda_std_macros::gpu_only;

/// `STAGES` tiles of `LEN` elements in shared memory, filled by `cp.async` in order.
///
/// All threads of the block load and read together: [`load`](Self::load) starts a copy and returns
/// at once, [`read`](Self::read) waits for the oldest one. With `STAGES - 1` tiles loaded ahead there
/// is one barrier for each tile.
///
/// ```
/// use cuda_std::copy::Pipeline;
/// use cuda_std::prelude::*;
///
/// /// Each block of 128 threads sums `tiles` tiles of 512 values, one partial sum for each thread.
/// #[kernel]
/// pub fn sums(index: ThreadIndex, tiles: usize, x: &[f32], mut y: DisjointSlice<f32>) {
///     let memory = shared_array![[f32; 512]; 3];
///     // SAFETY: all threads make it and use it together, and nothing else uses the memory.
///     let mut pipeline = unsafe { Pipeline::new(memory) };
///     let first = thread::block_idx_x() as usize * tiles;
///     let mut sum = 0.0;
///     for tile in 0..tiles + 2 {
///         if tile < tiles {
///             pipeline.load(x, (first + tile) * 512);
///         }
///         if tile >= 2 {
///             let own = thread::thread_idx_x() as usize;
///             sum += pipeline.read(|tile| (0..4).map(|i| tile[own + 128 * i]).sum::<f32>());
///         }
///     }
///     if let Some(y) = y.get_mut(index) {
///         *y = sum;
///     }
/// }
/// # fn main() {}
/// ```
///
/// # Why `load` and `read` are safe
///
/// By the promise of [`new`](Self::new), all threads of the block call both together, with the same
/// arguments, and nothing else uses the memory. Then:
///
/// 1. A tile is read when every thread has waited for its own part of it, and a barrier has followed.
/// 2. Before a stage is filled again, a barrier has followed the reading of what it held: the one of
///    a later `read`, or else one of `load`'s own.
/// 3. Every element of a stage is written by each `load`: by a copy from inside the slice, or as
///    zero, which is a value of a [`bytemuck::Pod`] type.
/// 4. The reference that `read` lends ends with its closure, and nothing is loaded into that stage
///    meanwhile, since the closure cannot reach the pipeline.
/// 5. More loads than stages, or more reads than loads, panic.
#[derive(Debug)]
pub struct Pipeline<T, const LEN: usize, const STAGES: usize> {
    tiles: *mut [T; LEN],
    loaded: u32,
    read: u32,
    /// Tiles whose reading a barrier has followed.
    released: u32,
}

impl<T: bytemuck::Pod, const LEN: usize, const STAGES: usize> Pipeline<T, LEN, STAGES> {
    /// An empty pipeline in `tiles`.
    ///
    /// # Safety
    /// - All threads of the block call this, and then [`load`](Self::load) and [`read`](Self::read),
    ///   in the same order and with the same arguments, none from within a branch that another thread
    ///   of the block does not take.
    /// - The slices they load from are not written while the kernel runs.
    /// - From here to the last use of the pipeline nothing else uses the memory of `tiles`.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn new<const ALIGN: usize>(tiles: SharedArray<[T; LEN], STAGES, ALIGN>) -> Self {
        const {
            assert!(matches!(size_of::<T>(), 4 | 8 | 16), "`cp.async` copies 4, 8 or 16 bytes");
            assert!(STAGES >= 1 && STAGES <= 8, "a pipeline has one to eight stages");
        }
        // What used the memory before is done in every thread.
        thread::sync_threads();
        Self { tiles: tiles.as_mut_ptr(), loaded: 0, read: 0, released: 0 }
    }

    /// Starts to load the `LEN` elements of `source` from `start` on; those past its end are zero.
    ///
    /// `T` is aligned to its size, else this does not compile. Panics if all stages are full.
    #[gpu_only]
    #[inline(always)]
    pub fn load(&mut self, source: &[T], start: usize) {
        const { assert!(align_of::<T>() == size_of::<T>(), "`cp.async` needs full alignment") };
        assert!(self.loaded - self.read < STAGES as u32, "every stage of the pipeline is full");
        if self.loaded >= self.released + STAGES as u32 {
            // Every thread has read what the stage held.
            thread::sync_threads();
            self.released = self.read;
        }
        let stage = self.stage(self.loaded);
        let mut i = thread::index_in_block() as usize;
        while i < LEN {
            let at = start.saturating_add(i);
            let (from, bytes) = match source.get(at) {
                Some(element) => (core::ptr::from_ref(element), size_of::<T>()),
                None => (source.as_ptr(), 0),
            };
            // SAFETY: inside the stage, and inside the slice or not followed; the rest by the
            // argument above.
            unsafe { copy_async_part(stage.add(i), from, bytes as u32) };
            i += thread::threads_in_block() as usize;
        }
        commit_group();
        self.loaded += 1;
    }

    /// Waits for the oldest tile, and lends it to `f`. Panics if none is loaded.
    #[gpu_only]
    #[inline(always)]
    pub fn read<R>(&mut self, f: impl FnOnce(&[T; LEN]) -> R) -> R {
        let pending = self.loaded - self.read;
        assert!(pending > 0, "no tile of the pipeline is loaded");
        wait_for_oldest(pending);
        // Every thread's part of the tile is there, and the tiles before have been read.
        thread::sync_threads();
        self.released = self.read;
        // SAFETY: written in full and by no thread now, by the argument above.
        let result = f(unsafe { &*self.stage(self.read).cast::<[T; LEN]>() });
        self.read += 1;
        result
    }

    /// Tiles that are loaded and not read.
    #[inline(always)]
    pub fn pending(&self) -> usize {
        (self.loaded - self.read) as usize
    }

    #[cfg(target_os = "cuda")]
    #[inline(always)]
    fn stage(&self, number: u32) -> *mut T {
        // SAFETY: below `STAGES`.
        unsafe { self.tiles.add(number as usize % STAGES).cast() }
    }
}

/// Waits until at most `pending - 1` groups are under way: the instruction takes a constant.
#[cfg(target_os = "cuda")]
#[inline(always)]
fn wait_for_oldest(pending: u32) {
    match pending {
        1 => wait_groups::<0>(),
        2 => wait_groups::<1>(),
        3 => wait_groups::<2>(),
        4 => wait_groups::<3>(),
        5 => wait_groups::<4>(),
        6 => wait_groups::<5>(),
        7 => wait_groups::<6>(),
        _ => wait_groups::<7>(),
    }
}
