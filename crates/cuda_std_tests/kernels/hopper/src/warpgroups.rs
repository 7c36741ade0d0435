//! `wgmma`: every width, type and swizzle.

use cuda_std::copy::*;
use cuda_std::matrix::*;
use cuda_std::mbarrier::{Mbarrier, fence_init};
use cuda_std::prelude::*;
use cuda_std::{bf16, f16};

/// Threads in a block.
pub const BLOCK: usize = 128;

/// Loads 64 rows of `a` and N rows of `b` whose K is one span, multiplies them twice (the second time
/// on top of the first), and writes the sums, row by row.
///
/// # Safety
/// One warpgroup; the memory is nobody else's; `c` has room for 64 × N sums.
#[inline(always)]
unsafe fn product<T, U, V, S, const KA: usize, const KB: usize, const N: usize>(
    left: SharedArray<Tile<[[T; KA]; 64], S>, 1>,
    right: SharedArray<Tile<[[U; KB]; N], S>, 1>,
    memory: SharedArray<u64, 1>,
    a: &TensorMap<[[T; KA]; 64], S>,
    b: &TensorMap<[[U; KB]; N], S>,
    c: *mut V,
) where
    T: TensorElement,
    U: TensorElement,
    V: bytemuck::Zeroable + Copy,
    S: Swizzle,
    Columns<N>: Instruction<T, U, V>,
{
    let barrier = Mbarrier::new(memory, 0);
    // SAFETY: one thread copies, all wait; the sums are looked at when they are done.
    unsafe {
        if thread::thread_idx_x() == 0 {
            barrier.init(1);
            fence_init();
            let bytes = Tile::<[[T; KA]; 64], S>::BYTES + Tile::<[[U; KB]; N], S>::BYTES;
            let _ = barrier.arrive_expecting(bytes as u32);
            a.load(left.as_mut_ptr(), [0, 0], barrier);
            b.load(right.as_mut_ptr(), [0, 0], barrier);
        }
        thread::sync_threads();
        barrier.wait_parity(0);
        let mut sums = Accumulator::<V, N>::zeroed();
        for round in 0..2 {
            sums.multiply(left.as_mut_ptr(), 0, right.as_mut_ptr(), round > 0);
        }
        sums.wait::<0>();
        sums.for_each_pair(thread_in_warpgroup(), |row, column, [even, odd]| {
            c.add(row * N + column).write(even);
            c.add(row * N + column + 1).write(odd);
        });
    }
}

macro_rules! products {
    ($($name:ident: $a:ty, $b:ty, $c:ty, $k:literal $n:literal $swizzle:ty;)*) => {$(
        /// # Safety
        /// As [`product`].
        #[kernel(block = BLOCK)]
        pub unsafe fn $name(
            a: &TensorMap<[[$a; $k]; 64], $swizzle>,
            b: &TensorMap<[[$b; $k]; $n], $swizzle>,
            c: *mut $c,
        ) {
            let left = shared_array![Tile<[[$a; $k]; 64], $swizzle>; 1];
            let right = shared_array![Tile<[[$b; $k]; $n], $swizzle>; 1];
            // SAFETY: the caller's promise.
            unsafe { product(left, right, shared_array![u64; 1], a, b, c) }
        }
    )*};
}

products! {
    wgmma_bf16_8: bf16, bf16, f32, 64 8 Swizzle128;
    wgmma_bf16_16: bf16, bf16, f32, 64 16 Swizzle128;
    wgmma_bf16_32: bf16, bf16, f32, 64 32 Swizzle128;
    wgmma_bf16_64: bf16, bf16, f32, 64 64 Swizzle128;
    wgmma_bf16_96: bf16, bf16, f32, 64 96 Swizzle128;
    wgmma_bf16_128: bf16, bf16, f32, 64 128 Swizzle128;
    wgmma_bf16_192: bf16, bf16, f32, 64 192 Swizzle128;
    wgmma_bf16_256: bf16, bf16, f32, 64 256 Swizzle128;
    wgmma_bf16_32_wide: bf16, bf16, f32, 32 32 Swizzle64;
    wgmma_bf16_16_wide: bf16, bf16, f32, 16 32 Swizzle32;
    wgmma_f16_64: f16, f16, f32, 64 64 Swizzle128;
    wgmma_tf32_64: Tf32, Tf32, f32, 32 64 Swizzle128;
    wgmma_e4m3_32: E4m3, E4m3, f32, 128 32 Swizzle128;
    wgmma_e4m3_e5m2: E4m3, E5m2, f32, 128 32 Swizzle128;
    wgmma_e5m2_e4m3: E5m2, E4m3, f32, 64 16 Swizzle64;
    wgmma_e5m2_32: E5m2, E5m2, f32, 128 32 Swizzle128;
    wgmma_i8_64: i8, i8, i32, 128 64 Swizzle128;
    wgmma_i8_32: i8, i8, i32, 64 32 Swizzle64;
    wgmma_u8_8: u8, u8, i32, 32 8 Swizzle32;
    wgmma_u8_128: u8, u8, i32, 128 128 Swizzle128;
    wgmma_i8_u8: i8, u8, i32, 128 64 Swizzle128;
    wgmma_u8_i8: u8, i8, i32, 64 32 Swizzle64;
}

