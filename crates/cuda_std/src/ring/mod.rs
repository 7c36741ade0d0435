//! Rings: queues of messages between host and kernels, and among kernels, while these run.
//!
//! A *persistent kernel* stays on the device and answers messages, which saves each of them the cost
//! of a launch. It takes a [`RingConsumer`] of what it is asked, and a [`RingProducer`] of what it
//! answers; the host's ends are `Sender` and `Receiver` of the host crate.
//!
//! ```
//! use cuda_std::prelude::*;
//!
//! /// Answers each number with its square, until the host asks no more.
//! #[kernel(block = 32)]
//! pub fn squares(mut asked: RingConsumer<u32>, mut answers: RingProducer<u32>) {
//!     if thread::index_in_block() == 0 {
//!         while let Some(x) = asked.recv() {
//!             if answers.send(x * x).is_err() {
//!                 break;
//!             }
//!         }
//!     }
//! }
//! # fn main() {}
//! ```
//!
//! # Method
//!
//! Vyukov's bounded queue (Dmitry Vyukov, *Bounded MPMC queue*, 1024cores, 2010): each slot carries a
//! number that says whose turn it is, and a producer or consumer claims a position by one
//! compare-and-swap on a counter that only its own side has. Vyukov's number is split in two: the
//! producers write *arrived*, the consumers write *free*. So each word has one writing side and can
//! lie where the other side reads it; no read-modify-write crosses the bus, which PCI Express would
//! not make atomic; and a ring of one slot works.
//!
//! | of the slot of position `p` | means |
//! |---|---|
//! | `arrived = p + 1` | the message of `p` is there |
//! | `free = p` | the slot is free for the message of `p` |
//!
//! Both are taken modulo 2^32, positions count in 64 bits. The message is written before `arrived` is
//! released and read after it was acquired; it is read before `free` is released, and the slot is
//! written after that was acquired: all at system scope. Messages of one producer arrive in its
//! order; positions are one order of all.
//!
//! # Closing
//!
//! Each side can be closed ([`Control`]). Once the senders' side is, a consumer gets what is left and
//! then `None`; once the receivers' side is, a producer gets [`Closed`].
//!
//! # Several kinds of message
//!
//! A ring of [`Envelope`]s carries messages of several types, with a header that says which each is: see [`message`].

mod device;
pub mod message;
mod slots;

pub use device::{RingConsumer, RingProducer};
pub use message::{Envelope, MessageError, MessageHeader, RingMessage, RingRequest};
pub use slots::{Slots, Turn};

use crate::atomic::Ordering::Relaxed;
use crate::atomic::{Atomic, scope};
use crate::cache_line::{CACHE_LINE_BYTES, CacheLineAligned};
use bytemuck::{Pod, Zeroable};
use core::mem::offset_of;

/// The next position that a side of a ring claims. It lies where that side runs, with a cache line for
/// itself.
pub type Position = Atomic<u64, scope::System>;

/// A [`Position`] in its line.
pub type PositionBlock = CacheLineAligned<Position>;

/// The control block of a ring, which both sides and the host see.
pub type ControlBlock = CacheLineAligned<Control>;

/// The words of a [`ControlBlock`]. Read-modify-writes of a word come from one side alone.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Control {
    /// Not 0 once the sending side is closed.
    pub senders_closed: Atomic<u32, scope::System>,
    /// Not 0 once the receiving side is closed.
    pub receivers_closed: Atomic<u32, scope::System>,
    /// How often a sender found the ring full and waited.
    pub full_waits: Atomic<u64, scope::System>,
    /// How often a receiver found the ring empty and waited.
    pub empty_waits: Atomic<u64, scope::System>,
    /// The most messages that were in the ring at once: as the host's side saw it, or else the senders'.
    pub high_water: Atomic<u64, scope::System>,
    /// The grid that was the last to take the receiving side on a device: the low half of its id, and 1 above it.
    pub receiving_grid: Atomic<u64, scope::System>,
}

impl Control {
    /// The low half of the id of the grid that was the last to take the receiving side on a device, if one did. The record
    /// of a [panic](crate::panic) has the id, too, so that the host knows which launch of a kernel it is of.
    #[must_use]
    pub fn receiving_grid(&self) -> Option<u32> {
        let word = self.receiving_grid.load(Relaxed);
        (word >> 32 != 0).then_some(word as u32)
    }
}

// SAFETY: zero is a value of atomic numbers.
unsafe impl Zeroable for Control {}

/// What a ring has done until now: 64 bytes aligned to 64, so that a program can keep a list of them, or send them to a
/// device, one to a cache line of a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Telemetry {
    /// Messages that were put in.
    pub sent: u64,
    /// Messages that were taken out.
    pub received: u64,
    /// How often a sender found the ring full and waited.
    pub full_waits: u64,
    /// How often a receiver found it empty and waited.
    pub empty_waits: u64,
    /// The most messages that were in it at once, as far as its sides saw.
    pub high_water: u64,
    /// Zero. It is a field because `Pod` has no padding.
    #[doc(hidden)]
    pub reserved: [u64; 3],
}

// SAFETY: zero is a value of each field.
unsafe impl Zeroable for Telemetry {}
// SAFETY: eight numbers of one size fill the 64 bytes, and every bit pattern is a value.
unsafe impl Pod for Telemetry {}

const _: () = {
    assert!(size_of::<PositionBlock>() == CACHE_LINE_BYTES);
    assert!(size_of::<ControlBlock>() == CACHE_LINE_BYTES);
    assert!(align_of::<ControlBlock>() == CACHE_LINE_BYTES);
    assert!(offset_of!(Control, senders_closed) == 0);
    assert!(offset_of!(Control, receivers_closed) == 4);
    assert!(offset_of!(Control, full_waits) == 8);
    assert!(offset_of!(Control, empty_waits) == 16);
    assert!(offset_of!(Control, high_water) == 24);
    assert!(offset_of!(Control, receiving_grid) == 32);
    assert!(size_of::<Telemetry>() == 64);
    assert!(align_of::<Telemetry>() == 64);
    assert!(offset_of!(Telemetry, full_waits) == 16);
    assert!(offset_of!(Telemetry, high_water) == 32);
};

/// The other side of the ring is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl core::fmt::Display for Closed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the other side of the ring is closed")
    }
}

impl core::error::Error for Closed {}

/// Why there is no message now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// None has arrived; one may.
    Empty,
    /// None has arrived, and none will.
    Closed,
}

/// Why a message was not sent now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrySendError {
    /// There is no free slot; there may be one later.
    Full,
    /// The receiving side is closed.
    Closed,
}
