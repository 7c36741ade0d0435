//! Against burn's own operations, on its backend `NdArray`.

use burn_autodiff::Autodiff;
use burn_ndarray::NdArray;
use burn_tensor::{DType, FloatDType, Tensor, TensorData, activation};
use ferrowarp_burn as ours;
use ferrowarp_burn::Error;

type Plain = NdArray<f32>;
type Graph = Autodiff<NdArray<f32>>;

const EPSILON: f32 = 1e-5;

/// Numbers between -3 and 3, the same in each run.
fn values<const D: usize>(shape: [usize; D], seed: u64) -> TensorData {
    let n: usize = shape.iter().product();
    let mut state = seed;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        3.0 * ((state >> 40) as f32 / (1 << 23) as f32 - 1.0)
    };
    TensorData::new((0..n).map(|_| next()).collect::<Vec<f32>>(), shape)
}

fn plain<const D: usize>(shape: [usize; D], seed: u64) -> Tensor<Plain, D> {
    Tensor::from_data(values(shape, seed), &Default::default())
}

fn leaf<const D: usize>(shape: [usize; D], seed: u64) -> Tensor<Graph, D> {
    Tensor::from_data(values(shape, seed), &Default::default()).require_grad()
}

/// The same numbers without a graph. `detach` would make a new leaf of a leaf.
fn untracked<const D: usize>(x: Tensor<Graph, D>) -> Tensor<Graph, D> {
    Tensor::from_inner(x.inner())
}

/// Asserts that `found` is `expected` to `tolerance` of the largest number. Both are sums of up to 300 terms in `f32`, each with at most
/// about that many roundings of 2^-24, of which the square root is what occurs.
#[track_caller]
fn assert_near<const D: usize>(
    found: Tensor<Plain, D>,
    expected: Tensor<Plain, D>,
    tolerance: f32,
) {
    assert_eq!(found.dims(), expected.dims());
    let [found, expected] = [found, expected].map(|own| own.into_data().to_vec::<f32>().unwrap());
    let largest = expected.iter().fold(0f32, |largest, own| largest.max(own.abs()));
    for (found, expected) in found.iter().zip(&expected) {
        let difference = (found - expected).abs();
        assert!(difference <= tolerance * largest, "{found} instead of {expected}");
    }
}

fn theirs_layer<B: burn_tensor::backend::Backend>(
    x: Tensor<B, 2>,
    gamma: Tensor<B, 1>,
    beta: Tensor<B, 1>,
) -> Tensor<B, 2> {
    let centred = x.clone() - x.mean_dim(1);
    let variance = (centred.clone() * centred.clone()).mean_dim(1);
    centred / (variance + EPSILON).sqrt() * gamma.unsqueeze() + beta.unsqueeze()
}

fn theirs_rms<B: burn_tensor::backend::Backend>(
    x: Tensor<B, 2>,
    gamma: Tensor<B, 1>,
) -> Tensor<B, 2> {
    let squares = (x.clone() * x.clone()).mean_dim(1);
    x / (squares + EPSILON).sqrt() * gamma.unsqueeze()
}

#[test]
fn softmax_is_burns() -> Result<(), Error> {
    for shape in [[6, 300], [7, 1], [1, 257]] {
        let x = plain(shape, 1);
        assert_near(ours::softmax(x.clone(), false)?, activation::softmax(x.clone(), 1), 1e-5);
        assert_near(ours::softmax(x.clone(), true)?, activation::log_softmax(x, 1), 1e-5);
    }
    assert_eq!(ours::softmax(plain([0, 5], 1), false)?.dims(), [0, 5]);
    Ok(())
}

#[test]
fn norms_are_burns() -> Result<(), Error> {
    for shape in [[6, 300], [1, 257]] {
        let (x, gamma, beta) = (plain(shape, 1), plain([shape[1]], 2), plain([shape[1]], 3));
        let found = ours::layer_norm(x.clone(), gamma.clone(), beta.clone(), EPSILON)?;
        assert_near(found, theirs_layer(x.clone(), gamma.clone(), beta), 1e-5);
        let found = ours::rms_norm(x.clone(), gamma.clone(), EPSILON)?;
        assert_near(found, theirs_rms(x, gamma), 1e-5);
    }
    Ok(())
}

