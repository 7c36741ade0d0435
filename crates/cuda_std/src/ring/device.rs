//! The device side of a ring: its consumer and its producer in a kernel.

#[cfg(target_os = "cuda")]
use super::Turn;
use super::{
    Closed, Control, ControlBlock, Position, PositionBlock, Slots, TryRecvError, TrySendError,
};
use crate::atomic::Ordering::{Acquire, Relaxed, Release};
#[cfg(target_os = "cuda")]
use crate::atomic::{Atomic, scope};
use crate::warp::Warp;
use bytemuck::Pod;
use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use crate::thread;

/// What both ends have.
#[derive(Clone, Copy, Debug)]
struct End<'a, T> {
    slots: Slots<'a, T>,
    own: &'a Position,
    control: &'a Control,
    /// The other side's position, where it is on the device too.
    other: Option<&'a Position>,
    hint: u64,
}

impl<T: Pod> End<'_, T> {
    /// # Safety
    /// As [`RingConsumer::from_raw_parts`].
    #[inline(always)]
    unsafe fn from_raw_parts(
        values: *mut T,
        [arrived, free, own, other, control]: [usize; 5],
        capacity: usize,
    ) -> Self {
        let words = |address| core::ptr::with_exposed_provenance_mut::<u32>(address);
        let block = |address| core::ptr::with_exposed_provenance::<PositionBlock>(address);
        // SAFETY: the caller's promise.
        unsafe {
            let slots = Slots::from_raw_parts(values, words(arrived), words(free), capacity);
            let own: &Position = &*block(own);
            let other = block(other).as_ref().map(|other| &**other);
            let control = &**core::ptr::with_exposed_provenance::<ControlBlock>(control);
            Self { slots, own, control, other, hint: own.load(Relaxed) }
        }
    }

    /// A hint may be so old that it looks new; see [`Slots::claim_message`].
    #[cfg_attr(not(target_os = "cuda"), allow(dead_code))]
    #[inline(always)]
    fn refresh(&mut self) {
        self.hint = self.own.load(Relaxed);
    }
}

/// How a thread waits: it looks often at first, then sleeps in between.
#[cfg(target_os = "cuda")]
struct Wait {
    rounds: u32,
}

#[cfg(target_os = "cuda")]
impl Wait {
    /// Rounds without sleep.
    const EAGER: u32 = 64;
    /// Rounds between looks at what is rarely there.
    const RARE: u32 = 32;
    const LONGEST_NS: u32 = 256;

    #[inline(always)]
    fn begin(count: &Atomic<u64, scope::System>) -> Self {
        count.fetch_add(1, Relaxed);
        Self { rounds: 0 }
    }

    /// Whether it is time to look whether the other side is closed.
    #[inline(always)]
    fn pause(&mut self) -> bool {
        self.rounds = self.rounds.wrapping_add(1);
        if self.rounds > Self::EAGER {
            thread::nanosleep((self.rounds - Self::EAGER).min(Self::LONGEST_NS));
        }
        let rare = self.rounds.is_multiple_of(Self::RARE);
        if rare {
            // Who is waited for may be a thread of this grid.
            crate::panic::leave_after_panic();
        }
        rare
    }
}

/// The end of a ring at which a kernel receives: a parameter of a [`kernel`](macro@crate::kernel).
///
/// Each thread of the grid has one, and all of them are ends of the same ring: each message goes to
/// one thread. [`recv`](Self::recv) is for one thread, [`recv_warp`](Self::recv_warp) takes up to 32
/// messages at once and is far faster where many wait.
///
/// # Why it is safe
///
/// 1. The entry that `#[kernel]` writes makes it from a ring of the host, whose memory is there until
///    the kernel has ended.
/// 2. A thread reads a slot only at a position that it has claimed, and only after the message was
///    announced: see [`ring`](super) for the order. Every bit pattern is a message.
/// 3. All words are reached by atomics of system scope.
#[derive(Debug)]
pub struct RingConsumer<'a, T> {
    end: End<'a, T>,
}

