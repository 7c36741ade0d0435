//! Launch attributes: cooperative grids, clusters, and programmatic dependent launch.

use cuda_driver::sys::{self, CUlaunchConfig, In, LaunchAttribute};
use cuda_std::launch::{Contract, Kernel, LaunchConfig, MeasureOccupancy};

use super::limits::{allow_shared, within};
use super::occupancy::active_blocks;
use crate::device::DeviceInfo;
use crate::error::{GpuContext, GpuError, GpuResult, LaunchLimit};
use crate::module::Function;
use crate::stream::Stream;

/// The driver's numbers of the attributes.
const COOPERATIVE: u32 = 2;
const CLUSTER_DIMENSION: u32 = 4;
/// Programmatic dependent launch: the kernel may start before the previous kernel on the stream has
/// ended, and waits for it itself.
const PROGRAMMATIC_STREAM_SERIALIZATION: u32 = 6;
/// The largest cluster that every device with clusters can run.
const PORTABLE_CLUSTER: u32 = 8;

/// Checks that the device has what the kernel's contract needs. Checked before the lookup, because
/// an image for an older device may lack a kernel that the device could not run.
pub(super) fn check_device(contract: &Contract, info: &DeviceInfo) -> GpuResult<()> {
    let what = match contract {
        own if own.cluster.is_some() && info.compute_capability < (9, 0) => {
            "clusters of blocks, which begin with compute capability 9.0"
        }
        own if own.cooperative && !info.cooperative_launch => "cooperative launches",
        _ => return Ok(()),
    };
    Err(GpuError::Unsupported { what })
}

/// The attributes of the launch that the kernel's contract asks for, checked against the device.
pub(super) fn attributes(
    stream: &Stream,
    kernel: &'static Kernel,
    config: &LaunchConfig,
    function: Function,
) -> GpuResult<Vec<LaunchAttribute>> {
    let mut attributes = Vec::new();
    if let Some(blocks) = kernel.contract.cluster {
        attributes.push(clusters(blocks));
        check_cluster(stream, kernel, config, function, &attributes)?;
    }
    if kernel.contract.cooperative {
        check_cooperative(stream, kernel, config, function)?;
        attributes.push(LaunchAttribute::new(COOPERATIVE, &[1]));
    }
    if starts_early(&kernel.contract, stream.inner().context().info()) {
        attributes.push(early_start());
    }
    Ok(attributes)
}

/// Whether the launch may begin before the one before has ended. Before 9.0 there is no programmatic dependent launch, and
/// the kernel's wait does nothing.
#[inline]
pub(super) fn starts_early(contract: &Contract, info: &DeviceInfo) -> bool {
    contract.dependent && info.compute_capability >= (9, 0)
}

/// The attribute of a launch in clusters of so many blocks.
pub(super) fn clusters((x, y, z): (u32, u32, u32)) -> LaunchAttribute {
    LaunchAttribute::new(CLUSTER_DIMENSION, &[x, y, z])
}

/// The attribute of a launch that [`starts_early`].
pub(super) fn early_start() -> LaunchAttribute {
    LaunchAttribute::new(PROGRAMMATIC_STREAM_SERIALIZATION, &[1])
}

/// Whether an attribute is about the launch before on a stream, which a node of a graph does not have.
pub(crate) fn is_of_streams(attribute: &LaunchAttribute) -> bool {
    attribute.id == PROGRAMMATIC_STREAM_SERIALIZATION
}

/// Clusters exist, and one of this size fits on the device.
fn check_cluster(
    stream: &Stream,
    kernel: &'static Kernel,
    config: &LaunchConfig,
    function: Function,
    attributes: &[LaunchAttribute],
) -> GpuResult<()> {
    let (x, y, z) = kernel.contract.cluster.unwrap_or((1, 1, 1));
    let blocks = x * y * z;
    if blocks > PORTABLE_CLUSTER {
        stream.module().allow_large_clusters(function)?;
    }
    let clusters = active_clusters(stream, config, function, attributes)?;
    let limit = if clusters > 0 { blocks } else { 0 };
    within(kernel.name, LaunchLimit::ClusterBlocks, blocks.into(), limit.into())
}

