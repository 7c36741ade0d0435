//! The launches of a sort.

use cuda_std::launch::{DeviceRead, RawSlice};
use kernels_gpu::grid::sort::pass::{GROUP_BITS, Task, control_words, tile_len};
use kernels_gpu::grid::sort::{NoValue, Order, passes};

use super::keys::sealed::{Key, Value};
use super::keys::{Arrays, KeyWord, ValueWord, Words};
use super::{SortKey, SortOptions, SortValue};
use crate::error::GpuResult;
use crate::memory::DeviceSliceMut;
use crate::ops::Scratch;
use crate::ops::scratch::size_of_parts;
use crate::stream::AsStream;

/// What is to be sorted, and how.
#[derive(Clone, Copy)]
pub struct Job {
    /// The number of keys.
    pub n: usize,
    order: Order,
    bits: (u32, u32),
    group_bits: u32,
}

impl Job {
    pub fn new<K: SortKey>(n: usize, options: SortOptions) -> GpuResult<Self> {
        let bits = options.range(8 * size_of::<K>() as u32)?;
        let order = if options.descending { K::ORDER.descending() } else { K::ORDER };
        Ok(Self { n, order, bits, group_bits: GROUP_BITS })
    }

    /// The number of keys, their order and the bits to sort by.
    pub fn parts(self) -> (usize, Order, (u32, u32)) {
        (self.n, self.order, self.bits)
    }
}

/// The values of a sort.
pub struct Values {
    /// Where they are; `None` for `0, 1, 2, …`.
    pub input: Option<RawSlice>,
    /// Where they go.
    pub out: RawSlice,
}

/// Bytes of the control words, of the spare keys and values, and of another part.
fn parts(n: usize, [key, value]: [usize; 2], other: usize, group_bits: u32) -> [usize; 4] {
    let tiles = n.div_ceil(tile_len(key, value));
    let control = control_words(tiles, group_bits) * size_of::<u32>();
    [control, n * key, n * value, other]
}

/// Bytes of the control words, of the spare keys and values, for `n` pairs of so many bytes.
pub fn pair_parts(n: usize, sizes: [usize; 2]) -> [usize; 3] {
    let [control, spare, spare_values, _] = parts(n, sizes, 0, GROUP_BITS);
    [control, spare, spare_values]
}

/// Scratch for `n` keys and values of so many bytes, and for another part.
pub fn scratch_bytes(n: usize, sizes: [usize; 2], other: usize) -> usize {
    size_of_parts(&parts(n, sizes, other, GROUP_BITS))
}

/// Sorts keys alone.
pub fn keys<K: SortKey>(
    on: &impl AsStream,
    job: Job,
    input: RawSlice,
    out: RawSlice,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sizes = parts(job.n, [size_of::<K>(), 0], 0, job.group_bits);
    let (_, [control, spare, ..]) = scratch.parts(on, sizes)?;
    // SAFETY: memory of keys, or as many bytes of scratch, whose parts are aligned.
    let [input, out, spare] = unsafe { words(job.n, [input, out, spare.raw()]) };
    let [mut out_values, mut spare_values] = [Words::none(), Words::none()];
    let work = Work::<<K as Key>::Word, NoValue> {
        keys: (&input, out, spare),
        values: (&Words::none(), &mut out_values, &mut spare_values),
        numbered: false,
    };
    run(on, job, work, control)
}

/// Sorts keys with values. Without an `out` the keys are thrown away.
pub fn pairs<K: SortKey, V: SortValue>(
    on: &impl AsStream,
    job: Job,
    input: RawSlice,
    out: Option<RawSlice>,
    values: Values,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let bytes = [size_of::<K>(), size_of::<V>()];
    let other = if out.is_some() { 0 } else { job.n * size_of::<K>() };
    let sizes = parts(job.n, bytes, other, job.group_bits);
    let (_, [control, spare, spare_values, other]) = scratch.parts(on, sizes)?;
    let out = out.unwrap_or_else(|| other.raw());
    pairs_in::<K, V>(on, job, input, out, values, [control, spare, spare_values])
}

