//! What goes wrong with the host's memory: drivers that refuse, promises that are broken. Each in a
//! process of its own, on the emulator.

use std::sync::Arc;

use cuda_std::launch::{DeviceWrite, LaunchConfig, RawSlice};
use ferrowarp::memory::{PinnedSource, STAGED_FROM_BYTES};
use ferrowarp::{
    DeviceBuffer, GpuResult, HostSliceMut, Linear, PinnedBuffer, RegisteredVec, Transfer,
    WriteCombined,
};

use crate::child::{child, lines};
use crate::gate::Gate;
use crate::kernels::{FILL, WILD, churn, gpu, launch};

const LARGE: usize = STAGED_FROM_BYTES / 4 + 99;
const LEN: usize = 256;

const CALLS: [&str; 13] = [
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemHostRegister_v2",
    "cuMemHostUnregister",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpy2DAsync_v2",
    "cuMemsetD32Async",
    "cuPointerGetAttributes",
    "cuEventSynchronize",
    "cuEventQuery",
    "cuStreamSynchronize",
];

/// Codes that are told and forgotten, that end the device, and that nobody expects.
#[test]
fn each_call_may_refuse_and_nothing_panics_or_hangs() {
    for call in CALLS {
        for code in [801, 700, 999] {
            let fail = format!("{call}:{code}");
            let variables = [
                ("FERROWARP_DEVICE", "emulator"),
                ("FERROWARP_CHECK", "memory"),
                ("FERROWARP_EMULATOR_FAIL", fail.as_str()),
            ];
            let told = lines(&child("host_memory_faults::use_everything", &variables), "errors: ");
            let count: u32 = told[0].parse().unwrap();
            // What a drop alone calls has nobody to tell, and a question may stay without an answer.
            let silent = ["cuMemFreeHost", "cuPointerGetAttributes"].contains(&call);
            assert!(count > 0 || silent, "{fail}: no error");
        }
    }
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn use_everything() {
    let parts: [fn() -> GpuResult<()>; 6] = [pinned, registered, lent, large, rows, ways];
    let errors = parts.into_iter().filter_map(|part| part().err());
    println!("errors: {}", errors.count());
}

fn pinned() -> GpuResult<()> {
    let mut device = DeviceBuffer::<u32>::zeroed(gpu(), LEN)?;
    let there = PinnedBuffer::from_slice(gpu(), &[1; LEN])?;
    let there = device.copy_from_pinned_async(gpu(), there)?;
    let back = device.copy_to_pinned_async(gpu(), PinnedBuffer::zeroed(gpu(), LEN)?)?;
    let done = there.is_done();
    drop(back);
    there.wait()?;
    let frame = device.copy_from_pinned_async(gpu(), WriteCombined::zeroed(gpu(), LEN)?);
    done.and(frame?.wait().map(drop))
}

fn registered() -> GpuResult<()> {
    let mut device = DeviceBuffer::<u32>::zeroed(gpu(), LEN)?;
    let values = RegisteredVec::new(gpu(), vec![3; LEN])?;
    device.copy_from_pinned_async(gpu(), values)?.wait()?.into_vec()?;
    device.fill(8)
}

fn lent() -> GpuResult<()> {
    let mut device = DeviceBuffer::<u32>::zeroed(gpu(), LEN)?;
    let (mut there, mut back) = (vec![1; LEN], vec![0; LEN]);
    gpu().host_scope(|scope| {
        scope.upload(gpu(), scope.register(&mut there)?, &mut device)?;
        scope.download(gpu(), &device, &mut back)
    })?;
    gpu().host_scope(|scope| churn(gpu(), &mut scope.host_slice_mut(gpu(), &mut back)?, 2))
}

fn large() -> GpuResult<()> {
    DeviceBuffer::from_slice(gpu(), &vec![5u32; LARGE])?.to_vec().map(drop)
}

fn rows() -> GpuResult<()> {
    let mut device = DeviceBuffer::<u32>::zeroed(gpu(), LEN)?;
    device.pitched_mut(3, 4, 8)?.copy_from_host(&[1; 12], 3)?;
    device.pitched(3, 4, 8)?.copy_to_host(&mut [0; 12], 3)
}

fn ways() -> GpuResult<()> {
    let mut device = DeviceBuffer::<u32>::zeroed(gpu(), LEN)?;
    let mut back = [0; LEN];
    let mut moved = Vec::new();
    for way in Transfer::ALL {
        moved.push(way.upload(gpu(), &[1; LEN], &mut device).map(drop));
        moved.push(way.download(gpu(), &device, &mut back).map(drop));
    }
    moved.into_iter().collect()
}

/// Page-locked memory that is written while a copy reads it: the promise of `PinnedSource`, broken.
struct Cheat(Arc<PinnedBuffer<u32>>);

// SAFETY: none: the test writes the memory during the copy. The emulator's memory takes no harm.
unsafe impl PinnedSource<u32> for Cheat {
    fn source(&self) -> *const [u32] {
        self.0.source()
    }
}

#[test]
fn a_host_that_writes_during_a_copy_is_told() {
    let emulator = [("FERROWARP_DEVICE", "emulator"), ("FERROWARP_CHECK", "all")];
    let told = lines(&child("host_memory_faults::write_during_a_copy", &emulator), "told: ");
    assert!(told[0].contains("the host wrote to pinned memory"), "{told:?}");
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn write_during_a_copy() {
    let stream = gpu().create_stream().unwrap();
    let mut device = DeviceBuffer::<u32>::zeroed(gpu(), LEN).unwrap();
    let memory = Arc::new(PinnedBuffer::from_slice(gpu(), &[1; LEN]).unwrap());
    // Where this thread is held up after the call, the copy is over before it writes.
    for word in 2..1000 {
        gpu().synchronize().unwrap();
        let pending = device.copy_from_pinned_async(&stream, Cheat(memory.clone())).unwrap();
        // SAFETY: the emulator reads the word by atomic accesses; no reference to it is in use.
        unsafe { memory.source().cast::<u32>().cast_mut().write_volatile(word) };
        if let Err(error) = pending.wait() {
            return println!("told: {error}");
        }
    }
    panic!("nobody noticed");
}

/// A kernel is given more than was lent.
struct Longer<'a>(HostSliceMut<'a, u32>);

// SAFETY: none: it says more than there is, which the emulator finds before it is touched.
unsafe impl DeviceWrite<u32> for Longer<'_> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        let raw = self.0.raw_mut();
        RawSlice { len: raw.len + 1, ..raw }
    }

    fn len(&self) -> usize {
        DeviceWrite::len(&self.0) + 1
    }
}

