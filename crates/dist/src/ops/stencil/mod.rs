//! Stencils on a grid that is cut into slabs along its slowest axis: heat and waves, in two and three dimensions.
//!
//! ```no_run
//! use ferrowarp::ops::stencil::{Boundary, VolumeStencil};
//! use ferrowarp_dist::ops::{SlabGrid, Shares};
//! use ferrowarp_dist::{Communicator, World};
//!
//! let world = World::from_env()?;
//! let gpu = world.gpu()?;
//! let ranks = Communicator::new(&world, &gpu)?;
//! let (shape, slabs) = ([400, 300, 500], Shares::even(400, ranks.size()));
//! let room = vec![20.0f32; 400 * 300 * 500];
//! let heat = VolumeStencil::diffusion(0.1, Boundary::Insulated);
//! let mut grid = SlabGrid::scatter(&ranks, heat, shape, &slabs, Some(&room))?; // rank 0's
//! grid.step(1000)?;
//! if let Some(cells) = grid.gather()? {
//!     println!("{} degrees in the middle", cells[cells.len() / 2]);
//! }
//! # drop(grid);
//! # drop(ranks);
//! world.finish()?;
//! # Ok::<(), ferrowarp_dist::DistError>(())
//! ```
//!
//! # Method
//!
//! A step needs a *halo*: the neighbours' outermost planes (rows, in two dimensions), as many as the steps that one pass over the
//! memory makes. Each slab keeps its outermost planes a second time, in *strips*, beside which there is room for the
//! neighbours' as ghost planes. A pass:
//!
//! 1. copies the outermost planes into the strips;
//! 2. makes the steps of the whole slab as if it were alone: all is right but as many planes at its ends as there are steps;
//! 3. meanwhile, on a stream of its own, sends and receives ghost planes as one group, and makes the steps of the strips;
//! 4. copies the strips' results to where the slab's are wrong.
//!
//! A slab that is too thin for two strips is one strip. Overlapping of halos with the inside is the common method (e.g.
//! P. Micikevicius, "3D Finite Difference Computation on GPUs using CUDA", 2009); that several steps share a halo as thick is
//! "deep halos" (C. Ding and Y. He, "A Ghost Cell Expansion Method for Reducing Communications in Solving PDE Problems", 2001).
//!
//! Every cell is computed by the kernels of one device, in their order of additions: results have the same bits as
//! [`ferrowarp::ops::stencil`] gives on one device, whatever the slabs are.

mod rule;
mod strips;

use ferrowarp::memory::{DeviceBuffer, DeviceSlice};
use ferrowarp::ops::stencil::Boundary;
use ferrowarp::{AsStream, Stream};

pub use rule::{SlabRule, Wave};
use strips::{Neighbours, Strips};

use super::shares::{Shares, same_len};
use crate::communicator::Communicator;
use crate::error::{DistError, DistResult};

const OPERATION: &str = "a grid in slabs";

/// A grid of `D` dimensions, of which each rank has a slab: consecutive planes along the slowest axis, the first.
///
/// `shape` is `[height, width]` or `[depth, height, width]`, of the whole grid; a rank's part is row-major, its planes in order.
/// What lies beyond the edges of the whole grid says the rule's [`Boundary`], as on one device. Slabs may differ; each has
/// one plane or more. One of fewer planes than a pass makes steps has all ranks make fewer.
pub struct SlabGrid<R: SlabRule<D>, const D: usize> {
    ranks: Communicator,
    stream: Stream,
    rule: R,
    slabs: Shares,
    /// Of this rank's slab.
    shape: [usize; D],
    cells: DeviceBuffer<R::Cell>,
    /// The cells one step before, of waves; otherwise room for the next ones.
    other: DeviceBuffer<R::Cell>,
    strips: Strips<R::Cell>,
    /// The most steps that a pass can make.
    most: usize,
}

/// The cells of a plane.
fn plane_of<const D: usize>(shape: &[usize; D]) -> usize {
    shape[1..].iter().product()
}

