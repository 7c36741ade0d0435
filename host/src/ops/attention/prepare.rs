//! From views to what kernels take: sizes checked once, the kernel chosen, and tensor maps.

use std::fmt;

use bytemuck::Pod;
use cuda_std::grid_constant::MapWords;
use kernels_gpu::attention::batch::Slots;
use kernels_gpu::attention::form::{self, Arguments};
use kernels_gpu::attention::hopper::{self, Half};
use kernels_gpu::attention::output::elements_of_part;
use kernels_gpu::attention::{
    PACKED_KEYS, PACKED_QUERIES, Problem, RowStrides, Schedule, Score, lists, warps,
};

use super::maps::{HALF_BYTES, Mapped, is_addressed, map_of_queries, map_of_rows};
use super::{Heads, HeadsLayout, HeadsMut, OPERATION, Options, len_of};
use crate::device::DeviceInfo;
use crate::error::{GpuError, GpuResult};
use crate::ops::same_len;
use crate::ops::scratch::COUNTERS;
use crate::stream::Stream;

/// Sizes are below this: kernels count in 32 bits, of which one is a sign for the copy engine.
const SIZE_LIMIT: usize = 1 << 31;
/// What keys and values of the heads that are taken together may have, in bytes: half of the L2 cache of an H200.
const GROUP_BYTES: u64 = 24 << 20;
/// Blocks of keys that a split has at least, where keys are divided.
const LEAST_BLOCKS: u32 = 4;
/// Splits of a row at most.
const MOST_SPLITS: u32 = 64;

pub(super) fn wrong(reason: String) -> GpuError {
    GpuError::InvalidArgument { operation: OPERATION, reason }
}

/// The device, as far as the choice of a kernel goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub multiprocessors: u32,
    pub has_warpgroups: bool,
}

impl Machine {
    pub const fn of(info: &DeviceInfo) -> Self {
        // `wgmma` is an instruction of one architecture.
        let has_warpgroups = matches!(info.compute_capability, (9, 0));
        Self { multiprocessors: info.multiprocessors, has_warpgroups }
    }
}

/// A kernel of attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Warpgroups, and the copy engine: tiles of 128 rows, or of 192 where these have 64 elements, on Hopper.
    Hopper,
    /// Warps: tiles of 64 rows.
    Warps,
    /// Warps that divide the keys of 16 rows.
    FewRows,
}

/// A kernel, and how it divides the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    #[allow(missing_docs)]
    pub kernel: Kernel,
    /// Elements to which rows are filled up.
    pub depth: usize,
    /// Heads that are rows of one.
    pub packed_heads: u32,
    /// Blocks among which the keys of a row are divided.
    pub splits: u32,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kernel = match self.kernel {
            Kernel::Hopper => "by TMA and wgmma",
            Kernel::Warps => "by cp.async and mma",
            Kernel::FewRows => "by cp.async and mma, keys divided among warps",
        };
        let rows = form::rows_of_tile(self.form());
        write!(f, "tiles of {rows} rows {kernel}, rows of {} elements", self.depth)?;
        if self.packed_heads > 1 {
            write!(f, ", {} heads in the rows of a tile", self.packed_heads)?;
        }
        if self.splits > 1 {
            write!(f, ", keys divided among {} blocks", self.splits)?;
        }
        Ok(())
    }
}

impl Choice {
    const fn form(&self) -> usize {
        self.depth
            + match self.kernel {
                Kernel::Hopper => form::HOPPER,
                Kernel::Warps => form::WARPS,
                Kernel::FewRows => form::FEW,
            }
    }
}

/// Attention whose sizes fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prepared {
    pub problem: Problem,
    /// Where queries, keys and values begin.
    addresses: [u64; 3],
    /// Elements to which rows are filled up.
    depth: usize,
    /// Whether heads may be rows of one: not where weights are dropped, of queries that are eight rows apart.
    has_packs: bool,
}

