//! Kernel launches. All invalid arguments are detected at the call; then the stream runs the
//! kernel.
#![allow(non_snake_case)]

use std::sync::Arc;

use ::emulator::{Launch, Outside};

use super::current::{self, current};
use super::function;
use super::geometry::Geometry;
use super::gpu::Gpu;
use super::kernel::Kernel;
use super::launch_attributes::Attributes;
use super::operation::{NodeType, Operation};
use super::params::pack;
use super::{counting, event, faults, happens_before, lock, occupancy, queue, stream};
use crate::abi::{CUfunction, CUlaunchConfig, CUstream, HostPtr, In};
use crate::codes::{CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, CUDA_ERROR_INVALID_HANDLE};
use crate::detail::{DriverError, DriverResult};
use crate::structs::KernelNodeParams;

/// A launch with its arguments, as an operation of a stream or a graph node.
pub(super) struct Call {
    pub(super) kernel: Arc<Kernel>,
    geometry: Geometry,
    params: Vec<u8>,
    /// Pointers to the arguments in `params`, for programs that query a graph node's parameters.
    pointers: Vec<HostPtr>,
    pub(super) attributes: Attributes,
}

impl Call {
    fn new(
        kernel: Arc<Kernel>,
        geometry: Geometry,
        arguments: (In<HostPtr>, In<HostPtr>),
        attributes: Attributes,
    ) -> DriverResult<Self> {
        geometry.check(kernel.gpu.profile(), &kernel.entry, kernel.shared_limit())?;
        attributes.check_cluster(&kernel, &geometry)?;
        let params = pack(&kernel.entry, arguments.0, arguments.1)?;
        let call = Self { kernel, geometry, params, pointers: Vec::new(), attributes };
        call.check_cooperative()?;
        Ok(call.with_pointers())
    }

    fn with_pointers(mut self) -> Self {
        let start = HostPtr(self.params.as_mut_ptr().cast());
        let params = self.kernel.entry.params.iter();
        self.pointers = params.map(|param| start.offset(param.offset)).collect();
        self
    }

    /// The launch of a graph node with these parameters.
    pub(super) fn for_node(function: CUfunction, params: &KernelNodeParams) -> DriverResult<Self> {
        let kernel = function::from_handle(function)?;
        let geometry = Geometry {
            grid: params.grid,
            block: params.block,
            dynamic_shared_bytes: params.shared_mem_bytes,
        };
        Self::new(kernel, geometry, (params.params, params.extra), Attributes::default())
    }

    /// This launch with other attributes.
    pub(super) fn with(&self, attributes: Attributes) -> DriverResult<Self> {
        attributes.check_cluster(&self.kernel, &self.geometry)?;
        let (kernel, params) = (self.kernel.clone(), self.params.clone());
        let geometry = self.geometry;
        let call = Self { kernel, geometry, params, pointers: Vec::new(), attributes };
        call.check_cooperative()?;
        Ok(call.with_pointers())
    }

    /// The parameters of a node with this launch. The pointers in them are valid as long as the
    /// node has it.
    pub(super) fn describe(&self) -> KernelNodeParams {
        let params = if self.pointers.is_empty() { In::NULL } else { In::from(&self.pointers[..]) };
        KernelNodeParams {
            function: self.kernel.handle.as_ptr(),
            grid: self.geometry.grid,
            block: self.geometry.block,
            shared_mem_bytes: self.geometry.dynamic_shared_bytes,
            params,
            extra: In::NULL,
        }
    }

    /// Fails if a cooperative launch has more blocks than can be resident at once.
    fn check_cooperative(&self) -> DriverResult {
        if !self.attributes.is_cooperative() {
            return Ok(());
        }
        let Geometry { grid, dynamic_shared_bytes: shared, .. } = self.geometry;
        let blocks: u64 = grid.iter().map(|&size| u64::from(size)).product();
        let most = occupancy::resident_on_device(&self.kernel, self.geometry.threads(), shared);
        if blocks <= most {
            return Ok(());
        }
        let name = &self.kernel.entry.name;
        let text = format!(
            "a cooperative launch of {blocks} blocks of kernel `{name}`; the device holds {most} \
             of them at once"
        );
        Err(DriverError::new(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, text))
    }

