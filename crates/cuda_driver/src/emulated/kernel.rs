//! Kernels of loaded modules, and what a program may set for them.

use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use ::emulator::{Function, Module};

use super::attributes::LARGEST_CLUSTER;
use super::gpu::{self, Gpu};
use super::registry::{Handle, Registry};
use super::{invalid, residency};
use crate::detail::Answer;

/// The driver's numbers of the attributes that can be set.
const MAX_DYNAMIC_SHARED: i32 = 8;
const CARVEOUT: i32 = 9;
const MUST_HAVE_CLUSTER: i32 = 10;
/// Three numbers: along x, y and z.
const CLUSTER_WIDTH: i32 = 11;
const CLUSTER_DEPTH: i32 = 13;
const LARGE_CLUSTER: i32 = 14;
const CLUSTER_SCHEDULING: i32 = 15;
/// A kernel that a program has a handle of.
pub(super) struct Kernel {
    pub(super) handle: Handle,
    pub(super) gpu: &'static Gpu,
    pub(super) context: Handle,
    pub(super) module: Handle,
    pub(super) entry: Arc<Function>,
    /// Keeps the module's variables while the kernel runs.
    code: Arc<Module>,
    settings: Arc<Settings>,
    pub(super) name: CString,
}

/// What a program may set for a kernel.
pub(super) struct Settings {
    max_dynamic_shared: AtomicI32,
    /// How much of the on-chip memory should be shared memory: a hint.
    carveout: AtomicI32,
    /// What a launch has to have as its clusters; zeros where the kernel does not say.
    cluster: [AtomicU32; 3],
    /// Clusters of more blocks than every device has.
    large_cluster: AtomicBool,
    /// How clusters should be spread: a hint.
    cluster_scheduling: AtomicI32,
}

