//! The descriptor of a matrix in shared memory, for `wgmma`.
//!
//! A matrix is made of cores: eight rows of 16 bytes. Where rows of a core lie side by side with
//! those of others, in lines of 32, 64 or 128 bytes, the 16-byte pieces of a line are permuted:
//! bits of the address above the line's are added, without carry, to those of the piece. Bits of a
//! descriptor: 0-13 start, 16-29 leading stride, 32-45 other stride, all in units of 16 bytes;
//! 49-51 the line with which the permutation begins; 62-63 the kind of lines.

/// Bytes of a core's row.
pub const PIECE: u64 = 16;

/// A matrix in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Address of its first byte.
    start: u64,
    /// Bytes from a core to the next: along `k` without lines, across lines with them.
    leading: u64,
    /// Bytes from a core to the next in the other direction.
    stride: u64,
    /// The line, of eight, that the first is.
    base: u64,
    /// Pieces of a line; 1 for none.
    pieces: u64,
}

impl Descriptor {
    /// The matrix that a descriptor means.
    pub fn new(bits: u64) -> Self {
        let field = |from: u32| (bits >> from & 0x3fff) * PIECE;
        let pieces = match bits >> 62 {
            0 => 1,
            1 => 8,
            2 => 4,
            _ => 2,
        };
        Self {
            start: field(0),
            leading: field(16),
            stride: field(32),
            base: bits >> 49 & 7,
            pieces,
        }
    }

    /// Address of the 16 bytes that hold, of a row, the `piece`-th part along `k`.
    pub fn along_k(&self, row: u64, piece: u64) -> u64 {
        let core = row / 8 * self.stride;
        let within = match self.pieces {
            1 => row % 8 * PIECE + piece * self.leading,
            pieces => row % 8 * pieces * PIECE + piece * PIECE,
        };
        self.permuted(self.start + core + within)
    }

    /// Address of the 16 bytes that hold, for one `k`, the `piece`-th part along the rows.
    pub fn along_rows(&self, k: u64, piece: u64) -> u64 {
        let within = match self.pieces {
            1 => k % 8 * PIECE + k / 8 * self.leading + piece * self.stride,
            pieces => {
                let line = k % 8 * pieces * PIECE + k / 8 * self.stride;
                line + piece % pieces * PIECE + piece / pieces * self.leading
            }
        };
        self.permuted(self.start + within)
    }

    /// The address with its piece moved within its line.
    fn permuted(&self, address: u64) -> u64 {
        let line = (address >> 7).wrapping_sub(self.base);
        address ^ ((line & (self.pieces - 1)) * PIECE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(start: u64, leading: u64, stride: u64, kind: u64) -> Descriptor {
        Descriptor::new(start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | kind << 62)
    }

    #[test]
    fn cores_lie_apart_without_lines() {
        let own = descriptor(256, 128, 512, 0);
        assert_eq!(own.along_k(0, 0), 256);
        assert_eq!(own.along_k(3, 1), 256 + 48 + 128);
        assert_eq!(own.along_k(17, 0), 256 + 1024 + 16);
        assert_eq!(own.along_rows(9, 2), 256 + 16 + 128 + 1024);
    }

    #[test]
    fn lines_are_permuted() {
        let own = descriptor(1024, 16, 1024, 1);
        assert_eq!(own.along_k(0, 1), 1024 + 16);
        assert_eq!(own.along_k(3, 0), 1024 + 3 * 128 + 3 * 16);
        assert_eq!(own.along_k(3, 3), 1024 + 3 * 128);
        assert_eq!(own.along_k(8, 1), 2048 + 16);
        let half = descriptor(0, 16, 512, 2);
        assert_eq!(half.along_k(2, 0), 128 + 16);
        assert_eq!(half.along_k(3, 3), 128 + 64 + 32);
        let quarter = descriptor(0, 16, 256, 3);
        assert_eq!(quarter.along_k(4, 0), 128 + 16);
        assert_eq!(quarter.along_k(7, 1), 224);
    }
}
