//! The released `cust`, unchanged, on either backend. That this file links is itself a test: the
//! symbols come from this crate, and no CUDA toolkit is needed.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use cuda_driver::{Backend, backend, take_detail};
use cust::context::legacy::{ContextStack, CurrentContext as LegacyCurrent};
use cust::context::{CacheConfig, Context, ContextFlags, CurrentContext, ResourceLimit};
use cust::device::{Device, DeviceAttribute};
use cust::error::CudaError;
use cust::event::{Event, EventFlags, EventStatus};
use cust::function::{BlockSize, FunctionAttribute, GridSize};
use cust::launch;
use cust::link::Linker;
use cust::memory::array::{ArrayFormat, ArrayObject};
use cust::memory::{
    AsyncCopyDestination, CopyDestination, DeviceBox, DeviceBuffer, LockedBuffer, UnifiedBox,
    UnifiedBuffer, mem_get_info,
};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags, StreamWaitEventFlags};

const KERNELS: &str = include_str!("common/kernels.ptx");

type Tested = Result<(), Box<dyn Error>>;

/// The primary context, and a stream.
fn start() -> Result<(Context, Stream), CudaError> {
    let context = cust::quick_init()?;
    Ok((context, Stream::new(StreamFlags::DEFAULT, None)?))
}

#[test]
fn vecadd_over_device_buffers() -> Tested {
    let (_context, stream) = start()?;
    assert!(backend().is_some());
    let module = Module::from_ptx(KERNELS, &[])?;
    let n = 10_000_usize;
    let a: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..n).map(|i| 0.25 * i as f32).collect();
    let (da, db) = (DeviceBuffer::from_slice(&a)?, DeviceBuffer::from_slice(&b)?);
    let dc = DeviceBuffer::<f32>::zeroed(n)?;
    let (blocks, length) = (n.div_ceil(256) as u32, n as u32);
    // SAFETY: the kernel's parameters in their order; the buffers have `n` elements.
    unsafe {
        launch!(module.vecadd<<<blocks, 256, 0, stream>>>(
            da.as_device_ptr(),
            db.as_device_ptr(),
            dc.as_device_ptr(),
            length
        ))?;
    }
    stream.synchronize()?;
    let mut c = vec![0.0; n];
    dc.copy_to(&mut c)?;
    assert!(a.iter().zip(&b).zip(&c).all(|((a, b), c)| a + b == *c));
    Ok(())
}

#[test]
fn unified_memory_is_shared_with_kernels() -> Tested {
    let (_context, stream) = start()?;
    let module = Module::from_ptx(KERNELS, &[])?;
    let a = UnifiedBuffer::from_slice(&[1.0_f32, 2.0, 3.0])?;
    let mut b = UnifiedBuffer::from_slice(&[10.0_f32, 20.0, 30.0])?;
    let (mut a, mut c) = (a, UnifiedBuffer::new(&0.0_f32, 3)?);
    // SAFETY: the kernel's parameters in their order; the buffers have three elements.
    unsafe {
        launch!(module.vecadd<<<1, 32, 0, stream>>>(
            a.as_unified_ptr(),
            b.as_unified_ptr(),
            c.as_unified_ptr(),
            3_u32
        ))?;
    }
    stream.synchronize()?;
    assert_eq!(c.as_slice(), [11.0, 22.0, 33.0]);
    b.as_mut_slice()[0] = 5.0;
    let one = UnifiedBox::new(7_u32)?;
    assert_eq!(*one, 7);
    Ok(())
}

#[test]
fn streams_events_and_callbacks() -> Tested {
    let (_context, stream) = start()?;
    let module = Module::from_ptx(KERNELS, &[])?;
    let cell = DeviceBox::new(&1_u32)?;
    let (start, end) = (Event::new(EventFlags::DEFAULT)?, Event::new(EventFlags::DEFAULT)?);
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    start.record(&stream)?;
    // SAFETY: the kernel's parameters in their order.
    unsafe {
        launch!(module.double_and_add<<<1, 1, 0, stream>>>(cell.as_device_ptr(), 3_u32))?;
    }
    stream.add_callback(Box::new(move || {
        counted.fetch_add(1, Ordering::SeqCst);
    }))?;
    end.record(&stream)?;
    end.synchronize()?;
    assert_eq!(end.query()?, EventStatus::Ready);
    assert!(end.elapsed_time_f32(&start)? >= 0.0);
    assert_eq!((cell.as_host_value()?, calls.load(Ordering::SeqCst)), (5, 1));
    let other = Stream::new(StreamFlags::NON_BLOCKING, Some(-1))?;
    other.wait_event(end, StreamWaitEventFlags::DEFAULT)?;
    other.synchronize()?;
    other.get_priority()?;
    Ok(())
}

#[test]
fn copies_and_fills_on_a_stream() -> Tested {
    let (_context, stream) = start()?;
    let source = LockedBuffer::new(&6_u64, 100)?;
    let mut target = LockedBuffer::new(&0_u64, 100)?;
    // SAFETY: the buffers live until the stream is synchronised.
    unsafe {
        let mut buffer = DeviceBuffer::<u64>::uninitialized_async(100, &stream)?;
        buffer.async_copy_from(source.as_slice(), &stream)?;
        buffer.async_copy_to(target.as_mut_slice(), &stream)?;
        stream.synchronize()?;
        buffer.drop_async(&stream)?;
    }
    stream.synchronize()?;
    assert_eq!(target.as_slice(), source.as_slice());
    let zeroed = DeviceBuffer::<u32>::zeroed(33)?;
    assert_eq!(zeroed.as_host_vec()?, vec![0; 33]);
    Ok(())
}

