//! What a build script tells the cargo that runs it. Outside a build script nothing is printed.

use std::path::PathBuf;

use crate::ptxas::{PYTHON, TOOLKITS};
use crate::{CudaBuilder, CudaBuilderError, NvvmArch};

/// Limits the architectures of a build script's kernels.
const ARCHS: &str = "CUDA_BUILDER_ARCHS";

/// Set by docs.rs, where there is neither a network nor the source of `core`.
const DOCS: &str = "DOCS_RS";

/// Whether this build script serves documentation alone, which needs no kernels.
pub(crate) fn is_for_documentation() -> bool {
    let is_set = std::env::var_os(DOCS).is_some();
    if is_set {
        rerun_if_changed(&[]);
    }
    is_set
}

/// The architectures to compile for: in a build script those that `CUDA_BUILDER_ARCHS` names too.
/// A kernel crate that is for none of these is built for its own.
pub(crate) fn archs(builder: &CudaBuilder) -> Result<Vec<NvvmArch>, CudaBuilderError> {
    let in_script = builder.is_script() && std::env::var_os("OUT_DIR").is_some();
    let names = std::env::var(ARCHS).ok().filter(|_| in_script).unwrap_or_default();
    limited(&builder.archs, &names)
}

fn limited(wanted: &[NvvmArch], names: &str) -> Result<Vec<NvvmArch>, CudaBuilderError> {
    let names = names.split([',', ' ']).filter(|name| !name.is_empty());
    let limit = names.map(str::parse).collect::<Result<Vec<NvvmArch>, _>>()?;
    let common: Vec<_> = wanted.iter().copied().filter(|arch| limit.contains(arch)).collect();
    Ok(if common.is_empty() { wanted.to_vec() } else { common })
}

/// When to run the build script again.
pub(crate) fn rerun_if_changed(sources: &[PathBuf]) {
    for source in sources {
        tell(&format!("rerun-if-changed={}", source.display()));
    }
    for variable in TOOLKITS.iter().chain([&ARCHS, &PYTHON, &DOCS]) {
        tell(&format!("rerun-if-env-changed={variable}"));
    }
}

/// Shows every line of a text to the user.
pub(crate) fn warn(text: &str) {
    for line in text.lines() {
        tell(&format!("warning={line}"));
    }
}

fn tell(instruction: &str) {
    if std::env::var_os("OUT_DIR").is_some() {
        println!("cargo::{instruction}");
    }
}

#[cfg(test)]
mod tests {
    use NvvmArch::{Compute80, Compute90a};

    use super::*;

    #[test]
    fn a_variable_limits_the_architectures() {
        let of = |names: &str| limited(&[Compute80, Compute90a], names);
        assert_eq!(of("").unwrap(), [Compute80, Compute90a]);
        assert_eq!(of("sm_90a").unwrap(), [Compute90a]);
        assert_eq!(of("compute_90a, sm_75,sm_80").unwrap(), [Compute80, Compute90a]);
        assert_eq!(of("sm_120").unwrap(), [Compute80, Compute90a]);
        assert!(matches!(of("sm_90a,h100"), Err(CudaBuilderError::UnknownArch { .. })));
    }
}
