//! Enums that C passes: any number may come.

use std::mem::MaybeUninit;

use crate::error::Error;

/// An enum of the header. Functions take it as `MaybeUninit`, since C passes any number, and one that is not a variant would be
/// undefined behaviour as the enum itself.
pub trait Code: Copy + 'static {
    /// What the header calls it.
    const NAME: &'static str;
    /// Every variant.
    const ALL: &'static [Self];

    /// Its number in C.
    fn number(self) -> u32;
}

/// Implements [`Code`] for an enum of the header.
macro_rules! code {
    ($ty:ident, $name:literal, [$($variant:ident)*]) => {
        impl $crate::code::Code for $ty {
            const NAME: &'static str = $name;
            const ALL: &'static [Self] = &[$(Self::$variant),*];

            fn number(self) -> u32 {
                self as u32
            }
        }
    };
}

pub(crate) use code;

/// The variant that C has passed as the argument `name`.
pub fn decode<C: Code>(
    operation: &'static str,
    name: &'static str,
    given: MaybeUninit<C>,
) -> Result<C, Error> {
    const { assert!(size_of::<C>() == size_of::<u32>()) };
    // SAFETY: C passes an initialised `int` or `unsigned int`, and the size is the same.
    let number: u32 = unsafe { std::mem::transmute_copy(&given) };
    let found = C::ALL.iter().copied().find(|own| own.number() == number);
    found.ok_or(Error::UnknownCode { operation, name, number, expected: C::NAME })
}
