//! The Rust file that carries the PTX into a host crate.

use std::fmt::Write as _;
use std::path::Path;

use crate::CudaBuilderError;
use crate::compile::{Module, write_changed};

/// Writes an expression: a slice of images, one for each architecture.
pub(crate) fn write(
    file: &Path,
    image_type: &str,
    modules: &[Module],
) -> Result<(), CudaBuilderError> {
    let text = expression(image_type, modules.iter().map(|m| (m.arch.target_cpu(), &*m.path)));
    write_changed(file, text.as_bytes()).map_err(CudaBuilderError::write(file))
}

fn expression<'a>(image_type: &str, modules: impl Iterator<Item = (String, &'a Path)>) -> String {
    let mut text = String::from("&[\n");
    for (arch, path) in modules {
        let path = path.display().to_string();
        let _infallible =
            writeln!(text, "    {image_type} {{ arch: {arch:?}, ptx: include_str!({path:?}) }},");
    }
    text.push_str("]\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_each_architecture_and_its_file() {
        let modules = [("sm_80".to_owned(), Path::new("/out/a b.sm_80.ptx"))];
        let expected = "&[\n    ::x::Image { arch: \"sm_80\", \
                        ptx: include_str!(\"/out/a b.sm_80.ptx\") },\n]\n";
        assert_eq!(expression("::x::Image", modules.into_iter()), expected);
    }
}
