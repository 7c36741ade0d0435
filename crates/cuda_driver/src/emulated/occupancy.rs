//! How many blocks of a kernel a multiprocessor holds at once, by the rules of the emulated device.
#![allow(non_snake_case)]

use ::emulator::{Function, Profile};

use super::attributes::{MAX_BLOCKS_PER_MULTIPROCESSOR, RESERVED_SHARED_PER_BLOCK};
use super::current::current;
use super::function::named;
use super::{check_flags, invalid, the_device};
use crate::abi::{CUfunction, CUoccupancyB2DSize, Out};
use crate::detail::Answer;

/// Shared memory is handed out in units of so many bytes,
const SHARED_UNIT: u64 = 128;
/// and registers in units of so many for a warp.
const REGISTER_UNIT: u64 = 256;
const REGISTERS_PER_MULTIPROCESSOR: u64 = 65536;
/// Use no more on-chip memory for caches than by default: it changes nothing here.
const DISABLE_CACHING_OVERRIDE: u32 = 1;

fn resident_blocks(profile: &Profile, function: &Function, threads: u64, shared: u64) -> u64 {
    let lanes = u64::from(profile.warp_size);
    let warps = threads.div_ceil(lanes);
    let by_threads = u64::from(profile.max_threads_per_multiprocessor) / (warps * lanes);
    let registers = (u64::from(function.registers).max(1) * lanes).next_multiple_of(REGISTER_UNIT);
    let by_registers = REGISTERS_PER_MULTIPROCESSOR / (registers * warps);
    let used = u64::from(function.static_shared_bytes) + shared;
    let bytes = used.next_multiple_of(SHARED_UNIT) + u64::from(RESERVED_SHARED_PER_BLOCK);
    let by_shared = u64::from(profile.shared_mem_per_multiprocessor) / bytes;
    let most = u64::from(MAX_BLOCKS_PER_MULTIPROCESSOR);
    by_threads.min(by_registers).min(by_shared).min(most)
}

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
    let profile = the_device()?.profile();
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
    let profile = the_device()?.profile();
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
    let profile = the_device()?.profile();
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
