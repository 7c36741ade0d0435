//! Tensors of DLPack: those of this crate's memory, and those of other code, which here takes its memory from the driver.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use std::{mem, ptr, thread};

use cuda_driver::sys;
use cuda_std::number::{E4m3, E5m2};
use cuda_std::{bf16, f16};
use dlpark::ffi::{
    DLDataType, DLDevice, DLDeviceType, DLManagedTensor, DLManagedTensorVersioned, DLTensor,
};
use dlpark::metadata::Dynamic;
use dlpark::{DlpackFlags, Managed, ManagedTensorBase};
use ferrowarp::dlpack::{ConsumerStream, Element, ReadOnly, share};
use ferrowarp::memory::resource::StreamRef;
use ferrowarp::{
    AsStream, Backend, DeviceBox, DeviceBuffer, GpuError, GpuResult, PinnedBuffer, UnifiedBuffer,
    backend,
};

use crate::adopted::{LEN, Owner, Raw};
use crate::gate::{Gate, PATIENCE};
use crate::kernels::{add, churn, churned, gpu};

type Versioned = DLManagedTensorVersioned;
type Legacy = DLManagedTensor;

fn is_emulated() -> bool {
    backend().unwrap() == Backend::Emulator
}

/// How often the deleter of a tensor was called.
#[derive(Clone, Default)]
struct Deletions(Arc<AtomicUsize>);

