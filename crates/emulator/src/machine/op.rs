//! One decoded operation, and what its handler returns.

use super::{Cx, Frame};
use crate::fault::TrapKind;
use crate::isa::Order;

/// One decoded operation.
#[derive(Clone, Copy)]
pub struct Op {
    /// What it does.
    pub run: Handler,
    /// An immediate: an offset, a target, a table of bits; the handler knows.
    pub imm: u64,
    /// Slots of its operands, destinations first.
    pub slots: [u32; 6],
    /// Predicate slot that decides which lanes take part.
    pub guard: u32,
    /// Index of its instruction's row in [`crate::isa::forms`].
    pub form: u16,
    /// 1 for an instruction of the text, 0 for an operation that decoding added.
    pub weight: u8,
    /// Its memory semantics and scope, for an access or a fence.
    pub order: Order,
}

/// Executes one operation for the lanes of a mask, which is never empty.
pub type Handler = fn(&mut Cx<'_>, &mut Frame, &Op, u32) -> Step;

/// What a handler returns.
pub type Step = Result<Flow, Box<Fault>>;

/// Where the lanes of an operation continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// At the next operation.
    Next,
    /// At the operation with this index.
    Jump(u32),
    /// Each lane at its own operation, in [`Cx::targets`].
    Scatter,
    /// In a callee, through the call site with this index; the callees are in [`Cx::targets`].
    Call(u32),
    /// After the call, in the caller.
    Return,
    /// They exit.
    Exit,
    /// At this operation, until all lanes of the mask in slot 5 have reached it.
    AwaitLanes,
    /// At the next operation, once a barrier of the block is complete; see [`Cx::arrival`].
    Barrier,
    /// At the next operation, once the barrier of the cluster is complete.
    AwaitCluster,
    /// At the next operation, once the phase of an mbarrier that they test is complete, or after a
    /// time limit.
    AwaitPhase,
    /// At this operation, until the other warps of the warpgroup have committed the groups of `wgmma`
    /// that it waits for.
    AwaitWarpgroup,
    /// At the next operation, after other warps have run.
    Yield,
}

impl Flow {
    /// True if the operation is not done yet.
    pub fn waits(self) -> bool {
        matches!(
            self,
            Self::AwaitLanes
                | Self::Barrier
                | Self::AwaitCluster
                | Self::AwaitPhase
                | Self::AwaitWarpgroup
        )
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
