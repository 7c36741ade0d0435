//! The limits of launches, which are checked before the driver is called.

use cuda_std::launch::{Args, Kernel, LaunchConfig};

use crate::device::DeviceInfo;
use crate::error::{GpuError, GpuResult, LaunchLimit};
use crate::module::Function;
use crate::stream::Stream;

/// Blocks and threads against the device's limits.
pub(super) fn check_dims(
    kernel: &'static str,
    config: &LaunchConfig,
    info: &DeviceInfo,
) -> GpuResult<()> {
    let [grid, block] = [config.grid, config.block].map(|(x, y, z)| [x, y, z].map(u64::from));
    for dim in 0..3u8 {
        let at = usize::from(dim);
        let limit = u64::from(info.max_grid_dim[at]);
        within(kernel, LaunchLimit::GridDim(dim), grid[at], limit)?;
        let limit = u64::from(info.max_block_dim[at]);
        within(kernel, LaunchLimit::BlockDim(dim), block[at], limit)?;
    }
    let threads = block.iter().product();
    within(kernel, LaunchLimit::BlockThreads, threads, u64::from(info.max_threads_per_block))
}

/// The arguments against the kernel's parameters.
pub(super) fn check_args(kernel: &'static Kernel, args: &Args<'_>) -> GpuResult<()> {
    if have_sizes(args, kernel) {
        return Ok(());
    }
    let expected = kernel.params.iter().map(|param| param.size_bytes).collect();
    let found = args.sizes_bytes().collect();
    Err(GpuError::WrongParameters { kernel: kernel.name, expected, found })
}

/// Whether the arguments are as many as the kernel's parameters, each of its parameter's size.
#[inline]
pub(super) fn have_sizes(args: &Args<'_>, kernel: &Kernel) -> bool {
    let mut both = kernel.params.iter().zip(args.sizes_bytes());
    kernel.params.len() == args.len() && both.all(|(param, found)| param.size_bytes == found)
}

/// Threads and shared memory against the kernel's limits.
pub(super) fn check_function(
    kernel: &'static str,
    config: &LaunchConfig,
    function: Function,
    info: &DeviceInfo,
) -> GpuResult<()> {
    let (x, y, z) = config.block;
    let threads = u64::from(x) * u64::from(y) * u64::from(z);
    let limit = u64::from(function.max_threads_per_block);
    within(kernel, LaunchLimit::KernelThreads, threads, limit)?;
    let shared = u64::from(function.static_shared_bytes) + u64::from(config.shared_mem_bytes);
    let limit = info.shared_mem_per_block_optin_bytes.max(info.shared_mem_per_block_bytes);
    within(kernel, LaunchLimit::SharedMemory, shared, u64::from(limit))
}

/// Allows the kernel more than the default shared memory, if the launch needs it.
pub(super) fn allow_shared(
    stream: &Stream,
    kernel: &'static Kernel,
    config: &LaunchConfig,
    function: Function,
) -> GpuResult<()> {
    let ordinary = stream.inner().context().info().shared_mem_per_block_bytes;
    let shared = function.static_shared_bytes.saturating_add(config.shared_mem_bytes);
    if shared <= ordinary {
        return Ok(());
    }
    stream.module().allow_dynamic_shared(kernel, function, config.shared_mem_bytes)
}

/// Also refuses 0, which no limit but that of shared memory allows: an empty grid is handled
/// earlier.
#[inline]
pub(super) fn within(
    kernel: &'static str,
    what: LaunchLimit,
    value: u64,
    limit: u64,
) -> GpuResult<()> {
    if (1..=limit).contains(&value) || (what == LaunchLimit::SharedMemory && value <= limit) {
        return Ok(());
    }
    Err(GpuError::LaunchTooLarge { kernel, what, value, limit })
}
