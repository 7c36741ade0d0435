//! Sums, beside CUB's and PyTorch's.

use crate::bench::{Case, Random, Scale, check, data, rig};
use crate::memory::DeviceBuffer;
use crate::ops::reduce::Reducer;

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    scale.ladder().into_iter().map(sum).collect()
}

fn sum(n: usize) -> Case {
    Case::new(["reduce", "sum", f32::NAME], [n], 4 * n, move |gpu, seed| {
        let state = (data::random::<f32>(gpu, n, seed)?, Reducer::new(gpu)?);
        rig(
            state,
            // A sum of other numbers stands there afterwards.
            |(_, reducer), gpu| {
                reducer.queue_f32(gpu, &DeviceBuffer::from_slice(gpu, &[f32::NAN])?)
            },
            |(x, reducer), gpu| reducer.queue_f32(gpu, x),
            move |(_, reducer), _| {
                let expected: f64 = (0..n).map(|i| f64::from(data::value::<f32>(seed, i))).sum();
                let found = f32::from_bits(reducer.bits()?);
                // Partial sums are in the order of the square root of n; each addition rounds by 2^-24 of one.
                check::near("sum", found.into(), expected, 1e-5 * (n as f64).sqrt().max(1.0))
            },
        )
    })
    .goal_if(n >= 1 << 28, "CUB", 1.0)
    .goal_if(n <= 1 << 20, "CUB", 1.25)
}
