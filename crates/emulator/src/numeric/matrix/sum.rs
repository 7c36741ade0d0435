//! Sums of floating-point products.

use super::element::{Element, Kind, NOTHING, Special};
use crate::numeric::float::{self, NAN_F32};
use crate::numeric::half::{self, F16, Half};
use crate::numeric::narrow;
use crate::numeric::soft::{Format, Number, Rounding};

/// The NaN of an `.f16` result.
const NAN_F16: u32 = 0x7fff;

/// What differs between the instructions that sum by [`dot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Format of A's elements.
    pub a: Kind,
    /// Format of B's elements.
    pub b: Kind,
    /// Format of the accumulator.
    pub c: Kind,
    /// Format of the result: `.f16` or `.f32`.
    pub d: Kind,
    /// Bits below the largest exponent that the sum is made with.
    pub fraction: i32,
}

impl Rule {
    /// The rule of `.f16`, `.bf16` and `.tf32`.
    pub const fn wide([a, b, c, d]: [Kind; 4]) -> Self {
        Self { a, b, c, d, fraction: 25 }
    }
}

/// Bits of fraction that `wgmma` sums 8-bit formats with.
pub const NARROW: i32 = 13;

/// `c` plus the sum of the products, as bits of the result's format.
pub fn dot(rule: Rule, a: &[Element], b: &[Element], c: Element) -> u32 {
    if let Some(special) = special(a, b, c) {
        return encode_special(rule.d, special);
    }
    let exponents = a.iter().zip(b).map(|(a, b)| a.exponent + b.exponent);
    let top = exponents.fold(c.exponent, i32::max);
    if top <= NOTHING / 2 {
        return 0;
    }
    let unit = top - rule.fraction;
    let fraction = rule.a.fraction() + rule.b.fraction();
    let products = a.iter().zip(b).map(|(a, b)| {
        let product = i64::from(a.significand) * i64::from(b.significand);
        aligned(product, a.exponent + b.exponent - fraction - unit)
    });
    let sum = aligned(c.significand.into(), c.exponent - rule.c.fraction() - unit)
        + products.sum::<i64>();
    encode(rule, sum, unit)
}

/// A number moved by some bits, cut towards zero.
fn aligned(value: i64, shift: i32) -> i64 {
    if shift >= 0 {
        return value << shift;
    }
    let magnitude = value.abs() >> (-shift).min(63);
    if value < 0 { -magnitude } else { magnitude }
}

/// The infinity or NaN that a sum is, if one of its terms is one.
fn special(a: &[Element], b: &[Element], c: Element) -> Option<Special> {
    let one = |found: Special, next: Special| match (found, next) {
        (Special::Finite, other) | (other, Special::Finite) => other,
        (found, next) if found == next => found,
        _ => Special::Nan,
    };
    let products = a.iter().zip(b).map(|(a, b)| product_special(*a, *b));
    let all = products.fold(c.special, one);
    (all != Special::Finite).then_some(all)
}

fn product_special(a: Element, b: Element) -> Special {
    let negative = |own: Element| match own.special {
        Special::Infinite(negative) => negative,
        _ => own.significand < 0,
    };
    let is_zero = |own: Element| own.special == Special::Finite && own.significand == 0;
    match (a.special, b.special) {
        (Special::Finite, Special::Finite) => Special::Finite,
        (Special::Nan, _) | (_, Special::Nan) => Special::Nan,
        _ if is_zero(a) || is_zero(b) => Special::Nan,
        _ => Special::Infinite(negative(a) != negative(b)),
    }
}

fn encode_special(kind: Kind, special: Special) -> u32 {
    match (kind, special) {
        (Kind::F16, Special::Infinite(negative)) => 0x7c00 | u32::from(negative) << 15,
        (Kind::F16, _) => NAN_F16,
        (_, Special::Infinite(negative)) => 0x7f80_0000 | u32::from(negative) << 31,
        _ => NAN_F32.to_bits(),
    }
}

