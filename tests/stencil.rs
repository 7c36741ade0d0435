//! The stencils against plain loops, bit for bit: all forms add in one order, and steps that are fused are no other steps.

use ::reference::stencil::{self as reference, Edge};
use cuda_std::launch::Instance;
use ferrowarp::ops::stencil::{self, Boundary, Cell, PlaneStencil, VolumeStencil};
use ferrowarp::{DeviceBuffer, GpuError};
use kernels_gpu::stencil::{stencil_plane_plain, stencil_volume_plain};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::support::{gpu, poisoned, rng, upload};

const BOUNDARIES: [(Boundary, Edge); 3] = [
    (Boundary::Fixed, Edge::Fixed),
    (Boundary::Periodic, Edge::Periodic),
    (Boundary::Insulated, Edge::Insulated),
];

/// Around a vector, a strip of each number of steps, a stretch of rows; with and without whole vectors.
const PLANES: [[usize; 2]; 12] = [
    [1, 1],
    [1, 9],
    [9, 1],
    [2, 3],
    [3, 4],
    [16, 120],
    [17, 121],
    [5, 124],
    [40, 128],
    [33, 244],
    [19, 56],
    [70, 63],
];

/// Around the planes and rows of a block; lanes past the edge in a warp, and a vector alone in one.
const VOLUMES: [[usize; 3]; 13] = [
    [1, 1, 1],
    [1, 1, 5],
    [2, 3, 4],
    [3, 1, 8],
    [9, 14, 120],
    [8, 16, 128],
    [10, 15, 121],
    [5, 17, 132],
    [18, 31, 60],
    [3, 33, 66],
    [17, 21, 264],
    [9, 6, 260],
    [8, 35, 256],
];

/// The CPU's steps, of either type.
trait Stepped: Cell + PartialEq + std::fmt::Debug {
    fn number(x: f32) -> Self;
    fn cpu_plane(
        cells: &[Self],
        shape: [usize; 2],
        s: &PlaneStencil<Self>,
        edge: Edge,
    ) -> Vec<Self>;
    fn cpu_volume(
        cells: &[Self],
        shape: [usize; 3],
        s: &VolumeStencil<Self>,
        edge: Edge,
    ) -> Vec<Self>;
}

macro_rules! stepped {
    ($ty:ty, $plane:ident, $volume:ident) => {
        impl Stepped for $ty {
            fn number(x: f32) -> Self {
                x.into()
            }

            fn cpu_plane(
                cells: &[Self],
                shape: [usize; 2],
                s: &PlaneStencil<Self>,
                edge: Edge,
            ) -> Vec<Self> {
                reference::$plane(cells, shape, [s.centre, s.x, s.y], edge)
            }

            fn cpu_volume(
                cells: &[Self],
                shape: [usize; 3],
                s: &VolumeStencil<Self>,
                edge: Edge,
            ) -> Vec<Self> {
                reference::$volume(cells, shape, [s.centre, s.x, s.y, s.z], edge, [true; 3])
            }
        }
    };
}

stepped!(f32, plane_f32, volume_f32);
stepped!(f64, plane_f64, volume_f64);

fn cells<T: Stepped>(rng: &mut StdRng, n: usize) -> Vec<T> {
    (0..n).map(|_| T::number(rng.random_range(-1.0..1.0))).collect()
}

fn same<T: Stepped>(found: &DeviceBuffer<T>, expected: &[T], what: &str) {
    let found = found.to_vec().unwrap();
    let differs = found
        .iter()
        .zip(expected)
        .position(|(a, b)| bytemuck::bytes_of(a) != bytemuck::bytes_of(b));
    if let Some(i) = differs {
        panic!("{what}: cell {i} is {:?} and not {:?}", found[i], expected[i]);
    }
}

fn plane_stencil<T: Stepped>(boundary: Boundary) -> PlaneStencil<T> {
    let [centre, x, y] = [0.3, 0.27, -0.11].map(T::number);
    PlaneStencil { centre, x, y, boundary }
}

fn volume_stencil<T: Stepped>(boundary: Boundary) -> VolumeStencil<T> {
    let [centre, x, y, z] = [0.3, 0.27, -0.11, 0.13].map(T::number);
    VolumeStencil { centre, x, y, z, boundary }
}

