//! The demo of hot reload.

use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, fs, io};

use cuda_std::launch::Launch;
use kernels_gpu::elementwise::vecadd;

use super::arrays::{elements, floats};
use super::{Check, Outcome, Scale};
use ferrowarp::error::{GpuError, GpuResult};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::reload::ReloadEvent;
use ferrowarp::{Gpu, LaunchConfig};

/// A kernel that this program has a launcher for, as a text.
const PTX: &str = include_str!("reload.ptx");
/// How long the swap is waited for.
const PATIENCE: Duration = Duration::from_secs(10);

/// A file with a kernel is edited while the program runs. The next launch is the new kernel's, and the old one can be
/// launched beside it. The time is that from the edit to its first result.
pub(super) fn reload(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let dir = tempfile::tempdir().map_err(failed(&env::temp_dir()))?;
    let file = dir.path().join("vecadd.ptx");
    fs::write(&file, PTX).map_err(failed(&file))?;
    // A new version must have all that was launched before: with other kernels than these, the file would be refused.
    let gpu = &Gpu::on_with_images(gpu.info().ordinal, &[])?;
    // SAFETY: the file, in a folder of this function's own, holds `PTX` and then its edit below: both are `vecadd`, of which
    // the other one subtracts.
    let hot = unsafe { gpu.watch_ptx(&file)? };
    let (a, b) = (floats(n, 19), floats(n, 20));
    let (on_a, on_b) = (DeviceBuffer::from_slice(gpu, &a)?, DeviceBuffer::from_slice(gpu, &b)?);
    let mut out = DeviceBuffer::zeroed(gpu, n)?;
    let before = launched(&hot, &on_a, &on_b, &mut out)?;

    let events = hot.events();
    let edit = Instant::now();
    fs::write(&file, PTX.replace("add.rn.f32", "sub.rn.f32")).map_err(failed(&file))?;
    let news = events.recv_timeout(PATIENCE);
    let is_swapped = matches!(news, Ok(ReloadEvent::Swapped { .. }));
    let after = launched(&hot, &on_a, &on_b, &mut out)?;
    let time = edit.elapsed();

    let beside = launched(&hot.version(1)?, &on_a, &on_b, &mut out)?;
    let sum = reference::vecadd::vecadd(&a, &b);
    let difference: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a - b).collect();
    let check = Check::exact(&[before, after, beside], &[sum.clone(), difference, sum]);
    let check = check.provided(is_swapped);
    Ok(Outcome { size: elements(n), time, bytes: 12 * n, check, picture: None })
}

/// What the kernel of a version makes of both.
fn launched(
    on: &impl Launch<Error = GpuError>,
    a: &DeviceBuffer<f32>,
    b: &DeviceBuffer<f32>,
    out: &mut DeviceBuffer<f32>,
) -> GpuResult<Vec<f32>> {
    out.clear()?;
    vecadd::launch(on, LaunchConfig::for_num_elems(a.len()), a, b, &mut *out)?;
    out.to_vec()
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> GpuError {
    let path = path.to_owned();
    |source| GpuError::Watch { path, source }
}
