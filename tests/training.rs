//! Cross entropy, Adam and embeddings against f64.
//!
//! Tolerance of a loss. An exponential is off by `(4 + 2.25 d) 2^-24` of itself, `d` the distance to the maximum. A lane adds a 32nd of the row, and multiplies what
//! it has by an exponential at each step; terms count by their size, and `d e^-d` is below 1/2. So a sum is off by less than `(16 + n / 4) 2^-24` of
//! itself, and its logarithm by as much, by a rounding of itself, and by one of the difference to the target. A probability is off by as much as the sum and an
//! exponential, and rounded to the type of the elements with the gradient.

use cuda_std::vector::Vec2;
use cuda_std::{bf16, f16};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::{SortOptions, argsort_into};
use ferrowarp::ops::training::{
    Adam, adam_into, cross_entropy_into, embedding_gradient_into, embedding_into,
};
use ferrowarp::{GpuError, GpuResult};
use kernels_gpu::matmul::Value;
use rand::RngExt;

use crate::rows::{Element, assert_near, every_type, exact, random, rows_of, unwritten};
use crate::support::{gpu, poisoned, rng, upload};

const ULP: f64 = 1.0 / (1 << 24) as f64;

/// Rows of `columns` logits, their targets, and the losses and gradients that the device finds, multiplied by `scale`.
fn check<T: Element + Value>(logits: &[T], columns: usize, targets: &[u32], scale: f32)
where
    kernels_gpu::training::cross_entropy<T>: cuda_std::launch::Instance,
{
    let (x, mut losses) = (upload(logits), poisoned(targets.len()));
    let mut gradients = unwritten::<T>(logits.len());
    let of_targets = upload(targets);
    cross_entropy_into(gpu(), &x, columns, &of_targets, scale, &mut losses, &mut gradients)
        .unwrap();
    let (losses, gradients) = (losses.to_vec().unwrap(), gradients.to_vec().unwrap());
    for (row, (found, x)) in rows_of(&gradients, logits, columns) {
        let (x, target) = (exact(x), targets[row] as usize);
        let (loss, expected) = reference::training::cross_entropy(&x, target);
        let of_sum = (16.0 + columns as f64 / 4.0) * ULP;
        let largest =
            x.iter().copied().filter(|x| x.is_finite()).fold(0.0, |a: f64, b| a.max(b.abs()));
        let allowed = of_sum + (4.0 * loss.abs() + 4.0 * largest) * ULP;
        assert_near(losses[row], loss, allowed, || format!("loss of row {row} of {columns}"));
        let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for (c, (&found, expected)) in found.iter().zip(expected).enumerate() {
            let expected = expected * f64::from(scale);
            let probability = (x[c] - max).exp();
            let of_power = if x[c].is_finite() { (6.0 + 2.25 * (max - x[c])) * ULP } else { 0.0 };
            let allowed = probability * (of_power + of_sum) * f64::from(scale).abs()
                + 4.0 * ULP * expected.abs();
            assert_near(found, expected, allowed + 1.2e-38, || {
                format!("row {row} of {columns}, column {c}")
            });
        }
    }
}

fn losses_and_gradients<T: Element + Value>()
where
    kernels_gpu::training::cross_entropy<T>: cuda_std::launch::Instance,
{
    let mut rng = rng();
    for (rows, columns) in
        [(1, 1), (5, 2), (9, 31), (4, 32), (7, 33), (6, 65), (3, 1000), (2, 4099)]
    {
        let mut x = random::<T>(&mut rng, rows * columns, 8.0);
        let targets: Vec<u32> = (0..rows).map(|_| rng.random_range(0..columns as u32)).collect();
        check(&x, columns, &targets, 1.0);
        // Logits of negative infinity, at the beginning of a lane's part too, and a row that does not count.
        for row in x.chunks_mut(columns).zip(&targets) {
            let target = *row.1 as usize;
            let off = (0..columns).filter(|c| *c != target && (c % 3 == 0 || *c < 32));
            off.for_each(|c| row.0[c] = T::from_f64(f64::NEG_INFINITY));
        }
        let mut targets = targets;
        targets[0] = columns as u32;
        check(&x, columns, &targets, 0.125);
    }
    // Large logits: nothing overflows.
    let large: Vec<T> = [1e4, -1e4, 9.9e3, 0.0].map(T::from_f64).to_vec();
    check(&large, 4, &[1], 1.0);
}

every_type!(losses_and_gradients: f32_losses_and_gradients f16_losses_and_gradients bf16_losses_and_gradients);

