//! What warps multiply: how the elements of a tile in shared memory become fragments of `mma`.
//!
//! A tile holds rows as they lie in global memory. Where K is contiguous, a row is one row of A (or column of B), and a stage
//! has [`STAGE_BYTES`](Operand::DEPTH) of each; where it is not, a row is one index of K. Either way a lane finds its
//! elements at `(base ^ along) + across`: `base` is its own place, swizzled, `along` a distance within the row, and `across`
//! a number of whole rows. The exclusive or is an addition, because the bits of a distance are 0 in the base before it is
//! swizzled, and the bits that decide the swizzle are those of the row, which a distance across does not change.

#![allow(unexpected_cfgs)]

use super::{SIDE, WARP_COLUMNS, WARP_ROWS};
use crate::matmul::bytes::Byte;
use crate::matmul::tf32::split;
use bytemuck::Pod;
use core::marker::PhantomData;
use cuda_std::intrinsics::byte_perm;
use cuda_std::layout::Swizzle;
use cuda_std::matrix::{
    FragmentA, FragmentB, FragmentC, M16N8K8, M16N8K16, M16N8K32, Tf32, load_matrices,
    mma_converged,
};
use cuda_std::number::{E4m3, E5m2};
use cuda_std::{bf16, f16};

/// Elements that a warp multiplies, 16 × K by K × 8, by one instruction or a few.
///
/// `BY_K` says in which order the tile lies: rows whose elements are contiguous along K, or rows of K that are contiguous along
/// the other dimension.
///
/// # Safety
/// The functions read the tile inside its `SIDE` rows of `DEPTH` (or `DEPTH` rows of `SIDE`) elements, for each fragment below
/// the warp's number of them, and each step below `DEPTH / K`.
pub unsafe trait Operand: Sized + 'static {
    /// What the matrices hold.
    type Element: Pod;
    /// What is added.
    type Sum: Pod;
    /// A lane's part of 16 rows of A.
    type Left: Copy;
    /// A lane's part of 8 columns of B.
    type Right: Copy;

    /// K of a multiplication.
    const K: usize;
    /// K of a stage.
    const DEPTH: usize;
    /// Stages whose products are added by the tensor cores before the sum is added to others by ordinary cores; 0 if all are
    /// one chain.
    const CHAIN: usize = 0;
    /// How rows along K are swizzled.
    const ROWS: Swizzle;
    /// How rows of K are swizzled.
    const COLUMNS: Swizzle;

    /// Bytes of a row of a tile.
    #[inline(always)]
    fn row_bytes<const BY_K: bool>() -> usize {
        size_of::<Self::Element>() * if BY_K { Self::DEPTH } else { SIDE }
    }

    /// The swizzle of a tile.
    #[inline(always)]
    fn swizzle<const BY_K: bool>() -> Swizzle {
        if BY_K { Self::ROWS } else { Self::COLUMNS }
    }

    /// The base of a lane in a tile of A: the warp's rows begin at `row`.
    fn left_base<const BY_K: bool>(lane: usize, row: usize) -> usize;
    /// The base of a lane in a tile of B: the warp's columns begin at `column`.
    fn right_base<const BY_K: bool>(lane: usize, column: usize) -> usize;

    /// Rows `16 i` to `16 i + 15` of the warp, step `step` along K.
    ///
    /// # Safety
    /// All lanes of a warp call this together; the tile is in shared memory, written, and `base` that of the lane.
    unsafe fn left<const BY_K: bool>(
        tile: *const u8,
        base: usize,
        i: usize,
        step: usize,
    ) -> Self::Left;

    /// Columns `16 j` to `16 j + 15` of the warp, in two halves.
    ///
    /// # Safety
    /// As [`left`](Self::left).
    unsafe fn right<const BY_K: bool>(
        tile: *const u8,
        base: usize,
        j: usize,
        step: usize,
    ) -> [Self::Right; 2];

    /// `sums += left · right`.
    ///
    /// # Safety
    /// As [`mma_converged`].
    unsafe fn multiply(
        left: Self::Left,
        right: Self::Right,
        sums: [Self::Sum; 4],
    ) -> [Self::Sum; 4];

    /// `sums` and the sums of a chain.
    #[inline(always)]
    fn add(sums: [Self::Sum; 4], _chain: [Self::Sum; 4]) -> [Self::Sum; 4] {
        sums
    }

    /// The rows, of 16, of a lane's first two sums and of its last two.
    #[inline(always)]
    fn rows<const BY_K: bool>(lane: usize) -> [usize; 2] {
        [lane / 4, lane / 4 + 8]
    }

    /// The columns, of 16, of a lane's sums in both halves of a pair of fragments: two neighbours each.
    #[inline(always)]
    fn columns<const BY_K: bool>(lane: usize) -> [[usize; 2]; 2] {
        let first = lane % 4 * 2;
        [[first, first + 1], [first + 8, first + 9]]
    }
}

