//! Buffers, boxes, slices, grids, unified memory.

use std::fmt::Debug;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_driver::injection;
use cuda_std::launch::DevicePtr;
use ferrowarp::memory::MemoryLocation;
use ferrowarp::memory::resource::MemoryPool;
use ferrowarp::{
    DeviceBox, DeviceBuffer, GpuError, GpuResult, LaunchConfig, MappedAtomics, MappedBuffer,
    PinnedBuffer, RegisteredVec, Stream, Transfer, UnifiedBox, UnifiedBuffer, WriteCombined,
};

use crate::kernels::{MISSING, add, fill, gpu, launch};

const SIZES: [usize; 7] = [0, 1, 31, 32, 257, 65_537, 1 << 20];

fn round_trip<T: Pod + PartialEq + Debug>(value: impl Fn(usize) -> T) -> GpuResult<()> {
    for len in SIZES {
        let values: Vec<T> = (0..len).map(&value).collect();
        let buffer = DeviceBuffer::from_slice(gpu(), &values)?;
        assert_eq!((buffer.len(), buffer.is_empty()), (len, len == 0));
        assert_eq!(buffer.size_bytes(), len * size_of::<T>());
        assert_eq!(buffer.to_vec()?, values);
        let mut back = vec![T::zeroed(); len];
        buffer.copy_to_host(&mut back)?;
        assert_eq!(back, values);
    }
    Ok(())
}

#[test]
fn values_come_back_as_they_went() -> GpuResult<()> {
    round_trip(|i| i as u8)?;
    round_trip(|i| i as f64 / 3.0)?;
    round_trip(|i| [i as u8, 1, 2, 3])?;
    round_trip(|i| (i as u128) << 100)
}

#[test]
fn memory_is_aligned_to_256_bytes() -> GpuResult<()> {
    for len in SIZES {
        let buffer = DeviceBuffer::<u8>::zeroed(gpu(), len)?;
        let first = buffer.as_device_ptr();
        assert!(first.is_aligned_to(256) && !first.is_aligned_to(0) && first.address() != 0);
    }
    let bytes = DeviceBuffer::<u8>::zeroed(gpu(), 9)?;
    let eighth = DevicePtr::<u8>::from_raw(bytes.as_device_ptr().address() + 8);
    assert!(eighth.is_aligned_to(8) && !eighth.is_aligned_to(16));
    Ok(())
}

#[test]
fn zeroed_and_cleared_memory_is_zero() -> GpuResult<()> {
    let mut buffer = DeviceBuffer::<u32>::zeroed(gpu(), 1000)?;
    assert_eq!(buffer.to_vec()?, [0; 1000]);
    fill(gpu(), &mut buffer, 7)?;
    assert_eq!(buffer.to_vec()?, [7; 1000]);
    buffer.slice_mut(10..20).clear()?;
    let expected: Vec<u32> = (0..1000).map(|i| if (10..20).contains(&i) { 0 } else { 7 }).collect();
    assert_eq!(buffer.to_vec()?, expected);
    buffer.clear()?;
    assert_eq!(buffer.to_vec()?, [0; 1000]);
    Ok(())
}

#[test]
fn a_type_of_no_size_needs_no_memory() -> GpuResult<()> {
    let mut buffer = DeviceBuffer::from_slice(gpu(), &[(), (), ()])?;
    assert_eq!((buffer.len(), buffer.size_bytes()), (3, 0));
    buffer.copy_from_host(&[(); 3])?;
    assert_eq!(buffer.to_vec()?, [(); 3]);
    assert_eq!(UnifiedBuffer::from_slice(gpu(), &[(); 2])?.as_slice()?, [(); 2]);
    DeviceBox::new(gpu(), &())?.get()?;
    UnifiedBox::new(gpu(), &())?.get()?;
    Ok(())
}

