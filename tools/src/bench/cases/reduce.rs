//! Reductions, beside CUB's and PyTorch's.

use std::thread;

use bytemuck::Pod;
use cuda_std::launch::Instance;
use cuda_std::number::{Half, bf16, f16};
use kernels_gpu::reduce::reduce_sum;

use crate::bench::check::Fault;
use crate::bench::{Case, Random, Scale, check, data, rig};
use ferrowarp::Gpu;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::{Scratch, reduce};

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let headline = scale.ladder().into_iter().map(sum::<f32>);
    let sums = |n| [sum::<f64>(n), sum::<f16>(n), sum::<bf16>(n), sum_of_i32(n)];
    let others = |n| [product(n), max(n), argmax(n), plain(n)];
    let side = scale.lens().into_iter().flat_map(move |n| sums(n).into_iter().chain(others(n)));
    let matrices = scale.pick(
        vec![[64, 100], [2, 5000]],
        vec![[32_768, 8192]],
        vec![[32_768, 8192], [1 << 20, 64], [1 << 24, 16], [8, 1 << 25]],
    );
    let parts =
        matrices.into_iter().flat_map(|shape| [rows(shape), columns(shape), segments(shape)]);
    headline.chain(side).chain(parts).collect()
}

/// A random number that is added up on the CPU too.
trait Wide: Random + Send {
    fn wide(self) -> f64;
}

macro_rules! wide {
    ($($ty:ty: |$x:ident| $wide:expr;)*) => {$(
        impl Wide for $ty {
            fn wide(self) -> f64 {
                let $x = self;
                $wide
            }
        }
    )*};
}

wide! {
    f32: |x| x.into();
    f64: |x| x;
    f16: |x| x.widen().into();
    bf16: |x| x.widen().into();
}

/// What all CPUs make of the parts of `0..n`.
fn on_all_cpus<U: Send>(n: usize, part: impl Fn(std::ops::Range<usize>) -> U + Sync) -> Vec<U> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let each = n.div_ceil(threads).max(1);
    thread::scope(|scope| {
        let part = &part;
        let starts = (0..n).step_by(each);
        let running: Vec<_> =
            starts.map(|start| scope.spawn(move || part(start..n.min(start + each)))).collect();
        running.into_iter().map(|part| part.join().expect("the sums do not panic")).collect()
    })
}

/// A case of `n` elements that become one value.
fn case<T: Random, U: Pod>(
    form: &'static str,
    n: usize,
    run: impl Fn(&Gpu, &DeviceBuffer<T>, &mut DeviceBuffer<U>, &mut Scratch) -> GpuResult<()>
    + Copy
    + 'static,
    check: impl Fn(U, u32) -> Result<(), Fault> + Copy + 'static,
) -> Case {
    Case::new(["reduce", form, T::NAME], [n], n * size_of::<T>(), move |gpu, seed| {
        let x = data::random::<T>(gpu, n, seed)?;
        rig(
            (x, data::poisoned::<U>(gpu, 1)?, Scratch::new(gpu)?),
            |(_, out, _), _| data::poison(out),
            move |(x, out, scratch), gpu| run(gpu, x, out, scratch),
            move |(_, out, _), _| check(out.to_vec()?[0], seed),
        )
    })
}

fn sum<T: Wide + reduce::Element<Total: Wide>>(n: usize) -> Case
where
    reduce_sum<T::Number>: Instance,
{
    case::<T, T::Total>("sum", n, reduce::sum_into, move |found, seed| {
        let value = |i| data::value::<T>(seed, i).wide();
        let expected: f64 = on_all_cpus(n, |part| part.map(value).sum::<f64>()).into_iter().sum();
        // Partial sums are in the order of the square root of n; each addition rounds by 2^-24 of one.
        check::near("sum", found.wide(), expected, 1e-5 * (n as f64).sqrt().max(1.0))
    })
    .goal_if(n >= 1 << 28, "CUB", 1.0)
    .goal_if(n <= 1 << 20, "CUB", 1.25)
}

fn sum_of_i32(n: usize) -> Case {
    case::<i32, i32>("sum", n, reduce::sum_into, move |found, seed| {
        let add = |sum: i32, i| sum.wrapping_add(data::value::<i32>(seed, i));
        let parts = on_all_cpus(n, |part| part.fold(0, add));
        let expected = parts.into_iter().fold(0, i32::wrapping_add);
        if found == expected { Ok(()) } else { Err(check::element(0, found, expected)) }
    })
}

fn product(n: usize) -> Case {
    // Numbers below one half: the product of many is 0.
    case::<f32, f32>("product", n, reduce::product_into, move |found, seed| {
        let expected: f64 = (0..n.min(1000)).map(|i| data::value::<f32>(seed, i).wide()).product();
        check::near("product", found.into(), expected, 1e-30)
    })
}

/// The greatest of the random numbers.
fn greatest(n: usize, seed: u32) -> f32 {
    let value = |i| data::value::<f32>(seed, i);
    on_all_cpus(n, |part| part.map(value).fold(f32::MIN, f32::max))
        .into_iter()
        .fold(f32::MIN, f32::max)
}

