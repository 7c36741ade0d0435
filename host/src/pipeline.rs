//! A pipeline of frames: while one is computed, the next one comes in and the one before goes out.
//!
//! Each frame in flight has buffers and a stream of its own, so the copy engines and the
//! multiprocessors all have work; how many there are is fixed, and so is the memory. Results come out
//! in the order in which frames went in.
//!
//! ```no_run
//! use ferrowarp::{Buffering, FrameShape, Gpu, LaunchConfig, Pipeline};
//! use kernels_gpu::elementwise::saxpy;
//!
//! let gpu = Gpu::new()?;
//! let shape = FrameShape { input_len: 1 << 20, output_len: 1 << 20 };
//! let all = LaunchConfig::for_num_elems(1 << 20);
//! let mut pipeline = Pipeline::new(&gpu, shape, Buffering::Triple, |mut frame| {
//!     frame.output.clear()?;
//!     saxpy::launch(frame.stream, all, 2.0, &frame.input, &mut frame.output)
//! })?;
//! let frames = pipeline.run(
//!     |number, input: &mut [f32]| {
//!         input.fill(number as f32);
//!         number < 100
//!     },
//!     |number, output: &[f32]| assert_eq!(output[7], 2.0 * number as f32),
//! )?;
//! assert_eq!(frames, 100);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```

use std::fmt;
use std::mem::ManuallyDrop;

use bytemuck::Pod;

use crate::completion::Completion;
use crate::error::{GpuError, GpuResult};
use crate::memory::{DeviceBuffer, DeviceSliceMut, Staging};
use crate::stream::{AsStream, Stream};

/// How many frames are in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffering {
    /// One: copy in, compute and copy out take turns. What the others are measured against.
    Single,
    /// Two: while one is computed, another one is copied.
    Double,
    /// Three: one comes in, one is computed, one goes out.
    Triple,
}

impl Buffering {
    /// Frames in flight.
    #[must_use]
    pub fn frames(self) -> usize {
        match self {
            Self::Single => 1,
            Self::Double => 2,
            Self::Triple => 3,
        }
    }
}

/// Lengths of a frame, in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameShape {
    /// Of what comes from the host.
    pub input_len: usize,
    /// Of what goes to the host.
    pub output_len: usize,
}

/// A frame on the device, for the function that queues what is computed.
#[derive(Debug)]
pub struct Frame<'a, I: Pod, O: Pod> {
    /// Its number, from 0.
    pub number: u64,
    /// Its stream; work on it comes between the copies.
    pub stream: &'a Stream,
    /// What came in.
    pub input: DeviceSliceMut<'a, I>,
    /// What goes out. It holds what an earlier frame left there, or zeros.
    pub output: DeviceSliceMut<'a, O>,
}

/// A pipeline: see the [module](self).
pub struct Pipeline<I: Pod, O: Pod, F> {
    compute: F,
    slots: Vec<Slot<I, O>>,
    /// Frames that came in, and frames that went out.
    pushed: u64,
    popped: u64,
}

/// The place of a frame.
struct Slot<I: Pod, O: Pod> {
    stream: Stream,
    host_input: ManuallyDrop<Staging<I>>,
    input: DeviceBuffer<I>,
    output: DeviceBuffer<O>,
    host_output: ManuallyDrop<Staging<O>>,
    /// Whether copies may use the host's memory.
    busy: bool,
}

impl<I: Pod, O: Pod> Slot<I, O> {
    fn new(on: &Stream, shape: FrameShape) -> GpuResult<Self> {
        let stream = Stream::new(on.inner().context(), on.module())?;
        let context = stream.inner().context();
        let mut host_input = Staging::new(context, shape.input_len)?;
        host_input.clear();
        let input = DeviceBuffer::zeroed(&stream, shape.input_len)?;
        let output = DeviceBuffer::zeroed(&stream, shape.output_len)?;
        let host_output = Staging::new(context, shape.output_len)?;
        // Only now: what a slot never gets must end by itself.
        let (host_input, host_output) =
            (ManuallyDrop::new(host_input), ManuallyDrop::new(host_output));
        Ok(Self { stream, host_input, input, output, host_output, busy: false })
    }

    /// Waits until no copy uses the host's memory.
    fn wait(&mut self) -> GpuResult<()> {
        if !self.busy {
            return Ok(());
        }
        let result = self.stream.synchronize();
        let root = result.as_ref().map_err(GpuError::root);
        // Panics are looked for after the wait. All other errors leave open whether there was one.
        self.busy = !matches!(
            root,
            Ok(())
                | Err(GpuError::KernelPanic(_)
                    | GpuError::HostPanic { .. }
                    | GpuError::WakerPanic { .. })
        );
        result
    }

