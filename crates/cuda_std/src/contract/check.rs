//! How a launch is checked against its kernel's contract.

use super::{Contract, ContractError};
use crate::launch::LaunchConfig;

impl Contract {
    /// The configuration that the launch runs with: `config` with the dynamic shared memory that
    /// the kernel fixes. Every implementation of [`Launch`](crate::launch::Launch) calls it
    /// first.
    ///
    /// # Errors
    /// What `config` breaks.
    pub fn apply(&self, mut config: LaunchConfig) -> Result<LaunchConfig, ContractError> {
        if let (Some(bytes), 0) = (self.dynamic_shared.fixed_bytes(), config.shared_mem_bytes) {
            config.shared_mem_bytes = bytes;
        }
        self.check_block(config.block)?;
        self.check_cluster(config.grid)?;
        self.check_shared(config.shared_mem_bytes)?;
        Ok(config)
    }

    fn check_block(&self, found: (u32, u32, u32)) -> Result<(), ContractError> {
        let threads = u64::from(found.0) * u64::from(found.1) * u64::from(found.2);
        match (self.block, self.max_threads) {
            (Some(expected), _) if expected != found => {
                Err(ContractError::Block { expected, found })
            }
            (_, Some(most)) if threads > u64::from(most) => {
                Err(ContractError::Threads { most, found: threads })
            }
            _ => Ok(()),
        }
    }

    fn check_cluster(&self, grid: (u32, u32, u32)) -> Result<(), ContractError> {
        let Some(cluster) = self.cluster else { return Ok(()) };
        let whole = grid.0.is_multiple_of(cluster.0)
            && grid.1.is_multiple_of(cluster.1)
            && grid.2.is_multiple_of(cluster.2);
        if whole { Ok(()) } else { Err(ContractError::Cluster { cluster, grid }) }
    }

    fn check_shared(&self, found: u32) -> Result<(), ContractError> {
        let shared = &self.dynamic_shared;
        let (least, most, unit) = (shared.least_bytes, shared.most_bytes, shared.unit_bytes);
        match () {
            () if shared.allows(found) => Ok(()),
            () if found < least => Err(ContractError::SharedTooLittle { least, found }),
            () if found > most => Err(ContractError::SharedTooMuch { most, found }),
            () => Err(ContractError::SharedNotWhole { unit, found }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contract_of_nothing_changes_nothing() {
        let config = LaunchConfig { grid: (3, 2, 1), block: (7, 5, 2), shared_mem_bytes: 99 };
        assert_eq!(Contract::NONE.apply(config), Ok(config));
        assert_eq!(Contract::NONE.threads(), None);
    }

    #[test]
    fn fixed_shared_memory_is_given_unasked() {
        let contract = Contract::NONE.with_block([64, 1, 1]).with_dynamic_shared(512, 512, 1);
        let config = LaunchConfig { grid: (1, 1, 1), block: (64, 1, 1), shared_mem_bytes: 0 };
        assert_eq!(contract.apply(config).unwrap().shared_mem_bytes, 512);
        let less = LaunchConfig { shared_mem_bytes: 256, ..config };
        let error = contract.apply(less).unwrap_err();
        assert_eq!(error, ContractError::SharedTooLittle { least: 512, found: 256 });
        let text = "it needs 512 bytes of dynamic shared memory, and got 256";
        assert_eq!(error.to_string(), text);
        assert_eq!(contract.threads(), Some(64));
    }

    #[test]
    fn clusters_fill_the_grid_in_each_dimension() {
        let contract = Contract::NONE.with_cluster([2, 1, 3]).with_cooperative();
        let config = |grid| LaunchConfig { grid, block: (1, 1, 1), shared_mem_bytes: 0 };
        assert!(contract.cooperative);
        assert!(contract.apply(config((4, 5, 6))).is_ok());
        for grid in [(3, 5, 6), (4, 5, 7)] {
            let cluster = (2, 1, 3);
            let expected = Err(ContractError::Cluster { cluster, grid });
            assert_eq!(contract.apply(config(grid)), expected);
        }
    }

    #[test]
    fn huge_blocks_do_not_wrap() {
        let contract = Contract::NONE.with_max_threads(1024).with_max_registers(64);
        let block = (u32::MAX, u32::MAX, 1);
        let config = LaunchConfig { grid: (1, 1, 1), block, shared_mem_bytes: 0 };
        let found = u64::from(u32::MAX) * u64::from(u32::MAX);
        let expected = Err(ContractError::Threads { most: 1024, found });
        assert_eq!(contract.apply(config), expected);
    }
}
