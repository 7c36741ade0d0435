//! Sums of whole arrays: one launch, and the same bits on every device.

use bytemuck::Zeroable;
use cuda_std::launch::{DeviceRead, Grid1};
use kernels_gpu::grid::reduce::{
    BLOCK, MAX_BLOCKS, blocks, reduce_sum_f32, reduce_sum_i32, reduce_tree_f32,
};

use crate::Gpu;
use crate::error::{GpuContext, GpuResult};
use crate::memory::DeviceBuffer;

/// Scratch memory of a sum, for use again and again.
///
/// One value serves any number of sums, of any length and either type, one after the other.
pub struct Reducer {
    partials: DeviceBuffer<u32>,
    finished: DeviceBuffer<u32>,
    out: DeviceBuffer<u32>,
}

impl Reducer {
    /// Allocates the scratch: a word for each possible block, a counter, and the result.
    ///
    /// # Errors
    /// What the driver answers, out of memory for one.
    pub fn new(gpu: &Gpu) -> GpuResult<Self> {
        let zeroed = |n| DeviceBuffer::zeroed(gpu, n).gpu_context("allocating scratch for a sum");
        Ok(Self { partials: zeroed(MAX_BLOCKS as usize)?, finished: zeroed(1)?, out: zeroed(1)? })
    }

    /// Queues the sum of `x: [n]`; [`Self::bits`] waits for it.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn queue_f32(&mut self, gpu: &Gpu, x: &impl DeviceRead<f32>) -> GpuResult<()> {
        let config = Grid1::new(blocks(x.raw().len));
        let Self { partials, finished, out } = self;
        reduce_sum_f32::launch(gpu, config, x, partials, finished, out)
    }

    /// Queues the wrapping sum of `x: [n]`; [`Self::bits`] waits for it.
    ///
    /// # Errors
    /// What the driver answers.
    pub fn queue_i32(&mut self, gpu: &Gpu, x: &impl DeviceRead<i32>) -> GpuResult<()> {
        let config = Grid1::new(blocks(x.raw().len));
        let Self { partials, finished, out } = self;
        reduce_sum_i32::launch(gpu, config, x, partials, finished, out)
    }

    /// The bits of the last sum that was queued.
    ///
    /// # Errors
    /// What the driver answers, a fault of the kernel too.
    pub fn bits(&self) -> GpuResult<u32> {
        let mut bits = [u32::zeroed()];
        self.out.copy_to_host(&mut bits).gpu_context("reading a sum")?;
        Ok(bits[0])
    }
}

/// Sum of `x: [n]` in f32; 0 for no elements. The order of additions is fixed by `n` (see the kernel),
/// so a sum has the same bits on every device. NaN and infinities go through.
///
/// # Errors
/// What the driver answers.
pub fn sum_f32(gpu: &Gpu, x: &impl DeviceRead<f32>) -> GpuResult<f32> {
    let mut reducer = Reducer::new(gpu)?;
    reducer.queue_f32(gpu, x)?;
    Ok(f32::from_bits(reducer.bits()?))
}

/// Sum of `x: [n]` modulo 2^32; 0 for no elements.
///
/// # Errors
/// What the driver answers.
pub fn sum_i32(gpu: &Gpu, x: &impl DeviceRead<i32>) -> GpuResult<i32> {
    let mut reducer = Reducer::new(gpu)?;
    reducer.queue_i32(gpu, x)?;
    Ok(reducer.bits()? as i32)
}

/// Sum of `x: [n]` in the textbook's way: partial sums by trees in shared memory, added up on the host.
///
/// # Errors
/// What the driver answers.
pub fn sum_tree_f32(gpu: &Gpu, x: &impl DeviceRead<f32>) -> GpuResult<f32> {
    let blocks = x.raw().len.div_ceil(BLOCK as usize);
    let mut partials = DeviceBuffer::<u32>::zeroed(gpu, blocks)?;
    reduce_tree_f32::launch(gpu, Grid1::new(blocks as u32), x, &mut partials)?;
    Ok(partials.to_vec()?.into_iter().map(f32::from_bits).sum())
}
