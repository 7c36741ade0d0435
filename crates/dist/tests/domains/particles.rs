//! Particles in slabs: the bits of one device, and one step against every pair in f64.

use ::reference::particles as reference;
use ferrowarp::ops::particles::{Particle, Particles, World};
use ferrowarp_dist::ops::{Shares, SlabParticles};
use ferrowarp_dist::{Communicator, DistResult};

use super::samples::Samples;

/// A box of these cells, and steps of that time.
fn world(cells: [u32; 3], time_step: f32) -> World {
    World { cells, stiffness: 2000.0, damping: 5.0, gravity: 1.0, time_step }
}

pub fn check(ranks: &Communicator, samples: &mut Samples) -> DistResult<usize> {
    let layers = 3 * ranks.size() + 2;
    for (n, cells) in [(0, [3, 3, layers]), (1, [1, 1, layers]), (300, [4, 5, layers])] {
        // Slabs that are even, anyhow (without layers, too), and all of it on the last rank.
        let mut last = vec![0; ranks.size() as usize];
        last[ranks.size() as usize - 1] = layers as usize;
        let anyhow = samples.slabs(layers as usize, ranks.size(), 0);
        let even = Shares::even(layers as usize, ranks.size());
        for slabs in [even, anyhow, Shares::given(last)] {
            let positions = anywhere(samples, n, cells);
            let world = world(cells, 0.004);
            as_on_one_device(ranks, samples.seed, world, &slabs, &positions, [25, 1])?;
        }
    }
    far_in_a_step(ranks, samples)?;
    more_than_there_is_room_for(ranks, samples)?;
    every_pair(ranks, samples)?;
    wherever_they_begin(ranks, samples)?;
    what_does_not_fit_is_refused(ranks)?;
    Ok(6)
}

/// `n` particles anywhere in the box, some of them outside of it.
fn anywhere(samples: &mut Samples, n: usize, cells: [u32; 3]) -> Vec<[f32; 3]> {
    let mut along = |cells: u32| (0.5 + 0.5 * samples.unit()) * (cells as f32 + 0.6) - 0.3;
    (0..n).map(|_| cells.map(&mut along)).collect()
}

type Bits = (u32, [u32; 3], [u32; 3]);

fn bits(particles: &[Particle]) -> Vec<Bits> {
    let of = |p: &Particle| (p.name, p.position.map(f32::to_bits), p.velocity.map(f32::to_bits));
    particles.iter().map(of).collect()
}

/// Runs the particles on all ranks and on this one alone. Returns the layers of the box in which each is, after each call for
/// `together` steps.
fn as_on_one_device(
    ranks: &Communicator,
    seed: u64,
    world: World,
    slabs: &Shares,
    positions: &[[f32; 3]],
    [calls, together]: [usize; 2],
) -> DistResult<Vec<Vec<usize>>> {
    let given = (ranks.rank() == 0).then_some(positions);
    let mut all = SlabParticles::scatter(ranks, world, slabs, given)?;
    let mut alone = Particles::new(ranks.gpu(), world, positions)?;
    let mut layers = Vec::new();
    for call in 0..=calls {
        let what = format!("step {} of {:?}, seed {seed}", call * together, slabs.lens());
        let lens = ranks.all_gather_host(ranks.gpu(), &[all.len()? as u64])?;
        assert_eq!(lens.iter().sum::<u64>() as usize, positions.len(), "{what}");
        let expected = alone.to_vec()?;
        if let Some(found) = all.gather()? {
            assert!(found.iter().map(|p| p.name as usize).eq(0..positions.len()), "{what}");
            let differs = bits(&found).into_iter().zip(bits(&expected)).position(|(a, b)| a != b);
            assert_eq!(differs, None, "{what}: it is not as on one device");
        }
        layers.push(expected.iter().map(|p| layer(p, world)).collect());
        all.step(together)?;
        (0..together).try_for_each(|_| alone.step())?;
    }
    Ok(layers)
}

fn layer(particle: &Particle, world: World) -> usize {
    (particle.position[2] as i32).clamp(0, world.cells[2] as i32 - 1) as usize
}

/// Steps so long that particles fly over whole slabs: what leaves a slab goes to any rank.
fn far_in_a_step(ranks: &Communicator, samples: &mut Samples) -> DistResult<()> {
    let layers = 2 * ranks.size();
    let (world, slabs) = (world([3, 3, layers], 0.06), Shares::even(layers as usize, ranks.size()));
    let positions = anywhere(samples, 150, world.cells);
    let seen = as_on_one_device(ranks, samples.seed, world, &slabs, &positions, [6, 1])?;
    let far = |(a, b): (&usize, &usize)| slabs.rank_of(*a).abs_diff(slabs.rank_of(*b)) > 1;
    let jumps = seen.windows(2).flat_map(|two| two[0].iter().zip(&two[1])).filter(|two| far(*two));
    assert!(ranks.size() < 4 || jumps.count() > 0, "no particle flew over a slab");
    Ok(())
}

