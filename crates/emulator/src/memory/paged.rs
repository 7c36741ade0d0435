//! Addresses and pages apart: ranges of addresses, physical memory, and mappings of the one on the
//! other, which a program makes for itself.
//!
//! Physical memory is a file without a name, so that it can be mapped at several places at once.
//! Addresses that have no physical memory, or none yet, read as zeros for whoever touches them
//! unchecked; checked accesses find no allocation there.

use super::global::{AllocError, GlobalMemory};
use std::io;

/// Sizes and addresses are multiples of this.
pub const GRANULE: u64 = 2 << 20;

/// A range of addresses.
#[derive(Debug)]
pub struct Reservation {
    /// First address.
    pub base: u64,
    /// Length.
    pub bytes: u64,
    mapped: (u64, u64),
}

impl Reservation {
    /// Reserves `bytes`, a multiple of [`GRANULE`], from a multiple of `align` on.
    ///
    /// # Errors
    /// The system has no such range.
    pub fn new(bytes: u64, align: u64) -> io::Result<Self> {
        let align = align.max(GRANULE);
        let all = bytes.checked_add(align).ok_or(io::ErrorKind::OutOfMemory)?;
        let start = system::anonymous(None, all)?;
        Ok(Self { base: start.next_multiple_of(align), bytes, mapped: (start, all) })
    }

    /// Puts physical memory at `at`, inside the range.
    ///
    /// # Errors
    /// The system refuses.
    pub fn map(&self, at: u64, physical: &Physical) -> io::Result<()> {
        system::shared(at, physical.bytes, &physical.file)
    }

    /// Takes what is mapped at `at` away.
    ///
    /// # Errors
    /// The system refuses.
    pub fn unmap(&self, at: u64, bytes: u64) -> io::Result<()> {
        system::anonymous(Some(at), bytes).map(drop)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        system::release(self.mapped.0, self.mapped.1);
    }
}

/// Physical memory.
#[derive(Debug)]
pub struct Physical {
    /// Length.
    pub bytes: u64,
    file: system::File,
}

impl Physical {
    /// Zeroed physical memory, which takes space as it is touched.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(bytes: u64) -> io::Result<Self> {
        Ok(Self { bytes, file: system::file(bytes)? })
    }
}

impl GlobalMemory {
    /// Counts physical memory as used on this device.
    ///
    /// # Errors
    /// There is not so much.
    pub fn take_physical(&self, bytes: u64) -> Result<(), AllocError> {
        self.change_used(bytes, true)
    }

    /// Counts physical memory as free again.
    pub fn give_physical(&self, bytes: u64) {
        // Less is always there.
        let _ = self.change_used(bytes, false);
    }
}

#[cfg(target_os = "linux")]
mod system {
    use std::io;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
    use std::ptr;

    pub type File = OwnedFd;

    const ACCESS: i32 = libc::PROT_READ | libc::PROT_WRITE;

    /// Fresh pages, at an address that is ours or anywhere.
    pub fn anonymous(at: Option<u64>, bytes: u64) -> io::Result<u64> {
        let place = at.map_or(0, |_| libc::MAP_FIXED);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | place;
        map(at, bytes, flags, -1)
    }

    pub fn shared(at: u64, bytes: u64, file: &File) -> io::Result<()> {
        map(Some(at), bytes, libc::MAP_SHARED | libc::MAP_FIXED, file.as_raw_fd()).map(drop)
    }

    fn map(at: Option<u64>, bytes: u64, flags: i32, file: i32) -> io::Result<u64> {
        let at = ptr::with_exposed_provenance_mut(at.unwrap_or(0) as usize);
        // SAFETY: a fixed address lies in a reservation of this module, which holds no Rust value:
        // all accesses there go through raw addresses.
        let start = unsafe { libc::mmap(at, bytes as usize, ACCESS, flags, file, 0) };
        match start {
            libc::MAP_FAILED => Err(io::Error::last_os_error()),
            start => Ok(start.expose_provenance() as u64),
        }
    }

    pub fn release(at: u64, bytes: u64) {
        let start = ptr::with_exposed_provenance_mut(at as usize);
        // SAFETY: the whole mapping of a reservation that is being dropped.
        unsafe { libc::munmap(start, bytes as usize) };
    }

    pub fn file(bytes: u64) -> io::Result<File> {
        // SAFETY: the name is a C text.
        let file = unsafe { libc::memfd_create(c"device memory".as_ptr(), libc::MFD_CLOEXEC) };
        if file < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a descriptor that the system just gave.
        let file = unsafe { OwnedFd::from_raw_fd(file) };
        let bytes = i64::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        // SAFETY: an open descriptor.
        match unsafe { libc::ftruncate(file.as_raw_fd(), bytes) } {
            0 => Ok(file),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    pub type File = ();

    fn unsupported<T>() -> io::Result<T> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn anonymous(_: Option<u64>, _: u64) -> io::Result<u64> {
        unsupported()
    }

    pub fn shared(_: u64, _: u64, (): &File) -> io::Result<()> {
        unsupported()
    }

    pub fn release(_: u64, _: u64) {}

    pub fn file(_: u64) -> io::Result<File> {
        unsupported()
    }
}
