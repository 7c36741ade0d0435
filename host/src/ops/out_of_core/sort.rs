//! Sorts of host arrays.

use bytemuck::{Pod, cast_slice};
use cuda_driver::pageable_on_purpose;
use kernels_gpu::sort::Word;

use super::OutOfCore;
use super::cuts::Cuts;
use super::tiles::{LANES, Lane, lanes, tile_len};
use crate::error::{GpuContext, GpuResult};
use crate::memory::HostScope;
use crate::ops::sort::{self, SortKey, SortOptions};
use crate::ops::{Scratch, same_len};

/// Runs, where memory suffices for fewer: more would be shorter copies, fewer a longer wait for the first and the last one.
const RUNS: usize = 64;
/// The fewest bytes of a run, where memory suffices.
const LEAST_RUN_BYTES: usize = 64 << 20;

/// Bytes of device memory that `n_lanes` tiles of `len` keys take.
fn bytes<K: SortKey>(n_lanes: usize, len: usize) -> usize {
    n_lanes * len * size_of::<K>() + Scratch::bytes_of(sort::scratch_bytes::<K>(len))
}

/// Tiles of keys, of which each is sorted.
struct Sorter<K: Pod> {
    lanes: Vec<Lane<K>>,
    scratch: Scratch,
    options: SortOptions,
}

/// What becomes of a tile: keys that are gathered from parts of the host's memory, and where they go.
struct Job<'env, K> {
    parts: Vec<&'env [K]>,
    target: &'env mut [K],
}

impl<K: SortKey> Sorter<K> {
    /// Sorts the keys of each job. A tile is copied back when its place is taken by another one, so that pageable memory, for
    /// which the host waits, lets the device sort meanwhile.
    fn run<'scope, 'env>(
        &mut self,
        scope: &'scope HostScope<'scope, 'env>,
        jobs: impl Iterator<Item = Job<'env, K>>,
    ) -> GpuResult<()> {
        let mut sorted: Vec<Option<&'env mut [K]>> = self.lanes.iter().map(|_| None).collect();
        let (mut next, n) = (0, self.lanes.len());
        for Job { parts, target } in jobs {
            self.download(scope, next, sorted[next].take())?;
            let Lane { stream, input } = &mut self.lanes[next];
            let mut end = 0;
            for part in parts.into_iter().filter(|part| !part.is_empty()) {
                let mut keys = input.slice_mut(end..end + part.len());
                pageable_on_purpose(|| scope.upload(stream, part, &mut keys))?;
                end += part.len();
            }
            let mut keys = input.slice_mut(..end);
            sort::sort_in_place(stream, &mut keys, self.options, &mut self.scratch)?;
            sorted[next] = Some(target);
            next = (next + 1) % n;
        }
        (0..n)
            .map(|k| (next + k) % n)
            .try_for_each(|at| self.download(scope, at, sorted[at].take()))
    }

    fn download<'scope, 'env>(
        &self,
        scope: &'scope HostScope<'scope, 'env>,
        lane: usize,
        target: Option<&'env mut [K]>,
    ) -> GpuResult<()> {
        let Some(target) = target else { return Ok(()) };
        let Lane { stream, input } = &self.lanes[lane];
        let keys = input.slice(..target.len());
        pageable_on_purpose(|| scope.download(stream, &keys, target))
    }
}

