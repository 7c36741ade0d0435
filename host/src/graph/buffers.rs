//! What a graph is given: the memory that its nodes use.

use std::sync::Arc;

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, RawSlice};

use super::host_buffer::HostBuffer;
use super::order::Range;
use crate::memory::{
    DeviceBox, DeviceBuffer, DeviceSlice, DeviceSliceMut, DeviceVec, UnifiedBox, UnifiedBuffer,
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
}

/// Memory that a graph has.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) range: Range,
    pub(super) is_shared: bool,
    home: Option<Arc<StreamInner>>,
}

impl GraphMemory {
    /// What `visit` shows is shared: other code may read it too, and none writes it.
    pub fn shared(&mut self, visit: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.is_shared, true);
        visit(self);
        self.is_shared = before;
    }

    /// All memory of `buffers`.
    pub(super) fn of(buffers: &impl GraphBuffers) -> Vec<Region> {
        let mut memory = Self::default();
        buffers.visit(&mut memory);
        memory.regions
    }

    fn add<T>(&mut self, raw: RawSlice) {
        let RawSlice { address, len, home } = raw;
        let range = Range::new(address, len * size_of::<T>());
        let home = home.and_then(|home| home.downcast().ok());
        self.regions.push(Region { range, is_shared: self.is_shared, home });
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
    ($($type:ty),*) => {$(
        // SAFETY: the memory is the value's own, or borrowed as it says.
        unsafe impl<T: Pod> GraphBuffers for $type {
            fn visit(&self, memory: &mut GraphMemory) {
                memory.add::<T>(DeviceRead::<T>::raw(self));
            }
        }
    )*};
}

memory!(DeviceBuffer<T>, DeviceVec<T>, DeviceBox<T>, DeviceSliceMut<'_, T>);
memory!(MappedBuffer<T>, UnifiedBuffer<T>, UnifiedBox<T>, HostBuffer<T>);

// SAFETY: the memory is borrowed, so that nobody writes it.
unsafe impl<T: Pod> GraphBuffers for DeviceSlice<'_, T> {
    fn visit(&self, memory: &mut GraphMemory) {
        memory.shared(|memory| memory.add::<T>(self.raw()));
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
