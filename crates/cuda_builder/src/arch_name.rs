//! Names of architectures as users write them.

use std::str::FromStr;

use crate::arch::NvvmArch;
use crate::error::CudaBuilderError;

impl FromStr for NvvmArch {
    type Err = CudaBuilderError;

    /// Reads `compute_90a` or `sm_90a`.
    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let named = |arch: &&NvvmArch| arch.target_feature() == name || arch.target_cpu() == name;
        let unknown = || CudaBuilderError::UnknownArch { name: name.to_owned() };
        Self::ALL.iter().find(named).copied().ok_or_else(unknown)
    }
}
