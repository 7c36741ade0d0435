//! Follows the threads of a launch on one CPU thread.

use super::clock::{BlockKnow, Know, Tree};
use super::location::{Location, Reach};
use super::report;
use super::runs::{Run, each_run};
use super::session::RaceCheck;
use super::shadow::{Clash, Kind, LINE, Line, PageCache, Stripe, View};
use super::team::Lanes;
use super::traits::{EXCUSED, FENCE, REDUCTION, STORE, STRONG, UPDATE, WARP_SYNC};
use super::transfer::Transfer;
use crate::exec::copies::Completion;
use crate::exec::frame::{Frame, lanes};
use crate::exec::watch::{Observer, Place, Touch, TouchRange, Verdict};
use crate::exec::{Cx, Fault};
use crate::fault::{Access, Kinship, RegionKind, TrapKind};
use crate::isa::{Order, Scope, Semantics};
use crate::memory::access;
use crate::program::{LANES, Op, Row64};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Barriers of a block.
const BARRIERS: usize = 16;
/// What a load that begins a compare-and-swap loop is taken for.
const AS_ATOMIC: Order = Order::new(Semantics::Relaxed, Scope::System);
/// What the changes of a reducing copy are, each element by itself.
const REDUCED: Order = Order::new(Semantics::Relaxed, Scope::Device);

/// What is known of a block that is running.
#[derive(Default)]
struct Team {
    number: u64,
    /// Its number among all launches.
    id: u32,
    /// Counts its synchronisations.
    tick: u32,
    warps: Vec<Lanes>,
    /// What those know who arrived at a barrier and went on.
    arrived: [Option<Know>; BARRIERS],
    shared: Vec<Line>,
    /// Cells of its shared memory that something was published through.
    locations: HashMap<u64, Location>,
}

/// A strong access whose read part is to be followed up once it is done.
struct Read {
    mask: u32,
    at: Row64,
}

/// Sees the threads of one CPU thread.
pub struct RaceObserver<'m> {
    check: &'m RaceCheck<'m>,
    /// The block at hand.
    team: Box<Team>,
    others: HashMap<u64, Box<Team>>,
    // Boxed like the others, so that a turn moves a pointer.
    #[allow(clippy::vec_box)]
    spare: Vec<Box<Team>>,
    pages: PageCache,
    reads: Vec<Read>,
    clusters: HashMap<u64, Meeting>,
    /// The copies and fills that nothing orders with the launch, and the session's count when they were
    /// looked up.
    transfers: (u64, Vec<Arc<Transfer>>),
}

/// The barrier of a cluster.
#[derive(Default)]
struct Meeting {
    /// This phase and the one before, by the parity of their numbers.
    phases: [Phase; 2],
    /// Blocks that have ended.
    ended: usize,
}

/// What those know who arrived at the barrier of a cluster in a phase.
#[derive(Default)]
struct Phase {
    number: u64,
    brought: Tree,
}

/// The warp at hand, as the shadow sees it.
struct Eye<'a> {
    check: &'a RaceCheck<'a>,
    block: u32,
    lanes: &'a Lanes,
    floor: u32,
    values: Option<&'a Values<'a>>,
    /// What the line's first byte is in this process.
    line: u64,
}

/// What the lanes of a store write.
struct Values<'a> {
    frame: &'a Frame,
    touch: &'a Touch<'a>,
}

impl Values<'_> {
    fn element(&self, lane: usize, part: u32) -> u64 {
        let slot = self.touch.op.slots[part as usize];
        match self.touch.bytes {
            8 => self.frame.row64(slot)[lane],
            _ => u64::from(self.frame.row32(slot)[lane]),
        }
    }

    /// The byte that a lane would write at an address.
    fn byte(&self, lane: usize, address: u64) -> u8 {
        let offset = address.wrapping_sub(self.touch.at[lane]);
        let bytes = u64::from(self.touch.bytes);
        (self.element(lane, (offset / bytes) as u32) >> (offset % bytes * 8)) as u8
    }

    fn is_same(&self, lane: usize, address: u64) -> bool {
        // SAFETY: the address lies in the access at hand, which was found valid; a byte is aligned.
        let found = unsafe { access::load_u8(address) };
        found == self.byte(lane, address)
    }

    /// A lane that would write something else than the first of some lanes on the same place.
    fn differing(&self, mask: u32) -> Option<usize> {
        let first = mask.trailing_zeros() as usize;
        lanes(mask).find(|lane| {
            (0..self.touch.elements)
                .any(|part| self.element(*lane, part) != self.element(first, part))
        })
    }
}

