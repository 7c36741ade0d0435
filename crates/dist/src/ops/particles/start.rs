//! How particles come to the ranks at first.

use cuda_std::vector::Vec4;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::particles::Particle;

use super::arrays::{Arrays, Placed, Vector};
use super::{Cells, GpuError, OPERATION, Room, Routes, SlabParticles, World};
use crate::communicator::Communicator;
use crate::error::DistResult;
use crate::ops::shares::Shares;

impl SlabParticles {
    /// Particles of which this rank has these; the first step brings each to the rank whose slab it is in. `slabs` divides the
    /// layers of the box, `world.cells[2]`, among the ranks. All ranks call it.
    ///
    /// Names should differ. Results have the bits of one device if that begins with all ranks' particles in the order of the ranks.
    ///
    /// # Errors
    /// [`Length`](crate::DistError::Length) if there is not a share for each rank, or they are not the layers together;
    /// [`GpuError::InvalidArgument`] for a box without cells, a slab of more than 2^31, or too many particles; out of
    /// memory.
    pub fn from_local(
        ranks: &Communicator,
        world: World,
        slabs: &Shares,
        particles: &[Particle],
    ) -> DistResult<Self> {
        let position = |p: &Particle| of(p.position, f32::from_bits(p.name));
        let positions: Vec<_> = particles.iter().map(position).collect();
        let velocities: Vec<_> = particles.iter().map(|p| of(p.velocity, 0.0)).collect();
        let on = ranks.gpu().stream();
        ranks.attempt(|| {
            let position = DeviceBuffer::from_slice(on, &positions)?;
            let velocity = DeviceBuffer::from_slice(on, &velocities)?;
            Self::of_arrays(ranks, world, slabs, &Arrays { position, velocity })
        })
    }

    /// Particles at rest at `positions`, which rank 0 has, and whose names are their indices there. What other ranks give is not
    /// used. All ranks call it.
    ///
    /// # Errors
    /// As [`from_local`](Self::from_local); what a [scatter](Communicator::scatter_uneven) returns.
    pub fn scatter(
        ranks: &Communicator,
        world: World,
        slabs: &Shares,
        positions: Option<&[[f32; 3]]>,
    ) -> DistResult<Self> {
        ranks.attempt(|| {
            check(ranks, world, slabs, 0)?;
            let (on, is_root) = (ranks.gpu().stream(), ranks.rank() == 0);
            let positions = positions.filter(|_| is_root).unwrap_or_default();
            let parts = divide(world, slabs, positions);
            let lens: Vec<u64> = parts.iter().map(|part| part.len() as u64).collect();
            let mut shares = DeviceBuffer::from_slice(on, &lens)?;
            ranks.broadcast(on, &mut shares, 0)?;
            ranks.synchronize(on)?;
            let shares: Vec<usize> = shares.to_vec()?.into_iter().map(|len| len as usize).collect();
            let all = DeviceBuffer::from_slice(on, &parts.concat())?;
            let mut own = Arrays::zeroed(on, shares[ranks.rank() as usize])?;
            let from = if is_root { Some(&all as _) } else { None };
            ranks.scatter_uneven(on, from, &mut own.position, &shares, 0)?;
            Self::of_arrays(ranks, world, slabs, &own)
        })
    }

    fn of_arrays(
        ranks: &Communicator,
        world: World,
        slabs: &Shares,
        own: &Arrays,
    ) -> DistResult<Self> {
        let n = own.len();
        check(ranks, world, slabs, n)?;
        let on = ranks.gpu().stream();
        let room = Room::alone(ranks.rank(), ranks.size(), n);
        let mut now = Placed::empty(on, &room)?;
        now.arrays.copy_from(now.place, own, 0..n)?;
        now.own.copy_from_host(&[0, n as u32])?;
        Ok(Self {
            world,
            now,
            next: Placed::empty(on, &Room::alone(ranks.rank(), ranks.size(), 0))?,
            room: None,
            routes: Routes::new(on, slabs, &room, ranks.rank())?,
            cells: Cells::new(on, world, slabs.range(ranks.rank()))?,
            ranks: ranks.clone(),
            slabs: slabs.clone(),
        })
    }
}

fn of([x, y, z]: [f32; 3], w: f32) -> Vector {
    Vec4::new(x, y, z, w)
}

/// The particles of each rank's slab, in their order.
fn divide(world: World, slabs: &Shares, positions: &[[f32; 3]]) -> Vec<Vec<Vector>> {
    let mut parts = vec![Vec::new(); slabs.ranks() as usize];
    for (name, position) in positions.iter().enumerate() {
        // A cast rounds towards 0 and keeps to the integer's range. Who is outside of the box is in the nearest layer.
        let layer = (position[2] as i32).clamp(0, world.cells[2] as i32 - 1);
        let rank = slabs.rank_of(layer as usize);
        parts[rank as usize].push(of(*position, f32::from_bits(name as u32)));
    }
    parts
}

/// That the slabs are those of the box, and that the kernels' indices hold them and `n` particles.
fn check(ranks: &Communicator, world: World, slabs: &Shares, n: usize) -> DistResult<()> {
    slabs.check_total(ranks, OPERATION, world.cells[2] as usize)?;
    let operation = OPERATION;
    let [across, up, _] = world.cells.map(u64::from);
    let thickest = slabs.longest() as u64 + 2;
    let cells = [up, thickest].into_iter().try_fold(across, u64::checked_mul);
    if across * up == 0 || slabs.total() == 0 || cells.is_none_or(|cells| cells > 1 << 31) {
        let reason = "the box must have cells, and a slab with the layers beside it 2^31 at most";
        let reason = reason.to_owned();
        return Err(GpuError::InvalidArgument { operation, reason }.into());
    }
    if u32::try_from(n).is_err() {
        let reason = format!("{n} particles of a rank are more than 2^32 - 1");
        return Err(GpuError::InvalidArgument { operation, reason }.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn particles_are_divided_by_layers_in_their_order() {
        let law = [2000.0, 0.0, 1.0, 0.004];
        let [stiffness, damping, gravity, time_step] = law;
        let world = World { cells: [2, 2, 5], stiffness, damping, gravity, time_step };
        let along = [4.9, 0.0, 2.5, -3.0, 9.0, 1.99, f32::NAN].map(|z| [0.5, 0.5, z]);
        let parts = divide(world, &Shares::given(vec![2, 0, 3]), &along);
        let names = |part: &Vec<Vector>| part.iter().map(|p| p.w.to_bits()).collect::<Vec<_>>();
        assert_eq!(
            parts.iter().map(names).collect::<Vec<_>>(),
            [vec![1, 3, 5, 6], vec![], vec![0, 2, 4]]
        );
    }
}
