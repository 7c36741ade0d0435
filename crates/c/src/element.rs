//! The types of elements.

use bytemuck::Pod;
use cuda_std::{bf16, f16};

use crate::code::code;

/// The type of an array's elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// `uint8_t`.
    U8 = 0,
    /// `uint16_t`.
    U16 = 1,
    /// `uint32_t`.
    U32 = 2,
    /// `uint64_t`.
    U64 = 3,
    /// `int8_t`.
    I8 = 4,
    /// `int16_t`.
    I16 = 5,
    /// `int32_t`.
    I32 = 6,
    /// `int64_t`.
    I64 = 7,
    /// IEEE half precision: CUDA's `__half`.
    F16 = 8,
    /// bfloat16: CUDA's `__nv_bfloat16`.
    Bf16 = 9,
    /// `float`.
    F32 = 10,
    /// `double`.
    F64 = 11,
}

code!(ElementType, "ferrowarp_type", [U8 U16 U32 U64 I8 I16 I32 I64 F16 Bf16 F32 F64]);

/// A Rust type that is an [`ElementType`].
pub trait Element: Pod {
    /// Which one.
    const TYPE: ElementType;
}

macro_rules! elements {
    ($($ty:ident $variant:ident $name:literal;)*) => {
        $(impl Element for $ty {
            const TYPE: ElementType = ElementType::$variant;
        })*

        impl ElementType {
            /// The size of an element in bytes.
            pub fn bytes(self) -> usize {
                match self {
                    $(Self::$variant => size_of::<$ty>(),)*
                }
            }

            /// What errors call it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

elements! {
    u8 U8 "u8";
    u16 U16 "u16";
    u32 U32 "u32";
    u64 U64 "u64";
    i8 I8 "i8";
    i16 I16 "i16";
    i32 I32 "i32";
    i64 I64 "i64";
    f16 F16 "f16";
    bf16 Bf16 "bf16";
    f32 F32 "f32";
    f64 F64 "f64";
}

/// Evaluates `$body`, a `Result`, with `$T` as the Rust type of `$found`. For a type that is not in the list the value is the error that
/// names the list.
macro_rules! with_type {
    ($call:expr, $found:expr, [$($ty:ident)*], $T:ident => $body:expr) => {{
        let found: $crate::element::ElementType = $found;
        $(if found == <$ty as $crate::element::Element>::TYPE {
            #[allow(non_camel_case_types)]
            type $T = $ty;
            $body
        } else)* {
            const SUPPORTED: &[$crate::element::ElementType] =
                &[$(<$ty as $crate::element::Element>::TYPE),*];
            Err($crate::error::Error::Type { operation: $call.operation(), found, supported: SUPPORTED })
        }
    }};
}

/// As [`with_type!`], for operations that move bits or compare them: `$T` is the unsigned integer of the size.
macro_rules! with_bits {
    ($call:expr, $found:expr, [$($ty:ident)*], [$($bits:ident)*], $T:ident => $body:expr) => {{
        let found: $crate::element::ElementType = $found;
        const SUPPORTED: &[$crate::element::ElementType] =
            &[$(<$ty as $crate::element::Element>::TYPE),*];
        $(if SUPPORTED.contains(&found) && found.bytes() == size_of::<$bits>() {
            #[allow(non_camel_case_types)]
            type $T = $bits;
            $body
        } else)* {
            Err($crate::error::Error::Type { operation: $call.operation(), found, supported: SUPPORTED })
        }
    }};
}

pub(crate) use {with_bits, with_type};
