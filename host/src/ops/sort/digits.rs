//! The two halves of a sort by one digit, for who decides between them where the keys with each digit go.

use std::ops::Range;

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite};
use kernels_gpu::sort::{FIRST_COUNTS, NoValue, RADIX, RADIX_BITS};

use super::keys::KeyWord;
use super::radix::{Buffers, RadixSort, run_to};
use super::{SortKey, SortOptions, SortValue};
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceBuffer;
use crate::ops::views::{As, AsMut};
use crate::ops::{Scratch, same_len};
use crate::stream::AsStream;

/// Values of a digit, which has eight bits.
pub const DIGITS: usize = RADIX;

/// `counts: [DIGITS]` becomes how many of the keys `x: [n]` have each value of the digit `bits`, which are counted as in
/// [`SortOptions::bits`]. Asynchronous. The scratch takes 33 KB, and a fourteenth of the keys' bytes at most.
///
/// # Errors
/// [`SizeMismatch`](GpuError::SizeMismatch) if `counts` has another length,
/// [`InvalidArgument`](GpuError::InvalidArgument) for more than eight bits, or bits that the key has not; errors of the driver.
pub fn count_digits_into<K: SortKey>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    counts: &mut DeviceBuffer<u64>,
    bits: Range<u32>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sort = by_digit::<K>(x.len(), bits)?;
    same_len("the counts of digits", DIGITS, counts.len())?;
    let stream = on.as_stream();
    if sort.n == 0 {
        return counts.as_mut_slice().clear();
    }
    let mut control = sort.control(on, [size_of::<K>(), 0], scratch)?;
    // SAFETY: the control words are 0 and enough; the bits are the key's.
    unsafe { K::Bits::histogram(stream, &sort, &As::new(x), &mut control)? };
    let counted = control.narrowed(FIRST_COUNTS).into_cast::<u64>()?;
    counts.copy_from_device(&counted)
}

/// Moves the keys `x: [n]` into `out`, which may be longer: those with the value `d` of the digit `bits` to `places[d]` and on, in their
/// order. What is between the places stays as it is. The host waits for what is enqueued before, since it copies the places. The
/// scratch takes 33 KB, and a fourteenth of the keys' bytes at most.
///
/// # Safety
/// From each place on there is room in `out` for all keys with that digit, and places ascend: there is none before the end of the keys of a
/// smaller digit.
///
/// # Errors
/// [`InvalidArgument`](GpuError::InvalidArgument) as [`count_digits_into`]; errors of the driver.
pub unsafe fn scatter_by_digit_into<K: SortKey>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    out: &mut impl DeviceWrite<K>,
    (bits, places): (Range<u32>, &[u64; DIGITS]),
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sort = by_digit::<K>(x.len(), bits)?;
    if sort.n == 0 {
        return Ok(());
    }
    let control = sort.control(on, [size_of::<K>(), 0], scratch)?;
    let keys = buffers::<K::Bits, K>(x, out);
    // SAFETY: the caller's promise; the control words are those of the keys.
    unsafe { run_to(on, sort, places, (keys, Buffers::<NoValue>::none()), control) }
}

/// As [`scatter_by_digit_into`], keys with values; both of `out` may be longer.
///
/// # Safety
/// As [`scatter_by_digit_into`], of keys and of values.
///
/// # Errors
/// As [`scatter_by_digit_into`]; [`SizeMismatch`](GpuError::SizeMismatch) for another number of values than of keys.
pub unsafe fn scatter_pairs_by_digit_into<K: SortKey, V: SortValue>(
    on: &impl AsStream,
    (keys, values): (&impl DeviceRead<K>, &impl DeviceRead<V>),
    (out_keys, out_values): (&mut impl DeviceWrite<K>, &mut impl DeviceWrite<V>),
    (bits, places): (Range<u32>, &[u64; DIGITS]),
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sort = by_digit::<K>(keys.len(), bits)?;
    same_len("the values of a sort", sort.n, values.len())?;
    if sort.n == 0 {
        return Ok(());
    }
    let control = sort.control(on, [size_of::<K>(), size_of::<V>()], scratch)?;
    let keys = buffers::<K::Bits, K>(keys, out_keys);
    // SAFETY: as above.
    unsafe {
        match size_of::<V>() {
            4 => {
                let values = buffers::<u32, V>(values, out_values);
                run_to(on, sort, places, (keys, values), control)
            }
            _ => {
                let values = buffers::<u64, V>(values, out_values);
                run_to(on, sort, places, (keys, values), control)
            }
        }
    }
}

fn buffers<'a, W: Pod, T: Pod>(
    input: &'a impl DeviceRead<T>,
    out: &'a mut impl DeviceWrite<T>,
) -> Buffers<'a, W> {
    Buffers { input: As::new(input), out: AsMut::new(out), spare: AsMut::none() }
}

/// A sort of `n` keys by one digit.
fn by_digit<K: SortKey>(n: usize, bits: Range<u32>) -> GpuResult<RadixSort> {
    let sort = RadixSort::new::<K>(n, SortOptions::ASCENDING.bits(bits))?;
    let (begin, end) = sort.bits;
    if end - begin <= RADIX_BITS {
        return Ok(sort);
    }
    let reason = format!("a digit of {} bits: it has at most {RADIX_BITS}", end - begin);
    Err(GpuError::InvalidArgument { operation: "counting digits", reason })
}
