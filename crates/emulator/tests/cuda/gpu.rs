//! What the tests share: modules, buffers, launches, numbers by chance.

use emulator::{Checks, Device, Function, Launch, Module, Profile, Trap};
use std::marker::PhantomData;
use std::sync::Arc;

/// A device with a module.
pub struct Gpu {
    pub device: Arc<Device>,
    pub module: Arc<Module>,
}

impl Gpu {
    /// A device with two CPU threads and every check on: none of the kernels does anything wrong
    /// but those that are made for it.
    pub fn new(ptx: &str) -> Self {
        let checks = Checks::ALL;
        let device = Device::new(Profile { worker_threads: 2, checks, ..Profile::hopper() });
        let module = device.load(ptx).unwrap_or_else(|error| panic!("{error}"));
        Self { device, module }
    }

    pub fn buffer<T: Plain>(&self, values: &[T]) -> Buffer<T> {
        let bytes: Vec<u8> = values.iter().flat_map(Plain::bytes).collect();
        let address = self.device.memory().alloc(bytes.len().max(1) as u64).unwrap();
        self.device.memory().write(address, &bytes).unwrap();
        Buffer { device: Arc::clone(&self.device), address, count: values.len(), kind: PhantomData }
    }

    /// A kernel that has to end well.
    #[track_caller]
    pub fn run(&self, name: &str, grid: impl Dim, block: impl Dim, args: &[&dyn Arg]) {
        self.launch(name, (grid, block, 0), args).unwrap_or_else(|trap| panic!("{trap}"));
    }

    /// A kernel, with dynamic shared memory behind its shape.
    #[allow(clippy::result_large_err)]
    #[track_caller]
    pub fn launch(
        &self,
        name: &str,
        (grid, block, dynamic_shared_bytes): (impl Dim, impl Dim, u32),
        args: &[&dyn Arg],
    ) -> Result<(), Trap> {
        let function = self.module.function(name).unwrap_or_else(|| panic!("no kernel `{name}`"));
        let params = params(&function, args);
        let (grid, block) = (grid.dim(), block.dim());
        let launch =
            Launch { grid, block, dynamic_shared_bytes, params: &params, ..Launch::new(&function) };
        self.device.launch(&launch).map(|_| ())
    }
}

/// The block of parameters, each where the kernel wants it.
#[track_caller]
fn params(function: &Function, args: &[&dyn Arg]) -> Vec<u8> {
    assert_eq!(args.len(), function.params.len(), "arguments of `{}`", function.name);
    let mut out = vec![0; function.param_bytes];
    for (param, arg) in function.params.iter().zip(args) {
        let bytes = arg.arg();
        assert_eq!(bytes.len(), param.size, "an argument of `{}`", function.name);
        out[param.offset..param.offset + param.size].copy_from_slice(&bytes);
    }
    out
}

/// Extents.
pub trait Dim {
    fn dim(self) -> [u32; 3];
}

impl Dim for u32 {
    fn dim(self) -> [u32; 3] {
        [self, 1, 1]
    }
}

impl Dim for [u32; 2] {
    fn dim(self) -> [u32; 3] {
        [self[0], self[1], 1]
    }
}

/// A number of fixed size.
pub trait Plain: Copy {
    const BYTES: usize;
    fn bytes(&self) -> Vec<u8>;
    fn of(bytes: &[u8]) -> Self;
}

/// An argument of a kernel.
pub trait Arg {
    fn arg(&self) -> Vec<u8>;
}

macro_rules! plain {
    ($($ty:ty)*) => {$(
        impl Plain for $ty {
            const BYTES: usize = size_of::<$ty>();
            fn bytes(&self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
            fn of(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().unwrap())
            }
        }
        impl Arg for $ty {
            fn arg(&self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
        }
    )*};
}

plain!(u8 u16 u32 u64 i32 i64 f32 f64);

impl Arg for Vec<u8> {
    fn arg(&self) -> Vec<u8> {
        self.clone()
    }
}

/// Device memory that holds numbers.
pub struct Buffer<T> {
    device: Arc<Device>,
    pub address: u64,
    count: usize,
    kind: PhantomData<T>,
}

impl<T: Plain> Buffer<T> {
    pub fn read(&self) -> Vec<T> {
        let mut bytes = vec![0; self.count * T::BYTES];
        self.device.memory().read(self.address, &mut bytes).unwrap();
        bytes.chunks_exact(T::BYTES).map(T::of).collect()
    }
}

impl<T> Arg for Buffer<T> {
    fn arg(&self) -> Vec<u8> {
        self.address.to_le_bytes().to_vec()
    }
}

/// Numbers by chance, the same in every run.
pub struct Chance(pub u64);

impl Chance {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    /// Between -1 and 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 52) as f64 - 1.
    }

    pub fn floats(&mut self, count: usize, scale: f64) -> Vec<f32> {
        (0..count).map(|_| (self.unit() * scale) as f32).collect()
    }

    pub fn doubles(&mut self, count: usize, scale: f64) -> Vec<f64> {
        (0..count).map(|_| self.unit() * scale).collect()
    }

    pub fn words(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.bits() as u32).collect()
    }
}

/// Blocks that cover `count` threads.
pub fn blocks(count: usize, threads: u32) -> u32 {
    (count as u32).div_ceil(threads)
}

/// Units in the last place of f32 between two numbers; NaNs are equal.
pub fn ulps(found: f32, expected: f32) -> u64 {
    if found.is_nan() && expected.is_nan() {
        return 0;
    }
    let ordered = |x: f32| {
        let bits = i64::from(x.to_bits());
        if bits >> 31 & 1 != 0 { 0x8000_0000 - bits } else { bits }
    };
    ordered(found).abs_diff(ordered(expected))
}
