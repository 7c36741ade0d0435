//! What a builder does: `build`, `embed` and `compile`.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::builder::CudaBuilder;
use crate::compile::{self, Compiled};
use crate::embed;
use crate::error::CudaBuilderError;
use crate::script;

/// The files that this process embedded. Others of their names are of an earlier build.
static EMBEDDED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

impl CudaBuilder {
    /// Compiles, and returns the path of the PTX: that of `copy_to` if it was given, and that of
    /// the first architecture if there are several.
    pub fn build(self) -> Result<PathBuf, CudaBuilderError> {
        let compiled = self.compile()?;
        let first = compiled.modules.first().ok_or(CudaBuilderError::NoArch)?;
        Ok(first.copy.as_ref().unwrap_or(&first.path).clone())
    }

    /// Compiles, and writes a Rust expression with the PTX of every architecture to
    /// `$OUT_DIR/kernels.rs`, for `ferrowarp::include_kernels!`. Returns that path. Where `DOCS_RS` is set, nothing is
    /// compiled, and there are no images: see [Documentation builds](crate#documentation-builds).
    pub fn embed(self) -> Result<PathBuf, CudaBuilderError> {
        let out_dir = std::env::var_os("OUT_DIR").ok_or(CudaBuilderError::NoOutDir)?;
        let file = Path::new(&out_dir).join(&self.embed_file);
        let modules = match script::is_for_documentation() {
            true => Vec::new(),
            false => self.compiled()?.modules,
        };
        embed::write(&self, &file, &modules)?;
        EMBEDDED.lock().unwrap_or_else(PoisonError::into_inner).insert(file.clone());
        Ok(file)
    }

    /// Compiles, and returns everything there is to know about the result. In a build script a file that an earlier
    /// [`embed`](Self::embed) of the same script left is removed: a program that still includes it would go on with
    /// the kernels of that build.
    pub fn compile(&self) -> Result<Compiled, CudaBuilderError> {
        let compiled = self.compiled()?;
        self.remove_embedded()?;
        Ok(compiled)
    }

    fn compiled(&self) -> Result<Compiled, CudaBuilderError> {
        self.refuse_unsupported()?;
        compile::compile(self)
    }

    fn remove_embedded(&self) -> Result<(), CudaBuilderError> {
        let Some(dir) = std::env::var_os("OUT_DIR").filter(|_| self.is_script()) else {
            return Ok(());
        };
        let file = Path::new(&dir).join(&self.embed_file);
        if EMBEDDED.lock().unwrap_or_else(PoisonError::into_inner).contains(&file) {
            return Ok(());
        }
        match fs::remove_file(&file) {
            Err(source) if source.kind() != ErrorKind::NotFound => {
                Err(CudaBuilderError::File { action: "remove", path: file, source })
            }
            _ => Ok(()),
        }
    }

    fn refuse_unsupported(&self) -> Result<(), CudaBuilderError> {
        let refusals = [
            (
                !self.nvvm_opts,
                "nvvm_opts(false)",
                "unoptimised code for this target does not assemble",
            ),
            (
                self.optix,
                "optix(true)",
                "OptiX needs functions and names that rustc's code generator does not write",
            ),
            (
                self.override_libm,
                "override_libm(true)",
                "libdevice is part of the CUDA toolkit; use cuda_std's own functions",
            ),
            (
                self.use_constant_memory_space,
                "use_constant_memory_space(true)",
                "rustc places every static into global memory; pass such data as an argument",
            ),
        ];
        match refusals.into_iter().find(|(refused, ..)| *refused) {
            Some((_, option, reason)) => Err(CudaBuilderError::Unsupported { option, reason }),
            None => Ok(()),
        }
    }
}