#[test]
fn no_elements_are_no_work() -> GpuResult<()> {
    let mut empty = DeviceBuffer::<u32>::zeroed(gpu(), 0)?;
    // An empty grid calls no driver: the kernel does not even exist.
    launch(gpu(), &MISSING, LaunchConfig::for_num_elems(0), &mut empty, 1)?;
    empty.clear()?;
    let other = DeviceBuffer::from_slice(gpu(), &[])?;
    empty.copy_from_device(&other)?;
    assert!(empty.slice(..).to_vec()?.is_empty());
    assert!(UnifiedBuffer::<u32>::zeroed(gpu(), 0)?.as_slice()?.is_empty());
    // A kernel may have an empty argument beside others.
    let (mut one, zero) = (DeviceBuffer::zeroed(gpu(), 1)?, DeviceBox::new(gpu(), &3)?);
    add(gpu(), &zero, &DeviceBuffer::from_slice(gpu(), &[4])?, &mut one)?;
    assert_eq!(one.to_vec()?, [7]);
    Ok(())
}

/// On a GPU nobody counts the calls; there this sees that all of it works.
#[test]
fn what_has_no_bytes_asks_the_driver_for_nothing() -> GpuResult<()> {
    let (pool, stream) = (MemoryPool::new(gpu()), gpu().create_stream()?);
    let (result, calls) = injection::watch(|| {
        nothing::<u32>(&pool, &stream, 0)?;
        nothing::<()>(&pool, &stream, 5)?;
        // An empty grid: the kernel does not even exist.
        let (all, mut words) = (LaunchConfig::for_num_elems(0), DeviceBuffer::zeroed(gpu(), 0)?);
        launch(gpu(), &MISSING, all, &mut words, 1)
    });
    result?;
    assert!(calls.is_empty(), "{calls:?}");
    Ok(())
}

/// Memory of every kind that has `len` elements and no bytes, made, copied both ways, and dropped.
fn nothing<T: Pod + PartialEq + Debug>(
    pool: &Arc<MemoryPool>,
    stream: &Stream,
    len: usize,
) -> GpuResult<()> {
    let none = vec![T::zeroed(); len];
    let mut plain = DeviceBuffer::from_slice(gpu(), &none)?;
    let mut others = [
        DeviceBuffer::zeroed(stream, len)?,
        DeviceBuffer::zeroed_async(stream, len)?,
        DeviceBuffer::zeroed_in(pool, stream, len)?,
    ];
    for other in &mut others {
        other.copy_from_host(&none)?;
        other.copy_from_device(&plain)?;
        other.copy_from_peer(&plain)?;
        plain.as_mut_slice().copy_from_device_on(stream, other.as_slice())?;
        other.clear()?;
        assert_eq!(other.slice(..).to_vec()?, none);
    }
    let pinned = plain.copy_from_pinned_async(stream, PinnedBuffer::from_slice(gpu(), &none)?)?;
    let pinned = plain.copy_to_pinned_async(stream, pinned.wait()?)?.wait()?;
    let combined = plain.copy_from_pinned_async(stream, WriteCombined::zeroed(gpu(), len)?)?;
    let registered = RegisteredVec::new(gpu(), none.clone())?.into_vec()?;
    assert_eq!((combined.wait()?.len(), &registered[..]), (len, &pinned[..]));
    plain.pitched_mut(len, 1, len)?.copy_from_host(&none, len)?;
    let (mut back, mut again) = (none.clone(), none.clone());
    for way in Transfer::ALL {
        assert_eq!(way.upload(stream, &none, &mut plain)?.bytes, 0);
        way.download(stream, &plain, &mut back)?;
    }
    let mut unified = UnifiedBuffer::from_slice(gpu(), &none)?;
    unified.prefetch(MemoryLocation::Device(0))?;
    assert_eq!(unified.as_mut_slice()?, none);
    let mut mapped = MappedBuffer::from_slice(gpu(), &none)?;
    assert_eq!(mapped.as_mut_slice()?, none);
    gpu().host_scope(|scope| {
        scope.upload(stream, scope.register(&mut back)?, &mut plain)?;
        scope.download(stream, &plain, &mut again)
    })?;
    assert!(MappedAtomics::<u32>::zeroed(gpu(), 0)?.is_empty());
    Ok(())
}

fn mismatch<T>(result: GpuResult<T>) -> (usize, usize) {
    match result.err().expect("lengths differ") {
        GpuError::SizeMismatch { expected, found, .. } => (expected, found),
        other => panic!("{other}"),
    }
}

