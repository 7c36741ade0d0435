//! Demos of copies between host and device: to the device and back, bit for bit.

use super::arrays::{elements, floats};
use super::{Check, Outcome, Scale, timed};
use crate::Gpu;
use crate::error::GpuResult;
use crate::memory::{DeviceBuffer, PinnedBuffer, STAGED_FROM_BYTES};

/// Page-locked memory, lent to copies that do not wait.
pub(super) fn pinned(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let x = floats(n, 11);
    let mut device = DeviceBuffer::zeroed(gpu, n)?;
    let (there, mut back) = (PinnedBuffer::from_slice(gpu, &x)?, PinnedBuffer::zeroed(gpu, n)?);
    let time = timed(gpu, || {
        gpu.host_scope(|scope| {
            scope.upload(gpu, &there, &mut device)?;
            scope.download(gpu, &device, &mut back)
        })
    })?;
    let check = Check::exact(&back, &x);
    Ok(Outcome { size: elements(n), time, bytes: 8 * n, check, picture: None })
}

/// Plain vectors, large enough that they go through the ring.
pub(super) fn pageable(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let n = n.max(STAGED_FROM_BYTES / size_of::<f32>());
    let (x, mut back) = (floats(n, 12), vec![0f32; n]);
    let mut device = DeviceBuffer::zeroed(gpu, n)?;
    let time = timed(gpu, || {
        device.copy_from_host(&x)?;
        device.copy_to_host(&mut back)
    })?;
    let check = Check::exact(&back, &x);
    Ok(Outcome { size: elements(n), time, bytes: 8 * n, check, picture: None })
}
