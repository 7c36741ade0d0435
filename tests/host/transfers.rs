//! Large copies of pageable memory, fills, rows, and the ways of data by name.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ferrowarp::memory::STAGED_FROM_BYTES;
use ferrowarp::{
    Backend, DeviceBuffer, Gpu, GpuError, GpuResult, LaunchConfig, PinnedBuffer, Transfer,
    TransferReport, UnifiedBuffer,
};

use crate::child::{child, lines};
use crate::kernels::{IMAGES, MISSING, churn, churned, fill, gpu, launch};

/// Words that are a little more than what goes through the ring.
const LARGE: usize = STAGED_FROM_BYTES / 4 + 1003;
const LEN: usize = 512;
const ROUNDS: u32 = 20_000;

fn counted(len: usize) -> Vec<u32> {
    (0..len as u32).map(|i| i.wrapping_mul(2_654_435_761)).collect()
}

#[test]
fn large_pageable_copies_are_exact_at_any_size_and_place() -> GpuResult<()> {
    let values = counted(4 * LARGE);
    for (start, len) in [(0, LARGE), (1, STAGED_FROM_BYTES / 4), (3, 4 * LARGE - 3)] {
        let values = &values[start..start + len];
        let device = DeviceBuffer::from_slice(gpu(), values)?;
        assert!(device.to_vec()? == values, "{len} words from {start}");
        let mut part = vec![0; len - 7];
        device.slice(5..len - 2).copy_to_host(&mut part)?;
        assert!(part == values[5..len - 2], "{len} words from {start}, a part");
    }
    Ok(())
}

#[test]
fn large_copies_are_in_order_with_kernels_on_other_streams() -> GpuResult<()> {
    let (a, b) = (gpu().create_stream()?, gpu().create_stream()?);
    let mut device = DeviceBuffer::from_slice(&a, &vec![3u32; LARGE])?;
    churn(&b, &mut device.slice_mut(..LEN), ROUNDS)?;
    let back = device.to_vec()?;
    assert_eq!(back[..LEN], [churned(3, ROUNDS); LEN]);
    assert!(back[LEN..].iter().all(|&word| word == 3));
    churn(&b, &mut device.slice_mut(..LEN), ROUNDS)?;
    device.copy_from_host(&back)?;
    churn(&a, &mut device.slice_mut(..LEN), 2)?;
    assert_eq!(device.slice(..LEN).to_vec()?, [churned(3, ROUNDS + 2); LEN]);
    Ok(())
}

#[test]
fn unified_and_stream_ordered_memory_take_large_copies() -> GpuResult<()> {
    let values = counted(LARGE);
    let mut unified = UnifiedBuffer::<u32>::zeroed(gpu(), LARGE)?;
    unified.as_device_slice_mut().copy_from_host(&values)?;
    assert!(unified.as_slice()? == values);
    assert!(unified.as_device_slice().to_vec()? == values);
    let stream = gpu().create_stream()?;
    let mut ordered = DeviceBuffer::<u32>::zeroed_async(&stream, LARGE)?;
    // What the driver knows needs no ring, and what it does not know may lie on either side.
    ordered.copy_from_host(unified.as_slice()?)?;
    let mut pinned = PinnedBuffer::<u32>::zeroed(gpu(), LARGE)?;
    ordered.copy_to_host(&mut pinned)?;
    assert!(pinned[..] == values);
    Ok(())
}

