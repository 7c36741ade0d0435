//! Half a million particles behind a dam that breaks: the check of their energy, and the film.
//!
//! Both are loops of frames, of steps that are replays of one graph, in memory of a pool. The host reads positions and
//! velocities where they are, in unified memory (the film: if it is asked to), and an error says in which frame it happened.

use std::time::{Duration, Instant};

use super::{Check, Outcome, Picture, Pixels, Scale, timed};
use ferrowarp::error::{GpuContext, GpuError, GpuResult};
use ferrowarp::memory::resource::MemoryPool;
use ferrowarp::memory::{PendingCopy, PinnedBuffer};
use ferrowarp::ops::particles::{Particle, Particles, World};
use ferrowarp::ops::spheres::{Camera, Canvas};
use ferrowarp::{Event, Gpu};

/// Part of the energy that may come and go in a step of this length, without damping.
const ENERGY_SWING: f64 = 0.01;
/// Steps whose energy the demo compares.
const STEPS: usize = 100;
/// Looks at them meanwhile.
const FRAMES: usize = 4;

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

/// The memory of a picture on the host.
type Shown = PinnedBuffer<[u8; 4]>;

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
        let memory = MemoryPool::new(gpu);
        let particles = match self.is_unified {
            true => Particles::unified_in(&memory, gpu, world, &positions),
            false => Particles::new_in(&memory, gpu, world, &positions),
        };
        let mut particles = particles.and_then(Particles::replayed).with_gpu_context(prepared)?;
        let pixels = self.size[0] as usize * self.size[1] as usize;
        let mut canvas = Canvas::new(gpu, self.size).with_gpu_context(prepared)?;
        let mut picture = PinnedBuffer::zeroed(gpu, pixels).with_gpu_context(prepared)?;
        particles.step()?;
        let first_energy = particles.energy()?;
        let (start, mut milliseconds) = (Instant::now(), 0.0);
        for frame in 0..self.frames {
            let time = frame as f32 / self.frames as f32;
            let (copy, [before, after]) = self
                .enqueue(gpu, &mut particles, &mut canvas, time, picture)
                .with_gpu_context(|| self.frame(frame))?;
            picture = copy.wait().with_gpu_context(|| self.frame(frame))?;
            show(picture.to_vec())?;
            milliseconds +=
                after.milliseconds_since(&before).with_gpu_context(|| self.frame(frame))?;
        }
        let last_energy = particles.energy().gpu_context("after the last frame")?;
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

    /// Enqueues the drawing of the particles as they are and the copy of the picture; then the steps to the next
    /// picture, which the device takes while this one is shown, between two events.
    fn enqueue(
        &self,
        gpu: &Gpu,
        particles: &mut Particles,
        canvas: &mut Canvas,
        time: f32,
        picture: Shown,
    ) -> GpuResult<(PendingCopy<Shown>, [Event; 2])> {
        let camera = camera(particles.world(), self.size, time);
        let (position, velocity) = particles.vectors();
        let drawn = canvas.draw(&camera, &position, &velocity)?;
        let copy = drawn.copy_to_pinned_async(gpu, picture)?;
        let before = gpu.stream().record_event()?;
        (0..self.steps_per_frame).try_for_each(|_| particles.step())?;
        Ok((copy, [before, gpu.stream().record_event()?]))
    }

    /// What an error of a frame says first.
    fn frame(&self, number: usize) -> String {
        format!("frame {number} of {}", self.frames)
    }
}

/// What an error says first that comes before the first step.
fn prepared() -> &'static str {
    "preparing the particles"
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

/// Where the particles are: in a memory pool, and what the host reads of them in unified memory, if the device has it.
fn placed(gpu: &Gpu, world: World, positions: &[[f32; 3]]) -> GpuResult<Particles> {
    let memory = MemoryPool::new(gpu);
    match Particles::unified_in(&memory, gpu, world, positions) {
        Err(error) if matches!(error.root(), GpuError::Unsupported { .. }) => {
            Particles::new_in(&memory, gpu, world, positions)
        }
        placed => placed,
    }
}

