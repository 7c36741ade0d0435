//! Loads, stores and compare-and-swap with an order and a scope, up to 128 bits wide.

use super::word::Word;
use super::{Ordering, Scope};

#[cfg(target_os = "cuda")]
use super::fence;
#[cfg(target_os = "cuda")]
use super::instruction::{cas, each_order, each_scope, load_store};
#[cfg(not(target_os = "cuda"))]
use super::word::host;
#[cfg(target_os = "cuda")]
use core::arch::asm;

/// Loads atomically. The order is `Relaxed`, `Acquire` or `SeqCst`; others panic.
///
/// # Safety
/// - `ptr` is aligned and valid for reads.
/// - Every write by a thread in `scope` at the same time is atomic, of the same size.
#[inline(always)]
pub unsafe fn load<T: Word>(ptr: *const T, order: Ordering, scope: Scope) -> T {
    #[cfg(target_os = "cuda")]
    // SAFETY: the caller's promise.
    return T::from_bits_64(unsafe {
        match size_of::<T>() {
            2 => {
                let bits: u16 = load_store!(ld, ".b16", reg16, ptr, order, scope);
                u64::from(bits)
            }
            4 => {
                let bits: u32 = load_store!(ld, ".b32", reg32, ptr, order, scope);
                u64::from(bits)
            }
            _ => load_store!(ld, ".b64", reg64, ptr, order, scope),
        }
    });
    #[cfg(not(target_os = "cuda"))]
    {
        let _ = scope;
        // SAFETY: the caller's promise.
        unsafe { host::load(ptr, order) }
    }
}

/// Stores atomically. The order is `Relaxed`, `Release` or `SeqCst`; others panic.
///
/// # Safety
/// - `ptr` is aligned and valid for writes.
/// - Every access by a thread in `scope` at the same time is atomic, of the same size.
#[inline(always)]
pub unsafe fn store<T: Word>(ptr: *mut T, value: T, order: Ordering, scope: Scope) {
    #[cfg(target_os = "cuda")]
    {
        let (half, word) = (value.to_bits_64() as u16, value.to_bits_64() as u32);
        let wide = value.to_bits_64();
        // SAFETY: the caller's promise.
        unsafe {
            match size_of::<T>() {
                2 => load_store!(st, ".b16", reg16, ptr, half, order, scope),
                4 => load_store!(st, ".b32", reg32, ptr, word, order, scope),
                _ => load_store!(st, ".b64", reg64, ptr, wide, order, scope),
            }
        }
    }
    #[cfg(not(target_os = "cuda"))]
    {
        let _ = scope;
        // SAFETY: the caller's promise.
        unsafe { host::store(ptr, value, order) }
    }
}

/// Loads as a volatile access: relaxed, of system scope.
///
/// # Safety
/// As [`load`].
#[inline(always)]
pub(super) unsafe fn load_volatile<T: Word>(ptr: *const T) -> T {
    #[cfg(target_os = "cuda")]
    {
        let bits: u64;
        // SAFETY: the caller's promise. A narrow load fills the register with zeros.
        unsafe {
            match size_of::<T>() {
                4 => asm!("ld.volatile.u32 {0}, [{1}];", out(reg64) bits, in(reg64) ptr),
                _ => asm!("ld.volatile.b64 {0}, [{1}];", out(reg64) bits, in(reg64) ptr),
            }
        }
        T::from_bits_64(bits)
    }
    #[cfg(not(target_os = "cuda"))]
    // SAFETY: the caller's promise.
    unsafe {
        ptr.read_volatile()
    }
}

/// Stores as a volatile access: relaxed, of system scope.
///
/// LLVM 22 joins a volatile store of a constant with a plain one before it, so this one is
/// assembly.
///
/// # Safety
/// As [`store`].
#[inline(always)]
pub(super) unsafe fn store_volatile<T: Word>(ptr: *mut T, value: T) {
    #[cfg(target_os = "cuda")]
    {
        let bits = value.to_bits_64();
        // SAFETY: the caller's promise. A narrow store takes the lower bits of the register.
        unsafe {
            match size_of::<T>() {
                4 => asm!("st.volatile.u32 [{1}], {0};", in(reg64) bits, in(reg64) ptr),
                _ => asm!("st.volatile.b64 [{1}], {0};", in(reg64) bits, in(reg64) ptr),
            }
        }
    }
    #[cfg(not(target_os = "cuda"))]
    // SAFETY: the caller's promise.
    unsafe {
        ptr.write_volatile(value);
    }
}

