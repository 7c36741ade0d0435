//! Streams: each runs its work in order on a thread of its own.
//!
//! Work is numbered within its stream; a number is a *ticket*. Work may have to wait for tickets
//! of other streams, all of them given out before its own: so nothing waits in a circle. An event
//! is a ticket that was remembered, and so is what the null stream means: its work waits for all
//! earlier work of the blocking streams, and theirs for all its earlier work.
//!
//! For the race check each piece of work has a clock as well, which says what is over when it begins; see
//! `order.rs`.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use ::emulator::race::{Clock, Moment};

use super::gpu::Gpu;
use super::outside::{self, Others};
use super::{lock, order};
use crate::codes::{CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_OPERATING_SYSTEM};
use crate::detail::{Answer, Failure, panicked};

/// How far a stream has come.
pub(super) struct Progress {
    /// A number that no other line has.
    id: u64,
    /// The stream, for reports.
    name: String,
    /// The work that was handed in last, and what is known when it is done.
    last: Mutex<(u64, Known)>,
    completed: Mutex<u64>,
    advanced: Condvar,
    /// What its thread waits for, before it goes on.
    awaited: Mutex<Option<Point>>,
}

impl Progress {
    fn new(is_null: bool) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1 << 16);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = if is_null { "the null stream".to_owned() } else { format!("stream {id}") };
        let (completed, advanced) = (Mutex::default(), Condvar::new());
        let (last, awaited) = (Mutex::default(), Mutex::default());
        Self { id, name, last, completed, advanced, awaited }
    }

    /// Whether it is the one with this number.
    pub(super) fn is(&self, id: u64) -> bool {
        self.id == id
    }

    /// Whether its thread does something, or is about to: there is work, and it waits for nothing else.
    pub(super) fn is_busy(&self) -> bool {
        let waits = lock(&self.awaited).as_ref().is_some_and(Point::is_ahead);
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
        outside::happens();
        self.advanced.notify_all();
    }

    fn last(self: &Arc<Self>) -> Point {
        let (ticket, known) = lock(&self.last).clone();
        Point { progress: self.clone(), ticket, known }
    }
}

/// A place in a stream's work: reached when all work up to it is done.
#[derive(Clone)]
pub(super) struct Point {
    progress: Arc<Progress>,
    ticket: u64,
    known: Known,
}

impl Point {
    /// Whether the work is done; if so, the host knows it from here on.
    pub(super) fn reached(&self) -> bool {
        let reached = self.progress.reached(self.ticket);
        if reached {
            self.tell_host();
        }
        reached
    }

    /// Blocks until the work is done, which the host knows from here on.
    pub(super) fn wait(&self) {
        self.wait_unseen();
        self.tell_host();
    }

    /// Blocks until the work is done, where that is no promise of the API: the program must not build on
    /// it.
    pub(super) fn wait_unseen(&self) {
        let _wait = outside::Wait::new(self);
        self.wait_on_line();
    }

    /// The same for another line, whose thread is none of the host's.
    fn wait_on_line(&self) {
        let _hurry = Hurry::new();
        self.progress.wait(self.ticket);
    }

    /// Whether the work is not done.
    pub(super) fn is_ahead(&self) -> bool {
        !self.progress.reached(self.ticket)
    }

    /// Whether two are one place.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.progress, &other.progress) && self.ticket == other.ticket
    }

    fn tell_host(&self) {
        self.known.get().into_iter().for_each(|clock| order::tell_host(clock));
    }
}

/// What is known when work is done, once it is.
type Known = Arc<OnceLock<Arc<Clock>>>;

type Action = Box<dyn FnOnce() -> Answer + Send>;

/// Work for a stream.
pub(super) struct Work {
    waits: Vec<Point>,
    action: Action,
    even_if_lost: bool,
}

impl Work {
    /// Work that is left out once the device is lost.
    pub(super) fn new(action: impl FnOnce() -> Answer + Send + 'static) -> Self {
        Self { waits: Vec::new(), action: Box::new(action), even_if_lost: false }
    }

