//! Memory for programs that have no CUDA runtime of their own, on the emulator for one.

use std::ffi::c_void;

use cuda_driver::pageable_on_purpose;
use cuda_driver::sys::{self, CUresult, CUstream};

use crate::context::check;
use crate::error::{Error, Status};
use crate::handle::{Handle, is_captured, raw, with_handle};

fn size(operation: &'static str, bytes: i64) -> Result<usize, Error> {
    usize::try_from(bytes).map_err(|_| Error::Negative { operation, name: "bytes", value: bytes })
}

/// Allocates device memory, of unknown content, at a multiple of 256 bytes; a null pointer for 0 bytes. On a GPU it is the driver's
/// cuMemAlloc(), and cudaMalloc() serves as well. On the emulator all memory that operations use comes from here, and the host must not
/// touch it: it is copied.
///
/// # Safety
/// `handle` is null or a handle, and `pointer` null or a place that can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_malloc(
    handle: *const Handle,
    pointer: *mut *mut c_void,
    bytes: i64,
) -> Status {
    const OPERATION: &str = "ferrowarp_malloc";
    // SAFETY: the caller's promise.
    unsafe {
        with_handle(OPERATION, handle, |_| {
            if pointer.is_null() {
                return Err(Error::Null { operation: OPERATION, name: "pointer" });
            }
            let bytes = size(OPERATION, bytes)?;
            let mut address = 0;
            if bytes > 0 {
                match sys::cuMemAlloc_v2(&mut address, bytes) {
                    CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
                        cuda_driver::take_detail();
                        return Err(Error::OutOfMemory { operation: OPERATION, bytes });
                    }
                    result => check(OPERATION, "cuMemAlloc", result)?,
                }
            }
            pointer.write(std::ptr::with_exposed_provenance_mut(address as usize));
            Ok(())
        })
    }
}

/// Frees memory of ferrowarp_malloc(). A null pointer is left alone. Like cuMemFree() it may wait for all work on the device.
///
/// # Safety
/// `handle` is null or a handle of the device; the memory is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_free(handle: *const Handle, pointer: *mut c_void) -> Status {
    const OPERATION: &str = "ferrowarp_free";
    // SAFETY: the caller's promise.
    unsafe {
        with_handle(OPERATION, handle, |_| {
            if pointer.is_null() {
                return Ok(());
            }
            check(OPERATION, "cuMemFree", sys::cuMemFree_v2(pointer.addr() as u64))
        })
    }
}

/// Copies `bytes` bytes of the host to device memory, after the work that the handle's stream has now. Waits for the stream.
///
/// # Safety
/// `handle` is null or a handle; the bytes are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_copy_to_device(
    handle: *const Handle,
    device: *mut c_void,
    host: *const c_void,
    bytes: i64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        copy("ferrowarp_copy_to_device", handle, (device, host), bytes, |bytes, stream| {
            let result =
                sys::cuMemcpyHtoDAsync_v2(device.addr() as u64, host.cast_mut(), bytes, stream);
            ("cuMemcpyHtoDAsync", result)
        })
    }
}

/// Copies `bytes` bytes of device memory to the host, after the work that the handle's stream has now. Waits for the stream.
///
/// # Safety
/// `handle` is null or a handle; the bytes are there.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_copy_to_host(
    handle: *const Handle,
    host: *mut c_void,
    device: *const c_void,
    bytes: i64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        copy("ferrowarp_copy_to_host", handle, (device, host), bytes, |bytes, stream| {
            let result = sys::cuMemcpyDtoHAsync_v2(host, device.addr() as u64, bytes, stream);
            ("cuMemcpyDtoHAsync", result)
        })
    }
}

/// Copies by `enqueue`, which names its function of the driver, and waits for the stream.
///
/// # Safety
/// The handle is null or one that exists; `enqueue` may be called with that many bytes.
unsafe fn copy(
    operation: &'static str,
    handle: *const Handle,
    (device, host): (*const c_void, *const c_void),
    bytes: i64,
    enqueue: impl FnOnce(usize, CUstream) -> (&'static str, CUresult),
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        with_handle(operation, handle, |handle| {
            let mut lane = handle.lane();
            let bytes = size(operation, bytes)?;
            if is_captured(lane.stream()) {
                return Err(Error::Captured { operation });
            }
            if bytes > 0 && (device.is_null() || host.is_null()) {
                let name = if device.is_null() { "device" } else { "host" };
                return Err(Error::Null { operation, name });
            }
            if bytes > 0 {
                let stream = raw(lane.stream());
                let (function, result) = pageable_on_purpose(|| enqueue(bytes, stream));
                check(operation, function, result)?;
            }
            lane.synchronize().map_err(|error| Error::Gpu { operation, error })
        })
    }
}