/// Stores `new` if the bits are those of `current`, atomically. Returns the value before: the store
/// happened if its bits are those of `current`.
///
/// # Safety
/// As [`fetch_add`](super::fetch_add).
#[inline(always)]
pub unsafe fn compare_and_swap<T: Word>(
    ptr: *mut T,
    current: T,
    new: T,
    order: Ordering,
    scope: Scope,
) -> T {
    #[cfg(target_os = "cuda")]
    {
        let (current, new) = (current.to_bits_64(), new.to_bits_64());
        let (current_half, new_half) = (current as u16, new as u16);
        let (current_word, new_word) = (current as u32, new as u32);
        // SAFETY: the caller's promise.
        T::from_bits_64(unsafe {
            match size_of::<T>() {
                2 => {
                    let bits: u16 = cas!(".b16", reg16, ptr, current_half, new_half, order, scope);
                    u64::from(bits)
                }
                4 => {
                    let bits: u32 = cas!(".b32", reg32, ptr, current_word, new_word, order, scope);
                    u64::from(bits)
                }
                _ => cas!(".b64", reg64, ptr, current, new, order, scope),
            }
        })
    }
    #[cfg(not(target_os = "cuda"))]
    {
        let _ = scope;
        // SAFETY: the caller's promise.
        unsafe { host::compare_and_swap(ptr, current, new, order) }
    }
}

/// The two halves of a 128-bit value, the lower first.
#[cfg(target_os = "cuda")]
#[inline(always)]
fn halves(value: u128) -> (u64, u64) {
    (value as u64, (value >> 64) as u64)
}

/// Replaces 16 bytes atomically, and returns what was there. On `sm_90` and later.
///
/// # Safety
/// As [`fetch_add`](super::fetch_add), with an alignment of 16 bytes.
#[cuda_std_macros::gpu_only]
#[inline(always)]
pub unsafe fn exchange_128(ptr: *mut u128, value: u128, order: Ordering, scope: Scope) -> u128 {
    let (low, high) = halves(value);
    let (lower, upper): (u64, u64);
    macro_rules! exchange {
        ($sem:literal, $in_scope:literal) => {
            asm!(
                "{{ .reg .b128 old, new; mov.b128 new, {{{low}, {high}}};",
                concat!("atom", $sem, $in_scope, ".exch.b128 old, [{ptr}], new;"),
                "mov.b128 {{{lower}, {upper}}}, old; }}",
                low = in(reg64) low,
                high = in(reg64) high,
                ptr = in(reg64) ptr,
                lower = out(reg64) lower,
                upper = out(reg64) upper,
                options(nostack),
            )
        };
    }
    // SAFETY: the caller's promise.
    unsafe { each_order!(order, scope, exchange!()) };
    u128::from(upper) << 64 | u128::from(lower)
}

/// Stores the 16 bytes `new` if those there are `current`, atomically. Returns what was there. On
/// `sm_90` and later.
///
/// # Safety
/// As [`fetch_add`](super::fetch_add), with an alignment of 16 bytes.
#[cuda_std_macros::gpu_only]
#[inline(always)]
pub unsafe fn compare_and_swap_128(
    ptr: *mut u128,
    current: u128,
    new: u128,
    order: Ordering,
    scope: Scope,
) -> u128 {
    let ((low, high), (if_low, if_high)) = (halves(new), halves(current));
    let (lower, upper): (u64, u64);
    macro_rules! swap {
        ($sem:literal, $in_scope:literal) => {
            asm!(
                "{{ .reg .b128 old, cmp, new; mov.b128 new, {{{low}, {high}}};",
                "mov.b128 cmp, {{{if_low}, {if_high}}};",
                concat!("atom", $sem, $in_scope, ".cas.b128 old, [{ptr}], cmp, new;"),
                "mov.b128 {{{lower}, {upper}}}, old; }}",
                low = in(reg64) low,
                high = in(reg64) high,
                if_low = in(reg64) if_low,
                if_high = in(reg64) if_high,
                ptr = in(reg64) ptr,
                lower = out(reg64) lower,
                upper = out(reg64) upper,
                options(nostack),
            )
        };
    }
    // SAFETY: the caller's promise.
    unsafe { each_order!(order, scope, swap!()) };
    u128::from(upper) << 64 | u128::from(lower)
}