#[test]
fn lengths_that_differ_are_an_error_and_change_nothing() -> GpuResult<()> {
    let mut buffer = DeviceBuffer::from_slice(gpu(), &[1u32, 2, 3])?;
    assert_eq!(mismatch(buffer.copy_from_host(&[9; 4])), (3, 4));
    assert_eq!(mismatch(buffer.copy_from_host(&[])), (3, 0));
    assert_eq!(mismatch(buffer.copy_to_host(&mut [0; 2])), (3, 2));
    assert_eq!(mismatch(buffer.slice_mut(1..).copy_from_host(&[9; 3])), (2, 3));
    let other = DeviceBuffer::from_slice(gpu(), &[9u32; 2])?;
    assert_eq!(mismatch(buffer.copy_from_device(&other)), (3, 2));
    assert_eq!(mismatch(buffer.grid_mut(2, 2)), (4, 3));
    assert_eq!(mismatch(buffer.grid_mut(usize::MAX, 3)), (usize::MAX, 3));
    assert_eq!(buffer.to_vec()?, [1, 2, 3]);
    let error = buffer.copy_from_host(&[9; 4]).unwrap_err().to_string();
    assert_eq!(error, "copying from the host: 3 elements are needed, 4 were given");
    Ok(())
}

#[test]
fn parts_are_read_and_written_in_place() -> GpuResult<()> {
    let mut buffer = DeviceBuffer::from_slice(gpu(), &(0..100u32).collect::<Vec<_>>())?;
    assert_eq!(buffer.slice(3..6).to_vec()?, [3, 4, 5]);
    assert_eq!(buffer.slice(3..).slice(..=1).to_vec()?, [3, 4]);
    buffer.slice_mut(98..).copy_from_host(&[1, 2])?;
    let (mut low, mut high) = buffer.as_mut_slice().split_at_mut(97);
    fill(gpu(), &mut low.slice_mut(1..2), 50)?;
    fill(gpu(), &mut high.slice_mut(..1), 60)?;
    assert_eq!(high.to_vec()?, [60, 1, 2]);
    assert_eq!(buffer.slice(..3).to_vec()?, [0, 50, 2]);
    Ok(())
}

#[test]
fn bytes_can_be_seen_as_another_type() -> GpuResult<()> {
    let mut buffer = DeviceBuffer::from_slice(gpu(), &[1u8, 0, 0, 0, 2, 0, 0, 0, 9])?;
    assert_eq!(buffer.slice(..8).cast::<u32>()?.to_vec()?, [1, 2]);
    fill(gpu(), &mut buffer.slice_mut(4..8).cast_mut::<u32>()?, 0x0403_0201)?;
    assert_eq!(buffer.to_vec()?, [1, 0, 0, 0, 1, 2, 3, 4, 9]);
    for (start, end) in [(0, 9), (1, 5)] {
        let error = buffer.slice(start..end).cast::<u32>().unwrap_err();
        assert!(matches!(error, GpuError::InvalidCast { target: "u32", .. }), "{error}");
    }
    Ok(())
}

#[test]
fn copies_on_the_device() -> GpuResult<()> {
    let source = DeviceBuffer::from_slice(gpu(), &[1u32, 2, 3, 4])?;
    let mut target = DeviceBuffer::zeroed(&gpu().create_stream()?, 4)?;
    target.copy_from_device(&source)?;
    drop(source);
    target.slice_mut(..1).copy_from_device(DeviceBuffer::from_slice(gpu(), &[9])?.as_slice())?;
    assert_eq!(target.to_vec()?, [9, 2, 3, 4]);
    Ok(())
}

