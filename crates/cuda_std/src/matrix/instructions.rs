//! `mma.sync`: a warp multiplies fragments.

use super::element::{Element, Tf32};
use super::fragment::*;
use crate::number::{E4m3, E5m2};
use crate::warp::Warp;
use cuda_std_macros::gpu_only;
use half::{bf16, f16};

#[cfg(target_os = "cuda")]
use core::arch::asm;

/// That the tensor cores multiply `T` by `U` in this shape and add to `V`.
#[diagnostic::on_unimplemented(
    message = "the tensor cores have no product of `{T}` and `{U}`, summed in `{V}`, of shape `{Self}`",
    note = "both operands are of one type (i8 and u8 mix, and E4m3 and E5m2); sums are f32 (f16 for f16 too), i32 or f64"
)]
pub trait Multiply<T: Element, U: Element, V: Element>:
    Holds<A, T> + Holds<B, U> + Holds<C, V>
{
    /// One instruction.
    ///
    /// # Safety
    /// As [`mma_unchecked`].
    #[cfg(target_os = "cuda")]
    #[doc(hidden)]
    unsafe fn multiply(
        a: <Self as Holds<A, T>>::Registers,
        b: <Self as Holds<B, U>>::Registers,
        c: &mut <Self as Holds<C, V>>::Registers,
    );
}

/// `a` times `b` plus `c`, by a warp in one instruction. All lanes call this together.
///
/// Floats of at most 32 bits are multiplied exactly and summed in an order and rounding of the
/// hardware's; integers wrap; `f64` is as `f64::mul_add` one after the other.
///
/// # Why it is safe
///
/// As for [`Warp`]: the lanes are gathered by a warp barrier before the instruction, so a lane that a
/// branch keeps away makes the others wait, and what a fragment holds is numbers, whatever their bits.
///
/// ```
/// use cuda_std::bf16;
/// use cuda_std::matrix::{FragmentA, FragmentB, FragmentC, M16N8K16, mma};
/// use cuda_std::prelude::*;
///
/// /// The product of two matrices of 16 × 16 and 16 × 8, by one warp.
/// #[kernel(block = 32)]
/// pub fn product(index: ThreadIndex, a: &[bf16], b: &[bf16], mut c: DisjointSlice<[f32; 4]>) {
///     let (warp, lane) = (Warp::current(), thread::thread_idx_x() as usize);
///     let a = FragmentA::<M16N8K16, bf16>::fill(lane, |row, column| a[row * 16 + column]);
///     let b = FragmentB::<M16N8K16, bf16>::fill(lane, |row, column| b[row * 8 + column]);
///     let sum = mma(warp, a, b, FragmentC::<M16N8K16, f32>::zeroed());
///     if let Some(c) = c.get_mut(index) {
///         *c = sum.registers();
///     }
/// }
/// # fn main() {}
/// ```
#[gpu_only]
#[inline(always)]
pub fn mma<S: Multiply<T, U, V>, T: Element, U: Element, V: Element>(
    warp: Warp,
    a: FragmentA<S, T>,
    b: FragmentB<S, U>,
    c: FragmentC<S, V>,
) -> FragmentC<S, V> {
    let _ = warp;
    // SAFETY: the lanes are all there, by the token; those that come later are waited for.
    unsafe { mma_unchecked(a, b, c) }
}

/// [`mma`] without the token.
///
/// # Safety
/// The block has whole warps, and every lane of the warp calls this together.
#[gpu_only]
#[inline(always)]
pub unsafe fn mma_unchecked<S: Multiply<T, U, V>, T: Element, U: Element, V: Element>(
    a: FragmentA<S, T>,
    b: FragmentB<S, U>,
    c: FragmentC<S, V>,
) -> FragmentC<S, V> {
    // SAFETY: the caller's promise.
    unsafe {
        super::converge();
        mma_converged(a, b, c)
    }
}

