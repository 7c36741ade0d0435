//! The attributes of the emulated device: the sizes of an H200, and the features of the emulator.

use ::emulator::Profile;

/// Resident blocks of a multiprocessor at most.
pub(super) const MAX_BLOCKS_PER_MULTIPROCESSOR: u32 = 32;
/// Bytes of shared memory that the system reserves in each block.
pub(super) const RESERVED_SHARED_PER_BLOCK: u32 = 1024;
/// The largest access policy window, in bytes.
pub(super) const MAX_WINDOW_BYTES: i32 = 134_217_728;
/// The priorities of streams, from the lowest to the highest.
pub(super) const STREAM_PRIORITIES: (i32, i32) = (0, -5);
/// Blocks of a cluster at most: portable among devices, and with a non-portable cluster size
/// allowed.
pub(super) const PORTABLE_CLUSTER: u32 = 8;
pub(super) const LARGEST_CLUSTER: u32 = 16;
/// Memory synchronization domains.
pub(super) const SYNC_DOMAINS: u32 = 4;
/// Registers of a multiprocessor.
pub(super) const REGISTERS_PER_MULTIPROCESSOR: u32 = 65536;
/// Bytes of the L2 cache that can be set aside for persisting accesses.
const PERSISTING_BYTES: i32 = 39_321_600;
/// The last attribute that is known here.
const LAST: i32 = 145;

/// The value of a device attribute, numbered as in `CUdevice_attribute`; `None` for an unknown one.
///
/// Features that involve other processes, other machines, graphics or files are absent, so those
/// attributes are 0. The sizes of textures and surfaces are those of a GPU, although only arrays of
/// these sizes can be made.
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
        // Largest pitch, in bytes.
        11 => i32::MAX,
        12 => signed(profile.registers_per_block),
        13 => signed(profile.clock_khz),
        // Alignment of textures and surfaces, pitch alignment of textures.
        14 | 30 => 512,
        51 => 32,
        // Overlap of copies and kernels, mapped host memory, concurrent kernels, ECC.
        15 | 19 | 31 | 32 => 1,
        16 => signed(profile.multiprocessors),
        36 => signed(profile.memory_clock_khz),
        37 => signed(profile.memory_bus_width),
        38 => signed(profile.l2_cache_bytes),
        39 => signed(profile.max_threads_per_multiprocessor),
        // Copy engines.
        40 => 3,
        // Unified addressing.
        41 => 1,
        // PCI domain.
        50 => 0xfe00,
        75 => signed(profile.compute_capability.0),
        76 => signed(profile.compute_capability.1),
        // Stream priorities, L1 caching of global and local memory.
        78..=80 => 1,
        81 => signed(profile.shared_mem_per_multiprocessor),
        82 => signed(REGISTERS_PER_MULTIPROCESSOR),
        // Managed memory.
        83 => 1,
        // Ratio of single to double precision performance.
        87 => 2,
        // Concurrent managed access, compute pre-emption, use of registered host pointers in
        // kernels.
        89..=91 => 1,
        // Stream memory operations, version 2.
        122 | 123 => 1,
        // Cooperative launches.
        95 => 1,
        97 => signed(profile.shared_mem_per_block_optin),
        // Registration of host memory.
        99 => 1,
        // Virtual memory management.
        102 => 1,
        106 => signed(MAX_BLOCKS_PER_MULTIPROCESSOR),
        108 => PERSISTING_BYTES,
        109 => MAX_WINDOW_BYTES,
        111 => signed(RESERVED_SHARED_PER_BLOCK),
        // Registration of read-only host memory; memory pools.
        113 | 115 => 1,
        // Clusters.
        120 => 1,
        126 => signed(SYNC_DOMAINS),
        // Tensor maps.
        127 => 1,
        // NUMA nodes: of the device, and the closest one of the host.
        131 => -1,
        134 => 0,
        _ => 0,
    }
}

/// The largest texture and surface of each type, along each dimension.
fn texture_size(number: i32) -> i32 {
    match number {
        // Textures of one, two and three dimensions.
        21 => 131_072,
        22 => 131_072,
        23 => 65536,
        24..=26 => 16384,
        // Layered textures of two dimensions, and of one.
        27 | 28 | 42 => 32768,
        29 | 43 => 2048,
        // Texture gather: support, and sizes.
        44 => 1,
        45 | 46 => 32768,
        // Alternative sizes of three-dimensional textures.
        47 | 48 => 8192,
        49 => 32768,
        // Cubemaps, and layered cubemaps.
        52 | 53 => 32768,
        54 => 2046,
        // Surfaces of one, two and three dimensions.
        55 => 32768,
        56 => 131_072,
        57 => 65536,
        58..=60 => 16384,
        // Layered surfaces of one and two dimensions.
        61 | 63 | 64 => 32768,
        62 | 65 => 2048,
        // Cubemap surfaces, and layered ones.
        66 | 67 => 32768,
        68 => 2046,
        // Textures of linear memory: width; width, height and pitch.
        69 => 268_435_456,
        70 => 131_072,
        71 => 65000,
        72 => 2_097_120,
        // Mipmapped textures of two dimensions, and of one.
        73 | 74 | 77 => 32768,
        _ => 0,
    }
}

/// Attributes are signed numbers. None of these sizes is too large for that.
fn signed(size: u32) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}
