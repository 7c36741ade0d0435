//! Starts this program as ranks: by `mpirun` on emulated devices, and by itself, one rank a GPU, over NCCL.

use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use ferrowarp::{Backend, backend, devices};

/// How many tests there were, for the last line, which is as the harness of other tests prints it.
#[derive(Default)]
struct Count {
    passed: u32,
    ignored: u32,
}

impl Count {
    fn passed(&mut self, name: &str) {
        self.passed += 1;
        println!("test {name} ... ok");
    }

    fn ignored(&mut self, name: &str, reason: &str) {
        self.ignored += 1;
        println!("test {name} ... ignored, {reason}");
    }
}

/// All tests that need several ranks; if `loses`, also those that lose some. One that cannot run says so. A failure is a panic.
pub fn run_all(loses: bool) {
    let mut count = Count::default();
    count.passed("one rank alone");
    over_mpi(&mut count, loses);
    over_nccl(&mut count, loses);
    let Count { passed, ignored } = count;
    println!("\ntest result: ok. {passed} passed; 0 failed; {ignored} ignored");
}

fn over_mpi(count: &mut Count, loses: bool) {
    let version = version();
    let reason = match (cfg!(feature = "mpi"), &version) {
        (false, _) => Some("built without the feature `mpi`"),
        (true, None) => Some("there is no mpirun"),
        (true, Some(_)) => None,
    };
    if let Some(reason) = reason {
        return count.ignored("ranks over MPI", reason);
    }
    for ranks in [1, 2, 3, 4, 7] {
        let texts = [mpirun(ranks, &[], &[])];
        all_are_right(&texts);
        count.passed(&format!("{ranks} ranks over MPI"));
    }
    if !loses {
        return;
    }
    for (ranks, call, wrong) in REFUSALS {
        let texts = [mpirun(ranks, &[], &["refuse", call, &wrong.to_string()])];
        all_have_ended_well(&texts);
        count.passed(&format!("rank {wrong} of {ranks} over MPI refuses: {call}"));
    }
    if !version.is_some_and(|version| version.contains("Open MPI")) {
        // Others end all ranks when one ends.
        return count
            .ignored("ranks that are lost over MPI", "only Open MPI lets the others live on");
    }
    for (ranks, how, lost) in [(4, "lose", 2), (3, "lose", 0), (4, "leave", 1), (2, "lose", 1)] {
        let start = Instant::now();
        let texts = [mpirun(ranks, &["--enable-recovery"], &[how, &lost.to_string(), "150"])];
        others_name(ranks, lost, start, &texts);
        count.passed(&format!("{how} rank {lost} of {ranks} over MPI"));
    }
    a_deadline_ended(&[mpirun(3, &["--enable-recovery"], &["stall"])]);
    count.passed("a deadline over MPI");
}

fn over_nccl(count: &mut Count, loses: bool) {
    let gpus = match backend() {
        Ok(Backend::Cuda) => devices().map_or(0, |devices| devices.len() as u32),
        _ => 0,
    };
    if gpus < 2 {
        return count.ignored("ranks over NCCL", "there are not two GPUs");
    }
    for ranks in [1, 2, 3, 4, 7].into_iter().filter(|ranks| *ranks <= gpus) {
        let texts = own_ranks(ranks, &[], &[]);
        if texts.iter().any(|text| text.1.contains("NCCL cannot be used")) {
            return count.ignored("ranks over NCCL", "there is no NCCL");
        }
        all_are_right(&texts);
        let has_memory = texts.iter().any(|(_, text)| text.contains("with peer memory"));
        let with = if has_memory { ", with peer memory" } else { "" };
        count.passed(&format!("{ranks} ranks over NCCL{with}"));
        if has_memory {
            let texts = own_ranks(ranks, &[], &[("FERROWARP_DIST_PEERS", "0")]);
            all_are_right(&texts);
            assert!(!texts.iter().any(|(_, text)| text.contains("with peer memory")), "{texts:#?}");
            count.passed(&format!("{ranks} ranks over NCCL alone"));
        }
    }
    if !loses {
        return;
    }
    for (_, call, wrong) in REFUSALS.into_iter().filter(|own| own.2 < gpus) {
        all_have_ended_well(&own_ranks(gpus, &["refuse", call, &wrong.to_string()], &[]));
        count.passed(&format!("rank {wrong} of {gpus} over NCCL refuses: {call}"));
    }
    for moment in 0..10 {
        let (lost, rounds) = (moment % gpus, 1 + moment * moment * 37);
        let start = Instant::now();
        let texts = own_ranks(gpus, &["lose", &lost.to_string(), &rounds.to_string()], &[]);
        others_name(gpus, lost, start, &texts);
        count.passed(&format!("lose rank {lost} of {gpus} over NCCL after {rounds} rounds"));
    }
    for (lost, rounds) in [(0, 1), (1, 40)] {
        let start = Instant::now();
        let texts = own_ranks(gpus, &["lose-sender", &lost.to_string(), &rounds.to_string()], &[]);
        others_name(gpus, lost, start, &texts);
        count.passed(&format!("lose rank {lost} of {gpus} after {rounds} large exchanges"));
    }
    let start = Instant::now();
    others_name(gpus, 1, start, &own_ranks(gpus, &["leave", "1", "150"], &[]));
    count.passed("leave over NCCL");
    a_deadline_ended(&own_ranks(gpus, &["stall"], &[]));
    count.passed("a deadline over NCCL");
}

