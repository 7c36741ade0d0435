//! Shadow memory: for each 128 bytes of memory, the accesses that a later one can still race with.
//!
//! This is the shadow memory of a vector-clock race detector (FastTrack: Flanagan and Freund, PLDI
//! 2009). FastTrack keeps one epoch for the last write and one for the last read of a variable. A
//! [`ShadowCell`] keeps a list of each, because its variables are ranges of bytes: an access of a
//! warp to adjacent bytes is one [`ShadowAccess`], whichever lanes took part, and only scattered
//! accesses take one entry for each lane. A new access replaces an earlier one of the same bytes
//! that happens before it, since every access that races with the earlier one races with the new
//! one too.

use super::clock::Tree;
use super::lanes::Lanes;
use crate::fault::Access;
use crate::isa::{Order, Scope, Semantics};
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of memory that a shadow cell describes.
pub const CELL_BYTES: u64 = 128;
/// Bytes of device memory in a page.
const PAGE: u64 = 64 << 10;
/// Reads, and writes, that a shadow cell keeps. Beyond this number one is dropped.
const MOST: usize = 64;
/// Pages of shadow memory that are kept: those of 1 GiB of device memory.
const MOST_PAGES: usize = 1 << 14;

/// An access to bytes of one shadow cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShadowAccess {
    /// Number of the block among all launches.
    pub block: u32,
    /// Tick of the block.
    pub tick: u32,
    /// Lanes that took part.
    pub lanes: u32,
    /// Operation.
    pub pc: u32,
    /// Warp of the block.
    pub warp: u8,
    /// First byte, as an offset in the cell.
    pub start: u8,
    /// Byte after the last.
    pub end: u8,
    /// Bytes of each lane, one lane after the other; 0 where every lane touched all.
    pub width: u8,
    /// The lane at `start`, where `width` is not 0.
    pub first: u8,
    /// What was done, and how strongly.
    pub kind: AccessKind,
}

/// Whether an access loads, stores or updates, and how strong it is, packed into a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessKind(u8);

impl AccessKind {
    /// An access of some order; atomics are never weak.
    pub fn new(access: Access, order: Order) -> Self {
        let strong = order.semantics() != Semantics::Weak;
        Self(access as u8 | u8::from(strong) << 2 | (order.scope() as u8) << 3)
    }

    /// Load, store or atomic.
    pub fn access(self) -> Access {
        match self.0 & 3 {
            0 => Access::Load,
            1 => Access::Store,
            _ => Access::Atomic,
        }
    }

    /// Its scope; `None` for a weak access.
    pub fn strength(self) -> Option<Scope> {
        let scope = match self.0 >> 3 {
            0 => Scope::Block,
            1 => Scope::Cluster,
            2 => Scope::Device,
            _ => Scope::System,
        };
        (self.0 >> 2 & 1 != 0).then_some(scope)
    }
}

impl ShadowAccess {
    /// The lanes that touched a byte of it.
    pub fn lanes_at(&self, offset: u8) -> u32 {
        match self.width {
            0 => self.lanes,
            width => 1 << (self.first + (offset - self.start) / width),
        }
    }

    /// The end of the element that a byte belongs to.
    fn element_end(&self, offset: u8) -> u8 {
        match self.width {
            0 => self.end,
            width => offset - (offset - self.start) % width + width,
        }
    }

    /// Whether each byte that two accesses share was touched by the same thread in both.
    fn has_same_threads(&self, other: &Self) -> bool {
        if (self.block, self.warp) != (other.block, other.warp) || self.width != other.width {
            return false;
        }
        let place = |own: &Self| i32::from(own.start) - i32::from(own.first) * i32::from(own.width);
        match self.width {
            0 => self.lanes == other.lanes && self.lanes.is_power_of_two(),
            _ => place(self) == place(other),
        }
    }

    fn contains(&self, other: &Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}

/// Two accesses of different threads, neither of which happens before the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The earlier one.
    pub old: ShadowAccess,
    /// Its lane.
    pub old_lane: usize,
    /// Lane of the later one.
    pub lane: usize,
    /// First byte that both access, as an offset in the cell.
    pub offset: u8,
}

