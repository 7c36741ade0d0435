//! The attributes of the emulated device: the sizes of an H200, and the features of the emulator.

use ::emulator::Profile;

use crate::constants::device_attribute as A;

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
        A::PCI_BUS_ID => ordinal,
        _ => value(profile, number),
    })
}

fn value(profile: &Profile, number: i32) -> i32 {
    match number {
        A::MAX_THREADS_PER_BLOCK => signed(profile.max_threads_per_block),
        A::MAX_BLOCK_DIM_X..=A::MAX_BLOCK_DIM_Z => {
            signed(profile.max_block_dim[(number - A::MAX_BLOCK_DIM_X) as usize])
        }
        A::MAX_GRID_DIM_X..=A::MAX_GRID_DIM_Z => {
            signed(profile.max_grid_dim[(number - A::MAX_GRID_DIM_X) as usize])
        }
        A::MAX_SHARED_MEMORY_PER_BLOCK => signed(profile.shared_mem_per_block),
        A::TOTAL_CONSTANT_MEMORY => signed(profile.constant_memory_bytes),
        A::WARP_SIZE => signed(profile.warp_size),
        A::MAX_PITCH => i32::MAX,
        A::MAX_REGISTERS_PER_BLOCK => signed(profile.registers_per_block),
        A::CLOCK_RATE => signed(profile.clock_khz),
        A::TEXTURE_ALIGNMENT | A::SURFACE_ALIGNMENT => 512,
        A::TEXTURE_PITCH_ALIGNMENT => 32,
        A::MULTIPROCESSOR_COUNT => signed(profile.multiprocessors),
        A::MEMORY_CLOCK_RATE => signed(profile.memory_clock_khz),
        A::GLOBAL_MEMORY_BUS_WIDTH => signed(profile.memory_bus_width),
        A::L2_CACHE_SIZE => signed(profile.l2_cache_bytes),
        A::MAX_THREADS_PER_MULTIPROCESSOR => signed(profile.max_threads_per_multiprocessor),
        A::ASYNC_ENGINE_COUNT => 3,
        A::PCI_DOMAIN_ID => 0xfe00,
        A::COMPUTE_CAPABILITY_MAJOR => signed(profile.compute_capability.0),
        A::COMPUTE_CAPABILITY_MINOR => signed(profile.compute_capability.1),
        A::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR => signed(profile.shared_mem_per_multiprocessor),
        A::MAX_REGISTERS_PER_MULTIPROCESSOR => signed(REGISTERS_PER_MULTIPROCESSOR),
        A::SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO => 2,
        A::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN => signed(profile.shared_mem_per_block_optin),
        A::MAX_BLOCKS_PER_MULTIPROCESSOR => signed(MAX_BLOCKS_PER_MULTIPROCESSOR),
        A::MAX_PERSISTING_L2_CACHE_SIZE => PERSISTING_BYTES,
        A::MAX_ACCESS_POLICY_WINDOW_SIZE => MAX_WINDOW_BYTES,
        A::RESERVED_SHARED_MEMORY_PER_BLOCK => signed(RESERVED_SHARED_PER_BLOCK),
        A::MEM_SYNC_DOMAIN_COUNT => signed(SYNC_DOMAINS),
        A::NUMA_ID => -1,
        _ => supported(number).into(),
    }
}

/// Whether an attribute names a feature that the emulator has.
fn supported(number: i32) -> bool {
    matches!(
        number,
        A::GPU_OVERLAP
            | A::CAN_MAP_HOST_MEMORY
            | A::CONCURRENT_KERNELS
            | A::ECC_ENABLED
            | A::UNIFIED_ADDRESSING
            | A::STREAM_PRIORITIES_SUPPORTED
            | A::GLOBAL_L1_CACHE_SUPPORTED
            | A::LOCAL_L1_CACHE_SUPPORTED
            | A::MANAGED_MEMORY
            | A::CONCURRENT_MANAGED_ACCESS
            | A::COMPUTE_PREEMPTION_SUPPORTED
            | A::CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
            | A::COOPERATIVE_LAUNCH
            | A::HOST_REGISTER_SUPPORTED
            | A::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
            | A::READ_ONLY_HOST_REGISTER_SUPPORTED
            | A::MEMORY_POOLS_SUPPORTED
            | A::CLUSTER_LAUNCH
            | A::CAN_USE_STREAM_MEM_OPS
            | A::CAN_USE_64_BIT_STREAM_MEM_OPS
            | A::TENSOR_MAP_ACCESS_SUPPORTED
    )
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
