//! The records of a module, in memory that host and device share.

use std::mem::offset_of;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex};

use cuda_driver::sys;
use cuda_std::panic::{Channel, KNOWN, Record, Records, SLOTS, SYMBOL};

use super::known::Known;
use super::message;
use super::registry::Panics;
use super::report::{Claim, Report, ReportSource};
use crate::context::{Context, Handle};
use crate::deferred_frees::{Freed, free_or_defer};
use crate::error::{GpuResult, KernelPanic};
use crate::lock::lock;

/// The records of a loaded module.
#[derive(Debug)]
pub(crate) struct ModuleRecords {
    context: Arc<Context>,
    records: NonNull<Records>,
    /// The device's address of the module's `Channel`.
    channel: u64,
    /// How many threads of each record's grids have come too late until now.
    others: Mutex<[u32; SLOTS]>,
    /// Which panic of each record was the last that was taken.
    taken: Mutex<[u64; SLOTS]>,
    /// What the module's text says of the addresses in a record.
    known: Known,
    /// The kernels of the module that were looked up.
    used: Mutex<Vec<&'static str>>,
}

// SAFETY: the memory is read through atomics, and what is not atomic only after the device has
// said that it is complete.
unsafe impl Send for ModuleRecords {}
// SAFETY: as above; who takes a record holds the lock of the context's panics.
unsafe impl Sync for ModuleRecords {}

/// The driver's code for a symbol that a module does not have.
const NOT_FOUND: u32 = 500;

impl ModuleRecords {
    /// Allocates records for a module, if its kernels can panic.
    pub(crate) fn attach(
        context: &Arc<Context>,
        module: sys::CUmodule,
        ptx: &str,
    ) -> GpuResult<Option<Arc<Self>>> {
        if !ptx.contains(SYMBOL) {
            return Ok(None);
        }
        let Some((channel, bytes)) = find_variable(context, module, SYMBOL)? else {
            return Ok(None);
        };
        if bytes != size_of::<Channel>() {
            return Ok(None);
        }
        let known = Known::read(ptx, &addresses(context, module)?);
        let records = allocate(context)?;
        let own = Arc::new(Self {
            context: context.clone(),
            records,
            channel,
            others: Mutex::default(),
            taken: Mutex::default(),
            known,
            used: Mutex::default(),
        });
        own.tell_device()?;
        let records: Arc<dyn ReportSource> = own.clone();
        Panics::of(context).watch(Arc::downgrade(&records));
        Ok(Some(own))
    }

    /// Notes that the kernel `name` may be launched from now on.
    pub(crate) fn uses(&self, name: &'static str) {
        let mut used = lock(&self.used);
        if !used.contains(&name) {
            used.push(name);
        }
    }

    /// Writes the device's address of the records to the module's variable.
    fn tell_device(&self) -> GpuResult<()> {
        let mut address = 0;
        self.context.call("cuMemHostGetDevicePointer", || {
            // SAFETY: `address` is writable, and the memory is mapped.
            unsafe {
                sys::cuMemHostGetDevicePointer_v2(&mut address, self.records.as_ptr().cast(), 0)
            }
        })?;
        let to = self.channel + offset_of!(Channel, records) as u64;
        self.context.call("cuMemcpyHtoD", || {
            // SAFETY: the variable has room for an address.
            unsafe { sys::cuMemcpyHtoD_v2(to, (&raw mut address).cast(), 8) }
        })
    }

    fn read(&self, record: &Record) -> Report {
        let known = self.known.place(record.place);
        let mut kernels = known.kernels;
        let used = lock(&self.used);
        if kernels.is_empty() {
            kernels = used.iter().map(|&name| name.to_owned()).collect();
        } else {
            let launched: Vec<_> =
                kernels.iter().filter(|name| used.iter().any(|own| own == name)).cloned().collect();
            if !launched.is_empty() {
                kernels = launched;
            }
        }
        let panic = KernelPanic {
            kernel: kernels.join("` or `"),
            message: message::message(record, &self.known),
            file: known.file,
            line: known.line,
            column: known.column,
            block: block(record),
            thread: thread(record),
            others: 0,
            grid: Some(record.ready.load(Relaxed) as u32),
        };
        Report { panic, kernels, grid: record.grid_dim, block: record.block_dim, claim: None }
    }

    /// Grids panicked for which there was no record left. It is not known which, so the panic may
    /// be of any kernel of the module.
    fn lost(&self) -> Option<Report> {
        // SAFETY: as in `take`.
        let records = unsafe { self.records.as_ref() };
        let mut found = self.read(&records.records[0]);
        found.panic.message = format!("more than {SLOTS} launches panicked before the host looked");
        (found.panic.file, found.panic.line, found.panic.grid) = (String::new(), 0, None);
        let used = lock(&self.used);
        found.kernels = used.iter().map(|&name| name.to_owned()).collect();
        found.panic.kernel = found.kernels.join("` or `");
        Some(found)
    }

