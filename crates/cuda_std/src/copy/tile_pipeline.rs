//! Stages of shared memory between copies that fill them and threads that use them.

use super::tensor::TensorMap;
use super::tile::{Extents, Swizzle, Tile};
use crate::mbarrier::{Mbarrier, Ring};
use crate::shared::SharedArray;
use core::mem::size_of;
use cuda_std_macros::gpu_only;

/// `STAGES` stages of type `T`, each with two barriers: *full*, which counts the bytes that copies
/// bring, and *free*, at which every consumer arrives when it has done with the stage.
///
/// `T` is a [`Tile`], or a `#[repr(C)]` struct of several without gaps. One thread is the producer;
/// the threads or warps that take the tiles are the consumers, `consumers` of them: who calls
/// [`TileConsumer::with_tile`] as `arrives` says.
///
/// ```
/// use cuda_std::copy::{Swizzle128, TensorMap, Tile, TilePipeline};
/// use cuda_std::prelude::*;
///
/// type Rows = Tile<[[f32; 32]; 64]>;
///
/// /// Sums each column of 32, over `tiles` tiles of 64 rows.
/// #[kernel]
/// pub fn column_sums(index: ThreadIndex, tiles: u32, x: &TensorMap<[[f32; 32]; 64]>,
///                    mut y: DisjointSlice<f32>) {
///     let (memory, barriers) = (shared_array![Rows; 2], shared_array![u64; 4]);
///     // SAFETY: one block of 32 threads; all make it together, and nothing else uses the memory.
///     let pipeline = unsafe { TilePipeline::new(memory, barriers, 32) };
///     let column = thread::thread_idx_x() as usize;
///     // SAFETY: thread 0 alone produces, and every thread consumes.
///     let (mut producer, mut consumer) = unsafe { (pipeline.producer(), pipeline.consumer()) };
///     let mut sum = 0.0;
///     for tile in 0..tiles {
///         if column == 0 {
///             // SAFETY: the copy fills the whole stage.
///             unsafe { producer.fill(|slot| slot.load(x, [64 * tile as i32, 0], |stage| stage)) };
///         }
///         sum += consumer.with_tile(true, |tile| (0..64).map(|r| tile.get([r, column])).sum::<f32>());
///     }
///     if let Some(y) = y.get_mut(index) {
///         *y = sum;
///     }
/// }
/// # fn main() {}
/// ```
#[derive(Debug)]
pub struct TilePipeline<T, const STAGES: usize> {
    stages: *mut T,
    full: u32,
    free: u32,
}

impl<T, const STAGES: usize> Clone for TilePipeline<T, STAGES> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, const STAGES: usize> Copy for TilePipeline<T, STAGES> {}

impl<T, const STAGES: usize> TilePipeline<T, STAGES> {
    /// An empty pipeline, with barriers in the first `2 * STAGES` elements of `barriers`.
    ///
    /// # Safety
    /// - All threads of the block call this together, and from here on nothing else uses the memory.
    /// - `T` is tiles and nothing else: any bytes are a `T`, and it has no padding.
    /// - `consumers`, at least 1, arrive in each round: see [`TileConsumer::with_tile`].
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn new<const BARRIERS: usize, const ALIGN: usize, const BARRIERS_ALIGN: usize>(
        stages: SharedArray<T, STAGES, ALIGN>,
        barriers: SharedArray<u64, BARRIERS, BARRIERS_ALIGN>,
        consumers: u32,
    ) -> Self {
        const { assert!(BARRIERS >= 2 * STAGES, "a pipeline has two barriers for each stage") };
        let full = Mbarrier::new(barriers, 0).address();
        let this = Self { stages: stages.as_mut_ptr(), full, free: full + 8 * STAGES as u32 };
        if crate::thread::index_in_block() == 0 {
            for stage in 0..STAGES {
                // SAFETY: one thread, before the barrier below, and the copies see it by the fence.
                unsafe {
                    this.full(stage).init(1);
                    this.free(stage).init(consumers);
                }
            }
            crate::mbarrier::fence_init();
        }
        // No thread uses a barrier before it is initialised.
        crate::thread::sync_threads();
        this
    }

