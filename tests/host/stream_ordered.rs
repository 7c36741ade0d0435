//! Memory that is allocated and freed in the order of a stream.

use cuda_driver::Backend;
use ferrowarp::memory::resource::{StreamOrderedMemory, SynchronousMemory};
use ferrowarp::{DeviceBox, DeviceBuffer, GpuError, GpuResult};

use crate::child::{child, lines};
use crate::gate::Gate;
use crate::kernels::{add, churn, churned, fill, gpu};

const LEN: usize = 1000;

#[test]
fn values_are_kept_and_freed_memory_is_used_again() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    for round in 0..20 {
        for len in [0, 1, 31, 257, 65_537] {
            let mut buffer = DeviceBuffer::zeroed_async(&stream, len)?;
            assert_eq!(buffer.to_vec()?, vec![0; len]);
            fill(&stream, &mut buffer, round)?;
            assert_eq!(buffer.to_vec()?, vec![round; len]);
            assert!(buffer.as_device_ptr().address().is_multiple_of(256));
        }
    }
    Ok(())
}

#[test]
fn kernels_and_copies_take_all_kinds_alike() -> GpuResult<()> {
    let (a, b) = (gpu().create_stream()?, gpu().create_stream()?);
    let memory = StreamOrderedMemory::new(&a, 0)?;
    let one = DeviceBox::new(gpu(), &1)?;
    let mut ordered = DeviceBuffer::zeroed_async(&a, LEN)?;
    let mut pooled = DeviceBuffer::from_slice_in(&memory, &b, &[7; LEN])?;
    add(&b, &one, &pooled, &mut ordered)?;
    add(&a, &one, &ordered.slice(..), &mut pooled.as_mut_slice())?;
    let mut plain = DeviceBuffer::zeroed_in(&SynchronousMemory.into(), gpu(), LEN)?;
    plain.copy_from_device(&pooled)?;
    drop((ordered, pooled, memory));
    assert_eq!(plain.to_vec()?, [9; LEN]);
    Ok(())
}

#[test]
fn a_drop_does_not_wait_for_the_stream() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut buffer = DeviceBuffer::zeroed_async(&stream, LEN)?;
    fill(&stream, &mut buffer, 1)?;
    stream.synchronize()?;
    let gate = Gate::on(&stream);
    fill(&stream, &mut buffer, 2)?;
    drop(buffer);
    assert!(!stream.is_idle()?, "the drop has waited");
    gate.open();
    stream.synchronize()
}

#[test]
fn a_drop_is_ordered_after_the_last_use_on_every_stream() -> GpuResult<()> {
    let (home, other) = (gpu().create_stream()?, gpu().create_stream()?);
    for round in 0..4 {
        let mut gone = DeviceBuffer::zeroed_async(&home, LEN)?;
        fill(&other, &mut gone, round)?;
        gpu().synchronize()?;
        let gate = Gate::on(&other);
        fill(&other, &mut gone, 1)?;
        drop(gone);
        assert!(!home.is_idle()?, "the home does not wait for the other stream");
        // Most likely the same memory; what the kernel behind the gate writes must come first.
        let mut next = DeviceBuffer::zeroed_async(&home, LEN)?;
        fill(&home, &mut next, 5)?;
        gate.open();
        assert_eq!(next.to_vec()?, [5; LEN]);
        other.synchronize()?;
        assert_eq!(next.to_vec()?, [5; LEN]);
    }
    Ok(())
}

#[test]
fn a_stream_may_go_before_its_memory() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut buffer = DeviceBuffer::zeroed_async(&stream, LEN)?;
    churn(&stream, &mut buffer, 5000)?;
    drop(stream);
    assert_eq!(buffer.to_vec()?, [churned(0, 5000); LEN]);
    Ok(())
}

#[test]
fn a_drivers_pool_counts_keeps_and_gives_back() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let memory = StreamOrderedMemory::new(&stream, u64::MAX)?;
    assert_eq!(memory.usage()?.used_bytes, 0);
    let buffer = DeviceBuffer::<u8>::zeroed_in(&memory, &stream, 3 << 20)?;
    let usage = memory.usage()?;
    assert!(usage.used_bytes >= 3 << 20 && usage.reserved_bytes >= usage.used_bytes, "{usage:?}");
    drop(buffer);
    stream.synchronize()?;
    let usage = memory.usage()?;
    assert!(usage.used_bytes == 0 && usage.used_peak_bytes >= 3 << 20, "{usage:?}");
    if gpu().backend() == Backend::Cuda {
        assert!(usage.reserved_bytes >= 3 << 20, "all is kept below the threshold: {usage:?}");
    }
    memory.trim_to(0)?;
    let usage = memory.usage()?;
    assert!(usage.reserved_bytes == 0 && usage.reserved_peak_bytes >= 3 << 20, "{usage:?}");
    memory.set_release_threshold(0)
}

