//! Waits that end, whatever happens to other ranks.

use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use bytemuck::Pod;
use ferrowarp::{AsStream, DeviceBuffer};

use super::Communicator;
use crate::element::Reduction;
use crate::error::{DistError, DistResult, Loss};
use crate::fate::End;

impl Communicator {
    /// Waits until all work that was enqueued on the stream is done, collectives and other.
    ///
    /// # Errors
    /// [`RankLost`](DistError::RankLost) if a member is lost, [`Deadline`](DistError::Deadline) if it takes
    /// [too long](Self::set_deadline), [`Aborted`](DistError::Aborted): buffers that collectives wrote then hold anything. NCCL's
    /// errors; the fault or the panic of a kernel.
    pub fn synchronize(&self, on: &impl AsStream) -> DistResult<()> {
        /// How long the stream is asked before the thread sleeps in between. A sleep takes 50 µs more than it should, and a sort over ranks waits
        /// for counts that take 1 ms.
        const SPINNING: Duration = Duration::from_millis(2);
        const SHORTEST: Duration = Duration::from_micros(20);
        const LONGEST: Duration = Duration::from_millis(1);
        let (stream, start) = (on.as_stream(), Instant::now());
        let mut pause = SHORTEST;
        loop {
            self.check()?;
            if stream.is_idle()? {
                break;
            }
            self.check_wait("work on a stream", start)?;
            if start.elapsed() < SPINNING {
                thread::yield_now();
            } else {
                thread::sleep(pause);
                pause = (pause * 2).min(LONGEST);
            }
        }
        stream.synchronize()?;
        // What an abort has ended looks done.
        self.check()
    }

    /// Waits until all ranks have come here, and until all work that was enqueued on the stream here is done.
    ///
    /// # Errors
    /// As [`synchronize`](Self::synchronize).
    pub fn barrier(&self, on: &impl AsStream) -> DistResult<()> {
        let mut kept = self.inner.barrier.lock().unwrap_or_else(PoisonError::into_inner);
        let flag = match kept.take() {
            Some(flag) => kept.insert(flag),
            None => kept.insert(DeviceBuffer::zeroed(self.gpu(), 1)?),
        };
        self.all_reduce_in_place(on, flag, Reduction::Max)?;
        self.synchronize(on)
    }

    /// Gives a few values of the host to all ranks, and returns those of all, in their order. `values`: `[n]`; the result:
    /// `[ranks × n]`. Waits for them.
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather) and [`synchronize`](Self::synchronize).
    pub fn all_gather_host<T: Pod>(&self, on: &impl AsStream, values: &[T]) -> DistResult<Vec<T>> {
        // What is not freed in the order of the stream waits for all of the device.
        let mut own = DeviceBuffer::zeroed_async(on, values.len())?;
        own.copy_from_host(values)?;
        let mut all = DeviceBuffer::zeroed_async(on, values.len() * self.size() as usize)?;
        self.all_gather(on, &own, &mut all)?;
        self.synchronize(on)?;
        Ok(all.to_vec()?)
    }

    /// Whether the communicator still works. Does not wait.
    ///
    /// # Errors
    /// [`RankLost`](DistError::RankLost), [`Deadline`](DistError::Deadline), [`Aborted`](DistError::Aborted): what has ended it;
    /// an error that NCCL has met since.
    pub fn check(&self) -> DistResult<()> {
        self.inner.fate.check()?;
        self.inner.transport.check().map_err(|error| self.blame(error))
    }

    /// Ends the communicator if what it waits for cannot end any more.
    fn check_wait(&self, what: &str, start: Instant) -> DistResult<()> {
        self.inner.fate.check_wait(what, start).map_err(|error| match error {
            DistError::RankLost { rank, how } => self.inner.end(End::Lost { rank, how }).into(),
            DistError::Deadline { what, waited } => {
                self.inner.end(End::Deadline { what, waited }).into()
            }
            error => error,
        })
    }

    /// What is behind an error of NCCL. It notices that a connection has ended, and not whose; the control connections say it,
    /// a moment later perhaps.
    pub(super) fn blame(&self, error: DistError) -> DistError {
        const PATIENCE: Duration = Duration::from_secs(3);
        // ncclSystemError, ncclInternalError, ncclRemoteError: what a connection's end may become.
        const REMOTE: i32 = 6;
        let DistError::Nccl { call, code, message, detail_text } = error else { return error };
        let start = Instant::now();
        while matches!(code, 2 | 3 | REMOTE) && start.elapsed() < PATIENCE {
            if let Err(lost) = self.inner.fate.check() {
                return lost;
            }
            thread::sleep(Duration::from_millis(20));
        }
        let end = match *self.members() {
            // Of two ranks it can only be the other.
            [one, other] if code == REMOTE => {
                let rank = if self.rank() == 0 { other } else { one };
                End::Lost { rank, how: Loss::Reported { message } }
            }
            // NCCL asks that a communicator which has met an error be aborted.
            _ => End::Nccl { call, code, message, detail_text },
        };
        self.inner.end(end).into()
    }
}
