//! Transposes of a matrix that is split over the ranks by rows.
//!
//! Each rank transposes its rows in tiles, by [`ferrowarp::ops::transpose`](mod@ferrowarp::ops::transpose): then what each other
//! rank gets of them lies in one piece. An uneven all-to-all exchanges the pieces, and a copy of rows puts them beside each other: the transpose of the
//! distributed Fourier transforms (J. Choi, J. Dongarra and D. Walker, *Parallel matrix transpose algorithms on distributed memory
//! concurrent computers*, 1995).
//!
//! Large matrices are exchanged in several pieces, each a part of every rank's rows, on a stream of their own: while one is under
//! way, the next one is transposed, or the one before is put into its place.
//!
//! Where the ranks reach each other's memory, a large matrix is sent as it lies, and transposed by the rank that gets it: a kernel
//! writes parts of rows to staging memory there, some megabytes at a time, and another one puts each piece that has come, transposed,
//! into its place in the result. So every element is read and written once on each side beside the link, and needs no memory but
//! the staging.
//!
//! ```
//! use ferrowarp::DeviceBuffer;
//! use ferrowarp_dist::{Communicator, World, ops::{Shares, transpose}};
//!
//! let world = World::alone(); // or World::from_env()?
//! let gpu = world.gpu()?;
//! let ranks = Communicator::new(&world, &gpu)?;
//! let own = DeviceBuffer::from_slice(&gpu, &[1u16, 2, 3, 4, 5, 6])?;
//! let (rows, columns) = (Shares::even(3, ranks.size()), Shares::even(2, ranks.size()));
//! let turned = transpose::transpose(&ranks, &gpu, &own, &rows, &columns)?;
//! assert_eq!(turned.to_vec()?, [1, 3, 5, 2, 4, 6]);
//! # Ok::<(), ferrowarp_dist::DistError>(())
//! ```

use std::ops::Range;

use bytemuck::Pod;
use cuda_std::launch::DeviceRead;
use ferrowarp::graph::ForeignMemory;
use ferrowarp::memory::DeviceSlice;
use ferrowarp::ops::copy_pitched;
use ferrowarp::ops::transpose as local;
use ferrowarp::{AsStream, DeviceBuffer, Stream};

use super::memory::unwritten;
use super::parts::{divide, enqueue_by_peers, exchange_with_others};
use super::shares::{Shares, same_len};
use crate::communicator::Communicator;
use crate::error::DistResult;
use crate::peers::{CHUNKS, Landing, PeerMemory, Rows, Unordered};

const OPERATION: &str = "transpose over ranks";
/// Shares from this size on are exchanged in several pieces.
const LARGE_BYTES: usize = 32 << 20;
const PIECES: usize = 8;

/// This rank's rows of the transpose of a row-major matrix `[rows, columns]`: a new buffer,
/// `[columns.len_of(rank), rows.total()]`. `x`: this rank's rows of the matrix, `[rows.len_of(rank), columns.total()]`. `rows` says how
/// many rows of the matrix each rank has, and `columns` how many columns each gets as rows. Elements have 1, 2, 4 or 8 bytes.
/// Asynchronous over NCCL.
///
/// Memory beside `x` and the result: as much as both, while the work runs; where the ranks reach each other's memory, none for large
/// matrices.
///
/// # Errors
/// [`Length`](crate::DistError::Length) if `x` has another length, or there is not a share for each rank; as
/// [`ops::transpose`](local::transpose()) and [`Communicator::all_to_all_uneven`].
pub fn transpose<'x, T: Pod>(
    ranks: &Communicator,
    on: &impl AsStream,
    x: impl Into<DeviceSlice<'x, T>>,
    rows: &Shares,
    columns: &Shares,
) -> DistResult<DeviceBuffer<T>> {
    let bytes = rows.longest().saturating_mul(columns.total()).saturating_mul(size_of::<T>());
    if bytes < LARGE_BYTES {
        return in_pieces(ranks, on, x, rows, columns, 1);
    }
    let longest_row = columns.longest().saturating_mul(size_of::<T>());
    match ranks.peers().filter(|peers| peers.takes_rows(longest_row)) {
        Some(peers) => {
            ranks.attempt(|| by_peers(ranks, peers, on.as_stream(), x.into(), rows, columns))
        }
        None => in_pieces(ranks, on, x, rows, columns, PIECES),
    }
}

