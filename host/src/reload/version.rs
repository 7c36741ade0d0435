//! Versions of a module.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use cuda_std::launch::{Args, Kernel, Launch, LaunchConfig};

use crate::error::{GpuError, GpuResult};
use crate::gpu::Gpu;
use crate::module::{Digest, KernelModule};
use crate::stream::{AsStream, Stream};

/// What a version of a module is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct VersionInfo {
    /// Its number, from 1; no number is given twice.
    pub number: u64,
    /// A hash of its PTX: equal texts have equal hashes.
    pub hash: u64,
    /// Length of its PTX in bytes.
    pub bytes: usize,
    /// The architecture that it was compiled for, for example `sm_90a`.
    pub arch: String,
    /// When it was loaded.
    pub loaded_at: SystemTime,
}

impl VersionInfo {
    pub(super) fn new(number: u64, arch: &str, text: Digest) -> Self {
        let (arch, loaded_at) = (arch.to_owned(), SystemTime::now());
        Self { number, hash: text.hash, bytes: text.bytes, arch, loaded_at }
    }

    /// Whether it was made from this text.
    pub(super) fn is_of(&self, text: Digest) -> bool {
        Digest { hash: self.hash, bytes: self.bytes } == text
    }
}

impl fmt::Display for VersionInfo {
    /// `version 3 (sm_90a, 41208 bytes, 5fe1a3a0b1c2d3e4)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, hash, bytes, arch, .. } = self;
        write!(f, "version {number} ({arch}, {bytes} bytes, {hash:016x})")
    }
}

/// One version of a module, loaded. A launch on it runs this version's kernel, whatever is swapped
/// in; it stays loaded as long as this, or a stream or [`Gpu`] made from it, is held.
///
/// A clone is this version.
#[derive(Clone)]
pub struct ModuleVersion {
    pub(super) inner: Arc<Inner>,
}

impl fmt::Debug for ModuleVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ModuleVersion({})", self.info())
    }
}

pub(super) struct Inner {
    pub(super) info: VersionInfo,
    stream: Stream,
}

impl ModuleVersion {
    pub(super) fn new(info: VersionInfo, base: &Stream, module: Arc<KernelModule>) -> Self {
        Self { inner: Arc::new(Inner { info, stream: base.with_module(module) }) }
    }

    /// What it is.
    #[must_use]
    pub fn info(&self) -> &VersionInfo {
        &self.inner.info
    }

    /// Its number, from 1.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.inner.info.number
    }

    /// Whether this version is the module that the program was built with, which is never unloaded.
    #[must_use]
    pub fn is_built_in(&self) -> bool {
        self.as_stream().module().uses().is_none()
    }

    /// The device with this version's kernels, for what takes a [`Gpu`].
    #[must_use]
    pub fn gpu(&self) -> Gpu {
        Gpu::of_stream(self.inner.stream.clone())
    }

    /// `stream` with this version's kernels.
    ///
    /// # Errors
    /// [`WrongDevice`](GpuError::WrongDevice) for a stream of another device.
    pub fn on(&self, stream: &impl AsStream) -> GpuResult<Stream> {
        let stream = stream.as_stream();
        stream.inner().check_device(self.inner.stream.inner().context(), "the stream")?;
        Ok(stream.with_module(self.module().clone()))
    }

    pub(super) fn module(&self) -> &Arc<KernelModule> {
        self.inner.stream.module()
    }
}

impl AsStream for ModuleVersion {
    fn as_stream(&self) -> &Stream {
        &self.inner.stream
    }
}

impl Launch for ModuleVersion {
    type Error = GpuError;

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> GpuResult<()> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.launch(kernel, config, args) }
    }
}

impl Inner {
    /// # Safety
    /// As [`Launch::launch`].
    pub(super) unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> GpuResult<()> {
        // SAFETY: the caller's promise.
        unsafe { self.stream.launch(kernel, config, args) }
    }
}
