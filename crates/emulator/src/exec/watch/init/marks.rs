//! Which bytes of shared, local and device memory were written.

use crate::exec::watch::spans::Spans;
use crate::machine::{Cx, Place, Touch, lanes};
use crate::memory::GlobalMemory;
use std::collections::HashMap;

/// A range that is checked at once, although the lanes may not touch all of it.
const AT_ONCE: u64 = 2048;

/// What is known of the memory of one block.
#[derive(Default)]
struct BlockMarks {
    /// A bit for each byte of shared memory.
    shared: Vec<u64>,
    /// By warp and byte of local memory, the lanes that wrote it.
    local: Vec<Vec<u32>>,
}

/// What is known of all memory that a thread's warps touch.
pub struct Marks<'m> {
    /// Device memory.
    pub spans: Spans<'m>,
    blocks: HashMap<u64, BlockMarks>,
    number: u64,
    block: BlockMarks,
}

impl<'m> Marks<'m> {
    /// No block has begun.
    pub fn new(memory: &'m GlobalMemory) -> Self {
        let block = BlockMarks::default();
        Self { spans: Spans::new(memory), blocks: HashMap::new(), number: u64::MAX, block }
    }

    /// A block begins, with shared memory that nothing has written.
    pub fn begin(&mut self, cx: &Cx<'_>) {
        self.turn_to(cx.block.number);
        // A block of its cluster may have written there already.
        self.block.shared.resize(cx.block.shared_bytes.div_ceil(64) as usize, 0);
    }

    /// A block ends.
    pub fn end(&mut self, cx: &Cx<'_>) {
        self.turn_to(cx.block.number);
        self.block = BlockMarks::default();
        self.number = u64::MAX;
    }

    /// A call begins, with local memory that nothing has written.
    pub fn enter(&mut self, cx: &Cx<'_>, (from, to): (u64, u64), mask: u32) {
        let local = self.local(cx);
        let end = local.len().min(to as usize);
        local.iter_mut().take(end).skip(from as usize).for_each(|lanes| *lanes &= !mask);
    }

    fn turn_to(&mut self, number: u64) {
        if self.number == number {
            return;
        }
        let old = std::mem::take(&mut self.block);
        if self.number != u64::MAX {
            self.blocks.insert(self.number, old);
        }
        self.block = self.blocks.remove(&number).unwrap_or_default();
        self.number = number;
    }

    fn local(&mut self, cx: &Cx<'_>) -> &mut Vec<u32> {
        self.turn_to(cx.block.number);
        let warp = cx.warp.index as usize;
        let all = &mut self.block.local;
        if all.len() <= warp {
            all.resize_with(warp + 1, Vec::new);
        }
        &mut all[warp]
    }

    /// The bits of a block's shared memory; none for a block that another thread runs.
    fn shared(&mut self, cx: &Cx<'_>, number: u64) -> Option<&mut Vec<u64>> {
        self.turn_to(cx.block.number);
        match number == self.number {
            true => Some(&mut self.block.shared),
            false => self.blocks.get_mut(&number).map(|block| &mut block.shared),
        }
    }

    // ---- reading

    /// Whether all that a warp touches was written, told quickly; false where that takes longer.
    pub fn all_written(&mut self, cx: &Cx<'_>, touch: &Touch<'_>) -> bool {
        let total = u64::from(touch.bytes * touch.elements);
        let (low, high) = reach(touch);
        let bytes = high - low + total;
        match cx.place(low) {
            Place::Param(_) => true,
            Place::Global => match self.spans.find(low) {
                Some(span) if span.range.base + span.range.len >= low + bytes => {
                    span.record.as_ref().is_none_or(|record| {
                        (bytes <= AT_ONCE || record.is_complete()) && record.is_written(low, bytes)
                    })
                }
                _ => false,
            },
            Place::Shared(number, offset) => {
                bytes <= AT_ONCE
                    && matches!(cx.place(high), Place::Shared(other, _) if other == number)
                    && self.shared(cx, number).is_none_or(|bits| lacking_none(bits, offset, bytes))
            }
            Place::Local(..) => false,
        }
    }

