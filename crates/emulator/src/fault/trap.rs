//! A trap: why a kernel stopped.

use super::asynchronous::{ClusterFault, CopyFault, MbarrierFault};
use super::location::SourceLocation;
use super::memory::{Access, Accessor, Bytes, In, Nearest, Space, Use, place};
use super::race::Race;
use super::stream::StreamRace;
use super::sync::{BarrierFault, Waits};
use crate::machine::MAX_LOCAL_BYTES;
use std::fmt;

/// A kernel stopped. The whole grid ends with the first trap.
///
/// Displayed as one sentence: what, where, and what is known about the cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Name of the kernel.
    pub kernel: String,
    /// Block index: x, y, z.
    pub block: [u32; 3],
    /// Thread index in its block: x, y, z.
    pub thread: [u32; 3],
    /// Line in the PTX text, counted from 1.
    pub ptx_line: u32,
    /// Line in the source, where the PTX says it.
    pub source: Option<SourceLocation>,
    /// What happened.
    pub kind: TrapKind,
}

// By hand, because `thiserror` takes a field named `source` for an error.
impl std::error::Error for Trap {}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([bx, by, bz], [tx, ty, tz]) = (self.block, self.thread);
        write!(f, "{} in kernel `{}`, ", self.kind, self.kernel)?;
        write!(f, "block ({bx},{by},{bz}), thread ({tx},{ty},{tz}), at ")?;
        match &self.source {
            Some(source) => write!(f, "{source}")?,
            None => write!(f, "PTX line {}", self.ptx_line)?,
        }
        match self.kind.cause() {
            Some(cause) => write!(f, ": {cause}"),
            None => Ok(()),
        }
    }
}

