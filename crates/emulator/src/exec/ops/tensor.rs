//! Tensor copies, and changes of tensor maps.

use super::bulk::{block_mask, operation, reduction_number, routes, without_policy};
use super::copy::flat;
use crate::exec::address::{Generic, Global, Shared, Window, resolve};
use crate::exec::ranges::{Range, check_align, copy_fault};
use crate::exec::tensor::{self, Direction, Start};
use crate::fault::{Access, CopyFault, LoadError};
use crate::isa::{Modifiers, Type};
use crate::machine::copies::{Bulk, reduction};
use crate::machine::{Completion, Cx, Fault, Flow, Frame, Handler, Op, SINK, Step, lanes};
use crate::memory::access;
use crate::program::Emitter;
use crate::ptx::ast::{Instruction, Operand};
use crate::tensor_map::{
    ElementType, Interleave, MAX_RANK, OutOfBoundsFill, Swizzle, TENSOR_MAP_ALIGN,
    TENSOR_MAP_BYTES, TensorMap,
};

/// Alignment of a box in shared memory.
const BOX_ALIGN: u64 = 128;
/// Alignment of a box's first byte in device memory.
const FIRST_ALIGN: u64 = 16;
/// Bit of the immediate that says that the instruction's mode is `im2col`; below it are the
/// dimensions.
const IM2COL: u64 = 8;

const OPERATIONS: [&str; 8] = ["add", "min", "max", "inc", "dec", "and", "or", "xor"];

impl Cx<'_> {
    /// The map of a lane, fit for an instruction.
    fn fitting_map(
        &mut self,
        frame: &mut Frame,
        op: &Op,
        lane: usize,
    ) -> Result<TensorMap, Box<Fault>> {
        let map = self.tensor_map(frame, op.slots[1], lane)?;
        let wrong = |fault| Err(copy_fault(lane, fault));
        let rank = (op.imm & (IM2COL - 1)) as u32;
        if map.rank != rank {
            return wrong(CopyFault::Rank { map: map.rank, instruction: rank });
        }
        if map.im2col.is_some() != (op.imm & IM2COL != 0) {
            let map = if map.im2col.is_some() { "im2col" } else { "tile" };
            return wrong(CopyFault::Mode { map });
        }
        if map.interleave != Interleave::None {
            return wrong(CopyFault::Interleaved);
        }
        map.validate().map_err(|rule| copy_fault(lane, CopyFault::Map(rule)))?;
        Ok(map)
    }
}

/// The coordinates and offsets of a lane. Slot 2: their list, first the coordinates.
fn start(frame: &Frame, op: &Op, lane: usize) -> Start {
    let list = &frame.program.lists[op.slots[2] as usize];
    let rank = (op.imm & (IM2COL - 1)) as usize;
    let (mut coords, mut offsets) = ([0; MAX_RANK], [0; 3]);
    for (index, slot) in list.iter().enumerate() {
        let value = frame.row32(*slot)[lane];
        match index.checked_sub(rank) {
            None => coords[index] = value as i32,
            Some(index) => offsets[index] = value & 0xffff,
        }
    }
    Start { coords, offsets }
}

/// A box begins at a multiple of 16 bytes of its row; an H200 has an illegal instruction otherwise.
fn check_first(lane: usize, map: &TensorMap, start: &Start) -> Result<(), Box<Fault>> {
    let offset = i64::from(start.coords[0]) * i64::from(map.element.bytes());
    check_align(lane, map.address.wrapping_add_signed(offset), FIRST_ALIGN)
}

/// A box that is stored may hang over the tensor's end, not over its start: an H200 has an illegal
/// instruction.
fn check_start(lane: usize, map: &TensorMap, start: &Start) -> Result<(), Box<Fault>> {
    let before = start.coords[..map.rank as usize].iter().find(|at| **at < 0);
    match before {
        Some(&at) if map.im2col.is_none() => Err(copy_fault(lane, CopyFault::Before { at })),
        _ => Ok(()),
    }
}

/// Each part of a tensor that is touched has to be device memory.
fn check_parts(
    cx: &mut Cx<'_>,
    lane: usize,
    parts: &[tensor::BoxChunk],
    access: Access,
) -> Result<(), Box<Fault>> {
    for part in parts {
        if let Some(address) = part.global {
            cx.global_range(Range { lane, address, bytes: part.bytes, access })?;
        }
    }
    Ok(())
}

