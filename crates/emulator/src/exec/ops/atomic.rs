//! `atom` and `red`.

use crate::exec::address::{Generic, Global, Shared, SharedCluster, Window, resolve};
use crate::fault::{Access, LoadError};
use crate::isa::{Modifiers, Type};
use crate::machine::{Cx, Flow, Frame, Handler, LANES, Lane, Op, Step, Touch, lanes};
use crate::memory::atomic;
use crate::program::{Address, Emitter};
use crate::ptx::ast::{Instruction, Operand};

/// Slot of the address.
const BASE: usize = 5;

/// A read-modify-write of one cell.
trait Update {
    /// Type of the cell.
    type Cell: Lane;
    /// Does it, and returns what was there.
    ///
    /// # Safety
    /// `address` is that of an aligned cell that lives, and that only atomics touch.
    unsafe fn update(
        address: u64,
        b: <Self::Cell as Lane>::Bits,
        c: <Self::Cell as Lane>::Bits,
    ) -> <Self::Cell as Lane>::Bits;
}

macro_rules! updates {
    ($($name:ident($cell:ty) = |$at:ident, $b:ident, $c:ident| $value:expr;)*) => {$(
        struct $name;
        impl Update for $name {
            type Cell = $cell;
            #[inline(always)]
            unsafe fn update(
                $at: u64,
                $b: <$cell as Lane>::Bits,
                $c: <$cell as Lane>::Bits,
            ) -> <$cell as Lane>::Bits {
                // SAFETY: the caller vouches for the cell.
                unsafe { $value }
            }
        }
    )*};
}

updates! {
    Add32(u32) = |at, b, _c| atomic::add_u32(at, b);
    Add64(u64) = |at, b, _c| atomic::add_u64(at, b);
    AddF32(u32) = |at, b, _c| atomic::add_f32(at, b);
    AddF32Flushed(u32) = |at, b, _c| atomic::add_f32_ftz(at, b);
    AddF64(u64) = |at, b, _c| atomic::add_f64(at, b);
    AddF64Raw(u64) = |at, b, _c| atomic::add_f64_raw(at, b);
    AddF16x2(u32) = |at, b, _c| atomic::add_f16x2(at, b);
    AddBf16x2(u32) = |at, b, _c| atomic::add_bf16x2(at, b);
    AddF16(u16) = |at, b, _c| atomic::add_f16(at, b as u16).into();
    AddBf16(u16) = |at, b, _c| atomic::add_bf16(at, b as u16).into();
    MinF16(u16) = |at, b, _c| atomic::min_f16(at, b as u16).into();
    MaxF16(u16) = |at, b, _c| atomic::max_f16(at, b as u16).into();
    MinBf16(u16) = |at, b, _c| atomic::min_bf16(at, b as u16).into();
    MaxBf16(u16) = |at, b, _c| atomic::max_bf16(at, b as u16).into();
    MinF16x2(u32) = |at, b, _c| atomic::min_f16x2(at, b);
    MaxF16x2(u32) = |at, b, _c| atomic::max_f16x2(at, b);
    MinBf16x2(u32) = |at, b, _c| atomic::min_bf16x2(at, b);
    MaxBf16x2(u32) = |at, b, _c| atomic::max_bf16x2(at, b);
    MinU32(u32) = |at, b, _c| atomic::min_u32(at, b);
    MinS32(u32) = |at, b, _c| atomic::min_i32(at, b as i32) as u32;
    MinU64(u64) = |at, b, _c| atomic::min_u64(at, b);
    MinS64(u64) = |at, b, _c| atomic::min_i64(at, b as i64) as u64;
    MaxU32(u32) = |at, b, _c| atomic::max_u32(at, b);
    MaxS32(u32) = |at, b, _c| atomic::max_i32(at, b as i32) as u32;
    MaxU64(u64) = |at, b, _c| atomic::max_u64(at, b);
    MaxS64(u64) = |at, b, _c| atomic::max_i64(at, b as i64) as u64;
    And32(u32) = |at, b, _c| atomic::and_u32(at, b);
    And64(u64) = |at, b, _c| atomic::and_u64(at, b);
    Or32(u32) = |at, b, _c| atomic::or_u32(at, b);
    Or64(u64) = |at, b, _c| atomic::or_u64(at, b);
    Xor32(u32) = |at, b, _c| atomic::xor_u32(at, b);
    Xor64(u64) = |at, b, _c| atomic::xor_u64(at, b);
    Exchange32(u32) = |at, b, _c| atomic::exch_u32(at, b);
    Exchange64(u64) = |at, b, _c| atomic::exch_u64(at, b);
    Inc(u32) = |at, b, _c| atomic::inc_u32(at, b);
    Dec(u32) = |at, b, _c| atomic::dec_u32(at, b);
    Cas16(u16) = |at, b, c| atomic::cas_u16(at, b as u16, c as u16).into();
    Cas32(u32) = |at, b, c| atomic::cas_u32(at, b, c);
    Cas64(u64) = |at, b, c| atomic::cas_u64(at, b, c);
}