impl Prepared {
    /// Checks everything that does not depend on the device.
    pub fn new<T: Half, C: Score>(
        q: &Heads<'_, T>,
        k: &Heads<'_, T>,
        v: &Heads<'_, T>,
        o: &HeadsMut<'_, T>,
        options: &Options<'_, C>,
    ) -> GpuResult<Self> {
        let layouts = [q.layout(), k.layout(), v.layout(), o.layout()];
        let problem = problem_of(layouts, options)?;
        if let Some(lse) = &options.set.lse {
            same_len(OPERATION, problem.all_queries(), lse.len())?;
        }
        check_apart("results", o, [("queries", q), ("keys", k), ("values", v)])?;
        let depth = depth_of(&problem, &form::DEPTHS)?;
        let addresses = [q.address(), k.address(), v.address()];
        Ok(Self { problem, addresses, depth, has_packs: !C::DROPS })
    }

    /// The kernel for this device, or the one that is asked for.
    pub fn choice(&self, machine: &Machine, asked: Option<Kernel>) -> GpuResult<Choice> {
        let Problem { heads, kv_heads, .. } = self.problem;
        let queries = queries_of_batch(&self.problem);
        let group = heads / kv_heads.max(1);
        // Heads that are rows of one: a power of two, which divides those that share keys and these rows, with at most this many rows.
        let packed = |rows: usize| {
            let most = if self.has_packs { (rows as u32 / queries.max(1)).max(1) } else { 1 };
            (1 << group.trailing_zeros()).min(1 << most.ilog2()).min(1 << rows.trailing_zeros())
        };
        let few = packed(warps::ROWS_OF_WARP);
        let has_few = queries as usize * few as usize <= warps::ROWS_OF_WARP;
        let best = match asked {
            Some(kernel) => kernel,
            None if machine.has_warpgroups && self.is_addressed() => Kernel::Hopper,
            None if has_few => Kernel::FewRows,
            None => Kernel::Warps,
        };
        let refusal = match best {
            Kernel::Hopper if !machine.has_warpgroups => Some("this device has no `wgmma`"),
            Kernel::Hopper if !self.is_addressed() => Some(
                "the copy engine takes rows, heads and batches (or pages) at multiples of 16 bytes, at least one key, and pages of at least eight",
            ),
            Kernel::FewRows if !has_few => {
                Some("queries times heads that share keys are more than 16")
            }
            _ => None,
        };
        if let Some(refusal) = refusal {
            return Err(wrong(format!("{best:?} is not a kernel for this: {refusal}")));
        }
        let packed_heads = match best {
            Kernel::Hopper => packed(hopper::rows_of_tile(self.depth)),
            Kernel::Warps => packed(warps::rows_of_tile(false)),
            Kernel::FewRows => few,
        };
        let choice = Choice { kernel: best, depth: self.depth, packed_heads, splits: 1 };
        Ok(Choice { splits: self.splits(machine, &choice), ..choice })
    }

    /// Blocks among which keys are divided, so that the device is full.
    fn splits(&self, machine: &Machine, choice: &Choice) -> u32 {
        let at_once = match choice.kernel {
            Kernel::Hopper => 1,
            Kernel::Warps => 2,
            // So that blocks which begin later even out those that end early.
            Kernel::FewRows => 8,
        };
        let (rows, keys) =
            (form::rows_of_tile(choice.form()), form::keys_of_block(choice.form()) as u32);
        splits_of(&self.problem, machine, at_once, (rows, keys), choice.packed_heads)
    }

    /// Whether the copy engine addresses queries, keys and values.
    fn is_addressed(&self) -> bool {
        let Problem { heads, queries, q, k, v, pages, page, .. } = self.problem;
        let batches = self.problem.batches_of_queries();
        let of_keys = self.extents_of_keys();
        // Rows are exchanged in shared memory by eights: a box of fewer would begin within one.
        let has_eights = pages == 0 || page >= 3;
        has_eights
            && of_keys.iter().all(|extent| *extent > 0)
            && batches > 0
            && is_addressed(self.addresses[0], HALF_BYTES, q, [batches, heads, queries])
            && is_addressed(self.addresses[1], HALF_BYTES, k, of_keys)
            && is_addressed(self.addresses[2], HALF_BYTES, v, of_keys)
    }