/// [`mma`] without the token and without the warp barrier: for several multiplications after one
/// [`converge`](super::converge), between which the assembler then may move loads.
///
/// # Safety
/// - The block has whole warps, and every lane of the warp calls this together.
/// - There is no branch between the last [`converge`](super::converge) and this, so that the compiler
///   neither copies the instruction nor moves it into a branch.
#[gpu_only]
#[inline(always)]
pub unsafe fn mma_converged<S: Multiply<T, U, V>, T: Element, U: Element, V: Element>(
    a: FragmentA<S, T>,
    b: FragmentB<S, U>,
    c: FragmentC<S, V>,
) -> FragmentC<S, V> {
    let mut sum = c.registers();
    // SAFETY: the caller's promise.
    unsafe { S::multiply(a.registers(), b.registers(), &mut sum) };
    FragmentC::from_registers(sum)
}

/// The instruction for these numbers of registers of A, B and C.
#[cfg(target_os = "cuda")]
macro_rules! instruction {
    ($name:literal $r:ident $s:ident $a:ident $b:ident $c:ident 1 1 2) => {
        asm!(concat!("mma.sync.aligned.", $name, " {{{0}, {1}}}, {{{2}}}, {{{3}}}, {{{0}, {1}}};"),
            inout($s) $c[0], inout($s) $c[1], in($r) $a[0], in($r) $b[0],
            options(nomem, nostack))
    };
    ($name:literal $r:ident $s:ident $a:ident $b:ident $c:ident 2 1 2) => {
        asm!(concat!("mma.sync.aligned.", $name,
            " {{{0}, {1}}}, {{{2}, {3}}}, {{{4}}}, {{{0}, {1}}};"),
            inout($s) $c[0], inout($s) $c[1], in($r) $a[0], in($r) $a[1], in($r) $b[0],
            options(nomem, nostack))
    };
    ($name:literal $r:ident $s:ident $a:ident $b:ident $c:ident 4 2 2) => {
        asm!(concat!("mma.sync.aligned.", $name,
            " {{{0}, {1}}}, {{{2}, {3}, {4}, {5}}}, {{{6}, {7}}}, {{{0}, {1}}};"),
            inout($s) $c[0], inout($s) $c[1], in($r) $a[0], in($r) $a[1], in($r) $a[2],
            in($r) $a[3], in($r) $b[0], in($r) $b[1], options(nomem, nostack))
    };
    ($name:literal $r:ident $s:ident $a:ident $b:ident $c:ident 2 1 4) => {
        asm!(concat!("mma.sync.aligned.", $name,
            " {{{0}, {1}, {2}, {3}}}, {{{4}, {5}}}, {{{6}}}, {{{0}, {1}, {2}, {3}}};"),
            inout($s) $c[0], inout($s) $c[1], inout($s) $c[2], inout($s) $c[3],
            in($r) $a[0], in($r) $a[1], in($r) $b[0], options(nomem, nostack))
    };
    ($name:literal $r:ident $s:ident $a:ident $b:ident $c:ident 4 2 4) => {
        asm!(concat!("mma.sync.aligned.", $name,
            " {{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}}}, {{{8}, {9}}},",
            " {{{0}, {1}, {2}, {3}}};"),
            inout($s) $c[0], inout($s) $c[1], inout($s) $c[2], inout($s) $c[3],
            in($r) $a[0], in($r) $a[1], in($r) $a[2], in($r) $a[3],
            in($r) $b[0], in($r) $b[1], options(nomem, nostack))
    };
    ($name:literal $r:ident $s:ident $a:ident $b:ident $c:ident 8 4 4) => {
        asm!(concat!("mma.sync.aligned.", $name,
            " {{{0}, {1}, {2}, {3}}}, {{{4}, {5}, {6}, {7}, {8}, {9}, {10}, {11}}},",
            " {{{12}, {13}, {14}, {15}}}, {{{0}, {1}, {2}, {3}}};"),
            inout($s) $c[0], inout($s) $c[1], inout($s) $c[2], inout($s) $c[3],
            in($r) $a[0], in($r) $a[1], in($r) $a[2], in($r) $a[3], in($r) $a[4], in($r) $a[5],
            in($r) $a[6], in($r) $a[7], in($r) $b[0], in($r) $b[1], in($r) $b[2], in($r) $b[3],
            options(nomem, nostack))
    };
}

