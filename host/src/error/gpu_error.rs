//! Everything that can go wrong, as one type.

use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(feature = "reload")]
use cuda_builder::CudaBuilderError;
use cuda_std::launch::ContractError;
use cuda_std::ring::MessageError;
use thiserror::Error as ThisError;

use super::words::{
    bytes, debug_as_display, first_difference, list, numbers, or_more, parameters, persistent,
};
use super::{DriverError, GraphError, InContext, KernelPanic, LaunchBound, LaunchLimit};

/// The result of an operation on a GPU.
pub type GpuResult<T> = Result<T, GpuError>;

// An error is made once and never changed, so none is found half changed after a panic. What some
// errors hold cannot say so itself: an `io::Error` may hold anything.
impl UnwindSafe for GpuError {}
impl RefUnwindSafe for GpuError {}

/// Everything that can go wrong between the host and a GPU.
///
/// `Display` is one clear line with all that is known: what was being done, what failed, why, and
/// what to do about it where that is known. `Debug` prints that line, too, so that a program whose
/// `main` returns this error, or unwraps it, shows its user a sentence.
#[derive(ThisError)]
#[non_exhaustive]
pub enum GpuError {
    /// Another error, and what was being done when it happened.
    #[error(transparent)]
    Context(Box<InContext>),

    /// The driver refused a call, or reports a fault in work that was queued before.
    #[error(transparent)]
    Driver(Box<DriverError>),

    /// A thread of a kernel panicked. The device keeps working: later launches run.
    #[error(transparent)]
    KernelPanic(Box<KernelPanic>),

    /// A thread of a kernel panicked, and then a fault ended the device's context: perhaps another thread
    /// used what the first one would have written.
    #[error("{panic}; after the panic, {fault}")]
    FaultAfterPanic {
        /// The panic.
        panic: Box<KernelPanic>,
        /// The fault, which may also have other causes.
        fault: Box<GpuError>,
    },

    /// A fault ended the device's context; nothing more can run on it. Also what the call returns
    /// that reported the fault.
    #[error("the device is lost after a fault ({cause}); it takes a new process to use it again")]
    DeviceLost {
        /// The first fault.
        cause: Arc<GpuError>,
    },

