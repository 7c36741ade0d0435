//! Which particles other ranks need, found on the device.

use std::ops::Range;

use ferrowarp::Stream;
use ferrowarp::memory::{DeviceBuffer, DeviceSlice};
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::{SortOptions, sort_in_place};
use kernels_gpu::particles::{self as kernels, World};

use super::arrays::{Arrays, Vector, reserve};
use crate::communicator::Communicator;
use crate::error::DistResult;
use crate::ops::slabs::Slabs;

/// What the ranks exchange in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    /// Where this rank's own particles are among those of the last step.
    pub(super) own: Range<usize>,
    /// How many particles each rank gets of this one.
    pub(super) sent: Vec<usize>,
    /// How many particles this one gets of each rank.
    pub(super) received: Vec<usize>,
}

impl Exchange {
    /// How many come of the ranks before this one, and of those after it.
    pub(super) fn of_both_sides(&self, rank: u32) -> [usize; 2] {
        let (before, from_own) = self.received.split_at(rank as usize);
        [before.iter().sum(), from_own.iter().skip(1).sum()]
    }
}

/// Finds routes, with memory that is kept.
pub(super) struct Routes {
    /// The first layer of each rank's slab, and how many there are.
    bounds: DeviceBuffer<u32>,
    rank: u32,
    /// How many particles each rank gets, and their sum; how many of each rank come; where the own particles begin and end.
    numbers: DeviceBuffer<u32>,
    /// The rank times 2^32 plus the particle's index, for each particle that is sent.
    routes: DeviceBuffer<u64>,
    /// The particles that are sent, in the order of the routes.
    pub(super) taken: Arrays,
    scratch: Scratch,
}

impl Routes {
    pub(super) fn new(on: &Stream, slabs: &Slabs, rank: u32) -> DistResult<Self> {
        const FEW: usize = 64;
        let bounds: Vec<u32> = slabs.bounds().iter().map(|bound| *bound as u32).collect();
        let slabs = bounds.len() - 1;
        Ok(Self {
            bounds: DeviceBuffer::from_slice(on, &bounds)?,
            rank,
            numbers: DeviceBuffer::zeroed(on, 2 * slabs + 3)?,
            routes: DeviceBuffer::zeroed(on, FEW)?,
            taken: Arrays::zeroed(on, FEW)?,
            scratch: Scratch::new(on)?,
        })
    }

    /// Says how many particles go where, and [takes](Self::taken) them together, rank after rank, each in the order that they
    /// have here. `moved: [n]` are the positions and velocities after a step, of which those from `own[0]` on and before `own[1]`
    /// are this rank's. Waits for the numbers.
    pub(super) fn find(
        &mut self,
        ranks: &Communicator,
        world: World,
        moved: [DeviceSlice<'_, Vector>; 2],
        own: &DeviceBuffer<u32>,
    ) -> DistResult<Exchange> {
        let on = ranks.gpu().stream();
        let slabs = self.bounds.len() - 1;
        self.list(on, world, &moved[0], own)?;
        let (sent, rest) = self.numbers.as_mut_slice().split_at_mut(slabs);
        let (_, mut received) = rest.split_at_mut(1);
        ranks.all_to_all(on, &sent, &mut received.slice_mut(..slabs))?;
        received.slice_mut(slabs..).copy_from_device(own)?;
        ranks.synchronize(on)?;
        let numbers: Vec<usize> =
            self.numbers.to_vec()?.into_iter().map(|number| number as usize).collect();
        let total = numbers[slabs];
        if total > self.routes.len() {
            reserve(on, &mut self.routes, total)?;
            self.list(on, world, &moved[0], own)?;
        }
        self.take(on, total, moved)?;
        Ok(Exchange {
            own: numbers[2 * slabs + 1]..numbers[2 * slabs + 2],
            sent: numbers[..slabs].to_vec(),
            received: numbers[slabs + 1..][..slabs].to_vec(),
        })
    }

    /// Counts and lists the routes.
    fn list(
        &mut self,
        on: &Stream,
        world: World,
        position: &DeviceSlice<'_, Vector>,
        own: &DeviceBuffer<u32>,
    ) -> DistResult<()> {
        let slabs = self.bounds.len() - 1;
        self.numbers.slice_mut(..=slabs).clear()?;
        Ok(kernels::particles_route::launch(
            on,
            kernels::particles_route::grid_for(position.len()),
            world,
            self.rank,
            &self.bounds,
            &own.slice(..1),
            &own.slice(1..),
            position,
            &mut self.numbers.slice_mut(..=slabs),
            &mut self.routes,
        )?)
    }

    /// Brings the particles of the first `total` routes together. Routes are listed in any order: sorted, they are those of the
    /// first rank first, and of each rank in the order of the particles.
    fn take(
        &mut self,
        on: &Stream,
        total: usize,
        [position, velocity]: [DeviceSlice<'_, Vector>; 2],
    ) -> DistResult<()> {
        self.taken.reserve(on, total)?;
        let mut routes = self.routes.slice_mut(..total);
        // A rank is below the number of slabs: the bits above are zeros.
        let slabs = self.bounds.len() as u32;
        let options = SortOptions::ASCENDING.bits(0..32 + slabs.ilog2() + 1);
        sort_in_place(on, &mut routes, options, &mut self.scratch)?;
        Ok(kernels::particles_take::launch(
            on,
            kernels::particles_take::grid_for(total),
            &routes,
            &position,
            &velocity,
            &mut self.taken.position.slice_mut(..total),
            &mut self.taken.velocity.slice_mut(..total),
        )?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_before_or_after_the_own() {
        let received = vec![3, 0, 5, 1];
        let exchange = Exchange { own: 0..2, sent: vec![0; 4], received };
        assert_eq!(exchange.of_both_sides(1), [3, 6]);
        assert_eq!(exchange.of_both_sides(0), [0, 6]);
        assert_eq!(exchange.of_both_sides(3), [8, 0]);
    }
}
