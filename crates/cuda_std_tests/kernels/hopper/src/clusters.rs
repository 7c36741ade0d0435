//! Clusters and one another's shared memory.

use cuda_std::atomic::{self, Scope};
use cuda_std::cluster::{self, ClusterCounters, DistributedArray};
use cuda_std::copy::*;
use cuda_std::mbarrier::{Mbarrier, fence_init};
use cuda_std::prelude::*;

/// Registers that [`facts`] writes.
pub const FACTS: usize = 14;
/// Counters in each block of [`histogram`].
pub const BINS: usize = 8;

/// The block's place in a plane of blocks, row by row.
#[inline(always)]
fn block() -> usize {
    (thread::block_idx_y() * thread::grid_dim_x() + thread::block_idx_x()) as usize
}

#[kernel(block = 32, cluster = (2, 3))]
pub fn facts(out: AtomicSlice<u32>) {
    if thread::thread_idx_x() == 0 {
        let facts = [
            cluster::rank(),
            cluster::size(),
            cluster::block_idx_x(),
            cluster::block_idx_y(),
            cluster::block_idx_z(),
            cluster::dim_x(),
            cluster::dim_y(),
            cluster::dim_z(),
            cluster::idx_x(),
            cluster::idx_y(),
            cluster::idx_z(),
            cluster::grid_dim_x(),
            cluster::grid_dim_y(),
            cluster::grid_dim_z(),
        ];
        for (i, fact) in facts.into_iter().enumerate() {
            out.store(block() * FACTS + i, fact, Relaxed);
        }
    }
}

/// Each block reads the next one's array, and writes to the one before.
///
/// # Safety
/// `out` has 64 values for each block.
#[kernel(block = 32, cluster = 4)]
pub unsafe fn exchange(out: *mut u32) {
    let (own, sent) = (shared_array![u32; 32], shared_array![u32; 32]);
    let (thread, rank) = (thread::thread_idx_x(), cluster::rank());
    let (size, own_place) = (cluster::size(), thread as usize);
    let (arrays, mailboxes) = (DistributedArray::new(own), DistributedArray::new(sent));
    // SAFETY: each thread writes elements that nobody else writes, and cluster barriers separate
    // writing from reading; the last one keeps every block until nobody needs it.
    unsafe {
        own.set(own_place, 1000 * block() as u32 + thread);
        cluster::sync();
        let next = arrays.get((rank + 1) % size, 31 - own_place);
        mailboxes.set((rank + size - 1) % size, own_place, 7 * rank + thread);
        let arrival = cluster::arrive();
        out.add(64 * block() + own_place).write(next);
        arrival.wait();
        out.add(64 * block() + 32 + own_place).write(sent.get(own_place));
    }
    // SAFETY: waited for at once.
    unsafe { cluster::arrive_relaxed() }.wait();
}

/// Each block of a cluster sends every block, itself too, its numbers by asynchronous stores, and adds what it gets in the order of the
/// blocks: 100 times as much for each.
///
/// # Safety
/// `out` has 4 values for each thread.
#[kernel(block = 32, cluster = 4)]
pub unsafe fn send_to_all(out: *mut u32) {
    let (received, memory) = (shared_array![[u32; 4]; 128, align = 16], shared_array![u64; 1]);
    let (thread, rank) = (thread::thread_idx_x() as usize, cluster::rank());
    let size = cluster::size();
    let arrived = Mbarrier::new(memory, 0);
    // SAFETY: the barrier expects what all blocks send, is known to all before, and each place is one sender's; no block ends before it has
    // got everything.
    unsafe {
        if thread == 0 {
            arrived.init(1);
            let _ = arrived.arrive_expecting(size * 32 * 16);
            fence_init();
        }
        cluster::sync();
        for to in 0..size {
            let place = received.as_mut_ptr().add(rank as usize * 32 + thread);
            let words = [rank, to, thread as u32, block() as u32];
            cluster::store_async(place, words, arrived, to);
        }
        arrived.wait_parity_in_cluster(0);
        let mut sums = [0u32; 4];
        for from in 0..size as usize {
            let words = received.get(from * 32 + thread);
            for (sum, word) in sums.iter_mut().zip(words) {
                *sum = *sum * 100 + word;
            }
        }
        let to = out.add((block() * 32 + thread) * 4);
        for (i, sum) in sums.into_iter().enumerate() {
            to.add(i).write(sum);
        }
    }
}

/// Counts values below 16 in counters spread over a cluster of two.
#[kernel(block = 64, cluster = 2)]
pub fn histogram(index: ThreadIndex, x: &[u32], counts: AtomicSlice<u32>) {
    ClusterCounters::<BINS>::with(|counters| {
        for i in index.grid_stride(x.len()) {
            let value = x[i.get()] as usize;
            counters.fetch_add((value / BINS) as u32, value % BINS, 1);
        }
        cluster::sync();
        let bin = thread::thread_idx_x() as usize;
        if bin < BINS {
            let other = cluster::rank() ^ 1;
            counts.fetch_add(other as usize * BINS + bin, counters.get(other, bin), Relaxed);
        }
    });
}

