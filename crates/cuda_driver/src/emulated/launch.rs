//! Launches: everything that can be wrong is checked here, then the stream runs the kernel.
#![allow(non_snake_case)]

use std::sync::Arc;

use ::emulator::{Launch, Outside};

use super::current::{self, current};
use super::function;
use super::geometry::Geometry;
use super::gpu::Gpu;
use super::kernel::Kernel;
use super::launch_attributes::Attributes;
use super::operation::Operation;
use super::params::pack;
use super::{counting, event, faults, lock, occupancy, order, queue, stream};
use crate::abi::{CUfunction, CUlaunchConfig, CUstream, HostPtr, In};
use crate::codes::{CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, CUDA_ERROR_INVALID_HANDLE};
use crate::detail::{Answer, Failure};
use crate::structs::KernelNodeParams;

/// A launch with its arguments, as a stream or a node of a graph does it.
pub(super) struct Call {
    pub(super) kernel: Arc<Kernel>,
    geometry: Geometry,
    params: Vec<u8>,
    /// Where each argument lies in `params`, for programs that ask a graph's node.
    pointers: Vec<HostPtr>,
    pub(super) attributes: Attributes,
}

impl Call {
    fn new(
        kernel: Arc<Kernel>,
        geometry: Geometry,
        arguments: (In<HostPtr>, In<HostPtr>),
        attributes: Attributes,
    ) -> Answer<Self> {
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

    /// A launch as a node of a graph describes it.
    pub(super) fn for_node(function: CUfunction, params: &KernelNodeParams) -> Answer<Self> {
        let kernel = function::named(function)?;
        let geometry = Geometry {
            grid: params.grid,
            block: params.block,
            dynamic_shared_bytes: params.shared_mem_bytes,
        };
        Self::new(kernel, geometry, (params.params, params.extra), Attributes::default())
    }

    /// The same launch with other attributes.
    pub(super) fn with(&self, attributes: Attributes) -> Answer<Self> {
        attributes.check_cluster(&self.kernel, &self.geometry)?;
        let (kernel, params) = (self.kernel.clone(), self.params.clone());
        let geometry = self.geometry;
        let call = Self { kernel, geometry, params, pointers: Vec::new(), attributes };
        call.check_cooperative()?;
        Ok(call.with_pointers())
    }

    /// As a node of a graph describes it; the arguments stay as long as the node has this launch.
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

    /// All blocks of a cooperative launch have to be resident at once.
    fn check_cooperative(&self) -> Answer {
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
        Err(Failure::new(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, text))
    }

    /// Runs the kernel to its end.
    fn launch(&self) -> Answer {
        let (moment, others) = (order::moment(), queue::others());
        let context = current::named(self.kernel.context)?;
        let stack_bytes = lock(&context.preferences).limits.stack_bytes();
        let launch = Launch {
            stack_bytes,
            moment: moment.as_ref(),
            outside: others.as_ref().map(|others| others as &dyn Outside),
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
            faults::tell_assertion(&trap);
            Failure::from(&trap)
        })
    }
}

impl Operation for Call {
    fn node_type(&self) -> i32 {
        0
    }

    fn name(&self) -> String {
        format!("kernel {}", self.kernel.entry.name)
    }

    fn run(&self, _: &Gpu) -> Answer {
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
) -> Answer {
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
) -> Answer {
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
) -> Answer {
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
) -> Answer {
    // A library's kernel is one of the current context.
    current()?;
    let (context, stream) = stream::named(stream)?;
    let kernel = function::named(function)?;
    if kernel.context != context.handle {
        let text = "the function and the stream belong to different contexts";
        return Err(Failure::new(CUDA_ERROR_INVALID_HANDLE, text));
    }
    let events = attributes.events()?.into_iter().map(event::check_untimed);
    let events = events.collect::<Answer<Vec<_>>>()?;
    if !events.is_empty() && stream.is_capturing() {
        return Err(super::lacking("the emulator's graphs have no events within a launch"));
    }
    let call = Call::new(kernel, geometry, arguments, attributes)?;
    stream::enqueue(&context, &stream, Arc::new(call))?;
    // Events that a kernel may trigger before its end are reached at its end, which is allowed.
    for event in events {
        event::record_on(event, &context, stream.line())?;
    }
    Ok(())
}
