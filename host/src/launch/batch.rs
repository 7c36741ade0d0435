//! Launches that are queued together.

use std::cell::RefCell;
use std::fmt;

use cuda_std::launch::{Access, Args, Kernel, Launch, LaunchConfig};
use cust::sys;
use smallvec::SmallVec;

use super::{Prepared, groups, homes, prepare, start_raw};
use crate::error::{GpuContext, GpuError, GpuResult};
use crate::gpu::Gpu;
use crate::graph::{GraphBuffers, Memory};
use crate::recorder;
use crate::stream::{Stream, StreamInner};

/// What takes the launches of [`Stream::batch`].
pub struct Batch {
    stream: Stream,
    launches: RefCell<Vec<Queued>>,
}

/// A launch that was checked.
struct Queued {
    kernel: &'static Kernel,
    prepared: Prepared,
    args: Args,
}

impl Stream {
    /// Queues all that `record` launches on the batch it is given, in that order and together: what
    /// each of several launches would ask of the driver beside itself is asked once. That is the context, and for
    /// every buffer that is at home on another stream two marks and two waits. On a stream that the
    /// buffers are at home on, single launches are as good; for a sequence that is launched again and
    /// again take a [`Graph`](crate::Graph).
    ///
    /// The batch borrows or owns `memory`, all that its kernels use, and lends it to `record`: the same
    /// buffer may be written by one launch after the other. Nothing is queued before `record` returns,
    /// and nothing at all if it fails.
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
    /// A buffer is in one place of a batch alone:
    /// ```compile_fail,E0502
    /// # use ferrowarp::{DeviceBuffer, Gpu, GpuResult};
    /// # fn example(gpu: &Gpu, mut y: DeviceBuffer<f32>) -> GpuResult<()> {
    /// gpu.batch((&y, &mut y), |_, _| Ok(()))
    /// # }
    /// ```
    /// and is not changed beside it:
    /// ```compile_fail,E0499
    /// # use ferrowarp::{DeviceBuffer, Gpu, GpuResult};
    /// # fn example(gpu: &Gpu, mut y: DeviceBuffer<f32>) -> GpuResult<()> {
    /// gpu.batch(&mut y, |_, _| y.clear())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of `record`, among them what a single launch is refused for;
    /// [`NotInBatch`](GpuError::NotInBatch) for memory that is no part of `memory`, or that it only
    /// lends to be read; a driver's refusal, behind which no more launches are queued.
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
    /// Queues all that `record` launches, together: see [`Stream::batch`].
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
        args: &Args,
    ) -> GpuResult<()> {
        if let Some(graph) = recorder::current() {
            return graph.launch(&self.stream, kernel, config, args);
        }
        if !homes(&self.stream, kernel, args)?.shared.is_empty() {
            let what = "a batch with memory that host and kernels use at once: launch the kernel";
            return Err(GpuError::Unsupported { what });
        }
        if let Some(prepared) = prepare(&self.stream, kernel, config, args)? {
            self.launches.borrow_mut().push(Queued { kernel, prepared, args: args.clone() });
        }
        Ok(())
    }
}

impl Batch {
    /// The launches until now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.launches.borrow().len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Queues them in the order of what they use, all of which is in `memory`.
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
            // What was queued before a refusal uses the memory too.
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

    fn is_plain(&self) -> bool {
        self.prepared.attributes.is_empty()
    }
}

fn queue_all(stream: &StreamInner, launches: &[Queued]) -> GpuResult<()> {
    for part in launches.chunk_by(|a, b| a.is_plain() && b.is_plain()) {
        part.iter().for_each(|own| stream.launches(own.kernel.name, &own.prepared.config));
        queue_part(stream, part)?;
    }
    Ok(())
}

/// Queues launches without attributes in one go, or one that has some.
fn queue_part(stream: &StreamInner, part: &[Queued]) -> GpuResult<()> {
    if let [Queued { kernel, prepared, args }] = part
        && !prepared.attributes.is_empty()
    {
        #[cfg(feature = "nvtx")]
        let _range = crate::nvtx::range(kernel.name);
        let Prepared { function, config, attributes } = prepared;
        // SAFETY: the promise of whoever launched on the batch, which has the memory.
        let queued = unsafe { groups::start(stream, *function, *config, args, attributes) };
        return queued.with_gpu_context(|| format!("launching `{}` in a batch", kernel.name));
    }
    let mut at = 0;
    let queued = stream.context().call("cuLaunchKernel", || {
        for own in part {
            #[cfg(feature = "nvtx")]
            let _range = crate::nvtx::range(own.kernel.name);
            let Prepared { function, config, .. } = own.prepared;
            // SAFETY: as above.
            let code = unsafe { start_raw(stream, function, config, &own.args) };
            if code != sys::CUresult::CUDA_SUCCESS {
                return code;
            }
            at += 1;
        }
        sys::CUresult::CUDA_SUCCESS
    });
    let name = part.get(at).map_or("?", |own| own.kernel.name);
    queued.with_gpu_context(|| format!("launching `{name}` in a batch"))
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Batch({} launches)", self.len())
    }
}
