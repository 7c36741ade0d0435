//! Read-modify-write at raw addresses. Each function returns what was there before.
//!
//! All are sequentially consistent, which is at least as strong as any order PTX can ask for.

use crate::numeric::half::{self, Bf16, F16};
use crate::numeric::{Rounding, float};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU16, AtomicU32, AtomicU64};
use std::sync::{Mutex, PoisonError};

macro_rules! cell {
    ($name:ident, $int:ty, $atomic:ty) => {
        /// The cell at an address.
        ///
        /// # Safety
        /// `address` is a multiple of the size; its bytes are mapped for writing and only touched by
        /// atomic accesses during `'a`.
        #[inline(always)]
        unsafe fn $name<'a>(address: u64) -> &'a $atomic {
            // SAFETY: the caller vouches for alignment, mapping and atomicity.
            unsafe { <$atomic>::from_ptr(address as *mut $int) }
        }
    };
}

cell!(cell_u16, u16, AtomicU16);
cell!(cell_u32, u32, AtomicU32);
cell!(cell_u64, u64, AtomicU64);
cell!(cell_i32, i32, AtomicI32);
cell!(cell_i64, i64, AtomicI64);

macro_rules! direct {
    ($($(#[$doc:meta])* $name:ident($int:ty) = $cell:ident.$method:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// `address` is a multiple of the size; its bytes are mapped for writing and only touched by
        /// atomic accesses while this runs.
        #[inline]
        pub unsafe fn $name(address: u64, operand: $int) -> $int {
            // SAFETY: the caller vouches for the address.
            unsafe { $cell(address) }.$method(operand, SeqCst)
        }
    )*};
}

direct! {
    /// `atom.add.u32` (and `.s32`): wraps.
    add_u32(u32) = cell_u32.fetch_add;
    /// `atom.add.u64`: wraps.
    add_u64(u64) = cell_u64.fetch_add;
    /// `atom.add.s32`: wraps.
    add_i32(i32) = cell_i32.fetch_add;
    /// `atom.add.s64`: wraps.
    add_i64(i64) = cell_i64.fetch_add;
    /// `atom.min.u32`
    min_u32(u32) = cell_u32.fetch_min;
    /// `atom.min.u64`
    min_u64(u64) = cell_u64.fetch_min;
    /// `atom.min.s32`
    min_i32(i32) = cell_i32.fetch_min;
    /// `atom.min.s64`
    min_i64(i64) = cell_i64.fetch_min;
    /// `atom.max.u32`
    max_u32(u32) = cell_u32.fetch_max;
    /// `atom.max.u64`
    max_u64(u64) = cell_u64.fetch_max;
    /// `atom.max.s32`
    max_i32(i32) = cell_i32.fetch_max;
    /// `atom.max.s64`
    max_i64(i64) = cell_i64.fetch_max;
    /// `atom.and.b32`
    and_u32(u32) = cell_u32.fetch_and;
    /// `atom.and.b64`
    and_u64(u64) = cell_u64.fetch_and;
    /// `atom.or.b32`
    or_u32(u32) = cell_u32.fetch_or;
    /// `atom.or.b64`
    or_u64(u64) = cell_u64.fetch_or;
    /// `atom.xor.b32`
    xor_u32(u32) = cell_u32.fetch_xor;
    /// `atom.xor.b64`
    xor_u64(u64) = cell_u64.fetch_xor;
    /// `atom.exch.b32`
    exch_u32(u32) = cell_u32.swap;
    /// `atom.exch.b64`
    exch_u64(u64) = cell_u64.swap;
}

macro_rules! compare_exchange {
    ($($(#[$doc:meta])* $name:ident($int:ty) = $cell:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// `address` is a multiple of the size; its bytes are mapped for writing and only touched by
        /// atomic accesses while this runs.
        #[inline]
        pub unsafe fn $name(address: u64, expected: $int, new: $int) -> $int {
            // SAFETY: the caller vouches for the address.
            match unsafe { $cell(address) }.compare_exchange(expected, new, SeqCst, SeqCst) {
                Ok(old) | Err(old) => old,
            }
        }
    )*};
}

compare_exchange! {
    /// `atom.cas.b16`
    cas_u16(u16) = cell_u16;
    /// `atom.cas.b32`
    cas_u32(u32) = cell_u32;
    /// `atom.cas.b64`
    cas_u64(u64) = cell_u64;
}

macro_rules! update {
    ($($(#[$doc:meta])* $name:ident($int:ty) = $cell:ident, |$old:ident, $b:ident| $new:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// `address` is a multiple of the size; its bytes are mapped for writing and only touched by
        /// atomic accesses while this runs.
        #[inline]
        pub unsafe fn $name(address: u64, $b: $int) -> $int {
            // SAFETY: the caller vouches for the address.
            let cell = unsafe { $cell(address) };
            let mut $old = cell.load(Relaxed);
            while let Err(seen) = cell.compare_exchange_weak($old, $new, SeqCst, Relaxed) {
                $old = seen;
            }
            $old
        }
    )*};
}

update! {
    /// `atom.inc.u32`: one more, or 0 once the operand is reached.
    inc_u32(u32) = cell_u32, |old, b| if old >= b { 0 } else { old + 1 };
    /// `atom.dec.u32`: one less, or the operand from 0 and from above it.
    dec_u32(u32) = cell_u32, |old, b| if old == 0 || old > b { b } else { old - 1 };
    /// `atom.exch.b16`, for the half of a word that a 16-bit type needs.
    exch_u16(u16) = cell_u16, |_old, b| b;
    /// `atom.add.f32` on bits, rounded to nearest even; subnormals stay, as in shared memory.
    add_f32(u32) = cell_u32, |old, b| sum_f32(old, b);
    /// `atom.add.f32` on bits, with subnormal operands and results flushed to zeros of their sign,
    /// which is what a GPU does in global memory.
    add_f32_ftz(u32) = cell_u32, |old, b| flush(sum_f32(flush(old), flush(b)));
    /// `atom.add.f64` on bits, rounded to nearest even, as in shared memory: what was there is the
    /// second summand, whose NaN counts first.
    add_f64(u64) = cell_u64, |old, b| sum_f64(b, old);
    /// `atom.add.f64` on bits as a GPU does in global memory: a NaN operand stays as it is.
    add_f64_raw(u64) = cell_u64, |old, b| match [b, old].into_iter().find(|bits| f64::from_bits(*bits).is_nan()) {
        Some(nan) => nan,
        None => sum_f64(old, b),
    };
    /// `atom.add.noftz.f16`
    add_f16(u16) = cell_u16, |old, b| half::add::<F16>(old, b);
    /// `atom.add.noftz.bf16`
    add_bf16(u16) = cell_u16, |old, b| half::add::<Bf16>(old, b);
    /// `atom.add.noftz.f16x2`: both halves in one step.
    add_f16x2(u32) = cell_u32, |old, b| half::both2(old, b, half::add::<F16>);
    /// `atom.add.noftz.bf16x2`: both halves in one step.
    add_bf16x2(u32) = cell_u32, |old, b| half::both2(old, b, half::add::<Bf16>);
}

macro_rules! ordered_halves {
    ($($(#[$doc:meta])* $name:ident($int:ty) = $cell:ident, $format:ty, $pick:ident, $both:tt;)*) => {
        update! {$(
            $(#[$doc])*
            $name($int) = $cell, |old, b| ordered_halves!(@ $both, old, b, $format, $pick);
        )*}
    };
    (@ one, $old:ident, $b:ident, $format:ty, $pick:ident) => {
        half::pick::<$format>($old, $b, float::$pick)
    };
    (@ two, $old:ident, $b:ident, $format:ty, $pick:ident) => {
        half::both2($old, $b, |old, b| half::pick::<$format>(old, b, float::$pick))
    };
}

ordered_halves! {
    /// `atom.min.noftz.f16`
    min_f16(u16) = cell_u16, F16, min_f32, one;
    /// `atom.max.noftz.f16`
    max_f16(u16) = cell_u16, F16, max_f32, one;
    /// `atom.min.noftz.bf16`
    min_bf16(u16) = cell_u16, Bf16, min_f32, one;
    /// `atom.max.noftz.bf16`
    max_bf16(u16) = cell_u16, Bf16, max_f32, one;
    /// `atom.min.noftz.f16x2`
    min_f16x2(u32) = cell_u32, F16, min_f32, two;
    /// `atom.max.noftz.f16x2`
    max_f16x2(u32) = cell_u32, F16, max_f32, two;
    /// `atom.min.noftz.bf16x2`
    min_bf16x2(u32) = cell_u32, Bf16, min_f32, two;
    /// `atom.max.noftz.bf16x2`
    max_bf16x2(u32) = cell_u32, Bf16, max_f32, two;
}

/// Sum on bits.
fn sum_f32(a: u32, b: u32) -> u32 {
    let rounding = Rounding::NearestEven;
    float::add_f32(f32::from_bits(a), f32::from_bits(b), rounding).to_bits()
}

/// Sum on bits.
fn sum_f64(a: u64, b: u64) -> u64 {
    let rounding = Rounding::NearestEven;
    float::add_f64(f64::from_bits(a), f64::from_bits(b), rounding).to_bits()
}

/// A subnormal becomes the zero of its sign.
fn flush(bits: u32) -> u32 {
    float::ftz(f32::from_bits(bits)).to_bits()
}

// ---- 128 bits

/// Locks that make accesses of 128 bits one step, by address.
static LOCKS: [Mutex<()>; 64] = [const { Mutex::new(()) }; 64];

/// What was there, after `update` said what is to be there; `None` leaves it.
///
/// # Safety
/// `address` is a multiple of 16; its bytes are mapped for writing and only touched by atomic
/// accesses while this runs.
unsafe fn update_u128(address: u64, update: impl Fn(u128) -> Option<u128>) -> u128 {
    let lock = &LOCKS[(address / 16) as usize % LOCKS.len()];
    let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the caller vouches for both halves.
    let (low, high) = unsafe { (cell_u64(address), cell_u64(address + 8)) };
    let old = u128::from(low.load(SeqCst)) | u128::from(high.load(SeqCst)) << 64;
    if let Some(new) = update(old) {
        low.store(new as u64, SeqCst);
        high.store((new >> 64) as u64, SeqCst);
    }
    old
}

/// A load of 128 bits that sees no half of a store.
///
/// # Safety
/// `address` is a multiple of 16; its bytes are mapped and only touched by atomic accesses while
/// this runs.
pub unsafe fn load_u128(address: u64) -> u128 {
    // SAFETY: the caller vouches for the address, and nothing is written.
    unsafe { update_u128(address, |_| None) }
}

/// `atom.exch.b128`
///
/// # Safety
/// `address` is a multiple of 16; its bytes are mapped for writing and only touched by atomic
/// accesses while this runs.
pub unsafe fn exch_u128(address: u64, operand: u128) -> u128 {
    // SAFETY: the caller vouches for the address.
    unsafe { update_u128(address, |_| Some(operand)) }
}

/// `atom.cas.b128`
///
/// # Safety
/// As for [`exch_u128`].
pub unsafe fn cas_u128(address: u64, expected: u128, new: u128) -> u128 {
    // SAFETY: the caller vouches for the address.
    unsafe { update_u128(address, |old| (old == expected).then_some(new)) }
}
