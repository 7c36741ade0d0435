//! The Rust file that carries the PTX into a host crate.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use ptx_format::packed::{self, Archive};

use crate::builder::CudaBuilder;
use crate::compile::Module;
use crate::error::CudaBuilderError;
use crate::script;
use crate::written::write_changed;

/// The file that `ferrowarp::include_kernels!()` reads.
pub(crate) const EMBED_FILE: &str = "kernels.rs";

/// The type that `ferrowarp::include_kernels!` reads.
const IMAGE: &str = "::ferrowarp::module::EmbeddedPtx";

/// Writes an expression: a slice of images, one for each architecture.
pub(crate) fn write(
    builder: &CudaBuilder,
    file: &Path,
    modules: &[Module],
) -> Result<(), CudaBuilderError> {
    let named: Vec<(String, &Path)> =
        modules.iter().map(|module| (module.arch.target_cpu(), &*module.path)).collect();
    let text = match &builder.image_type {
        Some(image_type) => fields(image_type, &named),
        None if !modules.is_empty() && builder.pack.unwrap_or_else(is_optimised) => {
            let archive = file.with_extension("packed");
            pack(&archive, &named)?;
            constructors_of_packed(&archive, &named)
        }
        None => constructors(&named),
    };
    write_changed(file, text.as_bytes()).map_err(CudaBuilderError::write(file))
}

/// Writes the file of [`CudaBuilder::embed`] for kernels that are compiled already: those of an archive that a build in
/// release mode left as `kernels.packed` beside its own `kernels.rs`. A package that ships kernels does so, and its users
/// need no source of `core` to build it. Returns the file's path.
///
/// # Errors
/// [`CudaBuilderError::NoOutDir`] outside of a build script; a file that cannot be read or written, or is not an archive.
pub fn embed_archive(archive: impl AsRef<Path>) -> Result<PathBuf, CudaBuilderError> {
    let out_dir = std::env::var_os("OUT_DIR").ok_or(CudaBuilderError::NoOutDir)?;
    let (file, archive) = (Path::new(&out_dir).join(EMBED_FILE), archive.as_ref());
    let bytes = fs::read(archive).map_err(CudaBuilderError::read(archive))?;
    let damaged = |damaged| io::Error::new(io::ErrorKind::InvalidData, damaged);
    let texts = Archive::read(&bytes).map_err(damaged).map_err(CudaBuilderError::read(archive))?;
    let path = archive.canonicalize().map_err(CudaBuilderError::read(archive))?;
    let named: Vec<(String, &Path)> =
        (0..texts.len()).map(|text| (texts.arch(text).to_owned(), &*path)).collect();
    script::rerun_if_changed(std::slice::from_ref(&path));
    let text = constructors_of_packed(&path, &named);
    write_changed(&file, text.as_bytes()).map_err(CudaBuilderError::write(&file))?;
    Ok(file)
}

/// Whether cargo optimises the package of this build script.
fn is_optimised() -> bool {
    std::env::var("OPT_LEVEL").is_ok_and(|level| level != "0")
}

fn pack(archive: &Path, modules: &[(String, &Path)]) -> Result<(), CudaBuilderError> {
    let read = |path: &Path| fs::read_to_string(path).map_err(CudaBuilderError::read(path));
    let texts = modules.iter().map(|(_, path)| read(path)).collect::<Result<Vec<_>, _>>()?;
    let named: Vec<(&str, &str)> =
        modules.iter().zip(&texts).map(|((arch, _), text)| (&**arch, &**text)).collect();
    let bytes = packed::pack(&named).map_err(CudaBuilderError::write(archive))?;
    write_changed(archive, &bytes).map_err(CudaBuilderError::write(archive))
}

fn fields(image_type: &str, modules: &[(String, &Path)]) -> String {
    list(modules, |_, arch, path| {
        format!("{image_type} {{ arch: {arch:?}, ptx: include_str!({path:?}) }}")
    })
}

fn constructors(modules: &[(String, &Path)]) -> String {
    list(modules, |_, arch, path| format!("{IMAGE}::plain({arch:?}, include_str!({path:?}))"))
}

/// A static, so that the program has the archive once.
fn constructors_of_packed(archive: &Path, modules: &[(String, &Path)]) -> String {
    let path = archive.display().to_string();
    let images = list(modules, |at, arch, _| format!("{IMAGE}::packed({arch:?}, &PACKED, {at})"));
    format!(
        "{{\nstatic PACKED: [u8; include_bytes!({path:?}).len()] = *include_bytes!({path:?});\n{}\n}}\n",
        images.trim_end()
    )
}

fn list(modules: &[(String, &Path)], image: impl Fn(usize, &str, &str) -> String) -> String {
    let mut text = String::from("&[\n");
    for (at, (arch, path)) in modules.iter().enumerate() {
        let _infallible = writeln!(text, "    {},", image(at, arch, &path.display().to_string()));
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
        assert_eq!(fields("::x::Image", &modules), expected);
        let expected = "&[\n    ::ferrowarp::module::EmbeddedPtx::plain(\"sm_80\", \
                        include_str!(\"/out/a b.sm_80.ptx\")),\n]\n";
        assert_eq!(constructors(&modules), expected);
    }

    #[test]
    fn packed_texts_are_in_one_static() {
        let modules = ["sm_80", "sm_90a"].map(|arch| (arch.to_owned(), Path::new("unused")));
        let text = constructors_of_packed(Path::new("/out/kernels.packed"), &modules);
        let expected = "{\nstatic PACKED: [u8; include_bytes!(\"/out/kernels.packed\").len()] = \
                        *include_bytes!(\"/out/kernels.packed\");\n&[\n    \
                        ::ferrowarp::module::EmbeddedPtx::packed(\"sm_80\", &PACKED, 0),\n    \
                        ::ferrowarp::module::EmbeddedPtx::packed(\"sm_90a\", &PACKED, 1),\n]\n}\n";
        assert_eq!(text, expected);
    }
}
