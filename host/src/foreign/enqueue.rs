//! Work of other libraries on a stream.

use super::ForeignMemory;
use crate::error::{GpuContext, GpuError, GpuResult};
use crate::memory::resource::StreamRef;
use crate::recorder;
use crate::stream::{Stream, StreamInner};

impl Stream {
    /// Calls `work` with this stream, on which it enqueues work by other means than this crate: by a library such as NCCL,
    /// or by the driver's functions. What it enqueues comes after all uses of `memory` that were enqueued before,
    /// on whatever streams, and before all later ones. The device's context is current meanwhile. `work` may wait for the
    /// stream.
    ///
    /// While this thread is captured into a [graph](crate::graph), the work becomes a node of that name: see
    /// [`GraphNode::foreign`](crate::graph::GraphNode::foreign), whose conditions then hold too.
    ///
    /// ```no_run
    /// use cuda_driver::sys;
    /// use ferrowarp::graph::ForeignMemory;
    /// # use ferrowarp::{DeviceBuffer, Gpu};
    ///
    /// let gpu = Gpu::new()?;
    /// let mut values = DeviceBuffer::from_slice(&gpu, &[1u8; 100])?;
    /// let stream = gpu.create_stream()?;
    /// let address = values.as_device_ptr().address();
    /// // SAFETY: 100 bytes are there, and they are named as written.
    /// unsafe {
    ///     stream.foreign("fill", ForeignMemory::new().writes(&mut values), |stream| {
    ///         sys::cuMemsetD8Async(address, 7, 100, stream.as_raw().cast());
    ///         Ok(())
    ///     })?;
    /// }
    /// assert_eq!(values.to_vec()?, [7; 100]);
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// Those of `work`; [`WrongDevice`](GpuError::WrongDevice); [`Unsupported`](GpuError::Unsupported) for memory that no stream
    /// of this device orders: what is [lent to a peer](crate::memory::PeerSliceMut), shared with kernels as
    /// [atomics](crate::memory::MappedAtomics), or another library's.
    ///
    /// # Safety
    /// - What `work` enqueues on the stream reads and writes nothing of the device's memory that others can reach but
    ///   `memory`, and writes only what `memory` says. After an error of `work`, too.
    /// - All else that it uses (kernels, functions and memory of the host) lives until it is done.
    /// - `work` enqueues on no other stream, unless it lets this one wait for that, and does not keep the stream.
    pub unsafe fn foreign(
        &self,
        name: &str,
        memory: ForeignMemory,
        work: impl FnOnce(StreamRef<'_>) -> GpuResult<()>,
    ) -> GpuResult<()> {
        if let Some(graph) = recorder::current() {
            let mut work = Some(work);
            return graph.foreign(name, memory, &mut |stream| {
                let work = work.take().expect("a node is captured once");
                work(StreamRef::of(stream))
            });
        }
        let stream = &**self.inner();
        let homes = homes(&memory, stream)?;
        let enqueued = stream.ordered_whatever(&homes, || {
            stream.context().enter("work of another library")?;
            let done = work(StreamRef::of(self));
            stream.context().count_submission();
            done
        });
        enqueued.with_gpu_context(|| format!("enqueuing `{name}`"))
    }
}

/// The streams that order the memory.
fn homes<'a>(memory: &'a ForeignMemory, stream: &StreamInner) -> GpuResult<Vec<&'a StreamInner>> {
    let used = memory.uses.iter().filter(|own| own.bytes > 0);
    let homes = used.map(|own| {
        let home = own.home().ok_or(GpuError::Unsupported {
            what: "memory that no stream of this device orders, for another library: copy it to a DeviceBuffer",
        })?;
        home.check_device(stream.context(), "memory for another library")?;
        Ok(home)
    });
    homes.collect()
}
