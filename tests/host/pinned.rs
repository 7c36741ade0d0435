//! Page-locked memory, and copies that do not wait.

use std::mem;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::thread;

use ferrowarp::{
    AsStream, DeviceBuffer, GpuError, GpuResult, PendingCopy, PinnedBox, PinnedBuffer,
    PinnedOptions, PinnedRange, RegisteredVec, WriteCombined, WriteSlice,
};

use crate::gate::Gate;
use crate::kernels::{churn, churned, gpu};

const LEN: usize = 512;
/// Enough that a kernel still runs when the host queues what comes next.
const ROUNDS: u32 = 20_000;

fn counted(len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect()
}

#[test]
fn values_go_and_come_back_through_pinned_memory() -> GpuResult<()> {
    for len in [0, 1, 31, 257, 65_537] {
        let values = counted(len);
        let pinned = PinnedBuffer::from_slice(gpu(), &values)?;
        assert_eq!((pinned.len(), &pinned[..]), (len, &values[..]));
        let mut device = DeviceBuffer::zeroed(gpu(), len)?;
        let mut pinned = device.copy_from_pinned_async(gpu(), pinned)?.wait()?;
        pinned.fill(7);
        let pinned = device.copy_to_pinned_async(gpu(), pinned)?.wait()?;
        assert_eq!(pinned[..], values);
    }
    Ok(())
}

#[test]
fn pinned_memory_is_zeroed_aligned_and_plain() -> GpuResult<()> {
    /// `CU_MEMHOSTALLOC_PORTABLE`
    const PORTABLE: u32 = 1;
    /// 4 MiB: NVIDIA's driver makes smaller allocations parts of earlier blocks, and answers with the flags of the block.
    const LEN: usize = 1 << 19;
    for is_portable in [false, true] {
        let options = PinnedOptions::new().portable(is_portable);
        let mut buffer: PinnedBuffer<u64> = options.buffer(gpu(), LEN)?;
        let (mut flags, start) = (0, buffer.as_mut_ptr().cast());
        // SAFETY: page-locked memory that the driver gave, and a place for its flags.
        let code = unsafe { cuda_driver::sys::cuMemHostGetFlags(&mut flags, start) };
        assert_eq!(code.code(), 0);
        assert_eq!(flags & PORTABLE != 0, is_portable);
        assert!(buffer.iter().all(|&word| word == 0));
        assert_eq!(buffer.as_ptr().addr() % 256, 0);
        buffer[LEN - 1] = 5;
        buffer[..2].copy_from_slice(&[8, 9]);
        assert_eq!((buffer[0], buffer[1], buffer[LEN - 1], buffer.len()), (8, 9, 5, LEN));
    }
    fn shared<T: Send + Sync>() {}
    shared::<PinnedBuffer<f32>>();
    shared::<WriteCombined<f32>>();
    shared::<PendingCopy<PinnedBuffer<f32>>>();
    shared::<RegisteredVec<f32>>();
    fn sent<T: Send>() {}
    sent::<WriteSlice<'_, f32>>();
    Ok(())
}

#[test]
fn one_value_is_pinned_too() -> GpuResult<()> {
    let mut value = PinnedBox::new(gpu(), &[1.5f32, 2.5])?;
    value[1] = 4.0;
    let mut device = DeviceBuffer::zeroed(gpu(), 1)?;
    let value = device.copy_from_pinned_async(gpu(), value)?.wait()?;
    assert_eq!((*value, device.to_vec()?), ([1.5, 4.0], vec![[1.5, 4.0]]));
    Ok(())
}

/// The copy stands behind a gate, so its call has returned before it began.
#[test]
fn a_copy_does_not_wait_and_its_buffer_comes_back_when_it_is_done() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut device = DeviceBuffer::from_slice(gpu(), &[1u32; LEN])?;
    let pinned = PinnedBuffer::from_slice(gpu(), &counted(LEN))?;
    let gate = Gate::on(&stream);
    let pending = device.copy_from_pinned_async(&stream, pinned)?;
    assert!(!pending.is_done()?);
    gate.open();
    let pinned = pending.wait()?;
    assert_eq!(pinned[..], counted(LEN));
    assert_eq!(device.to_vec()?, counted(LEN));
    Ok(())
}

#[test]
fn copies_are_in_order_with_kernels_on_other_streams() -> GpuResult<()> {
    let (a, b, c) = (gpu().create_stream()?, gpu().create_stream()?, gpu().create_stream()?);
    for i in 0..6 {
        let mut device = DeviceBuffer::<u32>::zeroed(&a, LEN)?;
        let source = PinnedBuffer::from_slice(gpu(), &[i; LEN])?;
        let up = device.copy_from_pinned_async(&b, source)?;
        churn(&c, &mut device, ROUNDS)?;
        let down = device.copy_to_pinned_async(&b, PinnedBuffer::zeroed(gpu(), LEN)?)?;
        // This must overtake neither.
        churn(&a, &mut device, 3)?;
        assert_eq!(down.wait()?[..], [churned(i, ROUNDS); LEN]);
        assert_eq!(up.wait()?[..], [i; LEN]);
        assert_eq!(device.to_vec()?, [churned(i, ROUNDS + 3); LEN]);
    }
    Ok(())
}

