//! How bits without meaning go from register to register.

use crate::exec::shadow::mix;
use crate::isa::Rule;
use crate::machine::{
    ALWAYS, CONSTANT, Effect, Frame, LANES, NEGATED, Op, Piece, Register, Row64, Taint, lanes,
};
use crate::numeric::bits::{self, Word};
use crate::numeric::permute::{self, Mode};

/// The registers that an instruction reads, without its guard.
pub fn operands<'e>(op: &Op, effect: &'e Effect) -> &'e [Register] {
    let guarded = usize::from(op.guard & !NEGATED != ALWAYS);
    effect.reads.get(guarded..).unwrap_or_default()
}

/// The bits of bytes, the lowest bit for the first of them.
pub fn widen(bytes: u64, count: u32, signed: bool) -> u64 {
    let bits = (0..count).map(|byte| (bytes >> byte & 1) * (0xff << (8 * byte))).sum();
    if signed { extend(bits, 8 * count) } else { bits }
}

/// Bits below `width`, whose highest fills what is above.
fn extend(bits: u64, width: u32) -> u64 {
    let left = 64 - width;
    ((bits << left) as i64 >> left) as u64
}

/// The lowest bits.
fn low(width: u32) -> u64 {
    u64::MAX >> (64 - width)
}

/// Gives what an instruction writes the bits without meaning that come from what it reads.
pub fn propagate(frame: &mut Frame, op: &Op, effect: &Effect, mask: u32) {
    match effect.rule {
        Rule::Shuffles | Rule::Gathers | Rule::Store => return,
        Rule::Pieces => return copy_pieces(frame, effect, mask),
        Rule::Calls => {
            copy_pieces(frame, effect, mask);
            return effect.writes.iter().for_each(|own| frame.clear_taint(*own, mask));
        }
        Rule::Copies if effect.writes.len() > 1 => return copy_each(frame, op, effect, mask),
        Rule::Warp => return frame.spread_taint(operands(op, effect), &effect.writes, mask),
        _ => {}
    }
    let tainted = effect.reads.iter().any(|own| frame.tainted(*own, mask) != 0);
    if !tainted || matches!(effect.rule, Rule::Load | Rule::Atomic { .. }) {
        effect.writes.iter().for_each(|own| frame.clear_taint(*own, mask));
        return;
    }
    let mut out = computed(frame, op, effect, mask);
    if op.guard & !NEGATED != ALWAYS
        && let Some(guard) = frame.taint(Register::Predicate(op.guard & !NEGATED))
    {
        mix(&mut out, guard, mask);
    }
    effect.writes.iter().for_each(|own| frame.set_taint(*own, &out, mask));
}

/// Makes what an instruction writes depend on registers without meaning.
pub fn mix_results(frame: &mut Frame, effect: &Effect, on: &[Register], mask: u32) {
    let mut out = Taint::default();
    on.iter().filter_map(|own| frame.taint(*own)).for_each(|own| mix(&mut out, own, mask));
    for own in &effect.writes {
        let lanes = out.lanes() & mask;
        frame.set_taint(*own, &out, lanes);
    }
}

/// A value and its bits without meaning.
struct Operand {
    value: Row64,
    bits: Row64,
}

/// What propagation reads of a frame.
struct Reads<'f> {
    frame: &'f Frame,
    op: &'f Op,
    wide: bool,
}

impl Reads<'_> {
    /// The operand at a slot, of 64 bits or fewer.
    fn operand(&self, index: usize, wide: bool) -> Operand {
        let slot = self.op.slots[index];
        let (value, register) = match wide {
            true => (*self.frame.row64(slot), Register::Wide(slot)),
            false => (self.frame.row32(slot).map(u64::from), Register::Narrow(slot)),
        };
        let bits = match self.frame.taint(register) {
            Some(taint) if slot & CONSTANT == 0 => taint.bits,
            _ => [0; LANES],
        };
        Operand { value, bits }
    }

    /// The operand at a slot, as wide as the result.
    fn own(&self, index: usize) -> Operand {
        self.operand(index, self.wide)
    }

    /// A 32-bit operand.
    fn narrow(&self, index: usize) -> Operand {
        self.operand(index, false)
    }

    fn predicate(&self, index: usize) -> Operand {
        let slot = self.op.slots[index];
        let held = self.frame.predicate(slot);
        let taint = self.frame.taint(Register::Predicate(slot & !NEGATED));
        Operand {
            value: std::array::from_fn(|lane| u64::from(held >> lane & 1)),
            bits: taint.map_or([0; LANES], |taint| taint.bits),
        }
    }
}

