//! The launches of a radix sort.

use std::ops::Range;

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite};
use kernels_gpu::sort::pass::{FEW_TILES, GROUP_BITS, Task, Tiling, control_words};
use kernels_gpu::sort::{NoValue, Order, RADIX, planned_passes, planned_words, segments};

use super::keys::{KeyWord, SortWith};
use super::{SortKey, SortOptions, SortValue};
use crate::error::GpuResult;
use crate::memory::{DeviceBuffer, DeviceSliceMut};
use crate::ops::Scratch;
use crate::ops::scratch::size_of_parts;
use crate::ops::views::{As, AsMut};
use crate::stream::AsStream;

/// A sort: of how many keys, in which order, by which of their bits.
#[derive(Clone, Copy)]
pub struct RadixSort {
    /// The number of keys.
    pub n: usize,
    pub order: Order,
    /// The first bit to sort by, and the one after the last.
    pub bits: (u32, u32),
    /// Whether the keys, and their values, are sorted where they are.
    pub in_place: bool,
    /// Whether the values are the indices of the keys, `0, 1, 2, …`, whatever their input holds.
    pub indexed: bool,
    limits: TileLimits,
}

/// How many tiles there are of a kind, and whether few keys are sorted without them: fewer in tests, and no.
#[derive(Clone, Copy)]
struct TileLimits {
    /// A group has 2 to the power of this tiles.
    group_bits: u32,
    /// The most tiles of few keys.
    few_tiles: usize,
    /// Whether one block sorts as many keys as it holds.
    by_block: bool,
}

impl TileLimits {
    const KERNEL: Self = Self { group_bits: GROUP_BITS, few_tiles: FEW_TILES, by_block: true };

    /// The tiles of keys and values of these sizes.
    fn tiling(self, [key_bytes, value_bytes]: [usize; 2]) -> Tiling {
        Tiling { key_bytes, value_bytes, few_tiles: self.few_tiles }
    }

    /// Bytes of the control words, of the spare keys and values, and of another part.
    ///
    /// Never fewer for more pairs, so that memory for the most serves all.
    fn part_bytes(self, n: usize, [key, value]: [usize; 2], other: usize) -> [usize; 4] {
        let tiles = self.tiling([key, value]).most_tiles(n);
        let control = control_words(tiles, self.group_bits) * size_of::<u32>();
        [control, n * key, n * value, other]
    }
}

impl RadixSort {
    /// A sort of `n` keys from one memory to another.
    pub fn new<K: SortKey>(n: usize, options: SortOptions) -> GpuResult<Self> {
        let bits = options.range(8 * size_of::<K>() as u32)?;
        let order = if options.descending { K::ORDER.descending() } else { K::ORDER };
        let limits = TileLimits::KERNEL;
        Ok(Self { n, order, bits, in_place: false, indexed: false, limits })
    }

    /// What the kernels work in; the spare keys and values, and another part.
    fn parts<'a>(
        self,
        on: &impl AsStream,
        sizes: [usize; 2],
        other: usize,
        scratch: &'a mut Scratch,
    ) -> GpuResult<(Work<'a>, [DeviceSliceMut<'a, u8>; 3])> {
        let bytes = self.limits.part_bytes(self.n, sizes, other);
        let (bounds, [control, spare, spare_values, other]) =
            scratch.bounds_and_parts(on, bytes)?;
        Ok((Work { bounds, control }, [spare, spare_values, other]))
    }

    /// The sort of `n` other keys.
    pub fn of(self, n: usize) -> Self {
        Self { n, ..self }
    }

    /// The control words alone, all of them 0.
    pub fn control<'a>(
        self,
        on: &impl AsStream,
        sizes: [usize; 2],
        scratch: &'a mut Scratch,
    ) -> GpuResult<DeviceSliceMut<'a, u32>> {
        let [control, ..] = self.limits.part_bytes(self.n, sizes, 0);
        let (_, [control]) = scratch.parts(on, [control])?;
        let mut control = control.into_cast::<u32>()?;
        control.clear()?;
        Ok(control)
    }
}

/// The most keys that one block holds, of keys and values of these sizes.
pub const fn most_in_block([key_bytes, value_bytes]: [usize; 2]) -> usize {
    let is_long = key_bytes > 4 || value_bytes > 4;
    segments::THREADS * if is_long { segments::LONG } else { segments::SHORT }
}

/// What the kernels of a sort work in, beside spare keys and values.
pub struct Work<'a> {
    /// Those of a segment of all keys.
    pub bounds: DeviceSliceMut<'a, u64>,
    /// The control words.
    pub control: DeviceSliceMut<'a, u8>,
}

