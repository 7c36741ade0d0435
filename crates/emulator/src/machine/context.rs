//! What an operation can reach beside its registers: its warp, block and cluster, and the launch.

use super::address_map::{LOCAL_BASE, LOCAL_OWNERS, LOCAL_SPAN};
use super::block::{Arrival, BlockState};
use super::checks::Checks;
use super::cluster::{ClusterState, Shape};
use super::observer::Watch;
use super::program::Program;
use super::schedule::{Dice, Schedule};
use super::slots::{LANES, Row32};
use super::stream_order::Moment;
use super::warp::{Seen, WarpState};
use crate::fault::TrapKind;
use crate::memory::Cursor;
use std::sync::atomic::{AtomicU64, Ordering};

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
    pub moment: Option<&'m std::sync::Arc<Moment>>,
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
