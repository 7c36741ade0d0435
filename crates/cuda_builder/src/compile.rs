//! From a kernel crate to finished PTX files: one cargo run for each architecture, side by side as far as there are processors.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::thread;

use crate::builder::{CudaBuilder, DebugInfo, EmitOption};
use crate::cargo::{self, Messages, Outcome};
use crate::ptxas;
use crate::report::Report;
use crate::toolchain::Rustc;
use crate::written::write_changed;
use crate::{CudaBuilderError, NvvmArch, ptx, script, sources};

/// The result of a build.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Compiled {
    /// One for each architecture, in the order given.
    pub modules: Vec<Module>,
    /// Every file that the result depends on: sources, manifests, the lock file.
    pub sources: Vec<PathBuf>,
    /// The compiler's warnings, if [`CudaBuilder::keep_messages`] asked for them.
    pub messages: String,
    pub(crate) compiler: Rustc,
}

/// The PTX for one architecture.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Module {
    /// Which architecture.
    pub arch: NvvmArch,
    /// The PTX file.
    pub path: PathBuf,
    /// Its copy, if `copy_to` asked for one.
    pub copy: Option<PathBuf>,
    /// The names of its kernels, in the order of the file.
    pub entries: Vec<String>,
    /// The names of the crates that cargo compiled for it; empty where nothing had changed.
    pub compiled_crates: Vec<String>,
    /// What the assembler said, if it was asked.
    pub report: Option<Report>,
}

/// Turns accesses through generic pointers that are known to be shared into `ld.shared` and `st.shared`.
/// The knowledge is an assumption in the code; with the dominator tree at hand it holds in all blocks below it,
/// without in its own block only.
const SHARED_MEMORY_PASSES: &str = "function(require<domtree>,infer-address-spaces)";

/// Keeps LLVM 22 from rewriting additions by earlier ones (straight-line strength reduction). It holds that
/// `sext(!c)` is `sext(c) - 1` for a truth value, so `a[i - (x < y) as usize]` beside
/// `a[i - (x >= y) as usize]` reads another element: the standard library's merges do so, in every
/// stable sort. The pass has no switch but the counter that its developers bisect with: it rewrites
/// from that many candidates on.
const NO_STRENGTH_REDUCTION: &str = "-debug-counter=slsr-counter=9000000000000000000";

/// An instruction that LLVM made of two has the place of one of them, and not none: the line tells the order of an
/// atomic operation.
const LINES_OF_MERGED: &str = "-pick-merged-source-locations";

/// Dependencies, `core` among them, are compiled for the target's oldest processor, and every architecture's link
/// takes them as bitcode. Code is generated then, of all of it, for the kernel crate's processor alone.
const MIXED_PROCESSORS: &str = "-Cunsafe-allow-abi-mismatch=target-cpu";

/// What the kernel crate's root may use without naming it.
const CRATE_ATTRIBUTES: [&str; 2] = [
    "feature(abi_ptx,asm_experimental_arch,stdarch_nvptx,link_llvm_intrinsics,f16)",
    "allow(unused_features,unused_attributes,internal_features,duplicate_features)",
];

/// The folder in the target directory that rustc writes the PTX to.
const RAW_DIR: &str = "ptx";

pub(crate) fn compile(builder: &CudaBuilder) -> Result<Compiled, CudaBuilderError> {
    let job = Job::new(builder)?;
    let archs = script::archs(builder)?;
    job.compiler.knows(&archs)?;
    let mut compiled = Compiled {
        modules: Vec::new(),
        sources: Vec::new(),
        messages: String::new(),
        compiler: job.compiler.clone(),
    };
    let (mut read, mut all) = (BTreeSet::new(), job.compile_all(&archs));
    // The messages of the last one were shown as they came. Where it has failed, the others have, as a rule, for the same reason.
    if let Some(Err(error)) = all.pop_if(|last| last.is_err()) {
        return Err(error);
    }
    for built in all {
        let built = match builder.keep_messages {
            true => built?,
            false => shown(built)?,
        };
        read.extend(built.sources);
        compiled.modules.push(built.module);
        compiled.messages = built.messages;
    }
    compiled.sources = read.into_iter().collect();
    if builder.is_script() {
        job.compiler.warning().iter().for_each(|text| script::warn(text));
        script::rerun_if_changed(&compiled.sources);
    }
    match compiled.modules.is_empty() {
        true => Err(CudaBuilderError::NoArch),
        false => Ok(compiled),
    }
}

