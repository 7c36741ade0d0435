//! What a block of a kernel takes of a multiprocessor, by the rules of the emulated device.

use ::emulator::{Function, Profile};

use super::attributes::{
    MAX_BLOCKS_PER_MULTIPROCESSOR, REGISTERS_PER_MULTIPROCESSOR, RESERVED_SHARED_PER_BLOCK,
};

/// Shared memory is handed out in units of so many bytes,
pub(super) const SHARED_UNIT: u64 = 128;
/// and registers in units of so many for a warp.
const REGISTER_UNIT: u64 = 256;

/// Registers of a thread. The PTX declares more than a compiler takes, so at most so many are counted
/// that the largest block that the kernel allows still fits: that is launched, too.
pub(super) fn registers(function: &Function) -> u32 {
    let lanes = u64::from(function.max_threads_per_block).next_multiple_of(32).max(32);
    let most = u64::from(REGISTERS_PER_MULTIPROCESSOR) / lanes / 8 * 8;
    u64::from(function.registers).min(most) as u32
}

/// Blocks of `threads` threads and `shared` bytes of dynamic shared memory that a multiprocessor
/// holds at once.
pub(super) fn resident_blocks(
    profile: &Profile,
    function: &Function,
    threads: u64,
    shared: u64,
) -> u64 {
    let lanes = u64::from(profile.warp_size);
    let warps = threads.div_ceil(lanes);
    let by_threads = u64::from(profile.max_threads_per_multiprocessor) / (warps * lanes);
    let registers = (u64::from(registers(function)).max(1) * lanes).next_multiple_of(REGISTER_UNIT);
    let by_registers = u64::from(REGISTERS_PER_MULTIPROCESSOR) / (registers * warps);
    let used = u64::from(function.static_shared_bytes) + shared;
    let bytes = used.next_multiple_of(SHARED_UNIT) + u64::from(RESERVED_SHARED_PER_BLOCK);
    let by_shared = u64::from(profile.shared_mem_per_multiprocessor) / bytes;
    let most = u64::from(MAX_BLOCKS_PER_MULTIPROCESSOR);
    by_threads.min(by_registers).min(by_shared).min(most)
}
