//! Every kind of panic. Each kernel takes what decides at run time that it panics.

use cuda_std::prelude::*;

use crate::set;

/// The thread that panics in a grid of several.
const UNLUCKY: usize = 5;

#[kernel]
pub fn index_past_the_end(x: &[u32], at: u32, mut out: DisjointSlice<u32>, index: ThreadIndex) {
    if index.get() == UNLUCKY {
        set(&mut out, index, x[at as usize]);
    }
}

#[kernel]
pub fn range_past_the_end(
    x: &[u32],
    from: u32,
    to: u32,
    mut out: DisjointSlice<u32>,
    index: ThreadIndex,
) {
    if index.get() == UNLUCKY {
        set(&mut out, index, x[from as usize..to as usize].iter().sum());
    }
}

/// `kind` says how.
#[kernel]
#[allow(clippy::eq_op)]
pub fn panics(kind: u32, x: &[u32], y: &[f32]) {
    match kind {
        0 => panic!("an explicit one"),
        1 => panic!("{} and {:>6.2} and {:#06x}", x[0], y[0], x[1]),
        2 => assert!(x[0] == x[1]),
        3 => assert!(x[0] == x[1], "of the {}th kind", x[2]),
        4 => core::assert_eq!(x[0], x[1]),
        5 => core::assert_ne!(x[0], x[0], "with {:?}", 'ß'),
        6 => cuda_std::assert_eq!(x[0], x[1]),
        7 => cuda_std::assert_ne!(x[0], x[0], "ours, with {}", y[0]),
        8 => {
            (x.get(1 << 20)).unwrap();
        }
        9 => {
            (x.get(1 << 20)).expect("there is so much");
        }
        10 => unreachable!("in {} words", x[2]),
        11 => panic!("Größe: {:?} 字 {}", "naïve", true),
        13 => divide(x[0], x[1].wrapping_sub(x[1])),
        14 => {
            let zeros: [u32; 2] = [x[0], x[1]];
            helper::nth(&zeros, x[2] as usize);
        }
        _ => {}
    }
}

/// A division by zero, in a function of its own.
#[inline(never)]
fn divide(a: u32, b: u32) {
    // The result has to be used.
    if a / b == 77 {
        panic!("77");
    }
}

/// Takes `n` elements of the heap: the first thread that finds too little panics. With `tries` it asks
/// before, and says what it was told.
#[kernel]
pub fn allocates(n: u64, tries: u32, index: ThreadIndex, mut out: DisjointSlice<u32>) {
    let mut taken: Vec<u64> = Vec::new();
    if tries != 0 {
        let told = taken.try_reserve_exact(n as usize).is_err();
        set(&mut out, index, u32::from(told));
    } else {
        taken.reserve_exact(n as usize);
        taken.push(index.get() as u64);
        set(&mut out, index, core::hint::black_box(&taken)[0] as u32);
    }
}
