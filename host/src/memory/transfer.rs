//! Copies. Each is queued on the memory's home stream, so it is in order with all other uses, and
//! waited for, so that the host's side is free (or filled) on return.

use bytemuck::Pod;
use cuda_driver::pageable_on_purpose;
use cuda_driver::sys;

use super::pageable::{self, Way};
use crate::capture;
use crate::error::{GpuError, GpuResult};
use crate::recorder::{self, Bytes};
use crate::stream::StreamInner;

/// Copies `source` to `address`, through the ring if it is large and pageable.
///
/// # Safety
/// Device memory of `size_of_val(source)` bytes at `address` has `home` as its home and is
/// borrowed by nobody else.
pub(crate) unsafe fn upload<T: Pod>(
    home: &StreamInner,
    address: u64,
    source: &[T],
) -> GpuResult<()> {
    capture::check("a copy from the host")?;
    let (host, bytes) = (source.as_ptr().cast::<u8>().cast_mut(), size_of_val(source));
    if pageable::is_worth_it(home.context(), host, bytes)?
        // SAFETY: the caller's promise; the source is only read.
        && unsafe { pageable::copy(home, Way::Up, host, address, bytes)? }
    {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { upload_by_driver(home, address, source) }
}

/// Copies `source` to `address`, by the driver.
///
/// # Safety
/// As for [`upload`].
pub(super) unsafe fn upload_by_driver<T: Pod>(
    home: &StreamInner,
    address: u64,
    source: &[T],
) -> GpuResult<()> {
    let bytes = size_of_val(source);
    if bytes == 0 {
        return Ok(());
    }
    let queued = home.context().call("cuMemcpyHtoDAsync", || {
        let (source, stream) = (source.as_ptr().cast_mut().cast(), home.handle());
        // SAFETY: `source` lives until the wait below; the destination is the caller's promise.
        pageable_on_purpose(|| unsafe { sys::cuMemcpyHtoDAsync_v2(address, source, bytes, stream) })
    });
    wait(home).and(queued)
}

/// Copies `len` values from `address` to `destination`, through the ring if it is large and pageable.
///
/// # Safety
/// Device memory of `len` values at `address` has `home` as its home and is not written meanwhile;
/// `destination` is writable for as many.
pub(crate) unsafe fn download<T: Pod>(
    home: &StreamInner,
    address: u64,
    destination: *mut T,
    len: usize,
) -> GpuResult<()> {
    capture::check("a copy to the host")?;
    let (host, bytes) = (destination.cast::<u8>(), len * size_of::<T>());
    if pageable::is_worth_it(home.context(), host, bytes)?
        // SAFETY: the caller's promise.
        && unsafe { pageable::copy(home, Way::Down, host, address, bytes)? }
    {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { download_by_driver(home, address, destination, len) }
}

/// Copies `len` values from `address` to `destination`, by the driver.
///
/// # Safety
/// As for [`download`].
pub(super) unsafe fn download_by_driver<T: Pod>(
    home: &StreamInner,
    address: u64,
    destination: *mut T,
    len: usize,
) -> GpuResult<()> {
    let bytes = len * size_of::<T>();
    if bytes == 0 {
        return Ok(());
    }
    let queued = home.context().call("cuMemcpyDtoHAsync", || {
        // SAFETY: the destination lives until the wait below, as the caller promises.
        pageable_on_purpose(|| unsafe {
            sys::cuMemcpyDtoHAsync_v2(destination.cast(), address, bytes, home.handle())
        })
    });
    wait(home).and(queued)
}

/// Waits for the copy, and once more if that failed: the host's memory is its owner's again.
pub(super) fn wait(home: &StreamInner) -> GpuResult<()> {
    home.synchronize().inspect_err(|error| {
        if !matches!(error.root(), GpuError::KernelPanic(_)) {
            home.try_synchronize();
        }
    })
}

/// Copies `len` values from `address` into a new vector.
///
/// # Safety
/// As for [`download`].
pub(super) unsafe fn download_vec<T: Pod>(
    home: &StreamInner,
    address: u64,
    len: usize,
) -> GpuResult<Vec<T>> {
    let mut values = Vec::with_capacity(len);
    // SAFETY: the vector has room for `len` values; the rest is the caller's promise.
    unsafe { download(home, address, values.as_mut_ptr(), len)? };
    // SAFETY: `download` has filled `len` values (of size 0, if no byte was copied), and every bit
    // pattern is a value of `T`.
    unsafe { values.set_len(len) };
    Ok(values)
}

/// Fills `bytes` bytes at `address` with zeros, in the stream's order; does not wait.
///
/// # Safety
/// As for [`upload`].
pub(super) unsafe fn clear(home: &StreamInner, address: u64, bytes: usize) -> GpuResult<()> {
    if bytes == 0 {
        return Ok(());
    }
    if let Some(graph) = recorder::current() {
        return graph.clear(Bytes { home: Some(home), address, len: bytes });
    }
    home.context().call("cuMemsetD8Async", || {
        // SAFETY: the caller's promise.
        unsafe { sys::cuMemsetD8Async(address, 0, bytes, home.handle()) }
    })
}

/// Copies `bytes` bytes on the device, in the order of both homes; does not wait.
///
/// # Safety
/// Both addresses hold as many bytes and have these homes; the destination is borrowed by nobody
/// else, and the source is not written meanwhile.
pub(crate) unsafe fn copy(
    home: &StreamInner,
    address: u64,
    source_home: &StreamInner,
    source: u64,
    bytes: usize,
) -> GpuResult<()> {
    source_home.check_device(home.context(), "the source of the copy")?;
    if bytes == 0 {
        return Ok(());
    }
    if let Some(graph) = recorder::current() {
        let from = Bytes { home: Some(source_home), address: source, len: bytes };
        return graph.copy(from, Bytes { home: Some(home), address, len: bytes });
    }
    home.ordered(&[source_home], || {
        home.context().call("cuMemcpyDtoDAsync", || {
            // SAFETY: the caller's promise.
            unsafe { sys::cuMemcpyDtoDAsync_v2(address, source, bytes, home.handle()) }
        })
    })
}

/// Copies `bytes` bytes from one device to another, in the order of both homes; does not wait.
///
/// # Safety
/// As for [`copy`].
pub(super) unsafe fn copy_peer(
    home: &StreamInner,
    address: u64,
    source_home: &StreamInner,
    source: u64,
    bytes: usize,
) -> GpuResult<()> {
    if bytes == 0 {
        return Ok(());
    }
    let (to, from) = (home.context().raw(), source_home.context().raw());
    home.ordered(&[source_home], || {
        home.context().call("cuMemcpyPeerAsync", || {
            // SAFETY: the caller's promise, and the contexts are those of the homes.
            unsafe { sys::cuMemcpyPeerAsync(address, to, source, from, bytes, home.handle()) }
        })
    })
}

/// An error unless both lengths are equal.
pub(super) fn check_len(operation: &'static str, expected: usize, found: usize) -> GpuResult<()> {
    if expected == found {
        return Ok(());
    }
    Err(GpuError::SizeMismatch { operation, expected, found })
}
