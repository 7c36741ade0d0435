//! What groups of ranks take.

use std::time::Instant;

use ferrowarp::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::particles::{Particle, Particles};
use ferrowarp::ops::random;
use ferrowarp::ops::stencil::{Boundary, VolumeStencil};
use ferrowarp_dist::ops::particles::World as Law;
use ferrowarp_dist::ops::sort::{self, sort};
use ferrowarp_dist::ops::{Shares, SlabGrid, SlabParticles};
use ferrowarp_dist::{Communicator, DistResult};

use super::Scale;

/// What a group of ranks takes for something.
pub(super) struct Row {
    pub(super) what: &'static str,
    pub(super) ranks: u32,
    pub(super) size: String,
    /// Of a step.
    pub(super) milliseconds: f64,
    /// 1 where it is as fast as the ranks are many.
    pub(super) efficiency: f64,
}

/// Something that ranks do together.
struct Work {
    what: &'static str,
    /// How much larger it is for so many ranks than for one.
    growth: fn(u32) -> u32,
    size: fn(Scale, u32) -> String,
    /// Milliseconds of a step.
    time: fn(&Group<'_>, Scale) -> DistResult<f64>,
}

const WORKS: [Work; 4] = [
    Work {
        what: "3-D stencil, weak",
        growth: |ranks| ranks,
        size: |scale, ranks| cells(scale, ranks as usize * scale.side),
        time: |group, scale| stencil(group, scale, group.size as usize * scale.side),
    },
    Work {
        what: "3-D stencil, strong",
        growth: |_| 1,
        size: |scale, _| cells(scale, scale.side),
        time: |group, scale| stencil(group, scale, scale.side),
    },
    Work {
        what: "particles, weak",
        growth: |ranks| ranks,
        size: |scale, _| format!("{} a rank", scale.particles),
        time: particles,
    },
    Work {
        what: "sort of 32-bit keys, weak",
        growth: |ranks| ranks,
        size: |scale, _| format!("{} a rank", scale.keys),
        time: keys,
    },
];

fn cells(scale: Scale, depth: usize) -> String {
    format!("{depth} x {side} x {side}", side = scale.side)
}

/// A group of the ranks, beside others of as many. A rank that is left over has none, and only keeps step.
struct Group<'a> {
    all: &'a Communicator,
    own: Option<Communicator>,
    size: u32,
}

/// All of it, with 1, 2, 4 and so on ranks, and with all. All ranks call it.
pub(super) fn measure(all: &Communicator, scale: Scale) -> DistResult<Vec<Row>> {
    let mut rows: Vec<Vec<Row>> = WORKS.iter().map(|_| Vec::new()).collect();
    for size in sizes(all.size()) {
        let colour = all.rank() / size;
        let is_whole = (colour + 1) * size <= all.size();
        let own = all.split(is_whole.then_some(colour), 0)?;
        let group = Group { all, own, size };
        for (work, rows) in WORKS.iter().zip(&mut rows) {
            let milliseconds = (work.time)(&group, scale)?;
            let alone = rows.first().map_or(milliseconds, |row| row.milliseconds);
            let ideal = f64::from((work.growth)(size)) / f64::from(size);
            let (what, sizes) = (work.what, (work.size)(scale, size));
            let efficiency = alone / milliseconds * ideal;
            rows.push(Row { what, ranks: size, size: sizes, milliseconds, efficiency });
        }
    }
    Ok(rows.into_iter().flatten().collect())
}

/// 1, 2, 4 and so on, and the last is `all`.
fn sizes(all: u32) -> impl Iterator<Item = u32> {
    let powers = std::iter::successors(Some(1u32), |size| size.checked_mul(2));
    powers.take_while(move |size| *size < all).chain([all])
}

