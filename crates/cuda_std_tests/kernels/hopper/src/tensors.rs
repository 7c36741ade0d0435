//! Tiles of tensors of every rank and swizzle.

use cuda_std::copy::*;
use cuda_std::mbarrier::{Mbarrier, fence_init};
use cuda_std::prelude::*;
use cuda_std::{bf16, f16};

/// Threads in a block.
pub const BLOCK: usize = 32;

/// Loads the tile at `at` and gives it to `f` in every thread.
///
/// # Safety
/// All threads call this together, and nothing else uses the memory.
#[inline(always)]
unsafe fn with_tile<A: Extents, S: Swizzle, const RANK: usize>(
    tile: SharedArray<Tile<A, S>, 1>,
    memory: SharedArray<u64, 1>,
    map: &TensorMap<A, S>,
    at: [i32; RANK],
    f: impl FnOnce(&Tile<A, S>),
) {
    let barrier = Mbarrier::new(memory, 0);
    // SAFETY: one thread copies; all wait for the bytes before they read.
    unsafe {
        if thread::thread_idx_x() == 0 {
            map.prefetch();
            map.prefetch_tile(at);
            barrier.init(1);
            fence_init();
            let _ = barrier.arrive_expecting(Tile::<A, S>::BYTES as u32);
            map.load(tile.as_mut_ptr(), at, barrier);
        }
        thread::sync_threads();
        barrier.wait_parity(0);
        f(&*tile.as_mut_ptr());
    }
}

/// The indices of a thread below `len`.
#[inline(always)]
fn own(len: usize) -> impl Iterator<Item = usize> {
    (thread::thread_idx_x() as usize..len).step_by(BLOCK)
}

/// Declares a kernel that writes a tile of two dimensions, row by row.
macro_rules! planes {
    ($($name:ident: $ty:ty, $cols:literal, $swizzle:ty;)*) => {$(
        /// # Safety
        /// `out` has room for 16 rows.
        #[kernel(block = BLOCK)]
        pub unsafe fn $name(
            row: i32,
            col: i32,
            x: &TensorMap<[[$ty; $cols]; 16], $swizzle>,
            out: *mut $ty,
        ) {
            let tile = shared_array![Tile<[[$ty; $cols]; 16], $swizzle>; 1];
            // SAFETY: together; each thread writes its own values.
            unsafe {
                with_tile(tile, shared_array![u64; 1], x, [row, col], |tile| {
                    own(16 * $cols).for_each(|i| *out.add(i) = tile.get([i / $cols, i % $cols]));
                });
            }
        }
    )*};
}

planes! {
    plane: f32, 24, Unswizzled;
    plane_32: u8, 32, Swizzle32;
    plane_64: bf16, 32, Swizzle64;
    plane_128: u32, 32, Swizzle128;
    plane_wide: u64, 16, Swizzle128;
}

/// The bytes of a swizzled tile as they lie.
///
/// # Safety
/// `out` has room for 2048 bytes.
#[kernel(block = BLOCK)]
pub unsafe fn raw_plane(x: &TensorMap<[[u8; 128]; 16], Swizzle128>, out: *mut u8) {
    let tile = shared_array![Tile<[[u8; 128]; 16], Swizzle128>; 1];
    // SAFETY: together; each thread writes its own values.
    unsafe {
        with_tile(tile, shared_array![u64; 1], x, [0, 0], |tile| {
            let bytes = core::ptr::from_ref(tile).cast::<u8>();
            own(2048).for_each(|i| *out.add(i) = *bytes.add(i));
        });
    }
}

/// # Safety
/// `out` has room for 32 values.
#[kernel(block = BLOCK)]
pub unsafe fn line(at: i32, x: &TensorMap<[i16; 32]>, out: *mut i16) {
    let tile = shared_array![Tile<[i16; 32]>; 1];
    // SAFETY: together; each thread writes its own values.
    unsafe {
        with_tile(tile, shared_array![u64; 1], x, [at], |tile| {
            own(32).for_each(|i| *out.add(i) = tile.get([i]));
        });
    }
}

