//! An emulated device, the modules it has loaded, and launches.

use crate::exec::cluster::Shape;
use crate::exec::schedule::Schedule;
use crate::exec::watch::counters::{Counting, Occupancy};
use crate::exec::watch::race::{Moment, RaceState};
use crate::exec::watch::{Check, Checks, InitCheck, MemoryCheck};
use crate::exec::{LaunchContext, grid};
use crate::fault::{ClusterFault, LoadError, Trap, TrapKind};
use crate::memory::GlobalMemory;
use crate::program::{self, Linked, Place, Program};
use crate::ptx::{self, ast};
use crate::system::System;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub use crate::exec::grid::Stats;

/// Blocks that a multiprocessor holds at most.
const MAX_BLOCKS_PER_MULTIPROCESSOR: u32 = 32;
/// Shared memory that the system takes of each block.
const RESERVED_SHARED_BYTES: u64 = 1024;

/// The newest PTX version that is read: that of CUDA 13.4, whose compilers write it whatever they
/// use. What a newer version added is refused where a text uses it.
pub const NEWEST_PTX: (u32, u32) = (9, 4);

/// What a device is like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name, for people.
    pub name: String,
    /// Compute capability: `(9, 0)` runs `sm_90` and what is older.
    pub compute_capability: (u32, u32),
    /// Letter of the architecture whose own features it has: `a` of `sm_90a`.
    pub arch_variant: Option<char>,
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Threads of a block.
    pub max_threads_per_block: u32,
    /// Threads of a block in each direction.
    pub max_block_dim: [u32; 3],
    /// Blocks of a grid in each direction.
    pub max_grid_dim: [u32; 3],
    /// Threads that a multiprocessor holds.
    pub max_threads_per_multiprocessor: u32,
    /// Shared memory of a block in bytes.
    pub shared_mem_per_block: u32,
    /// The same where a function asks for more.
    pub shared_mem_per_block_optin: u32,
    /// Shared memory of a multiprocessor in bytes.
    pub shared_mem_per_multiprocessor: u32,
    /// Lanes of a warp.
    pub warp_size: u32,
    /// Registers of a block.
    pub registers_per_block: u32,
    /// Clock in kHz.
    pub clock_khz: u32,
    /// Memory clock in kHz.
    pub memory_clock_khz: u32,
    /// Width of the memory bus in bits.
    pub memory_bus_width: u32,
    /// Second-level cache in bytes.
    pub l2_cache_bytes: u32,
    /// Constant memory in bytes.
    pub constant_memory_bytes: u32,
    /// Device memory in bytes.
    pub total_memory_bytes: u64,
    /// CPU threads that run the blocks of a launch.
    pub worker_threads: usize,
    /// Warp instructions that a launch may execute; `None` for any number.
    pub fuel: Option<u64>,
    /// The checks of its launches.
    pub checks: Checks,
    /// In which order the blocks and warps of a launch run.
    pub schedule: Schedule,
}

impl Default for Profile {
    fn default() -> Self {
        Self::hopper()
    }
}

impl Profile {
    /// A device with the limits of an H200, that runs on all CPU threads of this machine.
    pub fn hopper() -> Self {
        Self {
            name: "Ferrowarp emulated sm_90a".to_owned(),
            compute_capability: (9, 0),
            arch_variant: Some('a'),
            multiprocessors: 132,
            max_threads_per_block: 1024,
            max_block_dim: [1024, 1024, 64],
            max_grid_dim: [0x7fff_ffff, 65535, 65535],
            max_threads_per_multiprocessor: 2048,
            shared_mem_per_block: 49152,
            shared_mem_per_block_optin: 232_448,
            shared_mem_per_multiprocessor: 233_472,
            warp_size: 32,
            registers_per_block: 65536,
            clock_khz: 1_980_000,
            memory_clock_khz: 3_201_000,
            memory_bus_width: 6016,
            l2_cache_bytes: 60 << 20,
            constant_memory_bytes: 65536,
            total_memory_bytes: 16 << 30,
            worker_threads: std::thread::available_parallelism().map_or(1, usize::from),
            fuel: None,
            checks: Checks::NONE,
            schedule: Schedule::default(),
        }
    }

    /// `sm_90a`
    pub fn architecture(&self) -> String {
        let (major, minor) = self.compute_capability;
        let variant = self.arch_variant.map(String::from).unwrap_or_default();
        format!("sm_{major}{minor}{variant}")
    }

