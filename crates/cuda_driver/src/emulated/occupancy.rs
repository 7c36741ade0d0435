//! How many blocks of a kernel a multiprocessor holds at once, by the rules of the emulated device.
#![allow(non_snake_case)]

use ::emulator::Function;

use super::attributes::{LARGEST_CLUSTER, PORTABLE_CLUSTER, RESERVED_SHARED_PER_BLOCK};
use super::current::current;
use super::function::named;
use super::kernel::Kernel;
use super::launch_attributes::{Attributes, check_size};
use super::residency::{SHARED_UNIT, resident_blocks};
use super::{check_flags, invalid};
use crate::abi::{CUfunction, CUlaunchConfig, CUoccupancyB2DSize, In, Out};
use crate::detail::Answer;

/// Use no more on-chip memory for caches than by default: it changes nothing here.
const DISABLE_CACHING_OVERRIDE: u32 = 1;

/// Threads of a block that may be, or an error.
fn threads(function: &Function, block_size: i32) -> Answer<u64> {
    let limit = function.max_threads_per_block;
    match u32::try_from(block_size) {
        Ok(threads) if threads > 0 => Ok(threads.into()),
        _ => Err(invalid(format!("a block of {block_size} threads; it may have 1 to {limit}"))),
    }
}

pub(crate) fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    n_blocks: Out<i32>,
    function: CUfunction,
    block_size: i32,
    shared_mem_bytes: usize,
) -> Answer {
    current()?;
    let kernel = named(function)?;
    let threads = threads(&kernel.entry, block_size)?;
    let fits = threads <= kernel.entry.max_threads_per_block.into()
        && shared_mem_bytes <= kernel.shared_limit() as usize;
    let profile = kernel.gpu.profile();
    let blocks = || resident_blocks(profile, &kernel.entry, threads, shared_mem_bytes as u64);
    n_blocks.set(if fits { blocks() as i32 } else { 0 })
}

pub(crate) fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    n_blocks: Out<i32>,
    function: CUfunction,
    block_size: i32,
    shared_mem_bytes: usize,
    flags: u32,
) -> Answer {
    check_flags(flags, DISABLE_CACHING_OVERRIDE)?;
    cuOccupancyMaxActiveBlocksPerMultiprocessor(n_blocks, function, block_size, shared_mem_bytes)
}

pub(crate) fn cuOccupancyAvailableDynamicSMemPerBlock(
    bytes: Out<usize>,
    function: CUfunction,
    n_blocks: i32,
    block_size: i32,
) -> Answer {
    current()?;
    let kernel = named(function)?;
    let all_lanes = threads(&kernel.entry, block_size)?.next_multiple_of(32) * blocks(n_blocks)?;
    let profile = kernel.gpu.profile();
    if all_lanes > profile.max_threads_per_multiprocessor.into() {
        return Err(invalid(format!(
            "{n_blocks} blocks of {block_size} threads do not fit a multiprocessor"
        )));
    }
    let share = u64::from(profile.shared_mem_per_multiprocessor) / blocks(n_blocks)?;
    let used = u64::from(RESERVED_SHARED_PER_BLOCK + kernel.entry.static_shared_bytes);
    let left = share.saturating_sub(used) / SHARED_UNIT * SHARED_UNIT;
    bytes.set(left.min(kernel.shared_limit().into()) as usize)
}

fn blocks(n_blocks: i32) -> Answer<u64> {
    match u64::try_from(n_blocks) {
        Ok(blocks) if blocks > 0 => Ok(blocks),
        _ => Err(invalid(format!("{n_blocks} blocks"))),
    }
}

pub(crate) fn cuOccupancyMaxPotentialBlockSize(
    min_grid_size: Out<i32>,
    block_size: Out<i32>,
    function: CUfunction,
    shared_mem_of: CUoccupancyB2DSize,
    shared_mem_bytes: usize,
    block_size_limit: i32,
) -> Answer {
    current()?;
    let kernel = named(function)?;
    let profile = kernel.gpu.profile();
    let limit = match block_size_limit {
        ..=0 => kernel.entry.max_threads_per_block,
        limit => limit.unsigned_abs().min(kernel.entry.max_threads_per_block),
    };
    let shared = |threads: u32| match shared_mem_of {
        // SAFETY: the program handed the function in to be called with block sizes.
        Some(function) => unsafe { function(threads as i32) },
        None => shared_mem_bytes,
    };
    let resident = |threads: u32| match shared(threads) {
        shared if shared > kernel.shared_limit() as usize => 0,
        shared => resident_blocks(profile, &kernel.entry, threads.into(), shared as u64),
    };
    // The largest block of those that keep the most threads resident.
    let best = sizes(limit, profile.warp_size)
        .map(|threads| (resident(threads) * u64::from(threads), threads))
        .max()
        .filter(|(resident, _)| *resident > 0)
        .ok_or_else(|| invalid("no block of this kernel fits a multiprocessor"))?;
    let blocks = best.0 / u64::from(best.1) * u64::from(profile.multiprocessors);
    min_grid_size.set(blocks as i32)?;
    block_size.set(best.1 as i32)
}