    /// Runs also when the device is lost.
    pub(super) fn even_if_lost(self) -> Self {
        Self { even_if_lost: true, ..self }
    }

    /// Runs after `point`.
    pub(super) fn after(mut self, point: Point) -> Self {
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
                gpu.lose(Failure::new(CUDA_ERROR_LAUNCH_FAILED, panicked(&*panic)));
            }
        }
    }
}

/// The owner of a queue, which lives at least as long as its work.
pub(super) type Owner = Arc<dyn Any + Send + Sync>;

/// What a stream's thread is handed: work, with its owner, its number, and what the host knew.
struct Order {
    owner: Owner,
    gpu: &'static Gpu,
    work: Work,
    point: Point,
    host: Arc<Clock>,
}

/// A line of work with its thread, which starts with the first work and ends with the line.
pub(super) struct Line {
    progress: Arc<Progress>,
    sender: Mutex<Option<Sender<Order>>>,
    /// Whether it keeps order with the null stream.
    blocking: bool,
}

impl Line {
    fn new(blocking: bool, is_null: bool) -> Self {
        let progress = Arc::new(Progress::new(is_null));
        outside::opens(Arc::downgrade(&progress));
        Self { progress, sender: Mutex::new(None), blocking }
    }

    /// A number that no other line has.
    pub(super) fn id(&self) -> u64 {
        self.progress.id
    }

    fn send(&self, owner: Owner, gpu: &'static Gpu, work: Work) -> Answer<Point> {
        let mut sender = lock(&self.sender);
        if sender.is_none() {
            *sender = Some(start(self.progress.clone())?);
        }
        if let Some(sender) = &*sender {
            let point = self.next();
            outside::happens();
            let host = order::submit(self.id(), point.ticket);
            // The thread ends only when the sender is dropped.
            let _ = sender.send(Order { owner, gpu, work, point, host });
        }
        Ok(self.progress.last())
    }
}

impl Line {
    /// The point behind one more piece of work.
    fn next(&self) -> Point {
        let mut last = lock(&self.progress.last);
        *last = (last.0 + 1, Known::default());
        let (ticket, known) = last.clone();
        Point { progress: self.progress.clone(), ticket, known }
    }
}

fn start(progress: Arc<Progress>) -> Answer<Sender<Order>> {
    let (sender, receiver) = channel();
    thread::Builder::new()
        .name("emulated stream".to_owned())
        .spawn(move || work_off(&receiver, &progress))
        .map_err(|error| Failure::new(CUDA_ERROR_OPERATING_SYSTEM, error.to_string()))?;
    Ok(sender)
}

