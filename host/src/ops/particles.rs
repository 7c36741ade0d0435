//! Particles in a box: the simulation of the kernels of the same name.

use std::borrow::Cow;
use std::sync::Arc;

use cuda_std::vector::{Vec2, Vec4};
use kernels_gpu::particles as kernels;
pub use kernels_gpu::particles::World;

use super::{Scratch, reduce, scan};
use crate::error::{GpuError, GpuResult};
use crate::graph::{Graph, GraphBuffers, GraphMemory};
use crate::graph_buffers;
use crate::memory::resource::{DeviceMemoryResource, SynchronousMemory};
use crate::memory::{DeviceBuffer, DeviceSlice, DeviceSliceMut, MappedBuffer, UnifiedBuffer};
use crate::stream::{AsStream, Stream};

/// A vector with a fourth value.
type Vector = Vec4<f32>;

/// A particle as the host sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Particle {
    /// Its name, which it keeps: its index in the list that the simulation began with.
    pub name: u32,
    /// Position, in particle diameters.
    pub position: [f32; 3],
    /// Velocity half a step before the position.
    pub velocity: [f32; 3],
}

/// Particles, and the memory that a step needs.
///
/// Two runs from the same start have the same bits, whatever device they run on: sums are added in an order
/// that only the particles decide.
pub struct Particles {
    stream: Stream,
    world: World,
    steps: Steps,
    energies: DeviceBuffer<f32>,
    energy: DeviceBuffer<f32>,
    sums: Scratch,
}

/// How steps are launched.
enum Steps {
    /// Kernel by kernel.
    Launched(Box<State>),
    /// As one graph, which has the memory.
    Replayed(Box<Graph<Box<State>>>),
}

/// The particles, and the buffers of a step.
struct State {
    position: Vectors,
    velocity: Vectors,
    sorted_position: DeviceBuffer<Vector>,
    sorted_velocity: DeviceBuffer<Vector>,
    slots: DeviceBuffer<Vec2<u32>>,
    order: DeviceBuffer<u32>,
    counts: DeviceBuffer<u32>,
    starts: DeviceBuffer<u32>,
    scan: Scratch,
}

graph_buffers!(State {
    position,
    velocity,
    sorted_position,
    sorted_velocity,
    slots,
    order,
    counts,
    starts,
    scan,
});

/// Positions or velocities, in memory that the host may read.
enum Vectors {
    Device(DeviceBuffer<Vector>),
    Mapped(MappedBuffer<Vector>),
    Unified(UnifiedBuffer<Vector>),
}

impl Vectors {
    fn read(&self) -> DeviceSlice<'_, Vector> {
        match self {
            Self::Device(buffer) => buffer.as_slice(),
            Self::Mapped(buffer) => buffer.as_device_slice(),
            Self::Unified(buffer) => buffer.as_device_slice(),
        }
    }

    fn write(&mut self) -> DeviceSliceMut<'_, Vector> {
        match self {
            Self::Device(buffer) => buffer.as_mut_slice(),
            Self::Mapped(buffer) => buffer.as_device_slice_mut(),
            Self::Unified(buffer) => buffer.as_device_slice_mut(),
        }
    }

    /// The values on the host: a copy, or where they are.
    fn on_host(&self) -> GpuResult<Cow<'_, [Vector]>> {
        match self {
            Self::Device(buffer) => buffer.to_vec().map(Cow::Owned),
            Self::Mapped(buffer) => buffer.as_slice().map(Cow::Borrowed),
            Self::Unified(buffer) => buffer.as_slice().map(Cow::Borrowed),
        }
    }
}

// SAFETY: the buffer is the value's own.
unsafe impl GraphBuffers for Vectors {
    fn visit(&self, memory: &mut GraphMemory) {
        match self {
            Self::Device(buffer) => buffer.visit(memory),
            Self::Mapped(buffer) => buffer.visit(memory),
            Self::Unified(buffer) => buffer.visit(memory),
        }
    }
}

