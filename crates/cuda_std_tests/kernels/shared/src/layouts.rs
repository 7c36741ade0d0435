//! Every layout, with blocks of several shapes: each element is written once and read by all.

use cuda_std::prelude::*;
use cuda_std::shared::{Blocked, Element, Layout, PerWarp, Reader, Tile};

/// Writes what every thread reads of an array: thread `t` of the first block writes the row `t` of
/// `out: [threads, len]`.
fn dump<T: Copy>(thread: usize, len: usize, out: AtomicSlice<u32>, at: impl Fn(usize) -> T)
where
    u32: From<T>,
{
    for i in 0..len {
        out.store(thread * len + i, at(i).into(), Relaxed);
    }
}

/// Fewer, as many and more elements than threads, and a ragged number.
macro_rules! arrays {
    ($($name:ident: $ty:ty, $len:literal, [$($extent:literal),*];)*) => {$(
        #[kernel]
        pub fn $name(
            mut block: Block<$($extent),*>,
            array: Shared<[$ty; $len]>,
            out: AtomicSlice<u32>,
        ) {
            let array = array.fill(&block, |i| (i * i + 1) as $ty);
            let array = block.sync(array);
            dump(block.thread(), $len, out, |i| array[i]);
        }
    )*};
}

arrays! {
    one_u8: u8, 1, [64];
    few_u16: u16, 33, [96];
    equal_u32: u32, 64, [64];
    many_u32: u32, 256, [64];
    ragged_u32: u32, 100, [64];
    planar_u32: u32, 70, [8, 5];
    spatial_u32: u32, 70, [4, 3, 2];
    odd_u32: u32, 70, [33];
}

#[kernel]
pub fn blocked(mut block: Block<64>, array: Shared<Blocked<u32, 190, 3>>, out: AtomicSlice<u32>) {
    let array = array.fill(&block, |i| (i * i + 1) as u32);
    let array = block.sync(array);
    dump(block.thread(), 190, out, |i| array[i]);
}

/// The place that a thread is handed is its own: each element holds the thread that wrote it.
#[kernel]
pub fn blocked_owners(
    mut block: Block<64>,
    array: Shared<Blocked<u32, 190, 3>>,
    out: AtomicSlice<u32>,
) {
    let thread = block.thread() as u32;
    let array = array.fill(&block, |_| thread);
    let array = block.sync(array);
    dump(block.thread(), 190, out, |i| array[i]);
}

#[kernel]
pub fn per_warp(mut block: Block<96>, array: Shared<PerWarp<u32, 3>>, out: AtomicSlice<u32>) {
    let thread = block.thread() as u32;
    let array = array.fill(&block, |warp| warp as u32 * 1000 + thread);
    let array = block.sync(array);
    dump(block.thread(), 3, out, |i| array[i]);
}

/// Tiles larger, smaller and raggedly larger than the block.
macro_rules! tiles {
    ($($name:ident: $tile:ty, $rows:literal, $cols:literal, [$($extent:literal),*];)*) => {$(
        #[kernel]
        pub fn $name(mut block: Block<$($extent),*>, tile: Shared<$tile>, out: AtomicSlice<u32>) {
            let tile = tile.fill(&block, |(row, column)| (row * 100 + column) as u32);
            let tile = block.sync(tile);
            dump(block.thread(), $rows * $cols, out, |i| tile[i / $cols][i % $cols]);
        }
    )*};
}

tiles! {
    square_tile: Tile<u32, 32, 32>, 32, 32, [32, 2];
    small_tile: Tile<u32, 3, 5>, 3, 5, [8, 8];
    ragged_tile: Tile<u32, 11, 21, 0>, 11, 21, [8, 4];
    flat_tile: Tile<u32, 4, 9, 3>, 4, 9, [32];
}

/// Generic code takes a handle, the token and gives the next phase.
fn squares<
    L: Layout<Place = usize, Element = T> + ?Sized,
    T: Element + From<u32>,
    const ID: u32,
>(
    block: &mut Block<64>,
    array: Shared<L, ID>,
) -> Reader<L, ID> {
    let array = array.fill(block, |i| T::from((i * i) as u32));
    block.sync(array)
}

/// The dynamic shared memory, as long as the launch made it, beside an array of fixed length.
#[kernel]
pub fn dynamic(
    mut block: Block<64>,
    fixed: Shared<[f64; 64], 1>,
    memory: Shared<[u64], 2>,
    lengths: AtomicSlice<u32>,
    out: AtomicSlice<u32>,
) {
    let memory = squares(&mut block, memory);
    let fixed = squares(&mut block, fixed);
    lengths.store(block.thread(), memory.len() as u32, Relaxed);
    let len = memory.len();
    for i in 0..len {
        let value = memory[i] + fixed[i % 64] as u64;
        out.store(block.thread() * len + i, value as u32, Relaxed);
    }
}