/// The bits without meaning of what an instruction computes.
fn computed(frame: &Frame, op: &Op, effect: &Effect, mask: u32) -> Taint {
    let mut out = Taint::default();
    let sources: Vec<&Taint> =
        operands(op, effect).iter().filter_map(|own| frame.taint(*own)).collect();
    for lane in lanes(mask) {
        if let Some(first) = sources.iter().find(|own| own.bits[lane] != 0) {
            out.origin[lane] = first.origin[lane];
        }
    }
    let inherited = sources.iter().fold(0, |all, own| all | own.computed);
    let result = effect.writes.first().copied();
    let wide = matches!(result, Some(Register::Wide(_)));
    let reads = Reads { frame, op, wide };
    match by_bits(&reads, effect, result) {
        Some(bits) => {
            (out.bits, out.computed) = (bits, inherited | changed(&reads, effect, &bits));
        }
        None => sources.iter().for_each(|own| mix_by(effect.rule, &mut out, own, mask)),
    }
    lanes(mask).for_each(|lane| out.computed &= !(u32::from(out.bits[lane] == 0) << lane));
    out
}

/// Adds what an operand leaves without meaning in a result that is computed.
fn mix_by(rule: Rule, out: &mut Taint, with: &Taint, mask: u32) {
    let before = out.bits;
    mix(out, with, mask);
    for lane in lanes(with.lanes() & mask) {
        let bits = with.bits[lane];
        let own = match rule {
            Rule::Upward => u64::MAX << bits.trailing_zeros(),
            Rule::Halves => [0xffff, 0xffff << 16].iter().filter(|half| bits & **half != 0).sum(),
            _ => u64::MAX,
        };
        out.bits[lane] = before[lane] | own;
    }
}

/// The lanes in which an instruction on bits does more than to move bytes and to leave bits out: it moves bits
/// from their place in a byte, inverts them, or combines two without meaning. Compilers copy structures with
/// padding by the former, and no program computes with what nothing wrote but by the latter.
fn changed(reads: &Reads<'_>, effect: &Effect, out: &Row64) -> u32 {
    let by_lane = |change: &dyn Fn(usize) -> bool| -> u32 {
        lanes(u32::MAX).filter(|lane| out[*lane] != 0 && change(*lane)).map(|lane| 1 << lane).sum()
    };
    let shifted = |indices: &[usize]| {
        let all: Vec<Operand> = indices.iter().map(|index| reads.narrow(*index)).collect();
        by_lane(&|lane| {
            all.iter().any(|own| own.bits[lane] != 0 || !own.value[lane].is_multiple_of(8))
        })
    };
    let logic = matches!(effect.writes.first(), Some(Register::Predicate(_)));
    match effect.rule {
        _ if logic => 0,
        Rule::Not => u32::MAX,
        Rule::And | Rule::Or | Rule::Xor => {
            let (a, b) = (reads.own(1), reads.own(2));
            let inverts = effect.rule == Rule::Xor;
            by_lane(&|lane| {
                let (sa, sb) = (a.bits[lane], b.bits[lane]);
                let flipped = sa & b.value[lane] | sb & a.value[lane];
                out[lane] & sa & sb != 0 || inverts && flipped != 0
            })
        }
        Rule::Lop3 => {
            let all = [1, 2, 3].map(|index| reads.narrow(index));
            by_lane(&|lane| {
                let [a, b, c] = [0, 1, 2].map(|index| all[index].bits[lane]);
                let zeroed =
                    [0, 1, 2].map(|index| (all[index].value[lane] & !all[index].bits[lane]) as u32);
                let [x, y, z] = zeroed;
                let inverted = u64::from(bits::lop3(x, y, z, reads.op.imm as u8));
                out[lane] & (a & b | b & c | a & c | inverted) != 0
            })
        }
        Rule::Left | Rule::Right { .. } => shifted(&[2]),
        Rule::Funnel { .. } => shifted(&[3]),
        Rule::Extract { .. } => shifted(&[2]),
        Rule::Insert => shifted(&[3]),
        _ => 0,
    }
}