    /// Batches (or pages), heads and rows of keys and values.
    const fn extents_of_keys(&self) -> [u32; 3] {
        let Problem { kv_heads, keys, pages, page, page_count, .. } = self.problem;
        let batches = self.problem.batches_of_keys();
        if pages == 0 { [batches, kv_heads, keys] } else { [page_count, kv_heads, 1 << page] }
    }

    /// The bytes of the partial results.
    pub const fn parts_bytes(&self, choice: &Choice) -> usize {
        bytes_of_parts(&self.problem, choice.splits)
    }

    /// What the kernel is launched with.
    pub fn arguments(
        &self,
        stream: &Stream,
        machine: &Machine,
        choice: &Choice,
    ) -> GpuResult<Arguments> {
        let problem =
            Problem { pack: choice.packed_heads.ilog2(), splits: choice.splits, ..self.problem };
        let form = choice.form();
        let of_tile = form::rows_of_tile(form) as u32;
        let (schedule, len) = schedule_of(&problem, of_tile, HALF_BYTES)?;
        let (blocks, maps) = match choice.kernel {
            Kernel::Hopper => (len.min(machine.multiprocessors), self.maps(stream, &problem)?),
            _ => (len, Default::default()),
        };
        Ok(Arguments { form, blocks, maps, schedule, problem })
    }

    /// The problem with the packed heads of a choice, and the form of lists for each head of each batch.
    pub fn listed<C>(
        &self,
        choice: &Choice,
        options: &Options<'_, C>,
    ) -> GpuResult<(Problem, lists::Form)> {
        let problem = Problem { pack: choice.packed_heads.ilog2(), ..self.problem };
        if options.set.lengths.is_some() || problem.pages > 0 || problem.packed != 0 {
            let reason = "lists of blocks are for batches of one length, whose rows are neither packed nor in pages";
            return Err(wrong(reason.into()));
        }
        let rows = form::rows_of_tile(choice.form()) as u32;
        let keys = form::keys_of_block(choice.form()) as u32;
        let lists = lists::Form {
            batches: problem.batches,
            heads: problem.packed_heads(),
            tiles: (problem.queries << problem.pack).div_ceil(rows),
            blocks: problem.keys.div_ceil(keys),
            rows,
            keys,
        };
        Ok((problem, lists))
    }

    /// The maps of queries, keys and values.
    fn maps(&self, stream: &Stream, problem: &Problem) -> GpuResult<[MapWords; 3]> {
        let rows = hopper::rows_of_tile(self.depth) as u32;
        let q = map_of_queries(stream, (self.addresses[0], HALF_BYTES), problem, rows)?;
        let of_block = hopper::keys_of_block(self.depth) as u32;
        let of_box = match self.problem.pages {
            0 => of_block,
            _ => hopper::rows_of_box(of_block, self.problem.page),
        };
        let of_keys = |address, depth, strides: RowStrides| {
            let extents = self.extents_of_keys();
            let address = (address, HALF_BYTES);
            let mapped = Mapped::new(address, strides, extents, problem.has_packed_keys());
            map_of_rows(stream, mapped, depth, of_box)
        };
        let k = of_keys(self.addresses[1], problem.depth, problem.k)?;
        let v = of_keys(self.addresses[2], problem.value_depth, problem.v)?;
        Ok([q, k, v])
    }
}

/// Queries of a batch; the mean of packed ones, whose numbers the device alone knows.
const fn queries_of_batch(problem: &Problem) -> u32 {
    let Problem { batches, queries, .. } = *problem;
    if problem.has_packed_queries() && batches > 0 { queries.div_ceil(batches) } else { queries }
}