/// Slots: 0 what was there, 1 and 2 the operands, 5 the address.
fn update<W: Window, U: Update>(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let bytes = size_of::<U::Cell>() as u32;
    let at = resolve::<W>(cx, frame, (op.slots[BASE], op.imm), mask, bytes, Access::Atomic)?;
    if cx.watch.is_some() {
        cx.touch(frame, &Touch { op, mask, at: &at, bytes, elements: 1, access: Access::Atomic })?;
    }
    let (b, c) = (U::Cell::row(frame, op.slots[1]), U::Cell::row(frame, op.slots[2]));
    let mut out = [Default::default(); LANES];
    for lane in lanes(mask) {
        // SAFETY: `resolve` checked that the cell is aligned and lives; all accesses are atomic.
        out[lane] = unsafe { U::update(at[lane], b[lane], c[lane]) };
    }
    frame.write::<U::Cell>(op.slots[0], &out, mask);
    cx.polled = true;
    cx.seen.read(op, at[mask.trailing_zeros() as usize]);
    Ok(Flow::Next)
}

/// The handler of an update for a space.
macro_rules! by_space {
    ($space:expr, $update:ty) => {
        match $space {
            "global" => update::<Global, $update> as Handler,
            "shared" | "shared::cta" => update::<Shared, $update>,
            "shared::cluster" => update::<SharedCluster, $update>,
            _ => update::<Generic, $update>,
        }
    };
}

/// The lanes whose generic address lies in device memory.
fn in_global(frame: &Frame, op: &Op, mask: u32) -> u32 {
    let row = frame.row64(op.slots[BASE]);
    let own = |lane: &usize| row[*lane].wrapping_add(op.imm) < crate::machine::SHARED_BASE;
    lanes(mask).filter(own).map(|lane| 1 << lane).sum()
}

/// The sum of doubles: device memory adds by itself, and treats NaNs in its own way.
fn add_f64(space: &str) -> Handler {
    fn generic(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let global = in_global(frame, op, mask);
        if global != 0 {
            update::<Generic, AddF64Raw>(cx, frame, op, global)?;
        }
        if mask & !global != 0 {
            update::<Generic, AddF64>(cx, frame, op, mask & !global)?;
        }
        Ok(Flow::Next)
    }
    match space {
        "global" => update::<Global, AddF64Raw>,
        "shared" | "shared::cta" => update::<Shared, AddF64>,
        _ => generic,
    }
}

/// The sum of floats: on global memory subnormals are flushed.
fn add_f32(space: &str) -> Handler {
    fn generic(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        let global = in_global(frame, op, mask);
        if global != 0 {
            update::<Generic, AddF32Flushed>(cx, frame, op, global)?;
        }
        if mask & !global != 0 {
            update::<Generic, AddF32>(cx, frame, op, mask & !global)?;
        }
        Ok(Flow::Next)
    }
    match space {
        "global" => update::<Global, AddF32Flushed>,
        "shared" | "shared::cta" => update::<Shared, AddF32>,
        "shared::cluster" => update::<SharedCluster, AddF32>,
        _ => generic,
    }
}

