//! The operations on tensors of a device against candle's own on the CPU. `tests/cpu.rs` and `tests/cuda.rs` run these checks.

use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::ops as theirs;
use ferrowarp_candle as ours;

const CPU: Device = Device::Cpu;

/// Numbers between -3 and 3 on the CPU, the same in each run: the generator of candle's CPU cannot be seeded.
pub fn values(shape: &[usize], seed: u64) -> Result<Tensor> {
    let n: usize = shape.iter().product();
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    Tensor::from_vec((0..n).map(|_| 3.0 * next()).collect::<Vec<_>>(), shape, &CPU)
}

/// The largest difference of two tensors, and the largest number in the second one.
fn difference(a: &Tensor, b: &Tensor) -> Result<(f64, f64)> {
    assert_eq!(a.shape(), b.shape());
    let numbers =
        |own: &Tensor| own.to_device(&CPU)?.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>();
    let (a, b) = (numbers(a)?, numbers(b)?);
    assert!(a.iter().chain(&b).all(|own| own.is_finite()));
    let largest = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    Ok((largest, b.iter().map(|own| own.abs()).fold(0.0, f64::max)))
}

/// Asserts that two tensors have the same shape and the same numbers.
fn assert_same(found: &Tensor, expected: &Tensor) -> Result<()> {
    assert_eq!(difference(found, expected)?.0, 0.0);
    Ok(())
}

/// Asserts that `found` is `expected` to `units` roundings of the type of the largest number.
fn assert_near(found: &Tensor, expected: &Tensor, dtype: DType, units: f64) -> Result<()> {
    let rounding = match dtype {
        DType::F32 => 2f64.powi(-24),
        DType::F16 => 2f64.powi(-11),
        _ => 2f64.powi(-8),
    };
    let (difference, largest) = difference(found, expected)?;
    assert!(difference <= units * rounding * largest, "{dtype:?}: {difference:e} of {largest}");
    Ok(())
}

const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// In f32 the library's bound is `(96 + 3 d) 2^-24` of a result, with d at most 6 here, and candle's sums of 300 are of as many roundings. In
/// halves both round once; candle computes them in halves, in sums of that type.
pub fn softmax_is_candles(device: &Device) -> Result<()> {
    for shape in [&[2usize, 3, 300][..], &[7, 1], &[257]] {
        for (dtype, units) in FLOATS.into_iter().zip([114.0 + 300.0, 1.1, 1.1]) {
            let x = values(shape, 1)?.to_dtype(dtype)?;
            let expected = theirs::softmax_last_dim(&x.to_dtype(DType::F32)?)?;
            let found = ours::softmax_last_dim(&x.to_device(device)?)?;
            assert_eq!(found.dtype(), dtype);
            assert!(found.device().same_device(device));
            assert_near(&found, &expected, dtype, units)?;
        }
    }
    Ok(())
}

/// The library is off by 2^-18 of a result and of the largest element over the deviation (at most 4 here), which is 320 roundings of f32.
pub fn norms_are_candles(device: &Device) -> Result<()> {
    for columns in [1usize, 33, 260] {
        let all = [values(&[2, 5, columns], 2)?, values(&[columns], 3)?, values(&[columns], 4)?];
        for (dtype, units) in FLOATS.into_iter().zip([320.0, 1.1, 1.1]) {
            let each = |change: &dyn Fn(&Tensor) -> Result<Tensor>| {
                all.iter().map(change).collect::<Result<Vec<_>>>()
            };
            let wide = each(&|own| own.to_dtype(dtype)?.to_dtype(DType::F32))?;
            let there = each(&|own| own.to_dtype(dtype)?.to_device(device))?;
            let layer = theirs::layer_norm(&wide[0], &wide[1], &wide[2], 1e-2)?;
            let found = ours::layer_norm(&there[0], &there[1], &there[2], 1e-2)?;
            assert_near(&found, &layer, dtype, units)?;
            let rms = theirs::rms_norm(&wide[0], &wide[1], 1e-2)?;
            assert_near(&ours::rms_norm(&there[0], &there[1], 1e-2)?, &rms, dtype, units)?;
        }
    }
    Ok(())
}

/// An operation of x, alpha and beta, of which it may ignore some.
type Forward = fn(&Tensor, &Tensor, &Tensor) -> Result<Tensor>;

/// Operations of the library, and candle's of the same result that have gradients.
const PAIRS: [(Forward, Forward); 3] = [
    (|x, _, _| ours::softmax_last_dim(x), |x, _, _| theirs::softmax(x, D::Minus1)),
    (
        |x, alpha, beta| ours::layer_norm(x, alpha, beta, 1e-2),
        |x, alpha, beta| theirs::layer_norm_slow(x, alpha, beta, 1e-2),
    ),
    (
        |x, alpha, _| ours::rms_norm(x, alpha, 1e-2),
        |x, alpha, _| theirs::rms_norm_slow(x, alpha, 1e-2),
    ),
];

/// The gradients by x, alpha and beta of the product of a result with some tensor.
fn gradients(forward: Forward, device: &Device) -> Result<[Option<Tensor>; 3]> {
    let leaf = |shape: &[usize], seed| Var::from_tensor(&values(shape, seed)?.to_device(device)?);
    let (x, alpha, beta) = (leaf(&[4, 100], 5)?, leaf(&[100], 6)?, leaf(&[100], 7)?);
    let weights = values(&[4, 100], 8)?.to_device(device)?;
    let all = (forward(&x, &alpha, &beta)? * weights)?.sum_all()?.backward()?;
    Ok([&x, &alpha, &beta].map(|by| all.get(by).cloned()))
}

