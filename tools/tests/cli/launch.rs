//! `ferrowarp launch`: ranks, their lines, their ends; and `ferrowarp dist` as far as it goes without other ranks.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use predicates::prelude::*;
use predicates::str::{contains, is_empty};

use super::{Place, program, refused};

/// How many queues the driver gives the streams of a process.
const CONNECTIONS: &str = "CUDA_DEVICE_MAX_CONNECTIONS";

/// Runs a script as so many ranks.
fn launch(place: &Place, ranks: &str, script: &str) -> assert_cmd::assert::Assert {
    place.run(&["launch", "-n", ranks, "--grace", "1", "--", "sh", "-c", script])
}

/// Waits until a file has a whole line, and returns it.
fn line_of(path: &Path) -> String {
    let start = Instant::now();
    loop {
        match fs::read_to_string(path) {
            Ok(text) if text.ends_with('\n') => return text.trim().to_owned(),
            _ => assert!(
                start.elapsed() < Duration::from_secs(60),
                "nothing writes {}",
                path.display()
            ),
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the process of that number has ended; it may not have been waited for.
fn wait_for_end(process: &str) {
    let start = Instant::now();
    let lives = || {
        let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        let state = status.rsplit(')').next().unwrap_or_default().trim_start();
        !state.is_empty() && !state.starts_with('Z')
    };
    while lives() {
        assert!(start.elapsed() < Duration::from_secs(20), "process {process} lives on");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn each_rank_has_torchruns_variables_and_its_lines_its_number() {
    let script = "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR $CUDA_DEVICE_MAX_CONNECTIONS; \
                  test $MASTER_PORT -gt 0 && echo warned >&2; printf unended";
    let place = Place::new();
    let mut command = place.command(&["launch", "-n", "3", "--", "sh", "-c", script]);
    let output = command.env_remove(CONNECTIONS).assert().success().get_output().clone();
    let sorted = |text: &[u8]| {
        let text = String::from_utf8(text.to_vec()).unwrap();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let expected = [
        "[0] 0 3 0 3 127.0.0.1 32",
        "[0] unended",
        "[1] 1 3 1 3 127.0.0.1 32",
        "[1] unended",
        "[2] 2 3 2 3 127.0.0.1 32",
        "[2] unended",
    ];
    assert_eq!(sorted(&output.stdout), expected);
    assert_eq!(sorted(&output.stderr), ["[0] warned", "[1] warned", "[2] warned"]);
}

#[test]
fn a_number_of_queues_that_is_set_is_kept() {
    let script = format!("echo ${CONNECTIONS}");
    let place = Place::new();
    let mut command = place.command(&["launch", "-n", "1", "--", "sh", "-c", &script]);
    command.env(CONNECTIONS, "5").assert().success().stdout("[0] 5\n");
}

#[test]
fn arguments_that_look_like_options_are_the_programs() {
    let place = Place::new();
    let args = ["launch", "-n", "1", "echo", "-n", "9", "--version", "--"];
    place.run(&args).success().stdout("[0] 9 --version --\n");
    place.run(&["launch", "-n", "2"]).code(2);
    place.run(&["launch", "-n", "0", "--", "true"]).code(2);
    place.run(&["launch", "--", "true"]).code(2).stderr(contains("--ranks"));
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let assert = Place::new().run(&["launch", "-n", "2", "--", "./nowhere"]);
    refused(assert, "cannot start ./nowhere: there is no such file or directory");
}

#[test]
fn the_first_failure_gives_the_exit_status_and_ends_the_others_with_their_children() {
    let place = Place::new();
    let script = "[ $RANK = 1 ] && sleep 0.3 && exit 7; sleep 600 & echo $! > child$RANK; wait";
    let start = Instant::now();
    let ended = launch(&place, "3", script).code(7);
    ended.stderr(contains("error: rank 1 failed first: exit status: 7"));
    assert!(start.elapsed() < Duration::from_secs(20), "it took {:?}", start.elapsed());
    ["child0", "child2"].iter().for_each(|name| wait_for_end(&line_of(&place.path(name))));
}

#[test]
fn ranks_that_ignore_termination_are_killed() {
    let script = "[ $RANK = 1 ] && exit 3; trap '' TERM; while :; do sleep 1; done";
    launch(&Place::new(), "2", script).code(3);
}

#[test]
fn what_a_rank_leaves_running_ends_with_the_last_rank() {
    let place = Place::new();
    launch(&place, "1", "sleep 600 & echo $! > child").success();
    wait_for_end(&line_of(&place.path("child")));
}

#[test]
fn others_have_time_to_say_whom_they_lost() {
    let script = "[ $RANK = 0 ] && kill -KILL $$; sleep 0.5; echo lost rank 0; exit 5";
    let ended = launch(&Place::new(), "2", script).code(128 + 9);
    let first = contains("rank 0 failed first: signal: 9");
    ended.stdout("[1] lost rank 0\n").stderr(first);
}

/// Starts ranks that write `ready` and wait, in a process group of its own.
fn start(place: &Place, script: &str) -> Child {
    let mut command = Command::new(program());
    command.current_dir(place.0.path()).args(["launch", "-n", "2", "--", "sh", "-c", script]);
    // A shell's background job ignores SIGINT, and so would the program if the tests are one.
    let listen = || {
        for signal in [libc::SIGINT, libc::SIGTERM] {
            // SAFETY: the default action needs no handler, and `signal` may be called between fork and exec.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls alone.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, listen) };
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn send(signal: i32, child: &Child) {
    // SAFETY: the process is a child that nobody has waited for, so the number is its.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

#[test]
fn signals_are_passed_on() {
    for (signal, name) in [(libc::SIGINT, "INT"), (libc::SIGTERM, "TERM")] {
        let place = Place::new();
        let script = format!(
            "trap 'echo stopped by {name}; exit 0' {name}; echo $$ > ready$RANK; while :; do sleep 0.05; done"
        );
        let child = start(&place, &script);
        let _ = ["ready0", "ready1"].map(|ready| line_of(&place.path(ready)));
        send(signal, &child);
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        for rank in 0..2 {
            assert!(text.contains(&format!("[{rank}] stopped by {name}\n")), "{text}");
        }
        assert!(output.status.success(), "{:?}", output.status);
    }
}

#[test]
fn ranks_end_when_the_launcher_is_killed() {
    let place = Place::new();
    let mut child = start(&place, "echo $$ > ready$RANK; exec sleep 600");
    let ranks = ["ready0", "ready1"].map(|ready| line_of(&place.path(ready)));
    send(libc::SIGKILL, &child);
    child.wait().unwrap();
    ranks.iter().for_each(|rank| wait_for_end(rank));
}

#[test]
fn a_demo_of_one_rank_is_right_and_one_without_a_launcher_is_refused() {
    let place = Place::new();
    let alone = place.run(&["dist", "demo", "--alone"]).success();
    let rows = contains("all-to-all, uneven").and(contains("sort: pairs"));
    let table = rows.and(contains("WRONG").not());
    alone.stdout(table.and(contains("1 rank by no launcher"))).stderr(is_empty());
    let mut command = place.command(&["dist", "demo"]);
    for name in
        ["RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "PMIX_RANK"]
    {
        command.env_remove(name);
    }
    refused(command.assert(), "no launcher has started this process");
}

#[test]
fn a_bench_of_one_rank_has_all_tables() {
    let small = ["--sizes", "100,4K", "--keys", "1K", "--matrix", "4K", "--product", "64"];
    let args = [&["dist", "bench", "--alone", "--repetitions", "2"], &small[..]].concat();
    let ended = Place::new().run(&args).success().stderr(is_empty());
    let tables = contains("all-reduce").and(contains("send and receive"));
    let rest = contains("100 B").and(contains("u32 with u32")).and(contains("32 × 32 f32"));
    let products =
        contains("all-gather and product, 64³ bf16").and(contains("reduce-scatter, 64³"));
    ended.stdout(tables.and(rest).and(products));
    Place::new().run(&["dist", "bench", "--max", "1X"]).code(2).stderr(contains("not a unit"));
}

#[test]
fn ranks_without_a_backend_say_what_to_install_and_who_they_are() {
    let place = Place::new();
    let args = ["launch", "-n", "2", "--"];
    let mut command = place.command(&args);
    command.arg(program()).args(["dist", "demo"]).env("FERROWARP_DEVICE", "emulator");
    let says = contains("rank 1 of 2 (ferrowarp launch): nothing here carries data between ranks");
    command.assert().code(1).stderr(says.and(contains("mpi")));
}
