//! `wgmma`: multiplications by the four warps of a warpgroup, of matrices in shared memory.
//!
//! A warpgroup is four warps, the first of which has an index that is a multiple of four. All of
//! them have to execute the instruction; each computes 16 of the 64 rows, and does so here when it
//! gets to it. On a GPU the multiplication runs on behind the instruction, until a
//! `wgmma.wait_group`: to have it done at once is one of the orders that are allowed. The four warps
//! compute as one there, so a `wgmma.wait_group` waits until each of them has committed the groups
//! that it is about. Its reads of shared memory belong to the asynchronous proxy.

use super::descriptor::{Descriptor, PIECE};
use super::fragment::Tile;
use super::mma::{self, push, read_a, read_c, stored_places, write_d};
use super::multiply::multiply;
use super::{destinations, plan_of, registers, sources, warp_wide, whole_warp};
use crate::exec::address::{Shared, resolve};
use crate::fault::{Access, LoadError, TrapKind};
use crate::isa::{Modifiers, Type};
use crate::machine::matrix_plan::{Plan, Unit};
use crate::machine::{Cx, FULL, Fault, Flow, Frame, LANES, Op, SINK, Step, Touch, lanes};
use crate::memory::access;
use crate::program::Emitter;
use crate::ptx::ast::{Instruction, Operand};

/// Warps of a warpgroup.
const WARPS: usize = 4;
/// Rows of a warp.
const ROWS: usize = 16;
/// Words of a piece of 16 bytes.
const WORDS: usize = 4;

/// `wgmma.fence`, `wgmma.commit_group`
pub fn order(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    if !instruction.operands.is_empty() {
        return Err(emitter.invalid("this instruction takes no operand"));
    }
    let mask = whole_warp(emitter);
    let run = if modifiers.has("commit_group") { commit } else { meet };
    emitter.push(run, &[SINK, SINK, SINK, SINK, SINK, mask], 0);
    Ok(())
}

/// `wgmma.wait_group`
pub fn wait(
    emitter: &mut Emitter<'_>,
    _: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [groups] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`wgmma.wait_group` takes the number of groups"));
    };
    let left = emitter.immediate(groups)?;
    if left > MAX_GROUPS {
        return Err(emitter.invalid("`wgmma.wait_group` takes a number from 0 to 7"));
    }
    let mask = whole_warp(emitter);
    emitter.push(meet, &[SINK, SINK, SINK, SINK, SINK, mask], 0);
    emitter.push(await_warpgroup, &[], left);
    Ok(())
}

/// The greatest number of groups that a wait may leave.
const MAX_GROUPS: u64 = 7;

fn meet(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    warp_wide(cx, frame, op, mask, |_, _, _, _| Ok(()))
}

fn commit(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    warp_wide(cx, frame, op, mask, |cx, _, _, _| {
        cx.block.committed[cx.warp.index as usize] += 1;
        cx.cluster.completions += 1;
        Ok(())
    })
}

/// Waits until all warps of the warpgroup have committed the groups of this one, but for the last ones, as many as `imm` says.
fn await_warpgroup(cx: &mut Cx<'_>, _: &mut Frame, op: &Op, _: u32) -> Step {
    let own = cx.warp.index as usize;
    let first = own - own % WARPS;
    let awaited = cx.block.committed[own].saturating_sub(op.imm);
    let all = cx.block.committed.get(first..first + WARPS);
    // Of a block whose last warpgroup is not whole none of the missing warps ever comes.
    let have_come = all.is_some_and(|all| all.iter().all(|other| *other >= awaited));
    Ok(if have_come || awaited == 0 { Flow::Next } else { Flow::AwaitWarpgroup })
}

