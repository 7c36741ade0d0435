//! Whether a kernel's launcher, which is part of the program, fits the kernel of another PTX.

use cuda_std::launch::Kernel;

use crate::error::{GpuError, GpuResult, LaunchBound};
use crate::module::entry::{Extents, extents, header};

/// Compares the launch bounds of a kernel's entry with the launcher's contract.
///
/// # Errors
/// [`ContractChanged`](GpuError::ContractChanged).
pub(super) fn check_bounds(kernel: &'static Kernel, ptx: &str) -> GpuResult<()> {
    let Some(header) = header(ptx, kernel.name) else { return Ok(()) };
    let contract = &kernel.contract;
    let changed =
        |expected, found| Err(GpuError::ContractChanged { kernel: kernel.name, expected, found });
    if let Some(found @ (x, y, z)) = extents(&header, ".reqntid")
        && contract.block != Some(found)
    {
        let expected = contract.block.map_or(LaunchBound::AnyBlock, of_block);
        return changed(expected, LaunchBound::Block(x, y, z));
    }
    if let Some((x, y, z)) = extents(&header, ".maxntid") {
        let found = x.saturating_mul(y).saturating_mul(z);
        let most = contract.threads().or(contract.max_threads);
        if let Some(most) = most.filter(|most| *most > found) {
            return changed(LaunchBound::Threads(most), LaunchBound::Threads(found));
        }
    }
    if let Some(found @ (x, y, z)) = extents(&header, ".reqnctapercluster")
        && contract.cluster != Some(found)
    {
        let cluster = |(x, y, z)| LaunchBound::Cluster(x, y, z);
        let expected = contract.cluster.map_or(LaunchBound::NoCluster, cluster);
        return changed(expected, LaunchBound::Cluster(x, y, z));
    }
    Ok(())
}

fn of_block((x, y, z): Extents) -> LaunchBound {
    LaunchBound::Block(x, y, z)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cuda_std::launch::Contract;

    static PLAIN: Kernel = Kernel { name: "plain", params: &[], contract: Contract::NONE };
    static FIXED: Kernel =
        Kernel { name: "fixed", params: &[], contract: Contract::NONE.with_block([32, 8, 1]) };
    static LIMITED: Kernel =
        Kernel { name: "limited", params: &[], contract: Contract::NONE.with_max_threads(512) };

    const PTX: &str = ".visible .entry fixed_more(.param .u64 p)\n.reqntid 7\n{\nret;\n}\n\
                       .visible .entry fixed(\n.param .u64 p\n)\n.reqntid 32, 8, 1\n\
                       .minnctapersm 2\n{\nret;\n}\n.entry limited()\n.maxntid 512\n{\n}\n\
                       .entry plain(){ret;}\n";

    #[test]
    fn bounds_that_fit_are_accepted() {
        for kernel in [&PLAIN, &FIXED, &LIMITED] {
            check_bounds(kernel, PTX).unwrap();
        }
    }

    #[test]
    fn bounds_that_changed_are_named() {
        let error = |kernel, from: &str, to: &str| {
            assert!(PTX.contains(from));
            check_bounds(kernel, &PTX.replace(from, to)).unwrap_err().to_string()
        };
        let text = error(&FIXED, ".reqntid 32, 8, 1", ".reqntid 64");
        assert_eq!(
            text,
            "`fixed` now is for blocks of 64 × 1 × 1 threads, and its launcher gives blocks of \
             32 × 8 × 1 threads: build the host again"
        );
        let text = error(&LIMITED, ".maxntid 512", ".maxntid 256, 1");
        assert!(text.contains("at most 256 threads, and its launcher gives blocks of at most 512"));
        let text = error(&PLAIN, "plain()", "plain() .reqntid 32 ");
        assert!(text.ends_with("gives blocks of any shape: build the host again"), "{text}");
        let text = error(&PLAIN, "plain()", "plain() .reqnctapercluster 2, 1, 1 ");
        assert!(text.contains("clusters of 2 × 1 × 1 blocks, and its launcher gives no clusters"));
    }
}
