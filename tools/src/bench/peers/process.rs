//! A peer as a process of its own.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::PeerError;
use crate::bench::case::Case;
use crate::bench::measure::Batching;

/// A running peer. It ends when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    complaints: Arc<Mutex<VecDeque<String>>>,
    listener: JoinHandle<()>,
    patience: Duration,
}

/// What a peer can do.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Listing {
    /// (peer, case) for each that it knows.
    pub cases: Vec<(String, String)>,
    /// The versions of what it uses.
    pub versions: Vec<String>,
}

#[derive(Serialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum Request<'a> {
    List,
    Prepare { peer: &'a str, case: &'a str, shape: &'a [usize], copies: usize },
    Run { peer: &'a str, variant: usize, rounds: usize, runs: usize },
    Check { peer: &'a str },
    Release,
}

#[derive(Deserialize)]
struct Nothing {}

/// A peer that is ready for a case.
#[derive(Deserialize)]
struct Prepared {
    #[serde(default = "one_variant")]
    variants: Vec<String>,
}

fn one_variant() -> Vec<String> {
    vec![String::new()]
}

#[derive(Deserialize)]
struct Times {
    ms: Vec<f64>,
}

/// How many of a peer's last complaints are kept.
const KEPT: usize = 3;

impl Process {
    /// Starts a peer that answers each request within `patience`.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command, patience: Duration) -> Result<Self, PeerError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (sender, lines) = mpsc::channel();
        let replies = BufReader::new(stdout.expect("it is piped"));
        thread::spawn(move || {
            let lines = replies.lines().map_while(Result::ok);
            lines.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
        });
        let complaints = Arc::default();
        let (kept, stderr) = (Arc::clone(&complaints), stderr.expect("it is piped"));
        let listener = thread::spawn(move || keep_last(stderr, &kept));
        Ok(Self { child, stdin, lines, complaints, listener, patience })
    }

    /// What the peer can do.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn list(&mut self) -> Result<Listing, PeerError> {
        self.ask(&Request::List)
    }

    /// Lets the peer make its data and run each copy once. The result names the variants of its call, in the order
    /// in which [`sitting`](Self::sitting) counts them: one without a name, most of the time.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn prepare(
        &mut self,
        peer: &str,
        case: &Case,
        batching: Batching,
    ) -> Result<Vec<String>, PeerError> {
        let (shape, copies) = (&case.shape, batching.copies);
        let prepared: Prepared =
            self.ask(&Request::Prepare { peer, case: &case.name, shape, copies })?;
        let garbled = || PeerError::Garbled("no variants".to_owned());
        (!prepared.variants.is_empty()).then_some(prepared.variants).ok_or_else(garbled)
    }

    /// `rounds` samples of a variant: milliseconds of one run.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn sitting(
        &mut self,
        peer: &str,
        variant: usize,
        rounds: usize,
        batching: Batching,
    ) -> Result<Vec<f64>, PeerError> {
        let times: Times =
            self.ask(&Request::Run { peer, variant, rounds, runs: batching.runs })?;
        let sensible = times.ms.len() == rounds && times.ms.iter().all(|&ms| ms > 0.0);
        sensible.then_some(times.ms).ok_or_else(|| PeerError::Garbled("no times".to_owned()))
    }

    /// Whether the peer finds its own results right.
    ///
    /// # Errors
    /// What is wrong, or why there is no answer.
    pub fn check(&mut self, peer: &str) -> Result<(), PeerError> {
        self.ask::<Nothing>(&Request::Check { peer }).map(drop)
    }

    /// Lets the process give the memory of all its peers back.
    ///
    /// # Errors
    /// Why there is no answer.
    pub fn release(&mut self) -> Result<(), PeerError> {
        self.ask::<Nothing>(&Request::Release).map(drop)
    }

    fn ask<R: for<'a> Deserialize<'a>>(&mut self, request: &Request<'_>) -> Result<R, PeerError> {
        self.send(request)?;
        let line = self.reply()?;
        let garbled = |_| PeerError::Garbled(line.chars().take(200).collect());
        let value: Value = serde_json::from_str(&line).map_err(garbled)?;
        let text = |key| value.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(words) = text("error") {
            return Err(PeerError::Refused(words));
        }
        if let Some(words) = text("wrong") {
            return Err(PeerError::Wrong(words));
        }
        serde_json::from_value(value).map_err(garbled)
    }

    fn send(&mut self, request: &Request<'_>) -> Result<(), PeerError> {
        let mut line = serde_json::to_string(request).expect("requests are plain data");
        line.push('\n');
        let stdin = self.stdin.as_mut().ok_or_else(|| PeerError::Ended("before".to_owned()))?;
        let sent = stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush());
        sent.map_err(|_| self.ended())
    }

    fn reply(&mut self) -> Result<String, PeerError> {
        match self.lines.recv_timeout(self.patience) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Disconnected) => Err(self.ended()),
            Err(RecvTimeoutError::Timeout) => {
                self.end();
                Err(PeerError::Hung(self.patience.as_secs()))
            }
        }
    }

    /// Whether it can be asked no more.
    #[must_use]
    pub fn is_over(&mut self) -> bool {
        self.stdin.is_none()
    }

    fn end(&mut self) {
        self.stdin = None;
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn ended(&mut self) -> PeerError {
        self.end();
        // Its last words are read to their end, unless a child of its own still holds the pipe.
        let heard = || self.listener.is_finished();
        (0..50).take_while(|_| !heard()).for_each(|_| thread::sleep(Duration::from_millis(10)));
        let complaints = self.complaints.lock().unwrap_or_else(PoisonError::into_inner);
        let words: Vec<_> = complaints.iter().map(String::as_str).collect();
        PeerError::Ended(if words.is_empty() { "without a word".into() } else { words.join(" | ") })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

fn keep_last(stderr: impl Read, kept: &Mutex<VecDeque<String>>) {
    let lines = BufReader::new(stderr).lines().map_while(Result::ok);
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT {
            kept.pop_front();
        }
        kept.push_back(line);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::bench::measure::Batching;
    use crate::bench::{Scale, cases};
    use ferrowarp::Backend;

    /// A peer in the shell's language that answers each request with the next of `replies`.
    fn peer(replies: &[&str], end: &str) -> Process {
        let answer = |reply: &&str| format!("read -r line; echo '{reply}'; ");
        let script: String = replies.iter().map(answer).chain([end.to_owned()]).collect();
        Process::start(Command::new("sh").args(["-c", &script]), Duration::from_millis(700))
            .unwrap()
    }

    const BATCHING: Batching = Batching { copies: 2, runs: 3 };

    #[test]
    fn a_conversation() {
        let list = r#"{"cases": [["CUB", "a/b/f32"]], "versions": ["CUB 3"]}"#;
        let variants = r#"{"variants": ["int", "size_t"]}"#;
        let mut peer = peer(&[list, variants, r#"{"ms": [0.5, 0.25]}"#, "{}", "{}", "{}"], "");
        let listing = peer.list().unwrap();
        assert_eq!(listing.cases, [("CUB".to_owned(), "a/b/f32".to_owned())]);
        assert_eq!(listing.versions, ["CUB 3"]);
        let case = &cases::all(&Scale::new(Backend::Emulator, true, None))[0];
        assert_eq!(peer.prepare("CUB", case, BATCHING).unwrap(), ["int", "size_t"]);
        assert_eq!(peer.sitting("CUB", 1, 2, BATCHING).unwrap(), [0.5, 0.25]);
        peer.check("CUB").unwrap();
        assert_eq!(peer.prepare("CUB", case, BATCHING).unwrap(), [""]);
        peer.release().unwrap();
    }

    #[test]
    fn requests_are_lines_of_json() {
        let mut peer =
            peer(&[], r#"read -r line; echo "{\"error\": \"$(echo "$line" | tr -d '"')\"}""#);
        let said = peer.sitting("CUB", 0, 2, BATCHING).unwrap_err().to_string();
        assert_eq!(said, "{do:run,peer:CUB,variant:0,rounds:2,runs:3}");
    }

    #[test]
    fn what_a_peer_refuses_or_garbles_is_told() {
        let replies = [r#"{"error": "no torch"}"#, r#"{"wrong": "all NaN"}"#, "nonsense"];
        let times = [r#"{"ms": [1.0]}"#, r#"{"ms": [1.0, 0.0]}"#, r#"{"ms": [1.0, null]}"#];
        let mut peer = peer(&[&replies[..], &times].concat(), "");
        assert!(matches!(peer.check("x"), Err(PeerError::Refused(words)) if words == "no torch"));
        assert!(matches!(peer.check("x"), Err(PeerError::Wrong(words)) if words == "all NaN"));
        assert!(matches!(peer.check("x"), Err(PeerError::Garbled(words)) if words == "nonsense"));
        for _ in times {
            assert!(matches!(peer.sitting("x", 0, 2, BATCHING), Err(PeerError::Garbled(_))));
        }
        assert!(!peer.is_over());
    }

    #[test]
    fn a_peer_that_ends_leaves_its_last_words() {
        let mut ends = peer(&["{}"], "echo first >&2; echo 'out of memory' >&2; exit 1");
        ends.check("x").unwrap();
        let error = ends.release().unwrap_err().to_string();
        assert_eq!(error, "it ended: first | out of memory");
        assert!(ends.is_over());
        assert!(matches!(ends.release(), Err(PeerError::Ended(_))));
        let error = peer(&[], "exit 0").list().unwrap_err().to_string();
        assert_eq!(error, "it ended: without a word");
    }

    #[test]
    fn a_peer_that_hangs_is_ended() {
        let mut hangs = peer(&[], "exec sleep 1000");
        let start = std::time::Instant::now();
        assert!(matches!(hangs.list(), Err(PeerError::Hung(_))));
        assert!(hangs.is_over() && start.elapsed() < Duration::from_secs(20));
    }
}
