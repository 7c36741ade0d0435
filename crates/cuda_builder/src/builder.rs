//! The builder and its options.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::cancel::Cancel;
use crate::compile::{self, Compiled};
use crate::{CudaBuilderError, NvvmArch, embed};

/// How much line information the PTX carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DebugInfo {
    /// The kernel crate's own lines, or none where `generate_line_info(false)` says so.
    None,
    /// The lines of every crate, those of dependencies and of `core` included.
    LineTables,
}

/// What else the compiler writes beside the PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EmitOption {
    /// LLVM IR as text, beside the PTX with the extension `ll`.
    LlvmIr,
    /// LLVM bitcode, beside the PTX with the extension `bc`.
    Bitcode,
}

/// The files that this process embedded. Others of their names are of an earlier build.
static EMBEDDED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Compiles a kernel crate to PTX from a build script.
///
/// ```no_run
/// use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};
///
/// fn main() -> Result<(), CudaBuilderError> {
///     CudaBuilder::new("kernels").archs([NvvmArch::Compute80, NvvmArch::Compute90a]).embed()?;
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing before `build`, `embed` or `compile`"]
pub struct CudaBuilder {
    pub(crate) path: PathBuf,
    /// Whether overflow checks and `debug_assert!` are off. See [`CudaBuilder::release`].
    pub release: bool,
    /// Where a copy of the PTX goes. See [`CudaBuilder::copy_to`].
    pub ptx_file_copy_path: Option<PathBuf>,
    /// Whether the PTX names source lines. See [`CudaBuilder::generate_line_info`].
    pub generate_line_info: bool,
    /// Whether LLVM optimises. See [`CudaBuilder::nvvm_opts`].
    pub nvvm_opts: bool,
    /// The architectures to compile for. See [`CudaBuilder::archs`].
    pub archs: Vec<NvvmArch>,
    /// Whether f32 denormals become zero. See [`CudaBuilder::ftz`].
    pub ftz: bool,
    /// Whether f32 square roots are approximate. See [`CudaBuilder::fast_sqrt`].
    pub fast_sqrt: bool,
    /// Whether f32 divisions are approximate. See [`CudaBuilder::fast_div`].
    pub fast_div: bool,
    /// Whether `a * b + c` becomes one instruction. See [`CudaBuilder::fma_contraction`].
    pub fma_contraction: bool,
    /// What else to write. See [`CudaBuilder::emit_llvm_ir`].
    pub emit: Option<EmitOption>,
    /// Cannot be honoured. See [`CudaBuilder::optix`].
    pub optix: bool,
    /// Cannot be honoured. See [`CudaBuilder::override_libm`].
    pub override_libm: bool,
    /// Cannot be honoured. See [`CudaBuilder::use_constant_memory_space`].
    pub use_constant_memory_space: bool,
    /// Whose lines the PTX names. See [`CudaBuilder::debug`].
    pub debug: DebugInfo,
    /// More arguments for cargo. See [`CudaBuilder::build_args`].
    pub build_args: Vec<String>,
    /// Where the final module's bitcode goes. See [`CudaBuilder::final_module_path`].
    pub final_module_path: Option<PathBuf>,
    pub(crate) report: bool,
    pub(crate) deny_spills: bool,
    pub(crate) keep_messages: bool,
    pub(crate) cancel: Cancel,
    pub(crate) target_dir: Option<PathBuf>,
    pub(crate) image_type: String,
    pub(crate) embed_file: String,
}

