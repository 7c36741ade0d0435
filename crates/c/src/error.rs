//! What goes wrong, as a status and a message of the thread.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use ferrowarp::GpuError;

use crate::element::ElementType;

/// How a call ended. Of all but `FERROWARP_STATUS_OK`, ferrowarp_last_error() has a message.
///
/// A call that refuses an argument has enqueued nothing and written nothing.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The work is enqueued; of functions that wait, it is done.
    Ok = 0,
    /// A pointer is null that must not be.
    NullPointer = 1,
    /// A length is negative, too large, or does not fit another one.
    InvalidLength = 2,
    /// No such element type, or not one that the operation takes.
    InvalidType = 3,
    /// Another argument has a value that the operation does not take.
    InvalidValue = 4,
    /// An address is not a multiple of what the element type or the function asks for.
    Misaligned = 5,
    /// Two arrays have memory in common, one of which is written.
    Overlap = 6,
    /// A pointer is not one to memory of a device that the driver of this process knows.
    NotDeviceMemory = 7,
    /// The memory is another device's than the handle's.
    WrongDevice = 8,
    /// The stream is not one of the primary context of the handle's device.
    InvalidStream = 9,
    /// The device, or this library, cannot do this.
    Unsupported = 10,
    /// The device's memory does not suffice.
    OutOfMemory = 11,
    /// A thread of an earlier kernel found a bug and stopped it. The device keeps working.
    KernelPanic = 12,
    /// A fault has ended the device's context. It takes a new process to use the device again.
    DeviceLost = 13,
    /// The driver reports an error.
    Driver = 14,
    /// A bug of this library: the message is that of the panic.
    Internal = 15,
}