fn zip(a: Operand, b: Operand, f: impl Fn(u64, u64, u64, u64) -> u64) -> Row64 {
    std::array::from_fn(|lane| f(a.value[lane], a.bits[lane], b.value[lane], b.bits[lane]))
}

/// The same by a shift or field, whose amounts have a meaning.
fn by(a: Operand, amount: Operand, f: impl Fn(u64, u32) -> u64) -> Row64 {
    std::array::from_fn(|lane| match amount.bits[lane] {
        0 => f(a.bits[lane], amount.value[lane] as u32),
        _ => u64::MAX,
    })
}

/// The bits without meaning, for instructions that do not compute with numbers.
fn by_bits(reads: &Reads<'_>, effect: &Effect, result: Option<Register>) -> Option<Row64> {
    let logic = matches!(result, Some(Register::Predicate(_)));
    let operand = |index| if logic { reads.predicate(index) } else { reads.own(index) };
    Some(match effect.rule {
        Rule::Copies | Rule::Not => {
            let from = operands(reads.op, effect).last()?;
            reads.frame.taint(*from)?.bits
        }
        Rule::And => zip(operand(1), operand(2), |a, sa, b, sb| sa & sb | sa & b | sb & a),
        Rule::Or => zip(operand(1), operand(2), |a, sa, b, sb| sa & sb | sa & !b | sb & !a),
        Rule::Xor => zip(operand(1), operand(2), |_, sa, _, sb| sa | sb),
        Rule::Left => {
            by(reads.own(1), reads.narrow(2), |bits, by| bits.checked_shl(by).unwrap_or(0))
        }
        Rule::Right { signed, bits } => by(reads.own(1), reads.narrow(2), |own, by| {
            let own = if signed { extend(own, bits) } else { own };
            let by = by.min(63);
            if signed { ((own as i64) >> by) as u64 } else { own >> by }
        }),
        Rule::Select => select(reads),
        Rule::Equal => equal(reads, effect),
        Rule::Convert { from, signed, to, to_signed } => {
            let own = reads.frame.taint(*operands(reads.op, effect).first()?)?;
            own.bits.map(|bits| {
                let bits = bits & low(from);
                let bits = if signed { extend(bits, from) } else { bits } & low(to);
                if to_signed { extend(bits, to) } else { bits }
            })
        }
        _ => return by_word(reads, effect.rule),
    })
}

/// The same, for instructions on words of three operands and more.
fn by_word(reads: &Reads<'_>, rule: Rule) -> Option<Row64> {
    let amounts = |indices: &[usize]| {
        let all = indices.iter().map(|index| reads.narrow(*index).bits);
        all.fold(0, |all, row| {
            all | lanes(u32::MAX).map(|lane| u32::from(row[lane] != 0) << lane).sum::<u32>()
        })
    };
    let row = |unknown: u32, f: &dyn Fn(usize) -> u64| -> Row64 {
        std::array::from_fn(|lane| if unknown >> lane & 1 != 0 { u64::MAX } else { f(lane) })
    };
    Some(match rule {
        Rule::Lop3 => {
            let [a, b, c] = [1, 2, 3].map(|index| reads.narrow(index));
            row(0, &|lane| lop3([&a, &b, &c], lane, reads.op.imm as u8))
        }
        Rule::Funnel { left, wrap } => {
            let (a, b, c) = (reads.narrow(1), reads.narrow(2), reads.narrow(3));
            let shift = if left { bits::shf_left } else { bits::shf_right };
            row(amounts(&[3]), &|lane| {
                shift(a.bits[lane] as u32, b.bits[lane] as u32, c.value[lane] as u32, wrap).into()
            })
        }
        Rule::Permute => {
            let (a, b, c) = (reads.narrow(1), reads.narrow(2), reads.narrow(3));
            row(amounts(&[3]), &|lane| {
                let (a, b) = (a.bits[lane] as u32, b.bits[lane] as u32);
                permute::prmt(a, b, c.value[lane] as u32, Mode::Default).into()
            })
        }
        Rule::Extract { signed } => {
            let (a, at, len) = (reads.own(1), reads.narrow(2), reads.narrow(3));
            row(amounts(&[2, 3]), &|lane| {
                let (at, len) = (at.value[lane] as u32, len.value[lane] as u32);
                match (reads.wide, signed) {
                    (true, false) => a.bits[lane].bfe(at, len),
                    (true, true) => a.bits[lane].bfe_signed(at, len),
                    (false, false) => (a.bits[lane] as u32).bfe(at, len).into(),
                    (false, true) => (a.bits[lane] as u32).bfe_signed(at, len).into(),
                }
            })
        }
        Rule::Insert => {
            let (field, word) = (reads.own(1), reads.own(2));
            let (at, len) = (reads.narrow(3), reads.narrow(4));
            row(amounts(&[3, 4]), &|lane| {
                let (at, len) = (at.value[lane] as u32, len.value[lane] as u32);
                match reads.wide {
                    true => word.bits[lane].bfi(field.bits[lane], at, len),
                    false => (word.bits[lane] as u32).bfi(field.bits[lane] as u32, at, len).into(),
                }
            })
        }
        _ => return None,
    })
}

