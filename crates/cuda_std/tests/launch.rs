//! The typed launcher, against a mock that records what it is handed.

mod mock;

use cuda_std::launch::{
    DevicePtr, DeviceRead, DeviceWrite, Instance, LaunchConfig, Linear, ParamKind, Planar,
};
use cuda_std::prelude::*;
use mock::{Buffer, Launched, Recorder};

fn bytes_of(value: impl bytemuck::NoUninit) -> Vec<u8> {
    bytemuck::bytes_of(&value).to_vec()
}

#[kernel]
fn saxpy(index: ThreadIndex, alpha: f32, x: &[f32], mut y: DisjointSlice<f32>) {
    if let Some(y) = y.get_mut(index) {
        *y += alpha * x[index.get()];
    }
}

#[test]
fn a_launch_passes_scalars_and_slices_in_order() {
    let gpu = Recorder::default();
    let (x, mut y) = (Buffer::new(0x1000, 5).at_home("x"), Buffer::new(0x2000, 5).at_home("y"));
    let Ok(()) = saxpy::launch(&gpu, LaunchConfig::for_num_elems(5), 2.0, &x, &mut y);
    let expected = Launched {
        name: "saxpy",
        config: Linear::new(1, 256).into(),
        values: vec![
            bytes_of(2.0f32),
            bytes_of(0x1000u64),
            bytes_of(5usize),
            bytes_of(0x2000u64),
            bytes_of(5usize),
        ],
        homes: vec!["x", "y"],
    };
    assert_eq!(gpu.only(), expected);
}

#[test]
fn the_description_names_every_ptx_parameter() {
    let params: Vec<_> =
        saxpy::KERNEL.params.iter().map(|p| (p.name, p.kind, p.size_bytes)).collect();
    let expected = [
        ("alpha", ParamKind::Value, 4),
        ("x_ptr", ParamKind::Pointer, 8),
        ("x_len", ParamKind::Length, 8),
        ("y_ptr", ParamKind::Pointer, 8),
        ("y_len", ParamKind::Length, 8),
    ];
    assert_eq!(params, expected);
}

#[kernel]
fn empty() {}

#[test]
fn a_kernel_without_parameters_takes_any_shape() {
    let configs = [
        LaunchConfig::from(Linear::new(2, 64)),
        Planar::new((2, 3), (8, 4)).into(),
        LaunchConfig { grid: (1, 2, 3), block: (4, 5, 6), shared_mem_bytes: 7 },
    ];
    for config in configs {
        let gpu = Recorder::default();
        let Ok(()) = empty::launch(&gpu, config);
        let launched = gpu.only();
        assert_eq!((launched.config, launched.values.len()), (config, 0));
    }
}

#[kernel]
fn brighten(mut image: DisjointGrid<u8>, index: ThreadIndex2, by: &u8) {
    if let Some(pixel) = image.get_mut(index) {
        *pixel = pixel.saturating_add(*by);
    }
}

#[test]
fn a_grid_passes_its_width_and_height() {
    let gpu = Recorder::default();
    let (mut image, by) = (Buffer::new(0x100, 12), Buffer::new(0x200, 1));
    let Ok(()) = brighten::launch(&gpu, LaunchConfig::for_grid(6, 2), &mut image, &by);
    let launched = gpu.only();
    assert_eq!(launched.config.block, (32, 8, 1));
    let expected = [bytes_of(0x100u64), bytes_of(6usize), bytes_of(2usize), bytes_of(0x200u64)];
    assert_eq!(launched.values, expected);
}

#[repr(C)]
#[derive(Clone, Copy, bytemuck::NoUninit)]
struct Shape {
    rows: u32,
    cols: u32,
    scale: [f32; 3],
}

/// Sums rows through raw pointers.
///
/// # Safety
/// `out` holds a value for each row.
#[kernel]
unsafe fn row_sums(x: *const f32, out: *mut f32, shape: Shape, flag: bool) {
    let _ = (x, out, shape, flag);
}

#[test]
fn an_unsafe_kernel_takes_addresses_and_structs() {
    let gpu = Recorder::default();
    let shape = Shape { rows: 1, cols: 2, scale: [0.5, 0.25, 4.0] };
    let (x, out) = (DevicePtr::from_raw(0xabc0), DevicePtr::null());
    // SAFETY: the mock launcher follows no address.
    let Ok(()) = unsafe { row_sums::launch(&gpu, Linear::new(1, 1), x, out, shape, true) };
    let expected = [bytes_of(0xabc0u64), bytes_of(0u64), bytes_of(shape), vec![1]];
    assert_eq!(gpu.only().values, expected);
}

