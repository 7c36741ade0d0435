//! What `ferrowarp demo` runs: each kernel on data made here, timed, and checked against its CPU reference.

mod arrays;
mod copies;
mod graphs;
mod launches;
mod memory;
mod outcome;
mod particles;
mod peers;
mod pictures;
mod plates;
mod products;
mod reload;
mod resources;
mod rings;
mod running;
mod rust_cuda;
mod scene;
mod table;
mod unified;

use std::time::Duration;

use cuda_driver::Backend;

use ferrowarp::Gpu;
use ferrowarp::device::devices;
use ferrowarp::error::GpuResult;

pub use graphs::drawn as drawn_graphs;
pub use outcome::{Check, Ending, Lack, Outcome};
pub(crate) use particles::dam;
pub use particles::{Film, FilmReport};
pub use pictures::{Picture, Pixels};
pub use plates::{Motion, Plate, PlateReport};
pub use table::GROUPS;

/// Problem sizes: large on a GPU, small on the emulator.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Elements of an array.
    pub n: usize,
    /// Side of a square matrix.
    pub side: usize,
    /// Side of the matrices that are multiplied.
    pub product: usize,
    /// Width and height of an image.
    pub image: (usize, usize),
    /// Particles in a box.
    pub particles: usize,
}

impl Scale {
    /// Arrays of `size` elements, matrices with sides of as many, pictures of that width.
    #[must_use]
    pub fn of(size: usize) -> Self {
        Self {
            n: size,
            side: size,
            product: size,
            image: (size, (size * 9).div_ceil(16)),
            particles: size,
        }
    }

    /// Sizes with which no demo takes long on `backend`.
    #[must_use]
    pub fn suited_to(backend: Option<Backend>) -> Self {
        match backend {
            Some(Backend::Cuda) => {
                let image = (1920, 1080);
                Self { n: 1 << 24, side: 4096, product: 4096, image, particles: 500_000 }
            }
            _ => {
                let image = (640, 360);
                Self { n: 1 << 18, side: 512, product: 128, image, particles: 2_000 }
            }
        }
    }
}

/// Demos of one subject.
pub struct Group {
    /// The subject.
    pub title: &'static str,
    /// The demos, in the order in which they teach.
    pub demos: &'static [Demo],
}

/// A demo: its name, one line on it, and the run.
pub struct Demo {
    /// Name.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    devices: usize,
    run: fn(&Gpu, Scale) -> GpuResult<Outcome>,
}

/// All demos, in the order in which they teach.
pub fn demos() -> impl Iterator<Item = &'static Demo> {
    GROUPS.iter().flat_map(|group| group.demos)
}

/// The demo of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Demo> {
    demos().find(|demo| demo.name == name)
}

impl Demo {
    const fn new(
        name: &'static str,
        about: &'static str,
        run: fn(&Gpu, Scale) -> GpuResult<Outcome>,
    ) -> Self {
        Self { name, about, devices: 1, run }
    }

    /// The same for a demo that takes so many devices.
    const fn of_devices(self, devices: usize) -> Self {
        Self { devices, ..self }
    }

    /// Runs the demo, if it can run here.
    ///
    /// # Errors
    /// What the driver answers. Neither a wrong result is an error here, which [`Check::passed`] tells, nor
    /// what the device does not support.
    pub fn run(&self, gpu: &Gpu, scale: Scale) -> GpuResult<Ending> {
        if self.devices > 1 && devices()?.len() < self.devices {
            let (found, needed) = (devices()?.len(), self.devices);
            return Ok(Ending::NotHere(Lack::Devices { found, needed }));
        }
        match (self.run)(gpu, scale) {
            Ok(outcome) => Ok(Ending::Ran(outcome)),
            Err(error) => Lack::of(&error).map(Ending::NotHere).ok_or(error),
        }
    }
}

/// Median time of five runs of `work`, after one that warms up.
fn timed(gpu: &Gpu, mut work: impl FnMut() -> GpuResult<()>) -> GpuResult<Duration> {
    work()?;
    let mut milliseconds = Vec::new();
    for _ in 0..5 {
        milliseconds.push(gpu.stream().time(&mut work)?.1);
    }
    milliseconds.sort_by(f64::total_cmp);
    Ok(Duration::from_secs_f64(milliseconds[2] / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrowarp::error::{GpuContext, GpuError};

    const ASKED: &str = "wings";

    /// What becomes of a demo whose run ends so.
    fn ending(run: fn(&Gpu, Scale) -> GpuResult<Outcome>, devices: usize) -> GpuResult<Ending> {
        Demo::new("flight", "takes off", run).of_devices(devices).run(&Gpu::new()?, Scale::of(1))
    }

    fn unsupported(_: &Gpu, _: Scale) -> GpuResult<Outcome> {
        Err(GpuError::Unsupported { what: ASKED }).gpu_context("taking off")
    }

    fn refused(_: &Gpu, _: Scale) -> GpuResult<Outcome> {
        Err(GpuError::KernelNotResponding { waited_ms: 1 })
    }

    #[test]
    fn what_the_device_does_not_support_is_no_error_and_not_wrong() {
        let ending = ending(unsupported, 1).unwrap();
        assert!(!ending.is_wrong() && ending.outcome().is_none());
        let Ending::NotHere(lack) = ending else { panic!("it ran") };
        assert_eq!(lack, Lack::Feature { what: ASKED });
        let text = lack.to_string();
        assert!(text.contains("does not support wings; FERROWARP_DEVICE=emulator"), "{text}");
    }

    #[test]
    fn any_other_error_stays_one() {
        let error = ending(refused, 1).unwrap_err();
        assert!(matches!(error, GpuError::KernelNotResponding { .. }), "{error}");
    }

    #[test]
    fn a_demo_for_more_devices_than_there_are_does_not_begin() {
        let ending = ending(refused, 1000).unwrap();
        let Ending::NotHere(Lack::Devices { found, needed: 1000 }) = ending else {
            panic!("{ending:?}")
        };
        assert!((1..1000).contains(&found));
        let text = Lack::Devices { found, needed: 1000 }.to_string();
        assert!(text.contains("FERROWARP_EMULATOR_DEVICES=1000"), "{text}");
    }

    #[test]
    fn names_are_there_once() {
        let mut names: Vec<_> = demos().map(|demo| demo.name).collect();
        assert!(names.iter().all(|name| named(name).is_some()) && named("flight").is_none());
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
