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
//! # The other threads
//!
//! They run on. Threads that have ended count as arrived at barriers, and no shuffle or vote waits for
//! them. What the panicked thread would have written is not there, so a result that others compute from
//! it is undefined; the host reports the panic as an error. A loop that waits for other threads calls
//! [`leave_after_panic`], or it may wait forever.
//!
//! # Why they stay memory-safe
//!
//! A thread that panics is to the others as one that returned early, which any kernel's threads may do.
//!
//! 1. *What they read is a value.* Shared memory holds plain bits alone
//!    ([`shared::Element`](crate::shared::Element)), and so do the registers that lanes exchange
//!    ([`warp::Plain`](crate::warp::Plain)) and the words through which blocks do. What the ended
//!    thread did not write holds what was there before, and every bit pattern is a value of the type.
//! 2. *No unsafe code believes it.* An index, a length or an address that comes from shared memory, from
//!    another lane or from another block is compared before unsafe code follows it: the ranks of
//!    [`Block::sort`](crate::block::Block::sort), for instance. Which elements a thread owns depends on
//!    types and on its own index, never on what another thread has done.
//! 3. *Barriers still order.* Those that are left meet at the same barriers as before.
//! 4. *The memory is there.* A block's shared memory lives while one of its threads runs. Only other
//!    blocks of a [cluster](crate::cluster) could reach it later: there, once the panic is reported, the thread
//!    traps, which ends the whole kernel, and the context with it.
//!
//! Unsafe code of your own makes the same promise: what another thread should have written may not be there.
//! Where it cannot promise that, it asks for a trap at every panic (`panic-trap`).
//!
//! # Without a host that listens
//!
//! Where the host gave the module no records, the message goes to the driver's `__assertfail`, which
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
pub(crate) use device::grid;
#[cfg(target_os = "cuda")]
pub use device::report;

/// The number of grids whose panics can be recorded before the host reads the records.
pub const SLOTS: usize = 8;
/// Bytes of a record's pieces: texts and values.
pub const PIECES_BYTES: usize = 2048;
/// The piece that stands for arguments: their text, or no bytes where there is a template.
pub const TEXT: u8 = b'T';
/// Arguments of a message, and arguments within them, whose values are taken.
pub const NESTED: usize = 4;
/// The type of a count, such as `{:1$}` takes its width from; all others are as in symbol names.
pub const COUNT: u8 = b'#';
/// The type of a `str`.
pub const STR: u8 = b'e';
/// The type of [`fmt::Arguments`](core::fmt::Arguments): it has no bytes, but is the next of the record's.
pub const ARGUMENTS: u8 = b'A';
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
/// The variable of a module that holds its [`Channel`].
pub const SYMBOL: &str = "ferrowarp_panic";
/// The variable of a module that has what the builder knows of addresses, two words for each.
pub const KNOWN: &str = "ferrowarp_known";
/// What stands in the PTX behind a place in the source, before the names of the kernels that can be there.
pub const KERNELS: &str = "// ferrowarp.kernels";

/// The variable `ferrowarp_panic` of a module.
#[doc(hidden)]
#[repr(C)]
pub struct Channel {
    /// The device's address of [`Records`], or 0: the only part that the host writes.
    pub records: AtomicU64,
    /// For each record, who claimed it last: the how manieth panic of the record it is, from 1, above the
    /// low half of the grid's id. The id alone is not enough, for replays of a graph may share it.
    pub owners: [AtomicU64; SLOTS],
    /// For each record, how many threads found that it was claimed for their grid already; it only
    /// grows.
    pub others: [AtomicU32; SLOTS],
    /// Not 0 once any record was claimed.
    pub claims: AtomicU32,
}

/// What host and device share.
#[doc(hidden)]
#[repr(C)]
pub struct Records<const N: usize = SLOTS> {
    /// Not 0 once a grid panicked for which no record was left.
    pub lost: AtomicU64,
    /// One for each grid that panicked.
    pub records: [Record; N],
}

/// One panic. The device writes all of it but `seen`.
///
/// The device copies and the host formats. So there are pieces, for each of `arguments` one and then those of its
/// values. A piece is 8 bytes (what it is, of a value the type as in symbol names; a value's trait << 8; the
/// number of bytes << 16), and as many bytes, with room up to a multiple of 8.
#[doc(hidden)]
#[repr(C)]
pub struct Record {
    /// The owner of the record whose panic is here; written last.
    pub ready: AtomicU64,
    /// How many panics the host is done with: it has taken them from here, and their grids have ended. The record is free
    /// when its owner's is one of them.
    pub seen: AtomicU64,
    /// The index of the block that has the record: x, then 16 bits each for y and z.
    pub block: AtomicU64,
    /// The owner of the record: what `ready` is going to be.
    pub owner: u64,
    /// Blocks in the grid.
    pub grid_dim: [u32; 3],
    /// Threads in a block.
    pub block_dim: [u32; 3],
    /// The device's address of the place in the source.
    pub place: u64,
    /// Not 0 once that is written: if the thread panics again, then while its message is formatted.
    pub begun: u32,
    /// The index in its block of the thread that has the record, ten bits for each of x, y and z; and 1. The host
    /// writes 0 before it frees the record.
    pub thread: AtomicU32,
    /// Bytes of all pieces. Where the last one is cut, they are `PIECES_BYTES`.
    pub used: u32,
    /// How many of `arguments` are there.
    pub listed: u32,
    /// The message, and the arguments within it in the order of their values.
    pub arguments: [Arguments; NESTED],
    /// The pieces, and room for one without bytes and for a zero.
    pub pieces: [u64; PIECES_BYTES / 8 + 2],
}

/// The parts of [`fmt::Arguments`](core::fmt::Arguments) in Rust 1.96, the one compiler that builds kernels.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Arguments {
    /// The device's address of the template, or of the text.
    pub template: u64,
    /// That of the values and the functions that format them. If it is odd, the template is a text of half as
    /// many bytes, or the device formatted what is there.
    pub args: u64,
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
