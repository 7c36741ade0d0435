//! Memory and streams that other code has made: here by the driver's functions.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cuda_driver::sys;
use ferrowarp::{DeviceBuffer, GpuResult, LentBuffer, Stream};

use crate::gate::Gate;
use crate::kernels::{churn, churned, gpu};

pub const LEN: usize = 256;

/// Memory of other code, which frees it, and notes that.
pub struct Owner {
    pub address: u64,
    is_freed: Arc<AtomicBool>,
}

impl Owner {
    /// `LEN` words, each 3.
    pub fn new() -> Self {
        // A context is current on this thread.
        gpu().synchronize().unwrap();
        let mut address = 0;
        // SAFETY: the place is writable, and the memory is as long as what is written.
        let codes = unsafe {
            [
                sys::cuMemAllocAsync(&mut address, 4 * LEN, ptr::null_mut()),
                sys::cuMemsetD32_v2(address, 3, LEN),
                // No stream of this crate waits for the default stream's work.
                sys::cuCtxSynchronize(),
            ]
        };
        assert_eq!(codes, [sys::CUresult::CUDA_SUCCESS; 3]);
        Self { address, is_freed: Arc::default() }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Without a wait: any thread may drop this, also one that holds work up which `cuMemFree` would wait for.
        // SAFETY: the memory was allocated by `new`, and who dropped this has ended its uses.
        let code = unsafe { sys::cuMemFreeAsync(self.address, ptr::null_mut()) };
        assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
        let before = self.is_freed.swap(true, Ordering::Release);
        assert!(!before, "it is freed once");
    }
}

/// Whether it becomes true soon, while this thread calls the driver.
pub fn becomes(flag: &AtomicBool) -> bool {
    let end = Instant::now() + Duration::from_secs(60);
    while !flag.load(Ordering::Acquire) && Instant::now() < end {
        gpu().memory_info().unwrap();
    }
    flag.load(Ordering::Acquire)
}

#[test]
fn memory_of_other_code_is_a_buffer_and_goes_back_when_its_uses_are_over() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    // What a first launch loads is loaded.
    churn(&stream, &mut DeviceBuffer::<u32>::zeroed(&stream, 1)?, 1)?;
    let owner = Owner::new();
    let (address, is_freed) = (owner.address, owner.is_freed.clone());
    // SAFETY: the owner has the words, which are written.
    let mut words = unsafe { DeviceBuffer::<u32>::from_raw_parts(&stream, address, LEN, owner) }?;
    assert_eq!((words.as_device_ptr().address(), words.len()), (address, LEN));
    churn(&stream, &mut words, 4)?;
    assert_eq!(words.to_vec()?, [churned(3, 4); LEN]);
    let gate = Gate::on(&stream);
    churn(&stream, &mut words, 4)?;
    drop(words);
    gpu().memory_info()?;
    assert!(!is_freed.load(Ordering::Acquire), "it is still used");
    gate.open();
    stream.synchronize()?;
    assert!(becomes(&is_freed));
    Ok(())
}

/// What frees the memory is not called in a capture, which does not take that.
#[test]
fn an_owner_waits_for_the_end_of_a_capture() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let owner = Owner::new();
    let (address, is_freed) = (owner.address, owner.is_freed.clone());
    // SAFETY: the owner has the words, which are written.
    let mut words = unsafe { DeviceBuffer::<u32>::from_raw_parts(&stream, address, LEN, owner) }?;
    let captured = gpu().create_stream()?;
    let mut own = DeviceBuffer::from_slice(&captured, &[3u32; LEN])?;
    churn(&stream, &mut words, 1)?;
    let gate = Gate::on(&stream);
    churn(&stream, &mut words, 1)?;
    let builder = captured.capture(|stream| {
        drop(words);
        churn(stream, &mut own, 2)
    })?;
    gpu().memory_info()?;
    assert!(!is_freed.load(Ordering::Acquire), "it is still used");
    gate.open();
    let stream = captured;
    let mut graph = builder.build(own)?;
    graph.launch(&stream)?;
    assert_eq!(graph.wait()?.to_vec()?, [churned(3, 2); LEN]);
    assert!(becomes(&is_freed));
    Ok(())
}

#[test]
fn an_address_that_no_buffer_can_have_is_refused_and_its_owner_dropped() -> GpuResult<()> {
    for offset in [4, 128] {
        let owner = Owner::new();
        let (address, is_freed) = (owner.address + offset, owner.is_freed.clone());
        // SAFETY: the owner has the words.
        let refused = unsafe { DeviceBuffer::<u32>::from_raw_parts(gpu(), address, 8, owner) };
        let error = refused.unwrap_err().to_string();
        assert!(error.contains("a multiple of 256 bytes"), "{error}");
        assert!(becomes(&is_freed));
    }
    // SAFETY: no elements are anywhere.
    let none = unsafe { DeviceBuffer::<u32>::from_raw_parts(gpu(), 0, 0, ()) }?;
    assert!(none.is_empty() && none.to_vec()?.is_empty());
    // SAFETY: it is refused.
    assert!(unsafe { DeviceBuffer::<u32>::from_raw_parts(gpu(), 0, 1, ()) }.is_err());
    Ok(())
}

/// A stream of other code.
pub struct Raw(pub sys::CUstream);

impl Raw {
    pub fn new() -> Self {
        gpu().synchronize().unwrap();
        let mut stream = ptr::null_mut();
        // SAFETY: the place is writable.
        let code = unsafe { sys::cuStreamCreate(&mut stream, 1) };
        assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
        Self(stream)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        // SAFETY: nothing else has it.
        let code = unsafe { sys::cuStreamDestroy_v2(self.0) };
        assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
    }
}

