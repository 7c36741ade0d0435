//! The occupancy functions of the API, by the rules of `residency.rs`.
#![allow(non_snake_case)]

use ::emulator::Function;

use super::current::current;
use super::device_attributes::{LARGEST_CLUSTER, PORTABLE_CLUSTER, RESERVED_SHARED_PER_BLOCK};
use super::function::from_handle;
use super::kernel::Kernel;
use super::launch_attributes::{Attributes, check_size};
use super::residency::{SHARED_UNIT, resident_blocks};
use super::{check_flags, invalid_value};
use crate::abi::{CUfunction, CUlaunchConfig, CUoccupancyB2DSize, In, Out};
use crate::detail::DriverResult;

/// A flag about caching in on-chip memory, without effect on the emulated device.
const DISABLE_CACHING_OVERRIDE: u32 = 1;

/// The threads of a block; an error if there cannot be that many.
fn threads(function: &Function, block_size: i32) -> DriverResult<u64> {
    let limit = function.max_threads_per_block;
    match u32::try_from(block_size) {
        Ok(threads) if threads > 0 => Ok(threads.into()),
        _ => {
            Err(invalid_value(format!("a block of {block_size} threads; it may have 1 to {limit}")))
        }
    }
}

pub(crate) fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    n_blocks: Out<i32>,
    function: CUfunction,
    block_size: i32,
    shared_mem_bytes: usize,
) -> DriverResult {
    current()?;
    let kernel = from_handle(function)?;
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
) -> DriverResult {
    check_flags(flags, DISABLE_CACHING_OVERRIDE)?;
    cuOccupancyMaxActiveBlocksPerMultiprocessor(n_blocks, function, block_size, shared_mem_bytes)
}

pub(crate) fn cuOccupancyAvailableDynamicSMemPerBlock(
    bytes: Out<usize>,
    function: CUfunction,
    n_blocks: i32,
    block_size: i32,
) -> DriverResult {
    current()?;
    let kernel = from_handle(function)?;
    let all_lanes = threads(&kernel.entry, block_size)?.next_multiple_of(32) * blocks(n_blocks)?;
    let profile = kernel.gpu.profile();
    if all_lanes > profile.max_threads_per_multiprocessor.into() {
        return Err(invalid_value(format!(
            "{n_blocks} blocks of {block_size} threads do not fit a multiprocessor"
        )));
    }
    let share = u64::from(profile.shared_mem_per_multiprocessor) / blocks(n_blocks)?;
    let used = u64::from(RESERVED_SHARED_PER_BLOCK + kernel.entry.static_shared_bytes);
    let left = share.saturating_sub(used) / SHARED_UNIT * SHARED_UNIT;
    bytes.set(left.min(kernel.shared_limit().into()) as usize)
}

fn blocks(n_blocks: i32) -> DriverResult<u64> {
    match u64::try_from(n_blocks) {
        Ok(blocks) if blocks > 0 => Ok(blocks),
        _ => Err(invalid_value(format!("{n_blocks} blocks"))),
    }
}

pub(crate) fn cuOccupancyMaxPotentialBlockSize(
    min_grid_size: Out<i32>,
    block_size: Out<i32>,
    function: CUfunction,
    shared_mem_of: CUoccupancyB2DSize,
    shared_mem_bytes: usize,
    block_size_limit: i32,
) -> DriverResult {
    current()?;
    let kernel = from_handle(function)?;
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
    // Of the block sizes with the most resident threads, the largest.
    let best = sizes(limit, profile.warp_size)
        .map(|threads| (resident(threads) * u64::from(threads), threads))
        .max()
        .filter(|(resident, _)| *resident > 0)
        .ok_or_else(|| invalid_value("no block of this kernel fits a multiprocessor"))?;
    let blocks = best.0 / u64::from(best.1) * u64::from(profile.multiprocessors);
    min_grid_size.set(blocks as i32)?;
    block_size.set(best.1 as i32)
}

/// All whole numbers of warps up to the limit, and the limit itself.
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
) -> DriverResult {
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

/// The blocks of a kernel that can be resident on the whole device.
pub(super) fn resident_on_device(kernel: &Kernel, threads: u64, shared_bytes: u32) -> u64 {
    let profile = kernel.gpu.profile();
    let blocks = resident_blocks(profile, &kernel.entry, threads, shared_bytes.into());
    blocks * u64::from(profile.multiprocessors)
}

/// Multiprocessors of a group (GPC) that can run one cluster: as many as the largest cluster has
/// blocks.
const GROUP_MULTIPROCESSORS: u32 = LARGEST_CLUSTER;

/// Resident blocks of clusters on a multiprocessor at most, as on an H200.
const CLUSTERED_BLOCKS: u64 = 8;

/// The clusters of a size that can be resident at once. Each lies within one group.
fn resident_clusters(kernel: &Kernel, threads: u64, shared_bytes: u32, blocks: u32) -> u64 {
    let profile = kernel.gpu.profile();
    let each = resident_blocks(profile, &kernel.entry, threads, shared_bytes.into());
    let each = each.min(CLUSTERED_BLOCKS);
    let groups = u64::from(profile.multiprocessors / GROUP_MULTIPROCESSORS);
    let rest = u64::from(profile.multiprocessors % GROUP_MULTIPROCESSORS);
    let blocks = u64::from(blocks.max(1));
    groups * (u64::from(GROUP_MULTIPROCESSORS) * each / blocks) + rest * each / blocks
}

/// Checks a launch that is only queried; returns the threads of a block and the cluster dimensions.
fn queried(kernel: &Kernel, config: &CUlaunchConfig) -> DriverResult<(u64, [u32; 3])> {
    let threads: u64 = config.block.iter().map(|&size| u64::from(size)).product();
    if threads == 0 || threads > kernel.entry.max_threads_per_block.into() {
        return Err(invalid_value(format!("a block of {threads} threads")));
    }
    if config.shared_mem_bytes > kernel.shared_limit() {
        let bytes = config.shared_mem_bytes;
        return Err(invalid_value(format!("{bytes} bytes of dynamic shared memory are too many")));
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
) -> DriverResult {
    current()?;
    let (kernel, config) = (from_handle(function)?, config.get()?);
    let (threads, cluster) = queried(&kernel, &config)?;
    check_size(&kernel, cluster)?;
    let blocks = cluster.iter().product();
    let found = resident_clusters(&kernel, threads, config.shared_mem_bytes, blocks);
    n_clusters.set(found as i32)
}

/// The largest power of two of which one cluster can be resident.
pub(crate) fn cuOccupancyMaxPotentialClusterSize(
    n_blocks: Out<i32>,
    function: CUfunction,
    config: In<CUlaunchConfig>,
) -> DriverResult {
    current()?;
    let (kernel, config) = (from_handle(function)?, config.get()?);
    let (threads, _) = queried(&kernel, &config)?;
    let most = if kernel.allows_large_cluster() { LARGEST_CLUSTER } else { PORTABLE_CLUSTER };
    let fits =
        |blocks: &u32| resident_clusters(&kernel, threads, config.shared_mem_bytes, *blocks) > 0;
    let sizes = (0..=most.ilog2()).map(|power| 1 << power);
    n_blocks.set(sizes.filter(fits).max().unwrap_or(0) as i32)
}
