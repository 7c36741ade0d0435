//! From tiles to a tile.

use super::fragment::Tile;
use crate::isa::Type;
use crate::machine::matrix_plan::{Plan, Unit};
use crate::numeric::matrix::{
    Element, Kind, NARROW, Rule, bits_and, bits_xor, chain_f64, dot, eight, fragment, integer,
    widen,
};

/// A, B and C, of bits as registers hold them. A has a row of words for each row, B one for each
/// column; C has an element in each place.
type Three<'t> = [&'t Tile<u64>; 3];

/// `D = A·B + C`. Of a sparse A, `places` says where in `k` the elements of each row belong.
pub fn multiply(plan: &Plan, tiles: Three<'_>, places: Option<&Tile<usize>>) -> Tile<u64> {
    match plan.a {
        Type::F64 => f64(plan, tiles),
        Type::B1 => one_bit(plan, tiles),
        Type::S8 | Type::U8 | Type::S4 | Type::U4 => integers(plan, tiles, places),
        _ => floats(plan, tiles, places),
    }
}

/// Each element of D from a row of A, as much of a column of B, and an element of C.
fn each<T: Copy>(
    (a, b, c): (&Tile<T>, &Tile<T>, &Tile<u64>),
    places: Option<&Tile<usize>>,
    f: impl Fn(&[T], &[T], u64) -> u64,
) -> Tile<u64> {
    let place = |(index, own): (usize, &u64)| {
        let (row, column) = (index / c.cols, b.row(index % c.cols));
        match places {
            None => f(a.row(row), column, *own),
            Some(places) => {
                let met: Vec<T> = places.row(row).iter().map(|k| column[*k]).collect();
                f(a.row(row), &met, *own)
            }
        }
    };
    Tile { cols: c.cols, data: c.data.iter().enumerate().map(place).collect() }
}

/// The elements of a tile of words.
fn elements<T>(words: &Tile<u64>, bits: u32, element: impl Fn(u32) -> T) -> Tile<T> {
    let per_word = 32 / bits;
    let mask = u32::MAX >> (32 - bits);
    let split = |word: &u64| {
        let word = *word as u32;
        (0..per_word).map(move |index| word >> (index * bits) & mask)
    };
    let data = words.data.iter().flat_map(split).map(element).collect();
    Tile { cols: words.cols * per_word as usize, data }
}

fn floats(plan: &Plan, [a, b, c]: Three<'_>, places: Option<&Tile<usize>>) -> Tile<u64> {
    let kind = |ty| Kind::of(ty).unwrap_or(Kind::F32);
    let kinds = [kind(plan.a), kind(plan.b), kind(plan.c), kind(plan.d)];
    let signed = |own: Element, negate: bool| if negate { own.negated() } else { own };
    // Without an instruction for them, 8-bit elements are widened first.
    let widened = plan.unit == Unit::Warp && plan.a.bits() == 8;
    let element =
        |kind: Kind, bits: u32| if widened { widen(kind, bits) } else { Element::new(kind, bits) };
    let a = elements(a, plan.a.bits(), |bits| signed(element(kinds[0], bits), plan.negate[0]));
    let b = elements(b, plan.b.bits(), |bits| signed(element(kinds[1], bits), plan.negate[1]));
    let tiles = (&a, &b, c);
    let wide = Rule::wide(kinds);
    let narrow = Rule { fraction: NARROW, ..wide };
    let accumulator = |bits: u64| Element::new(kinds[2], bits as u32);
    match (plan.unit, plan.a.bits()) {
        (Unit::Warpgroup, 8) => {
            each(tiles, places, |a, b, c| dot(narrow, a, b, accumulator(c)).into())
        }
        (_, 8) => each(tiles, places, |a, b, c| eight(kinds[3], a, b, c as u32).into()),
        (Unit::Fragment, _) => each(tiles, places, |a, b, c| fragment(wide, a, b, c as u32).into()),
        _ => each(tiles, places, |a, b, c| dot(wide, a, b, accumulator(c)).into()),
    }
}

fn integers(plan: &Plan, [a, b, c]: Three<'_>, places: Option<&Tile<usize>>) -> Tile<u64> {
    let tile = |words: &Tile<u64>, ty: Type| {
        let unused = 32 - ty.bits();
        elements(words, ty.bits(), |bits| match ty.is_signed() {
            true => (bits << unused) as i32 >> unused,
            false => bits as i32,
        })
    };
    let (a, b) = (tile(a, plan.a), tile(b, plan.b));
    let sum = |a: &[i32], b: &[i32], c: u64| integer(a, b, c as i32, plan.saturates) as u32;
    each((&a, &b, c), places, |a, b, c| sum(a, b, c).into())
}

fn one_bit(plan: &Plan, [a, b, c]: Three<'_>) -> Tile<u64> {
    let (a, b) = (a.map(|word| word as u32), b.map(|word| word as u32));
    let count = if plan.xor { bits_xor } else { bits_and };
    each((&a, &b, c), None, |a, b, c| u64::from(count(a, b, c as i32) as u32))
}

fn f64(plan: &Plan, [a, b, c]: Three<'_>) -> Tile<u64> {
    let (a, b) = (a.map(f64::from_bits), b.map(f64::from_bits));
    let sum = |a: &[f64], b: &[f64], c: u64| chain_f64(a, b, f64::from_bits(c), plan.rounding);
    each((&a, &b, c), None, |a, b, c| sum(a, b, c).to_bits())
}
