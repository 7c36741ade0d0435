//! The driver's numbers for attributes, flags and modes, named as in `cuda.h` without the prefix that the names of a
//! group share. They are those that the library or the emulator uses.

macro_rules! constants {
    ($($(#[$doc:meta])* $group:ident: $type:ty { $($name:ident = $value:literal,)* })*) => {
        $(
            $(#[$doc])*
            #[allow(missing_docs, reason = "the driver's names")]
            pub mod $group {
                $(pub const $name: $type = $value;)*
            }
        )*
    };
}

constants! {
    /// `CUdevice_attribute`, without `CU_DEVICE_ATTRIBUTE_`.
    device_attribute: i32 {
        MAX_THREADS_PER_BLOCK = 1,
        MAX_BLOCK_DIM_X = 2,
        MAX_BLOCK_DIM_Y = 3,
        MAX_BLOCK_DIM_Z = 4,
        MAX_GRID_DIM_X = 5,
        MAX_GRID_DIM_Y = 6,
        MAX_GRID_DIM_Z = 7,
        MAX_SHARED_MEMORY_PER_BLOCK = 8,
        TOTAL_CONSTANT_MEMORY = 9,
        WARP_SIZE = 10,
        MAX_PITCH = 11,
        MAX_REGISTERS_PER_BLOCK = 12,
        CLOCK_RATE = 13,
        TEXTURE_ALIGNMENT = 14,
        GPU_OVERLAP = 15,
        MULTIPROCESSOR_COUNT = 16,
        INTEGRATED = 18,
        CAN_MAP_HOST_MEMORY = 19,
        SURFACE_ALIGNMENT = 30,
        CONCURRENT_KERNELS = 31,
        ECC_ENABLED = 32,
        PCI_BUS_ID = 33,
        PCI_DEVICE_ID = 34,
        MEMORY_CLOCK_RATE = 36,
        GLOBAL_MEMORY_BUS_WIDTH = 37,
        L2_CACHE_SIZE = 38,
        MAX_THREADS_PER_MULTIPROCESSOR = 39,
        ASYNC_ENGINE_COUNT = 40,
        UNIFIED_ADDRESSING = 41,
        PCI_DOMAIN_ID = 50,
        TEXTURE_PITCH_ALIGNMENT = 51,
        COMPUTE_CAPABILITY_MAJOR = 75,
        COMPUTE_CAPABILITY_MINOR = 76,
        STREAM_PRIORITIES_SUPPORTED = 78,
        GLOBAL_L1_CACHE_SUPPORTED = 79,
        LOCAL_L1_CACHE_SUPPORTED = 80,
        MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
        MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
        MANAGED_MEMORY = 83,
        HOST_NATIVE_ATOMIC_SUPPORTED = 86,
        SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO = 87,
        PAGEABLE_MEMORY_ACCESS = 88,
        CONCURRENT_MANAGED_ACCESS = 89,
        COMPUTE_PREEMPTION_SUPPORTED = 90,
        CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM = 91,
        COOPERATIVE_LAUNCH = 95,
        MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
        HOST_REGISTER_SUPPORTED = 99,
        PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES = 100,
        DIRECT_MANAGED_MEM_ACCESS_FROM_HOST = 101,
        VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
        MAX_BLOCKS_PER_MULTIPROCESSOR = 106,
        MAX_PERSISTING_L2_CACHE_SIZE = 108,
        MAX_ACCESS_POLICY_WINDOW_SIZE = 109,
        RESERVED_SHARED_MEMORY_PER_BLOCK = 111,
        READ_ONLY_HOST_REGISTER_SUPPORTED = 113,
        MEMORY_POOLS_SUPPORTED = 115,
        CLUSTER_LAUNCH = 120,
        CAN_USE_STREAM_MEM_OPS = 122,
        CAN_USE_64_BIT_STREAM_MEM_OPS = 123,
        MEM_SYNC_DOMAIN_COUNT = 126,
        TENSOR_MAP_ACCESS_SUPPORTED = 127,
        NUMA_ID = 131,
    }
    /// `CUfunction_attribute`, without `CU_FUNC_ATTRIBUTE_`.
    function_attribute: i32 {
        MAX_THREADS_PER_BLOCK = 0,
        SHARED_SIZE_BYTES = 1,
        CONST_SIZE_BYTES = 2,
        LOCAL_SIZE_BYTES = 3,
        NUM_REGS = 4,
        PTX_VERSION = 5,
        BINARY_VERSION = 6,
        CACHE_MODE_CA = 7,
        MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
        PREFERRED_SHARED_MEMORY_CARVEOUT = 9,
        CLUSTER_SIZE_MUST_BE_SET = 10,
        REQUIRED_CLUSTER_WIDTH = 11,
        REQUIRED_CLUSTER_HEIGHT = 12,
        REQUIRED_CLUSTER_DEPTH = 13,
        NON_PORTABLE_CLUSTER_SIZE_ALLOWED = 14,
        CLUSTER_SCHEDULING_POLICY_PREFERENCE = 15,
    }
    /// `CUlimit`, without `CU_LIMIT_`.
    limit: i32 {
        STACK_SIZE = 0,
        PRINTF_FIFO_SIZE = 1,
        MALLOC_HEAP_SIZE = 2,
    }
    /// `CUmemorytype`, without `CU_MEMORYTYPE_`.
    memory_type: i32 {
        HOST = 1,
        DEVICE = 2,
        ARRAY = 3,
        UNIFIED = 4,
    }
    /// `CUpointer_attribute`, without `CU_POINTER_ATTRIBUTE_`.
    pointer_attribute: i32 {
        CONTEXT = 1,
        MEMORY_TYPE = 2,
        DEVICE_POINTER = 3,
        SYNC_MEMOPS = 6,
        DEVICE_ORDINAL = 9,
    }
    /// `CUmem_advise`, without `CU_MEM_ADVISE_`.
    mem_advise: i32 {
        SET_READ_MOSTLY = 1,
        UNSET_READ_MOSTLY = 2,
        SET_PREFERRED_LOCATION = 3,
        UNSET_PREFERRED_LOCATION = 4,
        SET_ACCESSED_BY = 5,
        UNSET_ACCESSED_BY = 6,
    }
    /// `CUmem_range_attribute`, without `CU_MEM_RANGE_ATTRIBUTE_`.
    mem_range_attribute: i32 {
        READ_MOSTLY = 1,
        PREFERRED_LOCATION = 2,
        ACCESSED_BY = 3,
        LAST_PREFETCH_LOCATION = 4,
    }
    /// `CUmemPool_attribute`, without `CU_MEMPOOL_ATTR_`.
    mempool_attribute: i32 {
        RELEASE_THRESHOLD = 4,
        RESERVED_MEM_CURRENT = 5,
        RESERVED_MEM_HIGH = 6,
        USED_MEM_CURRENT = 7,
        USED_MEM_HIGH = 8,
    }
    /// `CUmemAllocationType`, without `CU_MEM_ALLOCATION_TYPE_`.
    mem_allocation_type: i32 {
        PINNED = 1,
    }
    /// `CUmemLocationType`, without `CU_MEM_LOCATION_TYPE_`.
    mem_location_type: i32 {
        DEVICE = 1,
    }
    /// `CUmemAccess_flags`, without `CU_MEM_ACCESS_FLAGS_`.
    mem_access: i32 {
        PROT_NONE = 0,
        PROT_READWRITE = 3,
    }
    /// `CUmemAttach_flags`, without `CU_MEM_ATTACH_`.
    mem_attach: u32 {
        GLOBAL = 1,
    }
    /// Flags of `cuMemHostAlloc`, without `CU_MEMHOSTALLOC_`.
    mem_host_alloc: u32 {
        PORTABLE = 1,
        DEVICEMAP = 2,
        WRITECOMBINED = 4,
    }
    /// Flags of `cuMemHostRegister`, without `CU_MEMHOSTREGISTER_`.
    mem_host_register: u32 {
        PORTABLE = 1,
        READ_ONLY = 8,
    }
    /// `CUstream_flags`, without `CU_STREAM_`.
    stream_flags: u32 {
        NON_BLOCKING = 1,
    }
    /// `CUevent_flags`, without `CU_EVENT_`.
    event_flags: u32 {
        DEFAULT = 0,
        BLOCKING_SYNC = 1,
        DISABLE_TIMING = 2,
        INTERPROCESS = 4,
    }
    /// `CUstreamCaptureStatus`, without `CU_STREAM_CAPTURE_STATUS_`.
    stream_capture_status: i32 {
        NONE = 0,
        ACTIVE = 1,
        INVALIDATED = 2,
    }
    /// `CUstreamCaptureMode`, without `CU_STREAM_CAPTURE_MODE_`.
    stream_capture_mode: i32 {
        GLOBAL = 0,
        THREAD_LOCAL = 1,
        RELAXED = 2,
    }
    /// `CUmoduleLoadingMode`, without `CU_MODULE_`.
    module_loading: i32 {
        EAGER_LOADING = 1,
        LAZY_LOADING = 2,
    }
    /// `CUstreamBatchMemOpType`, without `CU_STREAM_MEM_OP_`.
    stream_mem_op: i32 {
        WAIT_VALUE_32 = 1,
        WRITE_VALUE_32 = 2,
        FLUSH_REMOTE_WRITES = 3,
        WAIT_VALUE_64 = 4,
        WRITE_VALUE_64 = 5,
        BARRIER = 6,
    }
}
