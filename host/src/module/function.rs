//! Kernels by their names.

use std::collections::HashMap;
use std::fmt;
use std::sync::Mutex;

use cuda_std::launch::{Args, Contract, Kernel, Launch, LaunchConfig, Param, ParamKind};

use super::entry::{self, EntryParam};
use crate::error::{GpuError, GpuResult};
use crate::gpu::Gpu;
use crate::launch::Occupancy;
use crate::lock::lock;
use crate::stream::{AsStream, Stream};

/// A kernel of a [`Module`](super::Module), which it keeps loaded. A clone is the same kernel.
#[derive(Clone)]
#[doc(alias = "Function")]
#[doc(alias = "CudaFunction")]
#[doc(alias = "CUfunction")]
pub struct ModuleFunction {
    /// The stream that the module was loaded for, with its kernels.
    stream: Stream,
    kernel: &'static Kernel,
}

impl ModuleFunction {
    pub(super) fn new(stream: &Stream, name: &str) -> GpuResult<Self> {
        let header = stream.module().header(name)?;
        let params = entry::params(&header).ok_or(GpuError::Unsupported {
            what: "a launch by name of a kernel with textures, samplers or surfaces as parameters",
        })?;
        let kernel = described(name, &params, entry::contract(&header));
        stream.module().function(kernel)?;
        Ok(Self { stream: stream.clone(), kernel })
    }

    /// Its name in the PTX.
    #[must_use]
    pub fn name(&self) -> &str {
        self.kernel.name
    }

    /// The sizes of its parameters in bytes, in order. A pointer has 8.
    pub fn parameter_bytes(&self) -> impl Iterator<Item = usize> {
        self.kernel.params.iter().map(|param| param.size_bytes)
    }

    /// Enqueues the kernel on a stream or [`Gpu`], in the order of the arguments' homes, as a typed launcher does; in a
    /// capture it becomes a node of the graph.
    ///
    /// The number and the sizes of the arguments are compared with the parameters in the PTX, the grid and the block
    /// with the limits of the device and of the kernel, the block also with the one that the kernel is compiled for.
    ///
    /// # Errors
    /// [`WrongParameters`](GpuError::WrongParameters), [`Contract`](GpuError::Contract),
    /// [`LaunchTooLarge`](GpuError::LaunchTooLarge); [`WrongDevice`](GpuError::WrongDevice) for a stream or memory of
    /// another device; a driver's refusal.
    ///
    /// # Safety
    /// What PTX does not say is not checked:
    /// - each argument has the type that the kernel's source gives the parameter, not only its size;
    /// - the kernel stays within the memory that it is given, writes none that was pushed to be read, and memory
    ///   that was pushed as a pointer is live until the kernel has run;
    /// - no two threads race, whatever the grid and the block are, and the kernel's assumptions about their shape hold;
    /// - the dynamic shared memory is as much as the kernel uses.
    pub unsafe fn launch(
        &self,
        on: &impl AsStream,
        config: impl Into<LaunchConfig>,
        args: &Args<'_>,
    ) -> GpuResult<()> {
        let stream = on.as_stream();
        stream.inner().check_device(self.stream.inner().context(), "the stream")?;
        let stream = stream.with_module(self.stream.module().clone());
        // SAFETY: the caller's promise; sizes and number of the arguments are compared before the launch.
        unsafe { stream.launch(self.kernel, config.into(), args) }
    }

    /// What the kernel takes of the device with this much dynamic shared memory in each block.
    ///
    /// # Errors
    /// As [`Gpu::occupancy`].
    pub fn occupancy(&self, dynamic_shared_bytes: u32) -> GpuResult<Occupancy> {
        Gpu::of_stream(self.stream.clone()).occupancy(self.kernel, dynamic_shared_bytes)
    }
}

impl fmt::Debug for ModuleFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<usize> = self.parameter_bytes().collect();
        write!(f, "ModuleFunction(`{}`, parameters of {sizes:?} bytes)", self.name())
    }
}

/// A description of a kernel as launches take it, which is never freed. Kernels with equal names, parameters and bounds
/// share one, so that a program that loads a text again and again keeps no more than one of each.
fn described(name: &str, params: &[EntryParam], contract: Contract) -> &'static Kernel {
    static ALL: Mutex<Option<HashMap<String, Vec<&'static Kernel>>>> = Mutex::new(None);
    let mut all = lock(&ALL);
    let known = all.get_or_insert_default().entry(name.to_owned()).or_default();
    let is_same = |kernel: &&'static Kernel| {
        let own = kernel.params.iter().map(|param| (param.name, param.size_bytes));
        kernel.contract == contract
            && own.eq(params.iter().map(|param| (param.name.as_str(), param.size_bytes)))
    };
    if let Some(kernel) = known.iter().copied().find(is_same) {
        return kernel;
    }
    let param = |EntryParam { name, size_bytes }: &EntryParam| {
        let name: &'static str = name.clone().leak();
        Param { name, kind: ParamKind::Value, size_bytes: *size_bytes }
    };
    let params = params.iter().map(param).collect::<Vec<_>>().leak();
    let kernel: &'static Kernel =
        Box::leak(Box::new(Kernel { name: name.to_owned().leak(), params, contract }));
    known.push(kernel);
    kernel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_kernels_share_a_description() {
        let params = |bytes: &[usize]| -> Vec<EntryParam> {
            let param =
                |size_bytes: &usize| EntryParam { name: "p".to_owned(), size_bytes: *size_bytes };
            bytes.iter().map(param).collect()
        };
        let one = described("k", &params(&[8, 4]), Contract::NONE);
        assert!(std::ptr::eq(one, described("k", &params(&[8, 4]), Contract::NONE)));
        for other in [
            described("k", &params(&[8, 8]), Contract::NONE),
            described("k", &params(&[8]), Contract::NONE),
            described("l", &params(&[8, 4]), Contract::NONE),
            described("k", &params(&[8, 4]), Contract::NONE.with_block([32, 1, 1])),
        ] {
            assert!(!std::ptr::eq(one, other) && one != other, "{other:?}");
        }
    }
}
