//! Attribute macros of `cuda_std`. Use them through `cuda_std`, which re-exports them all.

mod gpu_only;
mod kernel;
mod shared;

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
/// | any other type | the value itself; it must be `bytemuck::NoUninit` |
///
/// The types are recognised by the last word of their path, so an alias of `DisjointSlice` is not.
/// A kernel has no `self`, no `&mut` and returns nothing.
///
/// # Contract
///
/// `#[kernel(block = 256)]` fixes the block: the launch then takes a number of blocks. The other
/// demands are `max_threads`, `min_blocks`, `max_registers`, `cluster`, `cooperative` and
/// `dynamic_shared`; `cuda_std::contract` says what each means.
///
/// # Instances
///
/// A generic kernel lists its instances: `#[kernel(f32, f64)]` for one parameter,
/// `#[kernel((f32, Sum), (i32, Max))]` for several; a constant parameter takes a literal or a block.
/// Each becomes an entry of its own, `axpy_f32`. Beside the function then stands a type of its name in
/// place of the module: `axpy::<f32>::launch`, `axpy::<f32>::KERNEL`. The contract may use the
/// parameters.
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

/// Keeps a function's body for the GPU. On the host its twin panics with a message that says so.
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

/// An array in shared memory, one for each block: `shared_array![f32; 256]`.
///
/// The expression has type `cuda_std::shared::SharedArray<f32, 256>`; see there for how to use it.
///
/// Each place in the source is one array: two places are two arrays, and one place is the same array
/// however often, and by whichever threads, it is reached. Like a `static`, it cannot depend on the
/// generic parameters of the function around it; `SharedArray::numbered` can. Type and length name
/// only what the module around names, no item of a function's body.
#[proc_macro]
pub fn shared_array(input: TokenStream) -> TokenStream {
    shared::expand(input.into()).into()
}