/// To shared memory. Slots: 0 target, 1 map, 2 list of coordinates, 3 mbarrier, 4 mask of blocks or
/// [`SINK`].
fn load(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    for lane in lanes(mask) {
        let map = cx.fitting_map(frame, op, lane)?;
        let start = start(frame, op, lane);
        let (to, mbarrier) = (frame.row64(op.slots[0])[lane], frame.row64(op.slots[3])[lane]);
        check_align(lane, to, BOX_ALIGN)?;
        check_first(lane, &map, &start)?;
        let (bytes, taken) = (tensor::box_bytes(&map), tensor::shared_bytes(&map));
        for (to, mbarrier) in routes(cx, frame, lane, (to, mbarrier), op.slots[4]) {
            let range = Range { lane, address: to, bytes: taken, access: Access::Store };
            let (target, _) = cx.shared_range(range)?;
            let (_, at) = cx.mbarrier_at(lane, mbarrier)?;
            let (_, offset) = cx.cluster.split(to).unwrap_or((0, to));
            let parts = tensor::box_chunks(&map, &start, offset, Direction::Load);
            check_parts(cx, lane, &parts, Access::Load)?;
            let base = cx.cluster.peers[target as usize].base;
            let bulk = Bulk {
                chunks: tensor::into_shared(&map, &parts, base),
                reduction: None,
                rounds_to_tf32: map.element.is_tf32(),
                completion: Completion::Mbarrier(at, bytes as u32),
                rank: cx.cluster.rank,
                target: Some(target),
                staged: None,
            };
            cx.ask_bulk(lane, bulk)?;
        }
    }
    Ok(Flow::Next)
}

/// From shared memory. Slots: 0 source, 1 map, 2 list of coordinates, 3 index of the operation plus
/// one.
fn store(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    for lane in lanes(mask) {
        let map = cx.fitting_map(frame, op, lane)?;
        let start = start(frame, op, lane);
        let from = frame.row64(op.slots[0])[lane];
        check_align(lane, from, BOX_ALIGN)?;
        check_first(lane, &map, &start)?;
        check_start(lane, &map, &start)?;
        let bytes = tensor::shared_bytes(&map);
        cx.own_shared_range(Range { lane, address: from, bytes, access: Access::Load })?;
        let (rank, offset) = cx.cluster.split(from).unwrap_or((cx.cluster.rank, from));
        let reduction = chosen(op.slots[3], map.element).map_err(|own| copy_fault(lane, own))?;
        let parts = tensor::box_chunks(&map, &start, offset, Direction::Store);
        check_parts(cx, lane, &parts, Access::Store)?;
        let base = cx.cluster.peers[rank as usize].base;
        let bulk = Bulk {
            chunks: tensor::from_shared(&parts, base),
            reduction,
            rounds_to_tf32: false,
            completion: cx.bulk_group(lane),
            rank: cx.cluster.rank,
            target: None,
            staged: None,
        };
        cx.ask_bulk(lane, bulk)?;
    }
    Ok(Flow::Next)
}

fn chosen(
    number: u32,
    element: ElementType,
) -> Result<Option<crate::machine::copies::Reduction>, CopyFault> {
    let Some(index) = number.checked_sub(1) else { return Ok(None) };
    let operation = OPERATIONS[index as usize];
    let found = reduction_number(operation, element).and(reduction(operation, element));
    found.map(Some).ok_or(CopyFault::Reduction { element, operation })
}

/// A hint: the map is checked, and nothing moves.
fn prefetch(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    lanes(mask).try_for_each(|lane| cx.fitting_map(frame, op, lane).map(drop))?;
    Ok(Flow::Next)
}

/// `[map, {coordinates}]`: the slot of the map and those of the coordinates.
fn map_and_coords(
    emitter: &mut Emitter<'_>,
    operand: &Operand,
    rank: usize,
) -> Result<(u32, Vec<u32>), LoadError> {
    let Operand::Address { base, offset, extra } = operand else {
        return Err(emitter.invalid("a tensor map with coordinates is needed in brackets"));
    };
    let map = Operand::Address { base: base.clone(), offset: *offset, extra: Vec::new() };
    let coords = match extra.as_slice() {
        [Operand::Vector(coords)] => coords.as_slice(),
        [single] => std::slice::from_ref(single),
        _ => &[],
    };
    if coords.len() != rank {
        return Err(emitter.invalid(format!("{rank} coordinates are needed")));
    }
    let map = flat(emitter, &map)?;
    let coords = coords.iter().map(|own| emitter.source(own, Type::S32, false));
    Ok((map, coords.collect::<Result<_, _>>()?))
}

/// The number of dimensions, with the mode.
fn shape(emitter: &Emitter<'_>, modifiers: &Modifiers<'_>) -> Result<(usize, u64), LoadError> {
    let rank = modifiers.one_of(&["1d", "2d", "3d", "4d", "5d"]);
    let rank = rank.and_then(|word| word[..1].parse::<usize>().ok());
    let rank = rank.ok_or_else(|| emitter.invalid("a number of dimensions is missing"))?;
    match modifiers.one_of(&["im2col", "im2col_no_offs"]) {
        Some(_) if rank < 3 => Err(emitter.invalid("`.im2col` takes 3 to 5 dimensions")),
        Some(_) => Ok((rank, rank as u64 | IM2COL)),
        None => Ok((rank, rank as u64)),
    }
}