/// Shows the messages of a build that held them back.
fn shown(built: Result<Built, CudaBuilderError>) -> Result<Built, CudaBuilderError> {
    match built {
        Ok(built) => {
            eprint!("{}", built.messages);
            Ok(Built { messages: String::new(), ..built })
        }
        Err(CudaBuilderError::Rejected { messages }) => {
            eprint!("{messages}");
            Err(CudaBuilderError::BuildFailed)
        }
        Err(error) => Err(error),
    }
}

/// A build that leaves kernels out.
pub(crate) struct Partial {
    /// The finished PTX.
    pub text: String,
    pub sources: BTreeSet<PathBuf>,
    pub messages: String,
}

/// What was made for one architecture.
struct Built {
    module: Module,
    sources: BTreeSet<PathBuf>,
    /// What the compiler said, if it was not shown.
    messages: String,
}

#[derive(Clone)]
pub(crate) struct Job<'a> {
    builder: &'a CudaBuilder,
    root: PathBuf,
    /// Where rustc writes the PTX.
    target_dir: PathBuf,
    /// Where the inner cargo builds: the same folder, or one in it.
    cargo_dir: PathBuf,
    messages: Messages,
    compiler: Rustc,
}

impl<'a> Job<'a> {
    pub(crate) fn new(builder: &'a CudaBuilder) -> Result<Self, CudaBuilderError> {
        Self::with(builder, Rustc::of)
    }

    /// A job for a compiler that is already known, which saves a rebuild the time to ask it.
    pub(crate) fn with(
        builder: &'a CudaBuilder,
        compiler: impl FnOnce(&Path) -> Rustc,
    ) -> Result<Self, CudaBuilderError> {
        let missing = || CudaBuilderError::CratePathDoesntExist(builder.path.clone());
        let root = builder.path.canonicalize().map_err(|_| missing())?;
        if !root.join("Cargo.toml").is_file() {
            return Err(missing());
        }
        if builder.cancel.is_cancelled() {
            return Err(CudaBuilderError::Cancelled);
        }
        let target_dir = match &builder.target_dir {
            Some(dir) => std::path::absolute(dir).map_err(CudaBuilderError::write(dir))?,
            None => sources::default_target_dir(&root),
        };
        let compiler = compiler(&root);
        let messages = if builder.keep_messages { Messages::Kept } else { Messages::Shown };
        let cargo_dir = target_dir.clone();
        Ok(Self { builder, root, target_dir, cargo_dir, messages, compiler })
    }

