//! Colour to grey: the luma of ITU-R BT.601, in integers.

use crate::prelude::*;

/// Luma of one RGBA pixel: `0.299 R + 0.587 G + 0.114 B` in 16-bit fixed point, rounded to nearest. Alpha is ignored.
#[inline(always)]
pub fn luma([r, g, b, _]: [u8; 4]) -> u8 {
    let sum = 19_595 * u32::from(r) + 38_470 * u32::from(g) + 7_471 * u32::from(b);
    ((sum + (1 << 15)) >> 16) as u8
}

/// `grey[i] = luma(rgba[i])` for `rgba: [n]`, `grey: [n]`. Threads past the end do nothing.
#[kernel]
pub fn grayscale(index: ThreadIndex, rgba: &[[u8; 4]], mut grey: DisjointSlice<u8>) {
    if let Some(grey) = grey.get_mut(index) {
        *grey = luma(rgba[index.get()]);
    }
}
