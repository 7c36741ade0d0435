//! How much shared memory a kernel declares, and how much it may declare.

use super::array::align_bytes;
use core::mem::size_of;

/// The most shared memory in bytes that a kernel can declare, on every device so far. What is beyond it has to be
/// dynamic, and allowed by the host: the driver refuses a kernel that declares more.
pub const MOST_STATIC_BYTES: usize = 48 << 10;

/// What an array takes.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Space {
    bytes: usize,
    align_bytes: usize,
}

/// What the array `L` takes.
#[doc(hidden)]
pub const fn space<L>() -> Space {
    Space { bytes: size_of::<L>(), align_bytes: align_bytes::<L>() }
}

/// Why a kernel's arrays are too much.
#[doc(hidden)]
#[derive(Debug)]
pub struct Excess {
    text: [u8; CAPACITY],
    len: usize,
}

const CAPACITY: usize = 320;

/// Whether the last of these arrays is the one that does not fit any more.
#[doc(hidden)]
pub const fn excess(arrays: &[Space]) -> Option<Excess> {
    let (mut all, mut i) = (0_usize, 0);
    while i < arrays.len() {
        if all > MOST_STATIC_BYTES {
            return None;
        }
        all = all.next_multiple_of(arrays[i].align_bytes).saturating_add(arrays[i].bytes);
        i += 1;
    }
    if all <= MOST_STATIC_BYTES {
        return None;
    }
    let excess = Excess { text: [0; CAPACITY], len: 0 };
    let excess = excess.with("up to here the kernel declares ").with_number(all);
    let excess = excess.with(" bytes of shared memory, and a GPU gives at most ");
    let excess = excess.with_number(MOST_STATIC_BYTES).with(
        " to what is declared: take the array as dynamic shared memory, a parameter `Shared<[T]>`, and say in the \
         launch how much there is, with `.shared_mem(bytes)`",
    );
    Some(excess)
}

impl Excess {
    /// The whole sentence.
    pub const fn message(&self) -> &str {
        let (text, _) = self.text.split_at(self.len);
        match core::str::from_utf8(text) {
            Ok(text) => text,
            Err(_) => "too much shared memory",
        }
    }

    const fn with(mut self, text: &str) -> Self {
        let mut i = 0;
        while i < text.len() {
            self.text[self.len] = text.as_bytes()[i];
            self.len += 1;
            i += 1;
        }
        self
    }

    const fn with_number(mut self, number: usize) -> Self {
        if number >= 10 {
            self = self.with_number(number / 10);
        }
        self.text[self.len] = b'0' + (number % 10) as u8;
        self.len += 1;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_array_that_crosses_the_limit_is_told() {
        let kib = space::<[u64; 128]>;
        assert!(excess(&[]).is_none() && excess(&[kib(); 48]).is_none());
        assert!(excess(&[space::<[u8; 48 << 10]>()]).is_none());
        assert!(excess(&[kib(); 50]).is_none(), "the one before it was told");
        let message = |arrays: &[Space]| excess(arrays).unwrap().message().to_owned();
        assert!(
            message(&[kib(); 49]).contains("declares 50176 bytes"),
            "{}",
            message(&[kib(); 49])
        );
        assert!(message(&[space::<[u8; 49_153]>()]).contains("49153 bytes"));
        // The second array begins at a multiple of its alignment.
        let odd = space::<[u8; 24_577]>;
        assert!(excess(&[odd(), space::<[u64; 3070]>()]).is_none());
        assert!(message(&[odd(), space::<[u64; 3071]>()]).contains("declares 49160 bytes"));
        let huge = Space { bytes: usize::MAX, align_bytes: 16 };
        assert!(message(&[huge]).contains("at most 49152") && excess(&[huge, huge]).is_none());
    }
}