#[test]
fn whatever_is_read_on_the_device_is_a_source() -> GpuResult<()> {
    let mut source = DeviceBuffer::from_slice(gpu(), &[1u32, 2, 3, 4])?;
    let mut target = DeviceBuffer::zeroed(gpu(), 2)?;
    target.copy_from_device(source.slice(2..))?;
    assert_eq!(target.to_vec()?, [3, 4]);
    target.copy_from_device(source.slice(1..3))?;
    assert_eq!(target.to_vec()?, [2, 3]);
    target.copy_from_device(&source.slice_mut(..2))?;
    assert_eq!(target.to_vec()?, [1, 2]);
    target.copy_from_peer(&source.slice_mut(2..))?;
    target.slice_mut(..1).copy_from_device_on(&gpu().create_stream()?, source.slice(3..))?;
    assert_eq!(target.to_vec()?, [4, 4]);
    assert_eq!(mismatch(target.copy_from_device(&source)), (2, 4));
    Ok(())
}

#[test]
fn a_clone_is_another_buffer() -> GpuResult<()> {
    let pool = MemoryPool::new(gpu());
    let mut source = DeviceBuffer::from_slice_in(&pool, gpu(), &[1u32, 2, 3])?;
    let copy = source.try_clone()?;
    source.clear()?;
    drop(source);
    assert_eq!(copy.to_vec()?, [1, 2, 3]);
    assert_eq!(DeviceBuffer::<u64>::zeroed(gpu(), 0)?.try_clone()?.len(), 0);
    Ok(())
}

#[test]
fn boxes_hold_one_value() -> GpuResult<()> {
    let mut value = DeviceBox::new(gpu(), &[1.5f32, 2.5])?;
    assert_eq!(value.get()?, [1.5, 2.5]);
    value.set(&[3.5, 4.5])?;
    assert_eq!(value.get()?, [3.5, 4.5]);
    let mut word = DeviceBox::<u32>::zeroed(gpu())?;
    assert_eq!(word.get()?, 0);
    fill(gpu(), &mut word, 8)?;
    assert_eq!(word.get()?, 8);
    Ok(())
}

#[test]
fn unified_memory_is_shared_in_place() -> GpuResult<()> {
    for len in [0, 1, 1000, 65_537] {
        let mut buffer = UnifiedBuffer::from_slice(gpu(), &vec![1u32; len])?;
        assert_eq!((buffer.len(), buffer.is_empty()), (len, len == 0));
        for value in buffer.as_mut_slice()? {
            *value += 1;
        }
        let mut out = UnifiedBuffer::zeroed(gpu(), len)?;
        let mut five = UnifiedBox::new(gpu(), &4)?;
        *five.get_mut()? += 1;
        add(gpu(), &five, &buffer, &mut out)?;
        assert_eq!(out.as_slice()?, vec![7; len]);
        assert_eq!(out.as_device_slice().to_vec()?, vec![7; len]);
        assert_eq!(*five.get()?, 5);
    }
    Ok(())
}

#[test]
fn too_much_memory_is_an_error_that_counts() -> GpuResult<()> {
    let (_, total) = gpu().memory_info()?;
    let error = DeviceBuffer::<u8>::zeroed(gpu(), total + 1).unwrap_err();
    let GpuError::OutOfMemory { requested, free, total: said, .. } = error else {
        panic!("{error}")
    };
    assert!(requested == total + 1 && free <= total && said == total, "{error}");
    assert!(error.to_string().starts_with("out of GPU memory: "), "{error}");
    for len in [usize::MAX, usize::MAX / 8 + 1, isize::MAX as usize / 8 + 1] {
        let error = DeviceBuffer::<u64>::zeroed(gpu(), len).unwrap_err();
        assert!(matches!(error, GpuError::OutOfMemory { requested: usize::MAX, .. }), "{error}");
        let error = UnifiedBuffer::<u64>::zeroed(gpu(), len).unwrap_err();
        assert!(matches!(error, GpuError::OutOfMemory { .. }), "{error}");
    }
    assert_eq!(DeviceBuffer::from_slice(gpu(), &[5u8])?.to_vec()?, [5]);
    Ok(())
}

#[test]
fn memory_comes_back() -> GpuResult<()> {
    let (_, total) = gpu().memory_info()?;
    // More in sum than there is.
    let len = total / 4;
    for _ in 0..6 {
        // SAFETY: it is never read.
        drop(unsafe { DeviceBuffer::<u8>::uninitialized(gpu(), len)? });
    }
    Ok(())
}
