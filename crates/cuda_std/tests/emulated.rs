//! What the device library does, on the emulated GPU, launched by the typed launchers.

mod compiled;
#[path = "kernels/src/lib.rs"]
#[allow(missing_docs)]
mod kernels;

use bytemuck::Pod;
use compiled::PTX;
use cuda_std::launch::{
    Args, DevicePtr, DeviceRead, DeviceReadOne, DeviceWrite, DeviceWriteGrid, Kernel, Launch,
    LaunchConfig, Linear, RawSlice,
};
use emulator::{Device, Module, Profile, Trap};
use kernels::{atomics, parameters, shared, warps};
use std::marker::PhantomData;
use std::sync::{Arc, LazyLock};

/// Lanes of a warp.
const WARP: usize = 32;

/// An emulated GPU with the kernels loaded.
struct Gpu {
    device: Arc<Device>,
    module: Arc<Module>,
}

static GPU: LazyLock<Gpu> = LazyLock::new(|| {
    let device = Device::new(Profile::hopper());
    let module = device.load(&PTX).unwrap_or_else(|error| panic!("{error}"));
    Gpu { device, module }
});

impl Launch for Gpu {
    type Error = Box<Trap>;

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args,
    ) -> Result<(), Box<Trap>> {
        let function = self.module.function(kernel.name).expect(kernel.name);
        assert_eq!(function.params.len(), kernel.params.len(), "{}", kernel.name);
        let mut params = vec![0; function.param_bytes];
        for ((place, value), bytes) in
            function.params.iter().zip(args.pointers()).zip(args.sizes_bytes())
        {
            assert_eq!(place.size, bytes, "{}", kernel.name);
            let to = params[place.offset..][..bytes].as_mut_ptr();
            // SAFETY: `Args` holds `bytes` bytes at `value`, and there is room for them.
            unsafe { to.copy_from_nonoverlapping(value.cast(), bytes) };
        }
        let launch = emulator::Launch {
            grid: [config.grid.0, config.grid.1, config.grid.2],
            block: [config.block.0, config.block.1, config.block.2],
            dynamic_shared_bytes: config.shared_mem_bytes,
            params: &params,
            ..emulator::Launch::new(&function)
        };
        self.device.launch(&launch).map(drop).map_err(Box::new)
    }
}

/// Device memory of the emulated GPU; it is not given back.
struct Buffer<T> {
    address: u64,
    len: usize,
    width: usize,
    element: PhantomData<T>,
}

impl<T: Pod> Buffer<T> {
    fn new(data: &[T]) -> Self {
        let memory = GPU.device.memory();
        let bytes: &[u8] = bytemuck::cast_slice(data);
        // Like cust's buffers, an empty one has no address.
        let address = if data.is_empty() { 0 } else { memory.alloc(bytes.len() as u64).unwrap() };
        memory.write(address, bytes).unwrap();
        Self { address, len: data.len(), width: data.len(), element: PhantomData }
    }

    /// The same memory as rows.
    fn rows_of(self, width: usize) -> Self {
        Self { width, ..self }
    }

    fn read(&self) -> Vec<T> {
        let mut data = vec![T::zeroed(); self.len];
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut data);
        GPU.device.memory().read(self.address, bytes).unwrap();
        data
    }

    fn pointer(&self) -> DevicePtr<T> {
        DevicePtr::from_raw(self.address)
    }

    fn raw_slice(&self) -> RawSlice {
        RawSlice { address: self.address, len: self.len, home: None }
    }
}

// SAFETY: the emulator's memory lives as long as the process.
unsafe impl<T: Pod> DeviceRead<T> for Buffer<T> {
    fn raw(&self) -> RawSlice {
        self.raw_slice()
    }
}

// SAFETY: as above.
unsafe impl<T: Pod> DeviceReadOne<T> for Buffer<T> {
    fn raw_one(&self) -> RawSlice {
        assert_eq!(self.len, 1);
        self.raw_slice()
    }
}

