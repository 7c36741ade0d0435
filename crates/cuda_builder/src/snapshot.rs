//! Incremental builds: first the kernels that an edit can affect, then all of them.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::compile::{Job, Partial};
use ptx_format::index::{self, ModulePart};

use crate::ptx::Merged;
use crate::stamps::{self, Stamps};
use crate::toolchain::Rustc;
use crate::{CudaBuilder, CudaBuilderError, ptx};

/// A kernel crate's PTX for one architecture, and what it was made from.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Snapshot {
    /// The PTX of all kernels, with parts.
    pub ptx: String,
    /// Which kernels were compiled for it.
    pub scope: Scope,
    /// Every file that the build read.
    pub sources: Vec<PathBuf>,
    /// The compiler's warnings, if [`CudaBuilder::keep_messages`] asked for them.
    pub messages: String,
    /// The compiler's file, whose name stands for crate, architecture and options.
    raw: PathBuf,
    stamps: Stamps,
    /// Kernels that an edit concerned and that were not compiled.
    behind: BTreeSet<String>,
    /// How many partial builds it is from a whole one.
    rounds: usize,
    compiler: Rustc,
}

/// Which kernels a build compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// All of them.
    Whole,
    /// These; the others are those of the build before.
    Part {
        /// Their names, in no particular order.
        kernels: Vec<String>,
    },
}

impl CudaBuilder {
    /// Compiles all kernels for the first architecture, and remembers what they were made from.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub fn snapshot(&self) -> Result<Snapshot, CudaBuilderError> {
        let begin = SystemTime::now();
        let arch = *self.archs.first().ok_or(CudaBuilderError::NoArch)?;
        let compiled = self.clone().arch(arch).compile()?;
        let path = &compiled.modules.first().ok_or(CudaBuilderError::NoArch)?.path;
        let job = Job::with(self, |_| compiled.compiler.clone())?;
        Ok(Snapshot {
            ptx: fs::read_to_string(path).map_err(CudaBuilderError::read(path))?,
            scope: Scope::Whole,
            stamps: stamps::before(&compiled.sources, begin),
            sources: compiled.sources,
            messages: compiled.messages,
            raw: job.raw_path(arch),
            behind: BTreeSet::new(),
            rounds: 0,
            compiler: compiled.compiler,
        })
    }

    /// Compiles only the kernels that the edits since `before` can concern, and takes the others from there. It
    /// takes about as long as it takes the compiler to check the crate.
    ///
    /// Concerned are the kernels with code of an edited file, wherever it was inlined (the line table of the PTX
    /// tells), those that share a part of the PTX with them, and new ones. If some of them are named `in_use`, these
    /// alone are compiled.
    ///
    /// What the edit of a `const`, a type or a macro does to kernels without code of its file shows in a whole
    /// build only: [`snapshot`](Self::snapshot) belongs behind each partial build. So do warnings of what is never
    /// used, reports, and copies of the PTX. Kernels that `#[kernel]` did not write are always compiled.
    ///
    /// Nothing is returned where an edit cannot be limited: no kernel has code of its file and none is new, most
    /// have, no line table shows it, a manifest was edited, `before` is of other options, or a static is shared with a
    /// kernel that was not compiled. Then only a whole build helps.
    ///
    /// ```no_run
    /// use cuda_builder::{CudaBuilder, CudaBuilderError};
    ///
    /// let builder = CudaBuilder::new("kernels").keep_messages(true);
    /// let first = builder.snapshot()?;
    /// // An editor writes a file.
    /// if let Some(soon) = builder.rebuild(&first, &["blur"])? {
    ///     println!("{:?}", soon.scope);
    /// }
    /// let whole = builder.snapshot()?;
    /// # Ok::<(), CudaBuilderError>(())
    /// ```
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub fn rebuild(
        &self,
        before: &Snapshot,
        in_use: &[&str],
    ) -> Result<Option<Snapshot>, CudaBuilderError> {
        let job = Job::with(self, |_| before.compiler.clone())?;
        let arch = *self.archs.first().ok_or(CudaBuilderError::NoArch)?;
        let (begin, now) = (SystemTime::now(), stamps::now(&before.sources));
        let edited = stamps::changed(&before.stamps, &now);
        let is_source = |file: &PathBuf| file.extension().is_some_and(|kind| kind == "rs");
        let plan = Plan::new(before, &edited, job.base(), in_use);
        let Some(plan) = plan.filter(|_| edited.iter().all(is_source)) else { return Ok(None) };
        if job.raw_path(arch) != before.raw {
            return Ok(None);
        }
        let list = List::write(&job.create_raw_dir()?, &plan.left_out)?;
        let built = job.compile_without(arch, &list.0, ptx::can_panic(&before.ptx));
        let partial = match built {
            Err(CudaBuilderError::Rejected { messages }) if !is_certain(&messages) => {
                return Ok(None);
            }
            built => built?,
        };
        let merged = ptx::merge(&before.ptx, &partial.text, &plan.wanted, before.rounds + 1);
        Ok(merged.map(|merged| {
            let stamps = stamps_of(&partial, now, begin);
            Snapshot::merged(merged, partial, stamps, before, &plan)
        }))
    }
}

