//! The header that ships is what cbindgen writes from the sources.

use std::path::Path;

/// Writes the header in place of a comparison.
const BLESS: &str = "FERROWARP_BLESS_HEADER";

#[test]
fn the_header_is_that_of_the_sources() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let builder = cbindgen::Builder::new().with_config(config).with_src(root.join("src/lib.rs"));
    let mut written = Vec::new();
    builder.generate().unwrap().write(&mut written);
    let path = root.join("include/ferrowarp.h");
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(path, written).unwrap();
        return;
    }
    let shipped = std::fs::read_to_string(path).unwrap_or_default();
    let is_same = shipped == String::from_utf8(written).unwrap();
    assert!(
        is_same,
        "the sources have another header: run this test with {BLESS}=1, and commit it"
    );
}
