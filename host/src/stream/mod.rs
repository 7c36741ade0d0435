//! Streams: queues of work on a device.
//!
//! Work on one stream runs in order; work on different streams may overlap. Every buffer has a
//! *home*, the stream that it was made on. A use of a buffer on another stream waits for its
//! home first, and its home waits for that use afterwards. So all uses of a buffer are in order,
//! whatever streams they run on, and safe code cannot race.

mod events;
mod fork;
mod handle;
mod inner;
mod rehome;

pub(crate) use fork::{ForkScope, HomeUse, is_forked};
pub use handle::{AsStream, Stream};
pub(crate) use inner::{StreamInner, check_same, home_of};
