//! Stream queues: each stream executes its tasks in order on a thread of its own.
//!
//! The tasks of a stream are numbered, and a task's number is its *ticket*. A task may wait for
//! tickets of other streams. All of those were issued before its own, so waits cannot form a cycle.
//! A CUDA event is a remembered ticket, and the semantics of the null stream come down to tickets
//! too: its tasks wait for all earlier tasks of the blocking streams, and the tasks of those wait
//! for all earlier tasks of the null stream.
//!
//! For the race check each task also has a vector clock, which holds what happens before it; see
//! `happens_before.rs`.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use ::emulator::race::{Clock, Moment};

use super::deadlock::{self, Outside};
use super::gpu::Gpu;
use super::{happens_before, lock};
use crate::codes::{CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_OPERATING_SYSTEM};
use crate::detail::{DriverError, DriverResult, panicked};

/// How far a stream has come.
pub(super) struct StreamProgress {
    /// Unique among all streams of the process.
    id: u64,
    /// The stream's name in reports.
    name: String,
    /// The ticket issued last, and its clock.
    last: Mutex<(u64, CompletionClock)>,
    /// The ticket of the task completed last.
    completed: Mutex<u64>,
    advanced: Condvar,
    /// What the stream's thread waits for before it runs its next task.
    awaited: Mutex<Option<SyncPoint>>,
}

impl StreamProgress {
    fn new(is_null: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1 << 16);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = if is_null { "the null stream".to_owned() } else { format!("stream {id}") };
        let (completed, advanced) = (Mutex::default(), Condvar::new());
        let (last, awaited) = (Mutex::default(), Mutex::default());
        Self { id, name, last, completed, advanced, awaited }
    }

    /// Whether this is the stream with this id.
    pub(super) fn is(&self, id: u64) -> bool {
        self.id == id
    }

    /// Whether its thread runs a task or is about to: there are tasks left, and the next one does
    /// not wait for another stream.
    pub(super) fn is_busy(&self) -> bool {
        let waits = lock(&self.awaited).as_ref().is_some_and(SyncPoint::is_pending);
        let last = lock(&self.last).0;
        !waits && !self.reached(last)
    }

    fn reached(&self, ticket: u64) -> bool {
        *lock(&self.completed) >= ticket
    }

    fn wait(&self, ticket: u64) {
        let completed = lock(&self.completed);
        drop(
            self.advanced
                .wait_while(completed, |completed| *completed < ticket)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    fn advance(&self) {
        *lock(&self.completed) += 1;
        deadlock::note_activity();
        self.advanced.notify_all();
    }

    fn last(self: &Arc<Self>) -> SyncPoint {
        let (ticket, clock) = lock(&self.last).clone();
        SyncPoint { progress: self.clone(), ticket, clock }
    }
}

/// A position in a stream: reached when all tasks up to it are completed.
#[derive(Clone)]
pub(super) struct SyncPoint {
    progress: Arc<StreamProgress>,
    ticket: u64,
    clock: CompletionClock,
}

impl SyncPoint {
    /// Whether the tasks are completed. If so, they happen before what the host does next.
    pub(super) fn is_reached(&self) -> bool {
        let reached = self.progress.reached(self.ticket);
        if reached {
            self.order_before_host();
        }
        reached
    }

    /// Blocks until the tasks are completed, so that they happen before what the host does next.
    pub(super) fn wait(&self) {
        self.wait_without_ordering();
        self.order_before_host();
    }

    /// Blocks until the tasks are completed where the API does not promise it. To the race check
    /// they do not happen before what the host does next, since a program must not rely on it.
    pub(super) fn wait_without_ordering(&self) {
        let _wait = deadlock::HostWait::new(self);
        self.block();
    }

    /// Blocks a stream's own thread, which is not one of the host's.
    fn block(&self) {
        let _waiting = WaitingThread::new();
        self.progress.wait(self.ticket);
    }

    /// Whether some of the tasks are not completed.
    pub(super) fn is_pending(&self) -> bool {
        !self.progress.reached(self.ticket)
    }

    /// Whether both are the same position in the same stream.
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.progress, &other.progress) && self.ticket == other.ticket
    }

    fn order_before_host(&self) {
        self.clock.get().into_iter().for_each(|clock| happens_before::order_before_host(clock));
    }
}

/// The clock of a task's completion, set when the task is completed.
type CompletionClock = Arc<OnceLock<Arc<Clock>>>;

type Action = Box<dyn FnOnce() -> DriverResult + Send>;

/// A task for a stream.
pub(super) struct Task {
    waits: Vec<SyncPoint>,
    action: Action,
    even_if_lost: bool,
}

