//! Which devices there are, and what each can do.

pub use cuda_driver::Backend;
use cuda_driver::sys;

use crate::error::{DriverError, GpuContext, GpuError, GpuResult};

/// What a device is and where its limits lie.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// Its number, from 0.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// Its compute capability: (9, 0) runs `sm_90` code.
    pub compute_capability: (u32, u32),
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Threads in one warp.
    pub warp_size: u32,
    /// Most threads in one block.
    pub max_threads_per_block: u32,
    /// Most threads in one block, for each dimension.
    pub max_block_dim: [u32; 3],
    /// Most blocks in one grid, for each dimension.
    pub max_grid_dim: [u32; 3],
    /// Most shared memory of a block.
    pub shared_mem_per_block_bytes: u32,
    /// Most shared memory of a block whose kernel asks for more than the ordinary limit.
    pub shared_mem_per_block_optin_bytes: u32,
    /// Registers of a block.
    pub registers_per_block: u32,
    /// Most threads that a multiprocessor holds.
    pub max_threads_per_multiprocessor: u32,
    /// Most blocks that a multiprocessor holds.
    pub max_blocks_per_multiprocessor: u32,
    /// Shared memory of a multiprocessor.
    pub shared_mem_per_multiprocessor_bytes: u32,
    /// Registers of a multiprocessor.
    pub registers_per_multiprocessor: u32,
    /// Constant memory.
    pub constant_memory_bytes: u32,
    /// Copies between host and device that can run at once, while kernels run.
    pub copy_engines: u32,
    /// Clock of the multiprocessors in kHz.
    pub clock_khz: u32,
    /// Clock of the memory in kHz.
    pub memory_clock_khz: u32,
    /// Width of the bus to the memory in bits.
    pub memory_bus_bits: u32,
    /// Size of the second-level cache.
    pub l2_bytes: u32,
    /// Size of the memory.
    pub total_memory_bytes: usize,
    /// Whether the memory corrects errors.
    pub ecc: bool,
    /// Whether the device shares its memory with the host.
    pub integrated: bool,
    /// Whether kernels of several streams run at the same time.
    pub concurrent_kernels: bool,
    /// Whether streams have priorities.
    pub stream_priorities: bool,
    /// Where it is on the bus: domain, bus, device.
    pub pci: (u32, u32, u32),
    /// Whether a kernel can be launched so that all its blocks run at the same time.
    pub cooperative_launch: bool,
    /// Whether host and kernels may use managed memory at the same time.
    pub concurrent_managed_access: bool,
    /// Whether host and device use one set of addresses.
    pub unified_addressing: bool,
    /// Whether there is managed memory.
    pub managed_memory: bool,
    /// Whether kernels reach plain host memory, such as a `Vec`'s.
    pub pageable_memory_access: bool,
    /// Whether they do so by the host's page tables, so that no page moves.
    pub uses_host_page_tables: bool,
    /// Whether the host reaches managed memory on the device without moving it.
    pub direct_managed_access: bool,
    /// Whether host memory can be page-locked to be read alone.
    pub registers_read_only: bool,
    /// Whether read-modify-writes of kernels and of the host in the host's memory are atomic with each
    /// other.
    pub host_native_atomics: bool,
    /// Whether memory can be allocated and freed in a stream's order.
    pub memory_pools: bool,
    /// Whether addresses can be reserved, and memory be mapped there later.
    pub virtual_memory: bool,
}

impl DeviceInfo {
    /// The memory's bandwidth by its clock and width, in GB/s; 0 if the driver does not say.
    #[must_use]
    pub fn peak_bandwidth_gb_per_s(&self) -> f64 {
        let transfers_per_s = 2.0 * f64::from(self.memory_clock_khz) * 1e3;
        transfers_per_s * f64::from(self.memory_bus_bits) / 8.0 / 1e9
    }

