//! Memory of one device, used by another.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_driver::sys;
use cuda_std::launch::{DeviceRead, DeviceWrite, Home, RawSlice};

use super::buffer::DeviceBuffer;
use super::shapes::lengths;
use super::slice::part;
use crate::context::Context;
use crate::error::{GpuError, GpuResult};
use crate::gpu::Gpu;
use crate::stream::{AsStream, StreamInner};

/// The permission for kernels of one device to use another one's memory in place: see
/// [`Gpu::enable_peer_access`].
#[derive(Clone, Debug)]
pub struct PeerAccess {
    /// Whose kernels.
    user: Arc<Context>,
    /// Whose memory.
    owner: Arc<Context>,
}

impl Gpu {
    /// Whether kernels of this device can be let to use memory of `other` in place. They always can
    /// where both are one context, and never where both are different contexts of one device.
    ///
    /// # Errors
    /// A driver's refusal.
    pub fn can_access_peer(&self, other: &Gpu) -> GpuResult<bool> {
        can_access(context(self), context(other))
    }

    /// Lets kernels of this device use memory of `other` in place: that of buffers which
    /// [`DeviceBuffer::peer_slice`] lends out with what this returns. It stays so as long as the
    /// devices are in use; to enable it twice does no harm. The other direction is apart.
    ///
    /// # Errors
    /// [`Unsupported`](GpuError::Unsupported) if the devices do not reach each other:
    /// [`DeviceBuffer::copy_from_peer`] always does.
    pub fn enable_peer_access(&self, other: &Gpu) -> GpuResult<PeerAccess> {
        let (user, owner) = (context(self).clone(), context(other).clone());
        if !can_access(&user, &owner)? {
            let what = "direct access to the other device's memory: use copy_from_peer";
            return Err(GpuError::Unsupported { what });
        }
        if !user.is(&owner) {
            enable(&user, &owner)?;
        }
        Ok(PeerAccess { user, owner })
    }
}

fn context(gpu: &Gpu) -> &Arc<Context> {
    gpu.as_stream().inner().context()
}

fn can_access(user: &Context, owner: &Context) -> GpuResult<bool> {
    if user.is(owner) {
        return Ok(true);
    }
    // Of two contexts of one device, the driver says no.
    let [from, to] = [user, owner].map(|context| context.info().ordinal as i32);
    let mut can = 0;
    user.call("cuDeviceCanAccessPeer", || {
        // SAFETY: `can` is writable, and both are the driver's numbers of devices.
        unsafe { sys::cuDeviceCanAccessPeer(&mut can, from, to) }
    })?;
    Ok(can != 0)
}

fn enable(user: &Context, owner: &Context) -> GpuResult<()> {
    const ALREADY_ENABLED: u32 = 704;
    // SAFETY: both contexts live, and no flags are defined.
    let enable = || unsafe { sys::cuCtxEnablePeerAccess(owner.raw(), 0) };
    match user.call("cuCtxEnablePeerAccess", enable) {
        Err(error) if error.driver().is_some_and(|driver| driver.code() == ALREADY_ENABLED) => {
            Ok(())
        }
        result => result,
    }
}

impl PeerAccess {
    /// Checks that memory with that home is the owner's.
    fn check(&self, home: &StreamInner) -> GpuResult<()> {
        home.check_device(&self.owner, "the buffer")
    }

    /// The number of the device whose kernels may use the memory.
    pub(super) fn user_ordinal(&self) -> u32 {
        self.user.info().ordinal
    }
}

/// The home of memory that another device's kernels use too.
#[derive(Debug)]
pub(crate) struct PeerHome {
    home: Arc<StreamInner>,
    user: Arc<Context>,
}

impl PeerHome {
    /// The home, for a kernel of a device that has access.
    pub(crate) fn home_for(&self, context: &Context) -> GpuResult<&StreamInner> {
        if self.user.is(context) {
            return Ok(&self.home);
        }
        self.home.check_device(context, "an argument").map(|()| &*self.home)
    }
}

