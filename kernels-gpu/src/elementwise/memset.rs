//! An array full of one value.

use core::hint::select_unpredictable;

use crate::prelude::*;

use super::map::BLOCK;
use crate::dependent::let_next_start_by;
use crate::quads::{QUAD_BYTES, store_part};

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

/// Fills `out: [bytes]` with [`pattern`]. Launch [`map::blocks`](super::map::blocks)`(bytes, 1, 1)` blocks.
///
/// A thread stores a quad; the bytes before the first multiple of 16 and behind the last go one by one.
#[kernel(dependent, block = BLOCK)]
pub fn fill(index: ThreadIndex, pattern: [u32; 12], mut out: DisjointSlice<u8>) {
    let (to, n) = (out.as_mut_ptr(), out.len());
    let_next_start_by(n);
    let before = to.addr() % QUAD_BYTES;
    let head = ((QUAD_BYTES - before) % QUAD_BYTES).min(n);
    let quads = (n - head) / QUAD_BYTES;
    let [a, b, c, d, e, f, g, h, i, j, k, l] = pattern;
    // The quad at a place that counts from the pattern's start.
    let quad = |place: usize| {
        // Modulo 3: 2^16 is 1 there, and any memory's quads are below 2^48. A remainder of 32 bits is a product.
        let turn = ((place >> 16) as u32 + (place as u32 & 0xffff)) % 3;
        // Chosen, not branched to: the words are in registers.
        let word = |first, second, third| {
            select_unpredictable(turn == 0, first, select_unpredictable(turn == 1, second, third))
        };
        [word(a, e, i), word(b, f, j), word(c, g, k), word(d, h, l)]
    };
    let skipped = usize::from(before != 0);
    for i in index.grid_stride(quads) {
        let at = i.get();
        // SAFETY: inside, and each quad is one thread's: indices of the grid.
        unsafe { store_part(to.add(head + at * QUAD_BYTES), quad(at + skipped), QUAD_BYTES) };
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