impl Deletions {
    fn now(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    /// Waits for the first one, while this thread calls the driver. Returns how many there are then.
    fn soon(&self) -> usize {
        let end = Instant::now() + PATIENCE;
        while self.now() == 0 && Instant::now() < end {
            gpu().memory_info().unwrap();
        }
        self.now()
    }
}

/// Counts its drop, as the owner of [`words`].
struct Theirs(Deletions);

impl Drop for Theirs {
    fn drop(&mut self) {
        self.0.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// The address of `LEN` words of the driver's, 3 each, and what owns them. They are not freed: the driver would wait for the device,
/// on the thread of another test perhaps, which has closed a gate.
fn words() -> (u64, Theirs) {
    let memory = Owner::new();
    let address = memory.address;
    mem::forget(memory);
    (address, Theirs(Deletions::default()))
}

/// A buffer of [`words`], whose uses the stream of `on` orders.
fn adopted(on: &impl AsStream) -> GpuResult<(DeviceBuffer<u32>, Deletions)> {
    let (address, owner) = words();
    let deletions = owner.0.clone();
    // SAFETY: the words are written, and no other code has them.
    Ok((unsafe { DeviceBuffer::from_raw_parts(on, address, LEN, owner) }?, deletions))
}

/// A tensor of other code, of `LEN` words that are 3 each.
fn theirs<M: ManagedTensorBase>(shape: &[i64], strides: &[i64]) -> (Managed<M>, Deletions) {
    edited(shape, strides, DlpackFlags::empty(), |_| ())
}

/// As [`theirs`], after `edit` has changed its description.
fn edited<M: ManagedTensorBase>(
    shape: &[i64],
    strides: &[i64],
    flags: DlpackFlags,
    edit: impl FnOnce(&mut DLTensor),
) -> (Managed<M>, Deletions) {
    let (address, owner) = words();
    let deletions = owner.0.clone();
    let mut tensor = Dynamic::new(shape, strides).initialize_as::<M>(Box::new(owner)).unwrap();
    tensor.set_data(ptr::with_exposed_provenance_mut(address as usize));
    tensor.set_dtype(DLDataType::U32).set_device(DLDevice::cuda(0));
    tensor.set_flags(flags).unwrap();
    edit(tensor.tensor_mut());
    // SAFETY: the tensor has its memory; where a test has made the description wrong, it is refused.
    (unsafe { tensor.finish() }, deletions)
}

/// The tensor as a buffer, to be written.
fn import<M: ManagedTensorBase + 'static>(tensor: Managed<M>) -> GpuResult<DeviceBuffer<u32>> {
    // SAFETY: no other code uses the words, which are written.
    unsafe { DeviceBuffer::from_dlpack(gpu(), tensor) }
}

/// Checks that a tensor of either form whose description was edited is refused with these words, and deleted once.
#[track_caller]
fn refused(shape: &[i64], strides: &[i64], words: &[&str], edit: impl Fn(&mut DLTensor)) {
    let (tensor, deletions) = edited::<Versioned>(shape, strides, DlpackFlags::empty(), &edit);
    assert_says(&import(tensor).unwrap_err(), words);
    assert_eq!(deletions.now(), 1);
    let (tensor, deletions) = edited::<Legacy>(shape, strides, DlpackFlags::empty(), &edit);
    assert_says(&import(tensor).unwrap_err(), words);
    assert_eq!(deletions.now(), 1);
}

#[track_caller]
fn assert_says(error: &GpuError, words: &[&str]) {
    let text = error.to_string();
    for words in words {
        assert!(text.contains(words), "`{words}` is not in: {text}");
    }
}

fn round_trip<M: ManagedTensorBase + 'static>() -> GpuResult<()> {
    let values: Vec<u32> = (0..24).collect();
    let own = DeviceBuffer::from_slice(gpu(), &values)?;
    let address = own.as_device_ptr().address();
    let tensor: Managed<M> = own.into_dlpack(&[2, 3, 4], ConsumerStream::OMITTED)?;
    let view = tensor.validate_export().unwrap();
    assert_eq!((view.shape(), view.strides()), (&[2, 3, 4][..], Some(&[12, 4, 1][..])));
    assert!(view.dtype().matches(DLDataType::U32));
    assert_eq!(view.device(), if is_emulated() { DLDevice::CPU } else { DLDevice::cuda(0) });
    assert_eq!((view.data_ptr().addr() as u64, view.byte_offset()), (address, 0));
    assert!(tensor.flags().is_empty());
    if is_emulated() {
        // SAFETY: the memory is the host's, and the export has waited for what writes it.
        assert_eq!(unsafe { view.cpu_slice::<u32>() }.unwrap(), values);
    }
    let mut own = import(tensor)?;
    assert_eq!((own.as_device_ptr().address(), own.to_vec()?), (address, values));
    churn(gpu(), &mut own, 1)?;
    assert_eq!(own.to_vec()?[23], churned(23, 1));
    Ok(())
}

#[test]
fn a_buffer_becomes_a_tensor_of_either_form_and_a_buffer_again() -> GpuResult<()> {
    round_trip::<Versioned>()?;
    round_trip::<Legacy>()
}

fn round_trip_of<T: Element + PartialEq>(value: T, expected: DLDataType) -> GpuResult<()> {
    let own = DeviceBuffer::from_slice(gpu(), &[value; 5])?;
    let tensor: Managed<Versioned> = own.into_dlpack(&[5], ConsumerStream::OMITTED)?;
    let found = tensor.validate().unwrap().dtype();
    assert!(found.matches(expected), "{found:?} is not {expected:?}");
    // SAFETY: no other code has the tensor, which this stream has written.
    let own = unsafe { DeviceBuffer::<T>::from_dlpack(gpu(), tensor) }?;
    assert!(own.to_vec()? == [value; 5]);
    Ok(())
}

#[test]
fn every_type_of_elements_makes_the_round() -> GpuResult<()> {
    round_trip_of(-1i8, DLDataType::I8)?;
    round_trip_of(-2i16, DLDataType::I16)?;
    round_trip_of(-3i32, DLDataType::I32)?;
    round_trip_of(-4i64, DLDataType::I64)?;
    round_trip_of(1u8, DLDataType::U8)?;
    round_trip_of(2u16, DLDataType::U16)?;
    round_trip_of(3u32, DLDataType::U32)?;
    round_trip_of(4u64, DLDataType::U64)?;
    round_trip_of(f16::from_f32(0.5), DLDataType::F16)?;
    round_trip_of(bf16::from_f32(0.25), DLDataType::BF16)?;
    round_trip_of(1.5f32, DLDataType::F32)?;
    round_trip_of(2.5f64, DLDataType::F64)?;
    round_trip_of(E4m3::saturating(3.0), DLDataType::F8E4M3FN)?;
    round_trip_of(E5m2::saturating(4.0), DLDataType::F8E5M2)
}

#[test]
fn shapes_may_be_scalars_or_empty() -> GpuResult<()> {
    let one = DeviceBuffer::from_slice(gpu(), &[9u32])?;
    let scalar: Managed<Versioned> = one.into_dlpack(&[], ConsumerStream::OMITTED)?;
    assert_eq!(scalar.validate_export().unwrap().ndim(), 0);
    assert_eq!(import(scalar)?.to_vec()?, [9]);
    let none = DeviceBuffer::<u32>::zeroed(gpu(), 0)?;
    let empty: Managed<Legacy> = none.into_dlpack(&[4, 0], ConsumerStream::OMITTED)?;
    let view = empty.validate_export().unwrap();
    assert_eq!((view.shape(), view.data_ptr()), (&[4, 0][..], ptr::null()));
    assert!(import(empty)?.to_vec()?.is_empty());
    Ok(())
}

#[test]
fn memory_that_the_host_reaches_becomes_a_tensor_too() -> GpuResult<()> {
    let mut unified = UnifiedBuffer::from_slice(gpu(), &[5u32; 6])?;
    churn(gpu(), &mut unified, 3)?;
    let expected = [churned(5, 3); 6];
    let tensor: Managed<Versioned> = unified.into_dlpack(&[3, 2], ConsumerStream::OMITTED)?;
    let device_type = if is_emulated() { DLDeviceType::CPU } else { DLDeviceType::CUDAMANAGED };
    assert_eq!(tensor.validate().unwrap().device(), DLDevice { device_type, device_id: 0 });
    // On a GPU the default stream waits, and this one not yet.
    gpu().synchronize()?;
    assert_eq!(import(tensor)?.to_vec()?, expected);

    let pinned = PinnedBuffer::from_slice(gpu(), &[6u32, 7])?;
    let tensor: Managed<Legacy> = pinned.into_dlpack(&[2])?;
    let view = tensor.validate().unwrap();
    let device_type = if is_emulated() { DLDeviceType::CPU } else { DLDeviceType::CUDAHOST };
    assert_eq!(view.device(), DLDevice { device_type, device_id: 0 });
    // SAFETY: the memory is the host's.
    let values: &[u32] = unsafe { std::slice::from_raw_parts(view.data_ptr().cast(), 2) };
    assert_eq!(values, [6, 7]);
    assert_says(&import(tensor).unwrap_err(), &["memory"]);
    Ok(())
}

#[test]
fn exports_that_cannot_be_are_refused() -> GpuResult<()> {
    let buffer = || DeviceBuffer::<u32>::zeroed(gpu(), 6);
    let export =
        |shape: &[usize], stream| buffer()?.into_dlpack::<Versioned>(shape, stream).map(drop);
    for shape in [&[5][..], &[], &[2, 4], &[usize::MAX, 2]] {
        let error = export(shape, ConsumerStream::NO_SYNC).unwrap_err();
        assert!(matches!(error, GpuError::SizeMismatch { found: 6, .. }), "{error}");
    }
    for stream in [0, -2] {
        // SAFETY: it is not a stream, and is refused.
        let stream = unsafe { ConsumerStream::from_raw(Some(stream)) };
        assert_says(&export(&[6], stream).unwrap_err(), &["the consumer's stream is"]);
    }
    Ok(())
}

/// What `raw` has done, after the gate of the exported buffer's stream was opened.
fn consumed(stream: ConsumerStream, raw: sys::CUstream) -> GpuResult<()> {
    let own = gpu().create_stream()?;
    let mut words = DeviceBuffer::from_slice(&own, &[3u32; LEN])?;
    churn(&own, &mut words, 1)?;
    let mut copied = vec![0u32; LEN];
    let gate = Gate::on(&own);
    churn(&own, &mut words, 1)?;
    let tensor: Managed<Versioned> = words.into_dlpack(&[LEN], stream)?;
    let address = tensor.validate().unwrap().data_ptr().addr() as u64;
    thread::scope(|scope| {
        let opener = scope.spawn(|| {
            thread::sleep(Duration::from_millis(50));
            gate.open();
        });
        let place = copied.as_mut_ptr().cast::<c_void>();
        // SAFETY: the words and the place are there until the stream is done.
        let codes = unsafe {
            [sys::cuMemcpyDtoHAsync_v2(place, address, 4 * LEN, raw), sys::cuStreamSynchronize(raw)]
        };
        assert_eq!(codes, [sys::CUresult::CUDA_SUCCESS; 2]);
        opener.join().unwrap();
    });
    assert_eq!(copied, [churned(3, 2); LEN]);
    Ok(())
}

#[test]
fn the_consumers_stream_waits_for_the_buffers_work() -> GpuResult<()> {
    let raw = Raw::new();
    // SAFETY: the stream lives.
    consumed(unsafe { ConsumerStream::from_raw(Some(raw.0.addr().cast_signed())) }, raw.0)?;
    consumed(ConsumerStream::LEGACY_DEFAULT, ptr::without_provenance_mut(1))?;
    consumed(ConsumerStream::PER_THREAD_DEFAULT, ptr::without_provenance_mut(2))?;
    if !is_emulated() {
        consumed(ConsumerStream::OMITTED, ptr::null_mut())?;
    }
    Ok(())
}

#[test]
fn without_synchronization_nothing_waits() -> GpuResult<()> {
    let own = gpu().create_stream()?;
    let words = DeviceBuffer::from_slice(&own, &[3u32; LEN])?;
    let gate = Gate::on(&own);
    let tensor: Managed<Versioned> = words.into_dlpack(&[LEN], ConsumerStream::NO_SYNC)?;
    assert!(!own.is_idle()?);
    gate.open();
    drop(tensor);
    Ok(())
}

/// A tensor of the CPU has no stream that could wait.
#[test]
fn on_the_emulator_the_thread_waits_for_a_tensor_without_a_stream() -> GpuResult<()> {
    if !is_emulated() {
        return Ok(());
    }
    let own = gpu().create_stream()?;
    let mut words = DeviceBuffer::from_slice(&own, &[3u32; LEN])?;
    churn(&own, &mut words, 1)?;
    let gate = Gate::on(&own);
    churn(&own, &mut words, 1)?;
    let (sender, exported) = mpsc::channel();
    thread::spawn(move || {
        let tensor: GpuResult<Managed<Legacy>> = words.into_dlpack(&[LEN], ConsumerStream::OMITTED);
        sender.send(tensor).unwrap();
    });
    assert!(exported.recv_timeout(Duration::from_millis(50)).is_err(), "it waits");
    gate.open();
    let tensor = exported.recv_timeout(PATIENCE).unwrap()?;
    let view = tensor.validate().unwrap();
    // SAFETY: the memory is the host's, and what writes it is done.
    assert_eq!(unsafe { view.cpu_slice::<u32>() }.unwrap(), [churned(3, 2); LEN]);
    Ok(())
}

/// The consumer's last use may still run when it drops the tensor.
#[test]
fn an_exported_tensor_is_freed_after_the_consumers_work() -> GpuResult<()> {
    let (words, deletions) = adopted(gpu())?;
    let tensor: Managed<Versioned> = words.into_dlpack(&[LEN], ConsumerStream::NO_SYNC)?;
    let consumer = gpu().create_stream()?;
    let gate = Gate::on(&consumer);
    let dropping = thread::spawn(move || drop(tensor));
    thread::sleep(Duration::from_millis(50));
    assert!(!dropping.is_finished() && deletions.now() == 0, "it is still used");
    gate.open();
    dropping.join().unwrap();
    assert_eq!(deletions.soon(), 1);
    Ok(())
}

/// In a capture and in a host callback the driver cannot be asked to wait.
#[test]
fn an_exported_tensor_may_be_dropped_on_any_thread() -> GpuResult<()> {
    for in_capture in [false, true] {
        let (words, deletions) = adopted(gpu())?;
        let tensor: Managed<Versioned> = words.into_dlpack(&[LEN], ConsumerStream::NO_SYNC)?;
        let stream = gpu().create_stream()?;
        if in_capture {
            let own = DeviceBuffer::from_slice(&stream, &[3u32])?;
            stream.capture(|_| {
                drop(tensor);
                Ok(())
            })?;
            drop(own);
        } else {
            stream.launch_host_func(move || drop(tensor))?.wait()?;
        }
        assert_eq!(deletions.soon(), 1);
    }
    Ok(())
}

#[test]
fn a_shared_part_is_read_only_and_keeps_the_buffer() -> GpuResult<()> {
    let (words, deletions) = adopted(gpu())?;
    let address = words.as_device_ptr().address();
    let words = Arc::new(words);
    let part = || share(&words, 64.., &[2, 96], ConsumerStream::OMITTED);
    let tensor = part()?;
    assert_eq!(tensor.flags(), DlpackFlags::READ_ONLY);
    assert_eq!(tensor.validate().unwrap().data_ptr().addr() as u64, address + 256);
    assert_says(&import(tensor).unwrap_err(), &["the tensor is read-only"]);
    let tensor = part()?;
    assert_eq!(words.to_vec()?, [3; LEN]);
    drop(words);
    // SAFETY: the words are written, and only read from now on.
    let part = unsafe { ReadOnly::<u32>::from_dlpack(gpu(), tensor) }?;
    assert_eq!(part.to_vec()?, [3; 192]);
    assert_eq!(deletions.now(), 0);
    drop(part);
    assert_eq!(deletions.soon(), 1);
    Ok(())
}

fn import_and_drop<M: ManagedTensorBase + 'static>() -> GpuResult<()> {
    let stream = gpu().create_stream()?;
    // What a first launch loads is loaded.
    churn(&stream, &mut DeviceBuffer::<u32>::zeroed(&stream, 1)?, 1)?;
    let (tensor, deletions) = theirs::<M>(&[16, 16], &[16, 1]);
    // SAFETY: no other code uses the words, which are written.
    let mut words = unsafe { DeviceBuffer::<u32>::from_dlpack(&stream, tensor) }?;
    churn(&stream, &mut words, 4)?;
    assert_eq!(words.to_vec()?, [churned(3, 4); LEN]);
    let gate = Gate::on(&stream);
    churn(&stream, &mut words, 4)?;
    drop(words);
    gpu().memory_info()?;
    assert_eq!(deletions.now(), 0, "a kernel still uses it");
    gate.open();
    stream.synchronize()?;
    assert_eq!(deletions.soon(), 1);
    Ok(())
}

