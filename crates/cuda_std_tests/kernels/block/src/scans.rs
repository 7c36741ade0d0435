//! Reductions, scans and neighbours. Kernels write every thread's result.

use cuda_std::prelude::*;

/// Joins two pieces of text of up to four letters: `(letters, length)` packed. Associative, and not
/// commutative: an operator that shows the order. Letters beyond sixteen bits fall out at the left.
pub fn affine(a: u64, b: u64) -> u64 {
    // x ↦ m·x + n modulo 2^32; first `a`, then `b`.
    let (m, n) = ((a >> 32) as u32, a as u32);
    let (p, q) = ((b >> 32) as u32, b as u32);
    u64::from(m.wrapping_mul(p)) << 32 | u64::from(n.wrapping_mul(p).wrapping_add(q))
}

/// Each thread's results of every kind of reduction: `out: [threads, 4]`.
macro_rules! reductions {
    ($($name:ident: $threads:literal;)*) => {$(
        #[kernel]
        pub fn $name(mut block: Block<$threads>, x: &[u64], out: AtomicSlice<u64>) {
            let thread = block.thread();
            let own = x[thread];
            let results = [
                block.reduce(own, affine),
                block.reduce_to_first(own, affine).unwrap_or(1),
                block.broadcast(own, $threads * 2 / 3),
                u64::from(block.reduce(own as f32, f32::max).to_bits()),
            ];
            for (i, result) in results.iter().copied().enumerate() {
                out.store(thread * 4 + i, result, Relaxed);
            }
        }
    )*};
}

reductions! {
    reduce_32: 32;
    reduce_64: 64;
    reduce_96: 96;
    reduce_256: 256;
    reduce_288: 288;
    reduce_640: 640;
    reduce_1024: 1024;
}

/// A value with its place: what finds the largest one.
#[repr(C)]
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
pub struct Placed {
    pub value: f32,
    pub place: u32,
}

/// Sums, smallest and largest of several types, and where the largest lies: `out: [threads, 8]`.
macro_rules! numbers {
    ($($name:ident: $threads:literal;)*) => {$(
        #[kernel]
        pub fn $name(mut block: Block<$threads>, x: &[u64], out: AtomicSlice<u64>) {
            let thread = block.thread();
            let own = x[thread];
            let (float, signed) = ((own >> 50) as f32, own as i32);
            let later = |a: Placed, b: Placed| if b.value > a.value { b } else { a };
            let largest = block.reduce(Placed { value: float, place: thread as u32 }, later);
            let results = [
                block.sum(own),
                u64::from(block.sum(float).to_bits()),
                u64::from(block.sum(own as u8)),
                block.min(own),
                u64::from(block.min(signed).cast_unsigned()),
                u64::from(block.max(float).to_bits()),
                u64::from(block.max(own as u16)),
                u64::from(largest.place) << 32 | u64::from(largest.value.to_bits()),
            ];
            for (i, result) in results.iter().copied().enumerate() {
                out.store(thread * 8 + i, result, Relaxed);
            }
        }
    )*};
}

numbers! {
    numbers_32: 32;
    numbers_160: 160;
    numbers_1024: 1024;
}

/// A block in two dimensions: the order is that of the threads' numbers.
#[kernel]
pub fn reduce_planar(mut block: Block<16, 12>, x: &[u64], out: AtomicSlice<u64>) {
    let (thread, own) = (block.thread(), x[block.thread()]);
    out.store(thread, block.reduce(own, affine), Relaxed);
}

/// Writes `K` items, blocked, of every scan: `out: [4, threads * K]`, then the totals: `[3, threads]`.
macro_rules! scans {
    ($($name:ident: $threads:literal, $items:literal;)*) => {$(
        #[kernel]
        pub fn $name(mut block: Block<$threads>, x: &[u64], out: AtomicSlice<u64>) {
            const N: usize = $threads * $items;
            let thread = block.thread();
            let own: [u64; $items] = block.load_blocked(x, 0, 0);
            let (inclusive, first) = block.inclusive_scan(own, affine);
            let (exclusive, second) = block.exclusive_scan(own, 5 << 32 | 7, affine);
            let mut seen = 0;
            let (prefixed, third) = block.scan_with_prefix(own, affine, |total| {
                seen = total;
                if thread == 0 { affine(3 << 32 | 1, total) } else { 99 }
            });
            let sums = block.inclusive_scan(own, u64::wrapping_add).0;
            for k in 0..$items {
                let i = thread * $items + k;
                out.store(i, inclusive[k], Relaxed);
                out.store(N + i, exclusive[k], Relaxed);
                out.store(2 * N + i, prefixed[k], Relaxed);
                out.store(3 * N + i, sums[k], Relaxed);
            }
            assert!(thread >= 32 || seen == third);
            for (row, total) in [first, second, third].iter().copied().enumerate() {
                out.store(4 * N + row * $threads + thread, total, Relaxed);
            }
        }
    )*};
}

scans! {
    scan_32_1: 32, 1;
    scan_96_3: 96, 3;
    scan_256_4: 256, 4;
    scan_320_2: 320, 2;
    scan_1024_1: 1024, 1;
    scan_128_17: 128, 17;
}

/// A scan in several tiles with a running total: one block.
#[kernel]
pub fn running_scan(
    mut block: Block<128>,
    index: ThreadIndex,
    x: &[u32],
    mut out: DisjointSlice<u32>,
) {
    let mut running = 0u32;
    for tile in 0..x.len().div_ceil(128) {
        let own = index.stride(tile);
        let item = x.get(own.get()).copied().unwrap_or(0);
        let ([sum], _) = block.scan_with_prefix([item], u32::wrapping_add, |total| {
            let before = running;
            running = running.wrapping_add(total);
            before
        });
        if let Some(out) = out.get_mut(own) {
            *out = sum;
        }
    }
}

/// Collectives one behind the other, with nothing between them: the memory's halves take turns.
#[kernel]
pub fn in_a_row(mut block: Block<256>, rounds: u32, out: AtomicSlice<u32>) {
    let thread = block.thread();
    let mut value = thread as u32 + 1;
    for _ in 0..rounds {
        value = block.reduce(value, u32::wrapping_add) ^ thread as u32;
        value = block.inclusive_scan([value], u32::wrapping_add).0[0];
        value ^= block.left(value).unwrap_or(77);
        value = value.wrapping_mul(3) ^ block.broadcast(value, 200);
        value ^= block.right(value).unwrap_or(55);
    }
    out.store(thread, value, Relaxed);
}

/// `out: [4, threads * K]`: left and right neighbours of the first item, heads of runs, differences.
macro_rules! neighbours {
    ($($name:ident: $threads:literal, $items:literal;)*) => {$(
        #[kernel]
        pub fn $name(mut block: Block<$threads>, x: &[i32], out: AtomicSlice<i32>) {
            const N: usize = $threads * $items;
            let thread = block.thread();
            let own: [i32; $items] = block.load_blocked(x, 0, -1);
            out.store(thread, block.left(own[0]).unwrap_or(-2), Relaxed);
            out.store(N + thread, block.right(own[0]).unwrap_or(-3), Relaxed);
            let heads = block.heads(own, |a, b| a != b);
            let differences = block.differences(own, |a, b| b.wrapping_sub(a));
            for k in 0..$items {
                out.store(2 * N + thread * $items + k, i32::from(heads[k]), Relaxed);
                out.store(3 * N + thread * $items + k, differences[k], Relaxed);
            }
        }
    )*};
}

neighbours! {
    neighbours_32_1: 32, 1;
    neighbours_96_5: 96, 5;
    neighbours_1024_2: 1024, 2;
}
