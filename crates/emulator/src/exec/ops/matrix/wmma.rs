//! `wmma`: tiles whose fragments a program treats as a whole.
//!
//! The PTX manual leaves the layout of a fragment open; here it is the one of an H200. A tile of 32
//! rows is two fragments of `mma` for 16; one of 16 columns is two for 8; `m8n32k16` is the transpose of
//! `m32n8k16`. A fragment of `.f16` always has eight registers, which repeat what fewer could hold.

use super::fragment::{Tile, a_place, b_place, c_place};
use super::mma::{push, word};
use super::multiply::multiply;
use super::{destinations, listed, plan_of, registers, sources, warp_wide, whole_warp};
use crate::exec::address::{Generic, Global, Shared, Window, resolve};
use crate::fault::{Access, LoadError};
use crate::isa::{Modifiers, Type};
use crate::machine::matrix_plan::{Plan, Unit, per_register, shape};
use crate::machine::{
    Cx, Fault, Flow, Frame, Handler, LANES, Op, Row32, Row64, SINK, Step, Touch, lanes,
};
use crate::memory::access;
use crate::program::{Address, Emitter};
use crate::ptx::ast::{Instruction, Operand};

/// Which matrix a fragment is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A
    A,
    /// B
    B,
    /// C or D
    C,
}

/// Registers of a fragment in a lane.
fn registers_of(plan: &Plan, part: Part) -> usize {
    let repeated = plan.a == Type::F16;
    match part {
        Part::A | Part::B if repeated => 8,
        Part::A => plan.a_registers(),
        Part::B => plan.b_registers(),
        Part::C => plan.c_registers(),
    }
}

/// Registers of a fragment that hold something that no other does.
fn distinct(plan: &Plan, part: Part) -> usize {
    match part {
        Part::A => plan.a_registers(),
        Part::B => plan.b_registers(),
        Part::C => plan.c_registers(),
    }
}

/// Row and column, in the matrix, of the first element that a register of a lane holds. Those of C
/// count elements, of which a register has one or two; those of A and B count words of `k`.
fn place(plan: &Plan, part: Part, lane: usize, index: usize) -> (usize, usize) {
    if plan.m == 8 && plan.n == 32 {
        let turned = match part {
            Part::A => Part::B,
            Part::B => Part::A,
            Part::C => Part::C,
        };
        let (row, column) = place(&plan.transposed(), turned, lane, index);
        return if part == Part::C { (column, row) } else { (row, column) };
    }
    match part {
        Part::A => a_place(lane, index, (plan.m, plan.words())),
        Part::B => b_place(lane, index, plan.words()),
        Part::C if plan.m == 32 => {
            let (row, column) = c_place(lane, index % 4, 16);
            (row + 16 * (index / 4), column)
        }
        Part::C => c_place(lane, index, plan.m),
    }
}

// ---- decoding

/// The plan of a load or store: its one type is that of the elements.
fn plan_of_move(modifiers: &Modifiers<'_>) -> Option<(Plan, Part)> {
    let (m, n, k) = modifiers.words().find_map(shape)?;
    let ty = modifiers.ty(0)?;
    let part = match modifiers.one_of(&["a", "b"]) {
        Some("a") => Part::A,
        Some(_) => Part::B,
        None => Part::C,
    };
    // For C the type of A only tells how wide a word is.
    let a = match (part, ty) {
        (Part::C, Type::F64) => Type::F64,
        (Part::C, _) => Type::B32,
        _ => ty,
    };
    let by_columns = modifiers.has("col");
    let plan = Plan {
        m,
        n,
        k,
        a,
        b: a,
        c: ty,
        d: ty,
        a_by_columns: by_columns,
        b_by_rows: !by_columns,
        saturates: false,
        xor: false,
        rounding: crate::numeric::Rounding::NearestEven,
        unit: Unit::Warp,
        sparse: None,
        negate: [false; 2],
    };
    Some((plan, part))
}

