//! What the host does with device memory: copies and fills.
//!
//! All accesses are relaxed atomics, so a kernel that runs meanwhile sees old or new bytes, never a
//! torn word of four or eight aligned bytes. A range that was checked stays mapped: the pool never
//! unmaps, and whoever registered host memory vouched for it.

use super::access::{
    load_u8, load_u16, load_u32, load_u64, store_u8, store_u16, store_u32, store_u64,
};
use super::global::{GlobalMemory, OutOfBounds};

const WORD: u64 = 8;
const HALF: u64 = 4;

impl GlobalMemory {
    /// Copies device memory at `address` to the host.
    ///
    /// # Errors
    /// The range is not all inside one live allocation; then nothing is copied.
    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), OutOfBounds> {
        self.check(address, out.len() as u64)?;
        let (head, body) = out.split_at_mut(bytes_to_word(address).min(out.len()));
        let middle = address + head.len() as u64;
        read_bytes(address, head);
        let mut words = body.chunks_exact_mut(WORD as usize);
        let mut at = middle;
        for word in &mut words {
            // SAFETY: `at` is a multiple of eight, inside the range just checked, which stays
            // mapped and which only atomics touch.
            word.copy_from_slice(&unsafe { load_u64(at) }.to_ne_bytes());
            at += WORD;
        }
        read_bytes(at, words.into_remainder());
        Ok(())
    }

    /// A number that tells two contents of a range apart, almost always; `start` goes into it, so
    /// that several ranges give one.
    ///
    /// # Errors
    /// The range is not all inside one live allocation.
    pub fn digest(&self, address: u64, bytes: u64, start: u64) -> Result<u64, OutOfBounds> {
        const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
        self.check(address, bytes)?;
        let mix = |sum: u64, value: u64| (sum ^ value).wrapping_mul(PRIME).rotate_left(29);
        let (mut sum, mut at, end) = (mix(start, bytes), address, address + bytes);
        while at < end {
            let whole = at.is_multiple_of(WORD) && end - at >= WORD;
            let (value, step) = match whole {
                // SAFETY: `at` is a multiple of eight, the word is inside the range just checked,
                // which stays mapped and which only atomics touch.
                true => (unsafe { load_u64(at) }, WORD),
                // SAFETY: the same, for one byte.
                false => (unsafe { load_u8(at) }.into(), 1),
            };
            sum = mix(sum, value);
            at += step;
        }
        Ok(sum)
    }

    /// Copies host memory to the device at `address`.
    ///
    /// # Errors
    /// The range is not all inside one live allocation; then nothing is copied.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), OutOfBounds> {
        self.check(address, bytes.len() as u64)?;
        let (head, body) = bytes.split_at(bytes_to_word(address).min(bytes.len()));
        write_bytes(address, head);
        let mut at = address + head.len() as u64;
        let (words, tail) = body.as_chunks::<{ WORD as usize }>();
        for word in words {
            // SAFETY: `at` is a multiple of eight, inside the range just checked, which stays
            // mapped and which only atomics touch.
            unsafe { store_u64(at, u64::from_ne_bytes(*word)) };
            at += WORD;
        }
        write_bytes(at, tail);
        self.mark_written(address, bytes.len() as u64);
        Ok(())
    }

    /// Copies between two places of device memory, which may overlap.
    ///
    /// # Errors
    /// A range is not all inside one live allocation; then nothing is copied.
    pub fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<(), OutOfBounds> {
        self.check(from, bytes)?;
        self.check(to, bytes)?;
        let width = common_width(to, from);
        let head = (from.next_multiple_of(width) - from).min(bytes);
        let body = (bytes - head) / width * width;
        let parts = [(0, head, 1), (head, body, width), (head + body, bytes - head - body, 1)];
        let move_part = |&(start, len, width): &(u64, u64, u64)| {
            // SAFETY: both ranges were just checked and stay mapped; each part starts at a multiple
            // of its width in both.
            unsafe { move_units(to + start, from + start, len / width, width) };
        };
        if to <= from {
            parts.iter().for_each(move_part);
        } else {
            parts.iter().rev().for_each(move_part);
        }
        self.mark_copied(to, from, bytes);
        Ok(())
    }

    /// Sets `count` bytes to `value`.
    ///
    /// # Errors
    /// The range is not all inside one live allocation; then nothing is written.
    pub fn fill8(&self, address: u64, value: u8, count: u64) -> Result<(), OutOfBounds> {
        self.fill(address, u64::from_le_bytes([value; 8]), count)
    }

    /// Sets `count` half-words of two bytes, low byte first, to `value`. `address` may be odd.
    ///
    /// # Errors
    /// The range is not all inside one live allocation; then nothing is written.
    pub fn fill16(&self, address: u64, value: u16, count: u64) -> Result<(), OutOfBounds> {
        let pattern = u64::from(value) * 0x0001_0001_0001_0001;
        self.fill(address, pattern, count.saturating_mul(2))
    }

    /// Sets `count` words of four bytes, low byte first, to `value`, from any `address`.
    ///
    /// # Errors
    /// The range is not all inside one live allocation; then nothing is written.
    pub fn fill32(&self, address: u64, value: u32, count: u64) -> Result<(), OutOfBounds> {
        let pattern = u64::from(value) * 0x0000_0001_0000_0001;
        self.fill(address, pattern, count.saturating_mul(4))
    }

    /// Repeats eight bytes, low byte first, from `address` on.
    fn fill(&self, address: u64, pattern: u64, bytes: u64) -> Result<(), OutOfBounds> {
        self.check(address, bytes)?;
        let head = (bytes_to_word(address) as u64).min(bytes);
        let start = pattern.to_le_bytes();
        write_bytes(address, &start[..head as usize]);
        let rotated = pattern.rotate_right(8 * head as u32);
        let words = (bytes - head) / WORD;
        for i in 0..words {
            // SAFETY: a multiple of eight, inside the range just checked, which stays mapped
            // and which only atomics touch.
            unsafe { store_u64(address + head + i * WORD, rotated) };
        }
        let done = head + words * WORD;
        write_bytes(address + done, &rotated.to_le_bytes()[..(bytes - done) as usize]);
        self.mark_written(address, bytes);
        Ok(())
    }
}

