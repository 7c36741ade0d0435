//! What a launch may be told beside its sizes.
//!
//! Clusters and cooperation are done. An early start of the next launch, priorities, domains of
//! memory order, and wishes about caches are permissions and hints: the emulator checks them, and
//! then does what is always right.

use std::collections::BTreeMap;

use super::attributes::{LARGEST_CLUSTER, MAX_WINDOW_BYTES, PORTABLE_CLUSTER, SYNC_DOMAINS};
use super::geometry::Geometry;
use super::kernel::Kernel;
use super::{invalid, lacking};
use crate::abi::{CUevent, CUlaunchConfig, In};
use crate::codes::{CUDA_ERROR_INVALID_CLUSTER_SIZE, CUDA_ERROR_INVALID_VALUE};
use crate::detail::{Answer, Failure};
use crate::structs::{AttributeValue, EventAttribute};

pub(super) const IGNORE: u32 = 0;
pub(super) const ACCESS_WINDOW: u32 = 1;
const COOPERATIVE: u32 = 2;
pub(super) const SYNC_POLICY: u32 = 3;
const CLUSTER: u32 = 4;
const CLUSTER_SCHEDULING: u32 = 5;
const EARLY_START: u32 = 6;
const PROGRAMMATIC_EVENT: u32 = 7;
pub(super) const PRIORITY: u32 = 8;
pub(super) const DOMAIN_MAP: u32 = 9;
pub(super) const DOMAIN: u32 = 10;
const PREFERRED_CLUSTER: u32 = 11;
const COMPLETION_EVENT: u32 = 12;
const DEVICE_UPDATABLE: u32 = 13;
const CARVEOUT: u32 = 14;
const LINK_SCHEDULING: u32 = 15;

/// The attributes of a launch, by their numbers.
#[derive(Clone, Default)]
pub(super) struct Attributes(BTreeMap<u32, AttributeValue>);

impl Attributes {
    pub(super) fn cooperative() -> Self {
        let mut value = [0; 16];
        value[0] = 1;
        Self([(COOPERATIVE, value)].into())
    }

    /// Those of a launch, each checked by itself.
    pub(super) fn read(config: &CUlaunchConfig) -> Answer<Self> {
        if config.n_attributes > 0 && config.attributes.is_null() {
            return Err(invalid("the launch's attributes are a null pointer"));
        }
        let mut attributes = Self::default();
        for at in 0..config.n_attributes as usize {
            let attribute = config.attributes.at(at);
            attributes.set(attribute.id, attribute.value)?;
        }
        Ok(attributes)
    }

    pub(super) fn set(&mut self, id: u32, value: AttributeValue) -> Answer {
        check(id, &value)?;
        if id != IGNORE {
            self.0.insert(id, value);
        }
        Ok(())
    }

    /// The value of an attribute of a kernel; zeros where nothing was said.
    pub(super) fn get(&self, id: u32) -> Answer<AttributeValue> {
        match id {
            ACCESS_WINDOW | COOPERATIVE | CLUSTER | CLUSTER_SCHEDULING | PRIORITY | DOMAIN_MAP
            | DOMAIN | PREFERRED_CLUSTER | CARVEOUT => {
                Ok(self.0.get(&id).copied().unwrap_or_default())
            }
            _ => Err(invalid(format!("{id} is no attribute of a node"))),
        }
    }

    fn word(&self, id: u32) -> u32 {
        self.0.get(&id).map_or(0, |value| value[0])
    }

    pub(super) fn is_cooperative(&self) -> bool {
        self.word(COOPERATIVE) != 0
    }

    /// Blocks of a cluster; zeros where the launch does not say.
    pub(super) fn cluster(&self) -> [u32; 3] {
        self.0.get(&CLUSTER).map_or([0; 3], |value| [value[0], value[1], value[2]])
    }

    /// The events that the launch records.
    pub(super) fn events(&self) -> Answer<Vec<CUevent>> {
        let ids = [PROGRAMMATIC_EVENT, COMPLETION_EVENT];
        let values = ids.iter().filter_map(|id| self.0.get(id));
        values.map(|value| Ok(event_of(value)?.event)).collect()
    }

