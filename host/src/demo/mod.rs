//! What `ferrowarp demo` runs: each kernel on data made here, timed, and checked against its CPU reference.

mod arrays;
mod copies;
mod graphs;
mod memory;
mod particles;
mod pictures;
mod plates;
mod rings;
mod running;
mod scene;

use std::fmt;
use std::time::Duration;

use cuda_driver::Backend;

use crate::Gpu;
use crate::error::GpuResult;

pub use particles::{Film, FilmReport};
pub use pictures::{Picture, Pixels};
pub use plates::{Motion, Plate, PlateReport};

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

/// A demo: its name, one line on it, and the run.
pub struct Demo {
    /// Name.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    run: fn(&Gpu, Scale) -> GpuResult<Outcome>,
}

/// All demos, in the order in which they teach.
pub const DEMOS: &[Demo] = &[
    Demo { name: "vecadd", about: "one thread an element, no unsafe", run: arrays::vecadd },
    Demo { name: "saxpy", about: "a fused multiply-add, in place", run: arrays::saxpy },
    Demo {
        name: "copy_strided",
        about: "lanes 32 elements apart: slow",
        run: arrays::copy_strided,
    },
    Demo { name: "copy_coalesced", about: "lanes side by side: fast", run: arrays::copy_coalesced },
    Demo {
        name: "reduce_tree",
        about: "a sum by trees in shared memory",
        run: arrays::reduce_tree,
    },
    Demo {
        name: "reduce_sum_f32",
        about: "a sum by shuffles, one launch",
        run: arrays::reduce_f32,
    },
    Demo { name: "reduce_sum_i32", about: "the same, on integers", run: arrays::reduce_i32 },
    Demo { name: "pinned", about: "page-locked memory, there and back", run: copies::pinned },
    Demo { name: "pageable", about: "plain vectors, there and back", run: copies::pageable },
    Demo { name: "unified", about: "memory that host and device share", run: arrays::unified },
    Demo {
        name: "stream_ordered",
        about: "eight sums; memory comes and goes in order",
        run: memory::stream_ordered,
    },
    Demo { name: "pool", about: "the same from a pool: two blocks", run: memory::pool },
    Demo { name: "zero_copy", about: "the host's memory, used in place", run: rings::zero_copy },
    Demo { name: "ring", about: "messages to a kernel that stays", run: rings::ring },
    Demo { name: "graph", about: "201 small launches as one", run: graphs::graph },
    Demo {
        name: "transpose_naive",
        about: "reads along columns: slow",
        run: arrays::transpose_naive,
    },
    Demo {
        name: "transpose_tiled",
        about: "through shared memory: fast",
        run: arrays::transpose_tiled,
    },
    Demo { name: "grayscale", about: "colour to grey", run: pictures::grayscale },
    Demo { name: "histogram", about: "256 bins, private to each block", run: pictures::histogram },
    Demo { name: "equalize", about: "grey levels spread evenly", run: pictures::equalize },
    Demo { name: "blur", about: "a separable Gaussian with halos", run: pictures::blur },
    Demo { name: "sobel", about: "edges", run: pictures::sobel },
    Demo { name: "heat", about: "spreads, four steps in registers", run: plates::heat_demo },
    Demo { name: "wave", about: "spreads, and comes back", run: plates::wave_demo },
    Demo {
        name: "streams",
        about: "branches side by side, forked and joined",
        run: running::streams,
    },
    Demo {
        name: "pipeline",
        about: "frames come in and go out while one is computed",
        run: running::pipeline,
    },
    Demo { name: "futures", about: "one thread awaits copies and kernels", run: running::futures },
    Demo {
        name: "particles",
        about: "a dam that breaks; the error is the energy's",
        run: particles::particles,
    },
];

impl Demo {
    /// Runs the demo.
    ///
    /// # Errors
    /// What the driver answers. A wrong result is no error here: [`Check::passed`] tells.
    pub fn run(&self, gpu: &Gpu, scale: Scale) -> GpuResult<Outcome> {
        (self.run)(gpu, scale)
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
