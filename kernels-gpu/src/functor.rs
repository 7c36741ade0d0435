//! Functors: functions that carry captured values from the host, and the kernels that call them.
//!
//! A functor is a plain struct whose fields are what a closure would capture. A kernel takes it by value. [`Functor`] maps and
//! zips, [`Predicate`] selects, and [`Operator`] reduces. The crate that declares the functor lists its
//! kernels with [`instances!`](crate::instances), because a GPU looks a kernel up by its name:
//!
//! ```
//! use bytemuck::{Pod, Zeroable};
//! use cuda_std::prelude::*;
//! use kernels_gpu::functor::Functor;
//!
//! /// `y + a * x`.
//! #[derive(Clone, Copy, Pod, Zeroable)]
//! #[repr(C)]
//! pub struct Axpy {
//!     pub a: f32,
//! }
//!
//! impl Functor<(f32, f32)> for Axpy {
//!     type Output = f32;
//!
//!     fn apply(self, (x, y): (f32, f32)) -> f32 {
//!         y + self.a * x
//!     }
//! }
//!
//! kernels_gpu::instances! {
//!     axpy_f32: zip(Axpy, f32, f32) -> f32;
//! }
//! # fn main() {}
//! ```
//!
//! On the host, `ops::map::zip(&gpu, Axpy { a: 2.0 }, &x, &y)` launches `axpy_f32`.

use bytemuck::Pod;
#[cfg(not(target_os = "cuda"))]
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Launch};

#[cfg(not(target_os = "cuda"))]
use crate::reduce::Operator;

/// A function of an element, or of a tuple of elements, which may carry captured values.
pub trait Functor<T>: Copy {
    /// What it computes.
    type Output: Pod;

    /// The value for one element.
    fn apply(self, x: T) -> Self::Output;
}

/// Decides which elements a selection keeps; it may carry captured values.
///
/// # Safety
/// `keeps` does not panic: all lanes of a warp count the kept elements together, and a lane that panics is missing.
pub unsafe trait Predicate<T>: Copy {
    /// Whether the element is kept.
    fn keeps(self, x: T) -> bool;
}

/// A [`Functor`] that has a kernel which maps elements of type `T`. [`instances!`](crate::instances) implements it.
#[cfg(not(target_os = "cuda"))]
#[diagnostic::on_unimplemented(
    message = "there is no kernel that maps elements of `{T}` by `{Self}`",
    label = "the functor `{Self}` has no instance for `{T}`",
    note = "write `kernels_gpu::instances! {{ NAME: map({Self}, {T}) -> OUTPUT; }}` in the kernel crate that declares `{Self}`"
)]
pub trait MapKernel<T: Pod>: Functor<T> {
    /// Enqueues `out[i] = self.apply(x[i])`, both `[n]`.
    ///
    /// # Errors
    /// Those of the launch.
    fn launch<L: Launch>(
        self,
        on: &L,
        grid: Grid1,
        x: &impl DeviceRead<T>,
        out: &mut impl DeviceWrite<Self::Output>,
    ) -> Result<(), L::Error>;
}

/// A [`Functor`] of pairs that has a kernel which zips elements of types `A` and `B`. [`instances!`](crate::instances)
/// implements it.
#[cfg(not(target_os = "cuda"))]
#[diagnostic::on_unimplemented(
    message = "there is no kernel that zips elements of `{A}` and `{B}` by `{Self}`",
    label = "the functor `{Self}` has no instance for `{A}` and `{B}`",
    note = "write `kernels_gpu::instances! {{ NAME: zip({Self}, {A}, {B}) -> OUTPUT; }}` in the kernel crate that declares `{Self}`"
)]
pub trait ZipKernel<A: Pod, B: Pod>: Functor<(A, B)> {
    /// Enqueues `out[i] = self.apply((a[i], b[i]))`, all `[n]`.
    ///
    /// # Errors
    /// Those of the launch.
    fn launch<L: Launch>(
        self,
        on: &L,
        grid: Grid1,
        a: &impl DeviceRead<A>,
        b: &impl DeviceRead<B>,
        out: &mut impl DeviceWrite<Self::Output>,
    ) -> Result<(), L::Error>;
}

/// An [`Operator`] that has a kernel which reduces a whole array. [`instances!`](crate::instances) implements it.
#[cfg(not(target_os = "cuda"))]
#[diagnostic::on_unimplemented(
    message = "there is no kernel that reduces by `{Self}`",
    label = "the operator `{Self}` has no instance",
    note = "write `kernels_gpu::instances! {{ NAME: reduce({Self}, INPUT) -> OUTPUT; }}` in the kernel crate that declares `{Self}`"
)]
pub trait ReduceKernel: Operator {
    /// Enqueues the reduction of `x: [n]` into `out: [1]`; scratch as for [`whole`](crate::reduce::whole).
    ///
    /// # Errors
    /// Those of the launch.
    fn launch<L: Launch>(
        self,
        on: &L,
        grid: Grid1,
        x: &impl DeviceRead<Self::Input>,
        partials: &mut impl DeviceWrite<u32>,
        finished: &mut impl DeviceWrite<u32>,
        out: &mut impl DeviceWrite<Self::Output>,
    ) -> Result<(), L::Error>;
}

