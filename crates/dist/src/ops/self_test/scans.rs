//! Scans.

use std::fmt::Debug;

use bytemuck::Pod;
use ferrowarp::ops::scan::{Compose, Form, Max, Min, ScanOperator, Sum};

use super::tester::Tester;
use crate::error::DistResult;
use crate::ops::{Shares, scan};

/// Elements of a rank.
const SIZES: [usize; 7] = [0, 1, 31, 32, 33, 257, 1031];

pub(super) fn run(tester: &mut Tester<'_>) -> DistResult<()> {
    for size in SIZES {
        for (which, shares) in tester.splits(size).iter().enumerate() {
            sums(tester, shares)?;
            if which < 2 {
                others(tester, shares)?;
            }
        }
    }
    Ok(())
}

/// Integers that wrap; floats that are small whole numbers, of which all sums are exact.
fn sums(tester: &mut Tester<'_>, shares: &Shares) -> DistResult<()> {
    let words = tester.random.values(shares.total(), |word| word);
    let of = |value: fn(u64) -> i64| words.iter().map(move |word| value(*word));
    let x: Vec<u32> = of(|word| word as i64).map(|x| x as u32).collect();
    both(tester, "scan: sum", shares, Sum, &x, 0, u32::wrapping_add)?;
    let x: Vec<i64> = of(|word| word as i64).collect();
    both(tester, "scan: sum", shares, Sum, &x, 0, i64::wrapping_add)?;
    let x: Vec<f32> = of(|word| (word % 9) as i64 - 4).map(|x| x as f32).collect();
    both(tester, "scan: sum", shares, Sum, &x, 0.0, |a, b| a + b)?;
    let x: Vec<f64> = of(|word| (word % 99) as i64 - 40).map(|x| x as f64).collect();
    both(tester, "scan: sum", shares, Sum, &x, 0.0, |a, b| a + b)
}

fn others(tester: &mut Tester<'_>, shares: &Shares) -> DistResult<()> {
    let x = tester.random.values(shares.total(), |word| (word >> 40) as i32 - (1 << 23));
    both(tester, "scan: min, max", shares, Max, &x, i32::MIN, i32::max)?;
    both(tester, "scan: min, max", shares, Min, &x, i32::MAX, i32::min)?;
    let x: Vec<[u32; 2]> =
        tester.random.values(shares.total(), |word| [word as u32 | 1, (word >> 32) as u32]);
    // The map of `a` first: it does not commute.
    let join = |a: [u32; 2], b: [u32; 2]| {
        [b[0].wrapping_mul(a[0]), b[0].wrapping_mul(a[1]).wrapping_add(b[1])]
    };
    both(tester, "scan: composed maps", shares, Compose, &x, [1, 0], join)
}

/// Both forms. `start`: the neutral element.
fn both<T: Pod + Debug, O: ScanOperator<T> + Copy + Debug>(
    tester: &mut Tester<'_>,
    name: &'static str,
    shares: &Shares,
    operator: O,
    all: &[T],
    start: T,
    join: impl Fn(T, T) -> T,
) -> DistResult<()> {
    let own = tester.upload(all, shares)?;
    for form in [Form::Inclusive, Form::Exclusive] {
        let (ranks, gpu) = (tester.ranks, tester.gpu());
        let found = scan::by(ranks, gpu, operator, form, &own, shares, &mut tester.scratch)?;
        let expected = reference::scan::by(all, start, &join, form == Form::Inclusive);
        let case = format!(
            "{form:?} {operator:?} of {} in shares of {:?}",
            std::any::type_name::<T>(),
            shares.lens()
        );
        let expected = tester.share(&expected, shares).to_vec();
        tester.compare(name, case, &found, &expected)?;
    }
    Ok(())
}
