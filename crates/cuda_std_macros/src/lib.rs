//! Attribute macros of `cuda_std`. Use them through `cuda_std`, which re-exports them all.

mod address_space;
mod externally_visible;
mod gpu_only;
mod kernel;
mod repeat;
mod shared;
mod statics;

use proc_macro::TokenStream;

/// Makes a function a GPU kernel: an entry point on the device, a typed launcher on the host.
///
/// On the device the function becomes a PTX entry of its own name. On the host it stays an ordinary
/// function, and beside it stands a module of the same name with `launch`, which starts the kernel,
/// and `KERNEL`, which describes it.
///
/// # Parameters
///
/// | parameter | what the launcher takes |
/// |---|---|
/// | `ThreadIndex`, `ThreadIndex2` or `ThreadIndex3` (at most one) | nothing; the grid has one, two or three dimensions |
/// | `Block<X, Y, Z>` (at most one), `Shared<…>` | nothing; the token fixes the block |
/// | `&[T]` | `&impl DeviceRead<T>`: a reference to a device buffer |
/// | `&T` | `&impl DeviceReadOne<T>`: a reference to one value on the device |
/// | `DisjointSlice<T>`, `DisjointVectors<T, N>`, `DisjointChunks<T, N>`, `AtomicSlice<T>` | `&mut impl DeviceWrite<T>` |
/// | `DisjointGrid<T>` | `&mut impl DeviceWriteGrid<T>` |
/// | `DisjointPitched<T>` | `&mut impl DeviceWritePitched<T>` |
/// | `DisjointVolume<T>` | `&mut impl DeviceWriteVolume<T>` |
/// | `*const T`, `*mut T` (only in an `unsafe fn`) | `DevicePtr<T>` |
/// | `GridConstant<T>` (the first, in an `unsafe fn`) | a `T`, which the kernel reads where the launch put it |
/// | any other type | the value itself; it must be `bytemuck::NoUninit` |
///
/// The types are recognised by the last segment of their path. An alias of `DisjointSlice` with another name is not
/// recognised, and an alias with the name of another type does not compile: a parameter has the type that it is named
/// after. A kernel has no `self`, no `&mut`, no named lifetimes, and returns nothing: its arguments are lent for one
/// launch.
///
/// The arrays `Shared<…>` of a kernel have at most 48 KiB together, which is all that a GPU gives to what is declared;
/// more does not compile. A slice, `Shared<[T]>`, has what the launch gives it: `.shared_mem(bytes)`.
///
/// A value whose type has no size, such as a functor without captured values, is passed too, and costs nothing: the PTX
/// entry has no parameter for it.
///
/// In the body, `static mut TILE: SharedArray<f32, 256> = SharedArray::UNINIT;` is an array in shared memory; see
/// `cuda_std::shared::SharedArray`.
///
/// # Contract
///
/// `#[kernel(block = 256)]` fixes the block: the launch then takes a number of blocks. The other
/// demands are `max_threads`, `min_blocks`, `max_registers`, `cluster`, `cooperative`, `dependent`
/// and `dynamic_shared`; `cuda_std::contract` says what each means.
///
/// # Instances
///
/// A generic kernel lists its instances: `#[kernel(f32, f64)]` for one parameter,
/// `#[kernel((f32, Sum), (i32, Max))]` for several; a constant parameter takes a literal or a block.
/// Each becomes an entry of its own, `axpy_f32`. Beside the function then stands a type of its name in
/// place of the module: `axpy::<f32>::launch`, `axpy::<f32>::KERNEL`. The contract may use the
/// parameters. Generic code asks for an instance with the bound `axpy<T>: cuda_std::launch::Instance`.
///
/// ```
/// use cuda_std::prelude::*;
///
/// #[kernel((f32, 4), (f64, 2), block = 256 / N)]
/// pub fn sums<T: Copy + core::ops::AddAssign, const N: usize>(
///     index: ThreadIndex,
///     x: &[[T; N]],
///     mut out: DisjointSlice<T>,
/// ) {
///     if let Some(out) = out.get_mut(index) {
///         for value in x[index.get()] {
///             *out += value;
///         }
///     }
/// }
///
/// # fn main() {
/// assert_eq!(sums::<f64, 2>::KERNEL.name, "sums_f64_2");
/// assert_eq!(sums::<f64, 2>::KERNEL.contract.threads(), Some(128));
/// # }
/// ```
///
/// # Example
///
/// ```
/// use cuda_std::prelude::*;
///
/// #[kernel]
/// pub fn saxpy(index: ThreadIndex, alpha: f32, x: &[f32], mut y: DisjointSlice<f32>) {
///     if let Some(y) = y.get_mut(index) {
///         *y += alpha * x[index.get()];
///     }
/// }
///
/// # fn main() {
/// // The host's side: a description, and `saxpy::launch(on, config, alpha, &x, &mut y)`.
/// let names: Vec<_> = saxpy::KERNEL.params.iter().map(|param| param.name).collect();
/// assert_eq!(names, ["alpha", "x_ptr", "x_len", "y_ptr", "y_len"]);
/// # }
/// ```
///
/// `cuda_std::launch` shows how the host calls it.
#[proc_macro_attribute]
pub fn kernel(attributes: TokenStream, item: TokenStream) -> TokenStream {
    kernel::expand(attributes.into(), item.into()).into()
}

