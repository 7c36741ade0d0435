//! Demos of copies between host and device: to the device and back, bit for bit.

use std::time::Duration;

use super::arrays::{elements, floats};
use super::{Check, Outcome, Scale, timed};
use ferrowarp::Gpu;
use ferrowarp::error::{GpuError, GpuResult};
use ferrowarp::memory::{
    DeviceBuffer, PinnedBuffer, PinnedOptions, RegisteredVec, STAGED_FROM_BYTES, Transfer,
};

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

/// Vectors that are page-locked where they are: no second copy, and the bus works at full speed.
pub(super) fn registered(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let mut device = DeviceBuffer::zeroed(gpu, n)?;
    let there = RegisteredVec::new(gpu, floats(n, 13))?;
    let mut back = RegisteredVec::new(gpu, vec![0f32; n])?;
    let time = timed(gpu, || {
        gpu.host_scope(|scope| {
            scope.upload(gpu, &there, &mut device)?;
            scope.download(gpu, &device, &mut back)
        })
    })?;
    // Plain vectors again.
    let (there, back) = (there.into_vec()?, back.into_vec()?);
    let check = Check::exact(&back, &there);
    Ok(Outcome { size: elements(n), time, bytes: 8 * n, check, picture: None })
}

/// The host writes past its caches, in order; the copy takes the memory along and brings it back.
pub(super) fn write_combined(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let x = floats(n, 14);
    let mut device = DeviceBuffer::zeroed(gpu, n)?;
    let mut room = Some(PinnedOptions::new().write_combined(gpu, n)?);
    let time = timed(gpu, || {
        if let Some(mut memory) = room.take() {
            memory.write(..).copy_from_slice(&x);
            room = Some(device.copy_from_pinned_async(gpu, memory)?.wait()?);
        }
        Ok(())
    })?;
    let check = Check::exact(&device.to_vec()?, &x);
    Ok(Outcome { size: elements(n), time, bytes: 4 * n, check, picture: None })
}

/// By each way that the device has, there and back.
pub(super) fn transfers(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let (x, mut back) = (floats(n, 15), PinnedBuffer::zeroed(gpu, n)?);
    let there = PinnedBuffer::from_slice(gpu, &x)?;
    let mut device = DeviceBuffer::zeroed(gpu, n)?;
    let (mut ways, mut right, mut time) = (0, 0, Duration::ZERO);
    for way in Transfer::ALL {
        back.fill(0.0);
        device.clear()?;
        let up = match way.upload(gpu, &there, &mut device) {
            Err(error) if matches!(error.root(), GpuError::Unsupported { .. }) => continue,
            report => report?,
        };
        let down = way.download(gpu, &device, &mut back)?;
        ways += 1;
        right += usize::from(*back == x[..]);
        time += up.time + down.time;
    }
    let check = Check::exact(&[right], &[ways]).provided(ways > 0);
    let size = format!("{ways} × {n} elements");
    Ok(Outcome { size, time, bytes: ways * 8 * n, check, picture: None })
}
