//! Particles in a box: elastic or damped spheres of diameter 1 and mass 1 that push each other away where they
//! overlap, under gravity, between walls.
//!
//! The box is cut into cells as wide as a particle, so contacts are found in the 27 cells around one. A step is
//! a counting sort of the particles by cell, then one pass over them:
//!
//! 1. [`particles_bin`](fn@particles_bin) counts the particles of each cell;
//! 2. a [scan](crate::scan) turns the counts into the place where each cell begins;
//! 3. [`particles_order`](fn@particles_order) and [`particles_sort`](fn@particles_sort) bring them there, in the order of their numbers within a cell, so that every
//!    run adds up the forces in the same order and gives the same bits;
//! 4. [`particles_move`](fn@particles_move) sums the forces and takes the step.
//!
//! A box that several devices share is cut into [slabs](Layers) along z. [`particles_route`](fn@particles_route) then finds which particles
//! another slab needs, [`particles_take`](fn@particles_take) writes messages of them, and [`particles_join`](fn@particles_join) puts what comes beside
//! the slab's own. How many particles there are then only the device knows: kernels are launched for the most that there may be.
//!
//! Sources: S. Green, "Particle Simulation using CUDA", 2010 (grid and sort); P. A. Cundall and O. D. L. Strack,
//! "A discrete numerical model for granular assemblies", 1979 (contacts of spring and dashpot).

use crate::prelude::*;
use bytemuck::{Pod, Zeroable};
use cuda_std::warp::Coalesced;

/// Threads in a block.
pub const BLOCK: u32 = 128;

/// The box, and the law that the particles obey. Lengths are in particle diameters, masses in particles.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct World {
    /// Extent of the box along x, y (upwards) and z, in cells.
    pub cells: [u32; 3],
    /// Force of a contact for an overlap of 1; of the walls too.
    pub stiffness: f32,
    /// Force of a contact for a speed of approach of 1. Without it the energy stays what it is.
    pub damping: f32,
    /// Acceleration downwards.
    pub gravity: f32,
    /// Time that a step takes. A contact swings with a period of `π √(2 / stiffness)`; the step is a small part of it.
    pub time_step: f32,
}

impl World {
    /// The number of cells.
    #[must_use]
    pub const fn n_cells(&self) -> usize {
        let [x, y, z] = self.cells;
        x as usize * y as usize * z as usize
    }

    /// The cell of a particle, along each direction; the nearest one for a particle outside the box.
    #[inline(always)]
    fn cell_at(&self, [x, y, z]: [f32; 3]) -> [u32; 3] {
        // A cast to an integer rounds towards 0 and keeps to the integer's range.
        let along = |x: f32, cells: u32| (x as i32).clamp(0, cells as i32 - 1) as u32;
        [along(x, self.cells[0]), along(y, self.cells[1]), along(z, self.cells[2])]
    }

    /// All layers of cells along z: where there is one slab.
    #[must_use]
    pub const fn layers(&self) -> Layers {
        Layers { first: 0, end: self.cells[2] }
    }

    /// The number of a cell among those of a slab; x is fastest.
    #[inline(always)]
    fn number(&self, slab: Layers, [x, y, z]: [u32; 3]) -> usize {
        let z = z.wrapping_sub(slab.first) as usize;
        (z * self.cells[1] as usize + y as usize) * self.cells[0] as usize + x as usize
    }
}

/// A slab of the box: its layers of cells along z, those from `first` on and before `end`. A box that several devices share is
/// cut into slabs, each of which is given with a layer more at either side, from where particles push those of the slab.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
pub struct Layers {
    /// The first layer.
    pub first: u32,
    /// The layer after the last.
    pub end: u32,
}

impl Layers {
    /// The layer, or the nearest one of the slab.
    #[inline(always)]
    fn nearest(self, z: u32) -> u32 {
        z.clamp(self.first, (self.end - 1).max(self.first))
    }
}

/// A place or a speed, and something else in its fourth value.
type Vector = Vec4<f32>;

#[inline(always)]
fn vector(v: Vector) -> [f32; 3] {
    [v.x, v.y, v.z]
}