/// [`product`] with the left operand in registers, from global memory.
///
/// # Safety
/// As [`product`]; `a` has 64 × K values.
#[inline(always)]
unsafe fn product_of_fragments<H, T, U, V, S, const KB: usize, const N: usize>(
    right: SharedArray<Tile<[[U; KB]; N], S>, 1>,
    memory: SharedArray<u64, 1>,
    a: *const T,
    b: &TensorMap<[[U; KB]; N], S>,
    c: *mut V,
) where
    H: Holds<A, T, Registers = [u32; 4]>,
    T: Element<Register = u32>,
    U: TensorElement,
    V: bytemuck::Zeroable + Copy,
    S: Swizzle,
    Columns<N>: Instruction<T, U, V>,
{
    let barrier = Mbarrier::new(memory, 0);
    let (warp, lane) = (thread_in_warpgroup() / 32, thread_in_warpgroup() % 32);
    // SAFETY: one thread copies, all wait; the sums are looked at when they are done.
    unsafe {
        if thread::thread_idx_x() == 0 {
            barrier.init(1);
            fence_init();
            let _ = barrier.arrive_expecting(Tile::<[[U; KB]; N], S>::BYTES as u32);
            b.load(right.as_mut_ptr(), [0, 0], barrier);
        }
        thread::sync_threads();
        barrier.wait_parity(0);
        let mut sums = Accumulator::<V, N>::zeroed();
        for step in 0..KB / H::K {
            let rows = a.add(16 * warp * KB + step * H::K);
            let own = FragmentA::<H, T>::fill(lane, |row, k| *rows.add(row * KB + k));
            sums.multiply_fragment(own, right.as_mut_ptr(), step, step > 0);
            sums.wait::<0>();
        }
        sums.for_each_pair(thread_in_warpgroup(), |row, column, [even, odd]| {
            c.add(row * N + column).write(even);
            c.add(row * N + column + 1).write(odd);
        });
    }
}

macro_rules! fragments {
    ($($name:ident: $shape:ident $a:ty, $b:ty, $c:ty, $k:literal $n:literal $swizzle:ty;)*) => {$(
        /// # Safety
        /// As [`product_of_fragments`].
        #[kernel(block = BLOCK)]
        pub unsafe fn $name(a: *const $a, b: &TensorMap<[[$b; $k]; $n], $swizzle>, c: *mut $c) {
            let right = shared_array![Tile<[[$b; $k]; $n], $swizzle>; 1];
            // SAFETY: the caller's promise.
            unsafe {
                product_of_fragments::<$shape, $a, $b, $c, $swizzle, $k, $n>(
                    right, shared_array![u64; 1], a, b, c,
                )
            }
        }
    )*};
}

fragments! {
    fragments_bf16: M16N8K16 bf16, bf16, f32, 64 64 Swizzle128;
    fragments_f16: M16N8K16 f16, f16, f32, 32 16 Swizzle64;
    fragments_tf32: M16N8K8 Tf32, Tf32, f32, 32 32 Swizzle128;
    fragments_e4m3_e5m2: M16N8K32 E4m3, E5m2, f32, 128 32 Swizzle128;
    fragments_i8_u8: M16N8K32 i8, u8, i32, 128 128 Swizzle128;
}

/// Both operands with M and N contiguous: 64 rows of K of each.
///
/// # Safety
/// One warpgroup; `c` has room for 64 × 64 sums.
#[kernel(block = BLOCK)]
pub unsafe fn wgmma_columns(
    a: &TensorMap<[[bf16; 64]; 64], Swizzle128>,
    b: &TensorMap<[[bf16; 64]; 64], Swizzle128>,
    c: *mut f32,
) {
    let left = shared_array![Tile<[[bf16; 64]; 64], Swizzle128>; 1].as_mut_ptr();
    let right = shared_array![Tile<[[bf16; 64]; 64], Swizzle128>; 1].as_mut_ptr();
    let barrier = Mbarrier::new(shared_array![u64; 1], 0);
    // SAFETY: one thread copies, all wait; the sums are looked at when they are done.
    unsafe {
        if thread::thread_idx_x() == 0 {
            barrier.init(1);
            fence_init();
            let _ = barrier.arrive_expecting(16384);
            a.load(left, [0, 0], barrier);
            b.load(right, [0, 0], barrier);
        }
        thread::sync_threads();
        barrier.wait_parity(0);
        let mut sums = Accumulator::<f32, 64>::zeroed();
        let operands =
            |first| [Descriptor::of_columns(left, first), Descriptor::of_columns(right, first)];
        // The four steps as two groups.
        sums.multiply_operands::<bf16, bf16, 2, true, true>(operands(0), false);
        sums.multiply_operands::<bf16, bf16, 1, true, true>(operands(32), true);
        sums.multiply_operands::<bf16, bf16, 1, true, true>(operands(48), true);
        wait_multiplications::<1>();
        sums.wait::<0>();
        sums.for_each_pair(thread_in_warpgroup(), |row, column, [even, odd]| {
            c.add(row * 64 + column).write(even);
            c.add(row * 64 + column + 1).write(odd);
        });
    }
}

/// Each thread writes its warpgroup and its number there, after one has given registers to the other.
#[kernel(block = 256, min_blocks = 1)]
pub fn wgmma_groups(index: ThreadIndex, mut out: DisjointSlice<u32>) {
    let group = warpgroup_id();
    // SAFETY: each warpgroup by itself; less than the 255 at entry, and then at most 232.
    unsafe {
        if group == 0 {
            lower_registers::<40>();
        } else {
            raise_registers::<232>();
        }
    }
    if let Some(out) = out.get_mut(index) {
        *out = (1000 * group + thread_in_warpgroup()) as u32;
    }
}
