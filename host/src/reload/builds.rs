//! The builds of a kernel crate: at an edit one of the kernels that it can concern, behind it one of all.

use std::path::Path;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cuda_builder::{Cancel, CudaBuilder, CudaBuilderError, Snapshot};
use ptx_format::index::parts;

use super::worker::Job;

/// A kernel crate, its last build, and the one that is under way.
pub(super) struct Builds {
    builder: CudaBuilder,
    sender: Sender<Job>,
    last: Option<Snapshot>,
    whole: Option<Whole>,
    begun: u64,
}

/// A build of all kernels, on a thread of its own.
struct Whole {
    number: u64,
    cancel: Cancel,
    thread: JoinHandle<()>,
}

/// How a build of all kernels ended.
pub(super) struct Ended {
    number: u64,
    /// The edit that it is for.
    pub(super) edit: Instant,
    pub(super) took: Duration,
    pub(super) result: Result<Snapshot, CudaBuilderError>,
}

impl Builds {
    pub(super) fn new(builder: CudaBuilder, sender: Sender<Job>) -> Self {
        Self { builder, sender, last: None, whole: None, begun: 0 }
    }

    pub(super) fn path(&self) -> &Path {
        self.builder.path()
    }

    /// Builds all kernels, on this thread.
    pub(super) fn first(&mut self) -> Result<&Snapshot, CudaBuilderError> {
        let snapshot = self.builder.snapshot()?;
        Ok(self.last.insert(snapshot))
    }

    /// Whether a build is under way without which an edit cannot be limited.
    pub(super) fn is_first_under_way(&self) -> bool {
        self.last.is_none() && self.whole.is_some()
    }

    /// Builds what the edits since the last build concern, on this thread; nothing if they cannot be limited. A
    /// build of all kernels that is under way is of no use any more, and is ended.
    pub(super) fn rebuild(
        &mut self,
        in_use: &[&str],
    ) -> Result<Option<&Snapshot>, CudaBuilderError> {
        self.stop();
        let Some(last) = &self.last else { return Ok(None) };
        let built = self.builder.rebuild(last, in_use)?;
        Ok(built.map(|snapshot| &*self.last.insert(snapshot)))
    }

    /// Begins to build all kernels. [`Job::Built`] tells the end.
    pub(super) fn begin_whole(&mut self, edit: Instant) {
        self.stop();
        self.begun += 1;
        let (number, cancel, sender) = (self.begun, Cancel::default(), self.sender.clone());
        let builder = self.builder.clone().cancel(&cancel);
        let build = move || {
            let begin = Instant::now();
            let result = builder.snapshot();
            let ended = Ended { number, edit, took: begin.elapsed(), result };
            // The worker may have ended.
            let _ = sender.send(Job::Built(Box::new(ended)));
        };
        let thread = thread::Builder::new().name("kernel build".to_owned()).spawn(build);
        self.whole = thread.ok().map(|thread| Whole { number, cancel, thread });
    }

    /// What a build of all kernels made; nothing if it was ended, and none in the result if it says what the last
    /// build said.
    pub(super) fn take(
        &mut self,
        number: u64,
        result: Result<Snapshot, CudaBuilderError>,
    ) -> Option<Result<Taken<'_>, CudaBuilderError>> {
        self.whole.take_if(|whole| whole.number == number)?;
        Some(result.map(|snapshot| {
            let is_same = self.last.as_ref().is_some_and(|last| say_the_same(last, &snapshot));
            Taken { is_same, snapshot: self.last.insert(snapshot) }
        }))
    }

    fn stop(&mut self) {
        if let Some(Whole { cancel, thread, .. }) = self.whole.take() {
            cancel.cancel();
            let _ = thread.join();
        }
    }
}

/// A build of all kernels, and whether the one before it said the same.
pub(super) struct Taken<'a> {
    pub(super) is_same: bool,
    pub(super) snapshot: &'a Snapshot,
}

impl Ended {
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Builds {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whether two texts have the same parts, whatever their order.
fn say_the_same(one: &Snapshot, other: &Snapshot) -> bool {
    let hashes = |snapshot: &Snapshot| {
        let parts = parts(&snapshot.ptx)?;
        let mut hashes: Vec<u64> = parts.iter().map(|part| part.hash).collect();
        hashes.sort_unstable();
        Some(hashes)
    };
    hashes(one).is_some_and(|own| Some(own) == hashes(other))
}