/// What decides whether an earlier access happens before one of the warp at hand.
pub trait HappensBefore {
    /// The lanes of the warp, with their vector clocks.
    fn lanes(&self) -> &Lanes;
    /// The tick up to which all accesses of the block happen before the access of any lane.
    fn floor(&self) -> u32;
    /// Whether a block ended before this launch began.
    fn is_past(&self, block: u32) -> bool;
    /// Whether the scopes of two strong accesses include each other's threads.
    fn agree(&self, own: Scope, other: Scope, block: u32) -> bool;
    /// Whether other launches lead from a lane's part in an earlier access to a thread that has acquired `known`.
    fn is_reached(&self, old: &ShadowAccess, old_lane: usize, known: &Tree) -> bool;
    /// Whether a store leaves the bytes from one offset of the cell to another as they are.
    fn stores_same(&self, lane: usize, offset: u8, end: u8) -> bool;
}

/// How an access relates to an earlier one.
enum Relation {
    /// They share no byte.
    Apart,
    /// The earlier one happens before it.
    Ordered,
    /// They are not ordered, and need not be.
    Allowed,
    /// They race.
    Race(Conflict),
}

fn relation(view: &impl HappensBefore, new: &ShadowAccess, old: &ShadowAccess) -> Relation {
    let (low, high) = (new.start.max(old.start), new.end.min(old.end));
    if low >= high {
        return Relation::Apart;
    }
    if old.block == new.block && (old.tick <= view.floor() || new.has_same_threads(old)) {
        return Relation::Ordered;
    }
    if old.block != new.block && view.is_past(old.block) {
        return Relation::Ordered;
    }
    let allowed = match (new.kind.strength(), old.kind.strength()) {
        (Some(own), Some(other)) => view.agree(own, other, old.block),
        _ => false,
    };
    compare_lanes(view, new, old, (low, high), allowed)
}

/// Compares two accesses lane by lane.
fn compare_lanes(
    view: &impl HappensBefore,
    new: &ShadowAccess,
    old: &ShadowAccess,
    (low, high): (u8, u8),
    allowed: bool,
) -> Relation {
    let both_store = new.kind.access() == Access::Store && old.kind.access() == Access::Store;
    let mut offset = low;
    let mut ordered = true;
    while offset < high {
        let end = new.element_end(offset).min(old.element_end(offset)).min(high);
        if let Some((lane, old_lane)) =
            unordered(view, (new, old), (new.lanes_at(offset), old.lanes_at(offset)), allowed)
        {
            ordered = false;
            if allowed {
                return Relation::Allowed;
            }
            if !(both_store && view.stores_same(lane, offset, end)) {
                return Relation::Race(Conflict { old: *old, old_lane, lane, offset });
            }
        }
        offset = end;
    }
    if ordered { Relation::Ordered } else { Relation::Allowed }
}

/// A lane, and a lane of an earlier access that does not happen before it. The order by way of other launches takes longer to
/// find, and is looked for only where it decides about a race: the accesses are not `allowed` to be unordered.
fn unordered(
    view: &impl HappensBefore,
    (new, old): (&ShadowAccess, &ShadowAccess),
    (lanes, old_lanes): (u32, u32),
    allowed: bool,
) -> Option<(usize, usize)> {
    let same_warp = (new.block, new.warp) == (old.block, old.warp);
    for group in view.lanes().groups() {
        let mine = group.mask & lanes;
        if mine == 0 {
            continue;
        }
        let clock = match old.block == new.block {
            true => Some(&group.clock.own),
            false => group.clock.others.get(old.block),
        };
        let mut rest = old_lanes;
        while rest != 0 {
            let other = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let others = if same_warp { mine & !(1 << other) } else { mine };
            let known = || {
                clock.is_some_and(|clock| clock.includes(u32::from(old.warp), other, old.tick))
                    || (!allowed && view.is_reached(old, other, &group.clock.others))
            };
            if others != 0 && !known() {
                return Some((others.trailing_zeros() as usize, other));
            }
        }
    }
    None
}

/// Accesses in no order, the first without an allocation.
type AccessList = SmallVec<[ShadowAccess; 1]>;

/// The accesses to 128 bytes of memory that later ones are compared with.
#[derive(Clone, Debug, Default)]
pub struct ShadowCell {
    /// Tick of the newest, where all are of one block.
    newest: u32,
    writes: AccessList,
    reads: AccessList,
}

impl ShadowCell {
    /// Drops all accesses.
    pub fn clear(&mut self) {
        self.newest = 0;
        self.writes.clear();
        self.reads.clear();
    }