#[test]
fn nan_and_infinity_reach_their_row_alone() {
    for bad in [f32::NAN, f32::INFINITY] {
        let x = upload(&[0.0, bad, 1.0, 0.0, 0.0, 0.0]);
        let (mut losses, mut gradients) = (poisoned(2), poisoned(6));
        let targets = upload(&[0, 1]);
        cross_entropy_into(gpu(), &x, 3, &targets, 1.0, &mut losses, &mut gradients).unwrap();
        let (losses, gradients) = (losses.to_vec().unwrap(), gradients.to_vec().unwrap());
        assert!(losses[0].is_nan() && gradients[..3].iter().any(|g| g.is_nan()), "{gradients:?}");
        assert!(losses[1].is_finite() && gradients[3..].iter().all(|g| g.is_finite()));
    }
}

#[test]
fn lengths_of_losses_are_checked_and_gradients_may_be_left_out() -> GpuResult<()> {
    let x = upload(&[0.0f32; 6]);
    let mut none = DeviceBuffer::<f32>::zeroed(gpu(), 0)?;
    let mut losses = poisoned(2);
    cross_entropy_into(gpu(), &x, 3, &upload(&[0, 2]), 1.0, &mut losses, &mut none)?;
    assert!(losses.to_vec()?.iter().all(|loss| (loss - 3f32.ln()).abs() < 1e-6));
    let run = |columns, targets: &[u32], len| {
        let (mut losses, mut gradients) = (poisoned(2), poisoned::<f32>(len));
        cross_entropy_into(gpu(), &x, columns, &upload(targets), 1.0, &mut losses, &mut gradients)
    };
    assert!(matches!(run(4, &[0, 0], 6), Err(GpuError::InvalidArgument { .. })));
    assert!(matches!(run(3, &[0], 6), Err(GpuError::SizeMismatch { .. })));
    assert!(matches!(run(3, &[0, 0], 5), Err(GpuError::SizeMismatch { .. })));
    Ok(())
}

/// Steps of Adam of some weights, one after the other.
fn steps_of_adam<T: Element + Value + std::fmt::Debug>()
where
    kernels_gpu::training::adam<T>: cuda_std::launch::Instance,
{
    const N: usize = 1003;
    let mut rng = rng();
    let first: Vec<f32> = (0..N).map(|_| rng.random_range(-2.0..2.0)).collect();
    let adam = Adam { decay: 0.1, ..Adam::new(0.02) };
    let mut weights = upload(&first);
    let mut means = upload(&vec![Vec2::new(0.0f32, 0.0); N]);
    let mut rounded = unwritten::<T>(N);
    let wide = |x: f32| f64::from(x);
    let betas = adam.betas.map(wide);
    let start = reference::training::Adam {
        rate: wide(adam.rate),
        betas,
        epsilon: wide(adam.epsilon),
        decay: wide(adam.decay),
        means: [0.0; 2],
    };
    let mut expected: Vec<_> = first.iter().map(|weight| (wide(*weight), start)).collect();
    for number in 1..=5 {
        let gradient: Vec<f32> =
            (0..N).map(|i| rng.random_range(-1.0..1.0) * (i % 7) as f32).collect();
        let of_gradient = upload(&gradient);
        let step = adam.step(number);
        adam_into(gpu(), step, &of_gradient, &mut weights, &mut means, &mut rounded).unwrap();
        for ((weight, adam), gradient) in expected.iter_mut().zip(&gradient) {
            *weight = adam.step(number as i32, *weight, wide(*gradient));
        }
        let (found, rounded) = (weights.to_vec().unwrap(), rounded.to_vec().unwrap());
        for (i, (&found, (expected, _))) in found.iter().zip(&expected).enumerate() {
            // Of the way about twenty roundings, which is up to three times the rate, and three of a weight of up to 2.5.
            let of_way = wide(adam.rate) * 60.0 * ULP;
            let allowed = f64::from(number) * (of_way + 3.0 * 2.5 * ULP);
            assert_near(found, *expected, allowed, || format!("weight {i} after {number} steps"));
            assert_eq!(rounded[i], <T as Value>::narrow(found), "weight {i} rounded");
        }
    }
}

#[test]
fn f16_steps_of_adam() {
    steps_of_adam::<f16>();
}

#[test]
fn bf16_steps_of_adam() {
    steps_of_adam::<bf16>();
}