/// # Safety
/// `out` has room for 48 values.
#[kernel(block = BLOCK)]
pub unsafe fn solid(at: [i32; 3], x: &TensorMap<[[[i32; 4]; 3]; 4]>, out: *mut i32) {
    let tile = shared_array![Tile<[[[i32; 4]; 3]; 4]>; 1];
    // SAFETY: together; each thread writes its own values.
    unsafe {
        with_tile(tile, shared_array![u64; 1], x, at, |tile| {
            own(48).for_each(|i| *out.add(i) = tile.get([i / 12, i / 4 % 3, i % 4]));
        });
    }
}

/// # Safety
/// `out` has room for 48 values.
#[kernel(block = BLOCK)]
pub unsafe fn fourth(at: [i32; 4], x: &TensorMap<[[[[f16; 8]; 2]; 3]; 1]>, out: *mut f16) {
    let tile = shared_array![Tile<[[[[f16; 8]; 2]; 3]; 1]>; 1];
    // SAFETY: together; each thread writes its own values.
    unsafe {
        with_tile(tile, shared_array![u64; 1], x, at, |tile| {
            own(48).for_each(|i| *out.add(i) = tile.get([0, i / 16, i / 8 % 2, i % 8]));
        });
    }
}

/// A box of five dimensions.
type Fifth = [[[[[f64; 2]; 2]; 2]; 2]; 2];

/// # Safety
/// `out` has room for 32 values.
#[kernel(block = BLOCK)]
pub unsafe fn fifth(at: [i32; 5], x: &TensorMap<Fifth>, out: *mut f64) {
    let tile = shared_array![Tile<Fifth>; 1];
    // SAFETY: together; each thread writes its own values.
    unsafe {
        with_tile(tile, shared_array![u64; 1], x, at, |tile| {
            own(32).for_each(|i| {
                *out.add(i) = tile.get([i / 16, i / 8 % 2, i / 4 % 2, i / 2 % 2, i % 2]);
            });
        });
    }
}

/// Writes 100 r + c, in a swizzled tile, to the box at `at`; then adds the same tile to it, `times` times.
///
/// # Safety
/// One block at a time.
#[kernel(block = BLOCK)]
pub unsafe fn store_and_add(at: [i32; 2], times: u32, y: &TensorMapMut<[[f32; 16]; 8], Swizzle64>) {
    let tile = shared_array![Tile<[[f32; 16]; 8], Swizzle64>; 1].as_mut_ptr();
    let value = |i: usize| (100 * (i / 16) + i % 16) as f32;
    // SAFETY: each thread writes its own elements; the copies read them after a barrier, and the
    // second one starts when the first has ended.
    unsafe {
        own(128).for_each(|i| Tile::write(tile, [i / 16, i % 16], value(i)));
        fence_proxy_async_shared();
        thread::sync_threads();
        if thread::thread_idx_x() == 0 {
            y.prefetch();
            y.store(at, tile);
            commit_bulk_group();
            wait_bulk_groups::<0>();
            for _ in 0..times {
                y.reduce(at, tile, Reduction::Add);
                commit_bulk_group();
                wait_bulk_groups::<0>();
            }
        }
    }
}

/// Combines a line of 16 integers with what is there by every operation, each on a row of its own.
///
/// # Safety
/// One block.
#[kernel(block = BLOCK)]
pub unsafe fn combine(y: &TensorMapMut<[[u32; 16]; 1]>) {
    let tile = shared_array![Tile<[[u32; 16]; 1]>; 1];
    let thread = thread::thread_idx_x() as usize;
    // SAFETY: each thread writes its own element; the copies read after a barrier.
    unsafe {
        if thread < 16 {
            Tile::write(tile.as_mut_ptr(), [0, thread], 3 * thread as u32);
        }
        fence_proxy_async_shared();
        thread::sync_threads();
        if thread == 0 {
            for (row, operation) in crate::copies::REDUCTIONS.into_iter().enumerate() {
                y.reduce([row as i32, 0], tile.as_mut_ptr(), operation);
            }
            commit_bulk_group();
            wait_bulk_groups::<0>();
        }
    }
}

/// Two tiles that come together.
#[repr(C)]
pub struct Pair {
    pub left: Tile<[[f32; 32]; 8]>,
    pub right: Tile<[[u32; 32]; 8], Swizzle128>,
}

