//! How many blocks of a kernel the device holds at once, and the block that fills it best.

use std::ffi::c_int;

use cuda_driver::sys;
use cuda_std::launch::{Kernel, LaunchConfig, Linear, MeasureOccupancy};

use super::limits::{allow_shared, within};
use crate::error::{GpuContext, GpuError, GpuResult, LaunchLimit};
use crate::gpu::Gpu;
use crate::module::Function;
use crate::stream::Stream;

/// What a kernel takes of a multiprocessor, and how many of its blocks fit there at once.
///
/// ```no_run
/// use ferrowarp::{DeviceBuffer, Gpu};
/// use kernels_gpu::elementwise::saxpy;
///
/// let gpu = Gpu::new()?;
/// let x = DeviceBuffer::<f32>::zeroed(&gpu, 1 << 20)?;
/// let mut y = DeviceBuffer::<f32>::zeroed(&gpu, 1 << 20)?;
/// let occupancy = saxpy::occupancy(&gpu)?;
/// saxpy::launch(&gpu, occupancy.for_num_elems(x.len()), 2.0, &x, &mut y)?;
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Occupancy {
    /// Threads of the block that keeps most threads on a multiprocessor; where the kernel's contract
    /// fixes the block, that one.
    pub block_threads: u32,
    /// How many such blocks a multiprocessor holds at once.
    pub blocks_per_multiprocessor: u32,
    /// Dynamic shared memory of each block that was counted with.
    pub dynamic_shared_bytes: u32,
    /// Multiprocessors of the device.
    pub multiprocessors: u32,
    /// Most threads that a multiprocessor of the device holds.
    pub max_threads_per_multiprocessor: u32,
    /// Registers of each thread.
    pub registers_per_thread: u32,
    /// Shared memory that the kernel declares itself.
    pub static_shared_bytes: u32,
    /// Memory of each thread for what the registers do not hold.
    pub local_bytes_per_thread: u32,
}

impl Occupancy {
    /// At least `n` threads in blocks of [`block_threads`](Self::block_threads).
    #[must_use]
    pub fn for_num_elems(&self, n: usize) -> Linear {
        let blocks = u32::try_from(n.div_ceil(self.block_threads as usize)).unwrap_or(u32::MAX);
        Linear::new(blocks, self.block_threads).shared_mem(self.dynamic_shared_bytes)
    }

    /// As many blocks as the device holds at once: for a kernel whose threads stride over the elements.
    #[must_use]
    pub fn resident(&self) -> Linear {
        let blocks = self.blocks_per_multiprocessor * self.multiprocessors;
        Linear::new(blocks, self.block_threads).shared_mem(self.dynamic_shared_bytes)
    }

    /// The share of a multiprocessor's threads that are taken, 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        let threads = self.blocks_per_multiprocessor * self.block_threads;
        f64::from(threads) / f64::from(self.max_threads_per_multiprocessor.max(1))
    }
}

impl Gpu {
    /// What `kernel` takes of this device with so much dynamic shared memory in each block;
    /// `saxpy::occupancy(&gpu)` is the same for a kernel without.
    ///
    /// # Errors
    /// A kernel that cannot be loaded; [`LaunchTooLarge`](GpuError::LaunchTooLarge) if no block of
    /// it fits; the fault of a kernel before.
    pub fn occupancy(
        &self,
        kernel: &'static Kernel,
        dynamic_shared_bytes: u32,
    ) -> GpuResult<Occupancy> {
        measure(self.stream(), kernel, dynamic_shared_bytes)
            .with_gpu_context(|| format!("asking for the occupancy of `{}`", kernel.name))
    }

    /// How many blocks of this shape a multiprocessor holds at once.
    ///
    /// # Errors
    /// As [`occupancy`](Self::occupancy).
    pub fn active_blocks(
        &self,
        kernel: &'static Kernel,
        config: impl Into<LaunchConfig>,
    ) -> GpuResult<u32> {
        let (function, config) = (self.stream().module().function(kernel)?, config.into());
        allow_shared(self.stream(), kernel, &config, function)?;
        let (x, y, z) = config.block;
        active_blocks(self.stream(), function, x * y * z, config.shared_mem_bytes)
            .with_gpu_context(|| format!("asking for the occupancy of `{}`", kernel.name))
    }
}

impl MeasureOccupancy for Gpu {
    type Occupancy = Occupancy;
    type Error = GpuError;

    fn occupancy(&self, kernel: &'static Kernel) -> GpuResult<Occupancy> {
        let least = kernel.contract.dynamic_shared.least_bytes;
        Gpu::occupancy(self, kernel, least)
    }
}

fn measure(stream: &Stream, kernel: &'static Kernel, shared: u32) -> GpuResult<Occupancy> {
    let function = stream.module().function(kernel)?;
    let config = LaunchConfig { grid: (1, 1, 1), block: (1, 1, 1), shared_mem_bytes: shared };
    allow_shared(stream, kernel, &config, function)?;
    let block_threads = match kernel.contract.threads() {
        Some(threads) => threads,
        None => best_block(stream, kernel, function, shared)?,
    };
    let fits = active_blocks(stream, function, block_threads, shared)?;
    within(kernel.name, LaunchLimit::KernelThreads, block_threads.into(), limit(fits))?;
    let info = stream.inner().context().info();
    use sys::function_attribute as A;
    let get = |attribute| stream.module().attribute(function.handle, attribute);
    Ok(Occupancy {
        block_threads,
        blocks_per_multiprocessor: fits,
        dynamic_shared_bytes: shared,
        multiprocessors: info.multiprocessors,
        max_threads_per_multiprocessor: info.max_threads_per_multiprocessor,
        registers_per_thread: get(A::NUM_REGS)?,
        static_shared_bytes: function.static_shared_bytes,
        local_bytes_per_thread: get(A::LOCAL_SIZE_BYTES)?,
    })
}

/// No block fits where none is resident.
fn limit(resident: u32) -> u64 {
    if resident > 0 { u64::MAX } else { 0 }
}

/// The block size that keeps most threads resident.
fn best_block(
    stream: &Stream,
    kernel: &'static Kernel,
    function: Function,
    shared: u32,
) -> GpuResult<u32> {
    let (mut grid, mut block) = (0, 0);
    let most = kernel.contract.max_threads.unwrap_or(function.max_threads_per_block);
    let most = c_int::try_from(most).unwrap_or(c_int::MAX);
    stream.inner().context().call("cuOccupancyMaxPotentialBlockSize", || {
        let (f, shared) = (function.handle, shared as usize);
        // SAFETY: both results are writable, the function is loaded, and no callback is given.
        unsafe {
            sys::cuOccupancyMaxPotentialBlockSize(&mut grid, &mut block, f, None, shared, most)
        }
    })?;
    Ok(u32::try_from(block).unwrap_or(0))
}

/// How many blocks of this many threads are resident on a multiprocessor at once.
pub(super) fn active_blocks(
    stream: &Stream,
    function: Function,
    threads: u32,
    shared: u32,
) -> GpuResult<u32> {
    // A driver's count looks at registers, and not at the kernel's own bound.
    if threads > function.max_threads_per_block {
        return Ok(0);
    }
    let mut blocks = 0;
    stream.inner().context().call("cuOccupancyMaxActiveBlocksPerMultiprocessor", || {
        let threads = c_int::try_from(threads).unwrap_or(c_int::MAX);
        let (f, shared) = (function.handle, shared as usize);
        // SAFETY: the result is writable, and the function is loaded.
        unsafe { sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut blocks, f, threads, shared) }
    })?;
    Ok(u32::try_from(blocks).unwrap_or(0))
}