/// As [`transpose()`], where the ranks reach each other's memory.
fn by_peers<T: Pod>(
    ranks: &Communicator,
    peers: &PeerMemory,
    on: &Stream,
    x: DeviceSlice<'_, T>,
    rows: &Shares,
    columns: &Shares,
) -> DistResult<DeviceBuffer<T>> {
    let size = size_of::<T>();
    let (own, from) = (ranks.rank(), x.raw().address);
    let (width, height) = (check(ranks, &x, rows, columns)?, rows.len_of(own));
    let (gets, pitch) = (columns.len_of(own), rows.total());
    // SAFETY: the rows of all ranks cover it.
    let mut out = unsafe { unwritten(on, gets * pitch) }?;
    let to = out.as_device_ptr().address();
    // Puts rows of a rank, at an address and so many elements apart, into their place.
    let place = |on: &Stream, (at, x_pitch, rank, part): (u64, usize, u32, Range<usize>)| {
        let start = rows.start_of(rank) + part.start;
        if part.is_empty() || gets == 0 {
            return Ok(());
        }
        // SAFETY: so many elements of `T` are there; streams order the work: see the calls.
        let input = unsafe { Unordered::new(at, (part.len() - 1) * x_pitch + gets) };
        // SAFETY: as above, and no other work writes these columns of the result.
        let mut target =
            unsafe { Unordered::new(to + (start * size) as u64, (gets - 1) * pitch + part.len()) };
        local::pitched::<T>(on, &input, x_pitch, &mut target, pitch, gets, part.len())?;
        Ok(())
    };
    let others = || (0..ranks.size()).filter(|rank| *rank != own);
    let start_of = |rank| from + (columns.start_of(rank) * size) as u64;
    let sent = others().map(|to| {
        let (row_bytes, pitch_bytes) = (columns.len_of(to) * size, width * size);
        (to, Rows { address: start_of(to), row_bytes, pitch_bytes, rows: height })
    });
    let sent: Vec<_> = sent.filter(|(_, rows)| rows.rows * rows.row_bytes > 0).collect();
    let received = others().map(|rank| Landing {
        from: rank,
        row_bytes: gets * size,
        rows: if gets == 0 { 0 } else { rows.len_of(rank) },
        land: Box::new(move |on, at, part| place(on, (at, gets, rank, part))),
    });
    let received: Vec<_> = received.collect();
    let own_rows = || place(on, (start_of(own), width, own, 0..height));
    let memory = ForeignMemory::new().reads(&x).writes(&mut out);
    let exchange = || {
        // SAFETY: `memory` names the rows that are sent, and the result, which others reach when `on` has gone on. The places of
        // two ranks' rows do not overlap.
        unsafe { peers.exchange(on, (&sent, &received), CHUNKS, own_rows) }
    };
    // SAFETY: what is enqueued uses `memory` alone, and the communicator's own, which does not end before; `on` waits for all lanes.
    unsafe { enqueue_by_peers(ranks, on, OPERATION, memory, exchange) }?;
    Ok(out)
}

/// Checks the shares, and the length of a rank's rows; returns how long a row is.
fn check<T: Pod>(
    ranks: &Communicator,
    x: &DeviceSlice<'_, T>,
    rows: &Shares,
    columns: &Shares,
) -> DistResult<usize> {
    rows.check(ranks, OPERATION)?;
    columns.check(ranks, OPERATION)?;
    let (height, width) = (rows.len_of(ranks.rank()), columns.total());
    same_len(OPERATION, "the rows of this rank", height.saturating_mul(width), x.raw().len)?;
    Ok(width)
}

/// As [`transpose()`], exchanged in `pieces` pieces, the same number on all ranks; 0 counts as 1.
///
/// # Errors
/// As [`transpose()`].
pub fn in_pieces<'x, T: Pod>(
    ranks: &Communicator,
    on: &impl AsStream,
    x: impl Into<DeviceSlice<'x, T>>,
    rows: &Shares,
    columns: &Shares,
    pieces: usize,
) -> DistResult<DeviceBuffer<T>> {
    let (x, on, pieces) = (x.into(), on.as_stream(), pieces.max(1));
    let turn = Turn { ranks, rows, columns, pieces };
    ranks.attempt(|| turn.run(on, x))
}

/// A transpose. Its steps run on the first of two streams, and the second one orders what they write.
struct Turn<'a> {
    ranks: &'a Communicator,
    rows: &'a Shares,
    columns: &'a Shares,
    pieces: usize,
}

