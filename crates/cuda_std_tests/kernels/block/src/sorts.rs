//! Ranks, sorts and histograms.

use cuda_std::block::{
    Bits, Bytes, DisjointTiles, SortKey, exchange_bytes, rank_bytes, sort_bytes,
};
use cuda_std::prelude::*;

/// Sorts tiles of `THREADS * K` keys, `K` a thread, up and down.
macro_rules! sorts {
    ($($name:ident: $ty:ty as $bits:ty, $threads:literal, $items:literal;)*) => {$(
        #[kernel]
        pub fn $name(
            mut block: Block<$threads>,
            scratch: Shared<Bytes<{ sort_bytes::<$ty>($threads, $threads * $items) }>>,
            x: &[$bits],
            up: DisjointSlice<$bits>,
            down: DisjointSlice<$bits>,
        ) {
            let (mut up, mut down) = (up, down);
            let (start, thread) = (thread::block_idx_x() as usize * $threads * $items, block.thread());
            let keys: [$bits; $items] = block.load_blocked(x, start, 0);
            let (sorted, used) = block.sort(keys.map(|bits| <$ty>::from_bits(bits)), scratch);
            let scratch = block.sync(used);
            let keys = keys.map(|bits| <$ty>::from_bits(bits));
            let (reversed, _) = block.sort_descending(keys, scratch);
            for k in 0..$items {
                let place = start + thread * $items + k;
                // SAFETY: each thread has places of its own, inside both.
                unsafe {
                    *up.as_mut_ptr().add(place) = sorted[k].to_bits();
                    *down.as_mut_ptr().add(place) = reversed[k].to_bits();
                }
            }
        }
    )*};
}

/// Integers have bits like floats.
pub trait FromBits<B> {
    fn from_bits(bits: B) -> Self;
    fn to_bits(self) -> B;
}

macro_rules! integers {
    ($($ty:ty as $bits:ty;)*) => {$(
        impl FromBits<$bits> for $ty {
            fn from_bits(bits: $bits) -> Self {
                bits as $ty
            }

            fn to_bits(self) -> $bits {
                self as $bits
            }
        }
    )*};
}

integers! {
    u8 as u8;
    i8 as u8;
    u16 as u16;
    i16 as u16;
    u32 as u32;
    i32 as u32;
    u64 as u64;
    i64 as u64;
}

sorts! {
    sort_u8: u8 as u8, 64, 7;
    sort_i8: i8 as u8, 32, 1;
    sort_u16: u16 as u16, 96, 5;
    sort_i16: i16 as u16, 128, 4;
    sort_u32: u32 as u32, 256, 8;
    sort_i32: i32 as u32, 64, 15;
    sort_u64: u64 as u64, 128, 3;
    sort_i64: i64 as u64, 96, 2;
    sort_f16: f16 as u16, 64, 3;
    sort_f32: f32 as u32, 128, 9;
    sort_f64: f64 as u64, 64, 4;
    sort_u32_1024: u32 as u32, 1024, 2;
}

/// Sorts pairs; the values are wider or narrower than the keys.
macro_rules! pairs {
    ($($name:ident: $key:ty, $value:ty, $threads:literal, $items:literal, $sort:ident $($bits:expr)?;)*) => {$(
        #[kernel]
        pub fn $name(
            mut block: Block<$threads>,
            scratch: Shared<Bytes<{
                let (a, b) = (
                    sort_bytes::<$key>($threads, $threads * $items),
                    exchange_bytes::<$value>($threads * $items),
                );
                if a > b { a } else { b }
            }>>,
            x: &[$key],
            y: &[$value],
            mut keys: DisjointTiles<$key, { $threads * $items }>,
            mut values: DisjointTiles<$value, { $threads * $items }>,
        ) {
            let start = keys.start(0);
            let own: ([$key; $items], [$value; $items]) = (
                block.load_blocked(x, start, 0),
                block.load_blocked(y, start, 0),
            );
            let (sorted, moved, _) = block.$sort(own.0, own.1, $($bits,)? scratch);
            keys.store_blocked(&block, 0, sorted);
            values.store_blocked(&block, 0, moved);
        }
    )*};
}