/// What stopped a kernel. Its display is the head of the sentence, [`TrapKind::cause`] the tail.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrapKind {
    /// Memory outside every allocation, variable or window was touched.
    #[error("out-of-bounds {access} of {} at {address:#x}{}", Bytes(u64::from(*bytes)), In(*space))]
    OutOfBounds {
        /// Load, store or atomic.
        access: Access,
        /// State space.
        space: Space,
        /// First byte touched.
        address: u64,
        /// How many bytes.
        bytes: u32,
        /// What lies next to it.
        nearest: Option<Nearest>,
    },
    /// An address is not a multiple of the access's size.
    #[error("misaligned {access} of {} at {address:#x}{}", Bytes(u64::from(*bytes)), In(*space))]
    Misaligned {
        /// Load, store or atomic.
        access: Access,
        /// State space.
        space: Space,
        /// Address.
        address: u64,
        /// Size of the access, which the address has to be a multiple of.
        bytes: u32,
    },
    /// An address of one kind was converted or used as one of another.
    #[error("address {address:#x} is not a {space} address")]
    WrongSpace {
        /// The space that the instruction names.
        space: Space,
        /// The address.
        address: u64,
    },
    /// The instruction `trap`, which is also where a panic ends.
    #[error("`trap` executed")]
    Trap,
    /// The instruction `brkpt`.
    #[error("breakpoint executed")]
    Breakpoint,
    /// A device-side assertion failed.
    #[error("assertion `{condition}` failed")]
    Assertion {
        /// The condition.
        condition: String,
        /// The place it names: file, line, function.
        place: String,
    },
    /// A kernel freed what is no live allocation of the device's heap.
    #[error("invalid `free` of {address:#x}")]
    InvalidFree {
        /// What was to be freed.
        address: u64,
        /// Why it cannot be.
        why: crate::memory::FreeError,
    },
    /// No thread can run, or those that can poll for ever, and some have not ended.
    #[error("deadlock of {} thread{}", waiting.len(), if waiting.len() == 1 { "" } else { "s" })]
    Deadlock {
        /// The threads that wait.
        waiting: Waits,
    },
    /// Threads of one warp came to a barrier at different instructions, or with different operands.
    #[error("divergent barrier {barrier}")]
    DivergentBarrier {
        /// Number of the barrier.
        barrier: u32,
        /// PTX line of the instruction where others wait.
        other_line: u32,
    },
    /// Lanes have ended without a barrier that others of their warp wait at, after one that all
    /// took part in.
    #[error("incomplete barrier {barrier}")]
    IncompleteBarrier {
        /// Number of the barrier.
        barrier: u32,
        /// The lanes of the warp that have ended.
        ended: u32,
    },
    /// Threads of the block have ended before a barrier of the whole block that the others wait at.
    #[error("early exit before barrier {barrier}")]
    EarlyExit {
        /// Number of the barrier.
        barrier: u32,
        /// How many threads have ended.
        threads: u32,
        /// The first of them, and where it ended.
        first: Box<Accessor>,
    },
    /// Threads of a block wait for a barrier of the whole block at different instructions.
    #[error("barrier {barrier} at two places")]
    PairedBarriers {
        /// Number of the barrier.
        barrier: u32,
        /// A thread that waits at another instruction.
        other: Box<Accessor>,
    },
    /// A barrier's number or thread count is out of range.
    #[error("barrier {barrier}{} is not valid", match .threads { 0 => String::new(), own => format!(" with {own} threads") })]
    InvalidBarrier {
        /// Number of the barrier.
        barrier: u32,
        /// Threads it was told to wait for; 0 where nothing was said.
        threads: u32,
        /// What is wrong.
        why: BarrierFault,
    },
    /// A `.sync` instruction was executed by a lane that its mask does not name.
    #[error("lane {lane} is not in the member mask {mask:#010x}")]
    InvalidMask {
        /// The lane.
        lane: u32,
        /// The mask.
        mask: u32,
    },
    /// The lanes of a warp gave a matrix instruction different descriptors.
    #[error("the descriptor of a matrix is not the same in all lanes")]
    DivergentDescriptor,
    /// A call to something that is no function.
    #[error("call of {address:#x}, which is not a function")]
    InvalidCall {
        /// What was called.
        address: u64,
    },
    /// An index past the list of a `brx.idx`.
    #[error("branch index {index} is past the {targets} targets of the list")]
    InvalidBranch {
        /// Index.
        index: u32,
        /// Length of the list.
        targets: u32,
    },
    /// Calls nest too deeply, or local memory ran out.
    #[error("stack overflow")]
    StackOverflow {
        /// Bytes of stack that the thread would have had in use.
        bytes: u64,
        /// Bytes that a thread has.
        limit: u64,
    },
    /// A cluster is misused.
    #[error("{0}")]
    Cluster(ClusterFault),
    /// An mbarrier is misused.
    #[error("mbarrier at {offset:#x} of shared memory: {fault}")]
    Mbarrier {
        /// Where it lies in the shared memory of its block.
        offset: u64,
        /// How.
        fault: MbarrierFault,
    },
    /// An asynchronous copy is not valid.
    #[error("{0}")]
    Copy(CopyFault),
    /// Two accesses that nothing orders.
    #[error("{0}")]
    Race(Box<Race>),
    /// The kernel touched what a copy or a fill of another stream touches, and nothing orders the
    /// two.
    #[error("{}", .0.head())]
    StreamRace(Box<StreamRace>),
    /// Memory between the variables of a block or a function was touched.
    #[error("out-of-bounds {access} of {} at {address:#x}{}", Bytes(*bytes), In(*space))]
    OutOfVariable {
        /// Load, store or atomic.
        access: Access,
        /// Shared or local memory.
        space: Space,
        /// First byte touched.
        address: u64,
        /// How many bytes.
        bytes: u64,
        /// The variable that lies next to it.
        variable: String,
        /// Where that lies.
        nearest: Nearest,
    },
    /// A pointer to the local memory of another thread was used.
    #[error("address {address:#x} lies in the local memory of another thread")]
    ForeignLocal {
        /// The address.
        address: u64,
        /// Number of the thread that it belongs to, counted through the grid.
        owner: u64,
    },
    /// A constant of the module was written.
    #[error("store to the constant `{variable}` at {address:#x}")]
    ConstantWritten {
        /// First byte written.
        address: u64,
        /// Name of the variable.
        variable: String,
    },
    /// A launch writes data that it reads as read-only, by `ld.global.nc`.
    #[error("{access} at {address:#x} of data that the same launch {}", if *access == Access::Load { "writes, read as read-only" } else { "reads as read-only" })]
    ReadOnlyWritten {
        /// What the second of the two does.
        access: Access,
        /// The first byte that both touch.
        address: u64,
        /// Who touched it first.
        other: Option<Box<Accessor>>,
        /// What it lies in.
        region: Option<Nearest>,
    },
    /// A value that nothing ever wrote decided something.
    #[error("uninitialised value {used}")]
    Uninitialised {
        /// What it decided.
        used: Use,
        /// Space that it was read from.
        space: Space,
        /// The first byte that nothing wrote.
        address: u64,
        /// How many of the bytes read nothing wrote.
        bytes: u32,
        /// What that byte lies in.
        region: Option<Nearest>,
        /// The variable that it lies in, where it has a name.
        variable: Option<String>,
        /// PTX line of the instruction that read it.
        read_line: u32,
        /// Source line of that instruction.
        read_at: Option<SourceLocation>,
    },
    /// A value decided something that a shuffle took from a lane which took no part in it.
    #[error("value of an absent lane {used}")]
    AbsentLane {
        /// What it decided.
        used: Use,
        /// The lane.
        from: u8,
        /// The lanes that took part in the shuffle.
        members: u32,
        /// PTX line of the shuffle.
        read_line: u32,
        /// Source line of the shuffle.
        read_at: Option<SourceLocation>,
    },
    /// The kernel executed more instructions than it was allowed.
    #[error("the limit of {instructions} instructions is spent")]
    Fuel {
        /// The limit.
        instructions: u64,
        /// What the threads of the blocks that ran on this CPU thread were at.
        waiting: Waits,
    },
}

