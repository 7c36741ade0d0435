//! The kernels of loaded modules, and their settings.

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use ::emulator::{Function, Module};

use super::device_attributes::LARGEST_CLUSTER;
use super::gpu::{self, Gpu};
use super::registry::{Handle, Registry};
use super::{invalid_value, residency};
use crate::constants::function_attribute as A;
use crate::detail::DriverResult;

/// A kernel that a handle refers to.
pub(super) struct Kernel {
    pub(super) handle: Handle,
    pub(super) gpu: &'static Gpu,
    pub(super) context: Handle,
    pub(super) module: Handle,
    pub(super) entry: Arc<Function>,
    /// Keeps the module's variables alive while the kernel runs.
    code: Arc<Module>,
    settings: Arc<KernelSettings>,
    pub(super) name: CString,
}

/// The settings of a kernel.
pub(super) struct KernelSettings {
    max_dynamic_shared: AtomicI32,
    /// The preferred share of on-chip memory that is shared memory: a hint.
    carveout: AtomicI32,
    /// The required cluster dimensions; zeros if there is no requirement.
    cluster: [AtomicU32; 3],
    /// Whether non-portable cluster sizes are allowed.
    large_cluster: AtomicBool,
    /// The scheduling policy of clusters: a hint.
    cluster_scheduling: AtomicI32,
}

impl KernelSettings {
    /// The default settings of a kernel.
    pub(super) fn of(entry: &Function) -> DriverResult<Self> {
        // All devices have one profile.
        let profile = gpu::gpu(0)?.profile();
        let left = profile.shared_mem_per_block.saturating_sub(entry.static_shared_bytes);
        Ok(Self {
            max_dynamic_shared: AtomicI32::new(left as i32),
            carveout: AtomicI32::new(-1),
            cluster: entry.required_cluster.unwrap_or_default().map(AtomicU32::new),
            large_cluster: AtomicBool::new(false),
            cluster_scheduling: AtomicI32::new(0),
        })
    }
}

static KERNELS: Registry<Kernel> = Registry::new("function");

/// Removes a context's functions.
pub(super) fn forget(context: Handle) -> DriverResult {
    KERNELS.remove_where(|kernel| kernel.context == context);
    Ok(())
}

/// Removes a module's functions.
pub(super) fn forget_module(module: Handle) {
    KERNELS.remove_where(|kernel| kernel.module == module);
}

/// The kernel of a function's handle.
pub(super) fn get(function: Handle) -> DriverResult<Arc<Kernel>> {
    KERNELS.get(function)
}