/// The fewest keys of a thread in a sort of keys and values of these sizes.
pub fn fewest_items(sizes: [usize; 2]) -> usize {
    let tiling = TileLimits::KERNEL.tiling(sizes);
    tiling.items(1)
}

/// Bytes of the control words, of the spare keys and of the spare values for `n` pairs of these sizes.
pub fn pair_part_bytes(n: usize, sizes: [usize; 2]) -> [usize; 3] {
    let [control, spare, spare_values, _] = TileLimits::KERNEL.part_bytes(n, sizes, 0);
    [control, spare, spare_values]
}

/// Scratch for `n` keys and values of these sizes, and for another part.
pub fn scratch_bytes(n: usize, sizes: [usize; 2], other: usize) -> usize {
    size_of_parts(&TileLimits::KERNEL.part_bytes(n, sizes, other))
}

/// The memory of keys or of values: where they are, where they go, and as much scratch. There is no input where keys are
/// sorted in place or values are indices, and no memory at all where there are no values.
pub struct Buffers<'a, W> {
    pub input: As<'a, W>,
    pub out: AsMut<'a, W>,
    pub spare: AsMut<'a, W>,
}

impl<'a, W> Buffers<'a, W> {
    pub fn new<I: Pod, O: Pod>(
        input: Option<&'a impl DeviceRead<I>>,
        out: &'a mut impl DeviceWrite<O>,
        spare: &'a mut DeviceSliceMut<'_, u8>,
    ) -> Self
    where
        W: Pod,
    {
        Self { input: As::optional(input), out: AsMut::new(out), spare: AsMut::new(spare) }
    }

    pub fn none() -> Self {
        Self { input: As::none(), out: AsMut::none(), spare: AsMut::none() }
    }

    /// Some of the elements, with as many of the spare ones.
    ///
    /// # Safety
    /// Kernels that are given both use one of them alone, and those that are given several parts run one after the other.
    pub unsafe fn part(&self, range: Range<usize>) -> Self {
        let spare = 0..range.len();
        // SAFETY: the caller's promise.
        let (out, spare) = unsafe { (self.out.part(range.clone()), self.spare.part(spare)) };
        Self { input: self.input.part(range), out, spare }
    }
}

/// Sorts keys alone; in place if there is no `input`.
pub fn keys<K: SortKey>(
    on: &impl AsStream,
    sort: RadixSort,
    input: Option<&impl DeviceRead<K>>,
    out: &mut impl DeviceWrite<K>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sort = RadixSort { in_place: input.is_none(), ..sort };
    let (work, [mut spare, ..]) = sort.parts(on, [size_of::<K>(), 0], 0, scratch)?;
    let keys = Buffers::<K::Bits>::new(input, out, &mut spare);
    run(on, sort, keys, Buffers::<NoValue>::none(), work)
}

/// Sorts keys with values; in place if there is no `input`.
pub fn pairs<K: SortKey, V: SortValue>(
    on: &impl AsStream,
    sort: RadixSort,
    input: Option<(&impl DeviceRead<K>, &impl DeviceRead<V>)>,
    (out, out_values): (&mut impl DeviceWrite<K>, &mut impl DeviceWrite<V>),
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sort = RadixSort { in_place: input.is_none(), ..sort };
    let sizes = [size_of::<K>(), size_of::<V>()];
    let (work, [mut spare, mut spare_values, _]) = sort.parts(on, sizes, 0, scratch)?;
    let (input, values) = input.unzip();
    let keys = Buffers::<K::Bits>::new(input, out, &mut spare);
    match size_of::<V>() {
        4 => {
            let values = Buffers::<u32>::new(values, out_values, &mut spare_values);
            run(on, sort, keys, values, work)
        }
        _ => {
            let values = Buffers::<u64>::new(values, out_values, &mut spare_values);
            run(on, sort, keys, values, work)
        }
    }
}

/// Sorts the indices of keys by their keys, of which only scratch gets the sorted ones.
pub fn indices<K: SortKey>(
    on: &impl AsStream,
    sort: RadixSort,
    input: &impl DeviceRead<K>,
    out: &mut impl DeviceWrite<u32>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sort = RadixSort { indexed: true, ..sort };
    let [key, index] = [size_of::<K>(), size_of::<u32>()];
    let (work, [mut spare, mut spare_indices, mut sorted]) =
        sort.parts(on, [key, index], sort.n * key, scratch)?;
    let keys = Buffers::<K::Bits>::new(Some(input), &mut sorted, &mut spare);
    let indices = Buffers::<u32>::new(None::<&DeviceBuffer<u32>>, out, &mut spare_indices);
    run(on, sort, keys, indices, work)
}

