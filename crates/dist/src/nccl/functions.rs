//! NCCL's functions and types, as its header `nccl.h` declares them.

use std::ffi::{c_char, c_int, c_void};

/// `ncclComm_t`.
pub(super) type Comm = *mut c_void;
/// `cudaStream_t`, which is the driver's `CUstream`.
pub(super) type Stream = *mut c_void;
/// `ncclResult_t`.
pub(super) type Status = c_int;

pub(super) const SUCCESS: Status = 0;

/// `NCCL_SPLIT_NOCOLOR`.
pub(super) const NO_COLOUR: c_int = -1;

pub(super) const IDENTITY_BYTES: usize = 128;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Identity(pub(super) [u8; IDENTITY_BYTES]);

/// `ncclConfig_t` of version 2.18. Later versions have more members, and take this one by its size and version.
#[repr(C)]
pub(super) struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: c_int,
    cga_cluster_size: c_int,
    min_ctas: c_int,
    max_ctas: c_int,
    net_name: *const c_char,
    split_share: c_int,
}

/// The version whose [`Config`] this is: the least that is taken.
pub(super) const LEAST_VERSION: u32 = 21_800;

impl Config {
    /// Calls return when their work is enqueued.
    pub(super) fn blocking() -> Self {
        const UNDEFINED: c_int = c_int::MIN;
        Self {
            size: size_of::<Self>(),
            magic: 0xcafe_beef,
            version: LEAST_VERSION,
            blocking: 1,
            cga_cluster_size: UNDEFINED,
            min_ctas: UNDEFINED,
            max_ctas: UNDEFINED,
            net_name: std::ptr::null(),
            split_share: UNDEFINED,
        }
    }
}

macro_rules! functions {
    ($($name:ident($($argument:ty),*) -> $result:ty;)*) => {
        /// The library's functions. Each may be called from any thread; those that take a communicator, by one at a time.
        #[allow(non_snake_case, reason = "the names of nccl.h, by which they are looked up")]
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl Functions {
            /// Looks all of them up.
            ///
            /// # Safety
            /// The library is NCCL, and is never closed.
            pub(super) unsafe fn load(library: &libloading::Library) -> Result<Self, libloading::Error> {
                // SAFETY: the library is NCCL, whose functions of these names have these types.
                unsafe {
                    Ok(Self { $($name: *library.get(concat!(stringify!($name), "\0").as_bytes())?,)* })
                }
            }
        }
    };
}

functions! {
    ncclGetVersion(*mut c_int) -> Status;
    ncclGetErrorString(Status) -> *const c_char;
    ncclGetLastError(Comm) -> *const c_char;
    ncclGetUniqueId(*mut Identity) -> Status;
    ncclCommInitRankConfig(*mut Comm, c_int, Identity, c_int, *mut Config) -> Status;
    ncclCommSplit(Comm, c_int, c_int, *mut Comm, *mut Config) -> Status;
    ncclCommGetAsyncError(Comm, *mut Status) -> Status;
    ncclCommFinalize(Comm) -> Status;
    ncclCommDestroy(Comm) -> Status;
    ncclCommAbort(Comm) -> Status;
    ncclGroupStart() -> Status;
    ncclGroupEnd() -> Status;
    ncclAllReduce(*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream) -> Status;
    ncclReduce(*const c_void, *mut c_void, usize, c_int, c_int, c_int, Comm, Stream) -> Status;
    ncclReduceScatter(*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream) -> Status;
    ncclBroadcast(*const c_void, *mut c_void, usize, c_int, c_int, Comm, Stream) -> Status;
    ncclAllGather(*const c_void, *mut c_void, usize, c_int, Comm, Stream) -> Status;
    ncclSend(*const c_void, usize, c_int, c_int, Comm, Stream) -> Status;
    ncclRecv(*mut c_void, usize, c_int, c_int, Comm, Stream) -> Status;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_has_the_headers_layout() {
        // Three words of 4 bytes follow one of 8; the pointer stands at 32, the last member at 40.
        assert_eq!(size_of::<Config>(), 48);
        assert_eq!(std::mem::offset_of!(Config, blocking), 16);
        assert_eq!(std::mem::offset_of!(Config, net_name), 32);
        assert_eq!(std::mem::offset_of!(Config, split_share), 40);
        assert_eq!(Config::blocking().size, 48);
        assert_eq!(size_of::<Identity>(), 128);
    }
}