impl<T: Pod> RingConsumer<'_, T> {
    /// Makes the end from the addresses of its parts; `other` is 0 where the other side is not on the
    /// device.
    ///
    /// # Safety
    /// - The slots are as [`Slots::from_raw_parts`] wants them, in memory that kernels reach.
    /// - `own`, `other` and `control` are the addresses of this side's and the other side's
    ///   [`PositionBlock`] and the [`ControlBlock`] of the ring, reached by atomics alone.
    #[allow(clippy::too_many_arguments)]
    #[inline(always)]
    pub unsafe fn from_raw_parts(
        values: *mut T,
        arrived: usize,
        free: usize,
        own: usize,
        other: usize,
        control: usize,
        capacity: usize,
    ) -> Self {
        // SAFETY: the caller's promise.
        let end =
            unsafe { End::from_raw_parts(values, [arrived, free, own, other, control], capacity) };
        #[cfg(target_os = "cuda")]
        end.control.receiving_grid.store(1 << 32 | u64::from(crate::panic::grid()), Relaxed);
        Self { end }
    }

    /// The next message, if one is there.
    ///
    /// # Errors
    /// [`Empty`](TryRecvError::Empty), or [`Closed`](TryRecvError::Closed) where none will come.
    #[inline(always)]
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        if let Some(message) = self.poll() {
            return Ok(message);
        }
        if !self.is_closed() {
            return Err(TryRecvError::Empty);
        }
        // What was sent before the ring was closed is visible now.
        self.poll().ok_or(TryRecvError::Closed)
    }

    /// The next message, for which it waits. `None` once the senders' side is closed and all was
    /// received.
    #[gpu_only]
    #[inline(always)]
    pub fn recv(&mut self) -> Option<T> {
        if let Some(message) = self.poll() {
            return Some(message);
        }
        let mut wait = Wait::begin(&self.end.control.empty_waits);
        loop {
            if let Some(message) = self.poll() {
                return Some(message);
            }
            if wait.pause() {
                match self.try_recv() {
                    Ok(message) => return Some(message),
                    Err(TryRecvError::Closed) => return None,
                    Err(TryRecvError::Empty) => self.end.refresh(),
                }
            }
        }
    }

    /// The next messages, for which the warp waits: one for each lane from lane 0 on, at least one
    /// and at most 32, in order. `None` once the senders' side is closed and all was received.
    ///
    /// Every lane of the warp calls it, together.
    #[gpu_only]
    #[inline(always)]
    pub fn recv_warp(&mut self, warp: Warp) -> Option<Option<T>> {
        let mut wait = None;
        let mut last = false;
        loop {
            let (first, count) = self.claim_run(warp);
            if count > 0 {
                let rank = warp.thread_rank();
                // SAFETY: the warp has claimed the positions from `first` on, and this lane has seen
                // that the turn of its own is now.
                let take = |rank: u32| unsafe { self.end.slots.take(first + u64::from(rank)) };
                return Some((rank < count).then(|| take(rank)));
            }
            if last {
                return None;
            }
            let wait = wait.get_or_insert_with(|| {
                if warp.thread_rank() == 0 {
                    Wait::begin(&self.end.control.empty_waits)
                } else {
                    Wait { rounds: 0 }
                }
            });
            if wait.pause() {
                // All lanes look, because lane 0 may have panicked.
                last = warp.any(self.is_closed());
                self.end.refresh();
            }
        }
    }

    /// Claims the messages that are there, as many as there are lanes at most: the first position and
    /// how many.
    #[cfg(target_os = "cuda")]
    #[inline(always)]
    fn claim_run(&mut self, warp: Warp) -> (u64, u32) {
        let End { slots, own, .. } = self.end;
        let rank = u64::from(warp.thread_rank());
        loop {
            let first = warp.broadcast(self.end.hint, 0);
            let turn = match rank < slots.capacity() {
                true => slots.consumers_turn(first + rank),
                false => Turn::Early,
            };
            let count = warp.ballot(turn == Turn::Now).trailing_ones();
            let late = warp.ballot(turn == Turn::Late) & 1 != 0;
            if count == 0 && !late {
                return (first, 0);
            }
            let (claimed, next) = claim(own, first, if late { 0 } else { count }, warp);
            self.end.hint = next;
            if claimed {
                return (first, count);
            }
        }
    }

    #[inline(always)]
    fn poll(&mut self) -> Option<T> {
        let End { slots, own, hint, .. } = &mut self.end;
        // SAFETY: claimed just now, and taken once.
        slots.claim_message(own, hint).map(|position| unsafe { slots.take(position) })
    }

    #[inline(always)]
    fn is_closed(&self) -> bool {
        self.end.control.senders_closed.load(Acquire) != 0
    }

    /// Closes the receiving side: senders get [`Closed`].
    #[inline(always)]
    pub fn close(&self) {
        self.end.control.receivers_closed.store(1, Release);
    }
}

