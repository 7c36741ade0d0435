//! The registers of one call, for the 32 lanes of a warp.

use super::op::Op;
use super::program::Program;
use super::slots::{ALWAYS, CONSTANT, FULL, LANES, NEGATED, Row32, Row64, SINK, lanes};
use super::taint::Shadow;
use std::sync::Arc;

/// The registers of one function call. All lanes that reached the function by the same calls share
/// it, each with its own column.
pub struct Frame {
    /// What is executed.
    pub program: Arc<Program>,
    /// Index of the function.
    pub function: u32,
    /// Registers of up to 32 bits; narrower values are zero-extended.
    pub rows32: Vec<Row32>,
    /// Registers of 64 bits.
    pub rows64: Vec<Row64>,
    /// Predicates, a bit for each lane.
    pub predicates: Vec<u32>,
    /// Parameter memory.
    pub params: Vec<Row32>,
    /// Frame of the caller.
    pub parent: u32,
    /// Where the caller goes on.
    pub return_to: u32,
    /// Call site that made it.
    pub call: u32,
    /// The call on the way to this function that lies in no library, nearest first, as the index of its
    /// operation plus one; 0 for none.
    pub called_at: u32,
    /// Number of callers.
    pub depth: u32,
    /// First byte of its local memory.
    pub local_base: u64,
    /// Byte after its local memory.
    pub local_end: u64,
    /// Bytes of stack that the calls up to this one take, without red zones.
    pub stack_bytes: u64,
    /// For each lane, the byte after what it has on the stack; `None` where nothing was put there.
    pub stack: Option<Box<Row64>>,
    /// Registers with bits that nothing ever wrote, where that is checked.
    pub shadow: Option<Box<Shadow>>,
}

impl Frame {
    /// Registers for a function of a program.
    pub fn new(program: &Arc<Program>, function: u32) -> Self {
        let info = &program.functions[function as usize];
        Self {
            program: Arc::clone(program),
            function,
            rows32: vec![[0; LANES]; info.rows32 as usize],
            rows64: vec![[0; LANES]; info.rows64 as usize],
            predicates: vec![0; info.predicates as usize],
            params: vec![[0; LANES]; info.param_rows as usize],
            parent: 0,
            return_to: 0,
            call: 0,
            called_at: 0,
            depth: 0,
            local_base: 0,
            local_end: info.local_bytes,
            stack_bytes: info.declared_local_bytes,
            stack: None,
            shadow: None,
        }
    }

    /// Byte after the function's variables.
    fn empty_stack(&self) -> u64 {
        self.local_base + self.program.functions[self.function as usize].local_bytes
    }

    /// Bytes of stack that are in use where its local memory ends at `end`.
    pub fn stack_bytes_at(&self, end: u64) -> u64 {
        self.stack_bytes.saturating_add(end.saturating_sub(self.empty_stack()))
    }

    /// The tops of the lanes' stacks.
    pub fn stack(&mut self) -> &mut Row64 {
        let empty = self.empty_stack();
        self.stack.get_or_insert_with(|| Box::new([empty; LANES]))
    }

    /// A 32-bit row.
    #[inline(always)]
    pub fn row32(&self, slot: u32) -> &Row32 {
        if slot & CONSTANT == 0 {
            &self.rows32[slot as usize]
        } else {
            &self.program.constants32[(slot & !CONSTANT) as usize]
        }
    }

    /// A 64-bit row.
    #[inline(always)]
    pub fn row64(&self, slot: u32) -> &Row64 {
        if slot & CONSTANT == 0 {
            &self.rows64[slot as usize]
        } else {
            &self.program.constants64[(slot & !CONSTANT) as usize]
        }
    }

    /// The lanes in which a predicate holds.
    #[inline(always)]
    pub fn predicate(&self, slot: u32) -> u32 {
        let index = slot & !NEGATED;
        let value = if index == ALWAYS { FULL } else { self.predicates[index as usize] };
        if slot & NEGATED == 0 { value } else { !value }
    }

    /// Sets a predicate in the lanes of `mask`.
    #[inline(always)]
    pub fn set_predicate(&mut self, slot: u32, value: u32, mask: u32) {
        if slot != SINK {
            let old = &mut self.predicates[slot as usize];
            *old = (*old & !mask) | (value & mask);
        }
    }

    /// Writes a row in the lanes of `mask`.
    #[inline(always)]
    pub fn write<T: Lane>(&mut self, slot: u32, values: &[T::Bits; LANES], mask: u32) {
        let row = T::row_mut(self, slot);
        if mask == FULL {
            *row = *values;
            return;
        }
        for lane in lanes(mask) {
            row[lane] = values[lane];
        }
    }
}

