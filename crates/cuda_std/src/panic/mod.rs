//! Panics: how the message of a thread that panics reaches the host.
//!
//! A module that can panic has a variable `ferrowarp_panic`, a [`Channel`]. A host library that
//! knows of it writes the address of [`Records`] there, in memory that host and device share. A
//! thread that panics then
//!
//! 1. claims a record for its grid, unless a thread of the grid was faster, and writes the place,
//!    its block and thread and the message there;
//! 2. makes all of it visible to the host, and ends by `exit`. The context lives on.
//!
//! The other threads of the grid run on. Threads that have ended count as arrived at barriers, and
//! no shuffle or vote waits for them. What the panicked thread would have written is not there, so
//! a result that others compute from it is anything; the host's error says so. Code that relies on
//! another thread's writes for its memory safety asks for a trap (`panic-trap`), which ends all.
//! A loop that waits for other threads calls [`leave_after_panic`], or it may wait for ever.
//!
//! Where nobody gave the module records, the message goes to the driver's `__assertfail`, which
//! prints it with block and thread and ends the context.
//!
//! # Features of the crate
//!
//! | features | a panic |
//! |---|---|
//! | `panic-handler` (default) | is reported, as above |
//! | `panic-trap` (implies `panic-handler`) | is a trap: no message, no formatting code |
//! | neither | is what your own `#[panic_handler]` makes of it, perhaps with `report` (on the device) |

#[cfg(target_os = "cuda")]
mod device;
#[cfg(target_os = "cuda")]
mod message;

use core::sync::atomic::{AtomicU32, AtomicU64};

use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
pub use device::report;

/// Grids whose panics the host can be told of before it looks.
pub const SLOTS: usize = 8;
/// Bytes of a message, values among them as they lie in memory; a longer one ends in `…`.
pub const MESSAGE_BYTES: usize = 1000;
/// Begins a value in a message, which the host formats: no byte of UTF-8. Then come the type as in
/// symbol names, the trait, flags (4 bytes), width and precision (2 each), and the value's bytes; a
/// `str` has its length (2 bytes) before them.
pub const VALUE: u8 = 0xFF;
/// The trait of a value in a message: `Display`.
pub const DISPLAY: u8 = 0;
/// `Debug`.
pub const DEBUG: u8 = 1;
/// `LowerHex`.
pub const LOWER_HEX: u8 = 2;
/// `UpperHex`.
pub const UPPER_HEX: u8 = 3;
/// `Binary`.
pub const BINARY: u8 = 4;
/// `Octal`.
pub const OCTAL: u8 = 5;
/// `LowerExp`.
pub const LOWER_EXP: u8 = 6;
/// Bytes of a file's name.
pub const FILE_BYTES: usize = 256;
/// Bytes of a kernel's name.
pub const KERNEL_BYTES: usize = 256;
/// The variable of a module that holds its [`Channel`].
pub const SYMBOL: &str = "ferrowarp_panic";

/// The variable `ferrowarp_panic` of a module.
#[doc(hidden)]
#[repr(C)]
pub struct Channel {
    /// The device's address of [`Records`], or 0: the only part that the host writes.
    pub records: AtomicU64,
    /// For each record, who claimed it last: the how manieth panic of the record it is, from 1, above the
    /// low half of the grid's id. The id alone is not enough, for replays of a graph may share it.
    pub owners: [AtomicU64; SLOTS],
    /// For each record, the number in its grid of the thread that claimed it.
    pub writers: [AtomicU64; SLOTS],
    /// For each record, the owner whose writer is noted.
    pub begun: [AtomicU64; SLOTS],
    /// For each record, how many threads found that it was claimed for their grid already; it only
    /// grows.
    pub others: [AtomicU32; SLOTS],
    /// Whether a record's writer is at its message.
    pub formatting: [AtomicU32; SLOTS],
    /// Not 0 once any record was claimed.
    pub claims: AtomicU32,
}

/// What host and device share.
#[doc(hidden)]
#[repr(C)]
pub struct Records {
    /// One for each grid that panicked.
    pub records: [Record; SLOTS],
    /// Not 0 once a grid panicked for which no record was left.
    pub lost: AtomicU64,
}

/// One panic. The device writes all of it but `seen`.
#[doc(hidden)]
#[repr(C)]
pub struct Record {
    /// The owner of the record whose panic is here; written last.
    pub ready: AtomicU64,
    /// How many panics the host has taken from here. The record is free when its owner's is one of them.
    pub seen: AtomicU64,
    /// The block's index.
    pub block: [u32; 3],
    /// The thread's index in its block.
    pub thread: [u32; 3],
    /// Blocks in the grid.
    pub grid_dim: [u32; 3],
    /// Threads in a block.
    pub block_dim: [u32; 3],
    /// Line of the place, from 1; 0 if it is not known.
    pub line: u32,
    /// Column of the place, from 1.
    pub column: u32,
    /// The kernel's name, or several with a space between if it is one of them.
    pub kernel: Text<KERNEL_BYTES>,
    /// The file of the place.
    pub file: Text<FILE_BYTES>,
    /// The message.
    pub message: Text<MESSAGE_BYTES>,
}

/// UTF-8 of at most `N` bytes.
#[doc(hidden)]
#[repr(C)]
pub struct Text<const N: usize> {
    /// Bytes used; more than `N` where some are missing.
    pub len: u32,
    /// The bytes, and one more so that a zero can end them.
    pub bytes: [u8; N],
    /// Room for that zero.
    pub end: [u8; 4],
}

impl<const N: usize> Text<N> {
    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..(self.len as usize).min(N)]
    }
}

/// Ends this thread if another one of its grid has panicked.
///
/// It stands in loops that wait for what other threads will do, which a panicked one never does: in those
/// of this library ([`Mbarrier`](crate::mbarrier::Mbarrier), [`GridBarrier`](crate::grid::GridBarrier))
/// already. It costs one load from the second-level cache: call it where a first look was in vain.
#[gpu_only]
#[inline(always)]
pub fn leave_after_panic() {
    device::leave_after_panic();
}
