//! Device memory that operations work in.

use kernels_gpu::matmul::hopper::STREAM_FLAGS;
use kernels_gpu::scan::look_ahead::KEPT_WORDS;

use crate::error::{GpuContext, GpuResult};
use crate::memory::{DeviceBuffer, DeviceSliceMut};
use crate::stream::AsStream;

/// Each segment begins on a boundary of this many bytes, as each allocation does.
const ALIGN_BYTES: usize = 256;
/// Counters and flags, which are 0 between operations.
pub(super) const COUNTERS: usize = 2048;
const _: () = assert!(COUNTERS >= STREAM_FLAGS);
/// Their bytes.
const COUNTERS_BYTES: usize = COUNTERS * size_of::<u32>();
/// The states of small scans, which no other operation uses, in bytes.
const STATES_BYTES: usize = KEPT_WORDS * size_of::<u64>();
/// Where the bounds of a segment of all elements are: after the counters and the states.
const BOUNDS_AT: usize = COUNTERS_BYTES + STATES_BYTES.next_multiple_of(ALIGN_BYTES);
/// The bounds: 0, and a number that is not less than any length.
const BOUNDS_BYTES: usize = 2 * size_of::<u64>();
/// The counters, the states, and the bounds.
const KEPT_BYTES: usize = BOUNDS_AT + ALIGN_BYTES;

/// Scratch memory for the `_into` forms of operations: any of them, one after the other.
///
/// It grows to what the largest of them asked for, and is kept between calls, so that a loop allocates
/// nothing after its first round. A graph cannot allocate while it is built or captured:
/// call [`reserve`](Self::reserve) first, with the operation's `scratch_bytes`.
///
/// At the front are words that kernels leave as the next one needs them: there they count finished blocks, blocks of a matrix product say
/// which sums they have stored, and scans of few elements have the states of their tiles. After a kernel that did not end well, a panic
/// for one, drop the scratch and take a new one.
///
/// ```
/// use ferrowarp::{Gpu, ops::Scratch};
///
/// let gpu = Gpu::new()?;
/// let mut scratch = Scratch::new(&gpu)?;
/// scratch.reserve(&gpu, 1 << 20)?;
/// assert!(scratch.size_bytes() >= 1 << 20);
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
#[derive(Debug)]
pub struct Scratch {
    bytes: DeviceBuffer<u8>,
}

crate::graph_buffers!(Scratch { bytes });

impl Scratch {
    /// Scratch memory of the least size.
    ///
    /// # Errors
    /// Errors of the driver, such as out of memory.
    pub fn new(on: &impl AsStream) -> GpuResult<Self> {
        Self::of_bytes(on, KEPT_BYTES)
    }

    /// Scratch memory with room for an operation whose `scratch_bytes` are these, allocated, and freed, in the order of the
    /// stream: see [`DeviceBuffer::zeroed_async`]. What it grows to later is not.
    ///
    /// # Errors
    /// As [`DeviceBuffer::zeroed_async`].
    pub fn with_bytes_async(on: &impl AsStream, bytes: usize) -> GpuResult<Self> {
        // SAFETY: as for `of_bytes`.
        Self::of(unsafe { DeviceBuffer::uninitialized_async(on, Self::bytes_of(bytes)) })
    }

    fn of_bytes(on: &impl AsStream, bytes: usize) -> GpuResult<Self> {
        // SAFETY: `of` writes the counters; an operation writes what it reads of the others.
        Self::of(unsafe { DeviceBuffer::uninitialized(on, bytes) })
    }

    fn of(allocated: GpuResult<DeviceBuffer<u8>>) -> GpuResult<Self> {
        let mut bytes = allocated.gpu_context("allocating scratch memory")?;
        bytes.slice_mut(..KEPT_BYTES).clear()?;
        bytes.slice_mut(BOUNDS_AT + size_of::<u64>()..BOUNDS_AT + BOUNDS_BYTES).fill(u8::MAX)?;
        Ok(Self { bytes })
    }

    /// The size of a scratch with room for `bytes`.
    pub(super) const fn bytes_of(bytes: usize) -> usize {
        KEPT_BYTES + bytes
    }