impl TrapKind {
    /// What is known about the cause, as the tail of the sentence.
    pub fn cause(&self) -> Option<String> {
        match self {
            Self::OutOfBounds { address, nearest, .. } => Some(place(*address, nearest.as_ref())),
            Self::Misaligned { bytes, .. } => {
                Some(format!("the address has to be a multiple of {bytes}"))
            }
            Self::Deadlock { waiting } => Some(waiting.to_string()),
            Self::Fuel { waiting, .. } if !waiting.is_empty() => Some(waiting.to_string()),
            Self::InvalidBarrier { why, .. } => Some(why.to_string()),
            Self::IncompleteBarrier { ended, .. } => Some(format!(
                "the lanes {ended:#010x} of the warp, which took part in a barrier before, have ended \
                 without this one"
            )),
            Self::DivergentBarrier { other_line, .. } => {
                Some(format!("other threads of the warp wait at PTX line {other_line}"))
            }
            Self::EarlyExit { threads, first, .. } => Some(format!(
                "{} of the block ended before the barrier, the first in {first}; every thread of a block \
                 has to reach each of its barriers: let a thread without work skip the work, and not return",
                if *threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
            )),
            Self::PairedBarriers { other, .. } => Some(format!(
                "others of the block wait for it in {other}; all threads of a block have to reach a barrier \
                 at one instruction: move it out of the branch, so that it stands there once"
            )),
            Self::Assertion { place, .. } => Some(place.clone()),
            Self::InvalidFree { why, .. } => Some(why.to_string()),
            Self::Race(race) => Some(race.cause()),
            Self::StreamRace(race) => Some(race.cause()),
            Self::Uninitialised { .. } => self.unwritten(),
            Self::AbsentLane { from, members, read_line, read_at, .. } => Some(format!(
                "the shuffle at {} read lane {from}, but only the lanes {members:#010x} took part in it, and \
                 what it reads of another is undefined: name that lane in the mask and let it take part, or \
                 leave the value unused",
                match read_at {
                    Some(source) => source.to_string(),
                    None => format!("PTX line {read_line}"),
                }
            )),
            Self::OutOfVariable { variable, nearest, .. } => {
                Some(nearest.beside(&format!("variable `{variable}`")))
            }
            Self::ForeignLocal { owner, .. } => Some(format!("that of thread {owner} of the grid")),
            Self::ReadOnlyWritten { access, other, region, .. } => {
                let did = if *access == Access::Load { "written" } else { "read" };
                let other = other.as_ref().map(|other| format!("{did} by {other}"));
                let parts = other.into_iter().chain(region.map(|region| region.to_string()));
                Some(parts.collect::<Vec<_>>().join("; "))
            }
            Self::StackOverflow { bytes, limit } => Some(match *limit {
                MAX_LOCAL_BYTES => {
                    format!(
                        "a call needs {} of stack, and no thread can have more than {limit}",
                        Bytes(*bytes)
                    )
                }
                limit => format!(
                    "a call needs {} of stack, and each thread has {limit}: the context's limit, \
                         which `cuCtxSetLimit` with CU_LIMIT_STACK_SIZE raises",
                    Bytes(*bytes)
                ),
            }),
            _ => None,
        }
    }
}