#[inline(always)]
fn minus(a: [f32; 3], b: [f32; 3]) -> [f32; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

#[inline(always)]
fn dot(a: [f32; 3], b: [f32; 3]) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

/// `a + s * b`.
#[inline(always)]
fn plus(a: [f32; 3], s: f32, b: [f32; 3]) -> [f32; 3] {
    [a[0] + s * b[0], a[1] + s * b[1], a[2] + s * b[2]]
}

/// A force, and the energy that is stored with it.
#[derive(Clone, Copy)]
struct Push {
    force: [f32; 3],
    energy: f32,
}

impl Push {
    /// What a neighbour at `-apart`, which this particle leaves at the speed `leaving`, does: a spring that is
    /// pressed by the overlap, and a dashpot along it. Half of the spring's energy is this particle's.
    #[inline(always)]
    fn add_contact(&mut self, world: &World, apart: [f32; 3], leaving: [f32; 3]) {
        let squared = dot(apart, apart);
        // A particle at the same place (itself, for one) has no direction to push in.
        if squared >= 1.0 || squared == 0.0 {
            return;
        }
        let distance = squared.sqrt();
        let overlap = 1.0 - distance;
        let speed = dot(apart, leaving) / distance;
        let push = (world.stiffness * overlap - world.damping * speed) / distance;
        self.force = plus(self.force, push, apart);
        self.energy += 0.25 * world.stiffness * overlap * overlap;
    }

    /// What the six walls do: springs too.
    #[inline(always)]
    fn add_walls(&mut self, world: &World, place: [f32; 3], speed: [f32; 3]) {
        for along in 0..3 {
            let low = 0.5 - place[along];
            let high = place[along] - (world.cells[along] as f32 - 0.5);
            let (overlap, sign) = if low > 0.0 { (low, 1.0) } else { (high, -1.0) };
            if overlap > 0.0 {
                self.force[along] +=
                    sign * world.stiffness * overlap - world.damping * speed[along];
                self.energy += 0.5 * world.stiffness * overlap * overlap;
            }
        }
    }
}

/// Which particles of an array of `len` a kernel is for: the first, and how many. `range: [2]` are where they begin and end; all
/// are meant if it is empty.
#[inline(always)]
fn span(range: &[u32], len: usize) -> (usize, usize) {
    let [first, end] = match range {
        [first, end] => [*first as usize, (*end as usize).min(len)],
        _ => [0, len],
    };
    (first, end.saturating_sub(first))
}

/// The number of particles: where the cell behind the last one begins.
#[inline(always)]
fn counted(starts: &[u32]) -> usize {
    starts.last().map_or(0, |end| *end as usize)
}

/// Counts the particles of each cell of a slab: `counts: [cells + 1]`, 0 before. `slots: [most]` becomes the cell of each
/// particle, and how many of the cell were counted before it. `position`: x, y, z and the particle's name. Those from `range[0]`
/// on and before `range[1]` count, at most as many as there are slots; all if `range` is empty. One that is outside of the slab counts
/// to the nearest layer.
#[kernel(block = BLOCK)]
pub fn particles_bin(
    index: ThreadIndex,
    world: World,
    slab: Layers,
    range: &[u32],
    position: &[Vector],
    counts: AtomicSlice<u32>,
    mut slots: DisjointSlice<Vec2<u32>>,
) {
    let (first, n) = span(range, position.len());
    let i = index.get();
    if i >= n {
        return;
    }
    if let Some(slot) = slots.get_mut(index) {
        let [x, y, z] = world.cell_at(vector(position[first + i]));
        let cell = world.number(slab, [x, y, slab.nearest(z)]);
        *slot = Vec2::new(cell as u32, counts.fetch_add(cell, 1, Relaxed));
    }
}

/// Writes the number of each particle into its slot of its cell: `order: [most]`. `starts: [cells + 1]`, `slots: [most]`.
#[kernel(block = BLOCK)]
pub fn particles_order(
    index: ThreadIndex,
    slots: &[Vec2<u32>],
    starts: &[u32],
    order: AtomicSlice<u32>,
) {
    if index.get() >= counted(starts) {
        return;
    }
    if let Some(slot) = slots.get(index.get()) {
        let place = starts[slot.x as usize] + slot.y;
        order.store(place as usize, index.get() as u32, Relaxed);
    }
}

/// Brings the particles together by cells: `slots`, `order` and what is sorted `[most]`, `starts: [cells + 1]`, `range`, `position`
/// and `velocity` as [`particles_bin`](fn@particles_bin) has them.
///
/// The slots of a cell were given in the order in which threads came. Here the particle of the lowest number
/// comes first: the k-th place of a cell takes the number that has k lower ones in it.
#[expect(
    clippy::too_many_arguments,
    reason = "the particles are a part of an array, which only the device knows"
)]
#[kernel(block = BLOCK)]
pub fn particles_sort(
    index: ThreadIndex,
    range: &[u32],
    slots: &[Vec2<u32>],
    starts: &[u32],
    order: &[u32],
    position: &[Vector],
    velocity: &[Vector],
    mut sorted_position: DisjointSlice<Vector>,
    mut sorted_velocity: DisjointSlice<Vector>,
) {
    let (place, (start, _)) = (index.get(), span(range, position.len()));
    if place >= counted(starts) {
        return;
    }
    let (Some(to), Some(speed)) = (sorted_position.get_mut(index), sorted_velocity.get_mut(index))
    else {
        return;
    };
    let cell = slots[order[place] as usize].x as usize;
    let first = starts[cell] as usize;
    let members = &order[first..starts[cell + 1] as usize];
    let mut from = order[place] as usize;
    for &candidate in members {
        let lower = members.iter().filter(|&&other| other < candidate).count();
        if first + lower == place {
            from = candidate as usize;
        }
    }
    *to = position[start + from];
    *speed = velocity[start + from];
}

