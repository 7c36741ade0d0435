//! How the hardware serves one request of a warp: the sectors of global and local memory that it
//! takes, and the passes over the banks of shared memory.
//!
//! The rules were found by experiment on an H200: `tests/golden/h200_requests.txt` has the requests and
//! what its own counters said of each.

use crate::fault::Access;
use crate::machine::{LANES, Row64, lanes};

/// Bytes that memory moves at a time.
pub const SECTOR_BYTES: u64 = 32;
/// Bytes of a line of the first-level cache.
pub const LINE_BYTES: u64 = 128;
/// Bytes of a word of a bank.
pub const BANK_BYTES: u64 = 4;
/// Banks of shared memory.
pub const BANKS: u64 = 32;

/// One access of the lanes of a warp.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Each lane's first byte.
    pub at: &'a Row64,
    /// The lanes that take part.
    pub mask: u32,
    /// Bytes that each of them touches.
    pub bytes: u64,
    /// How.
    pub access: Access,
    /// Whether an atomic of shared memory only counts up: then the hardware counts the lanes at an address
    /// and adds them at once.
    pub counts_up: bool,
}

/// What a request of global or local memory takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sectors {
    /// Sectors that are moved.
    pub moved: u64,
    /// The fewest that could hold the bytes that were asked for.
    pub ideal: u64,
    /// Lines of the first-level cache that are looked up.
    pub lines: u64,
}

/// What a request of shared memory takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Banks {
    /// Passes over the banks.
    pub wavefronts: u64,
    /// The passes that are needed where no two lanes meet in a bank.
    pub ideal: u64,
}

/// The lanes that touch the same cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crowd {
    /// Different addresses.
    pub distinct: u64,
    /// The most lanes at one address.
    pub largest: u64,
}

/// Values of the lanes that take part, in ascending order.
struct Ascending {
    own: Row64,
    len: usize,
}

impl Ascending {
    fn new(request: &Request<'_>, mask: u32, value: impl Fn(u64) -> u64) -> Self {
        let (mut own, mut len, mut last, mut in_order) = ([0; LANES], 0, 0, true);
        for lane in lanes(mask) {
            let value = value(request.at[lane]);
            in_order &= value >= last;
            (own[len], last) = (value, value);
            len += 1;
        }
        if !in_order {
            own[..len].sort_unstable();
        }
        Self { own, len }
    }

    fn values(&self) -> &[u64] {
        &self.own[..self.len]
    }
}

/// The different values of a list in ascending order.
fn distinct(values: impl IntoIterator<Item = u64>) -> u64 {
    let mut last = None;
    values.into_iter().filter(|value| last.replace(*value) != Some(*value)).count() as u64
}

impl Request<'_> {
    /// The sectors of global memory.
    pub fn sectors(&self) -> Sectors {
        let at = Ascending::new(self, self.mask, |address| address);
        let values = at.values();
        let per_lane = self.bytes.div_ceil(SECTOR_BYTES);
        let in_units = |unit: u64| distinct(values.iter().map(|address| address / unit));
        let moved = match self.access {
            Access::Atomic => turns(values),
            _ => in_units(SECTOR_BYTES) * per_lane,
        };
        let ideal = (distinct(values.iter().copied()) * self.bytes).div_ceil(SECTOR_BYTES);
        Sectors { moved, ideal, lines: in_units(LINE_BYTES) }
    }

    /// The sectors of local memory, where the same word of neighbouring lanes lies side by side. The
    /// addresses are offsets in each lane's own memory.
    pub fn local_sectors(&self) -> Sectors {
        let words = self.bytes.div_ceil(BANK_BYTES);
        let mut rows: Vec<u64> = lanes(self.mask)
            .flat_map(|lane| {
                let first = self.at[lane] / BANK_BYTES;
                (first..first + words).map(move |row| row * LINE_BYTES + lane as u64 * BANK_BYTES)
            })
            .collect();
        rows.sort_unstable();
        let in_units = |unit: u64| distinct(rows.iter().map(|address| address / unit));
        let bytes = u64::from(self.mask.count_ones()) * self.bytes;
        Sectors {
            moved: in_units(SECTOR_BYTES),
            ideal: bytes.div_ceil(SECTOR_BYTES),
            lines: in_units(LINE_BYTES),
        }
    }

    /// The passes over the banks of shared memory. The addresses are offsets in shared memory.
    pub fn banks(&self) -> Banks {
        let mut out = Banks::default();
        let count = self.lanes_of_a_phase();
        for first in (0..LANES as u32).step_by(count as usize) {
            let phase = self.mask & (u32::MAX >> (32 - count)) << first;
            if phase != 0 {
                out.wavefronts += self.passes(phase);
                out.ideal += 1;
            }
        }
        out
    }

    /// The lanes that are served together: as many as fill all banks once. For loads twice as many,
    /// where each lane of the warp reads what its neighbour reads (or the one after), or where that
    /// neighbour takes no part.
    fn lanes_of_a_phase(&self) -> u32 {
        let count = (LINE_BYTES / self.bytes.clamp(BANK_BYTES, LINE_BYTES)) as u32;
        let same = |apart: usize| {
            lanes(self.mask).all(|lane| {
                self.mask >> (lane ^ apart) & 1 == 0 || self.at[lane] == self.at[lane ^ apart]
            })
        };
        let merges = count < LANES as u32 && self.access == Access::Load && (same(1) || same(2));
        if merges { 2 * count } else { count }
    }

    /// The words that the busiest bank has to serve; for atomics the lanes, one after the other, unless they
    /// only count up.
    fn passes(&self, phase: u32) -> u64 {
        let width = self.bytes.clamp(BANK_BYTES, LINE_BYTES);
        let units = Ascending::new(self, phase, |address| address / width);
        let each = self.access == Access::Atomic && !self.counts_up;
        let groups = BANKS * BANK_BYTES / width;
        let (mut load, mut last) = ([0u64; BANKS as usize], None);
        for unit in units.values() {
            let again = last.replace(*unit) == Some(*unit);
            load[(unit % groups) as usize] += u64::from(!again || each);
        }
        load.into_iter().max().unwrap_or(0)
    }

    /// The lanes that touch the same address.
    pub fn crowd(&self) -> Crowd {
        let at = Ascending::new(self, self.mask, |address| address);
        let mut out = Crowd::default();
        for same in at.values().chunk_by(|a, b| a == b) {
            out.distinct += 1;
            out.largest = out.largest.max(same.len() as u64);
        }
        out
    }
}

