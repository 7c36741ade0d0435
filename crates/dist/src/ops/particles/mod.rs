//! Particles in a box that is cut into slabs along z: those that leave a rank's slab move to the rank that has the other one.
//!
//! ```no_run
//! use ferrowarp::ops::particles::{Particles, World as Box};
//! use ferrowarp_dist::ops::{SlabParticles, Slabs};
//! use ferrowarp_dist::{Communicator, World};
//!
//! let world = World::from_env()?;
//! let gpu = world.gpu()?;
//! let ranks = Communicator::new(&world, &gpu)?;
//! let (cells, positions) = Particles::dam(1_000_000);
//! let law = Box { cells, stiffness: 2000.0, damping: 20.0, gravity: 1.0, time_step: 0.004 };
//! let slabs = Slabs::even(cells[2] as usize, ranks.size());
//! let mut particles = SlabParticles::scatter(&ranks, law, &slabs, Some(&positions))?; // rank 0's
//! particles.step(1000)?;
//! println!("rank {} has {} of them", ranks.rank(), particles.len()?);
//! let all = particles.gather()?;
//! # drop(particles);
//! # drop(ranks);
//! world.finish()?;
//! # Ok::<(), ferrowarp_dist::DistError>(())
//! ```
//!
//! # Method
//!
//! A slab is some layers of the cells in which contacts are looked for. Each step a rank lists which of its particles another one
//! needs: those that are now in its slab, and those in the layers beside it, which push its own. All ranks tell each other how
//! many these are, and exchange them as one group. Then each sorts what it has by cells, as on one device, and takes the step
//! of its own. This is the spatial decomposition of S. Plimpton ("Fast Parallel Algorithms for Short-Range Molecular Dynamics",
//! 1995), with ghosts and migrants in one message.
//!
//! What comes from ranks before this one is put in front of its own particles, and what comes from those after it behind them, each
//! in the order of the sender: so particles of a cell are always in the order that they have on one device, where the cells of a
//! later slab are later, too. Forces are added in that order. Results have the same bits as those of
//! [`Particles`](ferrowarp::ops::particles::Particles) on one device, whatever the slabs are.

mod arrays;
mod cells;
mod routes;
mod start;

use std::ops::Range;

use ferrowarp::memory::{DeviceBuffer, DeviceSlice, DeviceSliceMut};
use ferrowarp::ops::particles::Particle;
use ferrowarp::{AsStream, GpuError, Stream};
pub use kernels_gpu::particles::World;

use arrays::{Arrays, Vector, with_room};
use cells::Cells;
use routes::{Exchange, Routes};

use super::slabs::Slabs;
use crate::communicator::Communicator;
use crate::error::DistResult;

const OPERATION: &str = "particles in slabs";

/// Particles in a box, of which each rank has those in its slab: consecutive layers of cells along z. A rank may have no layers, or
/// layers without particles. How evenly particles are divided is the caller's choice of slabs.
///
/// Names are kept; no particle is lost or doubled, however far it moves in a step.
pub struct SlabParticles {
    ranks: Communicator,
    world: World,
    slabs: Slabs,
    particles: Arrays,
    /// Where those of the last step are: this rank's, and those from beside the slab, which are out of date.
    used: Range<usize>,
    /// Where this rank's begin and end among them: `[2]`.
    own: DeviceBuffer<u32>,
    routes: Routes,
    cells: Cells,
}

impl SlabParticles {
    /// Takes `steps` steps. All ranks call it, with the same number. Waits for numbers of particles in each step, if there are
    /// several ranks.
    ///
    /// # Errors
    /// What [sends and receives](Communicator::group) return; errors of the driver, such as out of memory where more
    /// particles have come than there was room for.
    pub fn step(&mut self, steps: usize) -> DistResult<()> {
        (0..steps).try_for_each(|_| self.step_once())
    }

    fn step_once(&mut self) -> DistResult<()> {
        let range = match self.ranks.size() {
            1 => self.used.clone(),
            _ => self.exchange()?,
        };
        // In the middle: as much room before it as behind it.
        let place = (self.particles.len() - range.len()) / 2;
        self.used = place..place + range.len();
        let (on, particles) = (self.ranks.gpu().stream(), &mut self.particles);
        self.cells.step(on, particles, range, place, &mut self.own)
    }

    /// Brings this rank's particles together with those of others that it needs, and returns where they are.
    fn exchange(&mut self) -> DistResult<Range<usize>> {
        let moved = self.particles.slices(self.used.clone());
        let exchange = self.routes.find(&self.ranks, self.world, moved, &self.own)?;
        let [before, after] = exchange.of_both_sides(self.ranks.rank());
        let own = self.used.start + exchange.own.start..self.used.start + exchange.own.end;
        let own = self.make_room(own, before, after)?;
        let range = own.start - before..own.end + after;
        self.send_and_receive(&exchange, range.clone())?;
        Ok(range)
    }

    /// Moves this rank's particles to where there is room before and after them, if there is too little.
    fn make_room(
        &mut self,
        own: Range<usize>,
        before: usize,
        after: usize,
    ) -> DistResult<Range<usize>> {
        if before <= own.start && own.end + after <= self.particles.len() {
            return Ok(own);
        }
        let n = before + own.len() + after;
        let room = with_room(n);
        let place = (room - n) / 2 + before;
        let mut larger = Arrays::zeroed(self.ranks.gpu().stream(), room)?;
        larger.copy_from(place, &self.particles, own.clone())?;
        self.particles = larger;
        Ok(place..place + own.len())
    }