    /// How large it is now, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Makes room for an operation whose `scratch_bytes` are these.
    ///
    /// # Errors
    /// Errors of the driver, such as out of memory.
    pub fn reserve(&mut self, on: &impl AsStream, bytes: usize) -> GpuResult<()> {
        let needed = Self::bytes_of(bytes);
        if self.bytes.len() < needed {
            *self = Self::of_bytes(on, needed)?;
        }
        Ok(())
    }

    /// The [`COUNTERS`], which are 0 and must be 0 again afterwards, and a segment of unknown content for each of
    /// `bytes`, which kernels write before they read.
    pub(super) fn parts<const N: usize>(
        &mut self,
        on: &impl AsStream,
        bytes: [usize; N],
    ) -> GpuResult<(DeviceSliceMut<'_, u32>, [DeviceSliceMut<'_, u8>; N])> {
        let (kept, parts) = self.all_parts(on, bytes)?;
        Ok((kept.narrowed(..COUNTERS_BYTES).into_cast()?, parts))
    }

    /// The bounds of a segment of all elements, as sorts of segments read them, and a segment of memory for each of `bytes` as
    /// [`parts`](Self::parts) has them.
    pub(super) fn bounds_and_parts<const N: usize>(
        &mut self,
        on: &impl AsStream,
        bytes: [usize; N],
    ) -> GpuResult<(DeviceSliceMut<'_, u64>, [DeviceSliceMut<'_, u8>; N])> {
        let (kept, parts) = self.all_parts(on, bytes)?;
        Ok((kept.narrowed(BOUNDS_AT..BOUNDS_AT + BOUNDS_BYTES).into_cast()?, parts))
    }

    /// At least `words` words for the states of a scan, 0 or, if they are few, as the last scan left them; and a segment of
    /// `bytes`.
    pub(super) fn states(
        &mut self,
        on: &impl AsStream,
        words: usize,
        bytes: usize,
    ) -> GpuResult<(TileStates<'_>, DeviceSliceMut<'_, u8>)> {
        let is_kept = words <= KEPT_WORDS;
        let cleared_bytes = if is_kept { 0 } else { words * size_of::<u64>() };
        let (kept, [cleared, part]) = self.all_parts(on, [cleared_bytes, bytes])?;
        if is_kept {
            let states = COUNTERS_BYTES..COUNTERS_BYTES + STATES_BYTES;
            let words = kept.narrowed(states).into_cast()?;
            return Ok((TileStates { words }, part));
        }
        let mut words = cleared.into_cast()?;
        words.clear()?;
        Ok((TileStates { words }, part))
    }

    /// The counters, the kept states and the bounds, and a segment for each of `bytes`.
    fn all_parts<const N: usize>(
        &mut self,
        on: &impl AsStream,
        bytes: [usize; N],
    ) -> GpuResult<(DeviceSliceMut<'_, u8>, [DeviceSliceMut<'_, u8>; N])> {
        self.reserve(on, size_of_parts(&bytes))?;
        let (kept, rest) = self.bytes.as_mut_slice().split_at_mut(KEPT_BYTES);
        let mut rest = Some(rest);
        let parts = bytes.map(|bytes| {
            let all = rest.take().expect("each round leaves what is behind its part");
            let (part, behind) = all.split_at_mut(bytes.next_multiple_of(ALIGN_BYTES));
            rest = Some(behind);
            part.narrowed(..bytes)
        });
        Ok((kept, parts))
    }
}

/// States of a scan's tiles: 0, or as the last scan or selection left them, which is what the kernels ask for.
#[derive(Debug)]
pub struct TileStates<'a> {
    pub(super) words: DeviceSliceMut<'a, u64>,
}

/// The size of the scratch for segments of these sizes: an operation's `scratch_bytes`.
pub(super) fn size_of_parts(bytes: &[usize]) -> usize {
    bytes.iter().map(|bytes| bytes.next_multiple_of(ALIGN_BYTES)).sum()
}

#[cfg(test)]
mod tests {
    use cuda_std::launch::DeviceRead;

    use super::*;

    #[test]
    fn parts_begin_at_boundaries() {
        let gpu = crate::Gpu::new().unwrap();
        let mut scratch = Scratch::new(&gpu).unwrap();
        let (_, parts) = scratch.parts(&gpu, [1, 300, 8]).unwrap();
        let offsets = parts.map(|part| part.raw().address % ALIGN_BYTES as u64);
        assert_eq!(offsets, [0; 3]);
    }
}
