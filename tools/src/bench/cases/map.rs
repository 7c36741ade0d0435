//! Fills, triads and conversions, beside CUB's and PyTorch's.

use cuda_std::number::{Half, bf16};

use crate::bench::{Case, Random, Scale, check, data, rig};
use ferrowarp::ops::{self, map};

/// The triad's factor.
const FACTOR: f32 = 0.75;

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let headline = scale.ladder().into_iter().map(triad);
    let side = scale.lens().into_iter().flat_map(|n| [fill(n), convert(n), negate(n)]);
    headline.chain(side).collect()
}

fn triad(n: usize) -> Case {
    Case::new(["map", "triad", f32::NAME], [n], 12 * n, move |gpu, seed| {
        let other = seed.wrapping_add(1);
        let (b, c) = (data::random::<f32>(gpu, n, seed)?, data::random::<f32>(gpu, n, other)?);
        rig(
            (b, c, data::poisoned::<f32>(gpu, n)?),
            |(_, _, a), _| data::poison(a),
            |(b, c, a), gpu| map::triad(gpu, FACTOR, b, c, a),
            move |(_, _, a), _| {
                let value = |seed, i| data::value::<f32>(seed, i);
                check::samples(a, |i| value(other, i).mul_add(FACTOR, value(seed, i)))
            },
        )
    })
    .goal_if(n >= 1 << 26, "CUB", 0.99)
}

fn fill(n: usize) -> Case {
    Case::new(["map", "fill", f32::NAME], [n], 4 * n, move |gpu, _| {
        rig(
            data::poisoned::<f32>(gpu, n)?,
            |out, _| data::poison(out),
            |out, gpu| ops::fill(gpu, &1.5, out),
            |out, _| check::samples(out, |_| 1.5),
        )
    })
    .goal_if(n >= 1 << 28, "driver", 0.99)
}

fn convert(n: usize) -> Case {
    Case::new(["map", "convert", bf16::NAME], [n], 6 * n, move |gpu, seed| {
        let x = data::random::<f32>(gpu, n, seed)?;
        rig(
            (x, data::poisoned::<bf16>(gpu, n)?),
            |(_, out), _| data::poison(out),
            |(x, out), gpu| map::convert(gpu, x, out),
            move |(_, out), _| check::samples(out, |i| bf16::nearest(data::value::<f32>(seed, i))),
        )
    })
    .goal_if(n >= 1 << 28, "CUB", 0.99)
}

fn negate(n: usize) -> Case {
    Case::new(["map", "negate", bf16::NAME], [n], 4 * n, move |gpu, seed| {
        let x = data::random::<bf16>(gpu, n, seed)?;
        rig(
            (x, data::poisoned::<bf16>(gpu, n)?),
            |(_, out), _| data::poison(out),
            |(x, out), gpu| map::negate(gpu, x, out),
            move |(_, out), _| check::samples(out, |i| -data::value::<bf16>(seed, i)),
        )
    })
    .goal_if(n >= 1 << 28, "torch", 1.0)
}
