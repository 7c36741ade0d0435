//! The thread of a hot module: it sees edits, builds, loads and unloads.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use cuda_builder::{Compiled, CudaBuilder, CudaBuilderError};

use super::ReloadEvent;
use super::files::Files;
use super::shared::Shared;
use crate::module::not_stopped_by_captures;

/// What the thread is told.
pub(super) enum Job {
    /// Files changed.
    Files(notify::Event),
    /// The kernel crate is to be built, changed or not.
    Build,
    /// A version is not kept any more.
    Retire,
    /// The hot module is gone.
    Stop,
}

/// What a module is made from.
pub(super) enum Source {
    /// What the program gives.
    Program,
    /// A PTX file.
    Ptx(PathBuf),
    /// A kernel crate.
    Crate(Box<CudaBuilder>),
}

pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) source: Source,
    pub(super) files: Option<Files>,
    pub(super) jobs: Receiver<Job>,
}

/// What the thread does next.
enum Next {
    Reload(Instant),
    Build,
    Unload,
    Stop,
}

/// How long there must be no further event before an edit counts as complete.
const QUIET: Duration = Duration::from_millis(10);
/// How long a stream of events may go on before they count as an edit nevertheless.
const LONGEST: Duration = Duration::from_millis(200);
/// Between two looks at a version whose last launch has not run: doubled each time.
const FIRST_LOOK: Duration = Duration::from_millis(2);
const LAST_LOOK: Duration = Duration::from_millis(250);

impl Worker {
    pub(super) fn run(mut self) {
        not_stopped_by_captures();
        let mut look = None;
        loop {
            match self.next(look) {
                Next::Stop => return,
                Next::Reload(edit) => self.reload(edit),
                Next::Build => self.reload(Instant::now()),
                Next::Unload => {}
            }
            let wait = look.map_or(FIRST_LOOK, |look: Duration| (look * 2).min(LAST_LOOK));
            look = self.shared.unload().then_some(wait);
        }
    }

    /// Waits for something to do, at most for `look`.
    fn next(&mut self, look: Option<Duration>) -> Next {
        loop {
            let job = match look {
                Some(look) => self.jobs.recv_timeout(look),
                None => self.jobs.recv().map_err(RecvTimeoutError::from),
            };
            match job {
                Ok(Job::Files(event)) if self.concerns(&event) => return self.settled(),
                Ok(Job::Files(_)) => {}
                Ok(Job::Build) => return Next::Build,
                Ok(Job::Retire) | Err(RecvTimeoutError::Timeout) => return Next::Unload,
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => return Next::Stop,
            }
        }
    }

    /// Waits until an edit is complete: editors write a file in several steps.
    fn settled(&mut self) -> Next {
        let edit = Instant::now();
        while edit.elapsed() < LONGEST {
            match self.jobs.recv_timeout(QUIET) {
                Ok(Job::Stop) | Err(RecvTimeoutError::Disconnected) => return Next::Stop,
                Ok(_) => {}
                Err(RecvTimeoutError::Timeout) => break,
            }
        }
        Next::Reload(edit)
    }

    fn concerns(&self, event: &notify::Event) -> bool {
        self.files.as_ref().is_some_and(|files| files.concerns(event))
    }

    fn reload(&mut self, edit: Instant) {
        self.files.iter_mut().for_each(Files::refresh);
        match &self.source {
            Source::Program => {}
            Source::Ptx(path) => match std::fs::read_to_string(path) {
                // A file that is written right now; its end is an event of its own.
                Ok(text) if text.trim().is_empty() => {}
                Ok(text) => self.shared.reload(text, edit),
                Err(error) => {
                    let (path, error) = (path.clone(), Arc::new(error));
                    self.shared.emit(ReloadEvent::Unreadable { path, error });
                }
            },
            Source::Crate(builder) => match self.build(builder) {
                Ok((compiled, ptx)) => {
                    self.files.iter_mut().for_each(|files| files.follow(&compiled.sources));
                    self.shared.reload(ptx, edit);
                }
                Err(CudaBuilderError::Cancelled) => {}
                Err(error) => {
                    self.shared.emit(ReloadEvent::BuildFailed { error: Arc::new(error) });
                }
            },
        }
    }

    fn build(&self, builder: &CudaBuilder) -> Result<(Compiled, String), CudaBuilderError> {
        self.shared.emit(ReloadEvent::Building);
        let begin = Instant::now();
        let built = build(builder)?;
        let (took, warnings) = (begin.elapsed(), built.0.messages.clone());
        self.shared.emit(ReloadEvent::Built { took, warnings });
        Ok(built)
    }
}

/// Builds a kernel crate and reads its PTX.
pub(super) fn build(builder: &CudaBuilder) -> Result<(Compiled, String), CudaBuilderError> {
    let compiled = builder.compile()?;
    let path = compiled.modules.first().ok_or(CudaBuilderError::NoArch)?.path.clone();
    let read = |source| CudaBuilderError::File { action: "read", path: path.clone(), source };
    let ptx = std::fs::read_to_string(&path).map_err(read)?;
    Ok((compiled, ptx))
}
