//! Requests to a persistent kernel, each with its answer.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context as Task, Poll, Waker};

use cuda_std::ring::{Envelope, RingRequest};

use super::receiver::Receiver;
use super::sender::Sender;
use super::waiters::Place;
use crate::error::{GpuError, GpuResult};
use crate::lock::lock;

const CALLING: &str = "calling a kernel through its rings";

/// Calls a persistent kernel: sends it requests of several kinds, and gives each caller the answer to its own, in whatever
/// order the answers come. Any number of threads and futures can call at once.
///
/// It takes the host's ends of two rings, so that no other code takes an answer out. The kernel answers each request by
/// [`Envelope::answer`], or refuses it by [`Envelope::refuse`]. `WORDS` is the room of an [`Envelope`].
///
/// ```no_run
/// use ferrowarp::{Bridge, Caller, Gpu, Grid1, PersistentKernel, Ring};
/// use kernels_gpu::persistent::messages::{Divide, Dot, ring_messages};
///
/// let gpu = Gpu::new()?;
/// let (sender, requests) = Ring::to_device(&gpu, 256, Bridge::Mapped)?;
/// let (answers, receiver) = Ring::to_host(&gpu, 256)?;
/// let kernel = PersistentKernel::start(&gpu, |launcher| {
///     ring_messages::launch(launcher, Grid1::new(1), &requests, &answers)
/// })?;
/// let caller = Caller::new(sender, receiver);
/// let dot = caller.call(&Dot { x: [1.0; 4], y: [2.0; 4] });
/// let quotient = caller.call(&Divide { dividend: 17, divisor: 5 }).wait()?;
/// assert_eq!((quotient.quotient, quotient.remainder), (3, 2));
/// assert_eq!(dot.wait()?.0, 8.0); // or `dot.await?`
/// kernel.shut_down()?;
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
pub struct Caller<const WORDS: usize> {
    requests: Sender<Envelope<WORDS>>,
    answers: Receiver<Envelope<WORDS>>,
    next_id: AtomicU64,
    calls: Mutex<HashMap<u64, Pending<WORDS>>>,
    unclaimed: AtomicU64,
}

/// A call that was not dropped.
enum Pending<const WORDS: usize> {
    /// With the waker of the future that waits.
    Waiting(Option<Waker>),
    Answered(Envelope<WORDS>),
}

impl<const WORDS: usize> Caller<WORDS> {
    /// Calls the kernel that receives from `requests` and sends to `answers`.
    pub fn new(requests: Sender<Envelope<WORDS>>, answers: Receiver<Envelope<WORDS>>) -> Self {
        let (next_id, unclaimed) = (AtomicU64::new(1), AtomicU64::new(0));
        Self { requests, answers, next_id, calls: Mutex::default(), unclaimed }
    }

    /// Sends `request`, at once if there is a free slot. The result is a future for the answer, or
    /// [`wait`](Call::wait) waits for it; while there is no free slot, both go on trying to send.
    ///
    /// Several calls can be made before the first answer is awaited. Dropping one forgets the answer, also where the
    /// request was sent.
    pub fn call<R: RingRequest>(&self, request: &R) -> Call<'_, R, WORDS> {
        let id = self.next_id.fetch_add(1, Relaxed);
        lock(&self.calls).insert(id, Pending::Waiting(None));
        let mut call = Call {
            caller: self,
            id,
            unsent: Some(Envelope::request(id, request)),
            refused: None,
            sending: Place::new(self.requests.core()),
            receiving: Place::new(self.answers.core()),
            request: PhantomData,
        };
        call.refused = call.send().err();
        call
    }

    /// How many messages came that are not the answer to a call: those that a kernel sends unasked, and the answers to
    /// calls that were dropped.
    #[must_use]
    pub fn unclaimed(&self) -> u64 {
        self.unclaimed.load(Relaxed)
    }

    /// The end that sends the requests.
    pub fn requests(&self) -> &Sender<Envelope<WORDS>> {
        &self.requests
    }

    /// How the host waits for answers: see [`Receiver::set_wait_strategy`].
    pub fn set_wait_strategy(&self, strategy: super::WaitStrategy) {
        self.requests.set_wait_strategy(strategy);
        self.answers.set_wait_strategy(strategy);
    }

    /// Takes all answers out of the ring, and wakes the futures that they are for.
    fn distribute(&self) {
        let mut woken = Vec::new();
        let mut calls = lock(&self.calls);
        while let Some(answer) = self.answers.try_recv() {
            match calls.get_mut(&answer.correlation()) {
                Some(call) if matches!(call, Pending::Waiting(_)) => {
                    let before = mem::replace(call, Pending::Answered(answer));
                    woken.extend(before.into_waker());
                }
                _ => {
                    self.unclaimed.fetch_add(1, Relaxed);
                }
            }
        }
        drop(calls);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl<const WORDS: usize> Pending<WORDS> {
    fn into_waker(self) -> Option<Waker> {
        match self {
            Self::Waiting(waker) => waker,
            Self::Answered(_) => None,
        }
    }
}

/// A request to a kernel, and the answer as a future: see [`Caller::call`].
#[must_use = "dropping it forgets the answer"]
pub struct Call<'a, R: RingRequest, const WORDS: usize> {
    caller: &'a Caller<WORDS>,
    id: u64,
    unsent: Option<Envelope<WORDS>>,
    /// Why it could not be sent.
    refused: Option<GpuError>,
    sending: Place<'a, Envelope<WORDS>>,
    receiving: Place<'a, Envelope<WORDS>>,
    request: PhantomData<fn() -> R>,
}

