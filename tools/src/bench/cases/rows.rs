//! Softmax and the norms of rows, beside PyTorch's, eager and compiled.

use cuda_std::bf16;

use crate::bench::check::Fault;
use crate::bench::{Case, Random, Scale, check, data, rig};
use ferrowarp::error::GpuResult;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::norm::{self, Norm, WeightGradients};
use ferrowarp::ops::softmax as softmaxes;
use ferrowarp::ops::{RowValue, Scratch};

type Shape = [usize; 2];

/// An element of rows that the benchmark has data of.
trait Element: Random + RowValue + Into<f64> {}

impl<T: Random + RowValue + Into<f64>> Element for T {}

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let wide = || {
        let long = [[4096, 65_536], [2048, 131_072], [1024, 262_144]];
        let short = [[32_768, 8192], [262_144, 1024], [1 << 21, 128], [16_384, 8191]];
        let full = short.into_iter().chain(long).collect();
        scale.pick(vec![[8, 256]], vec![[32_768, 8192], [4096, 65_536]], full)
    };
    let one = || scale.pick(vec![[8, 256]], vec![[32_768, 8192]], vec![[32_768, 8192]]);
    let mut cases = Vec::new();
    cases.extend(wide().into_iter().map(softmax::<f32>));
    cases.extend(wide().into_iter().map(softmax::<bf16>));
    cases.extend(one().into_iter().map(softmax_plain));
    for is_layer in [true, false] {
        cases.extend(wide().into_iter().map(|shape| norm::<f32>(shape, is_layer)));
        cases.extend(wide().into_iter().map(|shape| norm::<bf16>(shape, is_layer)));
    }
    cases.extend(one().into_iter().map(norm_plain));
    cases.extend(one().into_iter().map(softmax_backward::<bf16>));
    cases.extend(one().into_iter().map(norm_backward::<bf16>));
    cases
}

/// Bytes of `matrices` of that shape.
fn bytes<T>([rows, columns]: Shape, matrices: usize) -> usize {
    matrices * rows * columns * size_of::<T>()
}

/// One row of the data, as numbers.
fn row<T: Element>(seed: u32, columns: usize, row: usize) -> Vec<f64> {
    (0..columns).map(|i| data::value::<T>(seed, row * columns + i).into()).collect()
}

/// Compares the first, a middle and the last row: to `part` of an element, and `absolute`.
fn compare<T: Element>(
    out: &DeviceBuffer<T>,
    [rows, columns]: Shape,
    (part, absolute): (f64, f64),
    expected: impl Fn(usize) -> Vec<f64>,
) -> Result<(), Fault> {
    for row in [0, rows / 3, rows - 1] {
        let found = out.slice(row * columns..(row + 1) * columns).to_vec()?;
        for (found, expected) in found.into_iter().zip(expected(row)) {
            let tolerance = part * expected.abs() + absolute;
            check::near("element of a row", found.into(), expected, tolerance)?;
        }
    }
    Ok(())
}

/// A rounding to the type, and those of the computation.
fn precision<T>() -> f64 {
    1e-4 + if size_of::<T>() == 2 { 1.0 / 256.0 } else { 0.0 }
}

fn softmax<T: Element>(shape: Shape) -> Case {
    let [rows, columns] = shape;
    let set_up = move |gpu: &ferrowarp::Gpu, seed| {
        let n = rows * columns;
        rig(
            (data::random::<T>(gpu, n, seed)?, data::poisoned::<T>(gpu, n)?),
            |(_, out), _| data::poison(out),
            move |(x, out), gpu| softmaxes::softmax_into(gpu, x, columns, out),
            move |(_, out), _| {
                let expected = |r| reference::softmax::softmax(&row::<T>(seed, columns, r), false);
                compare(out, shape, (precision::<T>(), 0.0), expected)
            },
        )
    };
    Case::new(["rows", "softmax", T::NAME], shape, bytes::<T>(shape, 2), set_up)
        .goal_if(columns == 8192, "torch", 2.0)
        .goal_if(columns == 8192, "torch.compile", 1.0)
        .goal_if(columns >= 1 << 16, "torch.compile", 1.4)
        .speed_goal_if(columns == 8192, "H200", 4000.0)
}

fn softmax_plain(shape: Shape) -> Case {
    let [rows, columns] = shape;
    let set_up = move |gpu: &ferrowarp::Gpu, seed| {
        let n = rows * columns;
        rig(
            (data::random::<f32>(gpu, n, seed)?, data::poisoned::<f32>(gpu, n)?),
            |(_, out), _| data::poison(out),
            move |(x, out), gpu| softmaxes::plain_into(gpu, x, columns, false, out),
            move |(_, out), _| {
                let expected =
                    |r| reference::softmax::softmax(&row::<f32>(seed, columns, r), false);
                compare(out, shape, (precision::<f32>(), 0.0), expected)
            },
        )
    };
    Case::new(["rows", "softmax_plain", f32::NAME], shape, bytes::<f32>(shape, 2), set_up)
}

/// From random "results" too: their speed is the same.
fn softmax_backward<T: Element>(shape: Shape) -> Case {
    let [rows, columns] = shape;
    let set_up = move |gpu: &ferrowarp::Gpu, seed| {
        let n = rows * columns;
        let inputs = (data::random::<T>(gpu, n, seed)?, data::random::<T>(gpu, n, seed + 1)?);
        rig(
            (inputs, data::poisoned::<T>(gpu, n)?),
            |(_, dx), _| data::poison(dx),
            move |((y, dy), dx), gpu| softmaxes::softmax_backward_into(gpu, y, dy, columns, dx),
            move |(_, dx), _| {
                let expected = |r| {
                    let (y, dy) = (row::<T>(seed, columns, r), row::<T>(seed + 1, columns, r));
                    reference::softmax::softmax_backward(&y, &dy, false)
                };
                compare(dx, shape, (precision::<T>(), 0.05), expected)
            },
        )
    };
    Case::new(["rows", "softmax_backward", T::NAME], shape, bytes::<T>(shape, 3), set_up)
}