#[test]
fn streams_of_other_code_wait_and_are_waited_for() -> GpuResult<()> {
    let [before, after]: [Stream; 2] = [gpu().create_stream()?, gpu().create_stream()?];
    let (raw, owner) = (Raw::new(), Owner::new());
    let address = owner.address;
    // SAFETY: the owner has the words, which are written.
    let words = unsafe { DeviceBuffer::<u32>::from_raw_parts(&after, address, LEN, owner) }?;
    let gate = Gate::on(&before);
    // SAFETY: the stream lives.
    unsafe {
        before.raw_waits(raw.0.cast())?;
        assert_eq!(sys::cuMemsetD32Async(address, 7, LEN, raw.0), sys::CUresult::CUDA_SUCCESS);
        after.wait_for_raw(raw.0.cast())?;
    }
    assert!(!after.is_idle()?);
    gate.open();
    assert_eq!(words.to_vec()?, [7; LEN]);
    Ok(())
}

/// Ends a stream of other code, and notes that.
struct StreamOwner {
    raw: Raw,
    is_destroyed: Arc<AtomicBool>,
}

// SAFETY: the driver's functions for streams may be called from any thread.
unsafe impl Send for StreamOwner {}
// SAFETY: nothing is done through a shared reference.
unsafe impl Sync for StreamOwner {}

impl Drop for StreamOwner {
    fn drop(&mut self) {
        self.is_destroyed.store(true, Ordering::Release);
    }
}

#[test]
fn a_stream_of_other_code_is_a_stream_and_ends_with_what_was_made_on_it() -> GpuResult<()> {
    let owner = StreamOwner { raw: Raw::new(), is_destroyed: Arc::default() };
    let (raw, is_destroyed) = (owner.raw.0, owner.is_destroyed.clone());
    // SAFETY: the stream lives as long as its owner.
    let stream = unsafe { Stream::from_raw(gpu(), raw.cast(), owner)? };
    let mut words = DeviceBuffer::<u32>::zeroed_async(&stream, LEN)?;
    let address = words.as_device_ptr().address();
    // One order with the other code's work.
    let gate = Gate::on(&stream);
    // SAFETY: stream and words live, and the kernel comes after.
    let code = unsafe { sys::cuMemsetD32Async(address, 3, LEN, raw) };
    assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
    churn(&stream, &mut words, 4)?;
    assert!(!stream.is_idle()?);
    gate.open();
    assert_eq!(words.to_vec()?, [churned(3, 4); LEN]);
    drop(stream);
    assert!(!is_destroyed.load(Ordering::Acquire), "the words have it");
    drop(words);
    assert!(becomes(&is_destroyed));
    Ok(())
}

#[test]
fn the_default_stream_is_one_of_other_code() -> GpuResult<()> {
    // SAFETY: the default stream lives as long as the context.
    let stream = unsafe { Stream::from_raw(gpu(), ptr::null_mut(), ())? };
    let mut words = DeviceBuffer::from_slice(&stream, &[3u32; LEN])?;
    churn(&stream, &mut words, 2)?;
    assert_eq!(words.to_vec()?, [churned(3, 2); LEN]);
    Ok(())
}

/// Wherever the elements begin, and whoever has them afterwards.
#[test]
fn memory_is_lent_from_any_element_on_and_stays_its_owners() -> GpuResult<()> {
    let owner = Owner::new();
    let (address, is_freed) = (owner.address, owner.is_freed.clone());
    let stream = gpu().create_stream()?;
    for (first, len) in [(0, LEN), (1, LEN - 1), (3, 64), (LEN - 1, 1)] {
        // SAFETY: the owner has the words, and the stream is waited for below.
        let mut words =
            unsafe { LentBuffer::<u32>::new(&stream, address + 4 * first as u64, len)? };
        assert_eq!((words.len(), words.is_empty()), (len, false));
        let before = words.as_slice().to_vec()?;
        churn(&stream, &mut words, 2)?;
        let after: Vec<_> = before.iter().map(|&word| churned(word, 2)).collect();
        assert_eq!(words.as_slice().to_vec()?, after);
        words.as_mut_slice().fill(3)?;
    }
    stream.synchronize()?;
    assert!(!is_freed.load(Ordering::Acquire));
    // SAFETY: the owner has the words.
    let all = unsafe { DeviceBuffer::<u32>::from_raw_parts(&stream, address, LEN, owner)? };
    assert_eq!(all.to_vec()?, [3; LEN]);
    drop(all);
    assert!(becomes(&is_freed));
    Ok(())
}

#[test]
fn an_address_that_no_element_can_have_is_not_lent() -> GpuResult<()> {
    for (address, len, words) in [
        (0, 1, "begins at 0x0"),
        (258, 1, "multiple of 4 bytes"),
        (256, usize::MAX / 2, "more than can be addressed"),
        (u64::MAX - 3, 2, "more than can be addressed"),
    ] {
        // SAFETY: it is refused.
        let refused = unsafe { LentBuffer::<u32>::new(gpu(), address, len) };
        let error = refused.unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    // SAFETY: no elements are anywhere.
    let none = unsafe { LentBuffer::<u32>::new(gpu(), 3, 0)? };
    assert!(none.is_empty() && none.as_slice().to_vec()?.is_empty());
    Ok(())
}