    /// This [`Gpu`](crate::Gpu) was made without kernels.
    #[error(
        "no kernels were embedded{}: pass some to `Gpu::with_images`",
        kernel.as_ref().map(|kernel| format!(", so `{kernel}` cannot run")).unwrap_or_default()
    )]
    NoKernels {
        /// The kernel that was to run; `None` where all were to be loaded.
        kernel: Option<String>,
    },

    /// No embedded image runs on this device.
    #[error(
        "no embedded image runs on compute capability {}.{} (embedded: {}); \
         build the kernels for sm_{}{} or lower",
        device.0, device.1, available.join(", "), device.0, device.1
    )]
    UnsupportedArch {
        /// The device's compute capability.
        device: (u32, u32),
        /// The architectures that were embedded.
        available: Vec<String>,
    },

    /// The loaded module has no kernel of that name.
    #[error(
        "there is no kernel `{kernel}` in the module; it has {}{}",
        list(candidates),
        hint.unwrap_or_default()
    )]
    NotFound {
        /// The name that was asked for.
        kernel: String,
        /// The kernels of the module, nearest name first; empty if they are not known.
        candidates: Vec<String>,
        /// Which images have it, where that is known: the end of the sentence.
        hint: Option<&'static str>,
    },

    /// The loaded module has no variable of that name.
    #[error(
        "there is no variable `{name}` in the module; it has {}: a `static` needs a name of its own \
         (`#[unsafe(no_mangle)]`) and a kernel that uses it",
        list(candidates)
    )]
    NoGlobal {
        /// The name that was asked for.
        name: String,
        /// The variables of the module, nearest name first.
        candidates: Vec<String>,
    },

    /// A variable of a module is not one of the type that it was asked for as.
    #[error(
        "the variable `{name}` has {bytes} bytes at {address:#x}; `{target}` has {size} bytes and is aligned to {align}"
    )]
    WrongGlobal {
        /// The variable.
        name: String,
        /// Its address.
        address: u64,
        /// Its size in bytes.
        bytes: usize,
        /// Name of the type asked for.
        target: &'static str,
        /// Size of that type in bytes.
        size: usize,
        /// Alignment of that type in bytes.
        align: usize,
    },

    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A launch has other arguments than the kernel's PTX entry.
    #[error(
        "`{kernel}` takes {} of {expected:?} bytes, and is launched with {found:?}{}",
        parameters(expected.len()),
        first_difference(expected, found)
    )]
    WrongParameters {
        /// The kernel.
        kernel: &'static str,
        /// Sizes of its parameters.
        expected: Vec<usize>,
        /// Sizes that were given.
        found: Vec<usize>,
    },

    /// A launch of a batch uses memory that the batch was not given, or writes what it was lent to read.
    #[error(
        "`{kernel}` uses memory as `{argument}` that its batch does not have for that: pass \
         every buffer to `batch`, as `&mut` if a kernel writes it and as `&` otherwise"
    )]
    NotInBatch {
        /// The kernel.
        kernel: &'static str,
        /// What the memory is to it.
        argument: &'static str,
    },

    /// A module has a kernel whose parameters have other types than its launcher's.
    #[error(
        "`{kernel}` takes ({found}), and its launcher gives ({expected}): build the host again"
    )]
    WrongTypes {
        /// The kernel.
        kernel: &'static str,
        /// What the launcher gives.
        expected: String,
        /// What the kernel was compiled for, as it is written there.
        found: String,
    },

    /// A new version of a module has a kernel that its launcher does not fit.
    #[error(
        "`{kernel}` now is for {found}, and its launcher gives {expected}: build the host again"
    )]
    ContractChanged {
        /// The kernel.
        kernel: &'static str,
        /// What the launcher gives.
        expected: LaunchBound,
        /// What the kernel was compiled for.
        found: LaunchBound,
    },

    /// A version of a module was asked for that is not kept.
    #[error("there is no version {asked} of the module: {} are kept", numbers(kept))]
    NoVersion {
        /// The number that was asked for.
        asked: u64,
        /// The numbers of those that are kept, oldest first.
        kept: Vec<u64>,
    },

    /// Kernels could not be built while the program runs.
    #[cfg(feature = "reload")]
    #[error(transparent)]
    KernelCrate(Arc<CudaBuilderError>),

    /// A file or folder could not be read or watched.
    #[error("cannot watch {}: {source}", path.display())]
    Watch {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },

    /// A launch exceeds a limit of the device or of the kernel.
    #[error("`{kernel}` cannot be launched with {value}{} {what}: the limit is {limit}", or_more(*what, *value))]
    LaunchTooLarge {
        /// The kernel.
        kernel: &'static str,
        /// What is too large, with its unit.
        what: LaunchLimit,
        /// The value asked for; of blocks in a grid, `u32::MAX` stands for that many or more.
        value: u64,
        /// The limit.
        limit: u64,
    },

    /// A launch breaks the contract of its kernel.
    #[error("`{kernel}` cannot be launched this way: {broken}")]
    Contract {
        /// The kernel.
        kernel: &'static str,
        /// What the launch breaks.
        broken: ContractError,
    },

    /// An argument is not one that the operation takes.
    #[error("{operation}: {reason}")]
    InvalidArgument {
        /// What was being done.
        operation: &'static str,
        /// What is wrong with the argument.
        reason: String,
    },

    /// Two lengths that must be equal are not.
    #[error("{operation}: {expected} elements are needed, {found} were given")]
    SizeMismatch {
        /// What was being done.
        operation: &'static str,
        /// The length that fits.
        expected: usize,
        /// The length that was given.
        found: usize,
    },

    /// More elements were given to a [`DeviceVec`](crate::DeviceVec) than it has room for.
    #[error(
        "{operation}: {found} elements do not fit into a capacity of {capacity}; reserve more before, or \
         append them with `extend_from_slice`, which grows the vector"
    )]
    CapacityExceeded {
        /// What was being done.
        operation: &'static str,
        /// Elements for which there is memory.
        capacity: usize,
        /// Elements that were given.
        found: usize,
    },

    /// A view of memory as another type does not fit in size or alignment.
    #[error("{bytes} bytes at {address:#x} are not a whole number of aligned `{target}`")]
    InvalidCast {
        /// Address of the first byte.
        address: u64,
        /// Length in bytes.
        bytes: usize,
        /// Name of the type asked for.
        target: &'static str,
    },

    /// The device has not enough free memory.
    #[error(
        "out of GPU memory: {} requested, {} of {} free, peak use here {}",
        bytes(*requested), bytes(*free), bytes(*total), bytes(*peak)
    )]
    OutOfMemory {
        /// Bytes asked for (`usize::MAX` if more than can be counted).
        requested: usize,
        /// Bytes free at that moment.
        free: usize,
        /// Bytes that the device has, or that a limit allows.
        total: usize,
        /// The most bytes that were in use at one time through this [`Gpu`](crate::Gpu), or under
        /// that limit.
        peak: usize,
    },

    /// No more host memory can be page-locked.
    #[error(
        "no more host memory can be page-locked: {} requested{}; drop pinned buffers, or let a pool of them serve \
         several uses",
        bytes(*requested),
        free.map(|free| format!(", {} of the limit left", bytes(free))).unwrap_or_default()
    )]
    OutOfPinnedMemory {
        /// Bytes asked for.
        requested: usize,
        /// Bytes that a limit leaves; `None` where the system refuses.
        free: Option<usize>,
    },

    /// Host memory was to be page-locked of which a part is page-locked already.
    #[error(
        "{bytes} bytes of host memory at {address:#x} are page-locked already, all or in part; use \
         them as they are, or register the whole once"
    )]
    AlreadyRegistered {
        /// Address of the first byte.
        address: u64,
        /// Length in bytes.
        bytes: usize,
    },

    /// Memory of one device was given to another one.
    #[error("{what} lives on GPU {found}, but the work runs on GPU {expected}")]
    WrongDevice {
        /// What was given.
        what: &'static str,
        /// The ordinal of the device that does the work.
        expected: u32,
        /// The ordinal of the device that holds the memory.
        found: u32,
    },

    /// Memory or a stream of one context was given to work in another context of the same device, as
    /// [`Gpu::from_context`](crate::Gpu::from_context) opens it.
    #[error(
        "{what} belongs to another context of GPU {ordinal} than the one that the work runs in: open that context by \
         `Gpu::from_context`, or copy with `copy_from_peer`"
    )]
    WrongContext {
        /// What was given.
        what: &'static str,
        /// The ordinal of the device of both contexts.
        ordinal: u32,
    },

    /// A kernel's argument is ordered by something that is not one of this crate's streams.
    #[error("an argument of `{kernel}` is ordered by a stream that this runtime does not know")]
    ForeignStream {
        /// The kernel.
        kernel: &'static str,
    },

    /// A host callback panicked. The device keeps working.
    #[error("a host callback panicked: {message}")]
    HostPanic {
        /// What the panic says.
        message: String,
    },

    /// The waker of a future of a stream panicked. The device keeps working, and other futures were
    /// woken.
    #[error("the waker of a future panicked: {message}")]
    WakerPanic {
        /// What the panic says.
        message: String,
    },

    /// A host callback called the driver, which would deadlock.
    #[error(
        "{operation} was called in a host callback, which must not call the driver; \
         let the callback wake a thread that does"
    )]
    InHostCallback {
        /// The driver function that was not called.
        operation: &'static str,
    },

    /// This process was forked from one that had used the driver, which does not work in it.
    #[error(
        "this process was forked from one that used the GPU, and no driver works in it; \
         start the child with exec, or fork before the first use"
    )]
    Forked,

    /// Something is wrong with a graph.
    #[error(transparent)]
    Graph(Box<GraphError>),

    /// A ring is closed: what was at its other end has ended.
    #[error("{operation}: the ring is closed, its other end has ended")]
    RingClosed {
        /// What was being done.
        operation: &'static str,
    },

    /// A message of a ring is not of the kind that was expected, or a kernel does not know its kind.
    #[error(transparent)]
    Message(#[from] MessageError),

    /// A router has no kernel of that name.
    #[error("the router has no kernel `{name}`; it has {}", list(names))]
    NotRouted {
        /// The name that was asked for.
        name: String,
        /// The names that the router was made with.
        names: Vec<String>,
    },

    /// A persistent kernel kept running after its rings were closed. The memory that it uses leaks.
    #[error(
        "a persistent kernel kept running for {waited_ms} ms after its rings were closed; it must return when \
         `recv` returns `None` or `send` returns an error"
    )]
    KernelNotResponding {
        /// How long it was waited for, in milliseconds.
        waited_ms: u64,
    },

    /// A wait for the whole device while persistent kernels run would not end.
    #[error(
        "{} on the device, so that a wait for all of it would not end: shut them down first, or \
         wait for a stream",
        persistent(*running)
    )]
    PersistentKernels {
        /// How many run.
        running: usize,
    },

    /// A kernel would have to be loaded while persistent kernels run, for which the driver waits.
    #[error(
        "{} on the device, and the driver would wait for their end before it loads another kernel: \
         load it first (`Gpu::load_kernels`), or shut them down",
        persistent(*running)
    )]
    LoadWouldBlock {
        /// How many run.
        running: usize,
    },

    /// The device cannot do this.
    #[error("this device does not support {what}")]
    Unsupported {
        /// What it cannot do, and what to use in its place.
        what: &'static str,
    },
}