/// The bits of `sum · 2^unit`. What is too large for `.f32` is an infinity, though the rest is cut.
fn encode(rule: Rule, sum: i64, unit: i32) -> u32 {
    if sum == 0 {
        return 0;
    }
    let negative = sum < 0;
    let number =
        Number { negative, mantissa: sum.unsigned_abs().into(), exponent: unit, inexact: false };
    if rule.d == Kind::F16 {
        let bits = number.pack(Format::F16, Rounding::NearestEven) as u32;
        return if bits & 0x7fff == 0 { 0 } else { bits };
    }
    let top = unit + sum.unsigned_abs().ilog2() as i32;
    if top > 127 {
        return encode_special(rule.d, Special::Infinite(negative));
    }
    let bits = number.pack(Format::F32, Rounding::Zero) as u32;
    let bits = if rule.fraction < 23 { bits & !((1 << (23 - rule.fraction)) - 1) } else { bits };
    if bits << 1 == 0 { 0 } else { bits }
}

/// An 8-bit element as the `.f16` that it becomes for [`eight`].
pub fn widen(kind: Kind, bits: u32) -> Element {
    let bits = match kind {
        Kind::E4m3 => narrow::e4m3_to_f16(bits as u8),
        _ => narrow::e5m2_to_f16(bits as u8),
    };
    Element::new(Kind::F16, bits.into())
}

/// `mma` of 8-bit formats, which this architecture does with two instructions for `.f16` and a sum.
///
/// Of every four neighbours in `k` the first two belong to the first, the others to the second.
pub fn eight(to: Kind, a: &[Element], b: &[Element], c: u32) -> u32 {
    let half = |which: usize| -> (Vec<Element>, Vec<Element>) {
        let own = |index: &usize| index / 2 % 2 == which;
        (0..a.len()).filter(own).map(|index| (a[index], b[index])).unzip()
    };
    let rule = Rule::wide([Kind::F16, Kind::F16, to, to]);
    let ((a0, b0), (a1, b1)) = (half(0), half(1));
    let first = dot(rule, &a0, &b0, Element::ZERO);
    let second = dot(rule, &a1, &b1, Element::new(rule.d, first));
    match rule.d {
        Kind::F16 => half::add::<F16>(c as u16, second as u16).into(),
        _ => add(f32::from_bits(c), f32::from_bits(second)).to_bits(),
    }
}

fn add(a: f32, b: f32) -> f32 {
    float::add_f32(a, b, Rounding::NearestEven)
}

/// `wmma`, which sums to `.f32` if either the accumulator or the result is that, and sums `.tf32` by fours.
pub fn fragment(rule: Rule, a: &[Element], b: &[Element], c: u32) -> u32 {
    if (rule.c, rule.d) == (Kind::F16, Kind::F16) {
        return dot(rule, a, b, Element::new(rule.c, c));
    }
    let wide = Rule { c: Kind::F32, d: Kind::F32, ..rule };
    let c = if rule.c == Kind::F16 { F16::widen(c as u16).to_bits() } else { c };
    let together = if rule.a == Kind::Tf32 { 4 } else { a.len() };
    let parts = a.chunks(together).zip(b.chunks(together));
    let sum = parts.fold(c, |sum, (a, b)| dot(wide, a, b, Element::new(Kind::F32, sum)));
    match rule.d {
        Kind::F16 => half::narrow::<F16>(f32::from_bits(sum), Rounding::NearestEven).into(),
        _ => sum,
    }
}

/// `mma.m8n8k4` of `.f16`, which this architecture does without a tensor core.
pub fn volta(a: [f32; 4], b: [f32; 4], c: f32, to: Kind) -> f32 {
    let fma = |a, b, c| float::fma_f32(a, b, c, Rounding::NearestEven);
    if to == Kind::F32 {
        let sum = (0..4).fold(0., |sum, k| fma(a[k], b[k], sum));
        return add(sum, c);
    }
    let pair = |k: usize| {
        let first = float::mul_f32(a[k], b[k], Rounding::NearestEven);
        fma(a[k + 1], b[k + 1], first)
    };
    add(add(c, pair(0)), pair(2))
}

/// `c` plus the products by `fma`, from the lowest `k` on. Of several NaN operands of one the result is
/// B's, else the sum's, else A's, made quiet.
pub fn chain_f64(a: &[f64], b: &[f64], c: f64, rounding: Rounding) -> f64 {
    a.iter().zip(b).fold(c, |sum, (a, b)| {
        let nan = [*b, sum, *a].into_iter().find(|own| own.is_nan());
        nan.map_or_else(|| float::fma_f64(*a, *b, sum, rounding), float::quiet_f64)
    })
}
