//! Errors: one type, [`GpuError`], and [`GpuContext`] to say what was being done.

mod codes;

use std::error::Error;
use std::fmt;
use std::io;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::PathBuf;
use std::sync::Arc;

use cuda_builder::CudaBuilderError;
use cuda_std::launch::ContractError;
use cust::error::CudaError;
use thiserror::Error as ThisError;

use crate::graph::GraphError;
use crate::panic::KernelPanic;

pub(crate) use codes::is_sticky;

/// The result of an operation on a GPU.
pub type GpuResult<T> = Result<T, GpuError>;

// An error is made once and never changed, so nobody finds one half changed after a panic. What some
// errors hold cannot say so itself: an `io::Error` may hold anything.
impl UnwindSafe for GpuError {}
impl RefUnwindSafe for GpuError {}

/// Everything that can go wrong between the host and a GPU.
///
/// `Display` is one clear line with all that is known: what was being done, what failed, why, and
/// what to do about it where that is known.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum GpuError {
    /// Another error, and what was being done when it happened.
    #[error(transparent)]
    Context(Box<InContext>),

    /// The driver refused a call, or reports a fault in work that was queued before.
    #[error(transparent)]
    Driver(Box<DriverError>),

    /// A thread of a kernel panicked. The device works on: kernels that are launched now run.
    #[error(transparent)]
    KernelPanic(Box<KernelPanic>),

    /// A fault ended the device's context; nothing more can run on it. Also what the call returns
    /// that reported the fault.
    #[error("the device is lost after a fault ({cause}); it takes a new process to use it again")]
    DeviceLost {
        /// The first fault.
        cause: Arc<GpuError>,
    },

    /// This [`Gpu`](crate::Gpu) was made without kernels.
    #[error("no kernels were embedded, so `{kernel}` cannot run: give `Gpu::with_images` some")]
    NoKernels {
        /// The kernel that was to run.
        kernel: String,
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
    #[error("there is no kernel `{kernel}` in the module; it has {}", list(candidates))]
    NotFound {
        /// The name that was asked for.
        kernel: String,
        /// The kernels of the module, nearest name first; empty if they are not known.
        candidates: Vec<String>,
    },

    /// A launch has other arguments than the kernel's PTX entry.
    #[error(
        "`{kernel}` takes {} of {expected:?} bytes, and is launched with {found:?}",
        parameters(expected.len())
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
        "`{kernel}` uses memory as `{argument}` that its batch does not have for that: give `batch` \
         every buffer, or a `&mut` of each that a kernel writes and a `&` of the others"
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
    #[error("`{kernel}` cannot be launched with {value} {what}: the limit is {limit}")]
    LaunchTooLarge {
        /// The kernel.
        kernel: &'static str,
        /// What is too large, with its unit.
        what: LaunchLimit,
        /// The value asked for.
        value: u64,
        /// The limit.
        limit: u64,
    },

    /// A launch breaks the contract of its kernel.
    #[error("`{kernel}` cannot be launched so: {broken}")]
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
        "out of GPU memory: {} asked for, {} of {} free, {} in use here at most until now",
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

    /// A kernel's argument is ordered by something that is not one of this crate's streams.
    #[error("an argument of `{kernel}` is ordered by a stream that this runtime does not know")]
    ForeignStream {
        /// The kernel.
        kernel: &'static str,
    },

    /// A function that a stream called on the host panicked. The device works on.
    #[error("a host function panicked in its stream: {message}")]
    HostPanic {
        /// What the panic says.
        message: String,
    },

    /// The waker of a future of a stream panicked. The device works on, and other futures were woken.
    #[error("the waker of a future panicked: {message}")]
    WakerPanic {
        /// What the panic says.
        message: String,
    },

    /// A function that a stream calls on the host called the driver, which would wait for itself.
    #[error(
        "{operation} was called in a host function of a stream, which must not call the driver; \
             let it wake a thread that does"
    )]
    InHostFunc {
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

    /// A persistent kernel went on after it was told to end. What it uses is never given back.
    #[error(
        "a persistent kernel went on for {waited_ms} ms after its rings were closed; it has to end when \
         `recv` returns `None` or `send` an error"
    )]
    KernelDoesNotAnswer {
        /// How long it was waited for, in milliseconds.
        waited_ms: u64,
    },

    /// A wait for the whole device would not end while persistent kernels run.
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
    LoadWouldWait {
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

/// A limit of a launch. `Display` names it with its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaunchLimit {
    /// Threads in one block.
    BlockThreads,
    /// Threads in one block of this kernel, which its registers limit.
    KernelThreads,
    /// The block's extent in one dimension (0, 1, 2).
    BlockDim(u8),
    /// The grid's extent in one dimension (0, 1, 2).
    GridDim(u8),
    /// Static and dynamic shared memory of one block.
    SharedMemory,
    /// Blocks that run at the same time, of a cooperative kernel.
    CooperativeBlocks,
    /// Blocks of one cluster.
    ClusterBlocks,
}

