//! A scope in which the device uses memory that the host only lends.
//!
//! A guard that waits when it is dropped can be forgotten, and the memory freed while the device uses
//! it. A scope ends whatever its closure does: by value, by error, or by a panic.

use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard};

use bytemuck::Pod;
use cuda_driver::sys;
use cuda_std::launch::{DeviceRead, DeviceReadOne, DeviceWrite, Home, RawSlice};

use super::pageable::{self, Way};
use super::pending::wait_surely;
use super::registered::{HostPointerInfo, Registration};
use super::transfer::check_len;
use super::visibility::HostPages;
use crate::context::Context;
use crate::device::backend;
use crate::error::{GpuError, GpuResult};
use crate::event::Event;
use crate::gpu::Gpu;
use crate::lock::lock;
use crate::stream::{AsStream, StreamInner, home_of};

/// Lends host memory to the device, until the scope ends: see [`Gpu::host_scope`].
pub struct HostScope<'scope, 'env: 'scope> {
    context: Arc<Context>,
    state: Mutex<State>,
    scope: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

#[derive(Default)]
struct State {
    /// For each stream that copies, the event after its last copy.
    copies: Vec<(Arc<StreamInner>, Event)>,
    /// The homes of what kernels use in place.
    homes: Vec<Arc<StreamInner>>,
    registered: Vec<Registration>,
}

impl Gpu {
    /// Runs `work`, which may lend host memory to the device: copies that do not wait, memory that is
    /// page-locked in place, plain slices as arguments of kernels. Returns when the device has done
    /// with all of it, also when `work` fails or panics.
    ///
    /// ```no_run
    /// use ferrowarp::{DeviceBuffer, Gpu};
    ///
    /// let gpu = Gpu::new()?;
    /// let (mut samples, mut results) = (vec![1.0f32; 1 << 20], vec![0.0f32; 1 << 20]);
    /// let mut device = DeviceBuffer::<f32>::zeroed(&gpu, 1 << 20)?;
    /// gpu.host_scope(|scope| {
    ///     let samples = scope.register(&mut samples)?;
    ///     let results = scope.register(&mut results)?;
    ///     scope.upload(&gpu, samples, &mut device)?;
    ///     // kernels on `device`
    ///     scope.download(&gpu, &device, results)
    /// })?;
    /// assert_eq!(results[0], 1.0);
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// The error of `work`, or the fault of a kernel before the end of a copy.
    pub fn host_scope<'env, R>(
        &self,
        work: impl for<'scope> FnOnce(&'scope HostScope<'scope, 'env>) -> GpuResult<R>,
    ) -> GpuResult<R> {
        let scope = HostScope {
            context: self.as_stream().inner().context().clone(),
            state: Mutex::default(),
            scope: PhantomData,
            env: PhantomData,
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| work(&scope)));
        let ended = scope.end();
        let value = outcome.unwrap_or_else(|panic| resume_unwind(panic))?;
        ended.map(|()| value)
    }
}

impl<'scope, 'env> HostScope<'scope, 'env> {
    /// Copies `source` to the device. Does not wait if `source` is page-locked; pageable memory is read
    /// during the call, through page-locked chunks if it is [large](super::STAGED_FROM_BYTES).
    ///
    /// # Errors
    /// [`GpuError::SizeMismatch`] if the lengths differ, [`GpuError::WrongDevice`] if the stream is
    /// another device's than `target`; a driver's refusal.
    pub fn upload<T: Pod>(
        &'scope self,
        on: &impl AsStream,
        source: &'scope [T],
        target: &mut impl DeviceWrite<T>,
    ) -> GpuResult<()> {
        let target = target.raw_mut();
        check_len("copying from the host", target.len, source.len())?;
        let (from, bytes) = (source.as_ptr().cast_mut().cast::<u8>(), size_of_val(source));
        // SAFETY: source and target have as many bytes; the call waits for the copy.
        if unsafe { staged(on, Way::Up, from, &target, bytes)? } {
            return Ok(());
        }
        self.copy(on, &target, bytes, "cuMemcpyHtoDAsync", |handle| {
            // SAFETY: source and target have as many bytes; the source is lent until the scope has
            // ended, and later uses of the target are ordered behind the copy.
            unsafe { sys::cuMemcpyHtoDAsync_v2(target.address, from.cast(), bytes, handle) }
        })
    }