/// `wmma.load`
pub fn load(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [to, from, stride @ ..] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`wmma.load` takes registers, an address and a stride"));
    };
    let (plan, part) =
        plan_of_move(modifiers).ok_or_else(|| emitter.invalid("a shape or a type is missing"))?;
    let list = destinations(emitter, to, plan.word_type(), registers_of(&plan, part))?;
    let run = by_space(modifiers, [read::<Generic>, read::<Global>, read::<Shared>]);
    push_move(emitter, (plan, part), list, (from, stride), run)
}

/// `wmma.store`
pub fn store(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [to, from, stride @ ..] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`wmma.store` takes an address, registers and a stride"));
    };
    let (plan, part) =
        plan_of_move(modifiers).ok_or_else(|| emitter.invalid("a shape or a type is missing"))?;
    let list = sources(emitter, from, plan.word_type(), registers_of(&plan, part))?;
    let run = by_space(modifiers, [write::<Generic>, write::<Global>, write::<Shared>]);
    push_move(emitter, (plan, part), list, (to, stride), run)
}

fn by_space(modifiers: &Modifiers<'_>, [generic, global, shared]: [Handler; 3]) -> Handler {
    match modifiers.one_of(&["global", "shared", "shared::cta"]) {
        None => generic,
        Some("global") => global,
        Some(_) => shared,
    }
}

/// Slots: list, which matrix, stride or `SINK`, address, scratch.
fn push_move(
    emitter: &mut Emitter<'_>,
    (plan, part): (Plan, Part),
    list: Vec<u32>,
    (address, stride): (&Operand, &[Operand]),
    run: Handler,
) -> Result<(), LoadError> {
    let Address::Row(base, offset) = emitter.address(address)? else {
        return Err(emitter.invalid("a matrix cannot lie in parameter memory"));
    };
    let base = match offset {
        0 => base,
        _ => {
            let sum = emitter.register(Type::U64);
            let offset = emitter.constant(Type::U64, offset as u64);
            emitter.push_before(added, &[sum, base, offset], 0);
            sum
        }
    };
    let stride = match stride {
        [] => SINK,
        [stride] => emitter.source(stride, Type::U32, false)?,
        _ => return Err(emitter.invalid("a matrix has one stride")),
    };
    let list = listed(emitter, list);
    let mask = whole_warp(emitter);
    let part = emitter.constant(Type::U32, part as u64);
    emitter.program.plans.push(plan);
    let index = emitter.program.plans.len() as u64 - 1;
    let scratch = emitter.register(Type::U64);
    emitter.push(run, &[list, part, stride, base, scratch, mask], index);
    Ok(())
}

fn added(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    frame.map2::<u64, u64, u64>(op, mask, |base, offset| base.wrapping_add(offset));
    Ok(Flow::Next)
}

/// `wmma.mma`
pub fn mma(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [d, a, b, c] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("`wmma.mma` takes four operands"));
    };
    let plan = Plan::of(modifiers, Unit::Fragment)
        .ok_or_else(|| emitter.invalid("a shape or a type is missing"))?;
    let ty = plan.word_type();
    let read = [
        sources(emitter, a, ty, registers_of(&plan, Part::A))?,
        sources(emitter, b, ty, registers_of(&plan, Part::B))?,
        sources(emitter, c, ty, plan.c_registers())?,
    ];
    let mut list = destinations(emitter, d, ty, plan.d_registers())?;
    list.extend(read.concat());
    push(emitter, plan, list, [SINK; 4], run);
    Ok(())
}

// ---- execution

fn run(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    warp_wide(cx, frame, op, mask, |_, frame, op, mask| {
        multiply_fragments(frame, op, mask);
        Ok(())
    })
}

fn multiply_fragments(frame: &mut Frame, op: &Op, mask: u32) {
    let (plan, list) = (plan_of(frame, op), registers(frame, op));
    let (d, rest) = list.split_at(plan.d_registers());
    let (a, rest) = rest.split_at(registers_of(&plan, Part::A));
    let (b, c) = rest.split_at(registers_of(&plan, Part::B));
    let words = plan.words();
    let a = words_of(frame, &plan, Part::A, &a[..plan.a_registers()], (plan.m, words));
    let b = words_of(frame, &plan, Part::B, &b[..plan.b_registers()], (plan.n, words));
    let mut sum = Tile::filled(plan.m, plan.n, 0);
    let held = per_register(plan.c);
    for (register, slot) in c.iter().enumerate() {
        for lane in 0..LANES {
            let own = word(frame, *slot, lane, plan.a);
            for index in 0..held {
                let (row, col) = place(&plan, Part::C, lane, register * held + index);
                let bits = if held == 2 { own >> (16 * index) & 0xffff } else { own };
                sum.set(row, col, bits);
            }
        }
    }
    write_fragment(frame, &plan, d, &multiply(&plan, [&a, &b, &sum], None), mask);
}