/// Whether an address is one of the host's memory.
fn is_hosts(cx: &Cx<'_>, address: u64) -> bool {
    matches!(cx.place(address), Place::Global)
        && cx.cursor.memory().nearest(address).is_some_and(|own| own.kind == RegionKind::Host)
}

impl View for Eye<'_> {
    fn lanes(&self) -> &Lanes {
        self.lanes
    }

    fn floor(&self) -> u32 {
        self.floor
    }

    fn is_past(&self, block: u32) -> bool {
        self.check.is_past(block)
    }

    fn agree(&self, own: Scope, other: Scope, block: u32) -> bool {
        self.check.reaches(own, self.block, block) && self.check.reaches(other, block, self.block)
    }

    fn stores_same(&self, lane: usize, offset: u8, end: u8) -> bool {
        self.values.is_some_and(|values| {
            (offset..end).all(|byte| values.is_same(lane, self.line + u64::from(byte)))
        })
    }
}

/// An access of a warp, or of a lane, to bytes of one space.
struct Request {
    warp: u32,
    pc: u32,
    kind: Kind,
    bytes: u32,
    written: bool,
}

impl<'m> RaceObserver<'m> {
    /// The observer of one more CPU thread.
    pub fn new(check: &'m RaceCheck<'m>) -> Self {
        Self {
            check,
            team: Box::new(Team { number: u64::MAX, ..Team::default() }),
            others: HashMap::new(),
            spare: Vec::new(),
            pages: PageCache::default(),
            reads: Vec::new(),
            clusters: HashMap::new(),
            transfers: (0, Vec::new()),
        }
    }

    /// Makes a block the one at hand.
    fn turn_to(&mut self, number: u64) {
        if self.team.number == number {
            return;
        }
        let next = self.others.remove(&number).or_else(|| self.spare.pop()).unwrap_or_default();
        let last = std::mem::replace(&mut self.team, next);
        match last.number {
            u64::MAX => self.spare.push(last),
            number => {
                self.others.insert(number, last);
            }
        }
        self.team.number = number;
    }

    fn traits(&self, cx: &Cx<'_>) -> u8 {
        self.check.traits.get(cx.pc as usize).copied().unwrap_or(0)
    }

    // ---- accesses

    /// A run of lanes touches memory: its lines are compared one by one.
    fn run(
        &mut self,
        cx: &Cx<'_>,
        request: &Request,
        run: &Run,
        values: Option<&Values<'_>>,
    ) -> Verdict {
        let (base, own) = match cx.place(run.start) {
            Place::Global => (run.start, None),
            Place::Shared(block, offset) => (offset, Some(block)),
            Place::Local(..) | Place::Param(_) => return Ok(()),
        };
        let mut start = base;
        let end = base + (run.end - run.start);
        while start < end {
            let stop = (start / LINE + 1) * LINE;
            let stripe = self.stripe(request, run, (base, start), stop.min(end));
            let eye = Eye {
                check: self.check,
                block: self.team.id,
                lanes: &self.team.warps[request.warp as usize],
                floor: self.team.warps[request.warp as usize].floor(),
                values,
                line: (start - start % LINE).wrapping_sub(base).wrapping_add(run.start),
            };
            let result = match own {
                None => self
                    .pages
                    .with(&self.check.session.pages, start, |line| line.touch(&eye, stripe)),
                Some(number) if number == self.team.number => {
                    let line = &mut self.team.shared[(start / LINE) as usize];
                    line.pass(eye.block, eye.block, eye.floor);
                    line.touch(&eye, stripe)
                }
                Some(number) => match self.others.get_mut(&number) {
                    Some(owner) => {
                        let line = &mut owner.shared[(start / LINE) as usize];
                        line.pass(owner.id, eye.block, 0);
                        line.touch(&eye, stripe)
                    }
                    None => Ok(()),
                },
            };
            if let Err(clash) = result {
                let at = eye.line + u64::from(clash.offset);
                return Err(self.race(cx, request, &clash, at, values));
            }
            start = stop;
        }
        match own {
            None => self.beside_transfers(cx, request, run),
            Some(_) => Ok(()),
        }
    }

