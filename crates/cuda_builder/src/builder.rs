//! The options of a build.

use std::path::{Path, PathBuf};

use crate::arch::NvvmArch;
use crate::cancel::Cancel;
use crate::embed::EMBED_FILE;

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
    pub(crate) image_type: Option<String>,
    pub(crate) embed_file: String,
    pub(crate) pack: Option<bool>,
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
            image_type: None,
            embed_file: EMBED_FILE.to_owned(),
            pack: None,
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

    /// Compiles for each of these architectures, one PTX each, side by side as far as there are processors. Architectures that are
    /// compiled side by side have folders of their own, in each of which `core` is compiled once.
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
    /// a failed build returns them in [`CudaBuilderError::Rejected`](crate::CudaBuilderError::Rejected), a successful one in
    /// [`Compiled::messages`](crate::Compiled::messages). For programs that build kernels while they run: the build is then not
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
    /// `ptx: &'static str`. The default is the type that `ferrowarp::include_kernels!` makes loadable images of;
    /// only that one can be packed.
    pub fn image_type(mut self, path: impl Into<String>) -> Self {
        self.image_type = Some(path.into());
        self
    }

    /// The file in `OUT_DIR` that [`CudaBuilder::embed`] writes, `kernels.rs` by default. A build
    /// script that embeds two kernel crates gives each a name.
    pub fn embed_file(mut self, name: impl Into<String>) -> Self {
        self.embed_file = name.into();
        self
    }

    /// Whether [`CudaBuilder::embed`] compresses the PTX, which makes it about a tenth as long. The program then
    /// unpacks each kernel when it loads it, in a millisecond or two. By default a program that is optimised
    /// has its kernels packed, and one at `opt-level = 0` has not, so that an edit is built as fast as it can be.
    pub fn pack(mut self, pack: bool) -> Self {
        self.pack = Some(pack);
        self
    }

    /// Whether cargo, if it runs this program, runs it as a build script.
    pub(crate) fn is_script(&self) -> bool {
        !self.keep_messages
    }
}
