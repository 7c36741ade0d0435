//! Kernel crates, compiled where the pinned compiler is.

use std::path::PathBuf;

use cuda_builder::{CudaBuilder, NvvmArch};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::caller::CurrentContext;
use crate::device::Device;
use crate::error::{Error, to_python};

/// Compiles the Rust kernel crate in the folder path, and returns the path of its PTX, for Module.
///
/// That takes the Rust compiler that the crate `ferrowarp-builder` asks for, and its library's sources. What is unchanged is not
/// compiled again.
///
/// arch: what the PTX may use, such as "sm_80" or "sm_90a"; by itself that of the device of that ordinal.
#[pyfunction]
#[pyo3(signature = (path, *, arch = None, target_dir = None, device = 0))]
pub fn build(
    py: Python<'_>,
    path: PathBuf,
    arch: Option<&str>,
    target_dir: Option<PathBuf>,
    device: u32,
) -> PyResult<PathBuf> {
    let arch = match arch {
        Some(name) => name.to_owned(),
        None => {
            let _current = CurrentContext::get();
            let device = py.detach(|| Device::get(device)).map_err(to_python)?;
            let (major, minor) = device.gpu().compute_capability();
            format!("sm_{major}{minor}")
        }
    };
    let arch: NvvmArch = arch.parse().map_err(|error: cuda_builder::CudaBuilderError| {
        PyValueError::new_err(error.to_string())
    })?;
    py.detach(|| {
        let mut builder = CudaBuilder::new(path).arch(arch);
        if let Some(folder) = target_dir {
            builder = builder.target_dir(folder);
        }
        builder.build()
    })
    .map_err(|error| Error::new_err(error.to_string()))
}