/// Why a call is refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{operation}: `{name}` is null")]
    Null { operation: &'static str, name: &'static str },
    #[error("{operation}: `{name}` is {value}, and must not be negative")]
    Negative { operation: &'static str, name: &'static str, value: i64 },
    #[error("{operation}: the elements of `{name}` are more than can be addressed")]
    Overflow { operation: &'static str, name: &'static str },
    #[error("{operation}: {reason}")]
    Length { operation: &'static str, reason: String },
    #[error("{operation}: {reason}")]
    Value { operation: &'static str, reason: String },
    #[error("{operation}: `{name}` is {number}, which is not a `{expected}`")]
    UnknownCode { operation: &'static str, name: &'static str, number: u32, expected: &'static str },
    #[error("{operation} takes elements of {}, and these are {}", names(supported), found.name())]
    Type { operation: &'static str, found: ElementType, supported: &'static [ElementType] },
    #[error("{operation}: `{name}` is {address:#x}, which is not a multiple of {align} bytes")]
    Misaligned { operation: &'static str, name: &'static str, address: usize, align: usize },
    #[error("{operation}: `{name}` and `{other}` have memory in common")]
    Overlap { operation: &'static str, name: &'static str, other: &'static str },
    #[error(
        "{operation}: byte {offset} of `{name}`, at {address:#x}, is not memory of a device: pass what cudaMalloc, cuMemAlloc or \
         ferrowarp_malloc returned, and no more than its bytes"
    )]
    NotDeviceMemory { operation: &'static str, name: &'static str, address: usize, offset: usize },
    #[error(
        "{operation}: `{name}` is memory of device {found}, and the handle is of device {expected}"
    )]
    WrongDevice { operation: &'static str, name: &'static str, found: i32, expected: u32 },
    #[error(
        "{operation}: the stream is of another context than the primary one of device {device}{}",
        said(detail)
    )]
    Stream { operation: &'static str, device: u32, detail: Option<String> },
    #[error(
        "{operation}: the stream is being captured into a CUDA graph, which this function does not support: call it outside the \
         capture"
    )]
    Captured { operation: &'static str },
    #[error("{operation}: {function} failed with {name}{}", said(detail))]
    Driver {
        operation: &'static str,
        function: &'static str,
        name: &'static str,
        detail: Option<String>,
    },
    #[error("{operation}: out of device memory: {bytes} bytes requested")]
    OutOfMemory { operation: &'static str, bytes: usize },
    #[error("{operation}: {error}")]
    Gpu { operation: &'static str, error: GpuError },
    #[error("{operation}: a bug of the library: {message}")]
    Panic { operation: &'static str, message: String },
}

fn names(types: &[ElementType]) -> String {
    types.iter().map(|own| own.name()).collect::<Vec<_>>().join(", ")
}

fn said(detail: &Option<String>) -> String {
    detail.as_ref().map(|detail| format!(": {detail}")).unwrap_or_default()
}

impl Error {
    /// What C gets of it.
    pub fn status(&self) -> Status {
        match self {
            Self::Null { .. } => Status::NullPointer,
            Self::Negative { .. } | Self::Overflow { .. } | Self::Length { .. } => {
                Status::InvalidLength
            }
            Self::UnknownCode { expected: "ferrowarp_type", .. } | Self::Type { .. } => {
                Status::InvalidType
            }
            Self::Value { .. } | Self::UnknownCode { .. } => Status::InvalidValue,
            Self::Misaligned { .. } => Status::Misaligned,
            Self::Overlap { .. } => Status::Overlap,
            Self::NotDeviceMemory { .. } => Status::NotDeviceMemory,
            Self::WrongDevice { .. } => Status::WrongDevice,
            Self::Stream { .. } => Status::InvalidStream,
            Self::Captured { .. } => Status::Unsupported,
            Self::Driver { .. } => Status::Driver,
            Self::OutOfMemory { .. } => Status::OutOfMemory,
            Self::Gpu { error, .. } => of_library(error),
            Self::Panic { .. } => Status::Internal,
        }
    }
}

/// The status of an error of the library.
fn of_library(error: &GpuError) -> Status {
    match error.root() {
        GpuError::SizeMismatch { .. } => Status::InvalidLength,
        GpuError::InvalidArgument { .. } => Status::InvalidValue,
        GpuError::OutOfMemory { .. } => Status::OutOfMemory,
        GpuError::KernelPanic(_) => Status::KernelPanic,
        GpuError::DeviceLost { .. } | GpuError::FaultAfterPanic { .. } => Status::DeviceLost,
        GpuError::WrongDevice { .. } => Status::WrongDevice,
        GpuError::Unsupported { .. } | GpuError::UnsupportedArch { .. } => Status::Unsupported,
        _ => Status::Driver,
    }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// The message of the last call that failed on this thread; empty if none did. It is valid until the next call of a function of this
/// library on the thread.
#[unsafe(no_mangle)]
pub extern "C" fn ferrowarp_last_error() -> *const c_char {
    // Where the thread's locals are gone, there is no message to point to.
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The status of `work`, whose error becomes the message of the thread. A panic is an error.
pub fn report(operation: &'static str, work: impl FnOnce() -> Result<(), Error>) -> Status {
    // What a panic leaves behind is behind mutexes or not used again.
    let done = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(Error::Panic { operation, message: message_of(&*panic) }));
    let Err(error) = done else { return Status::Ok };
    let text = error.to_string().replace('\0', "");
    let _ = LAST.try_with(|last| last.replace(CString::new(text).unwrap_or_default()));
    error.status()
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref().cloned()).unwrap_or_else(|| "a panic".to_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use super::*;

    #[test]
    fn a_panic_is_a_status_and_a_message() {
        let planted = || panic!("planted {}", 7);
        assert_eq!(report("ferrowarp_test", planted), Status::Internal);
        // SAFETY: the message lives until the thread's next call.
        let message = unsafe { CStr::from_ptr(ferrowarp_last_error()) };
        assert_eq!(message.to_str().unwrap(), "ferrowarp_test: a bug of the library: planted 7");
    }

    #[test]
    fn messages_are_of_a_thread() {
        let refused = || Err(Error::Null { operation: "ferrowarp_test", name: "x" });
        assert_eq!(report("ferrowarp_test", refused), Status::NullPointer);
        std::thread::spawn(|| {
            // SAFETY: as above.
            assert!(unsafe { CStr::from_ptr(ferrowarp_last_error()) }.is_empty());
        })
        .join()
        .unwrap();
    }
}
