//! The values that atomic operations change, as bits, and how the host changes them.

use super::Ordering;
use core::convert::identity;
use half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// A number of 2, 4 or 8 bytes without padding, that atomic operations load and store.
pub trait Word: Copy + PartialEq + sealed::Sealed + 'static {
    /// The bits, the upper ones zero.
    #[doc(hidden)]
    fn to_bits_64(self) -> u64;
    /// The value of the lower bits.
    #[doc(hidden)]
    fn from_bits_64(bits: u64) -> Self;
}

macro_rules! words {
    ($($ty:ty: $to:expr, $from:expr;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Word for $ty {
            #[inline(always)]
            fn to_bits_64(self) -> u64 {
                u64::from($to(self))
            }

            #[inline(always)]
            fn from_bits_64(bits: u64) -> Self {
                $from(bits as _)
            }
        }
    )*};
}

words! {
    u32: u32::from, identity::<u32>;
    i32: i32::cast_unsigned, u32::cast_signed;
    u64: u64::from, identity::<u64>;
    i64: i64::cast_unsigned, u64::cast_signed;
    f32: f32::to_bits, f32::from_bits;
    f64: f64::to_bits, f64::from_bits;
    f16: f16::to_bits, f16::from_bits;
    bf16: bf16::to_bits, bf16::from_bits;
}

/// The order of the load that a failed compare-exchange is.
#[inline(always)]
pub(super) fn failure(order: Ordering) -> Ordering {
    match order {
        Ordering::AcqRel => Ordering::Acquire,
        Ordering::Release => Ordering::Relaxed,
        order => order,
    }
}

/// The host's operations: `core`'s, on the bits.
#[cfg(not(target_os = "cuda"))]
pub(super) mod host {
    use super::{Ordering, Word, failure};
    use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

    /// Runs `$body` with `$atomic` as the atomic integer of `T`'s size at `$ptr`.
    macro_rules! at {
        ($ptr:ident, $t:ty, |$atomic:ident| $body:expr) => {
            // SAFETY: the caller's promise: aligned, valid, and reached atomically alone.
            unsafe {
                match size_of::<$t>() {
                    2 => {
                        let $atomic = AtomicU16::from_ptr($ptr.cast());
                        $body
                    }
                    4 => {
                        let $atomic = AtomicU32::from_ptr($ptr.cast());
                        $body
                    }
                    _ => {
                        let $atomic = AtomicU64::from_ptr($ptr.cast());
                        $body
                    }
                }
            }
        };
    }

    /// # Safety
    /// As for the operation that is implemented with it.
    pub unsafe fn load<T: Word>(ptr: *const T, order: Ordering) -> T {
        let ptr = ptr.cast_mut();
        #[allow(clippy::useless_conversion)]
        let bits = at!(ptr, T, |atomic| u64::from(atomic.load(order)));
        T::from_bits_64(bits)
    }

    /// # Safety
    /// As for the operation that is implemented with it.
    pub unsafe fn store<T: Word>(ptr: *mut T, value: T, order: Ordering) {
        at!(ptr, T, |atomic| atomic.store(value.to_bits_64() as _, order));
    }

    /// # Safety
    /// As for the operation that is implemented with it.
    pub unsafe fn update<T: Word>(ptr: *mut T, order: Ordering, change: impl Fn(T) -> T) -> T {
        #[allow(clippy::useless_conversion)]
        let bits = at!(ptr, T, |atomic| {
            let change = |bits| Some(change(T::from_bits_64(u64::from(bits))).to_bits_64() as _);
            let (Ok(before) | Err(before)) = atomic.try_update(order, failure(order), change);
            u64::from(before)
        });
        T::from_bits_64(bits)
    }

    /// # Safety
    /// As for the operation that is implemented with it.
    pub unsafe fn compare_and_swap<T: Word>(ptr: *mut T, current: T, new: T, order: Ordering) -> T {
        let (current, new) = (current.to_bits_64(), new.to_bits_64());
        #[allow(clippy::useless_conversion)]
        let bits = at!(ptr, T, |atomic| {
            let (Ok(before) | Err(before)) =
                atomic.compare_exchange(current as _, new as _, order, failure(order));
            u64::from(before)
        });
        T::from_bits_64(bits)
    }
}
