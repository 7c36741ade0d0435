//! From the operands of the text to slots.

use super::emitter::{Base, Emitter};
use super::layout::number_bits;
use super::scope::{Symbol, component};
use crate::exec::ops::{moves, special};
use crate::fault::LoadError;
use crate::isa::Type;
use crate::machine::{ALWAYS, NEGATED, Register, SINK, Span};
use crate::ptx::ast::Operand;

/// An operand in brackets.
#[derive(Clone, Copy, Debug)]
pub enum Address {
    /// A 64-bit row and bytes to add.
    Row(u32, i64),
    /// An offset in the kernel's parameters, and the bytes from there to the parameter's end.
    KernelParam(u32, u64),
    /// An offset in the frame's parameter memory, and the bytes from there to the parameter's end.
    FrameParam(u32, u64),
}

/// Bits of the register that holds a value of `ty`.
fn register_bits(ty: Type) -> u32 {
    match ty.bits() {
        8 => 16,
        bits => bits,
    }
}

impl Emitter<'_> {
    /// The slot of a source of type `ty`. With `relaxed` its register may be wider.
    pub fn source(&mut self, operand: &Operand, ty: Type, relaxed: bool) -> Result<u32, LoadError> {
        match operand {
            Operand::Name(name) => self.named_source(name, 0, ty, relaxed),
            Operand::NameOffset(name, offset) => self.named_source(name, *offset, ty, relaxed),
            Operand::Number(_) if ty == Type::B128 => Err(self.not_a(operand, ty)),
            Operand::Number(number) => {
                let bits = number_bits(*number, ty).ok_or_else(|| self.not_a(operand, ty))?;
                Ok(self.constant(ty, truncate(bits, ty)))
            }
            _ => Err(self.not_a(operand, ty)),
        }
    }

    fn named_source(
        &mut self,
        name: &str,
        offset: i64,
        ty: Type,
        relaxed: bool,
    ) -> Result<u32, LoadError> {
        if name == "WARP_SZ" {
            return Ok(self.constant(ty, 32));
        }
        if let Some(slot) = self.special_source(name, ty)? {
            return Ok(slot);
        }
        match self.find(name)? {
            Symbol::Register(own, slot) if offset == 0 => {
                self.note_reads(own, slot);
                self.narrowed(own, slot, ty, relaxed)
            }
            Symbol::Register(..) => {
                Err(self.invalid(format!("`{name}{offset:+}` is not an operand")))
            }
            Symbol::Vector(..) => Err(self.invalid(format!("`{name}` is a vector"))),
            Symbol::Place(base, _) => self.place_value(base, offset, ty),
        }
    }

    /// A special register is read into a fresh one.
    fn special_source(&mut self, name: &str, ty: Type) -> Result<Option<u32>, LoadError> {
        if !name.starts_with('%') || self.find(name).is_ok() {
            return Ok(None);
        }
        let Some(special) = special::find(name) else {
            return match name.contains('.') || special::is_reserved(name) {
                true => Err(LoadError::UnknownInstruction {
                    instruction: name.to_owned(),
                    line: self.line,
                }),
                false => Err(self.unresolved(name)),
            };
        };
        let own = if special.wide { Type::U64 } else { Type::U32 };
        let slot = self.register(own);
        self.push_before(special.run, &[slot], special.imm);
        match (special.wide, ty.bits()) {
            (false, 32) | (true, 64) | (false, 16) => Ok(Some(slot)),
            (false, 64) => {
                let wide = self.register(Type::U64);
                self.push_before(moves::zero_extend(32), &[wide, slot], 0);
                Ok(Some(wide))
            }
            (true, 32) => self.narrowed(Type::B64, slot, ty, true).map(Some),
            _ => Err(self.invalid(format!("`{name}` does not fit `.{}`", ty.word()))),
        }
    }

    fn narrowed(
        &mut self,
        own: Type,
        slot: u32,
        ty: Type,
        relaxed: bool,
    ) -> Result<u32, LoadError> {
        let (have, want) = (register_bits(own), register_bits(ty));
        if own == Type::Pred || ty == Type::Pred {
            return Err(self.mismatch(own, ty));
        }
        if have == want || (relaxed && have > want && have < 64) {
            return Ok(slot);
        }
        if relaxed && have == 64 && want < 64 {
            let narrow = self.register(Type::B32);
            self.push_before(moves::low_half, &[narrow, slot], 0);
            return Ok(narrow);
        }
        Err(self.mismatch(own, ty))
    }

    /// The address of a variable or function as a value of type `ty`.
    fn place_value(&mut self, base: Base, offset: i64, ty: Type) -> Result<u32, LoadError> {
        let value = match base {
            Base::Global(address) | Base::Code(address) => address.wrapping_add_signed(offset),
            Base::Shared(at) | Base::KernelParam(at) | Base::FrameParam(at) => {
                u64::from(at).wrapping_add_signed(offset)
            }
            Base::SharedDynamic => return Ok(self.dynamic_constant(ty, offset)),
            Base::Local(at) => return self.local_value(at.wrapping_add_signed(offset), ty),
        };
        match ty.bits() {
            64 => Ok(self.constant(ty, value)),
            32 if u32::try_from(value).is_ok() => Ok(self.constant(ty, value)),
            _ => Err(self.invalid(format!("an address does not fit `.{}`", ty.word()))),
        }
    }

    fn local_value(&mut self, offset: u64, ty: Type) -> Result<u32, LoadError> {
        let slot = self.register(Type::U64);
        self.push_before(moves::local_address, &[slot], offset);
        self.narrowed(Type::B64, slot, ty, true)
    }

    /// The slot of a destination of type `ty`. With `relaxed` its register may be wider: then the
    /// value is extended to it afterwards, by its sign if the type has one.
    pub fn destination(
        &mut self,
        operand: &Operand,
        ty: Type,
        relaxed: bool,
    ) -> Result<u32, LoadError> {
        let Operand::Name(name) = operand else { return Err(self.not_a(operand, ty)) };
        if name == "_" {
            return Ok(self.sink(ty));
        }
        let (own, slot) = match self.find(name)? {
            Symbol::Register(own, slot) => (own, slot),
            _ => return Err(self.invalid(format!("`{name}` is not a register"))),
        };
        self.note_writes(own, slot);
        let (have, want) = (own.bits(), ty.bits());
        if (own == Type::Pred) != (ty == Type::Pred) || (have < want && want > 8) {
            return Err(self.mismatch(own, ty));
        }
        if have == want || (want == 8 && have < 16) {
            return Ok(slot);
        }
        if !relaxed || have > 64 {
            return Err(self.mismatch(own, ty));
        }
        self.extended(slot, have, ty)
    }

    fn extended(&mut self, slot: u32, have: u32, ty: Type) -> Result<u32, LoadError> {
        let from = if have == 64 { self.register(Type::B32) } else { slot };
        if ty.is_signed() {
            self.push_after(moves::sign_extend(ty.bits(), have), &[slot, from], 0);
        } else if have == 64 {
            self.push_after(moves::zero_extend(32), &[slot, from], 0);
        }
        Ok(from)
    }

    /// The slot of a predicate that is read.
    pub fn predicate(&mut self, name: &str, negated: bool) -> Result<u32, LoadError> {
        if let Some(run) = special::find_predicate(name) {
            let slot = self.register(Type::Pred);
            self.push_before(run, &[slot], 0);
            return Ok(if negated { slot | NEGATED } else { slot });
        }
        match self.find(name)? {
            Symbol::Register(Type::Pred, slot) => {
                self.note_read(Register::Predicate(slot));
                Ok(if negated { slot | NEGATED } else { slot })
            }
            _ => Err(self.invalid(format!("`{name}` is not a predicate"))),
        }
    }

    /// The slot of a predicate operand: `p`, `!p`, or a number.
    pub fn predicate_source(&mut self, operand: &Operand) -> Result<u32, LoadError> {
        match operand {
            Operand::Name(name) => self.predicate(name, false),
            Operand::Not(name) => self.predicate(name, true),
            Operand::Number(number) => match number_bits(*number, Type::B32) {
                Some(0) => Ok(ALWAYS | NEGATED),
                Some(_) => Ok(ALWAYS),
                None => Err(self.not_a(operand, Type::Pred)),
            },
            _ => Err(self.not_a(operand, Type::Pred)),
        }
    }

    /// The slots of `p`, or of `p|q`; the second is thrown away where there is none.
    pub fn destination_pair(
        &mut self,
        operand: &Operand,
        first: Type,
    ) -> Result<[u32; 2], LoadError> {
        match operand {
            Operand::Pair(left, right) => Ok([
                self.destination(left, first, false)?,
                self.destination(right, Type::Pred, false)?,
            ]),
            _ => Ok([self.destination(operand, first, false)?, SINK]),
        }
    }

    /// What stands in brackets.
    pub fn address(&mut self, operand: &Operand) -> Result<Address, LoadError> {
        let Operand::Address { base, offset, extra } = operand else {
            return Err(self.invalid("an address in brackets is needed here"));
        };
        if !extra.is_empty() {
            return Err(self.invalid("coordinates do not belong here"));
        }
        let Operand::Name(name) = base.as_ref() else {
            return Ok(Address::Row(self.source(base, Type::U64, false)?, *offset));
        };
        match self.find(name)? {
            Symbol::Register(Type::Pred, _) => Err(self.invalid("a predicate is not an address")),
            Symbol::Register(own, slot) if own.bits() == 64 => {
                self.note_address(Register::of(own, slot));
                Ok(Address::Row(slot, *offset))
            }
            Symbol::Register(own, slot) if own.bits() == 32 => {
                self.note_address(Register::of(own, slot));
                let wide = self.register(Type::U64);
                self.push_before(moves::narrow_address, &[wide, slot], *offset as u64);
                Ok(Address::Row(wide, 0))
            }
            Symbol::Register(own, _) => Err(self.mismatch(own, Type::U64)),
            Symbol::Vector(..) => Err(self.invalid("a vector is not an address")),
            Symbol::Place(Base::KernelParam(at), bytes) => {
                let (at, left) = self.param_offset(at, *offset, bytes)?;
                Ok(Address::KernelParam(at, left))
            }
            Symbol::Place(Base::FrameParam(at), bytes) => {
                let (at, left) = self.param_offset(at, *offset, bytes)?;
                Ok(Address::FrameParam(at, left))
            }
            Symbol::Place(base, _) => {
                Ok(Address::Row(self.place_value(base, *offset, Type::U64)?, 0))
            }
        }
    }

    /// The operands with the name of each vector as its components in braces.
    pub fn spread_vectors(&self, operands: &[Operand]) -> Vec<Operand> {
        let spread = |operand: &Operand| match operand {
            Operand::Name(name) => match self.find_local(name) {
                Some(Symbol::Vector(_, _, count)) => {
                    let names = (0..count).map(|index| Operand::Name(component(name, index)));
                    Operand::Vector(names.collect())
                }
                _ => operand.clone(),
            },
            Operand::List(inner) => Operand::List(self.spread_vectors(inner)),
            _ => operand.clone(),
        };
        operands.iter().map(spread).collect()
    }

    /// The type of a register; `None` for what is none.
    pub fn register_type(&mut self, operand: &Operand) -> Option<Type> {
        match operand {
            Operand::Name(name) => match self.find(name) {
                Ok(Symbol::Register(ty, _)) => Some(ty),
                _ => None,
            },
            _ => None,
        }
    }

    /// Where the argument of a call lies.
    pub fn param_span(&mut self, operand: &Operand) -> Result<Span, LoadError> {
        let Operand::Name(name) = operand else {
            return Err(self.invalid("arguments of a call have to be `.param` variables"));
        };
        match self.find(name)? {
            Symbol::Place(Base::FrameParam(at), bytes) => {
                Ok(Span { row: at / 4, rows: bytes.div_ceil(4) as u32 })
            }
            _ => Err(self.invalid(format!("`{name}` is not a `.param` variable"))),
        }
    }

    fn param_offset(&self, at: u32, offset: i64, bytes: u64) -> Result<(u32, u64), LoadError> {
        match u64::try_from(offset) {
            Ok(offset) if offset < bytes => Ok((at + offset as u32, bytes - offset)),
            _ => Err(self.invalid(format!("offset {offset} lies outside the parameter"))),
        }
    }

    /// An integer that has to be known.
    pub fn immediate(&self, operand: &Operand) -> Result<u64, LoadError> {
        match operand {
            Operand::Number(number) => {
                number_bits(*number, Type::B64).ok_or_else(|| self.not_a(operand, Type::B64))
            }
            _ => Err(self.invalid("a constant is needed here")),
        }
    }

    fn mismatch(&self, own: Type, wanted: Type) -> LoadError {
        self.invalid(format!(
            "a `.{}` register stands where `.{}` is needed",
            own.word(),
            wanted.word()
        ))
    }

    fn not_a(&self, operand: &Operand, ty: Type) -> LoadError {
        let what = match operand {
            Operand::Name(name) | Operand::Not(name) | Operand::NameOffset(name, _) => {
                name.as_str()
            }
            Operand::Number(_) => "this number",
            Operand::Address { .. } => "an address in brackets",
            Operand::Vector(_) => "a vector",
            Operand::Pair(..) => "a pair",
            Operand::List(_) => "a list",
        };
        self.invalid(format!("{what} cannot stand where `.{}` is needed", ty.word()))
    }
}

/// The bits that a register of `ty` holds.
fn truncate(bits: u64, ty: Type) -> u64 {
    match ty.bits() {
        64 => bits,
        width => bits & ((1 << width) - 1),
    }
}