#[test]
fn a_tensor_is_deleted_once_after_the_last_kernel() -> GpuResult<()> {
    import_and_drop::<Versioned>()?;
    import_and_drop::<Legacy>()
}

#[test]
fn a_tensor_is_deleted_once_whatever_becomes_of_it() -> GpuResult<()> {
    let (unused, deletions) = theirs::<Versioned>(&[256], &[1]);
    drop(unused);
    assert_eq!(deletions.now(), 1);

    let (idle, deletions) = theirs::<Legacy>(&[256], &[1]);
    drop(import(idle)?);
    assert_eq!(deletions.soon(), 1);

    // In another tensor, which this crate has exported.
    let (first, deletions) = theirs::<Versioned>(&[256], &[1]);
    let second: Managed<Legacy> = import(first)?.into_dlpack(&[256], ConsumerStream::OMITTED)?;
    assert_eq!(deletions.now(), 0);
    drop(second);
    assert_eq!(deletions.soon(), 1);

    let (captured, deletions) = theirs::<Versioned>(&[256], &[1]);
    let words = import(captured)?;
    gpu().create_stream()?.capture(|_| {
        drop(words);
        Ok(())
    })?;
    assert_eq!(deletions.soon(), 1);

    let (moved, deletions) = theirs::<Versioned>(&[256], &[1]);
    let words = import(moved)?;
    thread::spawn(move || drop(words)).join().unwrap();
    assert_eq!(deletions.soon(), 1);
    gpu().synchronize()?;
    assert_eq!(deletions.now(), 1);
    Ok(())
}

