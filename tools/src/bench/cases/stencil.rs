//! Stencils, beside the textbook's in CUDA C++ and PyTorch's convolution.

use crate::bench::{Case, Random, Scale, check, data, rig};
use ferrowarp::ops::stencil::{self, Boundary, PlaneStencil, VolumeStencil};

/// Of the cell itself, and of each neighbour of a plane or a volume.
const PLANE: (f32, f32) = (0.2, 0.2);
const VOLUME: (f32, f32) = (0.25, 0.125);

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let large = vec![[256; 3], [512; 3], [1024; 3]];
    let volumes = scale.pick(vec![[5, 18, 136]], vec![[1024; 3]], large);
    let planes = scale.pick(vec![[20, 136]], vec![[16_384; 2]], vec![[4096; 2], [16_384; 2]]);
    let mut cases = Vec::new();
    for shape in volumes {
        let is_large = shape[0] >= 512;
        let once = volume("volume", shape, 1).goal_if(is_large, "textbook", 1.0);
        cases.push(once.speed_goal_if(shape[0] == 1024, "H200", 3900.0));
        cases.push(volume("volume-twice", shape, 2).goal_if(is_large, "textbook", 1.4));
        cases.push(volume_f64(shape).goal_if(is_large, "textbook", 1.0));
    }
    for shape in planes {
        cases.push(plane("plane", shape, 1).goal_if(shape[0] >= 4096, "textbook", 1.0));
        cases.push(plane("plane-twice", shape, 2).goal_if(shape[0] >= 4096, "textbook", 1.5));
        cases.push(plane("plane-four-times", shape, 4).goal_if(shape[0] >= 4096, "textbook", 2.5));
    }
    cases
}

/// A cell after some steps, from those before it.
fn cell(seed: u32, shape: [usize; 3], place: [usize; 3], steps: usize) -> f32 {
    let strides = [shape[1] * shape[2], shape[2], 1];
    let is_plane = shape[0] == 1;
    let axes = if is_plane { 1..3 } else { 0..3 };
    let on_edge = axes.clone().any(|k| place[k] == 0 || place[k] + 1 == shape[k]);
    if steps == 0 || on_edge {
        let index = (0..3).map(|k| place[k] * strides[k]).sum();
        return data::value(seed, index);
    }
    let (centre, side) = if is_plane { PLANE } else { VOLUME };
    let beside = |k: usize, step: isize| {
        let mut there = place;
        there[k] = there[k].wrapping_add_signed(step);
        cell(seed, shape, there, steps - 1)
    };
    let sum = centre * cell(seed, shape, place, steps - 1);
    axes.rev().fold(sum, |sum, k| (beside(k, -1) + beside(k, 1)).mul_add(side, sum))
}

fn volume(form: &'static str, shape: [usize; 3], steps: usize) -> Case {
    let n: usize = shape.iter().product();
    let (centre, side) = VOLUME;
    let rule = VolumeStencil { centre, x: side, y: side, z: side, boundary: Boundary::Fixed };
    Case::new(["stencil", form, f32::NAME], shape, 8 * n, move |gpu, seed| {
        let state = (data::random::<f32>(gpu, n, seed)?, data::poisoned::<f32>(gpu, n)?);
        rig(
            state,
            |(_, out), _| data::poison(out),
            move |(x, out), gpu| stencil::volume_fused_into(gpu, x, out, shape, &rule, steps),
            move |(_, out), _| {
                let [_, height, width] = shape;
                let place = |i| [i / (height * width), i / width % height, i % width];
                check::samples(out, |i| cell(seed, shape, place(i), steps))
            },
        )
    })
}

fn volume_f64(shape: [usize; 3]) -> Case {
    let n: usize = shape.iter().product();
    let rule = VolumeStencil::diffusion(0.125_f64, Boundary::Periodic);
    Case::new(["stencil", "volume", f64::NAME], shape, 16 * n, move |gpu, seed| {
        let state = (data::random::<f64>(gpu, n, seed)?, data::poisoned::<f64>(gpu, n)?);
        rig(
            state,
            |(_, out), _| data::poison(out),
            move |(x, out), gpu| stencil::volume_into(gpu, x, out, shape, &rule),
            move |(x, out), _| {
                // Over periodic edges nothing is lost; the sum of much takes too long.
                if n > 1 << 20 {
                    return check::for_samples(out, |index, found: f64| {
                        let is_mean = found.abs() <= 0.5;
                        let fault =
                            check::Fault::Broken { what: "no mean of its neighbours", index };
                        if is_mean { Ok(()) } else { Err(fault) }
                    });
                }
                // Each cell rounds by a few units of 2^-53.
                let expected = x.to_vec()?.iter().sum();
                check::near("sum", out.to_vec()?.iter().sum(), expected, 1e-15 * n as f64)
            },
        )
    })
}

fn plane(form: &'static str, shape: [usize; 2], steps: usize) -> Case {
    let [height, width] = shape;
    let n = height * width;
    let (centre, side) = PLANE;
    let rule = PlaneStencil { centre, x: side, y: side, boundary: Boundary::Fixed };
    Case::new(["stencil", form, f32::NAME], shape, 8 * n, move |gpu, seed| {
        let state = (data::random::<f32>(gpu, n, seed)?, data::poisoned::<f32>(gpu, n)?);
        rig(
            state,
            |(_, out), _| data::poison(out),
            move |(x, out), gpu| stencil::plane_fused_into(gpu, x, out, shape, &rule, steps),
            move |(_, out), _| {
                let all = [1, height, width];
                check::samples(out, |i| cell(seed, all, [0, i / width, i % width], steps))
            },
        )
    })
}
