//! A rank's side of its control connection.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::message::{Hello, Incoming, Refusal, ToRank, ToServer, VERSION, send};
use super::peers::Peers;
use super::place::{self, Address, host_name};
use super::server::{Server, is_timeout};
use super::{BEAT, SILENCE};
use crate::environment::Environment;
use crate::error::{DistError, Loss};

/// How long one address is tried.
const CONNECT: Duration = Duration::from_secs(2);
/// How long a process that listens there may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long rank 0 may take to say who is missing.
const REPORT: Duration = Duration::from_secs(3);
/// How long an exchange waits for a rank that has said that it ends: what it sent before may still be under way.
const GRACE: Duration = Duration::from_secs(2);

/// The connection of this rank to rank 0. Dropping it tells the others that this rank has ended.
pub(crate) struct Control {
    connection: Arc<Connection>,
    /// At rank 0.
    server: Option<Server>,
}

struct Connection {
    to: Mutex<TcpStream>,
    peers: Arc<Peers>,
    rank: u32,
    is_closed: AtomicBool,
    /// Wakes the thread that beats, to end.
    closing: (Mutex<bool>, Condvar),
}

impl Control {
    /// Meets the other ranks.
    pub(crate) fn meet(environment: &Environment, timeout: Duration) -> Result<Self, DistError> {
        let start = Instant::now();
        let server = match environment.rank {
            0 => Some(Self::serve(environment)?),
            _ => None,
        };
        let run = server.as_ref().map(|(_, address)| address.clone());
        let (to, incoming) = find(environment, run, start, timeout)?;
        let connection = Connection::new(to, environment.rank);
        connection.start(incoming).map_err(unreachable(environment, start))?;
        let server = server.map(|(server, _)| server);
        let own = Self { connection, server };
        own.wait_for_start(start, timeout)?;
        Ok(own)
    }

    /// Rank 0's server, and where it is for rank 0 itself.
    fn serve(environment: &Environment) -> Result<(Server, Address), DistError> {
        let listening = place::listen(environment)?;
        let failed = |source| DistError::Listen { place: environment.place.to_string(), source };
        let address = listening.listener.local_addr().map_err(failed)?;
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        let here =
            Address { run: listening.run.clone(), hosts: vec![(ip.to_string(), address.port())] };
        let server = Server::start(listening, environment.size).map_err(failed)?;
        Ok((server, here))
    }

    fn wait_for_start(&self, start: Instant, timeout: Duration) -> Result<(), DistError> {
        let left = timeout.saturating_sub(start.elapsed());
        let has_started = |state: &mut super::peers::State| state.has_started.then_some(());
        let check = || self.connection.peers.check(&[0]);
        match self.connection.peers.wait(left, has_started, check)? {
            Some(()) => Ok(()),
            None => Err(self.missing("the meeting".to_owned(), None, timeout)),
        }
    }

    /// The error that names the ranks which did not come to an exchange, or to the meeting.
    fn missing(&self, what: String, key: Option<&str>, waited: Duration) -> DistError {
        let key = key.map(str::to_owned);
        let asked = self.connection.send(&ToServer::WhoIsMissing { key: key.clone() });
        let report = |state: &mut super::peers::State| state.missing.remove(&key);
        let answered = asked
            .ok()
            .and_then(|()| self.connection.peers.wait(REPORT, report, || Ok(())).ok().flatten());
        // Without an answer it is rank 0 that is missing.
        let ranks = answered.filter(|ranks| !ranks.is_empty()).unwrap_or_else(|| vec![0]);
        DistError::MissingRanks { what, ranks, waited }
    }

    /// Gives `value` to all of `members`, ranks of the world of which this is one, and returns what each of them has given, in
    /// their order. All call it with the same `key`, which is used once, and the same members. `what` is for errors.
    pub(crate) fn exchange(
        &self,
        what: &str,
        key: &str,
        members: &[u32],
        value: Vec<u8>,
        timeout: Duration,
    ) -> Result<Vec<Vec<u8>>, DistError> {
        let peers = &self.connection.peers;
        let offer = ToServer::Offer { key: key.to_owned(), members: members.to_vec(), value };
        let sent = self.connection.send(&offer);
        let check = || {
            // Rank 0 carries the values, member or not.
            peers.check_present(members, GRACE)?;
            peers.check_present(&[0], GRACE)
        };
        if sent.is_err() {
            // The reader has seen it too, or will.
            thread::sleep(Duration::from_millis(100));
            check()?;
        }
        let values = |state: &mut super::peers::State| state.exchanged.remove(key);
        match peers.wait(timeout, values, check)? {
            Some(values) => Ok(values),
            None => Err(self.missing(what.to_owned(), Some(key), timeout)),
        }
    }

    /// Tells the other members of a communicator that a call is refused.
    pub(crate) fn refuse(&self, members: &[u32], refusal: Refusal) {
        // Without a connection to rank 0 all others are about to end.
        let _ = self.connection.send(&ToServer::RefuseCall { members: members.to_vec(), refusal });
    }

    pub(crate) fn peers(&self) -> &Arc<Peers> {
        &self.connection.peers
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.connection.close();
        if let Some(server) = &self.server {
            // Those that end now, too, find the connection as they left it.
            server.wait_for_others(Duration::from_millis(500));
        }
    }
}

impl Connection {
    fn new(to: TcpStream, rank: u32) -> Arc<Self> {
        let (peers, closing) = (Arc::default(), (Mutex::new(false), Condvar::new()));
        let to = Mutex::new(to);
        Arc::new(Self { to, peers, rank, is_closed: AtomicBool::new(false), closing })
    }

