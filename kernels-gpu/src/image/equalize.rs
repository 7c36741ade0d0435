//! Histogram equalisation: spread the grey levels so that each is about equally common.
//!
//! Three launches: [`crate::histogram`], then [`equalize_table`](fn@equalize_table) (a scan of the 256 bins by one block),
//! then [`equalize_apply`](fn@equalize_apply) (a table look-up a pixel). The method is the textbook one (Gonzalez & Woods,
//! *Digital Image Processing*, "Histogram Equalization").

use crate::prelude::*;

use crate::histogram::BINS;

/// New level of a pixel, from the number of pixels at or below its level (`cumulative`), at or below the
/// darkest level present (`darkest`), and in all (`total`). An image of one level stays as it is (`level`).
#[inline(always)]
pub fn equalized(level: u8, cumulative: u32, darkest: u32, total: u32) -> u8 {
    if total == darkest || cumulative < darkest {
        return level;
    }
    let (above, range) = (u64::from(cumulative - darkest), u64::from(total - darkest));
    ((above * 255 + range / 2) / range) as u8
}

/// `table[level]` becomes the new level for each of the 256 levels of `bins: [256]`. One block.
///
/// The scan is Hillis and Steele's (1986): at distance 1, 2, 4, … each bin adds the one that far below it.
#[kernel(block = BINS)]
pub fn equalize_table(index: ThreadIndex, bins: &[u32], mut table: DisjointSlice<u8>) {
    let counts = shared_array![u32; 2 * BINS].as_mut_ptr();
    let thread = thread::thread_idx_x() as usize;
    let (mut from, mut to) = (0, BINS);
    // SAFETY: the block has `BINS` threads, and this element is this thread's.
    unsafe { *counts.add(thread) = bins[thread] };
    let mut distance = 1;
    while distance < BINS {
        // The half `from` is complete, and nobody reads the half `to` any more.
        thread::sync_threads();
        // SAFETY: a step reads the half `from`, written before the barrier, and writes this thread's
        // element of the half `to`; the next barrier comes before anybody reads that.
        unsafe {
            let below = if thread >= distance { *counts.add(from + thread - distance) } else { 0 };
            *counts.add(to + thread) = *counts.add(from + thread) + below;
        }
        (from, to) = (to, from);
        distance *= 2;
    }
    // Every cumulative count is written before any is read by another thread.
    thread::sync_threads();

    let mut darkest = 0;
    while darkest < BINS - 1 && bins[darkest] == 0 {
        darkest += 1;
    }
    if let Some(entry) = table.get_mut(index) {
        // SAFETY: nobody writes any more, and `darkest < BINS`.
        let (cumulative, least, total) = unsafe {
            (*counts.add(from + thread), *counts.add(from + darkest), *counts.add(from + BINS - 1))
        };
        *entry = equalized(thread as u8, cumulative, least, total);
    }
}

/// `out[i] = table[image[i]]` for `image: [n]`, `out: [n]`, `table: [256]`. Threads past the end do nothing.
#[kernel]
pub fn equalize_apply(index: ThreadIndex, image: &[u8], table: &[u8], mut out: DisjointSlice<u8>) {
    if let Some(out) = out.get_mut(index) {
        *out = table[image[index.get()] as usize];
    }
}
