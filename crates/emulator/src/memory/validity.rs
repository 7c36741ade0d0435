//! Which bytes of device memory were ever written.
//!
//! Only kept on request, by [`GlobalMemory::track_writes`], and for allocations made after that: a
//! bit for each byte, in pages that appear when a part of one is written. Memory without a record
//! counts as written.

use super::global::GlobalMemory;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Bytes that a page tells of.
const PAGE: u64 = 64 << 10;
/// Words of a page.
const WORDS: usize = (PAGE / 64) as usize;

/// The records of all live allocations that have one.
#[derive(Default)]
pub(super) struct Records {
    on: bool,
    by_base: BTreeMap<u64, Arc<Validity>>,
}

impl Records {
    /// Begins the record of an allocation.
    pub(super) fn begin(&mut self, base: u64, bytes: u64) {
        if self.on {
            self.by_base.insert(base, Arc::new(Validity::new(base, bytes)));
        }
    }

    /// Ends it.
    pub(super) fn end(&mut self, base: u64) {
        self.by_base.remove(&base);
    }

    fn find(&self, address: u64) -> Option<&Arc<Validity>> {
        let (base, own) = self.by_base.range(..=address).next_back()?;
        (address - base < own.bytes).then_some(own)
    }
}

/// One page: a bit for each byte that was written, or the same for all of them.
#[derive(Default)]
struct Page {
    words: OnceLock<Box<[AtomicU64]>>,
    /// What holds for all bytes while there are no words.
    written: AtomicBool,
}

impl Page {
    fn word(&self, index: usize) -> u64 {
        match self.words.get() {
            Some(words) => words[index].load(Relaxed),
            None if self.written.load(Acquire) => u64::MAX,
            None => 0,
        }
    }
}

/// Which bytes of an allocation were written since it was made.
pub struct Validity {
    base: u64,
    bytes: u64,
    pages: Box<[Page]>,
    /// Whether all bytes are known to be written.
    complete: AtomicBool,
    /// Held while a page gets words or loses their need.
    change: Mutex<()>,
}

impl Validity {
    fn new(base: u64, bytes: u64) -> Self {
        let pages = (0..bytes.div_ceil(PAGE)).map(|_| Page::default()).collect();
        Self { base, bytes, pages, complete: AtomicBool::new(false), change: Mutex::default() }
    }

    /// First byte of the allocation, and the byte after its last.
    pub fn span(&self) -> (u64, u64) {
        (self.base, self.base + self.bytes)
    }

    /// Whether every byte is known to be written.
    pub fn is_complete(&self) -> bool {
        self.complete.load(Acquire)
    }

    /// Whether all of `bytes` from `address`, which lie in the allocation, were written.
    pub fn is_written(&self, address: u64, bytes: u64) -> bool {
        self.complete.load(Acquire)
            || parts(address - self.base, bytes).all(|(word, bits)| self.word(word) & bits == bits)
    }

    /// The bytes among `bytes`, at most 64, from `address` that were not written, bit by bit.
    pub fn unwritten(&self, address: u64, bytes: u32) -> u64 {
        if self.complete.load(Acquire) {
            return 0;
        }
        let offset = address - self.base;
        let (first, shift) = (offset / 64, offset % 64);
        let last = (offset + u64::from(bytes) - 1) / 64;
        let low = !self.word(first) >> shift;
        let high = if last > first { !self.word(last) << (64 - shift) } else { 0 };
        (low | high) & (u64::MAX >> (64 - bytes))
    }

    /// Notes that bytes of the allocation were written, or that what they hold means nothing.
    pub fn mark(&self, address: u64, bytes: u64, written: bool) {
        let offset = address - self.base;
        if written && self.complete.load(Acquire) {
            return;
        }
        if !written {
            self.complete.store(false, Release);
        }
        let end = offset + bytes;
        let mut at = offset;
        while at < end {
            let page = at / PAGE;
            let stop = ((page + 1) * PAGE).min(end);
            let whole = at == page * PAGE && stop == ((page + 1) * PAGE).min(self.bytes);
            match whole {
                true => self.mark_page(page as usize, written),
                false => self.mark_part(page as usize, at % PAGE, stop - at, written),
            }
            at = stop;
        }
        if written && bytes == self.bytes {
            self.complete.store(true, Release);
        }
    }

    fn mark_page(&self, page: usize, written: bool) {
        let page = &self.pages[page];
        let _held = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        page.written.store(written, Release);
        let bits = if written { u64::MAX } else { 0 };
        page.words.get().into_iter().flatten().for_each(|word| word.store(bits, Relaxed));
    }

    fn mark_part(&self, page: usize, offset: u64, bytes: u64, written: bool) {
        let words = self.words(page);
        for (word, bits) in parts(offset, bytes) {
            let word = &words[word as usize];
            let old = word.load(Relaxed);
            match written {
                true if old & bits != bits => word.fetch_or(bits, Relaxed),
                false if old & bits != 0 => word.fetch_and(!bits, Relaxed),
                _ => old,
            };
        }
    }

    fn words(&self, page: usize) -> &[AtomicU64] {
        let page = &self.pages[page];
        if let Some(words) = page.words.get() {
            return words;
        }
        let _held = self.change.lock().unwrap_or_else(PoisonError::into_inner);
        let bits = if page.written.load(Acquire) { u64::MAX } else { 0 };
        page.words.get_or_init(|| (0..WORDS).map(|_| AtomicU64::new(bits)).collect())
    }

