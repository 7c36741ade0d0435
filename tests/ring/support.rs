//! What these tests share.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use bytemuck::Pod;
use ferrowarp::{Backend, Bridge, Gpu, GpuResult, Receiver, Sender};

static TURN: Mutex<()> = Mutex::new(());

/// A device whose kernels are loaded, and the turn, which lasts as long as the guard.
pub fn gpu() -> (Gpu, MutexGuard<'static, ()>) {
    let (gpu, turn) = bare_gpu();
    gpu.load_kernels().unwrap();
    (gpu, turn)
}

/// The same without its kernels, which a GPU's driver takes half a minute to compile for the first time: for
/// a test that launches nothing beside a kernel that stays.
pub fn bare_gpu() -> (Gpu, MutexGuard<'static, ()>) {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    (Gpu::new().unwrap_or_else(|error| panic!("no device to test on: {error}")), turn)
}

/// How many messages a long test sends: an emulated warp takes its time.
pub fn many(gpu: &Gpu) -> u32 {
    match std::env::var("FERROWARP_RING_MESSAGES") {
        Ok(text) => text.parse().expect("FERROWARP_RING_MESSAGES is not a number"),
        Err(_) if gpu.backend() == Backend::Emulator => 10_000,
        Err(_) => 1_000_000,
    }
}

/// The bridges that the device has, and how many messages are many for each: on the emulator each copy
/// from pinned memory takes a millisecond, to see whether the host spoils it.
pub fn bridges(gpu: &Gpu) -> Vec<(Bridge, u32)> {
    let many = many(gpu);
    let few = if gpu.backend() == Backend::Emulator { many.min(200) } else { many };
    let mut bridges = vec![(Bridge::Mapped, many), (Bridge::Copied, few)];
    if gpu.info().concurrent_managed_access {
        bridges.push((Bridge::Unified, many));
    }
    bridges
}

/// Sends `message(0)`, `message(1)`, …, in runs of changing length, while another thread receives as
/// many. Returns what came back.
pub fn exchange<T: Pod + Send, U: Pod + Send>(
    sender: &Sender<T>,
    receiver: &Receiver<U>,
    count: u32,
    message: impl Fn(u32) -> T + Sync,
) -> GpuResult<Vec<U>> {
    thread::scope(|scope| {
        let sending = scope.spawn(|| {
            let mut sent = 0;
            while sent < count {
                let run = (sent % 97 + 1).min(count - sent);
                let messages: Vec<T> = (sent..sent + run).map(&message).collect();
                sender.send_all(&messages)?;
                sent += run;
            }
            Ok(())
        });
        let mut received = Vec::with_capacity(count as usize);
        while received.len() < count as usize {
            received.push(receiver.recv()?.expect("the kernel ended too early"));
        }
        sending.join().expect("no panic").map(|()| received)
    })
}