    /// The side that fills.
    ///
    /// # Safety
    /// One thread of the block uses it, and it alone; or one warp, with [`fill_by_warp`](TileProducer::fill_by_warp).
    #[inline(always)]
    pub unsafe fn producer(self) -> TileProducer<T, STAGES> {
        TileProducer { pipeline: self, ring: Ring::new() }
    }

    /// The side that reads.
    ///
    /// # Safety
    /// Each consumer has one, uses it for every stage in order, and the number of those that arrive
    /// is that of [`new`](Self::new).
    #[inline(always)]
    pub unsafe fn consumer(self) -> TileConsumer<T, STAGES> {
        TileConsumer { pipeline: self, ring: Ring::new() }
    }

    #[inline(always)]
    fn full(&self, stage: usize) -> Mbarrier {
        Mbarrier::at(self.full + 8 * stage as u32)
    }

    #[cfg_attr(not(target_os = "cuda"), allow(dead_code))]
    #[inline(always)]
    fn free(&self, stage: usize) -> Mbarrier {
        Mbarrier::at(self.free + 8 * stage as u32)
    }

    #[inline(always)]
    fn stage(&self, stage: usize) -> *mut T {
        self.stages.wrapping_add(stage)
    }
}

/// The side of a [`TilePipeline`] that fills its stages: one thread.
#[derive(Debug)]
pub struct TileProducer<T, const STAGES: usize> {
    pipeline: TilePipeline<T, STAGES>,
    ring: Ring<STAGES>,
}

/// A stage that may be filled, and the barrier at which its copies arrive.
#[derive(Debug)]
pub struct Slot<T> {
    stage: *mut T,
    full: Mbarrier,
}

impl<T, const STAGES: usize> TileProducer<T, STAGES> {
    /// Waits until the next stage is free, and lets `copies` start the copies that fill it.
    ///
    /// # Safety
    /// `copies` fills every byte of the stage, once.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn fill(&mut self, copies: impl FnOnce(&Slot<T>)) {
        let stage = self.ring.stage();
        let slot = Slot { stage: self.pipeline.stage(stage), full: self.pipeline.full(stage) };
        // SAFETY: the barriers are initialised; one producer; the bytes are those of the copies.
        unsafe {
            self.pipeline.free(stage).wait_parity(self.ring.parity_before());
            let _ = slot.full.arrive_expecting(size_of::<T>() as u32);
        }
        copies(&slot);
        self.ring.advance();
    }
}

impl<T, const STAGES: usize> TileProducer<T, STAGES> {
    /// [`fill`](Self::fill) by a whole warp, whose first lane starts the copies. What the copies take is computed by all lanes, in
    /// the registers that a warp has for such values; one thread alone takes several times as long.
    ///
    /// # Safety
    /// As [`fill`](Self::fill); all lanes of the warp call this together, and no other thread fills stages.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn fill_by_warp(&mut self, copies: impl FnOnce(&Slot<T>)) {
        let stage = self.ring.stage();
        let slot = Slot { stage: self.pipeline.stage(stage), full: self.pipeline.full(stage) };
        // SAFETY: as in `fill`.
        unsafe {
            self.pipeline.free(stage).wait_parity(self.ring.parity_before());
            if crate::warp::lane_id() == 0 {
                let _ = slot.full.arrive_expecting(size_of::<T>() as u32);
                copies(&slot);
            }
        }
        self.ring.advance();
    }
}