/// Memory of another device, borrowed for kernels of this one to read.
pub struct PeerSlice<'a, T: Pod> {
    home: Arc<PeerHome>,
    address: u64,
    len: usize,
    values: PhantomData<&'a [T]>,
}

/// Memory of another device, borrowed for kernels of this one to read and write.
pub struct PeerSliceMut<'a, T: Pod> {
    home: Arc<PeerHome>,
    address: u64,
    len: usize,
    values: PhantomData<&'a mut [T]>,
}

impl<T: Pod> DeviceBuffer<T> {
    /// The array, for kernels of another device to read in place.
    ///
    /// # Errors
    /// [`WrongDevice`](GpuError::WrongDevice) if `access` is not to this buffer's device.
    pub fn peer_slice(&self, access: &PeerAccess) -> GpuResult<PeerSlice<'_, T>> {
        let (home, address) = self.lent_to(access)?;
        Ok(PeerSlice { home, address, len: self.len(), values: PhantomData })
    }

    /// The array, for kernels of another device to write in place.
    ///
    /// # Errors
    /// As [`peer_slice`](Self::peer_slice).
    pub fn peer_slice_mut(&mut self, access: &PeerAccess) -> GpuResult<PeerSliceMut<'_, T>> {
        let (home, address) = self.lent_to(access)?;
        Ok(PeerSliceMut { home, address, len: self.len(), values: PhantomData })
    }

    fn lent_to(&self, access: &PeerAccess) -> GpuResult<(Arc<PeerHome>, u64)> {
        let memory = self.memory();
        access.check(memory.home())?;
        memory.open_to(access.user_ordinal())?;
        let (home, user) = (memory.home().clone(), access.user.clone());
        Ok((Arc::new(PeerHome { home, user }), memory.address()))
    }
}

impl<'a, T: Pod> PeerSlice<'a, T> {
    lengths!();

    /// A part of it.
    ///
    /// # Panics
    /// If `range` is not inside.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> PeerSlice<'a, T> {
        let (address, len) = part::<T>(self.address, self.len, range);
        PeerSlice { home: self.home.clone(), address, len, values: PhantomData }
    }
}

impl<T: Pod> PeerSliceMut<'_, T> {
    lengths!();

    /// A part of it, to be written.
    ///
    /// # Panics
    /// If `range` is not inside.
    #[must_use]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> PeerSliceMut<'_, T> {
        let (address, len) = part::<T>(self.address, self.len, range);
        PeerSliceMut { home: self.home.clone(), address, len, values: PhantomData }
    }
}

fn raw(home: &Arc<PeerHome>, address: u64, len: usize) -> RawSlice<'_> {
    RawSlice { address, len, home: Some(Home::from(home)) }
}

// SAFETY: the buffer holds `len` values there, nobody writes them for the borrow's time, and a
// kernel's uses are ordered with later ones through the home. Only kernels of the device that has
// access are launched with it.
unsafe impl<T: Pod> DeviceRead<T> for PeerSlice<'_, T> {
    fn raw(&self) -> RawSlice<'_> {
        raw(&self.home, self.address, self.len)
    }

    fn len(&self) -> usize {
        self.len
    }
}

// SAFETY: as above.
unsafe impl<T: Pod> DeviceRead<T> for PeerSliceMut<'_, T> {
    fn raw(&self) -> RawSlice<'_> {
        raw(&self.home, self.address, self.len)
    }

    fn len(&self) -> usize {
        self.len
    }
}

// SAFETY: as above, and the borrow is exclusive; `Pod` takes every bit pattern.
unsafe impl<T: Pod> DeviceWrite<T> for PeerSliceMut<'_, T> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        raw(&self.home, self.address, self.len)
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl<T: Pod> fmt::Debug for PeerSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerSlice({:#x}, {} elements)", self.address, self.len)
    }
}

impl<T: Pod> fmt::Debug for PeerSliceMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeerSliceMut({:#x}, {} elements)", self.address, self.len)
    }
}