impl TrapKind {
    /// Whether a GPU itself faults on it: memory that is not the kernel's, a `trap`, an address
    /// that is not code. All else is found by checks alone, or is a wait that never ends.
    pub fn is_fault_of_gpu(&self) -> bool {
        matches!(
            self,
            Self::OutOfBounds { .. }
                | Self::Misaligned { .. }
                | Self::WrongSpace { .. }
                | Self::ForeignLocal { .. }
                | Self::OutOfVariable { .. }
                | Self::ConstantWritten { .. }
                | Self::StackOverflow { .. }
                | Self::InvalidFree { .. }
                | Self::Cluster(ClusterFault::Rank { .. } | ClusterFault::PeerEnded { .. })
                | Self::InvalidCall { .. }
                | Self::InvalidBranch { .. }
                | Self::Trap
                | Self::Assertion { .. }
        )
    }
}

impl TrapKind {
    /// What was read of an uninitialised value, and where.
    fn unwritten(&self) -> Option<String> {
        let Self::Uninitialised { space, address, bytes, region, variable, .. } = self else {
            return None;
        };
        let Self::Uninitialised { read_line, read_at, .. } = self else { return None };
        let at = match read_at {
            Some(source) => source.to_string(),
            None => format!("PTX line {read_line}"),
        };
        let place = match (variable, region) {
            (Some(name), _) => format!(" in `{name}`"),
            (None, Some(region)) => format!(", {region}"),
            (None, None) => String::new(),
        };
        let since = match space {
            Space::Shared => "the block began",
            Space::Local => "the call began",
            _ => "the allocation was made",
        };
        let bytes = Bytes(u64::from(*bytes));
        Some(format!(
            "{bytes} of {space} memory from {address:#x}{place}, read at {at}, \
             hold nothing that was written since {since}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{RegionKind, Waiting, WaitsOn};

    fn trap(kind: TrapKind, source: Option<SourceLocation>) -> Trap {
        let kernel = "vecadd".to_owned();
        Trap { kernel, block: [0, 1, 2], thread: [5, 0, 0], ptx_line: 77, source, kind }
    }

    fn out_of_bounds(address: u64, kind: RegionKind) -> TrapKind {
        let nearest = Some(Nearest { base: 0x1000, bytes: 256, kind, address });
        TrapKind::OutOfBounds {
            access: Access::Store,
            space: Space::Global,
            address,
            bytes: 4,
            nearest,
        }
    }

    #[test]
    fn an_out_of_bounds_store_is_one_sentence() {
        let file = "kernels-gpu/src/grid/vecadd.rs".to_owned();
        let source = SourceLocation { file, line: 12, column: 3 };
        let text = trap(out_of_bounds(0x1100, RegionKind::Allocation), Some(source)).to_string();
        assert_eq!(
            text,
            "out-of-bounds store of 4 bytes at 0x1100 in kernel `vecadd`, block (0,1,2), thread (5,0,0), \
             at kernels-gpu/src/grid/vecadd.rs:12: 0 bytes past the end of the 256-byte allocation at 0x1000"
        );
    }

    #[test]
    fn the_nearest_region_is_placed() {
        let tail = |address, kind| out_of_bounds(address, kind).cause().unwrap();
        let before = "1 byte before the start of the 256-byte allocation at 0x1000";
        assert_eq!(tail(0xfff, RegionKind::Allocation), before);
        let freed = "4 bytes into the 256-byte freed allocation at 0x1000";
        assert_eq!(tail(0x1004, RegionKind::Freed), freed);
    }

    #[test]
    fn without_a_source_line_the_ptx_line_is_named() {
        let text = trap(TrapKind::Trap, None).to_string();
        let expected =
            "`trap` executed in kernel `vecadd`, block (0,1,2), thread (5,0,0), at PTX line 77";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_deadlock_counts_waiting_threads_by_place() {
        let on = WaitsOn::Barrier(0);
        let threads = vec![Waiting { block: [0; 3], thread: [1, 0, 0], ptx_line: 9, on }; 5];
        let waiting = Waits { threads, ..Waits::default() };
        let text = trap(TrapKind::Deadlock { waiting }, None).to_string();
        assert!(text.starts_with("deadlock of 5 threads in kernel"), "{text}");
        assert!(
            text.contains("5 threads of block (0,0,0) at PTX line 9 wait for barrier 0"),
            "{text}"
        );
    }

    #[test]
    fn space_is_named_unless_it_is_global() {
        let kind = TrapKind::Misaligned {
            access: Access::Load,
            space: Space::Shared,
            address: 6,
            bytes: 4,
        };
        assert_eq!(kind.to_string(), "misaligned load of 4 bytes at 0x6 of shared memory");
    }
}