impl fmt::Display for LaunchLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axis = |dim: u8| char::from(b'x' + dim);
        match *self {
            Self::BlockThreads => f.write_str("threads a block"),
            Self::KernelThreads => f.write_str("threads a block of this kernel"),
            Self::BlockDim(dim) => write!(f, "threads a block in {}", axis(dim)),
            Self::GridDim(dim) => write!(f, "blocks in {}", axis(dim)),
            Self::SharedMemory => f.write_str("bytes of shared memory a block"),
            Self::CooperativeBlocks => f.write_str("blocks that all run at the same time"),
            Self::ClusterBlocks => f.write_str("blocks a cluster"),
        }
    }
}

/// What the blocks of a kernel are. `Display` is for a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LaunchBound {
    /// Blocks of any shape.
    AnyBlock,
    /// Blocks of so many threads along x, y and z.
    Block(u32, u32, u32),
    /// Blocks of at most so many threads.
    Threads(u32),
    /// No clusters.
    NoCluster,
    /// Clusters of so many blocks along x, y and z.
    Cluster(u32, u32, u32),
}

impl fmt::Display for LaunchBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::AnyBlock => f.write_str("blocks of any shape"),
            Self::Block(x, y, z) => write!(f, "blocks of {x} × {y} × {z} threads"),
            Self::Threads(n) => write!(f, "blocks of at most {n} threads"),
            Self::NoCluster => f.write_str("no clusters"),
            Self::Cluster(x, y, z) => write!(f, "clusters of {x} × {y} × {z} blocks"),
        }
    }
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
            Self::DeviceLost { cause } => cause.driver(),
            _ => None,
        }
    }

    /// The panic of a kernel, if it is one.
    #[must_use]
    pub fn panic(&self) -> Option<&KernelPanic> {
        match self.root() {
            Self::KernelPanic(panic) => Some(panic),
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

/// An error, and what was being done when it happened.
#[derive(Debug)]
pub struct InContext {
    what: String,
    error: GpuError,
}

impl InContext {
    /// What was being done.
    #[must_use]
    pub fn what(&self) -> &str {
        &self.what
    }

    /// The error.
    #[must_use]
    pub fn error(&self) -> &GpuError {
        &self.error
    }
}

impl fmt::Display for InContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.error)
    }
}

impl Error for InContext {
    /// The line already holds the inner error, so the chain goes on behind it.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

/// A call that the driver answered with an error.
#[derive(Debug)]
pub struct DriverError {
    operation: &'static str,
    code: u32,
    detail: Option<String>,
    hint: Option<&'static str>,
    source: Option<CudaError>,
}

impl DriverError {
    /// The driver function.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// The driver's code, also one that is newer than this crate.
    #[must_use]
    pub fn code(&self) -> u32 {
        self.code
    }

    /// The code's name in CUDA's headers, for example `CUDA_ERROR_OUT_OF_MEMORY`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        codes::name(self.code)
    }

    /// All that the driver or the emulator said: the assembler's log, the faulting thread and line.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// What to do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        self.hint
    }

    /// Describes `code`, which `operation` returned on this thread just now.
    pub(crate) fn new(operation: &'static str, code: u32) -> Self {
        let detail = cuda_driver::take_detail();
        let true_code = detail.as_ref().map_or(code, |detail| detail.code);
        Self {
            operation,
            code: true_code,
            hint: codes::hint(true_code, cuda_driver::backend()),
            detail: detail.map(|detail| detail.text).filter(|text| !text.trim().is_empty()),
            source: None,
        }
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => f.write_str(&one_line(detail))?,
            None => write!(f, "{}: {}", self.operation, codes::meaning(self.code))?,
        }
        if self.detail.as_ref().is_none_or(|detail| !detail.contains(self.name())) {
            write!(f, " ({} {})", self.name(), self.code)?;
        }
        self.hint.map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl Error for DriverError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|error| error as _)
    }
}

impl From<DriverError> for GpuError {
    fn from(error: DriverError) -> Self {
        Self::Driver(Box::new(error))
    }
}

impl From<GraphError> for GpuError {
    fn from(error: GraphError) -> Self {
        Self::Graph(Box::new(error))
    }
}

impl From<CudaError> for GpuError {
    /// Takes over what the driver said on this thread, so convert where the call was made.
    fn from(error: CudaError) -> Self {
        DriverError { source: Some(error), ..DriverError::new("a driver call", error as u32) }
            .into()
    }
}