/// Bytes before the next multiple of eight.
fn bytes_to_word(address: u64) -> usize {
    (address.wrapping_neg() % WORD) as usize
}

/// The widest unit that both addresses can be aligned to at once.
fn common_width(a: u64, b: u64) -> u64 {
    1 << (a ^ b).trailing_zeros().min(WORD.trailing_zeros())
}

/// Reads a few bytes from checked device memory; four at once where they are aligned.
fn read_bytes(address: u64, out: &mut [u8]) {
    let (mut at, mut rest) = (address, out);
    while !rest.is_empty() {
        let step = if at.is_multiple_of(HALF) && rest.len() >= HALF as usize { HALF } else { 1 };
        let (now, later) = rest.split_at_mut(step as usize);
        // SAFETY: the callers checked the range; it stays mapped and only atomics touch it; a word
        // is aligned.
        unsafe {
            match step {
                HALF => now.copy_from_slice(&load_u32(at).to_ne_bytes()),
                _ => now[0] = load_u8(at),
            }
        }
        (at, rest) = (at + step, later);
    }
}

/// Writes a few bytes to checked device memory; four at once where they are aligned.
fn write_bytes(address: u64, bytes: &[u8]) {
    let (mut at, mut rest) = (address, bytes);
    while let Some((&first, tail)) = rest.split_first() {
        let word = rest.first_chunk::<{ HALF as usize }>().filter(|_| at.is_multiple_of(HALF));
        // SAFETY: the callers checked the range; it stays mapped and only atomics touch it; a word
        // is aligned.
        unsafe {
            match word {
                Some(word) => store_u32(at, u32::from_ne_bytes(*word)),
                None => store_u8(at, first),
            }
        }
        let step = if word.is_some() { HALF } else { 1 };
        rest = if word.is_some() { &rest[HALF as usize..] } else { tail };
        at += step;
    }
}

/// Moves `count` units of `width` bytes, in the order that an overlap needs.
///
/// # Safety
/// Both ranges are mapped and only touched by atomics; both addresses are multiples of `width`,
/// which is 1, 2, 4 or 8.
unsafe fn move_units(to: u64, from: u64, count: u64, width: u64) {
    for step in 0..count {
        let offset = width * if to <= from { step } else { count - 1 - step };
        let (to, from) = (to + offset, from + offset);
        // SAFETY: the caller vouches for both ranges and their alignment.
        unsafe {
            match width {
                1 => store_u8(to, load_u8(from)),
                2 => store_u16(to, load_u16(from)),
                4 => store_u32(to, load_u32(from)),
                _ => store_u64(to, load_u64(from)),
            }
        }
    }
}
