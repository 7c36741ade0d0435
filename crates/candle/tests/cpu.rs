//! Against candle's own operations on the CPU.

use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::ops as theirs;
use ferrowarp_candle as ours;

const CPU: Device = Device::Cpu;

/// Normal numbers of a shape, the same in each run: the generator of candle's CPU cannot be seeded.
fn values(shape: &[usize], seed: u64) -> Result<Tensor> {
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
    let [a, b] = [a, b].map(|own| own.to_dtype(DType::F64).and_then(|own| own.flatten_all()));
    let (a, b) = (a?.to_vec1::<f64>()?, b?.to_vec1::<f64>()?);
    assert!(a.iter().chain(&b).all(|own| own.is_finite()));
    let largest = a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    Ok((largest, b.iter().map(|own| own.abs()).fold(0.0, f64::max)))
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
#[test]
fn softmax_is_candles() -> Result<()> {
    for shape in [&[2usize, 3, 300][..], &[7, 1], &[257]] {
        let x = values(shape, 1)?;
        let expected = theirs::softmax_last_dim(&x)?;
        assert_near(&ours::softmax_last_dim(&x)?, &expected, DType::F32, 114.0 + 300.0)?;
        for dtype in [DType::F16, DType::BF16] {
            let x = x.to_dtype(dtype)?;
            let expected = theirs::softmax_last_dim(&x.to_dtype(DType::F32)?)?;
            let found = ours::softmax_last_dim(&x)?;
            assert_eq!(found.dtype(), dtype);
            assert_near(&found, &expected, dtype, 1.1)?;
        }
    }
    Ok(())
}

/// The library is off by 2^-18 of a result and of the largest element over the deviation (at most 4 here), which is 320 roundings of f32.
#[test]
fn norms_are_candles() -> Result<()> {
    for columns in [1usize, 33, 260] {
        let (x, alpha, beta) =
            (values(&[2, 5, columns], 2)?, values(&[columns], 3)?, values(&[columns], 4)?);
        let layer = theirs::layer_norm(&x, &alpha, &beta, 1e-2)?;
        assert_near(&ours::layer_norm(&x, &alpha, &beta, 1e-2)?, &layer, DType::F32, 320.0)?;
        let rms = theirs::rms_norm(&x, &alpha, 1e-2)?;
        assert_near(&ours::rms_norm(&x, &alpha, 1e-2)?, &rms, DType::F32, 320.0)?;
        for dtype in [DType::F16, DType::BF16] {
            let [x, alpha, beta] = [&x, &alpha, &beta].map(|own| own.to_dtype(dtype));
            let (x, alpha, beta) = (x?, alpha?, beta?);
            let [wide_x, wide_alpha, wide_beta] =
                [&x, &alpha, &beta].map(|own| own.to_dtype(DType::F32));
            let (wide_x, wide_alpha, wide_beta) = (wide_x?, wide_alpha?, wide_beta?);
            let layer = theirs::layer_norm(&wide_x, &wide_alpha, &wide_beta, 1e-2)?;
            assert_near(&ours::layer_norm(&x, &alpha, &beta, 1e-2)?, &layer, dtype, 1.1)?;
            let rms = theirs::rms_norm(&wide_x, &wide_alpha, 1e-2)?;
            assert_near(&ours::rms_norm(&x, &alpha, 1e-2)?, &rms, dtype, 1.1)?;
        }
    }
    Ok(())
}

/// The gradients of a product with some tensor, by the operations that candle has gradients of.
#[test]
fn gradients_are_those_of_candles_slow_forms() -> Result<()> {
    let x = Var::from_tensor(&values(&[4, 100], 5)?)?;
    let alpha = Var::from_tensor(&values(&[100], 6)?)?;
    let beta = Var::from_tensor(&values(&[100], 7)?)?;
    let weights = values(&[4, 100], 8)?;
    let loss = |y: Tensor| (y * &weights)?.sum_all();
    type Forward<'a> = Box<dyn Fn() -> Result<Tensor> + 'a>;
    let (a, b) = (&alpha, &beta);
    let pairs: [(Forward, Forward); 3] = [
        (Box::new(|| ours::softmax_last_dim(&x)), Box::new(|| theirs::softmax(&x, D::Minus1))),
        (
            Box::new(|| ours::layer_norm(&x, a, b, 1e-2)),
            Box::new(|| theirs::layer_norm_slow(&x, a, b, 1e-2)),
        ),
        (Box::new(|| ours::rms_norm(&x, a, 1e-2)), Box::new(|| theirs::rms_norm_slow(&x, a, 1e-2))),
    ];
    for (number, (own, other)) in pairs.iter().enumerate() {
        let (own, other) = (loss(own()?)?.backward()?, loss(other()?)?.backward()?);
        for (name, by) in [("x", &x), ("alpha", &alpha), ("beta", &beta)] {
            match (own.get(by), other.get(by)) {
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

#[test]
fn sorts_are_candles() -> Result<()> {
    for shape in [&[3usize, 2, 201][..], &[1, 500], &[1], &[4, 1]] {
        let n: usize = shape.iter().product();
        // Different numbers, for which there is one order.
        let mixed: Vec<f32> = (0..n).map(|i| ((i * 7919) % 10_007) as f32 - 5000.0).collect();
        let x = Tensor::from_vec(mixed, shape, &CPU)?;
        for dtype in [DType::F32, DType::F64, DType::I64, DType::U32] {
            let x = (&x + if dtype == DType::U32 { 5000.0 } else { 0.0 })?.to_dtype(dtype)?;
            for asc in [true, false] {
                let (values, indices) = x.sort_last_dim(asc)?;
                let (own_values, own_indices) = ours::sort_last_dim(&x, asc)?;
                assert_eq!(difference(&own_values, &values)?.0, 0.0);
                assert_eq!(difference(&own_indices, &indices)?.0, 0.0);
                let argsort = ours::arg_sort_last_dim(&x, asc)?;
                assert_eq!((argsort.dtype(), difference(&argsort, &indices)?.0), (DType::U32, 0.0));
                let columns = x.dim(D::Minus1)?;
                for k in [columns / 3, columns] {
                    let (first, at) = ours::top_k_last_dim(&x, k, !asc)?;
                    assert_eq!(first.dims().last(), Some(&k));
                    if k > 0 {
                        assert_eq!(difference(&first, &values.narrow(D::Minus1, 0, k)?)?.0, 0.0);
                        assert_eq!(difference(&at, &indices.narrow(D::Minus1, 0, k)?)?.0, 0.0);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Of halves candle's own order is that of the numbers.
#[test]
fn halves_and_bytes_are_sorted() -> Result<()> {
    let x = values(&[2, 100], 9)?;
    for dtype in [DType::F16, DType::BF16] {
        let x = x.to_dtype(dtype)?;
        let (values, _) = ours::sort_last_dim(&x, true)?;
        let (expected, _) = x.to_dtype(DType::F32)?.sort_last_dim(true)?;
        assert_eq!(difference(&values, &expected)?.0, 0.0);
    }
    let bytes = Tensor::from_vec((0..=255u8).rev().collect::<Vec<_>>(), 256, &CPU)?;
    let (values, indices) = ours::sort_last_dim(&bytes, true)?;
    assert_eq!(values.to_vec1::<u8>()?, (0..=255).collect::<Vec<_>>());
    assert_eq!(indices.to_vec1::<u32>()?, (0..256).rev().collect::<Vec<_>>());
    Ok(())
}

#[test]
fn a_part_of_a_tensor_is_taken_where_it_is() -> Result<()> {
    let x = values(&[6, 50], 10)?;
    let part = x.narrow(0, 3, 2)?;
    let expected = theirs::softmax_last_dim(&part.copy()?)?;
    assert_near(&ours::softmax_last_dim(&part)?, &expected, DType::F32, 114.0 + 50.0)
}

#[test]
fn what_is_refused_has_a_reason() -> Result<()> {
    let x = values(&[4, 6], 11)?;
    let said = |result: Result<Tensor>| result.unwrap_err().to_string();
    assert!(said(ours::softmax_last_dim(&x.t()?)).contains("contiguous"));
    assert!(said(ours::softmax_last_dim(&x.to_dtype(DType::F64)?)).contains("F64"));
    assert!(
        said(ours::rms_norm(&x, &values(&[5], 1)?, 1e-5))
            .contains("6 elements are needed, 5 were given")
    );
    let half = values(&[6], 1)?.to_dtype(DType::F16)?;
    assert!(said(ours::rms_norm(&x, &half, 1e-5)).contains("dtype"));
    let too_many = ours::top_k_last_dim(&x, 7, true).unwrap_err().to_string();
    assert!(too_many.contains("7 elements of rows of 6"), "{too_many}");
    Ok(())
}

#[test]
fn nothing_is_fine() -> Result<()> {
    for dtype in FLOATS {
        let x = Tensor::zeros((0, 5), dtype, &CPU)?;
        assert_eq!(ours::softmax_last_dim(&x)?.dims(), [0, 5]);
        assert_eq!(ours::arg_sort_last_dim(&x, true)?.dims(), [0, 5]);
    }
    Ok(())
}
