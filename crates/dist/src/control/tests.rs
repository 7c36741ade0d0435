//! Ranks that are threads: meetings that succeed and that fail. `tests/meeting.rs` has real processes.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::environment::{Environment, Launcher, MeetingPlace, Settings};
use crate::error::{DistError, Loss};

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(800);

fn rank(rank: u32, size: u32, place: &MeetingPlace) -> Environment {
    let (launcher, local_size, run) = (Launcher::Variables, Some(size), "test".to_owned());
    Environment {
        launcher,
        rank,
        size,
        local_rank: rank,
        local_size,
        restarts: 0,
        run,
        place: place.clone(),
        settings: Settings::default(),
    }
}

/// Ports of which some are free.
fn ports() -> MeetingPlace {
    let first = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    MeetingPlace::Ports { host: "127.0.0.1".to_owned(), first: first.min(65_000), count: 16 }
}

fn file(folder: &Path) -> MeetingPlace {
    MeetingPlace::File { path: folder.join("meet"), is_local: true }
}

/// Runs `body` as each of the ranks, and returns what they return.
fn as_ranks<R: Send>(
    environments: impl IntoIterator<Item = Environment>,
    body: impl Fn(&Environment) -> R + Sync,
) -> Vec<R> {
    let environments: Vec<_> = environments.into_iter().collect();
    thread::scope(|scope| {
        let body = &body;
        let ranks: Vec<_> = environments.iter().map(|own| scope.spawn(move || body(own))).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

#[test]
fn ranks_meet_and_exchange_by_ports_and_by_a_file() {
    let folder = tempfile::tempdir().unwrap();
    for place in [ports(), file(folder.path())] {
        for size in [1, 2, 5] {
            let results = as_ranks((0..size).map(|at| rank(at, size, &place)), |own| {
                let control = Control::meet(own, LONG).unwrap();
                let all: Vec<u32> = (0..size).collect();
                let value = vec![own.rank as u8; own.rank as usize];
                let values = control.exchange("x", "all", &all, value, LONG).unwrap();
                // Some of them, in an order of their own.
                let some = [size - 1, 0];
                if size > 1 && some.contains(&own.rank) {
                    let value = vec![own.rank as u8];
                    let two = control.exchange("x", "some", &some, value, LONG).unwrap();
                    assert_eq!(two, [vec![size as u8 - 1], vec![0]]);
                }
                control.exchange("x", "end", &all, Vec::new(), LONG).unwrap();
                values
            });
            let expected: Vec<_> = (0..size).map(|at| vec![at as u8; at as usize]).collect();
            results.iter().for_each(|values| assert_eq!(*values, expected));
            assert!(!folder.path().join("meet").exists(), "the file has done its service");
        }
    }
}

#[test]
fn a_deadline_names_the_ranks_that_did_not_come() {
    let place = ports();
    let came = [0, 2].map(|at| rank(at, 5, &place));
    for error in as_ranks(came, |own| Control::meet(own, SHORT).map(drop).unwrap_err()) {
        match error {
            // Whoever gives up first is missed by the other.
            DistError::MissingRanks { ranks, .. } => {
                assert!([1, 3, 4].iter().all(|rank| ranks.contains(rank)), "{ranks:?}");
            }
            DistError::RankLost { rank: 0, .. } => {}
            other => panic!("{other}"),
        }
    }
}

#[test]
fn without_rank_0_the_place_is_named() {
    let place = ports();
    let error = Control::meet(&rank(1, 2, &place), SHORT).map(drop).unwrap_err();
    assert!(matches!(error, DistError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&place.to_string()), "{error}");
}

#[test]
fn a_stranger_of_another_run_is_refused_and_disturbs_no_one() {
    let place = ports();
    let stranger = Environment { run: "yesterday".to_owned(), ..rank(1, 2, &place) };
    let results = as_ranks([rank(0, 2, &place), stranger, rank(1, 2, &place)], |own| {
        if own.run == "test" && own.rank == 1 {
            thread::sleep(Duration::from_millis(300)); // after the stranger
        }
        let control = Control::meet(own, if own.run == "test" { LONG } else { SHORT })?;
        control.exchange("x", "end", &[0, 1], Vec::new(), LONG).map(drop)
    });
    assert!(results[0].is_ok() && results[2].is_ok(), "{results:?}");
    let error = results[1].as_ref().unwrap_err();
    assert!(matches!(error, DistError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains("another run"), "{error}");
}

#[test]
fn a_stale_file_is_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let place = file(folder.path());
    let dead = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let stale = format!(r#"{{"run":"test/0","hosts":[["127.0.0.1",{dead}]]}}"#);
    std::fs::write(folder.path().join("meet"), stale).unwrap();
    let results = as_ranks((0..2).map(|at| rank(at, 2, &place)), |own| {
        if own.rank == 0 {
            thread::sleep(Duration::from_millis(300)); // the other has read what is stale
        }
        let control = Control::meet(own, LONG)?;
        control.exchange("x", "end", &[0, 1], Vec::new(), LONG).map(drop)
    });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

#[test]
fn a_rank_that_comes_twice_and_one_of_another_size_are_refused() {
    let place = ports();
    let other_size = Environment { size: 4, ..rank(2, 3, &place) };
    let results = as_ranks([rank(0, 3, &place), rank(1, 3, &place), other_size], |own| {
        if own.rank == 1 {
            let first = Control::meet(own, SHORT);
            thread::sleep(Duration::from_millis(10));
            return first.map(drop);
        }
        if own.rank == 0 {
            // A second rank 1 while the first waits.
            let twice = Environment { rank: 1, ..own.clone() };
            return thread::scope(|scope| {
                let second = scope.spawn(|| {
                    thread::sleep(Duration::from_millis(400));
                    Control::meet(&twice, SHORT).map(drop)
                });
                let first = Control::meet(own, SHORT).map(drop);
                assert!(first.is_err());
                second.join().unwrap()
            });
        }
        Control::meet(own, SHORT).map(drop)
    });
    let text = results.iter().map(|r| r.as_ref().unwrap_err().to_string()).collect::<Vec<_>>();
    assert!(text[0].contains("rank 1 has come already"), "{text:?}");
    assert!(text[2].contains("rank 2 of 4") && text[2].contains("one of 3"), "{text:?}");
}

#[test]
fn noise_and_silence_on_the_port_harm_no_one() {
    let place = ports();
    let MeetingPlace::Ports { first, .. } = place else { unreachable!() };
    // Another program has the first port.
    let other = TcpListener::bind(("127.0.0.1", first));
    let results = as_ranks((0..2).map(|at| rank(at, 2, &place)), |own| {
        if own.rank == 1 {
            for port in first..first + 3 {
                if let Ok(mut noise) = TcpStream::connect(("127.0.0.1", port)) {
                    let _ = noise.write_all(b"GET / HTTP/1.1\r\n\r\n");
                    let _silent = TcpStream::connect(("127.0.0.1", port));
                }
            }
        }
        let control = Control::meet(own, LONG)?;
        control.exchange("x", "end", &[0, 1], Vec::new(), LONG).map(drop)
    });
    drop(other);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

#[test]
fn an_exchange_names_who_is_missing_and_who_has_ended() {
    let place = ports();
    let results = as_ranks((0..3).map(|at| rank(at, 3, &place)), |own| {
        let control = Control::meet(own, LONG).unwrap();
        let all = [0, 1, 2];
        if own.rank != 2 {
            let missing = control.exchange("a barrier", "first", &all, vec![], SHORT).unwrap_err();
            let text = missing.to_string();
            assert!(text.starts_with("rank 2 did not come to a barrier"), "{text}");
        }
        let two = control.exchange("x", "second", &all, vec![], LONG);
        assert!(two.is_ok(), "{two:?}");
        if own.rank == 2 {
            return None; // ends
        }
        let start = Instant::now();
        let ended = control.exchange("x", "third", &all, vec![], LONG).unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(10));
        Some(ended)
    });
    let ended: Vec<_> = results.into_iter().flatten().collect();
    assert!(matches!(ended[0], DistError::RankLost { rank: 2, how: Loss::Ended }), "{ended:?}");
    // Rank 0 may have ended before the other noticed.
    assert!(matches!(ended[1], DistError::RankLost { rank: 0 | 2, .. }), "{ended:?}");
}

/// What a rank was told of refused calls.
#[derive(Default)]
struct Heard(Mutex<Vec<Refusal>>);

impl Watcher for Heard {
    fn lost(&self, _rank: u32, _how: &Loss) {}

    fn refused(&self, refusal: &Refusal) {
        self.0.lock().unwrap().push(refusal.clone());
    }
}

#[test]
fn a_refused_call_is_told_to_the_other_members_alone_and_its_end_once() {
    let place = ports();
    let refusal = |call| {
        let (key, reason) = ("communicator/0".to_owned(), "9 elements".to_owned());
        Refusal { key, rank: 1, call, reason }
    };
    let heard = as_ranks((0..3).map(|at| rank(at, 3, &place)), |own| {
        let control = Control::meet(own, LONG).unwrap();
        let (heard, members) = (Arc::new(Heard::default()), [1, 2]);
        let weak: Weak<Heard> = Arc::downgrade(&heard);
        control.peers().watch(weak);
        control.exchange("x", "start", &[0, 1, 2], vec![], LONG).unwrap();
        match own.rank {
            1 => control.refuse(&members, refusal(Some(4))),
            2 => (0..2).for_each(|_| control.refuse(&members, refusal(None))),
            _ => {}
        }
        control.exchange("x", "end", &[0, 1, 2], vec![], LONG).unwrap();
        let before = heard.0.lock().unwrap().clone();
        // One that begins to watch later is told, too.
        let late = Arc::new(Heard::default());
        let weak: Weak<Heard> = Arc::downgrade(&late);
        control.peers().watch(weak);
        assert_eq!(*late.0.lock().unwrap(), before);
        before
    });
    assert_eq!(heard, [vec![], vec![refusal(None)], vec![refusal(Some(4))]]);
}
