//! Kernel crates that compile, change, and fail.

mod common;

use std::fs;

use common::Fixture;
use cuda_builder::{CudaBuilderError, NvvmArch, PtxError};

const BOTH: [NvvmArch; 2] = [NvvmArch::Compute80, NvvmArch::Compute90a];

#[test]
fn every_kernel_is_an_entry_those_of_dependencies_too() {
    let fixture = Fixture::copy("plain", "entries");
    let compiled = fixture.compile(|b| b).unwrap();
    let mut entries = compiled.modules[0].entries.clone();
    entries.sort();
    assert_eq!(entries, ["arithmetic", "checked", "from_dependency", "which_arch"]);
}

#[test]
fn a_crate_written_for_rust_cuda_compiles() {
    let fixture = Fixture::copy("plain", "rust_cuda_crate");
    let attribute = "#![cfg_attr(target_os = \"cuda\", no_std, feature(abi_ptx))]\n\ncore::arch";
    fixture.edit("src/lib.rs", "core::arch", attribute);
    fixture.edit(
        "Cargo.toml",
        "[workspace]",
        "[workspace]\n[lib]\ncrate-type = [\"cdylib\", \"rlib\"]",
    );
    assert_eq!(fixture.compile(|b| b).unwrap().modules[0].entries.len(), 4);
}

/// As under rust-cuda: its own `cust_core` and `gpu_rand` are such crates.
#[test]
fn a_dependency_need_not_say_no_std() {
    let fixture = Fixture::copy("plain", "std_dependency");
    let messages = || fixture.compile(|b| b.keep_messages(true)).unwrap().messages;
    assert_eq!(messages(), "");
    fixture.edit("helper/src/lib.rs", "no_std, feature", "feature");
    assert_eq!(messages(), "");
}

#[test]
fn a_dependency_that_is_not_used_has_no_entries() {
    let fixture = Fixture::copy("plain", "unused_dependency");
    let lib = fixture.dir.join("src/lib.rs");
    fs::write(&lib, "use helper as _;\n").unwrap();
    assert_eq!(fixture.compile(|b| b).unwrap().modules[0].entries, ["from_dependency"]);
    let own_handler = "#[panic_handler]\nfn p(_: &core::panic::PanicInfo) -> ! {\n    loop {}\n}\n";
    fs::write(&lib, own_handler).unwrap();
    assert_eq!(fixture.compile(|b| b).unwrap().modules[0].entries, [""; 0]);
}

#[test]
fn each_architecture_recompiles_the_kernel_crate_alone() {
    let fixture = Fixture::copy("plain", "two_architectures");
    fixture.compile(|b| b.archs(BOTH)).unwrap();
    fixture.edit("src/lib.rs", "8080", "8081");
    let compiled = fixture.compile(|b| b.archs(BOTH)).unwrap();
    let [first, second] = &compiled.modules[..] else { panic!("two modules") };
    assert_eq!(first.compiled_crates, ["two_architectures"]);
    assert_eq!(second.compiled_crates, ["two_architectures"]);
    let text = |at: usize| fs::read_to_string(&compiled.modules[at].path).unwrap();
    assert!(text(0).contains(".target sm_80\n") && text(1).contains(".target sm_90a\n"));
}

#[test]
fn an_error_for_one_of_several_architectures_ends_the_build() {
    let fixture = Fixture::copy("plain", "one_of_two");
    let lib = fixture.dir.join("src/lib.rs");
    let text = fs::read_to_string(&lib).unwrap();
    for hopper in ["target_feature = \"compute_90\"", "not(target_feature = \"compute_90\")"] {
        let refused = format!("#[cfg({hopper})]\ncompile_error!(\"not for this one\");\n");
        fs::write(&lib, text.clone() + &refused).unwrap();
        match fixture.compile(|b| b.archs(BOTH).keep_messages(true)) {
            Err(CudaBuilderError::Rejected { messages }) => {
                assert_eq!(messages.matches("error: not for this one").count(), 1, "{messages}");
            }
            other => panic!("{hopper}: {other:?}"),
        }
        let shown = fixture.compile(|b| b.archs(BOTH));
        assert!(matches!(shown, Err(CudaBuilderError::BuildFailed)), "{hopper}: {shown:?}");
    }
}

#[test]
fn the_kernel_crate_sees_its_architecture() {
    let fixture = Fixture::copy("plain", "sees_architecture");
    assert!(fixture.ptx(|b| b.arch(NvvmArch::Compute90a)).contains(", 9090;"));
    assert!(fixture.ptx(|b| b.arch(NvvmArch::Compute90)).contains(", 8080;"));
}

#[test]
fn an_edit_recompiles_the_kernel_crate_alone() {
    let fixture = Fixture::copy("plain", "edit");
    let body = |ptx: &str| ptx.split("// ferrowarp.parts").next().unwrap_or_default().to_owned();
    let before = body(&fixture.ptx(|b| b));
    fixture.edit("src/lib.rs", "8080", "8081");
    let compiled = fixture.compile(|b| b).unwrap();
    assert_eq!(compiled.modules[0].compiled_crates, ["edit"]);
    let after = fs::read_to_string(&compiled.modules[0].path).unwrap();
    assert_eq!(before.replace(", 8080;", ", 8081;"), body(&after));
}

