//! Reference of `particles`: every pair, in f64, in the order of the particles' names.

/// The box and the law, as the kernels have them.
#[derive(Clone, Copy, Debug)]
pub struct World {
    /// Extent of the box along x, y and z, in diameters.
    pub size: [f64; 3],
    /// Force of a contact for an overlap of 1.
    pub stiffness: f64,
    /// Force of a contact for a speed of approach of 1.
    pub damping: f64,
    /// Acceleration against y.
    pub gravity: f64,
    /// Time of a step.
    pub time_step: f64,
}

/// Positions and velocities; the latter are half a step behind.
#[derive(Clone, Debug)]
pub struct State {
    /// Positions.
    pub position: Vec<[f64; 3]>,
    /// Velocities.
    pub velocity: Vec<[f64; 3]>,
}

/// One step: the state after it, and the energy before it.
pub fn step(world: &World, state: &State) -> (State, f64) {
    let (h, mut next, mut energy) = (world.time_step, state.clone(), 0.0);
    for i in 0..state.position.len() {
        let (force, stored) = forces(world, state, i);
        energy += stored + world.gravity * state.position[i][1];
        for (k, force) in force.into_iter().enumerate() {
            energy += (state.velocity[i][k] + 0.5 * h * force).powi(2) / 2.0;
            next.velocity[i][k] += h * force;
            next.position[i][k] += h * next.velocity[i][k];
        }
    }
    (next, energy)
}

/// The force on particle `i`, and its share of the springs' energy.
fn forces(world: &World, state: &State, i: usize) -> ([f64; 3], f64) {
    let (mut force, mut energy) = ([0.0, -world.gravity, 0.0], 0.0);
    for j in (0..state.position.len()).filter(|&j| j != i) {
        let apart: [f64; 3] = std::array::from_fn(|k| state.position[i][k] - state.position[j][k]);
        let leaving: [f64; 3] =
            std::array::from_fn(|k| state.velocity[i][k] - state.velocity[j][k]);
        let distance = apart.iter().map(|x| x * x).sum::<f64>().sqrt();
        if distance >= 1.0 || distance == 0.0 {
            continue;
        }
        let normal = apart.map(|x| x / distance);
        let speed: f64 = (0..3).map(|k| normal[k] * leaving[k]).sum();
        let push = world.stiffness * (1.0 - distance) - world.damping * speed;
        (0..3).for_each(|k| force[k] += push * normal[k]);
        energy += world.stiffness * (1.0 - distance).powi(2) / 4.0;
    }
    for (k, force) in force.iter_mut().enumerate() {
        let x = state.position[i][k];
        for (overlap, sign) in [(0.5 - x, 1.0), (x + 0.5 - world.size[k], -1.0)] {
            if overlap > 0.0 {
                *force += sign * world.stiffness * overlap - world.damping * state.velocity[i][k];
                energy += world.stiffness * overlap.powi(2) / 2.0;
            }
        }
    }
    (force, energy)
}