    /// For shared memory: drops accesses that a barrier of the whole block has ordered before all
    /// later ones.
    pub fn pass(&mut self, owner: u32, block: u32, floor: u32) {
        if owner == block && self.newest <= floor && self.newest != 0 {
            self.clear();
        }
        if owner != block {
            self.newest = u32::MAX;
        }
    }

    /// Records an access and compares it with the earlier ones.
    ///
    /// # Errors
    /// It races with an earlier one.
    pub fn touch(&mut self, view: &impl HappensBefore, new: ShadowAccess) -> Result<(), Conflict> {
        self.newest = self.newest.max(new.tick);
        if new.kind.access() == Access::Load {
            return self.read(view, new);
        }
        Self::supersede(&mut self.reads, view, &new)?;
        Self::supersede(&mut self.writes, view, &new)?;
        add(&mut self.writes, new);
        Ok(())
    }

    /// All that is kept.
    fn accesses(&self) -> impl Iterator<Item = &ShadowAccess> {
        self.writes.iter().chain(&self.reads)
    }

    fn read(&mut self, view: &impl HappensBefore, new: ShadowAccess) -> Result<(), Conflict> {
        for old in &self.writes {
            if let Relation::Race(conflict) = relation(view, &new, old) {
                return Err(conflict);
            }
        }
        let mut index = 0;
        while let Some(old) = self.reads.get(index) {
            if new.contains(old) && replaces_read(view, &new, old) {
                self.reads.swap_remove(index);
            } else {
                index += 1;
            }
        }
        add(&mut self.reads, new);
        Ok(())
    }

    /// Compares a write with earlier accesses, and drops those that it supersedes.
    fn supersede(
        list: &mut AccessList,
        view: &impl HappensBefore,
        new: &ShadowAccess,
    ) -> Result<(), Conflict> {
        let mut index = 0;
        while let Some(old) = list.get(index) {
            match relation(view, new, old) {
                Relation::Race(conflict) => return Err(conflict),
                Relation::Ordered if new.contains(old) && supersedes(new, old) => {
                    list.swap_remove(index);
                }
                _ => index += 1,
            }
        }
        Ok(())
    }
}

/// Whether a read happens before another one of the same bytes, and every access that would race with
/// it would race with the other one too.
fn replaces_read(view: &impl HappensBefore, new: &ShadowAccess, old: &ShadowAccess) -> bool {
    let ordered = match old.block == new.block {
        true => {
            old.tick <= view.floor()
                || (new.has_same_threads(old) && new.lanes & old.lanes == old.lanes)
        }
        false => view.is_past(old.block),
    };
    // A strong read does not supersede a weak one, which races with more accesses.
    ordered && (new.kind.strength().is_none() || new.kind == old.kind)
}

/// Whether every access that would race with `old` would race with `new` too, where `old` happens
/// before `new`. A strong access never supersedes a weak one.
fn supersedes(new: &ShadowAccess, old: &ShadowAccess) -> bool {
    match (new.kind.strength(), old.kind.strength()) {
        (None, _) => true,
        (Some(own), Some(other)) => own <= other,
        (Some(_), None) => false,
    }
}

/// Adds an access, or widens an adjacent one of the same threads and operation. Of more than [`MOST`]
/// one is dropped.
fn add(list: &mut AccessList, new: ShadowAccess) {
    for own in list.iter_mut() {
        let (is_same, is_next) =
            ((own.start, own.end) == (new.start, new.end), own.end == new.start);
        // Most entries of scattered accesses are elsewhere, and the first question tells.
        if !(is_same || is_next) || own.width != 0 || new.width != 0 {
            continue;
        }
        if (own.block, own.tick, own.pc, own.warp, own.kind)
            != (new.block, new.tick, new.pc, new.warp, new.kind)
        {
            continue;
        }
        if is_same {
            own.lanes |= new.lanes;
            return;
        }
        if own.lanes == new.lanes {
            own.end = new.end;
            return;
        }
    }
    if list.len() == MOST {
        list.remove(0);
    }
    list.push(new);
}

/// The lines of a page of device memory.
pub type Page = Mutex<Vec<ShadowCell>>;

const SHARDS: usize = 64;

/// The pages of device memory that launches have touched.
pub struct Pages {
    shards: [Mutex<HashMap<u64, Arc<Page>>>; SHARDS],
    count: AtomicUsize,
}

