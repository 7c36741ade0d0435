//! A frame of the particles: steps, and a look of the host at the positions, by a copy, in unified or in mapped memory. Beside it
//! the frame without copies, in which the host looks at positions that it has: one less the ratio is the copies' share of a frame.

use cuda_std::vector::Vec4;

use crate::bench::check::Fault;
use crate::bench::{Case, Rig, Scale};
use crate::demo::dam;
use ferrowarp::memory::PinnedBuffer;
use ferrowarp::ops::particles::Particles;
use ferrowarp::{Gpu, GpuResult};

/// Steps of a frame.
const STEPS: usize = 16;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Copied,
    Unified,
    Mapped,
}

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let lens = scale.lens_or(scale.pick(vec![500], vec![500_000], vec![100_000, 500_000]));
    let kinds = [("copied", Kind::Copied), ("unified", Kind::Unified), ("mapped", Kind::Mapped)];
    lens.into_iter().flat_map(|n| kinds.map(|(name, kind)| case(name, kind, n))).collect()
}

fn case(name: &str, kind: Kind, n: usize) -> Case {
    let set_up = |kind, is_read| move |gpu: &Gpu, _| frame(gpu, kind, n, is_read);
    // Positions and velocities are read and written twice in a step; then the host reads the positions.
    let bytes = n * (STEPS * 2 * 64 + 16);
    let case = Case::new(["particles", name, "f32"], [n], bytes, set_up(kind, true))
        .timed_on_host()
        .beside("without copies", set_up(kind, false));
    if kind == Kind::Copied { case } else { case.beside("copied", set_up(Kind::Copied, true)) }
}

fn frame(gpu: &Gpu, kind: Kind, n: usize, is_read: bool) -> GpuResult<Box<dyn Rig>> {
    let (world, positions) = dam(n, 0.1);
    let particles = match kind {
        Kind::Copied => Particles::new(gpu, world, &positions)?,
        Kind::Unified => Particles::unified(gpu, world, &positions)?,
        Kind::Mapped => Particles::mapped(gpu, world, &positions)?,
    };
    let target = (kind == Kind::Copied).then(|| PinnedBuffer::zeroed(gpu, n)).transpose()?;
    let stale = particles.positions()?.into_owned();
    let particles = particles.replayed()?;
    Ok(Box::new(Frame { particles, target, stale: (!is_read).then_some(stale), height: 0.0 }))
}

struct Frame {
    particles: Particles,
    /// Where copies of the positions go; none where the host reads them in place.
    target: Option<PinnedBuffer<Vec4<f32>>>,
    /// What the host reads in place of the positions, where these stay on the device.
    stale: Option<Vec<Vec4<f32>>>,
    /// The mean height, which the host has found.
    height: f32,
}

impl Rig for Frame {
    fn poison(&mut self, _: &Gpu) -> GpuResult<()> {
        self.height = f32::NAN;
        Ok(())
    }

    fn run(&mut self, gpu: &Gpu) -> GpuResult<()> {
        (0..STEPS).try_for_each(|_| self.particles.step())?;
        let mean = |places: &[Vec4<f32>]| {
            places.iter().map(|place| place.y).sum::<f32>() / places.len() as f32
        };
        self.height = match (&self.stale, self.target.take()) {
            (Some(stale), target) => {
                self.target = target;
                gpu.synchronize()?;
                mean(stale)
            }
            (None, Some(target)) => {
                let copy = self.particles.vectors().0.copy_to_pinned_async(gpu, target)?;
                mean(self.target.insert(copy.wait()?))
            }
            (None, None) => mean(&self.particles.positions()?),
        };
        Ok(())
    }

    fn check(&mut self, _: &Gpu) -> Result<(), Fault> {
        let box_height = self.particles.world().cells[1] as f32;
        if (0.0..box_height).contains(&self.height) {
            Ok(())
        } else {
            Err(Fault::Broken { what: "no mean height", index: 0 })
        }
    }
}
