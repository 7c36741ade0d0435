//! Loaded modules, their variables and their kernels.

use crate::fault::{ClusterFault, LoadError, Trap, TrapKind};
use crate::machine::Program;
use crate::memory::GlobalMemory;
use crate::program::{self, Linked, Param, Place};
use crate::ptx::ast;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

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
    pub(super) fn new(
        tree: &ast::Module,
        memory: Arc<GlobalMemory>,
        red_zones: bool,
        block_kernels: &HashSet<&str>,
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
                let mut function = Function::new(function, program, &linked, Arc::clone(&storage))?;
                function.has_block = block_kernels.contains(function.name.as_str());
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
    /// Whether it has a `Block` of cuda_std.
    pub(super) has_block: bool,
    pub(super) program: Arc<Program>,
    _storage: Arc<Storage>,
}

impl Function {
    fn new(
        tree: &ast::Function,
        program: Arc<Program>,
        linked: &Linked<'_>,
        storage: Arc<Storage>,
    ) -> Result<Self, LoadError> {
        let limit = linked.limits.param_bytes;
        let (params, param_bytes) = program::param_layout(tree, limit)?;
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
            has_block: false,
            program,
            _storage: storage,
        })
    }

    /// The trap of a launch that cannot begin.
    pub(super) fn not_launched(&self, fault: ClusterFault) -> Trap {
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
