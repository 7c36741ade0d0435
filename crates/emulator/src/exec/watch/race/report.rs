//! From two accesses that clash to what a user reads.

use super::session::{Blocks, RaceCheck};
use super::shadow::{Clash, Kind};
use crate::exec::Cx;
use crate::exec::watch::Place;
use crate::fault::{Kinship, Race, RacePlace, RacingAccess};
use crate::memory::access;

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
