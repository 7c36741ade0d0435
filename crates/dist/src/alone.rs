//! A communicator of one rank: copies on its device.

use std::sync::Arc;

use cuda_driver::sys;
use ferrowarp::memory::resource::StreamRef;

use crate::driver::check;
use crate::error::DistError;
use crate::fate::Fate;
use crate::transport::{Backend, Primitive, Transport};

pub(crate) struct Alone;

impl Transport for Alone {
    fn backend(&self) -> Backend {
        Backend::Alone
    }

    fn is_noop(&self, primitives: &[Primitive]) -> bool {
        copies(primitives).is_ok_and(|copies| copies.is_empty())
    }

    unsafe fn run(&self, stream: StreamRef<'_>, primitives: &[Primitive]) -> Result<(), DistError> {
        for (from, to, bytes) in copies(primitives)? {
            // SAFETY: the caller's promise; source and destination are different buffers, or parts of one that do not overlap.
            let copied =
                unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream.as_raw().cast()) };
            check("cuMemcpyDtoDAsync", copied)?;
        }
        Ok(())
    }

    fn split(
        &self,
        colour: Option<u32>,
        _position: u32,
        _fate: Arc<Fate>,
    ) -> Result<Option<Box<dyn Transport>>, DistError> {
        Ok(colour.map(|_| Box::new(Self) as Box<dyn Transport>))
    }
}

/// What is to be copied: from, to, bytes. A sum of one value is that value.
fn copies(primitives: &[Primitive]) -> Result<Vec<(u64, u64, usize)>, DistError> {
    let mut sent = Vec::new();
    let mut received = Vec::new();
    let mut copies = Vec::new();
    for &primitive in primitives {
        match primitive {
            Primitive::AllReduce { from, to, len, kind, .. }
            | Primitive::Reduce { from, to, len, kind, .. }
            | Primitive::ReduceScatter { from, to, len, kind, .. } => {
                copies.push((from, to, len * kind.size_bytes()));
            }
            Primitive::Broadcast { from, to, bytes, .. }
            | Primitive::AllGather { from, to, bytes } => {
                copies.push((from, to, bytes));
            }
            Primitive::Send { from, bytes, .. } => sent.push((from, bytes)),
            Primitive::Receive { to, bytes, .. } => received.push((to, bytes)),
        }
    }
    if sent.len() != received.len() {
        return Err(DistError::Unmatched { sends: sent.len(), receives: received.len() });
    }
    for ((from, expected), (to, found)) in sent.into_iter().zip(received) {
        if expected != found {
            let (operation, what) =
                ("receiving from this rank itself", "what is received, in bytes,");
            return Err(DistError::Length { operation, what, expected, found });
        }
        copies.push((from, to, found));
    }
    copies.retain(|(from, to, bytes)| from != to && *bytes > 0);
    Ok(copies)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::{ElementKind, Reduction};

    #[test]
    fn what_one_rank_sends_itself_is_copied_in_order() {
        let primitives = [
            Primitive::Send { from: 256, bytes: 8, to: 0 },
            Primitive::Receive { to: 512, bytes: 8, from: 0 },
            Primitive::Send { from: 1024, bytes: 4, to: 0 },
            Primitive::Receive { to: 2048, bytes: 4, from: 0 },
        ];
        assert_eq!(copies(&primitives).unwrap(), [(256, 512, 8), (1024, 2048, 4)]);
        assert!(copies(&primitives[..1]).is_err());
        assert!(copies(&[primitives[0], primitives[3]]).is_err());
    }

    #[test]
    fn reductions_in_place_do_nothing() {
        let (kind, reduction) = (ElementKind::F32, Reduction::Average);
        let all = |to| Primitive::AllReduce { from: 256, to, len: 3, kind, reduction };
        assert!(Alone.is_noop(&[all(256)]));
        assert_eq!(copies(&[all(512)]).unwrap(), [(256, 512, 12)]);
    }
}
