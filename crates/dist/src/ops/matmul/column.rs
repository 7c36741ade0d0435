//! Rows of A and columns of B: an all-gather, and a product.

use std::ops::Range;

use ferrowarp::graph::ForeignMemory;
use ferrowarp::memory::DeviceSlice;
use ferrowarp::ops::matmul::{Matrix, MatrixMut, Options, Order, matmul_into};
use ferrowarp::ops::{Scratch, copy_pitched, transpose};
use ferrowarp::{AsStream, DeviceBuffer, Event, Stream};
use kernels_gpu::matmul::form::MatmulKernel;
use kernels_gpu::matmul::{Factor, Plain};

use super::link::{self, Link, multiprocessors_beside};
use super::pieces::{Pieces, Wanted};
use super::{check_sizes, without_gaps};
use crate::communicator::Communicator;
use crate::error::DistResult;
use crate::ops::memory::{at, unwritten};
use crate::ops::shares::Shares;
use crate::peers::{Put, Puts, Reached};

const OPERATION: &str = "a column-parallel product";

/// `D = epilogue(alpha · A·B + beta · C)` of which each rank has some rows of A, and gets the columns of D that its columns of B give: an
/// all-gather of A, and the product.
///
/// ```text
/// A: [rows of this rank, k]   B: [k, n of this rank]   C, D: [rows of all, n of this rank]
/// ```
///
/// This rank's rows are multiplied while they travel to the others, each piece directly to the next rank, the one after it and so on;
/// then the pieces that were received, in the order in which they arrive. An element of D is summed as [`matmul_into`] sums it: no sum crosses ranks.
/// So the result has the same bits in every run; with another number of pieces, or of ranks, another kernel may be the fastest, whose sums have
/// another order. The result of [`matmul_into`] bounds its error.
///
/// A plan: what it allocates serves any number of products, one after the other. That is room for the pieces of A that are received (all of A
/// where copy engines move them, which the communicator keeps for all plans, at most two ranks' shares otherwise; in [one
/// piece](Self::in_pieces) all of A), and a copy of this rank's rows if they have gaps or are column-major.
pub struct ColumnParallel<T: Factor> {
    ranks: Communicator,
    pieces: Pieces,
    k: usize,
    link: Link,
    /// What was received: pieces, in a ring of buffers; in one piece, A.
    received: Vec<DeviceBuffer<T>>,
    /// This rank's rows of A, where they have gaps.
    packed: DeviceBuffer<T>,
    scratch: Scratch,
}

impl<T: Factor> ColumnParallel<T> {
    /// Products of matrices of which each rank has that many `rows` of A, and this rank `n` columns of B. All ranks call it, with the same
    /// `rows` and `k`. Waits for them.
    ///
    /// # Errors
    /// [`Length`](crate::DistError::Length) if there is not a share for each rank; [`UnlikeShapes`](crate::DistError::UnlikeShapes), on
    /// all ranks, if `rows` or `k` differ; out of memory.
    pub fn new(ranks: &Communicator, rows: &Shares, [n, k]: [usize; 2]) -> DistResult<Self> {
        Self::cut(ranks, rows, [n, k], None)
    }