/// Adds the offsets of the mode `im2col` to the list of coordinates. Returns the operands after
/// them.
fn offsets<'a>(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    list: &mut Vec<u32>,
    operands: &'a [Operand],
) -> Result<&'a [Operand], LoadError> {
    if !modifiers.has("im2col") {
        return Ok(operands);
    }
    let [Operand::Vector(offsets), rest @ ..] = operands else {
        return Err(emitter.invalid("`.im2col` takes offsets in braces"));
    };
    if offsets.len() + 2 != list.len() {
        return Err(emitter.invalid("two offsets fewer than coordinates are needed"));
    }
    for own in offsets {
        list.push(emitter.source(own, Type::U16, false)?);
    }
    Ok(rest)
}

/// `cp.async.bulk.tensor` to shared memory.
pub fn cp_load(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let operands = without_policy(emitter, modifiers, &instruction.operands)?;
    let [to, map, mbarrier, rest @ ..] = operands else {
        return Err(emitter.invalid("a target, a tensor map and an mbarrier are needed"));
    };
    let (rank, imm) = shape(emitter, modifiers)?;
    let to = flat(emitter, to)?;
    let (map, mut list) = map_and_coords(emitter, map, rank)?;
    let mbarrier = flat(emitter, mbarrier)?;
    let rest = offsets(emitter, modifiers, &mut list, rest)?;
    let mask = block_mask(emitter, modifiers, rest)?;
    let list = emitter.list(list) as u32;
    emitter.push(load, &[to, map, list, mbarrier, mask], imm);
    Ok(())
}

/// `cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor` to device memory.
pub fn cp_store(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let operands = without_policy(emitter, modifiers, &instruction.operands)?;
    let [map, from] = operands else {
        return Err(emitter.invalid("a tensor map and a source are needed"));
    };
    let (rank, imm) = shape(emitter, modifiers)?;
    let (map, list) = map_and_coords(emitter, map, rank)?;
    let from = flat(emitter, from)?;
    let list = emitter.list(list) as u32;
    let own = operation(modifiers).filter(|_| modifiers.has("reduce"));
    let number = own.and_then(|own| OPERATIONS.iter().position(|word| *word == own));
    emitter.push(store, &[from, map, list, number.map_or(0, |index| index as u32 + 1)], imm);
    Ok(())
}

/// `cp.async.bulk.prefetch.tensor`
pub fn cp_prefetch(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let operands = without_policy(emitter, modifiers, &instruction.operands)?;
    let [map, rest @ ..] = operands else {
        return Err(emitter.invalid("a tensor map is needed"));
    };
    let (rank, imm) = shape(emitter, modifiers)?;
    let (map, mut list) = map_and_coords(emitter, map, rank)?;
    if !offsets(emitter, modifiers, &mut list, rest)?.is_empty() {
        return Err(emitter.invalid("there are operands too many"));
    }
    let list = emitter.list(list) as u32;
    emitter.push(prefetch, &[SINK, map, list], imm);
    Ok(())
}

/// The fields of `tensormap.replace`, in the order of [`Op::imm`].
const FIELDS: [&str; 10] = [
    "global_address",
    "rank",
    "box_dim",
    "global_dim",
    "global_stride",
    "element_stride",
    "elemtype",
    "interleave_layout",
    "swizzle_mode",
    "fill_mode",
];

/// The type with a number of the field `elemtype`, which is not the driver's number.
fn element_type(number: u64) -> Option<ElementType> {
    use ElementType::{Bf16, F32Ftz, F64};
    match number {
        8 => Some(F32Ftz),
        9 => Some(F64),
        10 => Some(Bf16),
        other => ElementType::from_code(u32::try_from(other).ok()?),
    }
}

/// Changes a field of a map; `None` if there is no such value.
fn replace_field(map: &mut TensorMap, field: &str, ord: u64, value: u64) -> Option<()> {
    let (index, number) = (ord as usize, u32::try_from(value));
    match field {
        "global_address" => map.address = value,
        "rank" => map.rank = number.ok().filter(|rank| *rank < MAX_RANK as u32)? + 1,
        "box_dim" => *map.box_dims.get_mut(index)? = number.ok()?,
        "global_dim" => *map.dims.get_mut(index)? = value,
        "global_stride" => *map.strides.get_mut(index)? = value,
        "element_stride" => *map.element_strides.get_mut(index)? = number.ok()?,
        "elemtype" => map.element = element_type(value)?,
        "interleave_layout" => map.interleave = Interleave::from_code(number.ok()?)?,
        "swizzle_mode" => map.swizzle = Swizzle::from_code(number.ok()?)?,
        _ => map.fill = OutOfBoundsFill::from_code(number.ok()?)?,
    }
    Some(())
}

