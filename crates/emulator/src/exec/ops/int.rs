//! Integer arithmetic.

use crate::fault::LoadError;
use crate::isa::{Modifiers, Pick, Type};
use crate::machine::{Cx, Flow, Frame, Handler, Op, SINK, Step};
use crate::numeric::int::{self, Integer};
use crate::program::Emitter;
use crate::ptx::ast::Instruction;

macro_rules! family {
    ($($(#[$doc:meta])* $name:ident: |$a:ident $(, $b:ident $(, $c:ident)?)?| $value:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(modifiers: &Modifiers<'_>) -> Option<Pick> {
            Some(by_int!(modifiers.ty(0)?, |$a $(, $b $(, $c)?)?| $value).into())
        }
    )*};
}

family! {
    /// `add`
    add: |a, b| a.wrapping_add(b);
    /// `sub`
    sub: |a, b| a.wrapping_sub(b);
    /// `mul.lo`
    mul_lo: |a, b| a.wrapping_mul(b);
    /// `mul.hi`
    mul_hi: |a, b| a.mul_hi(b);
    /// `mad.lo`
    mad_lo: |a, b, c| a.mad_lo(b, c);
    /// `mad.hi`
    mad_hi: |a, b, c| a.mad_hi(b, c);
    /// `div`
    div: |a, b| Integer::div(a, b);
    /// `rem`
    rem: |a, b| Integer::rem(a, b);
    /// `min`
    min: |a, b| a.min(b);
    /// `max`
    max: |a, b| a.max(b);
    /// `sad`
    sad: |a, b, c| Integer::sad(a, b, c);
}

/// `add.sat.s32`, `sub.sat.s32`, `mad.hi.sat.s32`, `min.relu.s32`, `max.relu.s32`
pub fn saturating(modifiers: &Modifiers<'_>, opcode: Saturating) -> Option<Pick> {
    Some(Pick::from(match opcode {
        Saturating::Add => lanes!(i32 = |a: i32, b: i32| a.saturating_add(b)),
        Saturating::Sub => lanes!(i32 = |a: i32, b: i32| a.saturating_sub(b)),
        Saturating::Mad => lanes!(i32 = |a: i32, b: i32, c: i32| int::mad_hi_sat(a, b, c)),
        Saturating::Min if modifiers.has("relu") => lanes!(i32 = |a: i32, b: i32| a.min(b).max(0)),
        Saturating::Max if modifiers.has("relu") => lanes!(i32 = |a: i32, b: i32| a.max(b).max(0)),
        Saturating::Min | Saturating::Max => return None,
    }))
}

/// The instructions that have a clamped form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Saturating {
    /// `add.sat`
    Add,
    /// `sub.sat`
    Sub,
    /// `mad.hi.sat`
    Mad,
    /// `min.relu`
    Min,
    /// `max.relu`
    Max,
}

macro_rules! saturating_forms {
    ($($(#[$doc:meta])* $name:ident = $opcode:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(modifiers: &Modifiers<'_>) -> Option<Pick> {
            saturating(modifiers, Saturating::$opcode)
        }
    )*};
}

saturating_forms! {
    /// `add.sat.s32`
    add_sat = Add;
    /// `sub.sat.s32`
    sub_sat = Sub;
    /// `mad.hi.sat.s32`
    mad_sat = Mad;
    /// `min.relu.s32`
    min_relu = Min;
    /// `max.relu.s32`
    max_relu = Max;
}

/// `add`, `min`, `max` of two packed 16-bit numbers.
macro_rules! packed {
    ($($(#[$doc:meta])* $name:ident: $method:ident;)*) => {$(
        $(#[$doc])*
        pub fn $name(modifiers: &Modifiers<'_>) -> Option<Pick> {
            Some(Pick::from(match modifiers.ty(0)? {
                Type::U16x2 => lanes!(u32 = |a: u32, b: u32| {
                    halves(a, b, |a, b| a.$method(b))
                }),
                Type::S16x2 => lanes!(u32 = |a: u32, b: u32| {
                    halves(a, b, |a, b| (a as i16).$method(b as i16) as u16)
                }),
                _ => return None,
            }))
        }
    )*};
}

packed! {
    /// `add.u16x2`
    add_packed: wrapping_add;
    /// `min.u16x2`
    min_packed: min;
    /// `max.u16x2`
    max_packed: max;
}

/// `min.relu.s16x2`
pub fn min_packed_relu(_: &Modifiers<'_>) -> Option<Pick> {
    Some(
        lanes!(u32 = |a: u32, b: u32| halves(a, b, |a, b| (a as i16).min(b as i16).max(0) as u16))
            .into(),
    )
}

/// `max.relu.s16x2`
pub fn max_packed_relu(_: &Modifiers<'_>) -> Option<Pick> {
    Some(
        lanes!(u32 = |a: u32, b: u32| halves(a, b, |a, b| (a as i16).max(b as i16).max(0) as u16))
            .into(),
    )
}

fn halves(a: u32, b: u32, f: impl Fn(u16, u16) -> u16) -> u32 {
    crate::numeric::half::both2(a, b, f)
}

/// `abs`: the least number stays.
pub fn abs(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match modifiers.ty(0)? {
        Type::S16 => lanes!(i16 = |a: i16| a.wrapping_abs()),
        Type::S32 => lanes!(i32 = |a: i32| a.wrapping_abs()),
        Type::S64 => lanes!(i64 = |a: i64| a.wrapping_abs()),
        _ => return None,
    }))
}

