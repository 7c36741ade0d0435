//! Execution: a warp's 32 lanes at once, warps of a block in turn, blocks over CPU threads.
//!
//! [`warp`] keeps a program counter for each lane, as groups of lanes that are at the same place;
//! [`block`] runs the warps of a block and its barriers; [`cluster`] runs the blocks that share
//! theirs; [`grid`] spreads the clusters. The instructions themselves are in [`ops`], by family.

pub mod address;
pub mod block;
pub mod cluster;
pub mod copies;
pub mod frame;
pub mod grid;
pub mod mbarrier;
pub mod ops;
pub mod ranges;
pub mod schedule;
pub mod shadow;
pub mod stuck;
pub mod tensor;
pub mod warp;
pub mod watch;

use crate::fault::TrapKind;
use crate::memory::Cursor;
use crate::program::{LANES, Op, Program, Row32};
use block::BlockState;
use cluster::{ClusterState, Shape};
use frame::Frame;
use schedule::{Dice, Schedule};
use std::sync::atomic::{AtomicU64, Ordering};
use warp::WarpState;
use watch::{Checks, Watch};

/// First address of the generic window of shared memory.
pub const SHARED_BASE: u64 = 1 << 48;
/// First address of the generic window of local memory.
pub const LOCAL_BASE: u64 = 1 << 49;
/// First address of the generic window of a kernel's parameters.
pub const PARAM_BASE: u64 = 1 << 50;
/// Number of bytes in each of these windows.
pub const WINDOW: u64 = 1 << 48;

/// Executes one operation for the lanes of a mask, which is never empty.
pub type Handler = fn(&mut Cx<'_>, &mut Frame, &Op, u32) -> Step;

/// What comes after an operation.
pub type Step = Result<Flow, Box<Fault>>;

/// Where the lanes of an operation go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// At the next operation.
    Next,
    /// At another.
    Jump(u32),
    /// Each where [`Cx::targets`] says.
    Scatter,
    /// In a function, by a call site; the function's index is in [`Cx::targets`].
    Call(u32),
    /// At the caller.
    Return,
    /// Nowhere.
    Exit,
    /// Here, until the lanes that the mask in slot 5 names are here too.
    AwaitLanes,
    /// At the next operation, when a barrier of the block lets them; see [`Cx::arrival`].
    Barrier,
    /// At the next operation, when the barrier of the cluster lets them.
    AwaitCluster,
    /// At the next operation, when an mbarrier that they test is ready, or after a while.
    AwaitPhase,
    /// At the next operation, after others had a chance.
    Yield,
}

impl Flow {
    /// True if the operation is not done yet.
    pub fn waits(self) -> bool {
        matches!(self, Self::AwaitLanes | Self::Barrier | Self::AwaitCluster | Self::AwaitPhase)
    }
}

/// A fault of one lane.
#[derive(Debug)]
pub struct Fault {
    /// The lane.
    pub lane: u32,
    /// What happened.
    pub kind: TrapKind,
}

impl Fault {
    /// A fault of a lane.
    #[cold]
    pub fn new(lane: usize, kind: TrapKind) -> Box<Self> {
        Box::new(Self { lane: lane as u32, kind })
    }
}

/// An arrival at a barrier of the block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Number of the barrier.
    pub barrier: u32,
    /// Threads that it waits for; `None` for all of the block.
    pub threads: Option<u32>,
    /// Whether the lanes wait.
    pub waits: bool,
    /// Whether all lanes of a warp have to arrive at the same instruction.
    pub aligned: bool,
    /// The lanes whose predicate holds, for a reduction.
    pub votes: u32,
}

/// What all threads of a launch share.
pub struct LaunchContext<'m> {
    /// The kernel.
    pub program: &'m std::sync::Arc<Program>,
    /// Blocks in each direction.
    pub grid: [u32; 3],
    /// Threads of a block in each direction.
    pub block: [u32; 3],
    /// How the blocks form clusters.
    pub clusters: Shape,
    /// Memory for the barrier of a cooperative launch's grid; 0 where there is none.
    pub workspace: u64,
    /// Dynamic shared memory.
    pub dynamic_shared_bytes: u32,
    /// Stack that a thread may use.
    pub stack_bytes: u64,
    /// Whether generic addresses of local memory tell whose it is.
    pub tags_local: bool,
    /// The kernel's parameters, padded to words.
    pub params: &'m [AtomicU64],
    /// Their length in bytes.
    pub param_bytes: u64,
    /// Multiprocessors of the device.
    pub multiprocessors: u32,
    /// A number for the launch.
    pub grid_id: u64,
    /// In which order its blocks and warps run.
    pub schedule: Schedule,
    /// Which checks are on.
    pub checks: Checks,
    /// Whether every thread of a block has to reach each barrier of the whole block, at one instruction.
    pub strict_barriers: bool,
    /// Whether a thread has ended by a panic: what the checks find after that follows from it, for what
    /// the thread would have written is not there. What a GPU itself faults on is a fault all the same.
    pub panicked: std::sync::atomic::AtomicBool,
    /// Whether the device was stopped.
    pub halted: &'m std::sync::atomic::AtomicBool,
    /// Where the launch stands among the host's operations, if it was handed in through a stream.
    pub moment: Option<&'m std::sync::Arc<watch::race::Moment>>,
    /// What kernels ask of the system.
    pub system: &'m crate::system::System,
    /// When the launch began.
    pub start: std::time::Instant,
}

