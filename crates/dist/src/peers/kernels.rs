//! The kernels, by handles that work on every stream of the device.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::{DeviceRead, DeviceWrite, DeviceWritePitched, Instance, Kernel, RawSlice};
use ferrowarp::module::{Module, ModuleFunction};
use ferrowarp::{Gpu, shipped};
use kernels_gpu::peers::{all_reduce, all_reduce_lines, pass};

use crate::element::ElementKind;
use crate::error::DistResult;

/// Both all-reduces of a type.
#[derive(Clone)]
pub(super) struct Sums {
    pub(super) lines: ModuleFunction,
    pub(super) quads: ModuleFunction,
}

pub(super) struct Kernels {
    f32: Sums,
    f64: Sums,
    f16: Sums,
    bf16: Sums,
    i32: Sums,
    u64: Sums,
    pub(super) pass: ModuleFunction,
}

impl Kernels {
    /// Loads all of them. To load one takes the driver a moment in which it may wait for the device, and so for other ranks: it is
    /// better done before any rank waits. They are those that ship, whatever kernels the program has.
    pub(super) fn load(gpu: &Gpu) -> DistResult<Self> {
        let module = Module::of(&gpu.load_module(shipped::IMAGES));
        let function = |kernel: &Kernel| module.function(kernel.name);
        let sums = |lines, quads| -> DistResult<Sums> {
            Ok(Sums { lines: function(lines)?, quads: function(quads)? })
        };
        macro_rules! sums {
            ($ty:ty) => {
                sums(
                    <all_reduce_lines<$ty> as Instance>::KERNEL,
                    <all_reduce<$ty> as Instance>::KERNEL,
                )?
            };
        }
        Ok(Self {
            f32: sums!(f32),
            f64: sums!(f64),
            f16: sums!(f16),
            bf16: sums!(bf16),
            i32: sums!(i32),
            u64: sums!(u64),
            pass: function(&pass::KERNEL)?,
        })
    }

    /// Those that sum numbers of a kind. Integers wrap, so that signs do not matter.
    pub(super) fn sums(&self, kind: ElementKind) -> Option<&Sums> {
        match kind {
            ElementKind::F32 => Some(&self.f32),
            ElementKind::F64 => Some(&self.f64),
            ElementKind::F16 => Some(&self.f16),
            ElementKind::BF16 => Some(&self.bf16),
            ElementKind::I32 | ElementKind::U32 => Some(&self.i32),
            ElementKind::I64 | ElementKind::U64 => Some(&self.u64),
            ElementKind::I8 | ElementKind::U8 => None,
        }
    }
}

/// Memory by its address, which nothing orders but the stream of a launch.
#[derive(Clone, Copy)]
pub(crate) struct Unordered {
    address: u64,
    len: usize,
}

impl Unordered {
    /// # Safety
    /// `len` elements, of the type that a launch takes them for, are there until the work that is given them is done, and the
    /// streams of that work are in order with all other uses of them.
    pub(crate) unsafe fn new(address: u64, len: usize) -> Self {
        Self { address, len }
    }
}

// SAFETY: the promise of `new`.
unsafe impl<T> DeviceRead<T> for Unordered {
    fn raw(&self) -> RawSlice<'_> {
        RawSlice { address: self.address, len: self.len, home: None }
    }

    fn len(&self) -> usize {
        self.len
    }
}

// SAFETY: the promise of `new`.
unsafe impl<T> DeviceWrite<T> for Unordered {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        RawSlice { address: self.address, len: self.len, home: None }
    }

    fn len(&self) -> usize {
        self.len
    }
}

/// Rows without gaps, by their address, as [`Unordered`].
#[derive(Clone, Copy)]
pub(super) struct UnorderedRows {
    address: u64,
    width: usize,
    rows: usize,
}

impl UnorderedRows {
    /// # Safety
    /// As of [`Unordered::new`], for the `width` elements of each of the rows.
    pub(super) unsafe fn new(address: u64, width: usize, rows: usize) -> Self {
        Self { address, width, rows }
    }
}

// SAFETY: the promise of `new`.
unsafe impl<T> DeviceWritePitched<T> for UnorderedRows {
    fn raw_pitched(&mut self) -> (RawSlice<'_>, usize, usize, usize) {
        let Self { address, width, rows } = *self;
        (RawSlice { address, len: rows * width, home: None }, width, rows, width)
    }
}
