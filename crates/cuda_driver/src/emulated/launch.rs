//! Launches: everything that can be wrong is checked here, then the stream runs the kernel.
#![allow(non_snake_case)]

use std::sync::Arc;

use ::emulator::Launch;

use super::function::{self, Kernel};
use super::geometry::Geometry;
use super::params::pack;
use super::queue::Work;
use super::{invalid, stream, the_device};
use crate::abi::{CUfunction, CUlaunchConfig, CUstream, HostPtr, In, LaunchAttribute};
use crate::codes::{CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_NOT_SUPPORTED};
use crate::detail::{Answer, Failure};

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
    launch(function, geometry, stream, params, extra)
}

pub(crate) fn cuLaunchKernelEx(
    config: In<CUlaunchConfig>,
    function: CUfunction,
    params: In<HostPtr>,
    extra: In<HostPtr>,
) -> Answer {
    let config = config.get()?;
    if config.n_attributes > 0 && config.attributes.is_null() {
        return Err(invalid("the launch's attributes are a null pointer"));
    }
    (0..config.n_attributes as usize).try_for_each(|at| check(&config.attributes.at(at)))?;
    let geometry = Geometry {
        grid: config.grid,
        block: config.block,
        dynamic_shared_bytes: config.shared_mem_bytes,
    };
    launch(function, geometry, config.stream, params, extra)
}

/// Lets an attribute pass that asks for nothing, or for what every launch here has.
fn check(attribute: &LaunchAttribute) -> Answer {
    let value = attribute.value;
    let is_plain = match attribute.id {
        // To be ignored.
        0 => true,
        // Cooperative.
        2 => value[0] == 0,
        // Cluster size: of one block.
        4 => value[..3].iter().all(|&size| size <= 1),
        _ => false,
    };
    if is_plain {
        return Ok(());
    }
    let text = format!("the emulator does not have launch attribute {}", attribute.id);
    Err(Failure::new(CUDA_ERROR_NOT_SUPPORTED, text))
}

fn launch(
    function: CUfunction,
    geometry: Geometry,
    stream: CUstream,
    params: In<HostPtr>,
    extra: In<HostPtr>,
) -> Answer {
    let (context, stream) = stream::named(stream)?;
    let kernel = function::named(function)?;
    if kernel.context != context.handle {
        let text = "the function and the stream belong to different contexts";
        return Err(Failure::new(CUDA_ERROR_INVALID_HANDLE, text));
    }
    geometry.check(the_device()?.profile(), &kernel.entry, kernel.shared_limit())?;
    let packed = pack(&kernel.entry, params, extra)?;
    let work = Work::new(move || run(&kernel, &geometry, &packed));
    context.queue.submit(&context, stream.line(), work).map(drop)
}

fn run(kernel: &Arc<Kernel>, geometry: &Geometry, params: &[u8]) -> Answer {
    let launch = Launch {
        grid: geometry.grid,
        block: geometry.block,
        dynamic_shared_bytes: geometry.dynamic_shared_bytes,
        params,
        ..Launch::new(&kernel.entry)
    };
    the_device()?.launch(&launch).map_err(|trap| Failure::from(&trap))?;
    Ok(())
}
