//! Which bytes of device memory a launch reads as read-only, and which it writes.
//!
//! A `.nc` load may be served by a cache that no store reaches, so a byte that one thread reads this
//! way must not be written by any thread of the launch, before or after.

use super::race::runs::Run;
use crate::machine::{Cx, Op, Program};
use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, PoisonError, RwLock};

/// Bytes that a page tells of.
const PAGE: u64 = 64 << 10;
/// Words of a plane with a bit for each byte.
const BITS: usize = (PAGE / 64) as usize;
/// Bytes that share the note of who touched them last.
const GRAIN: u64 = 16;
/// Words of a plane of such notes.
const NOTES: usize = (PAGE / GRAIN) as usize;
/// Pages that a thread remembers.
const WAYS: usize = 4;

/// Who touched something: packed into a word, 0 for nobody.
#[derive(Clone, Copy)]
pub struct By {
    /// The operation.
    pub pc: u32,
    thread: u32,
    block: u64,
}

const PC_BITS: u32 = 20;
const THREAD_BITS: u32 = 10;
const BLOCK_BITS: u32 = 34;

impl By {
    fn here(cx: &Cx<'_>, lane: usize) -> u64 {
        let pc = u64::from(cx.pc + 1).min((1 << PC_BITS) - 1);
        let thread = u64::from(cx.warp.index * 32) + lane as u64;
        let block = cx.block.number & ((1 << BLOCK_BITS) - 1);
        (pc << THREAD_BITS | thread & ((1 << THREAD_BITS) - 1)) << BLOCK_BITS | block
    }

    fn unpack(word: u64) -> Option<Self> {
        let pc = (word >> (BLOCK_BITS + THREAD_BITS)) as u32;
        let thread = (word >> BLOCK_BITS) as u32 & ((1 << THREAD_BITS) - 1);
        let known = pc > 0 && pc < (1 << PC_BITS) - 1;
        known.then(|| Self { pc: pc - 1, thread, block: word & ((1 << BLOCK_BITS) - 1) })
    }

    /// Index of the block.
    pub fn block_index(&self, cx: &Cx<'_>) -> [u32; 3] {
        let [x, y, _] = cx.launch.grid.map(u64::from);
        [self.block % x, self.block / x % y, self.block / x / y].map(|index| index as u32)
    }

    /// Index of the thread in its block.
    pub fn thread_index(&self, cx: &Cx<'_>) -> [u32; 3] {
        let [x, y, _] = cx.launch.block;
        [self.thread % x, self.thread / x % y, self.thread / x / y]
    }
}

/// A conflict.
pub struct Other {
    /// First byte that both touch.
    pub address: u64,
    /// Who touched it before, if that is still known.
    pub by: Option<By>,
}

/// A plane of bits and notes for reads, and one for writes.
struct Page {
    words: Box<[AtomicU64]>,
}

#[derive(Clone, Copy)]
enum Plane {
    Reads,
    Writes,
}

impl Page {
    fn new() -> Self {
        Self { words: (0..2 * (BITS + NOTES)).map(|_| AtomicU64::new(0)).collect() }
    }

    fn plane(&self, plane: Plane) -> (&[AtomicU64], &[AtomicU64]) {
        let (reads, writes) = self.words.split_at(BITS + NOTES);
        match plane {
            Plane::Reads => reads.split_at(BITS),
            Plane::Writes => writes.split_at(BITS),
        }
    }

    /// Notes an access to bytes that share a word in one plane, and returns the bits of these bytes in the
    /// other. `by` says who touches the byte at an offset.
    fn note(
        &self,
        (offset, bytes): (u64, u64),
        (own, other): (Plane, Plane),
        by: impl Fn(u64) -> u64,
    ) -> u64 {
        let bits = (u64::MAX >> (64 - bytes)) << (offset % 64);
        let word = (offset / 64) as usize;
        let (marks, notes) = self.plane(own);
        if marks[word].load(Relaxed) & bits != bits {
            marks[word].fetch_or(bits, SeqCst);
            for grain in offset / GRAIN..=(offset + bytes - 1) / GRAIN {
                notes[grain as usize].store(by((grain * GRAIN).max(offset)), Relaxed);
            }
        }
        self.plane(other).0[word].load(SeqCst) & bits
    }
}

/// The pages of one launch.
pub struct ReadOnly {
    pages: RwLock<HashMap<u64, Arc<Page>>>,
}

impl ReadOnly {
    /// `None` for a program without such loads.
    pub fn of(program: &Program) -> Option<Self> {
        let is_there = program.ops.iter().any(|op| op.weight > 0 && reads_only(op));
        is_there.then(|| Self { pages: RwLock::default() })
    }

    /// What one CPU thread remembers.
    pub fn recent(&self) -> Recent<'_> {
        Recent { all: self, pages: Vec::new(), oldest: 0 }
    }

    fn page(&self, number: u64) -> Arc<Page> {
        let known = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = known.get(&number) {
            return Arc::clone(page);
        }
        drop(known);
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(pages.entry(number).or_insert_with(|| Arc::new(Page::new())))
    }
}

/// Whether an operation is a load of data that no thread of the launch may write.
pub fn reads_only(op: &Op) -> bool {
    crate::isa::forms()[usize::from(op.form)].properties.read_only
}

/// The pages that a thread touched last.
pub struct Recent<'m> {
    all: &'m ReadOnly,
    pages: Vec<(u64, Arc<Page>)>,
    oldest: usize,
}

impl Recent<'_> {
    /// Notes read-only loads of lanes. Returns a write of the same bytes.
    pub fn reads(&mut self, cx: &Cx<'_>, run: &Run) -> Option<Other> {
        self.note(cx, run, (Plane::Reads, Plane::Writes))
    }

    /// Notes writes of lanes. Returns a read-only load of the same bytes.
    pub fn writes(&mut self, cx: &Cx<'_>, run: &Run) -> Option<Other> {
        self.note(cx, run, (Plane::Writes, Plane::Reads))
    }

    fn note(&mut self, cx: &Cx<'_>, run: &Run, planes: (Plane, Plane)) -> Option<Other> {
        let mut first = run.start;
        while first < run.end {
            let end = ((first / 64 + 1) * 64).min(run.end);
            let (offset, base) = (first % PAGE, first / PAGE * PAGE);
            let page = self.page(first / PAGE);
            let by = |offset: u64| By::here(cx, run.lane_at(base + offset) as usize);
            let both = page.note((offset, end - first), planes, by);
            if both != 0 {
                let address = first - offset % 64 + u64::from(both.trailing_zeros());
                let grain = (address % PAGE / GRAIN) as usize;
                let note = page.plane(planes.1).1[grain].load(Relaxed);
                return Some(Other { address, by: By::unpack(note) });
            }
            first = end;
        }
        None
    }

    fn page(&mut self, number: u64) -> &Page {
        let known = self.pages.iter().position(|(own, _)| *own == number);
        let index = known.unwrap_or_else(|| {
            let entry = (number, self.all.page(number));
            let index = self.oldest;
            match self.pages.get_mut(index) {
                Some(own) => *own = entry,
                None => self.pages.push(entry),
            }
            self.oldest = (index + 1) % WAYS;
            index
        });
        &self.pages[index].1
    }
}
