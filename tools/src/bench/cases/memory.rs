//! What it costs that a kernel touches memory which the host has just written, for each kind of memory.

use crate::bench::check::{Fault, element};
use crate::bench::{Case, Rig, Scale};
use ferrowarp::memory::{DeviceBuffer, MappedBuffer, MemoryLocation, PinnedBuffer, UnifiedBuffer};
use ferrowarp::ops::{Scratch, reduce};
use ferrowarp::{Gpu, GpuError, GpuResult};

/// Where the host writes, and how the device gets to it.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// Page-locked memory, copied to the device's.
    Copied,
    /// Memory that moves when the device touches it.
    Unified,
    /// Memory that is moved before.
    Prefetched,
    /// Page-locked memory that the device reads over the bus, at each touch.
    Mapped,
    /// A plain vector, which the device reads in place (HMM, ATS).
    HostSlice,
}

const KINDS: [(&str, Kind); 5] = [
    ("copied", Kind::Copied),
    ("unified", Kind::Unified),
    ("prefetched", Kind::Prefetched),
    ("mapped", Kind::Mapped),
    ("host_slice", Kind::HostSlice),
];

/// The first touch; beside it the second one, and the first one of memory that is copied.
pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let lens = scale.lens().into_iter();
    lens.flat_map(|n| KINDS.map(|(name, kind)| case(name, kind, n))).collect()
}

fn case(name: &str, kind: Kind, n: usize) -> Case {
    let first = |kind| move |gpu: &Gpu, seed| set_up(gpu, kind, n, seed, true);
    let case = Case::new(["memory", name, "u32"], [n], 4 * n, first(kind)).timed_on_host();
    let case = case.beside("second touch", move |gpu, seed| set_up(gpu, kind, n, seed, false));
    if kind == Kind::Copied { case } else { case.beside("copied", first(Kind::Copied)) }
}

enum Memory {
    Copied(PinnedBuffer<u32>, DeviceBuffer<u32>),
    Unified(UnifiedBuffer<u32>),
    Mapped(MappedBuffer<u32>),
    Host(Vec<u32>),
}

struct Touch {
    kind: Kind,
    memory: Memory,
    value: u32,
    /// Whether the host writes the memory before each run.
    is_first: bool,
    sum: DeviceBuffer<u32>,
    scratch: Scratch,
}

fn set_up(gpu: &Gpu, kind: Kind, n: usize, value: u32, is_first: bool) -> GpuResult<Box<dyn Rig>> {
    let memory = match kind {
        Kind::Copied => {
            Memory::Copied(PinnedBuffer::zeroed(gpu, n)?, DeviceBuffer::zeroed(gpu, n)?)
        }
        Kind::Prefetched if !gpu.info().concurrent_managed_access => {
            return Err(GpuError::Unsupported { what: "moving unified memory before it is used" });
        }
        Kind::Unified | Kind::Prefetched => Memory::Unified(UnifiedBuffer::zeroed(gpu, n)?),
        Kind::Mapped => Memory::Mapped(MappedBuffer::zeroed(gpu, n)?),
        Kind::HostSlice => Memory::Host(vec![0; n]),
    };
    let (sum, scratch) = (DeviceBuffer::zeroed(gpu, 1)?, Scratch::new(gpu)?);
    let mut touch = Touch { kind, memory, value, is_first, sum, scratch };
    touch.write()?;
    if !is_first {
        touch.move_there(gpu)?;
        touch.run(gpu)?;
    }
    Ok(Box::new(touch))
}

impl Touch {
    /// The host writes all of it.
    fn write(&mut self) -> GpuResult<()> {
        let values = match &mut self.memory {
            Memory::Copied(pinned, _) => &mut pinned[..],
            Memory::Unified(unified) => unified.as_mut_slice()?,
            Memory::Mapped(mapped) => mapped.as_mut_slice()?,
            Memory::Host(values) => &mut values[..],
        };
        values.fill(self.value);
        Ok(())
    }

    /// What comes before the kernel.
    fn move_there(&mut self, gpu: &Gpu) -> GpuResult<()> {
        match &mut self.memory {
            Memory::Copied(pinned, device) => {
                gpu.host_scope(|scope| scope.upload(gpu, &pinned[..], device))
            }
            Memory::Unified(unified) if self.kind == Kind::Prefetched => {
                unified.prefetch(MemoryLocation::Device(gpu.info().ordinal))
            }
            _ => Ok(()),
        }
    }
}

impl Rig for Touch {
    fn poison(&mut self, _: &Gpu) -> GpuResult<()> {
        self.sum.clear()
    }

    fn prepare(&mut self, _: &Gpu) -> GpuResult<()> {
        if self.is_first { self.write() } else { Ok(()) }
    }

    fn run(&mut self, gpu: &Gpu) -> GpuResult<()> {
        if self.is_first {
            self.move_there(gpu)?;
        }
        let Self { memory, sum, scratch, .. } = self;
        match memory {
            Memory::Copied(_, device) => reduce::sum_into(gpu, device, sum, scratch),
            Memory::Unified(unified) => reduce::sum_into(gpu, unified, sum, scratch),
            Memory::Mapped(mapped) => reduce::sum_into(gpu, mapped, sum, scratch),
            Memory::Host(values) => gpu.host_scope(|scope| {
                reduce::sum_into(gpu, &scope.host_slice(gpu, &values[..])?, sum, scratch)
            }),
        }
    }

    fn check(&mut self, _: &Gpu) -> Result<(), Fault> {
        let n = match &self.memory {
            Memory::Copied(pinned, _) => pinned.len(),
            Memory::Unified(unified) => unified.len(),
            Memory::Mapped(mapped) => mapped.len(),
            Memory::Host(values) => values.len(),
        };
        let expected = self.value.wrapping_mul(n as u32);
        let found = self.sum.to_vec()?[0];
        if found == expected { Ok(()) } else { Err(element(0, found, expected)) }
    }
}
