//! What memory the work of another library uses.

use std::any::Any;
use std::sync::Arc;

use cuda_std::launch::{Access, DeviceRead, DeviceWrite, Home, RawSlice};

#[cfg(doc)]
use crate::stream::Stream;
use crate::stream::{StreamInner, home_of};

/// The memory that work of other libraries uses, for [`Stream::foreign`] and
/// [`GraphNode::foreign`](crate::graph::GraphNode::foreign).
#[derive(Debug, Default)]
#[must_use]
pub struct ForeignMemory {
    pub(crate) uses: Vec<ForeignUse>,
}

#[derive(Debug)]
pub(crate) struct ForeignUse {
    pub(crate) address: u64,
    pub(crate) bytes: usize,
    pub(crate) access: Access,
    home: Option<Arc<dyn Any + Send + Sync>>,
}

impl ForeignUse {
    /// The stream that orders the uses of the memory, if one of this crate does.
    pub(crate) fn home(&self) -> Option<&StreamInner> {
        self.home.as_ref().map(Home::from).and_then(home_of)
    }
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

    fn with<T>(mut self, raw: RawSlice<'_>, access: Access) -> Self {
        let RawSlice { address, len, home } = raw;
        let (bytes, home) = (len * size_of::<T>(), home.map(Home::keep));
        self.uses.push(ForeignUse { address, bytes, access, home });
        self
    }
}