pub fn gradients_are_those_of_candles_slow_forms(device: &Device) -> Result<()> {
    for (number, (own, other)) in PAIRS.into_iter().enumerate() {
        let (own, other) = (gradients(own, device)?, gradients(other, &CPU)?);
        for ((name, own), other) in ["x", "alpha", "beta"].iter().zip(&own).zip(&other) {
            match (own, other) {
                // Sums of 100 products each, of which the library's factors are off by 320 roundings.
                (Some(own), Some(other)) => assert_near(own, other, DType::F32, 1000.0)?,
                (own, other) => {
                    assert_eq!(own.is_some(), other.is_some(), "gradient {number} by {name}")
                }
            }
        }
    }
    Ok(())
}

pub fn sorts_are_candles(device: &Device) -> Result<()> {
    for shape in [&[3usize, 2, 201][..], &[1, 500], &[1], &[4, 1]] {
        let n: usize = shape.iter().product();
        // Different numbers, for which there is one order.
        let mixed: Vec<f32> = (0..n).map(|i| ((i * 7919) % 10_007) as f32 - 5000.0).collect();
        let x = Tensor::from_vec(mixed, shape, &CPU)?;
        for dtype in [DType::F32, DType::F64, DType::I64, DType::U32] {
            let x = (&x + if dtype == DType::U32 { 5000.0 } else { 0.0 })?.to_dtype(dtype)?;
            for asc in [true, false] {
                orders_are_candles(&x, asc, device)?;
            }
        }
    }
    Ok(())
}

/// Sort, argsort and top-k of `x`, which is on the CPU, on the device.
fn orders_are_candles(x: &Tensor, asc: bool, device: &Device) -> Result<()> {
    let (values, indices) = x.sort_last_dim(asc)?;
    let x = x.to_device(device)?;
    let (own_values, own_indices) = ours::sort_last_dim(&x, asc)?;
    assert_same(&own_values, &values)?;
    assert_same(&own_indices, &indices)?;
    let argsort = ours::arg_sort_last_dim(&x, asc)?;
    assert_eq!(argsort.dtype(), DType::U32);
    assert_same(&argsort, &indices)?;
    let columns = x.dim(D::Minus1)?;
    for k in [0, columns / 3, columns] {
        let (first, at) = ours::top_k_last_dim(&x, k, !asc)?;
        assert_eq!(first.dims().last(), Some(&k));
        assert_eq!((first.dtype(), first.shape()), (x.dtype(), at.shape()));
        if k > 0 {
            assert_same(&first, &values.narrow(D::Minus1, 0, k)?)?;
            assert_same(&at, &indices.narrow(D::Minus1, 0, k)?)?;
        }
    }
    Ok(())
}

/// Of halves candle's own order is that of the numbers.
pub fn halves_and_bytes_are_sorted(device: &Device) -> Result<()> {
    let x = values(&[2, 100], 9)?;
    for dtype in [DType::F16, DType::BF16] {
        let x = x.to_dtype(dtype)?;
        let (values, _) = ours::sort_last_dim(&x.to_device(device)?, true)?;
        let (expected, _) = x.to_dtype(DType::F32)?.sort_last_dim(true)?;
        assert_same(&values, &expected)?;
    }
    let bytes = Tensor::from_vec((0..=255u8).rev().collect::<Vec<_>>(), 256, device)?;
    let (values, indices) = ours::sort_last_dim(&bytes, true)?;
    assert_eq!(values.to_vec1::<u8>()?, (0..=255).collect::<Vec<_>>());
    assert_eq!(indices.to_vec1::<u32>()?, (0..256).rev().collect::<Vec<_>>());
    Ok(())
}

pub fn a_part_of_a_tensor_is_taken_where_it_is(device: &Device) -> Result<()> {
    let x = values(&[6, 50], 10)?;
    let expected = theirs::softmax_last_dim(&x.narrow(0, 3, 2)?.copy()?)?;
    let found = ours::softmax_last_dim(&x.to_device(device)?.narrow(0, 3, 2)?)?;
    assert_near(&found, &expected, DType::F32, 114.0 + 50.0)
}

pub fn what_is_refused_has_a_reason(device: &Device) -> Result<()> {
    let x = values(&[4, 6], 11)?.to_device(device)?;
    let of = |n: usize, dtype| values(&[n], 1)?.to_dtype(dtype)?.to_device(device);
    let said = |result: Result<Tensor>| result.unwrap_err().to_string();
    assert!(said(ours::softmax_last_dim(&x.t()?)).contains("contiguous"));
    assert!(said(ours::softmax_last_dim(&x.to_dtype(DType::F64)?)).contains("F64"));
    let too_few = said(ours::rms_norm(&x, &of(5, DType::F32)?, 1e-5));
    assert!(too_few.contains("6 elements are needed, 5 were given"), "{too_few}");
    assert!(said(ours::rms_norm(&x, &of(6, DType::F16)?, 1e-5)).contains("dtype"));
    let too_many = ours::top_k_last_dim(&x, 7, true).unwrap_err().to_string();
    assert!(too_many.contains("7 elements of rows of 6"), "{too_many}");
    Ok(())
}

pub fn nothing_is_fine(device: &Device) -> Result<()> {
    for dtype in FLOATS {
        let part = values(&[3, 5], 12)?.to_dtype(dtype)?.to_device(device)?.narrow(0, 1, 0)?;
        for x in [Tensor::zeros((0, 5), dtype, device)?, part] {
            assert_eq!(ours::softmax_last_dim(&x)?.dims(), [0, 5]);
            assert_eq!(ours::arg_sort_last_dim(&x, true)?.dims(), [0, 5]);
            let (values, indices) = ours::top_k_last_dim(&x, 2, true)?;
            assert_eq!((values.dims(), indices.dims()), (&[0, 2][..], &[0, 2][..]));
        }
    }
    Ok(())
}
