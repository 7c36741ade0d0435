//! Operands of the recorded cases: the same numbers that the recording used, made from a seed.
//!
//! There are eleven kinds of operands: near one, wide exponents, any bits, edges, a large sum that
//! cancels, mostly zeros, powers of two, subnormals, near overflow; and NaNs, tiny sums.

/// Kinds of operands that the cases of most forms go round.
pub const KINDS: u64 = 9;
/// `.f64` operands of which many are NaNs.
const NANS: u64 = 9;
/// Sums that are subnormal, of few products.
const TINY: u64 = 10;

/// FNV-1a of words, of 32 bits or of 8.
pub fn fnv(words: impl IntoIterator<Item = u32>) -> u64 {
    words.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        (hash ^ u64::from(word)).wrapping_mul(0x100_0000_01b3)
    })
}

/// Splitmix64 (S. Vigna, 2015).
fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Bits of exponent and fraction.
fn layout(format: &str) -> (u32, u32) {
    match format {
        "f16" => (5, 10),
        "bf16" => (8, 7),
        "tf32" | "f32" => (8, 23),
        "e4m3" => (4, 3),
        "e5m2" => (5, 2),
        "f64" => (11, 52),
        other => panic!("{other}"),
    }
}

fn width(format: &str) -> u32 {
    let (exponent, fraction) = layout(format);
    1 + exponent + fraction
}

/// Least exponent and number of exponents, of a factor and of a sum.
type Range = (u64, u64);

fn pick(format: &str, table: &[(&str, Range)]) -> Range {
    table.iter().find(|(name, _)| *name == format).unwrap().1
}

const WIDE: &[(&str, Range)] = &[
    ("f16", (1, 29)),
    ("bf16", (107, 41)),
    ("tf32", (107, 41)),
    ("e4m3", (0, 15)),
    ("e5m2", (1, 29)),
    ("f64", (983, 81)),
];
const HIGH: &[(&str, Range)] = &[
    ("f16", (20, 10)),
    ("bf16", (183, 12)),
    ("tf32", (183, 12)),
    ("e4m3", (10, 6)),
    ("e5m2", (20, 11)),
    ("f64", (1500, 80)),
];
const LOW: &[(&str, Range)] = &[
    ("f16", (0, 4)),
    ("e4m3", (0, 3)),
    ("e5m2", (0, 3)),
    ("bf16", (0, 127)),
    ("tf32", (0, 127)),
    ("f64", (0, 1023)),
];
const FEW_LOW: &[(&str, Range)] =
    &[("f16", (0, 4)), ("e4m3", (0, 3)), ("e5m2", (0, 3)), ("bf16", (40, 60)), ("tf32", (40, 60))];
const SUM_WIDE: &[(&str, Range)] = &[("f16", (1, 29)), ("f32", (82, 91)), ("f64", (973, 101))];
const SUM_POWER: &[(&str, Range)] = &[("f16", (1, 29)), ("f32", (97, 61)), ("f64", (993, 61))];
const SUM_HIGH: &[(&str, Range)] = &[("f16", (22, 9)), ("f32", (240, 15)), ("f64", (2030, 17))];

fn sum_low(format: &str, factor: &str) -> Range {
    match (format, factor) {
        ("f32", "f16") => (67, 45),
        ("f32", "e4m3") => (100, 20),
        ("f32", "e5m2") => (80, 30),
        ("f16", _) => (0, 4),
        ("f32", _) => (0, 31),
        _ => (0, 60),
    }
}

/// What an element is for.
#[derive(Clone, Copy)]
struct Role<'a> {
    kind: u64,
    sum: bool,
    /// Format of A's elements.
    factor: &'a str,
}

