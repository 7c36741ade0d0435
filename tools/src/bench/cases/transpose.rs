//! Transposes, beside the textbook's in CUDA C++ and PyTorch's.

use crate::bench::{Case, Random, Scale, check, data, rig};
use ferrowarp::GpuResult;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::{Gpu, ops::transpose};

type Buffer<T> = DeviceBuffer<T>;

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let squares = [1024, 4096, 16_384, 32_768].to_vec();
    let mut cases: Vec<Case> = scale
        .pick(vec![64, 100], vec![16_384], squares)
        .into_iter()
        .map(|side| matrix::<f32>("square", side, side, 0.0))
        .collect();
    let side = scale.pick(64, 16_384, 16_384);
    cases.extend([
        matrix::<u8>("square", 2 * side, 2 * side, 1.1),
        matrix::<u16>("square", side, side, 1.1),
        matrix::<u64>("square", side, side, 1.0),
        matrix::<f32>("rectangular", side / 4, 4 * side, 1.1),
        matrix::<f32>("ragged", side - 1, side + 1, 0.8),
        plain("tiled", side, transpose::transpose_tiled),
        plain("plain", side, transpose::transpose_naive),
    ]);
    let dims = scale.pick([8, 20, 36], [512, 768, 1024], [512, 768, 1024]);
    for axes in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        cases.push(permutation(dims, axes));
    }
    cases
}

fn matrix<T: Random>(form: &'static str, height: usize, width: usize, goal: f64) -> Case {
    case::<T>(form, height, width, move |gpu, x, out| {
        transpose::transpose(gpu, x, out, width, height)
    })
    .goal_if(height >= 16_384 && goal == 0.0, "textbook", 1.1)
    .goal_if(height >= 4096 && goal > 0.0, "textbook", goal)
    .speed_goal_if(form == "square" && height >= 16_384, "H200", 3900.0)
}

type Form = fn(&Gpu, &Buffer<f32>, &mut Buffer<f32>, usize, usize) -> GpuResult<()>;

fn plain(form: &'static str, side: usize, run: Form) -> Case {
    case::<f32>(form, side, side, move |gpu, x, out| run(gpu, x, out, side, side))
}

fn case<T: Random>(
    form: &'static str,
    height: usize,
    width: usize,
    run: impl Fn(&Gpu, &Buffer<T>, &mut Buffer<T>) -> GpuResult<()> + Copy + 'static,
) -> Case {
    let n = width * height;
    let bytes = 2 * n * size_of::<T>();
    Case::new(["transpose", form, T::NAME], [height, width], bytes, move |gpu, seed| {
        let state = (data::random::<T>(gpu, n, seed)?, data::poisoned::<T>(gpu, n)?);
        rig(
            state,
            |(_, out), _| data::poison(out),
            move |(x, out), gpu| run(gpu, x, out),
            move |(_, out), _| {
                check::for_samples(out, |i, found: T| {
                    same(i, found, data::value(seed, i % height * width + i / height))
                })
            },
        )
    })
}

fn same<T: Random>(index: usize, found: T, expected: T) -> Result<(), check::Fault> {
    let is_same = bytemuck::bytes_of(&found) == bytemuck::bytes_of(&expected);
    let broken = check::Fault::Broken { what: "not the element that belongs here", index };
    if is_same { Ok(()) } else { Err(broken) }
}

fn permutation(dims: [usize; 3], axes: [usize; 3]) -> Case {
    let n = dims.iter().product();
    let [a, b, c] = axes;
    let form = format!("permute-{a}{b}{c}");
    let strides = [dims[1] * dims[2], dims[2], 1];
    let from = move |i: usize| {
        let (y, x) = (dims[axes[1]], dims[axes[2]]);
        i / (y * x) * strides[axes[0]] + i / x % y * strides[axes[1]] + i % x * strides[axes[2]]
    };
    Case::new(["transpose", &form, f32::NAME], dims, 8 * n, move |gpu, seed| {
        let state = (data::random::<f32>(gpu, n, seed)?, data::poisoned::<f32>(gpu, n)?);
        rig(
            state,
            |(_, out), _| data::poison(out),
            move |(x, out), gpu| transpose::permute(gpu, x, out, dims, axes),
            move |(_, out), _| check::samples(out, |i| data::value(seed, from(i))),
        )
    })
    .goal_if(n >= 1 << 28, "torch", 1.0)
}
