//! The operations of nodes.

use std::any::TypeId;
use std::ptr;
use std::sync::Arc;

use cuda_driver::LaunchAttribute;
use cuda_driver::sys;
use cuda_std::grid_constant::MapWords;
use cuda_std::launch::{Access, Args, Kernel, KernelValue, LaunchConfig, MemoryArg, ParamKind};

use super::child::ChildOperation;
use super::foreign::ForeignOperation;
use super::host::HostCall;
use super::order::Range;
use crate::launch::{Prepared, is_of_streams};
use crate::module::{Function, KernelModule};

/// Memory that a node uses.
#[derive(Clone, Debug)]
pub(super) struct MemoryUse {
    pub(super) range: Range,
    pub(super) access: Access,
    /// What the memory is to the node: the name of a parameter.
    pub(super) argument: &'static str,
    /// Which address it is: of a kernel the value, of a copy 0 for the source, of a graph the use.
    pub(super) value: usize,
    /// Whether it is a raw pointer, through which the node may read and write anything.
    pub(super) is_pointer: bool,
}

impl MemoryUse {
    /// The range and the access from which the order is found: a raw pointer may reach all memory.
    pub(super) fn for_order(&self) -> (Range, Access) {
        if self.is_pointer { (Range::ALL, Access::Write) } else { (self.range, self.access) }
    }

    /// Lets `work`, whose use this is, use the memory at `start` in its place. Whether that is other
    /// memory. The next replay has to be of a graph that has it, and none with a host callback
    /// may be queued.
    pub(super) fn move_to(&mut self, start: u64, work: &mut Operation) -> bool {
        if self.range.start == start {
            return false;
        }
        self.range = Range::new(start, self.range.bytes());
        match work {
            // SAFETY: the graph has the memory for this use, and it is of the same size.
            Operation::Kernel(kernel) => unsafe { kernel.args.replace_address(self.value, start) },
            Operation::Copy(copy) if self.value == 0 => copy.from = start,
            Operation::Copy(CopyOperation { to, .. })
            | Operation::Fill(FillOperation { to, .. }) => *to = self.range,
            Operation::Host(call) => call.move_to(start),
            Operation::Child(child) => child.move_to(self.value, start),
            // Where their addresses are is unknown; `is_fixed` is checked before.
            Operation::Foreign(_) | Operation::Nothing => {}
        }
        true
    }
}

/// What a node does.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// Nothing: a launch without blocks.
    Nothing,
    Kernel(Box<KernelOperation>),
    Copy(CopyOperation),
    Fill(FillOperation),
    Host(HostCall),
    /// All that another graph does.
    Child(Box<ChildOperation>),
    /// What other libraries enqueued on a stream.
    Foreign(ForeignOperation),
}

impl Operation {
    /// Shows all that a node of that name does: of a graph, what its nodes do.
    pub(super) fn visit<'a>(&'a self, name: &str, see: &mut dyn FnMut(&str, &'a Operation)) {
        match self {
            Self::Child(child) => child.visit(name, see),
            _ => see(name, self),
        }
    }

    /// The node to which a use belongs: of a graph, one of its nodes.
    pub(super) fn name_of(&self, value: usize, name: &str) -> String {
        match self {
            Self::Child(child) => child.name_of(value, name),
            _ => name.to_owned(),
        }
    }

    /// Whether the memory of a use can be no other.
    pub(super) fn is_fixed(&self, value: usize) -> bool {
        match self {
            Self::Child(child) => child.is_fixed(value),
            Self::Kernel(kernel) => kernel.has_maps,
            _ => matches!(self, Self::Foreign(_)),
        }
    }

    /// Whether it has host callbacks.
    pub(super) fn calls_host(&self) -> bool {
        let mut calls = false;
        self.visit("", &mut |_, work| calls |= matches!(work, Self::Host(_)));
        calls
    }
}

/// A launch.
#[derive(Clone, Debug)]
pub(super) struct KernelOperation {
    pub(super) kernel: &'static Kernel,
    pub(super) function: Function,
    pub(super) config: LaunchConfig,
    pub(super) args: Args<'static>,
    pub(super) attributes: Vec<LaunchAttribute>,
    /// Whether it may begin before the kernel that it comes after has ended, for which it waits itself.
    pub(super) starts_early: bool,
    /// Whether tensor maps are among its arguments: they hold addresses of its memory, too.
    has_maps: bool,
    /// Keeps the function.
    _module: Arc<KernelModule>,
}

// SAFETY: the arguments are bytes, homes that any thread may have, and function pointers; the
// function's handle is used through the driver alone, which allows any thread.
unsafe impl Send for KernelOperation {}
// SAFETY: as above; nothing is changed through a shared reference.
unsafe impl Sync for KernelOperation {}

/// A copy on the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyOperation {
    pub(super) from: u64,
    pub(super) to: Range,
}

/// A fill with one value.
#[derive(Clone, Copy, Debug)]
pub(super) struct FillOperation {
    pub(super) to: Range,
    pub(super) pattern: Pattern,
}

/// A value that is repeated, of 1, 2 or 4 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pattern {
    bits: u32,
    bytes: usize,
}

impl Pattern {
    pub(super) const ZERO: Self = Self { bits: 0, bytes: 1 };

    pub(super) fn of(value: &[u8]) -> Self {
        let mut bits = [0; 4];
        bits[..value.len()].copy_from_slice(value);
        Self { bits: u32::from_le_bytes(bits), bytes: value.len() }
    }

