//! Real processes: they meet, are killed, and the others name whom they lost.
//!
//! Each test starts this program again, once for each rank.

#![cfg(unix)]

use std::env;
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use ferrowarp_dist::{DistError, World};

const IN_RANK: &str = "FERROWARP_DIST_TEST_RANK";
const LONG: Duration = Duration::from_secs(60);

/// Starts `size` processes that run the test of that name as ranks.
fn start(name: &str, size: u32, without: &[u32]) -> Vec<(u32, Child)> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let start = |rank: u32| {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(IN_RANK, "1");
        command.env("RANK", rank.to_string()).env("LOCAL_RANK", rank.to_string());
        command.env("WORLD_SIZE", size.to_string()).env("LOCAL_WORLD_SIZE", size.to_string());
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
        command.env("FERROWARP_DIST_TIMEOUT", "20");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        (rank, command.spawn().unwrap())
    };
    (0..size).filter(|rank| !without.contains(rank)).map(start).collect()
}

fn is_rank() -> bool {
    env::var_os(IN_RANK).is_some()
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn ranks_meet_exchange_and_finish() {
    if is_rank() {
        let world = World::from_env().unwrap();
        let own = world.rank() as u8;
        let all = world.exchange_bytes(vec![own], LONG).unwrap();
        assert_eq!(all, (0..world.size() as u8).map(|rank| vec![rank]).collect::<Vec<_>>());
        if own == 1 {
            std::thread::sleep(Duration::from_secs(4)); // the others wait for it, at the end too
        }
        return world.finish().unwrap();
    }
    for (rank, child) in start("ranks_meet_exchange_and_finish", 4, &[]) {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "rank {rank}: {}", text(&output));
    }
}

/// Each rank says what has ended its wait for rank `lost`, which does not come.
fn wait_without_end(lost: u32) {
    let world = World::from_env().unwrap();
    world.barrier(LONG).unwrap();
    if world.rank() == lost {
        std::thread::sleep(LONG); // until it is killed
    }
    let error = world.barrier(LONG).unwrap_err();
    println!("ended by: {error}");
    assert!(matches!(error, DistError::RankLost { .. }), "{error}");
}

/// Starts ranks that wait, sends `signal` to one of them, and expects that all others name it.
fn others_name(name: &str, killed: u32, signal: &str, within: Duration) {
    let mut ranks = start(name, 4, &[]);
    std::thread::sleep(Duration::from_secs(2));
    let at = ranks.iter().position(|(rank, _)| *rank == killed).unwrap();
    let (_, mut victim) = ranks.remove(at);
    let id = victim.id().to_string();
    assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    let start = Instant::now();
    for (rank, child) in ranks {
        let output = child.wait_with_output().unwrap();
        let text = text(&output);
        let names = format!("ended by: rank {killed} is lost: ");
        assert!(output.status.success() && text.contains(&names), "rank {rank}: {text}");
    }
    assert!(start.elapsed() < within, "it took {:?}", start.elapsed());
    victim.kill().unwrap();
    victim.wait().unwrap();
}

#[test]
fn a_killed_rank_is_named_by_all_others() {
    if is_rank() {
        return wait_without_end(2);
    }
    others_name("a_killed_rank_is_named_by_all_others", 2, "-KILL", Duration::from_secs(5));
}

#[test]
fn rank_0_is_named_too() {
    if is_rank() {
        return wait_without_end(0);
    }
    others_name("rank_0_is_named_too", 0, "-KILL", Duration::from_secs(5));
}

#[test]
fn a_rank_that_is_stopped_is_silent_and_named() {
    if is_rank() {
        return wait_without_end(3);
    }
    others_name("a_rank_that_is_stopped_is_silent_and_named", 3, "-STOP", Duration::from_secs(25));
}

#[test]
fn a_rank_that_does_not_come_is_named() {
    if is_rank() {
        // SAFETY: the test runs alone in its process, before any other thread.
        unsafe { env::set_var("FERROWARP_DIST_TIMEOUT", "2") };
        let error = World::from_env().unwrap_err();
        println!("{error}");
        return;
    }
    let ranks = start("a_rank_that_does_not_come_is_named", 3, &[1]);
    let outputs: Vec<_> =
        ranks.into_iter().map(|(_, child)| child.wait_with_output().unwrap()).collect();
    let texts: Vec<_> = outputs.iter().map(text).collect();
    assert!(outputs.iter().all(|output| output.status.success()), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("rank 1 did not come")), "{texts:?}");
}

#[test]
fn settings_that_differ_are_named_before_anything_begins() {
    if is_rank() {
        if env::var("RANK").unwrap() == "1" {
            // SAFETY: the test runs alone in its process, before any other thread.
            unsafe { env::set_var("FERROWARP_DIST_PEERS", "0") };
        }
        let error = World::from_env().unwrap_err();
        println!("{error}");
        return assert!(matches!(error, DistError::UnlikeSettings { .. }), "{error}");
    }
    for (rank, child) in start("settings_that_differ_are_named_before_anything_begins", 3, &[]) {
        let output = child.wait_with_output().unwrap();
        let text = text(&output);
        let names = "FERROWARP_DIST_PEERS is not set on ranks 0 and 2, `0` on rank 1";
        assert!(output.status.success() && text.contains(names), "rank {rank}: {text}");
    }
}

#[test]
fn without_a_launcher_the_error_says_what_to_do() {
    if is_rank() {
        return println!("{}", World::from_env().unwrap_err());
    }
    let mut command = Command::new(env::current_exe().unwrap());
    let name = "without_a_launcher_the_error_says_what_to_do";
    command.args([name, "--exact", "--nocapture"]).env(IN_RANK, "1");
    const LAUNCHERS: [&str; 6] =
        ["RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "PMIX_RANK"];
    for name in LAUNCHERS {
        command.env_remove(name);
    }
    let text = text(&command.output().unwrap());
    assert!(text.contains("no launcher has started this process. Looked for: RANK"), "{text}");
}
