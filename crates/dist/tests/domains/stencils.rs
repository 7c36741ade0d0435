//! Heat and waves in slabs: the bits of plain loops.

use ::reference::stencil::{self as reference, Edge};
use bytemuck::Pod;
use ferrowarp::DeviceBuffer;
use ferrowarp::ops::stencil::{self as local, Boundary, PlaneStencil, VolumeStencil};
use ferrowarp_dist::ops::{Shares, SlabGrid, SlabRule, Wave};
use ferrowarp_dist::{Communicator, DistResult};

use super::samples::Samples;

const BOUNDARIES: [(Boundary, Edge); 3] = [
    (Boundary::Fixed, Edge::Fixed),
    (Boundary::Periodic, Edge::Periodic),
    (Boundary::Insulated, Edge::Insulated),
];
/// Steps: none, one, and such as make passes of four, two and one.
const STEPS: [usize; 4] = [0, 1, 2, 7];

/// A step of plain loops: of cells and of the cells before.
type Step<'a, T> = &'a dyn Fn(&[T], &[T]) -> Vec<T>;

pub fn check(ranks: &Communicator, samples: &mut Samples) -> DistResult<usize> {
    let mut count = 0;
    for (boundary, edge) in BOUNDARIES {
        count += planes(ranks, samples, boundary, edge)?;
        count += volumes(ranks, samples, boundary, edge)?;
    }
    scattered_as_on_one_device(ranks, samples)?;
    what_does_not_fit_is_refused(ranks)?;
    Ok(count + 2)
}

/// Slabs that are even, of a plane each but one, and anyhow.
fn divisions(samples: &mut Samples, len: usize, ranks: u32) -> [Shares; 3] {
    let mut thin = vec![1; ranks as usize];
    thin[samples.below(ranks as usize)] += len - ranks as usize;
    [Shares::even(len, ranks), Shares::given(thin), samples.slabs(len, ranks, 1)]
}

fn planes(
    ranks: &Communicator,
    samples: &mut Samples,
    boundary: Boundary,
    edge: Edge,
) -> DistResult<usize> {
    let wide = [0.3, 0.27, -0.11];
    let [centre, x, y] = wide;
    let narrow = PlaneStencil { centre: centre as f32, x: x as f32, y: y as f32, boundary };
    let double = PlaneStencil { centre, x, y, boundary };
    let wave = PlaneStencil::wave(0.6, boundary);
    // As high as there are ranks, more than a block is wide, and high enough for two strips of each rank.
    let shapes = [[ranks.size() as usize, 5], [40, 131], [9 * ranks.size() as usize, 16]];
    for shape in shapes {
        let volume = [1, shape[0], shape[1]];
        let step = |now: &[f32], _: &[f32]| {
            reference::plane_f32(now, shape, [narrow.centre, narrow.x, narrow.y], edge)
        };
        grid(ranks, samples, narrow, shape, &step)?;
        let step = |now: &[f64], _: &[f64]| reference::plane_f64(now, shape, wide, edge);
        grid(ranks, samples, double, shape, &step)?;
        let weights = [wave.centre, wave.x, wave.y, 0.0];
        let step = |now: &[f32], before: &[f32]| {
            reference::wave_f32(now, before, volume, weights, edge, [false, true, true])
        };
        grid(ranks, samples, Wave(wave), shape, &step)?;
    }
    Ok(3)
}

fn volumes(
    ranks: &Communicator,
    samples: &mut Samples,
    boundary: Boundary,
    edge: Edge,
) -> DistResult<usize> {
    let wide = [0.3, 0.27, -0.11, 0.13];
    let [centre, x, y, z] = wide;
    let weights = wide.map(|weight| weight as f32);
    let narrow = {
        let [centre, x, y, z] = weights;
        VolumeStencil { centre, x, y, z, boundary }
    };
    let double = VolumeStencil { centre, x, y, z, boundary };
    let wave = VolumeStencil::wave(0.5, boundary);
    let of_wave = [wave.centre, wave.x, wave.y, wave.z];
    for shape in [[ranks.size() as usize, 3, 4], [5 * ranks.size() as usize, 9, 33]] {
        let step =
            |now: &[f32], _: &[f32]| reference::volume_f32(now, shape, weights, edge, [true; 3]);
        grid(ranks, samples, narrow, shape, &step)?;
        let step =
            |now: &[f64], _: &[f64]| reference::volume_f64(now, shape, wide, edge, [true; 3]);
        grid(ranks, samples, double, shape, &step)?;
        let step = |now: &[f32], before: &[f32]| {
            reference::wave_f32(now, before, shape, of_wave, edge, [true; 3])
        };
        grid(ranks, samples, Wave(wave), shape, &step)?;
    }
    Ok(3)
}

