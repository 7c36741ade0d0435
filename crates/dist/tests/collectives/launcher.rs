//! Starts this program as ranks, by `mpirun`.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// All tests that need several ranks. One that cannot run says so.
pub fn run_all() {
    let reason = match (cfg!(feature = "mpi"), version()) {
        (false, _) => Some("built without the feature `mpi`"),
        (true, None) => Some("there is no mpirun"),
        (true, Some(_)) => None,
    };
    if let Some(reason) = reason {
        println!("test collectives with several ranks ... ignored, {reason}");
        return;
    }
    for ranks in [1, 2, 3, 4, 7] {
        let output = mpirun(ranks, &[], &[]);
        let text = text(&output);
        assert!(output.status.success() && text.contains("operations are right"), "{text}");
        println!("test collectives with {ranks} ranks ... ok");
    }
    if version().is_some_and(|version| version.contains("Open MPI")) {
        for (ranks, how, lost) in [(4, "lose", 2), (3, "lose", 0), (4, "leave", 1), (2, "lose", 1)]
        {
            others_name(ranks, how, lost);
        }
    } else {
        // Others end all ranks when one ends.
        println!("test a rank that is lost ... ignored, only Open MPI lets the others live on");
    }
}

/// A rank dies, or ends, and all others name it.
fn others_name(ranks: u32, how: &str, lost: u32) {
    let start = Instant::now();
    let output = mpirun(ranks, &["--enable-recovery"], &[how, &lost.to_string()]);
    let text = text(&output);
    for other in (0..ranks).filter(|rank| *rank != lost) {
        let line = text.lines().find(|line| line.starts_with(&format!("rank {other}: after ")));
        let names = format!("rank {lost} is lost");
        assert!(line.is_some_and(|line| line.contains(&names)), "rank {other} of {ranks}: {text}");
    }
    assert!(start.elapsed() < Duration::from_secs(40), "it took {:?}", start.elapsed());
    println!("test {how} rank {lost} of {ranks} ... ok");
}

/// The first line of `mpirun --version`.
fn version() -> Option<String> {
    let output = Command::new("mpirun").arg("--version").output().ok()?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
}

/// Runs this program as so many ranks on emulated devices: also as root, also with more ranks than cores.
fn mpirun(ranks: u32, options: &[&str], arguments: &[&str]) -> Output {
    let mut command = Command::new("mpirun");
    command.args(["-n", &ranks.to_string()]).args(options);
    command.arg(std::env::current_exe().expect("this program has a path")).args(arguments);
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
        command.env(name, "1");
    }
    command.env("OMPI_MCA_rmaps_base_oversubscribe", "1").env("FERROWARP_DEVICE", "emulator");
    command.env("FERROWARP_DIST_DEADLINE", "120").stdin(Stdio::null());
    command.output().expect("mpirun can be started")
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}