    /// The bytes of at most 64 from an address that nothing wrote, bit by bit.
    pub fn unwritten(&mut self, cx: &Cx<'_>, address: u64, bytes: u32) -> u64 {
        match cx.place(address) {
            Place::Param(_) => 0,
            Place::Global => {
                self.spans.find(address).and_then(|span| span.record.as_ref()).map_or(0, |record| {
                    let left = record.span().1 - address;
                    record.unwritten(address, u64::from(bytes).min(left) as u32)
                })
            }
            Place::Shared(number, offset) => self.shared(cx, number).map_or(0, |shared| {
                let lacks = |byte: u64| !bit(shared, offset + byte);
                (0..u64::from(bytes)).filter(|byte| lacks(*byte)).map(|byte| 1 << byte).sum()
            }),
            Place::Local(lane, offset) => {
                let local = self.local(cx);
                let wrote = |byte: u64| {
                    local.get((offset + byte) as usize).is_some_and(|lanes| lanes >> lane & 1 != 0)
                };
                (0..u64::from(bytes)).filter(|byte| !wrote(*byte)).map(|byte| 1 << byte).sum()
            }
        }
    }

    // ---- writing

    /// Notes that a warp writes all that it touches.
    pub fn write_all(&mut self, cx: &Cx<'_>, touch: &Touch<'_>) {
        let total = u64::from(touch.bytes * touch.elements);
        let mut run: Option<(u64, u64)> = None;
        for lane in lanes(touch.mask) {
            let address = touch.at[lane];
            run = match run {
                Some((from, to)) if to == address => Some((from, to + total)),
                other => {
                    other.inspect(|(from, to)| self.mark(cx, *from, to - from, true));
                    Some((address, address + total))
                }
            };
        }
        run.inspect(|(from, to)| self.mark(cx, *from, to - from, true));
    }

    /// Notes that bytes are written, or that what is written means nothing.
    pub fn mark(&mut self, cx: &Cx<'_>, address: u64, bytes: u64, written: bool) {
        match cx.place(address) {
            Place::Param(_) => {}
            Place::Global => {
                if let Some(record) = self.spans.find(address).and_then(|span| span.record.as_ref())
                {
                    let left = record.span().1 - address;
                    record.mark(address, bytes.min(left), written);
                }
            }
            Place::Shared(number, offset) => {
                let words = cx.block.shared_bytes.div_ceil(64) as usize;
                self.turn_to(cx.block.number);
                if number != self.number {
                    let other = &mut self.blocks.entry(number).or_default().shared;
                    other.resize(words.max(other.len()), 0);
                }
                if let Some(shared) = self.shared(cx, number) {
                    mark_bits(shared, offset, bytes, written);
                }
            }
            Place::Local(lane, offset) => {
                let local = self.local(cx);
                let end = (offset + bytes) as usize;
                if local.len() < end {
                    local.resize(end.next_multiple_of(64), 0);
                }
                let own = 1 << lane;
                let change = |lanes: &mut u32| match written {
                    true => *lanes |= own,
                    false => *lanes &= !own,
                };
                local[offset as usize..end].iter_mut().for_each(change);
            }
        }
    }
}

/// The lowest and the highest address that a warp touches.
fn reach(touch: &Touch<'_>) -> (u64, u64) {
    let all = lanes(touch.mask).map(|lane| touch.at[lane]);
    all.fold((u64::MAX, 0), |(low, high), at| (low.min(at), high.max(at)))
}

fn bit(bits: &[u64], at: u64) -> bool {
    bits.get((at / 64) as usize).is_none_or(|word| word >> (at % 64) & 1 != 0)
}

/// The words that tell of a range of bytes, each with the bits of those bytes.
fn parts(offset: u64, bytes: u64) -> impl Iterator<Item = (usize, u64)> {
    let end = offset + bytes;
    (offset / 64..end.div_ceil(64)).map(move |word| {
        let (low, high) = ((word * 64).max(offset), (word * 64 + 64).min(end));
        (word as usize, u64::MAX >> (64 - (high - low)) << (low % 64))
    })
}

fn lacking_none(bits: &[u64], offset: u64, bytes: u64) -> bool {
    parts(offset, bytes).all(|(word, own)| bits.get(word).is_none_or(|word| word & own == own))
}

fn mark_bits(bits: &mut [u64], offset: u64, bytes: u64, written: bool) {
    for (word, own) in parts(offset, bytes) {
        match bits.get_mut(word) {
            Some(word) if written => *word |= own,
            Some(word) => *word &= !own,
            None => {}
        }
    }
}