/// Particles that burst from one layer into all of the box, many steps in a call: within a round there are more for a rank, and in
/// its cells, than there were before.
fn more_than_there_is_room_for(ranks: &Communicator, samples: &mut Samples) -> DistResult<()> {
    let layers = 2 * ranks.size() + 2;
    let (world, slabs) = (world([5, 5, layers], 0.01), Shares::even(layers as usize, ranks.size()));
    let positions = anywhere(samples, 500, [5, 5, 1]);
    let seen = as_on_one_device(ranks, samples.seed, world, &slabs, &positions, [2, 30])?;
    let in_last = |layers: &Vec<usize>| {
        layers.iter().filter(|layer| slabs.rank_of(**layer) + 1 == ranks.size()).count()
    };
    let (first, most) = (in_last(&seen[0]), seen.iter().map(in_last).max());
    assert!(ranks.size() == 1 || (first == 0 && most > Some(64)), "{first}, then {most:?}");
    Ok(())
}

/// One step of all ranks against every pair in f64. The bounds are those of the test of one device: rounding of the positions
/// (2^-24 of at most 2^5) counts `stiffness` times in a force, for each of at most 20 contacts; a step is a 250th.
fn every_pair(ranks: &Communicator, samples: &mut Samples) -> DistResult<()> {
    let layers = 3 * ranks.size();
    let world = world([4, 3, layers], 0.004);
    let slabs = samples.slabs(layers as usize, ranks.size(), 0);
    let positions = anywhere(samples, 12 * layers as usize, world.cells);
    let given = (ranks.rank() == 0).then_some(&positions[..]);
    let mut all = SlabParticles::scatter(ranks, world, &slabs, given)?;
    all.step(3)?;
    let before = all.gather()?;
    all.step(1)?;
    let Some((before, found)) = before.zip(all.gather()?) else { return Ok(()) };
    let law = reference::World {
        size: world.cells.map(f64::from),
        stiffness: world.stiffness.into(),
        damping: world.damping.into(),
        gravity: world.gravity.into(),
        time_step: world.time_step.into(),
    };
    let state = reference::State {
        position: before.iter().map(|p| p.position.map(f64::from)).collect(),
        velocity: before.iter().map(|p| p.velocity.map(f64::from)).collect(),
    };
    let (expected, _) = reference::step(&law, &state);
    let force = law.stiffness * 20.0 * 2f64.powi(-24 + 5);
    let (speed, place) = (0.004 * force + 1e-6, 0.004 * 0.004 * force + 2f64.powi(-24 + 5));
    for (i, particle) in found.iter().enumerate() {
        for k in 0..3 {
            let moved = f64::from(particle.position[k]) - expected.position[i][k];
            let sped = f64::from(particle.velocity[k]) - expected.velocity[i][k];
            let is_near = moved.abs() <= place && sped.abs() <= speed;
            assert!(is_near, "seed {}: {particle:?}, {moved:e}, {sped:e}", samples.seed);
        }
    }
    Ok(())
}

/// Particles that begin on other ranks than those of their slabs, with speeds: none is lost or doubled, and each comes to the
/// rank that has its layer.
fn wherever_they_begin(ranks: &Communicator, samples: &mut Samples) -> DistResult<()> {
    let layers = 2 * ranks.size();
    let (world, slabs) =
        (world([3, 3, layers], 0.004), Shares::even(layers as usize, ranks.size()));
    let positions = anywhere(samples, 40 * ranks.size() as usize, world.cells);
    let is_own =
        |(name, _): &(usize, &[f32; 3])| name % ranks.size() as usize == ranks.rank() as usize;
    let own: Vec<_> = positions
        .iter()
        .enumerate()
        .filter(is_own)
        .map(|(name, position)| Particle {
            name: name as u32,
            position: *position,
            velocity: [0.5; 3],
        })
        .collect();
    let mut all = SlabParticles::from_local(ranks, world, &slabs, &own)?;
    assert_eq!(all.len()?, own.len());
    all.step(1)?;
    let [places, _] = all.local()?;
    for place in places.to_vec()? {
        let start = positions[place.w.to_bits() as usize][2];
        let layer = (start as i32).clamp(0, layers as i32 - 1) as usize;
        assert_eq!(slabs.rank_of(layer), ranks.rank(), "seed {}: at {start}", samples.seed);
    }
    if let Some(found) = all.gather()? {
        assert!(
            found.iter().map(|p| p.name as usize).eq(0..positions.len()),
            "seed {}",
            samples.seed
        );
    }
    Ok(())
}

fn what_does_not_fit_is_refused(ranks: &Communicator) -> DistResult<()> {
    let refused = |cells: [u32; 3], layers: usize, says: &str| {
        let slabs = Shares::even(layers, ranks.size());
        let made = SlabParticles::from_local(ranks, world(cells, 0.004), &slabs, &[]);
        let text = made.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(says), "{says}: {text}");
    };
    refused([3, 3, 5], 6, "the sum of the shares has 6 elements, and must have 5");
    refused([3, 0, 5], 5, "must have cells");
    refused([1 << 16, 1 << 16, 5], 5, "2^31 at most");
    Ok(())
}