fn words_of(
    frame: &Frame,
    plan: &Plan,
    part: Part,
    slots: &[u32],
    (rows, words): (usize, usize),
) -> Tile<u64> {
    let mut tile = Tile::filled(rows, words, 0);
    for (register, slot) in slots.iter().enumerate() {
        for lane in 0..LANES {
            let (row, at) = place(plan, part, lane, register);
            tile.set(row, at, word(frame, *slot, lane, plan.a));
        }
    }
    tile
}

fn write_fragment(frame: &mut Frame, plan: &Plan, slots: &[u32], tile: &Tile<u64>, mask: u32) {
    let held = per_register(plan.d);
    for (register, slot) in slots.iter().enumerate() {
        let mut row = [0; LANES];
        for lane in lanes(mask) {
            for index in 0..held {
                let (at, col) = place(plan, Part::C, lane, register * held + index);
                row[lane] |= tile.get(at, col) << (16 * index);
            }
        }
        put(frame, plan, *slot, &row, mask);
    }
}

fn put(frame: &mut Frame, plan: &Plan, slot: u32, row: &Row64, mask: u32) {
    match plan.a {
        Type::F64 => frame.write::<u64>(slot, row, mask),
        _ => frame.write::<u32>(slot, &row.map(|own| own as u32), mask),
    }
}

// ---- loads and stores

/// A matrix in memory.
struct Matrix {
    plan: Plan,
    part: Part,
}

impl Matrix {
    fn of(frame: &Frame, op: &Op) -> Self {
        let plan = plan_of(frame, op);
        let part = match frame.row32(op.slots[1])[0] {
            0 => Part::A,
            1 => Part::B,
            _ => Part::C,
        };
        Self { plan, part }
    }

    /// Whether neighbours in memory are neighbours in a column.
    fn by_columns(&self) -> bool {
        match self.part {
            Part::B => !self.plan.b_by_rows,
            _ => self.plan.a_by_columns,
        }
    }

    /// Rows and columns.
    fn shape(&self) -> (usize, usize) {
        match self.part {
            Part::A => (self.plan.m, self.plan.k),
            Part::B => (self.plan.k, self.plan.n),
            Part::C => (self.plan.m, self.plan.n),
        }
    }

    fn least_stride(&self) -> u64 {
        let (rows, columns) = self.shape();
        if self.by_columns() { rows as u64 } else { columns as u64 }
    }

    /// Bits of an element.
    fn element_bits(&self) -> u64 {
        self.plan.c.bits().into()
    }

    /// Elements from one row, or column, to the next, in each lane.
    fn strides(&self, frame: &Frame, slot: u32) -> Row32 {
        match slot {
            SINK => [self.least_stride() as u32; LANES],
            slot => *frame.row32(slot),
        }
    }

    /// Elements in a register.
    fn held(&self) -> usize {
        self.plan.word_bits() / self.plan.c.bits() as usize
    }

    /// Bit offset of an element that a lane holds.
    fn offset(&self, lane: usize, register: usize, index: usize, stride: u32) -> u64 {
        let held = self.held();
        let (row, column) = match self.part {
            Part::A => {
                let (row, word) = place(&self.plan, Part::A, lane, register);
                (row, word * held + index)
            }
            Part::B => {
                let (column, word) = place(&self.plan, Part::B, lane, register);
                (word * held + index, column)
            }
            Part::C => place(&self.plan, Part::C, lane, register * held + index),
        };
        let (line, along) = if self.by_columns() { (column, row) } else { (row, column) };
        (line as u64 * u64::from(stride) + along as u64) * self.element_bits()
    }
}

