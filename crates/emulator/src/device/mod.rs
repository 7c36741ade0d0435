//! An emulated device, the modules it has loaded, and launches.

mod launch;
mod module;
mod profile;

use crate::exec::grid;
use crate::exec::watch::counters::{Counting, Occupancy};
use crate::exec::watch::race::RaceState;
use crate::exec::watch::{InitCheck, MemoryCheck};
use crate::fault::{LoadError, Trap};
use crate::machine::{Check, LaunchContext, MAX_LOCAL_BYTES, Shape, Stack};
use crate::memory::GlobalMemory;
use crate::ptx::{self, ast};
use crate::system::System;
use launch::Workspace;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub use crate::exec::grid::Stats;
pub use launch::Launch;
pub use module::{Function, Global, Module};
pub use profile::Profile;

/// Blocks that a multiprocessor holds at most.
const MAX_BLOCKS_PER_MULTIPROCESSOR: u32 = 32;
/// Shared memory that the system takes of each block.
const RESERVED_SHARED_BYTES: u64 = 1024;

/// The newest PTX version that is read: that of CUDA 13.4, whose compilers write it whatever they
/// use. What a newer version added is refused where a text uses it.
pub const NEWEST_PTX: (u32, u32) = (9, 4);

/// An emulated device.
pub struct Device {
    profile: Profile,
    memory: Arc<GlobalMemory>,
    system: System,
    launches: AtomicU64,
    races: Arc<RaceState>,
    counts: AtomicBool,
    halted: AtomicBool,
}

impl Device {
    /// A device with empty memory.
    pub fn new(profile: Profile) -> Arc<Self> {
        let memory = GlobalMemory::new(profile.total_memory_bytes);
        let races = races_over(&memory, &profile);
        Self::over(profile, memory, races)
    }

    /// Several equal devices, at most [`MAX_DEVICES`](crate::memory::MAX_DEVICES), that share the
    /// host's memory and may be opened to one another.
    pub fn several(profile: &Profile, devices: usize) -> Vec<Arc<Self>> {
        let memories = GlobalMemory::several(profile.total_memory_bytes, devices);
        let races = memories.first().map(|memory| races_over(memory, profile)).unwrap_or_default();
        let device = |memory| Self::over(profile.clone(), memory, Arc::clone(&races));
        memories.into_iter().map(device).collect()
    }

    fn over(profile: Profile, memory: GlobalMemory, races: Arc<RaceState>) -> Arc<Self> {
        if profile.checks.init {
            memory.track_writes();
        }
        let (memory, system) = (Arc::new(memory), System::default());
        let (launches, counts) = (AtomicU64::new(0), AtomicBool::new(false));
        let halted = AtomicBool::new(false);
        Arc::new(Self { profile, memory, system, launches, races, counts, halted })
    }

    /// Ends all kernels that run, as a fault of one of them does on a GPU; none runs afterwards.
    pub fn halt(&self) {
        self.halted.store(true, Ordering::Release);
    }

    /// What it is like.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Its memory.
    pub fn memory(&self) -> &GlobalMemory {
        &self.memory
    }

    /// What its kernels print to, and the heap that they allocate from.
    pub fn system(&self) -> &System {
        &self.system
    }

    /// The race check, where it is on: the host tells it the order of its streams, and what they copy.
    pub fn races(&self) -> Option<&Arc<RaceState>> {
        self.profile.checks.race.then_some(&self.races)
    }

    /// Says whether the launches that begin from now on are counted; see [`Stats::counters`].
    pub fn count(&self, on: bool) {
        self.counts.store(on, Ordering::Release);
    }

    /// Loads a module from PTX text.
    ///
    /// # Errors
    /// The text is not PTX, is for another device, or holds something that cannot be executed, in
    /// any of its functions.
    pub fn load(&self, text: &str) -> Result<Arc<Module>, LoadError> {
        if text.trim_matches(|c: char| c.is_whitespace() || c == '\0').is_empty() {
            return Err(LoadError::Empty);
        }
        let tree = ptx::parse(text)?;
        self.check(&tree)?;
        let memory = Arc::clone(&self.memory);
        Module::new(&tree, memory, self.profile.checks.memory, &block_kernels(text)).map(Arc::new)
    }

    fn check(&self, tree: &ast::Module) -> Result<(), LoadError> {
        if tree.version > NEWEST_PTX {
            return Err(LoadError::UnsupportedVersion {
                found: tree.version,
                supported: NEWEST_PTX,
            });
        }
        let target = tree.target.first().cloned().unwrap_or_default();
        if !self.profile.runs(&target) {
            let device = self.profile.architecture();
            return Err(LoadError::UnsupportedTarget { found: target, device });
        }
        match tree.address_size {
            64 => Ok(()),
            other => {
                Err(LoadError::Invalid { what: format!("an address size of {other}"), line: 1 })
            }
        }
    }

