//! Operations on distributed data, compared with the same ones on this rank's device alone.

use bytemuck::Pod;
use cuda_std::vector::Vec4;
use ferrowarp::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::particles::{Particle, Particles};
use ferrowarp::ops::spmv::{Csr, spmv_into};
use ferrowarp::ops::stencil::{self, Boundary, PlaneStencil, VolumeStencil};

use super::tester::Tester;
use crate::error::DistResult;
use crate::ops::particles::World;
use crate::ops::{RowCsr, Shares, SlabGrid, SlabParticles, SlabRule, Wave};

pub(super) fn run(tester: &mut Tester<'_>) -> DistResult<()> {
    heat(tester)?;
    waves(tester)?;
    particles(tester)?;
    sparse(tester)
}

/// A number from 0 to 1 for each index.
fn sample(index: usize) -> f32 {
    ((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f32 / (1 << 24) as f32
}

fn samples(n: usize) -> Vec<f32> {
    (0..n).map(sample).collect()
}

/// How many elements differ in a bit, or are missing.
fn differing<T: Pod>(found: &[T], expected: &[T]) -> usize {
    let differs = |(a, b): &(&T, &T)| bytemuck::bytes_of(*a) != bytemuck::bytes_of(*b);
    let wrong = found.iter().zip(expected).filter(differs).count();
    wrong + found.len().abs_diff(expected.len())
}

/// Steps of a grid whose cells are samples; the ranks' slabs differ.
fn steps_of<R: SlabRule<D, Cell = f32>, const D: usize>(
    tester: &mut Tester<'_>,
    operation: &'static str,
    rule: R,
    shape: [usize; D],
    alone: &[f32],
    steps: usize,
) -> DistResult<()> {
    let (ranks, plane) = (tester.ranks, shape[1..].iter().product());
    let slabs = uneven(shape[0], ranks.size());
    let cells = slabs.scaled(plane).range(ranks.rank());
    let own: Vec<f32> = cells.clone().map(sample).collect();
    let own = DeviceBuffer::from_slice(ranks.gpu(), &own)?;
    let mut grid = SlabGrid::from_local(ranks, rule, shape, &slabs, own)?;
    grid.step(steps)?;
    grid.synchronize()?;
    let wrong = differing(&grid.local().to_vec()?, &alone[cells.clone()]);
    tester.count(operation, cells.len(), wrong);
    Ok(())
}

/// Shares of which the first ranks have fewer.
fn uneven(len: usize, ranks: u32) -> Shares {
    let ranks = ranks as usize;
    let mut shares: Vec<usize> = (0..ranks).map(|rank| 1 + rank % 3).collect();
    let used: usize = shares.iter().sum();
    shares[ranks - 1] += len - used;
    Shares::given(shares)
}

fn heat(tester: &mut Tester<'_>) -> DistResult<()> {
    const STEPS: usize = 7;
    let (gpu, size) = (tester.ranks.gpu(), tester.ranks.size() as usize);
    for boundary in [Boundary::Fixed, Boundary::Periodic, Boundary::Insulated] {
        let (shape, rule) = ([4 * size, 33], PlaneStencil::diffusion(0.2, boundary));
        let mut cells = DeviceBuffer::from_slice(gpu, &samples(shape.iter().product()))?;
        let mut spare = cells.try_clone()?;
        stencil::plane_steps(gpu, &mut cells, &mut spare, shape, &rule, STEPS)?;
        steps_of(tester, "heat in slabs", rule, shape, &cells.to_vec()?, STEPS)?;

        let (shape, rule) = ([4 * size, 6, 20], VolumeStencil::diffusion(0.15, boundary));
        let mut cells = DeviceBuffer::from_slice(gpu, &samples(shape.iter().product()))?;
        let mut spare = cells.try_clone()?;
        stencil::volume_steps(gpu, &mut cells, &mut spare, shape, &rule, STEPS)?;
        steps_of(tester, "heat in slabs", rule, shape, &cells.to_vec()?, STEPS)?;
    }
    Ok(())
}

fn waves(tester: &mut Tester<'_>) -> DistResult<()> {
    const STEPS: usize = 5;
    let (gpu, size) = (tester.ranks.gpu(), tester.ranks.size() as usize);
    for boundary in [Boundary::Fixed, Boundary::Periodic, Boundary::Insulated] {
        let (shape, rule) = ([3 * size, 33], PlaneStencil::wave(0.5, boundary));
        let mut cells = DeviceBuffer::from_slice(gpu, &samples(shape.iter().product()))?;
        let mut before = cells.try_clone()?;
        stencil::wave_steps(gpu, &mut cells, &mut before, shape, &rule, STEPS)?;
        steps_of(tester, "waves in slabs", Wave(rule), shape, &cells.to_vec()?, STEPS)?;

        let (shape, rule) = ([3 * size, 6, 20], VolumeStencil::wave(0.5, boundary));
        let mut cells = DeviceBuffer::from_slice(gpu, &samples(shape.iter().product()))?;
        let mut before = cells.try_clone()?;
        stencil::volume_wave_steps(gpu, &mut cells, &mut before, shape, &rule, STEPS)?;
        steps_of(tester, "waves in slabs", Wave(rule), shape, &cells.to_vec()?, STEPS)?;
    }
    Ok(())
}

/// Each rank compares its own particles; the numbers of all are to be the number of particles.
fn particles(tester: &mut Tester<'_>) -> DistResult<()> {
    const N: usize = 250;
    const STEPS: usize = 10;
    let (ranks, layers) = (tester.ranks, 3 * tester.ranks.size());
    let law = [2000.0, 5.0, 1.0, 0.01];
    let [stiffness, damping, gravity, time_step] = law;
    let world = World { cells: [4, 4, layers], stiffness, damping, gravity, time_step };
    let along = |i: usize, k: usize| sample(3 * i + k) * world.cells[k] as f32;
    let positions: Vec<_> = (0..N).map(|i| [along(i, 0), along(i, 1), along(i, 2)]).collect();
    let slabs = uneven(layers as usize, ranks.size());
    let given = (ranks.rank() == 0).then_some(&positions[..]);
    let mut all = SlabParticles::scatter(ranks, world, &slabs, given)?;
    all.step(STEPS)?;
    let mut alone = Particles::new(ranks.gpu(), world, &positions)?;
    (0..STEPS).try_for_each(|_| alone.step())?;
    let expected = alone.to_vec()?;
    let [places, speeds] = all.local()?;
    let (places, speeds) = (places.to_vec()?, speeds.to_vec()?);
    let is_right = |(place, speed): &(&Vec4<f32>, &Vec4<f32>)| {
        expected.get(place.w.to_bits() as usize).is_some_and(|own| is_at(own, **place, **speed))
    };
    let right = places.iter().zip(&speeds).filter(is_right).count();
    let lens = ranks.all_gather_host(ranks.gpu(), &[places.len() as u64])?;
    let lost = (lens.iter().sum::<u64>() as usize).abs_diff(N);
    tester.count("particles in slabs", places.len(), places.len() - right + lost);
    Ok(())
}

/// Whether a particle has this position and this velocity.
fn is_at(particle: &Particle, place: Vec4<f32>, speed: Vec4<f32>) -> bool {
    let Particle { position, velocity, .. } = *particle;
    position == [place.x, place.y, place.z] && velocity == [speed.x, speed.y, speed.z]
}

/// Sums of small integers, which no order of additions rounds.
fn sparse(tester: &mut Tester<'_>) -> DistResult<()> {
    const OF_ROW: usize = 6;
    let (ranks, gpu) = (tester.ranks, tester.ranks.gpu());
    let n = 37 * ranks.size() as usize;
    let column = |row: usize, entry: usize| (row * 7 + entry * entry * 11) % n;
    let value = |row: usize, entry: usize| ((row + 3 * entry) % 9) as f32 - 4.0;
    let x: Vec<f32> = (0..n).map(|i| (i % 13) as f32 - 6.0).collect();
    let entries = |rows: std::ops::Range<usize>| {
        rows.flat_map(|row| (0..OF_ROW).map(move |entry| (row, entry)))
    };
    let offsets =
        |rows: usize| (0..=rows as u32).map(|row| row * OF_ROW as u32).collect::<Vec<_>>();

    let columns: Vec<u32> = entries(0..n).map(|(row, entry)| column(row, entry) as u32).collect();
    let values: Vec<f32> = entries(0..n).map(|(row, entry)| value(row, entry)).collect();
    let alone = Csr::new(gpu, n, &offsets(n), &columns, &values)?;
    let mut expected = DeviceBuffer::zeroed(gpu, n)?;
    let on_device = DeviceBuffer::from_slice(gpu, &x)?;
    spmv_into(gpu, &alone, &on_device, &mut expected, &mut Scratch::new(gpu)?)?;

    let slabs = uneven(n, ranks.size());
    let own = slabs.range(ranks.rank());
    let columns: Vec<u64> =
        entries(own.clone()).map(|(row, entry)| column(row, entry) as u64).collect();
    let of_own = own.start * OF_ROW..own.end * OF_ROW;
    let mut a = RowCsr::new(ranks, &slabs, &offsets(own.len()), &columns, &values[of_own])?;
    let mut y = DeviceBuffer::zeroed(gpu, own.len())?;
    a.multiply_into(gpu, &on_device.slice(own.clone()), &mut y)?;
    ranks.synchronize(gpu)?;
    let wrong = differing(&y.to_vec()?, &expected.to_vec()?[own.clone()]);
    tester.count("sparse product", own.len(), wrong);
    Ok(())
}
