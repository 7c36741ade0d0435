//! Particles in a box that is cut into slabs along z: those that leave a rank's slab move to the rank that has the other one.
//!
//! ```no_run
//! use ferrowarp::ops::particles::{Particles, World as Box};
//! use ferrowarp_dist::ops::{SlabParticles, Shares};
//! use ferrowarp_dist::{Communicator, World};
//!
//! let world = World::from_env()?;
//! let gpu = world.gpu()?;
//! let ranks = Communicator::new(&world, &gpu)?;
//! let (cells, positions) = Particles::dam(1_000_000);
//! let law = Box { cells, stiffness: 2000.0, damping: 20.0, gravity: 1.0, time_step: 0.004 };
//! let slabs = Shares::even(cells[2] as usize, ranks.size());
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
//! needs: those that are now in its slab, and those in the layers beside it, which push its own. All ranks exchange these as one
//! group. Then each sorts what it has by cells, as on one device, and takes the step of its own. This is the spatial decomposition of
//! S. Plimpton ("Fast Parallel Algorithms for Short-Range Molecular Dynamics", 1995), with ghosts and migrants in one message.
//!
//! How many particles go where, only the devices know: no step waits for the host. A message has room for as many as there were in the
//! steps before and some more, and begins with their number. After a round of at most 64 steps all ranks learn the greatest
//! numbers of each. If a message or the cells of a rank had too little room, particles are missing, and all ranks repeat the
//! round, with more room, from the particles that they had before it.
//!
//! What comes from ranks before this one is put in front of its own particles, and what comes from those after it behind them, each
//! in the order of the sender: so particles of a cell are always in the order that they have on one device, where the cells of a
//! later slab are later, too. Forces are added in that order. Results have the same bits as those of
//! [`Particles`](ferrowarp::ops::particles::Particles) on one device, whatever the slabs are.

mod arrays;
mod cells;
mod room;
mod routes;
mod start;

use std::ops::Range;

use ferrowarp::memory::DeviceSlice;
use ferrowarp::ops::particles::Particle;
use ferrowarp::{AsStream, GpuError, Stream};
pub use kernels_gpu::particles::World;

use arrays::{Arrays, Placed, Vector};
use cells::Cells;
use room::Room;
use routes::Routes;

use super::shares::Shares;
use crate::communicator::Communicator;
use crate::error::DistResult;

const OPERATION: &str = "particles in slabs";

/// The most steps of a round, after which ranks learn whether all particles had room.
const ROUND: usize = 64;

/// Particles in a box, of which each rank has those in its slab: consecutive layers of cells along z. A rank may have no layers, or
/// layers without particles. How evenly particles are divided is the caller's choice of slabs.
///
/// Names are kept; no particle is lost or doubled, however far it moves in a step.
pub struct SlabParticles {
    ranks: Communicator,
    world: World,
    slabs: Shares,
    now: Placed,
    /// What a round of steps writes: it begins with the particles above, which stay until it is known that none is missing.
    next: Placed,
    /// For how many particles there is room; `None` before the first step.
    room: Option<Room>,
    routes: Routes,
    cells: Cells,
}

impl SlabParticles {
    /// Takes `steps` steps. All ranks call it, with the same number. Waits for the steps, if there are several ranks.
    ///
    /// Memory: three times the positions and velocities of this rank's particles and of those beside its slab.
    ///
    /// # Errors
    /// What [sends and receives](Communicator::group) return; errors of the driver, such as out of memory where more
    /// particles have come than there was room for.
    pub fn step(&mut self, steps: usize) -> DistResult<()> {
        let mut left = steps;
        while left > 0 {
            // In the first step particles may come from anywhere.
            let most = if self.room.is_none() { 1 } else { ROUND };
            let taken = if self.ranks.size() == 1 { left } else { left.min(most) };
            self.ranks.clone().attempt(|| self.round(taken))?;
            left -= taken;
        }
        Ok(())
    }

    /// Takes steps, again if particles were missing.
    fn round(&mut self, steps: usize) -> DistResult<()> {
        loop {
            let room = self.room()?;
            self.make_room(&room)?;
            self.take_steps(steps, &room)?;
            if self.ranks.size() > 1 {
                let needs = self.routes.needs(&self.ranks)?;
                if !room.held(&needs) {
                    self.room = Some(room.grown(&needs));
                    continue;
                }
                self.room = Some(room.after(&needs));
            }
            std::mem::swap(&mut self.now, &mut self.next);
            return Ok(());
        }
    }

    /// The room of a round. Before the first step all ranks count what goes where.
    fn room(&mut self) -> DistResult<Room> {
        if let Some(room) = &self.room {
            return Ok(room.clone());
        }
        let (rank, ranks, n) = (self.ranks.rank(), self.ranks.size(), self.own_range()?.len());
        let mut room = Room::alone(rank, ranks, n);
        if ranks > 1 {
            let needs = self.routes.needs_at_start(&self.ranks, self.world, &self.now, n)?;
            room = room.grown(&needs);
        }
        Ok(self.room.insert(room).clone())
    }

    fn make_room(&mut self, room: &Room) -> DistResult<()> {
        let on = self.ranks.gpu().stream();
        if !self.now.holds(room) {
            self.now = self.now.moved(on, room)?;
        }
        if !self.next.holds(room) {
            self.next = Placed::empty(on, room)?;
        }
        self.routes.begin_round(on, room)
    }

    fn take_steps(&mut self, steps: usize, room: &Room) -> DistResult<()> {
        let (on, most) = (self.ranks.gpu().stream(), room.cells());
        for step in 0..steps {
            let from = if step == 0 { &mut self.now } else { &mut self.next };
            if self.ranks.size() > 1 {
                self.routes.exchange(&self.ranks, self.world, from, room)?;
            }
            self.routes.join(on, from, room)?;
            self.cells.sort(on, &from.arrays, &self.routes.range, most)?;
            self.cells.take_step(on, most, &mut self.next)?;
        }
        Ok(())
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
        self.now.own_range()
    }

    /// This rank's positions and velocities on the device, each `[len]`: x, y, z, and the bits of the name or the energy. Waits
    /// for the last step.
    ///
    /// # Errors
    /// As [`Communicator::synchronize`].
    pub fn local(&self) -> DistResult<[DeviceSlice<'_, Vector>; 2]> {
        Ok(self.now.arrays.slices(self.own_range()?))
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
    pub fn slabs(&self) -> &Shares {
        &self.slabs
    }
}

impl AsStream for SlabParticles {
    /// The stream on which steps are enqueued.
    fn as_stream(&self) -> &Stream {
        self.ranks.gpu().stream()
    }
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
