//! Loads and stores.

use super::{param, wide};
use crate::exec::address::{
    Const, Generic, Global, Local, Param, Shared, SharedCluster, Window, resolve,
};
use crate::fault::{Access, LoadError};
use crate::isa::{Modifiers, Pick, Type};
use crate::machine::{
    BitCopy, Cx, ElementRegister, FULL, Flow, Frame, Handler, LANES, Op, Register, Step, Touch,
    lanes,
};
use crate::memory::access;
use crate::program::{Address, Emitter, ParamHome};
use crate::ptx::ast::{Instruction, Operand};
use std::sync::atomic::{Ordering, fence};

/// Slot of the address.
const BASE: usize = 5;

/// The bits of one element in memory.
trait Element: crate::machine::Lane {
    const BYTES: u32;
    /// # Safety
    /// As for [`access::load_u64`].
    unsafe fn load(address: u64) -> Self::Bits;
    /// # Safety
    /// As for [`access::store_u64`].
    unsafe fn store(address: u64, bits: Self::Bits);
}

macro_rules! element {
    ($($ty:ty, $load:ident, $store:ident;)*) => {$(
        impl Element for $ty {
            const BYTES: u32 = size_of::<$ty>() as u32;
            #[inline(always)]
            unsafe fn load(address: u64) -> Self::Bits {
                // SAFETY: the caller vouches for the address.
                unsafe { access::$load(address) }.into()
            }
            #[inline(always)]
            unsafe fn store(address: u64, bits: Self::Bits) {
                // SAFETY: the caller vouches for the address.
                unsafe { access::$store(address, bits as $ty) }
            }
        }
    )*};
}

element! {
    u8, load_u8, store_u8;
    u16, load_u16, store_u16;
    u32, load_u32, store_u32;
    u64, load_u64, store_u64;
}

fn load<W: Window, T: Element, const N: usize>(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
) -> Step {
    let bytes = T::BYTES * N as u32;
    let at = resolve::<W>(cx, frame, (op.slots[BASE], op.imm), mask, bytes, Access::Load)?;
    if cx.watch.is_some() {
        let (bytes, elements) = (T::BYTES, N as u32);
        cx.touch(frame, &Touch { op, mask, at: &at, bytes, elements, access: Access::Load })?;
    }
    cx.seen.read(op, at[mask.trailing_zeros() as usize]);
    for part in 0..N {
        let mut out = [T::Bits::default(); LANES];
        let offset = part as u64 * u64::from(T::BYTES);
        if mask == FULL {
            for lane in 0..LANES {
                // SAFETY: `resolve` checked that the bytes are aligned and live for every lane of
                // the mask.
                out[lane] = unsafe { T::load(at[lane] + offset) };
            }
        } else {
            for lane in lanes(mask) {
                // SAFETY: as above.
                out[lane] = unsafe { T::load(at[lane] + offset) };
            }
        }
        frame.write::<T>(op.slots[part], &out, mask);
    }
    Ok(Flow::Next)
}

fn store<W: Window, T: Element, const N: usize>(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
) -> Step {
    let bytes = T::BYTES * N as u32;
    let at = resolve::<W>(cx, frame, (op.slots[BASE], op.imm), mask, bytes, Access::Store)?;
    if cx.watch.is_some() {
        let (bytes, elements) = (T::BYTES, N as u32);
        cx.touch(frame, &Touch { op, mask, at: &at, bytes, elements, access: Access::Store })?;
    }
    cx.seen.wrote();
    for part in 0..N {
        let row = T::row(frame, op.slots[part]);
        let offset = part as u64 * u64::from(T::BYTES);
        if mask == FULL {
            for lane in 0..LANES {
                // SAFETY: `resolve` checked that the bytes are aligned and live for every lane of
                // the mask.
                unsafe { T::store(at[lane] + offset, row[lane]) };
            }
        } else {
            for lane in lanes(mask) {
                // SAFETY: as above.
                unsafe { T::store(at[lane] + offset, row[lane]) };
            }
        }
    }
    Ok(Flow::Next)
}

