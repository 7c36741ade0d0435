//! The builder inside a build script: what cargo sees, what the user sees, what must not leak in.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::{Fixture, target_dir, texts};

/// A host package with the plain kernels beside it.
fn host(test: &str) -> Fixture {
    let host = Fixture::copy("host", test);
    let kernels = Fixture::copy("plain", &format!("{test}_kernels"));
    fs::rename(kernels.dir, host.dir.join("kernels")).unwrap();
    host
}

fn cargo(host: &Fixture, args: &[&str]) -> Output {
    command(host, args).output().unwrap()
}

fn command(host: &Fixture, args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    command
        .current_dir(&host.dir)
        .args(args)
        .env("CARGO_TARGET_DIR", host.dir.join("target"))
        .env("FIXTURE_BUILDER", env!("CARGO_BIN_EXE_cuda-builder"))
        .env("FIXTURE_TARGET_DIR", target_dir())
        .env_remove("CUDA_BUILDER_ARCHS");
    command
}

/// What `cargo -v` says about the host package itself.
fn fresh(output: &Output, name: &str) -> bool {
    let (_, stderr) = texts(output);
    assert!(output.status.success(), "{stderr}");
    stderr.contains(&format!("Fresh {name} "))
}

#[test]
fn a_host_embeds_every_architecture() {
    let host = host("embedding_host");
    let (stdout, stderr) = texts(&cargo(&host, &["run"]));
    assert_eq!(stdout, "sm_80 true\nsm_90a true\n", "{stderr}");
}

#[test]
fn a_variable_limits_the_architectures() {
    let host = host("limited_host");
    let run =
        |archs| texts(&command(&host, &["run"]).env("CUDA_BUILDER_ARCHS", archs).output().unwrap());
    let (stdout, stderr) = run("sm_90a");
    assert_eq!(stdout, "sm_90a true\n", "{stderr}");
    let (stdout, stderr) = run("sm_120");
    assert_eq!(stdout, "sm_80 true\nsm_90a true\n", "{stderr}");
    assert!(run("h100").1.contains("`h100` is not a GPU architecture"));
}

#[test]
fn a_documentation_build_compiles_no_kernel_until_the_next_build() {
    let host = host("documented_host");
    let (stdout, stderr) = texts(&command(&host, &["run"]).env("DOCS_RS", "1").output().unwrap());
    assert_eq!(stdout, "", "{stderr}");
    assert_eq!(texts(&cargo(&host, &["run"])).0, "sm_80 true\nsm_90a true\n");
}

#[test]
fn an_untouched_tree_runs_nothing_and_an_edit_does() {
    let host = host("watching_host");
    // The first run writes the kernels' lock file, the second sees it.
    assert!(!fresh(&cargo(&host, &["check", "-v"]), "watching_host"));
    cargo(&host, &["check", "-v"]);
    assert!(fresh(&cargo(&host, &["check", "-v"]), "watching_host"));
    host.edit("kernels/helper/src/lib.rs", "*out = 7", "*out = 8");
    assert!(!fresh(&cargo(&host, &["check", "-v"]), "watching_host"));
    assert!(fresh(&cargo(&host, &["check", "-v"]), "watching_host"));
}

#[test]
fn every_cargo_command_works() {
    let host = host("busy_host");
    for args in [&["clippy"][..], &["doc"], &["test"], &["build", "--release"]] {
        let output = cargo(&host, args);
        assert!(output.status.success(), "{args:?}: {}", texts(&output).1);
    }
}

#[test]
fn the_host_builds_settings_stay_outside() {
    let host = host("particular_host");
    let output = command(&host, &["check"])
        .env("RUSTFLAGS", "--cfg only_the_host -Cdebuginfo=2")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_INCREMENTAL", "1")
        .output()
        .unwrap();
    let (_, stderr) = texts(&output);
    assert!(output.status.success(), "{stderr}");
    let out = find(&host.dir.join("target"), "particular_host_kernels.sm_80.ptx").unwrap();
    assert!(!fs::read_to_string(out).unwrap().contains("debug\n"));
}

/// The first file of this name below a folder.
fn find(dir: &Path, name: &str) -> Option<std::path::PathBuf> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).find_map(|path| {
        match path.is_dir() {
            true => find(&path, name),
            false => path.ends_with(name).then_some(path),
        }
    })
}

