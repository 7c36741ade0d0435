//! What the model reads.

use rand::RngExt;
use rand::rngs::StdRng;

/// Chapters of the book.
pub const BOOK: &[&str] = &[
    include_str!("text/introduction.md"),
    include_str!("text/running.md"),
    include_str!("text/rust-to-ptx.md"),
    include_str!("text/memory.md"),
    include_str!("text/host-memory.md"),
    include_str!("text/shared-memory.md"),
    include_str!("text/warps.md"),
    include_str!("text/reductions-and-maps.md"),
    include_str!("text/scans.md"),
    include_str!("text/sorting.md"),
    include_str!("text/graphs.md"),
    include_str!("text/persistent-kernels.md"),
    include_str!("text/matmul.md"),
    include_str!("text/many-gpus.md"),
    include_str!("text/emulator.md"),
    include_str!("text/coming-from-rust-cuda.md"),
    include_str!("text/hot-reload.md"),
    include_str!("text/async.md"),
    include_str!("text/profile.md"),
    include_str!("text/thread-indices.md"),
    include_str!("text/mathematics.md"),
    include_str!("text/own-project.md"),
    include_str!("text/attention.md"),
    include_str!("text/atomics.md"),
    include_str!("text/demos.md"),
    include_str!("text/machines.md"),
    include_str!("text/rows.md"),
    include_str!("text/panics.md"),
    include_str!("text/out-of-core.md"),
    include_str!("text/search.md"),
    include_str!("text/particles.md"),
];

/// The characters of a text, in their order: those of ASCII. Others are left out.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    letters: Vec<char>,
}

impl Vocabulary {
    fn of(text: &str) -> Self {
        let mut letters: Vec<char> = text.chars().filter(char::is_ascii).collect();
        letters.sort_unstable();
        letters.dedup();
        Self { letters }
    }

    /// How many there are, filled up to a multiple of eight.
    #[must_use]
    pub fn size(&self) -> usize {
        self.letters.len().next_multiple_of(8)
    }

    /// The numbers of the characters of a text that are known.
    #[must_use]
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let number = |letter| self.letters.binary_search(&letter).ok().map(|number| number as u32);
        text.chars().filter_map(number).collect()
    }

    /// The character with a number. Those that are there to fill up are spaces.
    #[must_use]
    pub fn letter(&self, number: u32) -> char {
        self.letters.get(number as usize).copied().unwrap_or(' ')
    }
}

/// A text in two parts: one to learn from, and one that shows how much of it is more than learnt by heart.
#[derive(Clone, Debug)]
pub struct Text {
    /// The characters that it has.
    pub vocabulary: Vocabulary,
    learnt: Vec<u32>,
    held_out: Vec<u32>,
}

impl Text {
    /// The text of all parts, one after the other. A tenth is held out: the end of each part.
    #[must_use]
    pub fn new(parts: &[&str]) -> Self {
        let vocabulary = Vocabulary::of(&parts.concat());
        let (mut learnt, mut held_out) = (Vec::new(), Vec::new());
        for part in parts {
            let numbers = vocabulary.encode(part);
            let (front, back) = numbers.split_at(numbers.len() / 10 * 9);
            learnt.extend_from_slice(front);
            held_out.extend_from_slice(back);
        }
        Self { vocabulary, learnt, held_out }
    }

    /// How many characters there are to learn from.
    #[must_use]
    pub fn characters(&self) -> usize {
        self.learnt.len()
    }

    /// Whether both parts have more than `context` characters.
    #[must_use]
    pub fn is_enough(&self, context: usize) -> bool {
        self.learnt.len().min(self.held_out.len()) > context
    }

    /// Some places of the text, `context` characters each, and the characters after each of them.
    pub(super) fn batch(
        &self,
        [rows, context]: [usize; 2],
        is_held_out: bool,
        random: &mut StdRng,
    ) -> [Vec<u32>; 2] {
        let of = if is_held_out { &self.held_out } else { &self.learnt };
        let (mut tokens, mut targets) = (Vec::new(), Vec::new());
        for _ in 0..rows {
            let start = random.random_range(0..of.len() - context);
            tokens.extend_from_slice(&of[start..start + context]);
            targets.extend_from_slice(&of[start + 1..=start + context]);
        }
        [tokens, targets]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn letters_have_numbers_and_come_back() {
        let text = Text::new(&["abc\nbc·", "d"]);
        let numbers = text.vocabulary.encode("dab\n·z");
        let back: String = numbers.iter().map(|number| text.vocabulary.letter(*number)).collect();
        assert_eq!((back.as_str(), text.vocabulary.size()), ("dab\n", 8));
    }

    #[test]
    fn targets_are_the_characters_after() {
        let text = Text::new(&["0123456789".repeat(10).as_str()]);
        let mut random = StdRng::seed_from_u64(1);
        for is_held_out in [false, true] {
            let [tokens, targets] = text.batch([5, 7], is_held_out, &mut random);
            let next = tokens.iter().map(|token| (token + 1) % 10);
            assert!(tokens.len() == 35 && next.eq(targets));
        }
        assert!(text.is_enough(9) && !text.is_enough(10));
    }
}
