//! The elements of rows: `f32`, `f16` and `bf16` in memory, always `f32` in registers.

use crate::prelude::*;
use bytemuck::Pod;
use cuda_std::access;
use cuda_std::number::{Bf16x2, F16x2, Half};
use cuda_std::{bf16, gpu_only};

use super::registers::build;

/// How often a load's vector is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// Once: it is of a row.
    Once,
    /// Again: every row uses the same weights.
    ByEveryRow,
}

/// Sixteen bytes of a row, as they lie in memory.
pub type Pack = Vec4<u32>;

/// An element type of which 16 bytes hold `V`.
pub trait Value<const V: usize>: Pod {
    /// To `f32`, exactly.
    fn widen(self) -> f32;

    /// The nearest value of this type.
    fn narrow(value: f32) -> Self;

    /// The elements of a pack, exactly.
    fn unpack(pack: Pack) -> [f32; V];

    /// A pack of elements, each rounded to nearest.
    fn pack(values: [f32; V]) -> Pack;

    /// A pack of one value, rounded to nearest: of a constant, it is one.
    fn filled(value: f32) -> Pack;
}

/// Sixteen bytes by one instruction. (Not of the read-only path: the assembler moves such loads to their first use. Not past
/// L1 either: where as much is written as is read, that cost 2 to 10% on an H200.)
///
/// # Safety
/// `from` is aligned to 16 bytes, and no thread writes what is there.
#[gpu_only]
#[inline(always)]
pub(super) unsafe fn load_16(from: *const Pack, reuse: Reuse) -> Pack {
    // SAFETY: the caller's promise.
    let from = unsafe { &*from };
    match reuse {
        Reuse::Once => access::load(from, access::LoadHint::AllLevels),
        Reuse::ByEveryRow => access::load(from, access::LoadHint::EvictLast),
    }
}

/// Sixteen bytes by one instruction. Assembly, since the compiler would share the last element's store with the code
/// for rows that are not aligned, and tear the vector apart.
///
/// # Safety
/// `to` is aligned to 16 bytes, and no other thread reaches what is there.
#[gpu_only]
#[inline(always)]
pub(crate) unsafe fn store_16<V: access::Access>(to: *mut V, value: V) {
    // SAFETY: the caller's promise.
    access::store(unsafe { &mut *to }, value, access::StoreHint::WriteBack);
}

/// The same pack, of which the compiler does not know that it is: else it keeps what it computed of the pack in
/// twice as many registers, in place of computing it again.
#[inline(always)]
pub fn anew(pack: Pack) -> Pack {
    #[cfg(target_os = "cuda")]
    {
        let [mut a, mut b, mut c, mut d] = pack.to_array();
        // SAFETY: a comment.
        unsafe {
            core::arch::asm!("// {0} {1} {2} {3}", inout(reg32) a, inout(reg32) b, inout(reg32) c,
                inout(reg32) d, options(nomem, nostack, preserves_flags));
        }
        Vec4::new(a, b, c, d)
    }
    #[cfg(not(target_os = "cuda"))]
    pack
}

impl Value<4> for f32 {
    #[inline(always)]
    fn widen(self) -> f32 {
        self
    }

    #[inline(always)]
    fn narrow(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn unpack(pack: Pack) -> [f32; 4] {
        let words = pack.to_array();
        build(|i| f32::from_bits(words[i]))
    }

    #[inline(always)]
    fn pack([x, y, z, w]: [f32; 4]) -> Pack {
        Vec4::new(x.to_bits(), y.to_bits(), z.to_bits(), w.to_bits())
    }

    #[inline(always)]
    fn filled(value: f32) -> Pack {
        Pack::splat(value.to_bits())
    }
}

/// Implements [`Value`] for a type of 16 bits, by way of pairs in one register.
macro_rules! halves {
    ($($half:ident $pair:ident;)*) => {$(
        impl Value<8> for $half {
            #[inline(always)]
            fn widen(self) -> f32 {
                Half::widen(self)
            }

            #[inline(always)]
            fn narrow(value: f32) -> Self {
                <$half as Half>::nearest(value)
            }

            #[inline(always)]
            fn unpack(pack: Pack) -> [f32; 8] {
                let [a, b, c, d] = pack.to_array();
                let [a, b, c, d] = [
                    $pair::from_bits(a).widen(),
                    $pair::from_bits(b).widen(),
                    $pair::from_bits(c).widen(),
                    $pair::from_bits(d).widen(),
                ];
                [a[0], a[1], b[0], b[1], c[0], c[1], d[0], d[1]]
            }

            #[inline(always)]
            fn pack(values: [f32; 8]) -> Pack {
                let [x, y, z, w] = build(|k| {
                    $pair::nearest(values[2 * k], values[2 * k + 1]).to_bits()
                });
                Vec4::new(x, y, z, w)
            }

            #[inline(always)]
            fn filled(value: f32) -> Pack {
                let bits = u32::from($half::from_f32_const(value).to_bits());
                Pack::splat(bits << 16 | bits)
            }
        }
    )*};
}

halves! {
    f16 F16x2;
    bf16 Bf16x2;
}
