//! The launches of a sort.

use cuda_std::launch::{DeviceRead, RawSlice};
use kernels_gpu::sort::pass::{FEW_TILES, GROUP_BITS, Task, Tiling, control_words};
use kernels_gpu::sort::{NoValue, Order, planned_passes};

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
    cut: Cut,
}

/// How many tiles there are of a kind, which tests make few.
#[derive(Clone, Copy)]
struct Cut {
    /// A group has 2 to the power of this tiles.
    group_bits: u32,
    /// The most tiles of few keys.
    few_tiles: usize,
}

impl Cut {
    const WIDEST: Self = Self { group_bits: GROUP_BITS, few_tiles: FEW_TILES };

    /// The tiles of keys and values of so many bytes.
    fn tiling(self, [key_bytes, value_bytes]: [usize; 2]) -> Tiling {
        Tiling { key_bytes, value_bytes, few_tiles: self.few_tiles }
    }
}

impl Job {
    pub fn new<K: SortKey>(n: usize, options: SortOptions) -> GpuResult<Self> {
        let bits = options.range(8 * size_of::<K>() as u32)?;
        let order = if options.descending { K::ORDER.descending() } else { K::ORDER };
        Ok(Self { n, order, bits, cut: Cut::WIDEST })
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
///
/// No fewer for more pairs, so that memory for the most serves all.
fn parts(n: usize, [key, value]: [usize; 2], other: usize, cut: Cut) -> [usize; 4] {
    let tiles = cut.tiling([key, value]).most_tiles(n);
    let control = control_words(tiles, cut.group_bits) * size_of::<u32>();
    [control, n * key, n * value, other]
}

/// Bytes of the control words, of the spare keys and values, for `n` pairs of so many bytes.
pub fn pair_parts(n: usize, sizes: [usize; 2]) -> [usize; 3] {
    let [control, spare, spare_values, _] = parts(n, sizes, 0, Cut::WIDEST);
    [control, spare, spare_values]
}

/// Scratch for `n` keys and values of so many bytes, and for another part.
pub fn scratch_bytes(n: usize, sizes: [usize; 2], other: usize) -> usize {
    size_of_parts(&parts(n, sizes, other, Cut::WIDEST))
}

/// Sorts keys alone.
pub fn keys<K: SortKey>(
    on: &impl AsStream,
    job: Job,
    keys: Column,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sizes = parts(job.n, [size_of::<K>(), 0], 0, job.cut);
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
    let sizes = parts(job.n, [size_of::<K>(), size_of::<V>()], 0, job.cut);
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
    let sizes = parts(job.n, [key, place], job.n * key, job.cut);
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
    let Job { n, order, bits: (begin, end), cut } = job;
    let in_place = keys.is_in_place;
    let counted = if in_place { &keys.out } else { &keys.input };
    let items = cut.tiling([size_of::<W>(), size_of::<V>()]).items(n);
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
            items,
        };
        let numbered = u32::from(values.is_numbered);
        let group_bits = cut.group_bits;
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
    use bytemuck::Pod;
    use kernels_gpu::sort::pass::{FEW_LONG, FEW_SHORT, LONG, SHORT, THREADS};

    fn given<T: Pod>(gpu: &Gpu, x: &[T]) -> DeviceBuffer<T> {
        DeviceBuffer::from_slice(gpu, x).unwrap()
    }

    fn column<T: Pod>(input: &DeviceBuffer<T>, out: &DeviceBuffer<T>) -> Column {
        Column { input: Input::Given(input.raw()), out: out.raw() }
    }

    /// Sorts `n` keys of a few values alone and with values, cut into tiles like this.
    #[track_caller]
    fn check<K: SortKey + Ord, V: SortValue + PartialEq>(
        n: usize,
        cut: Cut,
        key: impl Fn(u64) -> K,
        value: impl Fn(usize) -> V,
    ) {
        let gpu = Gpu::new().unwrap();
        let job = Job { cut, ..Job::new::<K>(n, SortOptions::ASCENDING).unwrap() };
        // Each comes more than once, so that a sort that is not stable shows.
        let random = |i: usize| (i as u64 % 5000).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 13;
        let keys: Vec<K> = (0..n).map(|i| key(random(i))).collect();
        let mut places: Vec<usize> = (0..n).collect();
        places.sort_by_key(|&place| keys[place]);
        let x = given(&gpu, &keys);
        let y = given(&gpu, &(0..n).map(&value).collect::<Vec<V>>());
        let sorted = [(); 2].map(|()| DeviceBuffer::<K>::zeroed(&gpu, n).unwrap());
        let moved = DeviceBuffer::<V>::zeroed(&gpu, n).unwrap();
        let scratch = &mut Scratch::new(&gpu).unwrap();
        super::keys::<K>(&gpu, job, column(&x, &sorted[0]), scratch).unwrap();
        let (first, second) = (column(&x, &sorted[1]), column(&y, &moved));
        pairs::<K, V>(&gpu, job, first, second, scratch).unwrap();
        for sorted in &sorted {
            let found = sorted.to_vec().unwrap();
            assert!(places.iter().zip(found).all(|(&place, key)| keys[place] == key), "{n} keys");
        }
        let found = moved.to_vec().unwrap();
        assert!(places.iter().zip(found).all(|(&i, moved)| value(i) == moved), "{n} values");
    }

    /// Both lengths of tiles for each kind of keys and values: as if two tiles of few keys were the most.
    #[test]
    fn longer_arrays_have_longer_tiles() {
        let cut = Cut { few_tiles: 2, ..Cut::WIDEST };
        let (short, long) = (2 * THREADS * FEW_SHORT, 2 * THREADS * FEW_LONG);
        for n in [short - 1, short, short + 1, THREADS * SHORT + 1] {
            check(n, cut, |key| key as u32, |i| i as u32);
        }
        for n in [long, long + 1, THREADS * LONG + 1] {
            check(n, cut, |key| key as u32, |i| i as u64);
            check(n, cut, |key| key, |i| i as u32);
            check(n, cut, |key| key, |i| i as i64);
        }
    }

    #[test]
    fn memory_for_the_most_pairs_serves_fewer() {
        for sizes in [[4, 0], [8, 0], [4, 4], [4, 8], [8, 8], [1, 0], [2, 8]] {
            let tiling = Cut::WIDEST.tiling(sizes);
            let (mut least, mut tiles) = (0, 0);
            for n in (0..1 << 23).step_by(509) {
                let [control, ..] = pair_parts(n, sizes);
                tiles = tiles.max(tiling.tiles(n));
                assert!(control >= least.max(control_words(tiles, GROUP_BITS) * size_of::<u32>()));
                least = control;
            }
        }
        let pairs = Cut::WIDEST.tiling([4, 4]);
        assert_eq!([1 << 20, (1 << 20) + 1].map(|n| pairs.items(n)), [FEW_SHORT, SHORT]);
        let longs = Cut::WIDEST.tiling([8, 0]);
        assert_eq!([1 << 19, (1 << 19) + 1].map(|n| longs.items(n)), [FEW_LONG, LONG]);
        assert_eq!(Cut::WIDEST.tiling([2, 0]).items(1), SHORT);
    }

    /// As for more keys than 30 bits count, with groups of two tiles.
    #[test]
    fn groups_of_tiles_follow_one_another() {
        for few_tiles in [0, FEW_TILES] {
            let cut = Cut { group_bits: 1, few_tiles };
            check(45_000, cut, |key| key as u32, |i| i as u32);
        }
    }
}