    /// Asks the driver about `device`.
    pub(crate) fn read(ordinal: u32, device: sys::CUdevice) -> GpuResult<Self> {
        use sys::device_attribute as A;
        let get = |attribute| attribute_of(device, attribute);
        Ok(Self {
            ordinal,
            name: name_of(device).gpu_context("reading the device's name")?,
            compute_capability: (
                get(A::COMPUTE_CAPABILITY_MAJOR)?,
                get(A::COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: get(A::MULTIPROCESSOR_COUNT)?,
            warp_size: get(A::WARP_SIZE)?,
            max_threads_per_block: get(A::MAX_THREADS_PER_BLOCK)?,
            max_block_dim: [
                get(A::MAX_BLOCK_DIM_X)?,
                get(A::MAX_BLOCK_DIM_Y)?,
                get(A::MAX_BLOCK_DIM_Z)?,
            ],
            max_grid_dim: [
                get(A::MAX_GRID_DIM_X)?,
                get(A::MAX_GRID_DIM_Y)?,
                get(A::MAX_GRID_DIM_Z)?,
            ],
            shared_mem_per_block_bytes: get(A::MAX_SHARED_MEMORY_PER_BLOCK)?,
            shared_mem_per_block_optin_bytes: get(A::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            registers_per_block: get(A::MAX_REGISTERS_PER_BLOCK)?,
            max_threads_per_multiprocessor: get(A::MAX_THREADS_PER_MULTIPROCESSOR)?,
            max_blocks_per_multiprocessor: get(A::MAX_BLOCKS_PER_MULTIPROCESSOR)?,
            shared_mem_per_multiprocessor_bytes: get(A::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
            registers_per_multiprocessor: get(A::MAX_REGISTERS_PER_MULTIPROCESSOR)?,
            constant_memory_bytes: get(A::TOTAL_CONSTANT_MEMORY)?,
            copy_engines: get(A::ASYNC_ENGINE_COUNT)?,
            clock_khz: get(A::CLOCK_RATE)?,
            memory_clock_khz: get(A::MEMORY_CLOCK_RATE)?,
            memory_bus_bits: get(A::GLOBAL_MEMORY_BUS_WIDTH)?,
            l2_bytes: get(A::L2_CACHE_SIZE)?,
            total_memory_bytes: memory_of(device).gpu_context("reading the memory's size")?,
            ecc: get(A::ECC_ENABLED)? != 0,
            integrated: get(A::INTEGRATED)? != 0,
            concurrent_kernels: get(A::CONCURRENT_KERNELS)? != 0,
            stream_priorities: get(A::STREAM_PRIORITIES_SUPPORTED)? != 0,
            pci: (get(A::PCI_DOMAIN_ID)?, get(A::PCI_BUS_ID)?, get(A::PCI_DEVICE_ID)?),
            cooperative_launch: get(A::COOPERATIVE_LAUNCH)? != 0,
            concurrent_managed_access: get(A::CONCURRENT_MANAGED_ACCESS)? != 0,
            unified_addressing: get(A::UNIFIED_ADDRESSING)? != 0,
            managed_memory: get(A::MANAGED_MEMORY)? != 0,
            pageable_memory_access: get(A::PAGEABLE_MEMORY_ACCESS)? != 0,
            uses_host_page_tables: get(A::PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)? != 0,
            direct_managed_access: get(A::DIRECT_MANAGED_MEM_ACCESS_FROM_HOST)? != 0,
            registers_read_only: get(A::READ_ONLY_HOST_REGISTER_SUPPORTED)? != 0,
            host_native_atomics: get(A::HOST_NATIVE_ATOMIC_SUPPORTED)? != 0,
            memory_pools: get(A::MEMORY_POOLS_SUPPORTED)? != 0,
            virtual_memory: get(A::VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED)? != 0,
        })
    }
}

/// Every device that this process can use, in the driver's order.
///
/// # Errors
/// No driver where one was demanded (`FERROWARP_DEVICE=cuda`), or a driver that does not answer.
pub fn devices() -> GpuResult<Vec<DeviceInfo>> {
    init()?;
    let mut count = 0;
    // SAFETY: `count` is writable.
    check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })
        .gpu_context("counting the devices")?;
    (0..count.unsigned_abs()).map(|ordinal| DeviceInfo::read(ordinal, get(ordinal)?)).collect()
}

/// Whether work runs on real GPUs or on the emulator. Decided once in a process, by
/// `FERROWARP_DEVICE` (`auto`, `cuda` or `emulator`) and by what is there.
///
/// # Errors
/// As [`devices`].
pub fn backend() -> GpuResult<Backend> {
    init()?;
    Ok(cuda_driver::backend().expect("cuInit succeeded, so it has chosen"))
}

/// Starts the driver; every later time does nothing.
pub(crate) fn init() -> GpuResult<()> {
    check_process()?;
    // SAFETY: `cuInit` may be called at any time, from any thread; no flags are defined.
    check("cuInit", unsafe { sys::cuInit(0) })
}

/// An error in a child that was forked from the process that has started the driver.
#[inline]
pub(crate) fn check_process() -> GpuResult<()> {
    if cuda_driver::forked() { Err(GpuError::Forked) } else { Ok(()) }
}

/// The device of that number.
pub(crate) fn get(ordinal: u32) -> GpuResult<sys::CUdevice> {
    let mut device = 0;
    // A number too large for the driver is one of no device.
    let number = i32::try_from(ordinal).unwrap_or(i32::MAX);
    // SAFETY: `device` is writable.
    check("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, number) })
        .with_gpu_context(|| format!("opening GPU {ordinal}"))?;
    Ok(device)
}

/// The device of a context. The context is the thread's current one after that.
///
/// # Safety
/// The context lives.
pub(crate) unsafe fn of_context(context: sys::CUcontext) -> GpuResult<sys::CUdevice> {
    let mut device = 0;
    // SAFETY: the caller's promise.
    check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(context) })?;
    // SAFETY: `device` is writable.
    check("cuCtxGetDevice", unsafe { sys::cuCtxGetDevice(&mut device) })?;
    Ok(device)
}

/// The ordinal of a device that the driver has returned.
pub(crate) fn ordinal_of(device: sys::CUdevice) -> GpuResult<u32> {
    let mut count = 0;
    // SAFETY: `count` is writable.
    check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })?;
    for ordinal in 0..count.unsigned_abs() {
        if get(ordinal)? == device {
            return Ok(ordinal);
        }
    }
    // The driver lists each device that it has returned, unless a device has left the machine since then.
    Err(GpuError::Unsupported { what: "a context of a device that the driver does not list" })
}

