//! Sums of floating-point products.

use super::element::{BEYOND, Element, ElementFormat, NOTHING, Special};
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
    pub a: ElementFormat,
    /// Format of B's elements.
    pub b: ElementFormat,
    /// Format of the accumulator.
    pub c: ElementFormat,
    /// Format of the result: `.f16` or `.f32`.
    pub d: ElementFormat,
    /// Bits below the largest exponent that the sum is made with.
    pub fraction: i32,
}

impl Rule {
    /// The rule of `.f16`, `.bf16` and `.tf32`.
    pub const fn wide([a, b, c, d]: [ElementFormat; 4]) -> Self {
        Self { a, b, c, d, fraction: 25 }
    }
}

/// Bits of fraction that `wgmma` sums 8-bit formats with.
pub const NARROW: i32 = 13;

/// `c` plus the sum of the products, as bits of the result's format.
pub fn dot(rule: Rule, a: &[Element], b: &[Element], c: Element) -> u32 {
    let exponents = a.iter().zip(b).map(|(a, b)| a.exponent + b.exponent);
    let top = exponents.fold(c.exponent, i32::max);
    if top >= BEYOND / 2 {
        return encode_special(rule.d, special(a, b, c));
    }
    if top <= NOTHING / 2 {
        return 0;
    }
    let shift = rule.fraction - rule.a.fraction() - rule.b.fraction();
    let products = a.iter().zip(b).map(|(a, b)| {
        let product = i64::from(a.significand * b.significand) << shift;
        cut(product, top - a.exponent - b.exponent)
    });
    let shift = (rule.fraction - rule.c.fraction()).max(0);
    let lost = top - c.exponent + (rule.c.fraction() - rule.fraction).max(0);
    let sum = cut(i64::from(c.significand) << shift, lost) + products.sum::<i64>();
    encode(rule, sum, top - rule.fraction)
}

/// A number without its low bits: cut towards zero.
#[inline(always)]
fn cut(value: i64, bits: i32) -> i64 {
    let sign = value >> 63;
    let magnitude = ((value ^ sign) - sign) >> bits.min(63);
    (magnitude ^ sign) - sign
}

