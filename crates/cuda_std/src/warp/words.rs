//! Values as sequences of 32-bit words, the last one padded with zeros.

use super::{Plain, raw};
use core::mem::MaybeUninit;

/// The value whose words are those of `value` through `word`. Everything stays in registers.
#[inline(always)]
pub fn map_words<T: Plain>(value: T, mut word: impl FnMut(u32) -> u32) -> T {
    let mut mapped = MaybeUninit::<T>::uninit();
    let from = (&raw const value).cast::<u8>();
    let to = mapped.as_mut_ptr().cast::<u8>();
    let mut at = 0;
    // SAFETY: every access lies within the `size_of::<T>()` bytes of both, all of which are
    // initialised in the one and written in the other; `T` has a meaning for all bits.
    unsafe {
        while at + 4 <= size_of::<T>() {
            let moved = word(from.add(at).cast::<u32>().read_unaligned());
            to.add(at).cast::<u32>().write_unaligned(moved);
            at += 4;
        }
        if size_of::<T>() - at == 1 {
            to.add(at).write(word(from.add(at).read().into()) as u8);
        } else if size_of::<T>() - at >= 2 {
            let low = u32::from(from.add(at).cast::<u16>().read_unaligned());
            let three = size_of::<T>() - at == 3;
            let high = if three { u32::from(from.add(at + 2).read()) << 16 } else { 0 };
            let moved = word(low | high);
            to.add(at).cast::<u16>().write_unaligned(moved as u16);
            if three {
                to.add(at + 2).write((moved >> 16) as u8);
            }
        }
        mapped.assume_init()
    }
}

/// The lanes of `mask` whose `value` has the same bits as the caller's.
///
/// # Safety
/// As the functions of the [module](super) that take a mask.
#[inline(always)]
pub unsafe fn match_any<T: Plain>(mask: u32, value: T) -> u32 {
    if size_of::<T>() == 8 {
        // SAFETY: the caller's promise; the value has 8 initialised bytes.
        return unsafe { raw::match_any_64(mask, core::mem::transmute_copy(&value)) };
    }
    let mut same = mask;
    map_words(value, |word| {
        // SAFETY: the caller's promise.
        same &= unsafe { raw::match_any_32(mask, word) };
        word
    });
    same
}

/// Whether `value` has the same bits in all lanes of `mask`.
///
/// # Safety
/// As the functions of the [module](super) that take a mask.
#[inline(always)]
pub unsafe fn match_all<T: Plain>(mask: u32, value: T) -> bool {
    if size_of::<T>() == 8 {
        // SAFETY: the caller's promise; the value has 8 initialised bytes.
        return unsafe { raw::match_all_64(mask, core::mem::transmute_copy(&value)).1 };
    }
    let mut same = true;
    map_words(value, |word| {
        // SAFETY: the caller's promise.
        same &= unsafe { raw::match_all_32(mask, word).1 };
        word
    });
    same
}
