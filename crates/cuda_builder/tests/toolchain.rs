//! `scripts/toolchain` on machines that stand-ins pretend: the programs on its path are scripts
//! that log what they were asked, and a folder stands for `/usr`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A pretended machine: `bin` is its path, `usr` its system, `home` its rustup's folder.
struct Machine {
    dir: PathBuf,
}

impl Machine {
    /// A machine with a shell's tools and nothing else.
    fn bare(test: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("machines").join(test);
        if dir.exists() {
            fs::remove_dir_all(&dir).unwrap();
        }
        for folder in ["bin", "usr/bin", "home/toolchains"] {
            fs::create_dir_all(dir.join(folder)).unwrap();
        }
        for tool in ["sed", "dirname", "mkdir", "ln", "env", "cp", "sh", "cat"] {
            let path = ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(tool));
            let real = path.iter().find(|path| path.exists()).unwrap();
            symlink(real, dir.join("bin").join(tool)).unwrap();
        }
        let machine = Machine { dir };
        machine.script("bin/id", "echo 0");
        machine
    }

    /// One with rustup, whose `cargo` and `rustc` run the pinned toolchain if it is there.
    fn with_rustup(test: &str) -> Self {
        let machine = Self::bare(test);
        for tool in ["cargo", "rustc"] {
            let run = format!("exec \"$RUSTUP_HOME/toolchains/1.96.0-x-y-z/bin/{tool}\" \"$@\"");
            machine.script(&format!("bin/{tool}"), &run);
        }
        let install = format!(
            "echo \"rustup $*\" >> {log}; cp -R {usr}/. \"$RUSTUP_HOME/toolchains/1.96.0-x-y-z\"",
            log = machine.dir.join("log").display(),
            usr = machine.dir.join("download").display(),
        );
        machine.script("bin/rustup", &install);
        machine
    }

    /// Puts a compiler into a folder, complete with its source and tools.
    fn compiler(&self, folder: &str, release: &str) {
        let sysroot = self.dir.join(folder);
        let source = sysroot.join("lib/rustlib/src/rust/library/core/src");
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join("lib.rs"), "").unwrap();
        self.script(&format!("{folder}/bin/cargo"), &format!("echo 'cargo {release} (abc)'"));
        let rustc = "case $1 in -vV) echo 'host: x-y-z';; *) dirname \"$(dirname \"$0\")\";; esac";
        self.script(&format!("{folder}/bin/rustc"), rustc);
        for tool in ["cargo-clippy", "rustfmt"] {
            self.script(&format!("{folder}/bin/{tool}"), "exit 0");
        }
    }

    /// Packages of the given versions, which `apt-get install` puts into `usr`.
    fn debian(&self, web: &str, plain: &str) {
        let policy = format!(
            "case $2 in rustc-web) echo '  Candidate: {web}+dfsg1-1';; \
             rustc) echo '  Candidate: {plain}+dfsg1-1';; esac"
        );
        self.script("bin/apt-cache", &policy);
        let install = format!(
            "echo \"apt-get $*\" >> {log}\ncase $1 in install) cp -R {packages}/. {usr};; esac",
            log = self.dir.join("log").display(),
            packages = self.dir.join("packages").display(),
            usr = self.dir.join("usr").display(),
        );
        self.script("bin/apt-get", &install);
    }

    /// Whether the download server answers.
    fn network(&self, answers: bool) {
        self.script("bin/curl", if answers { "exit 0" } else { "exit 7" });
    }

    fn script(&self, path: &str, text: &str) {
        let path = self.dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    fn run(&self) -> Output {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/toolchain");
        let path = format!("{0}/bin:{0}/usr/bin", self.dir.display());
        Command::new("/bin/sh")
            .arg(script)
            .env_clear()
            .env("PATH", path)
            .env("HOME", &self.dir)
            .env("RUSTUP_HOME", self.dir.join("home"))
            .env("TOOLCHAIN_PREFIX", self.dir.join("usr"))
            .output()
            .unwrap()
    }

    /// What the installers were asked, a line each.
    fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn link(&self) -> Option<PathBuf> {
        fs::read_link(self.dir.join("home/toolchains/1.96.0-x-y-z")).ok()
    }
}

/// Checks that a run ended well, and returns what it said.
fn succeeded(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    assert!(stderr.contains("is ready\n"), "{stderr}");
    stderr
}