    /// This fill by words, where address and length allow it.
    fn widened(self, range: Range) -> Self {
        let whole = range.start.is_multiple_of(4) && range.bytes().is_multiple_of(4);
        match self.bytes {
            1 if whole => Self { bits: self.bits * 0x0101_0101, bytes: 4 },
            2 if whole => Self { bits: self.bits * 0x0001_0001, bytes: 4 },
            _ => self,
        }
    }
}

impl KernelOperation {
    pub(super) fn new(
        kernel: &'static Kernel,
        prepared: Prepared,
        args: &Args<'_>,
        module: &Arc<KernelModule>,
    ) -> Self {
        let Prepared { function, config, mut attributes } = prepared;
        // In a graph the early start is a property of the edge, and not of the node.
        let starts_early = attributes.iter().any(is_of_streams);
        attributes.retain(|attribute| !is_of_streams(attribute));
        let has_maps = has_maps(args);
        let (args, _module) = (args.keep(), module.clone());
        Self { kernel, function, config, args, attributes, starts_early, has_maps, _module }
    }

    /// Replaces an argument that was passed by value by another value of its type.
    pub(super) fn replace_value<T: KernelValue>(&mut self, value: usize, new: T) {
        self.args.replace_value(value, new);
        self.has_maps = has_maps(&self.args);
    }

    /// Calls `use_them` with the parameters of the driver's node.
    pub(super) fn with_params<R>(&self, use_them: impl FnOnce(&sys::KernelNodeParams) -> R) -> R {
        let LaunchConfig { grid, block, shared_mem_bytes } = self.config;
        self.args.with_pointers(|pointers| {
            use_them(&sys::KernelNodeParams {
                function: self.function.handle,
                grid: grid.into(),
                block: block.into(),
                shared_mem_bytes,
                params: sys::In::from(&*pointers).cast(),
                extra: sys::In::NULL,
            })
        })
    }
}

/// Whether the first argument, as which a launch passes them, is tensor maps of which one describes memory. The library's kernels have up to four.
fn has_maps(args: &Args<'_>) -> bool {
    fn are_maps<const N: usize>(args: &Args<'_>) -> bool {
        args.type_of(0).is_some_and(|(found, _)| found == TypeId::of::<[MapWords; N]>())
            && args.with_pointers(|pointers| {
                // SAFETY: the first argument is of this type.
                let maps = unsafe { pointers[0].cast::<[MapWords; N]>().read() };
                maps != [MapWords::default(); N]
            })
    }
    are_maps::<1>(args) || are_maps::<2>(args) || are_maps::<3>(args) || are_maps::<4>(args)
}

/// The memory that a launch uses: what its arguments say, and what pointers lead to.
pub(super) fn uses(kernel: &'static Kernel, args: &Args<'_>) -> Vec<MemoryUse> {
    let declared = args.memory().iter().filter(|memory| memory.bytes > 0);
    let mut uses: Vec<MemoryUse> = declared.map(|memory| declared_use(kernel, memory)).collect();
    let is_known = |value| args.memory().iter().any(|memory| memory.value == value);
    for (value, param) in kernel.params.iter().enumerate() {
        let address = args.address(value).filter(|&address| address != 0);
        if let Some(address) = address
            && param.kind == ParamKind::Pointer
            && !is_known(value)
        {
            let (range, access) = (Range::new(address, 1), Access::Write);
            uses.push(MemoryUse { range, access, argument: param.name, value, is_pointer: true });
        }
    }
    uses
}

fn declared_use(kernel: &'static Kernel, memory: &MemoryArg<'_>) -> MemoryUse {
    let name = kernel.params.get(memory.value).map_or("?", |param| param.name);
    MemoryUse {
        range: Range::new(memory.address, memory.bytes),
        access: memory.access,
        argument: name.strip_suffix("_ptr").unwrap_or(name),
        value: memory.value,
        is_pointer: false,
    }
}

impl CopyOperation {
    /// The parameters of the driver's node.
    pub(super) fn params(&self) -> sys::Copy3D {
        let mut params = unified_copy();
        (params.src_device, params.dst_device) = (self.from, self.to.start);
        (params.width_bytes, params.height, params.depth) = (self.to.bytes(), 1, 1);
        params
    }
}

/// A copy from nowhere to nowhere, of memory that the driver finds by its address.
fn unified_copy() -> sys::Copy3D {
    let unified = sys::memory_type::UNIFIED;
    sys::Copy3D {
        src_x_bytes: 0,
        src_y: 0,
        src_z: 0,
        src_lod: 0,
        src_memory_type: unified,
        src_host: ptr::null(),
        src_device: 0,
        src_array: ptr::null_mut(),
        src_context: ptr::null_mut(),
        src_pitch: 0,
        src_height: 0,
        dst_x_bytes: 0,
        dst_y: 0,
        dst_z: 0,
        dst_lod: 0,
        dst_memory_type: unified,
        dst_host: ptr::null_mut(),
        dst_device: 0,
        dst_array: ptr::null_mut(),
        dst_context: ptr::null_mut(),
        dst_pitch: 0,
        dst_height: 0,
        width_bytes: 0,
        height: 0,
        depth: 0,
    }
}

impl FillOperation {
    /// The parameters of the driver's node.
    pub(super) fn params(&self) -> sys::MemsetNodeParams {
        let Pattern { bits, bytes } = self.pattern.widened(self.to);
        sys::MemsetNodeParams {
            dst: self.to.start,
            pitch: 0,
            value: bits,
            element_bytes: bytes as u32,
            width: self.to.bytes() / bytes,
            height: 1,
        }
    }
}

/// The parameters of the driver's host node.
pub(super) fn host_params(call: &HostCall) -> sys::HostNodeParams {
    sys::HostNodeParams { function: Some(HostCall::run), data: sys::HostPtr(call.data()) }
}
