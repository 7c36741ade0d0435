//! Projects that the program makes, and its own kernels built while it runs.

use std::fs;
use std::path::Path;
use std::process::Command;

use assert_cmd::assert::OutputAssertExt;
use predicates::prelude::PredicateBooleanExt;
use predicates::str::{contains, is_empty, is_match};

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

fn program(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ferrowarp"));
    command.current_dir(dir).args(args);
    command
}

#[test]
fn the_shipped_kernels_are_built_loaded_and_run_once() {
    let args = ["watch", "--once", "--run", "saxpy", "--size", "1000"];
    let output = program(Path::new(ROOT), &args).assert().success();
    let row = is_match(r"(?m)^saxpy +\d+ +1000 elements ").unwrap();
    output.stdout(contains("built all kernels in ").and(row)).stderr(is_empty());
}

#[test]
fn a_crate_that_does_not_compile_is_shown_and_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("src")).unwrap();
    let manifest = "[package]\nname = \"wrong_kernels\"\nedition = \"2024\"\n\n[workspace]\n";
    fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
    fs::write(dir.path().join("src/lib.rs"), "fn wrong() -> u32 { \"one\" }\n").unwrap();
    let args = ["watch", "--crate", ".", "--once", "--run", "saxpy"];
    let output = program(dir.path(), &args).assert().code(1);
    let shown = contains("error[E0308]: mismatched types").and(contains("--> src/lib.rs:1:21"));
    output.stdout(shown).stderr(contains("error: the kernels could not be taken, as said above"));
}

#[test]
fn a_project_is_written_whole_and_never_over_another() {
    let dir = tempfile::tempdir().unwrap();
    let new = |args: &[&str]| program(dir.path(), &[&["new"], args].concat()).assert();
    new(&["own", "--path", ROOT]).success().stdout(contains("cd own\n  cargo run\n"));
    let text = |file: &str| fs::read_to_string(dir.path().join("own").join(file)).unwrap();
    assert!(text("Cargo.toml").contains("name = \"own\"") && text("src/main.rs").contains("own::"));
    assert!(text("kernels/Cargo.toml").contains("crates/cuda_std\" }"));
    assert_eq!(text("Cargo.lock"), fs::read_to_string(Path::new(ROOT).join("Cargo.lock")).unwrap());
    assert_eq!(
        text("rust-toolchain.toml"),
        fs::read_to_string(Path::new(ROOT).join("rust-toolchain.toml")).unwrap()
    );
    for file in ["build.rs", "tests/scale.rs", "kernels/src/lib.rs", "rust-toolchain.toml"] {
        assert!(!text(file).contains("{name}") && !text(file).contains("{crate_name}"), "{file}");
    }
    new(&["own", "--path", ROOT]).code(1).stderr("error: cannot write own: it is there already\n");
    new(&["other", "--path", "own"]).code(1).stderr(contains("own does not hold Ferrowarp's"));
    let missing = "error: cannot read no/such: there is no such file or directory\n";
    new(&["other", "--path", "no/such"]).code(1).stderr(missing);
    fs::create_dir(dir.path().join("folder")).unwrap();
    new(&["folder/inner", "--path", ROOT]).success().stdout(contains("cd folder/inner\n"));
    let manifest = fs::read_to_string(dir.path().join("folder/inner/Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"inner\""), "{manifest}");
    new(&["other", "--git", "https://example.com/f.git"]).success();
    let manifest = fs::read_to_string(dir.path().join("other/Cargo.toml")).unwrap();
    assert!(
        manifest.contains(
            "ferrowarp = { git = \"https://example.com/f.git\", default-features = false }"
        )
    );
    assert!(!dir.path().join("other/Cargo.lock").exists());
    for name in ["1a", "std", "a b", "kernels"] {
        new(&[name]).code(2);
    }
    new(&["--help"]).success().stdout(contains("Examples:\n  ferrowarp new own\n"));
}

/// The whole of a new project: its program, its test, and its kernels under `watch`.
#[test]
#[ignore = "compiles Ferrowarp once more, which takes minutes: run with -- --ignored"]
fn a_project_compiles_runs_and_is_watched() {
    let dir = tempfile::tempdir().unwrap();
    program(dir.path(), &["new", "own", "--path", ROOT]).assert().success();
    let own = dir.path().join("own");
    // Where the tests were built, so that what both use is compiled once.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let cargo = |args: &[&str]| {
        let mut command = Command::new("cargo");
        command.current_dir(&own).args(args).env("CARGO_TARGET_DIR", target);
        command.assert().success()
    };
    cargo(&["run"]).stdout(contains("[10.0, 20.0, 30.0] on "));
    cargo(&["test"]).stdout(contains("scale_is_a_product ... ok"));
    let watch = ["watch", "--crate", "kernels", "--once"];
    program(&own, &watch).assert().success().stdout(contains("from kernels"));
}