/// Sorts keys and their indices, no more than [`most_in_block`].
pub fn in_block<K: SortKey>(
    on: &impl AsStream,
    sort: RadixSort,
    input: &impl DeviceRead<K>,
    (out, out_indices): (&mut impl DeviceWrite<K>, &mut impl DeviceWrite<u32>),
    bounds: &DeviceSliceMut<'_, u64>,
) -> GpuResult<()> {
    let mut keys =
        Buffers::<K::Bits> { input: As::new(input), out: AsMut::new(out), spare: AsMut::none() };
    let mut indices =
        Buffers::<u32> { input: As::none(), out: AsMut::new(out_indices), spare: AsMut::none() };
    // SAFETY: inputs and results have `n` elements, and indices no input; a block that holds all keys uses no spare ones. The bounds are
    // those of all keys.
    unsafe { K::Bits::segments(on.as_stream(), &sort, &As::new(bounds), &mut keys, &mut indices) }
}

/// Enqueues the histogram, then a pass for each digit. Which of the passes have work, and from where to where they go, the
/// histogram plans. As many keys as one block holds are sorted by one, in one launch, unless they are sorted where they are.
pub fn run<W: KeyWord + SortWith<V>, V>(
    on: &impl AsStream,
    sort: RadixSort,
    mut keys: Buffers<'_, W>,
    mut values: Buffers<'_, V>,
    Work { bounds, control }: Work<'_>,
) -> GpuResult<()> {
    let RadixSort { n, order, bits: (begin, end), in_place, indexed, limits } = sort;
    if n == 0 {
        return Ok(());
    }
    let stream = on.as_stream();
    if limits.by_block && !in_place && n <= most_in_block([size_of::<W>(), size_of::<V>()]) {
        // SAFETY: the bounds are those of all keys; each array has `n` elements, or none where there are no values.
        return unsafe { W::segments(stream, &sort, &As::new(&bounds), &mut keys, &mut values) };
    }
    let mut control = control.into_cast::<u32>()?;
    control.clear()?;
    let written = keys.out.as_read();
    let counted = if in_place { &written } else { &keys.input };
    // SAFETY: the control words are 0 and enough; the bits are the key's.
    unsafe { W::histogram(stream, &sort, counted, &mut control)? };
    let items = limits.tiling([size_of::<W>(), size_of::<V>()]).items(n);
    let (group_bits, numbered) = (limits.group_bits, u32::from(indexed));
    for pass in 0..planned_passes(begin, end, in_place) as u32 {
        let task = Task { order, pass, begin, end, group_bits, numbered, reserved: 0 };
        // SAFETY: each array that the plan reads has `n` elements; the histogram has planned this pass, and the kernels before
        // it are enqueued.
        unsafe { W::pass(stream, items, &mut keys, &mut values, &mut control, task)? };
    }
    Ok(())
}