/// Whole warps up to the limit, and the limit itself.
fn sizes(limit: u32, warp_size: u32) -> impl Iterator<Item = u32> {
    (1..=limit / warp_size).map(move |warps| warps * warp_size).chain([limit])
}

pub(crate) fn cuOccupancyMaxPotentialBlockSizeWithFlags(
    min_grid_size: Out<i32>,
    block_size: Out<i32>,
    function: CUfunction,
    shared_mem_of: CUoccupancyB2DSize,
    shared_mem_bytes: usize,
    block_size_limit: i32,
    flags: u32,
) -> Answer {
    check_flags(flags, DISABLE_CACHING_OVERRIDE)?;
    cuOccupancyMaxPotentialBlockSize(
        min_grid_size,
        block_size,
        function,
        shared_mem_of,
        shared_mem_bytes,
        block_size_limit,
    )
}

/// Blocks of a kernel that the whole device holds at once.
pub(super) fn resident_on_device(kernel: &Kernel, threads: u64, shared_bytes: u32) -> u64 {
    let profile = kernel.gpu.profile();
    let blocks = resident_blocks(profile, &kernel.entry, threads, shared_bytes.into());
    blocks * u64::from(profile.multiprocessors)
}

/// Multiprocessors of a group that shares a cluster's work: as many as its largest cluster has
/// blocks.
const GROUP: u32 = LARGEST_CLUSTER;

/// Blocks of a multiprocessor that may be parts of clusters, as an H200 counts them.
const CLUSTERED_BLOCKS: u64 = 8;

/// The clusters of a size that the device holds at once: each lies within one group.
fn resident_clusters(kernel: &Kernel, threads: u64, shared_bytes: u32, blocks: u32) -> u64 {
    let profile = kernel.gpu.profile();
    let each = resident_blocks(profile, &kernel.entry, threads, shared_bytes.into());
    let each = each.min(CLUSTERED_BLOCKS);
    let groups = u64::from(profile.multiprocessors / GROUP);
    let rest = u64::from(profile.multiprocessors % GROUP);
    let blocks = u64::from(blocks.max(1));
    groups * (u64::from(GROUP) * each / blocks) + rest * each / blocks
}

/// The block's threads and the clusters of a launch that is only asked about.
fn asked(kernel: &Kernel, config: &CUlaunchConfig) -> Answer<(u64, [u32; 3])> {
    let threads: u64 = config.block.iter().map(|&size| u64::from(size)).product();
    if threads == 0 || threads > kernel.entry.max_threads_per_block.into() {
        return Err(invalid(format!("a block of {threads} threads")));
    }
    if config.shared_mem_bytes > kernel.shared_limit() {
        let bytes = config.shared_mem_bytes;
        return Err(invalid(format!("{bytes} bytes of dynamic shared memory are too many")));
    }
    let cluster = match (Attributes::read(config)?.cluster(), kernel.required_cluster()) {
        ([0, 0, 0], required) => required.unwrap_or([1; 3]),
        (given, _) => given,
    };
    Ok((threads, cluster))
}

pub(crate) fn cuOccupancyMaxActiveClusters(
    n_clusters: Out<i32>,
    function: CUfunction,
    config: In<CUlaunchConfig>,
) -> Answer {
    current()?;
    let (kernel, config) = (named(function)?, config.get()?);
    let (threads, cluster) = asked(&kernel, &config)?;
    check_size(&kernel, cluster)?;
    let blocks = cluster.iter().product();
    let found = resident_clusters(&kernel, threads, config.shared_mem_bytes, blocks);
    n_clusters.set(found as i32)
}

/// The largest power of two that the device holds one of.
pub(crate) fn cuOccupancyMaxPotentialClusterSize(
    n_blocks: Out<i32>,
    function: CUfunction,
    config: In<CUlaunchConfig>,
) -> Answer {
    current()?;
    let (kernel, config) = (named(function)?, config.get()?);
    let (threads, _) = asked(&kernel, &config)?;
    let most = if kernel.allows_large_cluster() { LARGEST_CLUSTER } else { PORTABLE_CLUSTER };
    let fits =
        |blocks: &u32| resident_clusters(&kernel, threads, config.shared_mem_bytes, *blocks) > 0;
    let sizes = (0..=most.ilog2()).map(|power| 1 << power);
    n_blocks.set(sizes.filter(fits).max().unwrap_or(0) as i32)
}
