//! A thread-local cache of looked-up functions and checked launches, so that repeated launches take no lock and are
//! checked once.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use cuda_driver::sys;
use cuda_std::launch::{Kernel, LaunchConfig};

use super::kernel_module::Function;
use crate::panic::Epoch;

/// How many kernels a thread remembers, each in one slot: a power of two.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 6;

/// A module's number, unique in the process for all time. So entries need no removal: no lookup
/// asks for a module that was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ModuleId(u64);

/// A kernel that was looked up.
#[derive(Clone, Copy)]
struct CachedFunction {
    module: ModuleId,
    kernel: &'static Kernel,
    function: Function,
    /// Dynamic shared memory beyond the ordinary limit that it was allowed, at least.
    allowed_bytes: u32,
}

/// A launch that passed all checks of its shape, and needs no attributes but clusters and an early start: all that a
/// repeated launch has to know of the kernel and the module, in one cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct CheckedLaunch {
    module: ModuleId,
    kernel: &'static Kernel,
    config: LaunchConfig,
    pub(crate) function: sys::CUfunction,
    pub(crate) has_attributes: bool,
    /// When it was noted last among the launches of a stream.
    pub(crate) noted: Epoch,
}

const _: () = assert!(size_of::<Option<CheckedLaunch>>() == 64, "one cache line");

thread_local! {
    static CACHE: [Cell<Option<CachedFunction>>; SLOTS] = const { [const { Cell::new(None) }; SLOTS] };
    static CHECKED: [Cell<Option<CheckedLaunch>>; SLOTS] = const { [const { Cell::new(None) }; SLOTS] };
}

impl ModuleId {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// What this thread has looked up of `kernel` in the module of this number.
    #[inline]
    pub(super) fn cached(self, kernel: &'static Kernel) -> Option<Function> {
        self.find(kernel).map(|cached| cached.function)
    }

    /// How much dynamic shared memory the kernel was allowed, as far as this thread knows; it never
    /// becomes less.
    #[inline]
    pub(super) fn allowed_bytes(self, kernel: &'static Kernel) -> u32 {
        self.find(kernel).map_or(0, |cached| cached.allowed_bytes)
    }

    /// Remembers a function, and what it was allowed, in the slot of another one.
    pub(super) fn cache(self, kernel: &'static Kernel, function: Function, allowed_bytes: u32) {
        let cached = CachedFunction { module: self, kernel, function, allowed_bytes };
        CACHE.with(|slots| slots[self.slot(kernel)].set(Some(cached)));
    }

    /// The latest launch of `kernel` that this thread has remembered, if it was of this shape.
    #[inline]
    pub(super) fn checked(
        self,
        kernel: &'static Kernel,
        config: &LaunchConfig,
    ) -> Option<CheckedLaunch> {
        let launch = CHECKED.with(|slots| slots[self.slot(kernel)].get())?;
        let is_it =
            launch.module == self && ptr::eq(launch.kernel, kernel) && launch.config == *config;
        is_it.then_some(launch)
    }

    /// Remembers a launch that needs no check any more.
    pub(super) fn note_checked(
        self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        function: sys::CUfunction,
        has_attributes: bool,
    ) {
        let noted = Epoch::NEVER;
        let launch =
            CheckedLaunch { module: self, kernel, config, function, has_attributes, noted };
        CHECKED.with(|slots| slots[self.slot(kernel)].set(Some(launch)));
    }

    /// Remembers that such a launch, if this thread remembers it at all, was noted in that epoch.
    pub(super) fn set_noted(self, kernel: &'static Kernel, config: &LaunchConfig, epoch: Epoch) {
        if let Some(launch) = self.checked(kernel, config) {
            let launch = CheckedLaunch { noted: epoch, ..launch };
            CHECKED.with(|slots| slots[self.slot(kernel)].set(Some(launch)));
        }
    }

    #[inline]
    fn find(self, kernel: &'static Kernel) -> Option<CachedFunction> {
        let cached = CACHE.with(|slots| slots[self.slot(kernel)].get())?;
        (cached.module == self && ptr::eq(cached.kernel, kernel)).then_some(cached)
    }