pairs! {
    pairs_u8_u32: u8, u32, 96, 4, sort_pairs;
    pairs_i32_u16: i32, u16, 128, 6, sort_pairs;
    pairs_u16_u64: u16, u64, 64, 5, sort_pairs_descending;
    bits_u32: u32, u32, 96, 5, sort_pairs_by_bits Bits::<7, 17>;
    bits_i16: i16, u16, 64, 3, sort_pairs_by_bits Bits::<13, 16>;
    bits_u64: u64, u16, 64, 4, sort_pairs_descending_by_bits Bits::<20, 61>;
}

/// The ranks by the lowest four bits.
#[kernel]
pub fn ranks(
    mut block: Block<96>,
    scratch: Shared<Bytes<{ rank_bytes(96) }>>,
    digits: &[u32],
    mut out: DisjointTiles<u32, { 96 * 5 }>,
) {
    let own: [u32; 5] = block.load_blocked(digits, 0, 0);
    let (ranks, _) = block.radix_rank(own, scratch);
    out.store_blocked(&block, 0, ranks);
}

/// The counts of one block, twice into the same bins.
#[kernel]
pub fn histogram(
    mut block: Block<80>,
    bins: Shared<[u32; 100]>,
    x: &[u32],
    mut out: DisjointSlice<u32>,
    index: ThreadIndex,
) {
    let thread = block.thread();
    let own = || x.iter().skip(thread).step_by(80).map(|&bin| bin as usize);
    let counts = block.histogram(bins, own());
    let counts = block.sync(counts);
    let counts = block.histogram_on(counts, own().filter(|bin| bin.is_multiple_of(2)));
    for i in index.grid_stride(100) {
        if let Some(out) = out.get_mut(i) {
            *out = counts[i.get()];
        }
    }
}

/// A key whose bits are wider than it is, and whose digits have more than four bits.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Narrow(u8);

impl SortKey for Narrow {
    type Bits = [u64; 4];

    fn to_ordered(self) -> [u64; 4] {
        [u64::from(self.0); 4]
    }

    fn from_ordered(bits: [u64; 4]) -> Self {
        Self(bits[3] as u8)
    }

    fn reversed(bits: [u64; 4]) -> [u64; 4] {
        bits.map(|bits| !bits)
    }

    fn digit(bits: [u64; 4], shift: usize) -> u32 {
        (bits[0] >> shift) as u32 | 0xabcd_ef00
    }
}

/// Sorts four keys a thread.
#[kernel]
pub fn wide_bits(
    mut block: Block<64>,
    scratch: Shared<Bytes<{ sort_bytes::<Narrow>(64, 256) }>>,
    x: &[u8],
    mut out: DisjointTiles<u8, 256>,
) {
    let keys: [u8; 4] = block.load_blocked(x, out.start(0), 0);
    let (keys, _) = block.sort(keys.map(Narrow), scratch);
    out.store_blocked(&block, 0, keys.map(|key| key.0));
}

/// A sort of 128 threads that half of them leave before. Its counters find the largest keys of an earlier sort.
#[kernel]
pub fn left_early(
    mut block: Block<128>,
    scratch: Shared<Bytes<{ sort_bytes::<u32>(128, 512) }>>,
    mut out: DisjointTiles<u32, 512>,
) {
    let (_, used) = block.sort([u32::MAX; 4], scratch);
    let scratch = block.sync(used);
    if block.thread() >= 64 {
        return;
    }
    let (keys, _) = block.sort([block.thread() as u32; 4], scratch);
    out.store_blocked(&block, 0, keys);
}

/// A sort before which the threads panic that have no element.
#[kernel]
pub fn after_a_panic(
    mut block: Block<128>,
    scratch: Shared<Bytes<{ sort_bytes::<u32>(128, 512) }>>,
    x: &[u32],
    mut out: DisjointTiles<u32, 512>,
) {
    let thread = block.thread();
    let keys: [u32; 4] = core::array::from_fn(|k| x[4 * thread + k]);
    let (keys, _) = block.sort(keys, scratch);
    out.store_blocked(&block, 0, keys);
}