#[test]
fn a_tensor_without_elements_needs_no_memory() -> GpuResult<()> {
    let no_data = |tensor: &mut DLTensor| tensor.data = ptr::null_mut();
    let (tensor, deletions) = edited::<Versioned>(&[3, 0], &[7, -2], DlpackFlags::empty(), no_data);
    let none = import(tensor)?;
    assert!(none.is_empty() && none.to_vec()?.is_empty());
    drop(none);
    assert_eq!(deletions.soon(), 1);
    Ok(())
}

#[test]
fn strides_may_be_absent_or_those_of_single_elements() -> GpuResult<()> {
    let absent = |tensor: &mut DLTensor| tensor.strides = ptr::null_mut();
    let (tensor, _) = edited::<Legacy>(&[16, 16], &[0, 0], DlpackFlags::empty(), absent);
    assert_eq!(import(tensor)?.to_vec()?, [3; LEN]);
    let (tensor, _) = theirs::<Versioned>(&[1, 256, 1], &[-5, 1, 999]);
    assert_eq!(import(tensor)?.to_vec()?, [3; LEN]);
    // DLPack 1.2 and later have them.
    let (tensor, deletions) = edited::<Versioned>(&[256], &[0], DlpackFlags::empty(), absent);
    assert_says(&import(tensor).unwrap_err(), &["requires explicit strides"]);
    assert_eq!(deletions.now(), 1);
    Ok(())
}