/// Blocks among which keys are divided, so that a device is full that runs `at_once` blocks a multiprocessor: tiles of `rows` rows, and blocks of `keys` keys.
pub(super) fn splits_of(
    problem: &Problem,
    machine: &Machine,
    at_once: u64,
    (rows_of_tile, keys_of_block): (usize, u32),
    packed_heads: u32,
) -> u32 {
    let Problem { batches, heads, keys, .. } = *problem;
    let rows = u64::from(queries_of_batch(problem)) * u64::from(packed_heads);
    let tiles =
        rows.div_ceil(rows_of_tile as u64) * u64::from(batches) * u64::from(heads / packed_heads);
    let places = u64::from(machine.multiprocessors) * at_once;
    let packed = Problem { pack: packed_heads.ilog2(), ..*problem };
    // Blocks count the splits of each tile; the first counter is that of the tiles that they take.
    if all_tiles(&packed, rows_of_tile as u32) >= COUNTERS as u64 {
        return 1;
    }
    let most = (keys.div_ceil(keys_of_block) / LEAST_BLOCKS).clamp(1, MOST_SPLITS);
    ((places / tiles.max(1)).max(1) as u32).min(most)
}

/// Tiles of a packed head, of `of_tile` rows each; of packed queries the slots for those of all batches.
fn tiles_of(problem: &Problem, of_tile: u32) -> u32 {
    if problem.has_packed_queries() {
        Slots::len(problem.queries, of_tile >> problem.pack, problem.batches)
    } else {
        (problem.queries << problem.pack).div_ceil(of_tile)
    }
}

/// Tiles of all heads and batches.
fn all_tiles(problem: &Problem, of_tile: u32) -> u64 {
    u64::from(tiles_of(problem, of_tile))
        * u64::from(problem.packed_heads())
        * u64::from(problem.batches_of_queries())
}

/// The tiles of a launch, of `of_tile` rows each, and their number times the splits, to which kernels count.
pub(super) fn schedule_of(
    problem: &Problem,
    of_tile: u32,
    element_bytes: u64,
) -> GpuResult<(Schedule, u32)> {
    let of_heads = problem.packed_heads() / problem.kv_heads;
    let of_key = element_bytes * u64::from(problem.depth + problem.value_depth);
    let keys = match problem.has_packed_keys() {
        true => problem.keys.div_ceil(problem.batches.max(1)),
        false => problem.keys,
    };
    let of_head = (u64::from(keys) * of_key).max(1);
    // No more than there are: kernels multiply them by their tiles.
    let all_heads = (problem.packed_heads() * problem.batches_of_queries()).max(1);
    let group = (GROUP_BYTES / of_head).clamp(1, 1 << 16) as u32 * of_heads.max(1);
    let group = group.min(all_heads);
    let len = all_tiles(problem, of_tile) * u64::from(problem.splits);
    match u32::try_from(len) {
        Ok(len) if (len as usize) < SIZE_LIMIT => {
            Ok((Schedule { tiles: tiles_of(problem, of_tile), group }, len))
        }
        _ => Err(wrong(format!("{len} tiles are more than a launch has"))),
    }
}

/// The bytes of the partial results of a problem whose keys are divided.
pub(super) const fn bytes_of_parts(problem: &Problem, splits: u32) -> usize {
    if splits == 1 {
        return 0;
    }
    let of_query = (elements_of_part(problem.value_depth as usize) + 1) * size_of::<f32>();
    splits as usize * problem.all_queries() * of_query
}

