//! Copies past the caches.

/// Copies `bytes` bytes without taking the target into the caches: what is written here is read next
/// by the device, or is larger than a cache.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
pub(super) unsafe fn copy_past_caches(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller's promise.
    unsafe {
        stream(from, to, bytes);
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, bytes);
    }
}

/// A line of the cache, which the processor writes at once if it is written whole.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
#[cfg(target_arch = "x86_64")]
unsafe fn stream(from: *const u8, to: *mut u8, bytes: usize) {
    use std::arch::x86_64::_mm_sfence;

    let head = to.align_offset(LINE_BYTES).min(bytes);
    let lines = (bytes - head) / LINE_BYTES;
    let tail = head + lines * LINE_BYTES;
    // SAFETY: head, lines and tail are the caller's bytes, and the lines' target is aligned.
    unsafe {
        from.copy_to_nonoverlapping(to, head);
        (0..lines).for_each(|line| {
            let at = head + line * LINE_BYTES;
            stream_line(from.add(at), to.add(at));
        });
        from.add(tail).copy_to_nonoverlapping(to.add(tail), bytes - tail);
    }
    // Such stores are ordered with no others, so whoever is told of the copy would miss them.
    // SAFETY: every x86-64 has SSE.
    unsafe { _mm_sfence() };
}

/// # Safety
/// Both have 64 bytes, and `to` is aligned to as many.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn stream_line(from: *const u8, to: *mut u8) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};

    let (from, to) = (from.cast::<__m128i>(), to.cast::<__m128i>());
    // SAFETY: four values of 16 bytes each are inside, and `to` is aligned; every x86-64 has SSE2.
    unsafe {
        let [a, b] = [_mm_loadu_si128(from), _mm_loadu_si128(from.add(1))];
        let [c, d] = [_mm_loadu_si128(from.add(2)), _mm_loadu_si128(from.add(3))];
        _mm_stream_si128(to, a);
        _mm_stream_si128(to.add(1), b);
        _mm_stream_si128(to.add(2), c);
        _mm_stream_si128(to.add(3), d);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_start_and_length_is_copied_and_nothing_beside_it() {
        let source: Vec<u8> = (0..1024u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for (from, to) in [(0, 0), (0, 1), (3, 0), (5, 63), (64, 17)] {
            for bytes in [0, 1, 15, 63, 64, 65, 127, 128, 300, 700] {
                let mut target = vec![0xee; 1024];
                // SAFETY: both ranges are inside their vectors.
                unsafe {
                    copy_past_caches(source.as_ptr().add(from), target.as_mut_ptr().add(to), bytes);
                }
                let mut expected = vec![0xee; 1024];
                expected[to..to + bytes].copy_from_slice(&source[from..from + bytes]);
                assert_eq!(target, expected, "{bytes} bytes from {from} to {to}");
            }
        }
    }
}