/// A block of which every thread panics while the other block of its cluster reaches for its counters.
#[kernel(block = 64, cluster = 2)]
pub fn panics_beside(x: &[u32], counts: AtomicSlice<u32>) {
    ClusterCounters::<BINS>::with(|counters| {
        let count = if cluster::rank() == 0 { x[x.len()] } else { 1 };
        for _ in 0..100 {
            counters.fetch_add(0, 0, count);
        }
        counts.fetch_add(0, counters.get(0, 0), Relaxed);
    });
}

/// Threads of a cluster pass a number on through a word in the first block's shared memory.
///
/// # Safety
/// `out` has one value for each block.
#[kernel(block = 32, cluster = 4)]
pub unsafe fn handed_on(out: *mut u32) {
    let memory = shared_array![u32; 2];
    // SAFETY: the word is reached by atomic operations of the cluster's scope, and the payload by the
    // one whose turn it is.
    unsafe {
        if thread::thread_idx_x() == 0 {
            memory.set(0, 0);
            memory.set(1, 5);
        }
        cluster::sync();
        let (turn, payload) = (
            cluster::map_shared(memory.as_mut_ptr(), 0),
            cluster::map_shared(memory.as_mut_ptr().add(1), 0),
        );
        if thread::thread_idx_x() == 0 {
            while atomic::fetch_add(turn, 0, Acquire, Scope::Cluster) != cluster::rank() {}
            let value = payload.read();
            payload.write(3 * value + 1);
            out.add(block()).write(value);
            atomic::fence(SeqCst, Scope::Cluster);
            atomic::fetch_add(turn, 1, Release, Scope::Cluster);
        }
        cluster::sync();
    }
}

/// The first block copies one tile and one range to all blocks of its cluster.
///
/// # Safety
/// `range` has 64 values; `out` 320 for each block.
#[kernel(block = 32, cluster = 2)]
pub unsafe fn multicast(
    x: &TensorMap<[[u32; 32]; 8], Swizzle128>,
    range: *const u32,
    out: *mut u32,
) {
    let tile = shared_array![Tile<[[u32; 32]; 8], Swizzle128>; 1];
    let (words, memory) = (shared_array![u32; 64], shared_array![u64; 1]);
    let (barrier, thread) = (Mbarrier::new(memory, 0), thread::thread_idx_x() as usize);
    // SAFETY: every block's barrier expects what comes before the copies start, and every block lives
    // until the last barrier.
    unsafe {
        if thread == 0 {
            barrier.init(1);
            fence_init();
            let _ = barrier.arrive_expecting(1024 + 256);
        }
        cluster::sync();
        if cluster::rank() == 0 && thread == 0 {
            x.load_multicast(tile.as_mut_ptr(), [8, 0], barrier, 0b11);
            bulk_load_multicast(words.as_mut_ptr(), range, 256, barrier, 0b11);
        }
        barrier.wait_parity(0);
        let out = out.add(320 * block());
        for row in 0..8 {
            out.add(32 * row + thread).write((*tile.as_mut_ptr()).get([row, thread]));
        }
        out.add(256 + thread).write(words.get(thread));
        out.add(288 + thread).write(words.get(32 + thread));
    }
    cluster::sync();
}

/// Each block sends 64 values to the next one, and all arrive at the first block's barrier.
///
/// # Safety
/// `out` has 64 values for each block.
#[kernel(block = 64, cluster = 4)]
pub unsafe fn send(out: *mut u32) {
    let (from, to, memory) =
        (shared_array![u32; 64], shared_array![u32; 64], shared_array![u64; 2]);
    let (bytes, arrivals) = (Mbarrier::new(memory, 0), Mbarrier::new(memory, 1));
    let (thread, rank, size) = (thread::thread_idx_x() as usize, cluster::rank(), cluster::size());
    // SAFETY: as in `multicast`.
    unsafe {
        from.set(thread, 100 * rank + thread as u32);
        fence_proxy_async_shared();
        if thread == 0 {
            bytes.init(1);
            arrivals.init(size);
            fence_init();
            let _ = bytes.arrive_expecting(256);
        }
        cluster::sync();
        if thread == 0 {
            bulk_send(to.as_mut_ptr(), from.as_mut_ptr(), 256, bytes, (rank + 1) % size);
            bytes.wait_parity(0);
            arrivals.arrive_in(0);
        }
        bytes.wait_parity(0);
        if rank == 0 {
            arrivals.wait_parity_in_cluster(0);
        }
        out.add(64 * block() + thread).write(to.get(thread));
    }
    cluster::sync();
}