/// `wgmma.mma_async`
pub fn mma_async(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let plan = Plan::of(modifiers, Unit::Warpgroup)
        .ok_or_else(|| emitter.invalid("a shape or a type is missing"))?;
    let sparse = modifiers.has("sp");
    let (tiles, metadata, adds, switches) = match (sparse, instruction.operands.as_slice()) {
        (false, [d, a, b, adds, rest @ ..]) => ([d, a, b], None, adds, rest),
        (true, [d, a, b, metadata, selector, adds, rest @ ..]) => {
            ([d, a, b], Some((metadata, selector)), adds, rest)
        }
        _ => return Err(emitter.invalid("operands of `wgmma.mma_async` are missing")),
    };
    let in_registers = matches!(tiles[1], Operand::Vector(_));
    let selector = metadata.map(|(_, selector)| mma::selector(emitter, &plan, selector));
    let plan = Plan { m: ROWS, sparse: selector.transpose()?, ..plan };
    let plan = switched(emitter, plan, switches, in_registers)?;
    let (mut list, [a, b]) = registers_and_descriptors(emitter, &plan, tiles, in_registers)?;
    let adds = emitter.predicate_source(adds)?;
    if let Some((metadata, _)) = metadata {
        list.push(emitter.source(metadata, Type::B32, false)?);
    }
    let scratch = emitter.register(Type::U64);
    push(emitter, plan, list, [adds, a, b, scratch], run);
    Ok(())
}

/// The list of D's registers and perhaps A's, and the slots of the descriptors.
fn registers_and_descriptors(
    emitter: &mut Emitter<'_>,
    plan: &Plan,
    [d, a, b]: [&Operand; 3],
    in_registers: bool,
) -> Result<(Vec<u32>, [u32; 2]), LoadError> {
    sources(emitter, d, Type::B32, plan.d_registers())?;
    let mut list = destinations(emitter, d, Type::B32, plan.d_registers())?;
    let b = emitter.source(b, Type::U64, false)?;
    let a = match in_registers {
        true => {
            list.extend(sources(emitter, a, Type::B32, plan.a_registers())?);
            SINK
        }
        false => emitter.source(a, Type::U64, false)?,
    };
    Ok((list, [a, b]))
}

/// The plan with the signs of A and B and their orders, which are numbers behind the operands.
fn switched(
    emitter: &Emitter<'_>,
    plan: Plan,
    operands: &[Operand],
    in_registers: bool,
) -> Result<Plan, LoadError> {
    let numbers =
        operands.iter().map(|own| emitter.immediate(own)).collect::<Result<Vec<_>, _>>()?;
    let negative = |number: u64| match number as i64 {
        1 => Ok(false),
        -1 => Ok(true),
        _ => Err(emitter.invalid("a scale has to be 1 or -1")),
    };
    let turned = |number: u64| match number {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(emitter.invalid("a transposition has to be 0 or 1")),
    };
    let plan = Plan { a_by_columns: false, b_by_rows: false, ..plan };
    let (sixteen, whole) = (plan.a.bits() == 16, plan.d == Type::S32);
    match numbers[..] {
        [] if whole => Ok(plan),
        [a, b] if !sixteen && !whole => Ok(Plan { negate: [negative(a)?, negative(b)?], ..plan }),
        [a, b, b_turned] if sixteen && in_registers => {
            Ok(Plan { negate: [negative(a)?, negative(b)?], b_by_rows: turned(b_turned)?, ..plan })
        }
        [a, b, a_turned, b_turned] if sixteen && !in_registers => Ok(Plan {
            negate: [negative(a)?, negative(b)?],
            a_by_columns: turned(a_turned)?,
            b_by_rows: turned(b_turned)?,
            ..plan
        }),
        _ => Err(emitter.invalid("these are not the numbers that belong behind the scale of D")),
    }
}

/// Slots: list of D, perhaps A, perhaps metadata; whether D is added to, A's descriptor or `SINK`,
/// B's, scratch.
fn run(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    warp_wide(cx, frame, op, mask, |cx, frame, op, mask| {
        let (plan, list) = (plan_of(frame, op), registers(frame, op));
        let (d, rest) = list.split_at(plan.d_registers());
        let (a, metadata) = match op.slots[2] {
            SINK => {
                let (a, metadata) = rest.split_at(plan.a_registers());
                (read_a(frame, a, (ROWS, plan.stored_words()), plan.a), metadata)
            }
            _ => (a_in_memory(cx, frame, op, &plan)?, rest),
        };
        let places = metadata.first().map(|slot| stored_places(&plan, frame.row32(*slot)));
        let b = b_in_memory(cx, frame, op, &plan)?;
        let adds = frame.predicate(op.slots[1]) & mask != 0;
        let c = match adds {
            true => read_c(frame, d, (ROWS, plan.n), plan.d),
            false => Tile::filled(ROWS, plan.n, 0),
        };
        write_d(frame, d, &multiply(&plan, [&a, &b, &c], places.as_ref()), plan.d, mask);
        Ok(())
    })
}