/// Makes a handle for a module's kernel.
pub(super) fn add(
    (gpu, context): (&'static Gpu, Handle),
    module: Handle,
    code: &Arc<Module>,
    entry: Arc<Function>,
    settings: Arc<KernelSettings>,
) -> DriverResult<Handle> {
    let name =
        CString::new(&*entry.name).map_err(|_| invalid_value("a kernel's name holds a NUL"))?;
    let (handle, code) = (Handle::fresh(), code.clone());
    let kernel = Kernel { handle, gpu, context, module, entry, code, settings, name };
    KERNELS.put(handle, Arc::new(kernel));
    Ok(handle)
}

impl Kernel {
    /// The largest dynamic shared memory of a launch, in bytes.
    pub(super) fn shared_limit(&self) -> u32 {
        self.settings.max_dynamic_shared.load(Ordering::Relaxed).unsigned_abs()
    }

    pub(super) fn attribute(&self, attribute: i32) -> DriverResult<i32> {
        let Function { static_shared_bytes, local_bytes, .. } = &*self.entry;
        Ok(match attribute {
            A::MAX_THREADS_PER_BLOCK => self.entry.max_threads_per_block as i32,
            A::SHARED_SIZE_BYTES => *static_shared_bytes as i32,
            A::LOCAL_SIZE_BYTES => *local_bytes as i32,
            A::NUM_REGS => residency::registers(&self.entry) as i32,
            A::PTX_VERSION => architecture_number(self.code.target()),
            A::BINARY_VERSION => native_architecture(self.gpu.profile().compute_capability),
            A::MAX_DYNAMIC_SHARED_SIZE_BYTES => {
                self.settings.max_dynamic_shared.load(Ordering::Relaxed)
            }
            A::PREFERRED_SHARED_MEMORY_CARVEOUT => self.settings.carveout.load(Ordering::Relaxed),
            // Bytes of constant memory, and the cache mode: none.
            A::CONST_SIZE_BYTES | A::CACHE_MODE_CA => 0,
            A::CLUSTER_SIZE_MUST_BE_SET => self.entry.explicit_cluster.into(),
            A::REQUIRED_CLUSTER_WIDTH..=A::REQUIRED_CLUSTER_DEPTH => {
                let axis = (attribute - A::REQUIRED_CLUSTER_WIDTH) as usize;
                self.settings.cluster[axis].load(Ordering::Relaxed) as i32
            }
            A::NON_PORTABLE_CLUSTER_SIZE_ALLOWED => self.allows_large_cluster().into(),
            A::CLUSTER_SCHEDULING_POLICY_PREFERENCE => {
                self.settings.cluster_scheduling.load(Ordering::Relaxed)
            }
            _ => return Err(invalid_value(format!("{attribute} is not a function attribute"))),
        })
    }

    pub(super) fn set_attribute(&self, attribute: i32, value: i32) -> DriverResult {
        match attribute {
            A::MAX_DYNAMIC_SHARED_SIZE_BYTES => self.set_max_dynamic_shared(value),
            A::PREFERRED_SHARED_MEMORY_CARVEOUT if (-1..=100).contains(&value) => {
                self.settings.carveout.store(value, Ordering::Relaxed);
                Ok(())
            }
            A::PREFERRED_SHARED_MEMORY_CARVEOUT => {
                Err(invalid_value(format!("a carve-out of {value}; it may be -1 to 100")))
            }
            A::REQUIRED_CLUSTER_WIDTH..=A::REQUIRED_CLUSTER_DEPTH => {
                self.set_cluster(attribute - A::REQUIRED_CLUSTER_WIDTH, value)
            }
            A::NON_PORTABLE_CLUSTER_SIZE_ALLOWED if matches!(value, 0 | 1) => {
                self.settings.large_cluster.store(value == 1, Ordering::Relaxed);
                Ok(())
            }
            A::CLUSTER_SCHEDULING_POLICY_PREFERENCE if (0..=2).contains(&value) => {
                self.settings.cluster_scheduling.store(value, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(invalid_value(format!("attribute {attribute} of a function cannot be set"))),
        }
    }

    /// The offset of a parameter among the packed arguments, and its size. An index past the last
    /// parameter is an error, by which a program finds their number.
    pub(super) fn param(&self, index: usize) -> DriverResult<(usize, usize)> {
        let count = self.entry.params.len();
        let param = self.entry.params.get(index).ok_or_else(|| {
            invalid_value(format!(
                "parameter {index} of kernel `{}`; it has {count}",
                self.entry.name
            ))
        })?;
        Ok((param.offset, param.size))
    }

    /// The cluster dimensions that every launch must have, if the kernel requires some.
    pub(super) fn required_cluster(&self) -> Option<[u32; 3]> {
        let cluster = [0, 1, 2].map(|axis| self.settings.cluster[axis].load(Ordering::Relaxed));
        (cluster[0] > 0).then(|| cluster.map(|size| size.max(1)))
    }

    /// Whether a launch must give cluster dimensions.
    pub(super) fn must_have_cluster(&self) -> bool {
        self.entry.explicit_cluster && self.required_cluster().is_none()
    }

    pub(super) fn allows_large_cluster(&self) -> bool {
        self.settings.large_cluster.load(Ordering::Relaxed)
    }

    /// Cluster dimensions that the PTX declares cannot be changed.
    fn set_cluster(&self, axis: i32, size: i32) -> DriverResult {
        if self.entry.required_cluster.is_some() {
            return Err(invalid_value("the kernel was compiled with fixed cluster dimensions"));
        }
        if !(0..=LARGEST_CLUSTER as i32).contains(&size) {
            return Err(invalid_value(format!("{size} is not a cluster dimension")));
        }
        self.settings.cluster[axis as usize].store(size as u32, Ordering::Relaxed);
        Ok(())
    }

    fn set_max_dynamic_shared(&self, bytes: i32) -> DriverResult {
        let optin = self.gpu.profile().shared_mem_per_block_optin;
        let left = optin.saturating_sub(self.entry.static_shared_bytes) as i32;
        if !(0..=left).contains(&bytes) {
            let name = &self.entry.name;
            return Err(invalid_value(format!(
                "{bytes} bytes of dynamic shared memory; kernel `{name}` may have {left}"
            )));
        }
        self.settings.max_dynamic_shared.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// The number of an architecture in the driver API: 90 for `sm_90a`.
fn architecture_number(target: &str) -> i32 {
    let digits = target.trim_start_matches("sm_").trim_end_matches(|c: char| !c.is_ascii_digit());
    digits.parse().unwrap_or(0)
}

fn native_architecture((major, minor): (u32, u32)) -> i32 {
    (major * 10 + minor) as i32
}
