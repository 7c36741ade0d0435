//! The particles of a slab, sorted by cells: what a step of one device does, for some layers of the box.

use std::ops::Range;

use cuda_std::vector::Vec2;
use ferrowarp::Stream;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::{Scratch, scan};
use kernels_gpu::particles::{self as kernels, Layers, World};

use super::arrays::{Arrays, reserve};
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

    /// Takes a step of the particles `range`, those of the slab and those beside it. They become sorted by cells at `place`;
    /// `own: [2]` becomes where those that were in the slab begin and end.
    pub(super) fn step(
        &mut self,
        on: &Stream,
        particles: &mut Arrays,
        range: Range<usize>,
        place: usize,
        own: &mut DeviceBuffer<u32>,
    ) -> DistResult<()> {
        let n = range.len();
        self.sort(on, particles, range)?;
        let [position, velocity] = self.sorted.slices(0..n);
        kernels::particles_move::launch(
            on,
            kernels::particles_move::grid_for(n),
            self.world,
            self.layers,
            &self.starts,
            &position,
            &velocity,
            &mut particles.position.slice_mut(place..place + n),
            &mut particles.velocity.slice_mut(place..place + n),
        )?;
        let (first, end) = (self.own.start, self.own.end);
        own.slice_mut(..1).copy_from_device(self.starts.slice(first..=first))?;
        own.slice_mut(1..).copy_from_device(self.starts.slice(end..=end))?;
        Ok(())
    }

    /// Brings the particles `range` together by cells, in their order within a cell: [`Self::sorted`].
    fn sort(&mut self, on: &Stream, particles: &Arrays, range: Range<usize>) -> DistResult<()> {
        let n = range.len();
        self.reserve(on, n)?;
        let (config, [position, velocity]) =
            (kernels::particles_bin::grid_for(n), particles.slices(range));
        let mut slots = self.slots.slice_mut(..n);
        let (world, layers, counts) = (self.world, self.layers, &mut self.counts);
        counts.clear()?;
        kernels::particles_bin::launch(on, config, world, layers, &position, counts, &mut slots)?;
        scan::exclusive_into(on, &self.counts, &mut self.starts, &mut self.scan)?;
        let mut order = self.order.slice_mut(..n);
        kernels::particles_order::launch(on, config, &slots, &self.starts, &mut order)?;
        Ok(kernels::particles_sort::launch(
            on,
            config,
            &slots,
            &self.starts,
            &order,
            &position,
            &velocity,
            &mut self.sorted.position.slice_mut(..n),
            &mut self.sorted.velocity.slice_mut(..n),
        )?)
    }

    fn reserve(&mut self, on: &Stream, n: usize) -> DistResult<()> {
        reserve(on, &mut self.slots, n)?;
        reserve(on, &mut self.order, n)?;
        self.sorted.reserve(on, n)?;
        Ok(())
    }
}
