//! A stream of `cust` as a stream of this crate.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use cuda_std::launch::{Args, Kernel, Launch, LaunchConfig};
use cust::stream::Stream as Released;

use crate::error::{GpuError, GpuResult};
use crate::gpu::Gpu;
use crate::stream::{AsStream, Stream};

/// A stream of `cust` on which operations and launchers of this crate enqueue work too. It dereferences to `cust`'s type,
/// for `launch!`, events and copies of `cust`.
///
/// ```no_run
/// use cust::memory::DeviceBuffer;
/// use cust::stream::{Stream, StreamFlags};
/// use ferrowarp::cust::CustStream;
/// use ferrowarp::{Gpu, ops};
///
/// let gpu = Gpu::new()?;
/// let stream = CustStream::new(&gpu, Stream::new(StreamFlags::DEFAULT, None)?)?;
/// let x = DeviceBuffer::from_slice(&[1.0f32, 2.0, 3.0])?;
/// assert_eq!(ops::reduce::sum(&stream, &x)?, 6.0);
/// stream.synchronize()?;
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
pub struct CustStream {
    stream: Stream,
    released: Arc<Released>,
}

impl CustStream {
    /// Takes over `stream`, with the kernels of `gpu`. The stream is destroyed when neither this value nor memory that was
    /// made on it is left.
    ///
    /// # Errors
    /// [`WrongContext`](GpuError::WrongContext) for a stream of another context than the `Gpu`'s; a driver's refusal.
    pub fn new(gpu: &Gpu, stream: Released) -> GpuResult<Self> {
        let (handle, released) = (stream.as_inner().cast(), Arc::new(stream));
        // SAFETY: it is a stream, and lives as long as what owns it.
        let stream = unsafe { Stream::from_raw(gpu, handle, released.clone())? };
        Ok(Self { stream, released })
    }
}

impl AsStream for CustStream {
    fn as_stream(&self) -> &Stream {
        &self.stream
    }
}

impl Deref for CustStream {
    type Target = Released;

    fn deref(&self) -> &Released {
        &self.released
    }
}

impl Launch for CustStream {
    type Error = GpuError;

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> GpuResult<()> {
        // SAFETY: the caller's promise.
        unsafe { self.stream.launch(kernel, config, args) }
    }
}

impl fmt::Debug for CustStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}