    /// A run of lanes has touched device memory: it is compared with the host's copies.
    fn beside_transfers(&mut self, cx: &Cx<'_>, request: &Request, run: &Run) -> Verdict {
        let changes = self.check.session.changes.load(Ordering::Acquire);
        if self.transfers.0 != changes {
            self.transfers = (changes, self.check.transfers_beside());
        }
        let stores = request.kind.access() != Access::Load;
        for transfer in &self.transfers.1 {
            for (area, writes) in transfer.areas.iter().filter(|(_, writes)| stores || *writes) {
                if let Some(shared) = area.shared(run.start, run.end)
                    && !self.check.may_know(transfer)
                {
                    let step = (shared.0 - run.start).checked_div(u64::from(run.width));
                    let lane = run.first as usize + step.unwrap_or(0) as usize;
                    let access = (self.team.id, request.warp, lane, request.pc, request.kind);
                    let race = report::kernel_second(
                        (self.check, access),
                        (transfer, *writes),
                        shared,
                        cx.cursor.memory(),
                    );
                    return Err(Fault::new(lane, TrapKind::StreamRace(Box::new(race))));
                }
            }
        }
        Ok(())
    }

    /// The part of a run that lies in one line, up to `end`.
    fn stripe(&self, request: &Request, run: &Run, (base, start): (u64, u64), end: u64) -> Stripe {
        let whole = Stripe {
            block: self.team.id,
            tick: self.team.tick,
            lanes: run.lanes,
            pc: request.pc,
            warp: request.warp as u8,
            start: (start % LINE) as u8,
            end: (end - (start - start % LINE)) as u8,
            width: run.width as u8,
            first: run.first as u8,
            kind: request.kind,
        };
        if run.width == 0 {
            return whole;
        }
        let skipped = ((start - base) / u64::from(run.width)) as u32;
        let count = ((end - start) / u64::from(run.width)) as u32;
        let first = run.first + skipped;
        let lanes = (u64::MAX >> (64 - count) << first) as u32;
        Stripe { lanes, first: first as u8, ..whole }
    }

    fn race(
        &self,
        cx: &Cx<'_>,
        request: &Request,
        clash: &Clash,
        at: u64,
        values: Option<&Values<'_>>,
    ) -> Box<Fault> {
        let lane = clash.lane;
        let start = values.map_or(at, |values| values.touch.at[lane]);
        let element = request.bytes.min(8);
        let start = start + (at - start) / u64::from(element) * u64::from(element);
        let written = values.filter(|_| request.written).map(|values| {
            values.element(lane, ((start - values.touch.at[lane]) / u64::from(element)) as u32)
        });
        let kinship = self.kinship(request, clash);
        let race = report::race(
            cx,
            self.check,
            &report::Found {
                clash,
                pc: request.pc,
                kind: request.kind,
                block: self.team.id,
                warp: request.warp,
                address: start,
                bytes: element,
                written,
                kinship,
            },
        );
        Fault::new(lane, TrapKind::Race(Box::new(race)))
    }

    fn kinship(&self, request: &Request, clash: &Clash) -> Kinship {
        let old = &clash.old;
        if old.block != self.team.id {
            return match self.check.owns(old.block) {
                true => Kinship::Grid,
                false => Kinship::Device,
            };
        }
        match (
            u32::from(old.warp) == request.warp,
            old.pc == request.pc && old.tick == self.team.tick,
        ) {
            (true, true) => Kinship::Instruction,
            (true, false) => Kinship::Warp,
            (false, _) => Kinship::Block,
        }
    }

