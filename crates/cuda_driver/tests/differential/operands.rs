//! Edge and random operands.

use emulator::isa::Type;

/// What an operand is drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Integers of this many bits.
    Integer(u32),
    /// Floating point, and how many of them a register holds.
    Float(Format, u32),
    /// Shift counts, field positions, lane numbers.
    Count,
    /// A handful of values, so that some are equal.
    Few,
}

/// A binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    exponent: u32,
    mantissa: u32,
}

impl Format {
    const HALF: Self = Self { exponent: 5, mantissa: 10 };
    const BRAIN: Self = Self { exponent: 8, mantissa: 7 };
    const SINGLE: Self = Self { exponent: 8, mantissa: 23 };
    const DOUBLE: Self = Self { exponent: 11, mantissa: 52 };

    fn bits(self) -> u32 {
        1 + self.exponent + self.mantissa
    }

    /// The bits of a number by its parts.
    fn pack(self, negative: bool, exponent: u64, mantissa: u64) -> u64 {
        u64::from(negative) << (self.bits() - 1) | exponent << self.mantissa | mantissa
    }

    fn edges(self) -> Vec<u64> {
        let (top, bias) = ((1 << self.exponent) - 1, (1 << (self.exponent - 1)) - 1);
        let ones = (1 << self.mantissa) - 1;
        let quiet = 1 << (self.mantissa - 1);
        let magnitudes = [
            (0, 0),
            (bias, 0),
            (top, 0),
            (top, quiet | 3),
            (0, ones),
            (top - 1, ones),
            (bias + 1, quiet >> 1),
            (0, 1),
            (1, 0),
            (top, 1),
            (bias, 1),
            (bias - 1, 0),
            (bias, quiet),
            (bias - 1, ones),
            (bias + 7, quiet | 1),
            (bias + 5, 3),
        ];
        let sign = |negative| magnitudes.map(|(e, m)| self.pack(negative, e, m));
        sign(false).into_iter().zip(sign(true)).flat_map(|(plus, minus)| [plus, minus]).collect()
    }

    /// Half of them of any exponent, half near one, where operands meet.
    fn random(self, random: &mut Random) -> u64 {
        let bias = (1 << (self.exponent - 1)) - 1;
        let word = random.next();
        let mantissa = random.next() & ((1 << self.mantissa) - 1);
        let exponent = match word & 1 {
            0 => word >> 8 & ((1 << self.exponent) - 1),
            _ => bias + (word >> 8 & 15) - 8,
        };
        self.pack(word & 2 != 0, exponent, mantissa)
    }
}