/// The weights and the bias: as random as the data.
fn weights<T: Element>(
    gpu: &ferrowarp::Gpu,
    columns: usize,
    seed: u32,
) -> GpuResult<[DeviceBuffer<T>; 2]> {
    Ok([data::random(gpu, columns, seed + 2)?, data::random(gpu, columns, seed + 3)?])
}

fn described<T: Element>([weight, bias]: &[DeviceBuffer<T>; 2], is_layer: bool) -> Norm<'_, T> {
    let columns = weight.len();
    if is_layer {
        return Norm::layer(columns).weight(weight.as_slice()).bias(bias.as_slice());
    }
    Norm::rms(columns).weight(weight.as_slice())
}

fn expected_norm<T: Element>(seed: u32, columns: usize, is_layer: bool, r: usize) -> Vec<f64> {
    let [weight, bias] = [2, 3].map(|k| row::<T>(seed + k, columns, 0));
    let (weight, bias) = (Some(&weight[..]), is_layer.then_some(&bias[..]));
    let norm = reference::norm::Norm { is_layer, epsilon: norm::EPSILON.into(), weight, bias };
    norm.forward(&row::<T>(seed, columns, r))
}

fn name(is_layer: bool) -> &'static str {
    if is_layer { "layer_norm" } else { "rms_norm" }
}

fn norm<T: Element>(shape: Shape, is_layer: bool) -> Case {
    let [rows, columns] = shape;
    let set_up = move |gpu: &ferrowarp::Gpu, seed| {
        let n = rows * columns;
        let weights = weights::<T>(gpu, columns, seed)?;
        rig(
            (data::random::<T>(gpu, n, seed)?, weights, data::poisoned::<T>(gpu, n)?),
            |(_, _, out), _| data::poison(out),
            move |(x, weights, out), gpu| {
                norm::norm_into(gpu, &described(weights, is_layer), x, out)
            },
            move |(_, _, out), _| {
                let expected = |r| expected_norm::<T>(seed, columns, is_layer, r);
                compare(out, shape, (precision::<T>(), 1e-3), expected)
            },
        )
    };
    Case::new(["rows", name(is_layer), T::NAME], shape, bytes::<T>(shape, 2), set_up)
        .goal_if(columns == 8192, "torch", 1.4)
        .speed_goal_if(columns == 8192, "H200", 4000.0)
}

fn norm_plain(shape: Shape) -> Case {
    let [rows, columns] = shape;
    let set_up = move |gpu: &ferrowarp::Gpu, seed| {
        let n = rows * columns;
        let weights = weights::<f32>(gpu, columns, seed)?;
        rig(
            (data::random::<f32>(gpu, n, seed)?, weights, data::poisoned::<f32>(gpu, n)?),
            |(_, _, out), _| data::poison(out),
            |(x, weights, out), gpu| norm::plain_into(gpu, &described(weights, true), x, out),
            move |(_, _, out), _| {
                let expected = |r| expected_norm::<f32>(seed, columns, true, r);
                compare(out, shape, (precision::<f32>(), 1e-3), expected)
            },
        )
    };
    Case::new(["rows", "layer_norm_plain", f32::NAME], shape, bytes::<f32>(shape, 2), set_up)
}

/// The gradients by the elements, the weights and the bias. Both inputs are counted once: the partial sums stay on the
/// chip.
fn norm_backward<T: Element>(shape: Shape) -> Case {
    let [rows, columns] = shape;
    let set_up = move |gpu: &ferrowarp::Gpu, seed| {
        let n = rows * columns;
        let inputs = (data::random::<T>(gpu, n, seed)?, data::random::<T>(gpu, n, seed + 1)?);
        let [dweight, dbias] = weights::<T>(gpu, columns, seed)?;
        let outputs = (data::poisoned::<T>(gpu, n)?, dweight, dbias, Scratch::new(gpu)?);
        rig(
            (inputs, weights::<T>(gpu, columns, seed)?, outputs),
            |(_, _, (dx, ..)), _| data::poison(dx),
            |((x, dy), weights, (dx, dweight, dbias, scratch)), gpu| {
                let (weight, bias) = (Some(dweight.as_mut_slice()), Some(dbias.as_mut_slice()));
                let (norm, by) = (described(weights, true), WeightGradients { weight, bias });
                norm::backward_with_weights_into(gpu, &norm, x, dy, dx, by, scratch)
            },
            move |(_, _, (dx, ..)), _| {
                let weight = row::<T>(seed + 2, columns, 0);
                let expected = |r| {
                    let (epsilon, weight) = (norm::EPSILON.into(), Some(&weight[..]));
                    let norm =
                        reference::norm::Norm { is_layer: true, epsilon, weight, bias: None };
                    let dy = row::<T>(seed + 1, columns, r);
                    norm.backward(&row::<T>(seed, columns, r), &dy)
                };
                compare(dx, shape, (precision::<T>(), 1e-2), expected)
            },
        )
    };
    Case::new(["rows", "layer_norm_backward", T::NAME], shape, bytes::<T>(shape, 3), set_up)
}