fn select(operation: &str, ty: Type, space: &str) -> Option<Handler> {
    use Type::{B16, B32, B64, Bf16, Bf16x2, F16, F16x2, F32, F64, S32, S64, U32, U64};
    Some(match (operation, ty) {
        ("add", U32 | S32) => by_space!(space, Add32),
        ("add", U64) => by_space!(space, Add64),
        ("add", F32) => add_f32(space),
        ("add", F64) => add_f64(space),
        ("add", F16x2) => by_space!(space, AddF16x2),
        ("add", Bf16x2) => by_space!(space, AddBf16x2),
        ("add", F16) => by_space!(space, AddF16),
        ("add", Bf16) => by_space!(space, AddBf16),
        ("min", F16) => by_space!(space, MinF16),
        ("max", F16) => by_space!(space, MaxF16),
        ("min", Bf16) => by_space!(space, MinBf16),
        ("max", Bf16) => by_space!(space, MaxBf16),
        ("min", F16x2) => by_space!(space, MinF16x2),
        ("max", F16x2) => by_space!(space, MaxF16x2),
        ("min", Bf16x2) => by_space!(space, MinBf16x2),
        ("max", Bf16x2) => by_space!(space, MaxBf16x2),
        ("min", U32) => by_space!(space, MinU32),
        ("min", S32) => by_space!(space, MinS32),
        ("min", U64) => by_space!(space, MinU64),
        ("min", S64) => by_space!(space, MinS64),
        ("max", U32) => by_space!(space, MaxU32),
        ("max", S32) => by_space!(space, MaxS32),
        ("max", U64) => by_space!(space, MaxU64),
        ("max", S64) => by_space!(space, MaxS64),
        ("and", B32) => by_space!(space, And32),
        ("and", B64) => by_space!(space, And64),
        ("or", B32) => by_space!(space, Or32),
        ("or", B64) => by_space!(space, Or64),
        ("xor", B32) => by_space!(space, Xor32),
        ("xor", B64) => by_space!(space, Xor64),
        ("exch", B32) => by_space!(space, Exchange32),
        ("exch", B64) => by_space!(space, Exchange64),
        ("inc", U32) => by_space!(space, Inc),
        ("dec", U32) => by_space!(space, Dec),
        ("cas", B16) => by_space!(space, Cas16),
        ("cas", B32) => by_space!(space, Cas32),
        ("cas", B64) => by_space!(space, Cas64),
        _ => return None,
    })
}

const OPERATIONS: [&str; 10] =
    ["add", "min", "max", "and", "or", "xor", "exch", "inc", "dec", "cas"];

const SPACES: [&str; 4] = ["global", "shared", "shared::cta", "shared::cluster"];

/// What an `atom` or `red` consists of.
struct Parts<'a> {
    operation: &'static str,
    space: &'static str,
    ty: Type,
    /// Elements of a vector; 1 without one.
    count: usize,
    /// Where what was there goes; nowhere for `red`.
    to: Option<&'a Operand>,
    address: &'a Operand,
    operands: &'a [Operand],
}

fn parts<'a>(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &'a Instruction,
) -> Result<Parts<'a>, LoadError> {
    let (to, rest) = match (instruction.opcode.as_str(), instruction.operands.as_slice()) {
        ("atom", [to, rest @ ..]) => (Some(to), rest),
        (_, rest) => (None, rest),
    };
    let [address, operands @ ..] = rest else {
        return Err(emitter.invalid("an address is missing"));
    };
    let operands = super::memory::without_policy(emitter, modifiers, operands)?;
    let operation = modifiers.one_of(&OPERATIONS).unwrap_or("");
    if operands.len() != if operation == "cas" { 2 } else { 1 } {
        return Err(emitter.invalid("a wrong number of operands"));
    }
    let count = modifiers.one_of(&["v2", "v4", "v8"]);
    Ok(Parts {
        operation,
        space: modifiers.one_of(&SPACES).unwrap_or(""),
        ty: modifiers.ty(0).ok_or_else(|| emitter.invalid("a type is missing"))?,
        count: count.and_then(|word| word[1..].parse().ok()).unwrap_or(1),
        to,
        address,
        operands,
    })
}