/// A [`Predicate`] that has a kernel which selects from elements of type `T`. [`instances!`](crate::instances) implements it.
#[cfg(not(target_os = "cuda"))]
#[diagnostic::on_unimplemented(
    message = "there is no kernel that selects elements of `{T}` by `{Self}`",
    label = "the predicate `{Self}` has no instance for `{T}`",
    note = "write `kernels_gpu::instances! {{ NAME: select({Self}, {T}); }}` in the kernel crate that declares `{Self}`"
)]
pub trait SelectKernel<T: Pod>: Predicate<T> {
    /// Enqueues the selection from `x: [n]`; arguments as for [`select_grid`](crate::select::select_grid).
    ///
    /// # Errors
    /// Those of the launch.
    ///
    /// # Safety
    /// The words of `states` are 0, or as the last scan or selection left them.
    #[allow(clippy::too_many_arguments)]
    unsafe fn launch<L: Launch>(
        self,
        on: &L,
        grid: Grid1,
        x: &impl DeviceRead<T>,
        split: bool,
        states: &mut impl DeviceWrite<u64>,
        out: &mut impl DeviceWrite<T>,
        count: &mut impl DeviceWrite<u64>,
    ) -> Result<(), L::Error>;
}

/// Lists kernels of the shipped algorithms that call functors of this crate, one a line, each with the name of its PTX entry.
///
/// | line | the functor is |
/// |---|---|
/// | `NAME: map(FUNCTOR, T) -> U;` | a [`Functor<T, Output = U>`](crate::functor::Functor) |
/// | `NAME: zip(FUNCTOR, A, B) -> U;` | a [`Functor<(A, B), Output = U>`](crate::functor::Functor) |
/// | `NAME: reduce(OPERATOR, T) -> U;` | an [`Operator<Input = T, Output = U>`](crate::reduce::Operator) |
/// | `NAME: select(PREDICATE, T);` | a [`Predicate<T>`](crate::functor::Predicate) |
/// | `NAME: matmul(EPILOGUE, T) -> U;` | an [`Epilogue`](crate::matmul::Epilogue) of products of `T`, stored as `U` |
///
/// The functor's fields travel with the launch, so its type derives [`bytemuck::Pod`] (or `NoUninit`). The crate depends on
/// `cuda_std` and on `kernels_gpu` with `default-features = false`, which leaves the entries of the shipped kernels out. See
/// [`functor`](crate::functor) for an example.
#[macro_export]
macro_rules! instances {
    () => {};
    ($(#[$doc:meta])* $name:ident: map($f:ty, $t:ty) -> $u:ty; $($rest:tt)*) => {
        $(#[$doc])*
        #[doc = concat!("`out[i] = f.apply(x[i])` by `", stringify!($f), "`: see `kernels_gpu::elementwise::map::map`.")]
        #[::cuda_std::kernel(block = $crate::elementwise::map::BLOCK)]
        pub fn $name(
            index: ::cuda_std::prelude::ThreadIndex,
            f: $f,
            x: &[$t],
            mut out: ::cuda_std::prelude::DisjointSlice<$u>,
        ) {
            let apply = |x| $crate::functor::Functor::<$t>::apply(f, x);
            $crate::elementwise::map::map(index, x, &mut out, apply);
        }

        #[cfg(not(target_os = "cuda"))]
        impl $crate::functor::MapKernel<$t> for $f {
            fn launch<L: ::cuda_std::launch::Launch>(
                self,
                on: &L,
                grid: ::cuda_std::launch::Grid1,
                x: &impl ::cuda_std::launch::DeviceRead<$t>,
                out: &mut impl ::cuda_std::launch::DeviceWrite<$u>,
            ) -> ::core::result::Result<(), L::Error> {
                $name::launch(on, grid, self, x, out)
            }
        }

        $crate::instances! { $($rest)* }
    };
    ($(#[$doc:meta])* $name:ident: matmul($e:ty, $t:ty) -> $d:ty; $($rest:tt)*) => {
        $crate::matmul_kernels! { $(#[$doc])* $name, $e, $t, $d, can_split = false }

        $crate::instances! { $($rest)* }
    };
    ($(#[$doc:meta])* $name:ident: zip($f:ty, $a:ty, $b:ty) -> $u:ty; $($rest:tt)*) => {
        $(#[$doc])*
        #[doc = concat!("`out[i] = f.apply((a[i], b[i]))` by `", stringify!($f), "`: see `kernels_gpu::elementwise::map::zip`.")]
        #[::cuda_std::kernel(block = $crate::elementwise::map::BLOCK)]
        pub fn $name(
            index: ::cuda_std::prelude::ThreadIndex,
            f: $f,
            a: &[$a],
            b: &[$b],
            mut out: ::cuda_std::prelude::DisjointSlice<$u>,
        ) {
            let apply = |a, b| $crate::functor::Functor::<($a, $b)>::apply(f, (a, b));
            $crate::elementwise::map::zip(index, a, b, &mut out, apply);
        }

        #[cfg(not(target_os = "cuda"))]
        impl $crate::functor::ZipKernel<$a, $b> for $f {
            fn launch<L: ::cuda_std::launch::Launch>(
                self,
                on: &L,
                grid: ::cuda_std::launch::Grid1,
                a: &impl ::cuda_std::launch::DeviceRead<$a>,
                b: &impl ::cuda_std::launch::DeviceRead<$b>,
                out: &mut impl ::cuda_std::launch::DeviceWrite<$u>,
            ) -> ::core::result::Result<(), L::Error> {
                $name::launch(on, grid, self, a, b, out)
            }
        }

        $crate::instances! { $($rest)* }
    };
    ($(#[$doc:meta])* $name:ident: reduce($f:ty, $t:ty) -> $u:ty; $($rest:tt)*) => {
        $(#[$doc])*
        #[doc = concat!("`x: [n]` reduced by `", stringify!($f), "` into `out[0]`: see `kernels_gpu::reduce::whole_to`.")]
        #[::cuda_std::kernel(dependent, max_registers = $crate::reduce::REGISTERS)]
        pub fn $name(
            mut block: ::cuda_std::prelude::Block<{ $crate::reduce::BLOCK as usize }>,
            index: ::cuda_std::prelude::ThreadIndex,
            operator: $f,
            x: &[$t],
            partials: ::cuda_std::prelude::AtomicSlice<u32>,
            finished: ::cuda_std::prelude::AtomicSlice<u32>,
            mut out: ::cuda_std::prelude::DisjointSlice<$u>,
        ) {
            $crate::reduce::whole_to(&mut block, index, operator, x, partials, finished, &mut out);
        }

        #[cfg(not(target_os = "cuda"))]
        impl $crate::functor::ReduceKernel for $f {
            fn launch<L: ::cuda_std::launch::Launch>(
                self,
                on: &L,
                grid: ::cuda_std::launch::Grid1,
                x: &impl ::cuda_std::launch::DeviceRead<$t>,
                partials: &mut impl ::cuda_std::launch::DeviceWrite<u32>,
                finished: &mut impl ::cuda_std::launch::DeviceWrite<u32>,
                out: &mut impl ::cuda_std::launch::DeviceWrite<$u>,
            ) -> ::core::result::Result<(), L::Error> {
                $name::launch(on, grid, self, x, partials, finished, out)
            }
        }

        $crate::instances! { $($rest)* }
    };
    ($(#[$doc:meta])* $name:ident: select($f:ty, $t:ty); $($rest:tt)*) => {
        $(#[$doc])*
        #[doc = concat!("The elements of `x: [n]` that `", stringify!($f), "` keeps: see `kernels_gpu::select::select_grid`.")]
        ///
        /// # Safety
        /// The words of `states` are 0, or as the last scan or selection left the same words.
        #[::cuda_std::kernel(
            dependent,
            max_registers = $crate::select::MAX_REGISTERS,
            dynamic_shared = $crate::select::LEAST_SHARED_BYTES..=$crate::select::MOST_SHARED_BYTES
        )]
        pub unsafe fn $name(
            block: ::cuda_std::prelude::Block<{ $crate::select::BLOCK }>,
            predicate: $f,
            x: &[$t],
            split: bool,
            states: ::cuda_std::prelude::AtomicSlice<u64>,
            out: ::cuda_std::prelude::DisjointSlice<$t>,
            count: ::cuda_std::prelude::AtomicSlice<u64>,
        ) {
            let keeps = move |x: $t| $crate::functor::Predicate::<$t>::keeps(predicate, x);
            let marks = $crate::scan::marks::Where(keeps);
            // SAFETY: the caller's promise for the states, and the predicate does not panic, as its trait asks.
            unsafe { $crate::select::select_grid(block, x, marks, split, states, out, count) }
        }

        #[cfg(not(target_os = "cuda"))]
        impl $crate::functor::SelectKernel<$t> for $f {
            unsafe fn launch<L: ::cuda_std::launch::Launch>(
                self,
                on: &L,
                grid: ::cuda_std::launch::Grid1,
                x: &impl ::cuda_std::launch::DeviceRead<$t>,
                split: bool,
                states: &mut impl ::cuda_std::launch::DeviceWrite<u64>,
                out: &mut impl ::cuda_std::launch::DeviceWrite<$t>,
                count: &mut impl ::cuda_std::launch::DeviceWrite<u64>,
            ) -> ::core::result::Result<(), L::Error> {
                // SAFETY: the caller's promise.
                unsafe { $name::launch(on, grid, self, x, split, states, out, count) }
            }
        }

        $crate::instances! { $($rest)* }
    };
}