/// How many ranks, what one of them refuses, and which.
const REFUSALS: [(u32, &str, u32); 6] = [
    (1, "length", 0),
    (1, "send", 0),
    (2, "length", 1),
    (3, "root", 0),
    (4, "length", 2),
    (4, "send", 3),
];

/// Whether processes succeeded, and what they printed.
type Ended = (bool, String);

#[track_caller]
fn all_are_right(texts: &[Ended]) {
    let is_right = texts.iter().all(|(success, _)| *success);
    let says = texts.iter().any(|(_, text)| text.contains("operations are right"));
    assert!(is_right && says, "{texts:#?}");
}

#[track_caller]
fn all_have_ended_well(texts: &[Ended]) {
    assert!(texts.iter().all(|(success, _)| *success), "{texts:#?}");
}

/// All but the rank that died or ended name it.
#[track_caller]
fn others_name(ranks: u32, lost: u32, start: Instant, texts: &[Ended]) {
    for other in (0..ranks).filter(|rank| *rank != lost) {
        let lines = texts.iter().flat_map(|(_, text)| text.lines());
        let mut own = lines.filter(|line| line.starts_with(&format!("rank {other}: after ")));
        let names = format!("rank {lost} is lost");
        assert!(own.any(|line| line.contains(&names)), "rank {other} of {ranks}: {texts:#?}");
    }
    assert!(start.elapsed() < Duration::from_secs(40), "it took {:?}", start.elapsed());
}

/// What rank 0 did alone has ended by its deadline.
#[track_caller]
fn a_deadline_ended(texts: &[Ended]) {
    let mut lines = texts.iter().flat_map(|(_, text)| text.lines());
    let own = lines.find(|line| line.starts_with("rank 0: after "));
    assert!(own.is_some_and(|line| line.contains("which is the deadline")), "{texts:#?}");
}

/// The first line of `mpirun --version`.
fn version() -> Option<String> {
    let output = Command::new("mpirun").arg("--version").output().ok()?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
}

/// Runs this program as ranks on emulated devices: also as root, also with more ranks than cores.
fn mpirun(ranks: u32, options: &[&str], arguments: &[&str]) -> Ended {
    let mut command = Command::new("mpirun");
    command.args(["-n", &ranks.to_string()]).args(options);
    command.arg(std::env::current_exe().expect("this program has a path")).args(arguments);
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
        command.env(name, "1");
    }
    command.env("OMPI_MCA_rmaps_base_oversubscribe", "1").env("FERROWARP_DEVICE", "emulator");
    command.env("FERROWARP_DIST_DEADLINE", "120").stdin(Stdio::null());
    ended(command.output().expect("mpirun can be started"))
}

/// Runs this program as ranks of this host, as a launcher does.
fn own_ranks(ranks: u32, arguments: &[&str], variables: &[(&str, &str)]) -> Vec<Ended> {
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = port.expect("a port is free").port().to_string();
    let start = |rank: u32| {
        let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
        let (rank, ranks) = (rank.to_string(), ranks.to_string());
        command.args(arguments).env("RANK", &rank).env("LOCAL_RANK", &rank);
        command.env("WORLD_SIZE", &ranks).env("LOCAL_WORLD_SIZE", &ranks);
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", &port);
        command.envs(variables.iter().copied());
        command.env("FERROWARP_DIST_BACKEND", "nccl").env("FERROWARP_DIST_DEADLINE", "120");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("this program can be started")
    };
    let started: Vec<_> = (0..ranks).map(start).collect();
    let end =
        |child: std::process::Child| ended(child.wait_with_output().expect("it can be waited for"));
    started.into_iter().map(end).collect()
}

fn ended(output: Output) -> Ended {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    (output.status.success(), format!("{out}{err}"))
}
