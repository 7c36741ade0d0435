//! From two accesses that clash to what a user reads.

use super::session::{Blocks, RaceCheck};
use super::shadow::{Clash, Kind, LINE, Stripe};
use super::transfer::Transfer;
use crate::fault::{
    Access, Actor, Kinship, Race, RacePlace, RacingAccess, StreamAccess, StreamRace,
};
use crate::machine::{Cx, Place};
use crate::memory::{GlobalMemory, access};

/// The second access of a race.
pub struct Found<'a> {
    /// The clash.
    pub clash: &'a Clash,
    /// Operation.
    pub pc: u32,
    /// What it is.
    pub kind: Kind,
    /// Block, among all launches.
    pub block: u32,
    /// Warp.
    pub warp: u32,
    /// First byte of the element that both touch.
    pub address: u64,
    /// Bytes of the element.
    pub bytes: u32,
    /// What would be written.
    pub written: Option<u64>,
    /// What the threads have in common.
    pub kinship: Kinship,
}

/// The report.
pub fn race(cx: &Cx<'_>, check: &RaceCheck<'_>, found: &Found<'_>) -> Race {
    let Clash { old, old_lane, lane, .. } = *found.clash;
    let launch = check.session.launch_of(old.block).unwrap_or_else(|| check.own.clone());
    Race {
        first: told(&launch, (old.block, u32::from(old.warp), old_lane), old.pc, old.kind),
        second: told(&check.own, (found.block, found.warp, lane), found.pc, found.kind),
        place: place(cx, check, found),
        bytes: found.bytes,
        found: value(found.address, found.bytes),
        written: found.written,
        kinship: found.kinship,
    }
}

fn told(
    launch: &Blocks,
    (block, warp, lane): (u32, u32, usize),
    pc: u32,
    kind: Kind,
) -> RacingAccess {
    RacingAccess {
        kernel: launch.program.name.clone(),
        block: launch.index(block),
        thread: launch.thread(warp, lane),
        ptx_line: launch.program.line(pc),
        source: launch.program.location(pc).cloned(),
        access: kind.access(),
        strength: kind.strength(),
        stream: launch.moment.as_ref().map(|moment| moment.stream.clone()),
    }
}

/// Two transfers that clash.
pub fn transfers(first: &Transfer, second: &Transfer, memory: &GlobalMemory) -> Option<StreamRace> {
    let ((start, end), writes, too) = first.clash(second)?;
    Some(StreamRace {
        first: StreamAccess::of(first, writes),
        second: StreamAccess::of(second, too),
        address: start,
        bytes: end - start,
        allocation: memory.nearest(start),
    })
}

/// A transfer that clashes with what a kernel did before.
pub fn kernel_first(
    launch: &Blocks,
    (stripe, (start, end)): (&Stripe, (u64, u64)),
    (transfer, writes): (&Transfer, bool),
    memory: &GlobalMemory,
) -> StreamRace {
    let lane = stripe.lanes_at((start % LINE) as u8).trailing_zeros() as usize;
    let access = told(launch, (stripe.block, u32::from(stripe.warp), lane), stripe.pc, stripe.kind);
    StreamRace {
        first: StreamAccess::by_kernel(access),
        second: StreamAccess::of(transfer, writes),
        address: start,
        bytes: end - start,
        allocation: memory.nearest(start),
    }
}

/// A kernel's access that clashes with a transfer that has begun.
pub fn kernel_second(
    (check, found): (&RaceCheck<'_>, (u32, u32, usize, u32, Kind)),
    (transfer, writes): (&Transfer, bool),
    (start, end): (u64, u64),
    memory: &GlobalMemory,
) -> StreamRace {
    let (block, warp, lane, pc, kind) = found;
    StreamRace {
        first: StreamAccess::of(transfer, writes),
        second: StreamAccess::by_kernel(told(&check.own, (block, warp, lane), pc, kind)),
        address: start,
        bytes: end - start,
        allocation: memory.nearest(start),
    }
}

impl StreamAccess {
    fn of(transfer: &Transfer, writes: bool) -> Self {
        let stream = transfer.moment.stream.clone();
        Self { actor: Actor::Transfer(transfer.what.clone()), stream, writes }
    }

    fn by_kernel(access: RacingAccess) -> Self {
        let stream = access.stream.clone().unwrap_or_default();
        Self { writes: access.access != Access::Load, actor: Actor::Kernel(access), stream }
    }
}

fn place(cx: &Cx<'_>, check: &RaceCheck<'_>, found: &Found<'_>) -> RacePlace {
    match cx.place(found.address) {
        Place::Shared(block, offset) => RacePlace::Shared {
            block: check.own.index(check.own.base.wrapping_add(block as u32)),
            offset,
            variable: cx
                .launch
                .program
                .shared_variable(offset)
                .map(|own| (own.name.clone(), offset - u64::from(own.offset))),
        },
        _ => RacePlace::Global {
            address: found.address,
            allocation: cx.cursor.memory().nearest(found.address),
        },
    }
}

/// What lies at an address.
fn value(address: u64, bytes: u32) -> u64 {
    // SAFETY: the bytes belong to the access at hand, which was found valid; a byte is aligned.
    let byte = |index| u64::from(unsafe { access::load_u8(address + index) });
    (0..u64::from(bytes)).rev().fold(0, |value, index| value << 8 | byte(index))
}
