//! Host memory that takes part in graphs.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Home, RawSlice};

use crate::error::{GpuError, GpuResult};
use crate::host_callback::{defer_drop, in_host_callback};
use crate::memory::{PinnedBuffer, PinnedSource, UnifiedBuffer, check_alignment};
use crate::stream::{AsStream, StreamInner};

/// An array of `T` in page-locked host memory that copies, kernels and host callbacks use in a
/// graph: what goes in and what comes out. Its uses are ordered as those of a buffer on the device
/// are, so that the host sees it only behind a wait for all of them.
///
/// ```no_run
/// use ferrowarp::graph::{GraphBuilder, HostBuffer};
/// use ferrowarp::{DeviceBuffer, Gpu};
///
/// let gpu = Gpu::new()?;
/// let input = HostBuffer::from_slice(&gpu, &[1.0f32, 2.0, 3.0])?;
/// let mut device = DeviceBuffer::zeroed(&gpu, 3)?;
/// let builder = GraphBuilder::new(&gpu);
/// builder.node("upload").copy(&input, &mut device)?;
/// let mut graph = builder.build((input, device))?;
/// for frame in 0..10 {
///     graph.buffers_mut().0.as_mut_slice()?.fill(frame as f32); // waits for the last launch
///     graph.launch(&gpu)?;
/// }
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
pub struct HostBuffer<T: Pod> {
    home: Arc<StreamInner>,
    /// The bytes of the elements. Not freed while something may use them.
    memory: ManuallyDrop<PinnedBuffer<u8>>,
    len: usize,
    values: PhantomData<T>,
}

impl<T: Pod> HostBuffer<T> {
    /// `len` elements, all of them zero. A type that wants more alignment than 256 bytes does not compile:
    ///
    /// ```compile_fail,E0080
    /// #[derive(Clone, Copy)]
    /// #[repr(C, align(512))]
    /// struct Sector([u8; 512]);
    /// // SAFETY: bytes, and as many as the alignment.
    /// unsafe impl bytemuck::Zeroable for Sector {}
    /// // SAFETY: as above.
    /// unsafe impl bytemuck::Pod for Sector {}
    ///
    /// let gpu = ferrowarp::Gpu::new()?;
    /// let sectors = ferrowarp::graph::HostBuffer::<Sector>::zeroed(&gpu, 8)?;
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// What the driver answers, or [`Unsupported`](GpuError::Unsupported) where host and device have
    /// different addresses for the same memory.
    pub fn zeroed(on: &impl AsStream, len: usize) -> GpuResult<Self> {
        const { check_alignment::<T>() };
        let home = on.as_stream().inner();
        if !home.context().info().unified_addressing {
            let what = "host memory in a graph: copy before and after the launch";
            return Err(GpuError::Unsupported { what });
        }
        let bytes = len.saturating_mul(size_of::<T>());
        let memory = ManuallyDrop::new(PinnedBuffer::zeroed(on, bytes)?);
        Ok(Self { home: home.clone(), memory, len, values: PhantomData })
    }

    /// A copy of `values`.
    ///
    /// # Errors
    /// As [`zeroed`](Self::zeroed).
    pub fn from_slice(on: &impl AsStream, values: &[T]) -> GpuResult<Self> {
        let mut buffer = Self::zeroed(on, values.len())?;
        buffer.memory.copy_from_slice(bytemuck::cast_slice(values));
        Ok(buffer)
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The elements, after all work that was given them.
    ///
    /// # Errors
    /// The fault of a kernel before.
    pub fn as_slice(&self) -> GpuResult<&[T]> {
        self.wait()?;
        // SAFETY: the memory holds `len` values. What wrote them is over, and who writes them needs the
        // buffer exclusively.
        Ok(unsafe { slice::from_raw_parts(self.host(), self.len) })
    }

    /// The elements, to be written, after all work that was given them.
    ///
    /// # Errors
    /// The fault of a kernel before.
    pub fn as_mut_slice(&mut self) -> GpuResult<&mut [T]> {
        self.wait()?;
        // SAFETY: as above; what read them is over too.
        Ok(unsafe { slice::from_raw_parts_mut(self.host().cast_mut(), self.len) })
    }

    /// All uses are ordered before the home's end.
    fn wait(&self) -> GpuResult<()> {
        if self.memory.source().is_empty() { Ok(()) } else { self.home.synchronize() }
    }

    /// Where the elements are: at the start of a page, or anywhere aligned if they have no bytes.
    fn host(&self) -> *const T {
        match self.memory.source().is_empty() {
            true => NonNull::dangling().as_ptr(),
            false => self.memory.source().cast(),
        }
    }

    fn raw_slice(&self) -> RawSlice<'_> {
        let address = self.host() as u64;
        RawSlice { address, len: self.len, home: Some(Home::from(&self.home)) }
    }
}

impl<T: Pod> fmt::Debug for HostBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBuffer({} elements)", self.len())
    }
}

// SAFETY: page-locked memory has one address for host and device, and holds `len` values; uses are
// ordered with all later ones, the host's and the end of the memory included, through the home.
unsafe impl<T: Pod> DeviceRead<T> for HostBuffer<T> {
    fn raw(&self) -> RawSlice<'_> {
        self.raw_slice()
    }

    fn len(&self) -> usize {
        self.len
    }
}

// SAFETY: as above, and the borrow is exclusive; `Pod` takes every bit pattern.
unsafe impl<T: Pod> DeviceWrite<T> for HostBuffer<T> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        self.raw_slice()
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl<T: Pod> Drop for HostBuffer<T> {
    fn drop(&mut self) {
        // SAFETY: nothing uses the field afterwards.
        let memory = unsafe { ManuallyDrop::take(&mut self.memory) };
        if in_host_callback() {
            let (home, len, memory) = (self.home.clone(), memory.len(), ManuallyDrop::new(memory));
            defer_drop(Box::new(HostBuffer { home, memory, len, values: PhantomData::<u8> }));
        } else if self.home.try_synchronize() || self.home.context().lost().is_some() {
            drop(memory);
        } else {
            // Memory that may still be in use leaks.
            std::mem::forget(memory);
        }
    }
}

/// Memory that host and device reach by one address, for the host callbacks of a graph.
///
/// # Safety
/// The host may use the memory that [`DeviceRead::raw`] describes where the order of its home allows
/// it.
pub unsafe trait HostMemory<T: Pod>: DeviceRead<T> + DeviceWrite<T> {}

// SAFETY: the host's own memory.
unsafe impl<T: Pod> HostMemory<T> for HostBuffer<T> {}
// SAFETY: such memory is only made where host and device may use it at once.
unsafe impl<T: Pod> HostMemory<T> for UnifiedBuffer<T> {}
