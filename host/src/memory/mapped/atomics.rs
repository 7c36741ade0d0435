//! Atomic words that host and kernels access concurrently.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, AtomicU64};

use cuda_std::launch::{DeviceAtomics, Home, RawSlice};

use crate::error::{GpuError, GpuResult};
use crate::shared_memory::{Block, SharedLocation, SharedMemory};
use crate::stream::AsStream;

mod sealed {
    pub trait Sealed {}
}

/// An integer that host and kernels share: `u32`, `i32`, `u64` or `i64`.
pub trait MappedWord: sealed::Sealed + Copy + Default + Send + Sync + 'static {
    /// The host's atomic number of this type.
    type Atomic: fmt::Debug + Send + Sync;
}

macro_rules! words {
    ($($word:ty: $atomic:ty;)*) => {$(
        impl sealed::Sealed for $word {}
        impl MappedWord for $word {
            type Atomic = $atomic;
        }
        const _: () = assert!(
            size_of::<$word>() == size_of::<$atomic>() && align_of::<$atomic>() == size_of::<$word>()
        );
    )*};
}

words! {
    u32: AtomicU32;
    i32: AtomicI32;
    u64: AtomicU64;
    i64: AtomicI64;
}

/// Words in the host's memory that host and kernels read and change at the same time: the host as
/// atomics of its own, a kernel as `SystemAtomics<T>`.
///
/// Nothing orders the uses but the words themselves, and several kernels on several streams may have
/// them at once. A kernel that waits for a word needs the host to set it: the end of the words waits
/// for all kernels that were given them.
///
/// ```no_run
/// use std::sync::atomic::Ordering::{Acquire, Release};
/// use ferrowarp::{Gpu, MappedAtomics};
///
/// let gpu = Gpu::new()?;
/// let words = MappedAtomics::<u32>::zeroed(&gpu, 2)?;
/// // answer::launch(&gpu, Grid1::new(1), &words)?;
/// words[0].store(1, Release);
/// let answer = words[1].load(Acquire);
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
///
/// There is no way to the words but atomic operations:
///
/// ```compile_fail,E0596
/// # use ferrowarp::{Gpu, MappedAtomics};
/// # let gpu = Gpu::new()?;
/// let mut words = MappedAtomics::<u32>::zeroed(&gpu, 2)?;
/// *words[0].get_mut() = 1;
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
///
/// # What is atomic
///
/// Loads and stores of both sides are, on every device. A read-modify-write of one side is atomic for
/// that side; with those of the other one only where [`both_sides_modify`](Self::both_sides_modify)
/// is true. Elsewhere let one side modify a word, and the other side only load it.
pub struct MappedAtomics<T: MappedWord> {
    memory: Arc<SharedMemory>,
    host: NonNull<T>,
    device: u64,
    len: usize,
    values: PhantomData<T>,
}

// SAFETY: the words are reached by atomic operations alone.
unsafe impl<T: MappedWord> Send for MappedAtomics<T> {}
// SAFETY: as above.
unsafe impl<T: MappedWord> Sync for MappedAtomics<T> {}

impl<T: MappedWord> MappedAtomics<T> {
    /// `len` words, all of them zero.
    ///
    /// # Errors
    /// What the driver answers, as where no memory can be pinned.
    pub fn zeroed(on: &impl AsStream, len: usize) -> GpuResult<Self> {
        let context = on.as_stream().inner().context();
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or_else(|| GpuError::InvalidArgument {
            operation: "mapping words",
            reason: format!("{len} words are more bytes than there are addresses"),
        })?;
        if bytes == 0 {
            let memory = SharedMemory::new(context, (), None);
            let host = NonNull::dangling();
            return Ok(Self { memory, host, device: 0, len, values: PhantomData });
        }
        let block = Block::zeroed(context, SharedLocation::Mapped, bytes)?;
        let (host, device) = (block.host().cast(), block.device());
        let memory = SharedMemory::new(context, block, None);
        Ok(Self { memory, host, device, len, values: PhantomData })
    }

    /// The words, as the host's atomics.
    #[must_use]
    pub fn as_slice(&self) -> &[T::Atomic] {
        // SAFETY: the memory lives as long as `self` and holds `len` words, which are reached by
        // atomic operations alone; the atomic number has the size and alignment of the word.
        unsafe { slice::from_raw_parts(self.host.cast().as_ptr(), self.len) }
    }

    /// Whether a read-modify-write of a kernel and one of the host are atomic with each other: over
    /// PCI Express they are not.
    #[must_use]
    pub fn both_sides_modify(&self) -> bool {
        self.memory.context().info().host_native_atomics
    }
}

impl<T: MappedWord> std::ops::Deref for MappedAtomics<T> {
    type Target = [T::Atomic];

    fn deref(&self) -> &[T::Atomic] {
        self.as_slice()
    }
}

impl<T: MappedWord> fmt::Debug for MappedAtomics<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MappedAtomics({:#x}, {} words)", self.device, self.len)
    }
}

// SAFETY: the memory holds `len` zeroed words and ends after all launches that were given it; the
// host gives them out as atomics alone.
unsafe impl<T: MappedWord> DeviceAtomics<T> for MappedAtomics<T> {
    fn raw_atomics(&self) -> RawSlice<'_> {
        RawSlice { address: self.device, len: self.len, home: Some(Home::from(&self.memory)) }
    }
}