#[test]
fn a_read_only_tensor_is_only_read() -> GpuResult<()> {
    let read_only = || edited::<Versioned>(&[256], &[1], DlpackFlags::READ_ONLY, |_| ());
    let (tensor, deletions) = read_only();
    assert_says(&import(tensor).unwrap_err(), &["read-only", "`ReadOnly`"]);
    assert_eq!(deletions.now(), 1);
    let (one, mut sums) = (DeviceBox::new(gpu(), &1u32)?, DeviceBuffer::zeroed(gpu(), LEN)?);
    for (tensor, deletions) in [read_only(), theirs(&[256], &[1])] {
        // SAFETY: no other code uses the words, which are written.
        let words = unsafe { ReadOnly::<u32>::from_dlpack(gpu(), tensor) }?;
        add(gpu(), &one, &words, &mut sums)?;
        assert_eq!(sums.to_vec()?, [4; LEN]);
        assert_eq!((words.len(), words.slice(7..9).to_vec()?), (LEN, vec![3; 2]));
        drop(words);
        assert_eq!(deletions.soon(), 1);
    }
    Ok(())
}

#[test]
fn elements_of_another_type_are_refused() {
    let check = |dtype, words: &[&str]| refused(&[64], &[1], words, |tensor| tensor.dtype = dtype);
    check(DLDataType::F32, &["its elements are float32", "the buffer's uint32"]);
    check(DLDataType::I32, &["are int32", "uint32"]);
    check(DLDataType::BOOL, &["are bool", "uint32"]);
    let vector = DLDataType { lanes: 4, ..DLDataType::U32 };
    check(vector, &["are uint32 in vectors of 4 lanes, and the buffer's uint32"]);
    check(DLDataType { lanes: 0, ..DLDataType::U32 }, &["lane count"]);
    check(DLDataType { bits: 0, ..DLDataType::U32 }, &["bit width"]);
}

