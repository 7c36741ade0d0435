//! How checks and counters see what a launch does.
//!
//! A launch without checks has no [`Watch`], and runs a loop that knows nothing of one. With checks,
//! each CPU thread of the launch has a watch of its own, with an [`Observer`] for each check that is
//! on; what observers of several threads share, they reach through the [`Check`] that made them.
//!
//! An observer that finds something returns a [`Fault`], which ends the launch as a trap does.

use super::context::Cx;
use super::copies::{Completion, Landing};
use super::frame::Frame;
use super::op::{Fault, Op};
use super::slots::Row64;
use crate::fault::Access;

/// What observers return.
pub type Verdict = Result<(), Box<Fault>>;

/// A check of one launch, or a set of counters: makes the observers of its CPU threads.
pub trait Check: Sync {
    /// The observer of one more thread.
    fn observer(&self) -> Box<dyn Observer + '_>;
}

/// An access of the lanes of a warp, whose addresses have been found valid and that is not done yet.
pub struct Touch<'a> {
    /// The operation. Its slots hold what is stored.
    pub op: &'a Op,
    /// The lanes.
    pub mask: u32,
    /// Address of each lane's first byte, in this process. [`Cx::place`] says what is there.
    pub at: &'a Row64,
    /// Bytes of an element.
    pub bytes: u32,
    /// Elements, one after the other.
    pub elements: u32,
    /// Load, store or atomic.
    pub access: Access,
}

/// A contiguous range that one instruction of one lane touches: a bulk copy, a tensor copy.
pub struct TouchRange {
    /// The lane that asked for it.
    pub lane: usize,
    /// Address of the first byte, in this process.
    pub at: u64,
    /// Bytes.
    pub bytes: u64,
    /// Load, store or atomic.
    pub access: Access,
    /// Who learns that it is done.
    pub completion: Completion,
}

/// What an address of this process is to the kernel that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Device memory, or host memory that the device may touch.
    Global,
    /// The shared memory of a block with that number in the grid, at an offset.
    Shared(u64, u64),
    /// The local memory of a lane of the warp at hand, at an offset.
    Local(usize, u64),
    /// The kernel's parameters, at an offset.
    Param(u64),
}

/// Sees what the warps of one CPU thread do.
///
/// Blocks of a window take turns on a thread: `cx.block.number` tells them apart. `cx.pc` is the
/// operation at hand.
pub trait Observer {
    /// Whether it is to see each operation, by [`step`](Self::step), [`skips`](Self::skips) and
    /// [`done`](Self::done).
    fn sees_steps(&self) -> bool {
        true
    }