    // ---- publishing and acquiring

    /// A strong write publishes: what its lanes know if it releases, what they knew at their last fence
    /// otherwise.
    fn publish(&mut self, cx: &Cx<'_>, op: &Op, touch: &Touch<'_>, updates: bool) {
        if op.order.scope() == Scope::System {
            self.check.tells_host();
        }
        let releases = matches!(
            op.order.semantics(),
            Semantics::Release | Semantics::AcquireRelease | Semantics::SequentiallyConsistent
        );
        let warp = cx.warp.index;
        let quiet = !releases && !self.team.warps[warp as usize].has_fenced(touch.mask);
        let nothing = !self.check.session.locations.any() && self.team.locations.is_empty();
        if quiet && (updates || nothing) {
            return;
        }
        for lane in lanes(touch.mask) {
            let news = self.news(op.order, releases, (warp, lane));
            if op.order.scope() == Scope::System && is_hosts(cx, touch.at[lane]) {
                let host = news.iter().filter(|(scope, _)| *scope == Scope::System);
                host.for_each(|(_, tree)| self.check.session.publish_to_host(tree));
            }
            self.write(cx, touch.at[lane], updates, &news);
        }
    }

    /// What a lane's strong write carries.
    fn news(&self, order: Order, releases: bool, (warp, lane): (u32, usize)) -> Vec<(Scope, Tree)> {
        let own = &self.team.warps[warp as usize];
        let id = self.team.id;
        let fenced = own.fences(lane).map(|fence| {
            let scope = fence.scope.min(order.scope());
            (scope, fence.know.published(id, (warp, lane), fence.tick))
        });
        let mut news: Vec<_> = fenced.collect();
        if releases {
            let tree = own.know(lane).published(id, (warp, lane), self.team.tick);
            news.push((order.scope(), tree));
        }
        news
    }

    /// Gives the cell at an address what a write carries; a plain write takes away what it carried.
    fn write(&mut self, cx: &Cx<'_>, address: u64, updates: bool, news: &[(Scope, Tree)]) {
        let id = self.team.id;
        let change = |location: &mut Location| {
            if !updates {
                *location = Location::default();
            }
            news.iter().for_each(|(scope, tree)| location.add(id, *scope, tree));
        };
        match cx.place(address) {
            Place::Global => self.check.session.locations.change(address, change),
            Place::Shared(block, offset) => {
                if let Some(team) = self.team_of(block) {
                    change(team.locations.entry(offset).or_default());
                }
            }
            Place::Local(..) | Place::Param(_) => {}
        }
    }

    fn team_of(&mut self, number: u64) -> Option<&mut Team> {
        match number == self.team.number {
            true => Some(&mut self.team),
            false => self.others.get_mut(&number).map(|team| &mut **team),
        }
    }

    /// What the cell at an address carries for a reader.
    fn read(&mut self, cx: &Cx<'_>, address: u64, scope: Scope) -> Vec<(Option<u32>, Tree)> {
        let (check, id) = (self.check, self.team.id);
        let look = |location: &Location| location.read(check, id, scope);
        match cx.place(address) {
            Place::Global if !check.session.locations.any() => Vec::new(),
            Place::Global => check.session.locations.look(address, look),
            Place::Shared(block, offset) => self
                .team_of(block)
                .and_then(|team| team.locations.get(&offset).map(look))
                .unwrap_or_default(),
            Place::Local(..) | Place::Param(_) => Vec::new(),
        }
    }

    /// Follows up strong reads: an acquire learns at once, another with the next fence.
    fn follow(&mut self, cx: &Cx<'_>, op: &Op) {
        let acquires = matches!(
            op.order.semantics(),
            Semantics::Acquire | Semantics::AcquireRelease | Semantics::SequentiallyConsistent
        );
        let (warp, id) = (cx.warp.index as usize, self.team.id);
        for Read { mask, at } in std::mem::take(&mut self.reads) {
            for lane in lanes(mask) {
                let mut news = self.read(cx, at[lane], op.order.scope());
                if op.order.scope() == Scope::System && is_hosts(cx, at[lane]) {
                    // The host may have written what was read, after it had read what was published.
                    news.push((None, self.check.session.known_to_host()));
                }
                for (by, tree) in news {
                    let own = &mut self.team.warps[warp];
                    match acquires {
                        true => own.learn(1 << lane, |know| know.learn(&tree, id)),
                        false => own.note(lane, by, &tree),
                    }
                }
            }
        }
    }