impl<R: RingRequest, const WORDS: usize> Call<'_, R, WORDS> {
    /// Waits for the answer.
    ///
    /// # Errors
    /// [`Message`](GpuError::Message) if the kernel refused the request, or answered by a message of another kind;
    /// [`RingClosed`](GpuError::RingClosed) if it has ended without an answer; its panic or fault.
    pub fn wait(mut self) -> GpuResult<R::Answer> {
        let caller = self.caller;
        let answers = &caller.answers;
        let (core, mut wait) = (answers.core(), answers.wait_until(None));
        loop {
            if let Some(answer) = self.advance()? {
                return Ok(answer);
            }
            if wait.begins() {
                core.waits().fetch_add(1, Relaxed);
            }
            let closed = core.is_closed();
            if let Some(answer) = self.end(closed, wait.pause(&core.memory))? {
                return Ok(answer);
            }
        }
    }

    /// Sends the request if that has not been done.
    fn send(&mut self) -> GpuResult<()> {
        if let Some(request) = &self.unsent
            && self.caller.requests.try_send(request)?
        {
            self.unsent = None;
            self.sending.leave();
        }
        Ok(())
    }

    /// Sends the request, and takes the answer, if there is room or an answer.
    fn advance(&mut self) -> GpuResult<Option<R::Answer>> {
        if let Some(error) = self.refused.take() {
            return Err(error);
        }
        self.send()?;
        // While requests have no room, too: the kernel may wait for room for an answer, to a call that was dropped.
        self.caller.distribute();
        match lock(&self.caller.calls).get(&self.id) {
            Some(Pending::Answered(answer)) => Ok(Some(answer.open::<R::Answer>()?)),
            _ => Ok(None),
        }
    }

    /// The last answer or the error, where the ring of the answers was closed, or its kernels are over or have failed.
    fn end(&mut self, closed: bool, over: GpuResult<bool>) -> GpuResult<Option<R::Answer>> {
        let over = match over {
            Ok(false) if !closed => return self.check_receiver(),
            Ok(_) => GpuError::RingClosed { operation: CALLING },
            Err(error) => error,
        };
        // What was answered before the end is there by now.
        self.advance()?.map_or(Err(over), |answer| Ok(Some(answer)))
    }

    /// An error if the request waits for a kernel that has ended.
    fn check_receiver(&self) -> GpuResult<Option<R::Answer>> {
        match self.unsent.is_some() && self.caller.requests.core().memory.is_over()? {
            true => Err(GpuError::RingClosed { operation: CALLING }),
            false => Ok(None),
        }
    }

    /// The answer, or the error where none will come.
    fn look(&mut self) -> GpuResult<Option<R::Answer>> {
        if let Some(answer) = self.advance()? {
            return Ok(Some(answer));
        }
        let caller = self.caller;
        let answers = caller.answers.core();
        let closed = answers.is_closed();
        self.end(closed, answers.memory.is_over())
    }

    /// Registers to be woken; `false` if the answer has come meanwhile.
    fn wait_for_answer(&mut self, task: &Task<'_>) -> bool {
        let mut calls = lock(&self.caller.calls);
        let Some(Pending::Waiting(waker)) = calls.get_mut(&self.id) else { return false };
        let before = waker.replace(task.waker().clone());
        drop(calls);
        // Dropping a waker may run other code, which must not happen under the lock.
        drop(before);
        self.receiving.wait(task);
        if self.unsent.is_some() {
            self.sending.wait(task);
        }
        true
    }
}

impl<R: RingRequest, const WORDS: usize> Future for Call<'_, R, WORDS> {
    type Output = GpuResult<R::Answer>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        loop {
            if let Some(end) = self.look().transpose() {
                self.sending.leave();
                self.receiving.leave();
                return Poll::Ready(end);
            }
            if self.wait_for_answer(task) {
                return Poll::Pending;
            }
        }
    }
}

impl<R: RingRequest, const WORDS: usize> Drop for Call<'_, R, WORDS> {
    fn drop(&mut self) {
        let call = lock(&self.caller.calls).remove(&self.id);
        // As above: with its waker.
        drop(call);
    }
}

impl<const WORDS: usize> fmt::Debug for Caller<WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Caller({} calls)", lock(&self.calls).len())
    }
}

impl<R: RingRequest, const WORDS: usize> fmt::Debug for Call<'_, R, WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({})", self.id)
    }
}
