//! The particles of a slab, sorted by cells: what a step of one device does, for some layers of the box.

use std::ops::Range;

use cuda_std::vector::Vec2;
use ferrowarp::Stream;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::{Scratch, scan};
use kernels_gpu::particles::{self as kernels, Layers, World};

use super::arrays::{Arrays, Placed, reserve};
use crate::error::DistResult;

/// The cells of a slab and of the layers beside it, with memory that is kept.
pub(super) struct Cells {
    world: World,
    /// The slab, with a layer more at either side where there is one.
    layers: Layers,
    /// Where the cells of the slab itself begin and end.
    own: Range<usize>,
    slots: DeviceBuffer<Vec2<u32>>,
    order: DeviceBuffer<u32>,
    counts: DeviceBuffer<u32>,
    starts: DeviceBuffer<u32>,
    sorted: Arrays,
    scan: Scratch,
}

impl Cells {
    /// The cells of those layers of the box.
    pub(super) fn new(on: &Stream, world: World, slab: Range<usize>) -> DistResult<Self> {
        let [across, up, along] = world.cells.map(|cells| cells as usize);
        let (first, end) = (slab.start.saturating_sub(1), (slab.end + 1).min(along));
        let of_layer = across * up;
        let own = (slab.start - first) * of_layer..(slab.end - first) * of_layer;
        let n_cells = (end - first) * of_layer;
        Ok(Self {
            world,
            layers: Layers { first: first as u32, end: end as u32 },
            own,
            slots: DeviceBuffer::zeroed(on, 0)?,
            order: DeviceBuffer::zeroed(on, 0)?,
            counts: DeviceBuffer::zeroed(on, n_cells + 1)?,
            starts: DeviceBuffer::zeroed(on, n_cells + 1)?,
            sorted: Arrays::zeroed(on, 0)?,
            scan: Scratch::new(on)?,
        })
    }

    /// Brings the particles from `range[0]` on and before `range[1]` together by cells, in their order within a cell. They are
    /// those of the slab and those beside it, `most` at most.
    pub(super) fn sort(
        &mut self,
        on: &Stream,
        particles: &Arrays,
        range: &DeviceBuffer<u32>,
        most: usize,
    ) -> DistResult<()> {
        self.reserve(on, most)?;
        let (world, layers, config) =
            (self.world, self.layers, kernels::particles_bin::grid_for(most));
        let Arrays { position, velocity } = particles;
        let (mut slots, counts) = (self.slots.slice_mut(..most), &mut self.counts);
        counts.clear()?;
        kernels::particles_bin::launch(
            on, config, world, layers, range, position, counts, &mut slots,
        )?;
        scan::exclusive_into(on, &self.counts, &mut self.starts, &mut self.scan)?;
        let mut order = self.order.slice_mut(..most);
        kernels::particles_order::launch(on, config, &slots, &self.starts, &mut order)?;
        Ok(kernels::particles_sort::launch(
            on,
            config,
            range,
            &slots,
            &self.starts,
            &order,
            position,
            velocity,
            &mut self.sorted.position.slice_mut(..most),
            &mut self.sorted.velocity.slice_mut(..most),
        )?)
    }

    /// Takes a step of the particles that were [sorted](Self::sort), `most` at most, to where `to` says. Its own are those that
    /// were in the slab.
    pub(super) fn take_step(
        &mut self,
        on: &Stream,
        most: usize,
        to: &mut Placed,
    ) -> DistResult<()> {
        let [position, velocity] = self.sorted.slices(0..most);
        let place = to.place..to.place + most;
        kernels::particles_move::launch(
            on,
            kernels::particles_move::grid_for(most),
            self.world,
            self.layers,
            &self.starts,
            &position,
            &velocity,
            &mut to.arrays.position.slice_mut(place.clone()),
            &mut to.arrays.velocity.slice_mut(place),
        )?;
        let (first, end) = (self.own.start, self.own.end);
        to.own.slice_mut(..1).copy_from_device(self.starts.slice(first..=first))?;
        to.own.slice_mut(1..).copy_from_device(self.starts.slice(end..=end))?;
        Ok(())
    }

    fn reserve(&mut self, on: &Stream, n: usize) -> DistResult<()> {
        reserve(on, &mut self.slots, n)?;
        reserve(on, &mut self.order, n)?;
        self.sorted.reserve(on, n)?;
        Ok(())
    }
}
