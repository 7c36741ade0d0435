//! Clusters: their barrier, and addresses in the shared memory of their blocks.

use crate::fault::{ClusterFault, Space, TrapKind};
use crate::isa::{Modifiers, Pick, Type};
use crate::machine::cluster::RANK_SHIFT;
use crate::machine::{
    Cx, Fault, Flow, Frame, Handler, LANES, Lane, Op, SHARED_BASE, Step, WINDOW, lanes,
};

/// A fault of the lowest lane of a mask.
fn fault(mask: u32, fault: ClusterFault) -> Box<Fault> {
    Fault::new(mask.trailing_zeros() as usize, TrapKind::Cluster(fault))
}

impl Cx<'_> {
    /// Lanes of the warp at hand end; the cluster's barrier no longer waits for them.
    pub fn leave_cluster(&mut self, mask: u32) {
        self.warp.cluster.settle(self.cluster.phase);
        let arrived = self.warp.cluster.arrived & mask;
        self.warp.cluster.arrived &= !mask;
        self.cluster.leave(mask.count_ones(), arrived.count_ones());
    }
}

// ---- the barrier

/// `barrier.cluster.arrive`
pub fn arrive(_: &Modifiers<'_>) -> Option<Pick> {
    fn run(cx: &mut Cx<'_>, _: &mut Frame, _: &Op, mask: u32) -> Step {
        let own = &mut cx.warp.cluster;
        own.settle(cx.cluster.phase);
        let again = mask & (own.arrived | own.passed);
        if again != 0 {
            return Err(fault(again, ClusterFault::ArrivesTwice));
        }
        own.arrived |= mask;
        cx.cluster_arrives(mask);
        cx.cluster.arrive(mask.count_ones());
        Ok(Flow::Next)
    }
    Some((run as Handler).into())
}

/// `barrier.cluster.wait`. The immediate says whether the lanes of a warp have to come together.
pub fn wait(modifiers: &Modifiers<'_>) -> Option<Pick> {
    fn run(cx: &mut Cx<'_>, _: &mut Frame, _: &Op, mask: u32) -> Step {
        let own = &mut cx.warp.cluster;
        own.settle(cx.cluster.phase);
        match mask & !(own.arrived | own.passed) {
            0 => Ok(Flow::AwaitCluster),
            absent => Err(fault(absent, ClusterFault::NotArrived)),
        }
    }
    Some(Pick::with(run, modifiers.has("aligned").into()))
}

// ---- addresses

/// The block of the cluster that an address of shared memory lies in, and the offset there.
fn split(cx: &Cx<'_>, lane: usize, offset: u64) -> Result<(u32, u64), Box<Fault>> {
    cx.cluster.split(offset).map_err(|fault| Fault::new(lane, TrapKind::Cluster(fault)))
}

/// An address in the window of shared memory.
fn in_window(lane: usize, address: u64) -> Result<u64, Box<Fault>> {
    match address.wrapping_sub(SHARED_BASE) {
        offset if offset < WINDOW => Ok(offset),
        _ => Err(Fault::new(lane, TrapKind::WrongSpace { space: Space::Shared, address })),
    }
}

/// Slots: 0 result, 1 address, 2 rank. `base` is the first address of the window.
fn map<T: Lane<Bits: Into<u64> + TryFrom<u64>>>(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
) -> Step {
    let (row, ranks) = (T::row(frame, op.slots[1]), frame.row32(op.slots[2]));
    let mut out = [T::Bits::default(); LANES];
    for lane in lanes(mask) {
        let address: u64 = row[lane].into();
        let offset = if op.imm == 0 { address } else { in_window(lane, address)? };
        let (_, offset) = split(cx, lane, offset)?;
        let (rank, blocks) = (ranks[lane], cx.cluster.peers.len() as u32);
        if rank >= blocks {
            return Err(fault(1 << lane, ClusterFault::Rank { rank, blocks }));
        }
        let mapped = op.imm + (u64::from(rank + 1) << RANK_SHIFT) + offset;
        out[lane] = T::Bits::try_from(mapped).unwrap_or_default();
    }
    frame.write::<T>(op.slots[0], &out, mask);
    Ok(Flow::Next)
}

/// `mapa`: the address of the same thing in another block's shared memory.
pub fn mapa(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let run = match modifiers.ty(0)? {
        Type::U32 => map::<u32> as Handler,
        _ => map::<u64>,
    };
    Some(Pick::with(run, window(modifiers)))
}

/// First address of the window that the operands are in: 0 for those of the space itself.
fn window(modifiers: &Modifiers<'_>) -> u64 {
    if modifiers.has("shared::cluster") { 0 } else { SHARED_BASE }
}

fn rank_of<T: Lane<Bits: Into<u64>>>(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
) -> Step {
    let row = T::row(frame, op.slots[1]);
    let mut out = [0; LANES];
    for lane in lanes(mask) {
        let address: u64 = row[lane].into();
        let offset = if op.imm == 0 { address } else { in_window(lane, address)? };
        (out[lane], _) = split(cx, lane, offset)?;
    }
    frame.write::<u32>(op.slots[0], &out, mask);
    Ok(Flow::Next)
}

/// `getctarank`: the rank of the block whose shared memory an address lies in.
pub fn getctarank(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let run = match modifiers.ty(0)? {
        Type::U32 => rank_of::<u32> as Handler,
        _ => rank_of::<u64>,
    };
    Some(Pick::with(run, window(modifiers)))
}

/// `griddepcontrol`: the launches of a stream run one after the other here, so that what came before
/// is done, and what comes after need not be let go early.
pub fn griddepcontrol(_: &Modifiers<'_>) -> Option<Pick> {
    fn run(_: &mut Cx<'_>, _: &mut Frame, _: &Op, _: u32) -> Step {
        Ok(Flow::Next)
    }
    Some((run as Handler).into())
}
