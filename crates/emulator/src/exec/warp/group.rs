//! Groups of lanes that are at the same operation.

use crate::fault::WaitsOn;
use crate::isa::Order;
use crate::machine::{Cx, LastRead, Op, Row32, lanes};

/// Consecutive reads of one address by one instruction from which on a lane counts as spinning.
const SPINS: u32 = 8;

/// What a group of lanes waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Nothing: it can run.
    Ready,
    /// The lanes that a mask names, at an operation that it has not executed yet.
    Lanes,
    /// A barrier of the block, whose instruction is the one before.
    Barrier(u32),
    /// The barrier of the cluster, at an operation that is done once it opens.
    Cluster,
    /// An mbarrier, at an operation that looks at it.
    Phase,
    /// The other warps of its warpgroup, at an operation that looks at what they have committed.
    Warpgroup,
}

/// Lanes at the same operation, reached by the same calls.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Next operation.
    pub pc: u32,
    /// Frame.
    pub frame: u32,
    /// Lanes.
    pub mask: u32,
    /// What it waits for.
    pub wait: Wait,
    /// The lanes that voted for a barrier's reduction.
    pub votes: u32,
    /// What it last read.
    pub(super) seen: LastRead,
    /// When it last ran.
    pub(super) stamp: u64,
}

impl Group {
    /// Where a lane that can run is, and what it keeps reading, if it does.
    pub fn spins(&self, cx: &Cx<'_>, lane: usize) -> (usize, u32, WaitsOn) {
        let base = cx.launch.program.ops.as_ptr() as usize;
        let pc = (self.seen.op.wrapping_sub(base) / size_of::<Op>()) as u32;
        match cx.launch.program.ops.get(pc as usize) {
            Some(op) if self.seen.times >= SPINS => {
                let strong = op.order != Order::WEAK;
                (lane, pc, WaitsOn::Change { address: self.seen.address, strong })
            }
            _ => (lane, self.pc, WaitsOn::Turn),
        }
    }
}

/// The lanes of `rest` whose value is `value`.
pub(super) fn same_lanes(rest: u32, values: &Row32, value: u32) -> u32 {
    lanes(rest).filter(|lane| values[*lane] == value).map(|lane| 1 << lane).sum()
}