impl CudaBuilder {
    /// A builder for the kernel crate in the folder `path`, which a build script may give relative
    /// to its own manifest. Everything has its default: release, line information, `Compute75`.
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self {
            path: path.as_ref().to_owned(),
            release: true,
            ptx_file_copy_path: None,
            generate_line_info: true,
            nvvm_opts: true,
            archs: vec![NvvmArch::default()],
            ftz: false,
            fast_sqrt: false,
            fast_div: false,
            fma_contraction: true,
            emit: None,
            optix: false,
            override_libm: false,
            use_constant_memory_space: false,
            debug: DebugInfo::None,
            build_args: Vec::new(),
            final_module_path: None,
            report: false,
            deny_spills: false,
            keep_messages: false,
            cancel: Cancel::default(),
            target_dir: None,
            image_type: "::ferrowarp::module::EmbeddedPtx".to_owned(),
            embed_file: "kernels.rs".to_owned(),
        }
    }

    /// More arguments for the inner cargo, such as `--features=half`. Replaces earlier ones.
    pub fn build_args(mut self, args: &[impl AsRef<str>]) -> Self {
        self.build_args = args.iter().map(|arg| arg.as_ref().to_owned()).collect();
        self
    }

    /// Whose source lines the PTX names. [`DebugInfo::LineTables`] compiles `core` once more.
    pub fn debug(mut self, debug: DebugInfo) -> Self {
        self.debug = debug;
        self
    }

    /// `false` turns overflow checks and `debug_assert!` on, in the kernels and in everything they
    /// use, and compiles `core` once more. LLVM optimises either way: the unoptimised library does
    /// not assemble.
    pub fn release(mut self, release: bool) -> Self {
        self.release = release;
        self
    }

    /// Whether the PTX names the kernel crate's source lines (`.loc`), which profilers and the
    /// emulator's errors show. It costs nothing at run time.
    pub fn generate_line_info(mut self, generate_line_info: bool) -> Self {
        self.generate_line_info = generate_line_info;
        self
    }

    /// rust-cuda's switch for its optimiser. `false` cannot be honoured: unoptimised PTX holds the
    /// whole of `core`, with symbols that nothing on the device defines.
    pub fn nvvm_opts(mut self, nvvm_opts: bool) -> Self {
        self.nvvm_opts = nvvm_opts;
        self
    }

    /// Compiles for this architecture alone.
    pub fn arch(self, arch: NvvmArch) -> Self {
        self.archs([arch])
    }

    /// Compiles for each of these architectures, one PTX each. `core` is compiled once for all.
    pub fn archs(mut self, archs: impl IntoIterator<Item = NvvmArch>) -> Self {
        self.archs.clear();
        for arch in archs {
            if !self.archs.contains(&arch) {
                self.archs.push(arch);
            }
        }
        self
    }

    /// Whether f32 denormals are flushed to zero, in operands and results (`.ftz`). Inline
    /// assembly stays as written, and so do values that the compiler computed itself.
    pub fn ftz(mut self, ftz: bool) -> Self {
        self.ftz = ftz;
        self
    }

    /// Whether an f32 square root is approximate (`sqrt.approx`) instead of correctly rounded.
    pub fn fast_sqrt(mut self, fast_sqrt: bool) -> Self {
        self.fast_sqrt = fast_sqrt;
        self
    }

    /// Whether an f32 division is approximate (`div.full`, 2 ulp) instead of correctly rounded.
    pub fn fast_div(mut self, fast_div: bool) -> Self {
        self.fast_div = fast_div;
        self
    }

    /// Whether `a * b + c` becomes one fused multiply-add, which rounds once instead of twice.
    pub fn fma_contraction(mut self, fma_contraction: bool) -> Self {
        self.fma_contraction = fma_contraction;
        self
    }

    /// Whether the compiler also writes LLVM IR, beside the PTX with the extension `ll`.
    pub fn emit_llvm_ir(mut self, emit_llvm_ir: bool) -> Self {
        self.emit = emit_llvm_ir.then_some(EmitOption::LlvmIr);
        self
    }

    /// Whether the compiler also writes bitcode, beside the PTX with the extension `bc`.
    pub fn emit_llvm_bitcode(mut self, emit_llvm_bitcode: bool) -> Self {
        self.emit = emit_llvm_bitcode.then_some(EmitOption::Bitcode);
        self
    }

    /// Also copies the PTX to `path`, relative to the build script's manifest, where it differs
    /// from what stands there. With several architectures each copy has its own in its name:
    /// `kernels.ptx` becomes `kernels.sm_80.ptx` and `kernels.sm_90a.ptx`.
    pub fn copy_to(mut self, path: impl AsRef<Path>) -> Self {
        self.ptx_file_copy_path = Some(path.as_ref().to_owned());
        self
    }

    /// rust-cuda's switch for code that OptiX links. `true` cannot be honoured.
    pub fn optix(mut self, optix: bool) -> Self {
        self.optix = optix;
        self
    }

    /// rust-cuda's switch that replaces `libm` by NVIDIA's libdevice. `true` cannot be honoured:
    /// libdevice comes with the CUDA toolkit, which nothing here needs. The default is `false`.
    pub fn override_libm(mut self, override_libm: bool) -> Self {
        self.override_libm = override_libm;
        self
    }

    /// rust-cuda's switch that places immutable statics into constant memory. `true` cannot be
    /// honoured: rustc places them into global memory.
    pub fn use_constant_memory_space(mut self, use_constant_memory_space: bool) -> Self {
        self.use_constant_memory_space = use_constant_memory_space;
        self
    }

    /// Also writes the bitcode of the final module, after all optimisation, to `path`. With
    /// several architectures each has its own in its name, as in [`CudaBuilder::copy_to`].
    pub fn final_module_path(mut self, path: impl AsRef<Path>) -> Self {
        self.final_module_path = Some(path.as_ref().to_owned());
        self
    }

    /// Whether NVIDIA's assembler checks the PTX, where the machine has it. A build script then
    /// shows the registers, shared memory, stack and spills of each kernel as warnings, or says why
    /// it cannot. [`Module::report`](crate::Module::report) holds the same as numbers.
    pub fn report(mut self, report: bool) -> Self {
        self.report = report;
        self
    }

    /// Whether a build fails in which a function spills registers to memory. Only the assembler
    /// knows: where the machine has none, a warning says that nothing was checked.
    pub fn deny_spills(mut self, deny_spills: bool) -> Self {
        self.deny_spills = deny_spills;
        self
    }

    /// Whether the compiler's messages are kept instead of going to this process's standard error:
    /// a failed build returns them in [`CudaBuilderError::Rejected`], a successful one in
    /// [`Compiled::messages`]. For programs that build kernels while they run: the build then is no
    /// part of a build script, even where cargo started the program with an `OUT_DIR`.
    pub fn keep_messages(mut self, keep_messages: bool) -> Self {
        self.keep_messages = keep_messages;
        self
    }

    /// What can end the build from another thread.
    pub fn cancel(mut self, cancel: &Cancel) -> Self {
        self.cancel = cancel.clone();
        self
    }

    /// The folder of the kernel crate, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the inner cargo builds. The default is the folder `cuda-builder` in the target
    /// directory of the build script.
    pub fn target_dir(mut self, path: impl AsRef<Path>) -> Self {
        self.target_dir = Some(path.as_ref().to_owned());
        self
    }

    /// The type that [`CudaBuilder::embed`] names, with the fields `arch: &'static str` and
    /// `ptx: &'static str`. The default, `::ferrowarp::module::EmbeddedPtx`, is what
    /// `ferrowarp::include_kernels!` makes loadable images of.
    pub fn image_type(mut self, path: impl Into<String>) -> Self {
        self.image_type = path.into();
        self
    }

    /// The file in `OUT_DIR` that [`CudaBuilder::embed`] writes, `kernels.rs` by default. A build
    /// script that embeds two kernel crates gives each a name.
    pub fn embed_file(mut self, name: impl Into<String>) -> Self {
        self.embed_file = name.into();
        self
    }

    /// Compiles, and returns the path of the PTX: that of `copy_to` if it was given, and that of
    /// the first architecture if there are several.
    pub fn build(self) -> Result<PathBuf, CudaBuilderError> {
        let compiled = self.compile()?;
        let first = compiled.modules.first().ok_or(CudaBuilderError::NoArch)?;
        Ok(first.copy.as_ref().unwrap_or(&first.path).clone())
    }

    /// Compiles, and writes a Rust expression with the PTX of every architecture to
    /// `$OUT_DIR/kernels.rs`, for `ferrowarp::include_kernels!`. Returns that path.
    pub fn embed(self) -> Result<PathBuf, CudaBuilderError> {
        let out_dir = std::env::var_os("OUT_DIR").ok_or(CudaBuilderError::NoOutDir)?;
        let file = Path::new(&out_dir).join(&self.embed_file);
        let compiled = self.compiled()?;
        embed::write(&file, &self.image_type, &compiled.modules)?;
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

    /// Whether cargo, if it runs this program, runs it as a build script.
    pub(crate) fn is_script(&self) -> bool {
        !self.keep_messages
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
