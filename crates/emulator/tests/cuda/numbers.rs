//! Integers, bits, halves and packed numbers.

use super::gpu::{Chance, Gpu, blocks};

fn gpu() -> Gpu {
    Gpu::new(include_str!("numbers.ptx"))
}

/// Words with the extremes among them.
fn words(seed: u64) -> Vec<u32> {
    let mut out = Chance(seed).words(90);
    out.extend([0, 1, u32::MAX, 1 << 31, i32::MAX as u32, 0x80, 0x8000, 0xff00_ff00, 0x7f80_8000]);
    out
}

/// Runs a kernel that makes `each` numbers of every word.
fn each_word(name: &str, x: &[u32], each: usize) -> Vec<u32> {
    let gpu = gpu();
    let out = gpu.buffer(&vec![0u32; each * x.len()]);
    gpu.run(name, blocks(x.len(), 32), 32, &[&gpu.buffer(x), &out, &(x.len() as i32)]);
    out.read()
}

#[test]
fn wide_integers() {
    let gpu = gpu();
    let mut x: Vec<u64> = (0..60).map(|_| 0).collect();
    let mut chance = Chance(1);
    x.iter_mut().for_each(|x| *x = chance.bits() >> chance.below(60));
    x.extend([0, u64::MAX, u64::MAX, u64::MAX - 1, 1 << 63, 3]);
    let n = x.len() / 2;
    let out = gpu.buffer(&vec![0u64; 10 * n]);
    gpu.run("wide_integers", 2, 32, &[&gpu.buffer(&x), &out, &(n as i32)]);
    for (pair, found) in x.chunks(2).zip(out.read().chunks(10)) {
        let (a, b) = (pair[0], pair[1] | 1);
        let product = u128::from(a) * u128::from(b);
        let sum = product.wrapping_add(u128::from(b) << 70);
        let (q, r) = (sum / u128::from(b), sum % u128::from(a | 3));
        let signed = i128::from(a as i64) * i128::from(b as i64);
        let expected = [
            product as u64,
            (product >> 64) as u64,
            q as u64,
            (q >> 64) as u64,
            r as u64,
            a / b,
            (a as i64).wrapping_rem(b as i64) as u64,
            (product >> 64) as u64,
            (signed >> 64) as u64,
            (signed >> 77) as u64,
        ];
        assert_eq!(found, expected, "{a:#x} {b:#x}");
    }
}