/// The gradients of a weighted sum of what `function` makes of x, gamma and beta, by those of them that it depends on.
fn gradients(
    function: impl FnOnce(Tensor<Graph, 2>, Tensor<Graph, 1>, Tensor<Graph, 1>) -> Tensor<Graph, 2>,
) -> Vec<Tensor<Plain, 1>> {
    let (x, gamma, beta) = (leaf([6, 300], 1), leaf([300], 2), leaf([300], 3));
    let weights = Tensor::<Graph, 2>::from_data(values([6, 300], 9), &Default::default());
    let y = function(x.clone(), gamma.clone(), beta.clone());
    let all = (y * weights).sum().backward();
    let of_x = x.grad(&all).map(|own| own.reshape([1800]));
    [of_x, gamma.grad(&all), beta.grad(&all)].into_iter().flatten().collect()
}

#[test]
fn gradients_are_burns() {
    let cases = [
        (
            1,
            gradients(|x, _, _| ours::softmax(x, false).unwrap()),
            gradients(|x, _, _| activation::softmax(x, 1)),
        ),
        (
            1,
            gradients(|x, _, _| ours::softmax(x, true).unwrap()),
            gradients(|x, _, _| activation::log_softmax(x, 1)),
        ),
        (
            3,
            gradients(|x, gamma, beta| ours::layer_norm(x, gamma, beta, EPSILON).unwrap()),
            gradients(theirs_layer),
        ),
        (
            2,
            gradients(|x, gamma, _| ours::rms_norm(x, gamma, EPSILON).unwrap()),
            gradients(|x, gamma, _| theirs_rms(x, gamma)),
        ),
        // A tensor that is not tracked has no gradient.
        (
            1,
            gradients(|x, gamma, _| ours::rms_norm(untracked(x), gamma, EPSILON).unwrap()),
            gradients(|x, gamma, _| theirs_rms(untracked(x), gamma)),
        ),
    ];
    for (leaves, found, expected) in cases {
        assert_eq!((found.len(), expected.len()), (leaves, leaves));
        for (found, expected) in found.into_iter().zip(expected) {
            assert_near(found, expected, 3e-5);
        }
    }
}

/// Rows of more axes than two, and elements that are not in their row-major order.
#[test]
fn other_shapes_are_burns() -> Result<(), Error> {
    let x = plain([3, 40, 2], 8).swap_dims(0, 2).swap_dims(1, 2);
    assert_eq!(x.dims(), [2, 3, 40]);
    assert_near(ours::softmax(x.clone(), false)?, activation::softmax(x.clone(), 2), 1e-5);
    let (gamma, beta) = (plain([40], 2), plain([40], 3));
    let found = ours::layer_norm(x.clone(), gamma.clone(), beta.clone(), EPSILON)?;
    let flat = x.clone().reshape([6, 40]);
    assert_near(found.reshape([6, 40]), theirs_layer(flat, gamma, beta), 1e-5);
    let (found, indices) = ours::sort(x.clone(), true)?;
    assert_eq!(found.clone().into_data(), x.clone().sort_descending(2).into_data());
    assert_eq!(x.gather(2, indices).into_data(), found.into_data());
    Ok(())
}

#[test]
fn sorts_are_burns() -> Result<(), Error> {
    for shape in [[5, 701], [1, 1000], [3, 1], [0, 4]] {
        for descending in [false, true] {
            let x = plain(shape, 4);
            let (found, indices) = ours::sort(x.clone(), descending)?;
            assert_eq!(found.dims(), shape);
            if shape[0] == 0 {
                continue;
            }
            let expected =
                if descending { x.clone().sort_descending(1) } else { x.clone().sort(1) };
            assert_eq!(found.clone().into_data(), expected.into_data());
            assert_eq!(x.clone().gather(1, indices.clone()).into_data(), found.clone().into_data());
            assert_eq!(
                ours::argsort(x.clone(), descending)?.into_data(),
                indices.clone().into_data()
            );
            let k = shape[1].min(7);
            let (best, of_best) = ours::top_k(x, k, descending)?;
            assert_eq!(best.into_data(), found.slice([0..shape[0], 0..k]).into_data());
            assert_eq!(of_best.into_data(), indices.slice([0..shape[0], 0..k]).into_data());
        }
    }
    Ok(())
}

