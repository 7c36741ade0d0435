//! What collectives hand from thread to thread.

use crate::shared::Element;
use crate::warp::Plain;

/// A value that the collectives of a block hand from thread to thread, of at most 16 bytes: every
/// [`bytemuck::Pod`] type is one.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel between the threads of a block",
    label = "a thread may receive any bits, and sends all of its own",
    note = "derive `bytemuck::Pod` on a `#[repr(C)]` struct of plain numbers without padding"
)]
pub trait Item: Element + Plain {}

impl<T: Element + Plain> Item for T {}