#[test]
fn bit_tricks() {
    let x = words(2);
    for (i, found) in each_word("bit_tricks", &x, 16).chunks(16).enumerate() {
        let (a, b) = (x[i], x[(i + 1) % x.len()]);
        let (sa, sb) = (a as i32, b as i32);
        let both = u64::from(a) << 32 | u64::from(b);
        let pair = u64::from(b) << 32 | u64::from(a);
        let first = |zeros: u32, bits: u32| if zeros == bits { 0 } else { zeros + 1 };
        let bytes = pair.to_le_bytes();
        let byte = |k: u32| u32::from(bytes[(b >> (4 * k) & 7) as usize]) << (8 * k);
        let low = |x: u32| i64::from(x as i32) << 40 >> 40;
        let average = |round: i64| ((i64::from(sa) + i64::from(sb) + round) >> 1) as u32;
        let expected = [
            a.count_ones(),
            a.leading_zeros(),
            a.reverse_bits(),
            first(a.trailing_zeros(), 32),
            (0..4).map(byte).sum(),
            (pair << (i % 32) >> 32) as u32,
            (pair >> i.min(32)) as u32,
            both.count_ones()
                + both.leading_zeros() * 100
                + first(both.trailing_zeros(), 64) * 10000,
            both.reverse_bits() as u32,
            a.abs_diff(b).wrapping_add(7),
            sa.abs_diff(sb).wrapping_add(9),
            (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add((low(a) * low(b)) as u32),
            ((u64::from(a) + u64::from(b)) >> 1) as u32 ^ average(1),
            ((i64::from(sa) * i64::from(sb)) >> 32) as u32
                ^ ((u64::from(a) * u64::from(b)) >> 32) as u32,
            (sa << (32 - 14) >> (32 - 9)) as u32,
            b & !0xfff0 | (a & 0xfff) << 4,
        ];
        assert_eq!(found, expected, "{i}: {a:#x} {b:#x}");
    }
}

#[test]
fn dot_products() {
    let x = words(3);
    for (i, found) in each_word("dot_products", &x, 6).chunks(6).enumerate() {
        let [a, b, c] = [0, 1, 2].map(|k| x[(i + k) % x.len()]);
        let (ab, bb) = (a.to_le_bytes(), b.to_le_bytes());
        let (halves, sum) =
            ([a as u16, (a >> 16) as u16], |terms: i64| (i64::from(c) + terms) as u32);
        let bytes = |term: &dyn Fn(u8, u8) -> i64| (0..4).map(|k| term(ab[k], bb[k])).sum::<i64>();
        let twos = |from: usize, term: &dyn Fn(u16, u8) -> i64| {
            (0..2).map(|k| term(halves[k], bb[from + k])).sum::<i64>()
        };
        let signed = |h: u16, b: u8| i64::from(h as i16) * i64::from(b as i8);
        let unsigned = |h: u16, b: u8| i64::from(h) * i64::from(b);
        let expected = [
            sum(bytes(&|a, b| i64::from(a as i8) * i64::from(b as i8))),
            sum(bytes(&|a, b| i64::from(a) * i64::from(b))),
            sum(twos(0, &signed)),
            sum(twos(2, &signed)),
            sum(twos(0, &unsigned)),
            sum(twos(2, &unsigned)),
        ];
        assert_eq!(found, expected, "{a:#x} {b:#x} {c:#x}");
    }
}

fn bytes(a: u32, b: u32, f: impl Fn(u8, u8) -> u8) -> u32 {
    let (a, b) = (a.to_le_bytes(), b.to_le_bytes());
    u32::from_le_bytes(std::array::from_fn(|k| f(a[k], b[k])))
}

fn pairs(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    u32::from(f(a as u16, b as u16)) | u32::from(f((a >> 16) as u16, (b >> 16) as u16)) << 16
}

fn signed(f: impl Fn(i8, i8) -> i8) -> impl Fn(u8, u8) -> u8 {
    move |a, b| f(a as i8, b as i8) as u8
}

#[test]
fn packed_integers() {
    let x = words(4);
    for (i, found) in each_word("packed_integers", &x, 20).chunks(20).enumerate() {
        let (a, b) = (x[i], x[(i + 1) % x.len()]);
        let total = |each: u32| each.to_le_bytes().into_iter().map(u32::from).sum::<u32>();
        let distances = pairs(a, b, |a, b| (a as i16).abs_diff(b as i16));
        let relu = pairs(a, b, |a, b| (a as i16).max(b as i16).max(0) as u16);
        let expected = [
            bytes(a, b, u8::wrapping_add),
            bytes(a, b, u8::wrapping_sub),
            bytes(a, b, u8::saturating_add),
            bytes(a, b, signed(i8::saturating_sub)),
            bytes(a, b, u8::abs_diff),
            bytes(a, b, |a, b| (a as i8).abs_diff(b as i8)),
            bytes(a, b, u8::max),
            bytes(a, b, signed(i8::min)),
            bytes(a, b, |a, b| (u16::from(a) + u16::from(b)).div_ceil(2) as u8),
            total(bytes(a, b, u8::abs_diff)),
            bytes(a, b, |a, b| if a > b { 0xff } else { 0 }),
            pairs(a, b, u16::wrapping_add),
            distances,
            pairs(a, b, |a, b| (a as i16).max(b as i16) as u16),
            pairs(a, b, |a, b| u16::from(a <= b)),
            bytes(a, a, signed(|a, _| a.saturating_abs())),
            pairs(a, a, |a, _| (a as i16).saturating_neg() as u16),
            (distances & 0xffff) + (distances >> 16),
            bytes(a, b, |a, b| ((u16::from(a) + u16::from(b)) / 2) as u8),
            (a as i32).wrapping_add(b as i32).max(5) as u32 ^ a.min(b).min(1 << 30) ^ relu,
        ];
        assert_eq!(found, expected, "{a:#x} {b:#x}");
    }
}

// ---- halves

/// A format of 16 bits: bits of its fraction, and bias.
#[derive(Clone, Copy)]
struct Format(i32, i32);

const F16: Format = Format(10, 15);
const BF16: Format = Format(7, 127);

impl Format {
    fn value(self, bits: u32) -> f64 {
        let Self(fraction_bits, bias) = self;
        let bits = bits & 0xffff;
        let (top, fraction) =
            ((bits & 0x7fff) as i32 >> fraction_bits, bits & ((1 << fraction_bits) - 1));
        let unit = 2f64.powi(top.max(1) - bias - fraction_bits);
        let magnitude = match top {
            0 => f64::from(fraction) * unit,
            _ if top > 2 * bias && fraction == 0 => f64::INFINITY,
            _ if top > 2 * bias => f64::NAN,
            _ => f64::from(fraction | 1 << fraction_bits) * unit,
        };
        if bits >> 15 == 0 { magnitude } else { -magnitude }
    }

    /// To nearest even.
    fn round(self, value: f64) -> u32 {
        let Self(fraction_bits, bias) = self;
        let sign = u32::from(value.is_sign_negative()) << 15;
        if value.is_nan() {
            return 0x7fff;
        }
        let magnitude = value.abs();
        let least = 1 - bias - fraction_bits;
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023 - fraction_bits).max(least);
        let mut units = (magnitude / 2f64.powi(exponent)).round_ties_even() as u32;
        let infinity = ((2 * bias + 1) as u32) << fraction_bits;
        units += ((exponent - least) as u32) << fraction_bits;
        sign | if magnitude.is_infinite() { infinity } else { units.min(infinity) }
    }

    fn pair(self, low: f64, high: f64) -> u32 {
        self.round(low) | self.round(high) << 16
    }

    /// Of both halves.
    fn each(self, a: u32, b: u32, f: impl Fn(f64, f64) -> f64) -> u32 {
        let (a, b) = ([a, a >> 16], [b, b >> 16]);
        self.pair(f(self.value(a[0]), self.value(b[0])), f(self.value(a[1]), self.value(b[1])))
    }

    fn test(self, a: u32, b: u32, f: impl Fn(f64, f64) -> bool) -> [bool; 2] {
        let value = |bits: u32, shift: u32| self.value(bits >> shift);
        [0, 16].map(|shift| f(value(a, shift), value(b, shift)))
    }
}

