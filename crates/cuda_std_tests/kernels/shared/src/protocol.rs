//! The phases of a shared array, and what the block's token does beside.

use cuda_std::prelude::*;

/// Threads in a block.
pub const BLOCK: usize = 128;

/// Rounds of writing and reading: each thread adds its right neighbour's value to its own.
#[kernel]
pub fn rounds(
    mut block: Block<BLOCK>,
    index: ThreadIndex,
    ring: Shared<[u32; BLOCK]>,
    rounds: u32,
    mut out: DisjointSlice<u32>,
) {
    let mut ring = ring.put(&block, index.get() as u32);
    for _ in 0..rounds {
        let read = block.sync(ring);
        let right = read[(block.thread() + 1) % BLOCK];
        // The next phase begins when all have read.
        ring = block.sync(read);
        *ring.own_mut(&block) += right;
    }
    if let Some(out) = out.get_mut(index) {
        *out = *ring.own(&block);
    }
}

/// Two arrays of one type, one written while the other is read, and a flag of one thread.
#[kernel]
pub fn two(
    mut block: Block<BLOCK>,
    index: ThreadIndex,
    a: Shared<[u32; BLOCK], 0>,
    b: Shared<[u32; BLOCK], 1>,
    flag: Shared<[u8; 1]>,
    mut out: DisjointSlice<u32>,
) {
    let thread = block.thread();
    let a = a.put(&block, thread as u32);
    let mut flag = flag.zeroed(&block);
    if let Some(flag) = flag.get_mut(&block) {
        *flag = u8::from(index.get() >= BLOCK);
    }
    let (a, flag) = block.sync((a, flag));
    let b = b.fill(&block, |i| a[BLOCK - 1 - i] * 2);
    let (mut a, b) = block.sync((a, b));
    a.each(&block, |i, own| *own += b[i ^ 1]);
    let a = block.sync(a);
    if let Some(out) = out.get_mut(index) {
        *out = a[(thread + 7) % BLOCK] + 1000 * u32::from(flag[0]);
    }
}

/// Barriers that count, and closures that run without the token.
#[kernel]
pub fn votes(mut block: Block<BLOCK>, index: ThreadIndex, out: AtomicSlice<u32>) {
    let thread = block.thread();
    let places = block.each(|thread| {
        assert!(thread.index == thread.x && thread.y == 0 && thread.z == 0);
        thread.index
    });
    let results = [
        block.count(thread.is_multiple_of(3)),
        usize::from(block.all(thread < BLOCK)),
        usize::from(block.all(thread != 77)),
        usize::from(block.any(thread == 77)),
        usize::from(block.any(thread > BLOCK)),
        block.once(|| 5).unwrap_or(6),
        block.warp() * 32 + block.lane(),
        places,
    ];
    for (i, result) in results.into_iter().enumerate() {
        out.store(index.get() * 8 + i, result as u32, Relaxed);
    }
}

/// Halves arrays of lengths that are no power of two, shorter and longer than the block.
macro_rules! trees {
    ($($name:ident: $len:literal;)*) => {$(
        #[kernel]
        pub fn $name(mut block: Block<BLOCK>, array: Shared<[u32; $len]>, out: AtomicSlice<u32>) {
            let mut tree = array.fill(&block, |i| (i * i) as u32 + 1).halving();
            while let Some(pairs) = tree.halve(&mut block) {
                pairs.each(|own, other| *own += *other);
            }
            let root = tree.root(&block);
            let array = block.sync(tree);
            out.store(block.thread(), array[0] + u32::from(root == Some(array[0])), Relaxed);
        }
    )*};
}

trees! {
    tree_1: 1;
    tree_2: 2;
    tree_7: 7;
    tree_100: 100;
    tree_128: 128;
    tree_255: 255;
    tree_1000: 1000;
    tree_1024: 1024;
}

/// A plane of threads.
#[kernel]
pub fn plane(mut block: Block<8, 4, 2>, out: AtomicSlice<u32>) {
    let place = block.place();
    let index = (block.z() * 4 + block.y()) * 8 + block.x();
    assert!(place.index == block.thread() && place.y == block.y() && place.z == block.z());
    block.sync(());
    out.store(block.thread(), index as u32, Relaxed);
}

/// One kernel for several types: each instance has an array of its own type.
#[kernel(u8, f64)]
pub fn mirrored<T: cuda_std::shared::Element>(
    mut block: Block<64>,
    index: ThreadIndex,
    tile: Shared<[T; 64]>,
    x: &[T],
    mut out: DisjointSlice<T>,
) {
    let tile = tile.put(&block, x[index.get()]);
    let tile = block.sync(tile);
    if let Some(out) = out.get_mut(index) {
        *out = tile[63 - block.thread()];
    }
}

/// Wrong, and compiles: threads without an element return before a barrier that the others reach.
#[kernel]
pub fn returns_before_a_barrier(
    mut block: Block<64>,
    index: ThreadIndex,
    tile: Shared<[u32; 64]>,
    mut out: DisjointSlice<u32>,
) {
    let Some(out) = out.get_mut(index) else { return };
    let tile = tile.put(&block, 1);
    let tile = block.sync(tile);
    *out = tile[63 - block.thread()];
}

/// Wrong, and compiles: each arm of a branch has a barrier, and the two make a pair.
#[kernel]
pub fn barriers_in_two_arms(
    mut block: Block<64>,
    index: ThreadIndex,
    tile: Shared<[u32; 64]>,
    mut out: DisjointSlice<u32>,
) {
    let tile = tile.put(&block, 1);
    let thread = block.thread();
    let seen = if thread < 32 {
        let tile = block.sync(tile);
        tile[63 - thread]
    } else {
        block.sync(());
        // The other half reads what this half writes.
        let mut tile = tile;
        tile.put(&block, 5);
        *tile.own(&block)
    };
    if let Some(out) = out.get_mut(index) {
        *out = seen;
    }
}