/// `atom`, `red`. Every one is sequentially consistent, whatever order it asks for.
pub fn atom(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let parts = parts(emitter, modifiers, instruction)?;
    let Parts { operation, space, ty, .. } = parts;
    let run = match ty {
        Type::B128 => super::wide::atom(operation, space),
        _ => select(operation, ty, space),
    };
    let run = run.ok_or_else(|| crate::isa::unknown(instruction))?;
    let Address::Row(base, offset) = emitter.address(parts.address)? else {
        return Err(emitter.invalid("a parameter cannot be updated"));
    };
    match parts.count {
        1 => one(emitter, run, &parts, (base, offset)),
        _ => vector(emitter, run, &parts, (base, offset)),
    }
}

fn one(
    emitter: &mut Emitter<'_>,
    run: Handler,
    parts: &Parts<'_>,
    (base, offset): (u32, i64),
) -> Result<(), LoadError> {
    let zero = emitter.constant(parts.ty, 0);
    let mut slots = [0, zero, zero, 0, 0, base];
    for (slot, operand) in slots[1..3].iter_mut().zip(parts.operands) {
        *slot = emitter.source(operand, parts.ty, false)?;
    }
    slots[0] = match parts.to {
        Some(to) => emitter.destination(to, parts.ty, false)?,
        None => emitter.sink(parts.ty),
    };
    emitter.push(run, &slots, offset as u64);
    Ok(())
}

/// Each element is updated by itself; the vector as a whole has to be aligned.
fn vector(
    emitter: &mut Emitter<'_>,
    run: Handler,
    parts: &Parts<'_>,
    (base, offset): (u32, i64),
) -> Result<(), LoadError> {
    let bytes = parts.ty.bytes() * parts.count as u32;
    let check = match (bytes, parts.space) {
        (4, "global") => aligned::<Global, 4> as Handler,
        (8, "global") => aligned::<Global, 8>,
        (16, "global") => aligned::<Global, 16>,
        (4, "") => aligned::<Generic, 4>,
        (8, "") => aligned::<Generic, 8>,
        (16, "") => aligned::<Generic, 16>,
        _ => return Err(emitter.invalid("a vector of this shape is not supported")),
    };
    let sources = elements(emitter, &parts.operands[0], parts.count)?;
    let targets = parts.to.map(|to| elements(emitter, to, parts.count)).transpose()?;
    emitter.push_before(check, &[0, 0, 0, 0, 0, base], offset as u64);
    // Targets are written one by one, and may be sources too.
    let mut held = Vec::new();
    for source in sources {
        let source = emitter.source(source, parts.ty, false)?;
        let own = emitter.register(parts.ty);
        emitter.push_before(super::moves::copy(parts.ty), &[own, source], 0);
        held.push(own);
    }
    let zero = emitter.constant(parts.ty, 0);
    for (index, source) in held.into_iter().enumerate() {
        let to = match targets {
            Some(targets) => emitter.destination(&targets[index], parts.ty, false)?,
            None => emitter.sink(parts.ty),
        };
        let at = offset + index as i64 * i64::from(parts.ty.bytes());
        emitter.push(run, &[to, source, zero, 0, 0, base], at as u64);
    }
    Ok(())
}

fn elements<'a>(
    emitter: &Emitter<'_>,
    operand: &'a Operand,
    count: usize,
) -> Result<&'a [Operand], LoadError> {
    match operand {
        Operand::Vector(parts) if parts.len() == count => Ok(parts),
        _ => Err(emitter.invalid(format!("a vector of {count} registers is needed"))),
    }
}

/// Checks the place of a whole vector.
fn aligned<W: Window, const BYTES: u32>(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
) -> Step {
    resolve::<W>(cx, frame, (op.slots[BASE], op.imm), mask, BYTES, Access::Atomic)?;
    Ok(Flow::Next)
}
