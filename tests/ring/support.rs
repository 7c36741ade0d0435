//! What these tests share.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use bytemuck::Pod;
use cuda_std::launch::{DeviceWrite, LaunchConfig, RawSlice};
use ferrowarp::{Backend, Bridge, DeviceBuffer, Gpu, GpuError, GpuResult, Receiver, Sender};
use kernels_gpu::elementwise::vecadd;

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

/// One element more than there is: further ones may be in the memory of the ring, and would close it.
const OVERSTATED: usize = 65;

/// A buffer that says it is longer than it is.
struct Overstated<'a>(&'a mut DeviceBuffer<f32>);

// SAFETY: deliberately false, on the emulator, which catches what comes of it.
unsafe impl DeviceWrite<f32> for Overstated<'_> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        RawSlice { len: OVERSTATED, ..self.0.raw_mut() }
    }

    fn len(&self) -> usize {
        OVERSTATED
    }
}

/// Ends the device by a kernel that writes past its memory, beside what runs. On the emulator.
pub fn overrun(gpu: &Gpu) {
    let x = DeviceBuffer::from_slice(gpu, &[1.0; OVERSTATED]).unwrap();
    let mut short = DeviceBuffer::zeroed(gpu, OVERSTATED - 1).unwrap();
    let other = gpu.create_stream().unwrap();
    let config = LaunchConfig::for_num_elems(OVERSTATED);
    let launched = vecadd::launch(&other, config, &x, &x, &mut Overstated(&mut short));
    // The kernel may have ended the device before the launch has returned.
    let is_lost = |error: &GpuError| matches!(error.root(), GpuError::DeviceLost { .. });
    assert!(launched.as_ref().err().is_none_or(is_lost), "{launched:?}");
    let _ = other.synchronize();
}
