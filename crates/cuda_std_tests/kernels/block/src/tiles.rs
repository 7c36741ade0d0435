//! Exchanges, loads and stores.

use cuda_std::block::{Bytes, DisjointTiles, Striped, exchange_bytes};
use cuda_std::prelude::*;

/// Loads a tile in one way and stores it in another: what comes out is what went in, each time.
macro_rules! copies {
    ($($name:ident: $ty:ty, $threads:literal, $items:literal;)*) => {$(
        #[kernel]
        pub fn $name(
            mut block: Block<$threads>,
            scratch: Shared<Bytes<{ exchange_bytes::<$ty>($threads * $items) }>>,
            from: u32,
            fallback: $ty,
            x: &[$ty],
            mut a: DisjointTiles<$ty, { $threads * $items }>,
            mut b: DisjointTiles<$ty, { $threads * $items }, Striped>,
            mut c: DisjointTiles<$ty, { $threads * $items }, Striped>,
        ) {
            let x = &x[from as usize..];
            let mut scratch = scratch;
            for round in 0..a.len().div_ceil($threads * $items) {
                let start = a.start(round);
                let blocked: [$ty; $items] = block.load_blocked(x, start, fallback);
                let striped: [$ty; $items] = block.load_striped(x, start, fallback);
                a.store_blocked(&block, round, blocked);
                b.store_striped(&block, round, striped);
                let (there, used) = block.blocked_to_striped(blocked, scratch);
                scratch = block.sync(used);
                let (back, used) = block.striped_to_blocked(striped, scratch);
                scratch = block.sync(used);
                let same = |k: usize| there[k] == striped[k] && back[k] == blocked[k];
                assert!((0..$items).all(same));
                let (moved, used): ([$ty; $items], _) = block.load_transposed(x, start, fallback, scratch);
                scratch = block.sync(used);
                let used = c.store_transposed(&mut block, round, moved, scratch);
                scratch = block.sync(used);
            }
        }
    )*};
}

copies! {
    copy_u8: u8, 64, 5;
    copy_u16: u16, 96, 2;
    copy_u32: u32, 128, 4;
    copy_f64: f64, 32, 3;
    copy_u32_33: u32, 64, 33;
}

/// By vectors, from a place that is aligned or not.
macro_rules! vectors {
    ($($name:ident: $ty:ty, $threads:literal, $items:literal;)*) => {$(
        #[kernel]
        pub fn $name(
            block: Block<$threads>,
            from: u32,
            fallback: $ty,
            x: &[$ty],
            mut out: DisjointTiles<$ty, { $threads * $items }>,
        ) {
            for round in 0..out.len().div_ceil($threads * $items) {
                let start = out.start(round);
                let x = &x[from as usize..];
                let items: [$ty; $items] = block.load_vectors(x, start, fallback);
                out.store_vectors(&block, round, items);
            }
        }
    )*};
}

vectors! {
    vectors_u8: u8, 64, 8;
    vectors_f32: f32, 128, 4;
    vectors_u64: u64, 32, 12;
}

/// Two stores of one tile, in half of the threads from a branch of their own: the second one stands.
#[kernel]
pub fn stored_twice(block: Block<64>, mut out: DisjointTiles<u32, 192>) {
    let thread = block.thread() as u32;
    if thread < 40 {
        out.store_blocked(&block, 0, [thread; 3]);
    }
    out.store_blocked(&block, 0, [thread + 1000; 3]);
}
