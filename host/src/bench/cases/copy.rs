//! Copies, beside the driver's own.

use cuda_std::launch::Linear;
use kernels_gpu::grid::copy::copy_vectors;

use crate::bench::{Case, Random, Scale, check, data, rig};

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let lens = scale.ladder().into_iter().map(|n| n.next_multiple_of(4));
    lens.map(copy).collect()
}

fn copy(n: usize) -> Case {
    Case::new(["copy", "array", f32::NAME], [n], 2 * n * 4, move |gpu, seed| {
        let state = (data::random::<f32>(gpu, n, seed)?, data::poisoned::<f32>(gpu, n)?);
        let grid = Linear::new((n / 4).div_ceil(256).min(16 * 132) as u32, 256);
        rig(
            state,
            |(_, out), _| data::poison(out),
            move |(x, out), gpu| {
                let x = x.as_slice().cast()?;
                copy_vectors::launch(gpu, grid, &x, &mut out.as_mut_slice().cast_mut()?)
            },
            move |(_, out), _| check::samples(out, |i| data::value(seed, i)),
        )
    })
    .goal_if(n >= 1 << 26, "driver", 0.99)
}
