//! Persistent kernels: each stays on the device, answers the messages of a ring, and ends when the
//! ring is closed.
//!
//! The lanes of a warp take as many messages at once as are there. One warp answers in the order in
//! which it was asked; of several, each takes what it can, so answers overtake each other.

use crate::prelude::*;
use bytemuck::{Pod, Zeroable};
use cuda_std::ring::Closed;

use crate::elementwise::axpy::axpy;

/// Numbers in each vector of a [`SaxpyRequest`].
pub const SAXPY_LEN: usize = 14;

/// `y = alpha * x + y`, asked for by message: 128 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(16))]
pub struct SaxpyRequest {
    /// Comes back with the answer.
    pub id: u64,
    /// The factor.
    pub alpha: f32,
    /// Zero.
    pub reserved: u32,
    /// The vector that is scaled.
    pub x: [f32; SAXPY_LEN],
    /// The vector that is added.
    pub y: [f32; SAXPY_LEN],
}

/// The answer to a [`SaxpyRequest`]: 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C, align(16))]
pub struct SaxpyReply {
    /// That of the request.
    pub id: u64,
    /// The sum.
    pub y: [f32; SAXPY_LEN],
}

const _: () = assert!(size_of::<SaxpyRequest>() == 128 && size_of::<SaxpyReply>() == 64);

/// The answer to a request.
#[inline(always)]
pub fn saxpy_reply(request: &SaxpyRequest) -> SaxpyReply {
    let mut y = request.y;
    for (y, x) in y.iter_mut().zip(&request.x) {
        *y = axpy(request.alpha, *x, *y);
    }
    SaxpyReply { id: request.id, y }
}

/// Answers each message of `WORDS` words with itself, in order: one warp.
#[kernel(1, 16, 64, block = 32)]
pub fn ring_echo<const WORDS: usize>(
    mut requests: RingConsumer<[u32; WORDS]>,
    mut replies: RingProducer<[u32; WORDS]>,
) where
    [u32; WORDS]: Pod,
{
    let _ = answer_all(&mut requests, &mut replies, |message| message);
}

/// Answers requests, four warps a block, of any number of blocks; the order is not kept. Panics at a
/// request whose reserved word is not zero.
#[kernel(block = 128)]
pub fn ring_saxpy(mut requests: RingConsumer<SaxpyRequest>, mut replies: RingProducer<SaxpyReply>) {
    let _ = answer_all(&mut requests, &mut replies, |request| {
        assert!(request.reserved == 0, "a request's reserved word is zero");
        saxpy_reply(&request)
    });
}

/// Two blocks in a row: the first adds 1 to each message and hands it on through a ring of the
/// device, the second triples it, in order.
#[kernel(block = 32)]
pub fn ring_relay(
    mut requests: RingConsumer<u32>,
    mut into: RingProducer<u32>,
    mut out: RingConsumer<u32>,
    mut replies: RingProducer<u32>,
) {
    if thread::block_idx_x() == 0 {
        let _ = answer_all(&mut requests, &mut into, |message| message.wrapping_add(1));
        // All lanes have sent their last.
        Warp::current().sync();
        into.close();
    } else if thread::block_idx_x() == 1 {
        let _ = answer_all(&mut out, &mut replies, |message| message.wrapping_mul(3));
        out.close();
    }
}

/// Receives, answers and sends until either ring is closed. Every lane of the warp calls it.
#[inline(always)]
pub(super) fn answer_all<T: Pod, U: Pod>(
    requests: &mut RingConsumer<T>,
    replies: &mut RingProducer<U>,
    answer: impl Fn(T) -> U,
) -> Result<(), Closed> {
    let warp = Warp::current();
    while let Some(message) = requests.recv_warp(warp) {
        replies.send_warp(warp, message.map(&answer))?;
    }
    Ok(())
}
