//! A fast hash of PTX text that is the same on every machine and for every compiler release.

use std::thread;

/// A fast hash, the same on every machine and for every release of the compiler.
#[derive(Clone, Copy, Debug)]
pub struct Hash(pub u64);

impl Default for Hash {
    fn default() -> Self {
        Self::new()
    }
}

/// Hashes side by side: more are limited by the memory.
const LANES: usize = 8;
/// Bytes of a long text that are hashed by one thread.
const PIECE: usize = 1 << 20;
/// Pieces for which a thread is worth its start.
const PIECES_PER_THREAD: usize = 3;
/// The most threads that hash.
const MOST_THREADS: usize = 8;

impl Hash {
    /// The hash of nothing.
    #[must_use]
    pub fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    /// The hash of a long text, whose pieces are hashed by several threads.
    #[must_use]
    pub fn of_long(text: &str) -> u64 {
        let pieces: Vec<&[u8]> = text.as_bytes().chunks(PIECE).collect();
        let mut hashes = vec![0; pieces.len()];
        let hash = |hashes: &mut [u64], pieces: &[&[u8]]| {
            hashes.iter_mut().zip(pieces).for_each(|(hash, piece)| *hash = Self::of_piece(piece));
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let threads = (pieces.len() / PIECES_PER_THREAD).min(cores).min(MOST_THREADS);
        if threads > 1 {
            let each = pieces.len().div_ceil(threads);
            let of_threads = hashes.chunks_mut(each).zip(pieces.chunks(each));
            thread::scope(|scope| {
                of_threads.for_each(|(hashes, pieces)| drop(scope.spawn(|| hash(hashes, pieces))));
            });
        } else {
            hash(&mut hashes, &pieces);
        }
        let mut all = Self::new();
        hashes.into_iter().for_each(|hash| all.number(hash));
        all.number(text.len() as u64);
        all.0
    }

    /// The hash of a piece: eight hashes that take words in turn, which a processor computes side by side.
    fn of_piece(piece: &[u8]) -> u64 {
        let mut lanes = [Self::new(); LANES];
        let (rows, rest) = piece.as_chunks::<{ 8 * LANES }>();
        for row in rows {
            let words = row.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            lanes.iter_mut().zip(words).for_each(|(lane, word)| lane.number(word));
        }
        let mut all = Self::new();
        lanes.iter().for_each(|lane| all.number(lane.0));
        all.bytes(rest);
        all.number(piece.len() as u64);
        all.0
    }

    /// Adds a text and its length.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let (words, last) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.number(u64::from_le_bytes(*word)));
        let last = last.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        self.number(last);
        self.number(bytes.len() as u64);
    }

    /// Adds a number.
    pub fn number(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0xA076_1D64_78BD_642F;
        self.0 = (product as u64) ^ ((product >> 64) as u64) ^ self.0.rotate_left(23);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_long_text_sees_each_byte_its_place_and_the_length() {
        let text: String = (0..900).map(|number| format!("{number:x} ")).collect();
        let mut all = std::collections::HashSet::from([Hash::of_long(&text)]);
        for at in 0..text.len() {
            let (before, behind) = (&text[..at], &text[at + 1..]);
            assert!(all.insert(Hash::of_long(&format!("{before}!{behind}"))), "{at}");
            assert!(all.insert(Hash::of_long(before)), "{at}");
        }
        let (first, second) = (&text[..64], &text[64..128]);
        assert!(all.insert(Hash::of_long(&format!("{second}{first}{}", &text[128..]))));
        assert!(all.insert(Hash::of_long(&format!("{text}\0"))));
        assert_eq!(Hash::of_long(&text), Hash::of_long(&text.clone()));
    }

    #[test]
    fn the_hash_of_a_text_of_many_pieces_sees_each_of_them_and_their_order() {
        let piece = |number: usize| format!("{number:8}").repeat(PIECE / 8);
        let text: String = (0..2 * PIECES_PER_THREAD).map(piece).collect::<String>() + "end";
        let hash = Hash::of_long(&text);
        assert_eq!(hash, Hash::of_long(&text.clone()));
        let changed = (0..=2 * PIECES_PER_THREAD).map(|number| {
            let mut changed = text.clone();
            changed.replace_range(number * PIECE..=number * PIECE, "!");
            Hash::of_long(&changed)
        });
        let swapped = format!("{}{}{}", piece(1), piece(0), &text[2 * PIECE..]);
        let mut all = std::collections::HashSet::from([hash]);
        assert!(changed.chain([Hash::of_long(&swapped)]).all(|hash| all.insert(hash)));
    }

    #[test]
    fn the_hash_sees_order_and_length() {
        let of = |texts: &[&str]| {
            let mut hash = Hash::new();
            texts.iter().for_each(|text| hash.text(text));
            hash.0
        };
        let all = [
            of(&["ab", "c"]),
            of(&["a", "bc"]),
            of(&["abc"]),
            of(&["abc", ""]),
            of(&["12345678", "abcdefgh"]),
            of(&["abcdefgh", "12345678"]),
            of(&["abcdefgh12345678"]),
            of(&[]),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one), "{at}");
        }
    }
}
