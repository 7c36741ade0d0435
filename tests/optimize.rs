//! Optimised graphs of maps: which become one, and that every bit is the same.

use cuda_std::number::f16;
use ferrowarp::graph::{GraphBuilder, Optimization, Scratch};
use ferrowarp::ops::map;
use ferrowarp::{DeviceBuffer, GpuResult};
use rand::RngExt;

use crate::support::{SIZES, floats, gpu, poisoned, rng, upload};

/// Enqueues a map of one buffer into another.
type Map<'a> = dyn Fn(&DeviceBuffer<f32>, &mut DeviceBuffer<f32>) -> GpuResult<()> + 'a;

/// Values that a map could treat in a special way.
const ODD: [f32; 12] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    f32::MAX,
    f32::MIN_POSITIVE,
    1e-45,
    -1e-40,
    3.5,
];

/// The bits of what `maps` make of `x` in a graph, as it was recorded and optimised, and what was changed.
fn both(x: &[f32], maps: &[&Map<'_>]) -> GpuResult<([Vec<u32>; 2], Optimization)> {
    let record = || -> GpuResult<_> {
        let input = upload(x);
        let mut between: Vec<_> = maps.iter().map(|_| poisoned::<f32>(x.len())).collect();
        let builder = GraphBuilder::new(gpu());
        builder.capture(|| {
            for (at, map) in maps.iter().enumerate() {
                let (before, after) = between.split_at_mut(at);
                map(before.last().unwrap_or(&input), &mut after[0])?;
            }
            Ok(())
        })?;
        let out = between.pop().expect("a map");
        Ok((builder, (input, Scratch::new(between), out)))
    };
    let bits = |out: &DeviceBuffer<f32>| -> GpuResult<Vec<u32>> {
        Ok(out.to_vec()?.into_iter().map(f32::to_bits).collect())
    };
    let (builder, buffers) = record()?;
    let mut plain = builder.build(buffers)?;
    let (builder, buffers) = record()?;
    let (mut optimised, changes) = builder.optimize(buffers)?;
    for _ in 0..2 {
        plain.launch(gpu())?;
        optimised.launch(gpu())?;
    }
    let expected = bits(&plain.wait()?.2)?;
    assert_eq!(optimised.len() + changes.len(), maps.len());
    Ok(([expected, bits(&optimised.wait()?.2)?], changes))
}

#[test]
fn chains_of_negations_and_magnitudes_are_one_kernel() -> GpuResult<()> {
    let mut rng = rng();
    for n in SIZES.into_iter().filter(|&n| n > 0 && n < 5000) {
        let mut x = floats(&mut rng, n);
        x.iter_mut().zip(ODD).for_each(|(x, odd)| *x = odd);
        let chain: Vec<bool> = (0..5).map(|_| rng.random()).collect();
        let negate = |x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>| map::negate(gpu(), x, y);
        let abs = |x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>| map::abs(gpu(), x, y);
        let maps: Vec<&Map<'_>> =
            chain.iter().map(|&negates| if negates { &negate as _ } else { &abs as _ }).collect();
        let ([expected, found], changes) = both(&x, &maps)?;
        assert_eq!(found, expected, "{n} elements, {chain:?}");
        assert_eq!(changes.len(), 4, "{changes}");
    }
    Ok(())
}

#[test]
fn scales_are_fused_where_that_rounds_alike() -> GpuResult<()> {
    let mut x = floats(&mut rng(), 1009);
    x.iter_mut().zip(ODD).for_each(|(x, odd)| *x = odd);
    let cases = [
        (0.3, -1.0, true),
        (-1.0, 1e-38, true),
        (1.0, f32::NAN, true),
        (-1.0, f32::INFINITY, true),
        (0.0, -1.0, true),
        (0.3, 0.7, false),
        // Exact, but for what overflows in between.
        (2.0, 0.5, false),
    ];
    for (first, second, is_fused) in cases {
        let scale = |factor: f32| {
            move |x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>| map::scale(gpu(), factor, x, y)
        };
        let ([expected, found], changes) = both(&x, &[&scale(first), &scale(second)])?;
        assert_eq!(found, expected, "{first} and {second}");
        assert_eq!(changes.len(), usize::from(is_fused), "{first} and {second}: {changes}");
    }
    Ok(())
}

/// Maps read what was copied, and write what is copied; other kernels stay as they are.
#[test]
fn maps_take_the_place_of_copies() -> GpuResult<()> {
    let (a, b) = (floats(&mut rng(), 4099), floats(&mut rng(), 4099));
    let (on_a, on_b) = (upload(&a), upload(&b));
    let [mut x, mut sum, mut out] = [(); 3].map(|()| poisoned::<f32>(4099));
    let mut half = poisoned::<f16>(4099);
    let builder = GraphBuilder::new(gpu());
    builder.node("load").copy(&on_a, &mut x)?;
    builder.capture(|| map::sum(gpu(), &x, &on_b, &mut sum))?;
    builder.node("store").copy(&sum, &mut out)?;
    builder.capture(|| map::convert(gpu(), &out, &mut half))?;
    let buffers = ((on_a, on_b), Scratch::new((x, sum)), out, half);
    let (mut graph, changes) = builder.optimize(buffers)?;
    assert_eq!((graph.len(), changes.nodes_before()), (2, 4), "{changes}");
    graph.launch(gpu())?;
    let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
    let (_, _, out, half) = graph.wait()?;
    assert_eq!(out.to_vec()?, expected);
    let halves: Vec<f16> = expected.iter().map(|&x| f16::from_f32(x)).collect();
    assert_eq!(half.to_vec()?, halves);
    Ok(())
}

/// A map between two others is read by both, or seen by the host: it stays.
#[test]
fn a_map_that_others_read_stays() -> GpuResult<()> {
    let x = upload(&[1.0f32, -2.0, 3.0]);
    let [mut t, mut u, mut v] = [(); 3].map(|()| poisoned::<f32>(3));
    let builder = GraphBuilder::new(gpu());
    builder.capture(|| {
        map::negate(gpu(), &x, &mut t)?;
        map::abs(gpu(), &t, &mut u)?;
        map::scale(gpu(), 0.5, &t, &mut v)
    })?;
    let (mut graph, changes) = builder.optimize((x, Scratch::new(t), u, v))?;
    assert!(changes.is_empty(), "{changes}");
    graph.launch(gpu())?;
    let (_, _, u, v) = graph.wait()?;
    assert_eq!((u.to_vec()?, v.to_vec()?), (vec![1.0, 2.0, 3.0], vec![-0.5, 1.0, -1.5]));
    Ok(())
}

#[test]
fn a_fused_map_keeps_its_factor() -> GpuResult<()> {
    let x = upload(&[1.0f32, -2.0, 3.0]);
    let [mut t, mut u] = [(); 2].map(|()| poisoned::<f32>(3));
    let builder = GraphBuilder::new(gpu());
    builder.capture(|| map::scale(gpu(), 0.5, &x, &mut t))?;
    builder.capture(|| map::scale(gpu(), -1.0, &t, &mut u))?;
    let (graph, _) = builder.optimize((x, Scratch::new(t), u))?;
    let node = graph.node("map_scale_f32")?;
    let error = graph.parameter::<f32>(&node, "factor").unwrap_err();
    assert!(error.to_string().contains("`optimize` has fused"), "{error}");
    Ok(())
}