/// The base of a lane for `ldmatrix`, where rows are contiguous along K. Lanes 8 m to 8 m + 7 name the rows of matrix m, which
/// are those of its number's bit `down`; the other bit is the half of 32 bytes along K.
#[inline(always)]
fn rows_base<O: Operand>(lane: usize, first: usize, down: usize) -> usize {
    let (down, along) =
        if down == 0 { (lane / 8 % 2, lane / 16) } else { (lane / 16, lane / 8 % 2) };
    O::ROWS.apply((first + 8 * down + lane % 8) * O::row_bytes::<true>() + 16 * along)
}

/// `ldmatrix` of 16 rows along K: 32 bytes of step `step`.
///
/// # Safety
/// As [`Operand::left`].
#[inline(always)]
unsafe fn load_rows<O: Operand>(tile: *const u8, base: usize, i: usize, step: usize) -> [u32; 4] {
    let offset = (base ^ (32 * step)) + 16 * i * O::row_bytes::<true>();
    // SAFETY: the caller's promise.
    unsafe { load_matrices::<4, false>(tile.wrapping_add(offset)) }
}

/// What elements of at most 32 bits share: rows along K come by `ldmatrix`, whatever their elements.
macro_rules! by_rows {
    ($k:expr, $sum:ty) => {
        type Sum = $sum;
        const K: usize = $k;
        const DEPTH: usize = 2 * $k;
        const ROWS: Swizzle = Swizzle::new(2, 4, 3);

        #[inline(always)]
        fn left_base<const BY_K: bool>(lane: usize, row: usize) -> usize {
            if BY_K { rows_base::<Self>(lane, row, 0) } else { Self::columns_base(lane, row, 0) }
        }

        #[inline(always)]
        fn right_base<const BY_K: bool>(lane: usize, column: usize) -> usize {
            if BY_K {
                rows_base::<Self>(lane, column, 1)
            } else {
                Self::columns_base(lane, column, 1)
            }
        }
    };
}

/// 16-bit floats: both orders by `ldmatrix`.
macro_rules! halves {
    ($($half:ident)*) => {$(
        impl Halves for $half {}

        // SAFETY: by `load_rows` and `load_columns`.
        unsafe impl Operand for $half {
            by_rows!(16, f32);
            type Element = Self;
            type Left = FragmentA<M16N8K16, Self>;
            type Right = FragmentB<M16N8K16, Self>;
            const COLUMNS: Swizzle = Swizzle::new(3, 4, 4);

            #[inline(always)]
            unsafe fn left<const BY_K: bool>(
                tile: *const u8, base: usize, i: usize, step: usize,
            ) -> Self::Left {
                // SAFETY: the caller's promise.
                FragmentA::from_registers(unsafe { Self::load::<BY_K>(tile, base, i, step) })
            }

            #[inline(always)]
            unsafe fn right<const BY_K: bool>(
                tile: *const u8, base: usize, j: usize, step: usize,
            ) -> [Self::Right; 2] {
                // SAFETY: the caller's promise.
                let [a, b, c, d] = unsafe { Self::load::<BY_K>(tile, base, j, step) };
                [FragmentB::from_registers([a, b]), FragmentB::from_registers([c, d])]
            }

            #[inline(always)]
            unsafe fn multiply(left: Self::Left, right: Self::Right, sums: [f32; 4]) -> [f32; 4] {
                let sums = FragmentC::<M16N8K16, f32>::from_registers(sums);
                // SAFETY: the caller's promise.
                unsafe { mma_converged(left, right, sums) }.registers()
            }
        }
    )*};
}

