//! NCCL, opened at run time: nothing of it is needed to build.
//!
//! The functions are declared here by hand, the twenty that are used. The crate cudarc has bindings, but it takes streams and
//! devices as its own types, which belong to a context that it makes, and would bring a second driver layer beside this one; to
//! call its raw functions alone would save these declarations and nothing else. NCCL itself works with whatever context is
//! current, and a stream is the driver's handle: so communicators run in the primary context that `ferrowarp` uses, on its streams.

mod communicator;
mod functions;
mod handle;
mod library;
mod places;

use std::sync::Arc;

use ferrowarp::Gpu;

use crate::error::DistError;
use crate::fate::Fate;
use crate::transport::Transport;
use library::Library;

/// Whether NCCL is here and new enough.
pub(crate) fn check() -> Result<(), DistError> {
    Library::get().map(drop)
}

/// What identifies a new communicator: 128 bytes, with the address where its first rank listens.
pub(crate) fn new_identity() -> Result<Vec<u8>, DistError> {
    Library::get()?.new_identity()
}

/// The communicator of that identity. All ranks call it.
pub(crate) fn join(
    rank: u32,
    size: u32,
    identity: &[u8],
    gpu: &Gpu,
    fate: Arc<Fate>,
) -> Result<Box<dyn Transport>, DistError> {
    let joined = communicator::Nccl::join(rank, size, identity, gpu, fate)?;
    Ok(Box::new(joined))
}