/// The bits of `lop3` that change with the operands' bits without meaning.
fn lop3(operands: [&Operand; 3], lane: usize, table: u8) -> u64 {
    let result = |choice: u32| {
        let [a, b, c] = [0, 1, 2].map(|index| {
            let own = operands[index];
            let (value, bits) = (own.value[lane] as u32, own.bits[lane] as u32);
            if choice >> index & 1 != 0 { value | bits } else { value & !bits }
        });
        bits::lop3(a, b, c, table)
    };
    (1..8).fold(0, |all, choice| all | u64::from(result(choice) ^ result(0)))
}

fn select(reads: &Reads<'_>) -> Row64 {
    let (a, b, p) = (reads.own(1), reads.own(2), reads.predicate(3));
    std::array::from_fn(|lane| match (p.bits[lane], p.value[lane]) {
        (0, 0) => b.bits[lane],
        (0, _) => a.bits[lane],
        _ => a.bits[lane] | b.bits[lane] | (a.value[lane] ^ b.value[lane]),
    })
}

/// A comparison has a meaning as soon as two bits with one differ.
fn equal(reads: &Reads<'_>, effect: &Effect) -> Row64 {
    let wide = operands(reads.op, effect).iter().any(|own| matches!(own, Register::Wide(_)));
    let (a, b) = (reads.operand(2, wide), reads.operand(3, wide));
    zip(a, b, |a, sa, b, sb| u64::from((sa | sb) != 0 && (a ^ b) & !(sa | sb) == 0))
}

/// Copies register by register: the halves of 128 bits.
fn copy_each(frame: &mut Frame, op: &Op, effect: &Effect, mask: u32) {
    let known: Vec<Option<Taint>> =
        operands(op, effect).iter().map(|own| frame.taint(*own).cloned()).collect();
    for (index, to) in effect.writes.iter().enumerate() {
        match known.get(index) {
            Some(Some(taint)) => frame.set_taint(*to, taint, mask),
            _ => frame.clear_taint(*to, mask),
        }
    }
}

fn copy_pieces(frame: &mut Frame, effect: &Effect, mask: u32) {
    let mut results: Vec<(Register, Taint)> = Vec::new();
    for piece in &effect.pieces {
        let to = piece.to.0;
        let index = results.iter().position(|(own, _)| *own == to).unwrap_or_else(|| {
            let kept = matches!(to, Register::Param(_)).then(|| frame.taint(to).cloned());
            results.push((to, kept.flatten().unwrap_or_default()));
            results.len() - 1
        });
        copy_piece(frame, piece, &mut results[index].1, mask);
    }
    results.iter().for_each(|(to, taint)| frame.set_taint(*to, taint, mask));
}

fn copy_piece(frame: &Frame, piece: &Piece, out: &mut Taint, mask: u32) {
    let (at, width) = (piece.to.1, low(piece.bits));
    let from = piece.from.and_then(|(own, at)| Some((frame.taint(own)?, at)));
    for lane in lanes(mask) {
        out.bits[lane] &= !(width << at);
        let Some((taint, from)) = from else { continue };
        let bits = taint.bits[lane] >> from & width;
        let bits = if piece.signed { extend(bits, piece.bits) } else { bits };
        if bits != 0 {
            out.bits[lane] |= bits << at;
            out.origin[lane] = taint.origin[lane];
            out.computed |= taint.computed & (1 << lane);
        }
    }
}