#[test]
fn an_empty_slice_is_not_null() {
    let gpu = Recorder::default();
    let (x, mut y) = (Buffer::new(0, 0), Buffer::new(0, 0));
    let Ok(()) = saxpy::launch(&gpu, LaunchConfig::for_num_elems(0), 2.0, &x, &mut y);
    let launched = gpu.only();
    assert!(launched.config.is_empty());
    assert_eq!(launched.values[1], bytes_of(4u64));
    assert_eq!(launched.values[2], bytes_of(0usize));
}

#[test]
fn the_kernel_is_an_ordinary_function_on_the_host() {
    let (x, mut y) = ([1.0, 2.0, 3.0], [10.0, 20.0, 30.0]);
    for i in 0..4 {
        // SAFETY: one thread, and every index once.
        let index = unsafe { ThreadIndex::new(i, 4) };
        // SAFETY: `y` is borrowed for the call.
        let y = unsafe { DisjointSlice::from_raw_parts(y.as_mut_ptr(), y.len()) };
        saxpy(index, 2.0, &x, y);
    }
    assert_eq!(y, [12.0, 24.0, 36.0]);
}

/// The launcher's own names do not clash with the kernel's.
#[kernel]
fn clash(on: f32, config: u32, args: u8) {
    let _ = (on, config, args);
}

#[test]
fn parameter_names_are_the_users() {
    let gpu = Recorder::default();
    let Ok(()) = clash::launch(&gpu, Linear::new(1, 1), 1.0, 2, 3);
    assert_eq!(gpu.only().values, [bytes_of(1.0f32), bytes_of(2u32), bytes_of(3u8)]);
}

trait Widen: Copy {
    type Wide: From<Self> + Copy + 'static;
}

impl Widen for u8 {
    type Wide = u32;
}

impl Widen for f32 {
    type Wide = f64;
}

#[kernel(u8, f32)]
fn copy<T: Widen>(index: ThreadIndex, x: &[T], mut out: DisjointSlice<T>) {
    if let Some(out) = out.get_mut(index) {
        *out = x[index.get()];
    }
}

#[kernel((u8, 3), (f32, 1))]
fn widen<T: Widen, const N: usize>(
    index: ThreadIndex,
    x: &[[T; N]],
    mut out: DisjointSlice<<T as Widen>::Wide>,
) {
    if let Some(out) = out.get_mut(index) {
        *out = x[index.get()][N - 1].into();
    }
}

/// No bound on `T`: what is an instance has what the kernel asks of it.
fn copied<T>(gpu: &Recorder, x: &impl DeviceRead<T>, out: &mut impl DeviceWrite<T>)
where
    copy<T>: Instance,
{
    let Ok(()) = copy::<T>::launch(gpu, Linear::new(1, 32), x, out);
}

/// Here the launcher's argument needs the bound for its type.
fn widened<T: Widen, const N: usize>(
    gpu: &Recorder,
    x: &impl DeviceRead<[T; N]>,
    out: &mut impl DeviceWrite<T::Wide>,
) -> &'static str
where
    widen<T, N>: Instance,
{
    let Ok(()) = widen::<T, N>::launch(gpu, Linear::new(1, 32), x, out);
    widen::<T, N>::KERNEL.name
}

#[test]
fn generic_code_launches_the_instance_of_its_type() {
    let gpu = Recorder::default();
    copied(&gpu, &Buffer::<u8>::new(0x100, 5), &mut Buffer::new(0x200, 5));
    assert_eq!(gpu.only().name, "copy_u8");
    let gpu = Recorder::default();
    copied(&gpu, &Buffer::<f32>::new(0x100, 5), &mut Buffer::new(0x200, 5));
    assert_eq!(gpu.only().name, "copy_f32");
    let gpu = Recorder::default();
    let name = widened(&gpu, &Buffer::<[u8; 3]>::new(0x100, 5), &mut Buffer::new(0x200, 5));
    assert_eq!((name, gpu.only().name), ("widen_u8_3", "widen_u8_3"));
}

/// Aliases of the types whose names they bear.
mod honest_aliases {
    use cuda_std::kernel;

    pub type Block<const N: usize> = cuda_std::block::Block<N>;
    pub type DisjointSlice<'a, T> = cuda_std::disjoint::DisjointSlice<'a, T>;
    pub type Shared<L> = cuda_std::shared::Shared<L>;
    pub use cuda_std::index::ThreadIndex2 as Other;
    pub mod inner {
        pub use super::Other as ThreadIndex2;
    }

    #[kernel]
    pub fn aliased(
        _block: Block<64>,
        _index: inner::ThreadIndex2,
        _tile: Shared<[f32; 64]>,
        _out: DisjointSlice<'_, f32>,
    ) {
    }
}

#[test]
fn an_alias_of_the_type_that_it_is_named_after_is_that_type() {
    let contract = honest_aliases::aliased::KERNEL.contract;
    assert_eq!((contract.block, contract.index), (Some((64, 1, 1)), Some(2)));
    assert_eq!(contract.dynamic_element_bytes, None);
}
