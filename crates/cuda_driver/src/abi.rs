//! The types that cross the C interface.
//!
//! Pointers that a caller passes in are wrapped, so that the functions behind the interface are
//! ordinary safe code. One safety argument covers all of them: a wrapper is made only from an
//! argument of an exported `unsafe extern "C"` function (or from a Rust reference), it is used only
//! until that call returns, and that function's contract, the CUDA driver API's, says that the
//! pointer is null or valid for the accesses that the wrapper's type allows.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::codes::{CUDA_ERROR_INVALID_VALUE, ResultCode};
use crate::detail::{DriverError, DriverResult};

/// Declares the driver's handles: each is a pointer to a type of its own that has no value, so that one cannot stand
/// in another's place.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident, $target:ident;)*) => {
        $(
            #[doc = concat!("What a [`", stringify!($name), "`] points to: nothing that a program can read.")]
            #[allow(non_camel_case_types, reason = "the driver's names")]
            #[derive(Clone, Copy, Debug)]
            pub enum $target {}

            $(#[$doc])*
            pub type $name = *mut $target;
        )*
    };
}

/// A device's ordinal.
pub type CUdevice = c_int;
/// An address in device memory.
pub type CUdeviceptr = u64;

handles! {
    /// A context.
    CUcontext, CUctx_st;
    /// A loaded module.
    CUmodule, CUmod_st;
    /// A kernel of a module.
    CUfunction, CUfunc_st;
    /// A stream.
    CUstream, CUstream_st;
    /// An event.
    CUevent, CUevent_st;
    /// A library: a module that belongs to no context.
    CUlibrary, CUlib_st;
    /// A kernel of a library. Cast to a `CUfunction`, it is accepted in the place of one.
    CUkernel, CUkern_st;
    /// A linker's state.
    CUlinkState, CUlinkState_st;
    /// A graph.
    CUgraph, CUgraph_st;
    /// A node of a graph.
    CUgraphNode, CUgraphNode_st;
    /// An executable graph.
    CUgraphExec, CUgraphExec_st;
    /// A memory pool.
    CUmemoryPool, CUmemPoolHandle_st;
    /// An array.
    CUarray, CUarray_st;
}

/// Any other object of the driver: a user object, a green context, an external semaphore, …
pub type CUobject = *mut c_void;

/// A function that the driver calls when a stream reaches it.
pub type CUhostFn = Option<unsafe extern "C" fn(*mut c_void)>;
/// A function that the driver calls, with the stream's status, when a stream reaches it.
pub type CUstreamCallback = Option<unsafe extern "C" fn(CUstream, ResultCode, *mut c_void)>;
/// Returns the bytes of dynamic shared memory that a block of the given number of threads needs.
pub type CUoccupancyB2DSize = Option<unsafe extern "C" fn(c_int) -> usize>;

/// Options of a module load or a link, numbered as in `CUjit_option`: the buffers of its logs.
pub(crate) const INFO_LOG: c_int = 3;
pub(crate) const INFO_LOG_BYTES: c_int = 4;
pub(crate) const ERROR_LOG: c_int = 5;
pub(crate) const ERROR_LOG_BYTES: c_int = 6;
/// Compile for the current context's device. This is the only option without a value.
pub(crate) const TARGET_FROM_CONTEXT: c_int = 8;

/// A link input that is PTX text, numbered as in `CUjitInputType`.
pub(crate) const PTX: c_int = 1;

/// A device's UUID.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CUuuid {
    /// The sixteen bytes.
    pub bytes: [u8; 16],
}

/// A two-dimensional copy, `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs)]
pub struct Copy2D {
    pub src_x_bytes: usize,
    pub src_y: usize,
    pub src_memory_type: c_int,
    pub src_host: *const c_void,
    pub src_device: CUdeviceptr,
    pub src_array: CUarray,
    pub src_pitch: usize,
    pub dst_x_bytes: usize,
    pub dst_y: usize,
    pub dst_memory_type: c_int,
    pub dst_host: *mut c_void,
    pub dst_device: CUdeviceptr,
    pub dst_array: CUarray,
    pub dst_pitch: usize,
    pub width_bytes: usize,
    pub height: usize,
}

