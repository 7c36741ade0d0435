//! In which order blocks and warps run.
//!
//! A GPU promises no order. A kernel whose result changes with the schedule depends on one, by a
//! race or by the rounding of a sum; a kernel that only ends under some schedules needs blocks to
//! be resident together.

use std::fmt;
use std::str::FromStr;

/// An order of blocks and warps.
///
/// On one CPU thread each schedule is one fixed sequence, `Random` for each seed. With several,
/// which thread takes the next block depends on the machine: then only the order in which blocks
/// *begin* is fixed.
///
/// As text: `sequential`, `window`, `random:SEED`, `reversed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schedule {
    /// Each CPU thread brings a block to its end before it begins another. Blocks that wait for
    /// later ones never end.
    Sequential,
    /// In order of number; where blocks wait, more of them become resident, up to what the device
    /// holds.
    #[default]
    Window,
    /// Blocks in an order that the seed gives, several resident from the start, warps and blocks
    /// changing after slices of random length.
    Random(u64),
    /// As `Window`, but from the last block to the first, and in each block from the last warp to
    /// the first.
    Reversed,
}

/// A text that names no schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a schedule; there are sequential, window, random:SEED, reversed")]
pub struct UnknownSchedule {
    /// The text.
    pub text: String,
}

impl FromStr for Schedule {
    type Err = UnknownSchedule;

    fn from_str(text: &str) -> Result<Self, UnknownSchedule> {
        let unknown = || UnknownSchedule { text: text.to_owned() };
        match text.trim() {
            "sequential" => Ok(Self::Sequential),
            "window" => Ok(Self::Window),
            "reversed" => Ok(Self::Reversed),
            other => {
                let seed = other.strip_prefix("random:").ok_or_else(unknown)?;
                seed.trim().parse().map(Self::Random).map_err(|_| unknown())
            }
        }
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sequential => f.write_str("sequential"),
            Self::Window => f.write_str("window"),
            Self::Random(seed) => write!(f, "random:{seed}"),
            Self::Reversed => f.write_str("reversed"),
        }
    }
}

impl Schedule {
    /// The block that begins as the `ticket`-th of `blocks`.
    pub fn block(self, ticket: u64, blocks: u64) -> u64 {
        match self {
            Self::Sequential | Self::Window => ticket,
            Self::Reversed => blocks - 1 - ticket,
            Self::Random(seed) => shuffled(seed, ticket, blocks),
        }
    }

    /// The dice of a CPU thread, for a schedule that throws them.
    pub fn dice(self, worker: u64) -> Option<Dice> {
        match self {
            Self::Random(seed) => Some(Dice::new(seed ^ worker.wrapping_mul(0x9e37_79b9))),
            _ => None,
        }
    }
}

/// A number of `0..count`, another for each ticket: an affine map, which is one to one because
/// factor and count have no common divisor.
fn shuffled(seed: u64, ticket: u64, count: u64) -> u64 {
    let mut dice = Dice::new(seed);
    let mut factor = 1 + dice.below(count);
    while gcd(factor, count) != 1 {
        factor += 1;
    }
    let shift = dice.below(count);
    let product = u128::from(factor) * u128::from(ticket) + u128::from(shift);
    (product % u128::from(count)) as u64
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Random numbers that a seed gives (Steele, Lea, Flood: SplitMix, 2014).
#[derive(Clone, Debug)]
pub struct Dice {
    state: u64,
}

impl Dice {
    /// Dice with a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// The length of a slice of at most `longest` instructions, as often short as long.
    pub fn slice(&mut self, longest: i64) -> i64 {
        let shift = self.below(9);
        (longest >> shift).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_schedule_reads_back_as_the_same() {
        for text in ["sequential", "window", "random:0", "random:18446744073709551615", "reversed"]
        {
            assert_eq!(text.parse::<Schedule>().unwrap().to_string(), text);
        }
        for text in ["", "random", "random:", "random:-1", "random:x", "Window", "backwards"] {
            let error = text.parse::<Schedule>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("`{text}` is not a schedule; there are ")),
                "{error}"
            );
        }
    }

    #[test]
    fn every_block_begins_once() {
        for schedule in [Schedule::Window, Schedule::Reversed, Schedule::Random(7)] {
            for blocks in [1u64, 2, 3, 32, 97, 1000] {
                let mut all: Vec<u64> =
                    (0..blocks).map(|ticket| schedule.block(ticket, blocks)).collect();
                all.sort_unstable();
                assert_eq!(all, (0..blocks).collect::<Vec<_>>(), "{schedule}, {blocks}");
            }
        }
        let order = |seed| (0..100).map(move |ticket| Schedule::Random(seed).block(ticket, 100));
        assert!(order(1).eq(order(1)) && !order(1).eq(order(2)));
        let huge = 0x7fff_ffff * 65535 * 65535;
        assert!(Schedule::Random(3).block(huge - 1, huge) < huge);
    }
}