#[test]
fn memory_elsewhere_is_refused() {
    let check = |device_type, device_id, words: &[&str]| {
        let device = DLDevice { device_type, device_id };
        refused(&[256], &[1], words, |tensor| tensor.device = device);
    };
    check(DLDeviceType::CUDA, 3, &["the tensor lives on GPU 3"]);
    check(DLDeviceType::CUDA, -1, &["the number -1"]);
    check(DLDeviceType::ROCM, 0, &["DLPack's type 10"]);
    check(DLDeviceType::CUDAHOST, 0, &["the host's memory"]);
    let host = vec![3u32; 2 * LEN];
    let aligned = host.as_ptr().addr().next_multiple_of(256);
    for device in [DLDevice::CPU, DLDevice::cuda(0)] {
        refused(&[64], &[1], &["memory"], |tensor| {
            tensor.device = device;
            tensor.data = ptr::without_provenance_mut(aligned);
        });
    }
    // Its first byte is the device's, and its last one is not.
    refused(&[1 << 44], &[1], &["70368744177664 bytes", "is not memory of a device"], |_| ());
}

#[test]
fn strides_with_gaps_are_refused_by_dimension() {
    let check = |shape: &[i64], strides: &[i64], words: &[&str]| {
        refused(shape, strides, words, |_| ());
    };
    check(&[2, 3, 4], &[24, 8, 2], &["dimension 2 has a stride of 2 elements", "is 1"]);
    check(&[4, 3], &[1, 4], &["dimension 1 has a stride of 4 elements"]);
    check(&[2, 3], &[8, 1], &["dimension 0 has a stride of 8 elements", "is 3"]);
    check(&[4, 5], &[-5, 1], &["dimension 0 has a stride of -5 elements"]);
    check(&[4], &[0], &["dimension 0 has a stride of 0 elements"]);
}