/// `neg`: the least number stays.
pub fn neg(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match modifiers.ty(0)? {
        Type::S16 => lanes!(i16 = |a: i16| a.wrapping_neg()),
        Type::S32 => lanes!(i32 = |a: i32| a.wrapping_neg()),
        Type::S64 => lanes!(i64 = |a: i64| a.wrapping_neg()),
        _ => return None,
    }))
}

/// `mul.wide`
pub fn mul_wide(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match modifiers.ty(0)? {
        Type::U16 => lanes!(u32 = |a: u16, b: u16| a.mul_wide(b)),
        Type::S16 => lanes!(i32 = |a: i16, b: i16| a.mul_wide(b)),
        Type::U32 => lanes!(u64 = |a: u32, b: u32| a.mul_wide(b)),
        Type::S32 => lanes!(i64 = |a: i32, b: i32| a.mul_wide(b)),
        _ => return None,
    }))
}

/// `mad.wide`
pub fn mad_wide(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match modifiers.ty(0)? {
        Type::U16 => lanes!(u32 = |a: u16, b: u16, c: u32| a.mul_wide(b).wrapping_add(c)),
        Type::S16 => lanes!(i32 = |a: i16, b: i16, c: i32| a.mul_wide(b).wrapping_add(c)),
        Type::U32 => lanes!(u64 = |a: u32, b: u32, c: u64| a.mul_wide(b).wrapping_add(c)),
        Type::S32 => lanes!(i64 = |a: i32, b: i32, c: i64| a.mul_wide(b).wrapping_add(c)),
        _ => return None,
    }))
}

/// `mul24`
pub fn mul24(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match (modifiers.has("hi"), modifiers.ty(0)?) {
        (false, Type::U32) => lanes!(u32 = |a: u32, b: u32| int::mul24_lo_u32(a, b)),
        (true, Type::U32) => lanes!(u32 = |a: u32, b: u32| int::mul24_hi_u32(a, b)),
        (false, _) => lanes!(i32 = |a: i32, b: i32| int::mul24_lo_i32(a, b)),
        (true, _) => lanes!(i32 = |a: i32, b: i32| int::mul24_hi_i32(a, b)),
    }))
}

/// `mad24`
pub fn mad24(modifiers: &Modifiers<'_>) -> Option<Pick> {
    Some(Pick::from(match (modifiers.has("hi"), modifiers.ty(0)?) {
        (false, Type::U32) => {
            lanes!(u32 = |a: u32, b: u32, c: u32| int::mul24_lo_u32(a, b).wrapping_add(c))
        }
        (true, Type::U32) => {
            lanes!(u32 = |a: u32, b: u32, c: u32| int::mul24_hi_u32(a, b).wrapping_add(c))
        }
        (false, _) => {
            lanes!(i32 = |a: i32, b: i32, c: i32| int::mul24_lo_i32(a, b).wrapping_add(c))
        }
        (true, _) => lanes!(i32 = |a: i32, b: i32, c: i32| int::mul24_hi_i32(a, b).wrapping_add(c)),
    }))
}

/// `mad24.hi.sat.s32`
pub fn mad24_hi_sat(_: &Modifiers<'_>) -> Option<Pick> {
    Some(lanes!(i32 = |a: i32, b: i32, c: i32| int::mul24_hi_i32(a, b).saturating_add(c)).into())
}

/// Whether the two types among the modifiers are signed.
fn signs(modifiers: &Modifiers<'_>) -> Option<u64> {
    let signed = |index| Some(u64::from(modifiers.ty(index)?.is_signed()));
    Some(signed(0)? | signed(1)? << 1)
}

/// `dp4a`
pub fn dp4a(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let run = lanes!(op; u32 = |a: u32, b: u32, c: u32| int::dp4a(a, op.imm & 1 != 0, b, op.imm & 2 != 0, c));
    Some(Pick::with(run, signs(modifiers)?))
}

/// `dp2a`
pub fn dp2a(modifiers: &Modifiers<'_>) -> Option<Pick> {
    let run = lanes!(op; u32 = |a: u32, b: u32, c: u32| {
        int::dp2a(a, op.imm & 1 != 0, b, op.imm & 2 != 0, c, op.imm & 4 != 0)
    });
    Some(Pick::with(run, signs(modifiers)? | u64::from(modifiers.has("hi")) << 2))
}

// ---- carry chains

/// Slot of the carry.
const CARRY: usize = 5;