impl<R: SlabRule<D>, const D: usize> SlabGrid<R, D> {
    /// A grid of the slabs that the ranks have: `cells: [planes of this rank, …]`. A wave is at rest: it was the same one step
    /// before, unless [`set_before`](Self::set_before) says otherwise. All ranks call it. Steps are enqueued on the stream of the
    /// communicator's device.
    ///
    /// # Errors
    /// [`ThinSlab`](DistError::ThinSlab) if a rank has no plane; [`Length`](DistError::Length) if there is not a share for each
    /// rank, they are not the grid's planes together, or `cells` has another length than this rank's; out of memory.
    pub fn from_local(
        ranks: &Communicator,
        rule: R,
        shape: [usize; D],
        slabs: &Shares,
        cells: DeviceBuffer<R::Cell>,
    ) -> DistResult<Self> {
        ranks.attempt(|| {
            slabs.check_total(ranks, OPERATION, shape[0])?;
            check_thick(slabs)?;
            let (plane, planes) = (plane_of(&shape), slabs.range(ranks.rank()).len());
            same_len(OPERATION, "this rank's slab", planes * plane, cells.len())?;
            let mut own = shape;
            own[0] = planes;
            let is_periodic = rule.boundary() == Boundary::Periodic;
            let neighbours = Neighbours::new(ranks.rank(), ranks.size(), is_periodic);
            let most = most_steps(R::PASSES, slabs);
            let strips = Strips::new(ranks, neighbours, planes, plane, most)?;
            let (stream, ranks, slabs) =
                (ranks.gpu().stream().clone(), ranks.clone(), slabs.clone());
            let other = cells.try_clone()?;
            Ok(Self { ranks, stream, rule, slabs, shape: own, cells, other, strips, most })
        })
    }

    /// A grid of which rank 0 has all cells, `shape`, which are divided among the ranks. What other ranks give as `cells` is not
    /// used. All ranks call it.
    ///
    /// # Errors
    /// As [`from_local`](Self::from_local); [`Length`](DistError::Length) if rank 0 gives another number of cells;
    /// what a [scatter](Communicator::scatter_uneven) returns.
    pub fn scatter(
        ranks: &Communicator,
        rule: R,
        shape: [usize; D],
        slabs: &Shares,
        cells: Option<&[R::Cell]>,
    ) -> DistResult<Self> {
        let scattered = ranks.attempt(|| {
            slabs.check_total(ranks, OPERATION, shape[0])?;
            let (gpu, parts) = (ranks.gpu(), slabs.scaled(plane_of(&shape)));
            let cells = cells.filter(|_| ranks.rank() == 0).unwrap_or_default();
            if ranks.rank() == 0 {
                same_len(OPERATION, "what rank 0 gives", parts.total(), cells.len())?;
            }
            let all = DeviceBuffer::from_slice(gpu, cells)?;
            let mut own = DeviceBuffer::zeroed(gpu, parts.range(ranks.rank()).len())?;
            ranks.scatter_uneven(gpu, Some(&all), &mut own, parts.lens(), 0)?;
            Ok(own)
        });
        Self::from_local(ranks, rule, shape, slabs, scattered?)
    }

    /// What this rank's slab of a wave was one step before. Where that is never said, it was the same. Other rules do not use it.
    ///
    /// # Errors
    /// [`Length`](DistError::Length) if it has another length than the slab.
    pub fn set_before(&mut self, before: DeviceBuffer<R::Cell>) -> DistResult<()> {
        same_len(OPERATION, "the slab one step before", self.cells.len(), before.len())?;
        self.other = before;
        Ok(())
    }

    /// Makes `steps` steps, as many in each pass as the rule and the thinnest slab allow. All ranks call it, with the same number.
    /// Enqueued; over MPI halos have been exchanged on return.
    ///
    /// # Errors
    /// What [sends and receives](Communicator::group) return; errors of the driver.
    pub fn step(&mut self, steps: usize) -> DistResult<()> {
        let (mut left, most) = (steps, self.most);
        for together in R::PASSES.iter().copied().filter(|together| *together <= most) {
            while left >= together {
                self.ranks.clone().attempt(|| self.pass(together))?;
                left -= together;
            }
        }
        Ok(())
    }

