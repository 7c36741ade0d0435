//! Unified memory: where it is, what the driver is told of it, and that the host waits for kernels.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ferrowarp::memory::MemoryAdvice as Advice;
use ferrowarp::memory::MemoryLocation::{Device, Host};
use ferrowarp::{DeviceBuffer, GpuError, GpuResult, UnifiedBox, UnifiedBuffer};

use crate::gate::Gate;
use crate::kernels::{add, churn, churned, fill, gpu};

const LEN: usize = 50_000;

#[test]
fn a_box_of_zeros_is_indexed_after_one_wait() -> GpuResult<()> {
    let mut data = UnifiedBox::<[u32; 256]>::zeroed(gpu())?;
    assert_eq!(data.get()?, &[0; 256]);
    let lent = data.get_mut()?;
    lent[255] = 7;
    lent.iter_mut().for_each(|x| *x += 1);
    assert_eq!((data.get()?[0], data.get()?[255]), (1, 8));
    Ok(())
}

#[test]
fn prefetched_memory_is_the_same_memory() -> GpuResult<()> {
    let here = Device(gpu().info().ordinal);
    let one = UnifiedBox::new(gpu(), &1)?;
    one.prefetch(here)?;
    let mut source = UnifiedBuffer::from_slice(gpu(), &vec![3; LEN])?;
    let mut target = UnifiedBuffer::zeroed(gpu(), LEN)?;
    for round in 0..4 {
        source.prefetch(here)?;
        target.prefetch_range(..LEN / 2, here)?;
        add(gpu(), &one, &source, &mut target)?;
        target.prefetch(Host)?;
        assert_eq!(target.as_slice()?, vec![4 + round; LEN]);
        source.as_mut_slice()?.fill(4 + round);
    }
    assert_eq!(source.attributes()?.last_prefetch_location, Some(here));
    assert_eq!(target.attributes()?.last_prefetch_location, Some(Host));
    Ok(())
}

#[test]
fn advice_is_kept_and_taken_back() -> GpuResult<()> {
    let here = Device(gpu().info().ordinal);
    let buffer = UnifiedBuffer::from_slice(gpu(), &vec![3u64; LEN])?;
    assert_eq!(buffer.attributes()?, Default::default());
    buffer.advise(Advice::SetReadMostly)?;
    buffer.advise(Advice::SetPreferredLocation(Host))?;
    buffer.advise(Advice::SetAccessedBy(here))?;
    let told = buffer.attributes()?;
    assert_eq!((told.read_mostly, told.preferred_location), (true, Some(Host)));
    assert_eq!((told.accessed_by, told.last_prefetch_location), (vec![here], None));
    buffer.advise(Advice::SetPreferredLocation(here))?;
    buffer.advise(Advice::SetAccessedBy(Host))?;
    let told = buffer.attributes()?;
    assert_eq!((told.preferred_location, told.accessed_by), (Some(here), vec![Host, here]));
    buffer.advise(Advice::UnsetReadMostly)?;
    buffer.advise(Advice::UnsetPreferredLocation)?;
    buffer.advise(Advice::UnsetAccessedBy(here))?;
    buffer.advise(Advice::UnsetAccessedBy(Host))?;
    assert_eq!(buffer.attributes()?, Default::default());
    assert_eq!(buffer.as_slice()?, vec![3; LEN]);
    Ok(())
}

#[test]
fn a_device_that_is_not_there_is_an_error() -> GpuResult<()> {
    let buffer = UnifiedBuffer::<u8>::zeroed(gpu(), 100)?;
    for ordinal in [99, u32::MAX] {
        let error = buffer.prefetch(Device(ordinal)).unwrap_err();
        assert_eq!(error.driver().map(|driver| driver.code()), Some(101), "{error}");
        let error = buffer.advise(Advice::SetPreferredLocation(Device(ordinal))).unwrap_err();
        assert_eq!(error.driver().map(|driver| driver.code()), Some(101), "{error}");
    }
    assert_eq!(buffer.as_slice()?, [0; 100]);
    Ok(())
}

