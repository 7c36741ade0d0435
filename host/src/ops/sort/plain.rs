//! The plain form: three kernels for each four bits.

use std::mem::swap;

use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1};
use kernels_gpu::sort::Digit;
use kernels_gpu::sort::plain::{DIGIT_BITS, DIGITS, TILE, sort_count, sort_move, sort_sums};

use super::SortOptions;
use super::radix::RadixSort;
use crate::error::{GpuError, GpuResult};
use crate::ops::scratch::size_of_parts;
use crate::ops::views::{As, AsMut};
use crate::ops::{Scratch, same_len};
use crate::stream::AsStream;

/// The counters of all tiles, the spare keys and values.
fn part_bytes(n_elems: usize) -> [usize; 3] {
    [n_elems.div_ceil(TILE) * DIGITS, n_elems, n_elems].map(|len| len * size_of::<u32>())
}

/// The scratch of [`plain_into`] for `n_elems` pairs, in bytes.
#[must_use]
pub fn plain_scratch_bytes(n_elems: usize) -> usize {
    size_of_parts(&part_bytes(n_elems))
}

/// [`sort_pairs_into`](super::sort_pairs_into) of words, by kernels in the form to read first.
///
/// # Errors
/// As there; [`InvalidArgument`](GpuError::InvalidArgument) for 2³² pairs or more.
pub fn plain_into(
    on: &impl AsStream,
    (keys, values): (&impl DeviceRead<u32>, &impl DeviceRead<u32>),
    (out_keys, out_values): (&mut impl DeviceWrite<u32>, &mut impl DeviceWrite<u32>),
    options: SortOptions,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let RadixSort { n, order, bits: (begin, end), .. } =
        RadixSort::new::<u32>(keys.len(), options)?;
    same_len("the values of a sort", n, values.len())?;
    same_len("sorting", n, out_keys.len())?;
    same_len("the sorted values", n, out_values.len())?;
    let blocks = tiles(n)?;
    if n == 0 {
        return Ok(());
    }
    let (_, [counts, mut spare_keys, mut spare_values]) = scratch.parts(on, part_bytes(n))?;
    let mut counts = counts.into_cast::<u32>()?;
    let (on, grid) = (on.as_stream(), Grid1::new(blocks));
    let mut to = (AsMut::<u32>::new(out_keys), AsMut::<u32>::new(out_values));
    let mut from = (AsMut::<u32>::new(&mut spare_keys), AsMut::<u32>::new(&mut spare_values));
    let shifts = (begin..end).step_by(DIGIT_BITS as usize);
    if shifts.len().is_multiple_of(2) {
        // The last of the passes, which take turns, writes the result.
        swap(&mut from, &mut to);
    }
    for (pass, shift) in shifts.enumerate() {
        let digit = Digit { shift, mask: (1 << (end - shift).min(DIGIT_BITS)) - 1 };
        let (keys, values) = match pass {
            0 => (As::new(keys), As::new(values)),
            _ => (from.0.as_read(), from.1.as_read()),
        };
        sort_count::launch(on, grid, &keys, order, digit, &mut counts)?;
        sort_sums::launch(on, Grid1::new(1), &mut counts)?;
        sort_move::launch(
            on,
            grid,
            &keys,
            &values,
            order,
            digit,
            &mut counts,
            &mut to.0,
            &mut to.1,
        )?;
        swap(&mut from, &mut to);
    }
    Ok(())
}

/// The number of tiles. The kernels count in 32 bits.
fn tiles(n: usize) -> GpuResult<u32> {
    if n <= u32::MAX as usize {
        return Ok(n.div_ceil(TILE) as u32);
    }
    let reason = format!("{n} pairs are too many for the plain form: it takes fewer than 2^32");
    Err(GpuError::InvalidArgument { operation: "sorting", reason })
}
