//! Gives the place of these sources to the build scripts of crates that depend on this one: `DEP_FERROWARP_KERNELS_ROOT`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::metadata=root={}", env!("CARGO_MANIFEST_DIR"));
}