    /// As [`new`](Self::new), with each share in this many pieces, the same number on all ranks. 0 counts as 1: then nothing is multiplied until
    /// all of A has been received.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn in_pieces(
        ranks: &Communicator,
        rows: &Shares,
        [n, k]: [usize; 2],
        pieces: usize,
    ) -> DistResult<Self> {
        Self::cut(ranks, rows, [n, k], Some(pieces))
    }

    fn cut(
        ranks: &Communicator,
        rows: &Shares,
        [columns, k]: [usize; 2],
        pieces: Option<usize>,
    ) -> DistResult<Self> {
        ranks.attempt(|| {
            let multiprocessors = multiprocessors_beside(ranks) as usize;
            let wanted = Wanted { common: ("K", k), columns, multiprocessors, pieces };
            let pieces = Pieces::agreed(ranks, OPERATION, rows, wanted)?;
            let others = ranks.size() as usize - 1;
            let wants_rooms = pieces.count > 1
                && link::is_by_engines(ranks, pieces.longest() * k * size_of::<T>());
            let slots = ranks.size() as usize * pieces.count * slot_bytes::<T>(&pieces, k);
            let link = Link::new(ranks, wants_rooms.then_some(slots))?;
            let (count, len) = match (others, pieces.count) {
                (0, _) => (0, 0),
                _ if link.has_rooms() => (0, 0),
                (_, 1) => (1, rows.total() * k),
                (_, pieces_each) => (others.min(2) * pieces_each, pieces.longest() * k),
            };
            Ok(Self {
                received: link::buffers(ranks, count, len)?,
                packed: DeviceBuffer::zeroed(&link.stream, 0)?,
                scratch: Scratch::new(ranks.gpu())?,
                ranks: ranks.clone(),
                pieces,
                k,
                link,
            })
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
    fn check<D: bytemuck::Pod, E: MatmulKernel<T, D>>(
        &self,
        [a, b]: [&Matrix<'_, T>; 2],
        d: &MatrixMut<'_, D>,
        options: &Options<'_, D, E>,
    ) -> DistResult<()> {
        let (ranks, k, rows) = (&self.ranks, self.k, &self.pieces.rows);
        let (x, y, z) = (a.layout(), b.layout(), d.layout());
        let own = rows.len_of(ranks.rank());
        let shares = format_args!("rows are in shares of {:?}, and K is {k}", rows.lens());
        check_sizes(ranks, OPERATION, ("A", &x), (own, k), shares)?;
        check_sizes(ranks, OPERATION, ("B", &y), (k, y.columns), format_args!("A is {x}"))?;
        let both = format_args!("A of all ranks is {} × {k}, and B is {y}", rows.total());
        check_sizes(ranks, OPERATION, ("D", &z), (rows.total(), y.columns), both)?;
        options.rows(&z, 0..0)?;
        Ok(())
    }
}

impl<T: Factor> ColumnParallel<T>
where
    Plain: MatmulKernel<T, f32>,
{
    /// Multiplies: see the type. `options` are those of this rank's columns; their vector of rows and C have the rows of all ranks. All ranks
    /// call it. Enqueued; over MPI the exchange is done on return.
    ///
    /// # Errors
    /// [`InvalidArgument`](ferrowarp::GpuError::InvalidArgument) if a matrix does not fit, before anything is enqueued: the message has its
    /// sizes, those that it must have, and the rank; as [`matmul_into`]; what an [all-gather](Communicator::all_gather_uneven) or
    /// [sends and receives](Communicator::group) return.
    pub fn multiply_into<D: bytemuck::Pod, E: MatmulKernel<T, D>>(
        &mut self,
        on: &impl AsStream,
        a: Matrix<'_, T>,
        b: Matrix<'_, T>,
        d: MatrixMut<'_, D>,
        options: Options<'_, D, E>,
    ) -> DistResult<()> {
        let (ranks, on) = (self.ranks.clone(), on.as_stream());
        ranks.attempt(|| {
            self.check([&a, &b], &d, &options)?;
            match ranks.size() {
                1 => Ok(matmul_into(on, a, b, d, options, &mut self.scratch)?),
                _ if self.overlaps() => self.overlapped(on, [a, b], d, options),
                _ => self.gathered(on, [a, b], d, options),
            }
        })
    }

    /// The exchange first.
    fn gathered<D: bytemuck::Pod, E: MatmulKernel<T, D>>(
        &mut self,
        on: &Stream,
        [a, b]: [Matrix<'_, T>; 2],
        d: MatrixMut<'_, D>,
        options: Options<'_, D, E>,
    ) -> DistResult<()> {
        let Self { ranks, pieces, k, received, packed, scratch, .. } = self;
        let (own, all) = (packed_rows(on, &a, packed)?, &mut received[0]);
        let parts = pieces.rows.scaled(*k);
        let is_even = parts.lens().iter().all(|len| *len == parts.longest());
        match is_even {
            true => ranks.all_gather(on, &own, all)?,
            false => ranks.all_gather_uneven(on, &own, all, parts.lens())?,
        }
        let a = Matrix::row_major(&*all, pieces.rows.total(), *k)?;
        Ok(matmul_into(on, a, b, d, options, scratch)?)
    }

    /// The exchange beside the products.
    fn overlapped<D: bytemuck::Pod, E: MatmulKernel<T, D>>(
        &mut self,
        on: &Stream,
        [a, b]: [Matrix<'_, T>; 2],
        mut d: MatrixMut<'_, D>,
        options: Options<'_, D, E>,
    ) -> DistResult<()> {
        let Self { ranks, pieces, k, link, received, packed, scratch } = self;
        let (k, own, size, layout) = (*k, ranks.rank(), ranks.size(), d.layout());
        let buffers = received.len();
        let options = options.most_multiprocessors(multiprocessors_beside(ranks));
        let own_rows = pieces.rows.range(own);
        let of_own = options.rows(&layout, own_rows.clone())?;
        let stream = link.stream.clone();
        // The link reads A where it lies, and neither it nor the products wait for each other. It begins after what `on` has now.
        stream.rehome_reads(a.memory(), |lent| {
            matmul_into(on, a, b, d.rows_mut(own_rows), of_own, scratch)?;
            let lent = Matrix::new(lent, a.layout())?;
            let mut exchange = || -> DistResult<()> {
                let sent = packed_rows(&stream, &lent, packed)?;
                if let Some(rooms) = link.rooms(ranks)? {
                    let multiply = |part: Matrix<'_, T>, rows: Range<usize>| {
                        let options = options.rows(&layout, rows.clone())?;
                        Ok(matmul_into(on, part, b, d.rows_mut(rows), options, scratch)?)
                    };
                    return by_rooms((ranks, link, rooms), on, (sent, k), pieces, multiply);
                }
                let steps =
                    (1..size).flat_map(|step| (0..pieces.count).map(move |piece| (step, piece)));
                for (number, (step, piece)) in steps.enumerate() {
                    let (to, from) = ((own + step) % size, (own + size - step) % size);
                    let (part, rows) = (pieces.part(own, piece), pieces.place(from, piece));
                    let buffer = &mut received[number % buffers];
                    let sent = sent.slice(part.start * k..part.end * k);
                    let into = buffer.slice_mut(..rows.len() * k);
                    link.exchange(ranks, (to, sent), (from, into))?;
                    let a = Matrix::row_major(&*buffer, rows.len(), k)?;
                    let options = options.rows(&layout, rows.clone())?;
                    matmul_into(on, a, b, d.rows_mut(rows), options, scratch)?;
                }
                Ok(())
            };
            Ok(exchange())
        })?
    }
}

/// Sends the pieces of this rank's rows, of `k` elements each, to the rooms of the others, and multiplies those that come on `on`.
fn by_rooms<T: Factor>(
    (ranks, link, rooms): (&Communicator, &Link, Reached),
    on: &Stream,
    (sent, k): (DeviceSlice<'_, T>, usize),
    pieces: &Pieces,
    mut multiply: impl FnMut(Matrix<'_, T>, Range<usize>) -> DistResult<()>,
) -> DistResult<()> {
    let (own, size, row_bytes) = (ranks.rank(), ranks.size(), k * size_of::<T>());
    let slot = |at: u32, from: u32, piece: usize| {
        let number = from as usize * pieces.count + piece;
        rooms[at as usize] + (number * slot_bytes::<T>(pieces, k)) as u64
    };
    let address = sent.as_device_ptr().address();
    let exchange = |puts: &mut Puts<'_>, met: &[Event]| {
        let mut ends: Vec<Event> = Vec::new();
        for step in 1..size {
            for piece in 0..pieces.count {
                let (to, from) = ((own + step) % size, (own + size - step) % size);
                let part = pieces.part(own, piece);
                let place = Put {
                    from: address + (part.start * row_bytes) as u64,
                    to: slot(to, own, piece),
                    bytes: part.len() * row_bytes,
                };
                // Two at a time fill the link, and what is wanted first comes first.
                let after: Vec<_> = met.iter().chain(ends.iter().rev().nth(1)).collect();
                ends.push(puts.send(to as usize, &after, &[place])?);
                on.wait_event(&puts.receive(from as usize)?)?;
                let rows = pieces.place(from, piece);
                // SAFETY: the piece has come, and stays until the stream has left the rooms.
                let part = unsafe { at::<T>(slot(own, from, piece), on, rows.len() * k) }?;
                multiply(Matrix::row_major(&part, rows.len(), k)?, rows)?;
            }
        }
        Ok(())
    };
    // SAFETY: the rows are named, and have slots of their own in each room, of which nothing is read before its arrival.
    unsafe { link.put(ranks, on, ForeignMemory::new().reads(&sent), exchange) }
}

/// The bytes of rooms for a piece.
fn slot_bytes<T>(pieces: &Pieces, k: usize) -> usize {
    link::slot_bytes(pieces.longest() * k * size_of::<T>())
}

/// The rows of a matrix without gaps: where they lie, or their copy.
fn packed_rows<'a, T: Factor>(
    on: &Stream,
    a: &Matrix<'a, T>,
    packed: &'a mut DeviceBuffer<T>,
) -> DistResult<DeviceSlice<'a, T>> {
    if let Some(rows) = without_gaps(a) {
        return Ok(rows);
    }
    let (from, layout) = (a.memory(), a.layout());
    let (rows, columns) = (layout.rows, layout.columns);
    if packed.len() != rows * columns {
        // SAFETY: the copy writes all of it.
        *packed = unsafe { unwritten(on, rows * columns) }?;
    }
    match layout.order {
        Order::RowMajor => {
            let mut to = packed.pitched_mut(columns, rows, columns)?;
            copy_pitched(on, &from, layout.leading, &mut to)?;
        }
        Order::ColumnMajor => {
            transpose::pitched(on, &from, layout.leading, packed, columns, rows, columns)?;
        }
    }
    Ok(packed.as_slice())
}
