//! What NVIDIA's assembler says about a module.

use std::fmt;
use std::path::PathBuf;

/// Names the Python to ask for its packages: a build starts no program of the path that nobody asked for.
pub(crate) const PYTHON: &str = "CUDA_BUILDER_PYTHON";

/// What the assembler said about one module.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Report {
    /// It assembled; this is what its functions use.
    Assembled(Vec<FunctionUsage>),
    /// It was not assembled.
    NotAssembled(NotAssembled),
}

/// Why a module was not assembled although a report was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAssembled {
    /// The machine has no assembler.
    #[error(
        "no ptxas on this machine (PATH, CUDA_PATH, CUDA_HOME, CUDA_ROOT, /usr/local/cuda): \
         `pip install nvidia-cuda-nvcc` installs one, which `{PYTHON}=python3` finds"
    )]
    NoAssembler,
    /// The assembler does not know the architecture, or this version of PTX.
    #[error("`{}` cannot assemble this module: {reason}", ptxas.display())]
    Unsuited {
        /// Which assembler.
        ptxas: PathBuf,
        /// Its own words.
        reason: String,
    },
}

/// What one function uses. Spills are registers that had to go to memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FunctionUsage {
    /// The function's name in the PTX.
    pub name: String,
    /// Whether it is a kernel, and not a function that kernels call.
    pub is_kernel: bool,
    /// Registers of each thread; for a kernel, those of the functions it calls included.
    pub registers: u32,
    /// Static shared memory of each block.
    pub shared_bytes: u32,
    /// The function's own stack frame in each thread.
    pub stack_bytes: u32,
    /// What it stores to spill registers.
    pub spill_store_bytes: u32,
    /// What it loads to get them back.
    pub spill_load_bytes: u32,
}

impl FunctionUsage {
    /// Whether registers had to go to memory.
    pub fn spills(&self) -> bool {
        self.spill_store_bytes > 0 || self.spill_load_bytes > 0
    }
}

impl Report {
    /// What a function of this name uses, if the module was assembled and has one.
    pub fn function(&self, name: &str) -> Option<&FunctionUsage> {
        self.functions().iter().find(|usage| usage.name == name)
    }

    /// What each function uses; empty if the module was not assembled.
    pub fn functions(&self) -> &[FunctionUsage] {
        match self {
            Report::Assembled(functions) => functions,
            Report::NotAssembled(_) => &[],
        }
    }
}

/// A table with a line for each kernel and for each function that has a stack or spills.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Report::NotAssembled(reason) = self {
            return write!(f, "{reason}");
        }
        let shown = |usage: &&FunctionUsage| usage.is_kernel || usage.stack_bytes > 0;
        let rows: Vec<_> = self.functions().iter().filter(shown).collect();
        let width = rows.iter().map(|usage| usage.name.len()).max().unwrap_or(0).max(8);
        write!(f, "{:width$}  registers  shared B  stack B  spilled B", "function")?;
        for usage in rows {
            let spilled = usage.spill_store_bytes.max(usage.spill_load_bytes);
            let FunctionUsage { name, registers, shared_bytes, stack_bytes, .. } = usage;
            write!(f, "\n{name:width$}  {registers:9}  {shared_bytes:8}")?;
            write!(f, "  {stack_bytes:7}  {spilled:9}")?;
        }
        Ok(())
    }
}