/// Takes a step of the leapfrog: the forces change the speeds, the new speeds change the places.
///
/// `position: [most]`, `velocity: [most]` as sorted, half a step behind the places; `starts: [cells + 1]`. The fourth
/// value of `moved_velocity` becomes the particle's energy before the step, at the speed of that moment: kinetic,
/// in the field of gravity, in the walls, and half of that in its contacts. `starts` are those of the slab's cells; particles
/// in its outermost layers lack the neighbours that lie beyond.
#[kernel(block = BLOCK)]
pub fn particles_move(
    index: ThreadIndex,
    world: World,
    slab: Layers,
    starts: &[u32],
    position: &[Vector],
    velocity: &[Vector],
    mut moved_position: DisjointSlice<Vector>,
    mut moved_velocity: DisjointSlice<Vector>,
) {
    let i = index.get();
    if i >= counted(starts) {
        return;
    }
    let (Some(new_position), Some(new_velocity)) =
        (moved_position.get_mut(index), moved_velocity.get_mut(index))
    else {
        return;
    };
    let (place, speed) = (vector(position[i]), vector(velocity[i]));

    let mut push = Push { force: [0.0, -world.gravity, 0.0], energy: 0.0 };
    let [x, y, z] = world.cell_at(place);
    let z = slab.nearest(z);
    for z in z.saturating_sub(1).max(slab.first)..(z + 2).min(slab.end) {
        for y in y.saturating_sub(1)..(y + 2).min(world.cells[1]) {
            // Three cells in a row along x are one run of particles.
            let first = starts[world.number(slab, [x.saturating_sub(1), y, z])] as usize;
            let last = world.number(slab, [(x + 1).min(world.cells[0] - 1), y, z]);
            let end = starts[last + 1] as usize;
            for (place_of, speed_of) in position[first..end].iter().zip(&velocity[first..end]) {
                let leaving = minus(speed, vector(*speed_of));
                push.add_contact(&world, minus(place, vector(*place_of)), leaving);
            }
        }
    }
    push.add_walls(&world, place, speed);

    let halfway = plus(speed, 0.5 * world.time_step, push.force);
    let energy = 0.5 * dot(halfway, halfway) + world.gravity * place[1] + push.energy;
    let [vx, vy, vz] = plus(speed, world.time_step, push.force);
    let [x, y, z] = plus(place, world.time_step, [vx, vy, vz]);
    *new_position = Vec4::new(x, y, z, position[i].w);
    *new_velocity = Vec4::new(vx, vy, vz, energy);
}

