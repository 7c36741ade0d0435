//! Columns of A and rows of B: a product, and a reduce-scatter.

use std::any::TypeId;
use std::ops::Range;

use ferrowarp::graph::ForeignMemory;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::matmul::{Matrix, MatrixMut, Options, matmul_into};
use ferrowarp::{AsStream, DeviceBuffer, Event, GpuError, Stream};
use kernels_gpu::matmul::form::MatmulKernel;
use kernels_gpu::matmul::{Factor, Plain};

use super::link::{self, Link, buffers, is_by_engines, multiprocessors_beside};
use super::pieces::{Pieces, Wanted};
use super::{check_sizes, has_no_gaps};
use crate::communicator::Communicator;
use crate::element::{Element, Reduction};
use crate::error::{DistError, DistResult};
use crate::ops::memory::at;
use crate::ops::parts::divide;
use crate::ops::shares::Shares;
use crate::peers::{Put, Puts, Reached};

const OPERATION: &str = "a row-parallel product";

/// `D = epilogue(alpha · A·B)` of which each rank has some columns of A and the same rows of B, and gets some rows of D: the products of
/// all ranks, summed, and their rows in shares, which is a reduce-scatter.
///
/// ```text
/// A: [rows of all, k of this rank]   B: [k of this rank, n]   D: [rows of this rank, n]
/// ```
///
/// A rank may have a `k` of 0. The sum of a share of rows goes around: it begins at the rank after its owner, each rank adds its own product to
/// what it receives from the previous rank (as C with a factor of 1), and the owner adds the last product, and applies the epilogue. So a caller
/// has no C. (A ring reduce-scatter: P. Patarasuk and X. Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations*,
/// 2009.) While pieces of one share are under way, those of the next one are multiplied.
///
/// # Rounding
/// Partial sums travel in the type of D: choose `f32` where 16 bits are too few. With *n* ranks an element is rounded to that type *n* - 1 times
/// on its way, each time by at most *u* times the sum so far: *u* is 2^-24 of `f32`, 2^-11 of `f16` and 2^-8 of `bf16`. With what
/// [`matmul_into`] is off by itself, that is at most `(k · 2^-22 + (n - 1) (u + 2^-23)) · |alpha| Σ |a b|` to first order, over all of K,
/// before the epilogue and the last rounding. The ranks add in a fixed order, so the bits are the same in every run. In one piece the backend
/// adds, in its own order ([`Reduction`]), with the same bound.
///
/// A plan: what it allocates serves any number of products, one after the other. That is two of the longest share of D, or, where copy engines
/// move sums, one for each rank, which the communicator keeps for all plans; in
/// [one piece](Self::in_pieces) a D of all rows, and one of this rank's.
pub struct RowParallel<D: Element> {
    ranks: Communicator,
    pieces: Pieces,
    n: usize,
    link: Link,
    /// Sums of pieces: those that go to the next rank, and those that come from the previous one; in one piece those of all rows, and those of
    /// this rank's.
    sums: Vec<DeviceBuffer<D>>,
    scratch: Scratch,
}

impl<D: Element> RowParallel<D> {
    /// Products with `n` columns, of whose rows each rank gets that many. All ranks call it, with the same `rows` and `n`. Waits for them.
    ///
    /// # Errors
    /// [`Length`](crate::DistError::Length) if there is not a share for each rank; [`UnlikeShapes`](crate::DistError::UnlikeShapes), on
    /// all ranks, if `rows` or `n` differ; out of memory.
    pub fn new(ranks: &Communicator, rows: &Shares, n: usize) -> DistResult<Self> {
        Self::cut(ranks, rows, n, None)
    }

