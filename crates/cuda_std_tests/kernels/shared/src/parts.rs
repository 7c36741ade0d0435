//! Dynamic shared memory in parts.

use cuda_std::prelude::*;

/// Threads in a block.
pub const BLOCK: usize = 64;

/// Three arrays of three types, each filled and then read from its end: `a: [n]`, `b: [m]` and `c: [m]`.
#[kernel]
pub fn three(
    mut block: Block<BLOCK>,
    memory: Shared<[u8]>,
    n: usize,
    m: usize,
    a: AtomicSlice<u32>,
    b: AtomicSlice<f64>,
    c: AtomicSlice<u32>,
) {
    let (words, doubles, bytes) = memory.split::<(u32, f64, u8)>(&mut block, [n, m, m]);
    let words = words.fill(&block, |i| 3 * i as u32);
    let doubles = doubles.fill(&block, |i| i as f64 / 2.0);
    let bytes = bytes.fill(&block, |i| i as u8 ^ 0x5A);
    let (words, doubles, bytes) = block.sync((words, doubles, bytes));
    assert!(words.len() == n && doubles.len() == m && bytes.len() == m);
    for i in (block.thread()..n).step_by(BLOCK) {
        a.store(i, words[n - 1 - i], Relaxed);
    }
    for i in (block.thread()..m).step_by(BLOCK) {
        b.store(i, doubles[m - 1 - i], Relaxed);
        c.store(i, u32::from(bytes[m - 1 - i]), Relaxed);
    }
}

/// Threads that do not agree on a length: thread 0 decides. Each stores what it got: `lens: [threads]`.
#[kernel]
pub fn first_decides(
    mut block: Block<BLOCK>,
    memory: Shared<[u8]>,
    len: usize,
    lens: AtomicSlice<u32>,
) {
    let own = len.saturating_add(block.thread());
    let (array,) = memory.split::<(u16,)>(&mut block, [own]);
    let array = array.fill(&block, |i| i as u16);
    let array = block.sync(array);
    let sum: u32 = array.iter().map(|&x| u32::from(x)).sum();
    lens.store(block.thread(), array.len() as u32 + (sum << 16), Relaxed);
}

/// Two phases of two arrays that go on by themselves: what one thread adds to its own elements the others read.
#[kernel]
pub fn phases(mut block: Block<BLOCK>, memory: Shared<[u8]>, len: usize, out: AtomicSlice<u32>) {
    let (a, b) = memory.split::<(u32, u32)>(&mut block, [len, len]);
    let (mut a, b) = (a.zeroed(&block), b.fill(&block, |i| i as u32));
    let b = block.sync(b);
    a.each(&block, |i, own| *own += b[len - 1 - i]);
    let (a, mut b) = block.sync((a, b));
    b.each(&block, |i, own| *own = 1000 * *own + a[(i + 1) % len]);
    let b = block.sync(b);
    for i in (block.thread()..len).step_by(BLOCK) {
        out.store(i, b[len - 1 - i], Relaxed);
    }
}