    /// Copies `source` to the host. Does not wait if `target` is page-locked; pageable memory is written
    /// during the call.
    ///
    /// # Errors
    /// As [`upload`](Self::upload).
    pub fn download<T: Pod>(
        &'scope self,
        on: &impl AsStream,
        source: &impl DeviceRead<T>,
        target: &'scope mut [T],
    ) -> GpuResult<()> {
        let source = source.raw();
        check_len("copying to the host", source.len, target.len())?;
        let (to, bytes) = (target.as_mut_ptr().cast::<u8>(), size_of_val(target));
        // SAFETY: source and target have as many bytes; the call waits for the copy.
        if unsafe { staged(on, Way::Down, to, &source, bytes)? } {
            return Ok(());
        }
        self.copy(on, &source, bytes, "cuMemcpyDtoHAsync", |handle| {
            // SAFETY: source and target have as many bytes; the target is lent until the scope has
            // ended, and later uses of the source are ordered behind the copy.
            unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), source.address, bytes, handle) }
        })
    }

    /// Enqueues a copy in the order of `device`, and records an event after it.
    fn copy(
        &self,
        on: &impl AsStream,
        device: &RawSlice<'_>,
        bytes: usize,
        operation: &'static str,
        copy: impl FnOnce(sys::CUstream) -> sys::CUresult,
    ) -> GpuResult<()> {
        if bytes == 0 {
            return Ok(());
        }
        let stream = on.as_stream().inner();
        let home = home_on(device, stream, operation)?;
        stream
            .ordered(&[home], || stream.context().call(operation, || copy(stream.handle())))
            .inspect_err(|_| {
                stream.try_synchronize();
            })?;
        // Recorded under the lock, so that an event that replaces another one comes after it.
        let mut state = self.state();
        let end = stream.record_untimed_event().inspect_err(|_| {
            stream.try_synchronize();
        })?;
        state.note(stream, end);
        Ok(())
    }

    /// Page-locks `values` until the scope ends, for every device of the process.
    ///
    /// Whole pages are locked, so slices that share a page may not be registered side by side.
    ///
    /// # Errors
    /// [`GpuError::AlreadyRegistered`], or what the driver answers.
    pub fn register<T: Pod>(&'scope self, values: &'scope mut [T]) -> GpuResult<&'scope mut [T]> {
        // SAFETY: the memory is lent until the scope has ended, which ends the registration before.
        let registered = unsafe { Registration::new(&self.context, values, false)? };
        self.state().registered.push(registered);
        Ok(values)
    }

    /// Page-locks `values` until the scope ends, for copies and kernels that read it.
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] on a device that cannot, and as [`register`](Self::register).
    pub fn register_read_only<T: Pod>(&'scope self, values: &'scope [T]) -> GpuResult<&'scope [T]> {
        // SAFETY: as above.
        let registered = unsafe { Registration::new(&self.context, values, true)? };
        self.state().registered.push(registered);
        Ok(values)
    }

    /// Plain host memory as an argument that a kernel reads, where the device reaches it in place. What
    /// this scope has [registered](Self::register) it reaches everywhere.
    ///
    /// ```no_run
    /// use ferrowarp::{DeviceBuffer, Gpu, ops};
    ///
    /// let gpu = Gpu::new()?;
    /// let (a, b) = (vec![1.0f32; 1000], [2.0f32; 1000]);
    /// let mut sum = DeviceBuffer::zeroed(&gpu, 1000)?;
    /// gpu.host_scope(|scope| {
    ///     let (a, b) = (scope.host_slice(&gpu, &a)?, scope.host_slice(&gpu, &b)?);
    ///     ops::vecadd(&gpu, &a, &b, &mut sum)
    /// })?;
    /// assert_eq!(sum.to_vec()?, [3.0; 1000]);
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// [`GpuError::Unsupported`] on a device that does not reach plain host memory (see
    /// [`HostPages::detect`]) unless this scope has registered it. The
    /// emulator is informed of each slice, and refuses one that overlaps another in part
    /// ([`GpuError::AlreadyRegistered`]).
    pub fn host_slice<T: Pod>(
        &'scope self,
        on: &impl AsStream,
        values: &'scope [T],
    ) -> GpuResult<HostSlice<'scope, T>> {
        let home = self.lend(on, values)?;
        Ok(HostSlice { home, address: address_of(values), len: values.len(), values: PhantomData })
    }

    /// Plain host memory as an argument that a kernel writes, where the device reaches it in place.
    ///
    /// # Errors
    /// As [`host_slice`](Self::host_slice).
    pub fn host_slice_mut<T: Pod>(
        &'scope self,
        on: &impl AsStream,
        values: &'scope mut [T],
    ) -> GpuResult<HostSliceMut<'scope, T>> {
        let home = self.lend(on, values)?;
        let (address, len) = (address_of(values), values.len());
        Ok(HostSliceMut { home, address, len, values: PhantomData })
    }

    /// One plain value of the host as the argument `&T` of a kernel, where the device reaches it in place: a structure
    /// on the stack, a field of another one, an element of a `Vec`.
    ///
    /// ```no_run
    /// use bytemuck::{Pod, Zeroable};
    /// use cuda_std::prelude::*;
    /// use ferrowarp::{DeviceBuffer, Gpu, LaunchConfig};
    ///
    /// #[derive(Clone, Copy, Pod, Zeroable)]
    /// #[repr(C)]
    /// pub struct Config {
    ///     factor: f32,
    ///     offset: f32,
    /// }
    ///
    /// #[kernel]
    /// pub fn affine(index: ThreadIndex, config: &Config, mut x: DisjointSlice<f32>) {
    ///     if let Some(x) = x.get_mut(index) {
    ///         *x = *x * config.factor + config.offset;
    ///     }
    /// }
    ///
    /// # fn main() {}
    /// # fn run(gpu: &Gpu) -> ferrowarp::GpuResult<()> {
    /// let config = Config { factor: 2.0, offset: 1.0 };
    /// let mut x = DeviceBuffer::<f32>::zeroed(gpu, 1000)?;
    /// gpu.host_scope(|scope| {
    ///     let config = scope.host_ref(gpu, &config)?;
    ///     affine::launch(gpu, LaunchConfig::for_num_elems(1000), &config, &mut x)
    /// })
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`host_slice`](Self::host_slice).
    pub fn host_ref<T: Pod>(
        &'scope self,
        on: &impl AsStream,
        value: &'scope T,
    ) -> GpuResult<HostRef<'scope, T>> {
        Ok(HostRef { value: self.host_slice(on, slice::from_ref(value))? })
    }

    /// One plain value of the host as an argument that a kernel writes, where the device reaches it in place: an array
    /// of one element.
    ///
    /// # Errors
    /// As [`host_slice`](Self::host_slice).
    pub fn host_ref_mut<T: Pod>(
        &'scope self,
        on: &impl AsStream,
        value: &'scope mut T,
    ) -> GpuResult<HostRefMut<'scope, T>> {
        Ok(HostRefMut { value: self.host_slice_mut(on, slice::from_mut(value))? })
    }

    /// Lets kernels use `values` until the scope ends. Returns their home.
    fn lend<T: Pod>(&self, on: &impl AsStream, values: *const [T]) -> GpuResult<Arc<StreamInner>> {
        let home = on.as_stream().inner();
        let context = home.context();
        let (address, bytes) = (address_of(values), values.len() * size_of::<T>());
        let mut state = self.state();
        let is_locked = bytes == 0 || state.registered.iter().any(|own| own.holds(address, bytes));
        let in_place = || {
            Ok::<_, GpuError>(bytes == 0 || HostPointerInfo::of(context, address, bytes)?.in_place)
        };
        match HostPages::of(context.info(), backend()?) {
            // Memory that other code has page-locked may be unlocked too early.
            HostPages::Absent if !is_locked || !in_place()? => {
                let what = "kernels that use plain host memory: register it in the scope first, or copy \
                            it to a DeviceBuffer";
                return Err(GpuError::Unsupported { what });
            }
            HostPages::Emulated if !is_locked && !in_place()? => {
                // SAFETY: the memory is lent until the scope has ended, which ends the registration.
                let registered = unsafe { Registration::new(context, values, false)? };
                state.registered.push(registered);
            }
            _ => {}
        }
        state.homes.push(home.clone());
        Ok(home.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Waits for all that uses lent memory, then gives it back.
    fn end(&self) -> GpuResult<()> {
        let State { copies, homes, registered } = std::mem::take(&mut *self.state());
        let copies = copies
            .iter()
            .map(|(stream, end)| wait_surely(stream, end).map_err(|unfinished| unfinished.error));
        let homes = homes.iter().map(|home| {
            home.synchronize().inspect_err(|_| {
                home.try_synchronize();
            })
        });
        // All of them, whatever the first ones say.
        let results: Vec<_> = copies.chain(homes).collect();
        drop(registered);
        results.into_iter().collect()
    }
}

impl State {
    /// The event after a stream's last copy comes after all its copies.
    fn note(&mut self, stream: &Arc<StreamInner>, end: Event) {
        match self.copies.iter_mut().find(|(own, _)| Arc::ptr_eq(own, stream)) {
            Some((_, last)) => *last = end,
            None => self.copies.push((stream.clone(), end)),
        }
    }
}

impl fmt::Debug for HostScope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostScope").finish_non_exhaustive()
    }
}