/// Where memory is, or should be, `CUmemLocation`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemLocation {
    /// 1 on a device, 2 on the host, 3 on a given NUMA node of the host, 4 on the nearest NUMA
    /// node.
    pub kind: c_int,
    /// The device's ordinal, or the number of the NUMA node.
    pub id: c_int,
}

/// What names an allocation to other processes of the host, `CUipcMemHandle`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpcMemHandle {
    /// The driver's bytes.
    pub reserved: [u8; 64],
}

/// How a context is made, `CUctxCreateParams`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ContextParams {
    /// The parts of the device that the context may use.
    pub affinities: In<c_void>,
    /// The number of elements.
    pub n_affinities: c_int,
    /// Parameters for sharing the context with a graphics API.
    pub graphics: In<c_void>,
}

/// One attribute of a launch, `CUlaunchAttribute`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct LaunchAttribute {
    /// The number of the attribute.
    pub id: c_uint,
    /// Padding, so that the value begins at byte 8.
    pub pad: [u8; 4],
    /// The attribute's value, a union of 64 bytes.
    pub value: [u32; 16],
}

/// The configuration of a launch, without the function and its arguments: `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CUlaunchConfig {
    /// The grid dimensions, in blocks.
    pub grid: [c_uint; 3],
    /// The block dimensions, in threads.
    pub block: [c_uint; 3],
    /// Dynamic shared memory of each block, in bytes.
    pub shared_mem_bytes: c_uint,
    /// The stream.
    pub stream: CUstream,
    /// Attributes of the launch.
    pub attributes: In<LaunchAttribute>,
    /// The number of elements.
    pub n_attributes: c_uint,
}

/// Where a function writes a result: null, or valid for writing a `T`.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T> From<&mut T> for Out<T> {
    fn from(value: &mut T) -> Self {
        Self(value)
    }
}

impl<T> From<&mut [T]> for Out<T> {
    fn from(values: &mut [T]) -> Self {
        Self(values.as_mut_ptr())
    }
}

impl<T> Out<T> {
    /// The null pointer: no result is wanted.
    pub const NULL: Self = Self(std::ptr::null_mut());

    /// The pointer that C code passed.
    pub(crate) fn from_ptr(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// Writes the result; a null pointer is `CUDA_ERROR_INVALID_VALUE`.
    pub(crate) fn set(self, value: T) -> DriverResult {
        self.check()?;
        self.set_if_wanted(value);
        Ok(())
    }

    /// Writes the result unless the pointer is null.
    pub(crate) fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: by the module's argument the pointer, not null, is valid for a write.
            unsafe { self.0.write_unaligned(value) }
        }
    }

    /// Fails if the pointer is null, for functions that must not have any effect in that case.
    pub(crate) fn check(self) -> DriverResult {
        if self.0.is_null() { Err(null_pointer()) } else { Ok(()) }
    }

    /// Writes element `index` of the array that the pointer points to.
    pub(crate) fn set_at(self, index: usize, value: T) {
        // SAFETY: by the module's argument; callers pass an index below the length that came
        // with the pointer.
        unsafe { self.0.add(index).write_unaligned(value) }
    }

    /// The pointer as one to another type, for functions that pass the type in another argument.
    pub fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// Reads element `index` of an array that is both read and written.
    pub(crate) fn get_at(self, index: usize) -> T
    where
        T: Copy,
    {
        // SAFETY: as for `set_at`.
        unsafe { self.0.add(index).read_unaligned() }
    }
}

/// Where a function reads an argument: null, or valid for reading `T`s.
#[repr(transparent)]
pub struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T> From<&T> for In<T> {
    fn from(value: &T) -> Self {
        Self(value)
    }
}

impl<T> From<&[T]> for In<T> {
    fn from(values: &[T]) -> Self {
        Self(values.as_ptr())
    }
}

impl<T> In<T> {
    /// The pointer that C code passed.
    pub(crate) fn from_ptr(pointer: *const T) -> Self {
        Self(pointer)
    }

