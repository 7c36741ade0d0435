//! Bulk copies (`cp.async.bulk`) that are not done.

use super::bytes::{self, Reduction};
use crate::numeric::{Rounding, convert};

/// Where the bytes of a chunk come from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Memory, at an address of this process.
    Memory(u64),
    /// These eight bytes, over and over.
    Fill(u64),
}

/// A contiguous part of a bulk copy.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// Address of the target in this process.
    pub to: u64,
    /// Source.
    pub from: Source,
    /// Bytes.
    pub bytes: u32,
}

/// What a bulk copy notifies when it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// An mbarrier, by its address in this process: its transaction count decreases by this many
    /// bytes.
    Mbarrier(u64, u32),
    /// The thread itself, when it waits for its group of copies, or an mbarrier that it arrives at
    /// then.
    Thread,
    /// The lane of a warp of a block of the cluster, when it waits for its group with that number.
    Group {
        /// Rank of the block.
        rank: u32,
        /// Warp.
        warp: u32,
        /// Lane.
        lane: u32,
        /// Group.
        number: u32,
    },
}

/// A bulk copy that is not done.
pub struct Bulk {
    /// Its parts, in order.
    pub chunks: Vec<Chunk>,
    /// How the target is changed, where it is not just overwritten.
    pub reduction: Option<Reduction>,
    /// Whether numbers of `.f32` are rounded to `.tf32` on the way.
    pub rounds_to_tf32: bool,
    /// What it notifies when it is complete.
    pub completion: Completion,
    /// Rank of the block that asked for it.
    pub rank: u32,
    /// Rank of the block whose shared memory it writes to.
    pub target: Option<u32>,
    /// What it has read.
    pub staged: Option<Vec<u8>>,
}

impl Bulk {
    /// What observers see when one of its chunks is complete.
    pub fn landing(&self, chunk: &Chunk) -> Landing {
        let bytes = chunk.bytes.into();
        let source = match chunk.from {
            Source::Memory(from) if self.reduction.is_none() => Some((from, bytes)),
            _ => None,
        };
        Landing { to: chunk.to, bytes, source, thread: None, waited: false }
    }

    /// Reads all of its source.
    pub fn stage(&mut self) -> Vec<u8> {
        if let Some(data) = self.staged.take() {
            return data;
        }
        let mut data = vec![0; self.chunks.iter().map(|chunk| chunk.bytes as usize).sum()];
        let mut rest = data.as_mut_slice();
        for chunk in &self.chunks {
            let (own, others) = rest.split_at_mut(chunk.bytes as usize);
            match chunk.from {
                // SAFETY: the range was found valid when the copy was asked for, and lives as long
                // as the cluster; all accesses are atomic.
                Source::Memory(at) => unsafe {
                    bytes::read(at, own);
                    if self.rounds_to_tf32 {
                        own.as_chunks_mut().0.iter_mut().for_each(round_to_tf32);
                    }
                },
                Source::Fill(pattern) => {
                    let pattern = pattern.to_le_bytes();
                    own.iter_mut().zip(pattern.iter().cycle()).for_each(|(to, from)| *to = *from);
                }
            }
            rest = others;
        }
        data
    }

    /// Performs the copy.
    pub fn perform(&mut self) {
        let data = self.stage();
        let mut rest = data.as_slice();
        for chunk in &self.chunks {
            let (own, others) = rest.split_at(chunk.bytes as usize);
            // SAFETY: as for the source.
            unsafe {
                match self.reduction {
                    None => bytes::write(chunk.to, own),
                    Some(reduction) => reduction.apply(chunk.to, own),
                }
            }
            rest = others;
        }
    }
}

/// To nearest, ties to even, subnormals included; a NaN becomes the canonical one. (Seen on an H100, of both types of tensor maps for
/// `.tf32`.)
fn round_to_tf32(word: &mut [u8; 4]) {
    let value = f32::from_le_bytes(*word);
    *word = convert::f32_to_tf32(value, Rounding::NearestEven).to_le_bytes();
}

/// A contiguous part of an asynchronous copy whose bytes are there now: a thread waits for them,
/// perhaps another than the one that asked. Observers saw it by
/// [`touch_range`](crate::machine::Observer::touch_range) when it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Landing {
    /// Address of the first byte that it writes, in this process.
    pub to: u64,
    /// Bytes that it writes.
    pub bytes: u64,
    /// Where they came from, and how many; the rest is zero. `None` where they are no copy of
    /// memory.
    pub source: Option<(u64, u64)>,
    /// For a copy of a single thread (`cp.async`): warp and lane of the thread.
    pub thread: Option<(u32, usize)>,
    /// Whether that thread itself waited, and not for an mbarrier.
    pub waited: bool,
}