#[test]
fn the_reference_rounds_as_the_format_says() {
    for bits in 0..0x7c00 {
        assert_eq!(F16.round(F16.value(bits)), bits);
    }
    for bits in 0..0x7f80 {
        assert_eq!(BF16.round(BF16.value(bits)), bits);
    }
    let rounded = [65519., 65520., 1. + 2f64.powi(-11), 1. + 3. * 2f64.powi(-11), 2f64.powi(-25)];
    assert_eq!(rounded.map(|x| F16.round(x)), [0x7bff, 0x7c00, 0x3c00, 0x3c02, 0]);
}

/// Pairs whose exponents are near the bias, so that a double holds their products and sums.
fn pairs_of(format: Format, seed: u64) -> Vec<u32> {
    let Format(fraction_bits, bias) = format;
    let mut chance = Chance(seed);
    let mut half = || {
        let exponent = (bias - 5) as u64 + chance.below(11);
        (chance.below(2) << 15 | exponent << fraction_bits | chance.below(1 << fraction_bits))
            as u32
    };
    let mut out: Vec<u32> = (0..100).map(|_| half() | half() << 16).collect();
    let one = (bias as u32) << fraction_bits;
    out.extend([0, 0x8000_0000, one | one << 16, one | (one | 0x8000) << 16, one << 16]);
    out
}

fn mask([low, high]: [bool; 2]) -> u32 {
    (u32::from(low) * 0xffff) | (u32::from(high) * 0xffff_0000)
}

