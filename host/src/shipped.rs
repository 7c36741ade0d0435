//! The kernels that ship with this crate, as `build.rs` compiled them.

use crate::module::Image;

/// One image for each architecture.
pub static IMAGES: &[Image] = crate::include_kernels!();

/// Whether the images have a kernel of that name.
pub(crate) fn ships(kernel: &str) -> bool {
    let entry = format!(".entry {kernel}(");
    IMAGES.first().is_some_and(|image| image.ptx().contains(&entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_names_of_entries_are_known() {
        assert!(ships("vecadd"));
        for other in ["vecad", "ecadd", "vecadd(", ""] {
            assert!(!ships(other), "{other}");
        }
    }
}
