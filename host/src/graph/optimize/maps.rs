//! The shipped kernels of which it is known that each element of the output comes from the inputs' elements of that index,
//! and that all of the output is written: they may read and write other memory, and some are fused.

use crate::graph::operation::{KernelOperation, Operation};
use crate::graph::replay::Node;
use cuda_std::launch::Access;

/// A launch of such a kernel.
pub(super) struct Map {
    /// The uses that it reads, among the node's.
    pub(super) inputs: Vec<usize>,
    /// The use that it writes, all of it.
    pub(super) output: usize,
    pub(super) function: Function,
}

/// What it computes of each element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Function {
    /// `x & keep ^ flip` of elements of that many bytes.
    Bits {
        bytes: usize,
        keep: u64,
        flip: u64,
    },
    ScaleF32(f32),
    ScaleF64(f64),
    /// Anything else.
    Other,
}

impl Function {
    /// The function that does `self` and then `next`, if there is one that gives the same bits.
    pub(super) fn then(self, next: Self) -> Option<Self> {
        match (self, next) {
            (Self::Bits { bytes, keep, flip }, Self::Bits { bytes: size, keep: k, flip: f })
                if bytes == size =>
            {
                Some(Self::Bits { bytes, keep: keep & k, flip: flip & k ^ f })
            }
            // A factor of 1 or -1 changes no more than the sign, before the rounding or after it; a NaN has one form.
            (Self::ScaleF32(a), Self::ScaleF32(b)) if a.abs() == 1.0 || b.abs() == 1.0 => {
                Some(Self::ScaleF32(a * b))
            }
            (Self::ScaleF64(a), Self::ScaleF64(b)) if a.abs() == 1.0 || b.abs() == 1.0 => {
                Some(Self::ScaleF64(a * b))
            }
            _ => None,
        }
    }
}

impl Map {
    /// That of a node, if it is one.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let Operation::Kernel(kernel) = &node.work else { return None };
        let function = shipped::function(kernel)?;
        let with = |access: Access| {
            let uses = node.uses.iter().enumerate();
            uses.filter(move |(_, own)| own.part.access == access).map(|(at, _)| at)
        };
        let (inputs, mut outputs) = (with(Access::Read).collect::<Vec<_>>(), with(Access::Write));
        let output = outputs.next().filter(|_| outputs.next().is_none())?;
        // Behind an address is the number of elements, of the same size.
        let len = |at: &usize| kernel.args.address(node.uses[*at].part.value + 1);
        let elements = len(&output)?;
        let are_covered = inputs.iter().all(|at| len(at).is_some_and(|len| len >= elements));
        // An input of no bytes is not among the uses.
        let all = kernel.args.memory().len() == node.uses.len();
        (are_covered && all).then_some(Self { inputs, output, function })
    }
}

/// The launch `kernel` with another function, of the memory at `from`.
pub(super) fn fused(
    kernel: &KernelOperation,
    function: Function,
    from: u64,
) -> Option<KernelOperation> {
    let args = shipped::arguments(kernel, function, from)?;
    let mut fused = kernel.clone();
    fused.args = args;
    Some(fused)
}

#[cfg(feature = "ops")]
mod shipped {
    use std::marker::PhantomData;

    use cuda_std::launch::{
        Args, DeviceRead, DeviceWrite, Instance, Kernel, KernelValue, MemoryArg, RawSlice,
    };
    use cuda_std::number::{bf16, f16};
    use kernels_gpu::elementwise::map::{
        map_bits, map_convert, map_scale, triad, zip_product, zip_sum,
    };

    use super::{Function, KernelOperation};

    fn is<I: Instance>(kernel: &Kernel) -> bool {
        std::ptr::eq(kernel, I::KERNEL) || kernel == I::KERNEL
    }

