//! Memory that the host lends to the device for a while.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ferrowarp::{
    Backend, DeviceBox, DeviceBuffer, GpuError, GpuResult, HostPages, MemoryVisibility,
    PinnedBuffer,
};

use crate::gate::Gate;
use crate::kernels::{add, churn, churned, fill, gpu};

const LEN: usize = 512;
const ROUNDS: u32 = 20_000;

/// Memory that shares no page with any other, since whole pages are registered.
struct Pages(Vec<u32>);

impl Pages {
    const WORDS: usize = 4096 / 4;

    fn of(word: u32) -> Self {
        const { assert!(LEN <= Self::WORDS) };
        Self(vec![word; 2 * Self::WORDS])
    }

    fn words(&mut self) -> &mut [u32] {
        let start = self.0.as_ptr().align_offset(4096);
        &mut self.0[start..start + Self::WORDS][..LEN]
    }
}

#[test]
fn borrowed_memory_is_copied_both_ways_behind_kernels() -> GpuResult<()> {
    let (a, b) = (gpu().create_stream()?, gpu().create_stream()?);
    let mut device = DeviceBuffer::<u32>::zeroed(&a, LEN)?;
    let source = PinnedBuffer::from_slice(gpu(), &[3u32; LEN])?;
    let mut target = PinnedBuffer::<u32>::zeroed(gpu(), LEN)?;
    gpu().host_scope(|scope| {
        scope.upload(&b, &source, &mut device)?;
        churn(gpu(), &mut device, ROUNDS)?;
        scope.download(&b, &device, &mut target)?;
        churn(&a, &mut device, 1)
    })?;
    assert_eq!(target[..], [churned(3, ROUNDS); LEN]);
    assert_eq!(device.to_vec()?, [churned(3, ROUNDS + 1); LEN]);
    Ok(())
}

#[test]
fn copies_of_lent_memory_do_not_wait() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut device = DeviceBuffer::<u32>::zeroed(gpu(), LEN)?;
    let (mut source, mut target) = (Pages::of(5), Pages::of(0));
    gpu().host_scope(|scope| {
        let source = scope.register(source.words())?;
        let target = scope.register(target.words())?;
        let gate = Gate::on(&stream);
        // Both would hang here if they waited, and the gate would open late.
        scope.upload(&stream, source, &mut device)?;
        scope.download(&stream, &device, target)?;
        assert!(!stream.is_idle()?);
        gate.open();
        Ok(())
    })?;
    assert_eq!(target.words(), [5; LEN]);
    Ok(())
}

/// Small parts to odd places, pageable memory among them.
#[test]
fn parts_and_pageable_memory_are_copied() -> GpuResult<()> {
    let mut device = DeviceBuffer::from_slice(gpu(), &[0u32; 10])?;
    let (source, mut target) = ([1, 2, 3], [9; 4]);
    gpu().host_scope(|scope| {
        scope.upload(gpu(), &source, &mut device.slice_mut(4..7))?;
        scope.upload(gpu(), &source[1..2], &mut device.slice_mut(..1))?;
        scope.download(gpu(), &device.slice(4..6), &mut target[1..3])?;
        scope.upload(gpu(), &[], &mut device.slice_mut(3..3))
    })?;
    assert_eq!(device.to_vec()?, [2, 0, 0, 0, 1, 2, 3, 0, 0, 0]);
    assert_eq!(target, [9, 1, 2, 9]);
    Ok(())
}