impl<T> Slot<T> {
    /// Starts to fill the tile that `part` names with the box at `at`.
    #[gpu_only]
    #[inline(always)]
    pub fn load<A: Extents, S: Swizzle, const RANK: usize>(
        &self,
        map: &TensorMap<A, S>,
        at: [i32; RANK],
        part: impl FnOnce(&mut T) -> &mut Tile<A, S>,
    ) {
        // SAFETY: the stage is the producer's until the copies are done, and any bytes are a `T`.
        let tile = part(unsafe { &mut *self.stage });
        // SAFETY: inside the stage; the barrier expects its bytes.
        unsafe { map.load(tile, at, self.full) };
    }

    /// The stage, for copies of one's own.
    #[inline(always)]
    pub fn as_mut_ptr(&self) -> *mut T {
        self.stage
    }

    /// The barrier that gets the bytes.
    #[inline(always)]
    pub fn barrier(&self) -> Mbarrier {
        self.full
    }
}

/// The side of a [`TilePipeline`] that uses what the stages hold.
#[derive(Debug)]
pub struct TileConsumer<T, const STAGES: usize> {
    pipeline: TilePipeline<T, STAGES>,
    ring: Ring<STAGES>,
}

impl<T, const STAGES: usize> TileConsumer<T, STAGES> {
    /// Waits until the next stage is full, lends it to `f`, and then, if `arrives`, says that it may
    /// be filled again. Where one thread arrives for a whole warp, that has done with the stage
    /// (`sync_warp`).
    #[gpu_only]
    #[inline(always)]
    pub fn with_tile<R>(&mut self, arrives: bool, f: impl FnOnce(&T) -> R) -> R {
        self.wait();
        // SAFETY: full, and not filled again before all consumers have arrived.
        let result = f(unsafe { &*self.pipeline.stage(self.ring.stage()) });
        if arrives {
            // SAFETY: the reference has ended, and the caller of `consumer` counted this arrival.
            unsafe { self.release(0) };
        }
        self.ring.advance();
        result
    }

    /// Waits until the current stage is full, and gives it: `wgmma` reads it past the end of a
    /// closure, so [`step`](Self::step) comes when one likes, and [`release`](Self::release) later.
    #[gpu_only]
    #[inline(always)]
    pub fn wait(&self) -> *const T {
        let stage = self.ring.stage();
        // SAFETY: the barriers are initialised, and this consumer is at most a phase behind.
        unsafe { self.pipeline.full(stage).wait_parity(self.ring.parity()) };
        self.pipeline.stage(stage)
    }

    /// The stages, which are an array: what belongs to each is at a constant distance from what belongs to the first, as the descriptors of `wgmma` are, which
    /// then need not be computed for each.
    #[inline(always)]
    pub fn stages(&self) -> *const T {
        self.pipeline.stages
    }

    /// The number of the current stage in their array.
    #[inline(always)]
    pub fn stage_index(&self) -> usize {
        self.ring.stage()
    }

    /// Goes on to the next stage.
    #[inline(always)]
    pub fn step(&mut self) {
        self.ring.advance();
    }

    /// Arrives at the *free* barrier of the stage `behind` the current one: it may be filled again.
    ///
    /// # Safety
    /// This consumer, and those it arrives for, have done with the stage, and it arrives once in each
    /// round.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn release(&self, behind: usize) {
        let stage = self.ring.before(behind);
        // SAFETY: by the promise of `consumer`, one arrival for each consumer and round.
        let _ = unsafe { self.pipeline.free(stage).arrive() };
    }

    /// [`release`](Self::release) by one lane for its warp: of a pipeline whose consumers are warps. Those of a warpgroup need not be at the same stage, so that
    /// none of them can speak for another one. What any lane has read of the stage is read before it is filled again.
    ///
    /// # Safety
    /// As [`release`](Self::release), for the warp. All its lanes call this together.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn release_by_warp(&self, behind: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            crate::warp::sync_warp(!0);
            if crate::warp::lane_id() == 0 {
                self.release(behind);
            }
        }
    }
}