impl Turn<'_> {
    fn run<T: Pod>(&self, on: &Stream, x: DeviceSlice<'_, T>) -> DistResult<DeviceBuffer<T>> {
        let (turn, ranks, pieces) = (self, self.ranks, self.pieces);
        check(ranks, &x, self.rows, self.columns)?;
        if pieces == 1 {
            let turned = turn.turn(0, [on; 2], x)?;
            let received = turn.exchange(0, [on; 2], &turned)?;
            return turn.place([on; 2], &[turned], &[received]);
        }
        // Memory of a piece is ordered by a stream of its own. So one piece's use of it does not wait for another's.
        let homes: Vec<Stream> =
            (0..pieces).map(|_| ranks.gpu().create_stream()).collect::<Result<_, _>>()?;
        let link = ranks.gpu().create_stream()?;
        let each = || homes.iter().enumerate();
        let turned: Vec<_> = each()
            .map(|(piece, home)| turn.turn(piece, [on, home], x))
            .collect::<Result<_, _>>()?;
        let exchanged = each()
            .zip(&turned)
            .map(|((at, home), turned)| turn.exchange(at, [&link, home], turned));
        let received: Vec<_> = exchanged.collect::<Result<_, _>>()?;
        turn.place([on, on], &turned, &received)
    }

    /// Which rows of a rank are in the piece.
    fn part(&self, piece: usize, rank: usize) -> Range<usize> {
        let rows = self.rows.lens()[rank];
        rows * piece / self.pieces..rows * (piece + 1) / self.pieces
    }

    /// The rows of this rank that are in the piece, transposed: `[columns.total(), rows of the piece]`.
    fn turn<T: Pod>(
        &self,
        piece: usize,
        [on, home]: [&Stream; 2],
        x: DeviceSlice<'_, T>,
    ) -> DistResult<DeviceBuffer<T>> {
        let (part, width) = (self.part(piece, self.ranks.rank() as usize), self.columns.total());
        // SAFETY: the transpose writes all of it.
        let mut turned = unsafe { unwritten(home, part.len() * width) }?;
        if part.len() * width > 0 {
            let x = x.slice(part.start * width..part.end * width);
            local::transpose(on, &x, &mut turned, width, part.len())?;
        }
        Ok(turned)
    }

    /// What all other ranks send to this one: `[columns of this rank, rows of the piece]` of each rank.
    fn exchange<T: Pod>(
        &self,
        piece: usize,
        [on, home]: [&Stream; 2],
        turned: &DeviceBuffer<T>,
    ) -> DistResult<DeviceBuffer<T>> {
        let own = self.ranks.rank();
        let rows = self.part(piece, own as usize).len();
        let sent: Vec<_> = (0..self.ranks.size())
            .map(|to| (to, turned.slice(self.columns_of(to, rows))))
            .collect();
        let lens = (0..self.ranks.size()).map(|from| (from, self.len_from(piece, from)));
        // SAFETY: the ranks write all of it.
        let mut all = unsafe { unwritten(home, lens.clone().map(|(_, len)| len).sum()) }?;
        let mut received = divide(all.as_mut_slice(), lens);
        let group = self.ranks.group().counted();
        exchange_with_others(group, own, &sent, &mut received)?.enqueue(on)?;
        drop(received);
        Ok(all)
    }

    /// What a rank gets of a transposed piece of `rows` rows.
    fn columns_of(&self, rank: u32, rows: usize) -> Range<usize> {
        let start = self.columns.start_of(rank);
        start * rows..(start + self.columns.len_of(rank)) * rows
    }

    /// How many elements come from a rank: none from this one itself.
    fn len_from(&self, piece: usize, rank: u32) -> usize {
        let own = self.ranks.rank();
        let rows = if rank == own { 0 } else { self.part(piece, rank as usize).len() };
        self.columns.len_of(own) * rows
    }

    /// Copies the rows that came from each rank in each piece, and this rank's own, beside each other.
    fn place<T: Pod>(
        &self,
        [on, home]: [&Stream; 2],
        turned: &[DeviceBuffer<T>],
        received: &[DeviceBuffer<T>],
    ) -> DistResult<DeviceBuffer<T>> {
        let (own, pitch) = (self.ranks.rank(), self.rows.total());
        let height = self.columns.len_of(own);
        // SAFETY: the rows of all ranks cover it.
        let mut out = unsafe { unwritten(home, height * pitch) }?;
        for (piece, (turned, received)) in turned.iter().zip(received).enumerate() {
            let mut next = 0;
            for rank in 0..self.ranks.size() {
                let (part, from) = (self.part(piece, rank as usize), next);
                next += self.len_from(piece, rank);
                let block = match rank == own {
                    true => turned.slice(self.columns_of(own, part.len())),
                    false => received.slice(from..next),
                };
                if part.len() * height > 0 {
                    let at = self.rows.start_of(rank) + part.start;
                    let to = out.slice_mut(at..).into_pitched(part.len(), height, pitch);
                    copy_pitched(on, &block, part.len(), &mut to?)?;
                }
            }
        }
        Ok(out)
    }
}
