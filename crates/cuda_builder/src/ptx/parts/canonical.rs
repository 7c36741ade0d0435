//! A number for what a part says, whatever stands beside it in its text.
//!
//! The compiler counts labels, constants and files through a whole text, so an edit of one kernel
//! renumbers the others. Here they are counted in the order in which a part names them.

use std::collections::HashMap;
use std::thread;

use super::super::functions::code;
use super::words;

/// What begins a name that ends with a number of the whole text.
const NUMBERED: [&str; 5] = ["$L__", "__local_depot", "prototype_", "anon_$_", "shared_array_"];

/// Source files, by their numbers.
pub(super) type Files<'a> = HashMap<&'a str, &'a str>;

/// Reads `.file 3 "src/lib.rs"`.
pub(super) fn file(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start().strip_prefix(".file")?.trim_start();
    rest.split_once(char::is_whitespace).map(|(number, name)| (number, name.trim()))
}

/// What stands behind `.loc`.
pub(super) fn place(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix(".loc").filter(|rest| rest.starts_with(char::is_whitespace))
}

/// The numbers of the files that a line names, if it is `.loc 3 7 1, … inlined_at 4 9 2`.
pub(super) fn located(line: &str) -> impl Iterator<Item = &str> {
    let places = place(line).unwrap_or_default().split("inlined_at");
    places.filter_map(|place| place.split_whitespace().next())
}

/// The same number for lines that differ in nothing but what is counted through a whole text.
pub(super) fn hash<'a>(lines: impl Iterator<Item = &'a str>, files: &Files<'_>) -> u64 {
    let mut hash = Hash::new();
    let mut known: HashMap<&'a str, usize> = HashMap::new();
    for line in lines {
        if line.starts_with("// ferrowarp.") {
            hash.text(line);
        }
        let code = code(line);
        if code.is_empty() || code.starts_with(".file") {
            continue;
        }
        located(code).for_each(|number| hash.text(files.get(number).unwrap_or(&"")));
        let code = place(code).map_or(code, behind_file);
        let mut rest = 0;
        for (at, word) in words(code).filter(|(_, word)| is_numbered(word)) {
            hash.text(&code[rest..at]);
            let next = known.len();
            hash.number(*known.entry(word).or_insert(next) as u64);
            rest = at + word.len();
        }
        hash.text(&code[rest..]);
    }
    hash.0
}

/// A `.loc` without its file.
fn behind_file(place: &str) -> &str {
    let place = place.trim_start();
    place.split_once(char::is_whitespace).map_or("", |(_, rest)| rest)
}

fn is_numbered(word: &str) -> bool {
    NUMBERED.iter().any(|begin| word.starts_with(begin))
}

/// A fast hash, the same on every machine and for every release of the compiler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hash(pub u64);

/// Hashes side by side: more are limited by the memory.
const LANES: usize = 8;
/// Bytes of a long text that are hashed by one thread.
const PIECE: usize = 1 << 20;
/// Pieces for which a thread is worth its start.
const PIECES_PER_THREAD: usize = 3;
/// The most threads that hash.
const MOST_THREADS: usize = 8;

impl Hash {
    pub(super) fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    /// The hash of a long text, whose pieces are hashed by several threads.
    pub(super) fn of_long(text: &str) -> u64 {
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

    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let (words, last) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.number(u64::from_le_bytes(*word)));
        let last = last.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        self.number(last);
        self.number(bytes.len() as u64);
    }

    pub(super) fn number(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0xA076_1D64_78BD_642F;
        self.0 = (product as u64) ^ ((product >> 64) as u64) ^ self.0.rotate_left(23);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: &str = "\
.global .align 1 .b8 anon_$_8c_$_3[2] = {1, 2};
.visible .entry first(
)
{
\t.loc\t4 7 9, function_name $L__info_string3, inlined_at 5 2 1
\t{ // callseq 12, 0
\t.local .align 8 .b8 \t__local_depot3[16];
\tmov.b64 %rd1, anon_$_8c_$_3;
$L__BB3_1:
\tbra $L__BB3_1;
}
\t.file\t4 \"a.rs\"
\t.file\t5 \"b.rs\"
";

    fn of(text: &str) -> u64 {
        hash(text.lines(), &text.lines().filter_map(file).collect())
    }

    #[test]
    fn what_is_counted_through_the_text_does_not_matter() {
        let other = PART
            .replace("anon_$_8c_$_3", "anon_$_9d_$_14")
            .replace("BB3_", "BB27_")
            .replace("string3", "string9")
            .replace("depot3", "depot8")
            .replace("callseq 12", "callseq 44")
            .replace("loc\t4", "loc\t17")
            .replace("file\t4", "file\t17");
        assert_ne!(PART, other);
        assert_eq!(of(PART), of(&other));
    }

    #[test]
    fn everything_else_does() {
        let edits = [
            ("{1, 2}", "{1, 3}"),
            ("bra $L__BB3_1", "bra $L__BB3_2"),
            ("4 7 9", "4 8 9"),
            ("4 7 9", "5 7 9"),
            ("inlined_at 5 2", "inlined_at 5 3"),
            ("inlined_at 5", "inlined_at 4"),
            ("a.rs", "c.rs"),
            ("%rd1", "%rd2"),
            ("first", "firs\u{0}"),
            (".local .align", ".local .b"),
        ];
        for (from, to) in edits {
            let other = PART.replacen(from, to, 1);
            assert_ne!(PART, other);
            assert_ne!(of(PART), of(&other), "{from} → {to}");
        }
    }

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