/// A look at the box from its side, drawn by the host from the particles where they are: the faster, the brighter.
fn side_view(particles: &Particles, (width, height): (usize, usize)) -> GpuResult<Picture> {
    let world = particles.world();
    let scale = width as f32 / world.cells[0] as f32;
    let fast = (world.gravity * world.cells[1] as f32).sqrt();
    let mut pixels = vec![0; width * height];
    for Particle { position: [x, y, _], velocity, .. } in particles.to_vec()? {
        let speed = velocity.iter().map(|v| v * v).sum::<f32>().sqrt();
        let grey = 80 + (175.0 * (speed / fast).min(1.0)) as u8;
        let (left, bottom) = ((x - 0.5) * scale, (y - 0.5) * scale);
        let across =
            |from: f32, end: usize| from.max(0.0) as usize..((from + scale) as usize + 1).min(end);
        for (row, column) in across(bottom, height)
            .flat_map(|row| across(left, width).map(move |column| (row, column)))
        {
            let pixel: &mut u8 = &mut pixels[(height - 1 - row) * width + column];
            *pixel = grey.max(*pixel);
        }
    }
    Ok(Picture { width, height, pixels: Pixels::Grey(pixels) })
}

pub(super) fn particles(gpu: &Gpu, Scale { particles: n, image, .. }: Scale) -> GpuResult<Outcome> {
    let (world, positions) = dam(n, 0.0);
    let placed = placed(gpu, world, &positions).and_then(Particles::replayed);
    let mut particles = placed.with_gpu_context(prepared)?;
    particles.step()?;
    let first = f64::from(particles.energy()?);
    let (mut largest, mut picture) = (0f64, None);
    for frame in 0..FRAMES {
        let mut advance = || {
            (0..STEPS / FRAMES).try_for_each(|_| particles.step())?;
            picture = Some(side_view(&particles, image)?);
            particles.energy()
        };
        let energy = advance().with_gpu_context(|| format!("frame {frame} of {FRAMES}"))?;
        largest = largest.max((f64::from(energy) - first).abs() / first);
    }
    if found_again(&particles)? != n {
        largest = f64::INFINITY;
    }
    let time = timed(gpu, || particles.step())?;
    // The sort reads and writes place and speed, and so does the step; slots, order and cells beside.
    let bytes = n * (2 * 64 + 16 + 2 * 8 + 2 * 8 + 4 * 4) + 5 * 4 * particles.world().n_cells();
    let check = Check { largest, allowed: ENERGY_SWING };
    Ok(Outcome { size: format!("{n} particles"), time, bytes, check, picture })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn film(size: [u32; 2]) -> Film {
        Film { n_particles: 10, frames: 3, steps_per_frame: 1, size, is_unified: false }
    }

    #[test]
    fn an_error_says_that_the_particles_were_prepared() {
        let film = film([1 << 20; 2]);
        let error = film.run::<GpuError>(&Gpu::new().unwrap(), |_| Ok(())).unwrap_err();
        assert_eq!(error.contexts().next(), Some("preparing the particles"), "{error}");
        assert!(matches!(error.root(), GpuError::OutOfMemory { .. }), "{error}");
    }

    #[test]
    fn an_error_says_which_frame_it_was() {
        let (gpu, mut shown) = (Gpu::new().unwrap(), 0);
        let result = film([16; 2]).run::<GpuError>(&gpu, |_| {
            shown += 1;
            // The next wait for the stream finds its panic. Unlike `panic!` this prints nothing.
            let panic = || std::panic::resume_unwind(Box::new("planted"));
            let call = if shown == 2 { Some(gpu.stream().launch_host_func(panic)?) } else { None };
            drop::<Option<ferrowarp::HostCall<()>>>(call);
            Ok(())
        });
        let error = result.unwrap_err();
        let frame = error.contexts().next().unwrap_or_default();
        // A copy waits for an event, and only a wait for the stream finds the panic of a host callback.
        let frames = ["frame 1 of 3", "frame 2 of 3", "after the last frame"];
        assert!(frames.contains(&frame), "{error}");
        assert!(matches!(error.root(), GpuError::HostPanic { .. }), "{error}");
    }

    #[test]
    fn the_view_shows_all_particles_inside_the_picture() {
        let gpu = Gpu::new().unwrap();
        let (world, positions) = dam(50, 0.0);
        let particles = placed(&gpu, world, &positions).unwrap();
        let picture = side_view(&particles, (64, 36)).unwrap();
        let Pixels::Grey(pixels) = picture.pixels else { panic!("it is grey") };
        let bright = |x: usize, y: usize| pixels[y * 64 + x] > 0;
        // The block stands at the left of the floor, and the right of the box is empty.
        assert!(bright(4, 35) && !bright(63, 35) && !bright(4, 0));
    }
}