impl LaunchContext<'_> {
    /// Whether a thread has ended by a panic.
    pub fn has_panicked(&self) -> bool {
        self.panicked.load(Ordering::Acquire)
    }

    /// Whether a fault is nothing but the consequence of a panic, which the kernel has reported itself.
    pub fn follows_from_panic(&self, kind: &TrapKind) -> bool {
        self.has_panicked() && !kind.is_fault_of_gpu()
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Bytes of shared memory of a block, as a GPU would count them.
    pub fn declared_shared_bytes(&self) -> u64 {
        u64::from(self.program.declared_shared_bytes) + u64::from(self.dynamic_shared_bytes)
    }

    /// Bytes of shared memory of a block, red zones among them.
    pub fn shared_bytes(&self) -> u64 {
        u64::from(self.program.shared_bytes) + u64::from(self.dynamic_shared_bytes)
    }
}

/// What lanes last read, and how often in a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Address of the operation in this process.
    op: usize,
    /// Address that the lowest lane read.
    address: u64,
    /// How often in a row.
    times: u32,
}

impl Seen {
    /// Lanes read.
    #[inline(always)]
    pub fn read(&mut self, op: &Op, address: u64) {
        let op = std::ptr::from_ref(op) as usize;
        if (self.op, self.address) == (op, address) {
            self.times = self.times.saturating_add(1);
        } else {
            *self = Self { op, address, times: 0 };
        }
    }

    /// Lanes wrote, so they do not only wait.
    #[inline(always)]
    pub fn wrote(&mut self) {
        self.times = 0;
    }
}

/// Bytes of local memory that the addresses of one thread have room for.
pub const LOCAL_SPAN: u64 = 1 << 24;
/// Threads that can be told apart by the generic addresses of their local memory.
const LOCAL_OWNERS: u64 = (1 << 23) - 1;

impl Cx<'_> {
    /// First generic address of the local memory of a lane.
    pub fn local_window(&self, lane: usize) -> u64 {
        if !self.launch.tags_local {
            return LOCAL_BASE;
        }
        let thread = u64::from(self.warp.index * 32) + lane as u64;
        let number = self.block.number * u64::from(self.launch.threads()) + thread;
        LOCAL_BASE + (1 + number % LOCAL_OWNERS) * LOCAL_SPAN
    }
}

/// What an operation can reach beside its registers.
pub struct Cx<'m> {
    /// The launch.
    pub launch: &'m LaunchContext<'m>,
    /// Device memory.
    pub cursor: Cursor<'m>,
    /// The cluster at hand.
    pub cluster: ClusterState,
    /// The block at hand.
    pub block: BlockState,
    /// The warp at hand.
    pub warp: WarpState,
    /// Where each lane goes, for [`Flow::Scatter`] and [`Flow::Call`].
    pub targets: Row32,
    /// For [`Flow::Barrier`].
    pub arrival: Arrival,
    /// The operation at hand, where a watch is kept.
    pub pc: u32,
    /// What the lanes at hand last read.
    pub seen: Seen,
    /// What a random schedule is thrown with.
    pub dice: Option<Dice>,
    /// The lanes that are at that operation, its guard left aside, where a watch is kept.
    pub active: u32,
    /// What checks and counters see by.
    pub watch: Option<Box<Watch<'m>>>,
    /// Whether an operation that others may wait for or change was executed: an atomic, a volatile load.
    pub polled: bool,
    /// Whether an operation was executed whose result depends on more than registers and memory, or that acts
    /// on more than these: a clock was read, `printf` called.
    pub unsteady: bool,
    /// Instructions executed.
    pub warp_instructions: u64,
    /// Instructions executed, times the lanes that took part.
    pub lane_instructions: u64,
}

impl<'m> Cx<'m> {
    /// A context for one CPU thread.
    pub fn new(
        launch: &'m LaunchContext<'m>,
        cursor: Cursor<'m>,
        watch: Option<Box<Watch<'m>>>,
    ) -> Self {
        Self {
            launch,
            cursor,
            cluster: ClusterState::default(),
            block: BlockState::default(),
            warp: WarpState::default(),
            targets: [0; LANES],
            arrival: Arrival::default(),
            pc: 0,
            seen: Seen::default(),
            dice: None,
            active: 0,
            watch,
            polled: false,
            unsteady: false,
            warp_instructions: 0,
            lane_instructions: 0,
        }
    }
}
