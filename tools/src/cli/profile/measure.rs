//! Runs demos with the counters on.

use cuda_driver::counters::{self, LaunchReport};

use super::super::error::CliError;
use super::super::names::no_demo_or_kernel;
use crate::demo::{self, Demo, Ending, Scale};
use ferrowarp::Gpu;
use ferrowarp::error::GpuContext;

/// What was profiled.
pub(super) struct Profile {
    /// The name that was asked for.
    pub(super) name: String,
    /// The device.
    pub(super) device: String,
    /// The demo that ran.
    pub(super) demo: &'static str,
    /// Its launches.
    pub(super) launches: Vec<Launches>,
    right: bool,
}

/// Launches of a kernel with the same shape.
pub(super) struct Launches {
    /// How many there were.
    pub(super) count: usize,
    /// The first of them.
    pub(super) first: LaunchReport,
}

impl Profile {
    /// Fails if the demo computed something wrong.
    pub(super) fn check(&self) -> Result<(), CliError> {
        if self.right { Ok(()) } else { Err(CliError::WrongDemos { names: vec![self.demo] }) }
    }
}

/// Profiles all launches of a demo, or those of a kernel in the first demo that launches it.
pub(super) fn measure(gpu: &Gpu, name: &str, scale: Scale) -> Result<Profile, CliError> {
    if let Some(demo) = demo::named(name) {
        return run(gpu, demo, scale).map(|profile| Profile { name: name.to_owned(), ..profile });
    }
    let mut failed = None;
    for demo in demo::demos() {
        let mut profile = match run(gpu, demo, scale) {
            Ok(profile) => profile,
            Err(CliError::DemoNotHere { .. }) => continue,
            Err(error) if gpu.is_lost() => return Err(error),
            // Another one may launch the kernel. What this one left in its streams is not that one's.
            Err(error) => {
                let _ = gpu.synchronize();
                failed.get_or_insert(error);
                continue;
            }
        };
        profile.launches.retain(|own| own.first.kernel == name);
        if !profile.launches.is_empty() {
            return Ok(Profile { name: name.to_owned(), ..profile });
        }
    }
    Err(failed.unwrap_or_else(|| no_demo_or_kernel(name)))
}

fn run(gpu: &Gpu, demo: &'static Demo, scale: Scale) -> Result<Profile, CliError> {
    counters::start()?;
    let ending = demo.run(gpu, scale).with_gpu_context(|| format!("demo {}", demo.name));
    let reports = counters::take();
    let ending = ending?;
    if let Ending::NotHere(lack) = ending {
        return Err(CliError::DemoNotHere { name: demo.name, lack });
    }
    let mut launches: Vec<Launches> = Vec::new();
    for report in reports {
        match launches.iter_mut().find(|own| shape(&own.first) == shape(&report)) {
            Some(own) => own.count += 1,
            None => launches.push(Launches { count: 1, first: report }),
        }
    }
    Ok(Profile {
        name: demo.name.to_owned(),
        device: gpu.name().to_owned(),
        demo: demo.name,
        launches,
        right: !ending.is_wrong(),
    })
}

fn shape(report: &LaunchReport) -> (&str, [u32; 3], [u32; 3], u32) {
    (&report.kernel, report.grid, report.block, report.dynamic_shared_bytes)
}