    /// Whether PTX for `target` runs on it.
    fn runs(&self, target: &str) -> bool {
        let Some(rest) = target.strip_prefix("sm_") else { return false };
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let own = self.compute_capability.0 * 10 + self.compute_capability.1;
        let Ok(wanted) = digits.parse::<u32>() else { return false };
        match &rest[digits.len()..] {
            "" => wanted <= own,
            "f" => wanted <= own && wanted / 10 == own / 10,
            variant => {
                wanted == own && self.arch_variant.is_some_and(|own| variant == own.to_string())
            }
        }
    }
}

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
        Module::new(&tree, Arc::clone(&self.memory), self.profile.checks.memory).map(Arc::new)
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
            tags_local: self.profile.checks.memory,
            params: &params,
            param_bytes: function.param_bytes as u64,
            multiprocessors: self.profile.multiprocessors,
            grid_id: self.launches.fetch_add(1, Ordering::Relaxed) + 1,
            schedule: self.profile.schedule,
            checks: self.profile.checks,
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
        let stats = grid::run(&context, &self.memory, &checks, worker_threads, resident, fuel)
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

/// A race check that forgets what was done to addresses when they are handed out again.
fn races_over(memory: &GlobalMemory, profile: &Profile) -> Arc<RaceState> {
    let races: Arc<RaceState> = Arc::default();
    if profile.checks.race {
        let own = Arc::clone(&races);
        memory.tell_births(Box::new(move |base, bytes| own.forget(base, bytes)));
    }
    races
}

/// What a cooperative launch's barrier of the grid works on, for as long as the launch runs: a word
/// for its size, and one that counts the blocks that have come.
struct Workspace<'d> {
    memory: &'d GlobalMemory,
    address: u64,
}

impl<'d> Workspace<'d> {
    const BYTES: u64 = 16;

    fn new(device: &'d Device, cooperative: bool) -> Self {
        let memory = device.memory();
        let address = match cooperative {
            true => memory.alloc(Self::BYTES).unwrap_or(0),
            false => 0,
        };
        if address != 0 {
            // It has just been allocated; nobody else can have freed it.
            let _ = memory.fill8(address, 0, Self::BYTES);
        }
        Self { memory, address }
    }
}

impl Drop for Workspace<'_> {
    fn drop(&mut self) {
        if self.address != 0 {
            // A kernel cannot free it; if it is gone all the same, there is nothing left to do.
            let _ = self.memory.free(self.address);
        }
    }
}

/// A loaded module. Its variables live as long as it and its functions do.
pub struct Module {
    functions: HashMap<String, Arc<Function>>,
    names: Vec<String>,
    globals: HashMap<String, Global>,
    version: (u32, u32),
    target: String,
    _storage: Arc<Storage>,
}

/// The allocations of a module.
struct Storage {
    memory: Arc<GlobalMemory>,
    allocations: Vec<u64>,
}

impl Drop for Storage {
    fn drop(&mut self) {
        for address in &self.allocations {
            // A program may have freed it by its address; then there is nothing left to do.
            let _ = self.memory.free(*address);
        }
    }
}

/// A variable of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Global {
    /// First byte.
    pub address: u64,
    /// Length in bytes.
    pub size_bytes: u64,
}

impl Module {
    fn new(
        tree: &ast::Module,
        memory: Arc<GlobalMemory>,
        red_zones: bool,
    ) -> Result<Self, LoadError> {
        let mut storage = Storage { memory, allocations: Vec::new() };
        let mut linked = Linked::new(tree, &storage.memory.clone(), &mut storage.allocations)?;
        linked.red_zones = red_zones;
        let storage = Arc::new(storage);
        let mut functions = HashMap::new();
        let mut names = Vec::new();
        // A function that a program before it holds has been found right there.
        let mut checked: HashSet<String> = HashSet::new();
        for function in bodies(tree) {
            if !function.entry && checked.contains(&function.name) {
                continue;
            }
            let program = Arc::new(program::decode(&linked, &function.name)?);
            checked.extend(program.functions.iter().map(|own| own.name.clone()));
            if function.entry {
                names.push(function.name.clone());
                let function = Function::new(function, program, Arc::clone(&storage))?;
                functions.insert(function.name.clone(), Arc::new(function));
            }
        }
        let global =
            |place: &Place| Global { address: place.address, size_bytes: place.size_bytes };
        let globals =
            linked.globals.iter().map(|(name, place)| (name.clone(), global(place))).collect();
        let target = tree.target.first().cloned().unwrap_or_default();
        Ok(Self { functions, names, globals, version: tree.version, target, _storage: storage })
    }

    /// Names of its kernels, in the order of the text.
    pub fn functions(&self) -> &[String] {
        &self.names
    }

    /// A kernel.
    pub fn function(&self, name: &str) -> Option<Arc<Function>> {
        self.functions.get(name).cloned()
    }

    /// A global or constant variable.
    pub fn global(&self, name: &str) -> Option<Global> {
        self.globals.get(name).copied()
    }

