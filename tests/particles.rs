//! The particles against every pair in f64, and against the laws that they obey.

use ::reference::particles as reference;
use ferrowarp::memory::resource::MemoryPool;
use ferrowarp::ops::particles::{Particle, Particles, World};
use rand::RngExt;

use crate::support::{gpu, rng};

fn world(cells: [u32; 3]) -> World {
    World { cells, stiffness: 2000.0, damping: 0.0, gravity: 1.0, time_step: 0.004 }
}

fn reference_of(world: &World) -> reference::World {
    reference::World {
        size: world.cells.map(f64::from),
        stiffness: world.stiffness.into(),
        damping: world.damping.into(),
        gravity: world.gravity.into(),
        time_step: world.time_step.into(),
    }
}

fn state_of(particles: &[Particle]) -> reference::State {
    reference::State {
        position: particles.iter().map(|p| p.position.map(f64::from)).collect(),
        velocity: particles.iter().map(|p| p.velocity.map(f64::from)).collect(),
    }
}

/// One step from where the particles are, there and by the reference. Rounding of the positions (2^-24 of at most
/// 2^5) counts `stiffness` times in a force, for each of at most 20 contacts; a step is a 250th of a time unit.
fn assert_step(particles: &mut Particles) {
    let before = particles.to_vec().unwrap();
    let (expected, energy) = reference::step(&reference_of(particles.world()), &state_of(&before));
    particles.step().unwrap();
    let found_energy = f64::from(particles.energy().unwrap());
    let found = particles.to_vec().unwrap();
    let force = f64::from(particles.world().stiffness) * 20.0 * 2f64.powi(-24 + 5);
    let (speed, place) = (0.004 * force, 0.004 * 0.004 * force + 2f64.powi(-24 + 5));
    for (i, particle) in found.iter().enumerate() {
        assert_eq!(particle.name as usize, i);
        for k in 0..3 {
            let moved = f64::from(particle.position[k]) - expected.position[i][k];
            let sped = f64::from(particle.velocity[k]) - expected.velocity[i][k];
            assert!(moved.abs() <= place, "particle {i}: {particle:?}, off by {moved:e}");
            assert!(sped.abs() <= speed + 1e-6, "particle {i}: {particle:?}, off by {sped:e}");
        }
    }
    assert!(
        (found_energy - energy).abs() <= 1e-5 * energy.abs() + 1e-4,
        "{found_energy}, {energy}"
    );
}

/// `n` particles anywhere in the box, some of them outside of it.
fn anywhere(n: usize, [x, y, z]: [u32; 3]) -> Vec<[f32; 3]> {
    let mut rng = rng();
    let mut along = |cells: u32| rng.random_range(-0.3..cells as f32 + 0.3);
    (0..n).map(|_| [along(x), along(y), along(z)]).collect()
}

#[test]
fn a_step_is_that_of_every_pair() {
    for (n, cells) in
        [(1, [1, 1, 1]), (2, [1, 1, 1]), (40, [2, 3, 1]), (300, [7, 5, 6]), (129, [30, 1, 2])]
    {
        let mut particles = Particles::new(gpu(), world(cells), &anywhere(n, cells)).unwrap();
        for _ in 0..3 {
            assert_step(&mut particles);
        }
    }
}

#[test]
fn a_step_with_damping_is_that_of_every_pair() {
    let cells = [5, 6, 4];
    let damped = World { damping: 10.0, ..world(cells) };
    let mut particles = Particles::new(gpu(), damped, &anywhere(200, cells)).unwrap();
    for _ in 0..3 {
        assert_step(&mut particles);
    }
}

#[test]
fn energy_stays_what_it_is_without_damping() {
    let (cells, places) = Particles::dam(200);
    let mut particles = Particles::new(gpu(), world(cells), &places).unwrap();
    particles.step().unwrap();
    let first = particles.energy().unwrap();
    for _ in 0..10 {
        (0..20).try_for_each(|_| particles.step()).unwrap();
        let now = particles.energy().unwrap();
        // The leapfrog's energy swings with the square of the step; nothing accumulates.
        assert!((now - first).abs() < 0.01 * first, "{first} became {now}");
    }
}

#[test]
fn energy_falls_with_damping() {
    let (cells, places) = Particles::dam(200);
    let damped = World { damping: 20.0, ..world(cells) };
    let mut particles = Particles::new(gpu(), damped, &places).unwrap();
    particles.step().unwrap();
    let first = particles.energy().unwrap();
    (0..400).try_for_each(|_| particles.step()).unwrap();
    let last = particles.energy().unwrap();
    assert!(last < 0.9 * first, "{first} became {last}");
}

#[test]
fn every_particle_is_there_once_and_inside() {
    let (cells, places) = Particles::dam(333);
    let mut particles = Particles::new(gpu(), world(cells), &places).unwrap();
    (0..100).try_for_each(|_| particles.step()).unwrap();
    let found = particles.to_vec().unwrap();
    assert!(found.iter().map(|p| p.name).eq(0..333));
    for particle in found {
        for k in 0..3 {
            let x = particle.position[k];
            assert!(x > 0.0 && x < cells[k] as f32, "{particle:?} is outside of {cells:?}");
        }
    }
}

#[test]
fn two_runs_have_the_same_bits() {
    let run = || {
        let (cells, places) = Particles::dam(300);
        let mut particles = Particles::new(gpu(), world(cells), &places).unwrap();
        (0..60).try_for_each(|_| particles.step()).unwrap();
        let bits = |p: &Particle| (p.position.map(f32::to_bits), p.velocity.map(f32::to_bits));
        particles.to_vec().unwrap().iter().map(bits).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

#[test]
fn replays_and_memory_that_the_host_reaches_give_the_same_bits() {
    let (cells, places) = Particles::dam(300);
    let world = World { damping: 5.0, ..world(cells) };
    let runs = [
        Particles::new(gpu(), world, &places).unwrap(),
        Particles::new(gpu(), world, &places).unwrap().replayed().unwrap(),
        Particles::new_in(&MemoryPool::new(gpu()), gpu(), world, &places).unwrap(),
        Particles::unified(gpu(), world, &places).unwrap().replayed().unwrap(),
        Particles::mapped(gpu(), world, &places).unwrap(),
        Particles::mapped(gpu(), world, &places).unwrap().replayed().unwrap(),
        Particles::unified_in(&MemoryPool::new(gpu()), gpu(), world, &places)
            .unwrap()
            .replayed()
            .unwrap(),
    ];
    let mut last = None;
    for mut particles in runs {
        (0..30).try_for_each(|_| particles.step()).unwrap();
        let energy = particles.energy().unwrap();
        let found = (particles.to_vec().unwrap(), energy);
        for place in particles.positions().unwrap().iter() {
            let [x, y, z] = found.0[place.w.to_bits() as usize].position;
            assert_eq!([place.x, place.y, place.z], [x, y, z]);
        }
        assert!(last.is_none_or(|last| last == found));
        last = Some(found);
    }
}

#[test]
fn no_particles_and_no_box() {
    let mut none = Particles::new(gpu(), world([3, 3, 3]), &[]).unwrap();
    none.step().unwrap();
    assert_eq!(none.energy().unwrap(), 0.0);
    assert!(none.is_empty() && none.to_vec().unwrap().is_empty());
    for cells in [[0, 1, 1], [1 << 16, 1 << 16, 1]] {
        let error = Particles::new(gpu(), world(cells), &[]).err().unwrap();
        assert!(error.to_string().contains("1 to 2^31 cells"), "{error}");
    }
}
