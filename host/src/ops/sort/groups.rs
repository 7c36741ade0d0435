//! Sorts of a few long groups, all of them at once.

use cuda_std::launch::{DeviceRead, DeviceWrite};
use kernels_gpu::sort::NoValue;
use kernels_gpu::sort::groups::{GROUP_KEYS, Groups, MOST_GROUPS};
use kernels_gpu::sort::pass::{THREADS, words};

use super::keys::{KeyWord, SortWith};
use super::radix::{self, Buffers, RadixSort, Work};
use super::{SortKey, SortOptions, SortValue};
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceSliceMut;
use crate::ops::scratch::size_of_parts;
use crate::ops::{Scratch, same_len};
use crate::stream::AsStream;

/// Sorts each of some groups of `x: [n]` by itself into the same range of `out: [n]`. The groups follow one another, and have these
/// numbers of keys. Asynchronous.
///
/// This is for a few groups of many keys: eight of them are sorted in as many launches as a single one, in which the last blocks of one group run
/// beside the first blocks of the next. For many groups of few keys there is [`segmented_sort_into`](super::segmented_sort_into).
///
/// # Errors
/// As [`sort_into`](super::sort_into); [`InvalidArgument`](GpuError::InvalidArgument) if the groups have another number of keys in all.
pub fn sort_groups_into<K: SortKey>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    lens: &[usize],
    out: &mut impl DeviceWrite<K>,
    options: SortOptions,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sort = RadixSort::new::<K>(x.len(), options)?;
    same_len("sorting groups", sort.n, out.len())?;
    let (work, [mut spare, _]) = parts(on, sort, lens, [size_of::<K>(), 0], scratch)?;
    let keys = Buffers::<K::Bits>::new(Some(x), out, &mut spare);
    run(on, sort, lens, keys, Buffers::<NoValue>::none(), work)
}

/// As [`sort_groups_into`], of the keys `keys: [n]` into `out_keys: [n]`, and of their values `values: [n]` with them into
/// `out_values: [n]`. Asynchronous.
///
/// # Errors
/// As [`sort_groups_into`].
pub fn sort_pair_groups_into<K: SortKey, V: SortValue>(
    on: &impl AsStream,
    (keys, values): (&impl DeviceRead<K>, &impl DeviceRead<V>),
    lens: &[usize],
    (out_keys, out_values): (&mut impl DeviceWrite<K>, &mut impl DeviceWrite<V>),
    options: SortOptions,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sort = RadixSort::new::<K>(keys.len(), options)?;
    same_len("the values of a sort of groups", sort.n, values.len())?;
    same_len("sorting groups", sort.n, out_keys.len())?;
    same_len("the sorted values of groups", sort.n, out_values.len())?;
    let sizes = [size_of::<K>(), size_of::<V>()];
    let (work, [mut spare, mut spare_values]) = parts(on, sort, lens, sizes, scratch)?;
    let keys = Buffers::<K::Bits>::new(Some(keys), out_keys, &mut spare);
    match size_of::<V>() {
        4 => {
            let values = Buffers::<u32>::new(Some(values), out_values, &mut spare_values);
            run(on, sort, lens, keys, values, work)
        }
        _ => {
            let values = Buffers::<u64>::new(Some(values), out_values, &mut spare_values);
            run(on, sort, lens, keys, values, work)
        }
    }
}

/// The scratch of [`sort_groups_into`] for `n_elems` keys in `n_groups` groups, in bytes.
#[must_use]
pub fn group_scratch_bytes<K: SortKey>(n_elems: usize, n_groups: usize) -> usize {
    size_of_parts(&part_bytes(n_elems, n_groups, [size_of::<K>(), 0]))
}

/// The scratch of [`sort_pair_groups_into`] for `n_elems` pairs in `n_groups` groups, in bytes.
#[must_use]
pub fn pair_group_scratch_bytes<K: SortKey, V: SortValue>(
    n_elems: usize,
    n_groups: usize,
) -> usize {
    size_of_parts(&part_bytes(n_elems, n_groups, [size_of::<K>(), size_of::<V>()]))
}

/// Bytes of the control words, of the spare keys and of the spare values: enough for the groups together, and for each of them by itself.
fn part_bytes(n: usize, groups: usize, sizes: [usize; 2]) -> [usize; 3] {
    let [alone, spare, spare_values] = radix::pair_part_bytes(n, sizes);
    // Each group may have a tile that is not full. Tiles of few keys, of which a group alone may have some, are no fewer.
    let items = radix::fewest_items(sizes);
    let tiles = n.div_ceil(THREADS * items) + groups;
    let together = words(tiles, groups.min(MOST_GROUPS)) * size_of::<u32>();
    [alone.max(together), spare, spare_values]
}

fn parts<'a>(
    on: &impl AsStream,
    sort: RadixSort,
    lens: &[usize],
    sizes: [usize; 2],
    scratch: &'a mut Scratch,
) -> GpuResult<(Work<'a>, [DeviceSliceMut<'a, u8>; 2])> {
    if lens.iter().sum::<usize>() != sort.n {
        let reason = format!("groups of {} keys in all, of {}", lens.iter().sum::<usize>(), sort.n);
        return Err(GpuError::InvalidArgument { operation: "sorting groups", reason });
    }
    let bytes = part_bytes(sort.n, lens.len(), sizes);
    let (bounds, [control, spare, spare_values]) = scratch.bounds_and_parts(on, bytes)?;
    Ok((Work { bounds, control }, [spare, spare_values]))
}

/// Enqueues the sort: as many groups at once as the kernels take, and by itself a group that is too long for them, or of keys that they
/// do not take.
fn run<W: KeyWord + SortWith<V>, V>(
    on: &impl AsStream,
    sort: RadixSort,
    lens: &[usize],
    keys: Buffers<'_, W>,
    values: Buffers<'_, V>,
    mut work: Work<'_>,
) -> GpuResult<()> {
    let (stream, items) = (on.as_stream(), <W as SortWith<V>>::GROUP_ITEMS);
    let (mut next, mut first) = (0, 0);
    while next < lens.len() {
        let at_once = |len: &&usize| items.is_some() && **len < GROUP_KEYS;
        let count = lens[next..].iter().take(MOST_GROUPS).take_while(at_once).count();
        let own = &lens[next..next + count.max(1)];
        let n = own.iter().sum::<usize>();
        let range = first..first + n;
        // SAFETY: the other groups' memory is not this one's, and the spare memory is used by one after the other.
        let (mut own_keys, mut own_values) =
            unsafe { (keys.part(range.clone()), values.part(range)) };
        match items {
            Some(items) if count > 0 && n > 0 => {
                let groups = Groups::new(own, THREADS * items);
                let words = words(groups.tiles() as usize, count);
                let mut control = work.control.slice_mut(..words * size_of::<u32>()).into_cast()?;
                control.clear()?;
                let sort = sort.of(n);
                // SAFETY: the control words are 0 and enough; the groups are those of the keys, and the bits the key's.
                unsafe {
                    W::groups(stream, &sort, groups, &mut own_keys, &mut own_values, &mut control)?;
                }
            }
            _ => {
                let work =
                    Work { bounds: work.bounds.slice_mut(..), control: work.control.slice_mut(..) };
                radix::run(on, sort.of(n), own_keys, own_values, work)?;
            }
        }
        (next, first) = (next + own.len(), first + n);
    }
    Ok(())
}
