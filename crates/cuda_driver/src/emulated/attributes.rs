//! What the emulated device says of itself: a Hopper's sizes, and what the emulator can do.

use ::emulator::Profile;

/// Blocks that a multiprocessor holds at once.
pub(super) const MAX_BLOCKS_PER_MULTIPROCESSOR: u32 = 32;
/// Bytes of shared memory that the device takes for itself with each block.
pub(super) const RESERVED_SHARED_PER_BLOCK: u32 = 1024;
/// Registers of a multiprocessor.
const REGISTERS_PER_MULTIPROCESSOR: i32 = 65536;
/// The last number of the driver API that has a meaning here.
const LAST: i32 = 143;

/// The value of a device attribute by the driver API's number; `None` where there is no such one.
///
/// Textures, surfaces, arrays, peers, graphics and what moves data between machines are not there:
/// their sizes and abilities are 0.
pub(super) fn attribute(profile: &Profile, number: i32) -> Option<i32> {
    (1..=LAST).contains(&number).then(|| value(profile, number))
}

fn value(profile: &Profile, number: i32) -> i32 {
    match number {
        1 => signed(profile.max_threads_per_block),
        2..=4 => signed(profile.max_block_dim[(number - 2) as usize]),
        5..=7 => signed(profile.max_grid_dim[(number - 5) as usize]),
        8 => signed(profile.shared_mem_per_block),
        9 => signed(profile.constant_memory_bytes),
        10 => signed(profile.warp_size),
        // Bytes of pitch.
        11 => i32::MAX,
        12 => signed(profile.registers_per_block),
        13 => signed(profile.clock_khz),
        // Alignment of textures, surfaces, and pitched textures.
        14 | 30 | 51 => 512,
        // Copies while computing, mapped host memory, several kernels at once.
        15 | 19 | 31 => 1,
        16 => signed(profile.multiprocessors),
        36 => signed(profile.memory_clock_khz),
        37 => signed(profile.memory_bus_width),
        38 => signed(profile.l2_cache_bytes),
        39 => signed(profile.max_threads_per_multiprocessor),
        // Copy engines.
        40 => 3,
        // One address space with the host.
        41 => 1,
        // PCI domain.
        50 => 0xfe00,
        75 => signed(profile.compute_capability.0),
        76 => signed(profile.compute_capability.1),
        // Stream priorities, first-level caches of global and local memory.
        78..=80 => 1,
        81 => signed(profile.shared_mem_per_multiprocessor),
        82 => REGISTERS_PER_MULTIPROCESSOR,
        // Managed memory.
        83 => 1,
        // Atomics with the host.
        86 => 1,
        // Speed of f32 over that of f64.
        87 => 2,
        // Managed access at the same time, pre-emption, host pointers in kernels.
        89..=91 => 1,
        97 => signed(profile.shared_mem_per_block_optin),
        // Registering host memory.
        99 => 1,
        // The host reaches managed memory on the device.
        101 => 1,
        106 => signed(MAX_BLOCKS_PER_MULTIPROCESSOR),
        111 => signed(RESERVED_SHARED_PER_BLOCK),
        // Memory pools: none but the one that stream-ordered allocations come from, and programs
        // that read 1 here ask for its handle.
        115 => 0,
        _ => 0,
    }
}

/// An attribute is a signed number; none of these is beyond it.
fn signed(size: u32) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}