impl Task {
    /// A task that is skipped once the device is lost.
    pub(super) fn new(action: impl FnOnce() -> DriverResult + Send + 'static) -> Self {
        Self { waits: Vec::new(), action: Box::new(action), even_if_lost: false }
    }

    /// Runs the task also when the device is lost.
    pub(super) fn even_if_lost(self) -> Self {
        Self { even_if_lost: true, ..self }
    }

    /// Runs the task after `point`.
    pub(super) fn after(mut self, point: SyncPoint) -> Self {
        self.waits.push(point);
        self
    }

    fn run(self, gpu: &Gpu) {
        if gpu.fault().is_some() && !self.even_if_lost {
            return;
        }
        match catch_unwind(AssertUnwindSafe(|| (self.action)())) {
            Ok(Ok(())) => {}
            Ok(Err(fault)) => gpu.lose(fault),
            Err(panic) => {
                gpu.lose(DriverError::new(CUDA_ERROR_LAUNCH_FAILED, panicked(&*panic)));
            }
        }
    }
}

/// The owner of a queue. It lives at least as long as the queue's tasks.
pub(super) type Owner = Arc<dyn Any + Send + Sync>;

/// What is sent to a stream's thread: a task, its ticket, and the host's clock when it was
/// enqueued.
struct Command {
    owner: Owner,
    gpu: &'static Gpu,
    task: Task,
    point: SyncPoint,
    host: Arc<Clock>,
}

/// A stream's queue with its thread, which starts with the first task and ends with the queue.
pub(super) struct StreamQueue {
    progress: Arc<StreamProgress>,
    sender: Mutex<Option<Sender<Command>>>,
    /// Whether it synchronizes with the null stream.
    blocking: bool,
}

impl StreamQueue {
    fn new(blocking: bool, is_null: bool) -> Self {
        let progress = Arc::new(StreamProgress::new(is_null));
        deadlock::add_stream(Arc::downgrade(&progress));
        Self { progress, sender: Mutex::new(None), blocking }
    }

    /// Unique among all streams of the process.
    pub(super) fn id(&self) -> u64 {
        self.progress.id
    }

    fn send(&self, owner: Owner, gpu: &'static Gpu, task: Task) -> DriverResult<SyncPoint> {
        let mut sender = lock(&self.sender);
        if sender.is_none() {
            *sender = Some(start(self.progress.clone())?);
        }
        if let Some(sender) = &*sender {
            let point = self.next_point();
            deadlock::note_activity();
            let host = happens_before::submit(self.id(), point.ticket);
            // The thread ends only when the sender is dropped.
            let _ = sender.send(Command { owner, gpu, task, point, host });
        }
        Ok(self.progress.last())
    }

    /// Issues the next ticket.
    fn next_point(&self) -> SyncPoint {
        let mut last = lock(&self.progress.last);
        *last = (last.0 + 1, CompletionClock::default());
        let (ticket, clock) = last.clone();
        SyncPoint { progress: self.progress.clone(), ticket, clock }
    }
}

fn start(progress: Arc<StreamProgress>) -> DriverResult<Sender<Command>> {
    let (sender, receiver) = channel();
    thread::Builder::new()
        .name("emulated stream".to_owned())
        .spawn(move || run_commands(&receiver, &progress))
        .map_err(|error| DriverError::new(CUDA_ERROR_OPERATING_SYSTEM, error.to_string()))?;
    Ok(sender)
}

