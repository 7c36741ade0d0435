//! Demos of memory: parts of an array; a chain of sums, each in memory of its own that goes when the next is there.

use std::sync::Arc;

use super::arrays::{elements, floats};
use super::{Check, Outcome, Scale, timed};
use ferrowarp::Gpu;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::resource::MemoryPool;
use ferrowarp::memory::{DeviceBox, DeviceBuffer};
use ferrowarp::ops::{self, Scratch, reduce};

/// Sums in a chain.
pub(super) const STEPS: usize = 8;

/// Two parts of an array are written, each borrowed by itself; the largest number of all goes into a box.
pub(super) fn slices(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let (x, half) = (floats(n, 21), n / 2);
    let on_x = DeviceBuffer::from_slice(gpu, &x)?;
    let mut y = DeviceBuffer::zeroed(gpu, n)?;
    let (mut largest, mut scratch) = (DeviceBox::zeroed(gpu)?, Scratch::new(gpu)?);
    let time = timed(gpu, || {
        y.clear()?;
        let (mut low, mut high) = y.as_mut_slice().split_at_mut(half);
        ops::saxpy(gpu, 1.0, &on_x.slice(..half), &mut low)?;
        ops::saxpy(gpu, -1.0, &on_x.slice(half..), &mut high)?;
        reduce::max_into(gpu, &y, &mut largest, &mut scratch)
    })?;
    let (low, high) = x.split_at(half);
    let expected: Vec<f32> = low.iter().copied().chain(high.iter().map(|x| -x)).collect();
    let most = expected.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let check = Check::exact(&y.to_vec()?, &expected).provided(largest.get()? == most);
    Ok(Outcome { size: elements(n), time, bytes: 8 * n, check, picture: None })
}

/// Memory that is allocated and freed in the stream's order: the host runs ahead and waits for none of it.
pub(super) fn stream_ordered(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    chain(gpu, n, || DeviceBuffer::zeroed_async(gpu, n))
}

/// The same from a pool, which needs two blocks for all of it.
pub(super) fn pool(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let pool: Arc<MemoryPool> = MemoryPool::new(gpu);
    let mut outcome = chain(gpu, n, || DeviceBuffer::zeroed_in(&pool, gpu, n))?;
    let counts = pool.statistics();
    outcome.check = outcome.check.provided((counts.misses, counts.current_bytes) == (2, 0));
    Ok(outcome)
}

/// A chain of sums, in memory that `make` gives.
pub(super) fn chain(
    gpu: &Gpu,
    n: usize,
    make: impl Fn() -> GpuResult<DeviceBuffer<f32>>,
) -> GpuResult<Outcome> {
    let x = floats(n, 11);
    let on_x = DeviceBuffer::from_slice(gpu, &x)?;
    let run = || -> GpuResult<DeviceBuffer<f32>> {
        let mut sum = make()?;
        for _ in 0..STEPS {
            let mut next = make()?;
            ops::vecadd(gpu, &on_x, &sum, &mut next)?;
            sum = next;
        }
        Ok(sum)
    };
    let sum = |sum: Vec<f32>, _| reference::vecadd::vecadd(&x, &sum);
    let check = Check::exact(&run()?.to_vec()?, &(0..STEPS).fold(vec![0.0; n], sum));
    let time = timed(gpu, || run().map(drop))?;
    Ok(Outcome { size: elements(n), time, bytes: STEPS * 12 * n, check, picture: None })
}