/// How rows of K become fragments of 16-bit elements: `ldmatrix` transposes.
trait Halves: Operand {
    /// As `rows_base`; bit `down` of a matrix's number is the half of 16 along the row, and the other one that of K.
    #[inline(always)]
    fn columns_base(lane: usize, first: usize, down: usize) -> usize {
        let (k, along) =
            if down == 0 { (lane / 16, lane / 8 % 2) } else { (lane / 8 % 2, lane / 16) };
        let row = (8 * k + lane % 8) * Self::row_bytes::<false>();
        Self::COLUMNS.apply(row + 2 * (first + 8 * along))
    }

    /// The registers of 16 rows of A or columns of B.
    ///
    /// # Safety
    /// As [`Operand::left`].
    #[inline(always)]
    unsafe fn load<const BY_K: bool>(
        tile: *const u8,
        base: usize,
        i: usize,
        step: usize,
    ) -> [u32; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            if BY_K {
                return load_rows::<Self>(tile, base, i, step);
            }
            let offset = (base ^ (32 * i)) + 16 * step * Self::row_bytes::<false>();
            load_matrices::<4, true>(tile.wrapping_add(offset))
        }
    }
}

halves! { f16 bf16 }

/// How rows of K become fragments of elements of 32 bits, which lanes read one by one.
trait Singles: Operand {
    /// As `rows_base`: a lane's element of the first 8 rows and 4 of K.
    #[inline(always)]
    fn columns_base(lane: usize, first: usize, _: usize) -> usize {
        let row = lane % 4 * Self::row_bytes::<false>();
        Self::COLUMNS.apply(row + 4 * (first + lane / 4))
    }
}

impl Singles for Tf32 {}
impl Singles for ThreeTf32 {}

/// The registers of 16 rows of A, or columns of B, of `f32` in either order. Those of A alternate the halves of 16 rows, those
/// of B the halves of 8 along K.
///
/// # Safety
/// As [`Operand::left`].
#[inline(always)]
unsafe fn load_singles<const BY_K: bool, const LEFT: bool>(
    tile: *const u8,
    base: usize,
    i: usize,
    step: usize,
) -> [u32; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        if BY_K {
            return load_rows::<Tf32>(tile, base, i, step);
        }
        let row = Tf32::row_bytes::<false>();
        let one = |half: usize, k: usize| {
            let offset = (base ^ (64 * i + 32 * half)) + (8 * step + 4 * k) * row;
            tile.wrapping_add(offset).cast::<u32>().read()
        };
        if LEFT {
            [one(0, 0), one(1, 0), one(0, 1), one(1, 1)]
        } else {
            [one(0, 0), one(0, 1), one(1, 0), one(1, 1)]
        }
    }
}

/// The nearest TF32 of the bits of an `f32`, ties away from zero; the tensor cores ignore the lower 13 bits. NaN and
/// infinities stay.
#[inline(always)]
fn to_tf32(bits: u32) -> u32 {
    #[cfg(target_os = "cuda")]
    {
        let rounded: u32;
        // SAFETY: the assembly converts a number.
        unsafe {
            core::arch::asm!("cvt.rna.tf32.f32 {r}, {x};", r = out(reg32) rounded, x = in(reg32) bits,
                options(pure, nomem, nostack));
        }
        rounded
    }
    #[cfg(not(target_os = "cuda"))]
    Tf32::from_f32(f32::from_bits(bits)).to_f32().to_bits()
}

/// `f32` in memory, rounded to TF32.
// SAFETY: by `load_singles`.
unsafe impl Operand for Tf32 {
    by_rows!(8, f32);
    type Element = Self;
    type Left = FragmentA<M16N8K8, Self>;
    type Right = FragmentB<M16N8K8, Self>;
    const COLUMNS: Swizzle = Swizzle::new(2, 5, 4);

    #[inline(always)]
    unsafe fn left<const BY_K: bool>(
        tile: *const u8,
        base: usize,
        i: usize,
        step: usize,
    ) -> Self::Left {
        // SAFETY: the caller's promise.
        let [a, b, c, d] = unsafe { load_singles::<BY_K, true>(tile, base, i, step) };
        FragmentA::from_registers([to_tf32(a), to_tf32(b), to_tf32(c), to_tf32(d)])
    }

