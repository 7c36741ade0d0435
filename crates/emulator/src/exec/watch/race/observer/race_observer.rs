//! The observer of the race check.

use super::super::clock::{Tree, VectorClock};
use super::super::lanes::Lanes;
use super::super::pending_copies::{PendingCopies, PendingCopy};
use super::super::runs::{Run, each_run};
use super::super::session::RaceCheck;
use super::super::shadow::{AccessKind, CELL_BYTES, PageCache, ShadowCell};
use super::super::sync_cell::SyncCell;
use super::super::traits::{EXCUSED, FENCE, REDUCTION, STORE, STRONG, UPDATE, WARP_SYNC};
use super::super::transfer::Transfer;
use super::accesses::Request;
use super::warp_view::{ReachedCache, Values};
use crate::fault::Access;
use crate::isa::{Order, Scope, Semantics};
use crate::machine::{
    Completion, Cx, Frame, LANES, Landing, MemoryLocation, Observer, Op, Row64, Touch, TouchRange,
    Verdict,
};
use std::collections::HashMap;
use std::sync::Arc;

/// Barriers of a block.
pub(super) const BARRIERS: usize = 16;
/// What a load that begins a compare-and-swap loop is taken for.
const AS_ATOMIC: Order = Order::new(Semantics::Relaxed, Scope::System);
/// What the changes of a reducing copy are, each element by itself.
const REDUCED: Order = Order::new(Semantics::Relaxed, Scope::Device);

/// What is known of a block that is running.
#[derive(Default)]
pub(super) struct BlockThreads {
    pub(super) number: u64,
    /// Its number among all launches.
    pub(super) id: u32,
    /// Counts its synchronisations.
    pub(super) tick: u32,
    pub(super) warps: Vec<Lanes>,
    /// What those know who arrived at a barrier and went on.
    pub(super) arrived: [Option<VectorClock>; BARRIERS],
    pub(super) shared: Vec<ShadowCell>,
    /// Cells of its shared memory that something was published through.
    pub(super) locations: HashMap<u64, SyncCell>,
}

/// A strong access whose read part is to be followed up once it is done.
pub(super) struct Read {
    pub(super) mask: u32,
    pub(super) at: Row64,
}

/// Sees the threads of one CPU thread.
pub struct RaceObserver<'m> {
    pub(super) check: &'m RaceCheck<'m>,
    /// The block at hand.
    pub(super) current: Box<BlockThreads>,
    pub(super) others: HashMap<u64, Box<BlockThreads>>,
    // Boxed like the others, so that a turn moves a pointer.
    #[allow(clippy::vec_box)]
    pub(super) spare: Vec<Box<BlockThreads>>,
    pub(super) pages: PageCache,
    pub(super) reads: Vec<Read>,
    /// Copies that threads of the resident blocks have under way.
    pub(super) pending_copies: PendingCopies,
    pub(super) clusters: HashMap<u64, Meeting>,
    /// The copies and fills that nothing orders with the launch, and the session's count when they
    /// were looked up.
    pub(super) transfers: (u64, Vec<Arc<Transfer>>),
    pub(super) reached: ReachedCache,
}

/// The barrier of a cluster.
#[derive(Default)]
pub(super) struct Meeting {
    /// This phase and the one before, by the parity of their numbers.
    pub(super) phases: [Phase; 2],
    /// Blocks that have ended.
    pub(super) ended: usize,
}

/// What those know who arrived at the barrier of a cluster in a phase.
#[derive(Default)]
pub(super) struct Phase {
    pub(super) number: u64,
    pub(super) brought: Tree,
}

impl<'m> RaceObserver<'m> {
    /// The observer of one more CPU thread.
    pub fn new(check: &'m RaceCheck<'m>) -> Self {
        Self {
            check,
            current: Box::new(BlockThreads { number: u64::MAX, ..BlockThreads::default() }),
            others: HashMap::new(),
            spare: Vec::new(),
            pages: PageCache::default(),
            reads: Vec::new(),
            pending_copies: PendingCopies::default(),
            clusters: HashMap::new(),
            transfers: (0, Vec::new()),
            reached: ReachedCache::default(),
        }
    }

    /// Makes a block the one at hand.
    fn turn_to(&mut self, number: u64) {
        if self.current.number == number {
            return;
        }
        let next = self.others.remove(&number).or_else(|| self.spare.pop()).unwrap_or_default();
        let last = std::mem::replace(&mut self.current, next);
        match last.number {
            u64::MAX => self.spare.push(last),
            number => {
                self.others.insert(number, last);
            }
        }
        self.current.number = number;
    }