/// The end of a ring at which a kernel sends: a parameter of a [`kernel`](macro@crate::kernel).
///
/// Each thread of the grid has one, and all of them are ends of the same ring.
/// [`send`](Self::send) is for one thread, [`send_warp`](Self::send_warp) for all lanes of a warp at
/// once. It is safe for the same reasons as [`RingConsumer`].
#[derive(Debug)]
pub struct RingProducer<'a, T> {
    end: End<'a, T>,
    /// The most messages that this thread has seen in the ring.
    high_water: u64,
}

impl<T: Pod> RingProducer<'_, T> {
    /// Makes the end from the addresses of its parts.
    ///
    /// # Safety
    /// As [`RingConsumer::from_raw_parts`].
    #[allow(clippy::too_many_arguments)]
    #[inline(always)]
    pub unsafe fn from_raw_parts(
        values: *mut T,
        arrived: usize,
        free: usize,
        own: usize,
        other: usize,
        control: usize,
        capacity: usize,
    ) -> Self {
        // SAFETY: the caller's promise.
        let end =
            unsafe { End::from_raw_parts(values, [arrived, free, own, other, control], capacity) };
        Self { end, high_water: 0 }
    }

    /// Sends a message if there is a free slot.
    ///
    /// # Errors
    /// [`Full`](TrySendError::Full), or [`Closed`](TrySendError::Closed) where the receiving side is closed.
    #[inline(always)]
    pub fn try_send(&mut self, message: T) -> Result<(), TrySendError> {
        let End { slots, own, hint, .. } = &mut self.end;
        let Some(position) = slots.claim_slot(own, hint) else {
            return Err(if self.is_closed() { TrySendError::Closed } else { TrySendError::Full });
        };
        // SAFETY: claimed just now, and put once.
        unsafe { slots.put(position, message) };
        self.note(position + 1);
        Ok(())
    }

    /// Sends a message, and waits for a free slot where there is none.
    ///
    /// # Errors
    /// [`Closed`], if there is no free slot and the receiving side is closed.
    #[gpu_only]
    #[inline(always)]
    pub fn send(&mut self, message: T) -> Result<(), Closed> {
        let mut wait = None;
        loop {
            let End { slots, own, hint, .. } = &mut self.end;
            if let Some(position) = slots.claim_slot(own, hint) {
                // SAFETY: claimed just now, and put once.
                unsafe { slots.put(position, message) };
                self.note(position + 1);
                return Ok(());
            }
            let wait = wait.get_or_insert_with(|| Wait::begin(&self.end.control.full_waits));
            if wait.pause() {
                if self.is_closed() {
                    return Err(Closed);
                }
                self.end.refresh();
            }
        }
    }

    /// Sends the messages of the lanes that have one, in the order of the lanes, and waits for free
    /// slots where there are too few.
    ///
    /// Every lane of the warp calls it, together.
    ///
    /// # Errors
    /// [`Closed`], if there are too few free slots and the receiving side is closed.
    #[gpu_only]
    #[inline(always)]
    pub fn send_warp(&mut self, warp: Warp, message: Option<T>) -> Result<(), Closed> {
        let rank = warp.thread_rank();
        let mut left = warp.ballot(message.is_some());
        let mut wait = None;
        while left != 0 {
            let (first, count) = self.claim_run(warp, left.count_ones());
            // How many before this lane still have one.
            let place = (left & ((1 << rank) - 1)).count_ones();
            if let Some(message) = message
                && left >> rank & 1 != 0
                && place < count
            {
                // SAFETY: the warp has claimed the positions from `first` on, after their turns had
                // come; this one is this lane's.
                unsafe { self.end.slots.put(first + u64::from(place), message) };
            }
            if count > 0 {
                (0..count).for_each(|_| left &= left - 1);
                self.note(first + u64::from(count));
                continue;
            }
            let wait = wait.get_or_insert_with(|| {
                if rank == 0 {
                    Wait::begin(&self.end.control.full_waits)
                } else {
                    Wait { rounds: 0 }
                }
            });
            if wait.pause() {
                // As in `recv_warp`.
                if warp.any(self.is_closed()) {
                    return Err(Closed);
                }
                self.end.refresh();
            }
        }
        Ok(())
    }

    /// Claims free slots, `wanted` at most: the first position and how many.
    #[cfg(target_os = "cuda")]
    #[inline(always)]
    fn claim_run(&mut self, warp: Warp, wanted: u32) -> (u64, u32) {
        let End { slots, own, .. } = self.end;
        let rank = u64::from(warp.thread_rank());
        loop {
            let first = warp.broadcast(self.end.hint, 0);
            let turn = match rank < slots.capacity() {
                true => slots.producers_turn(first + rank),
                false => Turn::Early,
            };
            let count = warp.ballot(turn == Turn::Now).trailing_ones().min(wanted);
            let late = warp.ballot(turn == Turn::Late) & 1 != 0;
            if count == 0 && !late {
                return (first, 0);
            }
            let (claimed, next) = claim(own, first, if late { 0 } else { count }, warp);
            self.end.hint = next;
            if claimed {
                // What one lane acquired, another lane relies on.
                warp.sync();
                return (first, count);
            }
        }
    }

    #[inline(always)]
    fn is_closed(&self) -> bool {
        self.end.control.receivers_closed.load(Acquire) != 0
    }

    /// Notes how many messages are in the ring, where both sides are on the device; else the host
    /// sees it.
    #[inline(always)]
    fn note(&mut self, sent: u64) {
        if let Some(other) = self.end.other {
            let within = sent.saturating_sub(other.load(Relaxed));
            if within > self.high_water {
                self.high_water = within;
                self.end.control.high_water.fetch_max(within, Relaxed);
            }
        }
    }

    /// Closes the sending side: receivers get what is queued, then `None`. Every thread that sends has sent its last
    /// message before.
    #[inline(always)]
    pub fn close(&self) {
        self.end.control.senders_closed.store(1, Release);
    }
}

/// Lane 0 claims `count` positions from `first` on. Whether it did, and where to look next.
#[cfg(target_os = "cuda")]
#[inline(always)]
fn claim(own: &Position, first: u64, count: u32, warp: Warp) -> (bool, u64) {
    let mut found = first;
    if warp.thread_rank() == 0 {
        found = match count {
            0 => own.load(Relaxed),
            _ => own
                .compare_exchange(first, first + u64::from(count), Relaxed)
                .unwrap_or_else(|now| now),
        };
    }
    let found = warp.broadcast(found, 0);
    match found == first && count > 0 {
        true => (true, first + u64::from(count)),
        false => (false, found),
    }
}