/// How many clusters of the launch the device runs at once.
fn active_clusters(
    stream: &Stream,
    config: &LaunchConfig,
    function: Function,
    attributes: &[LaunchAttribute],
) -> GpuResult<u32> {
    let config = driver_config(stream.inner().handle(), *config, attributes);
    let mut clusters = 0;
    stream.inner().context().call("cuOccupancyMaxActiveClusters", || {
        // SAFETY: `clusters` is writable, the function is loaded, and the configuration lives.
        unsafe { sys::cuOccupancyMaxActiveClusters(&mut clusters, function.handle, &config) }
    })?;
    Ok(clusters.max(0).cast_unsigned())
}

/// Asks how many clusters of a kernel a device runs at once: `kernel::occupancy(&ClustersAtOnce { … })`. The grid of the launch
/// is any whole number of clusters.
#[cfg_attr(not(feature = "ops"), allow(dead_code, reason = "only operations ask"))]
pub(crate) struct ClustersAtOnce<'a> {
    pub stream: &'a Stream,
    pub config: LaunchConfig,
}

impl MeasureOccupancy for ClustersAtOnce<'_> {
    type Occupancy = u32;
    type Error = GpuError;

    fn occupancy(&self, kernel: &'static Kernel) -> GpuResult<u32> {
        let function = self.stream.module().function(kernel)?;
        allow_shared(self.stream, kernel, &self.config, function)?;
        let attributes = [clusters(kernel.contract.cluster.unwrap_or((1, 1, 1)))];
        active_clusters(self.stream, &self.config, function, &attributes)
            .with_gpu_context(|| format!("asking for the clusters of `{}`", kernel.name))
    }
}

/// All blocks fit on the device at the same time.
fn check_cooperative(
    stream: &Stream,
    kernel: &'static Kernel,
    config: &LaunchConfig,
    function: Function,
) -> GpuResult<()> {
    let context = stream.inner().context();
    let info = context.info();
    let (x, y, z) = config.block;
    let shared = config.shared_mem_bytes;
    let per_multiprocessor = u64::from(active_blocks(stream, function, x * y * z, shared)?);
    let limit = per_multiprocessor * u64::from(info.multiprocessors);
    let blocks = [config.grid.0, config.grid.1, config.grid.2].map(u64::from);
    let blocks = blocks.into_iter().fold(1, u64::saturating_mul);
    within(kernel.name, LaunchLimit::CooperativeBlocks, blocks, limit)
}

/// A launch as the driver takes it.
#[inline]
pub(super) fn driver_config(
    stream: sys::CUstream,
    config: LaunchConfig,
    attributes: &[LaunchAttribute],
) -> CUlaunchConfig {
    let LaunchConfig { grid, block, shared_mem_bytes } = config;
    CUlaunchConfig {
        grid: grid.into(),
        block: block.into(),
        shared_mem_bytes,
        stream,
        attributes: In::from(attributes),
        n_attributes: attributes.len() as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_older_device_lacks_is_said() {
        let mut info = crate::devices().unwrap().remove(0);
        (info.compute_capability, info.cooperative_launch) = ((8, 9), false);
        let what = |contract| match check_device(&contract, &info) {
            Err(GpuError::Unsupported { what }) => what,
            other => panic!("{other:?}"),
        };
        assert!(what(Contract::NONE.with_cluster([2, 1, 1])).contains("compute capability 9.0"));
        assert_eq!(what(Contract::NONE.with_cooperative()), "cooperative launches");
        assert!(check_device(&Contract::NONE.with_dependent(), &info).is_ok());
        (info.compute_capability, info.cooperative_launch) = ((9, 0), true);
        let both = Contract::NONE.with_cluster([2, 1, 1]).with_cooperative();
        assert!(check_device(&both, &info).is_ok());
    }
}