/// What a step of a carry chain computes.
trait Chain {
    /// The carry of a step that takes none, in all lanes.
    const START: u32;
    /// Result and carry of `a`, `b` and the carry before.
    fn step32(a: u32, b: u32, c: u32, carry: bool) -> (u32, bool);
    /// The same for 64 bits.
    fn step64(a: u64, b: u64, c: u64, carry: bool) -> (u64, bool);
}

macro_rules! chain {
    ($($name:ident($start:expr): |$a:ident, $b:ident, $c:ident, $carry:ident| $narrow:expr, $wide:expr;)*) => {$(
        struct $name;
        impl Chain for $name {
            const START: u32 = $start;
            #[inline(always)]
            fn step32($a: u32, $b: u32, $c: u32, $carry: bool) -> (u32, bool) {
                $narrow
            }
            #[inline(always)]
            fn step64($a: u64, $b: u64, $c: u64, $carry: bool) -> (u64, bool) {
                $wide
            }
        }
    )*};
}

chain! {
    Sum(0): |a, b, _c, carry| int::add_carry_u32(a, b, carry), int::add_carry_u64(a, b, carry);
    Difference(u32::MAX): |a, b, _c, carry| int::sub_carry_u32(a, b, carry), int::sub_carry_u64(a, b, carry);
    LowProduct(0): |a, b, c, carry| int::add_carry_u32(a.wrapping_mul(b), c, carry), int::add_carry_u64(a.wrapping_mul(b), c, carry);
    HighProduct(0): |a, b, c, carry| int::add_carry_u32(a.mul_hi(b), c, carry), int::add_carry_u64(a.mul_hi(b), c, carry);
    HighSigned(0): |a, b, c, carry|
        int::add_carry_u32((a as i32).mul_hi(b as i32) as u32, c, carry),
        int::add_carry_u64((a as i64).mul_hi(b as i64) as u64, c, carry);
}

fn chain32<C: Chain>(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let [d, a, b, c, ..] = op.slots;
    let (a, b, c) = (*frame.row32(a), *frame.row32(b), *frame.row32(c));
    let before = if op.imm & 1 != 0 { frame.predicate(op.slots[CARRY]) } else { C::START };
    let mut after = 0;
    let out = std::array::from_fn(|lane| {
        let (value, carry) = C::step32(a[lane], b[lane], c[lane], before >> lane & 1 != 0);
        after |= u32::from(carry) << lane;
        value
    });
    frame.write::<u32>(d, &out, mask);
    if op.imm & 2 != 0 {
        frame.set_predicate(op.slots[CARRY], after, mask);
    }
    Ok(Flow::Next)
}

fn chain64<C: Chain>(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let [d, a, b, c, ..] = op.slots;
    let (a, b, c) = (*frame.row64(a), *frame.row64(b), *frame.row64(c));
    let before = if op.imm & 1 != 0 { frame.predicate(op.slots[CARRY]) } else { C::START };
    let mut after = 0;
    let out = std::array::from_fn(|lane| {
        let (value, carry) = C::step64(a[lane], b[lane], c[lane], before >> lane & 1 != 0);
        after |= u32::from(carry) << lane;
        value
    });
    frame.write::<u64>(d, &out, mask);
    if op.imm & 2 != 0 {
        frame.set_predicate(op.slots[CARRY], after, mask);
    }
    Ok(Flow::Next)
}

/// `add.cc`, `addc`, `sub.cc`, `subc`, `mad.cc`, `madc`
pub fn carry(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let ty = modifiers.ty(0).ok_or_else(|| emitter.invalid("a type is missing"))?;
    let run: [Handler; 2] = match (instruction.opcode.as_str(), modifiers.has("hi"), ty.is_signed())
    {
        ("add" | "addc", ..) => [chain32::<Sum>, chain64::<Sum>],
        ("sub" | "subc", ..) => [chain32::<Difference>, chain64::<Difference>],
        (_, false, _) => [chain32::<LowProduct>, chain64::<LowProduct>],
        (_, true, false) => [chain32::<HighProduct>, chain64::<HighProduct>],
        (_, true, true) => [chain32::<HighSigned>, chain64::<HighSigned>],
    };
    let count = if instruction.opcode.starts_with("mad") { 3 } else { 2 };
    let [to, from @ ..] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("operands are missing"));
    };
    if from.len() != count {
        return Err(
            emitter.invalid(format!("{count} sources are needed, {} stand here", from.len()))
        );
    }
    let zero = emitter.constant(ty, 0);
    let mut slots = [SINK, zero, zero, zero, 0, emitter.carry()];
    for (slot, operand) in slots[1..].iter_mut().zip(from) {
        *slot = emitter.source(operand, ty, false)?;
    }
    slots[0] = emitter.destination(to, ty, false)?;
    let takes = u64::from(instruction.opcode.ends_with('c'));
    let gives = u64::from(modifiers.has("cc"));
    emitter.push(run[usize::from(ty.bits() == 64)], &slots, takes | gives << 1);
    Ok(())
}