thread_local! {
    /// The number of the line that this is the thread of.
    static HERE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// All that is outside of the work at hand, on the thread of a line.
pub(super) fn others() -> Option<Others> {
    HERE.get().map(Others::than)
}

fn work_off(work: &Receiver<Order>, progress: &Progress) {
    HERE.set(Some(progress.id));
    let mut clock = Arc::<Clock>::default();
    for Order { owner: _owner, gpu, work, point, host } in work {
        let mut before = Clock::clone(&clock);
        before.join(&host);
        for other in &work.waits {
            await_other(other, progress);
            other.known.get().into_iter().for_each(|known| before.join(known));
        }
        let moment = Moment {
            line: progress.id,
            ticket: point.ticket,
            stream: progress.name.clone(),
            clock: Arc::new(before),
        };
        clock = Arc::new(order::during(moment, || work.run(gpu)));
        let _ = point.known.set(clock.clone());
        order::finish(progress.id, point.ticket);
        progress.advance();
    }
    // Nobody can ask the stream any more; what waited for it without a word is taken to know it.
    order::tell_host(&clock);
}

/// A line waits for another.
fn await_other(other: &Point, progress: &Progress) {
    *lock(&progress.awaited) = Some(other.clone());
    outside::happens();
    other.wait_on_line();
    *lock(&progress.awaited) = None;
}

/// How many wait for streams now.
static WAITING: Mutex<usize> = Mutex::new(0);
static WAITS: Condvar = Condvar::new();

/// Somebody waits.
struct Hurry;

impl Hurry {
    fn new() -> Self {
        *lock(&WAITING) += 1;
        WAITS.notify_all();
        Self
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        *lock(&WAITING) -= 1;
    }
}

/// Lets time pass until somebody waits for a stream, and at most so much.
pub(super) fn dawdle(most: Duration) {
    let waiting = lock(&WAITING);
    drop(WAITS.wait_timeout_while(waiting, most, |waiting| *waiting == 0));
}

/// All streams of a context.
pub(super) struct Queue {
    gpu: &'static Gpu,
    null: Arc<Line>,
    /// The others that may have work. Locked while work is handed in, which gives all of a
    /// context's work one order.
    others: Mutex<Vec<Other>>,
    /// What all later work waits for.
    held: Mutex<Vec<Point>>,
}

struct Other {
    progress: Weak<Progress>,
    blocking: bool,
}

impl Queue {
    pub(super) fn new(gpu: &'static Gpu) -> Self {
        Self {
            gpu,
            null: Arc::new(Line::new(false, true)),
            others: Mutex::default(),
            held: Mutex::default(),
        }
    }

    /// The null stream.
    pub(super) fn null(&self) -> &Arc<Line> {
        &self.null
    }

    /// Makes another stream.
    pub(super) fn open(&self, blocking: bool) -> Arc<Line> {
        let line = Arc::new(Line::new(blocking, false));
        let mut others = lock(&self.others);
        others.retain(|other| other.progress.strong_count() > 0);
        others.push(Other { progress: Arc::downgrade(&line.progress), blocking });
        line
    }

    /// Enqueues work on one of these streams. `owner` is dropped when the work is done.
    pub(super) fn submit(&self, owner: Owner, line: &Line, mut work: Work) -> Answer<Point> {
        let others = lock(&self.others);
        if std::ptr::eq(line, &*self.null) {
            work.waits.extend(blocking(&others));
        } else if line.blocking {
            work.waits.push(self.null.progress.last());
        }
        let mut held = lock(&self.held);
        held.retain(|point| !point.reached());
        work.waits.extend(held.iter().cloned());
        drop(held);
        if !order::is_kept() {
            work.waits.retain(|point| !point.progress.reached(point.ticket));
        }
        line.send(owner, self.gpu, work)
    }

    /// What a caller waits for who waits for `line`: for the null stream the blocking ones too.
    pub(super) fn tail(&self, line: &Line) -> Vec<Point> {
        let mut points = vec![line.progress.last()];
        if std::ptr::eq(line, &*self.null) {
            points.extend(blocking(&lock(&self.others)));
        }
        points
    }

    /// Where all streams stand now.
    pub(super) fn all(&self) -> Vec<Point> {
        let others = lock(&self.others);
        let others = others.iter().filter_map(Other::last);
        others.chain([self.null.progress.last()]).collect()
    }

    /// Blocks until all work handed in so far is done.
    pub(super) fn wait_all(&self) {
        self.all().iter().for_each(Point::wait);
    }

    /// The same where the API does not promise it.
    pub(super) fn wait_all_unseen(&self) {
        self.all().iter().for_each(Point::wait_unseen);
    }

    /// Makes all work that is handed in from here on wait for a point.
    pub(super) fn hold(&self, point: Option<Point>) {
        lock(&self.held).extend(point);
    }
}

impl Other {
    fn last(&self) -> Option<Point> {
        self.progress.upgrade().map(|progress| progress.last())
    }
}

fn blocking(others: &[Other]) -> impl Iterator<Item = Point> + '_ {
    others.iter().filter(|other| other.blocking).filter_map(Other::last)
}
