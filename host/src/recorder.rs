//! Where launches, copies and fills go while they are captured.

use std::cell::RefCell;
use std::rc::Rc;

use cuda_std::launch::{Args, Kernel, LaunchConfig};

use crate::capture;
use crate::error::GpuResult;
use crate::foreign::ForeignMemory;
use crate::stream::{Stream, StreamInner};

/// Makes nodes of what a capturing thread would otherwise queue on streams.
pub(crate) trait Recorder {
    /// A launch on `stream`.
    fn launch(
        &self,
        stream: &Stream,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> GpuResult<()>;

    /// A copy on the device.
    fn copy(&self, from: Bytes<'_>, to: Bytes<'_>) -> GpuResult<()>;

    /// A fill of memory with zeros.
    fn clear(&self, to: Bytes<'_>) -> GpuResult<()>;

    /// A fill of memory with a value of 1, 2 or 4 bytes.
    fn fill(&self, to: Bytes<'_>, value: &[u8]) -> GpuResult<()>;

    /// Work of another library, which `work` enqueues on the stream that it is called with, once.
    fn foreign(
        &self,
        name: &str,
        memory: ForeignMemory,
        work: &mut dyn FnMut(&Stream) -> GpuResult<()>,
    ) -> GpuResult<()>;
}

/// Device memory of a copy or a fill.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a> {
    pub(crate) home: Option<&'a StreamInner>,
    pub(crate) address: u64,
    /// In bytes.
    pub(crate) len: usize,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<dyn Recorder>>> = const { RefCell::new(None) };
}

/// The recorder of this thread's work, if it is captured.
#[inline]
pub(crate) fn current() -> Option<Rc<dyn Recorder>> {
    if capture::is_recording() { CURRENT.with_borrow(Clone::clone) } else { None }
}

/// Sends this thread's launches, copies and fills to `recorder` while `work` runs.
pub(crate) fn record<R>(recorder: Rc<dyn Recorder>, work: impl FnOnce() -> R) -> R {
    struct Before(Option<Rc<dyn Recorder>>);
    impl Drop for Before {
        fn drop(&mut self) {
            let ended = CURRENT.replace(self.0.take());
            // Not while the cell is borrowed: what it holds may end here.
            drop(ended);
        }
    }
    let _before = Before(CURRENT.replace(Some(recorder)));
    capture::recording(work)
}