/// A type that a register's bits can be read as.
pub trait Lane: Copy {
    /// Bits as a row holds them.
    type Bits: Copy + Default;
    /// A row of a frame.
    fn row(frame: &Frame, slot: u32) -> &[Self::Bits; LANES];
    /// A row to write to.
    fn row_mut(frame: &mut Frame, slot: u32) -> &mut [Self::Bits; LANES];
    /// The value of bits.
    fn from_bits(bits: Self::Bits) -> Self;
    /// The bits of a value.
    fn to_bits(self) -> Self::Bits;
}

macro_rules! lane {
    ($($ty:ty, $bits:ty, $row:ident, $rows:ident, |$b:ident| $from:expr, |$v:ident| $to:expr;)*) => {$(
        impl Lane for $ty {
            type Bits = $bits;
            #[inline(always)]
            fn row(frame: &Frame, slot: u32) -> &[$bits; LANES] {
                frame.$row(slot)
            }
            #[inline(always)]
            fn row_mut(frame: &mut Frame, slot: u32) -> &mut [$bits; LANES] {
                &mut frame.$rows[slot as usize]
            }
            #[inline(always)]
            fn from_bits($b: $bits) -> Self {
                $from
            }
            #[inline(always)]
            fn to_bits(self) -> $bits {
                let $v = self;
                $to
            }
        }
    )*};
}

lane! {
    u8, u32, row32, rows32, |b| b as u8, |v| u32::from(v);
    i8, u32, row32, rows32, |b| b as i8, |v| u32::from(v as u8);
    u16, u32, row32, rows32, |b| b as u16, |v| u32::from(v);
    i16, u32, row32, rows32, |b| b as i16, |v| u32::from(v as u16);
    u32, u32, row32, rows32, |b| b, |v| v;
    i32, u32, row32, rows32, |b| b as i32, |v| v as u32;
    f32, u32, row32, rows32, |b| f32::from_bits(b), |v| v.to_bits();
    u64, u64, row64, rows64, |b| b, |v| v;
    i64, u64, row64, rows64, |b| b as i64, |v| v as u64;
    f64, u64, row64, rows64, |b| f64::from_bits(b), |v| v.to_bits();
}

// All lanes are computed, whatever the mask: that is quicker than choosing, and the others' results
// are dropped.
impl Frame {
    /// `d = f(a)` in each lane of `mask`.
    #[inline(always)]
    pub fn map1<D: Lane, A: Lane>(&mut self, op: &Op, mask: u32, f: impl Fn(A) -> D) {
        let a = A::row(self, op.slots[1]);
        let mut out = [D::Bits::default(); LANES];
        for lane in 0..LANES {
            out[lane] = f(A::from_bits(a[lane])).to_bits();
        }
        self.write::<D>(op.slots[0], &out, mask);
    }

    /// `d = f(a, b)` in each lane of `mask`.
    #[inline(always)]
    pub fn map2<D: Lane, A: Lane, B: Lane>(&mut self, op: &Op, mask: u32, f: impl Fn(A, B) -> D) {
        let (a, b) = (A::row(self, op.slots[1]), B::row(self, op.slots[2]));
        let mut out = [D::Bits::default(); LANES];
        for lane in 0..LANES {
            out[lane] = f(A::from_bits(a[lane]), B::from_bits(b[lane])).to_bits();
        }
        self.write::<D>(op.slots[0], &out, mask);
    }

    /// `d = f(a, b, c)` in each lane of `mask`.
    #[inline(always)]
    pub fn map3<D: Lane, A: Lane, B: Lane, C: Lane>(
        &mut self,
        op: &Op,
        mask: u32,
        f: impl Fn(A, B, C) -> D,
    ) {
        let (a, b) = (A::row(self, op.slots[1]), B::row(self, op.slots[2]));
        let c = C::row(self, op.slots[3]);
        let mut out = [D::Bits::default(); LANES];
        for lane in 0..LANES {
            out[lane] =
                f(A::from_bits(a[lane]), B::from_bits(b[lane]), C::from_bits(c[lane])).to_bits();
        }
        self.write::<D>(op.slots[0], &out, mask);
    }

    /// The lanes of `mask` in which `f(a, b)` holds, operands in the slots 2 and 3.
    #[inline(always)]
    pub fn test2<A: Lane>(&self, op: &Op, mask: u32, f: impl Fn(A, A) -> bool) -> u32 {
        let (a, b) = (A::row(self, op.slots[2]), A::row(self, op.slots[3]));
        let mut out = 0;
        for lane in 0..LANES {
            out |= u32::from(f(A::from_bits(a[lane]), A::from_bits(b[lane]))) << lane;
        }
        out & mask
    }
}
