//! A persistent kernel that answers messages of several kinds from one ring.
//!
//! The lanes of a warp take up to 32 envelopes at once. They answer one kind after the other, so that the lanes of one
//! kind run together; so answers of a later kind come after those of an earlier kind, whatever was asked first, and the
//! host tells them apart by their correlation.

use crate::prelude::*;
use bytemuck::{Pod, Zeroable};
use cuda_std::ring::{Closed, Envelope, RingMessage, RingRequest};

/// Words of an envelope: the largest message has 32 bytes. With its header an envelope has 56 bytes.
pub const MESSAGE_WORDS: usize = 4;

/// What [`ring_messages`](fn@ring_messages) receives and sends.
pub type VectorMessage = Envelope<MESSAGE_WORDS>;

/// Asks for the inner product of two vectors.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Dot {
    /// The one vector.
    pub x: [f32; 4],
    /// The other vector.
    pub y: [f32; 4],
}

/// The answer to [`Dot`].
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Scalar(pub f32);

/// Asks for a quotient and its remainder. A divisor of 0 is a panic of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Divide {
    /// What is divided.
    pub dividend: u32,
    /// By which number it is divided.
    pub divisor: u32,
}

/// The answer to [`Divide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Quotient {
    /// The quotient, rounded towards 0.
    pub quotient: u32,
    /// What is left.
    pub remainder: u32,
}

impl RingMessage for Dot {
    const KIND: u32 = 1;
}

impl RingMessage for Scalar {
    const KIND: u32 = 2;
}

impl RingMessage for Divide {
    const KIND: u32 = 3;
}

impl RingMessage for Quotient {
    const KIND: u32 = 4;
}

impl RingRequest for Dot {
    type Answer = Scalar;
}

impl RingRequest for Divide {
    type Answer = Quotient;
}

/// The inner product: products added in order.
#[inline(always)]
pub fn dot(request: Dot) -> Scalar {
    Scalar(request.x.iter().zip(&request.y).fold(0.0, |sum, (x, y)| x.mul_add(*y, sum)))
}

/// The quotient and the remainder.
///
/// # Panics
/// If the divisor is 0.
#[inline(always)]
pub fn divide(request: Divide) -> Quotient {
    let Divide { dividend, divisor } = request;
    assert!(divisor != 0, "a number is divided by zero");
    Quotient { quotient: dividend / divisor, remainder: dividend % divisor }
}

/// Answers [`Dot`] and [`Divide`], in this order of the kinds, and refuses messages of other kinds. Panics at a divisor
/// of 0.
#[kernel(block = 32)]
pub fn ring_messages(
    mut requests: RingConsumer<VectorMessage>,
    mut answers: RingProducer<VectorMessage>,
) {
    let warp = Warp::current();
    while let Some(request) = requests.recv_warp(warp) {
        if answer_by_kind(warp, request, &mut answers).is_err() {
            break;
        }
    }
}

/// Sends the answers of the lanes that have a request. Every lane of the warp calls it.
#[inline(always)]
fn answer_by_kind(
    warp: Warp,
    request: Option<VectorMessage>,
    answers: &mut RingProducer<VectorMessage>,
) -> Result<(), Closed> {
    let scalar = request.and_then(|request| request.answer(dot));
    answers.send_warp(warp, scalar)?;
    let rest = request.filter(|request| !request.is::<Dot>());
    let answer =
        |request: VectorMessage| request.answer(divide).unwrap_or_else(|| request.refuse());
    answers.send_warp(warp, rest.map(answer))
}
