//! Threads that wait: who, where, and for what.

use crate::fault::SourceLocation;
use std::fmt;
use std::ops::Deref;

/// A thread that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Block index.
    pub block: [u32; 3],
    /// Thread index.
    pub thread: [u32; 3],
    /// PTX line of the instruction that waits.
    pub ptx_line: u32,
    /// What for.
    pub on: WaitsOn,
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsOn {
    /// Barrier of the block with this number.
    Barrier(u32),
    /// The lanes of its warp that this mask names.
    Lanes(u32),
    /// The barrier of the cluster.
    Cluster,
    /// The end of a phase of an mbarrier.
    Phase {
        /// Rank in the cluster of the block whose shared memory it lies in.
        rank: u32,
        /// Where it lies there.
        offset: u64,
        /// Parity of the phase.
        parity: bool,
        /// Arrivals that are missing.
        pending: u32,
        /// Bytes that are missing.
        bytes: i32,
    },
    /// The other warps of its warpgroup, to commit as many groups of `wgmma`.
    Warpgroup,
    /// Another value at an address that it reads again and again.
    Change {
        /// Address of the first byte, in this process.
        address: u64,
        /// Whether its reads are strong, so that a GPU would see the change.
        strong: bool,
    },
    /// Nothing: it runs.
    Turn,
    /// Nothing: it goes round and round, in a loop that changes nothing.
    Nothing,
}

impl fmt::Display for WaitsOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Barrier(number) => write!(f, "wait for barrier {number}"),
            Self::Lanes(mask) => write!(f, "wait for the lanes of mask {mask:#010x}"),
            Self::Cluster => write!(f, "wait for the barrier of the cluster"),
            Self::Phase { rank, offset, parity, pending, bytes } => write!(
                f,
                "wait for the end of phase {} of the mbarrier at {offset:#x} of the cluster's block \
                 {rank} ({pending} arrivals and {bytes} bytes are missing)",
                u8::from(*parity)
            ),
            Self::Warpgroup => write!(
                f,
                "wait for the other warps of the warpgroup, which have to execute the same `wgmma`"
            ),
            Self::Change { address, strong: true } => {
                write!(f, "read {address:#x} again and again")
            }
            Self::Change { address, strong: false } => write!(
                f,
                "read {address:#x} again and again by plain loads, which need not see what another \
                 thread stores"
            ),
            Self::Turn => write!(f, "run"),
            Self::Nothing => write!(f, "run in a loop that reads nothing and changes nothing"),
        }
    }
}

/// All threads that wait, shown as a table of one line for each place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// The threads.
    pub threads: Vec<Waiting>,
    /// The source lines of PTX lines.
    pub places: Vec<(u32, SourceLocation)>,
    /// Blocks that have not begun, and how many the device holds; where threads may wait for those.
    pub absent: Option<(u64, u64)>,
    /// Whether some of the threads run, in loops that never end.
    pub endless: bool,
}

impl Deref for Waits {
    type Target = [Waiting];

    fn deref(&self) -> &[Waiting] {
        &self.threads
    }
}

/// Threads that wait at one place for one thing.
struct Row {
    first: Waiting,
    last: Waiting,
    threads: usize,
    blocks: usize,
}

impl Waits {
    fn rows(&self) -> Vec<Row> {
        let mut rows: Vec<Row> = Vec::new();
        for own in &self.threads {
            let like =
                |row: &&mut Row| (row.first.ptx_line, row.first.on) == (own.ptx_line, own.on);
            match rows.iter_mut().find(like) {
                Some(row) => {
                    row.blocks += usize::from(row.last.block != own.block);
                    row.threads += 1;
                    row.last = *own;
                }
                None => rows.push(Row { first: *own, last: *own, threads: 1, blocks: 1 }),
            }
        }
        rows
    }

    fn place(&self, line: u32) -> String {
        match self.places.iter().find(|(own, _)| *own == line) {
            Some((_, source)) => source.to_string(),
            None => format!("PTX line {line}"),
        }
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
        let name = |[x, y, z]: [u32; 3]| format!("({x},{y},{z})");
        let threads =
            if row.threads == 1 { "1 thread".into() } else { format!("{} threads", row.threads) };
        let blocks = match row.blocks {
            1 => format!("block {}", name(row.first.block)),
            count => {
                format!("{count} blocks, {} to {}", name(row.first.block), name(row.last.block))
            }
        };
        write!(
            f,
            "\n  {threads} of {blocks} at {} {}",
            self.place(row.first.ptx_line),
            row.first.on
        )?;
        match row.threads {
            1 => write!(f, ": thread {}", name(row.first.thread)),
            _ => write!(f, ": thread {} to {}", name(row.first.thread), name(row.last.thread)),
        }
    }
}

impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 12;
        let rows = self.rows();
        rows.iter().take(SHOWN).try_for_each(|row| self.row(f, row))?;
        if rows.len() > SHOWN {
            write!(f, "\n  and at {} more places", rows.len() - SHOWN)?;
        }
        if self.endless {
            f.write_str(
                "\n  these loops never end: nothing that still runs writes what they read, and no copy, kernel or \
                 thread of the host does; look for the thread that should have stored there, and ended or \
                 waits without having done so",
            )?;
        }
        match self.absent {
            None => Ok(()),
            Some((absent, held)) => write!(
                f,
                "\n  {absent} blocks have not begun, since no more than {held} run at a time: blocks that \
                 wait for each other have to be resident together, as in a cooperative launch"
            ),
        }
    }
}

/// What is wrong with an arrival at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BarrierFault {
    /// There is no barrier of that number.
    #[error("a block has the barriers 0 to 15")]
    Number,
    /// The count is no number of warps.
    #[error("the number of threads has to be a multiple of 32 above 0")]
    Count,
    /// Others wait for another count.
    #[error("others came to it with {}", match .other { Some(own) => format!("{own} threads"), None => "all threads of the block".to_owned() })]
    Mixed {
        /// Their count; `None` for all threads of the block.
        other: Option<u32>,
    },
    /// The lanes of a warp give different numbers.
    #[error("the lanes of a warp give different numbers")]
    Uneven,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(block: u32, thread: u32, ptx_line: u32, on: WaitsOn) -> Waiting {
        Waiting { block: [block, 0, 0], thread: [thread, 0, 0], ptx_line, on }
    }

    #[test]
    fn threads_are_counted_by_place() {
        let barrier = (0..64).map(|thread| waiting(0, thread, 9, WaitsOn::Barrier(1)));
        let spin = WaitsOn::Change { address: 0x1000, strong: false };
        let spinning = (1..4).map(|block| waiting(block, 0, 12, spin));
        let file = "src/kernel.rs".to_owned();
        let table = Waits {
            threads: barrier.chain(spinning).collect(),
            places: vec![(12, SourceLocation { file, line: 40, column: 1 })],
            absent: Some((7, 4)),
            endless: false,
        };
        assert_eq!(table.len(), 67);
        assert_eq!(
            table.to_string(),
            "\n  64 threads of block (0,0,0) at PTX line 9 wait for barrier 1: thread (0,0,0) to (63,0,0)\
             \n  3 threads of 3 blocks, (1,0,0) to (3,0,0) at src/kernel.rs:40 read 0x1000 again and again \
             by plain loads, which need not see what another thread stores: thread (0,0,0) to (0,0,0)\
             \n  7 blocks have not begun, since no more than 4 run at a time: blocks that wait for each \
             other have to be resident together, as in a cooperative launch"
        );
    }
}