    #[inline(always)]
    unsafe fn right<const BY_K: bool>(
        tile: *const u8,
        base: usize,
        j: usize,
        step: usize,
    ) -> [Self::Right; 2] {
        // SAFETY: the caller's promise.
        let [a, b, c, d] = unsafe { load_singles::<BY_K, false>(tile, base, j, step) };
        let half = |a, b| FragmentB::from_registers([to_tf32(a), to_tf32(b)]);
        [half(a, b), half(c, d)]
    }

    #[inline(always)]
    unsafe fn multiply(left: Self::Left, right: Self::Right, sums: [f32; 4]) -> [f32; 4] {
        let sums = FragmentC::<M16N8K8, f32>::from_registers(sums);
        // SAFETY: the caller's promise.
        unsafe { mma_converged(left, right, sums) }.registers()
    }
}

/// `f32` as the sum of two TF32, multiplied as three products: an accuracy class of its own, near that of f32.
///
/// The sum of the products of the larger parts and of both mixed products is off by about 2^-21 of each product, as the parts have
/// 22 bits together and the product of the smaller ones is left out. The tensor cores cut sums off instead of rounding
/// them, which over a long K would weigh more than that: so each stage is a chain of its own, and ordinary cores add the
/// chains, rounding to nearest. (Ootomo and Yokota, "Recovering single precision accuracy from Tensor Cores while surpassing
/// the FP32 theoretical peak performance", 2022.)
///
/// Infinities, and magnitudes from 2^128 (1 - 2^-12) on, give NaN: their smaller part is none.
#[derive(Clone, Copy, Debug)]
pub struct ThreeTf32;

// SAFETY: by `load_singles`.
unsafe impl Operand for ThreeTf32 {
    by_rows!(8, f32);
    type Element = f32;
    type Left = [FragmentA<M16N8K8, Tf32>; 2];
    type Right = [FragmentB<M16N8K8, Tf32>; 2];
    const CHAIN: usize = 1;
    const COLUMNS: Swizzle = Tf32::COLUMNS;

    #[inline(always)]
    unsafe fn left<const BY_K: bool>(
        tile: *const u8,
        base: usize,
        i: usize,
        step: usize,
    ) -> Self::Left {
        // SAFETY: the caller's promise.
        let [a, b, c, d] = unsafe { load_singles::<BY_K, true>(tile, base, i, step) };
        let [a, b, c, d] = [split(a), split(b), split(c), split(d)];
        [0, 1].map(|part| FragmentA::from_registers([a[part], b[part], c[part], d[part]]))
    }

    #[inline(always)]
    unsafe fn right<const BY_K: bool>(
        tile: *const u8,
        base: usize,
        j: usize,
        step: usize,
    ) -> [Self::Right; 2] {
        // SAFETY: the caller's promise.
        let [a, b, c, d] = unsafe { load_singles::<BY_K, false>(tile, base, j, step) };
        let half = |a, b| {
            let (a, b) = (split(a), split(b));
            [0, 1].map(|part| FragmentB::from_registers([a[part], b[part]]))
        };
        [half(a, b), half(c, d)]
    }

    /// The small products first.
    #[inline(always)]
    unsafe fn multiply(left: Self::Left, right: Self::Right, sums: [f32; 4]) -> [f32; 4] {
        let ([upper_left, rest_left], [upper_right, rest_right]) = (left, right);
        // SAFETY: the caller's promise.
        unsafe {
            let sums = FragmentC::<M16N8K8, f32>::from_registers(sums);
            let sums = mma_converged(rest_left, upper_right, sums);
            let sums = mma_converged(upper_left, rest_right, sums);
            mma_converged(upper_left, upper_right, sums).registers()
        }
    }

    #[inline(always)]
    fn add(sums: [f32; 4], chain: [f32; 4]) -> [f32; 4] {
        [sums[0] + chain[0], sums[1] + chain[1], sums[2] + chain[2], sums[3] + chain[3]]
    }
}

