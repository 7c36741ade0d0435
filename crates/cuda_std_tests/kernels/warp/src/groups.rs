//! Every function of a coalesced group. Blocks are whole warps, `x` has a number for each thread.

use crate::{Affine, Rows};
use cuda_std::prelude::*;
use cuda_std::warp::{Coalesced, Warp, lane_id};

/// Rows that [`partitions`] writes.
pub const ROWS: usize = 32;

/// The lanes whose `x % keys` is the same are a group.
#[kernel]
pub fn partitions(index: ThreadIndex, keys: u32, x: &[u32], out: DisjointSlice<u64>) {
    let (x, mut rows) = (x[index.get()], Rows::new(index, out));
    let group = Warp::current().partition(x % keys);
    places(group, x, &mut rows);
    moves(group, x, &mut rows);
    joins(group, x, &mut rows);
    scans(group, x, &mut rows);
    group.sync();
}

/// Lanes that say themselves which they are: those of odd number add up theirs, the others wait for none.
#[kernel]
pub fn odd_lanes(index: ThreadIndex, x: &[u32], mut out: DisjointSlice<u32>) {
    let (x, lane) = (x[index.get()], lane_id());
    let mut sum = 0;
    if lane % 2 == 1 {
        // SAFETY: every odd lane of the warp comes here, and no other.
        let group = unsafe { Coalesced::from_mask(0xaaaa_aaaa) };
        sum = group.sum(x);
    }
    if let Some(out) = out.get_mut(index) {
        *out = sum;
    }
}

/// 11 rows.
fn places(group: Coalesced, x: u32, rows: &mut Rows) {
    rows.put(group.mask());
    rows.put(group.size());
    rows.put(group.thread_rank());
    rows.put(group.elect());
    rows.put(group.all(!x.is_multiple_of(5)));
    rows.put(group.any(x.is_multiple_of(5)));
    rows.put(group.uni(x.is_multiple_of(2)));
    rows.put(group.ballot(x.is_multiple_of(2)));
    rows.put(group.match_all(x % 2));
    rows.put(group.match_any(x % 2));
    rows.put(group.partition(x % 2).mask());
}

/// 5 rows.
fn moves(group: Coalesced, x: u32, rows: &mut Rows) {
    rows.put(group.shuffle(x, x % 7));
    rows.put(group.shuffle_up(x, 1));
    rows.put(group.shuffle_down(u64::from(x) << 9, 2));
    rows.put(group.broadcast(x, group.size() / 2));
    rows.put(group.shuffle_up(x, u32::MAX));
}

/// 9 rows.
fn joins(group: Coalesced, x: u32, rows: &mut Rows) {
    rows.put(group.reduce(Affine::of(x), Affine::then).bits());
    rows.put(group.sum(x));
    rows.put_signed(group.min(x as i32));
    rows.put(group.max(x));
    rows.put(group.bit_and(x | 0xff));
    rows.put(group.bit_or(x & 0xffff));
    rows.put(group.bit_xor(x));
    rows.put_float(group.sum((x % 1000) as f32));
    rows.put_float(group.max(x as f32));
}

/// 7 rows.
fn scans(group: Coalesced, x: u32, rows: &mut Rows) {
    rows.put(group.inclusive_scan(Affine::of(x), Affine::then).bits());
    rows.put(group.exclusive_scan(Affine::of(x), Affine::of(7), Affine::then).bits());
    rows.put(group.inclusive_sum(x));
    let (before, all) = group.exclusive_sum(u64::from(x) << 8);
    rows.put(before);
    rows.put(all);
    // A place from a counter that starts at 100, alone and by counts.
    rows.put(group.claim(|n| 100 + n));
    rows.put(group.claim_many(x % 4, |n| 100 + n));
}

/// The numbers of `x` that are a multiple of `by`, to the front of `kept` in any order; `counts[0]`
/// says how many, `counts[1]` how many atomic operations that took.
#[kernel]
pub fn keep(
    index: ThreadIndex,
    by: u32,
    x: &[u32],
    kept: AtomicSlice<u32>,
    counts: AtomicSlice<u32>,
) {
    if let Some(&x) = x.get(index.get()).filter(|x| x.is_multiple_of(by)) {
        let place = Coalesced::current().claim(|n| {
            counts.fetch_add(1, 1, Relaxed);
            counts.fetch_add(0, n, Relaxed)
        });
        kept.store(place as usize, x, Relaxed);
    }
}