    fn fence(&mut self, cx: &Cx<'_>, order: Order, mask: u32) {
        let (warp, id, scope) = (cx.warp.index as usize, self.team.id, order.scope());
        let (check, tick) = (self.check, self.team.tick);
        if scope == Scope::System {
            check.tells_host();
            check.hears_host();
        }
        let own = &mut self.team.warps[warp];
        if order.semantics() != Semantics::Release {
            let news = own.take_pending(mask, |news| match news.by {
                Some(by) => check.reaches(scope, id, by),
                None => scope >= Scope::Device,
            });
            for (mask, tree) in news {
                own.learn(mask, |know| know.learn(&tree, id));
            }
        }
        if order.semantics() != Semantics::Acquire {
            own.fence(mask, scope, tick);
            self.team.tick += 1;
        }
    }

    // ---- barriers

    /// Lanes of a warp met: each knows what any of them did.
    fn meet(&mut self, warp: u32, mask: u32) {
        let tick = self.team.tick;
        let own = &mut self.team.warps[warp as usize];
        let mut know = own.joined(mask);
        know.own.raise(warp, mask | !own.alive, tick);
        own.set(mask, &Arc::new(know));
        self.team.tick += 1;
    }

    /// What some lanes of a warp bring to a barrier.
    fn brought(&self, warp: u32, mask: u32) -> Know {
        let own = &self.team.warps[warp as usize];
        let mut know = own.joined(mask);
        know.own.raise(warp, mask | !own.alive, self.team.tick);
        know
    }

    fn open(&mut self, barrier: u32, waiting: &[u32]) {
        let all = self.team.warps.iter().zip(waiting).all(|(own, mask)| own.alive == *mask);
        let early = self.team.arrived[barrier as usize % BARRIERS].take();
        let know = match (all && early.is_none()).then(|| self.common()).flatten() {
            Some(know) => know,
            None => self.gathered(waiting, early, all),
        };
        let know = Arc::new(know);
        for (own, mask) in self.team.warps.iter_mut().zip(waiting) {
            if *mask != 0 {
                own.set(*mask, &know);
            }
        }
        self.team.tick += 1;
    }

    /// What all know after a barrier of the whole block, where they knew the same of other blocks.
    fn common(&self) -> Option<Know> {
        let mut own = self.team.warps.iter().filter(|own| own.alive != 0);
        let others = &own.next()?.only()?.others;
        own.all(|own| own.only().is_some_and(|know| know.others.is(others)))
            .then(|| Know { own: BlockKnow::all(self.team.tick), others: others.clone() })
    }

    fn gathered(&self, waiting: &[u32], early: Option<Know>, all: bool) -> Know {
        let mut know = early.unwrap_or_default();
        for (warp, mask) in waiting.iter().enumerate().filter(|(_, mask)| **mask != 0) {
            know.join(&self.brought(warp as u32, *mask));
        }
        if all {
            know.own = BlockKnow::all(self.team.tick);
        }
        know
    }
}