/// How tiles of bytes become fragments. Rows of K come by `ldmatrix` too, which transposes pairs of bytes; a permutation of bytes then
/// parts the pairs. So the even rows of a fragment of 16 stand in its first half, and the odd ones in its second.
trait Bytes: Operand {
    /// Lanes 8 m to 8 m + 7 name the rows of K of matrix m: those with bit 1 of K as bit 0 of m, and bit 4 as bit 1 of m. Then
    /// a lane has four consecutive K in matrices 0 and 1, and the four 16 further in 2 and 3.
    #[inline(always)]
    fn columns_base(lane: usize, first: usize, _: usize) -> usize {
        let (matrix, row) = (lane / 8, lane % 8);
        let k = row % 2 + 2 * (matrix % 2) + 4 * (row / 2) + 16 * (matrix / 2);
        Self::COLUMNS.apply(k * Self::row_bytes::<false>() + first)
    }

    /// Four consecutive K of an even row (of 16) and the four 16 further, and the same of the odd row after it.
    ///
    /// # Safety
    /// As [`Operand::left`].
    #[inline(always)]
    unsafe fn load_pairs(tile: *const u8, base: usize, i: usize, step: usize) -> [[u32; 2]; 2] {
        let offset = (base ^ (16 * i)) + 32 * step * Self::row_bytes::<false>();
        // SAFETY: the caller's promise.
        let [a, b, c, d] = unsafe { load_matrices::<4, true>(tile.wrapping_add(offset)) };
        let bytes = |a: u32, b: u32, which| byte_perm(a as i32, b as i32, which) as u32;
        let of = |which| [bytes(a, b, which), bytes(c, d, which)];
        [of(0x6420), of(0x7531)]
    }

    /// The registers of 16 rows of A.
    ///
    /// # Safety
    /// As [`Operand::left`].
    #[inline(always)]
    unsafe fn load_left<const BY_K: bool>(
        tile: *const u8,
        base: usize,
        i: usize,
        step: usize,
    ) -> [u32; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            if BY_K {
                return load_rows::<Self>(tile, base, i, step);
            }
            let [[a, b], [c, d]] = Self::load_pairs(tile, base, i, step);
            [a, c, b, d]
        }
    }

    /// The registers of 16 columns of B, in two halves.
    ///
    /// # Safety
    /// As [`Operand::right`].
    #[inline(always)]
    unsafe fn load_right<const BY_K: bool>(
        tile: *const u8,
        base: usize,
        j: usize,
        step: usize,
    ) -> [[u32; 2]; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            if BY_K {
                let [a, b, c, d] = load_rows::<Self>(tile, base, j, step);
                return [[a, b], [c, d]];
            }
            Self::load_pairs(tile, base, j, step)
        }
    }
}

/// Where a lane's sums of bytes are.
macro_rules! places_of_bytes {
    () => {
        #[inline(always)]
        fn rows<const BY_K: bool>(lane: usize) -> [usize; 2] {
            let row = lane / 4;
            if BY_K { [row, row + 8] } else { [2 * row, 2 * row + 1] }
        }

        #[inline(always)]
        fn columns<const BY_K: bool>(lane: usize) -> [[usize; 2]; 2] {
            let first = lane % 4 * 2;
            if BY_K {
                [[first, first + 1], [first + 8, first + 9]]
            } else {
                [[2 * first, 2 * first + 2], [2 * first + 1, 2 * first + 3]]
            }
        }
    };
}

/// Integers of 8 bits.
macro_rules! integers {
    ($($byte:ident)*) => {$(
        impl Bytes for $byte {}

        // SAFETY: by `load_rows` and `Bytes::load_pairs`.
        unsafe impl Operand for $byte {
            by_rows!(32, i32);
            places_of_bytes!();
            type Element = Self;
            type Left = FragmentA<M16N8K32, Self>;
            type Right = FragmentB<M16N8K32, Self>;
            const COLUMNS: Swizzle = Swizzle::new(3, 4, 3);

            #[inline(always)]
            unsafe fn left<const BY_K: bool>(
                tile: *const u8, base: usize, i: usize, step: usize,
            ) -> Self::Left {
                // SAFETY: the caller's promise.
                FragmentA::from_registers(unsafe { Self::load_left::<BY_K>(tile, base, i, step) })
            }

            #[inline(always)]
            unsafe fn right<const BY_K: bool>(
                tile: *const u8, base: usize, j: usize, step: usize,
            ) -> [Self::Right; 2] {
                // SAFETY: the caller's promise.
                let [a, b] = unsafe { Self::load_right::<BY_K>(tile, base, j, step) };
                [FragmentB::from_registers(a), FragmentB::from_registers(b)]
            }

            #[inline(always)]
            unsafe fn multiply(left: Self::Left, right: Self::Right, sums: [i32; 4]) -> [i32; 4] {
                let sums = FragmentC::<M16N8K32, i32>::from_registers(sums);
                // SAFETY: the caller's promise.
                unsafe { mma_converged(left, right, sums) }.registers()
            }
        }
    )*};
}

