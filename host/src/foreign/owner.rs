//! What ends a thing of the driver's that other code has made.

use std::panic::{RefUnwindSafe, UnwindSafe};

/// A value that ends a stream or a context of other code where it is dropped.
pub(crate) trait ForeignOwner: Send + Sync + UnwindSafe + RefUnwindSafe {}

impl<T: Send + Sync + UnwindSafe + RefUnwindSafe> ForeignOwner for T {}
