//! The launches of a sort.

use cuda_std::launch::{DeviceRead, RawSlice};
use kernels_gpu::grid::sort::pass::{GROUP_BITS, Task, control_words, tile_len};
use kernels_gpu::grid::sort::{NoValue, Order, planned_passes};

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

/// What keys or values become in order.
pub struct Column {
    /// Where they are.
    pub input: Input,
    /// Where they go.
    pub out: RawSlice,
}

/// Where the keys or values of a sort are.
pub enum Input {
    /// In memory of their own.
    Given(RawSlice),
    /// Where they go: both the keys and their values, or neither.
    InPlace,
    /// Nowhere: `0, 1, 2, …`, of values alone.
    Numbers,
}

impl Input {
    /// Memory of `n` elements that the kernels read beside the output, or of none.
    fn raw(&self, n: usize) -> RawSlice {
        match self {
            Self::Given(raw) => RawSlice { len: n, ..raw.clone() },
            Self::InPlace | Self::Numbers => RawSlice { address: 0, len: 0, home: None },
        }
    }
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
    keys: Column,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sizes = parts(job.n, [size_of::<K>(), 0], 0, job.group_bits);
    let (_, [control, spare, ..]) = scratch.parts(on, sizes)?;
    let spare = spare.raw();
    // SAFETY: memory of keys, or as many bytes of scratch, whose parts are aligned.
    let keys = unsafe { Sides::<<K as Key>::Word>::new(job.n, keys, spare) };
    run(on, job, keys, Sides::<NoValue>::none(), control)
}

/// Sorts keys with values.
pub fn pairs<K: SortKey, V: SortValue>(
    on: &impl AsStream,
    job: Job,
    keys: Column,
    values: Column,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sizes = parts(job.n, [size_of::<K>(), size_of::<V>()], 0, job.group_bits);
    let (_, [control, spare, spare_values, _]) = scratch.parts(on, sizes)?;
    pairs_in::<K, V>(on, job, keys, values, [control, spare, spare_values])
}

/// Sorts the numbers of keys by their keys, which are thrown away.
pub fn places<K: SortKey>(
    on: &impl AsStream,
    job: Job,
    keys: RawSlice,
    out: RawSlice,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let [key, place] = [size_of::<K>(), size_of::<u32>()];
    let sizes = parts(job.n, [key, place], job.n * key, job.group_bits);
    let (_, [control, spare, spare_places, sorted]) = scratch.parts(on, sizes)?;
    let keys = Column { input: Input::Given(keys), out: sorted.raw() };
    let places = Column { input: Input::Numbers, out };
    pairs_in::<K, u32>(on, job, keys, places, [control, spare, spare_places])
}

/// Sorts keys with values in parts of scratch that have the sizes of [`pair_parts`].
pub fn pairs_in<K: SortKey, V: SortValue>(
    on: &impl AsStream,
    job: Job,
    keys: Column,
    values: Column,
    [control, spare, spare_values]: [DeviceSliceMut<'_, u8>; 3],
) -> GpuResult<()> {
    let spare = [spare.raw(), spare_values.raw()];
    // SAFETY: memory of keys and values, or as many bytes of scratch, whose parts are aligned.
    let (keys, values) = unsafe {
        (Sides::new(job.n, keys, spare[0].clone()), Sides::new(job.n, values, spare[1].clone()))
    };
    run::<<K as Key>::Word, <V as Value>::Word>(on, job, keys, values, control)
}

/// Each memory as `n` words.
///
/// # Safety
/// As for [`Words::new`], with `n` for the length.
pub unsafe fn words<W, const N: usize>(n: usize, raw: [RawSlice; N]) -> [Words<W>; N] {
    // SAFETY: the caller's promise.
    raw.map(|raw| unsafe { Words::new(RawSlice { len: n, ..raw }) })
}

/// The memory between which keys or values go.
struct Sides<W> {
    input: Words<W>,
    out: Words<W>,
    /// As much scratch.
    spare: Words<W>,
    is_in_place: bool,
    is_numbered: bool,
}

impl<W> Sides<W> {
    /// # Safety
    /// As for [`words`].
    unsafe fn new(n: usize, column: Column, spare: RawSlice) -> Self {
        // SAFETY: the caller's promise.
        let (input, [out, spare]) =
            unsafe { (Words::new(column.input.raw(n)), words(n, [column.out, spare])) };
        let is_in_place = matches!(column.input, Input::InPlace);
        let is_numbered = matches!(column.input, Input::Numbers);
        Self { input, out, spare, is_in_place, is_numbered }
    }

    fn none() -> Self {
        let [input, out, spare] = [(); 3].map(|()| Words::none());
        Self { input, out, spare, is_in_place: false, is_numbered: false }
    }
}

/// Counts, then a pass for each digit. Which of them run, and from where to where, the histogram plans.
fn run<W: KeyWord, V: ValueWord>(
    on: &impl AsStream,
    job: Job,
    mut keys: Sides<W>,
    mut values: Sides<V>,
    control: DeviceSliceMut<'_, u8>,
) -> GpuResult<()> {
    if job.n == 0 {
        return Ok(());
    }
    let stream = on.as_stream();
    let mut control = control.into_cast::<u32>()?;
    control.clear()?;
    let Job { n, order, bits: (begin, end), group_bits } = job;
    let in_place = keys.is_in_place;
    let counted = if in_place { &keys.out } else { &keys.input };
    let tiles = n.div_ceil(tile_len(size_of::<W>(), size_of::<V>())) as u32;
    // SAFETY: the control words are 0 and enough; the bits are the key's.
    unsafe { W::histogram(stream, counted, order, (begin, end), in_place, &mut control)? };
    for pass in 0..planned_passes(begin, end, in_place) as u32 {
        let arrays = Arrays {
            input: &keys.input,
            out: &mut keys.out,
            spare: &mut keys.spare,
            values: &values.input,
            out_values: &mut values.out,
            spare_values: &mut values.spare,
            control: &mut control,
            tiles,
        };
        let numbered = u32::from(values.is_numbered);
        let task = Task { order, pass, begin, end, group_bits, numbered, reserved: 0 };
        // SAFETY: each array that the plan reads has `n` elements; the histogram has planned this pass, and those before are queued.
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
        let keys_column = Column { input: Input::Given(x.raw()), out: out_keys };
        let values = Column { input: Input::Given(y.raw()), out: out_values };
        let scratch = &mut Scratch::new(&gpu).unwrap();
        pairs::<u32, u32>(&gpu, job, keys_column, values, scratch).unwrap();
        let [out_keys, out_values] = out.each_mut().map(|out| out.to_vec().unwrap());
        assert!(out_keys.is_sorted());
        assert!(out_keys.iter().zip(out_values).all(|(key, place)| keys[place as usize] == *key));
    }
}
