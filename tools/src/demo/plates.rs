//! Heat that spreads over a plate, and waves on one: the stencils of a plane, and their films.

use std::time::{Duration, Instant};

use super::pictures::{Picture, Pixels};
use super::{Check, Outcome, Scale, timed};
use ferrowarp::error::GpuResult;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::stencil::{Boundary, PlaneStencil, plane_steps, wave_steps};
use ferrowarp::{Backend, Gpu, GpuError};
use reference::stencil::{Edge, plane_f32};

/// Of what a cell is warmer than its neighbours a step hands so much to each; up to 1/4 is stable.
const RATE: f32 = 0.24;
/// Cells that a wave passes in a step; up to √½ is stable.
const COURANT: f32 = 0.5;

/// What happens on a plate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
    /// Heat spreads from hot places and from a hot edge.
    Heat,
    /// Waves spread from bumps, and come back from the edges.
    Wave,
}

/// A film of a plate, of which a cell is a pixel. Its edges keep what they are.
#[derive(Clone, Copy, Debug)]
pub struct Plate {
    /// What happens.
    pub motion: Motion,
    /// Width and height in cells.
    pub size: [u32; 2],
    /// Pictures.
    pub frames: usize,
    /// Steps from one picture to the next.
    pub steps_per_frame: usize,
}

/// What a film of a plate was.
#[derive(Clone, Copy, Debug)]
pub struct PlateReport {
    /// Pictures.
    pub frames: usize,
    /// Steps in all.
    pub steps: usize,
    /// Time in all.
    pub time: Duration,
    /// Time of the steps on the device.
    pub steps_time: Duration,
    /// The least and the largest value at the end.
    pub range: [f32; 2],
}

impl Motion {
    /// What a step makes of a cell: heat, or with the step before a wave.
    #[must_use]
    pub fn stencil(self) -> PlaneStencil<f32> {
        match self {
            Self::Heat => heat(),
            Self::Wave => wave(),
        }
    }

    /// The picture of cells, of each a pixel.
    #[must_use]
    pub fn picture(self, cells: &[f32]) -> Vec<[u8; 4]> {
        colours(self, cells)
    }
}

impl Plate {
    /// The cells at first: `[height, width]`.
    #[must_use]
    pub fn start(&self) -> Vec<f32> {
        let [width, height] = self.size.map(|side| side as usize);
        start(self.motion, width, height)
    }

    /// Numbers that suit the device: what a GPU does in seconds, or an emulator.
    #[must_use]
    pub fn suited_to(gpu: &Gpu, motion: Motion) -> Self {
        let (size, frames, steps_per_frame) = match (gpu.backend(), motion) {
            (Backend::Cuda, Motion::Heat) => ([640, 360], 240, 64),
            (Backend::Cuda, Motion::Wave) => ([640, 360], 300, 8),
            (Backend::Emulator, Motion::Heat) => ([320, 180], 48, 16),
            (Backend::Emulator, Motion::Wave) => ([320, 180], 60, 4),
        };
        Self { motion, size, frames, steps_per_frame }
    }

    /// Runs the plate and gives each picture to `show`: rows from the top, red, green, blue and alpha.
    ///
    /// # Errors
    /// What the driver answers, or `show`.
    pub fn run<E: From<GpuError>>(
        &self,
        gpu: &Gpu,
        mut show: impl FnMut(Vec<[u8; 4]>) -> Result<(), E>,
    ) -> Result<PlateReport, E> {
        let start = Instant::now();
        let mut state = State::new(gpu, self.motion, self.size)?;
        let mut milliseconds = 0.0;
        let mut cells = state.now.to_vec()?;
        for _ in 0..self.frames {
            show(colours(self.motion, &cells))?;
            let steps = || state.advance(gpu, self.steps_per_frame);
            milliseconds += gpu.time(steps)?.1;
            cells = state.now.to_vec()?;
        }
        let least = cells.iter().copied().fold(f32::INFINITY, f32::min);
        let largest = cells.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        Ok(PlateReport {
            frames: self.frames,
            steps: self.frames * self.steps_per_frame,
            time: start.elapsed(),
            steps_time: Duration::from_secs_f64(milliseconds / 1e3),
            range: [least, largest],
        })
    }
}