/// The energies that [`particles_move`](fn@particles_move) found, on their own: `energy: [n]`.
#[kernel(block = BLOCK)]
pub fn particles_energy(index: ThreadIndex, velocity: &[Vector], mut energy: DisjointSlice<f32>) {
    let i = index.get();
    if let Some(energy) = energy.get_mut(index) {
        *energy = velocity[i].w;
    }
}

/// That a slab needs a particle, as a number: with the largest first, routes are those to the first slab first, and of a slab in
/// the order of the particles; 0 is none, and the last.
#[inline(always)]
#[must_use]
pub const fn route(slab: usize, particle: usize, index_bits: u32) -> u64 {
    !((slab as u64) << index_bits | particle as u64)
}

/// The particle of a route.
#[inline(always)]
const fn particle_of(route: u64, index_bits: u32) -> usize {
    (!route & !(u64::MAX << index_bits)) as usize
}

/// Lists which particles other slabs need: those that are in one, or in a layer beside it.
///
/// `bounds: [slabs + 1]` are the layers where slabs begin, from 0 to all; `own` is the slab that the particles were in a step ago.
/// Of `position` those from `range[0]` on and before `range[1]` are its own. `counts: [slabs + 1]`, 0 before, becomes how
/// many each slab needs, and their sum. `routes`, 0 before, gets a [`route`] for each of them, in any order; those for which it is
/// too short are counted all the same. An index of a particle has at most `index_bits` bits.
#[expect(clippy::too_many_arguments, reason = "particles, slabs, and what each of them needs")]
#[kernel(block = BLOCK)]
pub fn particles_route(
    index: ThreadIndex,
    world: World,
    index_bits: u32,
    own: u32,
    bounds: &[u32],
    range: &[u32],
    position: &[Vector],
    counts: AtomicSlice<u32>,
    routes: AtomicSlice<u64>,
) {
    let (first, n) = span(range, position.len());
    if index.get() >= n {
        return;
    }
    let i = first + index.get();
    let [_, _, layer] = world.cell_at(vector(position[i]));
    let (slabs, own) = (bounds.len().saturating_sub(1), own as usize);
    // Most are inside of their slab, where no other one needs them.
    if layer > bounds[own] && layer + 1 < bounds[own + 1] {
        return;
    }
    for slab in 0..slabs {
        let (begin, end) = (bounds[slab], bounds[slab + 1]);
        if slab == own || begin >= end || layer + 1 < begin || layer > end {
            continue;
        }
        // One lane counts for all of its warp that are here: counts are two words, and atomics on a word wait for one another.
        let lanes = Coalesced::current().partition(slab as u32);
        let place = lanes.claim(|n| {
            counts.fetch_add(slab, n, Relaxed);
            counts.fetch_add(slabs, n, Relaxed)
        }) as usize;
        if place < routes.len() {
            routes.store(place, route(slab, i, index_bits), Relaxed);
        }
    }
}

/// Where messages lie, one after the other: that of slab `s` has the slots from `ends[s]` on and before `ends[s + 1]`, the first of
/// which is its header, a position whose x has the bits of the number of particles.
#[derive(Clone, Copy)]
struct Messages<'a> {
    ends: &'a [u32],
}

impl Messages<'_> {
    fn slabs(self) -> usize {
        self.ends.len().saturating_sub(1)
    }

    fn header(self, slab: usize) -> usize {
        self.ends[slab] as usize
    }

    /// The most particles of a message.
    fn room(self, slab: usize) -> u32 {
        (self.ends[slab + 1] - self.ends[slab]).saturating_sub(1)
    }
}

