//! Batches: launches that are enqueued together.

use std::cell::RefCell;
use std::fmt;

use cuda_driver::sys;
use cuda_std::launch::{Access, Args, Kernel, Launch, LaunchConfig};
use smallvec::SmallVec;

use super::enqueue::{Homes, Prepared, homes, prepare, start_raw};
use crate::error::{GpuContext, GpuError, GpuResult};
use crate::gpu::Gpu;
use crate::graph::{GraphBuffers, Memory};
use crate::recorder;
use crate::stream::{Stream, StreamInner};

/// Collects the launches of [`Stream::batch`].
pub struct Batch {
    stream: Stream,
    launches: RefCell<Vec<Queued>>,
}

/// A launch that was checked.
struct Queued {
    kernel: &'static Kernel,
    prepared: Prepared,
    args: Args<'static>,
}

impl Stream {
    /// Enqueues all launches that `record` makes on the batch, in their order and together: driver
    /// calls that each launch would need beside itself are made once. These are setting the context
    /// and, for every buffer whose home is another stream, two events and two waits. On the home
    /// stream of the buffers, single launches are as good; for a sequence that is launched
    /// repeatedly use a [`Graph`](crate::Graph).
    ///
    /// The batch borrows or owns `memory`, all that its kernels use, and lends it to `record`:
    /// several launches may write one buffer, one after the other. Nothing is enqueued before
    /// `record` returns, and nothing at all if it fails.
    ///
    /// ```no_run
    /// # use ferrowarp::{DeviceBuffer, Gpu, GpuResult, LaunchConfig};
    /// # use kernels_gpu::elementwise::saxpy;
    /// # fn example(gpu: &Gpu, x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) -> GpuResult<()> {
    /// gpu.batch((x, y), |batch, (x, y)| {
    ///     let all = LaunchConfig::for_num_elems(x.len());
    ///     (0..100).try_for_each(|_| saxpy::launch(batch, all, 0.5, *x, *y))
    /// })
    /// # }
    /// ```
    /// A buffer is passed to a batch once:
    /// ```compile_fail,E0502
    /// # use ferrowarp::{DeviceBuffer, Gpu, GpuResult};
    /// # fn example(gpu: &Gpu, mut y: DeviceBuffer<f32>) -> GpuResult<()> {
    /// gpu.batch((&y, &mut y), |_, _| Ok(()))
    /// # }
    /// ```
    /// and is not used beside it:
    /// ```compile_fail,E0499
    /// # use ferrowarp::{DeviceBuffer, Gpu, GpuResult};
    /// # fn example(gpu: &Gpu, mut y: DeviceBuffer<f32>) -> GpuResult<()> {
    /// gpu.batch(&mut y, |_, _| y.clear())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `record`, among them what a single launch is refused for;
    /// [`NotInBatch`](GpuError::NotInBatch) for memory that is not in `memory`, or that `memory`
    /// only lends for reading; a driver's refusal, after which no more launches are enqueued.
    pub fn batch<M: GraphBuffers, R>(
        &self,
        mut memory: M,
        record: impl FnOnce(&Batch, &mut M) -> GpuResult<R>,
    ) -> GpuResult<R> {
        let batch = Batch { stream: self.clone(), launches: RefCell::default() };
        let value = record(&batch, &mut memory)?;
        batch.queue(&Memory::of(&memory))?;
        Ok(value)
    }
}

impl Gpu {
    /// Enqueues all launches that `record` makes, together: see [`Stream::batch`].
    ///
    /// # Errors
    /// As [`Stream::batch`].
    pub fn batch<M: GraphBuffers, R>(
        &self,
        memory: M,
        record: impl FnOnce(&Batch, &mut M) -> GpuResult<R>,
    ) -> GpuResult<R> {
        self.stream().batch(memory, record)
    }
}

impl Launch for Batch {
    type Error = GpuError;

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> GpuResult<()> {
        if let Some(graph) = recorder::current() {
            return graph.launch(&self.stream, kernel, config, args);
        }
        let Homes { shared, unordered, .. } = homes(&self.stream, kernel, args)?;
        if !shared.is_empty() || unordered {
            let what = "a batch with memory that host and kernels use at once, or of another library: launch the kernel";
            return Err(GpuError::Unsupported { what });
        }
        if let Some(prepared) = prepare(&self.stream, kernel, config, args)? {
            self.launches.borrow_mut().push(Queued { kernel, prepared, args: args.keep() });
        }
        Ok(())
    }
}

impl Batch {
    /// The number of launches until now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.launches.borrow().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Enqueues them in the order of what they use, all of which is in `memory`.
    fn queue(self, memory: &Memory) -> GpuResult<()> {
        let launches = self.launches.into_inner();
        launches.iter().try_for_each(|launch| launch.check(memory))?;
        let stream = self.stream.inner();
        let mut all = SmallVec::<[&StreamInner; 8]>::new();
        for Queued { kernel, args, .. } in &launches {
            for home in homes(&self.stream, kernel, args)?.streams {
                if all.iter().all(|known| known.handle() != home.handle()) {
                    all.push(home);
                }
            }
        }
        let mut queued = Ok(());
        stream.ordered(&all, || {
            queued = queue_all(stream, &launches);
            // Launches that were enqueued before a refusal use the memory too.
            Ok(())
        })?;
        queued
    }
}

impl Queued {
    fn check(&self, memory: &Memory) -> GpuResult<()> {
        for used in self.args.memory().iter().filter(|used| used.bytes > 0) {
            if !memory.allows(used.address, used.bytes, used.access == Access::Write) {
                let param = self.kernel.params.get(used.value).map_or("?", |param| param.name);
                let argument = param.strip_suffix("_ptr").unwrap_or(param);
                return Err(GpuError::NotInBatch { kernel: self.kernel.name, argument });
            }
        }
        Ok(())
    }
}

/// Enqueues all of them in one call on the context.
fn queue_all(stream: &StreamInner, launches: &[Queued]) -> GpuResult<()> {
    if launches.is_empty() {
        return Ok(());
    }
    let mut at = 0;
    let queued = stream.context().call("cuLaunchKernelEx", || {
        for Queued { kernel, prepared, args } in launches {
            #[cfg(feature = "nvtx")]
            let _range = crate::nvtx::range(kernel.name);
            let &Prepared { function, config, ref attributes } = prepared;
            stream.note_launch(kernel.name, &config);
            // SAFETY: the promise of whoever launched on the batch, which has the memory.
            let code =
                unsafe { start_raw(stream.handle(), function.handle, config, args, attributes) };
            if code != sys::CUresult::CUDA_SUCCESS {
                return code;
            }
            at += 1;
        }
        sys::CUresult::CUDA_SUCCESS
    });
    let name = launches.get(at).map_or("?", |own| own.kernel.name);
    queued.with_gpu_context(|| format!("launching `{name}` in a batch"))
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} launches)", self.len())
    }
}
