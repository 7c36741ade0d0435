//! What a graph is given: the memory that its nodes use.

use std::sync::Arc;

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, RawSlice};

use super::host_buffer::HostBuffer;
use super::order::Range;
use crate::memory::{
    DeviceBox, DeviceBuffer, DeviceSlice, DeviceSliceMut, DeviceVec, MappedBuffer, UnifiedBox,
    UnifiedBuffer,
};
use crate::stream::StreamInner;

/// Memory that a graph can have: buffers and boxes, tuples, arrays and vectors of them, and structs
/// by [`graph_buffers!`](crate::graph_buffers).
///
/// A graph that has a buffer itself, or a `&mut` of it, may write it. One that has an `Arc` or a `&`
/// reads it, as others may at the same time: weights that several graphs use are an example.
///
/// # Safety
/// `visit` visits, in one fixed order, memory that is reached only through `self`, except what it
/// visits inside of [`GraphMemory::shared`], which no code writes while `self` lives.
#[diagnostic::on_unimplemented(
    message = "a graph cannot have `{Self}`",
    label = "expected buffers of the device",
    note = "give it buffers, boxes or slices, or tuples, arrays and vectors of them",
    note = "a struct of buffers needs `graph_buffers!(Struct {{ its, fields }});`"
)]
pub unsafe trait GraphBuffers {
    /// Shows all memory to `memory`.
    fn visit(&self, memory: &mut GraphMemory);
}

/// The memory that a graph has, as [`GraphBuffers::visit`] shows it.
#[derive(Debug, Default)]
pub struct GraphMemory {
    regions: Vec<Region>,
    is_shared: bool,
    is_scratch: bool,
}

/// Memory that a graph has.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) range: Range,
    pub(super) is_shared: bool,
    /// Whether no other code sees what is in it: see [`Scratch`].
    pub(super) is_scratch: bool,
    pub(super) kind: RegionKind,
    home: Option<Arc<StreamInner>>,
}

/// What memory is, for the choice of what reads and writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RegionKind {
    /// A whole allocation on the device, aligned to 256 bytes.
    Buffer,
    /// A part of one.
    Slice,
    /// The host's, or memory that moves.
    Host,
}

impl GraphMemory {
    /// What `visit` shows is shared: other code may read it too, and none writes it.
    pub fn shared(&mut self, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.is_shared, true);
        visit(self);
        self.is_shared = before;
    }

    /// Nothing but the graph sees what is in the memory that `visit` shows.
    fn scratch(&mut self, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.is_scratch, true);
        visit(self);
        self.is_scratch = before;
    }

    /// All memory of `buffers`.
    pub(super) fn of(buffers: &impl GraphBuffers) -> Vec<Region> {
        let mut memory = Self::default();
        buffers.visit(&mut memory);
        memory.regions
    }

    fn add<T>(&mut self, raw: RawSlice<'_>, kind: RegionKind) {
        let RawSlice { address, len, home } = raw;
        let range = Range::new(address, len * size_of::<T>());
        let home = home.and_then(|home| home.keep().downcast().ok());
        let is_shared = self.is_shared;
        let is_scratch = self.is_scratch && !is_shared;
        self.regions.push(Region { range, is_shared, is_scratch, kind, home });
    }
}

/// All memory of a batch of launches.
pub(crate) struct Memory(Vec<Region>);

impl Memory {
    /// What `buffers` show.
    pub(crate) fn of(buffers: &impl GraphBuffers) -> Self {
        Self(GraphMemory::of(buffers))
    }

    /// Whether `bytes` bytes at `address` are part of it, to be written too if a launch `writes` them.
    pub(crate) fn allows(&self, address: u64, bytes: usize, writes: bool) -> bool {
        let range = Range::new(address, bytes);
        let holds = |region: &Region| region.range.holds(&range) && !(writes && region.is_shared);
        self.0.iter().any(holds)
    }
}

/// The streams that order the uses of memory, each once.
pub(super) fn homes(regions: &[Region]) -> Vec<Arc<StreamInner>> {
    let mut homes: Vec<Arc<StreamInner>> = Vec::new();
    for home in regions.iter().filter_map(|region| region.home.as_ref()) {
        if homes.iter().all(|known| !Arc::ptr_eq(known, home)) {
            homes.push(home.clone());
        }
    }
    homes
}

/// Types that show their memory to whoever reads it.
macro_rules! memory {
    ($kind:ident: $($type:ty),*) => {$(
        // SAFETY: the memory is the value's own, or borrowed as it says.
        unsafe impl<T: Pod> GraphBuffers for $type {
            fn visit(&self, memory: &mut GraphMemory) {
                memory.add::<T>(DeviceRead::<T>::raw(self), RegionKind::$kind);
            }
        }
    )*};
}