impl Settings {
    /// What a kernel has where nothing is set.
    pub(super) fn of(entry: &Function) -> Answer<Self> {
        // All devices are alike.
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

/// Forgets a context's functions.
pub(super) fn forget(context: Handle) -> Answer {
    KERNELS.remove_where(|kernel| kernel.context == context);
    Ok(())
}

/// Forgets a module's functions.
pub(super) fn forget_module(module: Handle) {
    KERNELS.remove_where(|kernel| kernel.module == module);
}

/// The kernel of a function's handle.
pub(super) fn get(function: Handle) -> Answer<Arc<Kernel>> {
    KERNELS.get(function)
}

/// A handle for a module's kernel.
pub(super) fn add(
    (gpu, context): (&'static Gpu, Handle),
    module: Handle,
    code: &Arc<Module>,
    entry: Arc<Function>,
    settings: Arc<Settings>,
) -> Answer<Handle> {
    let name = CString::new(&*entry.name).map_err(|_| invalid("a kernel's name holds a NUL"))?;
    let (handle, code) = (Handle::fresh(), code.clone());
    let kernel = Kernel { handle, gpu, context, module, entry, code, settings, name };
    KERNELS.put(handle, Arc::new(kernel));
    Ok(handle)
}

impl Kernel {
    /// Dynamic shared memory that a launch may ask for.
    pub(super) fn shared_limit(&self) -> u32 {
        self.settings.max_dynamic_shared.load(Ordering::Relaxed).unsigned_abs()
    }

    pub(super) fn attribute(&self, attribute: i32) -> Answer<i32> {
        let Function { static_shared_bytes, local_bytes, .. } = &*self.entry;
        Ok(match attribute {
            0 => self.entry.max_threads_per_block as i32,
            1 => *static_shared_bytes as i32,
            3 => *local_bytes as i32,
            4 => residency::registers(&self.entry) as i32,
            5 => architecture_number(self.code.target()),
            6 => native_architecture(self.gpu.profile().compute_capability),
            MAX_DYNAMIC_SHARED => self.settings.max_dynamic_shared.load(Ordering::Relaxed),
            CARVEOUT => self.settings.carveout.load(Ordering::Relaxed),
            // Constant memory of its own, and a cache mode: none.
            2 | 7 => 0,
            MUST_HAVE_CLUSTER => self.entry.explicit_cluster.into(),
            CLUSTER_WIDTH..=CLUSTER_DEPTH => {
                let axis = (attribute - CLUSTER_WIDTH) as usize;
                self.settings.cluster[axis].load(Ordering::Relaxed) as i32
            }
            LARGE_CLUSTER => self.allows_large_cluster().into(),
            CLUSTER_SCHEDULING => self.settings.cluster_scheduling.load(Ordering::Relaxed),
            _ => return Err(invalid(format!("{attribute} is no attribute of a function"))),
        })
    }

    pub(super) fn set_attribute(&self, attribute: i32, value: i32) -> Answer {
        match attribute {
            MAX_DYNAMIC_SHARED => self.set_max_dynamic_shared(value),
            CARVEOUT if (-1..=100).contains(&value) => {
                self.settings.carveout.store(value, Ordering::Relaxed);
                Ok(())
            }
            CARVEOUT => Err(invalid(format!("a carve-out of {value}; it may be -1 to 100"))),
            CLUSTER_WIDTH..=CLUSTER_DEPTH => self.set_cluster(attribute - CLUSTER_WIDTH, value),
            LARGE_CLUSTER if matches!(value, 0 | 1) => {
                self.settings.large_cluster.store(value == 1, Ordering::Relaxed);
                Ok(())
            }
            CLUSTER_SCHEDULING if (0..=2).contains(&value) => {
                self.settings.cluster_scheduling.store(value, Ordering::Relaxed);
                Ok(())
            }
            _ => Err(invalid(format!("attribute {attribute} of a function cannot be set"))),
        }
    }

    /// Where a parameter stands among the packed arguments, and its size; past the last there is
    /// none, which ends a program's search.
    pub(super) fn param(&self, index: usize) -> Answer<(usize, usize)> {
        let count = self.entry.params.len();
        let param = self.entry.params.get(index).ok_or_else(|| {
            invalid(format!("parameter {index} of kernel `{}`; it has {count}", self.entry.name))
        })?;
        Ok((param.offset, param.size))
    }

    /// The clusters that every launch has, where the kernel says so.
    pub(super) fn required_cluster(&self) -> Option<[u32; 3]> {
        let cluster = [0, 1, 2].map(|axis| self.settings.cluster[axis].load(Ordering::Relaxed));
        (cluster[0] > 0).then(|| cluster.map(|size| size.max(1)))
    }

    /// Whether a launch has to say how large its clusters are.
    pub(super) fn must_have_cluster(&self) -> bool {
        self.entry.explicit_cluster && self.required_cluster().is_none()
    }

    pub(super) fn allows_large_cluster(&self) -> bool {
        self.settings.large_cluster.load(Ordering::Relaxed)
    }

    /// A kernel that says its clusters in the PTX keeps them.
    fn set_cluster(&self, axis: i32, size: i32) -> Answer {
        if self.entry.required_cluster.is_some() {
            return Err(invalid("the kernel was compiled for clusters of one size"));
        }
        if !(0..=LARGEST_CLUSTER as i32).contains(&size) {
            return Err(invalid(format!("clusters of {size} blocks along an axis")));
        }
        self.settings.cluster[axis as usize].store(size as u32, Ordering::Relaxed);
        Ok(())
    }

    fn set_max_dynamic_shared(&self, bytes: i32) -> Answer {
        let optin = self.gpu.profile().shared_mem_per_block_optin;
        let left = optin.saturating_sub(self.entry.static_shared_bytes) as i32;
        if !(0..=left).contains(&bytes) {
            let name = &self.entry.name;
            return Err(invalid(format!(
                "{bytes} bytes of dynamic shared memory; kernel `{name}` may have {left}"
            )));
        }
        self.settings.max_dynamic_shared.store(bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// `sm_90a` as 90, the way in which the driver writes architectures.
fn architecture_number(target: &str) -> i32 {
    let digits = target.trim_start_matches("sm_").trim_end_matches(|c: char| !c.is_ascii_digit());
    digits.parse().unwrap_or(0)
}

fn native_architecture((major, minor): (u32, u32)) -> i32 {
    (major * 10 + minor) as i32
}
