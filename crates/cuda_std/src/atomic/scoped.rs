//! [`Atomic`]: a number with atomic operations whose scope is in its type.

use super::rmw::{
    Exchange, FetchAdd, FetchAnd, FetchDec, FetchInc, FetchMax, FetchMin, FetchOr, FetchSub,
    FetchXor,
};
use super::word::Word;
use super::{Ordering, Scope, access};
use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;

/// The scopes as types, for [`Atomic`].
pub mod scope {
    use super::Scope;

    mod sealed {
        pub trait Sealed {}
    }

    /// A [`Scope`] as a type.
    pub trait InScope: sealed::Sealed + 'static {
        /// The scope.
        const SCOPE: Scope;
    }

    macro_rules! scopes {
        ($($name:ident: $doc:literal;)*) => {$(
            #[doc = $doc]
            #[derive(Clone, Copy, Debug)]
            pub enum $name {}

            impl sealed::Sealed for $name {}
            impl InScope for $name {
                const SCOPE: Scope = Scope::$name;
            }
        )*};
    }

    scopes! {
        Block: "The threads of the block.";
        Cluster: "The threads of the cluster (`sm_90` and later).";
        Device: "The threads of the device.";
        System: "The threads of all devices, and the host.";
    }
}

use scope::InScope;

/// A number that threads share and change by atomic operations of the scope `S`.
///
/// It has the size and alignment of `T`, and works on the host as well. With the scopes `Device`
/// and `System` its operations are safe; with `Block` and `Cluster` they are `unsafe`, since a
/// reference can reach threads outside.
///
/// ```
/// use cuda_std::atomic::{Atomic, Ordering::Relaxed, scope};
///
/// let sum: Atomic<f32, scope::Device> = Atomic::new(1.5);
/// assert_eq!(sum.fetch_add(2.0, Relaxed), 1.5);
/// assert_eq!(sum.load(Relaxed), 3.5);
/// ```
///
/// # Why the operations of device and system scope are safe
///
/// 1. The value lies in an `UnsafeCell` that only the functions here reach through a shared
///    reference, each by one atomic instruction of the value's size.
/// 2. Every thread that can hold a reference runs on one device, or, with a host in between, uses
///    memory that the host's types lend to one of them at a time. So device scope is enough for
///    every pair of accesses.
/// 3. Every bit pattern is a value of `T`.
/// 4. A value in a thread's local memory can be loaded and stored; the hardware refuses a
///    read-modify-write there with a fault.
#[repr(transparent)]
pub struct Atomic<T: Word, S: InScope> {
    value: UnsafeCell<T>,
    scope: PhantomData<fn() -> S>,
}

// SAFETY: shared references give atomic operations alone; with a narrower scope they are `unsafe`.
unsafe impl<T: Word, S: InScope> Sync for Atomic<T, S> {}
// SAFETY: a plain number.
unsafe impl<T: Word, S: InScope> Send for Atomic<T, S> {}

impl<T: Word, S: InScope> Atomic<T, S> {
    /// A number to share.
    #[inline(always)]
    pub const fn new(value: T) -> Self {
        Self { value: UnsafeCell::new(value), scope: PhantomData }
    }

    /// The number, no longer shared.
    #[inline(always)]
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }

    /// The number, exclusively borrowed.
    #[inline(always)]
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The pointer to the number.
    #[inline(always)]
    pub const fn as_ptr(&self) -> *mut T {
        self.value.get()
    }

    /// The number at `ptr`, shared.
    ///
    /// # Safety
    /// - `ptr` is aligned and valid for reads and writes during `'a`.
    /// - During `'a` it is reached by atomic operations alone, of a scope that holds all threads
    ///   that reach it.
    #[inline(always)]
    pub const unsafe fn from_ptr<'a>(ptr: *mut T) -> &'a Self {
        // SAFETY: the caller's promise; the layout is that of `T`.
        unsafe { &*ptr.cast() }
    }

    #[inline(always)]
    unsafe fn try_swap(&self, current: T, new: T, order: Ordering) -> Result<T, T> {
        // SAFETY: the caller's promise.
        let before =
            unsafe { access::compare_and_swap(self.as_ptr(), current, new, order, S::SCOPE) };
        let same = before.to_bits_64() == current.to_bits_64();
        if same { Ok(before) } else { Err(before) }
    }
}