/// What is dropped waits; what comes next may get the same pages.
#[test]
fn a_copy_that_is_dropped_under_way_spoils_nothing() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    for _ in 0..8 {
        let mut device = DeviceBuffer::<u32>::zeroed(gpu(), LEN)?;
        let pinned = PinnedBuffer::from_slice(gpu(), &counted(LEN))?;
        churn(&stream, &mut device, ROUNDS)?;
        drop(device.copy_from_pinned_async(&stream, pinned)?);
        let mut next = PinnedBuffer::<u32>::zeroed(gpu(), LEN)?;
        next.fill(9);
        assert_eq!(device.to_vec()?, counted(LEN));
        drop(device.copy_to_pinned_async(&stream, PinnedBuffer::zeroed(gpu(), LEN)?)?);
        assert_eq!(next[..], [9; LEN]);
    }
    Ok(())
}

#[test]
fn a_copy_that_is_forgotten_keeps_its_memory() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut device = DeviceBuffer::<u32>::zeroed(gpu(), LEN)?;
    let pinned = PinnedBuffer::from_slice(gpu(), &counted(LEN))?;
    let target = PinnedBuffer::<u32>::zeroed(gpu(), LEN)?;
    let gate = Gate::on(&stream);
    mem::forget(device.copy_from_pinned_async(&stream, pinned)?);
    mem::forget(device.copy_to_pinned_async(&stream, target)?);
    gate.open();
    let mut next = PinnedBuffer::<u32>::zeroed(gpu(), LEN)?;
    next.fill(9);
    assert_eq!(device.to_vec()?, counted(LEN));
    assert_eq!(next[..], [9; LEN]);
    Ok(())
}

#[test]
fn several_copies_share_one_source() -> GpuResult<()> {
    let source = Arc::new(PinnedBuffer::from_slice(gpu(), &counted(LEN))?);
    let streams = [gpu().create_stream()?, gpu().create_stream()?];
    let mut devices = [DeviceBuffer::zeroed(gpu(), LEN)?, DeviceBuffer::zeroed(gpu(), LEN)?];
    let mut pending = Vec::new();
    for (device, stream) in devices.iter_mut().zip(&streams) {
        pending.push(device.copy_from_pinned_async(stream, source.clone())?);
    }
    pending.into_iter().try_for_each(|copy| copy.wait().map(drop))?;
    for device in &devices {
        assert_eq!(device.to_vec()?, counted(LEN));
    }
    assert_eq!(Arc::strong_count(&source), 1);
    Ok(())
}

#[test]
fn parts_on_both_sides() -> GpuResult<()> {
    let mut device = DeviceBuffer::from_slice(gpu(), &[0u32; 8])?;
    let pinned = PinnedBuffer::from_slice(gpu(), &[1, 2, 3, 4, 5])?;
    let pending =
        device.slice_mut(2..4).copy_from_pinned_async(gpu(), PinnedRange::of(pinned, 3..))?;
    let pinned = pending.wait()?.into_whole();
    assert_eq!(device.to_vec()?, [0, 0, 4, 5, 0, 0, 0, 0]);
    let part = PinnedRange::of(pinned, ..=1);
    let pinned = device.slice(1..3).copy_to_pinned_async(gpu(), part)?.wait()?.into_whole();
    assert_eq!(pinned[..], [0, 4, 3, 4, 5]);
    Ok(())
}

#[test]
#[should_panic(expected = "3..9 is not inside 5 elements")]
fn a_part_that_is_not_inside_panics() {
    let mut device = DeviceBuffer::<u32>::zeroed(gpu(), 6).unwrap();
    let pinned = PinnedBuffer::zeroed(gpu(), 5).unwrap();
    let _ = device.copy_from_pinned_async(gpu(), PinnedRange::of(pinned, 3..9));
}

#[test]
fn lengths_that_differ_are_an_error_and_change_nothing() -> GpuResult<()> {
    let mut device = DeviceBuffer::from_slice(gpu(), &[1u32, 2, 3])?;
    let pinned = |len| PinnedBuffer::<u32>::zeroed(gpu(), len);
    for (result, wrong) in [
        (device.copy_from_pinned_async(gpu(), pinned(4)?), 4),
        (device.copy_to_pinned_async(gpu(), pinned(2)?), 2),
    ] {
        let Err(GpuError::SizeMismatch { expected: 3, found, .. }) = result else {
            panic!("{result:?}")
        };
        assert_eq!(found, wrong);
    }
    assert_eq!(device.to_vec()?, [1, 2, 3]);
    Ok(())
}