/// Enqueues one pass, which moves the keys with each value of a digit to the place that `places` says, and on. There are no spare
/// ones.
///
/// # Safety
/// The places ascend, and there is room for the keys from each on. The control words are 0, and enough.
pub unsafe fn run_to<W: KeyWord + SortWith<V>, V>(
    on: &impl AsStream,
    sort: RadixSort,
    places: &[u64; RADIX],
    (mut keys, mut values): (Buffers<'_, W>, Buffers<'_, V>),
    mut control: DeviceSliceMut<'_, u32>,
) -> GpuResult<()> {
    let RadixSort { n, order, bits: (begin, end), limits, .. } = sort;
    let words = planned_words(places);
    control.slice_mut(..words.len()).copy_from_host(&words)?;
    let items = limits.tiling([size_of::<W>(), size_of::<V>()]).items(n);
    let group_bits = limits.group_bits;
    let task = Task { order, pass: 0, begin, end, group_bits, numbered: 0, reserved: 0 };
    // SAFETY: a single pass does not use the spare keys, of which it reads the number alone, which is that of all keys.
    keys.spare = unsafe { keys.out.part(0..n) };
    // SAFETY: the input has `n` elements; the words plan this pass. The rest is the caller's promise.
    unsafe { W::pass(on.as_stream(), items, &mut keys, &mut values, &mut control, task) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gpu;
    use kernels_gpu::sort::pass::{FEW_LONG, FEW_SHORT, LONG, SHORT, THREADS};

    fn given<T: Pod>(gpu: &Gpu, x: &[T]) -> DeviceBuffer<T> {
        DeviceBuffer::from_slice(gpu, x).unwrap()
    }

    /// Sorts `n` keys of a few values alone and with values, with these tiles.
    #[track_caller]
    fn check<K: SortKey + Ord, V: SortValue + PartialEq>(
        n: usize,
        limits: TileLimits,
        key: impl Fn(u64) -> K,
        value: impl Fn(usize) -> V,
    ) {
        let gpu = Gpu::new().unwrap();
        let sort = RadixSort::new::<K>(n, SortOptions::ASCENDING).unwrap();
        let sort = RadixSort { limits, ..sort };
        // Each comes more than once, so that a sort that is not stable shows.
        let random = |i: usize| (i as u64 % 5000).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 13;
        let keys: Vec<K> = (0..n).map(|i| key(random(i))).collect();
        let mut places: Vec<usize> = (0..n).collect();
        places.sort_by_key(|&place| keys[place]);
        let x = given(&gpu, &keys);
        let y = given(&gpu, &(0..n).map(&value).collect::<Vec<V>>());
        let mut sorted = [(); 2].map(|()| DeviceBuffer::<K>::zeroed(&gpu, n).unwrap());
        let mut moved = DeviceBuffer::<V>::zeroed(&gpu, n).unwrap();
        let scratch = &mut Scratch::new(&gpu).unwrap();
        super::keys(&gpu, sort, Some(&x), &mut sorted[0], scratch).unwrap();
        pairs(&gpu, sort, Some((&x, &y)), (&mut sorted[1], &mut moved), scratch).unwrap();
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
        let limits = TileLimits { few_tiles: 2, by_block: false, ..TileLimits::KERNEL };
        let (short, long) = (2 * THREADS * FEW_SHORT, 2 * THREADS * FEW_LONG);
        for n in [short - 1, short, short + 1, THREADS * SHORT + 1] {
            check(n, limits, |key| key as u32, |i| i as u32);
        }
        for n in [long, long + 1, THREADS * LONG + 1] {
            check(n, limits, |key| key as u32, |i| i as u64);
            check(n, limits, |key| key, |i| i as u32);
            check(n, limits, |key| key, |i| i as i64);
        }
    }

    /// One block sorts as many as it holds, and several sort one more.
    #[test]
    fn few_keys_are_sorted_by_one_block() {
        let limits = TileLimits::KERNEL;
        for n in [1, 32, 33, 1000] {
            check(n, limits, |key| key as u16, |i| i as u32);
            check(n, limits, |key| key, |i| i as u64);
        }
        let (short, long) = (most_in_block([4, 4]), most_in_block([4, 8]));
        assert_eq!((short, long), (7680, 3840));
        for n in [short - 1, short, short + 1] {
            check(n, limits, |key| key as u32, |i| i as u32);
        }
        for n in [long - 1, long, long + 1] {
            check(n, limits, |key| key as u32, |i| i as u64);
        }
    }

    #[test]
    fn memory_for_the_most_pairs_serves_fewer() {
        for sizes in [[4, 0], [8, 0], [4, 4], [4, 8], [8, 8], [1, 0], [2, 8]] {
            let tiling = TileLimits::KERNEL.tiling(sizes);
            let (mut least, mut tiles) = (0, 0);
            for n in (0..1 << 23).step_by(509) {
                let [control, ..] = pair_part_bytes(n, sizes);
                tiles = tiles.max(tiling.tiles(n));
                assert!(control >= least.max(control_words(tiles, GROUP_BITS) * size_of::<u32>()));
                least = control;
            }
        }
        let pairs = TileLimits::KERNEL.tiling([4, 4]);
        assert_eq!([1 << 20, (1 << 20) + 1].map(|n| pairs.items(n)), [FEW_SHORT, SHORT]);
        let longs = TileLimits::KERNEL.tiling([8, 0]);
        assert_eq!([1 << 19, (1 << 19) + 1].map(|n| longs.items(n)), [FEW_LONG, LONG]);
        assert_eq!(TileLimits::KERNEL.tiling([2, 0]).items(1), SHORT);
    }

    /// As for more keys than 30 bits count, with groups of two tiles.
    #[test]
    fn groups_of_tiles_follow_one_another() {
        for few_tiles in [0, FEW_TILES] {
            let limits = TileLimits { group_bits: 1, few_tiles, by_block: false };
            check(45_000, limits, |key| key as u32, |i| i as u32);
        }
    }
}
