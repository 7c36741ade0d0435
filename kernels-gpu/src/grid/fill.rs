//! An array full of one value.

use cuda_std::prelude::*;

use super::map::{BLOCK, TILE, VECTORS};
use crate::thread::words::{QUAD_BYTES, each, store_part};

/// Bytes after which every pattern is the same again.
pub const PATTERN_BYTES: usize = 3 * QUAD_BYTES;

/// 48 bytes of a value again and again, for memory that begins `address % 16` bytes behind the pattern's start.
///
/// `None` for a size that does not divide 48.
#[must_use]
pub fn pattern(value: &[u8], address: u64) -> Option<[u32; 12]> {
    let size = value.len();
    if size == 0 || !PATTERN_BYTES.is_multiple_of(size) {
        return None;
    }
    let before = address as usize % QUAD_BYTES;
    // The value's byte at place `j` of the pattern.
    let byte = |j: usize| value[(j + PATTERN_BYTES - before) % size];
    Some(core::array::from_fn(|word| {
        u32::from_le_bytes(core::array::from_fn(|k| byte(4 * word + k)))
    }))
}

/// Fills `out: [bytes]` with [`pattern`]. Launch [`map::blocks`](super::map::blocks)`(bytes, 1)` blocks.
///
/// A block takes a tile of quads; the bytes before the first multiple of 16 and behind the last go one by one.
#[kernel]
pub fn fill(
    block: Block<BLOCK>,
    index: ThreadIndex,
    pattern: [u32; 12],
    mut out: DisjointSlice<u8>,
) {
    let (to, n) = (out.as_mut_ptr(), out.len());
    let before = to.addr() % QUAD_BYTES;
    let head = ((QUAD_BYTES - before) % QUAD_BYTES).min(n);
    let quads = (n - head) / QUAD_BYTES;
    let [a, b, c, d, e, f, g, h, i, j, k, l] = pattern;
    // The quad at a place that counts from the pattern's start: word by word, so that it stays in registers.
    let quad = |place: usize| {
        let turn = place % 3;
        let word = |first, second, third| match turn {
            0 => first,
            1 => second,
            _ => third,
        };
        [word(a, e, i), word(b, f, j), word(c, g, k), word(d, h, l)]
    };
    let skipped = usize::from(before != 0);
    let store = |at: usize| {
        // SAFETY: `at < quads`, and each quad is one thread's: places of its block's tiles.
        unsafe { store_part(to.add(head + at * QUAD_BYTES), quad(at + skipped), QUAD_BYTES) };
    };
    let (threads, thread) = (BLOCK, block.thread());
    let mut first = index.get() / threads * TILE + thread;
    while first - thread + TILE <= quads {
        each::<VECTORS>(|k| store(first + k * threads));
        first += index.total() / threads * TILE;
    }
    let mut at = first;
    while at < quads && at < first - thread + TILE {
        store(at);
        at += threads;
    }
    let byte = |at: usize| {
        let [x, y, z, w] = quad((at + before) / QUAD_BYTES);
        let word = match (at + before) % QUAD_BYTES / 4 {
            0 => x,
            1 => y,
            2 => z,
            _ => w,
        };
        // SAFETY: `at < n`, and each byte is one thread's: indices of the grid.
        unsafe { to.add(at).write((word >> (8 * ((at + before) % 4))) as u8) };
    };
    for i in index.grid_stride(QUAD_BYTES) {
        if i.get() < head {
            byte(i.get());
        }
        let behind = head + quads * QUAD_BYTES + i.get();
        if behind < n {
            byte(behind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn a_pattern_begins_where_the_memory_does() {
        let found = pattern(&[1, 2, 3], 17).unwrap();
        let bytes: Vec<u8> = found.iter().flat_map(|word| word.to_le_bytes()).collect();
        let expected: Vec<u8> = (0..48).map(|j| ((j + 2) % 3 + 1) as u8).collect();
        assert_eq!(bytes, expected);
        assert_eq!((pattern(&[0; 5], 0), pattern(&[], 0)), (None, None));
        assert_eq!(pattern(&[7, 0, 0, 0], 256), Some([7; 12]));
    }
}