impl Observer for RaceObserver<'_> {
    fn block_begins(&mut self, cx: &Cx<'_>) {
        self.turn_to(cx.block.number);
        let threads = cx.launch.threads();
        let know = Arc::new(Know::default());
        let team = &mut *self.team;
        team.id = self.check.own.base.wrapping_add(cx.block.number as u32);
        team.tick = 1;
        team.warps.resize_with(threads.div_ceil(LANES as u32) as usize, Lanes::default);
        for (warp, own) in team.warps.iter_mut().enumerate() {
            let left = threads - warp as u32 * LANES as u32;
            own.begin(if left >= 32 { u32::MAX } else { (1 << left) - 1 }, &know);
        }
        team.arrived = Default::default();
        team.shared.iter_mut().for_each(Line::clear);
        team.shared.resize_with(cx.block.shared_bytes.div_ceil(LINE) as usize, Line::default);
        team.locations.clear();
    }

    fn block_ends(&mut self, cx: &Cx<'_>) {
        self.turn_to(cx.block.number);
        self.team.number = u64::MAX;
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
            self.team.tick += 1;
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
            kind: Kind::new(touch.access, order),
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
        let run = Run {
            lanes: 1 << touch.lane,
            first: touch.lane as u32,
            start: touch.at,
            end: touch.at + touch.bytes,
            width: 0,
        };
        let request = Request {
            warp: cx.warp.index,
            pc: cx.pc,
            kind: match touch.access {
                Access::Atomic => Kind::new(touch.access, REDUCED),
                _ => Kind::new(touch.access, Order::WEAK),
            },
            bytes: 1,
            written: false,
        };
        if let Completion::Mbarrier(..) = touch.completion {
            // Nothing that the asking thread does later orders it; who waits for the mbarrier is behind it.
            return match cx.place(run.start) {
                Place::Global => self.beside_transfers(cx, &request, &run),
                _ => Ok(()),
            };
        }
        self.run(cx, &request, &run, None)
    }

    fn arrives(&mut self, cx: &Cx<'_>, mask: u32) {
        self.turn_to(cx.block.number);
        if cx.arrival.waits {
            return;
        }
        let brought = self.brought(cx.warp.index, mask);
        if let Some(place) = self.team.arrived.get_mut(cx.arrival.barrier as usize) {
            place.get_or_insert_default().join(&brought);
        }
        self.team.tick += 1;
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
        let tree = brought.others.with(self.team.id, brought.own);
        let meeting = self.clusters.entry(first_of(cx)).or_default();
        let phase = &mut meeting.phases[cx.cluster.phase as usize % 2];
        if phase.number != cx.cluster.phase {
            *phase = Phase { number: cx.cluster.phase, brought: Tree::default() };
        }
        phase.brought = phase.brought.join(&tree);
        self.team.tick += 1;
    }

    fn cluster_passes(&mut self, cx: &Cx<'_>, mask: u32) {
        self.turn_to(cx.block.number);
        let over = cx.cluster.phase.wrapping_sub(1);
        let phase = self.clusters.get(&first_of(cx)).map(|own| &own.phases[over as usize % 2]);
        if let Some(phase) = phase.filter(|phase| phase.number == over) {
            let (tree, id) = (phase.brought.clone(), self.team.id);
            self.team.warps[cx.warp.index as usize].learn(mask, |know| know.learn(&tree, id));
        }
    }

    fn exits(&mut self, cx: &Cx<'_>, mask: u32) {
        self.turn_to(cx.block.number);
        self.team.warps[cx.warp.index as usize].alive &= !mask;
    }
}

/// Number of the first block of the cluster at hand.
fn first_of(cx: &Cx<'_>) -> u64 {
    cx.cluster.peers.first().map_or(cx.block.number, |first| first.number)
}

impl RaceObserver<'_> {
    /// Lanes of one store write different values to the same place.
    fn same_place(
        &mut self,
        cx: &Cx<'_>,
        request: &Request,
        run: &Run,
        lane: usize,
        values: &Values<'_>,
    ) -> Verdict {
        if !matches!(cx.place(run.start), Place::Global | Place::Shared(..)) {
            return Ok(());
        }
        if request.kind.strength().is_some() {
            return self.run(cx, request, run, Some(values));
        }
        let old = Stripe {
            block: self.team.id,
            tick: self.team.tick,
            lanes: run.lanes,
            pc: request.pc,
            warp: request.warp as u8,
            kind: request.kind,
            ..Stripe::default()
        };
        let clash = Clash { old, old_lane: run.first as usize, lane, offset: 0 };
        Err(self.race(cx, request, &clash, run.start, Some(values)))
    }
}