/// The sectors of an atomic: one for each turn that the most crowded word of a sector needs.
fn turns(addresses: &[u64]) -> u64 {
    let in_one_sector = addresses.chunk_by(|a, b| a / SECTOR_BYTES == b / SECTOR_BYTES);
    let crowd = |sector: &[u64]| sector.chunk_by(|a, b| a == b).map(<[u64]>::len).max();
    in_one_sector.filter_map(crowd).sum::<usize>() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line: the kind of request, bytes of a lane, what the hardware counted (sectors, lines; or
    /// wavefronts, conflicts), then the 32 offsets, `-` for a lane that takes no part.
    struct Measured {
        kind: String,
        bytes: u64,
        counted: [Option<u64>; 2],
        at: Row64,
        mask: u32,
    }

    fn measured() -> Vec<Measured> {
        let text = include_str!("../../../../tests/golden/h200_requests.txt");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                let (mut at, mut mask) = ([0; LANES], 0);
                for (lane, word) in words[4..].iter().enumerate().filter(|(_, word)| **word != "-")
                {
                    at[lane] = u64::from_str_radix(word, 36).unwrap();
                    mask |= 1 << lane;
                }
                assert_eq!(words.len(), 4 + LANES, "{line}");
                Measured {
                    kind: words[0].to_owned(),
                    bytes: words[1].parse().unwrap(),
                    counted: [words[2].parse().ok(), words[3].parse().ok()],
                    at,
                    mask,
                }
            })
            .collect()
    }

    #[test]
    fn requests_take_what_an_h200_counted() {
        let all = measured();
        let mut wrong = Vec::new();
        for (index, Measured { kind, bytes, counted, at, mask }) in all.iter().enumerate() {
            let (space, access) = kind.split_once('.').unwrap();
            let access = match access {
                "ld" => Access::Load,
                "st" => Access::Store,
                _ => Access::Atomic,
            };
            let request = Request { at, mask: *mask, bytes: *bytes, access, counts_up: false };
            let own = match space {
                "global" => [request.sectors().moved, request.sectors().lines],
                _ => {
                    let Banks { wavefronts, ideal } = request.banks();
                    [wavefronts, wavefronts - ideal]
                }
            };
            if own.iter().zip(counted).any(|(own, hardware)| hardware.is_some_and(|it| it != *own))
            {
                wrong.push((index, kind, own, *counted));
            }
        }
        assert!(all.len() > 500, "{} requests", all.len());
        // One pattern of random addresses, for `atom` and for `red`: two words of one sector went apart.
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong.iter().all(|(_, kind, own, hardware)| {
            kind.as_str() == "global.atom" && Some(own[0] + 1) == hardware[0]
        }));
    }

    fn request(at: &Row64, mask: u32, bytes: u64) -> Request<'_> {
        Request { at, mask, bytes, access: Access::Load, counts_up: false }
    }

    #[test]
    fn the_same_word_of_all_lanes_is_one_line_of_local_memory() {
        let at = [64; LANES];
        let whole = request(&at, u32::MAX, 4).local_sectors();
        assert_eq!(whole, Sectors { moved: 4, ideal: 4, lines: 1 });
        let wide = request(&at, u32::MAX, 16).local_sectors();
        assert_eq!(wide, Sectors { moved: 16, ideal: 16, lines: 4 });
        let apart: Row64 = std::array::from_fn(|lane| 4 * lane as u64);
        let scattered = request(&apart, u32::MAX, 4).local_sectors();
        assert_eq!(scattered, Sectors { moved: 32, ideal: 4, lines: 32 });
    }

    #[test]
    fn the_crowd_is_where_most_lanes_meet() {
        let at: Row64 = std::array::from_fn(|lane| if lane < 5 { 8 } else { 64 * lane as u64 });
        assert_eq!(request(&at, u32::MAX, 4).crowd(), Crowd { distinct: 28, largest: 5 });
        assert_eq!(request(&at, 0b11, 4).crowd(), Crowd { distinct: 1, largest: 2 });
    }
}