/// The handler for a space, a width in bytes and a number of elements.
macro_rules! by_shape {
    ($f:ident, $space:expr, $bytes:expr, $count:expr) => {
        match $space {
            "" => by_shape!(@ $f, Generic, $bytes, $count),
            "global" => by_shape!(@ $f, Global, $bytes, $count),
            "const" => by_shape!(@ $f, Const, $bytes, $count),
            "shared" | "shared::cta" => by_shape!(@ $f, Shared, $bytes, $count),
            "shared::cluster" => by_shape!(@ $f, SharedCluster, $bytes, $count),
            "local" => by_shape!(@ $f, Local, $bytes, $count),
            "param" | "param::entry" => by_shape!(@ $f, Param, $bytes, $count),
            _ => None,
        }
    };
    (@ $f:ident, $window:ty, $bytes:expr, $count:expr) => {
        match ($bytes, $count) {
            (1, 1) => Some($f::<$window, u8, 1> as Handler),
            (1, 2) => Some($f::<$window, u8, 2> as Handler),
            (1, 4) => Some($f::<$window, u8, 4> as Handler),
            (2, 1) => Some($f::<$window, u16, 1> as Handler),
            (2, 2) => Some($f::<$window, u16, 2> as Handler),
            (2, 4) => Some($f::<$window, u16, 4> as Handler),
            (4, 1) => Some($f::<$window, u32, 1> as Handler),
            (4, 2) => Some($f::<$window, u32, 2> as Handler),
            (4, 4) => Some($f::<$window, u32, 4> as Handler),
            (8, 1) => Some($f::<$window, u64, 1> as Handler),
            (8, 2) => Some($f::<$window, u64, 2> as Handler),
            _ => None,
        }
    };
}

const SPACES: [&str; 9] = [
    "global",
    "const",
    "shared",
    "shared::cta",
    "shared::cluster",
    "local",
    "param",
    "param::entry",
    "param::func",
];

/// The registers of an operand: one, or those of a vector.
fn parts<'a>(
    emitter: &Emitter<'_>,
    modifiers: &Modifiers<'_>,
    operand: &'a Operand,
) -> Result<&'a [Operand], LoadError> {
    let parts = match operand {
        Operand::Vector(parts) => parts.as_slice(),
        single => std::slice::from_ref(single),
    };
    let want = match modifiers.one_of(&["v2", "v4"]) {
        Some("v2") => 2,
        Some(_) => 4,
        None => 1,
    };
    match parts.len() == want {
        true => Ok(parts),
        false => {
            Err(emitter.invalid(format!("{want} registers are needed, {} stand here", parts.len())))
        }
    }
}

/// The element's type, or an error.
fn element_type(emitter: &Emitter<'_>, modifiers: &Modifiers<'_>) -> Result<Type, LoadError> {
    let ty = modifiers.ty(0).ok_or_else(|| emitter.invalid("a type is missing"))?;
    match ty.bits() == 128 && modifiers.one_of(&["v2", "v4"]).is_some() {
        true => Err(emitter.invalid("vectors of 256 bits need `sm_100`")),
        false => Ok(ty),
    }
}

/// The operands without the cache policy that `.L2::cache_hint` puts at the end. Caches are not
/// emulated; the policy has to be a register that exists.
pub fn without_policy<'a>(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    operands: &'a [Operand],
) -> Result<&'a [Operand], LoadError> {
    if !modifiers.has("L2::cache_hint") {
        return Ok(operands);
    }
    let [rest @ .., policy] = operands else {
        return Err(emitter.invalid("a cache policy is missing"));
    };
    emitter.source(policy, Type::B64, false)?;
    Ok(rest)
}

/// The registers of an operand as slots of 64 bits at most: 128 bits are two of 64.
fn halves(ty: Type, slots: &mut [u32; 6], count: usize) -> (Type, usize) {
    if ty != Type::B128 {
        return (ty, count);
    }
    slots[1] = slots[0] + 1;
    (Type::B64, 2)
}

/// Whether an access has to be seen as a whole.
fn is_strong(modifiers: &Modifiers<'_>) -> bool {
    modifiers.one_of(&["volatile", "relaxed", "acquire", "release", "mmio"]).is_some()
}

