//! Values whose keys are neighbours, from values whose elements are.
//!
//! The copy is `[batches, kv_heads, value_depth, keys]`, the keys rounded up to [`KEYS_OF_THREAD`]. Of each 16 keys, number `4 t + j` is key `8 (j / 2) + 2 t + j % 2`: those
//! that thread `t` of four has among its sums. Values of keys that a batch does not have are 0.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::{Batch, Batches, Problem};
use crate::prelude::*;
use cuda_std::gpu_only;
use cuda_std::intrinsics::byte_perm;
use cuda_std::number::E4m3;
use cuda_std::unroll::{build, each};

/// Keys that a thread moves, of four elements: a sector of memory for each of these.
pub const KEYS_OF_THREAD: usize = 32;
/// Threads of a block.
pub const BLOCK: usize = 128;

/// Keys of a head of the copy.
#[must_use]
pub const fn padded_keys(problem: &Problem) -> usize {
    (problem.keys as usize).next_multiple_of(KEYS_OF_THREAD)
}

/// Bytes of the copy.
#[must_use]
pub const fn bytes(problem: &Problem) -> usize {
    padded_keys(problem)
        * problem.value_depth as usize
        * problem.kv_heads as usize
        * problem.batches as usize
}

/// Blocks of the launch.
#[must_use]
pub const fn blocks(problem: &Problem) -> u64 {
    threads(problem).div_ceil(BLOCK as u64)
}

/// Threads that have something to do.
const fn threads(problem: &Problem) -> u64 {
    let groups = padded_keys(problem) / KEYS_OF_THREAD;
    groups as u64
        * (problem.value_depth as u64).div_ceil(4)
        * problem.kv_heads as u64
        * problem.batches as u64
}

/// Writes the copy.
///
/// # Safety
/// `v` are the values, whose rows begin at multiples of 4 bytes; `to` has [`bytes`], and is aligned to 16. Values are not packed, and not in pages.
#[gpu_only]
#[inline(always)]
pub unsafe fn transpose(problem: &Problem, batches: Batches<'_>, v: *const E4m3, to: *mut E4m3) {
    let index =
        u64::from(thread::block_idx_x()) * BLOCK as u64 + u64::from(thread::index_in_block());
    if index >= threads(problem) {
        return;
    }
    let keys = padded_keys(problem);
    // (Divisions of which the compiler sees that they are not by 0 have no panic.)
    let quads = u64::from(problem.value_depth.div_ceil(4).max(1));
    let groups = (keys / KEYS_OF_THREAD).max(1) as u64;
    let (quad, rest) = ((index % quads) as usize, index / quads);
    let (group, head_of_all) = ((rest % groups) as u32, (rest / groups) as u32);
    let heads = problem.kv_heads.max(1);
    let (batch, head) = (head_of_all / heads, head_of_all % heads);
    let len = Batch::new(problem, batches, batch).keys.len;
    let (first, depth) = (group * KEYS_OF_THREAD as u32, problem.value_depth as usize);
    // SAFETY: keys before the length, and elements before the depth, are inside; so is what is written, by this thread alone.
    unsafe {
        let load = |key: u32| {
            if first + key >= len {
                return 0;
            }
            let row = v.add(problem.v.index(batch, head, first + key)).cast::<u8>();
            four_of(row.add(4 * quad), depth - 4 * quad)
        };
        let to = to.cast::<u8>().add((head_of_all as usize * depth + 4 * quad) * keys);
        let is_whole = first + KEYS_OF_THREAD as u32 <= len && 4 * quad + 4 <= depth;
        let loaded: [u32; KEYS_OF_THREAD] = if is_whole {
            let (row, step) = (v.add(problem.v.index(batch, head, first)), problem.v.row as usize);
            let four = row.cast::<u8>().add(4 * quad);
            build(|key| four.add(key * step).cast::<u32>().read())
        } else {
            build(|key| load(key as u32))
        };
        let store = |half: usize, element: usize, bytes: [u32; 4]| {
            if 4 * quad + element < depth {
                let to = to.add(element * keys + first as usize + 16 * half);
                to.cast::<Sixteen>().write(Sixteen(bytes));
            }
        };
        each::<2>(|half| {
            // Four elements of four keys, four times.
            let [a, b, c, d] = [0, 2, 4, 6].map(|key| {
                let key = 16 * half + key;
                turned([loaded[key], loaded[key + 1], loaded[key + 8], loaded[key + 9]])
            });
            each::<4>(|element| {
                store(half, element, [a[element], b[element], c[element], d[element]])
            });
        });
    }
}

/// Sixteen bytes, which are stored by one instruction.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Sixteen([u32; 4]);

/// Four bytes at `at`, those that are before `len`; others are 0.
///
/// # Safety
/// The bytes are readable, and `at` is a multiple of 4.
#[inline(always)]
unsafe fn four_of(at: *const u8, len: usize) -> u32 {
    // SAFETY: the caller's promise.
    unsafe {
        if len >= 4 {
            return at.cast::<u32>().read();
        }
        let byte = |byte: usize| {
            if byte < len { u32::from(at.add(byte).read()) << (8 * byte) } else { 0 }
        };
        byte(0) | byte(1) | byte(2)
    }
}

/// Byte `b` of result `a` is byte `a` of argument `b`.
#[inline(always)]
fn turned([a, b, c, d]: [u32; 4]) -> [u32; 4] {
    let pick = |x: u32, y: u32, bytes: u32| {
        byte_perm(x.cast_signed(), y.cast_signed(), bytes.cast_signed()).cast_unsigned()
    };
    let [first, last] = [0x5140, 0x7362].map(|bytes| [pick(a, b, bytes), pick(c, d, bytes)]);
    let halves = |[x, y]: [u32; 2]| [pick(x, y, 0x5410), pick(x, y, 0x7632)];
    let ([a, b], [c, d]) = (halves(first), halves(last));
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_by_four_bytes_are_turned() {
        let rows = [0, 1, 2, 3].map(|b: u8| u32::from_le_bytes([0, 1, 2, 3].map(|a| 16 * a + b)));
        let columns = [0, 1, 2, 3].map(|a: u8| [0, 1, 2, 3].map(|b| 16 * a + b));
        assert_eq!(turned(rows).map(u32::to_le_bytes), columns);
    }
}
