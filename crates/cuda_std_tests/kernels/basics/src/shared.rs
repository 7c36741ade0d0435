//! Shared memory in every form.

use cuda_std::prelude::*;
use cuda_std::shared::dynamic_shared_mem;

/// Threads in a block.
const BLOCK: usize = 64;

/// Through the pointer, through a slice, and in a branch and a loop.
#[kernel]
pub fn two_arrays(index: ThreadIndex, rounds: u32, mut y: DisjointSlice<f32>) {
    let thread = thread::thread_idx_x() as usize;
    let mut sum = 0.0;
    for round in 0..rounds {
        let (a, b) = (shared_array![f32; BLOCK], shared_array![f32; BLOCK]);
        assert!(a.len() == BLOCK && !a.is_empty());
        // SAFETY: a thread's own element, or after a barrier.
        unsafe {
            a.as_mut_ptr().add(thread).write((thread as u32 + round) as f32);
            b.set(thread, 0.5);
        }
        thread::sync_threads();
        // SAFETY: a thread's own element, or after a barrier.
        sum += unsafe { a.as_slice().iter().sum::<f32>() + b.as_slice()[BLOCK - 1 - thread] };
        if thread == 0 {
            // SAFETY: a thread's own element, or after a barrier.
            sum += unsafe { *a.as_mut_ptr() + *b.as_mut_ptr() };
        }
        thread::sync_threads();
    }
    if let Some(y) = y.get_mut(index) {
        *y = sum;
    }
}

/// The same place from both arms of a branch that splits the block: one array.
#[kernel]
pub fn one_place(index: ThreadIndex, mut y: DisjointSlice<u32>) {
    let thread = thread::thread_idx_x() as usize;
    let place = || shared_array![u32; BLOCK].as_mut_ptr();
    if thread.is_multiple_of(2) {
        // SAFETY: a thread's own element, or after a barrier.
        unsafe { place().add(thread).write(2 * thread as u32) };
    } else {
        // SAFETY: a thread's own element, or after a barrier.
        unsafe { place().add(thread).write(3 * thread as u32) };
    }
    thread::sync_threads();
    if let Some(y) = y.get_mut(index) {
        // SAFETY: a thread's own element, or after a barrier.
        *y = unsafe { *place().add(thread ^ 1) };
    }
}

/// Exchanges values with the neighbour, whatever their type.
#[inline(always)]
fn neighbours<T: Copy, const N: usize>(value: T) -> T {
    let array = SharedArray::<T, N>::numbered::<0>();
    let thread = thread::thread_idx_x() as usize;
    // SAFETY: a thread's own element, or after a barrier.
    unsafe { array.set(thread, value) };
    thread::sync_threads();
    // SAFETY: a thread's own element, or after a barrier.
    let neighbour = unsafe { array.get(thread ^ 1) };
    thread::sync_threads();
    neighbour
}

#[kernel]
pub fn generic(index: ThreadIndex, mut y: DisjointSlice<u32>, mut z: DisjointSlice<f64>) {
    let own = index.get();
    let (a, b) = (neighbours::<u32, BLOCK>(own as u32), neighbours::<f64, BLOCK>(own as f64));
    if let (Some(y), Some(z)) = (y.get_mut(index), z.get_mut(index)) {
        (*y, *z) = (a, b);
    }
}

#[kernel]
pub fn dynamic(index: ThreadIndex, mut y: DisjointSlice<u32>) {
    let memory = dynamic_shared_mem::<u32>();
    let thread = thread::thread_idx_x() as usize;
    // SAFETY: a thread's own element, or after a barrier.
    unsafe { memory.add(thread).write(index.get() as u32) };
    thread::sync_threads();
    if let Some(y) = y.get_mut(index) {
        // SAFETY: a thread's own element, or after a barrier.
        *y = unsafe { *memory.add(thread ^ 1) };
    }
}

#[kernel]
pub fn histogram(index: ThreadIndex, bytes: &[u8], counts: AtomicSlice<u32>) {
    let block = SharedAtomics::<256>::zeroed();
    for i in index.grid_stride(bytes.len()) {
        block.add(bytes[i.get()] as usize, 1);
    }
    thread::sync_threads();
    let mut bin = thread::index_in_block() as usize;
    while bin < 256 {
        counts.fetch_add(bin, block.get(bin), Relaxed);
        bin += thread::threads_in_block() as usize;
    }
}
