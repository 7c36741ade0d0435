//! Rank 0's side of the control connections.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::SILENCE;
use super::message::{Hello, Incoming, Refusal, ToRank, ToServer, VERSION, send};
use super::place::Listening;

/// How long a process may take for its first line, and a write to a rank for its bytes.
const PATIENCE: Duration = Duration::from_secs(5);
/// For threads that read and write lines.
const STACK_BYTES: usize = 256 << 10;

/// Serves the ranks until it is dropped.
pub(super) struct Server {
    hall: Arc<Hall>,
}

/// Where the ranks have seats.
struct Hall {
    run: String,
    file: Option<PathBuf>,
    state: Mutex<State>,
    is_closed: AtomicBool,
}

struct State {
    seats: Vec<Seat>,
    has_started: bool,
    exchanges: HashMap<String, Exchange>,
    /// Communicators that a refused call has ended.
    ended: HashSet<String>,
}

enum Seat {
    Empty,
    Taken {
        to: TcpStream,
        hello: Hello,
    },
    /// Its rank has ended, or is lost.
    Gone,
}

#[derive(Default)]
struct Exchange {
    members: Vec<u32>,
    values: BTreeMap<u32, Vec<u8>>,
}

impl Server {
    pub(super) fn start(listening: Listening, size: u32) -> io::Result<Self> {
        let Listening { listener, run, file } = listening;
        listener.set_nonblocking(true)?;
        let seats = (0..size).map(|_| Seat::Empty).collect();
        let (exchanges, ended) = (HashMap::new(), HashSet::new());
        let state = State { seats, has_started: false, exchanges, ended };
        let is_closed = AtomicBool::new(false);
        let hall = Arc::new(Hall { run, file, state: Mutex::new(state), is_closed });
        let for_thread = hall.clone();
        spawn(move || for_thread.accept(&listener))?;
        Ok(Self { hall })
    }