impl GpuError {
    /// The error itself, without what was being done around it.
    #[must_use]
    pub fn root(&self) -> &GpuError {
        match self {
            Self::Context(context) => context.error.root(),
            other => other,
        }
    }

    /// What was being done, outermost first.
    pub fn contexts(&self) -> impl Iterator<Item = &str> {
        let mut next = Some(self);
        std::iter::from_fn(move || match next.take()? {
            Self::Context(context) => {
                next = Some(&context.error);
                Some(context.what.as_str())
            }
            _ => None,
        })
    }

    /// The driver's error, if it is one.
    #[must_use]
    pub fn driver(&self) -> Option<&DriverError> {
        match self.root() {
            Self::Driver(driver) => Some(driver),
            Self::FaultAfterPanic { fault, .. } => fault.driver(),
            Self::DeviceLost { cause } => cause.driver(),
            _ => None,
        }
    }

    /// The panic of a kernel, if it is one.
    #[must_use]
    pub fn panic(&self) -> Option<&KernelPanic> {
        match self.root() {
            Self::KernelPanic(panic) | Self::FaultAfterPanic { panic, .. } => Some(panic),
            Self::DeviceLost { cause } => cause.panic(),
            _ => None,
        }
    }

    /// Wraps the error in what was being done.
    #[must_use]
    pub fn context(self, what: impl Into<String>) -> Self {
        Self::Context(Box::new(InContext { what: what.into(), error: self }))
    }
}

debug_as_display!(GpuError, InContext, DriverError, GraphError);

impl From<GraphError> for GpuError {
    fn from(error: GraphError) -> Self {
        Self::Graph(Box::new(error))
    }
}
