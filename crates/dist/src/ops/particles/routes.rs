//! Messages: which particles other ranks need, and what comes of them, all of it on the device.

use ferrowarp::Stream;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::{SortOptions, sort_in_place};
use kernels_gpu::particles::{self as kernels, World};

use super::arrays::{Arrays, Placed, Vector, reserve};
use super::room::{Needs, Room};
use crate::communicator::Communicator;
use crate::error::DistResult;
use crate::ops::parts::{Received, Sent, divide, exchange_with_others};
use crate::ops::shares::Shares;

/// Messages of positions and velocities, one after the other.
struct Messages {
    arrays: Arrays,
    /// Where the messages end, after a 0: `[ranks + 1]`.
    ends: Vec<u32>,
    ends_on_device: DeviceBuffer<u32>,
}

impl Messages {
    fn new(on: &Stream, ends: Vec<u32>) -> DistResult<Self> {
        let (slots, ends_on_device) = (ends[ends.len() - 1], DeviceBuffer::from_slice(on, &ends)?);
        Ok(Self { arrays: Arrays::zeroed(on, slots as usize)?, ends, ends_on_device })
    }

    fn set_ends(&mut self, on: &Stream, ends: Vec<u32>) -> DistResult<()> {
        if ends != self.ends {
            self.ends_on_device.copy_from_host(&ends)?;
            self.ends = ends;
            self.arrays.reserve(on, self.slots())?;
        }
        Ok(())
    }

    fn slots(&self) -> usize {
        self.ends[self.ends.len() - 1] as usize
    }

    /// The ranks, each with the slots of its message.
    fn lens(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        (0..).zip(self.ends.windows(2).map(|ends| (ends[1] - ends[0]) as usize))
    }

    /// Positions with their headers, and velocities, each with the rank that it goes to.
    fn sent(&self) -> [Vec<Sent<'_, Vector>>; 2] {
        [self.parts(0, &self.arrays.position), self.parts(1, &self.arrays.velocity)]
    }

    /// The values of each message from slot `skipped` on.
    fn parts<'a>(&self, skipped: usize, values: &'a DeviceBuffer<Vector>) -> Vec<Sent<'a, Vector>> {
        let slots = |ends: &[u32]| ends[0] as usize + skipped..ends[1] as usize;
        let parts = self.ends.windows(2).map(|ends| values.slice(slots(ends)));
        (0..).zip(parts).collect()
    }

    /// Where those go that come, each with the rank that it comes from.
    fn received(&mut self) -> [Vec<Received<'_, Vector>>; 2] {
        let (lens, slots) = (self.lens().collect::<Vec<_>>(), self.slots());
        let Arrays { position, velocity } = &mut self.arrays;
        let velocity = divide(velocity.slice_mut(..slots), lens.iter().copied());
        let headless = velocity.into_iter().map(|(rank, part)| (rank, part.split_at_mut(1).1));
        [divide(position.slice_mut(..slots), lens.into_iter()), headless.collect()]
    }
}

/// Finds routes and moves particles on them, with memory that is kept.
pub(super) struct Routes {
    /// The first layer of each rank's slab, and how many there are.
    bounds: DeviceBuffer<u32>,
    rank: u32,
    /// How many particles each rank needs, and their sum.
    counts: DeviceBuffer<u32>,
    routes: DeviceBuffer<u64>,
    /// The greatest numbers of a round: of particles for each rank, and of those in the cells. Then those of all ranks.
    most: DeviceBuffer<u32>,
    most_of_all: DeviceBuffer<u32>,
    sent: Messages,
    received: Messages,
    /// Where the particles begin and end that a step is for.
    pub(super) range: DeviceBuffer<u32>,
    scratch: Scratch,
}

impl Routes {
    pub(super) fn new(on: &Stream, slabs: &Shares, room: &Room, rank: u32) -> DistResult<Self> {
        let bounds: Vec<u32> = slabs.bounds().iter().map(|bound| *bound as u32).collect();
        let ranks = bounds.len() - 1;
        Ok(Self {
            bounds: DeviceBuffer::from_slice(on, &bounds)?,
            rank,
            counts: DeviceBuffer::zeroed(on, ranks + 1)?,
            routes: DeviceBuffer::zeroed(on, 0)?,
            most: DeviceBuffer::zeroed(on, ranks + 1)?,
            most_of_all: DeviceBuffer::zeroed(on, (ranks + 1) * ranks)?,
            sent: Messages::new(on, room.sent_ends())?,
            received: Messages::new(on, room.received_ends())?,
            range: DeviceBuffer::zeroed(on, 2)?,
            scratch: Scratch::new(on)?,
        })
    }