/// Asserts that the gradient on an `Autodiff` of an `Autodiff` is burn's.
fn check_nested(is_inner_tracked: bool) {
    let inner = leaf([2, 5], 1);
    let inner = if is_inner_tracked { inner } else { untracked(inner) };
    let x = Tensor::<Autodiff<Graph>, 2>::from_inner(inner).require_grad();
    let y = ours::softmax(x.clone(), false).unwrap();
    let found = x.grad(&(y * x.clone()).sum().backward()).unwrap();
    let y = activation::softmax(x.clone(), 1);
    let expected = x.grad(&(y * x.clone()).sum().backward()).unwrap();
    assert_near(found.inner(), expected.inner(), 1e-5);
}

#[test]
fn nested_graphs_have_first_gradients() {
    check_nested(false);
}

#[test]
#[should_panic(expected = "no gradients of gradients")]
fn second_gradients_are_refused() {
    check_nested(true);
}

#[test]
fn special_numbers_are_in_burns_order() -> Result<(), Error> {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let x = [0.0, nan, -0.0, inf, -nan, 1.0, -inf];
    let x = Tensor::<Plain, 1>::from_data(x, &Default::default());
    for descending in [false, true] {
        let expected = if descending { x.clone().sort_descending(0) } else { x.clone().sort(0) };
        let (found, _) = ours::sort(x.clone(), descending)?;
        // The bytes, of which those of a NaN and of each zero are their own.
        assert_eq!(found.into_data().bytes, expected.into_data().bytes);
    }
    Ok(())
}

#[test]
fn doubles_are_sorted() -> Result<(), Error> {
    // Numbers that are equal as `f32`.
    let offsets = Tensor::<Plain, 1>::from_data(
        TensorData::new(vec![3e-12, 1e-12, 2e-12], [3]),
        (&Default::default(), DType::F64),
    );
    let (found, indices) = ours::sort(offsets + 1.0, false)?;
    assert_eq!(found.into_data().to_vec::<f64>()?, [1.0 + 1e-12, 1.0 + 2e-12, 1.0 + 3e-12]);
    assert_eq!(indices.into_data().to_vec::<i64>()?, [1, 2, 0]);
    Ok(())
}

#[test]
fn equal_elements_keep_their_order() -> Result<(), Error> {
    let x = Tensor::<Plain, 1>::from_data([1.0, 0.0, 1.0, 0.0], &Default::default());
    for (descending, expected) in [(false, [1, 3, 0, 2]), (true, [0, 2, 1, 3])] {
        let indices = ours::argsort(x.clone(), descending)?.into_data();
        assert_eq!(indices.to_vec::<i64>().unwrap(), expected);
    }
    Ok(())
}

#[test]
fn a_sort_has_a_gradient() -> Result<(), Error> {
    let x = leaf([4, 33], 5);
    let (values, _) = ours::top_k(x.clone(), 3, true)?;
    let found = x.grad(&values.sum().backward()).unwrap();
    let count: f32 = found.clone().sum().into_scalar();
    assert_eq!(count, 12.0);
    let kept = found * x.clone().inner();
    let (best, _) = ours::top_k(x.inner(), 3, true)?;
    assert_near(kept.sum(), best.sum(), 1e-6);
    Ok(())
}

#[test]
fn what_does_not_fit_is_refused() {
    let x = plain([2, 3], 6);
    let error = ours::top_k(x.clone(), 4, true).unwrap_err().to_string();
    assert_eq!(error, "top_k: 4 elements of rows of 3");
    let error = ours::rms_norm(x, plain([2], 7), EPSILON).unwrap_err().to_string();
    assert!(error.contains("the shape [2], and a row 3 elements"), "{error}");
    let doubles = plain([2, 3], 8).cast(FloatDType::F64);
    let error = ours::softmax(doubles, false).unwrap_err().to_string();
    assert!(error.contains("no kernel for elements of F64"), "{error}");
}
