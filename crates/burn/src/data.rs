//! Tensors of burn as arrays of the host, and the device that computes.

use std::sync::OnceLock;

use burn_tensor::backend::Backend;
use burn_tensor::ops::FloatTensor;
use burn_tensor::{TensorData, try_read_sync};
use bytemuck::Pod;
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};

use crate::error::{Error, Result};

/// A type of elements that both burn and the library have.
pub(crate) trait Element: burn_tensor::Element + Pod {}
impl<T: burn_tensor::Element + Pod> Element for T {}

/// Evaluates `$body` with `$T` as the Rust type of `$dtype`, if that is one of those in the list.
macro_rules! with_float {
    ($operation:expr, $dtype:expr, [$($variant:ident $ty:ty),*], $T:ident => $body:expr) => {
        match $dtype {
            $(burn_tensor::DType::$variant => {
                type $T = $ty;
                $body
            })*
            found => Err($crate::error::Error::ElementType { operation: $operation, found }),
        }
    };
}

pub(crate) use with_float;

/// The device that computes: the first GPU, or the emulator. Opened once in a process.
pub(crate) fn gpu() -> Result<&'static Gpu> {
    static GPU: OnceLock<Gpu> = OnceLock::new();
    match GPU.get() {
        Some(gpu) => Ok(gpu),
        None => Gpu::new().map(|gpu| GPU.get_or_init(|| gpu)).map_err(Error::Library),
    }
}

/// The elements of a tensor, row-major.
pub(crate) fn read<B: Backend>(tensor: FloatTensor<B>) -> Result<TensorData> {
    let read = try_read_sync(B::float_into_data(tensor));
    let read = read.ok_or_else(|| {
        Error::Read("its backend cannot be waited for on this platform".to_owned())
    })?;
    read.map_err(|error| Error::Read(format!("{error:?}")))
}

/// The elements on the device.
pub(crate) fn upload<T: Element>(gpu: &Gpu, data: &TensorData) -> Result<DeviceBuffer<T>> {
    Ok(DeviceBuffer::from_slice(gpu, data.as_slice::<T>()?)?)
}

/// What `work` writes into `len` elements.
pub(crate) fn computed<T: Element>(
    gpu: &Gpu,
    len: usize,
    work: impl FnOnce(&mut DeviceBuffer<T>) -> GpuResult<()>,
) -> Result<Vec<T>> {
    let mut out = DeviceBuffer::zeroed(gpu, len)?;
    if len > 0 {
        work(&mut out)?;
    }
    Ok(out.to_vec()?)
}
