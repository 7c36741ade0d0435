//! What memory the work of another library uses.

use cuda_std::launch::{Access, DeviceRead, DeviceWrite, RawSlice};

#[cfg(doc)]
use crate::stream::Stream;

/// The memory that work of other libraries uses, for [`Stream::foreign`] and
/// [`GraphNode::foreign`](crate::graph::GraphNode::foreign).
#[derive(Debug, Default)]
#[must_use]
pub struct ForeignMemory {
    pub(crate) uses: Vec<ForeignUse>,
}

#[derive(Debug)]
pub(crate) struct ForeignUse {
    pub(crate) raw: RawSlice,
    pub(crate) bytes: usize,
    pub(crate) access: Access,
}

impl ForeignMemory {
    /// None until now.
    pub fn new() -> Self {
        Self::default()
    }

    /// And `memory`, which is only read.
    pub fn reads<T>(self, memory: &(impl DeviceRead<T> + ?Sized)) -> Self {
        self.with::<T>(memory.raw(), Access::Read)
    }

    /// And `memory`, which is written, or read and written.
    pub fn writes<T>(self, memory: &mut (impl DeviceWrite<T> + ?Sized)) -> Self {
        self.with::<T>(memory.raw_mut(), Access::Write)
    }

    fn with<T>(mut self, raw: RawSlice, access: Access) -> Self {
        let bytes = raw.len * size_of::<T>();
        self.uses.push(ForeignUse { raw, bytes, access });
        self
    }
}
