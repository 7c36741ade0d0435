//! Copies and fills as operations. They run on the operation's stream, in order with all uses of their memory.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::lane::Lane;
use super::leaves::made_at;
use super::memory::{DeviceSource, DeviceTarget};
use super::sealed::Sealed;
use super::{Complete, DeviceOperation, Outcome, Place, Ready};
use crate::error::GpuResult;
use crate::memory::{Staging, download_on, upload_on};

/// Copies `values` (a `Vec`, an array, a slice) to `target`, which is the output. They are copied to page-locked memory
/// when the operation is enqueued, so the host may use them from then on.
///
/// Running it fails with [`SizeMismatch`](crate::GpuError::SizeMismatch) if the lengths differ.
#[track_caller]
pub fn upload<V, M>(values: V, target: M) -> Upload<V, M>
where
    M: DeviceTarget,
    V: AsRef<[M::Element]>,
{
    Upload { values, target, place: Location::caller() }
}

/// What [`upload`] returns.
pub struct Upload<V, M> {
    values: V,
    target: M,
    place: Place,
}

impl<V, M> Sealed for Upload<V, M> {}

impl<V, M> DeviceOperation for Upload<V, M>
where
    M: DeviceTarget<Element: Send + Sync>,
    V: AsRef<[M::Element]>,
{
    type Output = M;
    type Outcome = Ready<M>;

    fn enqueue(mut self, on: &Lane<'_>) -> GpuResult<Ready<M>> {
        let uploaded = upload_on(on.stream(), self.values.as_ref(), &mut self.target.target());
        uploaded.map_err(|error| made_at(error, self.place))?;
        Ok(Ready(self.target))
    }
}

/// Copies `source` to the host: the output is a `Vec`. What is enqueued for the memory later does not change it.
///
/// Memory that it owns is freed when the operation is complete.
#[track_caller]
pub fn download<M: DeviceSource>(source: M) -> Download<M> {
    Download { source, place: Location::caller() }
}

/// What [`download`] returns.
pub struct Download<M> {
    source: M,
    place: Place,
}

impl<M> Sealed for Download<M> {}

impl<M: DeviceSource<Element: Send + Sync>> DeviceOperation for Download<M> {
    type Output = Vec<M::Element>;
    type Outcome = Downloaded<M>;

    fn enqueue(self, on: &Lane<'_>) -> GpuResult<Downloaded<M>> {
        let staging = download_on(on.stream(), &self.source.source());
        let staging = staging.map_err(|error| made_at(error, self.place))?;
        Ok(Downloaded { staging, _source: self.source })
    }
}

/// Elements on their way to the host.
#[doc(hidden)]
pub struct Downloaded<M: DeviceSource> {
    staging: Arc<Staging<M::Element>>,
    /// Dropping a buffer may wait for the stream, which takes no time at the end.
    _source: M,
}

impl<M: DeviceSource> Outcome for Downloaded<M> {
    type Output = Vec<M::Element>;

    fn take(self, _: &Complete) -> GpuResult<Self::Output> {
        // SAFETY: the operation is complete, and with it the copy that writes the memory.
        Ok(unsafe { self.staging.as_slice() }.to_vec())
    }
}

/// Copies `source` to `target`, both on the device. The output is both.
///
/// Running it fails with [`SizeMismatch`](crate::GpuError::SizeMismatch) if the lengths differ,
/// [`WrongDevice`](crate::GpuError::WrongDevice) if the memory is another device's.
#[track_caller]
pub fn copy<S, M>(source: S, target: M) -> Copy<S, M>
where
    S: DeviceSource,
    M: DeviceTarget<Element = S::Element>,
{
    Copy { source, target, place: Location::caller() }
}

/// What [`copy()`] returns.
pub struct Copy<S, M> {
    source: S,
    target: M,
    place: Place,
}

impl<S, M> Sealed for Copy<S, M> {}

impl<S, M> DeviceOperation for Copy<S, M>
where
    S: DeviceSource,
    M: DeviceTarget<Element = S::Element>,
{
    type Output = (S, M);
    type Outcome = Ready<(S, M)>;

    fn enqueue(mut self, on: &Lane<'_>) -> GpuResult<Self::Outcome> {
        let copied = self.target.target().copy_from_device_on(on.stream(), self.source.source());
        copied.map_err(|error| made_at(error, self.place))?;
        Ok(Ready((self.source, self.target)))
    }
}

/// Fills `target` with `value`, of 1, 2 or 4 bytes; a value of another size does not compile. The output is the memory.
#[track_caller]
pub fn fill<M: DeviceTarget>(target: M, value: M::Element) -> Fill<M> {
    const {
        let size = size_of::<M::Element>();
        assert!(matches!(size, 0 | 1 | 2 | 4), "`fill` takes values of 1, 2 or 4 bytes");
    }
    let bytes = bytemuck::bytes_of(&value);
    let mut bits = [0; 4];
    bits[..bytes.len()].copy_from_slice(bytes);
    Fill { target, bits, size: bytes.len(), place: Location::caller() }
}

/// Fills `target` with zeros. The output is the memory.
#[track_caller]
pub fn clear<M: DeviceTarget>(target: M) -> Fill<M> {
    Fill { target, bits: [0; 4], size: 1, place: Location::caller() }
}

/// What [`fill`] and [`clear`] return.
pub struct Fill<M> {
    target: M,
    /// The value, in the first `size` bytes.
    bits: [u8; 4],
    size: usize,
    place: Place,
}

impl<M> Sealed for Fill<M> {}

impl<M: DeviceTarget> DeviceOperation for Fill<M> {
    type Output = M;
    type Outcome = Ready<M>;

    fn enqueue(mut self, on: &Lane<'_>) -> GpuResult<Ready<M>> {
        let filled = self.target.target().fill_bytes_on(on.stream(), &self.bits[..self.size]);
        filled.map_err(|error| made_at(error, self.place))?;
        Ok(Ready(self.target))
    }
}

macro_rules! debug {
    ($($name:ident<$($generic:ident),*>),*) => {$(
        impl<$($generic),*> fmt::Debug for $name<$($generic),*> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.place)
            }
        }
    )*};
}

debug!(Upload<V, M>, Download<M>, Copy<S, M>, Fill<M>);

impl<M: DeviceSource> fmt::Debug for Downloaded<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Downloaded({} elements)", self.staging.len())
    }
}
