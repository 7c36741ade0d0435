//! The gradients of attention against f64.
//!
//! Tolerance: `reference::attention::Head::gradients`, derived there.

use cuda_std::{bf16, f16};
use ferrowarp::ops::Scratch;
use ferrowarp::ops::attention::{
    Alibi, Backward, Band, Gradients, Heads, HeadsLayout, HeadsMut, Kernel, Options, SoftCap,
    attention_backward_into, backward_scratch_bytes,
};
use ferrowarp::{GpuError, GpuResult};
use kernels_gpu::attention::Place;
use kernels_gpu::attention::backward::form::AttentionBackwardKernel;
use kernels_gpu::attention::form::AttentionKernel;
use rand::RngExt;
use rand::rngs::StdRng;
use reference::attention as expected;
use reference::attention::Rounding;

use crate::attention::{Case, Element, Host};
use crate::support::{gpu, poisoned, rng, upload};

/// A kernel, or the one that is chosen, and whether its sums have an order.
#[derive(Clone, Copy, Debug)]
struct Way {
    kernel: Option<Kernel>,
    deterministic: bool,
}

const CHOSEN: Way = Way { kernel: None, deterministic: false };

/// What this device has.
fn ways() -> Vec<Way> {
    let warps = Way { kernel: Some(Kernel::Warps), deterministic: false };
    let hopper = Way { kernel: Some(Kernel::Hopper), deterministic: false };
    match gpu().info().compute_capability {
        (9, 0) => vec![warps, hopper, Way { deterministic: true, ..hopper }],
        _ => vec![warps],
    }
}

/// The gradients of queries, keys and values by the device.
fn backward<T: Element, C: AttentionKernel<T> + AttentionBackwardKernel<T>>(
    case: &Case<T>,
    d_o: &Host<T>,
    score: C,
    way: Way,
) -> GpuResult<[Vec<T>; 3]> {
    let (o, lse) = case.run(score)?;
    let (o, lse) = (upload(&o), upload(&lse));
    let [q, k, v, of_o] = [&case.q, &case.k, &case.v, d_o].map(|host| upload(&host.values));
    let heads = |memory, host: &Host<T>| Heads::new(memory, host.layout);
    let forward = Backward {
        q: heads(&q, &case.q)?,
        k: heads(&k, &case.k)?,
        v: heads(&v, &case.v)?,
        o: Heads::new(&o, HeadsLayout::by_head(d_o.layout.sizes()))?,
        d_o: heads(&of_o, d_o)?,
    };
    let mut to = [&case.q, &case.k, &case.v].map(|host| poisoned::<T>(host.values.len()));
    let [d_q, d_k, d_v] = &mut to;
    let gradients = Gradients {
        q: HeadsMut::new(d_q, case.q.layout)?,
        k: HeadsMut::new(d_k, case.k.layout)?,
        v: HeadsMut::new(d_v, case.v.layout)?,
    };
    let mut options = Options::new().score(score);
    if let Some(kernel) = way.kernel {
        options = options.kernel(kernel);
    }
    if way.deterministic {
        options = options.deterministic();
    }
    let mut scratch = Scratch::new(gpu())?;
    scratch.reserve(gpu(), backward_scratch_bytes(&case.q.layout, &case.v.layout, &options))?;
    attention_backward_into(gpu(), forward, &lse, gradients, options, &mut scratch)?;
    Ok(to.map(|gradients| gradients.to_vec().unwrap()))
}

/// Computes gradients in every way, and compares every element with the reference.
fn check_backward<T: Element, C: AttentionKernel<T> + AttentionBackwardKernel<T>>(
    case: &Case<T>,
    score: C,
    exact: impl Fn(f64, Place) -> (f64, f64),
    rng: &mut StdRng,
) {
    check_ways(case, score, exact, rng, &ways());
}