#[test]
fn write_combined_memory_is_written_in_parts_and_by_threads() -> GpuResult<()> {
    let mut frame = WriteCombined::<u32>::zeroed(gpu(), LEN)?;
    frame.write(..3).copy_from_slice(&[1, 2, 3]);
    frame.write(3..5).fill(4);
    let (mut low, mut high) = frame.write(5..).split_at_mut(10);
    assert_eq!((low.len(), high.len()), (10, LEN - 15));
    thread::scope(|scope| {
        scope.spawn(|| low.fill(5));
        scope.spawn(|| (0..high.len()).for_each(|i| high.set(i, i as u32)));
    });
    let mut expected = vec![1, 2, 3, 4, 4];
    expected.extend([5; 10].into_iter().chain(0..LEN as u32 - 15));
    let mut device = DeviceBuffer::zeroed(gpu(), LEN)?;
    let frame = device.copy_from_pinned_async(gpu(), frame)?.wait()?;
    assert_eq!(device.to_vec()?, expected);
    assert_eq!((frame.len(), frame.is_empty()), (LEN, false));
    Ok(())
}

#[test]
#[should_panic(expected = "5 is not inside 5 elements")]
fn write_combined_memory_ends_where_it_ends() {
    WriteCombined::<u32>::zeroed(gpu(), 5).unwrap().write(..).set(5, 1);
}

#[test]
fn a_vector_is_registered_where_it_is() -> GpuResult<()> {
    let values = counted(LEN);
    let address = values.as_ptr();
    let registered = RegisteredVec::new(gpu(), values)?;
    assert_eq!(registered.as_ptr(), address);
    let mut device = DeviceBuffer::zeroed(gpu(), LEN)?;
    let mut registered = device.copy_from_pinned_async(gpu(), registered)?.wait()?;
    registered.fill(0);
    let registered = device.copy_to_pinned_async(gpu(), registered)?.wait()?;
    let values = registered.into_vec()?;
    assert_eq!((values.as_ptr(), &values), (address, &counted(LEN)));
    // It can be registered again.
    drop(RegisteredVec::new(gpu(), values)?);
    Ok(())
}

#[test]
fn no_bytes_call_no_driver() -> GpuResult<()> {
    let empty = PinnedBuffer::<u32>::zeroed(gpu(), 0)?;
    let mut device = DeviceBuffer::zeroed(gpu(), 0)?;
    let pending = device.copy_from_pinned_async(gpu(), empty)?;
    assert!(pending.is_done()? && pending.event().is_none());
    assert!(pending.wait()?.is_empty());
    let units = PinnedBuffer::from_slice(gpu(), &[(); 3])?;
    let mut device = DeviceBuffer::from_slice(gpu(), &[(); 3])?;
    assert_eq!(device.copy_from_pinned_async(gpu(), units)?.wait()?[..], [(); 3]);
    assert!(WriteCombined::<u8>::zeroed(gpu(), 0)?.is_empty());
    assert!(RegisteredVec::new(gpu(), Vec::<u32>::new())?.into_vec()?.is_empty());
    assert_eq!(*PinnedBox::new(gpu(), &())?, ());
    Ok(())
}

#[test]
fn more_than_can_be_counted_is_an_error() {
    for len in [usize::MAX, usize::MAX / 8 + 1, isize::MAX as usize / 8 + 1] {
        let error = PinnedBuffer::<u64>::zeroed(gpu(), len).unwrap_err();
        assert!(matches!(error, GpuError::SizeMismatch { .. }), "{error}");
    }
}

/// Memory outlives the Gpu that page-locked it.
#[test]
fn pinned_memory_keeps_its_device() -> GpuResult<()> {
    let own = ferrowarp::Gpu::new()?;
    let mut device = DeviceBuffer::<u32>::zeroed(&own, LEN)?;
    let pending =
        device.copy_from_pinned_async(&own, PinnedBuffer::from_slice(&own, &counted(LEN))?)?;
    let streams = own.as_stream().clone();
    drop((own, streams));
    assert_eq!(pending.wait()?[..], counted(LEN));
    assert_eq!(device.to_vec()?, counted(LEN));
    Ok(())
}

#[test]
fn a_copy_is_awaited() -> GpuResult<()> {
    let values = counted(LEN);
    let stream = gpu().create_stream()?;
    let mut device = DeviceBuffer::zeroed(gpu(), LEN)?;
    let pinned = PinnedBuffer::from_slice(gpu(), &values)?;
    pollster::block_on(async {
        let gate = Gate::on(&stream);
        let up = device.copy_from_pinned_async(&stream, pinned)?;
        let mut up = Box::pin(up.into_future());
        let mut task = Context::from_waker(Waker::noop());
        assert!(up.as_mut().poll(&mut task).is_pending());
        gate.open();
        let pinned = up.await?;
        churn(gpu(), &mut device, 10)?;
        let stepped = device.copy_to_pinned_async(&stream, pinned)?.await?;
        assert!(stepped.iter().zip(&values).all(|(found, value)| *found == churned(*value, 10)));
        let empty = DeviceBuffer::<u32>::zeroed(gpu(), 0)?;
        let nothing = PinnedBuffer::<u32>::zeroed(gpu(), 0)?;
        assert!(empty.copy_to_pinned_async(&stream, nothing)?.await?.is_empty());
        Ok(())
    })
}
