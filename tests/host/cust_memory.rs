//! Launches and operations with memory and streams of the released `cust`.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use cuda_driver::sys;
use cust::context::Context;
use cust::memory::{CopyDestination, DeviceBox, DeviceBuffer, UnifiedBox, UnifiedBuffer};
use cust::stream::{Stream, StreamFlags};
use ferrowarp::cust::CustStream;
use ferrowarp::{GpuError, GpuResult, GraphBuilder, LaunchConfig};

use crate::gate::Gate;
use crate::kernels::{TOO_MANY, add, churn, churned, fill, gpu, launch};

const LEN: usize = 5000;

fn context() -> Context {
    gpu();
    cust::quick_init().expect("the device that the tests share")
}

fn values<T: cust::memory::DeviceCopy + Default>(buffer: &DeviceBuffer<T>) -> GpuResult<Vec<T>> {
    let mut host = vec![T::default(); buffer.len()];
    buffer.copy_to(&mut host)?;
    Ok(host)
}

#[test]
fn a_kernel_reads_and_writes_each_kind_of_memory() -> GpuResult<()> {
    let _context = context();
    let one = DeviceBox::new(&1u32)?;
    let mut unified = UnifiedBuffer::new(&2u32, LEN)?;
    let mut device = DeviceBuffer::from_slice(&[0u32; LEN])?;
    add(gpu(), &one, &unified, &mut device)?;
    assert_eq!(values(&device)?, [3; LEN]);
    add(gpu(), &UnifiedBox::new(5u32)?, &device, &mut unified)?;
    assert_eq!(unified.as_slice(), [8; LEN]);
    let mut boxed = DeviceBox::new(&0u32)?;
    fill(gpu(), &mut boxed, 7)?;
    assert_eq!(boxed.as_host_value()?, 7);
    Ok(())
}

#[test]
fn it_goes_with_this_crates_memory() -> GpuResult<()> {
    let _context = context();
    let mut own = ferrowarp::DeviceBuffer::from_slice(gpu(), &[4u32; LEN])?;
    let one = ferrowarp::DeviceBox::new(gpu(), &1u32)?;
    let mut device = DeviceBuffer::from_slice(&[0u32; LEN])?;
    add(gpu(), &one, &own, &mut device)?;
    add(gpu(), &one, &device, &mut own)?;
    assert_eq!(own.to_vec()?, [6; LEN]);
    Ok(())
}

/// A kernel is still in its gate when the launcher is called; the launcher returns after it.
#[test]
fn a_launch_waits_for_the_kernel() -> GpuResult<()> {
    let _context = context();
    let stream = gpu().create_stream()?;
    let mut unified = UnifiedBuffer::from_slice(&[1u32; LEN])?;
    churn(&stream, &mut unified, 1)?;
    let (gate, opened) = (Gate::on(&stream), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(50));
            opened.store(true, Ordering::Release);
            gate.open();
        });
        fill(&stream, &mut unified, 9)?;
        assert!(opened.load(Ordering::Acquire), "the launch has not waited for its kernel");
        assert_eq!(unified.as_slice(), [9; LEN]);
        Ok(())
    })
}

/// What `cust` has enqueued on the default stream comes first.
#[test]
fn a_launch_comes_after_the_default_stream() -> GpuResult<()> {
    let _context = context();
    let one = ferrowarp::DeviceBox::new(gpu(), &1u32)?;
    let from = DeviceBuffer::from_slice(&[0u32; LEN])?;
    let mut to = DeviceBuffer::from_slice(&[0u32; LEN])?;
    let address = from.as_device_ptr().as_raw();
    // SAFETY: the memory has as many words; a memset of device memory does not wait for its end.
    let code = unsafe { sys::cuMemsetD32Async(address, 6, LEN, ptr::null_mut()) };
    assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
    add(gpu(), &one, &from, &mut to)?;
    assert_eq!(values(&to)?, [7; LEN]);
    Ok(())
}