fn name_of(device: sys::CUdevice) -> GpuResult<String> {
    let mut text = [0u8; 256];
    let room = text.len() as i32;
    // SAFETY: `text` is writable for as many bytes, and `device` came from the driver.
    let code = unsafe { sys::cuDeviceGetName(text.as_mut_ptr().cast(), room, device) };
    check("cuDeviceGetName", code)?;
    let name = text.split(|&byte| byte == 0).next().unwrap_or_default();
    Ok(String::from_utf8_lossy(name).into_owned())
}

fn memory_of(device: sys::CUdevice) -> GpuResult<usize> {
    let mut bytes = 0;
    // SAFETY: `bytes` is writable, and `device` came from the driver.
    check("cuDeviceTotalMem", unsafe { sys::cuDeviceTotalMem_v2(&mut bytes, device) })?;
    Ok(bytes)
}

fn attribute_of(device: sys::CUdevice, attribute: i32) -> GpuResult<u32> {
    let mut value = 0;
    // SAFETY: `value` is writable, and `device` came from the driver.
    let code = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device) };
    check("cuDeviceGetAttribute", code)?;
    Ok(u32::try_from(value).unwrap_or(0))
}

/// Success, or the driver's error with what is known about it.
pub(crate) fn check(operation: &'static str, code: sys::CUresult) -> GpuResult<()> {
    match code {
        sys::CUresult::CUDA_SUCCESS => Ok(()),
        code => Err(DriverError::new(operation, code.code()).into()),
    }
}
