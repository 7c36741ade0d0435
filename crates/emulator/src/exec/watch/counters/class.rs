//! What an instruction is, by its spelling.

use serde::Serialize;

/// What an instruction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Arithmetic of integers.
    Integer,
    /// Bits and shifts.
    Logic,
    /// Arithmetic of 32-bit floats.
    Float32,
    /// Arithmetic of 64-bit floats.
    Float64,
    /// Arithmetic of 16-bit floats, and of pairs of them.
    Half,
    /// Conversions.
    Conversion,
    /// Comparisons and selections.
    Comparison,
    /// Moves and addresses.
    Move,
    /// Loads from memory.
    Load,
    /// Stores to memory.
    Store,
    /// Loads and stores of parameters.
    Parameter,
    /// Read-modify-writes of memory.
    Atomic,
    /// Copies that go on by themselves, and hints to caches.
    Copy,
    /// What lanes of a warp do together.
    Warp,
    /// Barriers.
    Barrier,
    /// Fences.
    Fence,
    /// Branches, calls and ends.
    Control,
    /// Products of matrices, and what feeds them.
    Tensor,
    /// Anything else.
    Other,
}

impl Class {
    /// The name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Logic => "logic",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Half => "half",
            Self::Conversion => "conversion",
            Self::Comparison => "comparison",
            Self::Move => "move",
            Self::Load => "load",
            Self::Store => "store",
            Self::Parameter => "parameter",
            Self::Atomic => "atomic",
            Self::Copy => "copy",
            Self::Warp => "warp",
            Self::Barrier => "barrier",
            Self::Fence => "fence",
            Self::Control => "control",
            Self::Tensor => "tensor",
            Self::Other => "other",
        }
    }

    /// The class of an instruction.
    pub fn of(spelling: &str) -> Self {
        let (opcode, modifiers) = spelling.split_once('.').unwrap_or((spelling, ""));
        let has = |word: &str| modifiers.split('.').any(|own| own == word);
        match opcode {
            "ld" | "ldu" | "st" if has("param") || has("param::entry") || has("param::func") => {
                Self::Parameter
            }
            "ld" | "ldu" => Self::Load,
            "st" => Self::Store,
            "atom" | "red" | "multimem" => Self::Atomic,
            "bar" if has("warp") => Self::Warp,
            "bar" | "barrier" | "mbarrier" => Self::Barrier,
            "membar" | "fence" => Self::Fence,
            "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" | "nanosleep" => {
                Self::Control
            }
            "shfl" | "vote" | "match" | "redux" | "activemask" | "elect" => Self::Warp,
            "mma" | "wmma" | "wgmma" | "ldmatrix" | "stmatrix" | "movmatrix" => Self::Tensor,
            "cp" | "prefetch" | "prefetchu" | "discard" | "applypriority" => Self::Copy,
            "cvt" => Self::Conversion,
            "set" | "setp" | "selp" | "slct" | "testp" => Self::Comparison,
            "mov" | "cvta" | "isspacep" | "mapa" | "getctarank" => Self::Move,
            "and" | "or" | "xor" | "not" | "cnot" | "lop3" | "shl" | "shr" | "shf" | "prmt"
            | "bfe" | "bfi" | "bfind" | "brev" | "clz" | "popc" | "fns" | "bmsk" => Self::Logic,
            _ => Self::of_type(modifiers),
        }
    }

    fn of_type(modifiers: &str) -> Self {
        match modifiers.rsplit('.').find_map(Self::named) {
            Some(class) => class,
            None => Self::Other,
        }
    }

    fn named(ty: &str) -> Option<Self> {
        match ty {
            "f32" | "f32x2" => Some(Self::Float32),
            "f64" => Some(Self::Float64),
            "f16" | "f16x2" | "bf16" | "bf16x2" => Some(Self::Half),
            "u8" | "s8" | "u16" | "s16" | "u32" | "s32" | "u64" | "s64" | "u16x2" | "s16x2"
            | "b32" | "b64" => Some(Self::Integer),
            _ => None,
        }
    }
}

