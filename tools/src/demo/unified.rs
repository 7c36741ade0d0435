//! Demos of memory that host and device share.

use super::arrays::{HALF_ULP, elements, floats, widened};
use super::{Check, Outcome, Scale, timed};
use ferrowarp::Gpu;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::{MemoryAdvice, MemoryLocation, UnifiedBuffer};
use ferrowarp::ops;

/// The host fills unified memory, the device updates it, the host reads it: no copy is written anywhere.
pub(super) fn unified(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let (x, y) = (floats(n, 8), floats(n, 9));
    let mut on_x = UnifiedBuffer::zeroed(gpu, n)?;
    let mut on_y = UnifiedBuffer::zeroed(gpu, n)?;
    on_x.as_mut_slice()?.copy_from_slice(&x);
    on_y.as_mut_slice()?.copy_from_slice(&y);
    ops::saxpy(gpu, -2.0, &on_x, &mut on_y)?;
    let check = Check::within(6.0 * HALF_ULP, widened(on_y.as_slice()?, &updated(-2.0, &x, &y)));
    let time = timed(gpu, || ops::saxpy(gpu, -2.0, &on_x, &mut on_y))?;
    Ok(Outcome { size: elements(n), time, bytes: 12 * n, check, picture: None })
}

/// The host writes, the device updates, the host reads; each side's pages are there before it touches them.
pub(super) fn prefetch(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let (x, y) = (floats(n, 8), floats(n, 9));
    let here = MemoryLocation::Device(gpu.info().ordinal);
    let on_x = UnifiedBuffer::from_slice(gpu, &x)?;
    let mut on_y = UnifiedBuffer::zeroed(gpu, n)?;
    // Nobody writes it again: host and device may each keep a copy.
    on_x.advise(MemoryAdvice::SetReadMostly)?;
    on_y.advise(MemoryAdvice::SetPreferredLocation(here))?;
    let mut found = vec![0.0; n];
    let time = timed(gpu, || {
        on_y.as_mut_slice()?.copy_from_slice(&y);
        on_x.prefetch(here)?;
        on_y.prefetch(here)?;
        ops::saxpy(gpu, -2.0, &on_x, &mut on_y)?;
        on_y.prefetch(MemoryLocation::Host)?;
        found.copy_from_slice(on_y.as_slice()?);
        Ok(())
    })?;
    let check = Check::within(6.0 * HALF_ULP, widened(&found, &updated(-2.0, &x, &y)))
        .provided(n == 0 || on_x.attributes()?.read_mostly);
    Ok(Outcome { size: elements(n), time, bytes: 12 * n, check, picture: None })
}

/// A kernel updates a plain vector where it lies, if the device reaches the host's memory.
pub(super) fn host_slice(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let (x, mut y) = (floats(n, 8), floats(n, 9));
    let expected = updated(-2.0, &x, &y);
    let mut update = |alpha| {
        gpu.host_scope(|scope| {
            let on_x = scope.host_slice(gpu, &x)?;
            let mut on_y = scope.host_slice_mut(gpu, &mut y)?;
            ops::saxpy(gpu, alpha, &on_x, &mut on_y)
        })
    };
    update(-2.0)?;
    // By nothing, so that the result stays to be checked.
    let time = timed(gpu, || update(0.0))?;
    let check = Check::within(6.0 * HALF_ULP, widened(&y, &expected));
    Ok(Outcome { size: elements(n), time, bytes: 12 * n, check, picture: None })
}

fn updated(alpha: f32, x: &[f32], y: &[f32]) -> Vec<f32> {
    reference::saxpy::saxpy(alpha, x, y)
}
