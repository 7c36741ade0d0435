//! Tensors of CUDA devices: candle's memory and candle's stream.

use candle_core::backend::BackendDevice;
use candle_core::cuda_backend::cudarc::driver::{DevicePtr, DevicePtrMut};
use candle_core::{CudaStorage, DeviceLocation, Error, Layout, Result};
use ferrowarp::{Backend, DeviceSlice, DeviceSliceMut, Gpu, GpuResult, LentBuffer};

use crate::memory::{Element, Storage, device, extent};

impl Storage for CudaStorage {
    fn run<T: Element, U: Element>(
        operation: &'static str,
        inputs: &[(&Self, &Layout)],
        len: usize,
        work: impl FnOnce(&Gpu, &[DeviceSlice<'_, T>], DeviceSliceMut<'_, U>) -> GpuResult<()>,
    ) -> Result<Self> {
        let [(first, _), ..] = inputs else { candle_core::bail!("{operation}: no input") };
        let candle = first.device.clone();
        let gpu = device_of(operation, candle.location())?;
        let stream = candle.cuda_stream();
        // A driver without memory pools refuses an allocation of no bytes.
        // SAFETY: the work writes all of it, or the error drops it; no tensor has more than `len` elements of it.
        let mut out = unsafe { candle.alloc::<U>(len.max(1))? };
        if len > 0 {
            // The guards order later uses of the tensors on other streams of candle's: they are dropped when the work is enqueued.
            let mut lent = Vec::new();
            for (storage, layout) in inputs {
                let (start, end) = extent(operation, layout)?;
                let (address, guard) = storage.as_cuda_slice::<T>()?.device_ptr(&stream);
                let address = address + (start * size_of::<T>()) as u64;
                // SAFETY: candle has the elements there until its stream has done the work, which waits for that of the library.
                let buffer = unsafe { LentBuffer::<T>::new(gpu, address, end - start) };
                lent.push((buffer.map_err(Error::wrap)?, guard));
            }
            let inputs: Vec<_> = lent.iter().map(|(buffer, _)| buffer.as_slice()).collect();
            let (address, _guard) = out.device_ptr_mut(&stream);
            let raw = stream.cu_stream().cast();
            // SAFETY: as above, and no tensor has this memory yet; the stream is one of the device's primary context.
            let done = unsafe {
                LentBuffer::<U>::new(gpu, address, len).and_then(|mut result| {
                    gpu.stream().wait_for_raw(raw)?;
                    let done = work(gpu, &inputs, result.as_mut_slice());
                    // Also after an error: a part of the work may be enqueued.
                    gpu.stream().raw_waits(raw).and(done)
                })
            };
            done.map_err(Error::wrap)?;
        }
        Ok(Self::wrap_cuda_slice(out, candle))
    }
}

/// The library's device for one of candle's.
fn device_of(operation: &'static str, location: DeviceLocation) -> Result<&'static Gpu> {
    let DeviceLocation::Cuda { gpu_id } = location else {
        candle_core::bail!("{operation}: the tensor is not on a CUDA device")
    };
    let gpu = device(u32::try_from(gpu_id).map_err(Error::wrap)?)?;
    if gpu.backend() == Backend::Emulator {
        candle_core::bail!(
            "{operation}: FERROWARP_DEVICE has chosen the emulator, which candle's cuBLAS and cuRAND do not know"
        );
    }
    Ok(gpu)
}
