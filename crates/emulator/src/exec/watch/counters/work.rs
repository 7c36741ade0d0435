//! How many arithmetic operations an instruction does.

use crate::machine::Spelling;

/// The operations that one execution of an instruction does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Of each lane: floating-point operations, where a product with a sum is two.
    pub per_lane: u64,
    /// Of the warp: multiplications and additions of a product of matrices.
    pub per_warp: u64,
}

impl Work {
    /// The operations of an instruction, of which the table says how many one element takes.
    pub fn of(spelling: &Spelling) -> Self {
        let pairs = if spelling.text.ends_with("x2") { 2 } else { 1 };
        Self { per_lane: u64::from(spelling.flops) * pairs, per_warp: of_matrices(&spelling.text) }
    }
}

/// Multiplications and additions of a product of an m × k by a k × n matrix. A group of four warps shares
/// those of `wgmma`; of a sparse matrix half the elements are zeros that are not multiplied.
fn of_matrices(spelling: &str) -> u64 {
    let opcode = spelling.split('.').next().unwrap_or_default();
    let computes = matches!(opcode, "mma" | "wgmma") || spelling.starts_with("wmma.mma.");
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
    use crate::isa::Class;

    #[test]
    fn a_pair_counts_twice() {
        let of = |text: &str, flops| {
            Work::of(&Spelling { text: text.to_owned(), class: Class::Half, flops }).per_lane
        };
        assert_eq!(of("fma.rn.f16x2", 2), 4);
        assert_eq!(of("fma.rn.f32", 2), 2);
        assert_eq!(of("min.f32", 0), 0);
    }

    #[test]
    fn products_of_matrices_count_by_their_shape() {
        let warp = of_matrices;
        assert_eq!(warp("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"), 4096);
        assert_eq!(warp("mma.sp.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32"), 4096);
        assert_eq!(warp("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16"), 131_072);
        assert_eq!(warp("wgmma.wait_group.sync.aligned"), 0);
        assert_eq!(warp("wmma.load.a.sync.aligned.m16n16k16.row.f16"), 0);
        assert_eq!(warp("movmatrix.sync.aligned.m8n8.trans.b16"), 0);
    }
}