// SAFETY: as above.
unsafe impl<T: Pod> DeviceWrite<T> for Buffer<T> {
    fn raw_mut(&mut self) -> RawSlice {
        self.raw_slice()
    }
}

// SAFETY: as above.
unsafe impl<T: Pod> DeviceWriteGrid<T> for Buffer<T> {
    fn raw_grid(&mut self) -> (RawSlice, usize, usize) {
        (self.raw_slice(), self.width, self.len / self.width)
    }
}

/// Panics with the trap's own words.
fn run(result: Result<(), Box<Trap>>) {
    result.unwrap_or_else(|trap| panic!("{trap}"));
}

#[test]
fn saxpy_covers_every_size() {
    for n in [0, 1, 31, 32, 33, 255, 256, 257, 1009] {
        let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
        let (x_gpu, mut y_gpu) = (Buffer::new(&x), Buffer::new(&vec![0.5f32; n]));
        let config = LaunchConfig::for_num_elems(n);
        if n > 0 {
            run(parameters::saxpy::launch(&*GPU, config, 2.0, &x_gpu, &mut y_gpu));
        }
        let expected: Vec<f32> = x.iter().map(|x| 2.0 * x + 0.5).collect();
        assert_eq!(y_gpu.read(), expected, "{n} elements");
    }
}

#[test]
fn a_kernel_for_rust_cuda_runs() {
    let a: Vec<f32> = (0..300).map(|i| i as f32).collect();
    let (a_gpu, c) = (Buffer::new(&a), Buffer::new(&[0.0f32; 300]));
    // SAFETY: `c` is as long as the inputs.
    run(unsafe {
        parameters::vecadd::launch(&*GPU, Linear::new(3, 128), &a_gpu, &a_gpu, c.pointer())
    });
    assert_eq!(c.read(), a.iter().map(|x| x + x).collect::<Vec<_>>());
}

#[test]
fn an_index_past_the_end_is_a_trap() {
    let (x, mut y) = (Buffer::new(&[1.0f32; 5]), Buffer::new(&[0.0f32; 6]));
    let result = parameters::saxpy::launch(&*GPU, Linear::new(1, 32), 2.0, &x, &mut y);
    let trap = result.expect_err("element 5 of 5 was read").to_string();
    assert!(trap.contains("saxpy") && trap.contains("thread (5,0,0)"), "{trap}");
}

#[test]
fn vectors_cover_every_element() {
    for n in [0usize, 1, 4, 7, 128, 1001] {
        let x: Vec<f32> = (0..n).map(|i| (i % 16) as f32).collect();
        let (x_gpu, mut out) = (Buffer::new(&x), Buffer::new(&[f32::NAN; 64]));
        run(parameters::vector_sums::launch(&*GPU, Linear::new(2, 32), &x_gpu, &mut out));
        // Small integers: every order of addition is exact.
        assert_eq!(out.read().iter().sum::<f32>(), x.iter().sum::<f32>(), "{n} elements");
    }
}

#[test]
fn a_grid_is_covered_in_two_dimensions() {
    let pixels: Vec<u8> = (0..37 * 19).map(|i| i as u8).collect();
    let (mut image, by) = (Buffer::new(&pixels).rows_of(37), Buffer::new(&[100u8]));
    run(parameters::brighten::launch(&*GPU, LaunchConfig::for_grid(37, 19), &mut image, &by));
    let expected: Vec<u8> = pixels.iter().map(|p| p.saturating_add(100)).collect();
    assert_eq!(image.read(), expected);
}

#[test]
fn values_arrive_whole() {
    let out = Buffer::new(&[0u64]);
    let mixed = parameters::Mixed { byte: 3, word: 70_000, half: 500 };
    let vector = cuda_std::vector::Vec4::new(0.0f32, 9.0, 0.0, 0.0);
    let config = Linear::new(1, 1);
    // SAFETY: `out` is valid.
    run(unsafe {
        parameters::by_value::launch(
            &*GPU,
            config,
            1,
            true,
            mixed,
            vector,
            1 << 40,
            [0, 0, 11],
            out.pointer(),
        )
    });
    assert_eq!(out.read(), [1 + 1 + 3 + 70_000 + 500 + 9 + (1 << 40) + 11]);
}