thread_local! {
    /// The id of the stream whose thread this is.
    static THIS_QUEUE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Everything outside of the task that runs on this thread; `None` on a thread of the host.
pub(super) fn outside() -> Option<Outside> {
    THIS_QUEUE.get().map(Outside::of)
}

fn run_commands(commands: &Receiver<Command>, progress: &StreamProgress) {
    THIS_QUEUE.set(Some(progress.id));
    let mut clock = Arc::<Clock>::default();
    for Command { owner: _owner, gpu, task, point, host } in commands {
        let mut before = Clock::clone(&clock);
        before.join(&host);
        for other in &task.waits {
            wait_for_stream(other, progress);
            other.clock.get().into_iter().for_each(|clock| before.join(clock));
        }
        let moment = Moment {
            line: progress.id,
            ticket: point.ticket,
            stream: progress.name.clone(),
            clock: Arc::new(before),
        };
        clock = Arc::new(happens_before::run_at(moment, || task.run(gpu)));
        let _ = point.clock.set(clock.clone());
        happens_before::finish(progress.id, point.ticket);
        progress.advance();
    }
    // The stream's handle is gone, so no call can wait for it any more. Whatever waited for it in a
    // way that the race check does not see counts as ordered after it.
    happens_before::order_before_host(&clock);
}

/// Waits on a stream's thread for a task of another stream.
fn wait_for_stream(other: &SyncPoint, progress: &StreamProgress) {
    *lock(&progress.awaited) = Some(other.clone());
    deadlock::note_activity();
    other.block();
    *lock(&progress.awaited) = None;
}

/// How many threads wait for a stream now.
static WAITING: Mutex<usize> = Mutex::new(0);
static WAITING_CHANGED: Condvar = Condvar::new();

/// Counts a thread as waiting for a stream, until this is dropped.
struct WaitingThread;

impl WaitingThread {
    fn new() -> Self {
        *lock(&WAITING) += 1;
        WAITING_CHANGED.notify_all();
        Self
    }
}

impl Drop for WaitingThread {
    fn drop(&mut self) {
        *lock(&WAITING) -= 1;
    }
}

/// Delays this thread by `longest`, or until some thread waits for a stream.
pub(super) fn artificial_delay(longest: Duration) {
    let waiting = lock(&WAITING);
    drop(WAITING_CHANGED.wait_timeout_while(waiting, longest, |waiting| *waiting == 0));
}

/// All streams of a context.
pub(super) struct ContextStreams {
    gpu: &'static Gpu,
    null: Arc<StreamQueue>,
    /// The other streams. Locked while a task is enqueued, which gives all tasks of a context one
    /// order.
    others: Mutex<Vec<OtherQueue>>,
    /// What all later tasks wait for.
    blocked_on: Mutex<Vec<SyncPoint>>,
}

struct OtherQueue {
    progress: Weak<StreamProgress>,
    blocking: bool,
}

impl ContextStreams {
    pub(super) fn new(gpu: &'static Gpu) -> Self {
        Self {
            gpu,
            null: Arc::new(StreamQueue::new(false, true)),
            others: Mutex::default(),
            blocked_on: Mutex::default(),
        }
    }

    /// The null stream.
    pub(super) fn null(&self) -> &Arc<StreamQueue> {
        &self.null
    }

    /// Opens the queue of a new stream.
    pub(super) fn open_queue(&self, blocking: bool) -> Arc<StreamQueue> {
        let queue = Arc::new(StreamQueue::new(blocking, false));
        let mut others = lock(&self.others);
        others.retain(|other| other.progress.strong_count() > 0);
        others.push(OtherQueue { progress: Arc::downgrade(&queue.progress), blocking });
        queue
    }

    /// Enqueues a task on one of these streams. `owner` is dropped when the task is done.
    pub(super) fn enqueue(
        &self,
        owner: Owner,
        queue: &StreamQueue,
        mut task: Task,
    ) -> DriverResult<SyncPoint> {
        let others = lock(&self.others);
        if std::ptr::eq(queue, &*self.null) {
            task.waits.extend(blocking(&others));
        } else if queue.blocking {
            task.waits.push(self.null.progress.last());
        }
        let mut blocked_on = lock(&self.blocked_on);
        blocked_on.retain(|point| !point.is_reached());
        task.waits.extend(blocked_on.iter().cloned());
        drop(blocked_on);
        if !happens_before::is_tracked() {
            task.waits.retain(|point| !point.progress.reached(point.ticket));
        }
        queue.send(owner, self.gpu, task)
    }

    /// What `cuStreamSynchronize` waits for: the stream itself, and for the null stream also all
    /// blocking streams.
    pub(super) fn points_to_synchronize(&self, queue: &StreamQueue) -> Vec<SyncPoint> {
        let mut points = vec![queue.progress.last()];
        if std::ptr::eq(queue, &*self.null) {
            points.extend(blocking(&lock(&self.others)));
        }
        points
    }

    /// The last task of each stream.
    pub(super) fn last_points(&self) -> Vec<SyncPoint> {
        let others = lock(&self.others);
        let others = others.iter().filter_map(OtherQueue::last);
        others.chain([self.null.progress.last()]).collect()
    }

    /// Blocks until all tasks enqueued so far are completed.
    pub(super) fn wait_all(&self) {
        self.last_points().iter().for_each(SyncPoint::wait);
    }

    /// Blocks until all tasks enqueued so far are completed, where the API does not promise it.
    pub(super) fn wait_all_without_ordering(&self) {
        self.last_points().iter().for_each(SyncPoint::wait_without_ordering);
    }

    /// Makes all tasks that are enqueued from now on wait for a point.
    pub(super) fn block_later_tasks_on(&self, point: Option<SyncPoint>) {
        lock(&self.blocked_on).extend(point);
    }
}

impl OtherQueue {
    fn last(&self) -> Option<SyncPoint> {
        self.progress.upgrade().map(|progress| progress.last())
    }
}

fn blocking(others: &[OtherQueue]) -> impl Iterator<Item = SyncPoint> + '_ {
    others.iter().filter(|other| other.blocking).filter_map(OtherQueue::last)
}
