//! Files that a user may not read.

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use assert_cmd::assert::Assert;

use super::{Place, program, refused};

#[test]
fn a_file_without_permission_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new().with("secret.csv", "1\n");
    let close = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    close(&place.path("secret.csv"), 0o000);
    close(place.0.path(), 0o755);
    let assert = unprivileged(&place, &["reduce", "secret.csv"]);
    refused(assert, "cannot read secret.csv: permission denied");
}

/// Runs the program as a user that permissions hold for, which the superuser is not.
fn unprivileged(place: &Place, args: &[&str]) -> Assert {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;
    const NOBODY: u32 = 65534;
    if fs::metadata("/proc/self").is_ok_and(|me| me.uid() != 0) {
        return place.run(args);
    }
    // The program may lie where nobody can reach it. Another process copies it: a file that this one writes
    // stays open in every child that another test starts meanwhile, and what is open cannot be run.
    let reachable = place.path("ferrowarp");
    let copied = std::process::Command::new("cp").arg(program()).arg(&reachable).status().unwrap();
    assert!(copied.success());
    let mut command = std::process::Command::new(reachable);
    command.current_dir(place.0.path()).args(args).uid(NOBODY);
    Command::from_std(command).assert()
}
