//! Registers and constants.

use super::Emitter;
use crate::isa::Type;
use crate::machine::{CONSTANT, LANES, SINK};

impl Emitter<'_> {
    /// A fresh register of the bank that holds `ty`.
    pub fn register(&mut self, ty: Type) -> u32 {
        self.registers(ty, 1)
    }

    /// Fresh registers in a row.
    pub fn registers(&mut self, ty: Type, count: u32) -> u32 {
        let counter = match ty {
            Type::Pred => &mut self.info.predicates,
            _ if ty.bits() >= 64 => &mut self.info.rows64,
            _ => &mut self.info.rows32,
        };
        let first = *counter;
        *counter += count * ty.rows();
        first
    }

    /// A register whose value nobody reads.
    pub fn sink(&mut self, ty: Type) -> u32 {
        if ty == Type::Pred {
            return SINK;
        }
        if ty == Type::B128 {
            return self.register(ty);
        }
        let bank = usize::from(ty.bits() == 64);
        if let Some(slot) = self.sinks[bank] {
            return slot;
        }
        let slot = self.register(ty);
        self.sinks[bank] = Some(slot);
        slot
    }

    /// The predicate that is the function's carry flag.
    pub fn carry(&mut self) -> u32 {
        if let Some(slot) = self.carry {
            return slot;
        }
        let slot = self.register(Type::Pred);
        self.carry = Some(slot);
        slot
    }

    /// A row that holds `bits` in every lane, of the bank for `ty`.
    pub fn constant(&mut self, ty: Type, bits: u64) -> u32 {
        if ty.bits() == 64 { self.constant64(bits) } else { self.constant32(bits as u32) }
    }

    fn constant32(&mut self, bits: u32) -> u32 {
        let rows = &mut self.program.constants32;
        *self.constants32.entry(bits).or_insert_with(|| {
            rows.push([bits; LANES]);
            (rows.len() - 1) as u32 | CONSTANT
        })
    }

    fn constant64(&mut self, bits: u64) -> u32 {
        let rows = &mut self.program.constants64;
        *self.constants64.entry(bits).or_insert_with(|| {
            rows.push([bits; LANES]);
            (rows.len() - 1) as u32 | CONSTANT
        })
    }

    /// A row that will hold the start of dynamic shared memory plus `offset`.
    pub fn dynamic_constant(&mut self, ty: Type, offset: i64) -> u32 {
        if ty.bits() == 64 {
            self.program.constants64.push([0; LANES]);
            let row = self.program.constants64.len() as u32 - 1;
            self.dynamic64.push((row, offset));
            row | CONSTANT
        } else {
            self.program.constants32.push([0; LANES]);
            let row = self.program.constants32.len() as u32 - 1;
            self.dynamic32.push((row, offset));
            row | CONSTANT
        }
    }
}
