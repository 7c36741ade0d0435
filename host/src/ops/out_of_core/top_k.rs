//! The top k of host arrays.

use std::ops::Range;

use bytemuck::cast_slice;
use kernels_gpu::sort::{Order, Word};

use super::OutOfCore;
use super::tiles::{LANES, Lane, MOST_TILE_BYTES, OnHost, OnePass, Tile, lanes, tile_len};
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceBuffer;
use crate::ops::Scratch;
use crate::ops::sort::{self, Extreme, SortKey};

/// A key as a word in order, and its index: the order of these is that of the result.
type Candidate<W> = (W, u64);

/// The first `k` of the candidates so far, and perhaps some more.
struct First<W> {
    k: usize,
    found: Vec<Candidate<W>>,
    /// None that is not before this one is among the first.
    bound: Option<Candidate<W>>,
}

impl<W: Word> First<W> {
    fn new(k: usize) -> Self {
        Self { k, found: Vec::new(), bound: None }
    }

    fn add(&mut self, candidate: Candidate<W>) {
        if self.bound.is_some_and(|bound| candidate >= bound) {
            return;
        }
        self.found.push(candidate);
        // As many again, so that the search for the last one is rare.
        if self.found.len() >= (2 * self.k).max(1024) {
            self.shorten();
        }
    }

    /// Forgets what is not among the first.
    fn shorten(&mut self) {
        if self.found.len() > self.k {
            self.found.select_nth_unstable(self.k - 1);
            self.found.truncate(self.k);
        }
        if self.found.len() == self.k {
            self.bound = self.found.iter().copied().max();
        }
    }

    fn into_sorted(mut self) -> Vec<Candidate<W>> {
        self.shorten();
        self.found.sort_unstable();
        self.found
    }
}

/// A search in tiles.
struct Search<K: SortKey> {
    which: Extreme,
    order: Order,
    scratch: Scratch,
    /// Keys and indices for each tile in flight.
    results: Vec<(DeviceBuffer<K>, DeviceBuffer<u32>)>,
    first: First<K::Bits>,
}

impl<K: SortKey> OnePass<K> for Search<K> {
    fn enqueue(&mut self, tile: &Tile<'_, K>) -> GpuResult<()> {
        let (keys, indices) = &mut self.results[tile.lane];
        let k = keys.len().min(tile.values.len());
        let out = (&mut keys.slice_mut(..k), &mut indices.slice_mut(..k));
        sort::top_k_into(tile.stream, &tile.values, out, self.which, &mut self.scratch)
    }

    fn collect(&mut self, lane: usize, place: Range<usize>) -> GpuResult<()> {
        let (keys, indices) = &self.results[lane];
        let k = keys.len().min(place.len());
        let (keys, indices) = (keys.slice(..k).to_vec()?, indices.slice(..k).to_vec()?);
        let words: &[K::Bits] = cast_slice(&keys);
        for (word, index) in words.iter().zip(indices) {
            self.first.add((word.ordered(self.order), (place.start + index as usize) as u64));
        }
        Ok(())
    }
}

/// Bytes of device memory that tiles of `len` keys take.
fn bytes<K: SortKey>(len: usize, k: usize) -> usize {
    let k = k.min(len);
    let lane = len * size_of::<K>() + k * (size_of::<K>() + size_of::<u32>());
    LANES * lane + Scratch::bytes_of(sort::top_k_scratch_bytes::<K>(len, k))
}

impl OutOfCore {
    /// The `k` largest or smallest of the keys `x: [n]`, in order, and the index of each in `x`. Of equal keys those that come first
    /// are taken, in their order.
    ///
    /// # Errors
    /// As [`sum`](Self::sum); [`InvalidArgument`](GpuError::InvalidArgument) for more keys than there are.
    pub fn top_k<K: SortKey>(
        &self,
        x: &[K],
        k: usize,
        which: Extreme,
    ) -> GpuResult<(Vec<K>, Vec<u64>)> {
        let n = x.len();
        if k > n {
            let reason = format!("{k} of {n} keys are more than there are");
            return Err(GpuError::InvalidArgument { operation: "finding the first keys", reason });
        }
        if k == 0 {
            return Ok((Vec::new(), Vec::new()));
        }
        let (order, _) = which.options().rule::<K>()?;
        let words: &[K::Bits] = cast_slice(x);
        let add = |own: &mut First<K::Bits>, place: Range<usize>| {
            for index in place {
                own.add((words[index].ordered(order), index as u64));
            }
        };
        let host = OnHost { start: &|| First::new(k), add: &add };
        let (mut search, mut lanes) = self.search::<K>(n, k, which, order)?;
        let parts = self.pass(x, &mut lanes, &mut search, Some(&host))?;
        let mut first = search.first;
        parts.into_iter().flat_map(|part| part.found).for_each(|one| first.add(one));
        let (words, indices): (Vec<_>, Vec<_>) = first.into_sorted().into_iter().unzip();
        let raw: Vec<K::Bits> = words.into_iter().map(|word: K::Bits| word.raw(order)).collect();
        Ok((cast_slice::<K::Bits, K>(&raw).to_vec(), indices))
    }

    /// A search with its memory.
    fn search<K: SortKey>(
        &self,
        n: usize,
        k: usize,
        which: Extreme,
        order: Order,
    ) -> GpuResult<(Search<K>, Vec<Lane<K>>)> {
        // A result is short beside its tile, unless it is most of the array.
        let most = (MOST_TILE_BYTES / size_of::<K>()).max(k.saturating_mul(16)).min(n);
        let tile = tile_len(self.budget()?, most, |len| bytes::<K>(len, k))?;
        let in_tile = k.min(tile);
        let mut scratch = Scratch::new(&self.gpu)?;
        scratch.reserve(&self.gpu, sort::top_k_scratch_bytes::<K>(tile, in_tile))?;
        let lanes = lanes::<K>(&self.gpu, LANES, tile)?;
        let result = |lane: &Lane<K>| {
            let keys = DeviceBuffer::zeroed(&lane.stream, in_tile)?;
            Ok((keys, DeviceBuffer::zeroed(&lane.stream, in_tile)?))
        };
        let results = lanes.iter().map(result).collect::<GpuResult<_>>()?;
        Ok((Search { which, order, scratch, results, first: First::new(k) }, lanes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_kept_in_whatever_order_they_come() {
        for k in [1, 2, 600, 5000] {
            let mut all: Vec<(u32, u64)> =
                (0..5000_u64).map(|i| ((i * 7919 % 100) as u32, i * 31 % 5000)).collect();
            let mut first = First::new(k);
            all.iter().for_each(|one| first.add(*one));
            all.sort_unstable();
            assert_eq!(first.into_sorted(), all[..k]);
        }
    }
}