    /// Fibonacci hashing (Knuth, *The Art of Computer Programming*, volume 3, section 6.4).
    #[inline]
    fn slot(self, kernel: &'static Kernel) -> usize {
        let key = ptr::from_ref(kernel).addr() as u64 ^ self.0.rotate_right(16);
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SLOT_BITS)) as usize
    }
}

#[cfg(test)]
mod tests {
    use cuda_std::launch::Contract;

    use super::*;
    use crate::panic::Launches;

    const fn kernel(name: &'static str) -> Kernel {
        Kernel { name, params: &[], contract: Contract::NONE }
    }

    fn function(number: u32) -> Function {
        let handle = ptr::null_mut();
        Function { handle, max_threads_per_block: number, static_shared_bytes: 0 }
    }

    fn number(found: Option<Function>) -> Option<u32> {
        found.map(|function| function.max_threads_per_block)
    }

    #[test]
    fn each_module_has_its_own() {
        static KERNEL: Kernel = kernel("a");
        let (one, other) = (ModuleId::new(), ModuleId::new());
        one.cache(&KERNEL, function(1), 0);
        other.cache(&KERNEL, function(2), 0);
        assert!(matches!(number(one.cached(&KERNEL)), None | Some(1)));
        assert_eq!(number(other.cached(&KERNEL)), Some(2));
        assert_eq!(number(ModuleId::new().cached(&KERNEL)), None);
        other.cache(&KERNEL, function(2), 60_000);
        assert_eq!((one.allowed_bytes(&KERNEL), other.allowed_bytes(&KERNEL)), (0, 60_000));
    }

    #[test]
    fn a_kernel_of_the_same_name_is_another_one() {
        static KERNELS: [Kernel; 2] = [kernel("a"), kernel("a")];
        let module = ModuleId::new();
        module.cache(&KERNELS[0], function(1), 0);
        assert_eq!(number(module.cached(&KERNELS[1])), None);
        assert_eq!(number(module.cached(&KERNELS[0])), Some(1));
    }

    #[test]
    fn more_kernels_than_places_are_forgotten_but_never_mistaken() {
        static KERNELS: [Kernel; 4 * SLOTS] = [kernel("a"); 4 * SLOTS];
        let module = ModuleId::new();
        for (number, kernel) in KERNELS.iter().enumerate() {
            module.cache(kernel, function(number as u32), 0);
            assert_eq!(self::number(module.cached(kernel)), Some(number as u32));
        }
        let cached = KERNELS.iter().enumerate().filter_map(|(at, kernel)| {
            number(module.cached(kernel)).map(|number| assert_eq!(number, at as u32))
        });
        assert!((1..=SLOTS).contains(&cached.count()));
    }

    #[test]
    fn a_checked_launch_is_known_by_module_kernel_and_shape() {
        static KERNELS: [Kernel; 2] = [kernel("a"), kernel("a")];
        let (module, other) = (ModuleId::new(), ModuleId::new());
        let config = LaunchConfig { grid: (2, 1, 1), block: (32, 1, 1), shared_mem_bytes: 0 };
        let function = ptr::without_provenance_mut(16);
        module.note_checked(&KERNELS[0], config, function, true);
        let found = module.checked(&KERNELS[0], &config).unwrap();
        assert_eq!((found.function, found.has_attributes), (function, true));
        assert_eq!(found.noted, Epoch::NEVER);
        let epoch = Launches::default().epoch();
        module.set_noted(&KERNELS[0], &config, epoch);
        assert_eq!(module.checked(&KERNELS[0], &config).map(|launch| launch.noted), Some(epoch));
        for changed in [
            LaunchConfig { grid: (2, 1, 2), ..config },
            LaunchConfig { block: (64, 1, 1), ..config },
            LaunchConfig { shared_mem_bytes: 4, ..config },
        ] {
            assert!(module.checked(&KERNELS[0], &changed).is_none());
        }
        assert!(module.checked(&KERNELS[1], &config).is_none());
        assert!(other.checked(&KERNELS[0], &config).is_none());
    }

    #[test]
    fn threads_share_nothing() {
        static KERNEL: Kernel = kernel("a");
        let module = ModuleId::new();
        module.cache(&KERNEL, function(1), 0);
        let elsewhere = std::thread::spawn(move || number(module.cached(&KERNEL)));
        assert_eq!(elsewhere.join().expect("no panic"), None);
    }
}