#[test]
fn malformed_tensors_are_refused() {
    let check = |words: &[&str], edit: fn(&mut DLTensor)| refused(&[4, 4], &[4, 1], words, edit);
    check(&["16 elements", "null pointer"], |tensor| tensor.data = ptr::null_mut());
    check(&["null pointer"], |tensor| {
        tensor.data = ptr::null_mut();
        tensor.byte_offset = 256;
    });
    check(&["6 bytes after", "multiple of 256"], |tensor| tensor.byte_offset = 6);
    check(&["multiple of 256"], |tensor| tensor.byte_offset = u64::MAX);
    check(&["ndim is negative"], |tensor| tensor.ndim = -1);
    check(&["shape pointer is null"], |tensor| tensor.shape = ptr::null_mut());
    refused(&[-4], &[1], &["dimension 0 is negative"], |_| ());
    refused(&[1 << 40, 1 << 40], &[1 << 40, 1], &["overflows"], |_| ());
    refused(&[i64::MAX], &[1], &["overflows"], |_| ());
}

#[test]
fn a_byte_offset_of_whole_buffers_is_followed() -> GpuResult<()> {
    let offset = |tensor: &mut DLTensor| tensor.byte_offset = 512;
    let (tensor, _) = edited::<Versioned>(&[128], &[1], DlpackFlags::empty(), offset);
    let address = tensor.validate().unwrap().data_ptr().addr() as u64;
    let words = import(tensor)?;
    assert_eq!((words.as_device_ptr().address(), words.to_vec()?), (address + 512, vec![3; 128]));
    Ok(())
}

/// `dlpark` looks at the version where a pointer becomes a tensor.
#[test]
fn a_tensor_of_a_later_major_version_is_deleted_unread() {
    let (tensor, deletions) = theirs::<Versioned>(&[256], &[1]);
    let raw = tensor.into_raw();
    // SAFETY: the tensor was given up here, and this takes it over.
    let taken = unsafe {
        (*raw).version.major += 1;
        Managed::from_raw(raw)
    };
    let error = taken.err().expect("its version is refused").to_string();
    assert!(error.contains("expected 1, got 2"), "{error}");
    assert_eq!(deletions.now(), 1);
}

/// The producer is given the stream of the buffer to be, and makes it wait.
#[test]
fn the_importing_stream_waits_for_the_producer() -> GpuResult<()> {
    let (raw, stream) = (Raw::new(), gpu().create_stream()?);
    let (tensor, deletions) = theirs::<Versioned>(&[256], &[1]);
    let address = tensor.validate().unwrap().data_ptr().addr() as u64;
    let before = gpu().create_stream()?;
    let gate = Gate::on(&before);
    // SAFETY: the streams live, and the words are there.
    let words = unsafe {
        before.raw_waits(raw.0.cast())?;
        assert_eq!(sys::cuMemsetD32Async(address, 7, LEN, raw.0), sys::CUresult::CUDA_SUCCESS);
        let mut event = ptr::null_mut();
        let own = StreamRef::of(&stream).as_raw().cast();
        let codes = [
            sys::cuEventCreate(&mut event, 2),
            sys::cuEventRecord(event, raw.0),
            sys::cuStreamWaitEvent(own, event, 0),
            sys::cuEventDestroy_v2(event),
        ];
        assert_eq!(codes, [sys::CUresult::CUDA_SUCCESS; 4]);
        DeviceBuffer::<u32>::from_dlpack(&stream, tensor)?
    };
    assert!(!stream.is_idle()?);
    gate.open();
    assert_eq!(words.to_vec()?, [7; LEN]);
    drop(words);
    assert_eq!(deletions.soon(), 1);
    Ok(())
}