/// `ld`, `ldu`
pub fn ld(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [to, from] = without_policy(emitter, modifiers, &instruction.operands)? else {
        return Err(emitter.invalid("`ld` takes a register and an address"));
    };
    let ty = element_type(emitter, modifiers)?;
    let address = emitter.address(from)?;
    let parts = parts(emitter, modifiers, to)?;
    let mut slots = [0; 6];
    for (slot, part) in slots.iter_mut().zip(parts) {
        let known = emitter.effect().writes.len();
        *slot = emitter.destination(part, ty, true)?;
        let registers = emitter.effect().writes.get(known..).unwrap_or_default().to_vec();
        note_parts(emitter, ty, &registers);
    }
    let whole = ty;
    let (ty, count) = halves(ty, &mut slots, parts.len());
    match address {
        Address::Row(base, offset) => {
            slots[BASE] = base;
            let space = modifiers.one_of(&SPACES).unwrap_or("");
            let run = match (space, emitter.home) {
                ("param" | "param::func", ParamHome::Frame) => None,
                _ if whole == Type::B128 && is_strong(modifiers) => wide::strong_load(space),
                _ => by_shape!(load, space, ty.bytes(), count),
            };
            let run =
                run.ok_or_else(|| emitter.invalid("a load of this shape is not supported"))?;
            emitter.push(run, &slots, offset as u64);
        }
        Address::KernelParam(at, left) => {
            load_param(emitter, param::load_kernel, ty, &slots[..count], (at, left))?
        }
        Address::FrameParam(at, left) => {
            load_param(emitter, param::load_frame, ty, &slots[..count], (at, left))?;
            note_param_copies(emitter, ty, at, true);
        }
    }
    if modifiers.has("acquire") {
        emitter.push_after(acquire, &[], 0);
    }
    if modifiers.one_of(&["volatile", "relaxed", "acquire", "mmio"]).is_some() {
        emitter.push_after(note_poll, &[], 0);
    }
    Ok(())
}

fn load_param(
    emitter: &mut Emitter<'_>,
    handler: fn(u32) -> Handler,
    ty: Type,
    slots: &[u32],
    place: (u32, u64),
) -> Result<(), LoadError> {
    let offsets = param_offsets(emitter, ty, slots.len(), place)?;
    for (slot, offset) in slots.iter().zip(offsets) {
        emitter.push(handler(ty.bytes()), &[*slot], offset);
    }
    Ok(())
}

/// The offsets of elements in a parameter.
fn param_offsets(
    emitter: &Emitter<'_>,
    ty: Type,
    count: usize,
    (at, left): (u32, u64),
) -> Result<Vec<u64>, LoadError> {
    let bytes = u64::from(ty.bytes());
    if bytes * count as u64 > left || !u64::from(at).is_multiple_of(bytes) {
        return Err(emitter.invalid("the access does not lie in the parameter, or is misaligned"));
    }
    Ok((0..count as u64).map(|index| u64::from(at) + index * bytes).collect())
}

/// `st`
pub fn st(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [to, from] = without_policy(emitter, modifiers, &instruction.operands)? else {
        return Err(emitter.invalid("`st` takes an address and a register"));
    };
    let ty = element_type(emitter, modifiers)?;
    let address = emitter.address(to)?;
    let parts = parts(emitter, modifiers, from)?;
    let mut slots = [0; 6];
    for (slot, part) in slots.iter_mut().zip(parts) {
        let known = emitter.effect().reads.len();
        *slot = emitter.source(part, ty, true)?;
        let registers = emitter.effect().reads.get(known..).unwrap_or_default().to_vec();
        note_parts(emitter, ty, &registers);
    }
    let whole = ty;
    let (ty, count) = halves(ty, &mut slots, parts.len());
    if modifiers.has("release") {
        emitter.push_before(release, &[], 0);
    }
    match address {
        Address::Row(base, offset) => {
            slots[BASE] = base;
            let space = modifiers.one_of(&SPACES).unwrap_or("");
            let run = match space {
                "param" | "param::func" | "param::entry" | "const" => None,
                _ if whole == Type::B128 && is_strong(modifiers) => wide::strong_store(space),
                _ => by_shape!(store, space, ty.bytes(), count),
            };
            let run =
                run.ok_or_else(|| emitter.invalid("a store of this shape is not supported"))?;
            emitter.push(run, &slots, offset as u64);
        }
        Address::KernelParam(..) => {
            return Err(emitter.invalid("a kernel's parameters cannot be stored to"));
        }
        Address::FrameParam(at, left) => {
            let offsets = param_offsets(emitter, ty, count, (at, left))?;
            for (slot, offset) in slots.iter().zip(offsets) {
                emitter.push(param::store_frame(ty.bytes()), &[*slot], offset);
            }
            note_param_copies(emitter, ty, at, false);
        }
    }
    Ok(())
}

