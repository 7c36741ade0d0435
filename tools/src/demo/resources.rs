//! Demos of adaptors: what stands between a program and its memory, to count it, to bound it, to lose it.

use super::memory::{STEPS, chain};
use super::{Outcome, Scale};
use ferrowarp::Gpu;
use ferrowarp::error::{GpuError, GpuResult};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::memory::resource::{
    FailureAdaptor, LimitAdaptor, LogAdaptor, MemoryPool, PoisonAdaptor, StatisticsAdaptor,
    TrackingAdaptor,
};

/// A limit, counts, and which line of the program has which block: each stands on the one before.
pub(super) fn adaptors(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    let n = elements_of(scale);
    let limited = LimitAdaptor::new(MemoryPool::new(gpu), 3 * n * size_of::<f32>());
    let counted = StatisticsAdaptor::new(limited);
    let memory = TrackingAdaptor::new(counted.clone());
    let mut outcome = chain(gpu, n, || DeviceBuffer::zeroed_in(&memory, gpu, n))?;

    let scratch = DeviceBuffer::<f32>::zeroed_in(&memory, gpu, n)?;
    let block = memory.find(scratch.as_device_ptr().address());
    let is_found = block.is_some_and(|own| own.caller.file() == file!());
    let refused = DeviceBuffer::<f32>::zeroed_in(&memory, gpu, 3 * n).err();
    let is_refused =
        refused.is_some_and(|error| matches!(error.root(), GpuError::OutOfMemory { .. }));
    drop(scratch);

    let counts = counted.statistics();
    let is_counted = counts.frees == counts.allocations && counts.current_bytes == 0;
    outcome.check = outcome.check.provided(is_found && is_refused && is_counted);
    Ok(outcome)
}

/// The third allocation fails, and what was there goes back. New memory and freed memory hold patterns, so that nobody
/// computes with what was left there. All of it is written down, and done again with other memory.
pub(super) fn replay(gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
    let n = elements_of(scale);
    let failing = FailureAdaptor::new(PoisonAdaptor::new(MemoryPool::new(gpu)));
    let memory = LogAdaptor::new(failing.clone());
    failing.fail_after(2);
    let failed = chain(gpu, n, || DeviceBuffer::zeroed_in(&memory, gpu, n)).is_err();
    let mut outcome = chain(gpu, n, || DeviceBuffer::zeroed_in(&memory, gpu, n))?;

    let again = StatisticsAdaptor::new(MemoryPool::new(gpu));
    memory.log().replay(&again, gpu)?;
    let counts = again.statistics();
    let is_whole = counts.frees == counts.allocations && counts.allocations > STEPS as u64;
    outcome.size = format!("{} allocations", counts.allocations);
    outcome.check = outcome.check.provided(failed && is_whole);
    Ok(outcome)
}

/// Fewer than elsewhere: the kernels are no matter here.
fn elements_of(scale: Scale) -> usize {
    scale.n.div_ceil(8)
}
