//! Every function of a tile, for each size. Blocks are whole warps, `x` has a number for each thread.

use crate::{Affine, Rows};
use cuda_std::bf16;
use cuda_std::prelude::*;
use cuda_std::warp::{Lanes, Number, Tile, TileSize, Warp};

/// Rows that [`everything`] writes.
pub const ROWS: usize = 50;

#[kernel]
pub fn tiles_of_2(index: ThreadIndex, x: &[u32], out: DisjointSlice<u64>) {
    everything::<2>(index, x, out);
}

#[kernel]
pub fn tiles_of_4(index: ThreadIndex, x: &[u32], out: DisjointSlice<u64>) {
    everything::<4>(index, x, out);
}

#[kernel]
pub fn tiles_of_8(index: ThreadIndex, x: &[u32], out: DisjointSlice<u64>) {
    everything::<8>(index, x, out);
}

#[kernel]
pub fn tiles_of_16(index: ThreadIndex, x: &[u32], out: DisjointSlice<u64>) {
    everything::<16>(index, x, out);
}

#[kernel]
pub fn tiles_of_32(index: ThreadIndex, x: &[u32], out: DisjointSlice<u64>) {
    everything::<32>(index, x, out);
}

fn everything<const N: u32>(index: ThreadIndex, x: &[u32], out: DisjointSlice<u64>)
where
    TileSize<N>: Lanes,
{
    let (tile, x, mut rows) = (Warp::current().tile::<N>(), x[index.get()], Rows::new(index, out));
    places(tile, &mut rows);
    moves(tile, x, &mut rows);
    votes(tile, x, &mut rows);
    reductions(tile, x, &mut rows);
    narrow_reductions(tile, x, &mut rows);
    scans(tile, x, &mut rows);
    tile.sync();
}

/// 7 rows.
fn places<const N: u32>(tile: Tile<N>, rows: &mut Rows) {
    rows.put(tile.size());
    rows.put(tile.thread_rank());
    rows.put(tile.meta_group_rank());
    rows.put(tile.meta_group_size());
    rows.put(tile.mask());
    rows.put(tile.elect());
    rows.put(Warp::current().tile::<2>().thread_rank());
}

/// 7 rows.
fn moves<const N: u32>(tile: Tile<N>, x: u32, rows: &mut Rows) {
    rows.put(tile.shuffle(x, x >> 3));
    rows.put(tile.shuffle(x, tile.thread_rank() + 1));
    rows.put(tile.broadcast(x, N - 1));
    rows.put(tile.shuffle_up(x, 1));
    rows.put(tile.shuffle_down(x, 1));
    rows.put(tile.shuffle_up(x, N / 2 + 1));
    rows.put(tile.shuffle_xor(x, N - 1));
}

/// 13 rows.
fn votes<const N: u32>(tile: Tile<N>, x: u32, rows: &mut Rows) {
    rows.put(tile.all(!x.is_multiple_of(8)));
    rows.put(tile.all(tile.size() == N));
    rows.put(tile.any(x.is_multiple_of(8)));
    rows.put(tile.any(tile.size() != N));
    rows.put(tile.uni(x.is_multiple_of(4)));
    rows.put(tile.uni(tile.meta_group_rank().is_multiple_of(2)));
    rows.put(tile.ballot(x.is_multiple_of(3)));
    rows.put(tile.match_any(x % 4));
    rows.put(tile.match_any([u64::from(x % 2), u64::from(x % 3)]));
    rows.put(tile.match_any(f64::from(x % 4)));
    rows.put(tile.match_all(x % 2));
    rows.put(tile.match_all((u64::from(x) % 2) << 40));
    rows.put(tile.partition((x % 4) as u8).mask());
}

/// 11 rows.
fn reductions<const N: u32>(tile: Tile<N>, x: u32, rows: &mut Rows) {
    rows.put(tile.reduce(Affine::of(x), Affine::then).bits());
    rows.put(tile.sum(x));
    rows.put_signed(tile.sum(x as i32));
    rows.put_signed(tile.min(x as i32));
    rows.put(tile.max(x));
    rows.put(tile.bit_and(x | 0xff));
    rows.put(tile.bit_or(x & 0xffff));
    rows.put(tile.bit_xor(x));
    rows.put_float(tile.sum((x % 1000) as f32));
    rows.put_float(tile.min(if x.is_multiple_of(2) { x as f32 } else { f32::NAN }));
    rows.put(tile.max(f64::from(x)).to_bits());
}