#[test]
fn a_kernel_that_leaves_lent_memory_is_told() {
    let emulator = [("FERROWARP_DEVICE", "emulator"), ("FERROWARP_CHECK", "all")];
    let told = lines(&child("host_memory_faults::leave_lent_memory", &emulator), "told: ");
    for words in ["`fill`", "store of 4 bytes", "thread (16,0,0)"] {
        assert!(told[0].contains(words), "{words} in {told:?}");
    }
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn leave_lent_memory() {
    let mut values = vec![0u32; 64];
    let error = gpu().host_scope(|scope| {
        let mut part = Longer(scope.host_slice_mut(gpu(), &mut values[..16])?);
        launch(gpu(), &FILL, LaunchConfig::for_num_elems(17), &mut part, 7)
    });
    println!("told: {}", error.unwrap_err());
}

/// A copy that waits for a fault gives nothing back, and its memory is not freed too early.
#[test]
fn a_fault_before_a_copy_is_its_error() {
    let told = lines(&child("host_memory_faults::copy_behind_a_fault", &[]), "told: ");
    assert_eq!(told, ["700", "700", "700"]);
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn copy_behind_a_fault() {
    let stream = gpu().create_stream().unwrap();
    let mut words = DeviceBuffer::<u32>::zeroed(&stream, 4).unwrap();
    let mut other = PinnedBuffer::<u32>::zeroed(gpu(), 4).unwrap();
    let pinned = PinnedBuffer::zeroed(gpu(), 4).unwrap();
    let gate = Gate::on(&stream);
    launch(&stream, &WILD, Linear::new(3, 1), &mut words, 1).unwrap();
    let pending = words.copy_to_pinned_async(&stream, pinned).unwrap();
    let lent = gpu().host_scope(|scope| {
        scope.download(&stream, &words, &mut other)?;
        gate.open();
        Ok(())
    });
    for error in [lent.unwrap_err(), pending.wait().unwrap_err(), words.to_vec().unwrap_err()] {
        println!("told: {}", error.driver().expect("a driver error").code());
    }
}