#[test]
fn a_stream_of_cust_is_one_of_this_crate() -> GpuResult<()> {
    let _context = context();
    let stream = CustStream::new(gpu(), Stream::new(StreamFlags::DEFAULT, None)?)?;
    let mut own = ferrowarp::DeviceBuffer::<u32>::zeroed(&stream, LEN)?;
    fill(&stream, &mut own, 3)?;
    churn(&stream, &mut own, 5)?;
    stream.synchronize()?;
    // The memory's home is the stream, which it keeps.
    drop(stream);
    fill(gpu(), &mut own, 3)?;
    churn(gpu(), &mut own, 2)?;
    assert_eq!(own.to_vec()?, [churned(3, 2); LEN]);
    Ok(())
}

/// No launch waits any more, and the memory is freed by `cust`, once.
#[test]
fn a_buffer_of_cust_becomes_one_of_this_crate() -> GpuResult<()> {
    let _context = context();
    let stream = gpu().create_stream()?;
    churn(&stream, &mut ferrowarp::DeviceBuffer::<u32>::zeroed(&stream, 1)?, 1)?;
    let theirs = DeviceBuffer::from_slice(&[0u32; LEN])?;
    let address = theirs.as_device_ptr().as_raw();
    // SAFETY: the memory has as many words; a memset of device memory does not wait for its end.
    let code = unsafe { sys::cuMemsetD32Async(address, 6, LEN, ptr::null_mut()) };
    assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
    let mut words = ferrowarp::DeviceBuffer::from_cust(&stream, theirs)?;
    assert_eq!((words.as_device_ptr().address(), words.len()), (address, LEN));
    let gate = Gate::on(&stream);
    churn(&stream, &mut words, 3)?;
    assert!(!stream.is_idle()?, "the launch has waited");
    gate.open();
    assert_eq!(words.to_vec()?, [churned(6, 3); LEN]);
    Ok(())
}

#[test]
fn an_empty_buffer_of_cust_becomes_one_of_this_crate() -> GpuResult<()> {
    let _context = context();
    let none = ferrowarp::DeviceBuffer::from_cust(gpu(), DeviceBuffer::<u64>::from_slice(&[])?)?;
    assert!(none.is_empty() && none.to_vec()?.is_empty());
    Ok(())
}

#[test]
fn an_empty_buffer_is_an_argument() -> GpuResult<()> {
    let _context = context();
    let mut none = DeviceBuffer::<u32>::from_slice(&[])?;
    launch(gpu(), &crate::kernels::FILL, LaunchConfig::for_num_elems(1), &mut none, 1)
}

#[test]
fn a_graph_and_a_batch_refuse_it() -> GpuResult<()> {
    let _context = context();
    let mut words = DeviceBuffer::from_slice(&[0u32; 4])?;
    let batched = gpu().batch((), |batch, ()| fill(batch, &mut words, 1));
    let text = batched.unwrap_err().to_string();
    assert!(text.contains("of another library"), "{text}");
    let graph = GraphBuilder::new(gpu());
    let recorded = fill(&graph.node("fill"), &mut words, 1);
    let text = recorded.unwrap_err().to_string();
    assert!(text.contains("of another library"), "{text}");
    assert_eq!(values(&words)?, [0; 4]);
    Ok(())
}

#[test]
fn a_refused_launch_leaves_the_memory_usable() -> GpuResult<()> {
    let _context = context();
    let mut words = DeviceBuffer::from_slice(&[2u32; 4])?;
    let config = LaunchConfig::for_num_elems(4);
    let error = launch(gpu(), &TOO_MANY, config, &mut words, 1).unwrap_err();
    assert!(!matches!(error.root(), GpuError::DeviceLost { .. }), "{error}");
    fill(gpu(), &mut words, 8)?;
    assert_eq!(values(&words)?, [8; 4]);
    Ok(())
}

/// `cust` gets 999 for a code that its enum lacks, and the error has the true one.
#[test]
fn an_error_of_cust_has_the_true_code() {
    let _context = context();
    let text: *const c_void = c"this is no PTX".as_ptr().cast();
    let mut module = ptr::null_mut();
    // SAFETY: `module` is writable, and the image is a text with a NUL at its end.
    let code = unsafe { sys::cuModuleLoadData(&mut module, text.cast_mut()) };
    let loaded = cust::module::Module::from_ptx("this is no PTX", &[]);
    let error = GpuError::from(loaded.map(drop).unwrap_err());
    assert_eq!(error.driver().map(|driver| driver.code()), Some(code.code()), "{error}");
    assert!(error.driver().and_then(|driver| driver.detail()).is_some(), "{error}");
}