    /// Compiles for each architecture. Cargo locks the folder that it builds in, so that architectures which are compiled side
    /// by side have folders of their own, with a `core` of their own: the last of them this job's, the one before it `2` in it, and so
    /// on. The last one is the newest as a rule, so that a build for it alone, as of a program that watches its kernels on that device, finds
    /// what was built here.
    fn compile_all(&self, archs: &[NvvmArch]) -> Vec<Result<Built, CudaBuilderError>> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let jobs = (0..archs.len().min(processors)).map(|number| self.beside(number));
        let jobs: Vec<Job<'_>> = jobs.collect();
        let work_off = |(number, job): (usize, &Job<'_>)| {
            let own = archs.iter().rev().skip(number).step_by(jobs.len());
            own.map(|arch| job.compile(*arch)).collect::<Vec<_>>()
        };
        let mut of_jobs: Vec<_> = thread::scope(|scope| {
            let start = |own| scope.spawn(move || work_off(own));
            let running: Vec<_> = jobs.iter().enumerate().map(start).collect();
            let ended = running.into_iter().map(|thread| thread.join());
            ended
                .map(|built| built.unwrap_or_else(|panic| resume_unwind(panic)).into_iter())
                .collect()
        });
        let mut all: Vec<_> =
            (0..archs.len()).filter_map(|arch| of_jobs[arch % jobs.len()].next()).collect();
        all.reverse();
        all
    }

    /// The job of a number, of those that run side by side. Messages of all but the first are shown when all have ended: each says
    /// nearly the same.
    fn beside(&self, number: usize) -> Self {
        match number {
            0 => self.clone(),
            _ => {
                let cargo_dir = self.target_dir.join((number + 1).to_string());
                let messages = match self.messages {
                    Messages::Shown => Messages::Held,
                    other => other,
                };
                Self { cargo_dir, messages, ..self.clone() }
            }
        }
    }

    /// The folder from which on source files are named in the PTX.
    pub(crate) fn base(&self) -> Option<&Path> {
        self.root.parent()
    }

    /// Compiles without the kernels that a file lists, for a text whose other kernels `can_panic`.
    pub(crate) fn compile_without(
        &self,
        arch: NvvmArch,
        list: &Path,
        can_panic: bool,
    ) -> Result<Partial, CudaBuilderError> {
        let raw = self.raw_path(arch).with_extension("partial.s");
        // What only kernels use that are left out is no news.
        let more = ["-Aunused".to_owned()];
        let (text, outcome, sources) = self.run(arch, &raw, &more, Some(list))?;
        let wrong = |source| CudaBuilderError::Ptx { arch, source };
        let finished = ptx::finish(&text, ptx::Options { can_panic, ..self.options() });
        let text = finished.map_err(wrong)?.text;
        Ok(Partial { text, sources, messages: outcome.messages })
    }

    /// Runs cargo: what rustc wrote, and all files that it read.
    fn run(
        &self,
        arch: NvvmArch,
        raw: &Path,
        more: &[String],
        without: Option<&Path>,
    ) -> Result<(String, Outcome, BTreeSet<PathBuf>), CudaBuilderError> {
        self.create_raw_dir()?;
        let cancel = &self.builder.cancel;
        let (args, mut rustc_args) = (self.cargo_args(), self.rustc_args(arch, raw));
        rustc_args.extend_from_slice(more);
        let outcome = cargo::run(&self.root, &args, &rustc_args, self.messages, without, cancel)?;
        let sources = sources::of(&outcome.dep_info, &self.root)?;
        let text = fs::read_to_string(raw).map_err(|_| CudaBuilderError::NoPtx {
            path: raw.to_owned(),
            target_dir: self.target_dir.clone(),
        })?;
        Ok((text, outcome, sources))
    }

    /// The folder in which rustc writes.
    pub(crate) fn create_raw_dir(&self) -> Result<PathBuf, CudaBuilderError> {
        let dir = self.target_dir.join(RAW_DIR);
        fs::create_dir_all(&dir).map_err(CudaBuilderError::write(&dir))?;
        Ok(dir)
    }

    fn compile(&self, arch: NvvmArch) -> Result<Built, CudaBuilderError> {
        let raw = self.raw_path(arch);
        let (text, mut outcome, sources) = self.run(arch, &raw, &[], None)?;
        let messages = std::mem::take(&mut outcome.messages);
        Ok(Built { module: self.finish(arch, &raw, &text, outcome)?, sources, messages })
    }

    fn finish(
        &self,
        arch: NvvmArch,
        raw: &Path,
        text: &str,
        outcome: Outcome,
    ) -> Result<Module, CudaBuilderError> {
        let wrong = |source| CudaBuilderError::Ptx { arch, source };
        let finished = ptx::finish(text, self.options()).map_err(wrong)?;
        if self.builder.is_script() {
            finished.unknown_orders.iter().for_each(|name| script::warn(&unknown_order(name)));
        }
        if finished.entries.is_empty() && self.builder.is_script() {
            script::warn(&format!("`{}` has no kernel for {arch}", self.root.display()));
        }
        let path = self.ptx_path(arch, raw, &outcome.crate_name);
        write_changed(&path, finished.text.as_bytes()).map_err(CudaBuilderError::write(&path))?;
        self.copy_extras(arch, raw, &path)?;
        let copy = self.builder.ptx_file_copy_path.as_ref().map(|to| self.with_arch(to, arch));
        if let Some(copy) = &copy {
            write_changed(copy, finished.text.as_bytes())
                .map_err(CudaBuilderError::FailedToCopyPtxFile)?;
        }
        let report = self.report(arch, &path, &raw.with_extension("cubin"))?;
        let Outcome { compiled_crates, .. } = outcome;
        Ok(Module { arch, path, copy, entries: finished.entries, compiled_crates, report })
    }

    fn options(&self) -> ptx::Options<'_> {
        let flush_denormals = self.builder.ftz;
        ptx::Options {
            flush_denormals,
            lines: self.has_lines(),
            base: self.base(),
            can_panic: false,
        }
    }

    /// Whether the PTX names source lines.
    fn has_lines(&self) -> bool {
        self.builder.generate_line_info || self.builder.debug == DebugInfo::LineTables
    }

    /// Assembles the PTX if an option asks for it.
    fn report(
        &self,
        arch: NvvmArch,
        ptx: &Path,
        cubin: &Path,
    ) -> Result<Option<Report>, CudaBuilderError> {
        let CudaBuilder { report, deny_spills, .. } = *self.builder;
        if !report && !deny_spills {
            return Ok(None);
        }
        let said = ptxas::assemble(ptx, cubin, arch)?;
        let tell = report || matches!(said, Report::NotAssembled(_));
        if tell && self.builder.is_script() {
            script::warn(&format!("{arch}:\n{said}"));
        }
        let spilling = said.functions().iter().filter(|usage| usage.spills());
        let functions: Vec<_> = spilling.filter(|_| deny_spills).cloned().collect();
        match functions.is_empty() {
            true => Ok(Some(said)),
            false => Err(CudaBuilderError::Spills { arch, functions }),
        }
    }

    /// Takes the IR and the bitcode to where the options want them.
    fn copy_extras(&self, arch: NvvmArch, raw: &Path, ptx: &Path) -> Result<(), CudaBuilderError> {
        let beside =
            |extension: &str| (raw.with_extension(extension), ptx.with_extension(extension));
        let emitted = match self.builder.emit {
            Some(EmitOption::LlvmIr) => Some(beside("ll")),
            Some(EmitOption::Bitcode) => Some(beside("bc")),
            None => None,
        };
        let last = self.builder.final_module_path.as_ref();
        let last = last.map(|to| (raw.with_extension("bc"), self.with_arch(to, arch)));
        for (from, to) in emitted.into_iter().chain(last) {
            let bytes = fs::read(&from).map_err(CudaBuilderError::read(&from))?;
            write_changed(&to, &bytes).map_err(CudaBuilderError::write(&to))?;
        }
        Ok(())
    }

    /// `kernels.ptx`, or `kernels.sm_90a.ptx` where there are several architectures.
    fn with_arch(&self, path: &Path, arch: NvvmArch) -> PathBuf {
        if self.builder.archs.len() == 1 {
            return path.to_owned();
        }
        match path.extension() {
            Some(extension) => {
                path.with_extension(format!("{}.{}", arch.target_cpu(), extension.display()))
            }
            None => path.with_extension(arch.target_cpu()),
        }
    }

    /// Where rustc writes: a name of its own for every compiler and set of options, since cargo runs rustc
    /// again only for a pair that it has not seen.
    pub(crate) fn raw_path(&self, arch: NvvmArch) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        (&self.root, self.cargo_args(), self.codegen_args(arch)).hash(&mut hasher);
        self.compiler.version.hash(&mut hasher);
        (self.builder.emit, self.builder.final_module_path.is_some()).hash(&mut hasher);
        self.target_dir.join(format!("ptx/{}-{:016x}.s", arch.target_cpu(), hasher.finish()))
    }

    /// Where the finished PTX goes: into the build script's `OUT_DIR`, or beside rustc's.
    fn ptx_path(&self, arch: NvvmArch, raw: &Path, crate_name: &str) -> PathBuf {
        match std::env::var_os("OUT_DIR").filter(|_| self.builder.is_script()) {
            Some(dir) => Path::new(&dir).join(format!("{crate_name}.{}.ptx", arch.target_cpu())),
            None => raw.with_extension("ptx"),
        }
    }

    fn cargo_args(&self) -> Vec<String> {
        let builder = self.builder;
        let lines = match builder.debug {
            DebugInfo::None => "0",
            DebugInfo::LineTables => "'line-directives-only'",
        };
        let checks = !builder.release;
        let settings = [
            "lto='fat'".to_owned(),
            "panic='abort'".to_owned(),
            "opt-level=3".to_owned(),
            "codegen-units=16".to_owned(),
            format!("debug={lines}"),
            format!("debug-assertions={checks}"),
            format!("overflow-checks={checks}"),
        ];
        let config =
            |setting: String| ["--config".to_owned(), format!("profile.release.{setting}")];
        let mut args: Vec<String> = settings.into_iter().flat_map(config).collect();
        args.extend(["rustc", "--lib", "--release", "--crate-type=staticlib"].map(str::to_owned));
        args.extend(["--target=nvptx64-nvidia-cuda", "-Zbuild-std=core,alloc"].map(str::to_owned));
        args.push(format!("--target-dir={}", self.cargo_dir.display()));
        args.extend(builder.build_args.iter().cloned());
        args
    }

    fn rustc_args(&self, arch: NvvmArch, raw: &Path) -> Vec<String> {
        let mut args = self.codegen_args(arch);
        args.push(format!("--emit=asm={}", raw.display()));
        if self.builder.emit == Some(EmitOption::LlvmIr) {
            args.push(format!("--emit=llvm-ir={}", raw.with_extension("ll").display()));
        }
        let bitcode = self.builder.emit == Some(EmitOption::Bitcode);
        if bitcode || self.builder.final_module_path.is_some() {
            args.push(format!("--emit=llvm-bc={}", raw.with_extension("bc").display()));
        }
        args
    }

    fn codegen_args(&self, arch: NvvmArch) -> Vec<String> {
        let builder = self.builder;
        let mut args: Vec<String> =
            CRATE_ATTRIBUTES.iter().map(|text| format!("-Zcrate-attr={text}")).collect();
        args.extend(target_features(arch));
        args.push(format!("-Ctarget-cpu={}", arch.target_cpu()));
        if self.compiler.compares_processors {
            args.push(MIXED_PROCESSORS.to_owned());
        }
        // The text of a kernel depends on its own source alone. With several units, rustc's partition follows the
        // modules, and what is inlined before the link follows the partition.
        args.push("-Ccodegen-units=1".to_owned());
        args.push(format!("-Cpasses={SHARED_MEMORY_PASSES}"));
        args.push(format!("-Cllvm-args=-nvptx-fma-level={}", u8::from(builder.fma_contraction)));
        args.push(format!("-Cllvm-args={NO_STRENGTH_REDUCTION}"));
        if builder.fast_sqrt {
            args.push("-Cllvm-args=-nvptx-prec-sqrtf32=0".to_owned());
        }
        if builder.fast_div {
            args.push("-Cllvm-args=-nvptx-prec-divf32=1".to_owned());
        }
        // The builder takes them out again where nobody wants them: atomic operations need them.
        args.push("-Cdebuginfo=line-directives-only".to_owned());
        args.push(format!("-Cllvm-args={LINES_OF_MERGED}"));
        args
    }
}

/// `cfg(target_feature = "compute_80")` and its like. rustc denies a hand-set `target_feature`,
/// since it expects its own names there; these are none of its own.
fn target_features(arch: NvvmArch) -> Vec<String> {
    let names = NvvmArch::ALL.iter().map(|arch| format!("{:?}", arch.target_feature()));
    let known = names.collect::<Vec<_>>().join(",");
    let mut args = vec![
        "-Aexplicit_builtin_cfgs_in_flags".to_owned(),
        format!("--check-cfg=cfg(target_feature,values({known}))"),
    ];
    let set = |feature: String| format!("--cfg=target_feature={feature:?}");
    args.extend(arch.all_target_features().into_iter().map(set));
    args
}

fn unknown_order(function: &str) -> String {
    format!(
        "`{function}` has atomic operations of `core` in a dependency that is compiled without lines, so their order \
         is not known and they are sequentially consistent, which is slow: \
         `.debug(DebugInfo::LineTables)` in the build script, or `cuda_std::atomic`, tells the order"
    )
}
