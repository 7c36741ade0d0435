//! Memory that kernels and the host access concurrently.
//!
//! It has no home stream: only the atomics in it order its uses. What is kept of each launch that
//! uses it is an event after that launch, so that the memory is not freed before the kernel has
//! ended.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use cuda_driver::sys;
use cuda_std::launch::Home;
use cuda_std::ring::{Control, ControlBlock};

use crate::context::{Context, Handle};
use crate::deferred_frees::{Freed, free_or_defer};
use crate::error::{GpuError, GpuResult, KernelPanic};
use crate::event::Event;
use crate::lock::lock;
use crate::stream::StreamInner;

/// Where memory lies that host and device share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharedLocation {
    /// In the host's memory, pinned, which kernels reach over the bus.
    Mapped,
    /// Managed by the driver, to stay in the host's memory where that can be had.
    Managed,
}

/// Zeroed memory that the host and kernels reach.
#[derive(Debug)]
pub(crate) struct Block {
    context: Arc<Context>,
    location: SharedLocation,
    host: NonNull<u8>,
    device: u64,
    bytes: usize,
}

// SAFETY: a block is an address; who reads and writes there says why that is sound.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// `bytes` bytes, which are not 0, aligned to 256.
    pub(crate) fn zeroed(
        context: &Arc<Context>,
        location: SharedLocation,
        bytes: usize,
    ) -> GpuResult<Self> {
        let (host, device) = match location {
            SharedLocation::Mapped => map(context, bytes)?,
            SharedLocation::Managed => manage(context, bytes)?,
        };
        let block = Self { context: context.clone(), location, host, device, bytes };
        // SAFETY: the driver gave as many bytes, which nobody else knows yet.
        unsafe { host.write_bytes(0, bytes) };
        Ok(block)
    }

    /// Its address on the host.
    pub(crate) fn host(&self) -> NonNull<u8> {
        self.host
    }

    /// Its address on the device.
    pub(crate) fn device(&self) -> u64 {
        self.device
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let freed = match self.location {
            SharedLocation::Mapped => Freed::Host(Handle(self.host.as_ptr().cast())),
            SharedLocation::Managed => Freed::Managed(self.device),
        };
        free_or_defer(&self.context, freed, self.bytes);
    }
}

fn map(context: &Context, bytes: usize) -> GpuResult<(NonNull<u8>, u64)> {
    const PORTABLE_AND_MAPPED: u32 = 3;
    let (mut host, mut device) = (ptr::null_mut(), 0);
    context.call("cuMemHostAlloc", || {
        // SAFETY: `host` is writable.
        unsafe { sys::cuMemHostAlloc(&mut host, bytes, PORTABLE_AND_MAPPED) }
    })?;
    let found = context.call("cuMemHostGetDevicePointer", || {
        // SAFETY: `device` is writable, and the memory is mapped.
        unsafe { sys::cuMemHostGetDevicePointer_v2(&mut device, host, 0) }
    });
    if let Err(error) = found {
        // SAFETY: nobody knows the memory.
        context.release(|| unsafe { sys::cuMemFreeHost(host) });
        return Err(error);
    }
    Ok((NonNull::new(host.cast()).expect("memory is not at null"), device))
}

/// Managed memory that the driver leaves with the host, and maps for the device, where it takes
/// such advice.
fn manage(context: &Context, bytes: usize) -> GpuResult<(NonNull<u8>, u64)> {
    const HOST: i32 = -1;
    use sys::mem_advise::{
        SET_ACCESSED_BY as ACCESSED_BY, SET_PREFERRED_LOCATION as PREFERRED_LOCATION,
    };
    if !context.info().concurrent_managed_access {
        let what = "unified memory that host and kernels use at once: use mapped memory";
        return Err(GpuError::Unsupported { what });
    }
    let mut address = 0;
    let flags = sys::mem_attach::GLOBAL;
    context.call("cuMemAllocManaged", || {
        // SAFETY: `address` is writable.
        unsafe { sys::cuMemAllocManaged(&mut address, bytes, flags) }
    })?;
    for (advice, location) in
        [(PREFERRED_LOCATION, HOST), (ACCESSED_BY, context.info().ordinal as i32)]
    {
        // Advice that is not taken costs time and nothing else.
        // SAFETY: the memory was allocated just now.
        context.release(|| unsafe { sys::cuMemAdvise(address, bytes, advice, location) });
    }
    Ok((NonNull::new(address as *mut u8).expect("memory is not at null"), address))
}