#[test]
fn halves() {
    let x = pairs_of(F16, 5);
    for (i, found) in each_word("halves", &x, 16).chunks(16).enumerate() {
        let (a, b) = (x[i], x[(i + 1) % x.len()]);
        let value = |bits: u32| F16.value(bits);
        let smaller =
            |a: f64, b: f64| if a < b || (a == b && a.is_sign_negative()) { a } else { b };
        let larger = |a: f64, b: f64| if a > b || (a == b && b.is_sign_negative()) { a } else { b };
        let single = |x: f64| x as f32;
        let flag = |[low, high]: [bool; 2]| F16.pair(f64::from(low as u8), f64::from(high as u8));
        let low = F16.each(a, b, |a, b| if a < b { 1. } else { 0. });
        let geu = F16.test(a, b, |a, b| a >= b);
        let expected = [
            F16.each(a, b, |a, b| a + b),
            F16.each(a, b, |a, b| a * b),
            F16.each(a, b, |a, b| a * b + a),
            F16.each(a, b, |a, b| (a - b).clamp(0., 1.) + 0.),
            F16.each(a, b, larger),
            F16.each(a, b, smaller),
            F16.each(a, b, |a, b| (a * b + b).max(0.) + 0.),
            F16.each(a, b, |a, _| -a.abs()),
            mask(F16.test(a, b, |a, b| a > b)),
            u32::from(geu[0] && geu[1]) + 2 * u32::from(value(a) == value(b >> 16)),
            low,
            (value(a).round_ties_even() as i32 as u32)
                .wrapping_mul(3)
                .wrapping_add(value(a >> 16) as u32),
            F16.pair(f64::from(single(value(a)) * 3.1), f64::from(single(value(b >> 16)) + 0.7)),
            down(i as f64 * 1001.) | F16.round(i as f64 / 3.) << 16,
            F16.each(a, b, |a, _| a.floor()),
        ];
        assert_eq!(flag(F16.test(a, b, |a, b| a < b)), low);
        assert_eq!(found[..15], expected, "{i}: {a:#x} {b:#x}");
        // A quotient is right to one unit in the last place, and infinite where the divisor is 0.
        for shift in [0, 16] {
            let exact = F16.value(a >> shift) / F16.value(b >> shift);
            let quotient = F16.value(found[15] >> shift);
            let near = (quotient - exact).abs() <= exact.abs() * 2f64.powi(-10);
            assert!(
                near || quotient == exact || (exact.is_nan() && quotient.is_nan()),
                "{a:#x} / {b:#x}"
            );
        }
    }
}

/// The f16 at or below a whole number that is not negative.
fn down(value: f64) -> u32 {
    let bits = F16.round(value).min(0x7bff);
    if F16.value(bits) > value { bits - 1 } else { bits }
}

/// The nearest of all finite numbers of an 8-bit format, the even one of two.
fn to_byte(value: f64, number: impl Fn(u32) -> Option<f64>) -> u32 {
    let all = (0..0x80u32).filter_map(|code| Some((code, number(code)?)));
    let distance = |(code, own): &(u32, f64)| ((own - value.abs()).abs(), code & 1);
    let order = |a: &(u32, f64), b: &(u32, f64)| distance(a).partial_cmp(&distance(b)).unwrap();
    let (code, _) = all.min_by(order).unwrap();
    code | if value.is_sign_negative() { 0x80 } else { 0 }
}

fn e4m3(code: u32) -> Option<f64> {
    let (top, fraction) = (code as i32 >> 3, f64::from(code & 7));
    let value =
        if top == 0 { fraction * 2f64.powi(-9) } else { (8. + fraction) * 2f64.powi(top - 10) };
    (code != 0x7f).then_some(value)
}

fn e5m2(code: u32) -> Option<f64> {
    (code < 0x7c).then(|| F16.value(code << 8))
}

