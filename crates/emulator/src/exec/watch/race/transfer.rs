//! Copies and fills by the host's streams: the bytes that they read and write.

use crate::machine::stream_order::Moment;
use std::sync::Arc;

/// Rows of bytes in layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// First byte.
    pub start: u64,
    /// Bytes of a row.
    pub bytes: u64,
    /// Rows of a layer.
    pub rows: u64,
    /// From row to row.
    pub pitch: u64,
    /// Layers.
    pub layers: u64,
    /// From layer to layer.
    pub layer: u64,
}

impl Area {
    /// One row.
    pub fn row(start: u64, bytes: u64) -> Self {
        Self { start, bytes, rows: 1, pitch: 0, layers: 1, layer: 0 }
    }

    /// The byte after the last.
    fn end(&self) -> u64 {
        let last = self.start
            + (self.layers.max(1) - 1) * self.layer
            + (self.rows.max(1) - 1) * self.pitch;
        last + self.bytes
    }

    /// First and end of each row.
    pub fn each_row(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let own = *self;
        let starts = (0..own.layers).flat_map(move |layer| {
            (0..own.rows).map(move |row| own.start + layer * own.layer + row * own.pitch)
        });
        starts.map(move |start| (start, start + own.bytes)).filter(|(start, end)| start < end)
    }

    /// The first bytes that it shares with a range.
    pub fn shared(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        if start >= self.end() || end <= self.start || self.bytes == 0 {
            return None;
        }
        (0..self.layers).find_map(|layer| {
            let base = self.start + layer * self.layer;
            let before = start.checked_sub(base + self.bytes);
            // The first row that ends behind the range's start.
            let row = before.map_or(0, |gap| gap.checked_div(self.pitch).map_or(1, |row| row + 1));
            let low = base + row * self.pitch;
            (row < self.rows && low < end).then(|| (low.max(start), (low + self.bytes).min(end)))
        })
    }

    /// The first bytes that two areas share.
    pub fn shared_with(&self, other: &Self) -> Option<(u64, u64)> {
        let (few, many) = match self.rows * self.layers <= other.rows * other.layers {
            true => (self, other),
            false => (other, self),
        };
        if few.end() <= many.start || many.end() <= few.start {
            return None;
        }
        few.each_row().find_map(|(start, end)| many.shared(start, end))
    }
}

/// A copy, a fill, a free in a stream's order.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// When.
    pub moment: Arc<Moment>,
    /// In words: `copy of 4096 bytes from 0x1000 to 0x2000`.
    pub what: String,
    /// What it touches, and whether it writes there.
    pub areas: Vec<(Area, bool)>,
}

impl Transfer {
    /// The first bytes on which it clashes with another, and whether each of the two writes there.
    pub fn clash(&self, other: &Self) -> Option<((u64, u64), bool, bool)> {
        self.areas.iter().find_map(|(own, writes)| {
            other.areas.iter().filter(|(_, theirs)| *writes || *theirs).find_map(
                |(area, theirs)| own.shared_with(area).map(|shared| (shared, *writes, *theirs)),
            )
        })
    }

    /// Forgets what it does to a range that is another's memory now.
    pub fn without(&self, start: u64, end: u64) -> Self {
        let mut rest = self.clone();
        rest.areas.retain(|(area, _)| area.shared(start, end).is_none());
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(area: &Area, start: u64, end: u64) -> Option<(u64, u64)> {
        let rows = area.each_row();
        let mut shared = rows.map(|(low, high)| (low.max(start), high.min(end)));
        shared.find(|(low, high)| low < high)
    }

    #[test]
    fn rows_meet_ranges_where_counting_says() {
        let area = Area { start: 100, bytes: 3, rows: 4, pitch: 7, layers: 3, layer: 50 };
        for start in 90..260 {
            for bytes in 1..20 {
                let (own, expected) =
                    (area.shared(start, start + bytes), plain(&area, start, start + bytes));
                assert_eq!(own, expected, "{start}+{bytes}");
            }
        }
    }

    #[test]
    fn columns_of_one_matrix_are_apart() {
        let column = |at: u64, bytes| Area {
            start: 1000 + at,
            bytes,
            rows: 64,
            pitch: 256,
            layers: 1,
            layer: 0,
        };
        assert_eq!(column(0, 128).shared_with(&column(128, 128)), None);
        assert_eq!(column(0, 129).shared_with(&column(128, 128)), Some((1128, 1129)));
        assert_eq!(Area::row(1000, 64 * 256).shared_with(&column(64, 8)), Some((1064, 1072)));
        assert_eq!(Area::row(500, 500).shared_with(&column(0, 8)), None);
    }
}