/// Declares the instructions, with their registers' class.
macro_rules! instructions {
    ($($shape:ident $a:ty, $b:ty, $c:ty: $class:ident $name:literal $ra:tt $rb:tt $rc:tt;)*) => {$(
        impl Multiply<$a, $b, $c> for $shape {
            #[cfg(target_os = "cuda")]
            #[inline(always)]
            unsafe fn multiply(
                a: <Self as Holds<A, $a>>::Registers,
                b: <Self as Holds<B, $b>>::Registers,
                c: &mut <Self as Holds<C, $c>>::Registers,
            ) {
                // SAFETY: the caller's promise.
                unsafe { instruction!($name $class $class a b c $ra $rb $rc) }
            }
        }
    )*};
}

instructions! {
    M16N8K8 f16, f16, f16: reg32 "m16n8k8.row.col.f16.f16.f16.f16" 2 1 2;
    M16N8K16 f16, f16, f16: reg32 "m16n8k16.row.col.f16.f16.f16.f16" 4 2 2;
    M16N8K8 f16, f16, f32: reg32 "m16n8k8.row.col.f32.f16.f16.f32" 2 1 4;
    M16N8K16 f16, f16, f32: reg32 "m16n8k16.row.col.f32.f16.f16.f32" 4 2 4;
    M16N8K8 bf16, bf16, f32: reg32 "m16n8k8.row.col.f32.bf16.bf16.f32" 2 1 4;
    M16N8K16 bf16, bf16, f32: reg32 "m16n8k16.row.col.f32.bf16.bf16.f32" 4 2 4;
    M16N8K4 Tf32, Tf32, f32: reg32 "m16n8k4.row.col.f32.tf32.tf32.f32" 2 1 4;
    M16N8K8 Tf32, Tf32, f32: reg32 "m16n8k8.row.col.f32.tf32.tf32.f32" 4 2 4;
    M8N8K16 i8, i8, i32: reg32 "m8n8k16.row.col.s32.s8.s8.s32" 1 1 2;
    M8N8K16 i8, u8, i32: reg32 "m8n8k16.row.col.s32.s8.u8.s32" 1 1 2;
    M8N8K16 u8, i8, i32: reg32 "m8n8k16.row.col.s32.u8.s8.s32" 1 1 2;
    M8N8K16 u8, u8, i32: reg32 "m8n8k16.row.col.s32.u8.u8.s32" 1 1 2;
    M16N8K16 i8, i8, i32: reg32 "m16n8k16.row.col.s32.s8.s8.s32" 2 1 4;
    M16N8K16 i8, u8, i32: reg32 "m16n8k16.row.col.s32.s8.u8.s32" 2 1 4;
    M16N8K16 u8, i8, i32: reg32 "m16n8k16.row.col.s32.u8.s8.s32" 2 1 4;
    M16N8K16 u8, u8, i32: reg32 "m16n8k16.row.col.s32.u8.u8.s32" 2 1 4;
    M16N8K32 i8, i8, i32: reg32 "m16n8k32.row.col.s32.s8.s8.s32" 4 2 4;
    M16N8K32 i8, u8, i32: reg32 "m16n8k32.row.col.s32.s8.u8.s32" 4 2 4;
    M16N8K32 u8, i8, i32: reg32 "m16n8k32.row.col.s32.u8.s8.s32" 4 2 4;
    M16N8K32 u8, u8, i32: reg32 "m16n8k32.row.col.s32.u8.u8.s32" 4 2 4;
    M16N8K32 E4m3, E4m3, f32: reg32 "m16n8k32.row.col.f32.e4m3.e4m3.f32" 4 2 4;
    M16N8K32 E4m3, E5m2, f32: reg32 "m16n8k32.row.col.f32.e4m3.e5m2.f32" 4 2 4;
    M16N8K32 E5m2, E4m3, f32: reg32 "m16n8k32.row.col.f32.e5m2.e4m3.f32" 4 2 4;
    M16N8K32 E5m2, E5m2, f32: reg32 "m16n8k32.row.col.f32.e5m2.e5m2.f32" 4 2 4;
    M8N8K4 f64, f64, f64: reg64 "m8n8k4.row.col.f64.f64.f64.f64" 1 1 2;
    M16N8K4 f64, f64, f64: reg64 "m16n8k4.row.col.f64.f64.f64.f64" 2 1 4;
    M16N8K8 f64, f64, f64: reg64 "m16n8k8.row.col.f64.f64.f64.f64" 4 2 4;
    M16N8K16 f64, f64, f64: reg64 "m16n8k16.row.col.f64.f64.f64.f64" 8 4 4;
}
