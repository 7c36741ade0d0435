//! A copy that several lanes share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::lane::CHUNK_BYTES;
use crate::error::GpuError;
use crate::lock::lock;

/// Smaller pieces would cost more calls than they gain.
const LEAST_PIECE_BYTES: usize = 128 << 10;
/// Pieces of a copy for each lane: the first one is not overlapped, so it should be small.
const PIECES_PER_LANE: usize = 4;

/// Memory of the host and of the device, cut into pieces.
///
/// Who makes it promises that both have `bytes` bytes and live until all lanes are done, that nobody
/// else writes where the copy reads, and that nobody else uses what it writes.
pub(super) struct Work {
    host: *mut u8,
    device: u64,
    bytes: usize,
    piece_bytes: usize,
    /// Where the next piece begins.
    next: AtomicUsize,
    failed: Mutex<Option<GpuError>>,
}

// SAFETY: the lanes touch different pieces of the host's memory.
unsafe impl Sync for Work {}

/// A part of the copy that fits a chunk.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    start: usize,
    pub(super) bytes: usize,
}

impl Work {
    pub(super) fn new(host: *mut u8, device: u64, bytes: usize, lanes: usize) -> Self {
        const PAGE_BYTES: usize = 4096;
        let even = bytes.div_ceil(lanes * PIECES_PER_LANE).next_multiple_of(PAGE_BYTES);
        let piece_bytes = even.clamp(LEAST_PIECE_BYTES, CHUNK_BYTES);
        Self {
            host,
            device,
            bytes,
            piece_bytes,
            next: AtomicUsize::new(0),
            failed: Mutex::new(None),
        }
    }

    /// A piece that nobody else has; none if all are taken, or another lane failed.
    pub(super) fn next(&self) -> Option<Piece> {
        let start = self.next.fetch_add(self.piece_bytes, Ordering::Relaxed);
        let left = self.bytes.checked_sub(start).filter(|left| *left > 0)?;
        Some(Piece { start, bytes: left.min(self.piece_bytes) })
    }

    pub(super) fn host_at(&self, piece: Piece) -> *mut u8 {
        self.host.wrapping_add(piece.start)
    }

    pub(super) fn device_at(&self, piece: Piece) -> u64 {
        self.device + piece.start as u64
    }

    /// Lets no lane take another piece.
    pub(super) fn fail(&self, error: GpuError) {
        self.next.store(self.bytes, Ordering::Relaxed);
        lock(&self.failed).get_or_insert(error);
    }

    /// The first error.
    pub(super) fn result(self) -> Result<(), GpuError> {
        self.failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(bytes: usize, lanes: usize) -> Vec<(usize, usize)> {
        let work = Work::new(std::ptr::null_mut(), 0, bytes, lanes);
        std::iter::from_fn(|| work.next()).map(|piece| (piece.start, piece.bytes)).collect()
    }

    #[test]
    fn pieces_cover_all_bytes_once_and_fit_a_chunk() {
        for bytes in [1, 4095, 1 << 20, (1 << 20) + 1, (64 << 20) + 77] {
            for lanes in [1, 3, 8] {
                let mut end = 0;
                for (start, len) in pieces(bytes, lanes) {
                    assert!(start == end && (1..=CHUNK_BYTES).contains(&len));
                    end += len;
                }
                assert_eq!(end, bytes);
            }
        }
        assert_eq!(pieces(4 << 20, 8).len(), 32);
    }

    #[test]
    fn after_a_failure_no_piece_is_given_out() {
        let work = Work::new(std::ptr::null_mut(), 0, 8 << 20, 1);
        assert!(work.next().is_some());
        let error = |found| GpuError::SizeMismatch { operation: "a test", expected: 1, found };
        work.fail(error(2));
        work.fail(error(3));
        assert!(work.next().is_none());
        assert!(matches!(work.result(), Err(GpuError::SizeMismatch { found: 2, .. })));
    }
}