integers! { i8 u8 }

/// Floats of 8 bits: `T` of A times `U` of B.
///
/// They are multiplied as halves, which hold each number of 8 bits: so every device since `sm_80` has them, and sums are those of halves. Four
/// consecutive K of a register become two registers, whose halves are K 0 and 1, 2 and 3 of both operands alike.
#[derive(Clone, Copy, Debug)]
pub struct Floats<T, U>(PhantomData<(T, U)>);

impl<T: Byte, U: Byte> Bytes for Floats<T, U> {}

/// What operands of 8-bit floats have in common: `$t` of A times `$u` of B.
macro_rules! floats {
    ($t:ty, $u:ty) => {
        by_rows!(32, f32);
        places_of_bytes!();
        type Left = [FragmentA<M16N8K16, f16>; 2];
        type Right = [FragmentB<M16N8K16, f16>; 2];
        const COLUMNS: Swizzle = Swizzle::new(3, 4, 3);

        #[inline(always)]
        unsafe fn left<const BY_K: bool>(
            tile: *const u8,
            base: usize,
            i: usize,
            step: usize,
        ) -> Self::Left {
            // SAFETY: the caller's promise.
            let [a, b, c, d] = unsafe { Self::load_left::<BY_K>(tile, base, i, step) };
            let of = |above: u32, below: u32| {
                let ([a, c], [b, d]) = (<$t>::halves_of_four(above), <$t>::halves_of_four(below));
                FragmentA::from_registers([a, b, c, d])
            };
            [of(a, b), of(c, d)]
        }

        #[inline(always)]
        unsafe fn right<const BY_K: bool>(
            tile: *const u8,
            base: usize,
            j: usize,
            step: usize,
        ) -> [Self::Right; 2] {
            let of = |four| FragmentB::from_registers(<$u>::halves_of_four(four));
            // SAFETY: the caller's promise.
            unsafe { Self::load_right::<BY_K>(tile, base, j, step) }.map(|half| half.map(of))
        }

        #[inline(always)]
        unsafe fn multiply(left: Self::Left, right: Self::Right, sums: [f32; 4]) -> [f32; 4] {
            let sums = FragmentC::<M16N8K16, f32>::from_registers(sums);
            // SAFETY: the caller's promise.
            unsafe {
                let sums = mma_converged(left[0], right[0], sums);
                mma_converged(left[1], right[1], sums).registers()
            }
        }
    };
}

// SAFETY: by `load_rows` and `Bytes::load_pairs`.
unsafe impl<T: Byte, U: Byte> Operand for Floats<T, U> {
    floats!(T, U);
    type Element = u8;
}

/// Implements [`Operand`] for floats of 8 bits that are multiplied by themselves.
macro_rules! alike {
    ($($float:ident)*) => {$(
        impl Bytes for $float {}

        // SAFETY: by `load_rows` and `Bytes::load_pairs`.
        unsafe impl Operand for $float {
            floats!($float, $float);
            type Element = Self;
        }
    )*};
}

alike! { E4m3 E5m2 }

/// `f64`: lanes read their elements one by one.
// SAFETY: `doubles` stays inside by the distances below.
unsafe impl Operand for f64 {
    type Element = Self;
    type Sum = Self;
    type Left = [f64; 4];
    type Right = [f64; 2];
    const K: usize = 8;
    const DEPTH: usize = 16;
    const ROWS: Swizzle = Swizzle::new(2, 5, 2);
    const COLUMNS: Swizzle = Swizzle::new(2, 5, 5);