/// Sums the columns of two matrices, tile by tile, through `STAGES` stages: thread 0 fills, all
/// threads of one warp consume.
#[inline(always)]
fn column_sums<const STAGES: usize, const BARRIERS: usize>(
    stages: SharedArray<Pair, STAGES>,
    barriers: SharedArray<u64, BARRIERS>,
    tiles: u32,
    x: &TensorMap<[[f32; 32]; 8]>,
    y: &TensorMap<[[u32; 32]; 8], Swizzle128>,
) -> (f32, u32) {
    let column = thread::thread_idx_x() as usize;
    // SAFETY: all threads together; thread 0 fills, every thread consumes and arrives.
    let (mut producer, mut consumer) = unsafe {
        let pipeline = TilePipeline::new(stages, barriers, BLOCK as u32);
        (pipeline.producer(), pipeline.consumer())
    };
    let (mut left, mut right) = (0.0, 0);
    for step in 0..tiles + STAGES as u32 - 1 {
        if step < tiles && column == 0 {
            let at = [8 * step as i32, 0];
            // SAFETY: both tiles, which are all of the stage.
            unsafe {
                producer.fill(|slot| {
                    slot.load(x, at, |pair| &mut pair.left);
                    slot.load(y, at, |pair| &mut pair.right);
                });
            }
        }
        if step + 1 >= STAGES as u32 {
            consumer.with_tile(true, |pair| {
                for row in 0..8 {
                    left += pair.left.get([row, column]);
                    right += pair.right.get([row, column]);
                }
            });
        }
    }
    (left, right)
}

macro_rules! pipelines {
    ($($name:ident: $stages:literal;)*) => {$(
        #[kernel(block = BLOCK)]
        pub fn $name(
            index: ThreadIndex,
            tiles: u32,
            x: &TensorMap<[[f32; 32]; 8]>,
            y: &TensorMap<[[u32; 32]; 8], Swizzle128>,
            mut sums: DisjointSlice<f32>,
            mut counts: DisjointSlice<u32>,
        ) {
            let memory = (shared_array![Pair; $stages], shared_array![u64; { 2 * $stages }]);
            let (sum, count) = column_sums(memory.0, memory.1, tiles, x, y);
            if let (Some(own), Some(own_count)) = (sums.get_mut(index), counts.get_mut(index)) {
                (*own, *own_count) = (sum, count);
            }
        }
    )*};
}

pipelines! {
    column_sums_2: 2;
    column_sums_3: 3;
    column_sums_4: 4;
}

/// A stage of [`specialised`].
type Rows = Tile<[[u32; 32]; 8], Swizzle128>;

/// One thread of another warp fills, and a warp consumes with one arrival for all; slots and stages
/// by hand.
#[kernel(block = 64)]
pub fn specialised(tiles: u32, x: &TensorMap<[[u32; 32]; 8], Swizzle128>, sums: AtomicSlice<u32>) {
    // SAFETY: all threads together; one thread fills, and one arrives for the other warp.
    let pipeline = unsafe { TilePipeline::new(shared_array![Rows; 2], shared_array![u64; 4], 1) };
    let thread = thread::thread_idx_x() as usize;
    if thread == 32 {
        // SAFETY: as above; each copy is the whole stage.
        unsafe {
            let mut producer = pipeline.producer();
            for tile in 0..tiles {
                producer
                    .fill(|slot| x.load(slot.as_mut_ptr(), [8 * tile as i32, 0], slot.barrier()));
            }
        }
    } else if thread < 32 {
        // SAFETY: as above.
        let mut consumer = unsafe { pipeline.consumer() };
        let mut sum = 0;
        for _ in 0..tiles {
            // SAFETY: full until the release, which comes when the warp is done.
            unsafe {
                let tile = consumer.wait();
                sum += (0..8).map(|row| (*tile).get([row, thread])).sum::<u32>();
                cuda_std::warp::sync_warp(!0);
                consumer.step();
                if thread == 0 {
                    consumer.release(1);
                }
            }
        }
        sums.fetch_add(thread, sum, Relaxed);
    }
}