    /// The pointer as one to another type.
    pub fn cast<U>(self) -> In<U> {
        In(self.0.cast())
    }
}

impl<T: Copy> In<T> {
    /// The null pointer: no argument is given.
    pub const NULL: Self = Self(std::ptr::null());

    /// Whether the pointer is null.
    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The value; a null pointer is `CUDA_ERROR_INVALID_VALUE`.
    pub(crate) fn get(self) -> DriverResult<T> {
        if self.is_null() { Err(null_pointer()) } else { Ok(self.at(0)) }
    }

    /// Element `index` of the array that the pointer points to.
    pub(crate) fn at(self, index: usize) -> T {
        // SAFETY: by the module's argument; callers have checked for null and pass an index
        // below the length that came with the pointer, or below the array's end mark.
        unsafe { self.0.add(index).read_unaligned() }
    }
}

/// A NUL-terminated string; a null pointer is `CUDA_ERROR_INVALID_VALUE`.
pub(crate) fn text<'a>(from: In<c_char>) -> DriverResult<&'a CStr> {
    if from.is_null() {
        return Err(null_pointer());
    }
    // SAFETY: by the module's argument the text ends with a NUL and lives until the call returns;
    // callers do not keep it longer.
    Ok(unsafe { CStr::from_ptr(from.0) })
}

/// Host memory that a copy reads or writes, or that a launch takes arguments from.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct HostPtr(pub *mut c_void);

// SAFETY: a bare address; the copy that carries it to a stream's thread upholds the module's
// argument, by which the caller keeps the memory valid until the stream reaches it.
unsafe impl Send for HostPtr {}
// SAFETY: as for `Send`; what is done with the memory is argued where it is done.
unsafe impl Sync for HostPtr {}

impl HostPtr {
    /// The address.
    pub(crate) fn address(self) -> u64 {
        self.0 as u64
    }

    /// The address as an argument pointer to `T`.
    pub(crate) fn as_in<T>(self) -> In<T> {
        In(self.0.cast())
    }

    /// Fails where the pointer is null.
    pub(crate) fn check(self) -> DriverResult {
        if self.0.is_null() { Err(null_pointer()) } else { Ok(()) }
    }

    /// The pointer advanced by `bytes`.
    pub(crate) fn offset(self, bytes: usize) -> Self {
        Self(self.0.wrapping_byte_add(bytes))
    }

    /// `len` bytes to read.
    ///
    /// # Safety
    /// The memory is valid for reads of `len` bytes while the slice lives.
    pub(crate) unsafe fn bytes<'a>(self, len: usize) -> &'a [u8] {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts(self.0.cast(), len) }
    }

    /// `len` bytes to write.
    ///
    /// # Safety
    /// The memory is valid for writes of `len` bytes, and nothing else uses it, while the slice
    /// lives.
    pub(crate) unsafe fn bytes_mut<'a>(self, len: usize) -> &'a mut [u8] {
        // SAFETY: the caller's.
        unsafe { std::slice::from_raw_parts_mut(self.0.cast(), len) }
    }
}

fn null_pointer() -> DriverError {
    DriverError::new(CUDA_ERROR_INVALID_VALUE, "a pointer argument is null")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_have_the_drivers_layout() {
        assert_eq!(size_of::<LaunchAttribute>(), 72);
        assert_eq!(size_of::<CUlaunchConfig>(), 56);
        assert_eq!(size_of::<Copy2D>(), 128);
        assert_eq!((size_of::<MemLocation>(), size_of::<ContextParams>()), (8, 24));
        assert_eq!((size_of::<IpcMemHandle>(), align_of::<IpcMemHandle>()), (64, 1));
    }

    #[test]
    fn null_pointers_are_refused() {
        assert_eq!(Out::<i32>::NULL.set(1).unwrap_err().code, CUDA_ERROR_INVALID_VALUE);
        assert_eq!(In::<i32>::NULL.get().unwrap_err().code, CUDA_ERROR_INVALID_VALUE);
        let mut value = 0;
        Out::from(&mut value).set(7).unwrap();
        assert_eq!(value, 7);
    }
}