/// The operations that one execution of an instruction does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Of each lane: floating-point operations, where a product with a sum is two.
    pub per_lane: u64,
    /// Of the warp: multiplications and additions of a product of matrices.
    pub per_warp: u64,
}

impl Work {
    /// The operations of an instruction.
    pub fn of(spelling: &str) -> Self {
        let mut words = spelling.split('.');
        let opcode = words.next().unwrap_or("");
        if matches!(opcode, "mma" | "wgmma" | "wmma") {
            return Self { per_lane: 0, per_warp: of_matrices(opcode, spelling) };
        }
        if !matches!(Class::of(spelling), Class::Float32 | Class::Float64 | Class::Half) {
            return Self::default();
        }
        let pairs = if spelling.ends_with("x2") { 2 } else { 1 };
        let own = match opcode {
            "fma" | "mad" => 2,
            "add" | "sub" | "mul" | "div" | "rcp" | "sqrt" | "rsqrt" | "sin" | "cos" | "lg2"
            | "ex2" | "tanh" => 1,
            _ => 0,
        };
        Self { per_lane: own * pairs, per_warp: 0 }
    }
}

/// Multiplications and additions of a product of an m × k by a k × n matrix. A group of four warps shares
/// those of `wgmma`; of a sparse matrix half the elements are zeros that are not multiplied.
fn of_matrices(opcode: &str, spelling: &str) -> u64 {
    let computes = opcode != "wmma" || spelling.contains(".mma.");
    let shape = spelling.split('.').find_map(shape).filter(|_| computes);
    let Some([m, n, k]) = shape else { return 0 };
    let warps = if opcode == "wgmma" { 4 } else { 1 };
    let sparse = if spelling.split('.').any(|word| word == "sp") { 2 } else { 1 };
    2 * m * n * k / warps / sparse
}

/// `m16n8k16`
fn shape(word: &str) -> Option<[u64; 3]> {
    let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
    let (n, k) = rest.split_once('k')?;
    Some([m.parse().ok()?, n.parse().ok()?, k.parse().ok()?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_have_classes() {
        for (spelling, class) in [
            ("add.s32", Class::Integer),
            ("mul.wide.u32", Class::Integer),
            ("mad.lo.u64", Class::Integer),
            ("fma.rn.f32", Class::Float32),
            ("ex2.approx.ftz.f32", Class::Float32),
            ("div.rn.f64", Class::Float64),
            ("add.rn.bf16x2", Class::Half),
            ("lop3.b32", Class::Logic),
            ("cvt.rn.f32.u32", Class::Conversion),
            ("setp.lt.f32", Class::Comparison),
            ("mov.u32", Class::Move),
            ("ld.global.nc.v4.f32", Class::Load),
            ("ld.param.b64", Class::Parameter),
            ("st.shared.b32", Class::Store),
            ("red.global.add.u32", Class::Atomic),
            ("bar.warp.sync", Class::Warp),
            ("bar.sync", Class::Barrier),
            ("shfl.sync.down.b32", Class::Warp),
            ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", Class::Tensor),
            ("cp.async.bulk.shared::cluster.global", Class::Copy),
            ("bra.uni", Class::Control),
            ("ret", Class::Control),
        ] {
            assert_eq!(Class::of(spelling), class, "{spelling}");
        }
    }

    #[test]
    fn a_product_with_a_sum_is_two_operations() {
        let lane = |spelling| Work::of(spelling).per_lane;
        assert_eq!(lane("fma.rn.f32"), 2);
        assert_eq!(lane("fma.rn.f16x2"), 4);
        assert_eq!(lane("add.rn.f64"), 1);
        assert_eq!(lane("min.f32"), 0);
        assert_eq!(lane("mad.lo.s32"), 0);
        let warp = |spelling| Work::of(spelling).per_warp;
        assert_eq!(warp("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"), 4096);
        assert_eq!(warp("mma.sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32"), 4096);
        assert_eq!(warp("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"), 131_072);
        assert_eq!(warp("wgmma.wait_group.sync.aligned"), 0);
        assert_eq!(warp("wmma.load.a.sync.aligned.m16n16k16.row.f16"), 0);
    }
}