/// Sorts keys with values in parts of scratch that have the sizes of [`pair_parts`].
pub fn pairs_in<K: SortKey, V: SortValue>(
    on: &impl AsStream,
    job: Job,
    input: RawSlice,
    out: RawSlice,
    values: Values,
    [control, spare, spare_values]: [DeviceSliceMut<'_, u8>; 3],
) -> GpuResult<()> {
    // SAFETY: memory of keys and values, or as many bytes of scratch, whose parts are aligned.
    let ([input, out, spare], [mut out_values, mut spare_values]) = unsafe {
        let keys = words(job.n, [input, out, spare.raw()]);
        (keys, words(job.n, [values.out, spare_values.raw()]))
    };
    let numbered = values.input.is_none();
    // SAFETY: memory of values.
    let values = values.input.map_or_else(Words::none, |raw| unsafe { Words::new(raw) });
    let work = Work::<<K as Key>::Word, <V as Value>::Word> {
        keys: (&input, out, spare),
        values: (&values, &mut out_values, &mut spare_values),
        numbered,
    };
    run(on, job, work, control)
}

/// Each memory as `n` words.
///
/// # Safety
/// As for [`Words::new`], with `n` for the length.
pub unsafe fn words<W, const N: usize>(n: usize, raw: [RawSlice; N]) -> [Words<W>; N] {
    // SAFETY: the caller's promise.
    raw.map(|raw| unsafe { Words::new(RawSlice { len: n, ..raw }) })
}

/// The memory of a sort.
struct Work<'a, W, V> {
    /// The input, the result and as much scratch.
    keys: (&'a Words<W>, Words<W>, Words<W>),
    /// The same of the values.
    values: (&'a Words<V>, &'a mut Words<V>, &'a mut Words<V>),
    numbered: bool,
}

/// Counts, then a pass for each digit. Which of them run, and from where to where, the histogram plans.
fn run<W: KeyWord, V: ValueWord>(
    on: &impl AsStream,
    job: Job,
    work: Work<'_, W, V>,
    control: DeviceSliceMut<'_, u8>,
) -> GpuResult<()> {
    if job.n == 0 {
        return Ok(());
    }
    let stream = on.as_stream();
    let mut control = control.into_cast::<u32>()?;
    control.clear()?;
    let Job { n, order, bits: (begin, end), group_bits } = job;
    let Work { keys: (input, mut out, mut spare), values, numbered } = work;
    let tiles = n.div_ceil(tile_len(size_of::<W>(), size_of::<V>())) as u32;
    // SAFETY: the control words are 0 and enough; the bits are the key's.
    unsafe { W::histogram(stream, input, order, (begin, end), &mut control)? };
    for pass in 0..passes(begin, end) as u32 {
        let arrays = Arrays {
            input,
            out: &mut out,
            spare: &mut spare,
            values: values.0,
            out_values: &mut *values.1,
            spare_values: &mut *values.2,
            control: &mut control,
            tiles,
        };
        let numbered = u32::from(numbered);
        let task = Task { order, pass, begin, end, group_bits, numbered, reserved: 0 };
        // SAFETY: each array has `n` elements; the histogram has planned this pass, and those before are queued.
        unsafe { V::pass(stream, arrays, task)? };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceBuffer, Gpu};

    /// As for more keys than 30 bits count, with groups of two tiles.
    #[test]
    fn groups_of_tiles_follow_one_another() {
        let gpu = Gpu::new().unwrap();
        let keys: Vec<u32> = (0..45_000u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
        let values: Vec<u32> = (0..45_000).collect();
        let (x, y) =
            (DeviceBuffer::from_slice(&gpu, &keys), DeviceBuffer::from_slice(&gpu, &values));
        let (x, y) = (x.unwrap(), y.unwrap());
        let mut out = [(); 2].map(|()| DeviceBuffer::<u32>::zeroed(&gpu, keys.len()).unwrap());
        let job =
            Job { group_bits: 1, ..Job::new::<u32>(keys.len(), SortOptions::ASCENDING).unwrap() };
        let [out_keys, out_values] = out.each_ref().map(DeviceRead::raw);
        let values = Values { input: Some(y.raw()), out: out_values };
        let scratch = &mut Scratch::new(&gpu).unwrap();
        pairs::<u32, u32>(&gpu, job, x.raw(), Some(out_keys), values, scratch).unwrap();
        let [out_keys, out_values] = out.each_mut().map(|out| out.to_vec().unwrap());
        assert!(out_keys.is_sorted());
        assert!(out_keys.iter().zip(out_values).all(|(key, place)| keys[place as usize] == *key));
    }
}
