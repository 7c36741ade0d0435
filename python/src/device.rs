//! The devices, each opened once in a process, and the streams that calls borrow.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cuda_std::launch::DeviceRead;
use ferrowarp::{Backend, DeviceBuffer, Gpu, GpuResult, Stream};
use pyo3::prelude::*;

use crate::error::to_python;

/// What orders the uses of memory: the stream, as the library's arguments have it.
pub type Home = Arc<dyn Any + Send + Sync>;

/// A device that was opened.
pub struct Device {
    gpu: Gpu,
    /// Streams that no call uses now.
    idle: Mutex<Vec<(Stream, Home)>>,
}

impl Device {
    /// The device of that number.
    pub fn get(ordinal: u32) -> GpuResult<&'static Self> {
        static ALL: Mutex<BTreeMap<u32, &'static Device>> = Mutex::new(BTreeMap::new());
        let mut all = lock(&ALL);
        if let Some(device) = all.get(&ordinal) {
            return Ok(device);
        }
        let device = Self { gpu: Gpu::on(ordinal)?, idle: Mutex::default() };
        let device: &'static Self = Box::leak(Box::new(device));
        all.insert(ordinal, device);
        Ok(device)
    }

    /// The library's handle.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// Whether it is the emulator.
    pub fn is_emulated(&self) -> bool {
        self.gpu.backend() == Backend::Emulator
    }

    /// A stream for one call. Calls of several threads have a stream each, so that none waits for another one's work or
    /// gets its errors.
    pub fn lease(&'static self) -> GpuResult<Lease> {
        if let Some((stream, home)) = lock(&self.idle).pop() {
            return Ok(Lease { device: self, stream, home });
        }
        let stream = self.gpu.create_stream()?;
        let buffer = DeviceBuffer::<u8>::zeroed(&stream, 0)?;
        let home = buffer.raw().home.expect("a buffer's stream orders its uses").keep();
        Ok(Lease { device: self, stream, home })
    }
}

/// A stream that one call uses. When it is dropped, the stream has done all of the call's work.
pub struct Lease {
    device: &'static Device,
    stream: Stream,
    home: Home,
}

impl Lease {
    /// The device.
    pub fn device(&self) -> &'static Device {
        self.device
    }

    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The stream, for memory that is not the library's.
    pub fn home(&self) -> &Home {
        &self.home
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // After an error of the call; otherwise the stream is idle. A device that is lost does no more work.
        let _ = self.stream.synchronize();
        lock(&self.device.idle).push((self.stream.clone(), self.home.clone()));
    }
}

/// Nothing that the mutexes guard is left half changed by a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A GPU, or the emulated one.
#[pyclass(frozen, get_all, module = "ferrowarp")]
pub struct DeviceInfo {
    /// Its number, from 0.
    ordinal: u32,
    /// Its name.
    name: String,
    /// Whether it is the emulator inside this process.
    emulated: bool,
    /// Its compute capability: (9, 0) runs `sm_90` code.
    compute_capability: (u32, u32),
    /// The size of its memory in bytes.
    total_memory: usize,
    /// How much of it no process had when this was asked for.
    free_memory: usize,
}

#[pymethods]
impl DeviceInfo {
    fn __repr__(&self) -> String {
        let kind = if self.emulated { "emulated" } else { "GPU" };
        format!("<ferrowarp device {}: {} ({kind})>", self.ordinal, self.name)
    }
}

/// The device with this number: its name, and whether it is emulated.
///
/// The choice between a GPU and the emulator is made once in a process, by the variable FERROWARP_DEVICE ("cuda" or
/// "emulator") and by what the machine has.
#[pyfunction]
#[pyo3(signature = (ordinal = 0))]
pub fn device(py: Python<'_>, ordinal: u32) -> PyResult<DeviceInfo> {
    let device = py.detach(|| Device::get(ordinal)).map_err(to_python)?;
    let (free_memory, _) = device.gpu().memory_info().map_err(to_python)?;
    let info = device.gpu().info();
    Ok(DeviceInfo {
        ordinal,
        name: info.name.clone(),
        emulated: device.is_emulated(),
        compute_capability: info.compute_capability,
        total_memory: info.total_memory_bytes,
        free_memory,
    })
}
