//! Buffers to and from tensors of other libraries, by [DLPack](https://dmlc.github.io/dlpack/latest/) and the crate `dlpark`
//! 0.10 (feature `dlpack`). Nothing is copied.
//!
//! | from | to | by |
//! |---|---|---|
//! | a [`DeviceBuffer`], [`UnifiedBuffer`] or [`PinnedBuffer`] | a tensor that owns it | `into_dlpack` |
//! | a part of a buffer that is still read here | a read-only tensor | [`share`] |
//! | a tensor | a [`DeviceBuffer`] | [`DeviceBuffer::from_dlpack`] |
//! | a tensor, also a read-only one | a [`ReadOnly`] buffer | [`ReadOnly::from_dlpack`] |
//!
//! A tensor is a `dlpark::Managed<M>`: `dlpark::versioned::Dlpack` in the form of DLPack 1, `dlpark::legacy::Dlpack` in the one before,
//! which has neither a version nor flags. It has one owner, and whoever takes it over has it alone.
//!
//! ```no_run
//! use dlpark::versioned;
//! use ferrowarp::dlpack::ConsumerStream;
//! use ferrowarp::{DeviceBuffer, Gpu};
//!
//! let gpu = Gpu::new()?;
//! let x = DeviceBuffer::from_slice(&gpu, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//! let tensor: versioned::Dlpack = x.into_dlpack(&[2, 3], ConsumerStream::OMITTED)?;
//!
//! // Another library would take the tensor, or have made it.
//! // SAFETY: no other code has the memory, and this stream has written it.
//! let x = unsafe { DeviceBuffer::<f32>::from_dlpack(&gpu, tensor)? };
//! assert_eq!(x.len(), 6);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! # Devices
//!
//! | memory | with a GPU | on the emulator |
//! |---|---|---|
//! | [`DeviceBuffer`] | `kDLCUDA` and the device's ordinal | `kDLCPU` |
//! | [`UnifiedBuffer`] | `kDLCUDAManaged` | `kDLCPU` |
//! | [`PinnedBuffer`] | `kDLCUDAHost` | `kDLCPU` |
//!
//! The emulator's memory is the host's, so that libraries take its tensors as those of the CPU. An import asks the
//! driver whose memory it is: that of other libraries on the host is refused, on the emulator too.
//!
//! # Order between streams
//!
//! - An export makes the consumer's stream wait for the work that the buffer has: see [`ConsumerStream`].
//! - Before an import the producer makes the stream wait that the buffer will have: its handle is that of
//!   [`StreamRef::as_raw`](crate::memory::resource::StreamRef::as_raw). Where the producer cannot do that,
//!   [`Stream::wait_for_raw`](crate::Stream::wait_for_raw) does.
//!
//! # When the memory is freed
//!
//! - The last owner of an exported tensor drops it when it has enqueued its last use, on streams that are not known here. So the drop waits
//!   for all work on the device, and then frees the memory. In a capture or a host callback, which must not wait, a thread of its own does
//!   that. While a persistent kernel runs, the wait would not end: the memory leaks then.
//! - The tensor behind an imported buffer goes back to its producer when the work is done that the buffer's stream has when the buffer is
//!   dropped; no thread waits for that.

mod consumer;
mod element;
mod export;
mod import;

pub use consumer::ConsumerStream;
pub use element::Element;
pub use export::share;
pub use import::ReadOnly;

#[cfg(doc)]
use crate::memory::{DeviceBuffer, PinnedBuffer, UnifiedBuffer};