/// The sizes and strides of queries, keys, values and results that fit.
pub(super) fn problem_of<C>(
    [q, k, v, o]: [HeadsLayout; 4],
    options: &Options<'_, C>,
) -> GpuResult<Problem> {
    let is_paged = options.set.pages.is_some();
    let (batches, packed) = batches_of(&q, &k, options)?;
    let keys = keys_of(batches, &k, options)?;
    check_sizes(&q, &k, &v, &o)?;
    if packed & PACKED_KEYS == 0 && !is_paged && k.batches != batches {
        return Err(match packed {
            0 => wrong(format!("queries are {q}, and keys {k}")),
            _ => wrong(format!("the offsets are of {batches} batches, and keys {k}")),
        });
    }
    let scale = options.set.scale.unwrap_or(1.0 / (q.depth as f32).sqrt());
    // Rows without elements are refused by their depth.
    if !(scale.is_finite() && scale > 0.0) && q.depth > 0 {
        return Err(wrong(format!("a scale is positive and finite, and this one is {scale}")));
    }
    if let Some(found) = len_of(options.set.lengths.as_ref()) {
        same_len(OPERATION, batches, found)?;
    }
    Ok(Problem {
        batches: batches as u32,
        heads: q.heads as u32,
        kv_heads: k.heads as u32,
        pack: 0,
        queries: q.rows as u32,
        keys: keys as u32,
        depth: q.depth as u32,
        value_depth: v.depth as u32,
        scale,
        splits: 1,
        pages: if is_paged { (keys / k.rows.max(1)) as u32 } else { 0 },
        page: k.rows.max(1).trailing_zeros(),
        page_count: k.batches as u32,
        packed,
        q: q.strides(),
        k: k.strides(),
        v: v.strides(),
        o: o.strides(),
    })
}

/// The elements to which rows are filled up: one of `depths`, ascending.
pub(super) fn depth_of(problem: &Problem, depths: &[usize]) -> GpuResult<usize> {
    let (of_q, of_v) = (problem.depth as usize, problem.value_depth as usize);
    let depth = depths.iter().copied().find(|depth| of_q.max(of_v) <= *depth);
    depth.filter(|_| of_q.min(of_v) > 0).ok_or_else(|| {
        wrong(format!(
            "rows of queries and keys have {of_q} elements, those of values {of_v}; there are kernels for rows of 1 to {} elements, which are filled up to one of {depths:?}",
            depths[depths.len() - 1],
        ))
    })
}

/// Refuses an output whose memory is that of an input.
pub(super) fn check_apart<'a, 'm: 'a, T: Half, U: Pod>(
    name: &str,
    output: &HeadsMut<'_, T>,
    inputs: impl IntoIterator<Item = (&'static str, &'a Heads<'m, U>)>,
) -> GpuResult<()> {
    match inputs.into_iter().find(|(_, input)| output.overlaps(input)) {
        Some((of, _)) => Err(wrong(format!("the memory of the {name} overlaps that of the {of}"))),
        None => Ok(()),
    }
}

/// The number of batches, and which tensors are packed.
fn batches_of<C>(
    q: &HeadsLayout,
    k: &HeadsLayout,
    options: &Options<'_, C>,
) -> GpuResult<(usize, u32)> {
    let of_queries = len_of(options.set.query_offsets.as_ref());
    let of_keys = len_of(options.set.key_offsets.as_ref());
    let tensors = [("queries", of_queries, q), ("keys", of_keys, k)];
    for (name, offsets, layout) in tensors {
        match offsets {
            Some(0) => {
                return Err(wrong(format!(
                    "no offsets of {name}: there is one more than there are batches"
                )));
            }
            Some(_) if layout.batches != 1 => {
                return Err(wrong(format!(
                    "packed {name} are rows of one batch, and these are {layout}"
                )));
            }
            _ => {}
        }
    }
    if of_keys.is_some() && options.set.pages.is_some() {
        return Err(wrong("keys in pages are found by their table, and have no offsets".into()));
    }
    let batches = of_queries.map_or(q.batches, |offsets| offsets - 1);
    if batches >= SIZE_LIMIT {
        return Err(wrong(format!("a size of {batches}: kernels count to 2^31")));
    }
    if let Some(found) = of_keys {
        same_len(OPERATION, batches + 1, found)?;
    }
    let packed = [(of_queries, PACKED_QUERIES), (of_keys, PACKED_KEYS)];
    let packed = packed.into_iter().filter(|(offsets, _)| offsets.is_some());
    Ok((batches, packed.map(|(_, flag)| flag).sum()))
}