#[test]
fn an_edit_of_a_dependency_reaches_the_ptx() {
    let fixture = Fixture::copy("plain", "edit_dependency");
    fixture.ptx(|b| b);
    fixture.edit("helper/src/lib.rs", "*out = 7", "*out = 4242");
    assert!(fixture.ptx(|b| b).contains(", 4242;"));
}

#[test]
fn an_untouched_crate_compiles_nothing_and_writes_nothing() {
    let fixture = Fixture::copy("plain", "untouched");
    let first = fixture.compile(|b| b.archs(BOTH)).unwrap();
    let times = || first.modules.iter().map(|m| m.path.metadata().unwrap().modified().unwrap());
    let before: Vec<_> = times().collect();
    let second = fixture.compile(|b| b.archs(BOTH)).unwrap();
    assert!(second.modules.iter().all(|module| module.compiled_crates.is_empty()));
    assert_eq!(times().collect::<Vec<_>>(), before);
}

#[test]
fn what_was_read_is_listed() {
    let fixture = Fixture::copy("plain", "sources");
    let compiled = fixture.compile(|b| b).unwrap();
    let dir = fixture.dir.canonicalize().unwrap();
    let expected =
        ["Cargo.lock", "Cargo.toml", "helper/Cargo.toml", "helper/src/lib.rs", "src/lib.rs"];
    assert_eq!(compiled.sources, expected.map(|file| dir.join(file)));
}

#[test]
fn launch_bounds_reach_the_entry() {
    let fixture = Fixture::copy("plain", "launch_bounds");
    let ptx = fixture.ptx(|b| b);
    assert!(ptx.contains(")\n.maxntid 384, 1, 1\n.minnctapersm 1\n{\n"), "{ptx}");
    assert_eq!(ptx.matches(".maxntid").count(), 1);
}

#[test]
fn launch_bounds_for_no_kernel_are_an_error() {
    let fixture = Fixture::copy("plain", "lost_bounds");
    fixture.edit("src/lib.rs", "bounds arithmetic", "bounds arithmetics");
    match fixture.compile(|b| b).unwrap_err() {
        CudaBuilderError::Ptx { source: PtxError::BoundsWithoutKernel { kernel, .. }, .. } => {
            assert_eq!(kernel, "arithmetics");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_duplicated_collective_is_an_error() {
    let fixture = Fixture::copy("duplicated", "duplicated_collective");
    match fixture.compile(|b| b).unwrap_err() {
        CudaBuilderError::Ptx { source, .. } => {
            let text = source.to_string();
            let says = |part: &str| assert!(text.contains(part), "{text}");
            says("`barrier of the fixture` 2 times into `branches`");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn an_atomic_on_own_memory_that_has_no_plain_form_is_an_error_with_its_place() {
    let fixture = Fixture::copy("plain", "own_atomic");
    let file = fixture.dir.join("src/lib.rs");
    let text = fs::read_to_string(&file).unwrap();
    let kernel = "\n/// # Safety\n/// It has none.\n#[unsafe(no_mangle)]\n\
                  pub unsafe extern \"ptx-kernel\" fn own(x: u64) {\n    \
                  // SAFETY: it is never run.\n    \
                  unsafe { core::arch::asm!(\"atom.local.inc.u32 {0}, [{1}], 7;\", out(reg32) _, in(reg64) x) }\n}\n";
    let line = text.lines().count() + 7;
    fs::write(&file, text + kernel).unwrap();
    let error = fixture.compile(|b| b).unwrap_err().to_string();
    let expected = format!("own_atomic/src/lib.rs:{line}: `own` does `atom.local.inc.u32 ");
    assert!(error.contains(&expected), "{error}");
}

/// Rust 1.96's jump threading would copy this one into both arms of the branch.
#[test]
fn a_barrier_between_divergent_parts_stays_one() {
    let fixture = Fixture::copy("duplicated", "divergent_barrier");
    fixture.edit("src/lib.rs", " // ferrowarp.once barrier of the fixture", "");
    let ptx = fixture.ptx(|b| b);
    let (_, kernel) = ptx.split_once(".entry divergent(").unwrap();
    let body = kernel.split_once("\n}\n").unwrap().0;
    assert_eq!(body.matches("bar.sync").count(), 1, "{body}");
}

#[test]
fn an_architecture_that_llvm_lacks_is_an_error() {
    let fixture = Fixture::copy("plain", "unknown_architecture");
    match fixture.compile(|b| b.arch(NvvmArch::Compute73)).unwrap_err() {
        CudaBuilderError::UnsupportedArch { arch, known } => {
            assert_eq!(arch, NvvmArch::Compute73);
            assert!(known.contains("sm_72, sm_75"), "{known}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn a_path_without_a_crate_is_an_error() {
    let missing = cuda_builder::CudaBuilder::new("no/such/crate").build().unwrap_err();
    assert!(matches!(missing, CudaBuilderError::CratePathDoesntExist(_)));
    let no_manifest = cuda_builder::CudaBuilder::new("src").build().unwrap_err();
    assert!(matches!(no_manifest, CudaBuilderError::CratePathDoesntExist(_)));
}

#[test]
fn no_architecture_is_an_error() {
    let fixture = Fixture::copy("plain", "no_architecture");
    assert!(matches!(fixture.compile(|b| b.archs([])), Err(CudaBuilderError::NoArch)));
}
