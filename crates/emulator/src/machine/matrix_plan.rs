//! What a decoded matrix instruction says about shapes and types.

use crate::isa::{Modifiers, Type};
use crate::numeric::Rounding;

/// Shapes, types and switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Rows of A and C.
    pub m: usize,
    /// Columns of B and C.
    pub n: usize,
    /// Columns of A and rows of B.
    pub k: usize,
    /// Type of A's elements.
    pub a: Type,
    /// Of B's.
    pub b: Type,
    /// Of C's.
    pub c: Type,
    /// Of D's.
    pub d: Type,
    /// Whether A is stored by columns.
    pub a_by_columns: bool,
    /// Whether B is stored by rows.
    pub b_by_rows: bool,
    /// `.satfinite`
    pub saturates: bool,
    /// `.xor`, of one-bit products.
    pub xor: bool,
    /// Of `.f64`.
    pub rounding: Rounding,
    /// By which rule floating-point sums are made.
    pub unit: Unit,
    /// The lanes that hold the metadata of a sparse A.
    pub sparse: Option<u8>,
    /// Whether the elements of A and of B change their signs.
    pub negate: [bool; 2],
}

/// What executes a multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `mma`.
    Warp,
    /// `wmma`.
    Fragment,
    /// `wgmma`.
    Warpgroup,
}

impl Plan {
    /// The plan that modifiers spell: a shape, and the types of D, A, B and C in this order; where
    /// only two types stand, those of D and C, of `.f16` elements.
    pub fn of(modifiers: &Modifiers<'_>, unit: Unit) -> Option<Self> {
        let (m, n, k) = modifiers.words().find_map(shape)?;
        let types: Vec<Type> = modifiers.words().filter_map(Type::parse).collect();
        let (d, a, b, c) = match types[..] {
            [d, a, b, c] => (d, a, b, c),
            [d, a, b] => (d, a, b, d),
            [d, c] => (d, Type::F16, Type::F16, c),
            _ => return None,
        };
        let layouts: Vec<&str> =
            modifiers.words().filter(|word| matches!(*word, "row" | "col")).collect();
        let rounding = match modifiers.one_of(&["rz", "rm", "rp"]) {
            Some("rz") => Rounding::Zero,
            Some("rm") => Rounding::Down,
            Some(_) => Rounding::Up,
            None => Rounding::NearestEven,
        };
        Some(Self {
            m,
            n,
            k,
            a,
            b,
            c,
            d,
            a_by_columns: layouts.first() == Some(&"col"),
            b_by_rows: layouts.get(1) == Some(&"row"),
            saturates: modifiers.has("satfinite"),
            xor: modifiers.has("xor"),
            rounding,
            unit,
            sparse: None,
            negate: [false; 2],
        })
    }

    /// The plan of the transposed problem.
    pub fn transposed(self) -> Self {
        Self { m: self.n, n: self.m, a: self.b, b: self.a, ..self }
    }

    /// Bits of a register that holds elements of A and B.
    pub fn word_bits(&self) -> usize {
        if self.a == Type::F64 { 64 } else { 32 }
    }

    /// The type of registers that hold elements.
    pub fn word_type(&self) -> Type {
        if self.a == Type::F64 { Type::B64 } else { Type::B32 }
    }

    /// Words of a row of A, or of a column of B.
    pub fn words(&self) -> usize {
        self.k * self.a.bits() as usize / self.word_bits()
    }

    /// Words of a row of A that are stored: of a sparse A half of all.
    pub fn stored_words(&self) -> usize {
        self.words() / if self.sparse.is_some() { 2 } else { 1 }
    }

    /// Registers of A in a lane.
    pub fn a_registers(&self) -> usize {
        self.m * self.stored_words() / 32
    }

    /// Registers of B in a lane.
    pub fn b_registers(&self) -> usize {
        self.n * self.words() / 32
    }

    /// Registers of C in a lane.
    pub fn c_registers(&self) -> usize {
        self.m * self.n / 32 / per_register(self.c)
    }

    /// Registers of D in a lane.
    pub fn d_registers(&self) -> usize {
        self.m * self.n / 32 / per_register(self.d)
    }
}

/// Elements of C or D in a register.
pub fn per_register(ty: Type) -> usize {
    if ty == Type::F16 { 2 } else { 1 }
}

/// The numbers of `m16n8k16`.
pub fn shape(word: &str) -> Option<(usize, usize, usize)> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some((m.parse().ok()?, n.parse().ok()?, k.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ptx::ast::Word;

    fn plan(text: &str) -> Plan {
        let words: Vec<Word> = text.split('.').map(Word::from).collect();
        Plan::of(&Modifiers(&words), Unit::Warp).unwrap()
    }

    #[test]
    fn registers_are_counted() {
        let counts = |text| {
            let own = plan(text);
            [own.a_registers(), own.b_registers(), own.c_registers(), own.d_registers()]
        };
        assert_eq!(counts("m16n8k16.row.col.f32.f16.f16.f32"), [4, 2, 4, 4]);
        assert_eq!(counts("m16n8k8.row.col.f16.f16.f16.f16"), [2, 1, 2, 2]);
        assert_eq!(counts("m16n8k16.row.col.f64.f64.f64.f64"), [8, 4, 4, 4]);
        assert_eq!(counts("m16n8k64.row.col.s32.s4.u4.s32"), [4, 2, 4, 4]);
        assert_eq!(counts("m8n8k128.row.col.s32.b1.b1.s32"), [1, 1, 2, 2]);
        assert_eq!(counts("m32n8k16.row.col.s32.s8.s8.s32"), [4, 1, 8, 8]);
    }

    #[test]
    fn words_become_a_plan() {
        let own = plan("sync.aligned.m8n8k4.col.row.f32.f16.f16.f16");
        assert_eq!((own.m, own.n, own.k), (8, 8, 4));
        assert!(own.a_by_columns && own.b_by_rows);
        assert_eq!((own.d, own.c), (Type::F32, Type::F16));
        assert!(plan("m16n8k32.row.col.satfinite.s32.s8.u8.s32").saturates);
        let two = plan("row.col.m16n16k16.f16.f32");
        assert_eq!((two.d, two.a, two.c), (Type::F16, Type::F16, Type::F32));
    }
}