#[test]
fn a_wrong_kernel_shows_rustcs_own_message() {
    let host = host("wrong_host");
    host.edit("kernels/src/lib.rs", "9090", "\"9090\"");
    let output = cargo(&host, &["check"]);
    let (_, stderr) = texts(&output);
    assert!(!output.status.success());
    let says = |part: &str| assert!(stderr.contains(part), "no `{part}` in\n{stderr}");
    says("error[E0308]: `if` and `else` have incompatible types");
    says("--> src/lib.rs:45:");
    says("error: the kernel crate did not compile; the compiler's own messages stand above");
}

/// A conversion that LLVM ends the compiler at, without a place, and a crate that names `std`.
#[test]
fn what_rustc_says_too_little_about_has_a_note() {
    let host = host("noted_host");
    let kernel = |body: &str| {
        format!(
            "/// # Safety\n/// `x` points to a number.\n#[unsafe(no_mangle)]\n\
             pub unsafe extern \"ptx-kernel\" fn noted(x: *mut f32, y: u64) {{ {body} }}\n"
        )
    };
    let says = |body: &str, note: &str| {
        let file = host.dir.join("kernels/src/lib.rs");
        let before = fs::read_to_string(&file).unwrap();
        fs::write(&file, before.clone() + &kernel(body)).unwrap();
        let output = cargo(&host, &["check"]);
        let (_, stderr) = texts(&output);
        // Rust 1.99 has code for the conversion.
        assert!(output.status.success() || stderr.contains(note), "no `{note}` in\n{stderr}");
        assert!(stderr.lines().all(|line| line.len() < 600), "{stderr}");
        fs::write(&file, before).unwrap();
    };
    let wide = "unsafe { *x = (u128::from(y) * u128::from(y)) as f32 }";
    says(wide, "nor for `f128`: src/lib.rs:52. Convert the halves");
    let std = "std::mem::swap(unsafe { &mut *x }, &mut (y as f32))";
    says(std, "note: code on a GPU has no `std`");
}

/// The outer cargo says nothing of its flags to a build script; they are read from its command line.
#[test]
#[cfg(target_os = "linux")]
fn the_outer_cargos_mode_is_handed_on() {
    let host = host("strict_host");
    assert!(cargo(&host, &["generate-lockfile", "--offline"]).status.success());
    let refused = |args: &[&str], words: &str| {
        let output = cargo(&host, args);
        let (_, stderr) = texts(&output);
        assert!(!output.status.success() && stderr.contains(words), "{args:?}: {stderr}");
    };
    // The kernels have no lock file yet.
    refused(&["check", "--locked"], "kernels/Cargo.lock");
    refused(&["check", "--frozen"], "kernels/Cargo.lock");
    assert!(!host.dir.join("kernels/Cargo.lock").exists());
    assert!(cargo(&host, &["check", "--offline"]).status.success());
    assert!(cargo(&host, &["check", "--frozen"]).status.success());
    let missing = "[dependencies]\nno-crate-of-this-name = \"77\"";
    host.edit("kernels/Cargo.toml", "[dependencies]", missing);
    refused(&["check", "--offline"], "offline mode (via `--offline`)");
}

/// A host that still includes the file would go on with the kernels of the build before.
#[test]
fn what_an_earlier_build_embedded_does_not_stay() {
    let host = host("stale_host");
    assert!(cargo(&host, &["check"]).status.success());
    host.edit("build.rs", "\"--embed\", ", "");
    let (_, stderr) = texts(&cargo(&host, &["check"]));
    // Rust 1.99 words it in another way.
    let is_missing =
        ["couldn't read", "couldn't find file"].iter().any(|text| stderr.contains(text));
    assert!(is_missing && stderr.contains("kernels.rs"), "{stderr}");
}

#[test]
fn an_unstartable_cargo_is_named() {
    let fixture = Fixture::copy("plain", "no_cargo");
    let output = fixture.command().env("CARGO", "/no/such/cargo").output().unwrap();
    let (_, stderr) = texts(&output);
    assert!(stderr.contains("`/no/such/cargo` could not be started"), "{stderr}");
    assert!(stderr.contains("make toolchain"), "{stderr}");
}

#[test]
fn the_program_explains_itself() {
    let program = || Command::new(env!("CARGO_BIN_EXE_cuda-builder"));
    for args in [&[][..], &["--report"], &["crate", "--no-such-option"], &["crate", "--arch"]] {
        let output = program().args(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(texts(&output).1.starts_with("usage: cuda-builder CRATE"));
    }
    let output = program().args(["crate", "--arch", "sm_42"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(texts(&output).1.contains("`sm_42` is not a GPU architecture"));
}
