//! What a thread has looked up: it launches a kernel again and again without a lock.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use cuda_std::launch::Kernel;

use super::kernel_module::Function;

/// Kernels that a thread remembers, each in one place: a power of two.
const PLACES: usize = 1 << PLACE_BITS;
const PLACE_BITS: u32 = 6;

/// A module's number, which no other module of the process has, before or after it. So what is kept
/// under it needs no end: nobody asks for a module that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ModuleId(u64);

/// A kernel that was looked up.
#[derive(Clone, Copy)]
struct Known {
    module: ModuleId,
    kernel: &'static Kernel,
    function: Function,
    /// Dynamic shared memory beyond the ordinary limit that it was allowed, at least.
    allowed_bytes: u32,
}

thread_local! {
    static KNOWN: [Cell<Option<Known>>; PLACES] = const { [const { Cell::new(None) }; PLACES] };
}

impl ModuleId {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// What this thread has looked up of `kernel` in the module of this number.
    #[inline]
    pub(super) fn known(self, kernel: &'static Kernel) -> Option<Function> {
        self.find(kernel).map(|known| known.function)
    }

    /// How much dynamic shared memory this thread has seen the kernel be allowed; it is never less after.
    #[inline]
    pub(super) fn allowed_bytes(self, kernel: &'static Kernel) -> u32 {
        self.find(kernel).map_or(0, |known| known.allowed_bytes)
    }

    /// Remembers a function, and what it was allowed, in the place of another one.
    pub(super) fn keep(self, kernel: &'static Kernel, function: Function, allowed_bytes: u32) {
        let known = Known { module: self, kernel, function, allowed_bytes };
        KNOWN.with(|places| places[self.place(kernel)].set(Some(known)));
    }

    #[inline]
    fn find(self, kernel: &'static Kernel) -> Option<Known> {
        let known = KNOWN.with(|places| places[self.place(kernel)].get())?;
        (known.module == self && ptr::eq(known.kernel, kernel)).then_some(known)
    }

    /// Fibonacci hashing (Knuth, *The Art of Computer Programming*, volume 3, section 6.4).
    fn place(self, kernel: &'static Kernel) -> usize {
        let key = ptr::from_ref(kernel).addr() as u64 ^ self.0.rotate_right(16);
        (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - PLACE_BITS)) as usize
    }
}

#[cfg(test)]
mod tests {
    use cuda_std::launch::Contract;

    use super::*;

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
        one.keep(&KERNEL, function(1), 0);
        other.keep(&KERNEL, function(2), 0);
        assert!(matches!(number(one.known(&KERNEL)), None | Some(1)));
        assert_eq!(number(other.known(&KERNEL)), Some(2));
        assert_eq!(number(ModuleId::new().known(&KERNEL)), None);
        other.keep(&KERNEL, function(2), 60_000);
        assert_eq!((one.allowed_bytes(&KERNEL), other.allowed_bytes(&KERNEL)), (0, 60_000));
    }

    #[test]
    fn a_kernel_of_the_same_name_is_another_one() {
        static KERNELS: [Kernel; 2] = [kernel("a"), kernel("a")];
        let module = ModuleId::new();
        module.keep(&KERNELS[0], function(1), 0);
        assert_eq!(number(module.known(&KERNELS[1])), None);
        assert_eq!(number(module.known(&KERNELS[0])), Some(1));
    }

    #[test]
    fn more_kernels_than_places_are_forgotten_but_never_mistaken() {
        static KERNELS: [Kernel; 4 * PLACES] = [kernel("a"); 4 * PLACES];
        let module = ModuleId::new();
        for (number, kernel) in KERNELS.iter().enumerate() {
            module.keep(kernel, function(number as u32), 0);
            assert_eq!(self::number(module.known(kernel)), Some(number as u32));
        }
        let known = KERNELS.iter().enumerate().filter_map(|(at, kernel)| {
            number(module.known(kernel)).map(|number| assert_eq!(number, at as u32))
        });
        assert!((1..=PLACES).contains(&known.count()));
    }

    #[test]
    fn threads_share_nothing() {
        static KERNEL: Kernel = kernel("a");
        let module = ModuleId::new();
        module.keep(&KERNEL, function(1), 0);
        let elsewhere = std::thread::spawn(move || number(module.known(&KERNEL)));
        assert_eq!(elsewhere.join().expect("no panic"), None);
    }
}