#[test]
fn several_threads_copy_at_once() -> GpuResult<()> {
    let work = |thread: u32| -> GpuResult<()> {
        for round in 0..3 {
            let mut values = counted(LARGE);
            values.fill(thread * 8 + round);
            let stream = gpu().create_stream()?;
            let mut device = DeviceBuffer::from_slice(&stream, &values)?;
            fill(gpu(), &mut device.slice_mut(..LEN), 77)?;
            let back = device.to_vec()?;
            assert!(back[..LEN] == [77; LEN] && back[LEN..] == values[LEN..]);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|thread| scope.spawn(move || work(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
}

/// The ring ends with its device, and another one has a ring of its own.
#[test]
fn each_device_has_its_ring() -> GpuResult<()> {
    let values = counted(LARGE);
    for _ in 0..3 {
        let own = Gpu::with_images(IMAGES)?;
        let device = DeviceBuffer::from_slice(&own, &values)?;
        drop(own);
        assert!(device.to_vec()? == values);
    }
    Ok(())
}

/// No memory can be page-locked: the driver copies, as it would without a ring.
#[test]
fn without_page_locked_memory_the_driver_copies() {
    let fail = [("FERROWARP_DEVICE", "emulator"), ("FERROWARP_EMULATOR_FAIL", "cuMemHostAlloc:2")];
    assert_eq!(lines(&child("transfers::copy_large", &fail), "copied: "), ["all"]);
}

/// A call of the ring fails: the copy fails, and nothing hangs.
#[test]
fn a_failing_ring_is_an_error() {
    for function in ["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuEventRecord"] {
        let fail = format!("{function}:801");
        let fail = [("FERROWARP_DEVICE", "emulator"), ("FERROWARP_EMULATOR_FAIL", fail.as_str())];
        let told = lines(&child("transfers::copy_large", &fail), "failed: ");
        assert_eq!(told, ["CUDA_ERROR_NOT_SUPPORTED"], "{function}");
    }
}

#[test]
#[ignore = "run in a process of its own by the tests above"]
fn copy_large() {
    let values = counted(LARGE);
    let copied = || DeviceBuffer::from_slice(gpu(), &values)?.to_vec();
    match copied() {
        Ok(back) => println!("copied: {}", if back == values { "all" } else { "something else" }),
        Err(error) => println!("failed: {}", error.driver().expect("a driver error").name()),
    }
}

#[test]
fn neither_the_ring_nor_pinned_memory_is_a_pageable_copy() {
    let emulator = [("FERROWARP_DEVICE", "emulator"), ("FERROWARP_CHECK", "all")];
    let told = lines(&child("transfers::count_pageable_copies", &emulator), "pageable: ");
    assert_eq!(told, ["0, then 1"]);
}

/// Counted for a whole process, so in one of its own.
#[test]
#[ignore = "run in a process of its own by the test above"]
fn count_pageable_copies() {
    let mut device = DeviceBuffer::from_slice(gpu(), &counted(LARGE)).unwrap();
    let mut back = device.to_vec().unwrap();
    let pinned = PinnedBuffer::<u32>::zeroed(gpu(), LARGE).unwrap();
    let pinned = device.copy_to_pinned_async(gpu(), pinned).unwrap().wait().unwrap();
    let lent = gpu().host_scope(|scope| scope.upload(gpu(), &pinned, &mut device));
    lent.unwrap();
    let registered = gpu().host_scope(|scope| {
        let back = scope.register(&mut back)?;
        scope.download(gpu(), &device, back)
    });
    registered.unwrap();
    let right = cuda_driver::pageable_async_copies();
    // The small one waits, and so is not what it seems; the large one goes through the ring.
    let lent = gpu().host_scope(|scope| {
        scope.upload(gpu(), &[1, 2], &mut device.slice_mut(..2))?;
        scope.download(gpu(), &device, &mut back)
    });
    lent.unwrap();
    println!("pageable: {right}, then {}", cuda_driver::pageable_async_copies());
}

fn moved(way: Transfer, len: usize) -> GpuResult<[TransferReport; 2]> {
    let stream = gpu().create_stream()?;
    let values = counted(len);
    let mut device = DeviceBuffer::<u32>::zeroed(gpu(), len)?;
    let up = way.upload(&stream, &values, &mut device)?;
    assert!(device.to_vec()? == values, "{way}, {len} words up");
    let mut back = vec![0; len];
    let down = way.download(&stream, &device, &mut back)?;
    assert!(back == values, "{way}, {len} words down");
    Ok([up, down])
}

#[test]
fn every_way_moves_the_data_and_reports() -> GpuResult<()> {
    for way in Transfer::ALL {
        for len in [0, 1, 1000, LARGE] {
            for report in moved(way, len)? {
                assert_eq!(report.bytes, 4 * len, "{way}");
                assert!(len == 0 || !report.time.is_zero(), "{way}");
                let polled = matches!(way, Transfer::Polled { .. });
                assert!(polled || report.polls == 0, "{way}");
            }
        }
    }
    assert_eq!(format!("{:>8}", Transfer::Staged), "  staged");
    Ok(())
}

#[test]
fn polls_are_an_interval_apart() -> GpuResult<()> {
    let interval = Duration::from_micros(300);
    let way = Transfer::Polled { interval };
    for len in [0, 1, LARGE] {
        for report in moved(way, len)? {
            assert!(report.time >= interval * report.polls as u32, "{report:?}");
        }
    }
    assert_eq!(format!("{way:>22}"), "    polled every 300µs");
    Ok(())
}

#[test]
fn every_way_is_behind_a_kernel_on_another_stream_and_before_the_next() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let values = vec![5u32; LEN];
    for way in Transfer::ALL {
        let mut device = DeviceBuffer::from_slice(gpu(), &[1u32; LEN])?;
        churn(&stream, &mut device, ROUNDS)?;
        way.upload(gpu(), &values, &mut device)?;
        churn(&stream, &mut device, ROUNDS)?;
        let mut back = [0; LEN];
        way.download(gpu(), &device, &mut back)?;
        assert_eq!(back, [churned(5, ROUNDS); LEN], "{way}");
    }
    Ok(())
}

#[test]
fn ways_check_lengths() -> GpuResult<()> {
    let mut device = DeviceBuffer::from_slice(gpu(), &[1u32, 2, 3])?;
    for way in Transfer::ALL {
        let error = way.upload(gpu(), &[0; 4], &mut device).unwrap_err();
        assert!(matches!(error, GpuError::SizeMismatch { expected: 3, found: 4, .. }), "{error}");
        let error = way.download(gpu(), &device, &mut [0; 2]).unwrap_err();
        assert!(matches!(error, GpuError::SizeMismatch { expected: 3, found: 2, .. }), "{error}");
    }
    assert_eq!(device.to_vec()?, [1, 2, 3]);
    Ok(())
}

#[test]
fn fills_repeat_values_of_every_size() -> GpuResult<()> {
    for len in [0, 1, 33, 1000] {
        let mut bytes = DeviceBuffer::<u8>::zeroed(gpu(), len)?;
        bytes.fill(0xa5)?;
        assert_eq!(bytes.to_vec()?, vec![0xa5; len]);
        let mut halves = DeviceBuffer::<i16>::zeroed(gpu(), len)?;
        halves.fill(-2)?;
        assert_eq!(halves.to_vec()?, vec![-2; len]);
        let mut words = DeviceBuffer::<f32>::zeroed(gpu(), len)?;
        words.fill(-0.0)?;
        assert!(words.to_vec()?.iter().all(|word| word.to_bits() == 1 << 31));
        let mut pixels = DeviceBuffer::<[u8; 4]>::zeroed(gpu(), len)?;
        pixels.fill([1, 2, 3, 255])?;
        assert_eq!(pixels.to_vec()?, vec![[1, 2, 3, 255]; len]);
        DeviceBuffer::<()>::zeroed(gpu(), len)?.fill(())?;
    }
    Ok(())
}

#[test]
fn fills_are_in_order_and_stay_inside() -> GpuResult<()> {
    let (a, b) = (gpu().create_stream()?, gpu().create_stream()?);
    let mut words = DeviceBuffer::from_slice(&a, &[1u32; LEN])?;
    churn(&b, &mut words, ROUNDS)?;
    words.slice_mut(10..20).fill(6)?;
    churn(&b, &mut words, 1)?;
    let inside = |i| (10..20).contains(&i);
    let word = |i| if inside(i) { churned(6, 1) } else { churned(1, ROUNDS + 1) };
    assert_eq!(words.to_vec()?, (0..LEN).map(word).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn a_fill_of_crooked_memory_is_an_error() -> GpuResult<()> {
    let mut bytes = DeviceBuffer::<u8>::zeroed(gpu(), 9)?;
    let mut slice = bytes.slice_mut(1..);
    let error = slice.cast_mut::<[u8; 4]>()?.fill([1; 4]).unwrap_err();
    assert!(matches!(error, GpuError::InvalidCast { bytes: 8, target: "u32", .. }), "{error}");
    assert_eq!(bytes.to_vec()?, [0; 9]);
    Ok(())
}

#[test]
fn copies_on_the_device_run_on_the_stream_that_is_named() -> GpuResult<()> {
    let streams = [gpu().create_stream()?, gpu().create_stream()?, gpu().create_stream()?];
    let mut source = DeviceBuffer::from_slice(&streams[0], &[2u32; LEN])?;
    let mut target = DeviceBuffer::from_slice(&streams[1], &[1u32; LEN])?;
    churn(gpu(), &mut source, ROUNDS)?;
    target.as_mut_slice().copy_from_device_on(&streams[2], source.as_slice())?;
    fill(gpu(), &mut source, 0)?;
    churn(gpu(), &mut target, 1)?;
    assert_eq!(target.to_vec()?, [churned(2, ROUNDS + 1); LEN]);
    let error = target.as_mut_slice().copy_from_device_on(gpu(), source.slice(1..)).unwrap_err();
    assert!(matches!(error, GpuError::SizeMismatch { .. }), "{error}");
    Ok(())
}

/// The cells of `height` rows of `width`, each `pitch` behind the one before, in `len` cells.
fn cells(len: usize, width: usize, height: usize, pitch: usize) -> Vec<usize> {
    let cells = (0..height).flat_map(|row| (0..width).map(move |x| row * pitch + x));
    cells.inspect(|&cell| assert!(cell < len)).collect()
}

#[test]
fn rows_are_copied_and_what_lies_between_stays() -> GpuResult<()> {
    for (width, height, on_host, on_device) in
        [(5, 7, 5, 5), (5, 7, 9, 6), (1, 3, 4, 2), (8, 1, 8, 8)]
    {
        let (host_len, device_len) = (on_host * height, on_device * height);
        let source = counted(host_len);
        let mut device = DeviceBuffer::from_slice(gpu(), &vec![9u32; device_len])?;
        device.pitched_mut(width, height, on_device)?.copy_from_host(&source, on_host)?;
        let mut expected = vec![9; device_len];
        let pairs = cells(device_len, width, height, on_device);
        for (to, from) in pairs.into_iter().zip(cells(host_len, width, height, on_host)) {
            expected[to] = source[from];
        }
        assert_eq!(device.to_vec()?, expected);
        let mut other = DeviceBuffer::from_slice(&gpu().create_stream()?, &vec![9u32; device_len])?;
        other
            .pitched_mut(width, height, on_device)?
            .copy_from_device(&device.pitched(width, height, on_device)?)?;
        assert_eq!(other.to_vec()?, expected);
        let mut back = vec![0; host_len];
        device.pitched(width, height, on_device)?.copy_to_host(&mut back, on_host)?;
        for (cell, word) in back.iter().enumerate() {
            let inside = cell % on_host < width;
            assert_eq!(*word, if inside { source[cell] } else { 0 }, "cell {cell}");
        }
    }
    Ok(())
}

#[test]
fn rows_go_through_pinned_memory_in_order() -> GpuResult<()> {
    let (a, b) = (gpu().create_stream()?, gpu().create_stream()?);
    let mut device = DeviceBuffer::from_slice(&a, &[1u32; 32])?;
    churn(&b, &mut device, ROUNDS)?;
    let source = Arc::new(PinnedBuffer::from_slice(gpu(), &counted(40))?);
    let up = device.pitched_mut(3, 4, 8)?.copy_from_pinned_async(&b, source.clone(), 10)?;
    let target = PinnedBuffer::<u32>::zeroed(gpu(), 20)?;
    let target = device.pitched(4, 4, 8)?.copy_to_pinned_async(&a, target, 5)?.wait()?;
    up.wait()?;
    for (cell, word) in target.iter().enumerate() {
        let expected = match cell % 5 {
            x @ 0..3 => source[cell / 5 * 10 + x],
            3 => churned(1, ROUNDS),
            _ => 0,
        };
        assert_eq!(*word, expected, "cell {cell}");
    }
    Ok(())
}

#[test]
fn rows_that_do_not_fit_are_an_error_and_no_rows_are_no_work() -> GpuResult<()> {
    let mut device = DeviceBuffer::from_slice(gpu(), &[1u32; 12])?;
    let error = device.pitched_mut(3, 4, 3)?.copy_from_host(&[0; 12], 2).unwrap_err();
    assert!(matches!(error, GpuError::SizeMismatch { expected: 3, found: 2, .. }), "{error}");
    let error = device.pitched(3, 4, 3)?.copy_to_host(&mut [0; 12], 4).unwrap_err();
    assert!(matches!(error, GpuError::SizeMismatch { expected: 15, found: 12, .. }), "{error}");
    assert!(device.pitched(3, 4, 4).is_err());
    let other = DeviceBuffer::from_slice(gpu(), &[1u32; 12])?;
    let error =
        device.pitched_mut(3, 4, 3)?.copy_from_device(&other.pitched(3, 3, 3)?).unwrap_err();
    assert!(matches!(error, GpuError::SizeMismatch { expected: 4, found: 3, .. }), "{error}");
    device.pitched_mut(0, 4, 0)?.copy_from_host(&[], 0)?;
    device.pitched(3, 0, 3)?.copy_to_host(&mut [], 3)?;
    let most = usize::MAX;
    device.pitched(most, 0, most)?.copy_to_host(&mut [], most)?;
    assert_eq!(device.to_vec()?, [1; 12]);
    // An empty grid calls no driver: the kernel does not even exist.
    launch(gpu(), &MISSING, LaunchConfig::for_num_elems(0), &mut device.slice_mut(..0), 1)
}

#[test]
fn all_memory_begins_at_multiples_of_256_bytes() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    for len in [1, 3, 255, 257, 70_001] {
        let starts = [
            DeviceBuffer::<u8>::zeroed(gpu(), len)?.as_device_ptr().address(),
            DeviceBuffer::<u8>::zeroed_async(&stream, len)?.as_device_ptr().address(),
            UnifiedBuffer::<u8>::zeroed(gpu(), len)?.as_device_ptr().address(),
            PinnedBuffer::<u8>::zeroed(gpu(), len)?.as_ptr().addr() as u64,
        ];
        assert!(starts.iter().all(|start| start % 256 == 0), "{len} bytes: {starts:x?}");
    }
    Ok(())
}

/// What the emulator alone can see: the source of a copy is the copy's until it is over, so nothing is
/// reported for right code.
#[test]
fn right_code_is_no_race() -> GpuResult<()> {
    if gpu().backend() != Backend::Emulator {
        return Ok(());
    }
    let stream = gpu().create_stream()?;
    let mut device = DeviceBuffer::<u32>::zeroed(gpu(), LEN)?;
    let mut pinned = PinnedBuffer::from_slice(gpu(), &[1u32; LEN])?;
    for round in 0..20 {
        pinned.fill(round);
        pinned = device.copy_from_pinned_async(&stream, pinned)?.wait()?;
        pinned.fill(round + 1);
        pinned = device.copy_to_pinned_async(gpu(), pinned)?.wait()?;
        assert_eq!(pinned[..], [round; LEN]);
    }
    gpu().synchronize()
}