#[test]
fn shared_arrays_keep_apart() {
    let (rounds, mut y) = (3, Buffer::new(&[0.0f32; 128]));
    run(shared::two_arrays::launch(&*GPU, Linear::new(2, 64), rounds, &mut y));
    let threads = (0..64).sum::<u32>() as f32;
    let expected = |thread: usize| -> f32 {
        let round = |round: u32| {
            let first = if thread == 0 { round as f32 + 0.5 } else { 0.0 };
            threads + 64.0 * round as f32 + 0.5 + first
        };
        (0..rounds).map(round).sum()
    };
    let expected: Vec<f32> = (0..128).map(|i| expected(i % 64)).collect();
    assert_eq!(y.read(), expected);
}

#[test]
fn one_place_is_one_array_in_both_arms() {
    let mut y = Buffer::new(&[0u32; 64]);
    run(shared::one_place::launch(&*GPU, Linear::new(1, 64), &mut y));
    let written = |i: u32| if i.is_multiple_of(2) { 2 * i } else { 3 * i };
    assert_eq!(y.read(), (0..64).map(|i| written(i ^ 1)).collect::<Vec<_>>());
}

#[test]
fn generic_and_dynamic_arrays_work() {
    let (mut y, mut z) = (Buffer::new(&[0u32; 128]), Buffer::new(&[0.0f64; 128]));
    run(shared::generic::launch(&*GPU, Linear::new(2, 64), &mut y, &mut z));
    let neighbours: Vec<u32> = (0..128).map(|i| i ^ 1).collect();
    assert_eq!(y.read(), neighbours);
    assert_eq!(z.read(), neighbours.iter().map(|&i| f64::from(i)).collect::<Vec<_>>());
    let mut y = Buffer::new(&[0u32; 128]);
    run(shared::dynamic::launch(&*GPU, Linear::new(2, 64).shared_mem(64 * 4), &mut y));
    assert_eq!(y.read(), neighbours);
}

#[test]
fn dynamic_memory_ends_where_the_launch_says() {
    let mut y = Buffer::new(&[0u32; 64]);
    let config = Linear::new(1, 64).shared_mem(63 * 4);
    let trap = shared::dynamic::launch(&*GPU, config, &mut y).expect_err("one word too few");
    assert!(trap.to_string().contains("thread (63,0,0)"), "{trap}");
}

#[test]
fn shared_counters_count() {
    let bytes: Vec<u8> = (0..10_000u32).map(|i| (i * i % 251) as u8).collect();
    let mut expected = [0u32; 256];
    bytes.iter().for_each(|&byte| expected[usize::from(byte)] += 1);
    let (bytes, mut counts) = (Buffer::new(&bytes), Buffer::new(&[0u32; 256]));
    run(shared::histogram::launch(&*GPU, Linear::new(5, 96), &bytes, &mut counts));
    assert_eq!(counts.read(), expected);
}

/// Runs a kernel of one warp; the result is a row of 32 lanes for each of its `rows` results.
fn warp_rows(
    rows: usize,
    launch: impl FnOnce(DevicePtr<u64>) -> Result<(), Box<Trap>>,
) -> Vec<Vec<u64>> {
    let out = Buffer::new(&vec![u64::MAX; rows * WARP]);
    run(launch(out.pointer()));
    out.read().chunks(WARP).map(<[u64]>::to_vec).collect()
}

/// What every lane computes.
fn lanes(f: impl Fn(u64) -> u64) -> Vec<u64> {
    (0..WARP as u64).map(f).collect()
}