impl Particles {
    /// Particles at `positions`, in diameters, and at rest half a step before: at most 2^32 - 1.
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) for a box without cells or with more than 2^31, or for too
    /// many particles; errors of the driver.
    pub fn new(on: &impl AsStream, world: World, positions: &[[f32; 3]]) -> GpuResult<Self> {
        Self::new_in(&Arc::new(SynchronousMemory), on, world, positions)
    }

    /// As [`new`](Self::new), in memory of a resource.
    ///
    /// # Errors
    /// As [`new`](Self::new), and errors of the resource.
    pub fn new_in<R: DeviceMemoryResource + 'static>(
        memory: &Arc<R>,
        on: &impl AsStream,
        world: World,
        positions: &[[f32; 3]],
    ) -> GpuResult<Self> {
        Self::with_vectors(memory, on, world, positions, |values| {
            DeviceBuffer::from_slice_in(memory, on, values).map(Vectors::Device)
        })
    }

    /// As [`new`](Self::new), with positions and velocities in unified memory, which the host reads without a copy.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn unified(on: &impl AsStream, world: World, positions: &[[f32; 3]]) -> GpuResult<Self> {
        Self::unified_in(&Arc::new(SynchronousMemory), on, world, positions)
    }

    /// As [`unified`](Self::unified), with all that the host does not read in memory of a resource.
    ///
    /// # Errors
    /// As [`unified`](Self::unified), and errors of the resource.
    pub fn unified_in<R: DeviceMemoryResource + 'static>(
        memory: &Arc<R>,
        on: &impl AsStream,
        world: World,
        positions: &[[f32; 3]],
    ) -> GpuResult<Self> {
        Self::with_vectors(memory, on, world, positions, |values| {
            UnifiedBuffer::from_slice(on, values).map(Vectors::Unified)
        })
    }

    /// As [`new`](Self::new), with positions and velocities in the host's memory, which kernels use over the bus and the host reads
    /// without a copy.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn mapped(on: &impl AsStream, world: World, positions: &[[f32; 3]]) -> GpuResult<Self> {
        Self::with_vectors(&Arc::new(SynchronousMemory), on, world, positions, |values| {
            MappedBuffer::from_slice(on, values).map(Vectors::Mapped)
        })
    }

    fn with_vectors<R: DeviceMemoryResource + 'static>(
        memory: &Arc<R>,
        on: &impl AsStream,
        world: World,
        positions: &[[f32; 3]],
        vectors: impl Fn(&[Vector]) -> GpuResult<Vectors>,
    ) -> GpuResult<Self> {
        check(&world, positions.len())?;
        let (n, n_counts) = (positions.len(), world.n_cells() + 1);
        let named = |(name, &[x, y, z]): (usize, &[f32; 3])| {
            Vec4::new(x, y, z, f32::from_bits(name as u32))
        };
        let mut scan = Scratch::new(on)?;
        scan.reserve(on, scan::scratch_bytes::<u32, scan::Sum>(n_counts))?;
        let position: Vec<Vector> = positions.iter().enumerate().map(named).collect();
        let state = State {
            position: vectors(&position)?,
            velocity: vectors(&vec![Vector::splat(0.0); n])?,
            sorted_position: DeviceBuffer::zeroed_in(memory, on, n)?,
            sorted_velocity: DeviceBuffer::zeroed_in(memory, on, n)?,
            slots: DeviceBuffer::zeroed_in(memory, on, n)?,
            order: DeviceBuffer::zeroed_in(memory, on, n)?,
            counts: DeviceBuffer::zeroed_in(memory, on, n_counts)?,
            starts: DeviceBuffer::zeroed_in(memory, on, n_counts)?,
            scan,
        };
        let energies = DeviceBuffer::zeroed_in(memory, on, n)?;
        let (energy, sums) = (DeviceBuffer::zeroed(on, 1)?, Scratch::new(on)?);
        let steps = Steps::Launched(Box::new(state));
        Ok(Self { stream: on.as_stream().clone(), world, steps, energies, energy, sums })
    }

    /// The same particles, whose steps are replays of one graph from now on.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn replayed(mut self) -> GpuResult<Self> {
        if let Steps::Launched(mut state) = self.steps {
            let world = self.world;
            let graph = self.stream.capture(|stream| state.step(stream, world))?;
            self.steps = Steps::Replayed(Box::new(graph.build(state)?));
        }
        Ok(self)
    }

    fn state(&self) -> &State {
        match &self.steps {
            Steps::Launched(state) => state,
            Steps::Replayed(graph) => graph.buffers(),
        }
    }

    /// A block of `n` particles in the corner of a box four times as wide, as water behind a dam: the box that fits
    /// around it, and the positions.
    #[must_use]
    pub fn dam(n: usize) -> ([u32; 3], Vec<[f32; 3]>) {
        // Twice as high as wide and deep, rounded up.
        let side = ((n as f64 / 2.0).cbrt().ceil() as usize).max(1);
        let height = n.div_ceil(side * side).max(1);
        let place = |i: usize| {
            let (x, z, y) = (i % side, i / side % side, i / (side * side));
            // A perfect stack would stand for ever.
            let [dx, dy, dz] = [3 * i, 3 * i + 1, 3 * i + 2].map(|word| 0.1 * noise(word as u32));
            [x as f32 + 0.55 + dx, y as f32 + 0.55 + dy, z as f32 + 0.55 + dz]
        };
        let cells = [4 * side + 1, height + height / 2 + 1, side + 1].map(|cells| cells as u32);
        (cells, (0..n).map(place).collect())
    }

    /// The number of particles.
    #[must_use]
    pub fn len(&self) -> usize {
        self.energies.len()
    }

    /// Whether there are no particles.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.energies.is_empty()
    }

    /// The box and its law.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.world
    }

    /// Positions `[n]` and velocities `[n]` on the device: x, y, z, and the bits of the name or the energy.
    #[must_use]
    pub fn vectors(&self) -> (DeviceSlice<'_, Vector>, DeviceSlice<'_, Vector>) {
        (self.state().position.read(), self.state().velocity.read())
    }

    /// The positions on the host, as [`vectors`](Self::vectors) has them: a copy, or where they are if the host reaches that. Waits
    /// for them.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn positions(&self) -> GpuResult<Cow<'_, [Vec4<f32>]>> {
        self.state().position.on_host()
    }

    /// Enqueues a step.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn step(&mut self) -> GpuResult<()> {
        match &mut self.steps {
            Steps::Launched(state) => state.step(&self.stream, self.world),
            Steps::Replayed(graph) => graph.launch(&self.stream),
        }
    }

    /// The energy at the moment before the last step: of motion, in the field of gravity, in contacts and walls.
    /// Waits for it.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn energy(&mut self) -> GpuResult<f32> {
        let state = match &self.steps {
            Steps::Launched(state) => state,
            Steps::Replayed(graph) => graph.buffers(),
        };
        let config = kernels::particles_energy::grid_for(self.energies.len());
        let velocity = state.velocity.read();
        kernels::particles_energy::launch(&self.stream, config, &velocity, &mut self.energies)?;
        reduce::sum_into(&self.stream, &self.energies, &mut self.energy, &mut self.sums)?;
        let mut energy = [0.0];
        self.energy.copy_to_host(&mut energy)?;
        Ok(energy[0])
    }

    /// The particles, in the order of their names. Waits for them.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn to_vec(&self) -> GpuResult<Vec<Particle>> {
        let State { position, velocity, .. } = self.state();
        let (position, velocity) = (position.on_host()?, velocity.on_host()?);
        let particle = |(p, v): (&Vector, &Vector)| Particle {
            name: p.w.to_bits(),
            position: [p.x, p.y, p.z],
            velocity: [v.x, v.y, v.z],
        };
        let mut particles: Vec<Particle> =
            position.iter().zip(velocity.iter()).map(particle).collect();
        particles.sort_by_key(|particle| particle.name);
        Ok(particles)
    }
}