const DEBIAN_WEB: [&str; 2] = [
    "apt-get update -qq",
    "apt-get install -y -qq --no-install-recommends \
     rustc-web cargo-web rust-web-src rust-web-clippy rustfmt-web",
];

#[test]
fn nothing_is_done_where_it_is_there() {
    let machine = Machine::with_rustup("ready");
    machine.network(true);
    machine.compiler("home/toolchains/1.96.0-x-y-z", "1.96.0");
    assert_eq!(succeeded(&machine.run()), "toolchain: Rust 1.96.0 is ready\n");
    assert_eq!(machine.log(), Vec::<String>::new());
}

#[test]
fn rustup_downloads_where_it_can() {
    let machine = Machine::with_rustup("download");
    machine.network(true);
    machine.debian("1.96.0", "1.63.0");
    machine.compiler("download", "1.96.0");
    succeeded(&machine.run());
    let asked = "rustup toolchain install 1.96.0 --no-self-update --profile minimal \
                 -c rust-src -c clippy -c rustfmt";
    assert_eq!(machine.log(), [asked]);
}

#[test]
fn an_incomplete_toolchain_is_completed() {
    let machine = Machine::with_rustup("incomplete");
    machine.network(true);
    machine.compiler("home/toolchains/1.96.0-x-y-z", "1.96.0");
    fs::remove_dir_all(machine.dir.join("home/toolchains/1.96.0-x-y-z/lib")).unwrap();
    machine.compiler("download", "1.96.0");
    succeeded(&machine.run());
    assert_eq!(machine.log().len(), 1);
}

#[test]
fn packages_already_there_are_linked() {
    let machine = Machine::with_rustup("link");
    machine.network(false);
    machine.compiler("usr", "1.96.0");
    succeeded(&machine.run());
    assert_eq!(machine.link(), Some(machine.dir.join("usr")));
    assert_eq!(machine.log(), Vec::<String>::new());
}

#[test]
fn debian_installs_where_rustup_cannot() {
    let machine = Machine::with_rustup("debian");
    machine.network(false);
    machine.debian("1.96.0", "1.63.0");
    machine.compiler("packages", "1.96.0");
    succeeded(&machine.run());
    assert_eq!(machine.link(), Some(machine.dir.join("usr")));
    assert_eq!(machine.log(), DEBIAN_WEB);
}

#[test]
fn debian_serves_without_rustup() {
    let machine = Machine::bare("no_rustup");
    machine.debian("1.96.0", "1.63.0");
    machine.compiler("packages", "1.96.0");
    succeeded(&machine.run());
    assert_eq!(machine.link(), None);
    assert_eq!(machine.log(), DEBIAN_WEB);
}

#[test]
fn a_later_release_is_taken_with_a_warning() {
    let machine = Machine::with_rustup("later");
    machine.network(false);
    machine.debian("1.85.0", "1.98.0");
    machine.compiler("packages", "1.98.0");
    let said = succeeded(&machine.run());
    assert!(said.contains("warning: the system has Rust 1.98.0"), "{said}");
    assert!(machine.log()[1].ends_with(" rustc cargo rust-src rust-clippy rustfmt"));
}

#[test]
fn rustup_never_writes_through_the_link() {
    let machine = Machine::with_rustup("through_the_link");
    machine.network(true);
    machine.compiler("usr", "1.96.0");
    fs::remove_file(machine.dir.join("usr/bin/rustfmt")).unwrap();
    symlink(machine.dir.join("usr"), machine.dir.join("home/toolchains/1.96.0-x-y-z")).unwrap();
    machine.debian("1.96.0", "1.63.0");
    machine.compiler("packages", "1.96.0");
    succeeded(&machine.run());
    assert_eq!(machine.log(), DEBIAN_WEB);
}

#[test]
fn where_nothing_serves_the_commands_are_named() {
    let machine = Machine::with_rustup("nothing");
    machine.network(false);
    machine.debian("1.85.0", "1.63.0");
    let output = machine.run();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    let commands = [
        "rustup toolchain install 1.96.0 --profile minimal -c rust-src -c clippy -c rustfmt",
        "apt-get install rustc-web cargo-web rust-web-src rust-web-clippy rustfmt-web",
        "ln -s /usr ~/.rustup/toolchains/1.96.0-",
    ];
    for command in commands {
        assert!(stderr.contains(command), "no `{command}` in\n{stderr}");
    }
    assert!(!machine.log().iter().any(|line| line.contains("install")));
}