impl<T: Word + Default, S: InScope> Default for Atomic<T, S> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T: Word, S: InScope> From<T> for Atomic<T, S> {
    fn from(value: T) -> Self {
        Self::new(value)
    }
}

impl<T: Word, S: InScope> fmt::Debug for Atomic<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Atomic({:?})", S::SCOPE)
    }
}

/// Declares the operations of a scope, `unsafe` or not.
macro_rules! methods {
    ($($scope:ident ($($safety:tt)?) $(#[$note:meta])*;)*) => {$(
        impl<T: Word> Atomic<T, scope::$scope> {
            /// The value. The order is `Relaxed`, `Acquire` or `SeqCst`; others panic.
            $(#[$note])*
            #[inline(always)]
            pub $($safety)? fn load(&self, order: Ordering) -> T {
                // SAFETY: aligned, valid and reached atomically, as the type's docs argue.
                unsafe { access::load(self.as_ptr(), order, Scope::$scope) }
            }

            /// Sets the value. The order is `Relaxed`, `Release` or `SeqCst`; others panic.
            $(#[$note])*
            #[inline(always)]
            pub $($safety)? fn store(&self, value: T, order: Ordering) {
                // SAFETY: aligned, valid and reached atomically, as the type's docs argue.
                unsafe { access::store(self.as_ptr(), value, order, Scope::$scope) }
            }

            /// Sets the value to `new` if its bits are those of `current`; a failure is ordered as
            /// a load is by `order`.
            ///
            /// # Errors
            /// The value, if its bits are not those of `current`.
            $(#[$note])*
            #[inline(always)]
            pub $($safety)? fn compare_exchange(
                &self,
                current: T,
                new: T,
                order: Ordering,
            ) -> Result<T, T> {
                // SAFETY: aligned, valid and reached atomically, as the type's docs argue.
                unsafe { self.try_swap(current, new, order) }
            }
        }

        methods! { @rmw $scope ($($safety)?) [$(#[$note])*]
            swap, Exchange: "Sets the value, and returns what it was before.";
            fetch_add, FetchAdd: "Adds, and returns the value before; integers wrap.";
            fetch_sub, FetchSub: "Subtracts, and returns the value before; integers wrap.";
            fetch_min, FetchMin: "Takes the smaller value, and returns the one before.";
            fetch_max, FetchMax: "Takes the larger value, and returns the one before.";
            fetch_and, FetchAnd: "Combines the bits by and, and returns the value before.";
            fetch_or, FetchOr: "Combines the bits by or, and returns the value before.";
            fetch_xor, FetchXor: "Combines the bits by exclusive or, and returns the value before.";
            fetch_inc, FetchInc:
                "Counts up: below `value` it grows by one, else it becomes 0. Returns the value before.";
            fetch_dec, FetchDec:
                "Counts down: from 1 to `value` it shrinks by one, else it becomes `value`. Returns the value before.";
        }
    )*};
    (@rmw $scope:ident $safety:tt $notes:tt $($name:ident, $bound:ident: $doc:literal;)*) => {$(
        methods! { @one $scope $safety $notes $name, $bound, $doc }
    )*};
    (@one $scope:ident ($($safety:tt)?) [$(#[$note:meta])*] $name:ident, $bound:ident, $doc:literal) => {
        impl<T: $bound> Atomic<T, scope::$scope> {
            #[doc = $doc]
            $(#[$note])*
            #[inline(always)]
            pub $($safety)? fn $name(&self, value: T, order: Ordering) -> T {
                // SAFETY: aligned, valid and reached atomically, as the type's docs argue.
                unsafe { methods!(@call $name)(self.as_ptr(), value, order, Scope::$scope) }
            }
        }
    };
    (@call swap) => { super::rmw::exchange };
    (@call $name:ident) => { super::rmw::$name };
}

methods! {
    Device ();
    System ();
    Block (unsafe)
        #[doc = ""]
        #[doc = "# Safety"]
        #[doc = "Every thread that reaches the value at the same time is in the block."];
    Cluster (unsafe)
        #[doc = ""]
        #[doc = "# Safety"]
        #[doc = "Every thread that reaches the value at the same time is in the cluster."];
}

/// An `f32` that the threads of the device share.
pub type AtomicF32 = Atomic<f32, scope::Device>;
/// An `f64` that the threads of the device share.
pub type AtomicF64 = Atomic<f64, scope::Device>;
/// An `f32` that the threads of a block share.
pub type BlockAtomicF32 = Atomic<f32, scope::Block>;
/// An `f64` that the threads of a block share.
pub type BlockAtomicF64 = Atomic<f64, scope::Block>;
/// An `f32` that the threads of all devices and the host share.
pub type SystemAtomicF32 = Atomic<f32, scope::System>;
/// An `f64` that the threads of all devices and the host share.
pub type SystemAtomicF64 = Atomic<f64, scope::System>;

#[cfg(test)]
mod tests {
    use super::*;
    use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

    #[test]
    fn floats_work_on_the_host() {
        let x = AtomicF64::new(1.5);
        assert_eq!((x.fetch_add(2.0, AcqRel), x.fetch_sub(0.25, SeqCst)), (1.5, 3.5));
        assert_eq!(x.swap(-0.0, Relaxed), 3.25);
        // -0.0 and 0.0 are equal numbers and different bits.
        assert_eq!(x.compare_exchange(0.0, 1.0, SeqCst).map_err(f64::to_bits), Err(1 << 63));
        assert_eq!(x.compare_exchange(-0.0, 1.0, Release).map(f64::to_bits), Ok(1 << 63));
        x.store(f64::from_bits(0b1100), Release);
        assert_eq!(x.fetch_and(f64::from_bits(0b0110), Relaxed).to_bits(), 0b1100);
        assert_eq!(x.fetch_or(f64::from_bits(0b0001), Relaxed).to_bits(), 0b0100);
        assert_eq!(x.fetch_xor(f64::from_bits(0b1111), Relaxed).to_bits(), 0b0101);
        assert_eq!(x.into_inner().to_bits(), 0b1010);
    }

    #[test]
    fn narrow_scopes_work_on_the_host() {
        let x = BlockAtomicF32::from(1.0);
        // SAFETY: one thread.
        unsafe {
            assert_eq!(x.fetch_add(1.0, Relaxed), 1.0);
            assert_eq!(x.load(Acquire), 2.0);
        }
        let mut x = SystemAtomicF32::default();
        *x.get_mut() = 4.0;
        assert_eq!(x.fetch_sub(1.0, Acquire), 4.0);
    }

    #[test]
    fn integers_count_within_bounds() {
        let x: Atomic<u32, scope::Device> = Atomic::new(1);
        assert_eq!([2, 2, 2].map(|bound| x.fetch_inc(bound, Relaxed)), [1, 2, 0]);
        assert_eq!([2, 2, 2].map(|bound| x.fetch_dec(bound, Relaxed)), [1, 0, 2]);
        let x: Atomic<i64, scope::System> = Atomic::new(-5);
        assert_eq!((x.fetch_min(-7, Relaxed), x.fetch_max(3, AcqRel)), (-5, -7));
        assert_eq!(format!("{x:?} {}", x.load(SeqCst)), "Atomic(System) 3");
    }

    #[test]
    fn threads_of_the_host_lose_nothing() {
        let sum = AtomicF32::new(0.0);
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| (0..1000).for_each(|_| _ = sum.fetch_add(1.0, Relaxed)));
            }
        });
        assert_eq!(sum.into_inner(), 4000.0);
    }

    #[test]
    #[should_panic(expected = "release")]
    fn a_load_does_not_release() {
        AtomicF32::new(0.0).load(Release);
    }
}