impl State {
    fn step(&mut self, on: &Stream, world: World) -> GpuResult<()> {
        self.sort(on, world)?;
        kernels::particles_move::launch(
            on,
            kernels::particles_move::grid_for(self.sorted_position.len()),
            world,
            world.layers(),
            &self.starts,
            &self.sorted_position,
            &self.sorted_velocity,
            &mut self.position.write(),
            &mut self.velocity.write(),
        )
    }

    /// Particles of a cell next to one another: `sorted_…` and `starts`.
    fn sort(&mut self, on: &Stream, world: World) -> GpuResult<()> {
        let config = kernels::particles_bin::grid_for(self.sorted_position.len());
        let (position, velocity) = (self.position.read(), self.velocity.read());
        let (counts, slots) = (&mut self.counts, &mut self.slots);
        counts.clear()?;
        let (layers, all) = (world.layers(), &self.starts.slice(..0));
        kernels::particles_bin::launch(on, config, world, layers, all, &position, counts, slots)?;
        scan::exclusive_into(on, &self.counts, &mut self.starts, &mut self.scan)?;
        kernels::particles_order::launch(on, config, &self.slots, &self.starts, &mut self.order)?;
        kernels::particles_sort::launch(
            on,
            config,
            &self.starts.slice(..0),
            &self.slots,
            &self.starts,
            &self.order,
            &position,
            &velocity,
            &mut self.sorted_position,
            &mut self.sorted_velocity,
        )
    }
}

/// A number from -0.5 to 0.5 for each word, the same in every run (T. Mueller's integer hash).
fn noise(word: u32) -> f32 {
    let mixed = |x: u32| (x ^ (x >> 16)).wrapping_mul(0x045d_9f3b);
    let hash = mixed(mixed(word.wrapping_add(1)));
    ((hash ^ (hash >> 16)) >> 8) as f32 / (1 << 24) as f32 - 0.5
}

/// What the kernels' indices can hold.
fn check(world: &World, n: usize) -> GpuResult<()> {
    let operation = "particles in a box";
    let cells = world.cells.iter().map(|&cells| u64::from(cells)).try_fold(1, u64::checked_mul);
    if !cells.is_some_and(|cells| (1..=1 << 31).contains(&cells)) {
        let reason = "the box must have 1 to 2^31 cells".to_owned();
        return Err(GpuError::InvalidArgument { operation, reason });
    }
    if u32::try_from(n).is_err() {
        let reason = format!("{n} particles are more than 2^32 - 1");
        return Err(GpuError::InvalidArgument { operation, reason });
    }
    Ok(())
}