    /// Sends what others need, and receives what comes before and after this rank's particles in `range`.
    fn send_and_receive(&mut self, exchange: &Exchange, range: Range<usize>) -> DistResult<()> {
        let own = self.ranks.rank() as usize;
        let mut lens = exchange.received.clone();
        lens[own] = exchange.own.len();
        let Arrays { position, velocity } = &mut self.particles;
        let mut to_position = split(position.slice_mut(range.clone()), &lens);
        let mut to_velocity = split(velocity.slice_mut(range), &lens);
        let taken = &self.routes.taken;
        let ends = Slabs::of_shares(&exchange.sent);
        let from: Vec<_> = (0..ends.ranks()).map(|rank| taken.slices(ends.range(rank))).collect();
        let mut group = self.ranks.group();
        for (rank, [position, velocity]) in (0..).zip(&from) {
            group = group.send(position, rank)?.send(velocity, rank)?;
        }
        let received = to_position.iter_mut().zip(&mut to_velocity);
        for (rank, (position, velocity)) in (0..).zip(received) {
            if rank as usize != own {
                group = group.receive(position, rank)?.receive(velocity, rank)?;
            }
        }
        group.enqueue(self.ranks.gpu().stream())
    }

    /// How many particles this rank has: those that were in its slab before the last step. Waits for the step.
    ///
    /// # Errors
    /// As [`Communicator::synchronize`].
    pub fn len(&self) -> DistResult<usize> {
        Ok(self.own_range()?.len())
    }

    /// Whether this rank has no particles. Waits for the last step.
    ///
    /// # Errors
    /// As [`Communicator::synchronize`].
    pub fn is_empty(&self) -> DistResult<bool> {
        Ok(self.len()? == 0)
    }

    /// Where this rank's particles are.
    fn own_range(&self) -> DistResult<Range<usize>> {
        self.ranks.synchronize(self.ranks.gpu())?;
        let own = self.own.to_vec()?;
        let [first, end] = [own[0], own[1]].map(|index| self.used.start + index as usize);
        Ok(first..end)
    }

    /// This rank's positions and velocities on the device, each `[len]`: x, y, z, and the bits of the name or the energy. Waits
    /// for the last step.
    ///
    /// # Errors
    /// As [`Communicator::synchronize`].
    pub fn local(&self) -> DistResult<[DeviceSlice<'_, Vector>; 2]> {
        Ok(self.particles.slices(self.own_range()?))
    }

    /// All particles on the host of rank 0, in the order of their names; `None` on other ranks. All ranks call it. Waits for
    /// the steps.
    ///
    /// # Errors
    /// What a [gather](Communicator::gather_uneven) and [`synchronize`](Communicator::synchronize) return.
    pub fn gather(&self) -> DistResult<Option<Vec<Particle>>> {
        let (on, [position, velocity]) = (self.ranks.gpu().stream(), self.local()?);
        let lens = self.ranks.all_gather_host(on, &[position.len() as u64])?;
        let lens: Vec<usize> = lens.into_iter().map(|len| len as usize).collect();
        let is_root = self.ranks.rank() == 0;
        let mut all = Arrays::zeroed(on, if is_root { lens.iter().sum() } else { 0 })?;
        let Arrays { position: positions, velocity: velocities } = &mut all;
        let (positions, velocities) =
            if is_root { (Some(positions as _), Some(velocities as _)) } else { (None, None) };
        self.ranks.gather_uneven(on, &position, positions, &lens, 0)?;
        self.ranks.gather_uneven(on, &velocity, velocities, &lens, 0)?;
        self.ranks.synchronize(on)?;
        if !is_root {
            return Ok(None);
        }
        Ok(Some(by_name(&all.position.to_vec()?, &all.velocity.to_vec()?)))
    }

    /// The box and its law.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Which layers each rank has.
    #[must_use]
    pub fn slabs(&self) -> &Slabs {
        &self.slabs
    }
}

impl AsStream for SlabParticles {
    /// The stream on which steps are enqueued.
    fn as_stream(&self) -> &Stream {
        self.ranks.gpu().stream()
    }
}

/// Consecutive parts of these lengths.
fn split<'a>(all: DeviceSliceMut<'a, Vector>, lens: &[usize]) -> Vec<DeviceSliceMut<'a, Vector>> {
    let (mut rest, mut parts) = (all, Vec::with_capacity(lens.len()));
    for len in lens {
        let (part, further) = rest.split_at_mut(*len);
        parts.push(part);
        rest = further;
    }
    parts
}

/// Particles as the host sees them, in the order of their names.
fn by_name(positions: &[Vector], velocities: &[Vector]) -> Vec<Particle> {
    let particle = |(p, v): (&Vector, &Vector)| Particle {
        name: p.w.to_bits(),
        position: [p.x, p.y, p.z],
        velocity: [v.x, v.y, v.z],
    };
    let mut particles: Vec<_> = positions.iter().zip(velocities).map(particle).collect();
    particles.sort_by_key(|particle| particle.name);
    particles
}