    /// Starts the threads that read and that beat.
    fn start(self: &Arc<Self>, incoming: Incoming) -> io::Result<()> {
        let named = || thread::Builder::new().name("ferrowarp-control".to_owned());
        let (reads, beats) = (self.clone(), self.clone());
        named().spawn(move || reads.read(incoming))?;
        named().spawn(move || beats.beat()).map(drop)
    }

    fn send(&self, message: &ToServer) -> io::Result<()> {
        send(&self.to.lock().unwrap_or_else(PoisonError::into_inner), message)
    }

    fn read(&self, mut incoming: Incoming) {
        let end = loop {
            match incoming.next() {
                Ok(Some(message)) => self.note(message),
                Err(error) if is_timeout(&error) => break Loss::Silent { for_: SILENCE },
                Ok(None) | Err(_) => break Loss::Died,
            }
        };
        if !self.is_closed.load(Ordering::Acquire) && !self.peers.has_left(0) {
            self.peers.note_lost(0, end);
        }
    }

    fn note(&self, message: ToRank) {
        let peers = &self.peers;
        match message {
            ToRank::Started => peers.change(|state| state.has_started = true),
            ToRank::Exchanged { key, values } => {
                peers.change(|state| drop(state.exchanged.insert(key, values)));
            }
            ToRank::Missing { key, ranks } => {
                peers.change(|state| drop(state.missing.insert(key, ranks)));
            }
            ToRank::Lost { rank, .. } if rank == self.rank => {}
            ToRank::Lost { rank, silent: true } => {
                peers.note_lost(rank, Loss::Silent { for_: SILENCE });
            }
            ToRank::Lost { rank, silent: false } => peers.note_lost(rank, Loss::Died),
            ToRank::Left { rank } => peers.note_left(rank),
            ToRank::CallRefused(refusal) => peers.note_refusal(refusal),
            ToRank::Welcome | ToRank::Refused { .. } | ToRank::Beat => {}
        }
    }

    fn beat(&self) {
        let (is_closing, wakes) = &self.closing;
        let mut closing = is_closing.lock().unwrap_or_else(PoisonError::into_inner);
        while !*closing {
            // If it cannot be sent, the connection has ended, which the reader notes.
            let _ = self.send(&ToServer::Beat);
            let waited = wakes.wait_timeout(closing, BEAT);
            closing = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let _ = self.send(&ToServer::Leave);
        *self.closing.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.closing.1.notify_all();
        let _ = self.to.lock().unwrap_or_else(PoisonError::into_inner).shutdown(Shutdown::Write);
    }
}

fn unreachable(environment: &Environment, start: Instant) -> impl Fn(io::Error) -> DistError {
    let place = environment.place.to_string();
    move |error| DistError::Unreachable {
        place: place.clone(),
        reason: error.to_string(),
        waited: start.elapsed(),
    }
}

/// Connects to rank 0 of this run, and is taken in.
fn find(
    environment: &Environment,
    here: Option<Address>,
    start: Instant,
    timeout: Duration,
) -> Result<(TcpStream, Incoming), DistError> {
    let (mut known, mut reason) = (None, None);
    loop {
        let address = match &here {
            Some(here) => here.clone(),
            None => place::candidates(environment, &mut known)?,
        };
        for host in &address.hosts {
            match knock(environment, &address.run, host) {
                Ok(Answer::Welcome(to, incoming)) => return Ok((to, incoming)),
                Ok(Answer::Refused(reason)) => return Err(DistError::Refused { reason }),
                Ok(Answer::AnotherRun) => {
                    reason = Some(format!("{}, port {}, is rank 0 of another run", host.0, host.1));
                }
                // On most ports nothing listens, which says nothing.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                // Another run that ends while it is asked says less than it did before.
                Err(error) => {
                    reason.get_or_insert_with(|| format!("{}, port {}: {error}", host.0, host.1));
                }
            }
        }
        if start.elapsed() >= timeout {
            let place = environment.place.to_string();
            let reason = reason.unwrap_or_else(|| silence(&address));
            return Err(DistError::Unreachable { place, reason, waited: timeout });
        }
        thread::sleep(Duration::from_millis(50));
    }
}

/// What is to be said where nothing has answered.
fn silence(address: &Address) -> String {
    let hosts: Vec<_> = address.hosts.iter().map(|(host, port)| format!("{host}:{port}")).collect();
    match hosts.len() {
        0 => "rank 0 has not said where it listens".to_owned(),
        1..=4 => format!("nothing listens at {}", hosts.join(", ")),
        _ => "nothing listens there".to_owned(),
    }
}

enum Answer {
    Welcome(TcpStream, Incoming),
    Refused(String),
    AnotherRun,
}

/// Connects to the first of the name's addresses where something listens.
fn connect(host: &(String, u16)) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (&*host.0, host.1).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn knock(environment: &Environment, run: &str, host: &(String, u16)) -> io::Result<Answer> {
    let stream = connect(host)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.set_write_timeout(Some(ANSWER))?;
    let &Environment { rank, size, .. } = environment;
    let (version, run, process) = (VERSION, run.to_owned(), std::process::id());
    let hello = Hello { version, run, rank, size, process, host: host_name() };
    send(&stream, &ToServer::Hello(hello))?;
    let mut incoming = Incoming::new(stream.try_clone()?);
    match incoming.next()? {
        Some(ToRank::Welcome) => {
            stream.set_read_timeout(Some(SILENCE))?;
            Ok(Answer::Welcome(stream, incoming))
        }
        Some(ToRank::Refused { is_another_run: true, .. }) => Ok(Answer::AnotherRun),
        Some(ToRank::Refused { reason, .. }) => Ok(Answer::Refused(reason)),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "something else than rank 0 listens")),
    }
}