/// Writes the messages to other slabs: `taken_position` and `taken_velocity: [slots of all messages]`, slots as `ends: [slabs + 1]`
/// says (see [`particles_join`](fn@particles_join)). `routes` and `counts` are as [`particles_route`](fn@particles_route) left them, sorted, and `position`
/// and `velocity` those that the routes name.
///
/// A header has the number of particles for that slab even if it is more than the message has room for; then the last ones are missing. The
/// greatest number for each slab since it was 0 is kept in `most: [slabs + 1]`.
#[expect(clippy::too_many_arguments, reason = "routes, what they name, and messages")]
#[kernel(block = BLOCK)]
pub fn particles_take(
    index: ThreadIndex,
    index_bits: u32,
    routes: &[u64],
    counts: &[u32],
    ends: &[u32],
    position: &[Vector],
    velocity: &[Vector],
    most: AtomicSlice<u32>,
    mut taken_position: DisjointSlice<Vector>,
    mut taken_velocity: DisjointSlice<Vector>,
) {
    let (slot, messages) = (index.get(), Messages { ends });
    let (Some(to), Some(speed)) = (taken_position.get_mut(index), taken_velocity.get_mut(index))
    else {
        return;
    };
    let (mut slab, mut before) = (0, 0);
    while slab < messages.slabs() && slot >= ends[slab + 1] as usize {
        before += counts[slab] as usize;
        slab += 1;
    }
    if slab == messages.slabs() {
        return;
    }
    let own = slot - messages.header(slab);
    if own == 0 {
        *to = Vec4::new(f32::from_bits(counts[slab]), 0.0, 0.0, 0.0);
        most.fetch_max(slab, counts[slab], Relaxed);
    } else if own <= counts[slab] as usize
        && let Some(&route) = routes.get(before + own - 1)
    {
        let from = particle_of(route, index_bits);
        *to = position[from];
        *speed = velocity[from];
    }
}

/// Puts the particles of messages beside a slab's own: those from slabs before it in front of them, and those from slabs after it behind
/// them, each in the order of the sender.
///
/// `received_position` and `received_velocity` hold the messages, of which that of slab `s` has the slots from `ends[s]` on and
/// before `ends[s + 1]`, `ends: [slabs + 1]`; slab `slab` is this one. The slab's own particles are those from `place + own[0]` on and before
/// `place + own[1]` of `position` and `velocity`. `range: [2]` becomes where all of them together begin and end. They are
/// as many as `limit` at most, and as there is room for; the last ones are left out if they are more. How many they are is kept in
/// the last word of `most: [slabs + 1]`, if it is the greatest number since that was 0.
///
/// The launch has a thread for each slot.
#[expect(clippy::too_many_arguments, reason = "messages, the own particles, and both together")]
#[kernel(block = BLOCK)]
pub fn particles_join(
    index: ThreadIndex,
    slab: u32,
    limit: u32,
    place: u32,
    ends: &[u32],
    own: &[u32],
    received_position: &[Vector],
    received_velocity: &[Vector],
    range: AtomicSlice<u32>,
    most: AtomicSlice<u32>,
    mut position: DisjointSlice<Vector>,
    mut velocity: DisjointSlice<Vector>,
) {
    let (messages, this) = (Messages { ends }, slab as usize);
    let count = |from: usize| {
        let counted = received_position[messages.header(from)].x.to_bits();
        if from == this { 0 } else { counted.min(messages.room(from)) as usize }
    };
    let slabs = messages.slabs();
    let (mut before, mut after) = (0, 0);
    for from in 0..slabs {
        *(if from < this { &mut before } else { &mut after }) += count(from);
    }
    let (place, room) = (place as usize, position.len().min(velocity.len()));
    let (first, end) = (place + own[0] as usize, (place + own[1] as usize).min(room));
    let (n, begin) = (before + end.saturating_sub(first) + after, first.saturating_sub(before));
    let t = index.get();
    if t == 0 {
        range.store(0, begin as u32, Relaxed);
        range.store(1, (begin + n.min(limit as usize)).min(room) as u32, Relaxed);
        most.fetch_max(slabs, n as u32, Relaxed);
    }
    // The message in which the particle `t` of all that came is, and its number there.
    let (mut from, mut number) = (0, t);
    while from < slabs && number >= count(from) {
        number -= count(from);
        from += 1;
    }
    let to = if t < before { begin + t } else { end + (t - before) };
    if from == slabs || first > end || first < before || to >= room {
        return;
    }
    let slot = messages.header(from) + 1 + number;
    // SAFETY: 1. the arrays are reached in no other way; 2. `begin + t`, below `first` as `begin + before == first`, and
    // `end + t - before`, at least `end >= first`, differ for different `t`; 3. each is written at once; 4. `to < room`.
    unsafe {
        *position.get_unchecked_mut(to) = received_position[slot];
        *velocity.get_unchecked_mut(to) = received_velocity[slot];
    }
}