/// An element from 64 random bits.
fn element(format: &str, role: Role<'_>, random: u64) -> u64 {
    let (exponent_bits, fraction_bits) = layout(format);
    let top = exponent_bits + fraction_bits;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let other = mix(random) >> 33;
    let sign = (random >> 63) << top;
    let mut fraction = random & ((1 << fraction_bits) - 1);
    let within = |(low, count): Range| low + other % count;
    let wide = || within(if role.sum { pick(format, SUM_WIDE) } else { pick(role.factor, WIDE) });
    let exponent = match role.kind {
        0 if role.sum => within((bias - 6, 13)),
        0 => within((bias - 3, 7)),
        1 => wide(),
        2 => return random >> (64 - width(format)),
        3 => return sign | edge(format, other),
        NANS if (other >> 20).is_multiple_of(4) => return sign | 0x7ff << 52 | fraction | 1,
        NANS => within(pick(role.factor, WIDE)),
        TINY if role.sum => within((0, if format == "f16" { 3 } else { 20 })),
        TINY if !(other >> 20).is_multiple_of(8) => return sign,
        TINY => within(pick(role.factor, FEW_LOW)),
        4 if role.sum => within((2 + bias, if format == "f16" { 12 } else { 26 })),
        4 => within((bias, 2)),
        5 => {
            let zero = if format == "f64" { other >> 20 & 3 } else { random >> 54 & 3 };
            if zero >= if role.sum { 2 } else { 1 } {
                return sign;
            }
            wide()
        }
        6 => {
            if other >> 24 & 1 != 0 {
                return 0;
            }
            fraction = match other >> 20 & 7 {
                0 => 1,
                1 => (1 << fraction_bits) - 1,
                _ => 0,
            };
            if role.sum { within(pick(format, SUM_POWER)) } else { wide() }
        }
        7 if role.sum => within(sum_low(format, role.factor)),
        7 => within(pick(role.factor, LOW)),
        _ => {
            fraction &= if format == "e4m3" { 6 } else { u64::MAX };
            within(if role.sum { pick(format, SUM_HIGH) } else { pick(role.factor, HIGH) })
        }
    };
    sign | exponent << fraction_bits | fraction
}

fn edge(format: &str, other: u64) -> u64 {
    let (exponent_bits, fraction_bits) = layout(format);
    let bias = (1u64 << (exponent_bits - 1)) - 1;
    let one = bias << fraction_bits;
    let unit = 1u64 << fraction_bits;
    let (max, infinity, nan) = match format {
        "e4m3" => (0x7e, 0x7f, 0x7f),
        _ => {
            let max = (((1 << exponent_bits) - 1) << fraction_bits) - 1;
            (max, max + 1, max + 2 + unit / 4)
        }
    };
    match other % 64 {
        0 if (other >> 8).is_multiple_of(8) => infinity,
        1 if (other >> 8).is_multiple_of(8) => nan,
        index => [
            0,
            1,
            unit - 1,
            unit,
            one,
            one + 1,
            one - 1,
            max,
            max - 1,
            one + unit,
            one + unit / 2,
            one - unit,
        ][index as usize % 12],
    }
}

const INTEGERS: [u64; 8] =
    [0x7fff_ffff, 0x8000_0000, 0x7fff_ff00, 0x8000_0100, 0, 1, 0xffff_ffff, 0x7f7f_7f7f];

/// The operands of one form.
pub struct Operands<'a> {
    /// Of the form.
    pub seed: u64,
    /// Format of A's elements, or `int`.
    pub factor: &'a str,
    /// The one kind of operands, where the cases do not go round several.
    pub kind: Option<u64>,
}

impl Operands<'_> {
    /// Registers of an operand: its number in the instruction, how many, its format, and whether it
    /// is the sum.
    pub fn words(
        &self,
        case: u64,
        operand: u64,
        count: usize,
        format: &str,
        sum: bool,
    ) -> Vec<u64> {
        let base = self.seed.wrapping_add((case * 8 + operand) << 32);
        let role = Role { kind: self.kind.unwrap_or(case % KINDS), sum, factor: self.factor };
        let random = |index: usize, part: u64| mix(base.wrapping_add(index as u64 * 4 + part));
        (0..count).map(|index| word(format, role, |part| random(index, part))).collect()
    }
}

fn word(format: &str, role: Role<'_>, random: impl Fn(u64) -> u64) -> u64 {
    if matches!(format, "int" | "s32") {
        let own = random(0);
        let edge = role.kind == 3 && role.sum;
        return if edge { INTEGERS[(own >> 40) as usize % 8] } else { own >> 32 };
    }
    let width = width(format);
    let parts = (32 / width).max(1);
    (0..parts).fold(0, |word, part| {
        word | element(format, role, random(part.into())) << (part * width % 64)
    })
}

/// Metadata of a sparse A from any words: each four bits name two different places in order.
pub fn metadata(words: &[u64], tf32: bool) -> Vec<u64> {
    let good: &[u64] = if tf32 { &[0x4, 0xe] } else { &[0x4, 0x8, 0xc, 0x9, 0xd, 0xe] };
    let spread = |word: &u64| {
        (0..8).fold(0, |out, nibble| {
            let choice = (word >> (4 * nibble)) as usize % good.len();
            out | good[choice] << (4 * nibble)
        })
    };
    words.iter().map(spread).collect()
}