    /// What the kernel computes, if it is a map.
    pub(super) fn function(own: &KernelOperation) -> Option<Function> {
        let kernel = own.kernel;
        let bits = |bytes, keep, flip| Some(Function::Bits { bytes, keep, flip });
        if is::<map_bits<u16>>(kernel) {
            let [keep, flip] = values::<u16, 2>(own);
            return bits(2, keep.into(), flip.into());
        }
        if is::<map_bits<u32>>(kernel) {
            let [keep, flip] = values::<u32, 2>(own);
            return bits(4, keep.into(), flip.into());
        }
        if is::<map_bits<u64>>(kernel) {
            let [keep, flip] = values::<u64, 2>(own);
            return bits(8, keep, flip);
        }
        if is::<map_scale<f32>>(kernel) {
            return Some(Function::ScaleF32(values::<f32, 1>(own)[0]));
        }
        if is::<map_scale<f64>>(kernel) {
            return Some(Function::ScaleF64(values::<f64, 1>(own)[0]));
        }
        let others: [fn(&Kernel) -> bool; 8] = [
            is::<map_convert<f32, f16>>,
            is::<map_convert<f32, bf16>>,
            is::<map_convert<f16, f32>>,
            is::<map_convert<bf16, f32>>,
            is::<zip_sum<f32>>,
            is::<zip_product<f32>>,
            is::<triad<f32>>,
            is::<triad<f64>>,
        ];
        others.iter().any(|is| is(kernel)).then_some(Function::Other)
    }

    /// The first values of a launch, by copy. Zeros if they are not of that size.
    fn values<T: bytemuck::Pod, const N: usize>(own: &KernelOperation) -> [T; N] {
        let mut values = [<T as bytemuck::Zeroable>::zeroed(); N];
        let fit = own.args.sizes_bytes().take(N).eq([size_of::<T>(); N]);
        own.args.with_pointers(|pointers| {
            for (value, pointer) in values.iter_mut().zip(&*pointers).filter(|_| fit) {
                // SAFETY: a value of as many bytes was pushed there, and every bit pattern is a `T`.
                *value = unsafe { pointer.cast::<T>().read() };
            }
        });
        values
    }

    /// Arguments of the same kernel, with the values of `function`, and the input at `from`.
    pub(super) fn arguments(
        own: &KernelOperation,
        function: Function,
        from: u64,
    ) -> Option<Args<'static>> {
        match function {
            Function::Bits { bytes: 2, keep, flip } => {
                built(own, &[keep as u16, flip as u16], from)
            }
            Function::Bits { bytes: 4, keep, flip } => {
                built(own, &[keep as u32, flip as u32], from)
            }
            Function::Bits { keep, flip, .. } => built(own, &[keep, flip], from),
            Function::ScaleF32(factor) => built(own, &[factor], from),
            Function::ScaleF64(factor) => built(own, &[factor], from),
            Function::Other => None,
        }
    }

    /// `values`, and input and output of elements of their type.
    fn built<T: KernelValue>(
        own: &KernelOperation,
        values: &[T],
        from: u64,
    ) -> Option<Args<'static>> {
        let [input, output] = own.args.memory() else { return None };
        let input = Elements::<T>::of(&MemoryArg { address: from, ..*input });
        let mut output = Elements::<T>::of(output);
        let mut args = Args::new();
        values.iter().for_each(|&value| args.push_value(value));
        args.push_read(&input);
        args.push_write(&mut output);
        Some(args.keep())
    }

    /// The memory of an argument.
    struct Elements<'m, T> {
        raw: RawSlice<'m>,
        of: PhantomData<T>,
    }

    impl<'m, T> Elements<'m, T> {
        fn of(memory: &MemoryArg<'m>) -> Self {
            let &MemoryArg { address, bytes, home, .. } = memory;
            Self { raw: RawSlice { address, len: bytes / size_of::<T>(), home }, of: PhantomData }
        }
    }

    // SAFETY: memory that a launch reads in a graph, which has it and keeps it in order.
    unsafe impl<T> DeviceRead<T> for Elements<'_, T> {
        fn raw(&self) -> RawSlice<'_> {
            self.raw
        }

        fn len(&self) -> usize {
            self.raw.len
        }
    }

    // SAFETY: as above, memory that it writes.
    unsafe impl<T> DeviceWrite<T> for Elements<'_, T> {
        fn raw_mut(&mut self) -> RawSlice<'_> {
            self.raw
        }

        fn len(&self) -> usize {
            self.raw.len
        }
    }
}

#[cfg(not(feature = "ops"))]
mod shipped {
    use cuda_std::launch::Args;

    use super::{Function, KernelOperation};

    /// No kernels are shipped.
    pub(super) fn function(_: &KernelOperation) -> Option<Function> {
        None
    }

    pub(super) fn arguments(_: &KernelOperation, _: Function, _: u64) -> Option<Args<'static>> {
        None
    }
}
