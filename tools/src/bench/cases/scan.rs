//! Scans, beside CUB's.

use crate::bench::check::Fault;
use crate::bench::{Case, Random, Scale, check, data, rig};
use cuda_std::f16;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::scan::{Form, Max, ScanOperator, Sum, by_into, by_key_into, running_into};
use ferrowarp::ops::{Scratch, scan};

/// Up to so many elements every sum is compared, beyond it only neighbours in samples.
const COMPARED: usize = 1 << 20;

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let small = scale.pick(vec![4096], vec![1 << 20], vec![1 << 20]);
    let f32s = scale.ladder().into_iter().map(|n| inclusive(n, 1.10, |x: f32| x.into()));
    let u16s = scale.ladder().into_iter().map(|n| inclusive(n, 1.4, |x: u16| x.into()));
    let lens = || scale.lens().into_iter();
    let others = lens().flat_map(|n| {
        [
            inclusive(n, 1.4, f16::to_f64),
            inclusive(n, 1.0, |x: u8| x.into()),
            inclusive(n, 1.10, |x: u32| x.into()),
            inclusive(n, 1.0, |x: i64| x as f64),
            inclusive(n, 1.0, |x: f64| x),
            highest(n),
            by_key(n),
        ]
    });
    f32s.chain(u16s).chain(others).chain(small.into_iter().map(plain)).collect()
}

/// Sums of `T`; beyond 2^28 elements, `goal` times CUB's speed.
fn inclusive<T: Random>(n: usize, goal: f64, wide: fn(T) -> f64) -> Case
where
    Sum: ScanOperator<T>,
{
    Case::new(["scan", "inclusive", T::NAME], [n], 2 * n * size_of::<T>(), move |gpu, seed| {
        let out = data::poisoned::<T>(gpu, n)?;
        rig(
            (data::random::<T>(gpu, n, seed)?, out, Scratch::new(gpu)?),
            |(_, out, _), _| data::poison(out),
            |(x, out, scratch), gpu| scan::inclusive_into(gpu, x, out, scratch),
            move |(_, out, _), _| steps(out, |i| wide(data::value(seed, i)), wide),
        )
    })
    .goal_if(n >= 1 << 28, "CUB", goal)
}

/// Whether each sum is the one before and the element, modulo the type's range; all sums of few elements.
fn steps<T: Random>(
    out: &DeviceBuffer<T>,
    x: impl Fn(usize) -> f64,
    wide: fn(T) -> f64,
) -> Result<(), Fault> {
    let range = 2.0_f64.powi(8 * size_of::<T>() as i32);
    let is_float = T::NAME.contains('f');
    let is_step = |before: f64, found: f64, x: f64| {
        let off = (found - before - x).abs();
        // Sums of random floats stay below 2^15, and integers wrap; wide ones are compared in f64.
        let rounding = match (is_float, size_of::<T>()) {
            (true, 2) => 0.002 * (found.abs() + before.abs() + 1.0),
            (true, _) => 0.02,
            (false, 8) => 4096.0,
            (false, _) => 0.0,
        };
        off <= rounding || (!is_float && (off - range).abs() <= rounding)
    };
    let mut last = (usize::MAX, 0.0);
    let mut look = |i: usize, found: T| {
        let (found, (at, before)) = (wide(found), last);
        last = (i, found);
        let right = match i {
            0 => is_step(0.0, found, x(0)),
            _ if at == i - 1 => is_step(before, found, x(i)),
            _ => found.is_finite(),
        };
        if right { Ok(()) } else { Err(check::element(i, found, before + x(i))) }
    };
    if out.len() > COMPARED {
        return check::for_samples(out, look);
    }
    out.to_vec()?.into_iter().enumerate().try_for_each(|(i, found)| look(i, found))
}

fn highest(n: usize) -> Case {
    Case::new(["scan", "max", f32::NAME], [n], 2 * n * size_of::<f32>(), move |gpu, seed| {
        let out = data::poisoned::<f32>(gpu, n)?;
        rig(
            (data::random::<f32>(gpu, n, seed)?, out, Scratch::new(gpu)?),
            |(_, out, _), _| data::poison(out),
            |(x, out, scratch), gpu| by_into(gpu, Max, Form::Inclusive, x, out, scratch),
            move |(_, out, _), _| {
                let first = data::value::<f32>(seed, 0);
                check::for_samples(out, |i, found| {
                    let own = data::value::<f32>(seed, i);
                    let is_right = found >= own && found >= first && found < 0.5;
                    if is_right { Ok(()) } else { Err(check::element(i, found, own)) }
                })
            },
        )
    })
}

/// Elements with a key in common, on average.
const RUN: u32 = 64;

fn by_key(n: usize) -> Case {
    let bytes = n * (2 * size_of::<f32>() + size_of::<u32>());
    Case::new(["scan", "by_key", f32::NAME], [n], bytes, move |gpu, seed| {
        let keys: Vec<u32> = (0..n as u32).map(|i| i / RUN).collect();
        let keys = DeviceBuffer::from_slice(gpu, &keys)?;
        let state = (data::random::<f32>(gpu, n, seed)?, keys, data::poisoned(gpu, n)?);
        rig(
            (state, Scratch::new(gpu)?),
            |((_, _, out), _), _| data::poison(out),
            |((x, keys, out), scratch), gpu| {
                by_key_into(gpu, Sum, Form::Inclusive, x, keys, out, scratch)
            },
            move |((_, _, out), _), _| {
                check::for_samples(out, |i, found: f32| {
                    let run = i - i % RUN as usize..=i;
                    let sum: f64 = run.map(|i| f64::from(data::value::<f32>(seed, i))).sum();
                    check::near("sum of a run", found.into(), sum, 1e-4)
                })
            },
        )
    })
    .goal_if(n >= 1 << 28, "CUB", 1.0)
}

fn plain(n: usize) -> Case {
    Case::new(["scan", "plain", f32::NAME], [n], 2 * n * size_of::<f32>(), move |gpu, seed| {
        rig(
            (data::random::<f32>(gpu, n, seed)?, data::poisoned(gpu, n)?),
            |(_, out), _| data::poison(out),
            |(x, out), gpu| running_into(gpu, Sum, Form::Inclusive, x, out),
            move |(_, out), _| {
                steps(out, |i| data::value::<f32>(seed, i).into(), |x: f32| x.into())
            },
        )
    })
}