    /// Waits until all ranks but this one have gone, for at most `timeout`.
    pub(super) fn wait_for_others(&self, timeout: Duration) {
        let end = Instant::now() + timeout;
        let is_taken = |seat: &Seat| matches!(seat, Seat::Taken { .. });
        while self.hall.state().seats.iter().skip(1).any(is_taken) && Instant::now() < end {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.hall.is_closed.store(true, Ordering::Release);
        for seat in &self.hall.state().seats {
            if let Seat::Taken { to, .. } = seat {
                let _ = to.shutdown(Shutdown::Write);
            }
        }
        self.hall.remove_file();
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let builder = thread::Builder::new().name("ferrowarp-control".to_owned());
    builder.stack_size(STACK_BYTES).spawn(work).map(drop)
}

impl Hall {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remove_file(&self) {
        if let Some(file) = &self.file {
            // Another start of the program may have put its own there, or removed it.
            let _ = std::fs::remove_file(file);
        }
    }

    fn accept(self: Arc<Self>, listener: &TcpListener) {
        while !self.is_closed.load(Ordering::Acquire) {
            match listener.accept() {
                Ok((stream, _)) => {
                    let hall = self.clone();
                    // Without a thread for it, the process finds nobody that answers, and tries again.
                    let _ = spawn(move || hall.serve(stream));
                }
                // Nobody, or one that has left already. Once all have come, only strangers may.
                Err(_) if self.state().has_started => thread::sleep(Duration::from_millis(100)),
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    /// One connection, from its first line to its end.
    fn serve(&self, stream: TcpStream) {
        let Some((mut incoming, rank)) = self.seat(stream) else { return };
        let end = loop {
            match incoming.next() {
                Ok(Some(ToServer::Leave)) => break End::Left,
                Ok(Some(message)) => self.answer(rank, message),
                Ok(None) => break End::Died,
                Err(error) if is_timeout(&error) => break End::Silent,
                Err(_) => break End::Died,
            }
        };
        self.ended(rank, &end);
    }

    /// Takes a process in, if it is one of this run.
    fn seat(&self, stream: TcpStream) -> Option<(Incoming, u32)> {
        stream.set_nonblocking(false).ok()?;
        stream.set_nodelay(true).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        let mut incoming = Incoming::new(stream.try_clone().ok()?);
        let Ok(Some(ToServer::Hello(hello))) = incoming.next() else { return None };
        let rank = hello.rank;
        let mut state = self.state();
        if let Err(refused) = self.check(&state, &hello) {
            drop(state);
            let _ = send(&stream, &refused);
            return None;
        }
        stream.set_read_timeout(Some(SILENCE)).ok()?;
        send(&stream, &ToRank::Welcome).ok()?;
        state.seats[rank as usize] = Seat::Taken { to: stream, hello };
        let is_there = |seat: &Seat| matches!(seat, Seat::Taken { .. });
        if state.seats.iter().all(is_there) {
            state.has_started = true;
            state.send_all(&ToRank::Started);
            self.remove_file();
        }
        Some((incoming, rank))
    }

    fn check(&self, state: &State, hello: &Hello) -> Result<(), ToRank> {
        let size = state.seats.len();
        let refused = |reason: String| Err(ToRank::Refused { reason, is_another_run: false });
        if hello.run != self.run || hello.version != VERSION {
            let reason = "its ranks belong to another run".to_owned();
            return Err(ToRank::Refused { reason, is_another_run: true });
        }
        if hello.size as usize != size || hello.rank as usize >= size {
            let Hello { rank, size: its, .. } = hello;
            return refused(format!("it is rank {rank} of {its}, and rank 0 is one of {size}"));
        }
        match &state.seats[hello.rank as usize] {
            Seat::Empty => Ok(()),
            Seat::Taken { hello: other, .. } => refused(format!(
                "rank {} has come already: process {} of {}",
                hello.rank, other.process, other.host
            )),
            Seat::Gone => refused(format!("rank {} has ended, and cannot come again", hello.rank)),
        }
    }

    fn answer(&self, rank: u32, message: ToServer) {
        let mut state = self.state();
        match message {
            ToServer::Beat => state.send(rank, &ToRank::Beat),
            ToServer::WhoIsMissing { key } => {
                let ranks = state.missing(key.as_deref());
                state.send(rank, &ToRank::Missing { key, ranks });
            }
            ToServer::Offer { key, members, value } => state.offer(rank, key, members, value),
            ToServer::RefuseCall { members, refusal } => state.refuse(rank, &members, refusal),
            // The first line was one already; `Leave` ends the loop.
            ToServer::Hello(_) | ToServer::Leave => {}
        }
    }

    /// What a connection's end means to the others.
    fn ended(&self, rank: u32, end: &End) {
        if self.is_closed.load(Ordering::Acquire) {
            return;
        }
        let mut state = self.state();
        if !state.has_started {
            state.seats[rank as usize] = Seat::Empty;
            return;
        }
        state.seats[rank as usize] = Seat::Gone;
        state.send_all(&match end {
            End::Left => ToRank::Left { rank },
            End::Died => ToRank::Lost { rank, silent: false },
            End::Silent => ToRank::Lost { rank, silent: true },
        });
    }
}

enum End {
    Left,
    Died,
    Silent,
}

impl State {
    /// Sends to one rank. If that fails, its connection is ending, and its own thread sees that.
    fn send(&self, rank: u32, message: &ToRank) {
        if let Seat::Taken { to, .. } = &self.seats[rank as usize] {
            let _ = send(to, message);
        }
    }

    /// Sends to all ranks, to this process's last: it may end at once.
    fn send_all(&self, message: &ToRank) {
        (0..self.seats.len() as u32).rev().for_each(|rank| self.send(rank, message));
    }

    fn missing(&self, key: Option<&str>) -> Vec<u32> {
        let all = 0..self.seats.len() as u32;
        let Some(key) = key else {
            return all.filter(|&rank| matches!(self.seats[rank as usize], Seat::Empty)).collect();
        };
        let Some(exchange) = self.exchanges.get(key) else { return all.collect() };
        exchange.missing()
    }

    fn offer(&mut self, rank: u32, key: String, members: Vec<u32>, value: Vec<u8>) {
        let exchange = self.exchanges.entry(key.clone()).or_default();
        exchange.members = members;
        exchange.values.insert(rank, value);
        if exchange.missing().is_empty()
            && let Some(exchange) = self.exchanges.remove(&key)
        {
            let Exchange { members, mut values } = exchange;
            let values = members.iter().map(|rank| values.remove(rank).unwrap_or_default());
            let done = ToRank::Exchanged { key, values: values.collect() };
            members.iter().for_each(|&rank| self.send(rank, &done));
        }
    }

    /// Tells the other members. That a communicator has ended many may report, and one report is enough.
    fn refuse(&mut self, from: u32, members: &[u32], refusal: Refusal) {
        if refusal.call.is_none() && !self.ended.insert(refusal.key.clone()) {
            return;
        }
        let refused = ToRank::CallRefused(refusal);
        members.iter().filter(|rank| **rank != from).for_each(|rank| self.send(*rank, &refused));
    }
}

impl Exchange {
    fn missing(&self) -> Vec<u32> {
        let is_missing = |rank: &&u32| !self.values.contains_key(rank);
        self.members.iter().filter(is_missing).copied().collect()
    }
}

pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}