/// The home of `device`, which has to be of the stream's device.
fn home_on<'a>(
    device: &RawSlice<'a>,
    stream: &StreamInner,
    operation: &'static str,
) -> GpuResult<&'a StreamInner> {
    let home = device.home.and_then(home_of);
    let home = home.ok_or(GpuError::ForeignStream { kernel: operation })?;
    home.check_device(stream.context(), "the device's side of the copy")?;
    Ok(home)
}

/// Copies large pageable memory through the ring. Whether it did.
///
/// # Safety
/// As for [`pageable::copy`], whose home `device` names.
unsafe fn staged(
    on: &impl AsStream,
    way: Way,
    host: *mut u8,
    device: &RawSlice<'_>,
    bytes: usize,
) -> GpuResult<bool> {
    let stream = on.as_stream().inner();
    if !pageable::is_worth_it(stream.context(), host, bytes)? {
        return Ok(false);
    }
    let home = home_on(device, stream, "a copy of pageable memory")?;
    // SAFETY: the caller's promise.
    unsafe { pageable::copy(home, way, host, device.address, bytes) }
}

fn address_of<T>(values: *const [T]) -> u64 {
    values.cast::<T>().expose_provenance() as u64
}

/// Plain host memory that kernels read in place: see [`HostScope::host_slice`].
#[derive(Clone, Debug)]
pub struct HostSlice<'scope, T: Pod> {
    home: Arc<StreamInner>,
    address: u64,
    len: usize,
    values: PhantomData<&'scope [T]>,
}