/// Says what was being done when an error happened.
///
/// ```
/// use ferrowarp::{GpuContext, GpuError, GpuResult};
///
/// fn check(expected: usize, found: usize) -> GpuResult<()> {
///     let error = GpuError::SizeMismatch { operation: "comparing", expected, found };
///     (expected == found).then_some(()).ok_or(error)
/// }
/// let error = check(3, 2).gpu_context("reading the weights").unwrap_err();
/// assert!(error.to_string().starts_with("reading the weights: comparing: 3 elements"));
/// ```
pub trait GpuContext<T> {
    /// Adds `what` in front of the error.
    ///
    /// # Errors
    /// The same error as before, with `what` in front.
    fn gpu_context(self, what: impl Into<String>) -> GpuResult<T>;

    /// Adds `what()` in front of the error; it is called for an error only.
    ///
    /// # Errors
    /// The same error as before, with `what()` in front.
    fn with_gpu_context<S: Into<String>>(self, what: impl FnOnce() -> S) -> GpuResult<T>;
}

impl<T, E: Into<GpuError>> GpuContext<T> for Result<T, E> {
    fn gpu_context(self, what: impl Into<String>) -> GpuResult<T> {
        self.map_err(|error| error.into().context(what))
    }

    fn with_gpu_context<S: Into<String>>(self, what: impl FnOnce() -> S) -> GpuResult<T> {
        self.map_err(|error| error.into().context(what()))
    }
}

/// The lines of `text` that fit in one: a log can have thousands.
fn one_line(text: &str) -> String {
    const LINES: usize = 4;
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut line = lines.by_ref().take(LINES).collect::<Vec<_>>().join("; ");
    let rest = lines.count();
    if rest > 0 {
        line.push_str(&format!("; and {rest} more lines"));
    }
    line
}

/// `1 persistent kernel`, `3 persistent kernels`
fn persistent(count: usize) -> String {
    format!("{count} persistent kernel{}", if count == 1 { " runs" } else { "s run" })
}

/// `1 parameter`, `3 parameters`
fn parameters(count: usize) -> String {
    format!("{count} parameter{}", if count == 1 { "" } else { "s" })
}

/// Numbers for a sentence.
fn numbers(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// Names for a sentence: "`a`, `b`".
fn list(names: &[String]) -> String {
    const SHOWN: usize = 8;
    if names.is_empty() {
        return "none that is known".to_owned();
    }
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        rest => format!("{} and {rest} more", shown.join(", ")),
    }
}

/// A size in bytes with a unit that reads well.
pub(crate) fn bytes(count: usize) -> String {
    const UNITS: [(usize, &str); 4] = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
    match UNITS.into_iter().find(|(shift, _)| count >> shift > 0) {
        Some((shift, unit)) => format!("{:.1} {unit}", count as f64 / (1u64 << shift) as f64),
        None => format!("{count} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        assert_eq!(bytes(0), "0 bytes");
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(1536), "1.5 KiB");
        assert_eq!(bytes(3 << 30), "3.0 GiB");
    }

    #[test]
    fn a_log_becomes_one_line() {
        assert_eq!(one_line("a\n\n  b  \n"), "a; b");
        assert_eq!(one_line("1\n2\n3\n4\n5\n6"), "1; 2; 3; 4; and 2 more lines");
    }

    #[test]
    fn contexts_stand_in_front_and_the_root_is_found() {
        let root = GpuError::OutOfMemory { requested: 2048, free: 1024, total: 4096, peak: 512 };
        let error = Err::<(), _>(root).gpu_context("inner").gpu_context("outer").unwrap_err();
        let line = "outer: inner: out of GPU memory: 2.0 KiB asked for, 1.0 KiB of 4.0 KiB free, \
                    512 bytes in use here at most until now";
        assert_eq!(error.to_string(), line);
        assert_eq!(error.contexts().collect::<Vec<_>>(), ["outer", "inner"]);
        assert!(matches!(error.root(), GpuError::OutOfMemory { requested: 2048, .. }));
        assert!(error.source().is_none());
    }

    #[test]
    fn a_cust_error_keeps_its_code_and_is_the_source() {
        let error = Err::<(), _>(CudaError::InvalidPtx).gpu_context("loading").unwrap_err();
        let driver = error.driver().expect("a driver error");
        assert_eq!((driver.code(), driver.name()), (218, "CUDA_ERROR_INVALID_PTX"));
        let source = error.source().expect("a source").downcast_ref::<CudaError>();
        assert_eq!(source, Some(&CudaError::InvalidPtx));
    }

    #[test]
    fn a_code_that_nobody_knows_is_kept() {
        let error = GpuError::from(DriverError::new("cuFutureCall", 4321));
        let line = error.to_string();
        assert!(line.starts_with("cuFutureCall: "), "{line}");
        assert!(line.ends_with("(an unknown code 4321)"), "{line}");
    }
}