    /// A block begins; its shared memory is fresh.
    fn block_begins(&mut self, _cx: &Cx<'_>) {}

    /// All threads of a block have ended.
    fn block_ends(&mut self, _cx: &Cx<'_>) {}

    /// Lanes begin a call, in a frame whose local memory is fresh.
    fn enters(&mut self, _cx: &Cx<'_>, _frame: &Frame, _mask: u32) {}

    /// A predicate decides which of some lanes execute an operation. Told only where the frame has a
    /// shadow.
    fn guards(&mut self, _cx: &Cx<'_>, _frame: &mut Frame, _op: &Op, _active: u32) -> Verdict {
        Ok(())
    }

    /// An operation will be executed by some lanes, or has just been reached by lanes that may have
    /// to wait for others there.
    fn step(&mut self, _cx: &Cx<'_>, _frame: &mut Frame, _op: &Op, _mask: u32) -> Verdict {
        Ok(())
    }

    /// Lanes pass an operation over, since its guard holds in none of them.
    fn skips(&mut self, _cx: &Cx<'_>, _frame: &Frame, _op: &Op) {}

    /// An operation was executed by some lanes: those of a `.sync` instruction all at once, and those of
    /// a barrier when they may go on.
    fn done(&mut self, _cx: &Cx<'_>, _frame: &mut Frame, _op: &Op, _mask: u32) {}

    /// Lanes touch memory.
    fn touch(&mut self, _cx: &Cx<'_>, _frame: &mut Frame, _touch: &Touch<'_>) -> Verdict {
        Ok(())
    }

    /// A lane has a range copied.
    fn touch_range(&mut self, _cx: &Cx<'_>, _touch: &TouchRange) -> Verdict {
        Ok(())
    }

    /// Part of an asynchronous copy is done.
    fn copy_lands(&mut self, _cx: &Cx<'_>, _landing: &Landing) -> Verdict {
        Ok(())
    }

    /// Lanes of a warp arrive at a barrier of their block, perhaps to wait there.
    fn arrives(&mut self, _cx: &Cx<'_>, _mask: u32) {}

    /// A barrier of the block opens, for the lanes of each warp that wait there.
    fn opens(&mut self, _cx: &Cx<'_>, _barrier: u32, _waiting: &[u32]) {}

    /// Lanes of a warp arrive at the barrier of their cluster, in the phase `cx.cluster.phase`.
    fn cluster_arrives(&mut self, _cx: &Cx<'_>, _mask: u32) {}

    /// Lanes of a warp go on, past their wait at the barrier of their cluster: all threads of the
    /// cluster have arrived in the phase before `cx.cluster.phase`.
    fn cluster_passes(&mut self, _cx: &Cx<'_>, _mask: u32) {}

    /// Lanes end.
    fn exits(&mut self, _cx: &Cx<'_>, _mask: u32) {}
}

/// The observers of one CPU thread.
pub struct Watch<'m> {
    observers: Vec<Box<dyn Observer + 'm>>,
    /// Whether one of them is to see each operation.
    pub sees_steps: bool,
}

impl<'m> Watch<'m> {
    /// A watch with an observer of each check; `None` for no checks.
    pub fn new(checks: &'m [Box<dyn Check + 'm>]) -> Option<Box<Self>> {
        let observers: Vec<_> = checks.iter().map(|check| check.observer()).collect();
        (!observers.is_empty()).then(|| Box::new(Self::of(observers)))
    }

    fn of(observers: Vec<Box<dyn Observer + 'm>>) -> Self {
        let sees_steps = observers.iter().any(|own| own.sees_steps());
        Self { observers, sees_steps }
    }

    /// One more observer, for a while.
    pub fn add(own: &mut Option<Box<Self>>, observer: Box<dyn Observer + 'm>) {
        let mut observers = own.take().map(|own| own.observers).unwrap_or_default();
        observers.push(observer);
        *own = Some(Box::new(Self::of(observers)));
    }

    /// Ends the while.
    pub fn remove_last(own: &mut Option<Box<Self>>) {
        let Some(mut observers) = own.take().map(|own| own.observers) else { return };
        observers.pop();
        *own = (!observers.is_empty()).then(|| Box::new(Self::of(observers)));
    }
}

impl<'m> Cx<'m> {
    /// Lets all observers see something. After a panic, what they find that follows from it is dropped and
    /// the kernel runs on: a wild access of another thread is still to be found.
    fn observe(&mut self, mut see: impl FnMut(&mut dyn Observer, &Self) -> Verdict) -> Verdict {
        let Some(mut watch) = self.watch.take() else { return Ok(()) };
        let verdict =
            watch.observers.iter_mut().try_for_each(|own| match see(own.as_mut(), self) {
                Err(fault) if self.launch.follows_from_panic(&fault.kind) => Ok(()),
                verdict => verdict,
            });
        self.watch = Some(watch);
        verdict
    }

    /// The same for what cannot fail.
    fn tell(&mut self, mut see: impl FnMut(&mut dyn Observer, &Self)) {
        let verdict = self.observe(|own, cx| {
            see(own, cx);
            Ok(())
        });
        debug_assert!(verdict.is_ok(), "nothing was asked that can fail");
    }

    /// See [`Observer::block_begins`].
    pub fn block_begins(&mut self) {
        self.tell(|own, cx| own.block_begins(cx));
    }

    /// See [`Observer::block_ends`].
    pub fn block_ends(&mut self) {
        self.tell(|own, cx| own.block_ends(cx));
    }

    /// See [`Observer::enters`].
    pub fn enters(&mut self, frame: &Frame, mask: u32) {
        if self.watch.is_some() {
            self.tell(|own, cx| own.enters(cx, frame, mask));
        }
    }

    /// See [`Observer::guards`].
    #[cold]
    pub fn guards(&mut self, frame: &mut Frame, op: &Op, active: u32) -> Verdict {
        self.observe(|own, cx| own.guards(cx, frame, op, active))
    }

    /// See [`Observer::step`].
    pub fn step(&mut self, frame: &mut Frame, op: &Op, mask: u32) -> Verdict {
        self.observe(|own, cx| own.step(cx, frame, op, mask))
    }

    /// See [`Observer::skips`].
    pub fn skips(&mut self, frame: &Frame, op: &Op) {
        self.tell(|own, cx| own.skips(cx, frame, op));
    }

    /// See [`Observer::done`].
    pub fn done(&mut self, frame: &mut Frame, op: &Op, mask: u32) {
        self.tell(|own, cx| own.done(cx, frame, op, mask));
    }

    /// See [`Observer::touch`].
    #[cold]
    pub fn touch(&mut self, frame: &mut Frame, touch: &Touch<'_>) -> Verdict {
        self.observe(|own, cx| own.touch(cx, frame, touch))
    }

    /// See [`Observer::touch_range`].
    #[cold]
    pub fn touch_range(&mut self, touch: &TouchRange) -> Verdict {
        self.observe(|own, cx| own.touch_range(cx, touch))
    }

    /// See [`Observer::copy_lands`].
    pub fn copy_lands(&mut self, landing: &Landing) -> Verdict {
        self.observe(|own, cx| own.copy_lands(cx, landing))
    }

    /// See [`Observer::arrives`].
    pub fn arrives(&mut self, mask: u32) {
        self.tell(|own, cx| own.arrives(cx, mask));
    }

    /// See [`Observer::opens`].
    pub fn opens(&mut self, barrier: u32, waiting: &[u32]) {
        self.tell(|own, cx| own.opens(cx, barrier, waiting));
    }

    /// See [`Observer::cluster_arrives`].
    pub fn cluster_arrives(&mut self, mask: u32) {
        self.tell(|own, cx| own.cluster_arrives(cx, mask));
    }

    /// See [`Observer::cluster_passes`].
    pub fn cluster_passes(&mut self, mask: u32) {
        self.tell(|own, cx| own.cluster_passes(cx, mask));
    }

    /// See [`Observer::exits`].
    pub fn exits(&mut self, mask: u32) {
        self.tell(|own, cx| own.exits(cx, mask));
    }

    /// What an address of this process is to the warp at hand.
    pub fn place(&self, address: u64) -> Place {
        let within = |base: u64, bytes: u64| {
            let offset = address.wrapping_sub(base);
            (offset < bytes).then_some(offset)
        };
        if let Some(offset) = within(self.block.shared.as_ptr() as u64, self.block.shared_bytes) {
            return Place::Shared(self.block.number, offset);
        }
        if let Some((rank, offset)) = self.cluster.owner(address, self.block.shared_bytes) {
            return Place::Shared(self.cluster.peers[rank as usize].number, offset);
        }
        if let Some(offset) =
            within(self.warp.local.as_ptr() as u64, 8 * self.warp.local.len() as u64)
        {
            let stride = self.warp.local_stride.max(1);
            return Place::Local((offset / stride) as usize, offset % stride);
        }
        match within(self.launch.params.as_ptr() as u64, self.launch.param_bytes) {
            Some(offset) => Place::Param(offset),
            None => Place::Global,
        }
    }
}
