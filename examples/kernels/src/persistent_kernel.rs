//! The kernel of `10_persistent_kernel`: it stays on the device and answers messages.

use cuda_std::prelude::*;

/// Answers every number from the ring `requests` with its square, until the host shuts the kernel down.
///
/// Each warp takes up to 32 messages at a time, one for each lane.
#[kernel(block = 32)]
pub fn squares(mut requests: RingConsumer<u32>, mut replies: RingProducer<[u32; 2]>) {
    let warp = Warp::current();
    while let Some(x) = requests.recv_warp(warp) {
        if replies.send_warp(warp, x.map(|x| [x, x * x])).is_err() {
            break; // the host has dropped the receiver
        }
    }
}