/// A plate on the device, now and one step before, or with room for the next.
struct State {
    motion: Motion,
    shape: [usize; 2],
    now: DeviceBuffer<f32>,
    other: DeviceBuffer<f32>,
}

impl State {
    fn new(gpu: &Gpu, motion: Motion, [width, height]: [u32; 2]) -> GpuResult<Self> {
        let cells = start(motion, width as usize, height as usize);
        // A wave is at rest at first: it was the same one step before.
        let now = DeviceBuffer::from_slice(gpu, &cells)?;
        let other = DeviceBuffer::from_slice(gpu, &cells)?;
        Ok(Self { motion, shape: [height as usize, width as usize], now, other })
    }

    fn advance(&mut self, gpu: &Gpu, steps: usize) -> GpuResult<()> {
        let Self { motion, shape, now, other } = self;
        match motion {
            Motion::Heat => plane_steps(gpu, now, other, *shape, &heat(), steps),
            Motion::Wave => wave_steps(gpu, now, other, *shape, &wave(), steps),
        }
    }
}

fn heat() -> PlaneStencil<f32> {
    PlaneStencil::diffusion(RATE, Boundary::Fixed)
}

fn wave() -> PlaneStencil<f32> {
    PlaneStencil::wave(COURANT, Boundary::Fixed)
}

/// The plate at first. Places are in heights of the plate, from its upper left corner.
fn start(motion: Motion, width: usize, height: usize) -> Vec<f32> {
    let scale = 1.0 / height as f32;
    let aspect = width as f32 * scale;
    let at = |i: usize| [(i % width) as f32 * scale, (i / width) as f32 * scale];
    let value = |i: usize| match motion {
        Motion::Heat => warmth(at(i), aspect, i / width + 1 == height),
        Motion::Wave => bump(at(i), aspect),
    };
    (0..width * height).map(value).collect()
}

fn distance([x, y]: [f32; 2], [u, v]: [f32; 2]) -> f32 {
    (x - u).hypot(y - v)
}

/// A ring, two discs, a bar, and the middle of the lower edge: hot on a cold plate.
fn warmth(place: [f32; 2], aspect: f32, is_lower_edge: bool) -> f32 {
    let ring = (distance(place, [0.28 * aspect, 0.42]) - 0.26).abs() < 0.035;
    let disc = distance(place, [0.66 * aspect, 0.3]) < 0.13;
    let small = distance(place, [0.28 * aspect, 0.42]) < 0.07;
    let bar = (place[0] - 0.84 * aspect).abs() < 0.05 * aspect && (place[1] - 0.62).abs() < 0.2;
    let edge = is_lower_edge && (place[0] / aspect - 0.5).abs() < 0.3;
    if ring || disc || small || bar || edge { 1.0 } else { 0.0 }
}

/// Three smooth bumps, one of them downwards.
fn bump(place: [f32; 2], aspect: f32) -> f32 {
    let one = |x: f32, y: f32, radius: f32, height: f32| {
        let r = distance(place, [x * aspect, y]) / radius;
        height * (-r * r).exp()
    };
    one(0.3, 0.4, 0.05, 1.0) + one(0.68, 0.65, 0.07, 1.0) + one(0.8, 0.22, 0.04, -1.0)
}

/// From black over red and yellow to white, for 0 to 1.
const WARM: [[f32; 3]; 6] = [
    [4.0, 4.0, 16.0],
    [74.0, 12.0, 92.0],
    [168.0, 40.0, 86.0],
    [232.0, 96.0, 48.0],
    [250.0, 180.0, 60.0],
    [255.0, 252.0, 210.0],
];
/// From light blue over black to light orange, for -1 to 1.
const BOTH: [[f32; 3]; 5] = [
    [190.0, 235.0, 255.0],
    [30.0, 110.0, 205.0],
    [8.0, 10.0, 22.0],
    [215.0, 95.0, 25.0],
    [255.0, 235.0, 185.0],
];