impl OutOfCore {
    /// Sorts the keys `x: [n]`. The sort is stable, and floats are in their total order, as in [`sort`].
    /// `spare: [n]` is as much memory of the host, whose content is lost.
    ///
    /// Where the budget suffices for all keys, they are sorted on the device. Else there are two passes, in each of which every key
    /// goes to the device and back: tiles of `x` become sorted runs in `spare`; then each tile of the result is gathered from all
    /// runs, which are cut so that its keys are exactly the next ones, and is sorted. Equal or skewed keys take no more time than
    /// others.
    ///
    /// A part that is gathered has about `tile² / n` keys, and should have 64 KiB or more, or the bus is slowed down by the number of
    /// copies. A tile takes about a quarter of the budget.
    ///
    /// After an error no key is lost: in the first pass `x` is only read, and in the second one `spare` has all keys, as runs. The
    /// error's text says which pass it was.
    ///
    /// # Errors
    /// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `spare` has another length than `x`;
    /// [`InvalidArgument`](crate::GpuError::InvalidArgument) for a budget that is too small, with the least one, or for bits that
    /// the key has not; errors of the driver.
    #[doc(alias = "external sort")]
    pub fn sort_in_place<K: SortKey>(
        &self,
        x: &mut [K],
        spare: &mut [K],
        options: SortOptions,
    ) -> GpuResult<()> {
        same_len("the spare memory of a sort", x.len(), spare.len())?;
        options.rule::<K>()?;
        let (n, budget) = (x.len(), self.budget()?);
        if n == 0 {
            return Ok(());
        }
        if bytes::<K>(1, n) <= budget {
            return self.sort_on_device(x, options);
        }
        let most = n.div_ceil(RUNS).max(LEAST_RUN_BYTES / size_of::<K>()).min(n);
        let tile = tile_len(budget, most, |len| bytes::<K>(LANES, len))?;
        let mut sorter = self.sorter(LANES, tile, options)?;
        self.make_runs(&mut sorter, x, spare, tile)
            .gpu_context("the first pass of a sort, which leaves the keys as they were")?;
        self.join_runs(&mut sorter, spare, x, tile)
            .gpu_context("the second pass of a sort, which leaves all keys in the spare memory")
    }

    fn sorter<K: SortKey>(
        &self,
        n_lanes: usize,
        tile: usize,
        options: SortOptions,
    ) -> GpuResult<Sorter<K>> {
        let mut scratch = Scratch::new(&self.gpu)?;
        scratch.reserve(&self.gpu, sort::scratch_bytes::<K>(tile))?;
        Ok(Sorter { lanes: lanes(&self.gpu, n_lanes, tile)?, scratch, options })
    }

    /// All keys at once.
    fn sort_on_device<K: SortKey>(&self, x: &mut [K], options: SortOptions) -> GpuResult<()> {
        let mut sorter = self.sorter::<K>(1, x.len(), options)?;
        let Lane { stream, input } = &mut sorter.lanes[0];
        input.copy_from_host(x)?;
        sort::sort_in_place(stream, input, options, &mut sorter.scratch)?;
        input.copy_to_host(x)
    }

    /// Tiles of `x` become sorted runs.
    fn make_runs<K: SortKey>(
        &self,
        sorter: &mut Sorter<K>,
        x: &[K],
        runs: &mut [K],
        tile: usize,
    ) -> GpuResult<()> {
        let jobs = x.chunks(tile).zip(runs.chunks_mut(tile));
        let jobs = jobs.map(|(part, target)| Job { parts: vec![part], target });
        self.gpu.host_scope(|scope| sorter.run(scope, jobs))
    }

    /// Tiles of the result are gathered from the runs.
    fn join_runs<K: SortKey>(
        &self,
        sorter: &mut Sorter<K>,
        runs: &[K],
        out: &mut [K],
        tile: usize,
    ) -> GpuResult<()> {
        let (order, (begin, end)) = sorter.options.rule::<K>()?;
        let last = u64::MAX >> (u64::BITS - (end - begin));
        let key = move |word: K::Bits| word.ordered(order).word() >> begin & last;
        let runs: Vec<&[K]> = runs.chunks(tile).collect();
        let mut cuts = Cuts::new(runs.iter().map(|run| cast_slice(run)).collect(), last, key);
        let jobs = out.chunks_mut(tile).map(|target| {
            let parts = runs.iter().zip(cuts.next(target.len()));
            Job { parts: parts.map(|(run, part)| &run[part]).collect(), target }
        });
        self.gpu.host_scope(|scope| sorter.run(scope, jobs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gpu;

    #[test]
    fn the_memory_of_a_sort_is_within_its_budget() {
        let gpu = Gpu::new().unwrap();
        for budget in [1 << 17, 300_000, 1 << 20] {
            let tiles = OutOfCore::new(&gpu).with_budget(budget);
            let tile = tile_len(budget, 1 << 20, |len| bytes::<u64>(LANES, len)).unwrap();
            let sorter = tiles.sorter::<u64>(LANES, tile, SortOptions::ASCENDING).unwrap();
            let of_lanes: usize = sorter.lanes.iter().map(|lane| lane.input.size_bytes()).sum();
            let all = of_lanes + sorter.scratch.size_bytes();
            assert!(all <= budget && all + 3 * 300 * 8 * 2 > budget, "{all} of {budget} bytes");
        }
    }
}