/// The keys of a batch, or the most that it may have.
fn keys_of<C>(batches: usize, of_k: &HeadsLayout, options: &Options<'_, C>) -> GpuResult<usize> {
    let Some(table) = len_of(options.set.pages.as_ref()) else { return Ok(of_k.rows) };
    if options.set.lengths.is_none() {
        return Err(wrong(
            "keys in pages need the lengths of the batches, `Options::lengths`".into(),
        ));
    }
    if !of_k.rows.is_power_of_two() {
        return Err(wrong(format!(
            "a page has a power of two of keys, and these have {}",
            of_k.rows
        )));
    }
    let batches = batches.max(1);
    if !table.is_multiple_of(batches) {
        let reason =
            format!("a table of {table} pages is not as long for each of {batches} batches");
        return Err(wrong(reason));
    }
    Ok((table / batches).saturating_mul(of_k.rows))
}

/// Refuses sizes that do not fit.
fn check_sizes(
    q: &HeadsLayout,
    k: &HeadsLayout,
    v: &HeadsLayout,
    o: &HeadsLayout,
) -> GpuResult<()> {
    let shared = |layout: &HeadsLayout| [layout.batches, layout.heads, layout.rows];
    if shared(k) != shared(v) {
        return Err(wrong(format!("keys are {k}, and values {v}")));
    }
    if k.depth != q.depth {
        return Err(wrong(format!("queries are {q}, and keys {k}")));
    }
    if q.heads > 0 && (k.heads == 0 || !q.heads.is_multiple_of(k.heads)) {
        let reason =
            format!("{} heads of queries are no multiple of {} heads of keys", q.heads, k.heads);
        return Err(wrong(reason));
    }
    if shared(q) != shared(o) || o.depth != v.depth {
        return Err(wrong(format!("queries are {q}, values {v}, and results {o}")));
    }
    if !o.is_disjoint() {
        return Err(wrong(format!("elements of the results, {o}, overlap each other")));
    }
    let sizes =
        [q, k, v, o].map(|of| [of.batches, of.heads, of.rows, of.batches.saturating_mul(of.heads)]);
    match sizes.into_iter().flatten().find(|size| *size >= SIZE_LIMIT) {
        Some(size) => Err(wrong(format!("a size of {size}: kernels count to 2^31"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS_OF_TILE: u32 = 128;

    /// Blocks among which many keys are divided, on a device that runs twice as many blocks at once as a scratch has counters.
    fn splits(problem: Problem, packed_heads: u32) -> u32 {
        let problem = Problem { keys: 1 << 16, kv_heads: 1, ..problem };
        let machine = Machine { multiprocessors: 2 * COUNTERS as u32, has_warpgroups: true };
        splits_of(&problem, &machine, 1, (ROWS_OF_TILE as usize, 64), packed_heads)
    }

    /// Of the 2,048 counters the first one is that of the tiles that blocks take.
    #[test]
    fn keys_are_divided_only_where_each_tile_has_a_counter() {
        assert_eq!(COUNTERS, 2048);
        let of_one_head = |tiles: u32| {
            let queries = tiles * ROWS_OF_TILE;
            splits(Problem { batches: 1, heads: 1, queries, ..Problem::default() }, 1)
        };
        assert_eq!([1, 1024, 2046, 2047, 2048, 2049].map(of_one_head), [64, 4, 2, 2, 1, 1]);
        // A tile that is not full is one, too.
        let of_heads = |batches, heads| {
            splits(Problem { batches, heads, queries: 1, ..Problem::default() }, 1)
        };
        assert_eq!([of_heads(23, 89), of_heads(32, 64)], [2, 1]);
        let of_packed_heads = |tiles: u32| {
            let queries = tiles * ROWS_OF_TILE / 4;
            splits(Problem { batches: 1, heads: 4, queries, ..Problem::default() }, 4)
        };
        assert_eq!([2047, 2048].map(of_packed_heads), [2, 1]);
        // Batches of lengths that only the device knows may have a tile more each.
        let of_lengths = |tiles: u32| {
            let (queries, packed) = ((tiles - 2) * ROWS_OF_TILE, PACKED_QUERIES);
            splits(Problem { batches: 2, heads: 1, queries, packed, ..Problem::default() }, 1)
        };
        assert_eq!([2047, 2048].map(of_lengths), [2, 1]);
    }
}
