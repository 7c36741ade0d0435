//! One decoded operation, and what executing it answers.

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
    /// Index of the form among [`crate::isa::forms`] that the instruction has.
    pub form: u16,
    /// 1 for an instruction of the text, 0 for an operation that decoding added.
    pub weight: u8,
    /// Its strength, for an access or a fence.
    pub order: Order,
}

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