    fn queue<F>(&mut self, number: u64, compute: &mut F) -> GpuResult<()>
    where
        F: FnMut(Frame<'_, I, O>) -> GpuResult<()>,
    {
        let (home, input) = (self.stream.inner(), self.input.as_device_ptr().address());
        self.busy = true;
        // SAFETY: the buffer is this slot's own, as long, and at home here. Nobody touches the host's
        // memory while the slot is busy, and it lives as long as the slot, whose end waits.
        unsafe { self.host_input.upload(home.handle(), input)? };
        let (input, output) = (self.input.as_mut_slice(), self.output.as_mut_slice());
        compute(Frame { number, stream: &self.stream, input, output })?;
        let output = self.output.as_device_ptr().address();
        // SAFETY: as above.
        unsafe { self.host_output.download(self.stream.inner().handle(), output) }
    }
}

impl<I: Pod, O: Pod> Drop for Slot<I, O> {
    fn drop(&mut self) {
        // If the device is lost, or this runs in a host callback, a copy may still be running. Then the
        // memory leaks.
        if !self.busy || self.stream.inner().try_synchronize() {
            // SAFETY: neither is used again.
            unsafe { ManuallyDrop::drop(&mut self.host_input) };
            // SAFETY: as above.
            unsafe { ManuallyDrop::drop(&mut self.host_output) };
        }
    }
}

impl<I, O, F> Pipeline<I, O, F>
where
    I: Pod,
    O: Pod,
    F: FnMut(Frame<'_, I, O>) -> GpuResult<()>,
{
    /// A pipeline on the device of `on`. `compute` queues the work of each frame on the frame's stream
    /// and does not wait for it.
    ///
    /// # Errors
    /// [`OutOfMemory`](GpuError::OutOfMemory) on the device or for page-locked memory; the fault of a
    /// kernel before.
    pub fn new(
        on: &impl AsStream,
        shape: FrameShape,
        buffering: Buffering,
        compute: F,
    ) -> GpuResult<Self> {
        let slots = (0..buffering.frames()).map(|_| Slot::new(on.as_stream(), shape));
        Ok(Self { compute, slots: slots.collect::<GpuResult<_>>()?, pushed: 0, popped: 0 })
    }

    /// Frames in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        (self.pushed - self.popped) as usize
    }

    /// Whether as many frames are in flight as there can be: the oldest one has to come out first.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.in_flight() == self.slots.len()
    }

    /// Lets `fill` write the next frame's input, and queues the frame. The input holds what an earlier
    /// frame had there, or zeros. Waits for nothing.
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) if the pipeline is [full](Self::is_full).
    /// What `compute` or the driver answers: then all frames in flight are given up, and the pipeline
    /// is empty.
    pub fn push(&mut self, fill: impl FnOnce(&mut [I])) -> GpuResult<()> {
        let all = |input: &mut [I]| {
            fill(input);
            true
        };
        self.push_if(all).map(drop)
    }

    /// Like [`push`](Self::push), where `fill` returns whether there is another frame. Returns
    /// that.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_if(&mut self, fill: impl FnOnce(&mut [I]) -> bool) -> GpuResult<bool> {
        if self.is_full() {
            let reason = "all its frames are in flight; the oldest has to come out first";
            let operation = "pushing a frame into a pipeline";
            return Err(GpuError::InvalidArgument { operation, reason: reason.to_owned() });
        }
        let at = self.slot_of(self.pushed);
        // After a panic in `compute` the place may still be in use.
        self.slots[at].wait().or_else(|error| self.give_up(error))?;
        // SAFETY: no copy uses the memory, since the slot is not busy.
        if !fill(unsafe { self.slots[at].host_input.as_mut_slice() }) {
            return Ok(false);
        }
        let queued = self.slots[at].queue(self.pushed, &mut self.compute);
        queued.or_else(|error| self.give_up(error))?;
        self.pushed += 1;
        Ok(true)
    }

    /// Waits for the oldest frame in flight and lets `read` see its output; `None` if there is none.
    ///
    /// # Errors
    /// The fault or the panic of a kernel: then all frames in flight are given up, and the pipeline is
    /// empty.
    pub fn pop<R>(&mut self, read: impl FnOnce(&[O]) -> R) -> GpuResult<Option<R>> {
        if self.in_flight() == 0 {
            return Ok(None);
        }
        let at = self.slot_of(self.popped);
        self.slots[at].wait().or_else(|error| self.give_up(error))?;
        self.popped += 1;
        // SAFETY: no copy uses the memory, since the slot is not busy.
        Ok(Some(read(unsafe { self.slots[at].host_output.as_slice() })))
    }

    /// A future that is ready when the oldest frame in flight is: then [`pop`](Self::pop) does not
    /// wait. Ready at once if there is none.
    pub fn ready(&self) -> Completion {
        self.slots[self.slot_of(self.popped)].stream.completed()
    }

    /// Runs frames until `fill` returns false, and takes their outputs in order, with those of frames
    /// that were in flight before: `fill` and `take` get the frame's number. Returns how many frames
    /// came out.
    ///
    /// # Errors
    /// As [`push`](Self::push) and [`pop`](Self::pop).
    pub fn run(
        &mut self,
        mut fill: impl FnMut(u64, &mut [I]) -> bool,
        mut take: impl FnMut(u64, &[O]),
    ) -> GpuResult<u64> {
        let (first, mut more) = (self.popped, true);
        loop {
            while more && !self.is_full() {
                let number = self.pushed;
                more = self.push_if(|input| fill(number, input))?;
            }
            let number = self.popped;
            if self.pop(|output| take(number, output))?.is_none() {
                return Ok(number - first);
            }
        }
    }

    fn slot_of(&self, frame: u64) -> usize {
        (frame % self.slots.len() as u64) as usize
    }

    /// Waits for what is in flight and forgets it.
    fn give_up<T>(&mut self, error: GpuError) -> GpuResult<T> {
        for slot in &mut self.slots {
            // The first error is the one to report.
            let _ = slot.wait();
        }
        self.popped = self.pushed;
        Err(error)
    }
}

impl<I: Pod, O: Pod, F> fmt::Debug for Pipeline<I, O, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { slots, pushed, popped, .. } = self;
        write!(f, "Pipeline({} frames at once, {pushed} in, {popped} out)", slots.len())
    }
}
