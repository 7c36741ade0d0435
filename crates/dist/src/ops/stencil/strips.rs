//! Where slabs meet: strips of a slab's outermost planes with the neighbours' next ones.

use std::ops::Range;

use bytemuck::Pod;
use ferrowarp::Stream;
use ferrowarp::memory::DeviceBuffer;

use super::rule::SlabRule;
use crate::communicator::Communicator;
use crate::error::DistResult;

/// The ranks whose slabs are before and after this one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Neighbours {
    pub(super) below: Option<u32>,
    pub(super) above: Option<u32>,
}

impl Neighbours {
    pub(super) fn new(rank: u32, size: u32, is_periodic: bool) -> Self {
        if size == 1 {
            return Self { below: None, above: None };
        }
        let below = if is_periodic { Some((rank + size - 1) % size) } else { rank.checked_sub(1) };
        let above = if rank + 1 < size { Some(rank + 1) } else { is_periodic.then_some(0) };
        Self { below, above }
    }

    fn is_any(self) -> bool {
        self.below.is_some() || self.above.is_some()
    }
}

/// What a strip holds: ghost planes of the neighbour below, planes of the slab, ghost planes of the neighbour above.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Layout {
    below: usize,
    /// The planes of the slab.
    own: Range<usize>,
    above: usize,
    /// Those of them for which the strip's result is right.
    result: Range<usize>,
}

impl Layout {
    /// The strips of a slab of `planes` planes for a halo of `halo`: one at each neighbour; one alone, of all planes, where
    /// two would overlap.
    fn all(planes: usize, halo: usize, neighbours: Neighbours) -> Vec<Self> {
        let ghosts = |neighbour: Option<u32>| if neighbour.is_some() { halo } else { 0 };
        let (below, above) = (ghosts(neighbours.below), ghosts(neighbours.above));
        if !neighbours.is_any() {
            return Vec::new();
        }
        if planes < 2 * halo {
            return vec![Self { below, own: 0..planes, above, result: 0..planes }];
        }
        let lower = Self { below, own: 0..2 * halo, above: 0, result: 0..halo };
        let own = planes - 2 * halo..planes;
        let upper = Self { below: 0, own, above, result: planes - halo..planes };
        [lower, upper].into_iter().filter(|strip| strip.below + strip.above > 0).collect()
    }

    fn planes(&self) -> usize {
        self.below + self.own.len() + self.above
    }

    /// Where the slab's planes are in the strip.
    fn place(&self) -> Range<usize> {
        self.below..self.below + self.own.len()
    }

    /// Where the result is in the strip.
    fn result_place(&self) -> Range<usize> {
        let start = self.below + self.result.start - self.own.start;
        start..start + self.result.len()
    }
}

/// Memory of a strip.
struct Strip<T: Pod> {
    cells: DeviceBuffer<T>,
    /// The cells before, and then the cells after.
    other: DeviceBuffer<T>,
}

/// The strips of a slab, with a stream of their own, on which halos travel while the slab's inside is computed.
pub(super) struct Strips<T: Pod> {
    stream: Stream,
    neighbours: Neighbours,
    /// The planes of the slab, and the cells of a plane.
    planes: usize,
    plane: usize,
    memory: [Strip<T>; 2],
}

/// Elements of planes.
fn elements(planes: Range<usize>, plane: usize) -> Range<usize> {
    planes.start * plane..planes.end * plane
}

impl<T: Pod> Strips<T> {
    /// Strips for halos of up to `halo` planes of `plane` cells.
    pub(super) fn new(
        ranks: &Communicator,
        neighbours: Neighbours,
        planes: usize,
        plane: usize,
        halo: usize,
    ) -> DistResult<Self> {
        let gpu = ranks.gpu();
        // Blocks of halos go before those of the inside.
        let stream = gpu.create_stream_with_priority(*gpu.stream_priorities()?.start())?;
        let most = if neighbours.is_any() { 4 * halo * plane } else { 0 };
        let strip = || -> DistResult<Strip<T>> {
            let cells = DeviceBuffer::zeroed(&stream, most)?;
            Ok(Strip { cells, other: DeviceBuffer::zeroed(&stream, most)? })
        };
        let memory = [strip()?, strip()?];
        Ok(Self { stream, neighbours, planes, plane, memory })
    }

    /// Whether the strips of that halo have all of the slab's result.
    pub(super) fn are_all(&self, halo: usize) -> bool {
        self.neighbours.is_any() && self.planes < 2 * halo
    }

    fn layouts(&self, halo: usize) -> Vec<Layout> {
        Layout::all(self.planes, halo, self.neighbours)
    }