#[test]
fn adam_goes_without_rounded_weights_and_checks_lengths() -> GpuResult<()> {
    let (mut weights, mut means) = (upload(&[1.0f32; 3]), upload(&[Vec2::new(0.0f32, 0.0); 3]));
    let mut none = DeviceBuffer::<bf16>::zeroed(gpu(), 0)?;
    let step = Adam::new(0.5).step(1);
    adam_into(gpu(), step, &upload(&[1.0, -1.0, 0.0]), &mut weights, &mut means, &mut none)?;
    let found = weights.to_vec()?;
    assert!((found[0] - 0.5).abs() < 1e-5 && (found[1] - 1.5).abs() < 1e-5 && found[2] == 1.0);
    let short = adam_into(gpu(), step, &upload(&[1.0; 2]), &mut weights, &mut means, &mut none);
    assert!(matches!(short, Err(GpuError::SizeMismatch { .. })));
    let mut two = poisoned::<bf16>(2);
    let short = adam_into(gpu(), step, &upload(&[1.0; 3]), &mut weights, &mut means, &mut two);
    assert!(matches!(short, Err(GpuError::SizeMismatch { .. })));
    Ok(())
}

/// Rows come out as they are in the table; the gradient is a sum in the order of the places, with the same bits as a loop.
fn rows_and_their_gradient<T: Element + Value + std::fmt::Debug>()
where
    kernels_gpu::training::embedding<T>: cuda_std::launch::Instance,
    kernels_gpu::training::embedding_gradient<T>: cuda_std::launch::Instance,
{
    let mut rng = rng();
    for (entries, columns, n) in [(1, 1, 1), (3, 5, 40), (100, 64, 33), (7, 300, 257), (4, 8, 0)] {
        let table = random::<T>(&mut rng, entries * columns, 1.0);
        // The last entry has no place.
        let range = 0..entries.max(2) as u32 - 1;
        let tokens: Vec<u32> = (0..n).map(|_| rng.random_range(range.clone())).collect();
        let (of_table, of_tokens) = (upload(&table), upload(&tokens));
        let mut out = unwritten::<T>(n * columns);
        embedding_into(gpu(), &of_tokens, &of_table, columns, &mut out).unwrap();
        let expected = tokens.iter().flat_map(|token| {
            let first = *token as usize * columns;
            table[first..first + columns].to_vec()
        });
        assert_eq!(out.to_vec().unwrap(), expected.collect::<Vec<_>>());

        let gradient = random::<T>(&mut rng, n * columns, 1.0);
        let (mut places, mut sums) = (poisoned(n), poisoned(entries * columns));
        let mut scratch = Scratch::new(gpu()).unwrap();
        let options = SortOptions::ASCENDING;
        argsort_into(gpu(), &of_tokens, &mut places, options, &mut scratch).unwrap();
        let of_gradient = upload(&gradient);
        embedding_gradient_into(gpu(), (&of_tokens, &places), &of_gradient, columns, &mut sums)
            .unwrap();
        let mut expected = vec![0.0f32; entries * columns];
        for (token, row) in tokens.iter().zip(gradient.chunks(columns)) {
            let sums = &mut expected[*token as usize * columns..][..columns];
            sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value.widen());
        }
        assert_eq!(sums.to_vec().unwrap(), expected, "{entries} rows of {columns}, {n} places");
    }
}

every_type!(rows_and_their_gradient: f32_rows_and_their_gradient f16_rows_and_their_gradient bf16_rows_and_their_gradient);

#[test]
fn lengths_of_embeddings_are_checked() {
    let (table, tokens) = (upload(&[0.0f32; 6]), upload(&[0u32, 1]));
    let mut out = poisoned::<f32>(5);
    let wrong = embedding_into(gpu(), &tokens, &table, 3, &mut out);
    assert!(matches!(wrong, Err(GpuError::SizeMismatch { .. })));
    let wrong = embedding_into(gpu(), &tokens, &table, 4, &mut out);
    assert!(matches!(wrong, Err(GpuError::InvalidArgument { .. })));
    let gradient = |places: &[u32], x: &[f32], len| {
        let (places, x, mut out) = (upload(places), upload(x), poisoned(len));
        embedding_gradient_into(gpu(), (&tokens, &places), &x, 3, &mut out)
    };
    gradient(&[0, 1], &[0.0; 6], 6).unwrap();
    assert!(matches!(gradient(&[0], &[0.0; 6], 6), Err(GpuError::SizeMismatch { .. })));
    assert!(matches!(gradient(&[0, 1], &[0.0; 3], 6), Err(GpuError::SizeMismatch { .. })));
    assert!(matches!(gradient(&[0, 1], &[0.0; 6], 5), Err(GpuError::InvalidArgument { .. })));
}