    /// Runs the kernel to its end.
    fn launch(&self) -> DriverResult {
        let (moment, outside) = (happens_before::current_moment(), queue::outside());
        let context = current::from_handle(self.kernel.context)?;
        let stack_bytes = lock(&context.preferences).limits.stack_bytes();
        let launch = Launch {
            stack_bytes,
            moment: moment.as_ref(),
            outside: outside.as_ref().map(|outside| outside as &dyn Outside),
            grid: self.geometry.grid,
            block: self.geometry.block,
            dynamic_shared_bytes: self.geometry.dynamic_shared_bytes,
            params: &self.params,
            cluster: self.attributes.cluster(),
            cooperative: self.attributes.is_cooperative(),
            ..Launch::new(&self.kernel.entry)
        };
        let device = &self.kernel.gpu.device;
        counting::launch(device, &launch).map_err(|trap| {
            faults::print_assertion(&trap);
            DriverError::from(&trap)
        })
    }
}

impl Operation for Call {
    fn node_type(&self) -> NodeType {
        NodeType::Kernel
    }

    fn name(&self) -> String {
        format!("kernel {}", self.kernel.entry.name)
    }

    fn run(&self, _: &Gpu) -> DriverResult {
        self.launch()
    }
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn cuLaunchKernel(
    function: CUfunction,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared_mem_bytes: u32,
    stream: CUstream,
    params: In<HostPtr>,
    extra: In<HostPtr>,
) -> DriverResult {
    let geometry = Geometry {
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        dynamic_shared_bytes: shared_mem_bytes,
    };
    launch(function, geometry, stream, (params, extra), Attributes::default())
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn cuLaunchCooperativeKernel(
    function: CUfunction,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared_mem_bytes: u32,
    stream: CUstream,
    params: In<HostPtr>,
) -> DriverResult {
    let geometry = Geometry {
        grid: [grid_x, grid_y, grid_z],
        block: [block_x, block_y, block_z],
        dynamic_shared_bytes: shared_mem_bytes,
    };
    launch(function, geometry, stream, (params, In::NULL), Attributes::cooperative())
}

pub(crate) fn cuLaunchKernelEx(
    config: In<CUlaunchConfig>,
    function: CUfunction,
    params: In<HostPtr>,
    extra: In<HostPtr>,
) -> DriverResult {
    let config = config.get()?;
    let attributes = Attributes::read(&config)?;
    let geometry = Geometry {
        grid: config.grid,
        block: config.block,
        dynamic_shared_bytes: config.shared_mem_bytes,
    };
    launch(function, geometry, config.stream, (params, extra), attributes)
}

fn launch(
    function: CUfunction,
    geometry: Geometry,
    stream: CUstream,
    arguments: (In<HostPtr>, In<HostPtr>),
    attributes: Attributes,
) -> DriverResult {
    // A library's kernel stands for a function of the current context.
    current()?;
    let (context, stream) = stream::from_handle(stream)?;
    let kernel = function::from_handle(function)?;
    if kernel.context != context.handle {
        let text = "the function and the stream belong to different contexts";
        return Err(DriverError::new(CUDA_ERROR_INVALID_HANDLE, text));
    }
    let events = attributes.events()?.into_iter().map(event::check_untimed);
    let events = events.collect::<DriverResult<Vec<_>>>()?;
    if !events.is_empty() && stream.is_capturing() {
        return Err(super::not_supported(
            "the emulator's graphs do not support launches that record events",
        ));
    }
    let call = Call::new(kernel, geometry, arguments, attributes)?;
    stream::enqueue(&context, &stream, Arc::new(call))?;
    // Events that the kernel may trigger early are recorded at its end, which the API allows.
    for event in events {
        event::record_on(event, &context, stream.queue())?;
    }
    Ok(())
}