/// The words that close a ring, and what may be closed first.
#[derive(Debug)]
pub(crate) struct Closer {
    control: NonNull<ControlBlock>,
    host_sends: bool,
    /// The stream that copies the host's messages to the device.
    copies: Option<Arc<StreamInner>>,
}

// SAFETY: the words are reached by atomic operations alone.
unsafe impl Send for Closer {}
// SAFETY: as above.
unsafe impl Sync for Closer {}

impl Closer {
    /// # Safety
    /// The block lives as long as the memory that this becomes part of.
    pub(crate) unsafe fn new(
        control: NonNull<ControlBlock>,
        host_sends: bool,
        copies: Option<Arc<StreamInner>>,
    ) -> Self {
        Self { control, host_sends, copies }
    }
}

/// Returns the failure of kernels that do not use the memory, but without which those wait in vain that do.
pub(crate) type Watch = Box<dyn Fn() -> GpuResult<()> + Send + Sync>;

/// Memory that host and device share, and the launches that use it. Launches hold it as an
/// argument's home.
pub(crate) struct SharedMemory {
    context: Arc<Context>,
    parts: ManuallyDrop<Box<dyn Any + Send + Sync>>,
    closer: Option<Closer>,
    uses: Mutex<LaunchEvents>,
    launched: AtomicBool,
    /// The event of a launch could not be recorded, so it is unknown when the memory is unused.
    unknown: AtomicBool,
    panic: OnceLock<KernelPanic>,
    watch: OnceLock<Watch>,
}

/// An event after each launch that may still run.
#[derive(Default)]
struct LaunchEvents {
    events: Vec<Event>,
    /// At how many events the complete ones are removed.
    look_at: usize,
}

impl LaunchEvents {
    /// Fewer events than this are never checked.
    const FEW: usize = 32;

    /// Whether to remove complete events: rarely enough that it adds nothing to the cost of a
    /// launch.
    fn are_many(&self) -> bool {
        self.events.len() >= self.look_at.max(Self::FEW)
    }
}

/// How long dropping a ring's memory waits for kernels after the ring was closed.
const LAST_WAIT: Duration = Duration::from_secs(2);

impl SharedMemory {
    /// Memory that is freed when all launches that use it are over. `parts` own it.
    pub(crate) fn new(
        context: &Arc<Context>,
        parts: impl Any + Send + Sync,
        closer: Option<Closer>,
    ) -> Arc<Self> {
        Arc::new(Self {
            context: context.clone(),
            parts: ManuallyDrop::new(Box::new(parts)),
            closer,
            uses: Mutex::default(),
            launched: AtomicBool::new(false),
            unknown: AtomicBool::new(false),
            panic: OnceLock::new(),
            watch: OnceLock::new(),
        })
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// From now on a failure that `watch` returns is one of the memory, too. It is set once.
    pub(crate) fn set_watch(&self, watch: Watch) {
        let set = self.watch.set(watch);
        debug_assert!(set.is_ok(), "the memory is watched already");
    }

    fn uses(&self) -> MutexGuard<'_, LaunchEvents> {
        lock(&self.uses)
    }

    /// Notes that a launch that uses the memory was enqueued; records `event` after it.
    pub(crate) fn used_by(&self, stream: &StreamInner, event: Event) {
        self.launched.store(true, Ordering::Release);
        match stream.record_into(&event) {
            Ok(()) => self.note(event),
            Err(_) => self.unknown.store(true, Ordering::Release),
        }
    }

    fn note(&self, event: Event) {
        let mut uses = self.uses();
        uses.events.push(event);
        if uses.are_many() {
            drop(uses);
            self.drop_complete();
        }
    }