    /// Its `.version`.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Its `.target`.
    pub fn target(&self) -> &str {
        &self.target
    }
}

/// The functions of a module that have a body. Kernels come first.
fn bodies(tree: &ast::Module) -> Vec<&ast::Function> {
    let mut out: Vec<&ast::Function> = tree
        .items
        .iter()
        .filter_map(|item| match item {
            ast::Item::Function(function) if function.body.is_some() => Some(function),
            _ => None,
        })
        .collect();
    out.sort_by_key(|function| !function.entry);
    out
}

/// A kernel's parameter in the block of bytes that a launch gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// First byte.
    pub offset: usize,
    /// Length in bytes.
    pub size: usize,
    /// Alignment in bytes.
    pub align: usize,
}

/// A kernel.
pub struct Function {
    /// Name.
    pub name: String,
    /// Parameters.
    pub params: Vec<Param>,
    /// Length of the block of parameters.
    pub param_bytes: usize,
    /// Static shared memory of a block in bytes.
    pub static_shared_bytes: u32,
    /// Local memory of a thread in bytes, without that of the functions it calls.
    pub local_bytes: u64,
    /// 32-bit registers of a thread, as the PTX declares them.
    pub registers: u32,
    /// Threads that a block may have, by `.maxntid` or `.reqntid`; 1024 where they are absent.
    pub max_threads_per_block: u32,
    /// `.reqnctapercluster`: blocks of a cluster in each direction.
    pub required_cluster: Option<[u32; 3]>,
    /// `.maxclusterrank`: blocks that a cluster may have.
    pub max_cluster_rank: Option<u32>,
    /// `.explicitcluster`: every launch has clusters.
    pub explicit_cluster: bool,
    program: Arc<Program>,
    _storage: Arc<Storage>,
}

impl Function {
    fn new(
        tree: &ast::Function,
        program: Arc<Program>,
        storage: Arc<Storage>,
    ) -> Result<Self, LoadError> {
        let (params, param_bytes) = program::param_layout(&tree.params)?;
        let info = &program.functions[0];
        let limit = |name: &str| {
            let (_, numbers) = tree.directives.iter().find(|(own, _)| own == name)?;
            Some(numbers.iter().map(|number| (*number).max(1) as u32).fold(1, u32::saturating_mul))
        };
        let required = tree.directives.iter().find(|(own, _)| own == "reqnctapercluster");
        let along = |numbers: &[i64], axis| numbers.get(axis).map_or(1, |size| *size as u32);
        Ok(Self {
            required_cluster: required
                .map(|(_, numbers)| [0, 1, 2].map(|axis| along(numbers, axis))),
            explicit_cluster: tree.directives.iter().any(|(own, _)| own == "explicitcluster"),
            name: tree.name.clone(),
            params,
            param_bytes,
            static_shared_bytes: program.declared_shared_bytes,
            local_bytes: info.declared_local_bytes,
            registers: (info.rows32 + 2 * info.rows64).clamp(16, 255),
            max_threads_per_block: limit("maxntid").or(limit("reqntid")).unwrap_or(1024),
            max_cluster_rank: limit("maxclusterrank"),
            program,
            _storage: storage,
        })
    }

    /// The trap of a launch that cannot begin.
    fn not_launched(&self, fault: ClusterFault) -> Trap {
        Trap {
            kernel: self.name.clone(),
            block: [0; 3],
            thread: [0; 3],
            ptx_line: self.program.ops.first().map_or(0, |_| self.program.line(0)),
            source: None,
            kind: TrapKind::Cluster(fault),
        }
    }
}

/// One launch of a kernel.
pub struct Launch<'a> {
    /// Kernel.
    pub function: &'a Function,
    /// Blocks in each direction.
    pub grid: [u32; 3],
    /// Threads of a block in each direction.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block in bytes.
    pub dynamic_shared_bytes: u32,
    /// Parameters, each at its offset.
    pub params: &'a [u8],
    /// Blocks of a cluster in each direction; all zero where the launch says nothing, and the kernel's
    /// own `.reqnctapercluster` holds, or each block is a cluster by itself.
    pub cluster: [u32; 3],
    /// Whether all blocks are resident together, so that they may wait for each other.
    pub cooperative: bool,
    /// Where it stands among the host's operations, for the race check; without it, a launch is compared
    /// with those that run when it begins.
    pub moment: Option<&'a Arc<Moment>>,
}

impl<'a> Launch<'a> {
    /// A launch of one block of one thread without parameters, to be changed.
    pub fn new(function: &'a Function) -> Self {
        Self {
            function,
            grid: [1; 3],
            block: [1; 3],
            dynamic_shared_bytes: 0,
            params: &[],
            cluster: [0; 3],
            cooperative: false,
            moment: None,
        }
    }
}