#[test]
fn brain_floats() {
    let mut x = pairs_of(BF16, 6);
    // Far outside what the 8-bit formats hold.
    x.extend([0x4680_c680, 0x3300_b300, 0x4780_c4c0, 0x4680_4680]);
    for (i, found) in each_word("brain_floats", &x, 10).chunks(10).enumerate() {
        let (a, b) = (x[i], x[(i + 1) % x.len()]);
        let value = |bits: u32| BF16.value(bits);
        let smaller =
            |a: f64, b: f64| if a < b || (a == b && a.is_sign_negative()) { a } else { b };
        let larger = |a: f64, b: f64| if a > b || (a == b && b.is_sign_negative()) { a } else { b };
        let differ = BF16.test(a, b, |a, b| a != b);
        let expected = [
            BF16.each(a, b, |a, b| a + b),
            BF16.each(a, b, |a, b| a * b),
            BF16.each(a, b, |a, b| a * b + a),
            BF16.each(a, b, larger),
            BF16.each(a, b, smaller),
            mask(BF16.test(a, b, |a, b| a > b)),
            BF16.pair(f64::from(value(a) as f32 * 3.1), f64::from(value(b >> 16) as f32 * 0.7)),
            to_byte(value(a), e4m3)
                | to_byte(value(b >> 16), e4m3) << 8
                | to_byte(value(b), e5m2) << 16
                | to_byte(value(a >> 16), e5m2) << 24,
            (a & 0x7b) << 8 | (a >> 8 & 0x7b) << 24,
            u32::from(differ[0] && differ[1]) + 2 * u32::from(value(a) <= value(b >> 16)),
        ];
        assert_eq!(found, expected, "{i}: {a:#x} {b:#x}");
    }
}

/// The number of an ordered set of floats that lies at or beyond a value in a direction.
fn beyond(nearest: f32, value: f64, up: bool) -> f32 {
    match (f64::from(nearest) < value, f64::from(nearest) > value) {
        (true, _) if up => nearest.next_up(),
        (_, true) if !up => nearest.next_down(),
        _ => nearest,
    }
}

#[test]
fn conversions() {
    let gpu = gpu();
    let mut x = Chance(7).doubles(60, 1000.);
    x.extend(Chance(8).doubles(20, 3e9));
    x.extend([0., -0., 0.5, -0.5, 1.5, 2.5, -2.5, 1e-300, -1e300, 4e9, 0.3, 127.9, -128.9]);
    let out = gpu.buffer(&vec![0u64; 16 * x.len()]);
    gpu.run("conversions", blocks(x.len(), 32), 32, &[&gpu.buffer(&x), &out, &(x.len() as i32)]);
    for (a, found) in x.iter().zip(out.read().chunks(16)) {
        let (a, f) = (*a, *a as f32);
        let long = |x: i32| i64::from(x) as u64;
        let both = |low: f32, high: f32| u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32;
        let product = (a as i64).wrapping_mul(1_234_567_891_011);
        let nearest = product as f64;
        let above =
            if (nearest as i128) < i128::from(product) { nearest.next_up() } else { nearest };
        let whole = (a as u64).wrapping_mul(987_654_321);
        let rounded = whole as f32;
        let cut = if rounded as u128 > u128::from(whole) { rounded.next_down() } else { rounded };
        let int = f as i32;
        let expected = [
            long(a.round_ties_even() as i32),
            u64::from(a.floor() as i32 as u32),
            u64::from(a.ceil() as u32),
            a as i64 as u64,
            a.round_ties_even() as u64,
            both(beyond(f, a, false), beyond(f, a, true)),
            long(f.ceil() as i32),
            f.floor() as u64,
            a.round_ties_even().to_bits(),
            a.trunc().to_bits() ^ a.ceil().to_bits(),
            both(f.floor(), f.round()),
            above.to_bits(),
            u64::from(cut.to_bits()),
            u64::from(int as u8)
                | u64::from(int as u16) << 16
                | u64::from(int as i8 as i32 as u32) << 32,
            f as i64 as u64,
            u64::from((f.clamp(0., 1.) + 0.).to_bits()),
        ];
        assert_eq!(found, expected, "{a}");
    }
}
