//! The video instructions: arithmetic on bytes and halves of words, alone or side by side.

use crate::fault::LoadError;
use crate::isa::{Modifiers, Type};
use crate::machine::{Cx, Flow, Frame, Op, Step};
use crate::program::Emitter;
use crate::ptx::ast::{Instruction, Operand};

/// What an instruction does, packed into its immediate.
#[derive(Clone, Copy, Debug, Default)]
struct Video {
    work: Operation,
    /// Signs of the result, of `a` and of `b`.
    signed: [bool; 3],
    /// Which parts of `a` and `b`, a nibble for each element.
    from: [u16; 2],
    /// The elements of the result that are written; 0 for a whole word.
    to: u8,
    saturate: bool,
    /// What is done with the third operand.
    second: Second,
    /// A shift count wraps; for `vmad`, one is added.
    flag: bool,
    /// Bits that `vmad` shifts its result by.
    shift: u8,
    /// Whether `vmad` takes the negative of its product, and of its third operand.
    negative: [bool; 2],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Operation {
    #[default]
    Add,
    Sub,
    Average,
    Distance,
    Min,
    Max,
    Left,
    Right,
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

const WORKS: [Operation; 14] = [
    Operation::Add,
    Operation::Sub,
    Operation::Average,
    Operation::Distance,
    Operation::Min,
    Operation::Max,
    Operation::Left,
    Operation::Right,
    Operation::Equal,
    Operation::NotEqual,
    Operation::Less,
    Operation::LessEqual,
    Operation::Greater,
    Operation::GreaterEqual,
];

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Second {
    #[default]
    None,
    Add,
    Min,
    Max,
}

const SECONDS: [Second; 4] = [Second::None, Second::Add, Second::Min, Second::Max];

/// A part of a word: nothing but the number of a byte, or of a half.
const WORD: u16 = 8;

impl Video {
    fn pack(self) -> u64 {
        let signs =
            self.signed.iter().enumerate().map(|(i, sign)| u64::from(*sign) << i).sum::<u64>();
        self.work as u64
            | signs << 4
            | u64::from(self.saturate) << 7
            | (self.second as u64) << 8
            | u64::from(self.flag) << 10
            | u64::from(self.negative[0]) << 11
            | u64::from(self.negative[1]) << 12
            | u64::from(self.to) << 16
            | u64::from(self.shift) << 24
            | u64::from(self.from[0]) << 32
            | u64::from(self.from[1]) << 48
    }

    #[inline(always)]
    fn unpack(bits: u64) -> Self {
        Self {
            work: WORKS[(bits & 15) as usize % WORKS.len()],
            signed: [bits >> 4 & 1 != 0, bits >> 5 & 1 != 0, bits >> 6 & 1 != 0],
            saturate: bits >> 7 & 1 != 0,
            second: SECONDS[(bits >> 8 & 3) as usize],
            flag: bits >> 10 & 1 != 0,
            negative: [bits >> 11 & 1 != 0, bits >> 12 & 1 != 0],
            to: (bits >> 16) as u8,
            shift: (bits >> 24) as u8,
            from: [(bits >> 32) as u16, (bits >> 48) as u16],
        }
    }

    /// The result before it is clamped, combined and put in its place.
    fn work(self, a: i64, b: i64) -> i64 {
        let count = if self.flag { b & 31 } else { b.clamp(0, 32) };
        match self.work {
            Operation::Add => a + b,
            Operation::Sub => a - b,
            Operation::Average if a + b >= 0 => (a + b + 1) >> 1,
            Operation::Average => (a + b) >> 1,
            Operation::Distance => (a - b).abs(),
            Operation::Min => a.min(b),
            Operation::Max => a.max(b),
            Operation::Left => a << count,
            Operation::Right => a >> count,
            Operation::Equal => i64::from(a == b),
            Operation::NotEqual => i64::from(a != b),
            Operation::Less => i64::from(a < b),
            Operation::LessEqual => i64::from(a <= b),
            Operation::Greater => i64::from(a > b),
            Operation::GreaterEqual => i64::from(a >= b),
        }
    }

    fn clamp(self, value: i64, bits: u32) -> i64 {
        match (self.saturate, self.signed[0]) {
            (false, _) => value,
            (true, false) => value.clamp(0, (1 << bits) - 1),
            (true, true) => value.clamp(-1 << (bits - 1), (1 << (bits - 1)) - 1),
        }
    }
}

/// `bits` of a word from a place on, extended.
fn part(word: u64, at: u32, bits: u32, signed: bool) -> i64 {
    let shift = 64 - bits;
    let top = word >> at << shift;
    if signed { (top as i64) >> shift } else { (top >> shift) as i64 }
}

/// Where a selector's part begins, and its bits.
fn span(selector: u16) -> (u32, u32) {
    match selector {
        0..4 => (8 * u32::from(selector), 8),
        4..6 => (16 * u32::from(selector - 4), 16),
        _ => (0, 32),
    }
}

fn chosen(word: u32, selector: u16, signed: bool) -> i64 {
    let (at, bits) = span(selector);
    part(word.into(), at, bits, signed)
}

fn one(video: Video, a: u32, b: u32, c: u32) -> u32 {
    let a = chosen(a, video.from[0], video.signed[1]);
    let b = chosen(b, video.from[1], video.signed[2]);
    let (at, bits) = span(video.to.into());
    let value = video.clamp(video.work(a, b), bits);
    if bits < 32 {
        let mask = ((1u32 << bits) - 1) << at;
        return c & !mask | (value as u32) << at & mask;
    }
    let third = part(c.into(), 0, 32, video.signed[0]);
    let value = part(value as u64, 0, 32, video.signed[0]);
    match video.second {
        Second::None => value as u32,
        Second::Add => value.wrapping_add(third) as u32,
        Second::Min => value.min(third) as u32,
        Second::Max => value.max(third) as u32,
    }
}

fn run_one(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let video = Video::unpack(op.imm);
    frame.map3::<u32, u32, u32, u32>(op, mask, |a, b, c| one(video, a, b, c));
    Ok(Flow::Next)
}

fn product(video: Video, a: u32, b: u32, c: u32) -> u32 {
    let a = chosen(a, video.from[0], video.signed[1]);
    let b = chosen(b, video.from[1], video.signed[2]);
    let [product, third] = video.negative;
    let signed = video.signed[1] || video.signed[2] || product || third;
    let sign = |value: i128, negative: bool| if negative { -value } else { value };
    let third = sign(part(c.into(), 0, 32, signed).into(), third && !product);
    let sum = sign(i128::from(a) * i128::from(b), product) + third + i128::from(video.flag);
    let value = (sum >> video.shift) as i64;
    Video { signed: [signed, false, false], ..video }.clamp(value, 32) as u32
}

fn run_product(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let video = Video::unpack(op.imm);
    frame.map3::<u32, u32, u32, u32>(op, mask, |a, b, c| product(video, a, b, c));
    Ok(Flow::Next)
}

fn packed(video: Video, lanes: u32, a: u32, b: u32, c: u32) -> u32 {
    let (both, bits) = (u64::from(a) | u64::from(b) << 32, 32 / lanes);
    let element = |side: usize, lane: u32| {
        let number = video.from[side] >> (4 * lane) & 15;
        part(both, bits * u32::from(number), bits, video.signed[1 + side])
    };
    let field = ((1u64 << bits) - 1) as u32;
    let (mut sum, mut merged) = (c, 0);
    for lane in 0..lanes {
        let value = video.clamp(video.work(element(0, lane), element(1, lane)), bits);
        let own = video.to >> lane & 1 != 0;
        let place = field << (bits * lane);
        sum = if own { sum.wrapping_add(value as u32) } else { sum };
        merged |= if own { (value as u32 & field) << (bits * lane) } else { c & place };
    }
    if video.second == Second::Add { sum } else { merged }
}

fn run_packed<const LANES: u32>(_: &mut Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Step {
    let video = Video::unpack(op.imm);
    frame.map3::<u32, u32, u32, u32>(op, mask, |a, b, c| packed(video, LANES, a, b, c));
    Ok(Flow::Next)
}

/// The work of an opcode without its `v` and number, or of a comparison.
fn work(opcode: &str, modifiers: &Modifiers<'_>) -> Option<Operation> {
    Some(match opcode.trim_start_matches('v').trim_end_matches(['2', '4']) {
        "add" | "mad" => Operation::Add,
        "sub" => Operation::Sub,
        "avrg" => Operation::Average,
        "absdiff" => Operation::Distance,
        "min" => Operation::Min,
        "max" => Operation::Max,
        "shl" => Operation::Left,
        "shr" => Operation::Right,
        _ => match modifiers.one_of(&["eq", "ne", "lt", "le", "gt", "ge"])? {
            "eq" => Operation::Equal,
            "ne" => Operation::NotEqual,
            "lt" => Operation::Less,
            "le" => Operation::LessEqual,
            "gt" => Operation::Greater,
            _ => Operation::GreaterEqual,
        },
    })
}

/// What the modifiers say. A comparison has no type of its own: it is unsigned.
fn video(instruction: &Instruction, modifiers: &Modifiers<'_>) -> Option<Video> {
    let sign = |index: usize| modifiers.ty(index).is_some_and(Type::is_signed);
    let compares = instruction.opcode.starts_with("vset");
    let signed = if compares { [false, sign(0), sign(1)] } else { [sign(0), sign(1), sign(2)] };
    let second = match modifiers.one_of(&["add", "min", "max"]) {
        Some("add") => Second::Add,
        Some("min") => Second::Min,
        Some(_) => Second::Max,
        None => Second::None,
    };
    Some(Video {
        work: work(&instruction.opcode, modifiers)?,
        signed,
        saturate: modifiers.has("sat"),
        second,
        flag: modifiers.has("wrap") || modifiers.has("po"),
        shift: match modifiers.one_of(&["shr7", "shr15"]) {
            Some("shr7") => 7,
            Some(_) => 15,
            None => 0,
        },
        ..Video::default()
    })
}

/// A register and the selector behind it.
fn split(operand: &Operand) -> (Operand, Option<&str>) {
    match operand {
        Operand::Name(name) if !name.starts_with("%tid") => match name.rsplit_once('.') {
            Some((register, selector)) => (Operand::Name(register.into()), Some(selector)),
            None => (operand.clone(), None),
        },
        _ => (operand.clone(), None),
    }
}

/// `b0` to `b3`, `h0`, `h1`.
fn selector(word: Option<&str>) -> Option<u16> {
    let Some(word) = word else { return Some(WORD) };
    ["b0", "b1", "b2", "b3", "h0", "h1"].iter().position(|own| *own == word).map(|at| at as u16)
}

/// `b7610` or `h32`: a number for each element, the highest first.
fn selectors(word: Option<&str>, lanes: usize, default: u16) -> Option<u16> {
    let Some(word) = word else { return Some(default) };
    let (digits, end) =
        if lanes == 4 { (word.strip_prefix('b')?, 8) } else { (word.strip_prefix('h')?, 4) };
    let number = |sum: Option<u16>, digit: char| {
        Some(sum? << 4 | digit.to_digit(end).and_then(|digit| u16::try_from(digit).ok())?)
    };
    if digits.len() == lanes { digits.chars().fold(Some(0), number) } else { None }
}

/// `b210` or `h1`: the elements that are written.
fn elements(word: Option<&str>, lanes: usize) -> Option<u8> {
    let Some(word) = word else { return Some((1 << lanes) - 1) };
    let digits = word.strip_prefix(if lanes == 4 { 'b' } else { 'h' })?;
    let number = |sum: Option<u8>, digit: char| {
        let digit = digit.to_digit(lanes as u32)?;
        Some(sum? | 1 << digit)
    };
    if digits.is_empty() { None } else { digits.chars().fold(Some(0), number) }
}

/// `vadd`, `vsub`, `vabsdiff`, `vmin`, `vmax`, `vshl`, `vshr`, `vset`, `vmad`.
pub fn scalar(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let wrong = || emitter.invalid("not a byte or half of a word");
    let (to, a, b, c) = operands(emitter, instruction)?;
    let ((to, part), (a, left), (b, right)) = (split(to), split(a), split(b));
    let to_part = selector(part).ok_or_else(wrong)?;
    let from = [selector(left).ok_or_else(wrong)?, selector(right).ok_or_else(wrong)?];
    let product = instruction.opcode == "vmad";
    let negative =
        |operand: &Operand| matches!(operand, Operand::Name(name) if name.starts_with('-'));
    let minus = [&a, &b].into_iter().chain(c).map(negative).collect::<Vec<_>>();
    if minus.contains(&true) && (!product || modifiers.has("po")) {
        return Err(emitter.invalid("an operand cannot be negative here"));
    }
    let negative = [minus[0] ^ minus[1], minus.get(2) == Some(&true)];
    let plain = |operand: Operand| match operand {
        Operand::Name(name) => Operand::Name(name.trim_start_matches('-').into()),
        operand => operand,
    };
    let (a, b, c) = (plain(a), plain(b), c.cloned().map(plain));
    let c = c.as_ref();
    let own = video(instruction, modifiers).ok_or_else(|| crate::isa::unknown(instruction))?;
    let own = Video { from, to: to_part as u8, negative, ..own };
    if c.is_none() && (product || own.second != Second::None || to_part != WORD) {
        return Err(emitter.invalid("a third source is missing"));
    }
    let run = if product { run_product } else { run_one };
    push(emitter, run, &[to, a, b], c, own)
}

/// `vadd2`, `vadd4` and the like.
pub fn simd(
    emitter: &mut Emitter<'_>,
    modifiers: &Modifiers<'_>,
    instruction: &Instruction,
) -> Result<(), LoadError> {
    let wrong = || emitter.invalid("not a selection of bytes or halves");
    let lanes = if instruction.opcode.ends_with('4') { 4 } else { 2 };
    let defaults = if lanes == 4 { [0x3210, 0x7654] } else { [0x10, 0x32] };
    let (to, a, b, c) = operands(emitter, instruction)?;
    let ((to, part), (a, left), (b, right)) = (split(to), split(a), split(b));
    let from = [
        selectors(left, lanes, defaults[0]).ok_or_else(wrong)?,
        selectors(right, lanes, defaults[1]).ok_or_else(wrong)?,
    ];
    let to_part = elements(part, lanes).ok_or_else(wrong)?;
    let own = video(instruction, modifiers).ok_or_else(|| crate::isa::unknown(instruction))?;
    let run = if lanes == 4 { run_packed::<4> } else { run_packed::<2> };
    push(emitter, run, &[to, a, b], c, Video { from, to: to_part, ..own })
}

type Operands<'a> = (&'a Operand, &'a Operand, &'a Operand, Option<&'a Operand>);

fn operands<'a>(
    emitter: &Emitter<'_>,
    instruction: &'a Instruction,
) -> Result<Operands<'a>, LoadError> {
    match instruction.operands.as_slice() {
        [to, a, b] => Ok((to, a, b, None)),
        [to, a, b, c] => Ok((to, a, b, Some(c))),
        _ => Err(emitter.invalid("a wrong number of operands")),
    }
}

fn push(
    emitter: &mut Emitter<'_>,
    run: crate::machine::Handler,
    [to, a, b]: &[Operand; 3],
    c: Option<&Operand>,
    video: Video,
) -> Result<(), LoadError> {
    let a = emitter.source(a, Type::B32, false)?;
    let b = emitter.source(b, Type::B32, false)?;
    let c = match c {
        Some(c) => emitter.source(c, Type::B32, false)?,
        None => emitter.constant(Type::B32, 0),
    };
    let to = emitter.destination(to, Type::B32, false)?;
    emitter.push(run, &[to, a, b, c], video.pack());
    Ok(())
}