/// A piece of a register that lies in memory without a gap.
struct Piece {
    /// Its first element.
    index: usize,
    /// Bytes.
    bytes: u32,
}

impl Matrix {
    /// The pieces of each register: one where its elements are neighbours in memory.
    fn pieces(&self) -> Vec<Piece> {
        let (held, bits) = (self.held(), self.element_bits());
        let whole = held == 1 || self.offset(0, 0, 1, 0) == self.offset(0, 0, 0, 0) + bits;
        let (count, bits) = if whole { (1, self.plan.word_bits() as u64) } else { (held, bits) };
        (0..count).map(|index| Piece { index, bytes: bits as u32 / 8 }).collect()
    }
}

/// Addresses in this process of a piece of a register, for each lane.
fn locate<W: Window>(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    op: &Op,
    mask: u32,
    (matrix, register, piece, access): (&Matrix, usize, &Piece, Access),
) -> Result<Row64, Box<Fault>> {
    let [_, _, stride, base, scratch, _] = op.slots;
    let strides = matrix.strides(frame, stride);
    let bases = *frame.row64(base);
    let addresses: Row64 = std::array::from_fn(|lane| {
        let bits = matrix.offset(lane, register, piece.index, strides[lane]);
        bases[lane].wrapping_add(bits / 8)
    });
    frame.write::<u64>(scratch, &addresses, mask);
    let at = resolve::<W>(cx, frame, (scratch, 0), mask, piece.bytes, access)?;
    if cx.watch.is_some() {
        let touch = Touch { op, mask, at: &at, bytes: piece.bytes, elements: 1, access };
        cx.touch(frame, &touch)?;
    }
    Ok(at)
}

fn read<W: Window>(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    warp_wide(cx, frame, op, mask, |cx, frame, op, mask| {
        let matrix = Matrix::of(frame, op);
        let (list, pieces) = (registers(frame, op), matrix.pieces());
        for (register, slot) in list.iter().enumerate() {
            // Past those that hold something of their own, registers repeat.
            let own = register % distinct(&matrix.plan, matrix.part);
            let mut row = [0; LANES];
            for piece in &pieces {
                let found = (&matrix, own, piece, Access::Load);
                let at = locate::<W>(cx, frame, op, mask, found)?;
                for lane in lanes(mask) {
                    let shift = piece.index as u64 * matrix.element_bits();
                    row[lane] |= load_bytes(at[lane], piece.bytes) << shift;
                }
            }
            put(frame, &matrix.plan, *slot, &row, mask);
        }
        Ok(())
    })
}

fn write<W: Window>(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    warp_wide(cx, frame, op, mask, |cx, frame, op, mask| {
        let matrix = Matrix::of(frame, op);
        let (list, pieces) = (registers(frame, op), matrix.pieces());
        for (register, slot) in list.iter().enumerate() {
            for piece in &pieces {
                let found = (&matrix, register, piece, Access::Store);
                let at = locate::<W>(cx, frame, op, mask, found)?;
                for lane in lanes(mask) {
                    let shift = piece.index as u64 * matrix.element_bits();
                    let own = word(frame, *slot, lane, matrix.plan.a);
                    store_bytes(at[lane], piece.bytes, own >> shift);
                }
            }
        }
        Ok(())
    })
}

/// Loads at an address that [`locate`] has checked for so many bytes.
fn load_bytes(address: u64, bytes: u32) -> u64 {
    // SAFETY: `resolve` checked that the bytes are aligned and live.
    unsafe {
        match bytes {
            1 => access::load_u8(address).into(),
            2 => access::load_u16(address).into(),
            4 => access::load_u32(address).into(),
            _ => access::load_u64(address),
        }
    }
}

/// Stores at an address that [`locate`] has checked for so many bytes.
fn store_bytes(address: u64, bytes: u32, value: u64) {
    // SAFETY: `resolve` checked that the bytes are aligned and live.
    unsafe {
        match bytes {
            1 => access::store_u8(address, value as u8),
            2 => access::store_u16(address, value as u16),
            4 => access::store_u32(address, value as u32),
            _ => access::store_u64(address, value),
        }
    }
}