#[test]
fn shuffles_reach_the_lane_they_name() {
    let rows = warp_rows(8, |out| {
        // SAFETY: one warp, and room for 8 results.
        unsafe { warps::shuffles::launch(&*GPU, Linear::new(1, 32), out) }
    });
    let joined = |lane: u64, source: u64, inside: bool| {
        (if inside { source } else { lane }) << 1 | u64::from(inside)
    };
    let expected = [
        lanes(|lane| joined(lane, lane.wrapping_sub(3), lane % 16 >= 3)),
        lanes(|lane| joined(lane, lane + 5, lane + 5 < 32)),
        lanes(|lane| joined(lane, lane ^ 8, lane ^ 8 <= lane | 7)),
        lanes(|lane| joined(lane, lane ^ 1, true)),
        lanes(|lane| joined(lane, lane / 16 * 16 + 3, true)),
        lanes(|_| 7 << 36),
        lanes(|lane| (lane + 1).min(31)),
        lanes(|lane| (lane as i64 - 1).max(0).wrapping_neg() as u64),
    ];
    for (k, (row, expected)) in rows.iter().zip(&expected).enumerate() {
        assert_eq!(row, expected, "result {k}");
    }
}

#[test]
fn votes_and_matches_agree() {
    let rows = warp_rows(9, |out| {
        // SAFETY: one warp, and room for 9 results.
        unsafe { warps::votes::launch(&*GPU, Linear::new(1, 32), out) }
    });
    let expected = [
        lanes(|_| 1),
        lanes(|_| 0),
        lanes(|_| 1),
        lanes(|_| 0x4924_9249),
        lanes(|lane| 0xf << (lane / 4 * 4)),
        lanes(|lane| 0xff << (lane / 8 * 8)),
        lanes(|_| 0xffff_ffff),
        lanes(|_| 0),
        lanes(|_| 0xffff_ffff),
    ];
    for (k, (row, expected)) in rows.iter().zip(&expected).enumerate() {
        assert_eq!(row, expected, "result {k}");
    }
}

#[test]
fn reductions_join_all_lanes() {
    let rows = warp_rows(9, |out| {
        // SAFETY: one warp, and room for 9 results.
        unsafe { warps::reductions::launch(&*GPU, Linear::new(1, 32), out) }
    });
    let expected = [496i64, -16, -16, 15, 0, 0xffff_ffff, 64, 31, 0xffff_ffff];
    for (k, (row, expected)) in rows.iter().zip(expected).enumerate() {
        assert_eq!(*row, vec![expected as u64; WARP], "result {k}");
    }
}

#[test]
fn barriers_count_their_threads() {
    let (grid, block) = ((2, 2, 1), (3, 5, 2));
    let config = LaunchConfig { grid, block, shared_mem_bytes: 0 };
    let threads = 30;
    let mut out = Buffer::new(&vec![u32::MAX; 4 * threads * 7]);
    run(warps::barriers::launch(&*GPU, config, &mut out));
    for (own, results) in out.read().chunks(7).enumerate() {
        let in_block = (own % threads) as u32;
        let expected = [15, 0, 1, in_block, threads as u32, u32::from(own == 0), 32];
        assert_eq!(results, expected, "thread {own}");
    }
}

#[test]
fn scoped_atomics_change_memory() {
    let words = Buffer::new(&[1u32, 7, -5i32 as u32, 6]);
    let wide = Buffer::new(&[4.0f64, 5.0]);
    let config = Linear::new(1, 1);
    // SAFETY: both are valid.
    run(unsafe { atomics::scoped::launch(&*GPU, config, words.pointer(), wide.pointer()) });
    assert_eq!(words.read(), [2, 7, -1i32 as u32, 7]);
    assert_eq!(wide.read(), [3.0, 1.0]);
}

#[test]
fn atomic_slices_change_their_elements() {
    let threads = 96;
    let mut floats = Buffer::new(&[0.0f32, -1.0]);
    let (mut ints, mut wide) = (Buffer::new(&[0i32, 0, 0]), Buffer::new(&[1u64, 0]));
    let config = Linear::new(3, threads / 3);
    run(atomics::slices::launch(&*GPU, config, &mut floats, &mut ints, &mut wide));
    assert_eq!(floats.read()[0], 1.5 * threads as f32);
    assert!(floats.read()[1] >= 1.5);
    assert_eq!(ints.read(), [threads as i32, -7, -(threads as i32)]);
    assert_eq!(wide.read(), [7, 9]);
}