#[test]
fn too_much_is_an_error_that_counts() -> GpuResult<()> {
    let (_, total) = gpu().memory_info()?;
    let error = DeviceBuffer::<u8>::zeroed_async(gpu(), 2 * total).unwrap_err();
    let GpuError::OutOfMemory { requested, total: said, peak, .. } = error else {
        panic!("{error}")
    };
    assert!(requested == 2 * total && said == total && peak <= total, "{error}");
    let memory = StreamOrderedMemory::new(gpu(), 0)?;
    let error = DeviceBuffer::<u8>::zeroed_in(&memory, gpu(), 2 * total).unwrap_err();
    assert!(matches!(error, GpuError::OutOfMemory { .. }), "{error}");
    assert_eq!(DeviceBuffer::<u8>::zeroed_async(gpu(), 5)?.to_vec()?, [0; 5]);
    Ok(())
}

/// The example of the book's chapter.
#[test]
fn the_chapters_loop() -> GpuResult<()> {
    let (stream, one) = (gpu().create_stream()?, DeviceBox::new(gpu(), &1)?);
    let batches = [DeviceBuffer::from_slice(gpu(), &[1; LEN])?, DeviceBuffer::zeroed(gpu(), LEN)?];
    let mut total = DeviceBuffer::zeroed(gpu(), LEN)?;
    for batch in &batches {
        let mut sums = DeviceBuffer::zeroed_async(&stream, batch.len())?;
        add(&stream, &one, batch, &mut sums)?;
        total.copy_from_device(&sums)?;
    }
    assert_eq!(total.to_vec()?, [1; LEN]);
    Ok(())
}

/// Runs an ignored test of this file on an emulator of its own.
#[track_caller]
fn on_an_emulator(name: &str, variable: (&str, &str)) {
    let variables = [("FERROWARP_DEVICE", "emulator"), variable];
    lines(&child(&format!("stream_ordered::{name}"), &variables), "");
}

#[test]
fn a_device_without_pools_says_what_to_use() {
    on_an_emulator("without_pools", ("FERROWARP_EMULATOR_FAIL", "cuMemPoolCreate:801"));
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn without_pools() {
    let error = DeviceBuffer::<u8>::zeroed_async(gpu(), 1).unwrap_err();
    assert!(matches!(error, GpuError::Unsupported { .. }), "{error}");
    assert!(error.to_string().contains("use DeviceBuffer::zeroed"), "{error}");
    assert!(StreamOrderedMemory::new(gpu(), 0).is_err());
    assert!(DeviceBuffer::<u8>::zeroed_async(gpu(), 0).is_ok());
}

#[test]
fn memory_that_waits_to_be_freed_is_waited_for_when_there_is_no_other() {
    on_an_emulator("fill_the_device", ("FERROWARP_EMULATOR_MEMORY", "64M"));
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn fill_the_device() {
    let stream = gpu().create_stream().unwrap();
    let len = 10 << 20;
    for round in 0..4 {
        let mut buffer = DeviceBuffer::zeroed_async(&stream, len).unwrap();
        churn(&stream, &mut buffer.slice_mut(..512), 20_000).unwrap();
        drop(buffer);
        let kind = if round % 2 == 0 { "at once" } else { "in order" };
        let next = match kind {
            "at once" => DeviceBuffer::<u32>::zeroed(gpu(), len),
            _ => DeviceBuffer::<u32>::zeroed_async(gpu(), len),
        };
        drop(next.unwrap_or_else(|error| panic!("{kind}: {error}")));
    }
    let error = DeviceBuffer::<u8>::zeroed(gpu(), 65 << 20).unwrap_err();
    let GpuError::OutOfMemory { free, total, peak, .. } = error else { panic!("{error}") };
    assert_eq!(total, 64 << 20);
    assert!(free <= total && (40 << 20..=total).contains(&peak), "{error}");
}
