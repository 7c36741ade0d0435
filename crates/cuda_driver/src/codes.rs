//! The driver's result codes, each with its name and a description.

use std::ffi::{CStr, c_int};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// The result of an exported C function as a number: 0 for success, or one of the error codes of this module.
pub type ResultCode = i32;

/// What a driver function returns. Any number is a valid value, also one that is newer than this crate.
#[must_use]
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CUresult(pub c_int);

impl CUresult {
    /// The code as an unsigned number, which is how errors print it.
    pub fn code(self) -> u32 {
        self.0.unsigned_abs()
    }
}

impl fmt::Debug for CUresult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match error_name(self.0) {
            Some(name) => f.write_str(&name.to_string_lossy()),
            None => write!(f, "CUresult({})", self.0),
        }
    }
}

/// One result code of the CUDA driver API.
struct Row {
    code: ResultCode,
    name: &'static CStr,
    meaning: &'static CStr,
    /// Whether the enum of CUDA 11.4, into which `cust` 0.3.2 reads results, has this code. A value
    /// that a Rust enum lacks is undefined behaviour, so the front never returns one.
    in_cust: bool,
}

macro_rules! codes {
    ($($name:ident = $code:literal, $age:ident, $meaning:literal;)*) => {
        $(#[doc = $meaning] pub const $name: ResultCode = $code;)*

        impl CUresult {
            $(#[doc = $meaning] pub const $name: Self = Self($code);)*
        }

        static ROWS: &[Row] = &[$(Row {
            code: $code,
            name: c_str(concat!(stringify!($name), "\0")),
            meaning: c_str(concat!($meaning, "\0")),
            in_cust: codes!(@in_cust $age),
        },)*];
    };
    (@in_cust old) => { true };
    (@in_cust new) => { false };
}

const fn c_str(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("a name holds a NUL"),
    }
}

codes! {
    CUDA_SUCCESS = 0, old, "no error";
    CUDA_ERROR_INVALID_VALUE = 1, old, "an argument is outside what the function accepts";
    CUDA_ERROR_OUT_OF_MEMORY = 2, old, "out of memory";
    CUDA_ERROR_NOT_INITIALIZED = 3, old, "the driver is not initialised in this process";
    CUDA_ERROR_DEINITIALIZED = 4, old, "the driver is shutting down";
    CUDA_ERROR_PROFILER_DISABLED = 5, old, "the profiler is disabled";
    CUDA_ERROR_PROFILER_NOT_INITIALIZED = 6, old, "the profiler is not initialised";
    CUDA_ERROR_PROFILER_ALREADY_STARTED = 7, old, "the profiler runs already";
    CUDA_ERROR_PROFILER_ALREADY_STOPPED = 8, old, "the profiler is stopped already";
    CUDA_ERROR_STUB_LIBRARY = 34, old, "the loaded driver library is a stub";
    CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER = 36, new, "the call needs a newer driver";
    CUDA_ERROR_DEVICE_UNAVAILABLE = 46, new, "the device is busy or unavailable";
    CUDA_ERROR_NO_DEVICE = 100, old, "no usable CUDA device";
    CUDA_ERROR_INVALID_DEVICE = 101, old, "no device has this ordinal";
    CUDA_ERROR_DEVICE_NOT_LICENSED = 102, old, "the device has no valid licence";
    CUDA_ERROR_INVALID_IMAGE = 200, old, "the kernel image is not valid";
    CUDA_ERROR_INVALID_CONTEXT = 201, old, "no valid context is current on this thread";
    CUDA_ERROR_CONTEXT_ALREADY_CURRENT = 202, old, "the context is current already";
    CUDA_ERROR_MAP_FAILED = 205, old, "mapping failed";
    CUDA_ERROR_UNMAP_FAILED = 206, old, "unmapping failed";
    CUDA_ERROR_ARRAY_IS_MAPPED = 207, old, "the array is mapped";
    CUDA_ERROR_ALREADY_MAPPED = 208, old, "the resource is mapped already";
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209, old, "the image holds no code for this device";
    CUDA_ERROR_ALREADY_ACQUIRED = 210, old, "the resource is acquired already";
    CUDA_ERROR_NOT_MAPPED = 211, old, "the resource is not mapped";
    CUDA_ERROR_NOT_MAPPED_AS_ARRAY = 212, old, "the resource is not mapped as an array";
    CUDA_ERROR_NOT_MAPPED_AS_POINTER = 213, old, "the resource is not mapped as a pointer";
    CUDA_ERROR_ECC_UNCORRECTABLE = 214, old, "a memory error could not be corrected";
    CUDA_ERROR_UNSUPPORTED_LIMIT = 215, old, "the device does not have this limit";
    CUDA_ERROR_CONTEXT_ALREADY_IN_USE = 216, old, "another thread uses the context";
    CUDA_ERROR_PEER_ACCESS_UNSUPPORTED = 217, old, "the devices cannot reach each other";
    CUDA_ERROR_INVALID_PTX = 218, old, "the PTX does not compile";
    CUDA_ERROR_INVALID_GRAPHICS_CONTEXT = 219, old, "the graphics context is not valid";
    CUDA_ERROR_NVLINK_UNCORRECTABLE = 220, old, "an NVLink error could not be corrected";
    CUDA_ERROR_JIT_COMPILER_NOT_FOUND = 221, old, "the driver's PTX compiler is missing";
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222, old, "the PTX version is newer than the driver";
    CUDA_ERROR_JIT_COMPILATION_DISABLED = 223, old, "compiling PTX at load is disabled";
    CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY = 224, old, "the execution affinity is not supported";
    CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC = 225, new, "the code synchronises from the device";
    CUDA_ERROR_CONTAINED = 226, new, "an error was contained by the device";
    CUDA_ERROR_INVALID_SOURCE = 300, old, "the device kernel source is not valid";
    CUDA_ERROR_FILE_NOT_FOUND = 301, old, "the file was not found";
    CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND = 302, old, "a shared object lacks a symbol";
    CUDA_ERROR_SHARED_OBJECT_INIT_FAILED = 303, old, "a shared object did not start";
    CUDA_ERROR_OPERATING_SYSTEM = 304, old, "the operating system refused a call";
    CUDA_ERROR_INVALID_HANDLE = 400, old, "the handle names nothing that is alive";
    CUDA_ERROR_ILLEGAL_STATE = 401, old, "the object is not in a state for this call";
    CUDA_ERROR_LOSSY_QUERY = 402, new, "the answer would lose information";
    CUDA_ERROR_NOT_FOUND = 500, old, "the name was not found";
    CUDA_ERROR_NOT_READY = 600, old, "the work is not finished yet";
    CUDA_ERROR_ILLEGAL_ADDRESS = 700, old, "a kernel touched memory that is not its own";
    CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701, old, "the launch needs more than the device has";
    CUDA_ERROR_LAUNCH_TIMEOUT = 702, old, "the kernel ran too long";
    CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING = 703, old, "the launch's texturing does not match";
    CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704, old, "peer access is enabled already";
    CUDA_ERROR_PEER_ACCESS_NOT_ENABLED = 705, old, "peer access is not enabled";
    CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE = 708, old, "the primary context is active";
    CUDA_ERROR_CONTEXT_IS_DESTROYED = 709, old, "the current context is destroyed";
    CUDA_ERROR_ASSERT = 710, old, "an assertion failed in a kernel";
    CUDA_ERROR_TOO_MANY_PEERS = 711, old, "the device has no room for another peer";
    CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712, old, "this host memory is registered already";
    CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED = 713, old, "this host memory is not registered";
    CUDA_ERROR_HARDWARE_STACK_ERROR = 714, old, "a kernel's stack overflowed or is corrupt";
    CUDA_ERROR_ILLEGAL_INSTRUCTION = 715, old, "a kernel met an illegal instruction";
    CUDA_ERROR_MISALIGNED_ADDRESS = 716, old, "a kernel used a misaligned address";
    CUDA_ERROR_INVALID_ADDRESS_SPACE = 717, old, "an address is in the wrong state space";
    CUDA_ERROR_INVALID_PC = 718, old, "a kernel jumped outside its code";
    CUDA_ERROR_LAUNCH_FAILED = 719, old, "a kernel failed";
    CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE = 720, old, "the grid does not fit the device at once";
    CUDA_ERROR_TENSOR_MEMORY_LEAK = 721, new, "a kernel left tensor memory allocated";
    CUDA_ERROR_NOT_PERMITTED = 800, old, "the call is not permitted here";
    CUDA_ERROR_NOT_SUPPORTED = 801, old, "the call is not supported on this device";
    CUDA_ERROR_SYSTEM_NOT_READY = 802, old, "the system is not ready for CUDA";
    CUDA_ERROR_SYSTEM_DRIVER_MISMATCH = 803, old, "driver and kernel module differ in version";
    CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE = 804, old, "compatibility mode is not for this device";
    CUDA_ERROR_MPS_CONNECTION_FAILED = 805, old, "the MPS client reached no server";
    CUDA_ERROR_MPS_RPC_FAILURE = 806, old, "the MPS server failed";
    CUDA_ERROR_MPS_SERVER_NOT_READY = 807, old, "the MPS server is not ready";
    CUDA_ERROR_MPS_MAX_CLIENTS_REACHED = 808, old, "the MPS server takes no more clients";
    CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED = 809, old, "the device takes no more MPS connections";
    CUDA_ERROR_MPS_CLIENT_TERMINATED = 810, new, "the MPS server ended this client";
    CUDA_ERROR_CDP_NOT_SUPPORTED = 811, new, "launching from kernels is not supported here";
    CUDA_ERROR_CDP_VERSION_MISMATCH = 812, new, "two versions of launching from kernels meet";
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900, old, "a capturing stream does not allow this";
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901, old, "the capture was invalidated by an error";
    CUDA_ERROR_STREAM_CAPTURE_MERGE = 902, old, "two captures would be merged";
    CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903, old, "the capture did not begin here";
    CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904, old, "a fork of the capture was not joined";
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905, old, "a dependency crosses the capture's border";
    CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906, old, "the null stream cannot be captured";
    CUDA_ERROR_CAPTURED_EVENT = 907, old, "the event was recorded in a capture";
    CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908, old, "another thread began the capture";
    CUDA_ERROR_TIMEOUT = 909, old, "the wait timed out";
    CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE = 910, old, "the graph cannot be updated this way";
    CUDA_ERROR_EXTERNAL_DEVICE = 911, old, "a device outside CUDA failed";
    CUDA_ERROR_INVALID_CLUSTER_SIZE = 912, new, "the cluster size does not fit";
    CUDA_ERROR_FUNCTION_NOT_LOADED = 913, new, "the function is not loaded";
    CUDA_ERROR_INVALID_RESOURCE_TYPE = 914, new, "the resource has another type";
    CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915, new, "the resource's configuration is not valid";
    CUDA_ERROR_KEY_ROTATION = 916, new, "an encryption key was rotated";
    CUDA_ERROR_STREAM_DETACHED = 917, new, "the stream is detached";
    CUDA_ERROR_UNKNOWN = 999, old, "an unknown error";
}

fn row(code: ResultCode) -> Option<&'static Row> {
    ROWS.binary_search_by_key(&code, |row| row.code).ok().map(|at| &ROWS[at])
}