fn planes_of<T: Stepped>(boundary: Boundary, edge: Edge)
where
    stencil_plane_plain<T>: Instance,
{
    let mut rng = rng();
    for shape in PLANES {
        let start = cells::<T>(&mut rng, shape[0] * shape[1]);
        let rule = plane_stencil(boundary);
        let what = |form: &str| format!("{form}, {shape:?}, {boundary:?}");
        let mut expected = T::cpu_plane(&start, shape, &rule, edge);

        let mut out = poisoned(start.len());
        stencil::plane_plain_into(gpu(), &upload(&start), &mut out, shape, &rule).unwrap();
        same(&out, &expected, &what("plain"));
        let mut out = poisoned(start.len());
        stencil::plane_into(gpu(), &upload(&start), &mut out, shape, &rule).unwrap();
        same(&out, &expected, &what("one step"));

        // Four, two, and one at a time.
        for steps in 2..=7 {
            expected = T::cpu_plane(&expected, shape, &rule, edge);
            if ![2, 4, 7].contains(&steps) {
                continue;
            }
            let (mut now, mut spare) = (upload(&start), poisoned(start.len()));
            stencil::plane_steps(gpu(), &mut now, &mut spare, shape, &rule, steps).unwrap();
            same(&now, &expected, &what(&format!("{steps} steps")));
        }
    }
}

fn volumes_of<T: Stepped>(boundary: Boundary, edge: Edge)
where
    stencil_volume_plain<T>: Instance,
{
    let mut rng = rng();
    for shape in VOLUMES {
        let start = cells::<T>(&mut rng, shape.iter().product());
        let rule = volume_stencil(boundary);
        let what = |form: &str| format!("{form}, {shape:?}, {boundary:?}");
        let mut expected = T::cpu_volume(&start, shape, &rule, edge);

        let mut out = poisoned(start.len());
        stencil::volume_plain_into(gpu(), &upload(&start), &mut out, shape, &rule).unwrap();
        same(&out, &expected, &what("plain"));
        let mut out = poisoned(start.len());
        stencil::volume_into(gpu(), &upload(&start), &mut out, shape, &rule).unwrap();
        same(&out, &expected, &what("one step"));

        for steps in 2..=3 {
            expected = T::cpu_volume(&expected, shape, &rule, edge);
            let (mut now, mut spare) = (upload(&start), poisoned(start.len()));
            stencil::volume_steps(gpu(), &mut now, &mut spare, shape, &rule, steps).unwrap();
            same(&now, &expected, &what(&format!("{steps} steps")));
        }
    }
}

#[test]
fn planes_of_f32() {
    BOUNDARIES.into_iter().for_each(|(boundary, edge)| planes_of::<f32>(boundary, edge));
}

#[test]
fn planes_of_f64() {
    BOUNDARIES.into_iter().for_each(|(boundary, edge)| planes_of::<f64>(boundary, edge));
}

#[test]
fn volumes_of_f32() {
    BOUNDARIES.into_iter().for_each(|(boundary, edge)| volumes_of::<f32>(boundary, edge));
}

#[test]
fn volumes_of_f64() {
    BOUNDARIES.into_iter().for_each(|(boundary, edge)| volumes_of::<f64>(boundary, edge));
}

#[test]
fn slices_that_are_not_aligned_to_vectors() {
    let mut rng = rng();
    let (shape, volume) = ([9, 128], [2, 5, 132]);
    let start = cells::<f32>(&mut rng, 9 * 128 + 2 * 5 * 132 + 3);
    let on_device = upload(&start);
    let rule = plane_stencil(Boundary::Fixed);
    for first in 1..4 {
        let part = first..first + 9 * 128;
        let mut out = poisoned(part.len());
        let from = on_device.slice(part.clone());
        stencil::plane_into(gpu(), &from, &mut out, shape, &rule).unwrap();
        same(&out, &f32::cpu_plane(&start[part], shape, &rule, Edge::Fixed), "a plane");
        let part = first..first + 2 * 5 * 132;
        let mut out = poisoned(part.len());
        let (from, rule) = (on_device.slice(part.clone()), volume_stencil(Boundary::Periodic));
        stencil::volume_into(gpu(), &from, &mut out, volume, &rule).unwrap();
        same(&out, &f32::cpu_volume(&start[part], volume, &rule, Edge::Periodic), "a volume");
    }
}

