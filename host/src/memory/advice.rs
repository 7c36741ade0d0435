//! Advice and prefetching for unified memory.

use std::ffi::c_void;
use std::ops::RangeBounds;

use bytemuck::Pod;
use cuda_driver::sys;

use super::slice::part;
use super::unified::{UnifiedBox, UnifiedBuffer};
use crate::context::Context;
use crate::error::GpuResult;

/// Where unified memory can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryLocation {
    /// In the host's memory.
    Host,
    /// In the memory of the device of that number.
    Device(u32),
}

/// What will be done with unified memory. Advice changes no result, only what an access costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MemoryAdvice {
    /// It is mostly read: whoever reads gets a copy of the page, and a write ends the copies.
    SetReadMostly,
    /// It is not mostly read.
    UnsetReadMostly,
    /// It should stay there; others reach it from afar where they can.
    SetPreferredLocation(MemoryLocation),
    /// It may be anywhere.
    UnsetPreferredLocation,
    /// It will be used from there: keep it mapped, so that an access does not fault.
    SetAccessedBy(MemoryLocation),
    /// It will not be used from there.
    UnsetAccessedBy(MemoryLocation),
}

/// What the driver knows of unified memory, where all its pages agree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RangeAttributes {
    /// Whether it is mostly read.
    pub read_mostly: bool,
    /// Where it should stay.
    pub preferred_location: Option<MemoryLocation>,
    /// From where it will be used, in order.
    pub accessed_by: Vec<MemoryLocation>,
    /// Where it was last prefetched to.
    pub last_prefetch_location: Option<MemoryLocation>,
}

/// The driver's numbers of the host, and of nowhere.
const HOST: i32 = -1;
const NOWHERE: i32 = -2;

impl MemoryLocation {
    fn number(self) -> i32 {
        match self {
            Self::Host => HOST,
            // A number too large for the driver is one of no device.
            Self::Device(ordinal) => i32::try_from(ordinal).unwrap_or(i32::MAX),
        }
    }

    fn from_number(number: i32) -> Option<Self> {
        match number {
            HOST => Some(Self::Host),
            device => u32::try_from(device).ok().map(Self::Device),
        }
    }
}

impl MemoryAdvice {
    fn numbers(self) -> (i32, i32) {
        use sys::mem_advise as A;
        match self {
            Self::SetReadMostly => (A::SET_READ_MOSTLY, HOST),
            Self::UnsetReadMostly => (A::UNSET_READ_MOSTLY, HOST),
            Self::SetPreferredLocation(at) => (A::SET_PREFERRED_LOCATION, at.number()),
            Self::UnsetPreferredLocation => (A::UNSET_PREFERRED_LOCATION, HOST),
            Self::SetAccessedBy(from) => (A::SET_ACCESSED_BY, from.number()),
            Self::UnsetAccessedBy(from) => (A::UNSET_ACCESSED_BY, from.number()),
        }
    }
}

impl<T: Pod> UnifiedBuffer<T> {
    /// Moves the array to where it will be used next, so that the first accesses do not fault: behind
    /// what is queued for it now. Does not wait.
    ///
    /// # Errors
    /// No device of that number, or one that cannot use such memory with the host at the same time.
    pub fn prefetch(&self, to: MemoryLocation) -> GpuResult<()> {
        self.prefetch_range(.., to)
    }

    /// Like [`prefetch`](Self::prefetch), for the pages that hold a range.
    ///
    /// # Errors
    /// As [`prefetch`](Self::prefetch).
    ///
    /// # Panics
    /// If `range` is not inside.
    pub fn prefetch_range(
        &self,
        range: impl RangeBounds<usize>,
        to: MemoryLocation,
    ) -> GpuResult<()> {
        let (address, len) = part::<T>(self.memory().address(), self.len(), range);
        let bytes = len * size_of::<T>();
        if bytes == 0 {
            return Ok(());
        }
        let home = self.memory().home();
        home.context().call("cuMemPrefetchAsync", || {
            // SAFETY: the memory is managed, and lives until work that is queued now is done.
            unsafe { sys::cuMemPrefetchAsync(address, bytes, to.number(), home.handle()) }
        })
    }

    /// Tells the driver what will be done with the array.
    ///
    /// # Errors
    /// No device of that number, or one that cannot use such memory with the host at the same time.
    pub fn advise(&self, advice: MemoryAdvice) -> GpuResult<()> {
        let (address, bytes) = (self.memory().address(), self.len() * size_of::<T>());
        if bytes == 0 {
            return Ok(());
        }
        let (advice, device) = advice.numbers();
        self.memory().home().context().call("cuMemAdvise", || {
            // SAFETY: the memory is managed and lives.
            unsafe { sys::cuMemAdvise(address, bytes, advice, device) }
        })
    }

    /// The advice that is in effect for the array, and where it was last prefetched to.
    ///
    /// # Errors
    /// A driver's refusal.
    pub fn attributes(&self) -> GpuResult<RangeAttributes> {
        use sys::mem_range_attribute as A;
        let (address, bytes) = (self.memory().address(), self.len() * size_of::<T>());
        if bytes == 0 {
            return Ok(RangeAttributes::default());
        }
        let context = self.memory().home().context();
        let word = |attribute| -> GpuResult<i32> {
            let mut value = [0];
            read(context, attribute, address, bytes, &mut value).map(|()| value[0])
        };
        let mut users = [NOWHERE; 64];
        read(context, A::ACCESSED_BY, address, bytes, &mut users)?;
        let mut accessed_by: Vec<_> =
            users.into_iter().filter_map(MemoryLocation::from_number).collect();
        accessed_by.sort_unstable();
        Ok(RangeAttributes {
            read_mostly: word(A::READ_MOSTLY)? != 0,
            preferred_location: MemoryLocation::from_number(word(A::PREFERRED_LOCATION)?),
            accessed_by,
            last_prefetch_location: MemoryLocation::from_number(word(A::LAST_PREFETCH_LOCATION)?),
        })
    }
}

/// Reads an attribute that is a list of numbers.
fn read(
    context: &Context,
    attribute: i32,
    address: u64,
    bytes: usize,
    values: &mut [i32],
) -> GpuResult<()> {
    let (room, size) = (values.as_mut_ptr().cast::<c_void>(), size_of_val(values));
    context.call("cuMemRangeGetAttribute", || {
        // SAFETY: `values` is writable for so many bytes, and the memory is managed and lives.
        unsafe { sys::cuMemRangeGetAttribute(room, size, attribute, address, bytes) }
    })
}

impl<T: Pod> UnifiedBox<T> {
    /// Moves the value to where it will be used next: see [`UnifiedBuffer::prefetch`].
    ///
    /// # Errors
    /// As there.
    pub fn prefetch(&self, to: MemoryLocation) -> GpuResult<()> {
        self.buffer().prefetch(to)
    }

    /// Tells the driver what will be done with the value: see [`UnifiedBuffer::advise`].
    ///
    /// # Errors
    /// As there.
    pub fn advise(&self, advice: MemoryAdvice) -> GpuResult<()> {
        self.buffer().advise(advice)
    }
}
