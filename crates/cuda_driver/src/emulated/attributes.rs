//! What the emulated device says of itself: an H200's sizes, and what the emulator can do.

use ::emulator::Profile;

/// Blocks that a multiprocessor holds at once.
pub(super) const MAX_BLOCKS_PER_MULTIPROCESSOR: u32 = 32;
/// Bytes of shared memory that the device takes for itself with each block.
pub(super) const RESERVED_SHARED_PER_BLOCK: u32 = 1024;
/// The most that a window of cached addresses may span.
pub(super) const MAX_WINDOW_BYTES: i32 = 134_217_728;
/// The priorities of streams, from the lowest to the highest.
pub(super) const STREAM_PRIORITIES: (i32, i32) = (0, -5);
/// Blocks of a cluster that every device of the generation has; and with the kernel's consent.
pub(super) const PORTABLE_CLUSTER: u32 = 8;
pub(super) const LARGEST_CLUSTER: u32 = 16;
/// Domains of memory order.
pub(super) const SYNC_DOMAINS: u32 = 4;
/// Registers of a multiprocessor.
pub(super) const REGISTERS_PER_MULTIPROCESSOR: u32 = 65536;
/// Memory of the second-level cache that can be set aside.
const PERSISTING_BYTES: i32 = 39_321_600;
/// The last number of the driver API that has a meaning here.
const LAST: i32 = 145;

/// The value of a device attribute by the driver API's number; `None` where there is no such one.
///
/// What reaches other processes, other machines, graphics or files is not there: those abilities
/// are 0. Sizes of textures and surfaces are a GPU's; only arrays of these sizes can be made.
pub(super) fn attribute(profile: &Profile, ordinal: i32, number: i32) -> Option<i32> {
    if !(1..=LAST).contains(&number) {
        return None;
    }
    Some(match number {
        21..=29 | 42..=49 | 52..=74 | 77 => texture_size(number),
        // PCI bus: one for each device.
        33 => ordinal,
        _ => value(profile, number),
    })
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
        14 | 30 => 512,
        51 => 32,
        // Copies while computing, mapped host memory, several kernels at once, corrected memory.
        15 | 19 | 31 | 32 => 1,
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
        82 => signed(REGISTERS_PER_MULTIPROCESSOR),
        // Managed memory.
        83 => 1,
        // Speed of f32 over that of f64.
        87 => 2,
        // Managed access at the same time, pre-emption, host pointers in kernels.
        89..=91 => 1,
        // Waits and writes of streams, by their second interface.
        122 | 123 => 1,
        // Cooperative launches.
        95 => 1,
        97 => signed(profile.shared_mem_per_block_optin),
        // Registering host memory.
        99 => 1,
        // Virtual memory in the program's hands.
        102 => 1,
        106 => signed(MAX_BLOCKS_PER_MULTIPROCESSOR),
        108 => PERSISTING_BYTES,
        109 => MAX_WINDOW_BYTES,
        111 => signed(RESERVED_SHARED_PER_BLOCK),
        // Host memory that is only read; stream-ordered allocation.
        113 | 115 => 1,
        // Clusters.
        120 => 1,
        126 => signed(SYNC_DOMAINS),
        // Tensor maps.
        127 => 1,
        // Memory nodes of the host: that of the device, and the host's own.
        131 => -1,
        134 => 0,
        _ => 0,
    }
}

/// The largest texture and surface of each kind, along each direction.
fn texture_size(number: i32) -> i32 {
    match number {
        // One dimension; two; three.
        21 => 131_072,
        22 => 131_072,
        23 => 65536,
        24..=26 => 16384,
        // Layers of two dimensions, and of one.
        27 | 28 | 42 => 32768,
        29 | 43 => 2048,
        // Gathers: whether, and how large.
        44 => 1,
        45 | 46 => 32768,
        // Three dimensions that trade one for another.
        47 | 48 => 8192,
        49 => 32768,
        // Cubes, and layers of them.
        52 | 53 => 32768,
        54 => 2046,
        // Surfaces of one dimension, two, three.
        55 => 32768,
        56 => 131_072,
        57 => 65536,
        58..=60 => 16384,
        // Layers of surfaces: of one dimension, of two.
        61 | 63 | 64 => 32768,
        62 | 65 => 2048,
        // Surfaces of cubes, and layers of them.
        66 | 67 => 32768,
        68 => 2046,
        // Textures of linear memory: width; width, height and pitch.
        69 => 268_435_456,
        70 => 131_072,
        71 => 65000,
        72 => 2_097_120,
        // With levels of detail: of two dimensions, of one.
        73 | 74 | 77 => 32768,
        _ => 0,
    }
}

/// An attribute is a signed number; none of these is beyond it.
fn signed(size: u32) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}