#[test]
fn nothing_has_no_steps() {
    for shape in [[0, 0], [0, 5], [5, 0]] {
        let (mut none, mut spare) = (upload::<f32>(&[]), upload::<f32>(&[]));
        let rule = PlaneStencil::diffusion(0.1, Boundary::Periodic);
        stencil::plane_steps(gpu(), &mut none, &mut spare, shape, &rule, 3).unwrap();
        let shape = [shape[0], 3, shape[1]];
        let rule = VolumeStencil::diffusion(0.1, Boundary::Insulated);
        stencil::volume_steps(gpu(), &mut none, &mut spare, shape, &rule, 3).unwrap();
    }
}

#[test]
fn nan_and_infinity_spread_as_they_do_on_the_cpu() {
    let mut start = vec![1.0_f32; 20 * 20];
    (start[4 * 20 + 4], start[14 * 20 + 14]) = (f32::NAN, f32::INFINITY);
    let rule = PlaneStencil::diffusion(0.25_f32, Boundary::Fixed);
    let (mut now, mut spare) = (upload(&start), upload(&start));
    stencil::plane_steps(gpu(), &mut now, &mut spare, [20, 20], &rule, 2).unwrap();
    let once = f32::cpu_plane(&start, [20, 20], &rule, Edge::Fixed);
    let twice = f32::cpu_plane(&once, [20, 20], &rule, Edge::Fixed);
    for (found, expected) in now.to_vec().unwrap().iter().zip(&twice) {
        assert!(found == expected || (found.is_nan() && expected.is_nan()), "{found}, {expected}");
    }
    assert!(twice.iter().filter(|x| x.is_nan()).count() >= 13);
}

#[test]
fn a_mode_of_a_plate_decays_as_it_should() {
    // A sine over the plate is a mode of the discrete heat equation too: each step multiplies it by one number.
    let (n, rate, steps) = (65_usize, 0.2_f64, 100);
    let angle = std::f64::consts::PI / (n - 1) as f64;
    let mode = |x: usize, y: usize| (x as f64 * angle).sin() * (2.0 * y as f64 * angle).sin();
    let start: Vec<f64> = (0..n * n).map(|i| mode(i % n, i / n)).collect();
    let (mut now, mut spare) = (upload(&start), upload(&start));
    let rule = PlaneStencil::diffusion(rate, Boundary::Fixed);
    stencil::plane_steps(gpu(), &mut now, &mut spare, [n, n], &rule, steps).unwrap();
    let factor = 1.0 - 4.0 * rate + 2.0 * rate * (angle.cos() + (2.0 * angle).cos());
    let left = factor.powi(steps as i32);
    // 100 steps round by a few units of 2^-53 each.
    for (i, found) in now.to_vec().unwrap().iter().enumerate() {
        assert!((found - left * start[i]).abs() < 1e-13, "cell {i}: {found}");
    }
}