impl Default for Pages {
    fn default() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), count: AtomicUsize::new(0) }
    }
}

impl Pages {
    fn shard(&self, number: u64) -> MutexGuard<'_, HashMap<u64, Arc<Page>>> {
        let index = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
        self.shards[index as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pages of a range that something touched.
    fn touched(&self, start: u64, end: u64) -> Vec<(u64, Arc<Page>)> {
        if start >= end {
            return Vec::new();
        }
        let numbers = start / PAGE..=(end - 1) / PAGE;
        if numbers.end() - numbers.start() < self.count.load(Ordering::Relaxed) as u64 {
            return numbers
                .filter_map(|number| Some((number, Arc::clone(self.shard(number).get(&number)?))))
                .collect();
        }
        let mut pages: Vec<_> = (0..SHARDS)
            .flat_map(|index| {
                let shard = self.shards[index].lock().unwrap_or_else(PoisonError::into_inner);
                let own = shard.iter().filter(|(number, _)| numbers.contains(number));
                own.map(|(number, page)| (*number, Arc::clone(page))).collect::<Vec<_>>()
            })
            .collect();
        pages.sort_by_key(|(number, _)| *number);
        pages
    }

    /// Forgets what was done to a range.
    pub fn forget(&self, start: u64, end: u64) {
        for (number, page) in self.touched(start, end) {
            let mut lines = page.lock().unwrap_or_else(PoisonError::into_inner);
            lines_of(number, start, end).for_each(|(index, _)| lines[index].clear());
        }
    }

    /// The first access to a range for which `wanted` is true, with the bytes of the range that it
    /// touched.
    pub fn find(
        &self,
        start: u64,
        end: u64,
        wanted: impl Fn(&ShadowAccess) -> bool,
    ) -> Option<(ShadowAccess, (u64, u64))> {
        self.touched(start, end).into_iter().find_map(|(number, page)| {
            let lines = page.lock().unwrap_or_else(PoisonError::into_inner);
            lines_of(number, start, end).find_map(|(index, base)| {
                lines[index].accesses().find_map(|stripe| {
                    let low = start.max(base + u64::from(stripe.start));
                    let high = end.min(base + u64::from(stripe.end));
                    (low < high && wanted(stripe)).then_some((*stripe, (low, high)))
                })
            })
        })
    }

    fn page(&self, number: u64) -> Arc<Page> {
        let mut shard = self.shard(number);
        if let Some(page) = shard.get(&number) {
            return Arc::clone(page);
        }
        if self.count.fetch_add(1, Ordering::Relaxed) >= MOST_PAGES
            && let Some(other) = shard.keys().next().copied()
        {
            shard.remove(&other);
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        let lines = vec![ShadowCell::default(); (PAGE / CELL_BYTES) as usize];
        let page = Arc::new(Mutex::new(lines));
        shard.insert(number, Arc::clone(&page));
        page
    }
}

/// The lines of a page that a range has part in, by their place in it, with their first byte.
fn lines_of(number: u64, start: u64, end: u64) -> impl Iterator<Item = (usize, u64)> {
    let base = number * PAGE;
    let first = start.saturating_sub(base) / CELL_BYTES;
    let past = (end - base).min(PAGE).div_ceil(CELL_BYTES);
    (first..past).map(move |index| (index as usize, base + index * CELL_BYTES))
}

/// Pages that a thread remembers.
const WAYS: usize = 64;

/// The pages that one thread last touched.
pub struct PageCache {
    ways: [Option<(u64, Arc<Page>)>; WAYS],
}

impl Default for PageCache {
    fn default() -> Self {
        Self { ways: [const { None }; WAYS] }
    }
}

impl PageCache {
    /// Acts on the line of an address.
    pub fn with<T>(
        &mut self,
        pages: &Pages,
        address: u64,
        act: impl FnOnce(&mut ShadowCell) -> T,
    ) -> T {
        let number = address / PAGE;
        let way = &mut self.ways[number as usize % WAYS];
        let page = match way {
            Some((own, page)) if *own == number => page,
            _ => &mut way.insert((number, pages.page(number))).1,
        };
        let mut lines: MutexGuard<'_, Vec<ShadowCell>> =
            page.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut lines[(address % PAGE / CELL_BYTES) as usize])
    }
}
