//! Elements of 16 bits, on burn's backend `Flex`, which has them.
#![cfg(feature = "flex")]

use burn_autodiff::Autodiff;
use burn_flex::Flex;
use burn_tensor::{DType, FloatDType, Tensor, TensorData, activation};
use ferrowarp_burn as ours;
use ferrowarp_burn::Error;

type Graph = Autodiff<Flex>;

/// The types, and the largest relative error of one rounding to each.
const HALVES: [(FloatDType, f32); 2] =
    [(FloatDType::F16, 1.0 / 2048.0), (FloatDType::BF16, 1.0 / 256.0)];

/// Numbers between -1 and 1 that both types have, of which up to 129 in succession are different.
fn values<const D: usize>(shape: [usize; D], dtype: FloatDType) -> Tensor<Graph, D> {
    let n: usize = shape.iter().product();
    // 7 bits of precision: `bf16` has 8.
    let numbers = (0..n).map(|i| ((i * 37) % 129) as f32 / 64.0 - 1.0);
    let data = TensorData::new(numbers.collect::<Vec<f32>>(), shape);
    Tensor::from_data(data, (&Default::default(), DType::from(dtype)))
}

/// Asserts that `found` is of `dtype` and is `expected`, which is in `f32`, to `tolerance` of the largest number.
#[track_caller]
fn assert_near<const D: usize>(
    found: Tensor<Flex, D>,
    expected: Tensor<Flex, D>,
    dtype: FloatDType,
    tolerance: f32,
) {
    assert_eq!((found.dtype(), found.dims()), (dtype.into(), expected.dims()));
    let [found, expected] =
        [found.cast(FloatDType::F32), expected].map(|own| own.into_data().to_vec::<f32>().unwrap());
    let largest = expected.iter().fold(0f32, |largest, own| largest.max(own.abs()));
    for (found, expected) in found.iter().zip(&expected) {
        let difference = (found - expected).abs();
        assert!(difference <= tolerance * largest, "{found} instead of {expected}");
    }
}

#[test]
fn softmax_rounds_once() -> Result<(), Error> {
    for (dtype, rounding) in HALVES {
        let x = values([3, 100], dtype);
        let expected = activation::softmax(x.clone().cast(FloatDType::F32), 1);
        let found = ours::softmax(x, false)?;
        assert_near(found.inner(), expected.inner(), dtype, 1.01 * rounding);
    }
    Ok(())
}

#[test]
fn norms_and_their_gradients_are_of_the_same_type() -> Result<(), Error> {
    for (dtype, rounding) in HALVES {
        let (x, gamma) = (values([3, 100], dtype).require_grad(), values([100], dtype));
        let gamma = gamma.require_grad();
        let y = ours::rms_norm(x.clone(), gamma.clone(), 1e-5)?;
        let (wide_x, wide_gamma) = (wide(&x), wide(&gamma));
        let squares = (wide_x.clone() * wide_x.clone()).mean_dim(1);
        let wide_y = wide_x.clone() / (squares + 1e-5).sqrt() * wide_gamma.clone().unsqueeze();
        assert_near(y.clone().inner(), wide_y.clone().inner(), dtype, 1.01 * rounding);

        let (all, wide_all) = (y.sum().backward(), wide_y.sum().backward());
        let [found, expected] = [x.grad(&all), wide_x.grad(&wide_all)].map(Option::unwrap);
        assert_near(found, expected, dtype, 1.01 * rounding);
        let [found, expected] = [gamma.grad(&all), wide_gamma.grad(&wide_all)].map(Option::unwrap);
        assert_near(found, expected, dtype, 1.01 * rounding);
    }
    Ok(())
}

/// The same numbers in `f32`, as a leaf of its own.
fn wide<const D: usize>(x: &Tensor<Graph, D>) -> Tensor<Graph, D> {
    Tensor::from_inner(x.clone().inner().cast(FloatDType::F32)).require_grad()
}

#[test]
fn halves_are_sorted() -> Result<(), Error> {
    for (dtype, _) in HALVES {
        let x = values([2, 60], dtype).inner();
        let (found, indices) = ours::sort(x.clone(), true)?;
        let expected = x.clone().cast(FloatDType::F32).sort_descending(1);
        assert_near(found.clone(), expected, dtype, 0.0);
        // The integers are of the type that the backend has for them.
        assert_eq!(indices.dtype(), DType::I32);
        assert_eq!(x.clone().gather(1, indices).into_data(), found.clone().into_data());
        let (best, _) = ours::top_k(x, 4, true)?;
        assert_eq!(best.into_data(), found.slice([0..2, 0..4]).into_data());
    }
    Ok(())
}

#[test]
fn weights_of_another_type_are_refused() {
    let (x, gamma) = (values([3, 100], FloatDType::F16), values([100], FloatDType::BF16));
    let error = ours::rms_norm(x, gamma, 1e-5).unwrap_err().to_string();
    assert!(error.contains("gamma or beta has elements of BF16, and x of F16"), "{error}");
}