#[test]
fn modules_functions_and_the_linker() -> Tested {
    let (_context, stream) = start()?;
    let module = Module::from_ptx(KERNELS, &[])?;
    let mut answer = 0_u32;
    module.get_global::<u32>(c"answer")?.copy_to(&mut answer)?;
    assert_eq!(answer, 42);
    assert_eq!(module.get_function("vecsub").err(), Some(CudaError::NotFound));
    let mut function = module.get_function("store_shared")?;
    assert_eq!(function.get_attribute(FunctionAttribute::SharedMemorySizeBytes)?, 1024);
    function.set_cache_config(CacheConfig::PreferShared)?;
    let (grid, block) = function.suggested_launch_configuration(0, BlockSize::x(256))?;
    assert!(grid > 0 && block == 256, "{grid} of {block}");
    let free = function.available_dynamic_shared_memory_per_block(GridSize::x(1), block.into())?;
    assert!(free > 0);
    let mut linker = Linker::new()?;
    linker.add_ptx(KERNELS)?;
    let linked = Module::from_cubin(linker.complete()?, &[])?;
    let cell = DeviceBox::new(&0_u32)?;
    // SAFETY: the kernel's parameters in their order.
    unsafe { launch!(linked.store<<<1, 1, 0, stream>>>(cell.as_device_ptr(), 8_u32))? };
    stream.synchronize()?;
    assert_eq!(cell.as_host_value()?, 8);
    Ok(())
}

#[test]
fn a_module_that_does_not_load_leaves_its_log() -> Tested {
    let (_context, _stream) = start()?;
    assert_eq!(
        Module::from_ptx(".version 7.0\n.target sm_70\nnot PTX", &[]).err(),
        Some(CudaError::InvalidPtx)
    );
    let text = take_detail().ok_or("no detail")?.text;
    assert!(text.starts_with("cuModuleLoadDataEx: ") && text.len() > 30, "{text}");
    let newer = KERNELS.replace(".version 7.0", ".version 99.0");
    assert_eq!(Module::from_ptx(newer, &[]).err(), Some(CudaError::UnknownError));
    assert_eq!(take_detail().ok_or("no detail")?.code, 222);
    Ok(())
}

#[test]
fn the_device_and_its_context_answer() -> Tested {
    let (context, _stream) = start()?;
    let device = Device::get_device(0)?;
    assert!(Device::num_devices()? >= 1);
    if backend() == Some(Backend::Emulator) {
        assert_eq!(device.name()?, "Ferrowarp emulator");
    }
    assert_eq!(device.get_attribute(DeviceAttribute::WarpSize)?, 32);
    assert!(device.total_memory()? > 0 && mem_get_info()?.1 > 0);
    assert!(CurrentContext::get_resource_limit(ResourceLimit::StackSize)? > 0);
    CurrentContext::set_cache_config(CacheConfig::PreferL1)?;
    CurrentContext::get_cache_config()?;
    CurrentContext::get_shared_memory_config()?;
    CurrentContext::get_stream_priority_range()?;
    assert!(context.get_api_version()?.major() >= 3);
    Ok(())
}

#[test]
fn legacy_contexts_stack() -> Tested {
    let (_primary, _stream) = start()?;
    let device = Device::get_device(0)?;
    let flags = ContextFlags::MAP_HOST | ContextFlags::SCHED_AUTO;
    let flags = cust::context::legacy::ContextFlags::from_bits_truncate(flags.bits());
    let context = cust::context::legacy::Context::create_and_push(flags, device)?;
    assert_eq!(LegacyCurrent::get_device()?.as_raw(), device.as_raw());
    ContextStack::pop()?;
    ContextStack::push(&context)?;
    LegacyCurrent::synchronize()?;
    Ok(())
}

#[test]
fn errors_have_words() -> Tested {
    let (_context, _stream) = start()?;
    assert!(CudaError::IllegalAddress.to_string().len() > 5);
    let block = DeviceBuffer::<u8>::from_slice(&[1, 2, 3])?;
    drop(block);
    Ok(())
}

#[test]
fn arrays_take_and_give_their_elements() -> Tested {
    let (_context, _stream) = start()?;
    let mut line = ArrayObject::new_1d(37, ArrayFormat::U32, 1)?;
    let values: Vec<u32> = (0..37).collect();
    let mut back = vec![0_u32; 37];
    line.copy_from(&values)?;
    line.copy_to(&mut back)?;
    assert_eq!(back, values);
    let mut picture = ArrayObject::new_2d([7, 5], ArrayFormat::U32, 1)?;
    let values: Vec<u32> = (0..35).collect();
    let mut back = vec![0_u32; 35];
    picture.copy_from(&values)?;
    picture.copy_to(&mut back)?;
    assert_eq!(back, values);
    assert_eq!(picture.descriptor()?.dims(), [7, 5, 0]);
    Ok(())
}
