//! The demo of several devices.

use super::arrays::{elements, floats};
use super::{Check, Outcome, Scale, timed};
use ferrowarp::Gpu;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops;

/// This device adds an array of its own and one of another device's: in place where its kernels reach that, else from
/// a copy.
pub(super) fn peers(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let other = Gpu::on(if gpu.info().ordinal == 0 { 1 } else { 0 })?;
    let (a, b) = (floats(n, 16), floats(n, 17));
    let theirs = DeviceBuffer::from_slice(&other, &a)?;
    let ours = DeviceBuffer::from_slice(gpu, &b)?;
    let (mut copy, mut sum) = (DeviceBuffer::zeroed(gpu, n)?, DeviceBuffer::zeroed(gpu, n)?);
    copy.copy_from_peer(&theirs)?;
    let is_copied = copy.to_vec()? == a;
    let (time, how) = if gpu.can_access_peer(&other)? {
        let access = gpu.enable_peer_access(&other)?;
        let in_place = || ops::vecadd(gpu, &theirs.peer_slice(&access)?, &ours, &mut sum);
        (timed(gpu, in_place)?, "in place")
    } else {
        let copied = || {
            copy.copy_from_peer(&theirs)?;
            ops::vecadd(gpu, &copy, &ours, &mut sum)
        };
        (timed(gpu, copied)?, "copied")
    };
    let check =
        Check::exact(&sum.to_vec()?, &reference::vecadd::vecadd(&a, &b)).provided(is_copied);
    let size = format!("{}, {how}", elements(n));
    Ok(Outcome { size, time, bytes: 12 * n, check, picture: None })
}
