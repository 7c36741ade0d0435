//! Storages of candle as memory of the library, for the length of an operation.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytemuck::Pod;
use candle_core::backend::BackendStorage;
#[cfg(feature = "cuda")]
use candle_core::cuda_backend::{CudaDType, cudarc::driver::DeviceRepr};
use candle_core::{CpuStorage, Error, Layout, Result, WithDType};
use ferrowarp::{DeviceBuffer, DeviceSlice, DeviceSliceMut, Gpu, GpuResult};

/// A type of elements that both candle and the library have.
#[cfg(not(feature = "cuda"))]
pub trait Element: WithDType + Pod {}
#[cfg(not(feature = "cuda"))]
impl<T: WithDType + Pod> Element for T {}

/// A type of elements that candle, cudarc and the library have.
#[cfg(feature = "cuda")]
pub trait Element: WithDType + Pod + CudaDType + DeviceRepr {}
#[cfg(feature = "cuda")]
impl<T: WithDType + Pod + CudaDType + DeviceRepr> Element for T {}

/// Where candle has elements.
pub trait Storage: BackendStorage {
    /// The result of `work`, of `len` elements, which it writes from end to end; it reads the inputs.
    fn run<T: Element, U: Element>(
        operation: &'static str,
        inputs: &[(&Self, &Layout)],
        len: usize,
        work: impl FnOnce(&Gpu, &[DeviceSlice<'_, T>], DeviceSliceMut<'_, U>) -> GpuResult<()>,
    ) -> Result<Self>;
}

impl Storage for CpuStorage {
    fn run<T: Element, U: Element>(
        operation: &'static str,
        inputs: &[(&Self, &Layout)],
        len: usize,
        work: impl FnOnce(&Gpu, &[DeviceSlice<'_, T>], DeviceSliceMut<'_, U>) -> GpuResult<()>,
    ) -> Result<Self> {
        let gpu = device(0)?;
        let upload = |(storage, layout): &(&Self, &Layout)| {
            let (start, end) = extent(operation, layout)?;
            let values = &T::cpu_storage_as_slice(storage)?[start..end];
            DeviceBuffer::from_slice(gpu, values).map_err(Error::wrap)
        };
        let inputs = inputs.iter().map(upload).collect::<Result<Vec<_>>>()?;
        let inputs: Vec<_> = inputs.iter().map(DeviceBuffer::as_slice).collect();
        let result = || {
            let mut out = DeviceBuffer::<U>::zeroed(gpu, len)?;
            if len > 0 {
                work(gpu, &inputs, out.as_mut_slice())?;
            }
            out.to_vec()
        };
        result().map(U::to_cpu_storage_owned).map_err(Error::wrap)
    }
}

/// The methods of a custom operation that compute, of storages of the CPU and of a CUDA device: both are `$forward` of the operation
/// `$own` and its inputs, each with its layout.
macro_rules! forwards {
    ($(($x:ident $layout:ident))* => |$own:ident| $forward:expr) => {
        fn cpu_fwd(
            &self,
            $($x: &candle_core::CpuStorage, $layout: &Layout,)*
        ) -> Result<(candle_core::CpuStorage, Shape)> {
            let $own = self;
            $forward
        }

        #[cfg(feature = "cuda")]
        fn cuda_fwd(
            &self,
            $($x: &candle_core::CudaStorage, $layout: &Layout,)*
        ) -> Result<(candle_core::CudaStorage, Shape)> {
            let $own = self;
            $forward
        }
    };
}

pub(crate) use forwards;

/// Where the elements of a contiguous tensor are in its storage.
pub fn extent(operation: &'static str, layout: &Layout) -> Result<(usize, usize)> {
    layout.contiguous_offsets().ok_or_else(|| Error::RequiresContiguous { op: operation }.bt())
}

/// The device of that number, opened once in a process.
pub fn device(ordinal: u32) -> Result<&'static Gpu> {
    static ALL: Mutex<BTreeMap<u32, &'static Gpu>> = Mutex::new(BTreeMap::new());
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(gpu) = all.get(&ordinal) {
        return Ok(gpu);
    }
    let gpu: &'static Gpu = Box::leak(Box::new(Gpu::on(ordinal).map_err(Error::wrap)?));
    all.insert(ordinal, gpu);
    Ok(gpu)
}