/// The infinity or NaN that a sum is of which some term is one.
#[cold]
fn special(a: &[Element], b: &[Element], c: Element) -> Special {
    let one = |found: Special, next: Special| match (found, next) {
        (Special::Finite, other) | (other, Special::Finite) => other,
        (found, next) if found == next => found,
        _ => Special::Nan,
    };
    let products = a.iter().zip(b).map(|(a, b)| product_special(*a, *b));
    products.fold(c.special, one)
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

fn encode_special(kind: ElementFormat, special: Special) -> u32 {
    match (kind, special) {
        (ElementFormat::F16, Special::Infinite(negative)) => 0x7c00 | u32::from(negative) << 15,
        (ElementFormat::F16, _) => NAN_F16,
        (_, Special::Infinite(negative)) => 0x7f80_0000 | u32::from(negative) << 31,
        _ => NAN_F32.to_bits(),
    }
}

/// The bits of `sum · 2^unit`. What is too large for `.f32` is an infinity, though the rest is cut.
fn encode(rule: Rule, sum: i64, unit: i32) -> u32 {
    if sum == 0 {
        return 0;
    }
    if rule.d == ElementFormat::F16 {
        return encode_f16(sum, unit);
    }
    let magnitude = sum.unsigned_abs();
    let top = magnitude.ilog2() as i32;
    let exponent = unit + top;
    if exponent > 127 {
        return encode_special(rule.d, Special::Infinite(sum < 0));
    }
    // A subnormal has its last bit at 2^-149, as the least normal number has.
    let last = (exponent - 23).max(-149);
    let moved = match last - unit {
        left @ ..=0 => magnitude << -left,
        right => magnitude >> right.min(63),
    };
    let bits = moved as u32 + (((last + 149) as u32) << 23);
    let kept = u32::MAX << (23 - rule.fraction).max(0);
    match bits & kept {
        0 => 0,
        bits => bits | u32::from(sum < 0) << 31,
    }
}

fn encode_f16(sum: i64, unit: i32) -> u32 {
    let mantissa = sum.unsigned_abs().into();
    let number = Number { negative: sum < 0, mantissa, exponent: unit, inexact: false };
    match number.pack(Format::F16, Rounding::NearestEven) as u32 {
        bits if bits & 0x7fff == 0 => 0,
        bits => bits,
    }
}

/// An 8-bit element as the `.f16` that it becomes for [`eight`].
pub fn widen(kind: ElementFormat, bits: u32) -> Element {
    let bits = match kind {
        ElementFormat::E4m3 => narrow::e4m3_to_f16(bits as u8),
        _ => narrow::e5m2_to_f16(bits as u8),
    };
    Element::new(ElementFormat::F16, bits.into())
}

/// `mma` of 8-bit formats, which this architecture does with two instructions for `.f16` and a sum.
///
/// Of every four neighbours in `k` the first two belong to the first, the others to the second.
pub fn eight(to: ElementFormat, a: &[Element], b: &[Element], c: u32) -> u32 {
    let half = |which: usize| -> (Vec<Element>, Vec<Element>) {
        let own = |index: &usize| index / 2 % 2 == which;
        (0..a.len()).filter(own).map(|index| (a[index], b[index])).unzip()
    };
    let rule = Rule::wide([ElementFormat::F16, ElementFormat::F16, to, to]);
    let ((a0, b0), (a1, b1)) = (half(0), half(1));
    let first = dot(rule, &a0, &b0, Element::ZERO);
    let second = dot(rule, &a1, &b1, Element::new(rule.d, first));
    match rule.d {
        ElementFormat::F16 => half::add::<F16>(c as u16, second as u16).into(),
        _ => add(f32::from_bits(c), f32::from_bits(second)).to_bits(),
    }
}

fn add(a: f32, b: f32) -> f32 {
    float::add_f32(a, b, Rounding::NearestEven)
}

/// `wmma`, which sums to `.f32` if either the accumulator or the result is that, and sums `.tf32`
/// by fours.
pub fn fragment(rule: Rule, a: &[Element], b: &[Element], c: u32) -> u32 {
    if (rule.c, rule.d) == (ElementFormat::F16, ElementFormat::F16) {
        return dot(rule, a, b, Element::new(rule.c, c));
    }
    let wide = Rule { c: ElementFormat::F32, d: ElementFormat::F32, ..rule };
    let c = if rule.c == ElementFormat::F16 { F16::widen(c as u16).to_bits() } else { c };
    let together = if rule.a == ElementFormat::Tf32 { 4 } else { a.len() };
    let parts = a.chunks(together).zip(b.chunks(together));
    let sum = parts.fold(c, |sum, (a, b)| dot(wide, a, b, Element::new(ElementFormat::F32, sum)));
    match rule.d {
        ElementFormat::F16 => {
            half::narrow::<F16>(f32::from_bits(sum), Rounding::NearestEven).into()
        }
        _ => sum,
    }
}

/// `mma.m8n8k4` of `.f16`, which this architecture does without a tensor core.
pub fn volta(a: [f32; 4], b: [f32; 4], c: f32, to: ElementFormat) -> f32 {
    let fma = |a, b, c| float::fma_f32(a, b, c, Rounding::NearestEven);
    if to == ElementFormat::F32 {
        let sum = (0..4).fold(0., |sum, k| fma(a[k], b[k], sum));
        return add(sum, c);
    }
    let pair = |k: usize| {
        let first = float::mul_f32(a[k], b[k], Rounding::NearestEven);
        fma(a[k + 1], b[k + 1], first)
    };
    add(add(c, pair(0)), pair(2))
}

/// `c` plus the products by `fma`, from the lowest `k` on. Of several NaN operands of one the
/// result is B's, else the sum's, else A's, made quiet.
pub fn chain_f64(a: &[f64], b: &[f64], c: f64, rounding: Rounding) -> f64 {
    a.iter().zip(b).fold(c, |sum, (a, b)| {
        let nan = [*b, sum, *a].into_iter().find(|own| own.is_nan());
        nan.map_or_else(|| float::fma_f64(*a, *b, sum, rounding), float::quiet_f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule::wide([
        ElementFormat::F16,
        ElementFormat::F16,
        ElementFormat::F32,
        ElementFormat::F32,
    ]);

    fn halves<const N: usize>(values: [f32; N]) -> [Element; N] {
        values.map(|value| {
            let bits = half::narrow::<F16>(value, Rounding::NearestEven);
            Element::new(ElementFormat::F16, bits.into())
        })
    }

    fn sum<const N: usize>(a: [f32; N], b: [f32; N], c: f32) -> f32 {
        let c = Element::new(ElementFormat::F32, c.to_bits());
        f32::from_bits(dot(RULE, &halves(a), &halves(b), c))
    }

    #[test]
    fn small_sums_are_exact() {
        assert_eq!(sum([1., 2., -3.], [4., 0.5, 2.], 10.), 9.);
        assert_eq!(sum([0.; 2], [0.; 2], -0.).to_bits(), 0);
        assert_eq!(sum([1.], [-1.], 1.).to_bits(), 0);
        assert_eq!(sum([0.], [1.], f32::from_bits(1)).to_bits(), 1);
        assert_eq!(sum([0.], [1.], -f32::MIN_POSITIVE), -f32::MIN_POSITIVE);
    }

    #[test]
    fn terms_are_cut_25_bits_below_the_greatest() {
        let one = |exponent: i32| 2f32.powi(exponent);
        // 2^-25 is kept beside 1, and 2^-26 is not, however many there are.
        assert_eq!(sum([one(-13); 2], [one(-12); 2], 1.), 1.);
        assert_eq!(sum([one(-13); 4], [one(-12); 4], 1.), 1. + one(-23));
        assert_eq!(sum([one(-13); 16], [one(-13); 16], 1.), 1.);
        // Cut towards zero, of either sign.
        assert_eq!(sum([one(-13); 3], [-one(-12); 3], -1.), -1.);
    }

    #[test]
    fn results_are_cut_for_f32_and_rounded_for_f16() {
        assert_eq!(sum([1.], [1.], 3. * 2f32.powi(-25)), 1.);
        let rule = Rule { d: ElementFormat::F16, ..RULE };
        let three_quarters = Element::new(ElementFormat::F32, (3. * 2f32.powi(-12)).to_bits());
        let one = halves([1.]);
        assert_eq!(dot(rule, &one, &one, three_quarters), 0x3c01);
    }

    #[test]
    fn infinities_and_nans_win() {
        let infinity = f32::INFINITY;
        assert_eq!(sum([infinity, 1.], [-2., 1.], 1.), -infinity);
        assert!(sum([infinity, 1.], [0., 1.], 1.).is_nan());
        assert!(sum([infinity, 1.], [1., 1.], -infinity).is_nan());
        assert_eq!(sum([f32::NAN], [0.], 1.).to_bits(), 0x7fff_ffff);
        assert_eq!(sum([65504.], [65504.], f32::MAX), f32::MAX);
        let rule = Rule { a: ElementFormat::Bf16, b: ElementFormat::Bf16, ..RULE };
        let large = [Element::new(ElementFormat::Bf16, 0x7f00)];
        assert_eq!(dot(rule, &large, &large, Element::ZERO), infinity.to_bits());
    }

    #[test]
    fn bytes_lose_more() {
        let kinds =
            [ElementFormat::E4m3, ElementFormat::E4m3, ElementFormat::F32, ElementFormat::F32];
        let one = [Element::new(ElementFormat::E4m3, 0x38)];
        let sum = |rule, c: f32| {
            f32::from_bits(dot(rule, &one, &one, Element::new(ElementFormat::F32, c.to_bits())))
        };
        let narrow = Rule { fraction: NARROW, ..Rule::wide(kinds) };
        assert_eq!(sum(narrow, 2f32.powi(-13)), 1. + 2f32.powi(-13));
        assert_eq!(sum(narrow, 2f32.powi(-14)), 1.);
        assert_eq!(sum(Rule::wide(kinds), 2f32.powi(-14)), 1. + 2f32.powi(-14));
    }

    #[test]
    fn chains_choose_among_nans() {
        let nan = |payload: u64| f64::from_bits(0x7ff0 << 48 | payload);
        let chain = |a, b, c| chain_f64(&[a], &[b], c, Rounding::NearestEven).to_bits() & 0xff;
        assert_eq!(chain(nan(1), nan(2), nan(3)), 2);
        assert_eq!(chain(nan(1), 1., nan(3)), 3);
        assert_eq!(chain(nan(1), 1., 1.), 1);
    }
}