    /// Runs a whole grid, on this thread and the device's workers, and comes back when it ends.
    ///
    /// The shape is the caller's to check against the profile. Parameter bytes that are missing are
    /// zero.
    ///
    /// # Errors
    /// The trap that stopped it.
    // A launch is rare; the trap need not be small.
    #[allow(clippy::result_large_err)]
    pub fn launch(&self, launch: &Launch<'_>) -> Result<Stats, Trap> {
        let function = launch.function;
        let mut bytes = launch.params.to_vec();
        bytes.resize(function.param_bytes.next_multiple_of(8), 0);
        let word =
            |chunk: &[u8]| AtomicU64::new(u64::from_le_bytes(chunk.try_into().unwrap_or_default()));
        let params: Vec<AtomicU64> = bytes.chunks_exact(8).map(word).collect();
        let clusters = Shape::new(launch.grid, launch.cluster, function.required_cluster)
            .map_err(|fault| function.not_launched(fault))?;
        let workspace = Workspace::new(self, launch.cooperative);
        let context = LaunchContext {
            program: &function.program,
            grid: launch.grid,
            block: launch.block,
            clusters,
            workspace: workspace.address,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            stack_bytes: match function.program.stack {
                Stack { is_known: true, .. } => MAX_LOCAL_BYTES,
                Stack { bytes, .. } => launch.stack_bytes.max(bytes).min(MAX_LOCAL_BYTES),
            },
            tags_local: self.profile.checks.memory,
            params: &params,
            param_bytes: function.param_bytes as u64,
            multiprocessors: self.profile.multiprocessors,
            grid_id: self.launches.fetch_add(1, Ordering::Relaxed) + 1,
            schedule: self.profile.schedule,
            checks: self.profile.checks,
            strict_barriers: self.profile.checks.sync
                && (self.profile.checks.strict || function.has_block),
            moment: launch.moment,
            system: &self.system,
            panicked: AtomicBool::new(false),
            halted: &self.halted,
            start: std::time::Instant::now(),
        };
        let resident = match launch.cooperative {
            true => launch
                .grid
                .iter()
                .fold(1, |blocks: usize, own| blocks.saturating_mul(*own as usize)),
            false => self.resident_blocks(&context),
        };
        let counting =
            self.counts.load(Ordering::Acquire).then(|| Counting::new(&function.program));
        let mut checks = self.checks(&context);
        checks.extend(counting.as_ref().map(|own| Box::new(own) as Box<dyn Check + '_>));
        let Profile { worker_threads, fuel, .. } = self.profile;
        let stats = grid::run(
            &context,
            &self.memory,
            &checks,
            (worker_threads, resident),
            (fuel, launch.outside),
        )
        .map_err(|trap| *trap)?;
        drop(checks);
        let counters = counting.map(|own| own.finish(self.occupancy(&context, function.registers)));
        Ok(Stats { counters, ..stats })
    }

    /// How many blocks of a launch a multiprocessor holds.
    fn occupancy(&self, context: &LaunchContext<'_>, registers: u32) -> Occupancy {
        let own = &self.profile;
        let warps = context.threads().div_ceil(own.warp_size).max(1);
        let max_warps = own.max_threads_per_multiprocessor / own.warp_size;
        let shared = context.declared_shared_bytes() + RESERVED_SHARED_BYTES;
        let by_shared = u64::from(own.shared_mem_per_multiprocessor) / shared;
        let of_a_warp = registers.next_multiple_of(8) * own.warp_size;
        let by_threads = max_warps / warps;
        let by_shared = by_shared.min(u64::from(u32::MAX)) as u32;
        let blocks = by_threads.min(by_shared).min(MAX_BLOCKS_PER_MULTIPROCESSOR);
        Occupancy {
            blocks,
            warps: blocks * warps,
            max_warps,
            by_threads,
            by_shared,
            by_slots: MAX_BLOCKS_PER_MULTIPROCESSOR,
            by_ptx_registers: own.registers_per_block / of_a_warp.max(1) / warps,
        }
    }

    /// The checks of a launch.
    fn checks(&self, context: &LaunchContext<'_>) -> Vec<Box<dyn Check + '_>> {
        let mut checks: Vec<Box<dyn Check + '_>> = Vec::new();
        if self.profile.checks.race {
            checks.push(Box::new(self.races.check(context)));
        }
        if self.profile.checks.memory {
            checks.push(Box::new(MemoryCheck::new(context)));
        }
        if self.profile.checks.init {
            checks.push(Box::new(InitCheck::new(&self.memory)));
        }
        checks
    }

    /// Blocks that the whole device holds at a time.
    fn resident_blocks(&self, context: &LaunchContext<'_>) -> usize {
        let by_threads = self.profile.max_threads_per_multiprocessor
            / context.threads().next_multiple_of(32).max(1);
        let shared = context.declared_shared_bytes().max(1);
        let by_shared = u64::from(self.profile.shared_mem_per_multiprocessor) / shared;
        let blocks = u64::from(by_threads.clamp(1, 32)).min(by_shared).max(1);
        self.profile.multiprocessors as usize * blocks as usize
    }
}

/// What stands in PTX before the name of a kernel that has a `Block` of cuda_std: its shared memory is
/// safe by the rule that every thread of a block reaches each of the block's barriers.
const BLOCK: &str = "// ferrowarp.block ";

/// The kernels of a text that have a `Block`.
fn block_kernels(text: &str) -> HashSet<&str> {
    text.lines().filter_map(|line| line.trim().strip_prefix(BLOCK)).map(str::trim).collect()
}

/// The lines of a text, each after a line break, that say which kernels have a `Block`. A linked module is made of what the texts
/// declare, so whoever [links](crate::ptx::link) them appends these comments.
pub fn block_marks(text: &str) -> String {
    block_kernels(text).into_iter().map(|name| format!("\n{BLOCK}{name}")).collect()
}

/// A race check that forgets what was done to addresses when they are handed out again.
fn races_over(memory: &GlobalMemory, profile: &Profile) -> Arc<RaceState> {
    let races: Arc<RaceState> = Arc::default();
    if profile.checks.race {
        let own = Arc::clone(&races);
        memory.tell_births(Box::new(move |base, bytes| own.forget(base, bytes)));
    }
    races
}
