//! Random numbers, beside cuRAND's Philox and PyTorch's.

use bytemuck::Pod;

use crate::bench::check::Fault;
use crate::bench::{Case, Scale, check, data, rig};
use ferrowarp::Gpu;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::random;
use reference::random as reference;

/// The seed of all; the data's own seed is the offset.
const SEED: u64 = 42;
/// A bound that is no power of two: one word in four millions is thrown away.
const BOUND: u32 = 1000;

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let mut cases = Vec::new();
    for n in scale.lens() {
        let uniform =
            case(["uniform", "f32"], n, random::uniform_into::<f32>, exact(reference::uniform_f32));
        let normal = case(["normal", "f32"], n, random::normal_into, |i, found| {
            let (expected, radius) = reference::normal(SEED, i);
            check::near("normal number", f64::from(found), expected, 4e-6 * radius)
        });
        cases.push(uniform.goal_if(n >= 1 << 28, "cuRAND", 1.0));
        cases.push(normal.goal_if(n >= 1 << 28, "cuRAND", 1.5));
        let words = |seed, i| reference::word(seed, 0, i);
        cases.push(case(["integers", "u32"], n, random::integers_into::<u32>, exact(words)));
        let below = |gpu: &Gpu, out: &mut _, seed, offset| {
            random::integers_in_range_into(gpu, out, 0..BOUND, seed, offset)
        };
        let expected = |seed, i| reference::below(seed, i, BOUND);
        cases.push(case(["below", "u32"], n, below, exact(expected)));
        cases.push(case(
            ["uniform", "f64"],
            n / 2,
            random::uniform_into::<f64>,
            exact(reference::uniform_f64),
        ));
        cases.push(case(
            ["uniform_plain", "f32"],
            n,
            random::uniform_plain_into,
            exact(reference::uniform_f32),
        ));
    }
    cases
}

/// Compares an element with `expected`, bit for bit.
fn exact<T: Copy + PartialEq + std::fmt::Display>(
    expected: impl Fn(u64, u64) -> T + Copy,
) -> impl Fn(u64, T) -> Result<(), Fault> + Copy {
    move |i, found| {
        let expected = expected(SEED, i);
        let fault = || check::element(i as usize, found, expected);
        if found == expected { Ok(()) } else { Err(fault()) }
    }
}

fn case<T: Pod>(
    [form, element]: [&'static str; 2],
    n: usize,
    fill: impl Fn(&Gpu, &mut DeviceBuffer<T>, u64, u64) -> GpuResult<()> + Copy + Send + Sync + 'static,
    look: impl Fn(u64, T) -> Result<(), Fault> + Copy + Send + Sync + 'static,
) -> Case {
    Case::new(["random", form, element], [n], n * size_of::<T>(), move |gpu, seed| {
        let offset = u64::from(seed) * 4;
        rig(
            data::poisoned::<T>(gpu, n)?,
            |out, _| data::poison(out),
            move |out, gpu| fill(gpu, out, SEED, offset),
            move |out, _| check::for_samples(out, |i, found| look(offset + i as u64, found)),
        )
    })
    .in_elements()
}
