//! Half a million particles behind a dam that breaks: the check of their energy, and the film.

use std::time::{Duration, Instant};

use super::{Check, Outcome, Scale, timed};
use ferrowarp::Gpu;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::PinnedBuffer;
use ferrowarp::memory::resource::MemoryPool;
use ferrowarp::ops::particles::{Particles, World};
use ferrowarp::ops::spheres::{Camera, Canvas};

/// Part of the energy that may come and go in a step of this length, without damping.
const ENERGY_SWING: f64 = 0.01;
/// Steps whose energy the demo compares.
const STEPS: usize = 100;

/// A film of the particles.
#[derive(Clone, Copy, Debug)]
pub struct Film {
    /// The number of particles.
    pub n_particles: usize,
    /// The number of pictures.
    pub frames: usize,
    /// Steps between two pictures.
    pub steps_per_frame: usize,
    /// Width and height of a picture, in pixels.
    pub size: [u32; 2],
    /// Whether places and speeds are in memory that moves between host and device by itself.
    pub is_unified: bool,
}

/// What a film was.
#[derive(Clone, Copy, Debug)]
pub struct FilmReport {
    /// The number of particles, all of them found again at the end.
    pub n_particles: usize,
    /// The number of pictures.
    pub frames: usize,
    /// The number of steps.
    pub steps: usize,
    /// From the first picture to the last step.
    pub time: Duration,
    /// Of that, what the steps took on the device.
    pub steps_time: Duration,
    /// Energy after the first step.
    pub first_energy: f32,
    /// Energy after the last.
    pub last_energy: f32,
}

impl Film {
    /// Numbers that suit the device: what a GPU does in seconds, or an emulator.
    #[must_use]
    pub fn suited_to(gpu: &Gpu) -> Self {
        let size = [960, 540];
        match gpu.backend() {
            cuda_driver::Backend::Cuda => Self {
                n_particles: 500_000,
                frames: 300,
                steps_per_frame: 16,
                size,
                is_unified: false,
            },
            cuda_driver::Backend::Emulator => Self {
                n_particles: 2_000,
                frames: 60,
                steps_per_frame: 16,
                size: [480, 270],
                is_unified: false,
            },
        }
    }

    /// Runs the particles and gives each picture to `show`: rows from the top, red, green, blue and alpha.
    ///
    /// # Errors
    /// What the driver answers, or `show`.
    pub fn run<E: From<ferrowarp::GpuError>>(
        &self,
        gpu: &Gpu,
        mut show: impl FnMut(Vec<[u8; 4]>) -> Result<(), E>,
    ) -> Result<FilmReport, E> {
        let (world, positions) = dam(self.n_particles, 0.1);
        let particles = match self.is_unified {
            true => Particles::unified(gpu, world, &positions)?,
            false => Particles::new_in(&MemoryPool::new(gpu), gpu, world, &positions)?,
        };
        let mut particles = particles.replayed()?;
        let mut canvas = Canvas::new(gpu, self.size)?;
        let mut picture = PinnedBuffer::zeroed(gpu, (self.size[0] * self.size[1]) as usize)?;
        particles.step()?;
        let first_energy = particles.energy()?;
        let (start, mut milliseconds) = (Instant::now(), 0.0);
        for frame in 0..self.frames {
            let camera = camera(particles.world(), self.size, frame as f32 / self.frames as f32);
            let (position, velocity) = particles.vectors();
            let drawn = canvas.draw(&camera, &position, &velocity)?;
            let copy = drawn.copy_to_pinned_async(gpu, picture)?;
            // The device takes the next steps while the picture is shown.
            let before = gpu.stream().record_event()?;
            (0..self.steps_per_frame).try_for_each(|_| particles.step())?;
            let after = gpu.stream().record_event()?;
            picture = copy.wait()?;
            show(picture.to_vec())?;
            milliseconds += after.milliseconds_since(&before)?;
        }
        let last_energy = particles.energy()?;
        Ok(FilmReport {
            n_particles: found_again(&particles)?,
            frames: self.frames,
            steps: self.frames * self.steps_per_frame,
            time: start.elapsed(),
            steps_time: Duration::from_secs_f64(milliseconds / 1e3),
            first_energy,
            last_energy,
        })
    }
}

/// A box with particles in its corner, as stiff as their weight on one another demands. `damping` is a part of
/// what stops a contact from swinging.
pub(crate) fn dam(n: usize, damping: f32) -> (World, Vec<[f32; 3]>) {
    let (cells, positions) = Particles::dam(n);
    let stiffness = 10.0 * cells[1] as f32;
    let world = World {
        cells,
        stiffness,
        damping: damping * (2.0 * stiffness).sqrt(),
        gravity: 1.0,
        time_step: 0.125 * (2.0 / stiffness).sqrt(),
    };
    (world, positions)
}

/// How many of the particles are there, each once, and inside the box.
fn found_again(particles: &Particles) -> GpuResult<usize> {
    let size = particles.world().cells.map(|cells| cells as f32);
    let inside = |position: [f32; 3]| (0..3).all(|k| (0.0..size[k]).contains(&position[k]));
    let mut names: Vec<u32> = particles
        .to_vec()?
        .iter()
        .filter(|particle| inside(particle.position))
        .map(|particle| particle.name)
        .collect();
    names.dedup();
    Ok(names.len())
}

/// A look at the box from the front and a little above, which goes round it a little from `time` 0 to 1.
fn camera(world: &World, size: [u32; 2], time: f32) -> Camera {
    let [width, height, depth] = world.cells.map(|cells| cells as f32);
    let (sine, cosine) = (0.6 * time - 0.45).sin_cos();
    let (tilt_sine, tilt_cosine) = 0.3f32.sin_cos();
    let forward = [-sine * tilt_cosine, -tilt_sine, cosine * tilt_cosine];
    let distance = 1.2 * width + 0.5 * depth;
    let middle = [0.5 * width, 0.3 * height, 0.5 * depth];
    Camera {
        eye: std::array::from_fn(|k| middle[k] - distance * forward[k]),
        right: [cosine, 0.0, sine],
        up: [-sine * tilt_sine, tilt_cosine, cosine * tilt_sine],
        forward,
        focal: size[0] as f32,
        size,
        far: 2.0 * distance,
        fast: 1.2 * (world.gravity * height).sqrt(),
    }
}

pub(super) fn particles(gpu: &Gpu, Scale { particles: n, .. }: Scale) -> GpuResult<Outcome> {
    let (world, positions) = dam(n, 0.0);
    let mut particles = Particles::new(gpu, world, &positions)?.replayed()?;
    particles.step()?;
    let first = f64::from(particles.energy()?);
    let mut largest = 0f64;
    for _ in 0..4 {
        (0..STEPS / 4).try_for_each(|_| particles.step())?;
        largest = largest.max((f64::from(particles.energy()?) - first).abs() / first);
    }
    if found_again(&particles)? != n {
        largest = f64::INFINITY;
    }
    let time = timed(gpu, || particles.step())?;
    // The sort reads and writes place and speed, and so does the step; slots, order and cells beside.
    let bytes = n * (2 * 64 + 16 + 2 * 8 + 2 * 8 + 4 * 4) + 5 * 4 * particles.world().n_cells();
    let check = Check { largest, allowed: ENERGY_SWING };
    Ok(Outcome { size: format!("{n} particles"), time, bytes, check, picture: None })
}
