//! What `ferrowarp demo` runs: each kernel on data made here, timed, and checked against its CPU reference.

mod arrays;
mod copies;
mod graphs;
mod launches;
mod memory;
mod particles;
mod peers;
mod pictures;
mod plates;
mod reload;
mod resources;
mod rings;
mod running;
mod scene;
mod table;
mod unified;

use std::fmt;
use std::time::Duration;

use cuda_driver::Backend;

use crate::Gpu;
use crate::device::devices;
use crate::error::{GpuError, GpuResult};

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
    /// Width and height of an image.
    pub image: (usize, usize),
    /// Particles in a box.
    pub particles: usize,
}

impl Scale {
    /// Arrays of `size` elements, matrices with sides of as many, pictures of that width.
    #[must_use]
    pub fn of(size: usize) -> Self {
        Self { n: size, side: size, image: (size, (size * 9).div_ceil(16)), particles: size }
    }

    /// Sizes that take about a second in all on `backend`.
    #[must_use]
    pub fn suited_to(backend: Option<Backend>) -> Self {
        match backend {
            Some(Backend::Cuda) => {
                Self { n: 1 << 24, side: 4096, image: (1920, 1080), particles: 500_000 }
            }
            _ => Self { n: 1 << 18, side: 512, image: (640, 360), particles: 2_000 },
        }
    }
}

/// How far the device's result is from the reference's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// Largest difference found.
    pub largest: f64,
    /// Largest difference that arithmetic explains; 0 where the result is exact.
    pub allowed: f64,
}

impl Check {
    /// Of results that must agree bit for bit: 0 or infinity.
    fn exact<T: PartialEq>(found: &[T], expected: &[T]) -> Self {
        Self { largest: if found == expected { 0.0 } else { f64::INFINITY }, allowed: 0.0 }
    }

    /// Of the largest difference among pairs.
    fn within(allowed: f64, pairs: impl Iterator<Item = (f64, f64)>) -> Self {
        let differences = pairs.map(|(found, expected)| (found - expected).abs());
        let largest =
            differences.fold(0.0, |a: f64, b| if b.is_nan() { f64::INFINITY } else { a.max(b) });
        Self { largest, allowed }
    }

    /// The same, if what the demo says of itself holds too; else a result that is infinitely wrong.
    fn provided(self, holds: bool) -> Self {
        if holds { self } else { Self { largest: f64::INFINITY, ..self } }
    }

    /// Whether the result is right.
    #[must_use]
    pub fn passed(self) -> bool {
        self.largest <= self.allowed
    }
}

/// What one demo did.
#[derive(Debug)]
pub struct Outcome {
    /// Size of the problem, for people.
    pub size: String,
    /// Time on the device: the median of several runs.
    pub time: Duration,
    /// Bytes that had to move: each input read once, each output written once.
    pub bytes: usize,
    /// The comparison with the reference.
    pub check: Check,
    /// The picture that came out, if it is one.
    pub picture: Option<Picture>,
}

/// How a demo ended.
#[derive(Debug)]
pub enum Ending {
    /// It ran.
    Ran(Outcome),
    /// It did not: the device, or the machine, lacks what it is about.
    NotHere(Lack),
}

/// What is missing for a demo. `Display` says it, and what would let the demo run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lack {
    /// More devices.
    Devices {
        /// How many there are.
        found: usize,
        /// How many it takes.
        needed: usize,
    },
    /// Something that the device cannot do.
    Feature {
        /// What that is.
        what: &'static str,
    },
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

impl Lack {
    /// What the device does not support, if that is the error.
    fn of(error: &GpuError) -> Option<Self> {
        match error.root() {
            GpuError::Unsupported { what } => Some(Self::Feature { what }),
            _ => None,
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const EMULATED: &str = "FERROWARP_DEVICE=emulator";
        match self {
            Self::Devices { found, needed } => write!(
                f,
                "it takes {needed} devices, and there is {found}: {EMULATED} \
                 FERROWARP_EMULATOR_DEVICES={needed} has them"
            ),
            Self::Feature { what } => {
                write!(f, "this device does not support {what}; {EMULATED} has one that does")
            }
        }
    }
}

impl Ending {
    /// What came out, if it ran.
    #[must_use]
    pub fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Ran(outcome) => Some(outcome),
            Self::NotHere(_) => None,
        }
    }

    /// Whether it ran and computed something wrong.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.outcome().is_some_and(|outcome| !outcome.check.passed())
    }
}

impl Outcome {
    /// Effective bandwidth in GB/s (10⁹ bytes).
    #[must_use]
    pub fn gigabytes_per_second(&self) -> f64 {
        self.bytes as f64 / self.time.as_secs_f64() / 1e9
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            check if !check.passed() => {
                write!(f, "WRONG: {:.3e} > {:.3e}", self.largest, self.allowed)
            }
            Self { allowed: 0.0, .. } => f.write_str("exact"),
            Self { largest, .. } => write!(f, "{largest:.2e}"),
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
    use crate::error::GpuContext;

    const ASKED: &str = "wings";

    /// What becomes of a demo whose run ends so.
    fn ending(run: fn(&Gpu, Scale) -> GpuResult<Outcome>, devices: usize) -> GpuResult<Ending> {
        Demo::new("flight", "takes off", run).of_devices(devices).run(&Gpu::new()?, Scale::of(1))
    }

    fn unsupported(_: &Gpu, _: Scale) -> GpuResult<Outcome> {
        Err(GpuError::Unsupported { what: ASKED }).gpu_context("taking off")
    }

    fn refused(_: &Gpu, _: Scale) -> GpuResult<Outcome> {
        Err(GpuError::KernelDoesNotAnswer { waited_ms: 1 })
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
        assert!(matches!(error, GpuError::KernelDoesNotAnswer { .. }), "{error}");
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
