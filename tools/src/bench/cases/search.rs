//! Searches in sorted arrays and merges, beside Thrust's.

use kernels_gpu::search::Bound;

use crate::bench::check::Fault;
use crate::bench::{Case, Scale, check, data, rig};
use ferrowarp::Gpu;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::merge::merge_into;
use ferrowarp::ops::search::{bound_into, bound_plain_into};
use ferrowarp::ops::sort::{self, SortOptions};

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let lens = || scale.lens().into_iter();
    let searches = lens().flat_map(|n| [search(n, false), search(n, true)]);
    searches.chain(lens().map(merge)).collect()
}

/// Random numbers, sorted.
fn sorted(gpu: &Gpu, n: usize, seed: u32) -> GpuResult<DeviceBuffer<u32>> {
    sort::sort(gpu, &data::random::<u32>(gpu, n, seed)?, SortOptions::ASCENDING)
}

/// As many random numbers as a sorted array has are searched for in it.
fn search(n: usize, is_plain: bool) -> Case {
    let form = if is_plain { "lower_bound_plain" } else { "lower_bound" };
    Case::new(["search", form, "u32"], [n], 16 * n, move |gpu, seed| {
        let (x, values) = (sorted(gpu, n, seed)?, data::random::<u32>(gpu, n, seed + 1)?);
        rig(
            (x, values, data::poisoned::<u64>(gpu, n)?, Scratch::new(gpu)?),
            |(_, _, out, _), _| data::poison(out),
            move |(x, values, out, scratch), gpu| match is_plain {
                true => bound_plain_into(gpu, Bound::Lower, x, values, out),
                false => bound_into(gpu, Bound::Lower, x, values, out, scratch),
            },
            move |(_, _, out, _), _| places(out, n, seed),
        )
    })
    .in_elements()
    .goal_if(!is_plain && n >= 1 << 20, "Thrust", 1.0)
}

/// A place is near that of a number among as many evenly spread ones.
fn places(out: &DeviceBuffer<u64>, n: usize, seed: u32) -> Result<(), Fault> {
    check::for_samples(out, |i, found| {
        let share = f64::from(data::value::<u32>(seed + 1, i)) / 2f64.powi(32);
        // The number of smaller ones is binomial: its deviation is at most half the root of n.
        check::near("a place", found as f64, share * n as f64, 4.0 * (n as f64).sqrt() + 1.0)
    })
}

/// Two halves of `n` elements as one array.
fn merge(n: usize) -> Case {
    Case::new(["search", "merge", "u32"], [n], 8 * n, move |gpu, seed| {
        let (a, b) = (sorted(gpu, n / 2, seed)?, sorted(gpu, n - n / 2, seed + 1)?);
        rig(
            (a, b, data::poisoned::<u32>(gpu, n)?, Scratch::new(gpu)?),
            |(_, _, out, _), _| data::poison(out),
            |(a, b, out, scratch), gpu| merge_into(gpu, a, b, out, scratch),
            move |(_, _, out, _), _| {
                check::for_samples(out, |i, found| {
                    let expected = (i as f64 + 0.5) / n as f64 * 2f64.powi(32);
                    let deviation = 2f64.powi(32) / (n as f64).sqrt();
                    check::near("an element", f64::from(found), expected, 4.0 * deviation)
                })
            },
        )
    })
    .goal_if(n >= 1 << 20, "Thrust", 1.0)
}