#[test]
fn no_bytes_are_nowhere() -> GpuResult<()> {
    let empty = UnifiedBuffer::<u8>::zeroed(gpu(), 0)?;
    empty.prefetch(Device(99))?;
    empty.advise(Advice::SetReadMostly)?;
    assert_eq!(empty.attributes()?, Default::default());
    UnifiedBuffer::<u8>::zeroed(gpu(), 5)?.prefetch_range(5.., Device(99))
}

/// Lets `queue` put work for `buffer` behind a closed gate, and looks whether `access` comes back before
/// the gate is opened.
fn must_wait(
    queue: impl FnOnce(&ferrowarp::Stream, &mut UnifiedBuffer<u32>) -> GpuResult<()>,
    access: impl FnOnce(&mut UnifiedBuffer<u32>) -> GpuResult<()>,
) -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut buffer = UnifiedBuffer::from_slice(gpu(), &[1; LEN])?;
    // The kernels are loaded now, and not behind the gate.
    churn(&stream, &mut buffer, 1)?;
    fill(&stream, &mut buffer, 1)?;
    gpu().synchronize()?;
    let (gate, opened) = (Gate::on(&stream), AtomicBool::new(false));
    queue(&stream, &mut buffer)?;
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(50));
            opened.store(true, Ordering::Release);
            gate.open();
        });
        access(&mut buffer)?;
        assert!(opened.load(Ordering::Acquire), "the host has not waited for the kernel");
        Ok(())
    })
}

#[test]
fn the_host_waits_for_kernels_on_other_streams() -> GpuResult<()> {
    must_wait(
        |stream, buffer| fill(stream, buffer, 5),
        |buffer| {
            assert_eq!(buffer.as_slice()?, [5; LEN]);
            Ok(())
        },
    )
}

#[test]
fn the_host_waits_for_kernels_on_parts() -> GpuResult<()> {
    must_wait(
        |stream, buffer| {
            let mut all = buffer.as_device_slice_mut();
            churn(stream, &mut all.slice_mut(10..20), 3)
        },
        |buffer| {
            buffer.as_mut_slice()?[0] = 7;
            assert_eq!(buffer.as_slice()?[8..12], [1, 1, churned(1, 3), churned(1, 3)]);
            Ok(())
        },
    )
}

#[test]
fn the_host_waits_for_readers_before_it_writes() -> GpuResult<()> {
    let mut copy = DeviceBuffer::zeroed(gpu(), LEN)?;
    let one = UnifiedBox::new(gpu(), &0)?;
    add(gpu(), &one, &UnifiedBuffer::zeroed(gpu(), LEN)?, &mut copy)?;
    must_wait(
        |stream, buffer| add(stream, &one, buffer, &mut copy),
        |buffer| {
            buffer.as_mut_slice()?.fill(9);
            Ok(())
        },
    )?;
    assert_eq!(copy.to_vec()?, [1; LEN], "the reader saw what the host wrote later");
    Ok(())
}

/// The example of the book's chapter.
#[test]
fn the_chapters_advice() -> GpuResult<()> {
    let (gpu, here) = (gpu(), Device(gpu().info().ordinal));
    let one = UnifiedBox::new(gpu, &1)?;
    let weights = UnifiedBuffer::from_slice(gpu, &[3; 1000])?;
    let mut result = UnifiedBuffer::zeroed(gpu, 1000)?;
    weights.advise(Advice::SetReadMostly)?;
    weights.prefetch(here)?;
    add(gpu, &one, &weights, &mut result)?;
    result.prefetch_range(..100, Host)?;
    assert_eq!(result.as_slice()?[0], 4);
    Ok(())
}

#[test]
fn a_drop_waits_too() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    for round in 0..4 {
        let mut gone = UnifiedBuffer::from_slice(gpu(), &[1; 512])?;
        churn(&stream, &mut gone, 20_000)?;
        drop(gone);
        let next = UnifiedBuffer::from_slice(gpu(), &[round; 512])?;
        stream.synchronize()?;
        assert_eq!(next.as_slice()?, [round; 512]);
    }
    Ok(())
}

#[test]
fn too_much_unified_memory_is_an_error() -> GpuResult<()> {
    let error = UnifiedBuffer::<u8>::zeroed(gpu(), isize::MAX as usize).unwrap_err();
    assert!(matches!(error, GpuError::OutOfMemory { .. } | GpuError::Driver(_)), "{error}");
    Ok(())
}