/// Milliseconds of one of `steps` steps that a round has: the median over rounds, in each of which the slowest of all ranks counts.
fn time(
    group: &Group<'_>,
    (rounds, steps): (usize, usize),
    mut run: impl FnMut(&Communicator) -> DistResult<()>,
) -> DistResult<f64> {
    let all = group.all;
    let mut run = || group.own.as_ref().map_or(Ok(()), &mut run);
    // A first round loads kernels, connects the ranks, and lets memory grow.
    run()?;
    let mut times = Vec::new();
    for _ in 0..rounds {
        all.barrier(all.gpu())?;
        let start = Instant::now();
        run()?;
        let own = start.elapsed().as_secs_f64() * 1e3 / steps as f64;
        let of_all = all.all_gather_host(all.gpu(), &[own])?;
        times.push(of_all.into_iter().fold(0.0, f64::max));
    }
    times.sort_by(f64::total_cmp);
    Ok(times[times.len() / 2])
}

/// Steps of heat in a grid that a group shares.
fn stencil(group: &Group<'_>, scale: Scale, depth: usize) -> DistResult<f64> {
    let Scale { side, steps, rounds, .. } = scale;
    let grid = |ranks: &Communicator| {
        let (gpu, slabs) = (ranks.gpu(), Shares::even(depth, ranks.size()));
        let own = slabs.scaled(side * side).range(ranks.rank());
        let mut cells = DeviceBuffer::zeroed(gpu, own.len())?;
        random::uniform_into(gpu, &mut cells, 1, own.start as u64)?;
        let heat = VolumeStencil::diffusion(0.1f32, Boundary::Fixed);
        SlabGrid::from_local(ranks, heat, [depth, side, side], &slabs, cells)
    };
    let mut grid = group.own.as_ref().map(grid).transpose()?;
    time(group, (rounds, steps), |_| match &mut grid {
        Some(grid) => {
            grid.step(steps)?;
            grid.synchronize()
        }
        None => Ok(()),
    })
}

/// Steps of particles: each rank of a group begins with a block of them behind a dam, and the blocks touch.
fn particles(group: &Group<'_>, scale: Scale) -> DistResult<f64> {
    let block = |ranks: &Communicator| {
        let (rank, size) = (ranks.rank() as usize, ranks.size() as usize);
        let (cells, positions) = Particles::dam(scale.particles);
        // The block's own layers; behind the last block the box has one more.
        let layers = cells[2] as usize - 1;
        let mut shares = vec![layers; size];
        shares[size - 1] += 1;
        let slabs = Shares::given(shares);
        let cells = [cells[0], cells[1], slabs.total() as u32];
        let law = Law { cells, stiffness: 2000.0, damping: 20.0, gravity: 1.0, time_step: 0.004 };
        let first = rank * positions.len();
        // Names are only carried along: beyond 2^32 they begin again.
        let moved = |(i, [x, y, z]): (usize, [f32; 3])| Particle {
            name: (first + i) as u32,
            position: [x, y, z + (rank * layers) as f32],
            velocity: [0.0; 3],
        };
        let own: Vec<_> = positions.into_iter().enumerate().map(moved).collect();
        SlabParticles::from_local(ranks, law, &slabs, &own)
    };
    let mut particles = group.own.as_ref().map(block).transpose()?;
    let steps = scale.steps;
    time(group, (scale.rounds, steps), |ranks| match &mut particles {
        Some(particles) => {
            particles.step(steps)?;
            ranks.synchronize(ranks.gpu())
        }
        None => Ok(()),
    })
}

/// A sort of random keys: its time counts as a step's.
fn keys(group: &Group<'_>, scale: Scale) -> DistResult<f64> {
    let (gpu, from) = (group.all.gpu(), u64::from(group.all.rank()) * scale.keys as u64);
    let mut keys = DeviceBuffer::<u32>::zeroed(gpu, scale.keys)?;
    random::integers_into(gpu, &mut keys, 7, from)?;
    let mut scratch = Scratch::new(gpu)?;
    time(group, (scale.rounds, 1), |ranks| {
        drop(sort(ranks, gpu, &keys, sort::Options::ASCENDING, &mut scratch)?);
        ranks.synchronize(gpu)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_groups_are_powers_of_two_and_all() {
        let of = |all| sizes(all).collect::<Vec<_>>();
        assert_eq!([of(1), of(2), of(4)], [vec![1], vec![1, 2], vec![1, 2, 4]]);
        assert_eq!([of(3), of(7)], [vec![1, 2, 3], vec![1, 2, 4, 7]]);
    }
}