    #[inline(always)]
    fn left_base<const BY_K: bool>(lane: usize, row: usize) -> usize {
        let (own, k) = (row + lane / 4, lane % 4);
        let (row, along) = if BY_K { (own, k) } else { (k, own) };
        Self::swizzle::<BY_K>().apply(row * Self::row_bytes::<BY_K>() + 8 * along)
    }

    #[inline(always)]
    fn right_base<const BY_K: bool>(lane: usize, column: usize) -> usize {
        Self::left_base::<BY_K>(lane, column)
    }

    #[inline(always)]
    unsafe fn left<const BY_K: bool>(
        tile: *const u8,
        base: usize,
        i: usize,
        step: usize,
    ) -> [f64; 4] {
        // SAFETY: the caller's promise.
        let one = |half, k| unsafe { double::<BY_K>(tile, base, 2 * i + half, 2 * step + k) };
        [one(0, 0), one(1, 0), one(0, 1), one(1, 1)]
    }

    #[inline(always)]
    unsafe fn right<const BY_K: bool>(
        tile: *const u8,
        base: usize,
        j: usize,
        step: usize,
    ) -> [[f64; 2]; 2] {
        // SAFETY: the caller's promise.
        let one = |half, k| unsafe { double::<BY_K>(tile, base, 2 * j + half, 2 * step + k) };
        [[one(0, 0), one(0, 1)], [one(1, 0), one(1, 1)]]
    }

    #[inline(always)]
    unsafe fn multiply(left: [f64; 4], right: [f64; 2], sums: [f64; 4]) -> [f64; 4] {
        // SAFETY: the caller's promise.
        unsafe { multiply_doubles(left, right, sums) }
    }
}

/// A lane's element in rows (or columns) `8 i` on, and `4 k` on along K.
///
/// # Safety
/// As [`Operand::left`].
#[inline(always)]
unsafe fn double<const BY_K: bool>(tile: *const u8, base: usize, i: usize, k: usize) -> f64 {
    let row_bytes = f64::row_bytes::<BY_K>();
    let (along, across) = if BY_K { (32 * k, 8 * i) } else { (64 * i, 4 * k) };
    // SAFETY: the caller's promise.
    unsafe { tile.wrapping_add((base ^ along) + across * row_bytes).cast::<f64>().read() }
}

/// One instruction (`sm_90`).
///
/// # Safety
/// As [`Operand::multiply`].
#[cfg(any(not(target_os = "cuda"), target_feature = "compute_90"))]
#[inline(always)]
unsafe fn multiply_doubles(left: [f64; 4], right: [f64; 2], sums: [f64; 4]) -> [f64; 4] {
    let a = FragmentA::<M16N8K8, f64>::from_registers(left);
    let b = FragmentB::<M16N8K8, f64>::from_registers(right);
    // SAFETY: the caller's promise.
    unsafe { mma_converged(a, b, FragmentC::<M16N8K8, f64>::from_registers(sums)) }.registers()
}

/// Four instructions of 8 × 8 × 4.
///
/// # Safety
/// As [`Operand::multiply`].
#[cfg(not(any(not(target_os = "cuda"), target_feature = "compute_90")))]
#[inline(always)]
unsafe fn multiply_doubles(left: [f64; 4], right: [f64; 2], sums: [f64; 4]) -> [f64; 4] {
    use cuda_std::matrix::M8N8K4;
    let quarter = |a: f64, b: f64, c: [f64; 2]| {
        let a = FragmentA::<M8N8K4, f64>::from_registers([a]);
        let b = FragmentB::<M8N8K4, f64>::from_registers([b]);
        // SAFETY: the caller's promise.
        unsafe { mma_converged(a, b, FragmentC::<M8N8K4, f64>::from_registers(c)) }.registers()
    };
    let [above, below] = [0, 1].map(|half| {
        let first = quarter(left[half], right[0], [sums[2 * half], sums[2 * half + 1]]);
        quarter(left[half + 2], right[1], first)
    });
    [above[0], above[1], below[0], below[1]]
}

const _: () = {
    // A distance along a row of K is below the warp's rows or columns, whose beginnings are multiples of them.
    assert!(WARP_ROWS.is_power_of_two() && WARP_COLUMNS.is_power_of_two());
};