// SAFETY: the memory is lent until the scope has ended, which waits for the home, behind which all
// uses are ordered; nobody writes it meanwhile.
unsafe impl<T: Pod> DeviceRead<T> for HostSlice<'_, T> {
    fn raw(&self) -> RawSlice<'_> {
        RawSlice { address: self.address, len: self.len, home: Some(Home::from(&self.home)) }
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// Plain host memory that kernels write in place: see [`HostScope::host_slice_mut`].
#[derive(Debug)]
pub struct HostSliceMut<'scope, T: Pod> {
    home: Arc<StreamInner>,
    address: u64,
    len: usize,
    values: PhantomData<&'scope mut [T]>,
}

// SAFETY: as for `HostSlice`.
unsafe impl<T: Pod> DeviceRead<T> for HostSliceMut<'_, T> {
    fn raw(&self) -> RawSlice<'_> {
        RawSlice { address: self.address, len: self.len, home: Some(Home::from(&self.home)) }
    }

    fn len(&self) -> usize {
        self.len
    }
}

// SAFETY: as above; the host does not reach the memory until the scope has ended, and `Pod` takes
// every bit pattern.
unsafe impl<T: Pod> DeviceWrite<T> for HostSliceMut<'_, T> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        self.raw()
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// One plain value of the host that kernels read in place, as `&T` or as a slice of one element: see
/// [`HostScope::host_ref`].
#[derive(Clone, Debug)]
pub struct HostRef<'scope, T: Pod> {
    value: HostSlice<'scope, T>,
}

/// One plain value of the host that kernels write in place: see [`HostScope::host_ref_mut`].
#[derive(Debug)]
pub struct HostRefMut<'scope, T: Pod> {
    value: HostSliceMut<'scope, T>,
}

macro_rules! one_lent_value {
    ($name:ident) => {
        // SAFETY: the slice has one element; the rest as for the slice.
        unsafe impl<T: Pod> DeviceReadOne<T> for $name<'_, T> {
            fn raw_one(&self) -> RawSlice<'_> {
                self.value.raw()
            }
        }

        // SAFETY: as for the slice.
        unsafe impl<T: Pod> DeviceRead<T> for $name<'_, T> {
            fn raw(&self) -> RawSlice<'_> {
                self.value.raw()
            }

            fn len(&self) -> usize {
                1
            }
        }
    };
}

one_lent_value!(HostRef);
one_lent_value!(HostRefMut);

// SAFETY: as for the slice.
unsafe impl<T: Pod> DeviceWrite<T> for HostRefMut<'_, T> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        self.value.raw_mut()
    }

    fn len(&self) -> usize {
        1
    }
}