#[test]
fn nothing_is_lost_behind_insulation() {
    let mut start = vec![0.0_f64; 33 * 47];
    start[5 * 47 + 3] = 1.0;
    let (mut now, mut spare) = (upload(&start), upload(&start));
    let rule = PlaneStencil::diffusion(0.25, Boundary::Insulated);
    stencil::plane_steps(gpu(), &mut now, &mut spare, [33, 47], &rule, 200).unwrap();
    let now = now.to_vec().unwrap();
    assert!((now.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    assert!(now.iter().all(|x| *x > 0.0));
}

#[test]
fn waves_come_back() {
    // A standing wave between fixed edges: cos(ω t) times a sine, with the ω of the discrete equation.
    let (n, courant, steps) = (49_usize, 0.5_f32, 60);
    let angle = std::f64::consts::PI / (n - 1) as f64;
    let mode = |i: usize| ((i % n) as f64 * angle).sin() * ((i / n) as f64 * angle).sin();
    // sin²(ω/2) = c² (sin²(kx/2) + sin²(ky/2))
    let square = f64::from(courant).powi(2) * 2.0 * (angle / 2.0).sin().powi(2);
    let omega = 2.0 * square.sqrt().asin();
    let at =
        |t: f64| -> Vec<f32> { (0..n * n).map(|i| ((omega * t).cos() * mode(i)) as f32).collect() };
    let (mut now, mut previous) = (upload(&at(0.0)), upload(&at(-1.0)));
    let rule = PlaneStencil::wave(courant, Boundary::Fixed);
    stencil::wave_steps(gpu(), &mut now, &mut previous, [n, n], &rule, steps).unwrap();
    let now = now.to_vec().unwrap();
    for (i, expected) in at(steps as f64).iter().enumerate() {
        // Rounding errors of 2^-24 grow with the square of the number of steps at most.
        assert!((now[i] - expected).abs() < 4e-4, "cell {i}: {} instead of {expected}", now[i]);
    }
}

#[test]
fn waves_of_all_edges_in_planes_and_volumes() {
    let mut rng = rng();
    for (boundary, edge) in BOUNDARIES {
        for shape in VOLUMES {
            let n = shape.iter().product();
            let (mut now, mut before) = (cells::<f32>(&mut rng, n), cells::<f32>(&mut rng, n));
            let rule = VolumeStencil::wave(0.5, boundary);
            let weights = [rule.centre, rule.x, rule.y, rule.z];
            let (mut found, mut spare) = (upload(&now), upload(&before));
            stencil::volume_wave_steps(gpu(), &mut found, &mut spare, shape, &rule, 3).unwrap();
            for _ in 0..3 {
                let next = reference::wave_f32(&now, &before, shape, weights, edge, [true; 3]);
                (before, now) = (now, next);
            }
            same(&found, &now, &format!("waves, {shape:?}, {boundary:?}"));
            same(&spare, &before, &format!("waves before, {shape:?}, {boundary:?}"));
        }
        for shape in PLANES {
            let n = shape.iter().product();
            let (mut now, mut before) = (cells::<f32>(&mut rng, n), cells::<f32>(&mut rng, n));
            let rule = PlaneStencil::wave(0.6, boundary);
            let (weights, volume) = ([rule.centre, rule.x, rule.y, 0.0], [1, shape[0], shape[1]]);
            let (mut found, mut spare) = (upload(&now), upload(&before));
            stencil::wave_steps(gpu(), &mut found, &mut spare, shape, &rule, 3).unwrap();
            for _ in 0..3 {
                let axes = [false, true, true];
                let next = reference::wave_f32(&now, &before, volume, weights, edge, axes);
                (before, now) = (now, next);
            }
            same(&found, &now, &format!("waves, {shape:?}, {boundary:?}"));
        }
    }
}

#[test]
fn a_shape_that_does_not_fit_is_an_error() {
    let rule = PlaneStencil::diffusion(0.1_f32, Boundary::Fixed);
    let mut out = upload(&[0.0_f32; 12]);
    let error = stencil::plane_into(gpu(), &upload(&[0.0; 12]), &mut out, [3, 5], &rule);
    assert!(matches!(error, Err(GpuError::SizeMismatch { expected: 15, found: 12, .. })));
    for steps in [0, 3, 8] {
        let error =
            stencil::plane_fused_into(gpu(), &upload(&[0.0; 12]), &mut out, [3, 4], &rule, steps);
        assert!(matches!(error, Err(GpuError::InvalidArgument { .. })));
    }
}

#[test]
#[ignore = "needs 40 GB of device memory"]
fn more_than_two_to_the_32_cells() {
    let (depth, side) = (1025, 2048);
    let n = depth * side * side;
    let mut cells = DeviceBuffer::<f32>::zeroed(gpu(), n).unwrap();
    let mut out = DeviceBuffer::<f32>::zeroed(gpu(), n).unwrap();
    let hot = n - side * side * 2 - side * 3 - 5;
    cells.slice_mut(hot..=hot).copy_from_host(&[1.0]).unwrap();
    let rule = VolumeStencil::diffusion(0.125, Boundary::Fixed);
    stencil::volume_into(gpu(), &cells, &mut out, [depth, side, side], &rule).unwrap();
    let beside = [hot - side * side, hot - side, hot - 1, hot + 1, hot + side, hot + side * side];
    for (cell, expected) in beside.map(|cell| (cell, 0.125)).into_iter().chain([(hot, 0.25)]) {
        assert_eq!(out.slice(cell..=cell).to_vec().unwrap(), [expected], "cell {cell}");
    }
}
