//! Matrix instructions: tiles that the registers of a warp hold, and what is done with them.
//!
//! [`fragment`] says which element a register of a lane holds; [`plan`] is what a decoded instruction
//! says about shapes and types; [`multiply`] goes from tiles to a tile by the arithmetic of
//! [`crate::numeric::matrix`]. The instructions themselves: [`mma`] (with its sparse form), [`quad`]
//! (`mma.m8n8k4` of `.f16`), [`move_tile`] (`ldmatrix`, `stmatrix`, `movmatrix`), [`wmma`], [`wgmma`].
//!
//! All are `.aligned`: every lane of the warp has to execute them. A lane waits for the others, as
//! at any `.sync` instruction.

pub mod descriptor;
pub mod fragment;
pub mod mma;
pub mod move_tile;
pub mod multiply;
pub mod quad;
pub mod wgmma;
pub mod wmma;

use super::collective::gather_step;
use crate::fault::LoadError;
use crate::isa::Type;
use crate::machine::matrix_plan::Plan;
use crate::machine::{Cx, FULL, Fault, Frame, LISTED, Lane, Op, Step};
use crate::program::Emitter;
use crate::ptx::ast::Operand;

/// Slot of the list of registers.
const LIST: usize = 0;

/// The registers of an operand in braces, or of one that stands alone.
fn parts(operand: &Operand) -> &[Operand] {
    match operand {
        Operand::Vector(parts) => parts,
        single => std::slice::from_ref(single),
    }
}

/// Slots of the registers of an operand that is read. There have to be `count`.
fn sources(
    emitter: &mut Emitter<'_>,
    operand: &Operand,
    ty: Type,
    count: usize,
) -> Result<Vec<u32>, LoadError> {
    counted(emitter, operand, count)?.iter().map(|part| emitter.source(part, ty, false)).collect()
}

/// Slots of the registers of an operand that is written. There have to be `count`.
fn destinations(
    emitter: &mut Emitter<'_>,
    operand: &Operand,
    ty: Type,
    count: usize,
) -> Result<Vec<u32>, LoadError> {
    counted(emitter, operand, count)?
        .iter()
        .map(|part| emitter.destination(part, ty, false))
        .collect()
}

fn counted<'a>(
    emitter: &Emitter<'_>,
    operand: &'a Operand,
    count: usize,
) -> Result<&'a [Operand], LoadError> {
    let parts = parts(operand);
    match parts.len() == count {
        true => Ok(parts),
        false => {
            let found = parts.len();
            Err(emitter.invalid(format!("{count} registers are needed, {found} stand here")))
        }
    }
}

/// The slot that names a list of registers.
fn listed(emitter: &mut Emitter<'_>, slots: Vec<u32>) -> u32 {
    emitter.list(slots) as u32 | LISTED
}

/// The mask of a whole warp, which stands last.
fn whole_warp(emitter: &mut Emitter<'_>) -> u32 {
    emitter.constant(Type::U32, FULL.into())
}

/// Runs `together` once all lanes are here.
#[inline(always)]
fn warp_wide(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
    together: impl Fn(&mut Cx<'_>, &mut Frame, &Op, u32) -> Result<(), Box<Fault>>,
) -> Step {
    gather_step(cx, frame, op, mask, together)
}

/// The plan of an operation.
fn plan_of(frame: &Frame, op: &Op) -> Plan {
    frame.program.plans[op.imm as usize]
}

/// The registers of an operation.
fn registers(frame: &Frame, op: &Op) -> Vec<u32> {
    frame.program.lists[(op.slots[LIST] & !LISTED) as usize].to_vec()
}

/// A register's bits, of 32 or 64.
fn bits<T: Lane>(frame: &Frame, slot: u32, lane: usize) -> T::Bits {
    T::row(frame, slot)[lane]
}