/// A generator of 64-bit numbers (Steele, Lea and Flood 2014, "Fast splittable pseudorandom
/// number generators").
pub struct Random(u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Pool {
    /// What a type's values are drawn from.
    pub fn of(ty: Type) -> Self {
        match ty {
            Type::F16 => Self::Float(Format::HALF, 1),
            Type::F16x2 => Self::Float(Format::HALF, 2),
            Type::Bf16 => Self::Float(Format::BRAIN, 1),
            Type::Bf16x2 => Self::Float(Format::BRAIN, 2),
            Type::F32 | Type::Tf32 => Self::Float(Format::SINGLE, 1),
            Type::F64 => Self::Float(Format::DOUBLE, 1),
            other => Self::Integer(other.bits().max(8)),
        }
    }

    fn edges(self) -> Vec<u64> {
        match self {
            Self::Integer(bits) => integer_edges(bits),
            Self::Float(format, 1) => format.edges(),
            Self::Float(format, _) => {
                let (low, width) = (format.edges(), format.bits());
                let high = low.iter().cycle().skip(5);
                low.iter().zip(high).map(|(low, high)| low | high << width).collect()
            }
            Self::Count => {
                vec![0, 1, 31, 32, 63, 64, 256, u32::MAX.into(), 33, 16, 65, 5, 255, 8, 17]
            }
            Self::Few => vec![0, 1, 7, 0xffff_ffff],
        }
    }

    fn random(self, random: &mut Random) -> u64 {
        match self {
            Self::Integer(bits) => {
                let kept = random.next() % u64::from(bits) + 1;
                let value = random.next() >> (64 - kept);
                let value = if random.next() & 1 == 0 { value } else { value.wrapping_neg() };
                value & (u64::MAX >> (64 - bits))
            }
            Self::Float(format, count) => (0..count)
                .fold(0, |word, index| word | format.random(random) << (index * format.bits())),
            Self::Count => random.next() % 70,
            Self::Few => random.next() % 3,
        }
    }
}

fn integer_edges(bits: u32) -> Vec<u64> {
    let all = u64::MAX >> (64 - bits);
    let top = 1 << (bits - 1);
    let mut edges = vec![0, all, top, top - 1, 1, 3, all - 1, top | 1, 2, 7, 31, 32, 33];
    edges
        .extend([0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x1_0000].map(|value: u64| value & all));
    edges.extend(
        [0x1234_5678_9abc_def0, 0xdead_beef_cafe_f00d, 0x00ff_80ff_00ff_80ff].map(|v| v & all),
    );
    edges.extend([0xffff_ff80, 0xffff_8000, 0x8000_0000, 0x7fff_ffff].map(|value| value & all));
    edges.sort_unstable();
    edges.dedup();
    edges
}

/// What the operand at a position of an instruction is drawn from.
pub fn pool(opcode: &str, position: usize, ty: Type) -> Pool {
    match (opcode, position) {
        ("shl" | "shr" | "szext", 1) | ("shf" | "bfi" | "bfe", 2) | ("bfi", 3) | ("bfe", 1) => {
            Pool::Count
        }
        ("bmsk", _) | ("fns", 1 | 2) => Pool::Count,
        _ => Pool::of(ty),
    }
}

/// Factors whose product, or quotient, lies about the smallest normal number of their format.
fn at_the_bottom(format: Format, divides: bool, random: &mut Random) -> [u64; 2] {
    let (bias, ones) = ((1u64 << (format.exponent - 1)) - 1, (1u64 << format.mantissa) - 1);
    let mut mantissa = || match random.next() % 5 {
        0 => 0,
        1 => ones,
        2 => 1 << (random.next() % u64::from(format.mantissa)),
        3 => ones ^ (ones >> (random.next() % u64::from(format.mantissa))),
        _ => random.next() & ones,
    };
    let (mut first, mut second) = (mantissa(), mantissa());
    if random.next().is_multiple_of(4) {
        // (2 - 2^-part) (1 + 2^-(part + 1)) is less than 2 by less than any result shows.
        let part = random.next() % u64::from(format.mantissa - 1) + 1;
        (first, second) = (ones ^ (ones >> part), 1 << (u64::from(format.mantissa) - part - 1));
    }
    let target = random.next() % 3;
    let one = bias / 2 + random.next() % (bias / 4);
    let other = if divides {
        (one + bias).saturating_sub(target)
    } else {
        (bias + target).saturating_sub(one)
    };
    let top = (1 << format.exponent) - 2;
    let sign = random.next();
    [format.pack(sign & 1 != 0, one, first), format.pack(sign & 2 != 0, other.min(top), second)]
}

/// Rows of operands: combinations of edges, as many as random ones at most, then random ones.
pub fn rows(pools: &[Pool], random_rows: usize, seed: u64) -> Vec<[u64; 4]> {
    let limit = [0, 99, 64, 16, 8][pools.len()];
    let mut rows = vec![[0; 4]];
    for (index, pool) in pools.iter().enumerate() {
        let edges: Vec<u64> = pool.edges().into_iter().take(limit).collect();
        let extend = |row: &[u64; 4]| {
            let row = *row;
            edges
                .iter()
                .map(move |edge| {
                    let mut row = row;
                    row[index] = *edge;
                    row
                })
                .collect::<Vec<_>>()
        };
        rows = rows.iter().flat_map(extend).collect();
    }
    let mut random = Random(seed);
    rows.extend((0..random_rows).map(|_| {
        let mut row = [0; 4];
        row.iter_mut().zip(pools).for_each(|(place, pool)| *place = pool.random(&mut random));
        row
    }));
    if let [Pool::Float(format, count), Pool::Float(..), ..] = *pools {
        rows.extend((0..1024).map(|number| {
            let mut pair = || at_the_bottom(format, number % 2 == 1, &mut random);
            let (low, high) = (pair(), if count == 2 { pair() } else { [0; 2] });
            let word = |index: usize| match count {
                1 => low[index],
                _ => low[index] | high[index] << format.bits(),
            };
            [word(0), word(1), 0, 0]
        }));
    }
    rows.truncate(rows.len() / 256 * 256);
    rows
}
