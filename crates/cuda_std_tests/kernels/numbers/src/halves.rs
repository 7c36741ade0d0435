//! Arithmetic and conversions of 16 bits, alone and in pairs.

use crate::put_rows;
use cuda_std::bf16;
use cuda_std::number::{Bf16x2, F16x2, Half, f16_down, f16_up};
use cuda_std::prelude::*;

/// Results of one number.
pub const UNARY: usize = 4;
/// Approximations of one number.
pub const APPROXIMATE: usize = 2;
/// Results of three numbers.
pub const TERNARY: usize = 12;
/// Results of an `f32` and an integer.
pub const NARROWING: usize = 5;
/// Results of three pairs.
pub const PAIRS: usize = 13;
/// Results of two `f32`.
pub const PAIRS_NARROWING: usize = 4;

/// From and to the bits, which both types have as functions of their own.
pub trait FromBits: Half {
    fn of(bits: u16) -> Self;
    fn bits(self) -> u32;
}

impl FromBits for f16 {
    #[inline(always)]
    fn of(bits: u16) -> Self {
        Self::from_bits(bits)
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        self.to_bits().into()
    }
}

impl FromBits for bf16 {
    #[inline(always)]
    fn of(bits: u16) -> Self {
        Self::from_bits(bits)
    }

    #[inline(always)]
    fn bits(self) -> u32 {
        self.to_bits().into()
    }
}

#[inline(always)]
pub fn unary<H: FromBits>(a: u16) -> [u32; UNARY] {
    let a = H::of(a);
    [a.widen().to_bits(), a.to_i32() as u32, a.hneg().bits(), a.habs().bits()]
}

#[inline(always)]
pub fn approximate<H: FromBits>(a: u16) -> [u32; APPROXIMATE] {
    let a = H::of(a);
    [a.ex2().bits(), a.htanh().bits()]
}

#[inline(always)]
pub fn ternary<H: FromBits>([a, b, c]: [u16; 3]) -> [u32; TERNARY] {
    let (a, b, c) = (H::of(a), H::of(b), H::of(c));
    [
        a.hadd(b).bits(),
        a.hsub(b).bits(),
        a.hmul(b).bits(),
        a.hfma(b, c).bits(),
        a.hfma_relu(b, c).bits(),
        a.hmin(b).bits(),
        a.hmax(b).bits(),
        a.hmin_nan(b).bits(),
        a.hmax_nan(b).bits(),
        a.hlt(b).into(),
        a.hle(b).into(),
        a.heq(b).into(),
    ]
}

#[inline(always)]
pub fn narrowing<H: FromBits>(x: f32) -> [u32; NARROWING] {
    [
        H::nearest(x).bits(),
        H::toward_zero(x).bits(),
        H::saturating(x).bits(),
        H::relu(x).bits(),
        H::from_i32(x.to_bits() as i32 >> (x.to_bits() & 31)).bits(),
    ]
}

#[inline(always)]
pub fn directed(x: f32) -> [u32; 2] {
    [f16_down(x).bits(), f16_up(x).bits()]
}

/// The functions of one type of pairs.
macro_rules! pairs {
    ($all:ident, $narrowing:ident, $approximate:ident, $pair:ident) => {
        #[inline(always)]
        pub fn $all([a, b, c]: [u32; 3]) -> [u32; PAIRS] {
            let [a, b, c] = [a, b, c].map($pair::from_bits);
            let mut sum = a;
            sum += b;
            sum -= c;
            sum *= b;
            [
                (a + b).to_bits(),
                (a - b).to_bits(),
                (a * b).to_bits(),
                (-a).to_bits(),
                sum.to_bits(),
                a.fma(b, c).to_bits(),
                a.fma_relu(b, c).to_bits(),
                a.min(b).to_bits(),
                a.max(b).to_bits(),
                a.abs().to_bits(),
                a.swap().select(b, a.lt(b)).to_bits(),
                u32::from(a.le(b).any()) | u32::from(a.le(b).all()) << 1,
                u32::from(a == b) | u32::from(a.equal(b).to_array()[1]) << 1,
            ]
        }

        #[inline(always)]
        pub fn $narrowing([x, y]: [f32; 2]) -> [u32; PAIRS_NARROWING] {
            [
                $pair::nearest(x, y).to_bits(),
                $pair::toward_zero(x, y).to_bits(),
                $pair::saturating(x, y).to_bits(),
                $pair::relu(x, y).to_bits(),
            ]
        }

        #[inline(always)]
        pub fn $approximate(a: u32) -> [u32; APPROXIMATE] {
            let a = $pair::from_bits(a);
            [a.ex2().to_bits(), a.tanh().to_bits()]
        }
    };
}

pairs!(f16_pairs, f16_pairs_narrowing, f16_pairs_approximate, F16x2);
pairs!(bf16_pairs, bf16_pairs_narrowing, bf16_pairs_approximate, Bf16x2);

/// Kernels that apply a function to each element.
macro_rules! kernels {
    ($($name:ident: $input:ty => $function:expr;)*) => {$(
        #[kernel]
        pub fn $name(index: ThreadIndex, x: &[$input], mut out: DisjointSlice<u32>) {
            if let Some(&x) = x.get(index.get()) {
                put_rows(index, $function(x), &mut out);
            }
        }
    )*};
}

kernels! {
    unary_f16: u16 => unary::<f16>;
    unary_bf16: u16 => unary::<bf16>;
    approximate_f16: u16 => approximate::<f16>;
    approximate_bf16: u16 => approximate::<bf16>;
    ternary_f16: [u16; 3] => ternary::<f16>;
    ternary_bf16: [u16; 3] => ternary::<bf16>;
    narrowing_f16: f32 => narrowing::<f16>;
    narrowing_bf16: f32 => narrowing::<bf16>;
    narrowing_directed: f32 => directed;
    pairs_f16: [u32; 3] => f16_pairs;
    pairs_bf16: [u32; 3] => bf16_pairs;
    pairs_narrowing_f16: [f32; 2] => f16_pairs_narrowing;
    pairs_narrowing_bf16: [f32; 2] => bf16_pairs_narrowing;
    pairs_approximate_f16: u32 => f16_pairs_approximate;
    pairs_approximate_bf16: u32 => bf16_pairs_approximate;
}
