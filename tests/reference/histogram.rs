//! Reference of `histogram`.

/// How often each byte value occurs.
pub fn histogram(bytes: &[u8]) -> [u64; 256] {
    let mut bins = [0; 256];
    for &byte in bytes {
        bins[usize::from(byte)] += 1;
    }
    bins
}