    fn word(&self, index: u64) -> u64 {
        self.pages[index as usize / WORDS].word(index as usize % WORDS)
    }
}

/// The words that tell of a range of bytes, each with the bits of those bytes.
fn parts(offset: u64, bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = offset + bytes;
    (offset / 64..end.div_ceil(64)).map(move |word| {
        let (low, high) = ((word * 64).max(offset), (word * 64 + 64).min(end));
        (word, u64::MAX >> (64 - (high - low)) << (low % 64))
    })
}

impl GlobalMemory {
    /// From now on, keeps a record of the bytes that are written of each new allocation.
    pub fn track_writes(&self) {
        self.write_state().records.on = true;
    }

    /// The record of the allocation that an address lies in, if one is kept.
    pub fn validity(&self, address: u64) -> Option<Arc<Validity>> {
        self.read_state().records.find(address).cloned()
    }

    /// Notes that a range of one allocation was written, by whatever means.
    pub fn mark_written(&self, address: u64, bytes: u64) {
        if bytes > 0
            && let Some(own) = self.validity(address)
        {
            own.mark(address, bytes, true);
        }
    }

    /// Notes that a range was copied: it is written where its source was.
    pub(super) fn mark_copied(&self, to: u64, from: u64, bytes: u64) {
        let Some(own) = (bytes > 0).then(|| self.validity(to)).flatten() else { return };
        let source = self.validity(from).filter(|source| !source.is_written(from, bytes));
        let Some(source) = source else { return own.mark(to, bytes, true) };
        const CHUNK: u64 = 64;
        let chunks = bytes.div_ceil(CHUNK);
        for step in 0..chunks {
            let chunk = if to <= from { step } else { chunks - 1 - step };
            let at = chunk * CHUNK;
            let len = (bytes - at).min(CHUNK);
            let lacking = source.unwritten(from + at, len as u32);
            match lacking {
                0 => own.mark(to + at, len, true),
                _ => {
                    (0..len).for_each(|byte| own.mark(to + at + byte, 1, lacking >> byte & 1 == 0))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory() -> GlobalMemory {
        let memory = GlobalMemory::new(1 << 40);
        memory.track_writes();
        memory
    }

    #[test]
    fn bytes_are_written_one_by_one_and_by_pages() {
        let memory = memory();
        let base = memory.alloc(3 * PAGE + 10).unwrap();
        let own = memory.validity(base + 5).unwrap();
        assert_eq!(own.unwritten(base + 60, 8), 0xff);
        own.mark(base + 62, 4, true);
        assert_eq!(own.unwritten(base + 60, 8), 0xc3);
        assert!(own.is_written(base + 62, 4) && !own.is_written(base + 61, 2));
        own.mark(base + 100, 3 * PAGE - 90, true);
        assert!(own.is_written(base + 100, 3 * PAGE - 90));
        assert!(!own.is_written(base, 3 * PAGE + 10));
        own.mark(base, 100, true);
        assert!(own.is_written(base, 3 * PAGE + 10));
        own.mark(base + PAGE + 1, 1, false);
        assert_eq!(own.unwritten(base + PAGE, 4), 2);
        own.mark(base, 3 * PAGE + 10, true);
        assert_eq!(own.unwritten(base + PAGE, 4), 0);
    }

    #[test]
    fn the_host_writes_fills_and_copies() {
        let memory = memory();
        let (a, b) = (memory.alloc(256).unwrap(), memory.alloc(256).unwrap());
        memory.write(a + 3, &[1; 10]).unwrap();
        memory.fill32(a + 100, 7, 3).unwrap();
        memory.copy(b + 64, a, 128).unwrap();
        let own = memory.validity(b).unwrap();
        assert_eq!(own.unwritten(b + 64, 16), 0xe007);
        assert!(own.is_written(b + 164, 12) && !own.is_written(b + 164, 13));
        // A copy of what means nothing over what meant something.
        memory.copy(b + 164, a + 64, 4).unwrap();
        assert_eq!(own.unwritten(b + 160, 12), 0xff);
    }

    #[test]
    fn an_overlapping_copy_moves_the_record_as_it_moves_the_bytes() {
        for (to, from) in [(0, 70), (70, 0), (1, 0), (0, 1)] {
            let memory = memory();
            let base = memory.alloc(512).unwrap();
            let written = |i: u64| i.is_multiple_of(3) || i.is_multiple_of(7);
            (0..400).filter(|i| written(*i)).for_each(|i| memory.mark_written(base + i, 1));
            memory.copy(base + to, base + from, 300).unwrap();
            let own = memory.validity(base).unwrap();
            for i in 0..300 {
                assert_eq!(own.is_written(base + to + i, 1), written(from + i), "{to} {from} {i}");
            }
        }
    }

    #[test]
    fn a_freed_allocation_loses_its_record_and_a_new_one_holds_nothing() {
        let memory = memory();
        let a = memory.alloc(256).unwrap();
        memory.fill8(a, 0, 256).unwrap();
        memory.free(a).unwrap();
        assert!(memory.validity(a).is_none());
        let b = memory.alloc(256).unwrap();
        assert!(!memory.validity(b).unwrap().is_written(b, 1));
        assert!(memory.validity(memory.alloc_host(64).unwrap()).is_none());
    }
}