    /// How many particles each rank needs of each at first: this rank's are the `n` in `placed`. Waits for the ranks.
    pub(super) fn needs_at_start(
        &mut self,
        ranks: &Communicator,
        world: World,
        placed: &Placed,
        n: usize,
    ) -> DistResult<Needs> {
        self.list(ranks.gpu().stream(), world, placed, n)?;
        let others = self.counts.len() - 1;
        self.most.slice_mut(..others).copy_from_device(self.counts.slice(..others))?;
        self.most.slice_mut(others..).copy_from_host(&[n as u32])?;
        Ok(Needs::of_start(self.all_most(ranks)?, others))
    }

    /// Begins a round, with that much room.
    pub(super) fn begin_round(&mut self, on: &Stream, room: &Room) -> DistResult<()> {
        reserve(on, &mut self.routes, room.routes())?;
        self.sent.set_ends(on, room.sent_ends())?;
        self.received.set_ends(on, room.received_ends())?;
        Ok(self.most.clear()?)
    }

    /// The greatest numbers of the round. Waits for it.
    pub(super) fn needs(&mut self, ranks: &Communicator) -> DistResult<Needs> {
        Ok(Needs::of_rounds(self.all_most(ranks)?, self.counts.len() - 1))
    }

    fn all_most(&mut self, ranks: &Communicator) -> DistResult<Vec<u32>> {
        let on = ranks.gpu().stream();
        ranks.all_gather(on, &self.most, &mut self.most_of_all)?;
        ranks.synchronize(on)?;
        Ok(self.most_of_all.to_vec()?)
    }

    /// Sends what other ranks need of this one's particles, and receives what it needs of theirs.
    pub(super) fn exchange(
        &mut self,
        ranks: &Communicator,
        world: World,
        placed: &Placed,
        room: &Room,
    ) -> DistResult<()> {
        let on = ranks.gpu().stream();
        self.list(on, world, placed, room.cells())?;
        self.write_messages(on, placed, room.routes())?;
        let [positions, velocities] = self.sent.sent();
        let [mut to_positions, mut to_velocities] = self.received.received();
        let group = ranks.group().counted();
        let group = exchange_with_others(group, self.rank, &positions, &mut to_positions)?;
        exchange_with_others(group, self.rank, &velocities, &mut to_velocities)?.enqueue(on)
    }

    /// Puts the particles that came beside this rank's: [`Self::range`].
    pub(super) fn join(&mut self, on: &Stream, placed: &mut Placed, room: &Room) -> DistResult<()> {
        let (slots, received) = (self.received.slots(), &self.received.arrays);
        Ok(kernels::particles_join::launch(
            on,
            kernels::particles_join::grid_for(slots),
            self.rank,
            room.cells() as u32,
            placed.place as u32,
            &self.received.ends_on_device,
            &placed.own,
            &received.position,
            &received.velocity,
            &mut self.range,
            &mut self.most,
            &mut placed.arrays.position,
            &mut placed.arrays.velocity,
        )?)
    }

    /// Counts and lists the routes of this rank's particles, which are `n` at most.
    fn list(&mut self, on: &Stream, world: World, placed: &Placed, n: usize) -> DistResult<()> {
        self.counts.clear()?;
        self.routes.clear()?;
        let [position, _] = placed.slices();
        Ok(kernels::particles_route::launch(
            on,
            kernels::particles_route::grid_for(n),
            world,
            index_bits(placed),
            self.rank,
            &self.bounds,
            &placed.own,
            &position,
            &mut self.counts,
            &mut self.routes,
        )?)
    }

    /// Writes the messages of at most `most` routes, which are listed in any order: sorted, they are those of the first rank
    /// first, and of each rank in the order of the particles.
    fn write_messages(&mut self, on: &Stream, placed: &Placed, most: usize) -> DistResult<()> {
        let mut routes = self.routes.slice_mut(..most);
        // A rank is below the number of slabs: the bits above are the same in all routes.
        let (index_bits, slabs) = (index_bits(placed), self.bounds.len() as u32);
        let options = SortOptions::DESCENDING.bits(0..index_bits + slabs.ilog2() + 1);
        sort_in_place(on, &mut routes, options, &mut self.scratch)?;
        let (slots, [position, velocity]) = (self.sent.slots(), placed.slices());
        Ok(kernels::particles_take::launch(
            on,
            kernels::particles_take::grid_for(slots),
            index_bits,
            &routes,
            &self.counts,
            &self.sent.ends_on_device,
            &position,
            &velocity,
            &mut self.most,
            &mut self.sent.arrays.position.slice_mut(..slots),
            &mut self.sent.arrays.velocity.slice_mut(..slots),
        )?)
    }
}

/// The bits of an index of a particle.
fn index_bits(placed: &Placed) -> u32 {
    usize::BITS - placed.arrays.len().leading_zeros()
}