/// The descriptor in a slot, which all lanes have to agree on.
fn descriptor(frame: &Frame, slot: u32, mask: u32) -> Result<Descriptor, Box<Fault>> {
    let row = frame.row64(slot);
    let own = row[mask.trailing_zeros() as usize];
    match lanes(mask).find(|lane| row[*lane] != own) {
        None => Ok(Descriptor::new(own)),
        Some(lane) => Err(Fault::new(lane, TrapKind::DivergentDescriptor)),
    }
}

/// The warp's rows of A.
fn a_in_memory(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    plan: &Plan,
) -> Result<Tile<u64>, Box<Fault>> {
    let matrix = descriptor(frame, op.slots[2], FULL)?;
    let first = ROWS * (cx.warp.index as usize % 4);
    let shape = (ROWS, plan.stored_words());
    read_matrix(cx, frame, op, (matrix, first, shape, plan.a_by_columns))
}

/// All columns of B.
fn b_in_memory(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    plan: &Plan,
) -> Result<Tile<u64>, Box<Fault>> {
    let matrix = descriptor(frame, op.slots[3], FULL)?;
    read_matrix(cx, frame, op, (matrix, 0, (plan.n, plan.words()), plan.b_by_rows))
}

/// Rows of a matrix, whose pieces lie along `k`; or, where neighbours lie across the rows
/// (`across`, of 16-bit elements), the same from pieces of eight rows.
fn read_matrix(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    (matrix, first, (rows, words), across): (Descriptor, usize, (usize, usize), bool),
) -> Result<Tile<u64>, Box<Fault>> {
    let mut tile = Tile::filled(rows, words, 0);
    let (pieces, depth) = (words / WORDS, 2 * words);
    let addresses: Vec<u64> = match across {
        false => (0..rows * pieces)
            .map(|at| matrix.along_k((first + at / pieces) as u64, (at % pieces) as u64))
            .collect(),
        true => (0..rows / 8 * depth)
            .map(|at| matrix.along_rows((at % depth) as u64, (first / 8 + at / depth) as u64))
            .collect(),
    };
    for (batch, addresses) in addresses.chunks(LANES).enumerate() {
        let found = read_pieces(cx, frame, op, addresses)?;
        for (index, piece) in found.iter().enumerate() {
            let at = batch * LANES + index;
            match across {
                false => (0..WORDS).for_each(|word| {
                    tile.set(at / pieces, at % pieces * WORDS + word, piece[word].into());
                }),
                true => put_across(&mut tile, at / depth, at % depth, piece),
            }
        }
    }
    Ok(tile)
}

/// Puts a piece of eight rows' elements of one `k`.
fn put_across(tile: &mut Tile<u64>, block: usize, k: usize, words: &[u32; WORDS]) {
    for element in 0..8 {
        let bits = u64::from(words[element / 2] >> (16 * (element % 2)) & 0xffff);
        let row = 8 * block + element;
        let old = tile.get(row, k / 2);
        tile.set(row, k / 2, old | bits << (16 * (k % 2)));
    }
}

/// The words of up to 32 pieces of 16 bytes in shared memory.
fn read_pieces(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    addresses: &[u64],
) -> Result<Vec<[u32; WORDS]>, Box<Fault>> {
    let scratch = op.slots[4];
    let mask = FULL >> (LANES - addresses.len());
    let row = std::array::from_fn(|lane| addresses.get(lane).copied().unwrap_or(0));
    frame.write::<u64>(scratch, &row, FULL);
    let at = resolve::<Shared>(cx, frame, (scratch, 0), mask, PIECE as u32, Access::Load)?;
    if cx.watch.is_some() {
        let touch = Touch { op, mask, at: &at, bytes: 4, elements: 4, access: Access::Load };
        cx.touch(frame, &touch)?;
    }
    let word = |lane: usize, word: usize| {
        // SAFETY: `resolve` checked 16 aligned bytes at the address of each lane of the mask.
        unsafe { access::load_u32(at[lane] + 4 * word as u64) }
    };
    Ok(lanes(mask).map(|lane| std::array::from_fn(|index| word(lane, index))).collect())
}
