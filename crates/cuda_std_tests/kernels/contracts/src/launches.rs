//! Kernels that demand something of their launch.

use cuda_std::prelude::*;

pub const BLOCK: u32 = 96;
pub const WIDE: usize = 32;

/// What a thread sees of its place: 3 numbers.
pub type Place = [u32; 3];

/// A block of one dimension, from a constant of the crate and an expression.
#[kernel(block = BLOCK * 2, min_blocks = 2)]
pub fn line(index: ThreadIndex, mut out: DisjointSlice<Place>) {
    if let Some(out) = out.get_mut(index) {
        *out = [thread::block_dim_x(), thread::thread_idx_x(), thread::block_idx_x()];
    }
}

/// A block of two dimensions; the table has an element for each thread of a block.
#[kernel(block = (WIDE, 8))]
pub fn plane(index: ThreadIndex2, table: &[u32; 256], mut out: DisjointGrid<u32>) {
    if let Some(out) = out.get_mut(index) {
        let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
        *out = table[(y * thread::block_dim_x() + x) as usize];
    }
}

/// A block of three dimensions and no index.
#[kernel(block = (4, 2, 3))]
pub fn body(counts: AtomicSlice<u32>) {
    let place = thread::thread_idx_z() * 8 + thread::thread_idx_y() * 4 + thread::thread_idx_x();
    counts.fetch_add(place as usize, 1 + thread::block_idx_z(), Relaxed);
}

/// At most so many threads and registers.
#[kernel(max_threads = 128, max_registers = 32)]
pub fn bounded(index: ThreadIndex, mut out: DisjointSlice<u32>) {
    if let Some(out) = out.get_mut(index) {
        *out = thread::block_dim_x();
    }
}

/// Every block adds one, then waits until all have: only a grid that is on the device at once ends.
#[kernel(block = 64, cooperative)]
pub fn meet(counter: AtomicSlice<u32>, seen: AtomicSlice<u32>) {
    if thread::thread_idx_x() == 0 {
        counter.fetch_add(0, 1, AcqRel);
        while counter.load(0, Acquire) < thread::grid_dim_x() {
            thread::nanosleep(100);
        }
        seen.store(thread::block_idx_x() as usize, counter.load(0, Relaxed), Relaxed);
    }
}

/// Each block writes how many blocks its cluster has, and its number in it.
#[kernel(block = 32, cluster = (2, 2))]
pub fn clusters(ranks: AtomicSlice<u32>, sizes: AtomicSlice<u32>) {
    if thread::thread_idx_x() == 0 {
        let block = (thread::block_idx_y() * thread::grid_dim_x() + thread::block_idx_x()) as usize;
        ranks.store(block, register::cluster_rank(), Relaxed);
        sizes.store(block, register::cluster_blocks(), Relaxed);
    }
}

/// The same with a cluster that not every device can hold.
#[kernel(block = 32, cluster = 16)]
#[allow(clippy::missing_const_for_fn)]
pub fn large_clusters(ranks: AtomicSlice<u32>) {
    if thread::thread_idx_x() == 0 {
        ranks.store(thread::block_idx_x() as usize, register::cluster_rank(), Relaxed);
    }
}

/// Reverses a block through dynamic shared memory of a fixed type.
#[kernel(block = 64, dynamic_shared = [u32; 64])]
pub fn fixed_shared(index: ThreadIndex, mut data: DisjointSlice<u32>) {
    reverse(index, &mut data);
}

/// The same with a size that the launch chooses.
#[kernel(block = 64, dynamic_shared = 4 * 64..=1024)]
pub fn ranged_shared(index: ThreadIndex, mut data: DisjointSlice<u32>) {
    reverse(index, &mut data);
}

/// Dynamic shared memory as a number of elements.
#[kernel(dynamic_shared = [[u32; 3]])]
pub fn element_shared(index: ThreadIndex, mut data: DisjointSlice<u32>) {
    if let Some(data) = data.get_mut(index) {
        *data = register::dynamic_shared_bytes();
    }
}

#[inline(always)]
fn reverse(index: ThreadIndex, data: &mut DisjointSlice<u32>) {
    let scratch = cuda_std::shared::dynamic_shared_mem::<u32>();
    let thread = thread::thread_idx_x() as usize;
    let last = thread::block_dim_x() as usize - 1;
    // SAFETY: the block has 64 threads and as many elements; each thread writes its own.
    unsafe { *scratch.add(thread) = data.get(index).copied().unwrap_or(0) };
    // Every element is written before another thread reads it.
    thread::sync_threads();
    if let Some(data) = data.get_mut(index) {
        // SAFETY: inside, and written before the barrier.
        *data = unsafe { *scratch.add(last - thread) };
    }
}

/// Special registers that these tests look at.
mod register {
    use cuda_std::gpu_only;

    macro_rules! registers {
        ($($name:ident = $register:literal;)*) => {$(
            #[gpu_only]
            #[inline(always)]
            pub fn $name() -> u32 {
                let value: u32;
                // SAFETY: reading a special register has no precondition.
                unsafe {
                    core::arch::asm!(
                        concat!("mov.u32 {0}, ", $register, ";"),
                        out(reg32) value,
                        options(pure, nomem, nostack),
                    );
                }
                value
            }
        )*};
    }

    registers! {
        cluster_rank = "%cluster_ctarank";
        cluster_blocks = "%cluster_nctarank";
        dynamic_shared_bytes = "%dynamic_smem_size";
    }
}