    /// Fails where the clusters do not fit the kernel or the grid.
    pub(super) fn check_cluster(&self, kernel: &Kernel, geometry: &Geometry) -> Answer {
        let required = kernel.required_cluster();
        let given = self.cluster();
        let cluster = match (given, required) {
            ([0, 0, 0], Some(required)) => required,
            ([0, 0, 0], None) if kernel.must_have_cluster() => {
                return Err(cluster_failure("the kernel has to be launched with a cluster size"));
            }
            ([0, 0, 0], None) => return Ok(()),
            (given, Some(required)) if given != required => {
                let text = format!("clusters of {given:?}; the kernel requires {required:?}");
                return Err(invalid(text));
            }
            (given, _) => given,
        };
        check_size(kernel, cluster)?;
        let fits = |(blocks, size): (u32, u32)| blocks.is_multiple_of(size);
        if !geometry.grid.into_iter().zip(cluster).all(fits) {
            let grid = geometry.grid;
            let text = format!("a grid of {grid:?} blocks is no whole number of {cluster:?}");
            return Err(cluster_failure(text));
        }
        Ok(())
    }
}

/// Fails where a cluster is larger than the kernel may have it.
pub(super) fn check_size(kernel: &Kernel, cluster: [u32; 3]) -> Answer {
    let most = if kernel.allows_large_cluster() { LARGEST_CLUSTER } else { PORTABLE_CLUSTER };
    let blocks: u64 = cluster.iter().map(|&size| u64::from(size)).product();
    if blocks > u64::from(most) {
        return Err(cluster_failure(format!("clusters of {blocks} blocks; they may have {most}")));
    }
    Ok(())
}

fn cluster_failure(text: impl Into<String>) -> Failure {
    Failure::new(CUDA_ERROR_INVALID_CLUSTER_SIZE, text)
}

fn event_of(value: &AttributeValue) -> Answer<EventAttribute> {
    In::from(value).cast::<EventAttribute>().get()
}

/// Fails where the value is not one that the attribute may have.
fn check(id: u32, value: &AttributeValue) -> Answer {
    let is_right = match id {
        IGNORE | COOPERATIVE | EARLY_START | PRIORITY => true,
        ACCESS_WINDOW => return check_window(value),
        CLUSTER => value[..3].iter().all(|&size| size > 0),
        CLUSTER_SCHEDULING => value[0] <= 2,
        PROGRAMMATIC_EVENT | COMPLETION_EVENT => matches!(event_of(value)?.flags, 0 | 1),
        DOMAIN_MAP => check_domains(value),
        DOMAIN | LINK_SCHEDULING => value[0] <= 1,
        PREFERRED_CLUSTER => value[..3].iter().all(|&size| size > 0),
        CARVEOUT => value[0] <= 100 || value[0] == u32::MAX,
        DEVICE_UPDATABLE if value[0] != 0 => {
            return Err(lacking("the emulator's kernels do not change graphs"));
        }
        DEVICE_UPDATABLE => true,
        _ => return Err(invalid(format!("{id} is no attribute of a launch"))),
    };
    match is_right {
        true => Ok(()),
        false => Err(invalid(format!("launch attribute {id} has a value that it may not have"))),
    }
}

/// For each of the two logical domains, the device's.
pub(super) fn check_domains(value: &AttributeValue) -> bool {
    let [default, remote, ..] = value[0].to_le_bytes();
    u32::from(default) < SYNC_DOMAINS && u32::from(remote) < SYNC_DOMAINS
}

/// A window of addresses with a wish about the cache: address, bytes, share of hits, and a
/// property (none, streaming, persisting) for hits and for misses.
pub(super) fn check_window(value: &AttributeValue) -> Answer {
    let bytes = u64::from(value[2]) | u64::from(value[3]) << 32;
    let ratio = f32::from_bits(value[4]);
    let properties = value[5] <= 2 && value[6] <= 1;
    if bytes > MAX_WINDOW_BYTES as u64 || !(0.0..=1.0).contains(&ratio) || !properties {
        return Err(Failure::new(
            CUDA_ERROR_INVALID_VALUE,
            format!(
                "a window of {bytes} bytes, {ratio} of them with property {}, others {}",
                value[5], value[6]
            ),
        ));
    }
    Ok(())
}