fn max(n: usize) -> Case {
    case::<f32, f32>("max", n, reduce::max_into, move |found, seed| {
        check::near("largest", found.into(), greatest(n, seed).into(), 0.0)
    })
    .goal_if(n >= 1 << 28, "CUB", 1.0)
}

fn argmax(n: usize) -> Case {
    case::<f32, u64>("argmax", n, reduce::argmax_into, move |found, seed| {
        let there = data::value::<f32>(seed, found as usize % n);
        check::near("value at the place", there.into(), greatest(n, seed).into(), 0.0)
    })
    .goal_if(n >= 1 << 28, "CUB", 1.0)
}

/// The textbook's tree, with the addition of its partial sums on the host.
fn plain(n: usize) -> Case {
    Case::new(["reduce", "plain", f32::NAME], [n], 4 * n, move |gpu, seed| {
        let x = data::random::<f32>(gpu, n, seed)?;
        rig(
            (x, f32::NAN),
            |(_, sum), _| {
                *sum = f32::NAN;
                Ok(())
            },
            |(x, sum), gpu| {
                *sum = reduce::sum_tree_f32(gpu, x)?;
                Ok(())
            },
            |(_, sum), _| {
                if sum.is_finite() { Ok(()) } else { Err(check::element(0, *sum, "a number")) }
            },
        )
    })
}

/// A case on a matrix, whose sums along its rows or columns are checked at samples.
fn matrix(
    form: &'static str,
    [rows, cols]: [usize; 2],
    outputs: usize,
    run: impl Fn(&Gpu, &DeviceBuffer<f32>, &mut DeviceBuffer<f32>, &mut Scratch) -> GpuResult<()>
    + Copy
    + 'static,
    indices: impl Fn(usize) -> (usize, usize, usize) + Copy + 'static,
) -> Case {
    let bytes = 4 * (rows * cols + outputs);
    Case::new(["reduce", form, f32::NAME], [rows, cols], bytes, move |gpu, seed| {
        let x = data::random::<f32>(gpu, rows * cols, seed)?;
        rig(
            (x, data::poisoned::<f32>(gpu, outputs)?, Scratch::new(gpu)?),
            |(_, out, _), _| data::poison(out),
            move |(x, out, scratch), gpu| run(gpu, x, out, scratch),
            move |(_, out, _), _| {
                let found = out.to_vec()?;
                for output in [0, outputs / 2, outputs - 1] {
                    let (first, step, len) = indices(output);
                    let value = |k| data::value::<f32>(seed, first + k * step).wide();
                    let parts = on_all_cpus(len, |part| part.map(value).sum::<f64>());
                    let allowed = 1e-5 * (len as f64).sqrt().max(1.0);
                    check::near("sum", found[output].into(), parts.into_iter().sum(), allowed)?;
                }
                Ok(())
            },
        )
    })
}

fn rows(shape: [usize; 2]) -> Case {
    let [rows, cols] = shape;
    let run = move |gpu: &Gpu, x: &_, out: &mut _, scratch: &mut _| {
        reduce::row_sums_into(gpu, x, rows, cols, out, scratch)
    };
    matrix("rows", shape, rows, run, move |row| (row * cols, 1, cols)).goal("torch", 1.0)
}

fn columns(shape: [usize; 2]) -> Case {
    let [rows, cols] = shape;
    let run = move |gpu: &Gpu, x: &_, out: &mut _, scratch: &mut _| {
        reduce::column_sums_into(gpu, x, rows, cols, out, scratch)
    };
    // The sums of very many columns of few rows are small work for the check; the other way round is not.
    matrix("columns", shape, cols, run, move |column| (column, cols, rows)).goal("torch", 1.0)
}

/// The rows as segments with offsets.
fn segments(shape: [usize; 2]) -> Case {
    let [rows, cols] = shape;
    let bytes = 4 * rows * cols + 12 * rows;
    Case::new(["reduce", "segments", f32::NAME], shape, bytes, move |gpu, seed| {
        let x = data::random::<f32>(gpu, rows * cols, seed)?;
        let offsets: Vec<u64> = (0..=rows).map(|row| (row * cols) as u64).collect();
        let offsets = DeviceBuffer::from_slice(gpu, &offsets)?;
        rig(
            (x, offsets, data::poisoned::<f32>(gpu, rows)?, Scratch::new(gpu)?),
            |(_, _, out, _), _| data::poison(out),
            |(x, offsets, out, scratch), gpu| {
                reduce::segmented_sum_into(gpu, x, offsets, out, scratch)
            },
            move |(_, _, out, _), _| {
                let row = |k| data::value::<f32>(seed, (rows - 1) * cols + k).wide();
                let expected = (0..cols).map(row).sum();
                let allowed = 1e-5 * (cols as f64).sqrt().max(1.0);
                check::near("sum", out.to_vec()?[rows - 1].into(), expected, allowed)
            },
        )
    })
    .goal("CUB", 1.0)
}