memory!(Buffer: DeviceBuffer<T>, DeviceVec<T>, DeviceBox<T>);
memory!(Slice: DeviceSliceMut<'_, T>);
memory!(Host: MappedBuffer<T>, UnifiedBuffer<T>, UnifiedBox<T>, HostBuffer<T>);

/// Memory for intermediate results: what is in it between launches of the graph is unspecified. So
/// [`optimize`](super::GraphBuilder::optimize) may leave out nodes that write it.
///
/// ```no_run
/// use ferrowarp::graph::{GraphBuilder, Scratch};
/// use ferrowarp::{DeviceBuffer, Gpu, ops};
///
/// let gpu = Gpu::new()?;
/// let x = DeviceBuffer::from_slice(&gpu, &[1.0f32, -2.0])?;
/// let [mut half, mut out] = [DeviceBuffer::zeroed(&gpu, 2)?, DeviceBuffer::zeroed(&gpu, 2)?];
/// let builder = GraphBuilder::new(&gpu);
/// builder.capture(|| {
///     ops::map::negate::<f32>(&gpu, &x, &mut half)?;
///     ops::map::abs::<f32>(&gpu, &half, &mut out)
/// })?;
/// let (mut graph, changes) = builder.optimize((x, Scratch::new(half), out))?;
/// assert_eq!((graph.len(), changes.len()), (1, 1)); // one kernel does both
/// graph.launch(&gpu)?;
/// assert_eq!(graph.wait()?.2.to_vec()?, [1.0, 2.0]);
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
#[derive(Debug)]
pub struct Scratch<B>(B);

impl<B> Scratch<B> {
    /// `buffers`, of which nothing but the graph's nodes uses the contents.
    pub fn new(buffers: B) -> Self {
        Self(buffers)
    }

    /// The buffers. What is in them is unspecified, but initialised.
    #[must_use]
    pub fn into_inner(self) -> B {
        self.0
    }
}

// SAFETY: what it holds is its own.
unsafe impl<B: GraphBuffers> GraphBuffers for Scratch<B> {
    fn visit(&self, memory: &mut GraphMemory) {
        memory.scratch(|memory| self.0.visit(memory));
    }
}

// SAFETY: the memory is borrowed, so that nobody writes it.
unsafe impl<T: Pod> GraphBuffers for DeviceSlice<'_, T> {
    fn visit(&self, memory: &mut GraphMemory) {
        memory.shared(|memory| memory.add::<T>(self.raw(), RegionKind::Slice));
    }
}

// SAFETY: the buffers are borrowed, so that nobody writes them.
unsafe impl<B: GraphBuffers + ?Sized> GraphBuffers for &B {
    fn visit(&self, memory: &mut GraphMemory) {
        memory.shared(|memory| (**self).visit(memory));
    }
}

// SAFETY: only who has all of it can write what is in an `Arc`.
unsafe impl<B: GraphBuffers + ?Sized> GraphBuffers for Arc<B> {
    fn visit(&self, memory: &mut GraphMemory) {
        memory.shared(|memory| (**self).visit(memory));
    }
}

// SAFETY: the borrow is exclusive.
unsafe impl<B: GraphBuffers + ?Sized> GraphBuffers for &mut B {
    fn visit(&self, memory: &mut GraphMemory) {
        (**self).visit(memory);
    }
}

// SAFETY: what is in the box is its own.
unsafe impl<B: GraphBuffers + ?Sized> GraphBuffers for Box<B> {
    fn visit(&self, memory: &mut GraphMemory) {
        (**self).visit(memory);
    }
}

// SAFETY: the elements are its own.
unsafe impl<B: GraphBuffers> GraphBuffers for [B] {
    fn visit(&self, memory: &mut GraphMemory) {
        self.iter().for_each(|buffers| buffers.visit(memory));
    }
}

// SAFETY: the elements are its own.
unsafe impl<B: GraphBuffers, const N: usize> GraphBuffers for [B; N] {
    fn visit(&self, memory: &mut GraphMemory) {
        self.as_slice().visit(memory);
    }
}

// SAFETY: the elements are its own.
unsafe impl<B: GraphBuffers> GraphBuffers for Vec<B> {
    fn visit(&self, memory: &mut GraphMemory) {
        self.as_slice().visit(memory);
    }
}

// SAFETY: what it holds is its own.
unsafe impl<B: GraphBuffers> GraphBuffers for Option<B> {
    fn visit(&self, memory: &mut GraphMemory) {
        self.iter().for_each(|buffers| buffers.visit(memory));
    }
}

macro_rules! tuples {
    () => {
        // SAFETY: there is no memory.
        unsafe impl GraphBuffers for () {
            fn visit(&self, _: &mut GraphMemory) {}
        }
    };
    ($first:ident $($rest:ident)*) => {
        tuples!($($rest)*);
        // SAFETY: the elements are the tuple's own.
        unsafe impl<$first: GraphBuffers, $($rest: GraphBuffers),*> GraphBuffers for ($first, $($rest,)*) {
            fn visit(&self, memory: &mut GraphMemory) {
                #[allow(non_snake_case)]
                let ($first, $($rest,)*) = self;
                $first.visit(memory);
                $($rest.visit(memory);)*
            }
        }
    };
}

tuples!(A B C D E F G H I J K L);

/// Lets a graph have a struct of buffers: of the fields that are named, the others are not its.
///
/// ```
/// use ferrowarp::{DeviceBuffer, graph_buffers};
///
/// struct Particles {
///     positions: DeviceBuffer<f32>,
///     velocities: DeviceBuffer<f32>,
///     steps: usize,
/// }
/// graph_buffers!(Particles { positions, velocities });
/// ```
#[macro_export]
macro_rules! graph_buffers {
    ($type:ident { $($field:ident),* $(,)? }) => {
        // SAFETY: the fields are the struct's own, and each shows its memory as it is.
        unsafe impl $crate::graph::GraphBuffers for $type {
            fn visit(&self, memory: &mut $crate::graph::GraphMemory) {
                let Self { $($field,)* .. } = self;
                $($crate::graph::GraphBuffers::visit($field, memory);)*
            }
        }
    };
}