/// Notes the registers of one element, of which one of 128 bits has two.
fn note_parts(emitter: &mut Emitter<'_>, ty: Type, registers: &[Register]) {
    for row in 0..ty.rows() {
        let register = registers.get(row as usize).copied();
        emitter.note_element(ElementRegister { register, signed: ty.is_signed() });
    }
}

/// Notes what a load or store of the frame's parameter memory copies.
fn note_param_copies(emitter: &mut Emitter<'_>, ty: Type, at: u32, loads: bool) {
    let elements = emitter.effect().elements.clone();
    for (at, element) in (at..).step_by(ty.bytes() as usize).zip(elements) {
        for done in (0..ty.bits()).step_by(32) {
            let memory = (Register::Param((at + done / 8) / 4), at % 4 * 8);
            let register = element.register.map(|register| (register, done));
            let (bits, signed) = ((ty.bits() - done).min(32), element.signed);
            match (loads, register) {
                (false, from) => {
                    emitter.note_bit_copy(BitCopy { from, to: memory, bits, signed: false })
                }
                (true, Some(to)) => {
                    emitter.note_bit_copy(BitCopy { from: Some(memory), to, bits, signed })
                }
                (true, None) => {}
            }
        }
    }
}

fn acquire(_: &mut Cx<'_>, _: &mut Frame, _: &Op, _: u32) -> Step {
    fence(Ordering::Acquire);
    Ok(Flow::Next)
}

/// What a release operation does first.
pub fn release(_: &mut Cx<'_>, _: &mut Frame, _: &Op, _: u32) -> Step {
    fence(Ordering::Release);
    Ok(Flow::Next)
}

/// Tells the scheduler that this thread may be waiting for another.
fn note_poll(cx: &mut Cx<'_>, _: &mut Frame, _: &Op, _: u32) -> Step {
    cx.polled = true;
    Ok(Flow::Next)
}

/// `membar`, `fence`
pub fn full_fence(_: &Modifiers<'_>) -> Option<Pick> {
    fn run(_: &mut Cx<'_>, _: &mut Frame, _: &Op, _: u32) -> Step {
        fence(Ordering::SeqCst);
        Ok(Flow::Next)
    }
    Some((run as Handler).into())
}

/// `prefetch` and `discard`-like hints take an address, which is resolved as an operand and left
/// alone.
pub fn hint(
    emitter: &mut Emitter<'_>,
    _: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let address =
        instruction.operands.first().ok_or_else(|| emitter.invalid("an address is needed"))?;
    emitter.address(address)?;
    emitter.push(nothing, &[], 0);
    Ok(())
}

fn nothing(_: &mut Cx<'_>, _: &mut Frame, _: &Op, _: u32) -> Step {
    Ok(Flow::Next)
}

/// `createpolicy.fractional`: a policy is a number that only caches read, and none are emulated.
pub fn policy(_: &Modifiers<'_>) -> Option<Pick> {
    fn run(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
        frame.write::<u64>(op.slots[0], &[0; LANES], mask);
        Ok(Flow::Next)
    }
    Some((run as Handler).into())
}

/// `createpolicy.range`: a cache policy made from an address and two sizes.
pub fn range_policy(
    emitter: &mut Emitter<'_>,
    _: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [to, address, primary, total] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("a register, an address and two sizes are needed"));
    };
    emitter.address(address)?;
    emitter.source(primary, Type::B32, false)?;
    emitter.source(total, Type::B32, false)?;
    let to = emitter.destination(to, Type::B64, false)?;
    let zero = emitter.constant(Type::B64, 0);
    emitter.push(super::moves::copy(Type::B64), &[to, zero], 0);
    Ok(())
}

/// `fence.proxy.tensormap::generic.acquire` takes the map's address and size.
pub fn map_fence(
    emitter: &mut Emitter<'_>,
    _: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [address, size] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("an address and a size are needed"));
    };
    emitter.address(address)?;
    if emitter.immediate(size)? != 128 {
        return Err(emitter.invalid("a tensor map has 128 bytes"));
    }
    emitter.push(acquire_all, &[], 0);
    Ok(())
}

fn acquire_all(_: &mut Cx<'_>, _: &mut Frame, _: &Op, _: u32) -> Step {
    fence(Ordering::SeqCst);
    Ok(Flow::Next)
}