/// [`check_backward`] in these ways.
fn check_ways<T: Element, C: AttentionKernel<T> + AttentionBackwardKernel<T>>(
    case: &Case<T>,
    score: C,
    exact: impl Fn(f64, Place) -> (f64, f64),
    rng: &mut StdRng,
    ways: &[Way],
) {
    let [batches, heads, queries, depth] = case.q.layout.sizes();
    let (kv_heads, keys) = (case.k.layout.heads, case.k.layout.rows);
    let of_o = HeadsLayout::by_row([batches, heads, queries, case.v.layout.depth]);
    let d_o = Host::<T>::new(of_o, || rng.random_range(-1.0..1.0));
    let found: Vec<_> =
        ways.iter().map(|way| (*way, backward(case, &d_o, score, *way).unwrap())).collect();
    let lengths = case.lengths(0);
    for (batch, kv_head) in
        (0..batches).flat_map(|batch| (0..kv_heads).map(move |head| (batch, head)))
    {
        let mut of_keys: [Option<expected::Rows>; 2] = [None, None];
        for head in kv_head * heads / kv_heads..(kv_head + 1) * heads / kv_heads {
            let rows = |host: &Host<T>, head, len: usize| -> Vec<Vec<f64>> {
                (0..len).map(|row| host.row(batch, head, row).to_vec()).collect()
            };
            let all = [
                rows(&case.q, head, queries),
                rows(&case.k, kv_head, keys),
                rows(&case.v, kv_head, keys),
                rows(&d_o, head, queries),
            ];
            let [q, k, v, of_o] =
                all.each_ref().map(|rows| rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let scale = 1.0 / f64::from((depth as f32).sqrt());
            let head_of = expected::Head { q: &q, k: &k, v: &v, d_o: &of_o, scale };
            let [d_q, d_k, d_v] = head_of.gradients(
                |query, key, value| {
                    let seen = score.band().of_query(query as u32, lengths);
                    let (query, key) = (query as u32, key as u32);
                    if !(seen.first..seen.end).contains(&key) && key >= score.band().prefix {
                        return (f64::NEG_INFINITY, 0.0);
                    }
                    let own = query as i32 + keys as i32 - queries as i32;
                    let (batch, head) = (batch as u32, head as u32);
                    exact(value, Place { batch, head, query, key, own })
                },
                T::ROUNDING,
            );
            for (way, found) in &found {
                let what = format!("queries, {way:?}");
                compare_gradients(&what, &case.q, &found[0], &d_q, [batch, head]);
            }
            for (sum, of_head) in of_keys.iter_mut().zip([d_k, d_v]) {
                match sum {
                    None => *sum = Some(of_head),
                    Some(sum) => sum.iter_mut().flatten().zip(of_head.iter().flatten()).for_each(
                        |(sum, one)| {
                            sum.value += one.value;
                            sum.bound += one.bound;
                        },
                    ),
                }
            }
        }
        let [d_k, d_v] = of_keys.map(Option::unwrap_or_default);
        for (way, found) in &found {
            let place = [batch, kv_head];
            compare_gradients(&format!("keys, {way:?}"), &case.k, &found[1], &d_k, place);
            compare_gradients(&format!("values, {way:?}"), &case.v, &found[2], &d_v, place);
        }
    }
}

fn compare_gradients<T: Element>(
    what: &str,
    host: &Host<T>,
    found: &[T],
    expected: &expected::Rows,
    [batch, head]: [usize; 2],
) {
    let HeadsLayout { batch_stride, head_stride, row_stride, .. } = host.layout;
    for (row, of_row) in expected.iter().enumerate() {
        for (i, gradient) in of_row.iter().enumerate() {
            let found =
                found[batch * batch_stride + head * head_stride + row * row_stride + i].exact();
            let error = (found - gradient.value).abs();
            assert!(
                error <= gradient.bound,
                "{what} {batch} {head} {row} {i}: {found} instead of {gradient:?}"
            );
        }
    }
}

const SAME_SLOPE: fn(f64, Place) -> (f64, f64) = |score, _| (score, 1.0);

#[test]
fn gradients_of_lengths_around_tiles() {
    let mut rng = rng();
    for (queries, keys) in [(1, 1), (17, 64), (64, 65), (65, 129), (128, 63), (260, 300)] {
        for depth in [64, 128] {
            let case = Case::<bf16>::new([1, 1, 1, queries, keys, depth], &mut rng);
            check_backward(&case, Band::ALL, SAME_SLOPE, &mut rng);
            check_backward(&case, Band::CAUSAL, SAME_SLOPE, &mut rng);
        }
    }
}

#[test]
fn gradients_of_long_rows_of_lengths_around_tiles() {
    let mut rng = rng();
    let lengths = [(1, 1), (31, 33), (33, 31), (32, 64), (63, 65), (64, 32), (65, 63), (97, 130)];
    for (queries, keys) in lengths {
        for depth in [192, 256] {
            let case = Case::<bf16>::new([1, 1, 1, queries, keys, depth], &mut rng);
            check_backward(&case, Band::ALL, SAME_SLOPE, &mut rng);
            check_backward(&case, Band::CAUSAL, SAME_SLOPE, &mut rng);
        }
    }
}

#[test]
fn gradients_of_bands() {
    let mut rng = rng();
    for band in [
        Band { before: 20, after: 0, prefix: 0 },
        Band { before: 30, after: 10, prefix: 3 },
        Band { before: u32::MAX, after: 0, prefix: 90 },
    ] {
        for (queries, keys) in [(270, 270), (40, 130), (140, 60)] {
            let case = Case::<bf16>::new([1, 1, 1, queries, keys, 64], &mut rng);
            check_backward(&case, band, SAME_SLOPE, &mut rng);
        }
        for depth in [192, 256] {
            let case = Case::<bf16>::new([1, 1, 1, 100, 140, depth], &mut rng);
            check_backward(&case, band, SAME_SLOPE, &mut rng);
        }
    }
}

#[test]
fn gradients_of_shared_keys_depths_and_types() {
    let mut rng = rng();
    for depth in [40, 80, 128] {
        let case = Case::<bf16>::new([2, 4, 2, 50, 90, depth], &mut rng);
        check_backward(&case, Band::CAUSAL, SAME_SLOPE, &mut rng);
    }
    // Rows of 6 bytes are none that the copy engine addresses.
    let case = Case::<bf16>::new([2, 4, 2, 50, 90, 3], &mut rng);
    check_ways(&case, Band::CAUSAL, SAME_SLOPE, &mut rng, &[CHOSEN]);
    let case = Case::<f16>::new([1, 6, 1, 40, 70, 64], &mut rng);
    check_backward(&case, Band::ALL, SAME_SLOPE, &mut rng);
    let mut case = Case::<bf16>::new([1, 2, 1, 40, 70, 96], &mut rng);
    case.v = Host::new(HeadsLayout::by_row([1, 1, 70, 64]), || rng.random_range(-2.0..2.0));
    check_backward(&case, Band::ALL, SAME_SLOPE, &mut rng);
}

#[test]
fn gradients_of_shared_keys_and_types_of_long_rows() {
    let mut rng = rng();
    for depth in [160, 192, 256] {
        let case = Case::<bf16>::new([2, 4, 2, 50, 70, depth], &mut rng);
        check_backward(&case, Band::CAUSAL, SAME_SLOPE, &mut rng);
        let case = Case::<f16>::new([1, 3, 1, 40, 70, depth], &mut rng);
        check_backward(&case, Band::ALL, SAME_SLOPE, &mut rng);
    }
    // Rows of 266 bytes are copied element by element.
    let case = Case::<bf16>::new([1, 2, 1, 40, 50, 133], &mut rng);
    check_ways(&case, Band::CAUSAL, SAME_SLOPE, &mut rng, &[CHOSEN]);
    // Values that are shorter than keys, and longer.
    for (depth, of_values) in [(192, 128), (64, 256), (256, 40)] {
        let mut case = Case::<bf16>::new([1, 2, 1, 70, 90, depth], &mut rng);
        let layout = HeadsLayout::by_row([1, 1, 90, of_values]);
        case.v = Host::new(layout, || rng.random_range(-2.0..2.0));
        check_backward(&case, Band::CAUSAL, SAME_SLOPE, &mut rng);
    }
}

#[test]
fn gradients_go_through_functors() {
    let mut rng = rng();
    for depth in [64, 192, 256] {
        let case = Case::<bf16>::new([1, 4, 2, 70, 100, depth], &mut rng);
        check_backward(
            &case,
            Alibi { band: Band::CAUSAL, heads: 4 },
            |score, at| {
                let slope = 2f64.powf(-8.0 * f64::from(at.head + 1) / 4.0);
                (score - slope * f64::from(at.own - at.key as i32).abs(), 1.0)
            },
            &mut rng,
        );
    }
}

#[test]
fn gradients_of_capped_scores_are_near() {
    for depth in [64, 192, 256] {
        check_capped(depth);
    }
}

/// The approximate tangent is off by 2^-11: no bound, but a hundredth of the largest gradient.
fn check_capped(depth: usize) {
    let mut rng = rng();
    let case = Case::<bf16>::new([1, 1, 1, 30, 40, depth], &mut rng);
    let of_o = HeadsLayout::by_head([1, 1, 30, depth]);
    let d_o = Host::<bf16>::new(of_o, || rng.random_range(-1.0..1.0));
    let capped = SoftCap { band: Band::ALL, cap: 1.5 };
    let found = ways().into_iter().map(|way| backward(&case, &d_o, capped, way).unwrap());
    let rows = |host: &Host<bf16>, len: usize| -> Vec<Vec<f64>> {
        (0..len).map(|row| host.row(0, 0, row).to_vec()).collect()
    };
    let all = [rows(&case.q, 30), rows(&case.k, 40), rows(&case.v, 40), rows(&d_o, 30)];
    let [q, k, v, of_o] =
        all.each_ref().map(|rows| rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let scale = 1.0 / f64::from((depth as f32).sqrt());
    let head = expected::Head { q: &q, k: &k, v: &v, d_o: &of_o, scale };
    let exact = |_, _, score: f64| {
        let tangent = (score / 1.5).tanh();
        (1.5 * tangent, 1.0 - tangent * tangent)
    };
    let expected = head.gradients(exact, Rounding::BF16);
    let pairs = found.flat_map(|found| found.into_iter().zip(&expected));
    for (found, expected) in pairs {
        let expected: Vec<f64> = expected.iter().flatten().map(|gradient| gradient.value).collect();
        let largest = expected.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        for (found, expected) in found.iter().zip(expected) {
            assert!(
                (found.exact() - expected).abs() < largest / 100.0,
                "{found} instead of {expected}"
            );
        }
    }
}

#[test]
fn gradients_are_the_same_bits_again() {
    let mut rng = rng();
    for [queries, keys, depth] in [[170, 300, 64], [130, 200, 192], [130, 200, 256]] {
        let case = Case::<bf16>::new([2, 4, 2, queries, keys, depth], &mut rng);
        let of_o = HeadsLayout::by_head([2, 4, queries, depth]);
        let d_o = Host::<bf16>::new(of_o, || rng.random_range(-1.0..1.0));
        for kernel in [None, Some(Kernel::Warps)] {
            let bits = || {
                let way = Way { kernel, deterministic: true };
                let found = backward(&case, &d_o, Band::CAUSAL, way).unwrap();
                found.map(|of| of.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
            };
            assert_eq!(bits(), bits());
        }
    }
}

#[test]
fn gradients_of_what_sees_nothing_are_zero() {
    let mut rng = rng();
    for depth in [64, 192, 256] {
        // The first 60 of 100 queries stand before the first of 40 keys.
        let case = Case::<bf16>::new([1, 1, 1, 100, 40, depth], &mut rng);
        let of_o = HeadsLayout::by_head([1, 1, 100, depth]);
        let d_o = Host::<bf16>::new(of_o, || rng.random_range(-1.0..1.0));
        for way in ways() {
            let [d_q, ..] = backward(&case, &d_o, Band::CAUSAL, way).unwrap();
            assert!(d_q[..60 * depth].iter().all(|x| *x == bf16::ZERO), "{way:?}");
            assert!(d_q[60 * depth..].iter().any(|x| *x != bf16::ZERO), "{way:?}");
        }
        // Nine keys, none of which is seen.
        let case = Case::<bf16>::new([1, 1, 1, 0, 9, depth], &mut rng);
        let d_o = Host::<bf16>::new(HeadsLayout::by_head([1, 1, 0, depth]), || 1.0);
        let [_, d_k, d_v] = backward(&case, &d_o, Band::ALL, CHOSEN).unwrap();
        assert!(d_k.iter().chain(&d_v).all(|x| *x == bf16::ZERO));
    }
    let none = Case::<bf16>::new([1, 2, 1, 3, 0, 64], &mut rng);
    let d_o = Host::<bf16>::new(HeadsLayout::by_head([1, 2, 3, 64]), || 1.0);
    let [d_q, ..] = backward(&none, &d_o, Band::ALL, CHOSEN).unwrap();
    assert!(d_q.iter().all(|x| *x == bf16::ZERO));
}

#[test]
fn gradients_that_do_not_fit_are_refused() {
    let mut rng = rng();
    let refusal = |case: &Case<bf16>, of_o: HeadsLayout| {
        let d_o = Host::<bf16>::new(of_o, || 1.0);
        let GpuError::InvalidArgument { reason, .. } =
            backward(case, &d_o, Band::ALL, CHOSEN).unwrap_err()
        else {
            panic!("another error")
        };
        reason
    };
    let case = Case::<bf16>::new([1, 1, 1, 4, 4, 264], &mut rng);
    assert!(refusal(&case, HeadsLayout::by_head([1, 1, 4, 264])).contains("1 to 256 elements"));
    let case = Case::<bf16>::new([1, 1, 1, 4, 4, 64], &mut rng);
    let reason = refusal(&case, HeadsLayout::by_head([1, 1, 3, 64]));
    assert!(reason.contains("queries are 1 × 1 × 4 × 64"), "{reason}");
    // Rows of 6 bytes, and a kernel that there is for the forward pass alone.
    let short = Case::<bf16>::new([1, 1, 1, 4, 4, 3], &mut rng);
    for (case, kernel, expected) in [
        (&short, Kernel::Hopper, "Hopper is not a kernel"),
        (&case, Kernel::FewRows, "FewRows is not"),
    ] {
        let d_o = Host::<bf16>::new(HeadsLayout::by_head(case.q.layout.sizes()), || 1.0);
        let way = Way { kernel: Some(kernel), deterministic: false };
        let error = backward(case, &d_o, Band::ALL, way).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    // An option of the forward pass alone.
    let x = upload(&case.q.values);
    let x = Heads::new(&x, case.q.layout).unwrap();
    let mut to = [0; 3].map(|_| poisoned::<bf16>(case.q.values.len()));
    let [d_q, d_k, d_v] = to.each_mut().map(|to| HeadsMut::new(to, case.q.layout).unwrap());
    let gradients = Gradients { q: d_q, k: d_k, v: d_v };
    let forward = Backward { q: x, k: x, v: x, o: x, d_o: x };
    let lengths = upload(&[4]);
    let (lse, options) = (poisoned::<f32>(4), Options::new().lengths(&lengths));
    let mut scratch = Scratch::new(gpu()).unwrap();
    let result = attention_backward_into(gpu(), forward, &lse, gradients, options, &mut scratch);
    assert!(result.unwrap_err().to_string().contains("no other option"));
}