    /// How many threads found a record taken since the last call.
    fn late(&self, slot: usize) -> u32 {
        let mut count = 0u32;
        let from = self.channel + (offset_of!(Channel, others) + 4 * slot) as u64;
        let mut read = false;
        // The panic is what matters here: the next call reports a fault.
        self.context.release(|| {
            // SAFETY: `count` is writable, and the variable is part of the module.
            let result = unsafe { sys::cuMemcpyDtoH_v2((&raw mut count).cast(), from, 4) };
            read = result == sys::CUresult::CUDA_SUCCESS;
            result
        });
        let mut others = lock(&self.others);
        match read {
            true => count.wrapping_sub(std::mem::replace(&mut others[slot], count)),
            false => 0,
        }
    }
}

impl ReportSource for ModuleRecords {
    fn take(&self, which: &dyn Fn(&Report) -> bool) -> Vec<Report> {
        // SAFETY: the memory lives as long as `self`, and began as zeros.
        let records = unsafe { self.records.as_ref() };
        let mut before = lock(&self.taken);
        let mut taken = Vec::new();
        for (slot, record) in records.records.iter().enumerate() {
            // The upper half of the owner counts the panics of the record.
            let generation = record.ready.load(Acquire) >> 32;
            if generation == before[slot] {
                continue;
            }
            let mut found = self.read(record);
            if which(&found) {
                found.panic.others = self.late(slot);
                found.claim = Some(Claim { slot, generation });
                before[slot] = generation;
                taken.push(found);
            }
        }
        if records.lost.load(Acquire) != 0 {
            records.lost.store(0, Relaxed);
            taken.extend(self.lost());
        }
        taken
    }

    fn free(&self, Claim { slot, generation }: Claim) {
        // Threads of the grid that came since count with no other panic.
        self.late(slot);
        // SAFETY: as in `take`.
        let record = unsafe { &self.records.as_ref().records[slot] };
        record.thread.store(0, Relaxed);
        record.seen.store(generation, Release);
    }
}

impl Drop for ModuleRecords {
    fn drop(&mut self) {
        // The module, whose kernels write there, was unloaded, or will be before.
        free_or_defer(&self.context, Freed::Host(Handle(self.records.as_ptr().cast())), 0);
    }
}

/// The index of the block that has a record.
fn block(record: &Record) -> [u32; 3] {
    let block = record.block.load(Relaxed);
    [block as u32, (block >> 32) as u32 & 0xFFFF, (block >> 48) as u32]
}

/// The index in its block of the thread that has a record.
fn thread(record: &Record) -> [u32; 3] {
    let thread = record.thread.load(Relaxed).saturating_sub(1);
    [thread & 0x3FF, thread >> 10 & 0x3FF, thread >> 20]
}

/// The address and the bytes of a variable of the module.
pub(crate) fn find_variable(
    context: &Context,
    module: sys::CUmodule,
    name: &str,
) -> GpuResult<Option<(u64, usize)>> {
    let (mut address, mut bytes) = (0, 0);
    let Ok(name) = std::ffi::CString::new(name) else { return Ok(None) };
    let found = context.call("cuModuleGetGlobal", || {
        // SAFETY: all are writable, and the name ends in a zero.
        unsafe { sys::cuModuleGetGlobal_v2(&mut address, &mut bytes, module, name.as_ptr()) }
    });
    match found {
        Ok(()) => Ok(Some((address, bytes))),
        Err(error) if error.driver().is_some_and(|driver| driver.code() == NOT_FOUND) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The table of what the builder knows of addresses, as the driver filled it in.
fn addresses(context: &Context, module: sys::CUmodule) -> GpuResult<Vec<u64>> {
    let Some((from, bytes)) = find_variable(context, module, KNOWN)? else { return Ok(Vec::new()) };
    let mut words = vec![0u64; bytes / 8];
    context.call("cuMemcpyDtoH", || {
        // SAFETY: `words` has as many bytes, and the variable is part of the module.
        unsafe { sys::cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), from, 8 * words.len()) }
    })?;
    Ok(words)
}

/// Zeroed memory that host and device share.
fn allocate(context: &Context) -> GpuResult<NonNull<Records>> {
    const PORTABLE_AND_MAPPED: u32 = 3;
    let bytes = size_of::<Records>();
    let mut address = ptr::null_mut();
    context.call("cuMemHostAlloc", || {
        // SAFETY: `address` is writable.
        unsafe { sys::cuMemHostAlloc(&mut address, bytes, PORTABLE_AND_MAPPED) }
    })?;
    // SAFETY: the driver gave as many bytes.
    unsafe { ptr::write_bytes(address.cast::<u8>(), 0, bytes) };
    Ok(NonNull::new(address.cast()).expect("memory is not at null"))
}