    /// Copies the slab's planes that strips hold. What changes the slab afterwards waits for it.
    pub(super) fn load<const D: usize, R: SlabRule<D, Cell = T>>(
        &mut self,
        halo: usize,
        cells: &DeviceBuffer<T>,
        other: &DeviceBuffer<T>,
    ) -> DistResult<()> {
        let (layouts, plane) = (self.layouts(halo), self.plane);
        for (strip, layout) in self.memory.iter_mut().zip(layouts) {
            let (to, from) = (elements(layout.place(), plane), elements(layout.own, plane));
            strip.cells.slice_mut(to.clone()).copy_from_device(cells.slice(from.clone()))?;
            if R::KEEPS_BEFORE {
                strip.other.slice_mut(to).copy_from_device(other.slice(from))?;
            }
        }
        Ok(())
    }

    /// Gives the neighbours their ghost planes, and receives those of this slab.
    ///
    /// Where one rank is the neighbour on both sides, what is sent down comes first, and so does what is received from above.
    pub(super) fn exchange(&mut self, ranks: &Communicator, halo: usize) -> DistResult<()> {
        let (ghosts, layouts) = (halo * self.plane, self.layouts(halo));
        let (mut of_below, mut own, mut of_above) = (Vec::new(), Vec::new(), Vec::new());
        for (strip, layout) in self.memory.iter_mut().zip(&layouts) {
            let place = elements(layout.place(), self.plane);
            let used = strip.cells.slice_mut(..layout.planes() * self.plane);
            let (rest, above) = used.split_at_mut(place.end);
            let (below, cells) = rest.split_at_mut(place.start);
            of_below.push(below);
            own.push(cells);
            of_above.push(above);
        }
        let lowest = own.first().map(|own| own.as_slice().slice(..ghosts));
        let highest = own.last().map(|own| own.as_slice().slice(own.len() - ghosts..));
        let Neighbours { below, above } = self.neighbours;
        let mut group = ranks.group().counted();
        if let (Some(rank), Some(planes)) = (below, &lowest) {
            group = group.send(planes, rank)?;
        }
        if let (Some(rank), Some(planes)) = (above, &highest) {
            group = group.send(planes, rank)?;
        }
        if let (Some(rank), Some(planes)) = (above, of_above.last_mut()) {
            group = group.receive(planes, rank)?;
        }
        if let (Some(rank), Some(planes)) = (below, of_below.first_mut()) {
            group = group.receive(planes, rank)?;
        }
        group.enqueue(&self.stream)
    }

    /// Makes `halo` steps of the strips, of a slab of this shape.
    pub(super) fn pass<const D: usize, R: SlabRule<D, Cell = T>>(
        &mut self,
        rule: &R,
        halo: usize,
        slab: [usize; D],
    ) -> DistResult<()> {
        let (layouts, plane) = (self.layouts(halo), self.plane);
        for (strip, layout) in self.memory.iter_mut().zip(layouts) {
            let mut shape = slab;
            shape[0] = layout.planes();
            let used = ..shape[0] * plane;
            let (cells, out) = (strip.cells.slice(used), strip.other.slice_mut(used));
            rule.pass(&self.stream, &cells, out, shape, halo)?;
        }
        Ok(())
    }

    /// Copies the strips' results into the slab's.
    pub(super) fn store(&self, halo: usize, out: &mut DeviceBuffer<T>) -> DistResult<()> {
        for (strip, layout) in self.memory.iter().zip(self.layouts(halo)) {
            let from = elements(layout.result_place(), self.plane);
            let to = elements(layout.result, self.plane);
            out.slice_mut(to).copy_from_device(strip.other.slice(from))?;
        }
        Ok(())
    }

    /// The stream of the halos.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Neighbours = Neighbours { below: Some(0), above: Some(2) };

    #[test]
    fn neighbours_wrap_around_where_the_boundary_is_periodic() {
        let of = |rank, size, is_periodic| {
            let Neighbours { below, above } = Neighbours::new(rank, size, is_periodic);
            (below, above)
        };
        assert_eq!(of(0, 3, false), (None, Some(1)));
        assert_eq!(of(2, 3, false), (Some(1), None));
        assert_eq!(of(0, 3, true), (Some(2), Some(1)));
        assert_eq!(of(1, 2, true), (Some(0), Some(0)));
        assert_eq!(of(0, 1, true), (None, None));
    }

    #[test]
    fn strips_are_at_both_ends_and_all_of_a_thin_slab() {
        let strips = Layout::all(9, 2, BOTH);
        assert_eq!(strips[0], Layout { below: 2, own: 0..4, above: 0, result: 0..2 });
        assert_eq!(strips[1], Layout { below: 0, own: 5..9, above: 2, result: 7..9 });
        assert_eq!((strips[0].result_place(), strips[1].result_place()), (2..4, 2..4));
        assert_eq!(Layout::all(9, 2, Neighbours { below: None, ..BOTH }), strips[1..]);
        let thin = Layout::all(3, 2, BOTH);
        assert_eq!(thin, [Layout { below: 2, own: 0..3, above: 2, result: 0..3 }]);
        assert_eq!((thin[0].planes(), thin[0].result_place()), (7, 2..5));
        assert_eq!(Layout::all(1, 2, Neighbours { below: None, above: None }), []);
    }
}