/// Colours of a plate: a GIF has no more, and then keeps each as it is.
const SHADES: f32 = 256.0;

/// The colour at `t`, 0 to 1, between those of a row: one of [`SHADES`].
fn between(colours: &[[f32; 3]], t: f32) -> [u8; 4] {
    let shade = (t.clamp(0.0, 1.0) * (SHADES - 1.0)).round() / (SHADES - 1.0);
    let place = shade * (colours.len() - 1) as f32;
    let first = (place as usize).min(colours.len() - 2);
    let part = place - first as f32;
    let mix = |k: usize| colours[first][k] + part * (colours[first + 1][k] - colours[first][k]);
    [mix(0) as u8, mix(1) as u8, mix(2) as u8, u8::MAX]
}

fn colours(motion: Motion, cells: &[f32]) -> Vec<[u8; 4]> {
    let colour = |cell: &f32| match motion {
        // A little heat is to be seen too.
        Motion::Heat => between(&WARM, cell.max(0.0).powf(0.6)),
        Motion::Wave => between(&BOTH, 0.5 + 0.5 * (5.0 * cell).tanh()),
    };
    cells.iter().map(colour).collect()
}

pub(super) fn heat_demo(gpu: &Gpu, Scale { image, .. }: Scale) -> GpuResult<Outcome> {
    const STEPS: usize = 7;
    let shape = [image.1, image.0];
    let mut state = State::new(gpu, Motion::Heat, [image.0 as u32, image.1 as u32])?;
    let mut expected = state.now.to_vec()?;
    state.advance(gpu, STEPS)?;
    let rule = heat();
    for _ in 0..STEPS {
        expected = plane_f32(&expected, shape, [rule.centre, rule.x, rule.y], Edge::Fixed);
    }
    let check = Check::exact(&state.now.to_vec()?, &expected);
    let time = timed(gpu, || state.advance(gpu, 4))?;
    let picture = picture(image, Motion::Heat, &expected);
    // Four steps read and write each cell once.
    let bytes = 8 * expected.len();
    Ok(Outcome { size: super::pictures::size(image), time, bytes, check, picture })
}

pub(super) fn wave_demo(gpu: &Gpu, Scale { image, .. }: Scale) -> GpuResult<Outcome> {
    const STEPS: usize = 20;
    let shape = [image.1, image.0];
    let mut state = State::new(gpu, Motion::Wave, [image.0 as u32, image.1 as u32])?;
    let (mut now, mut before) = (state.now.to_vec()?, state.other.to_vec()?);
    state.advance(gpu, STEPS)?;
    let rule = wave();
    let is_edge = |i: usize| {
        let (x, y) = (i % shape[1], i / shape[1]);
        x == 0 || y == 0 || x + 1 == shape[1] || y + 1 == shape[0]
    };
    for _ in 0..STEPS {
        let mut next = plane_f32(&now, shape, [rule.centre, rule.x, rule.y], Edge::Fixed);
        for (i, cell) in next.iter_mut().enumerate().filter(|(i, _)| !is_edge(*i)) {
            *cell -= before[i];
        }
        (now, before) = (next, now);
    }
    let check = Check::exact(&state.now.to_vec()?, &now);
    let time = timed(gpu, || state.advance(gpu, 1))?;
    let picture = picture(image, Motion::Wave, &now);
    // The cells are read, and the step before is read and written.
    let bytes = 12 * now.len();
    Ok(Outcome { size: super::pictures::size(image), time, bytes, check, picture })
}

fn picture((width, height): (usize, usize), motion: Motion, cells: &[f32]) -> Option<Picture> {
    Some(Picture { width, height, pixels: Pixels::Rgba(colours(motion, cells)) })
}