/// Files that were known keep the contents that they had before the build.
fn stamps_of(partial: &Partial, mut now: Stamps, begin: SystemTime) -> Stamps {
    now.retain(|file, _| partial.sources.contains(file));
    let new = partial.sources.iter().filter(|file| !now.contains_key(*file));
    let new = stamps::before(new, begin);
    now.into_iter().chain(new).collect()
}

/// Whether a whole build would be refused too: a lint might only be about what was left out.
fn is_certain(messages: &str) -> bool {
    messages.contains("error[E")
}

impl Snapshot {
    fn merged(
        merged: Merged,
        partial: Partial,
        stamps: Stamps,
        before: &Snapshot,
        plan: &Plan,
    ) -> Self {
        let behind = plan.behind.iter().filter(|kernel| !merged.kernels.contains(kernel));
        let (behind, rounds) = match merged.is_all {
            true => (BTreeSet::new(), 0),
            false => (behind.cloned().collect(), before.rounds + 1),
        };
        Self {
            ptx: merged.text,
            scope: match merged.is_all {
                true => Scope::Whole,
                false => Scope::Part { kernels: merged.kernels },
            },
            sources: partial.sources.into_iter().collect(),
            messages: partial.messages,
            raw: before.raw.clone(),
            stamps,
            behind,
            rounds,
            compiler: before.compiler.clone(),
        }
    }
}

/// So much of a text takes no noticeable time. Of more than that, half of a text is no faster than the whole.
const SMALL_BYTES: usize = 256 << 10;

/// What a partial build compiles.
#[derive(Default)]
struct Plan {
    wanted: HashSet<String>,
    left_out: Vec<String>,
    /// Kernels that are concerned and not wanted yet.
    behind: BTreeSet<String>,
}

impl Plan {
    /// Nothing where a partial build is of no use. Whole parts are wanted: their kernels share something.
    fn new(
        before: &Snapshot,
        edited: &[PathBuf],
        base: Option<&Path>,
        in_use: &[&str],
    ) -> Option<Self> {
        let parts = index::parts(&before.ptx)?;
        let lines = lines_of(&before.ptx, edited, base);
        let is_behind =
            |part: &ModulePart| part.kernels.iter().any(|own| before.behind.contains(own));
        let is_concerned =
            |part: &ModulePart| is_behind(part) || lines.iter().any(|at| part.has(*at));
        let is_used =
            |part: &ModulePart| part.kernels.iter().any(|own| in_use.contains(&own.as_str()));
        let any_used = parts.iter().any(|part| is_used(part) && is_concerned(part));
        let (mut plan, mut bytes, mut wanted_bytes) = (Self::default(), 0, 0);
        for part in &parts {
            let concerned = is_concerned(part);
            bytes += part.bytes();
            if concerned && (is_used(part) || !any_used) {
                wanted_bytes += part.bytes();
                plan.wanted.extend(part.kernels.iter().cloned());
            } else {
                plan.left_out.extend(part.kernels.iter().cloned());
                plan.behind.extend(part.kernels.iter().filter(|_| concerned).cloned());
            }
        }
        let is_any = !edited.is_empty() || !before.behind.is_empty();
        let is_less = wanted_bytes < SMALL_BYTES || 2 * wanted_bytes < bytes;
        (is_any && is_less && !plan.left_out.is_empty()).then_some(plan)
    }
}

/// Where the lines of a text are that name these source files.
fn lines_of(text: &str, files: &[PathBuf], base: Option<&Path>) -> Vec<usize> {
    let real = |file: &Path| file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let files: HashSet<PathBuf> = files.iter().map(|file| real(file)).collect();
    let base = base.unwrap_or(Path::new(""));
    let named = ptx::files(text).filter(|(_, name)| files.contains(&real(&base.join(name))));
    named.map(|(at, _)| at).collect()
}

/// A list of kernels in a file of its own name: cargo looks whether the name is the same.
struct List(PathBuf);

impl List {
    fn write(dir: &Path, kernels: &[String]) -> Result<Self, CudaBuilderError> {
        let mut hasher = DefaultHasher::new();
        kernels.hash(&mut hasher);
        let file = dir.join(format!("without-{:016x}", hasher.finish()));
        fs::write(&file, kernels.join("\n")).map_err(CudaBuilderError::write(&file))?;
        Ok(Self(file))
    }
}

impl Drop for List {
    fn drop(&mut self) {
        // One that stays is written anew.
        let _ = fs::remove_file(&self.0);
    }
}