/// Addresses of the two halves of a map's bytes, in this process.
fn halves<W: Window>(
    cx: &mut Cx<'_>,
    frame: &mut Frame,
    slot: u32,
    lane: usize,
    access: Access,
) -> Result<[u64; 2], Box<Fault>> {
    let mut out = [0; 2];
    for (half, offset) in out.iter_mut().zip([0, TENSOR_MAP_ALIGN]) {
        let bytes = TENSOR_MAP_ALIGN as u32;
        *half = resolve::<W>(cx, frame, (slot, offset), 1 << lane, bytes, access)?[lane];
    }
    Ok(out)
}

fn read_map(halves: [u64; 2]) -> [u8; TENSOR_MAP_BYTES] {
    let mut out = [0; TENSOR_MAP_BYTES];
    for (word, bytes) in out.chunks_exact_mut(8).enumerate() {
        // SAFETY: `resolve` checked the 64 bytes from each half on.
        let value = unsafe { access::load_u64(halves[word / 8] + 8 * (word as u64 % 8)) };
        bytes.copy_from_slice(&value.to_le_bytes());
    }
    out
}

fn write_map(halves: [u64; 2], bytes: &[u8; TENSOR_MAP_BYTES]) {
    for (word, bytes) in bytes.chunks_exact(8).enumerate() {
        let value = bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        // SAFETY: `resolve` checked the 64 bytes from each half on.
        unsafe { access::store_u64(halves[word / 8] + 8 * (word as u64 % 8), value) };
    }
}

/// Slots: 0 map, 1 value of 64 bits or [`SINK`], 2 value of 32 bits or [`SINK`]; the immediate is
/// the field, and from bit 8 on the dimension.
fn replace<W: Window>(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let (field, ord) = (FIELDS[(op.imm & 255) as usize], op.imm >> 8);
    for lane in lanes(mask) {
        let value = match op.slots[1] {
            SINK => frame.row32(op.slots[2])[lane].into(),
            slot => frame.row64(slot)[lane],
        };
        let address = frame.row64(op.slots[0])[lane];
        let halves = halves::<W>(cx, frame, op.slots[0], lane, Access::Store)?;
        let mut map = TensorMap::decode(&read_map(halves))
            .ok_or_else(|| copy_fault(lane, CopyFault::NoTensorMap { address }))?;
        replace_field(&mut map, field, ord, value)
            .ok_or_else(|| copy_fault(lane, CopyFault::Field { field, value }))?;
        write_map(halves, &map.encode());
    }
    Ok(Flow::Next)
}

/// `tensormap.replace`
pub fn tensormap_replace(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let field = FIELDS.iter().position(|field| modifiers.has(field));
    let field = field.ok_or_else(|| crate::isa::unknown(instruction))?;
    let indexed = (2..6).contains(&field);
    let (address, ord, value) = match instruction.operands.as_slice() {
        [address, value] if !indexed => (address, 0, value),
        [address, ord, value] if indexed => (address, emitter.immediate(ord)?, value),
        _ => return Err(emitter.invalid("these are not the operands for this field")),
    };
    let ty = modifiers.ty(0).ok_or_else(|| emitter.invalid("a type is missing"))?;
    let map = flat(emitter, address)?;
    let value = emitter.source(value, ty, false)?;
    let (wide, narrow) = if ty == Type::B64 { (value, SINK) } else { (SINK, value) };
    let run = match modifiers.one_of(&["global", "shared::cta"]) {
        Some("global") => replace::<Global> as Handler,
        Some(_) => replace::<Shared>,
        None => replace::<Generic>,
    };
    emitter.push(run, &[map, wide, narrow], field as u64 | ord << 8);
    Ok(())
}

/// Slots: 0 target in device memory, 1 source in shared memory. The warp does it once.
fn copy_map(cx: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let lane = mask.trailing_zeros() as usize;
    let from = halves::<Shared>(cx, frame, op.slots[1], lane, Access::Load)?;
    let to = halves::<Global>(cx, frame, op.slots[0], lane, Access::Store)?;
    write_map(to, &read_map(from));
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
    Ok(Flow::Next)
}

/// `tensormap.cp_fenceproxy`
pub fn cp_fenceproxy(
    emitter: &mut Emitter<'_>,
    _: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let [to, from, size] = instruction.operands.as_slice() else {
        return Err(emitter.invalid("a target, a source and a size are needed"));
    };
    if emitter.immediate(size)? != TENSOR_MAP_BYTES as u64 {
        return Err(emitter.invalid("a tensor map has 128 bytes"));
    }
    let (to, from) = (flat(emitter, to)?, flat(emitter, from)?);
    emitter.push(copy_map, &[to, from], 0);
    Ok(())
}