/// The driver API's name of `code`, such as `CUDA_ERROR_INVALID_VALUE`; `None` for an unknown code.
pub fn error_name(code: ResultCode) -> Option<&'static CStr> {
    row(code).map(|row| row.name)
}

/// A short description of `code`; `None` for an unknown code.
pub fn error_meaning(code: ResultCode) -> Option<&'static CStr> {
    row(code).map(|row| row.meaning)
}

/// `code` itself if CUDA 11.4's enum has it, else `CUDA_ERROR_UNKNOWN`.
pub(crate) fn returned_as(code: ResultCode) -> ResultCode {
    let all = EVERY_CODE.load(Ordering::Relaxed);
    if all || row(code).is_some_and(|row| row.in_cust) { code } else { CUDA_ERROR_UNKNOWN }
}

static EVERY_CODE: AtomicBool = AtomicBool::new(false);

/// Makes all later calls return the true code, also if `cust` lacks it. For programs that do not
/// use `cust`, such as those that load the shared library.
pub fn return_every_code() {
    EVERY_CODE.store(true, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_ascending_order() {
        assert!(ROWS.windows(2).all(|pair| pair[0].code < pair[1].code));
    }

    #[test]
    fn only_codes_that_the_enum_lacks_are_hidden() {
        for hidden in [36, 46, 225, 226, 402, 721, 810, 811, 812, 912, 913, 914, 915, 916, 917] {
            assert_eq!(returned_as(hidden), CUDA_ERROR_UNKNOWN, "{hidden}");
        }
        assert_eq!(ROWS.iter().filter(|row| row.in_cust).count(), 87);
        assert_eq!(returned_as(222), 222);
        assert_eq!(returned_as(12345), CUDA_ERROR_UNKNOWN);
    }

    #[test]
    fn a_code_has_its_name() {
        assert_eq!(error_name(700), Some(c"CUDA_ERROR_ILLEGAL_ADDRESS"));
        assert_eq!(error_name(701).and(error_name(98765)), None);
    }

    #[test]
    fn a_result_prints_its_name() {
        assert_eq!(format!("{:?}", CUresult(912)), "CUDA_ERROR_INVALID_CLUSTER_SIZE");
        assert_eq!(format!("{:?}", CUresult(4321)), "CUresult(4321)");
    }
}