/// A rule on a grid of a shape, divided in all ways, for all numbers of steps.
fn grid<R, T, const D: usize>(
    ranks: &Communicator,
    samples: &mut Samples,
    rule: R,
    shape: [usize; D],
    step: Step<'_, T>,
) -> DistResult<()>
where
    R: SlabRule<D, Cell = T>,
    T: Pod + From<f32>,
{
    let n = shape.iter().product();
    let (start, before) = (samples.units::<T>(n), samples.units::<T>(n));
    for slabs in divisions(samples, shape[0], ranks.size()) {
        let plane = slabs.scaled(n / shape[0]);
        let part =
            |all: &[T]| DeviceBuffer::from_slice(ranks.gpu(), &all[plane.range(ranks.rank())]);
        let mut grid = SlabGrid::from_local(ranks, rule, shape, &slabs, part(&start)?)?;
        grid.set_before(part(&before)?)?;
        let (mut now, mut earlier) = (start.clone(), before.clone());
        for steps in STEPS {
            grid.step(steps)?;
            for _ in 0..steps {
                let next = step(&now, &earlier);
                (earlier, now) = (now, next);
            }
            let what =
                format!("{shape:?} in {:?}, {steps} steps, seed {}", slabs.lens(), samples.seed);
            if let Some(found) = grid.gather()? {
                same(&found, &now, &what);
            }
            grid.synchronize()?;
            same(&grid.local().to_vec()?, &now[plane.range(ranks.rank())], &what);
        }
    }
    Ok(())
}

#[track_caller]
fn same<T: Pod>(found: &[T], expected: &[T], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let bytes = |cell: &T| bytemuck::bytes_of(cell).to_vec();
    let differs = |(a, b): (&T, &T)| bytes(a) != bytes(b);
    if let Some(cell) = found.iter().zip(expected).position(differs) {
        panic!("{what}: cell {cell} has the bits {:x?}", bytes(&found[cell]));
    }
}

/// Cells of rank 0, steps of everyone, and the bits of one device.
fn scattered_as_on_one_device(ranks: &Communicator, samples: &mut Samples) -> DistResult<()> {
    const STEPS: usize = 9;
    let (gpu, size) = (ranks.gpu(), ranks.size());
    let shape = [6 * size as usize + 1, 8, 20];
    let start = samples.units::<f32>(shape.iter().product());
    let rule = VolumeStencil::diffusion(0.15, Boundary::Insulated);
    let slabs = samples.slabs(shape[0], size, 1);
    let given = (ranks.rank() == 0).then_some(&start[..]);
    let mut grid = SlabGrid::scatter(ranks, rule, shape, &slabs, given)?;
    grid.step(STEPS)?;
    let mut cells = DeviceBuffer::from_slice(gpu, &start)?;
    let mut spare = cells.try_clone()?;
    local::volume_steps(gpu, &mut cells, &mut spare, shape, &rule, STEPS)?;
    if let Some(found) = grid.gather()? {
        same(&found, &cells.to_vec()?, &format!("scattered, seed {}", samples.seed));
    }
    Ok(())
}

fn what_does_not_fit_is_refused(ranks: &Communicator) -> DistResult<()> {
    let (gpu, size) = (ranks.gpu(), ranks.size() as usize);
    let rule = PlaneStencil::diffusion(0.1f32, Boundary::Fixed);
    let make = |shares: &[usize], len: usize| -> DistResult<String> {
        let slabs = Shares::given(shares.to_vec());
        let cells = DeviceBuffer::zeroed(gpu, len)?;
        let made = SlabGrid::from_local(ranks, rule, [size, 3], &slabs, cells);
        Ok(made.err().map_or_else(String::new, |error| error.to_string()))
    };
    let says = |text: String, what: &str| assert!(text.contains(what), "{what}: {text}");
    says(make(&vec![1; size], 4)?, "this rank's slab has 4 elements, and must have 3");
    says(make(&vec![2; size], 6)?, "the sum of the shares has");
    says(make(&vec![1; size + 1], 3)?, "the list of shares has");
    if size > 1 {
        let mut shares = vec![1; size];
        (shares[0], shares[1]) = (2, 0);
        says(make(&shares, 3)?, "rank 1 has no plane");
    }
    Ok(())
}