/// Takes what [`macro@kernel`] takes and leaves the function: no entry in the PTX, no launcher.
///
/// A kernel crate that others also take as a library of bodies has a feature for its entries, and a prelude that
/// chooses; its kernels are written once.
///
/// ```
/// mod prelude {
///     pub use cuda_std::prelude::*;
///     # // A feature of the crate: `#[cfg(not(feature = "entries"))]`.
///     pub use cuda_std::kernel_body as kernel;
/// }
/// use prelude::*;
///
/// #[kernel(f32, f64)]
/// pub fn double<T: Copy + core::ops::Add<Output = T>>(index: ThreadIndex, mut x: DisjointSlice<T>) {
///     if let Some(x) = x.get_mut(index) {
///         *x = *x + *x;
///     }
/// }
/// # fn main() {}
/// ```
///
/// A crate that depends on it with `default-features = false` calls `double::<f32>` from a kernel of its own, and has
/// that kernel alone in its PTX.
#[proc_macro_attribute]
pub fn kernel_body(attributes: TokenStream, item: TokenStream) -> TokenStream {
    kernel::body(attributes.into(), item.into()).into()
}

/// Compiles a function's body for the GPU only. On the host the function panics with a message that names it.
///
/// ```
/// # use cuda_std_macros::gpu_only;
/// #[gpu_only]
/// fn answer() -> u32 {
///     42
/// }
///
/// assert!(std::panic::catch_unwind(answer).is_err());
/// ```
#[proc_macro_attribute]
pub fn gpu_only(attributes: TokenStream, item: TokenStream) -> TokenStream {
    gpu_only::expand(attributes.into(), item.into()).into()
}

/// Puts a static into a memory of the GPU: `shared`, `constant` or `global`. On the host it stays an
/// ordinary static. Use it as `cuda_std::address_space`.
///
/// ```ignore
/// /// One array for each block; its type says that it has no value at first.
/// #[address_space(shared)]
/// static mut TILE: [MaybeUninit<f32>; 256] = [const { MaybeUninit::uninit() }; 256];
///
/// /// Read through the constant cache: fast where all lanes read the same place.
/// #[address_space(constant)]
/// static WEIGHTS: [f32; 5] = [1.0, 4.0, 6.0, 4.0, 1.0];
/// ```
///
/// - `shared`: a `static mut` of `SharedArray<T, N>` with the value `SharedArray::UNINIT`, or of `MaybeUninit` or arrays of
///   it: shared memory has no initial value. In the body of a kernel the first form needs no attribute.
///   [`shared_array!`] needs no `static`.
/// - `constant`: at most 64 KiB in a module. A `static mut` can be filled by the host before a
///   launch: with `#[unsafe(no_mangle)]` the module has it as a global of its name. A kernel that
///   writes it does not build.
/// - `global`: where every static lies anyway.
/// - `local`: refused; a local variable is what it would be.
///
/// The accesses compile to `ld.shared`, `st.shared` and `ld.const`: `cuda_builder` moves the static,
/// and refuses what it cannot follow, such as an address that is chosen between two memories.
#[proc_macro_attribute]
pub fn address_space(attributes: TokenStream, item: TokenStream) -> TokenStream {
    address_space::expand(attributes.into(), item.into()).into()
}

/// Keeps a function or static in the PTX under its own name, for the host or another module to find.
/// It needs `#[unsafe(no_mangle)]`, which gives the name.
///
/// ```
/// use cuda_std_macros::externally_visible;
///
/// #[externally_visible]
/// #[unsafe(no_mangle)]
/// static mut SCALE: f32 = 1.0;
/// ```
#[proc_macro_attribute]
pub fn externally_visible(attributes: TokenStream, item: TokenStream) -> TokenStream {
    externally_visible::expand(attributes.into(), item.into()).into()
}

/// An array in shared memory, one for each block: `shared_array![f32; 256]`.
///
/// The expression has type `cuda_std::shared::SharedArray<f32, 256>`; see there for how to use it.
/// `shared_array![f32; 256, align = 128]` is aligned to 128 bytes, and has type `SharedArray<f32, 256, 128>`.
///
/// Each place in the source is one array: two places are two arrays, and one place is the same array
/// however often, and by whichever threads, it is reached. Like a `static`, it cannot depend on the
/// generic parameters of the function around it; `SharedArray::numbered` can. Type and length name
/// only what the module around names, no item of a function's body. An array has at most 48 KiB.
#[proc_macro]
pub fn shared_array(input: TokenStream) -> TokenStream {
    shared::expand(input.into()).into()
}

/// A template for every combination of lists of words: how `cuda_std` declares its families of
/// functions.
///
/// ```
/// cuda_std_macros::repeat! {
///     for op in [add, sub]
///     for (size, ty) in [(32, u32), (64, u64)]
///     {
///         fn $[wrapping_ $op _ $size](a: $ty, b: $ty) -> $ty {
///             a.$[wrapping_ $op](b)
///         }
///     }
/// }
/// assert_eq!(wrapping_sub_32(1, 2), u32::MAX);
/// assert_eq!(wrapping_add_64(1, 2), 3);
/// ```
#[doc(hidden)]
#[proc_macro]
pub fn repeat(input: TokenStream) -> TokenStream {
    repeat::expand(input.into()).into()
}