/// 7 rows.
fn narrow_reductions<const N: u32>(tile: Tile<N>, x: u32, rows: &mut Rows) {
    rows.put(tile.sum(x as u8));
    rows.put_signed(tile.min(x as i8));
    rows.put(tile.max(x as u16));
    rows.put_signed(tile.sum(x as i16));
    rows.put(tile.sum(u64::from(x) << 16));
    rows.put_signed(tile.min(i64::from(x as i32) << 20));
    rows.put(tile.bit_xor(u64::from(x) << 13));
}

/// 5 rows.
fn scans<const N: u32>(tile: Tile<N>, x: u32, rows: &mut Rows) {
    rows.put(tile.inclusive_scan(Affine::of(x), Affine::then).bits());
    rows.put(tile.exclusive_scan(Affine::of(x), Affine::of(7), Affine::then).bits());
    rows.put(tile.inclusive_sum(x));
    let (before, all) = tile.exclusive_sum(u64::from(x) << 8);
    rows.put(before);
    rows.put(all);
}

/// Half of the tiles go one way, half the other, and each adds up its own lanes.
#[kernel]
pub fn separate_ways(index: ThreadIndex, x: &[u32], mut out: DisjointSlice<u32>) {
    let (tile, x) = (Warp::current().tile::<8>(), x[index.get()]);
    let result = if tile.meta_group_rank().is_multiple_of(2) {
        tile.reduce(x, |a, b| a.wrapping_add(b))
    } else {
        tile.inclusive_scan(x, u32::max)
    };
    if let Some(out) = out.get_mut(index) {
        *out = result;
    }
}

/// Calls [`Warp::current`], whatever the block.
#[kernel]
pub fn needs_whole_warps(index: ThreadIndex, mut out: DisjointSlice<u32>) {
    let sum = Warp::current().sum(1u32);
    if let Some(out) = out.get_mut(index) {
        *out = sum;
    }
}

/// One kernel for each thing to read in the PTX.
#[kernel]
pub fn one_redux(index: ThreadIndex, x: &[u32], mut out: DisjointSlice<u32>) {
    let value = x[index.get()];
    // SAFETY: launched with whole warps.
    let sum = unsafe { Warp::assume_full() }.sum(value);
    if let Some(out) = out.get_mut(index) {
        *out = sum;
    }
}

#[kernel]
pub fn one_butterfly(index: ThreadIndex, x: &[f32], mut out: DisjointSlice<f32>) {
    let value = x[index.get()];
    // SAFETY: launched with whole warps.
    let sum = unsafe { Warp::assume_full() }.sum(value);
    if let Some(out) = out.get_mut(index) {
        *out = sum;
    }
}

/// The warp of a block whose contract says its size: nothing is tested when the kernel runs.
#[kernel]
pub fn of_a_block(block: Block<16, 4>, sums: AtomicSlice<u32>) {
    let warp = Warp::of(&block);
    let sum = warp.sum(block.thread() as u32);
    sums.store(block.thread(), sum, Relaxed);
}

/// Sums, smallest and largest of halves: three rows of bits.
fn of_halves<T: Number>(value: T, bits: impl Fn(T) -> u16) -> [u16; 3] {
    let (warp, tile) = (Warp::current(), Warp::current().tile::<4>());
    [warp.sum(value), tile.min(value), tile.max(value)].map(bits)
}

#[kernel]
pub fn sums_of_f16(index: ThreadIndex, x: &[f16], mut out: DisjointSlice<u16>) {
    for (k, bits) in of_halves(x[index.get()], f16::to_bits).into_iter().enumerate() {
        *out.get_mut(index.stride(k)).expect("room for a row") = bits;
    }
}

#[kernel]
pub fn sums_of_bf16(index: ThreadIndex, x: &[bf16], mut out: DisjointSlice<u16>) {
    for (k, bits) in of_halves(x[index.get()], bf16::to_bits).into_iter().enumerate() {
        *out.get_mut(index.stride(k)).expect("room for a row") = bits;
    }
}

/// Some lanes stay away from a sum.
#[kernel]
pub fn not_all_lanes(index: ThreadIndex, lanes: u32, mut out: DisjointSlice<u32>) {
    let warp = Warp::current();
    if let Some(out) = out.get_mut(index) {
        *out = 0;
        if warp.thread_rank() < lanes {
            *out = warp.sum(1u32);
        }
        // The others have not ended: they wait here.
        warp.sync();
    }
}