#[test]
fn a_scope_ends_its_copies_whatever_its_own_end() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let mut device = DeviceBuffer::from_slice(&stream, &[3u32; LEN])?;
    let mut target = PinnedBuffer::<u32>::zeroed(gpu(), LEN)?;
    churn(&stream, &mut device, ROUNDS)?;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        gpu().host_scope(|scope| {
            scope.download(&stream, &device, &mut target)?;
            if true {
                panic!("on purpose");
            }
            Ok(())
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(target[..], [churned(3, ROUNDS); LEN]);
    churn(&stream, &mut device, ROUNDS)?;
    let result: GpuResult<()> = gpu().host_scope(|scope| {
        scope.download(&stream, &device, &mut target)?;
        Err(GpuError::SizeMismatch { operation: "on purpose", expected: 1, found: 2 })
    });
    assert!(result.unwrap_err().to_string().starts_with("on purpose"));
    assert_eq!(target[..], [churned(3, 2 * ROUNDS); LEN]);
    Ok(())
}

#[test]
fn registering_twice_is_told_and_ends_with_the_scope() -> GpuResult<()> {
    let mut values = Pages::of(1);
    for _ in 0..2 {
        gpu().host_scope(|scope| {
            let values = scope.register(values.words())?;
            let (address, all) = (values.as_ptr() as u64, &*values);
            if gpu().info().registers_read_only {
                let error = scope.register_read_only(all).unwrap_err();
                let GpuError::AlreadyRegistered { address: at, bytes } = error else {
                    panic!("{error}")
                };
                assert_eq!((at, bytes), (address, LEN * 4));
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn memory_that_is_only_read_is_registered_so() -> GpuResult<()> {
    let values = vec![6u32; LEN];
    let mut device = DeviceBuffer::<u32>::zeroed(gpu(), LEN)?;
    let result = gpu()
        .host_scope(|scope| scope.upload(gpu(), scope.register_read_only(&values)?, &mut device));
    match gpu().info().registers_read_only {
        true => {
            result?;
            assert_eq!(device.to_vec()?, values);
        }
        false => assert!(matches!(result.unwrap_err(), GpuError::Unsupported { .. })),
    }
    Ok(())
}

#[test]
fn lengths_that_differ_are_an_error() -> GpuResult<()> {
    let mut device = DeviceBuffer::from_slice(gpu(), &[1u32, 2, 3])?;
    let (source, mut target) = ([0u32; 4], [0u32; 2]);
    gpu().host_scope(|scope| {
        let up = scope.upload(gpu(), &source, &mut device).unwrap_err();
        assert_eq!(up.to_string(), "copying from the host: 3 elements are needed, 4 were given");
        let down = scope.download(gpu(), &device, &mut target).unwrap_err();
        assert_eq!(down.to_string(), "copying to the host: 3 elements are needed, 2 were given");
        Ok(())
    })?;
    assert_eq!(device.to_vec()?, [1, 2, 3]);
    Ok(())
}

#[test]
fn several_threads_lend_in_one_scope() -> GpuResult<()> {
    let streams = [gpu().create_stream()?, gpu().create_stream()?];
    let mut targets: Vec<_> = (0..8).map(|_| Pages::of(0)).collect();
    let device = DeviceBuffer::from_slice(gpu(), &[7u32; LEN])?;
    gpu().host_scope(|scope| {
        std::thread::scope(|threads| {
            let (device, streams) = (&device, &streams);
            for (i, target) in targets.iter_mut().enumerate() {
                threads.spawn(move || {
                    let target = scope.register(target.words()).unwrap();
                    scope.download(&streams[i % 2], device, target).unwrap();
                });
            }
        });
        Ok(())
    })?;
    assert!(targets.iter_mut().all(|target| target.words() == [7; LEN]));
    Ok(())
}

#[test]
fn what_a_device_sees_is_told() {
    let visibility = MemoryVisibility::of(gpu());
    assert_eq!(
        visibility == MemoryVisibility::System,
        gpu().info().concurrent_managed_access,
        "{visibility}"
    );
    assert!(MemoryVisibility::detect() <= visibility);
    let pages = HostPages::detect(gpu());
    match gpu().backend() {
        Backend::Emulator => assert_eq!(pages, HostPages::Emulated),
        Backend::Cuda => assert_eq!(pages.are_usable(), gpu().info().pageable_memory_access),
    }
    println!("{}: {visibility}; plain host memory {pages}", gpu().name());
}

/// Kernels use a `Vec`, an array on the stack and part of a pinned buffer, where they can; elsewhere
/// the error says what to do.
#[test]
fn kernels_use_plain_host_memory() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    let (many, mut out) = (vec![3u32; LEN], vec![0u32; LEN]);
    let one = DeviceBox::new(gpu(), &4)?;
    let result = gpu().host_scope(|scope| {
        let many = scope.host_slice(&stream, &many)?;
        let mut out = scope.host_slice_mut(gpu(), &mut out)?;
        add(&stream, &one, &many, &mut out)?;
        churn(gpu(), &mut out, ROUNDS)
    });
    if HostPages::detect(gpu()).are_usable() {
        result?;
        assert_eq!(out, [churned(7, ROUNDS); LEN]);
    } else {
        let error = result.unwrap_err();
        assert!(matches!(error, GpuError::Unsupported { .. }), "{error}");
        assert!(error.to_string().contains("DeviceBuffer"), "{error}");
    }
    Ok(())
}

/// The way out that the error names.
#[test]
fn kernels_use_registered_memory_everywhere() -> GpuResult<()> {
    let (mut many, mut out) = (Pages::of(3), Pages::of(0));
    let one = DeviceBox::new(gpu(), &4)?;
    gpu().host_scope(|scope| {
        let (many, out) = (scope.register(many.words())?, scope.register(out.words())?);
        let many = scope.host_slice(gpu(), many)?;
        add(gpu(), &one, &many, &mut scope.host_slice_mut(gpu(), out)?)
    })?;
    assert_eq!(out.words(), [7; LEN]);
    Ok(())
}

#[test]
fn parts_of_one_slice_are_lent_as_often_as_wanted() -> GpuResult<()> {
    if !HostPages::detect(gpu()).are_usable() {
        return Ok(());
    }
    let (many, one) = (vec![3u32; LEN], DeviceBox::new(gpu(), &1)?);
    let mut pinned = PinnedBuffer::<u32>::zeroed(gpu(), LEN)?;
    gpu().host_scope(|scope| {
        let all = scope.host_slice(gpu(), &many)?;
        let again = scope.host_slice(gpu(), &many[5..10])?;
        let mut out = scope.host_slice_mut(gpu(), &mut pinned)?;
        add(gpu(), &one, &all, &mut out)?;
        let mut part = DeviceBuffer::zeroed(gpu(), 5)?;
        add(gpu(), &one, &again, &mut part)?;
        fill(gpu(), &mut part, 1)
    })?;
    assert_eq!(pinned[..], [4; LEN]);
    Ok(())
}
