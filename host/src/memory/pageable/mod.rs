//! Copies of pageable memory through a ring of page-locked chunks, with threads of its own.
//!
//! The driver copies pageable memory with one thread, through a buffer of its own. Here several threads
//! do so side by side: each has a *lane*, two chunks and a stream, and takes the next piece of the copy
//! when it has a chunk for it. So the processor's memory and the bus work at the same time.
//!
//! The ring is made with the first such copy of a context, is never larger than 32 MiB, and ends with
//! the context. One copy at a time has it; the next one waits, which cannot be for long: what the lanes'
//! streams do waits for nothing but the bus, since a copy begins after the memory's home has been waited
//! for.

mod copy;
mod lane;
mod work;

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use lane::Lane;
use work::Work;

use super::registered::Known;
use crate::context::{Context, ContextState, Slot};
use crate::device::check_process;
use crate::error::{GpuError, GpuResult};
use crate::lock::lock;
use crate::stream::StreamInner;

/// Copies of pageable memory of at least so many bytes go through the ring; the driver copies smaller
/// ones as fast.
pub const STAGED_FROM_BYTES: usize = 2 << 20;
/// With fewer, bus and processor would take turns; more do not make the bus faster.
const LANES: RangeInclusive<usize> = 2..=8;

/// The ring of a context.
#[derive(Default)]
pub(crate) struct PageableRing {
    crew: Mutex<Option<Crew>>,
}

impl fmt::Debug for PageableRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageableRing").finish_non_exhaustive()
    }
}

/// Which way a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From the host to the device.
    Up,
    /// From the device to the host.
    Down,
}

/// Whether a copy of such memory should go through the ring: large, and unknown to the driver.
pub(super) fn is_worth_it(context: &Context, host: *const u8, bytes: usize) -> GpuResult<bool> {
    let is_large = bytes >= STAGED_FROM_BYTES;
    Ok(is_large && !Known::of(context, host.expose_provenance() as u64, bytes)?.to_driver)
}

/// Copies through the ring, after all that was queued for the device's memory before. `false` if there
/// is no ring, since no memory could be page-locked for it; nothing is copied then.
///
/// # Errors
/// The fault of a kernel before; what the driver answers.
///
/// # Safety
/// Host and device have `bytes` bytes there. The device's memory has `home` as its home; during the call
/// nobody else uses what is written, nor writes what is read.
pub(super) unsafe fn copy(
    home: &StreamInner,
    way: Way,
    host: *mut u8,
    device: u64,
    bytes: usize,
) -> GpuResult<bool> {
    home.synchronize()?;
    let context = home.context();
    let mut crew = lock(&PageableRing::of(context).crew);
    if crew.is_none() {
        *crew = Crew::gather(context).ok();
    }
    let Some(crew) = &mut *crew else { return Ok(false) };
    let work = Work::new(host, device, bytes, crew.lanes());
    crew.run(&|lane| {
        let result = match way {
            // SAFETY: the caller's promise; `run` returns when all lanes are done.
            Way::Up => unsafe { lane.upload(context, &work) },
            // SAFETY: as above.
            Way::Down => unsafe { lane.download(context, &work) },
        };
        if let Err(error) = result {
            work.fail(error);
            lane.settle(context);
        }
    });
    work.result().map(|()| true)
}

impl PageableRing {
    fn of(context: &Context) -> &Self {
        context.state(Slot::StagedCopies, Self::default)
    }
}

impl ContextState for PageableRing {
    /// Ends the threads and frees all. No copy can be under way, for it would hold the context.
    fn close(&self, context: &Context) {
        let crew = lock(&self.crew).take();
        match check_process() {
            Ok(()) => crew.into_iter().for_each(|crew| crew.disband(context)),
            // A forked child has none of the threads, and would wait for them for ever.
            Err(_) => std::mem::forget(crew),
        }
    }
}

/// Lanes, and the threads that work on them: the caller's own, and helpers.
struct Crew {
    own: Lane,
    helpers: Vec<Helper>,
}

/// A thread that waits for work on its lane, which it gives back at its end.
struct Helper {
    jobs: Sender<Job>,
    thread: JoinHandle<Lane>,
}

/// What all lanes do.
type Task<'a> = &'a (dyn Fn(&mut Lane) + Sync + 'a);

/// A task for a helper. The end of `running` says that it is done, however it ends.
struct Job {
    task: Task<'static>,
    running: Sender<()>,
}

impl Crew {
    /// As many lanes as the machine has use for and memory can be page-locked for, but at least one.
    fn gather(context: &Context) -> GpuResult<Self> {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let mut crew = Self { own: Lane::open(context)?, helpers: Vec::new() };
        for _ in 1..(threads / 2).clamp(*LANES.start(), *LANES.end()) {
            let Ok(helper) = Helper::start(context) else { break };
            crew.helpers.push(helper);
        }
        Ok(crew)
    }

    fn lanes(&self) -> usize {
        1 + self.helpers.len()
    }

    /// Runs `task` on all lanes, and waits for all.
    fn run(&mut self, task: Task<'_>) {
        let (running, done) = channel();
        // Waits in its drop, so even a panic does not leave before the helpers.
        let _done = Done(done);
        // SAFETY: the helpers use the task until they drop `running`, which `_done` waits for.
        let lent: Task<'static> = unsafe { std::mem::transmute::<Task<'_>, Task<'static>>(task) };
        for helper in &self.helpers {
            // A helper that is gone drops the job, and the others do its share.
            let _ = helper.jobs.send(Job { task: lent, running: running.clone() });
        }
        drop(running);
        task(&mut self.own);
    }

    fn disband(self, context: &Context) {
        self.own.close(context);
        for Helper { jobs, thread } in self.helpers {
            drop(jobs);
            if let Ok(lane) = thread.join() {
                lane.close(context);
            }
        }
    }
}

/// Waits until all helpers have dropped their senders.
struct Done(Receiver<()>);

impl Drop for Done {
    fn drop(&mut self) {
        while self.0.recv().is_ok() {}
    }
}

impl Helper {
    fn start(context: &Context) -> GpuResult<Self> {
        let (jobs, waiting) = channel::<Job>();
        let (hand, given) = channel();
        let work = move || {
            let mut lane: Lane = given.recv().expect("the lane is sent right after the start");
            for Job { task, running } in waiting {
                task(&mut lane);
                drop(running);
            }
            lane
        };
        let lane = Lane::open(context)?;
        match thread::Builder::new().name("staged copies".to_owned()).spawn(work) {
            Ok(thread) => {
                hand.send(lane).expect("the thread waits for its lane");
                Ok(Self { jobs, thread })
            }
            Err(_) => {
                lane.close(context);
                Err(GpuError::Unsupported { what: "more threads in this process" })
            }
        }
    }
}
