//! Kernels that are exchanged while they are used.

use std::fs;
use std::time::Duration;

use cuda_std::launch::{Launch, LaunchConfig};
use ferrowarp::Gpu;
use ferrowarp::error::{GpuError, GpuResult};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::reload::ReloadEvent;
use kernels_gpu::elementwise::vecadd;

use super::super::counts::Flow;
use super::super::error::SoakError;
use super::super::kernel::PTX;
use super::super::random::Random;
use super::super::site::Site;
use super::faults::expect;

/// How long an edit may take to be used.
const PATIENCE: Duration = Duration::from_secs(60);

/// A file is edited some times: every other version subtracts. The last edit is not PTX at all, and the version before it stays.
pub(super) fn run(site: &Site, random: &mut Random) -> Result<(), SoakError> {
    let (n, edits) = (random.len(1000), random.below(4) + 1);
    let (a, b) = (random.wholes(n), random.wholes(n));
    let folder = tempfile::tempdir().map_err(SoakError::system("making a folder for kernels"))?;
    let file = folder.path().join("vecadd.ptx");
    let write = |text: &str| fs::write(&file, text).map_err(SoakError::system("writing a kernel"));
    write(PTX)?;
    let gpu = Gpu::on_with_images(site.gpu.info().ordinal, &[])?;
    // SAFETY: the file, in a folder of this function's own, holds `PTX` or that with a subtraction, which are both `vecadd`, or
    // what is no PTX.
    let hot = unsafe { gpu.watch_ptx(&file)? };
    let (on_a, on_b) = (DeviceBuffer::from_slice(&gpu, &a)?, DeviceBuffer::from_slice(&gpu, &b)?);
    let mut out = DeviceBuffer::zeroed(&gpu, n)?;
    site.counts.same(
        "the first version",
        &launched(&hot, &on_a, &on_b, &mut out)?,
        &combined(0, &a, &b),
    )?;
    let events = hot.events();
    for edit in 1..=edits {
        site.counts.begin(Flow::Reloads, 1);
        write(&text(edit))?;
        if matches!(events.recv_timeout(PATIENCE), Ok(ReloadEvent::Swapped { .. })) {
            site.counts.end(Flow::Reloads, 1);
        }
        let found = launched(&hot, &on_a, &on_b, &mut out)?;
        site.counts.same("a new version", &found, &combined(edit, &a, &b))?;
    }
    site.counts.begin(Flow::Faults, 2);
    write("this is no kernel")?;
    match events.recv_timeout(PATIENCE) {
        Ok(ReloadEvent::LoadFailed { .. } | ReloadEvent::Refused { .. }) => {
            site.counts.end(Flow::Faults, 1);
        }
        _ => {
            let found = "another event, or none".to_owned();
            return Err(SoakError::Unreported { fault: "a version that is no kernel", found });
        }
    }
    let found = launched(&hot, &on_a, &on_b, &mut out)?;
    site.counts.same("the version before a wrong one", &found, &combined(edits, &a, &b))?;
    let never = hot.version(999).map(drop);
    let is_missing = |error: &GpuError| matches!(error, GpuError::NoVersion { asked: 999, .. });
    expect(site, "a version that never was", never, is_missing)
}

/// Version 0 and every other one adds.
fn text(edit: usize) -> String {
    let operation = if edit.is_multiple_of(2) { "add.rn.f32" } else { "sub.rn.f32" };
    // Another text each time, so that no edit is what is there already.
    PTX.replace("add.rn.f32", operation) + &format!("// edit {edit}\n")
}

fn combined(edit: usize, a: &[f32], b: &[f32]) -> Vec<f32> {
    let sign = if edit.is_multiple_of(2) { 1.0 } else { -1.0 };
    reference::saxpy::saxpy(sign, b, a)
}

/// What the kernel of the version in use makes of both.
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
