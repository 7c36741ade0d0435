//! Published `no_std` crates, unchanged, in kernels.

#![allow(missing_docs)]

use cuda_std::prelude::*;
use fnv::FnvBuildHasher;
use hashbrown::HashMap;
use sha2::{Digest, Sha256, Sha512};

/// Each thread's message: `bytes[ends[i - 1]..ends[i]]`.
fn message<'a>(bytes: &'a [u8], ends: &[u32], own: usize) -> &'a [u8] {
    let start = if own == 0 { 0 } else { ends[own - 1] as usize };
    &bytes[start..ends[own] as usize]
}

/// A digest for each message.
#[kernel]
pub fn sha256(
    index: ThreadIndex,
    bytes: &[u8],
    ends: &[u32],
    mut digests: DisjointSlice<[u8; 32]>,
) {
    if let Some(digest) = digests.get_mut(index) {
        *digest = Sha256::digest(message(bytes, ends, index.get())).into();
    }
}

/// A digest for each message, in pieces of seven bytes.
#[kernel]
pub fn sha512(
    index: ThreadIndex,
    bytes: &[u8],
    ends: &[u32],
    mut digests: DisjointSlice<[u8; 64]>,
) {
    if let Some(digest) = digests.get_mut(index) {
        let mut hasher = Sha512::new();
        message(bytes, ends, index.get()).chunks(7).for_each(|piece| hasher.update(piece));
        *digest = hasher.finalize().into();
    }
}

/// For each message the number of different bytes, the most frequent byte (the smallest of equals)
/// and how often it occurs: a hash map on the device's heap. Its hasher has no random seed: the
/// threads would share the seed, and make it at once.
#[kernel]
pub fn frequencies(
    index: ThreadIndex,
    bytes: &[u8],
    ends: &[u32],
    mut out: DisjointSlice<[u32; 3]>,
) {
    if let Some(out) = out.get_mut(index) {
        let mut counts: HashMap<u8, u32, FnvBuildHasher> = HashMap::default();
        for &byte in message(bytes, ends, index.get()) {
            *counts.entry(byte).or_default() += 1;
        }
        let all: Vec<(u8, u32)> = counts.iter().map(|(byte, count)| (*byte, *count)).collect();
        let most = all.iter().max_by_key(|(byte, count)| (*count, u8::MAX - byte));
        let (byte, count) = most.copied().unwrap_or_default();
        *out = [counts.len() as u32, u32::from(byte), count];
    }
}

/// The most numbers that a thread of the sorting kernels has.
pub const MOST: usize = 2000;
/// The bits of a number that [`sort_stably`] does not look at.
pub const UNSEEN_BITS: u32 = 11;

/// Each thread sorts the first `lens[thread]` numbers of its row in a vector.
#[kernel]
pub fn sort(index: ThreadIndex, lens: &[u32], mut rows: DisjointChunks<u32, MOST>) {
    if let Some(row) = rows.get_mut(index) {
        let row = &mut row[..lens[index.get()] as usize];
        let mut numbers = row.to_vec();
        numbers.sort();
        row.copy_from_slice(&numbers);
    }
}

/// Each thread sorts the first `lens[thread]` numbers of its row in place, by their upper bits alone.
#[kernel]
pub fn sort_stably(index: ThreadIndex, lens: &[u32], mut rows: DisjointChunks<u32, MOST>) {
    if let Some(row) = rows.get_mut(index) {
        row[..lens[index.get()] as usize].sort_by_key(|number| number >> UNSEEN_BITS);
    }
}
