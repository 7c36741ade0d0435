//! Copies, beside the driver's own and CUB's.

use cuda_std::launch::Linear;
use cuda_std::number::bf16;
use kernels_gpu::elementwise::copy::copy_coalesced;

use crate::bench::{Case, Random, Scale, check, data, rig};
use ferrowarp::ops;

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let headline = scale.ladder().into_iter().map(copy::<f32>);
    let side = scale
        .lens()
        .into_iter()
        .flat_map(|n| [copy::<u8>(n), copy::<bf16>(n), misaligned(n), plain(n), every(n)]);
    let rows =
        scale.pick(vec![[50, 70]], vec![[16_384, 16_000]], vec![[16_384, 16_000], [1 << 22, 50]]);
    headline.chain(side).chain(rows.into_iter().map(pitched)).collect()
}

fn copy<T: Random + PartialEq + std::fmt::Display>(n: usize) -> Case {
    Case::new(["copy", "array", T::NAME], [n], 2 * n * size_of::<T>(), move |gpu, seed| {
        let state = (data::random::<T>(gpu, n, seed)?, data::poisoned::<T>(gpu, n)?);
        rig(
            state,
            |(_, out), _| data::poison(out),
            |(x, out), gpu| ops::copy(gpu, x, out),
            move |(_, out), _| check::samples(out, |i| data::value(seed, i)),
        )
    })
    .goal_if(n * size_of::<T>() >= 1 << 28, "driver", 0.99)
    .goal_if(n * size_of::<T>() >= 1 << 28, "CUB", 0.99)
}

/// To an address that is not aligned as the source is.
fn misaligned(n: usize) -> Case {
    Case::new(["copy", "misaligned", f32::NAME], [n], 8 * n, move |gpu, seed| {
        let state = (data::random::<f32>(gpu, n + 1, seed)?, data::poisoned::<f32>(gpu, n)?);
        rig(
            state,
            |(_, out), _| data::poison(out),
            |(x, out), gpu| ops::copy(gpu, &x.slice(1..), out),
            move |(_, out), _| check::samples(out, |i| data::value(seed, i + 1)),
        )
    })
    .goal_if(n >= 1 << 28, "driver", 0.9)
}

/// The form to read first: 4 bytes a thread and step.
fn plain(n: usize) -> Case {
    Case::new(["copy", "plain", f32::NAME], [n], 8 * n, move |gpu, seed| {
        let state = (data::random::<f32>(gpu, n, seed)?, data::poisoned::<f32>(gpu, n)?);
        let grid = Linear::new(n.div_ceil(256).min(8 * 132) as u32, 256);
        rig(
            state,
            |(_, out), _| data::poison(out),
            move |(x, out), gpu| copy_coalesced::launch(gpu, grid, x, out),
            move |(_, out), _| check::samples(out, |i| data::value(seed, i)),
        )
    })
}

/// Every second element.
fn every(n: usize) -> Case {
    let kept = n.div_ceil(2);
    Case::new(["copy", "every", f32::NAME], [n], 4 * (n + kept), move |gpu, seed| {
        let state = (data::random::<f32>(gpu, n, seed)?, data::poisoned::<f32>(gpu, kept)?);
        rig(
            state,
            |(_, out), _| data::poison(out),
            |(x, out), gpu| ops::copy_every(gpu, 2, x, out),
            move |(_, out), _| check::samples(out, |i| data::value(seed, 2 * i)),
        )
    })
}

/// Rows at distances that are larger than they are long.
fn pitched([height, width]: [usize; 2]) -> Case {
    let pitch = width.next_multiple_of(64) + 64;
    let bytes = 8 * width * height;
    Case::new(["copy", "rows", f32::NAME], [height, width], bytes, move |gpu, seed| {
        let x = data::random::<f32>(gpu, pitch * height, seed)?;
        rig(
            (x, data::poisoned::<f32>(gpu, width * height)?),
            |(_, out), _| data::poison(out),
            move |(x, out), gpu| {
                ops::copy_pitched(gpu, x, pitch, &mut out.grid_mut(width, height)?)
            },
            move |(_, out), _| {
                check::samples(out, |i| data::value(seed, i / width * pitch + i % width))
            },
        )
    })
    .goal("driver", 0.99)
}