    /// As [`new`](Self::new), with each share in this many pieces, the same number on all ranks. 0 counts as 1: then nothing is exchanged until
    /// all rows are multiplied.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn in_pieces(
        ranks: &Communicator,
        rows: &Shares,
        n: usize,
        pieces: usize,
    ) -> DistResult<Self> {
        Self::cut(ranks, rows, n, Some(pieces))
    }

    fn cut(
        ranks: &Communicator,
        rows: &Shares,
        n: usize,
        pieces: Option<usize>,
    ) -> DistResult<Self> {
        ranks.attempt(|| {
            let multiprocessors = multiprocessors_beside(ranks) as usize;
            let wanted = Wanted { common: ("N", n), columns: n, multiprocessors, pieces };
            let pieces = Pieces::agreed(ranks, OPERATION, rows, wanted)?;
            let wants_rooms =
                pieces.count > 1 && is_by_engines(ranks, pieces.longest() * n * size_of::<D>());
            let slots = ranks.size() as usize * pieces.count * slot_bytes::<D>(&pieces, n);
            let link = Link::new(ranks, wants_rooms.then_some(slots))?;
            let sums = match (ranks.size(), pieces.count) {
                (1, _) => Vec::new(),
                _ if link.has_rooms() => Vec::new(),
                (_, 1) => {
                    let mut sums = buffers(ranks, 1, rows.total() * n)?;
                    sums.extend(buffers(ranks, 1, rows.len_of(ranks.rank()) * n)?);
                    sums
                }
                (_, count) => buffers(ranks, 2 * count, pieces.longest() * n)?,
            };
            let scratch = Scratch::new(ranks.gpu())?;
            Ok(Self { ranks: ranks.clone(), pieces, n, link, sums, scratch })
        })
    }

    /// Multiplies: see the type. `options` are those of this rank's rows of D, without C; `alpha` is the same on all ranks. All ranks call it.
    /// Enqueued; over MPI the exchange is done on return.
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) if a matrix does not fit, before anything is enqueued: the message has its sizes, those
    /// that it must have, and the rank; or if `options` read C; as [`matmul_into`]; what a
    /// [reduce-scatter](Communicator::reduce_scatter_uneven) or [sends and receives](Communicator::group) return.
    pub fn multiply_into<T: Factor, E: MatmulKernel<T, D>>(
        &mut self,
        on: &impl AsStream,
        a: Matrix<'_, T>,
        b: Matrix<'_, T>,
        d: MatrixMut<'_, D>,
        options: Options<'_, D, E>,
    ) -> DistResult<()>
    where
        Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
    {
        let (ranks, on) = (self.ranks.clone(), on.as_stream());
        ranks.attempt(|| {
            self.check([&a, &b], &d, &options)?;
            match ranks.size() {
                1 => Ok(matmul_into(on, a, b, d, options, &mut self.scratch)?),
                _ if self.overlaps() => self.overlapped(on, [a, b], d, options),
                _ => self.scattered(on, [a, b], d, options),
            }
        })
    }

    /// As [`multiply_into`](Self::multiply_into), with all rows of D on every rank, as an all-reduce of the products would give it: the shares are
    /// gathered after the product. `options` are those of all rows; D, `[rows of all, n]`, is row-major without gaps.
    ///
    /// # Errors
    /// As [`multiply_into`](Self::multiply_into) and [`Communicator::broadcast`].
    pub fn multiply_whole_into<T: Factor, E: MatmulKernel<T, D>>(
        &mut self,
        on: &impl AsStream,
        a: Matrix<'_, T>,
        b: Matrix<'_, T>,
        mut d: MatrixMut<'_, D>,
        options: Options<'_, D, E>,
    ) -> DistResult<()>
    where
        Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
    {
        let (ranks, rows, layout) = (self.ranks.clone(), self.pieces.rows.clone(), d.layout());
        ranks.attempt(|| {
            let all = (rows.total(), self.n);
            check_sizes(&ranks, OPERATION, ("D", &layout), all, "it is whole on all ranks")?;
            if !has_no_gaps(&layout) {
                let reason =
                    format!("D, which is {layout} and whole, is to be row-major without gaps");
                return Err(wrong(reason));
            }
            let own = rows.range(ranks.rank());
            let options = options.rows(&layout, own.clone())?;
            self.multiply_into(on, a, b, d.rows_mut(own), options)?;
            let lens = (0..ranks.size()).map(|rank| (rank, rows.len_of(rank) * self.n));
            let mut parts = divide(d.memory_mut(), lens);
            let mut group = ranks.group().counted();
            for (rank, part) in parts.iter_mut().filter(|(_, part)| !part.is_empty()) {
                group = group.broadcast(part, *rank)?;
            }
            group.enqueue(on)
        })
    }

    /// How many pieces each share is cut into.
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.pieces.count
    }

    /// Whether the exchange goes on beside the products.
    #[must_use]
    pub fn overlaps(&self) -> bool {
        self.pieces.count > 1
    }

    /// Refuses what does not fit, before anything is enqueued.
    fn check<T: Factor, E: MatmulKernel<T, D>>(
        &self,
        [a, b]: [&Matrix<'_, T>; 2],
        d: &MatrixMut<'_, D>,
        options: &Options<'_, D, E>,
    ) -> DistResult<()> {
        let (ranks, n, rows) = (&self.ranks, self.n, &self.pieces.rows);
        let (x, y, z) = (a.layout(), b.layout(), d.layout());
        let shares = format_args!("D's rows are in shares of {:?}", rows.lens());
        check_sizes(ranks, OPERATION, ("A", &x), (rows.total(), x.columns), shares)?;
        let with_a = format_args!("A is {x}, and N is {n}");
        check_sizes(ranks, OPERATION, ("B", &y), (x.columns, n), with_a)?;
        let shares = format_args!("{shares}, A is {x}, and B is {y}");
        check_sizes(ranks, OPERATION, ("D", &z), (rows.len_of(ranks.rank()), n), shares)?;
        if options.reads_c() {
            let reason = "beta or the epilogue reads C, and that is the sum of the other ranks' products here";
            return Err(wrong(reason.to_owned()));
        }
        options.rows(&z, 0..0)?;
        Ok(())
    }

    /// The product first, of all rows.
    fn scattered<T: Factor, E: MatmulKernel<T, D>>(
        &mut self,
        on: &Stream,
        [a, b]: [Matrix<'_, T>; 2],
        mut d: MatrixMut<'_, D>,
        options: Options<'_, D, E>,
    ) -> DistResult<()>
    where
        Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
    {
        let Self { ranks, pieces, n, sums, scratch, .. } = self;
        let n = *n;
        let (all, own) = sums.split_at_mut(1);
        let (all, own) = (&mut all[0], &mut own[0]);
        let to = MatrixMut::row_major(&mut *all, pieces.rows.total(), n)?;
        matmul_into(on, a, b, to, options.partial_sums(), scratch)?;
        let is_done = TypeId::of::<E>() == TypeId::of::<Plain>() && has_no_gaps(&d.layout());
        let parts = pieces.rows.scaled(n);
        let own_len = parts.len_of(ranks.rank());
        let mut to = if is_done { d.memory_mut() } else { own.as_mut_slice() };
        let mut to = to.slice_mut(..own_len);
        match parts.lens().iter().all(|len| *len == own_len) {
            true => ranks.reduce_scatter(on, &*all, &mut to, Reduction::Sum)?,
            false => {
                ranks.reduce_scatter_uneven(on, &*all, &mut to, parts.lens(), Reduction::Sum)?
            }
        }
        if is_done {
            return Ok(());
        }
        // A product with a K of 0 is the epilogue of C.
        let (m, sum) = (pieces.rows.len_of(ranks.rank()), &*own);
        let a = Matrix::row_major(a.memory().slice(..0), m, 0)?;
        let b = Matrix::row_major(b.memory().slice(..0), 0, n)?;
        let options = options.beta(1.0).c(Matrix::row_major(sum, m, n)?);
        Ok(matmul_into(on, a, b, d, options, scratch)?)
    }

    /// The exchange beside the products.
    fn overlapped<T: Factor, E: MatmulKernel<T, D>>(
        &mut self,
        on: &Stream,
        [a, b]: [Matrix<'_, T>; 2],
        d: MatrixMut<'_, D>,
        options: Options<'_, D, E>,
    ) -> DistResult<()>
    where
        Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
    {
        let Self { ranks, pieces, n, link, sums, scratch } = self;
        let options = options.most_multiprocessors(multiprocessors_beside(ranks));
        let mut products = Products { on, a, b, d, n: *n, options, scratch };
        if let Some(rooms) = link.rooms(ranks)? {
            return by_rooms(ranks, pieces, (link, rooms), &mut products);
        }
        let ring = Ring::of(ranks);
        let (goes, comes) = sums.split_at_mut(pieces.count);
        for step in 0..ring.size {
            for (piece, (goes, comes)) in goes.iter_mut().zip(&mut *comes).enumerate() {
                let rows = pieces.place(ring.owner(step), piece);
                if step + 1 == ring.size {
                    products.last(rows, pieces.part(ring.own, piece), comes)?;
                    continue;
                }
                let len = rows.len() * products.n;
                products.partial(rows, (step > 0).then_some(&*comes), goes)?;
                let next_len = pieces.part(ring.owner(step + 1), piece).len() * products.n;
                let (sent, received) = (goes.slice(..len), comes.slice_mut(..next_len));
                link.exchange(ranks, (ring.next, sent), (ring.before, received))?;
            }
        }
        Ok(())
    }
}

/// The ring around which sums go, as one rank sees it.
#[derive(Clone, Copy)]
struct Ring {
    own: u32,
    size: u32,
    next: u32,
    before: u32,
}

impl Ring {
    fn of(ranks: &Communicator) -> Self {
        let (own, size) = (ranks.rank(), ranks.size());
        Self { own, size, next: (own + 1) % size, before: (own + size - 1) % size }
    }

    /// Whose rows this rank multiplies at a step: those of the rank `step + 1` before it.
    fn owner(self, step: u32) -> u32 {
        (self.own + 2 * self.size - 1 - step) % self.size
    }
}

/// The products of a rank, piece by piece.
struct Products<'a, T: Factor, D: Element, E> {
    on: &'a Stream,
    a: Matrix<'a, T>,
    b: Matrix<'a, T>,
    d: MatrixMut<'a, D>,
    n: usize,
    options: Options<'a, D, E>,
    scratch: &'a mut Scratch,
}

impl<T: Factor, D: Element, E: MatmulKernel<T, D>> Products<'_, T, D, E>
where
    Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
{
    /// The product of some rows of A, and the sums that came of them, to sums that go.
    fn partial(
        &mut self,
        rows: Range<usize>,
        comes: Option<&DeviceBuffer<D>>,
        goes: &mut DeviceBuffer<D>,
    ) -> DistResult<()> {
        let (m, n) = (rows.len(), self.n);
        let mut options = self.options.partial_sums();
        if let Some(comes) = comes {
            options = options.beta(1.0).c(Matrix::row_major(comes, m, n)?);
        }
        let to = MatrixMut::row_major(goes, m, n)?;
        Ok(matmul_into(self.on, self.a.rows(rows), self.b, to, options, self.scratch)?)
    }

    /// The product of some rows of A, and the sums that came of them, to rows of this rank's D.
    fn last(
        &mut self,
        rows: Range<usize>,
        of_own: Range<usize>,
        comes: &DeviceBuffer<D>,
    ) -> DistResult<()> {
        let options = self.options.rows(&self.d.layout(), of_own.clone())?.beta(1.0);
        let options = options.c(Matrix::row_major(comes, rows.len(), self.n)?);
        let (part, to) = (self.a.rows(rows), self.d.rows_mut(of_own));
        Ok(matmul_into(self.on, part, self.b, to, options, self.scratch)?)
    }
}

/// The exchange beside the products, where each rank writes its sums to a slot in the next one's rooms, one for each step and piece; the last
/// slots are for sums that go.
fn by_rooms<T: Factor, D: Element, E: MatmulKernel<T, D>>(
    ranks: &Communicator,
    pieces: &Pieces,
    (link, rooms): (&Link, Reached),
    products: &mut Products<'_, T, D, E>,
) -> DistResult<()>
where
    Plain: MatmulKernel<T, D> + MatmulKernel<T, f32>,
{
    let (ring, n, on) = (Ring::of(ranks), products.n, products.on);
    let slot = |at: u32, step: u32, piece: usize| {
        let number = step as usize * pieces.count + piece;
        rooms[at as usize] + (number * slot_bytes::<D>(pieces, n)) as u64
    };
    let exchange = |puts: &mut Puts<'_>, met: &[Event]| {
        // Of each piece: when its last sum has been sent, and when the next one comes.
        let mut last: Vec<Option<[Event; 2]>> = (0..pieces.count).map(|_| None).collect();
        for step in 0..ring.size {
            for (piece, last) in last.iter_mut().enumerate() {
                let rows = pieces.place(ring.owner(step), piece);
                let len = rows.len() * n;
                last.iter().flatten().try_for_each(|event| on.wait_event(event))?;
                // SAFETY: the stream has waited for what came from the rank before at the last step, and until what went is sent, and leaves
                // the rooms at last.
                let (comes, mut goes) = unsafe {
                    let comes = step.checked_sub(1).map(|step| slot(ring.own, step, piece));
                    let comes = comes.map(|comes| at::<D>(comes, on, len)).transpose()?;
                    (comes, at::<D>(slot(ring.own, ring.size - 1, piece), on, len)?)
                };
                if let Some(comes) = comes.as_ref().filter(|_| step + 1 == ring.size) {
                    products.last(rows, pieces.part(ring.own, piece), comes)?;
                    continue;
                }
                products.partial(rows, comes.as_ref(), &mut goes)?;
                let place = Put {
                    from: slot(ring.own, ring.size - 1, piece),
                    to: slot(ring.next, step, piece),
                    bytes: len * size_of::<D>(),
                };
                let there = on.record_event()?;
                let after: Vec<_> = met.iter().chain([&there]).collect();
                let sent = puts.send(ring.next as usize, &after, &[place])?;
                *last = Some([sent, puts.receive(ring.before as usize)?]);
            }
        }
        Ok(())
    };
    // SAFETY: what is sent is in this rank's own rooms, and is not written again before it has been sent; each message has a slot of its own.
    unsafe { link.put(ranks, on, ForeignMemory::new(), exchange) }
}

/// The bytes of rooms for a piece.
fn slot_bytes<D>(pieces: &Pieces, n: usize) -> usize {
    link::slot_bytes(pieces.longest() * n * size_of::<D>())
}

fn wrong(reason: String) -> DistError {
    GpuError::InvalidArgument { operation: OPERATION, reason }.into()
}