    fn traits(&self, cx: &Cx<'_>) -> u8 {
        self.check.traits.get(cx.pc as usize).copied().unwrap_or(0)
    }

    pub(super) fn threads_of(&mut self, number: u64) -> Option<&mut BlockThreads> {
        match number == self.current.number {
            true => Some(&mut self.current),
            false => self.others.get_mut(&number).map(|team| &mut **team),
        }
    }
}

impl Observer for RaceObserver<'_> {
    fn block_begins(&mut self, cx: &Cx<'_>) {
        self.turn_to(cx.block.number);
        let threads = cx.launch.threads();
        let clock = Arc::new(VectorClock::default());
        let team = &mut *self.current;
        team.id = self.check.own.base.wrapping_add(cx.block.number as u32);
        team.tick = 1;
        team.warps.resize_with(threads.div_ceil(LANES as u32) as usize, Lanes::default);
        for (warp, own) in team.warps.iter_mut().enumerate() {
            let left = threads - warp as u32 * LANES as u32;
            own.begin(if left >= 32 { u32::MAX } else { (1 << left) - 1 }, &clock);
        }
        team.arrived = Default::default();
        team.shared.iter_mut().for_each(ShadowCell::clear);
        team.shared
            .resize_with(cx.block.shared_bytes.div_ceil(CELL_BYTES) as usize, ShadowCell::default);
        team.locations.clear();
    }

    fn block_ends(&mut self, cx: &Cx<'_>) {
        self.turn_to(cx.block.number);
        self.pending_copies.forget(self.current.id);
        let groups = self.current.warps.iter().flat_map(Lanes::groups);
        for learnt in groups.map(|group| &group.clock.others).filter(|tree| !tree.is_empty()) {
            self.check.own.learns(learnt);
        }
        self.current.number = u64::MAX;
        if let Some(meeting) = self.clusters.get_mut(&first_of(cx)) {
            meeting.ended += 1;
            if meeting.ended >= cx.cluster.peers.len() {
                self.clusters.remove(&first_of(cx));
            }
        }
    }

    fn done(&mut self, cx: &Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) {
        let traits = self.traits(cx);
        if traits & (WARP_SYNC | FENCE | STRONG) == 0 {
            return;
        }
        self.turn_to(cx.block.number);
        if traits & FENCE != 0 {
            return self.fence(cx, op.order, mask);
        }
        if traits & WARP_SYNC != 0 {
            let members = *frame.row32(op.slots[5]);
            let mut rest = mask;
            while rest != 0 {
                let own = members[rest.trailing_zeros() as usize];
                self.meet(cx.warp.index, rest & own);
                rest &= !own;
            }
            return;
        }
        if !self.reads.is_empty() {
            self.follow(cx, op);
        }
        let semantics = op.order.semantics();
        if !matches!(semantics, Semantics::Relaxed | Semantics::Acquire) {
            self.current.tick += 1;
        }
    }

    fn touch(&mut self, cx: &Cx<'_>, frame: &mut Frame, touch: &Touch<'_>) -> Verdict {
        self.turn_to(cx.block.number);
        let traits = self.traits(cx);
        let order = match traits & EXCUSED {
            0 => touch.op.order,
            _ => AS_ATOMIC,
        };
        let request = Request {
            warp: cx.warp.index,
            pc: cx.pc,
            kind: AccessKind::new(touch.access, order),
            bytes: touch.bytes,
            written: traits & STORE != 0,
        };
        let values = Values { frame, touch };
        let values = (traits & STORE != 0).then_some(&values);
        let bytes = touch.bytes * touch.elements;
        each_run(touch.at, touch.mask, bytes, |run| {
            if let Some(own) = values
                && run.width == 0
                && run.lanes.count_ones() > 1
                && let Some(lane) = own.differing(run.lanes)
            {
                return self.same_place(cx, &request, &run, lane, own);
            }
            self.run(cx, &request, &run, values)
        })?;
        if traits & STRONG != 0 {
            if touch.access != Access::Load {
                self.publish(
                    cx,
                    touch.op,
                    touch,
                    traits & UPDATE != 0 || touch.access == Access::Atomic,
                );
            }
            if touch.access != Access::Store && traits & REDUCTION == 0 {
                self.reads.push(Read { mask: touch.mask, at: *touch.at });
                if touch.op.order.scope() == Scope::System {
                    self.check.hears_host();
                }
            }
        }
        Ok(())
    }

    fn touch_range(&mut self, cx: &Cx<'_>, touch: &TouchRange) -> Verdict {
        self.turn_to(cx.block.number);
        let run = Run::of_lane(touch.lane, touch.at, touch.bytes);
        let request = Request {
            warp: cx.warp.index,
            pc: cx.pc,
            kind: match touch.access {
                Access::Atomic => AccessKind::new(touch.access, REDUCED),
                _ => AccessKind::new(touch.access, Order::WEAK),
            },
            bytes: 1,
            written: false,
        };
        if let Completion::Mbarrier(..) = touch.completion {
            // Nothing that the asking thread does later orders it; who waits for the mbarrier is
            // behind it.
            return match cx.place(run.start) {
                MemoryLocation::Global => self.check_transfers(cx, &request, &run),
                _ => Ok(()),
            };
        }
        self.run(cx, &request, &run, None)?;
        if touch.completion == Completion::Thread {
            let (block, warp, lane) = (self.current.id, cx.warp.index, touch.lane);
            let (start, end, access, pc) = (run.start, run.end, touch.access, cx.pc);
            self.pending_copies.begin(PendingCopy { start, end, access, block, warp, lane, pc });
        }
        Ok(())
    }

    /// A copy of a thread that has waited for it is as if the thread made it now: so a barrier that
    /// comes later orders it, and none that lies between the copy and the wait.
    fn copy_lands(&mut self, cx: &Cx<'_>, landing: &Landing) -> Verdict {
        let Some((warp, lane)) = landing.thread else { return Ok(()) };
        self.turn_to(cx.block.number);
        let source = landing.source.filter(|(_, bytes)| *bytes > 0).map(|(from, _)| from);
        for start in source.into_iter().chain([landing.to]) {
            let access = if start == landing.to { Access::Store } else { Access::Load };
            let block = self.current.id;
            let is_own = |own: &PendingCopy| {
                (own.block, own.warp, own.lane, own.access) == (block, warp, lane, access)
            };
            let Some(own) = self.pending_copies.end(start, is_own) else { continue };
            if landing.waited {
                let kind = AccessKind::new(access, Order::WEAK);
                let request = Request { warp, pc: own.pc, kind, bytes: 1, written: false };
                self.run(cx, &request, &Run::of_lane(lane, start, own.end - start), None)?;
            }
        }
        Ok(())
    }

    fn arrives(&mut self, cx: &Cx<'_>, mask: u32) {
        self.turn_to(cx.block.number);
        if cx.arrival.waits {
            return;
        }
        let brought = self.brought(cx.warp.index, mask);
        if let Some(place) = self.current.arrived.get_mut(cx.arrival.barrier as usize) {
            place.get_or_insert_default().join(&brought);
        }
        self.current.tick += 1;
    }

    fn opens(&mut self, cx: &Cx<'_>, barrier: u32, waiting: &[u32]) {
        self.turn_to(cx.block.number);
        self.open(barrier, waiting);
    }

    fn cluster_arrives(&mut self, cx: &Cx<'_>, mask: u32) {
        self.turn_to(cx.block.number);
        if cx.launch.program.ops[cx.pc as usize].order.semantics() == Semantics::Relaxed {
            return;
        }
        let brought = self.brought(cx.warp.index, mask);
        let tree = brought.others.with(self.current.id, brought.own);
        let meeting = self.clusters.entry(first_of(cx)).or_default();
        let phase = &mut meeting.phases[cx.cluster.phase as usize % 2];
        if phase.number != cx.cluster.phase {
            *phase = Phase { number: cx.cluster.phase, brought: Tree::default() };
        }
        phase.brought.learn(&tree);
        self.current.tick += 1;
    }

    fn cluster_passes(&mut self, cx: &Cx<'_>, mask: u32) {
        self.turn_to(cx.block.number);
        let over = cx.cluster.phase.wrapping_sub(1);
        let phase = self.clusters.get(&first_of(cx)).map(|own| &own.phases[over as usize % 2]);
        if let Some(phase) = phase.filter(|phase| phase.number == over) {
            let (tree, id) = (phase.brought.clone(), self.current.id);
            self.current.warps[cx.warp.index as usize].learn(mask, |clock| clock.learn(&tree, id));
        }
    }

    fn exits(&mut self, cx: &Cx<'_>, mask: u32) {
        self.turn_to(cx.block.number);
        self.current.warps[cx.warp.index as usize].alive &= !mask;
    }
}

/// Number of the first block of the cluster at hand.
fn first_of(cx: &Cx<'_>) -> u64 {
    cx.cluster.peers.first().map_or(cx.block.number, |first| first.number)
}