    /// Makes that many steps at once.
    fn pass(&mut self, steps: usize) -> DistResult<()> {
        self.strips.load::<D, R>(steps, &self.cells, &self.other)?;
        if !self.strips.are_all(steps) {
            let (cells, out) = (self.cells.as_slice(), self.other.as_mut_slice());
            self.rule.pass(&self.stream, &cells, out, self.shape, steps)?;
        }
        self.strips.exchange(&self.ranks, steps)?;
        self.strips.pass(&self.rule, steps, self.shape)?;
        self.strips.store(steps, &mut self.other)?;
        std::mem::swap(&mut self.cells, &mut self.other);
        Ok(())
    }

    /// All cells of the grid on the host of rank 0, in their order; `None` on other ranks. All ranks call it. Waits for the
    /// steps.
    ///
    /// # Errors
    /// What a [gather](Communicator::gather_uneven) and [`synchronize`](Communicator::synchronize) return.
    pub fn gather(&self) -> DistResult<Option<Vec<R::Cell>>> {
        let parts = self.slabs.scaled(plane_of(&self.shape));
        let is_root = self.ranks.rank() == 0;
        let mut all = DeviceBuffer::zeroed(&self.stream, if is_root { parts.total() } else { 0 })?;
        let to = if is_root { Some(&mut all as _) } else { None };
        self.ranks.gather_uneven(&self.stream, &self.cells, to, parts.lens(), 0)?;
        self.synchronize()?;
        Ok(if is_root { Some(all.to_vec()?) } else { None })
    }

    /// Waits until all steps are made.
    ///
    /// # Errors
    /// As [`Communicator::synchronize`].
    pub fn synchronize(&self) -> DistResult<()> {
        self.ranks.synchronize(self.strips.stream())?;
        self.ranks.synchronize(&self.stream)
    }

    /// This rank's slab on the device, `[planes of this rank, …]`.
    #[must_use]
    pub fn local(&self) -> DeviceSlice<'_, R::Cell> {
        self.cells.as_slice()
    }

    /// Of waves this rank's slab one step before.
    #[must_use]
    pub fn local_before(&self) -> DeviceSlice<'_, R::Cell> {
        self.other.as_slice()
    }

    /// Which planes each rank has.
    #[must_use]
    pub fn slabs(&self) -> &Shares {
        &self.slabs
    }
}

impl<R: SlabRule<D>, const D: usize> AsStream for SlabGrid<R, D> {
    /// The stream on which steps are enqueued.
    fn as_stream(&self) -> &Stream {
        &self.stream
    }
}

/// An error that names the first rank that has no plane.
fn check_thick(slabs: &Shares) -> DistResult<()> {
    let shares = slabs.lens();
    match shares.iter().position(|planes| *planes == 0) {
        Some(rank) if shares.len() > 1 => Err(DistError::ThinSlab {
            rank: rank as u32,
            planes: slabs.total(),
            ranks: slabs.ranks(),
        }),
        _ => Ok(()),
    }
}

/// The most steps of a pass for which every slab has as many planes as the halo.
fn most_steps(passes: &[usize], slabs: &Shares) -> usize {
    let thinnest = slabs.lens().iter().copied().min().unwrap_or(0);
    let fit = |steps: &usize| slabs.ranks() == 1 || *steps <= thinnest;
    passes.iter().copied().find(fit).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thinnest_slab_says_how_many_steps_a_pass_makes() {
        let most = |shares: &[usize]| most_steps(&[4, 2, 1], &Shares::given(shares.to_vec()));
        assert_eq!([most(&[9, 4]), most(&[9, 3]), most(&[1, 9]), most(&[1])], [4, 2, 1, 4]);
    }

    #[test]
    fn a_rank_without_a_plane_is_named() {
        let text = check_thick(&Shares::given(vec![2, 1, 0])).unwrap_err().to_string();
        assert!(text.contains("rank 2") && text.contains("3 planes"), "{text}");
        assert!(check_thick(&Shares::given(vec![0])).is_ok());
    }
}