    /// Removes launches that are over. A ring keeps the panic of one for the next wait for the
    /// ring; panics of launches with other memory are reported by the streams' waits.
    fn drop_complete(&self) {
        match self.closer {
            Some(_) => drop(self.is_over()),
            None => self.uses().events.retain(|event| !matches!(event.query(), Ok(true))),
        }
        let mut uses = self.uses();
        uses.look_at = 2 * uses.events.len();
    }

    /// Whether the memory was used by kernels and all of them are over.
    ///
    /// # Errors
    /// The fault or the panic of one of them, each time.
    pub(crate) fn is_over(&self) -> GpuResult<bool> {
        self.watched()?;
        self.known_panic()?;
        if !self.launched.load(Ordering::Acquire) || self.unknown.load(Ordering::Acquire) {
            return self.context.lost().map_or(Ok(false), Err);
        }
        let mut uses = self.uses();
        // An event reports a panic once, perhaps to the thread that had the lock.
        self.known_panic()?;
        while let Some(event) = uses.events.first() {
            match event.is_complete() {
                Ok(false) => return Ok(false),
                Ok(true) => drop(uses.events.remove(0)),
                Err(error) => {
                    if let GpuError::KernelPanic(panic) = &error {
                        let _ = self.panic.set((**panic).clone());
                        drop(uses);
                        // Now that the panic is there, the watch may return it with the kernel's name.
                        self.watched()?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(true)
    }

    /// # Errors
    /// The failure that the watch returns.
    fn watched(&self) -> GpuResult<()> {
        self.watch.get().map_or(Ok(()), |watch| watch())
    }

    /// # Errors
    /// The panic that was found before.
    fn known_panic(&self) -> GpuResult<()> {
        self.panic.get().map_or(Ok(()), |panic| Err(panic.clone().into()))
    }

    /// The words that close the ring, if it is one.
    fn control(&self) -> Option<&Control> {
        // SAFETY: the block lives as long as `self`.
        self.closer.as_ref().map(|closer| &**unsafe { closer.control.as_ref() })
    }

    /// The low half of the id of the grid that was the last to take the receiving end of the ring, if one did.
    pub(crate) fn receiving_grid(&self) -> Option<u32> {
        self.control().and_then(Control::receiving_grid)
    }

    /// Closes the host's sending end: kernels then see that no more messages come.
    pub(crate) fn close_requests(&self) {
        if self.closer.as_ref().is_some_and(|closer| closer.host_sends) {
            self.close_senders();
        }
    }

    /// Closes the sending end of the ring: the receiving end gets what is left, also what still is copied to the device.
    pub(crate) fn close_senders(&self) {
        if let Some(copies) = self.closer.as_ref().and_then(|closer| closer.copies.as_ref()) {
            copies.try_synchronize();
        }
        if let Some(control) = self.control() {
            control.senders_closed.store(1, Ordering::Release);
        }
    }

    /// Closes both ends of the ring.
    pub(crate) fn close(&self) {
        if let Some(control) = self.control() {
            control.senders_closed.store(1, Ordering::Release);
            control.receivers_closed.store(1, Ordering::Release);
        }
    }

    /// Waits for all launches, for a ring with a limit. Returns whether they are over.
    fn drain(&self) -> bool {
        let start = Instant::now();
        let uses = std::mem::take(&mut *self.uses());
        let is_ring = self.closer.is_some();
        uses.events.iter().all(|event| match is_ring {
            false => event.drain(),
            true => event.drain_until(start + LAST_WAIT),
        })
    }
}

impl Drop for SharedMemory {
    /// Memory that a kernel uses that does not end is never freed.
    fn drop(&mut self) {
        self.close();
        if self.drain() && !self.unknown.load(Ordering::Acquire) {
            // SAFETY: the parts are dropped here alone, and no kernel reaches them any more.
            unsafe { ManuallyDrop::drop(&mut self.parts) };
        }
    }
}

impl std::fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SharedMemory({} launches)", self.uses().events.len())
    }
}

/// The memory behind an argument's home, if it is of this kind.
pub(crate) fn shared_of(home: Home<'_>) -> Option<&SharedMemory> {
    home.downcast_ref()
}
