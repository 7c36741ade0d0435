//! Persistent kernels that send messages to each other: the host joins them by their names.
//!
//! * [`route_parity`](fn@route_parity) sends each number to one of two kernels,
//! * [`route_add`](fn@route_add) adds to it and sends it on,
//! * [`route_rounds`](fn@route_rounds) sends numbers around a circle of kernels until they are done.

use crate::prelude::*;
use cuda_std::panic::leave_after_panic;
use cuda_std::ring::TryRecvError;

use super::ring::answer_all;

/// The most messages that [`route_rounds`](fn@route_rounds) has in its circle at once: the rings of the circle have as many slots.
pub const ROUNDS_IN_FLIGHT: u32 = 4;

/// Sends each number from `requests` to `even` or to `odd`, in order: one warp.
#[kernel(block = 32)]
pub fn route_parity(
    mut requests: RingConsumer<u32>,
    mut even: RingProducer<u32>,
    mut odd: RingProducer<u32>,
) {
    let warp = Warp::current();
    while let Some(number) = requests.recv_warp(warp) {
        let with_parity = |parity| number.filter(|number| number % 2 == parity);
        if even.send_warp(warp, with_parity(0)).is_err()
            || odd.send_warp(warp, with_parity(1)).is_err()
        {
            break;
        }
    }
}

/// Adds `addend` to each number and sends it on, in order: one warp. Panics where the sum has no room in 32 bits.
#[kernel(block = 32)]
pub fn route_add(addend: u32, mut numbers: RingConsumer<u32>, mut sums: RingProducer<u32>) {
    let _ = answer_all(&mut numbers, &mut sums, |number: u32| {
        number.checked_add(addend).expect("the sum has room in 32 bits")
    });
}

/// Sends each request around a circle: to `onward`, and what comes `back` again, until it is a multiple of `modulus`;
/// then to `replies`. One thread.
///
/// It lets [`ROUNDS_IN_FLIGHT`] messages into the circle and no more, so that the rings of the circle never are full.
/// It ends when there are no more requests and the circle is empty, so that no message is lost.
#[kernel(block = 32)]
pub fn route_rounds(
    modulus: u32,
    mut requests: RingConsumer<u32>,
    mut back: RingConsumer<u32>,
    mut onward: RingProducer<u32>,
    mut replies: RingProducer<u32>,
) {
    if thread::index_in_block() != 0 {
        return;
    }
    let (mut in_flight, mut idle, mut open) = (0, 0u32, true);
    while open || in_flight > 0 {
        let returned = back.try_recv();
        let fresh = match returned {
            // The circle was closed before it was empty: another kernel of it has failed.
            Err(TryRecvError::Closed) => return,
            Err(TryRecvError::Empty) if open && in_flight < ROUNDS_IN_FLIGHT => requests.try_recv(),
            _ => Err(TryRecvError::Empty),
        };
        open &= fresh != Err(TryRecvError::Closed);
        in_flight -= u32::from(returned.is_ok());
        let sent = match (returned, fresh) {
            (Ok(number), _) if number.is_multiple_of(modulus) => replies.send(number),
            (Ok(number), _) | (_, Ok(number)) => {
                in_flight += 1;
                onward.send(number)
            }
            _ => {
                rest(&mut idle);
                Ok(())
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Sleeps a little at each sixteenth look in vain.
#[inline(always)]
fn rest(looks: &mut u32) {
    *looks = looks.wrapping_add(1);
    if looks.is_multiple_of(16) {
        thread::nanosleep(256);
        leave_after_panic();
    }
}
