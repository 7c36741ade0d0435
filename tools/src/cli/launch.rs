//! `ferrowarp launch`: several processes of one program on this machine, as the ranks of a world.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::error::CliError;
use super::interrupt::on_signal;

/// How long ranks may take to end after SIGTERM.
const TERMINATE: Duration = Duration::from_secs(5);
/// How often ranks are looked after if nothing is printed.
const PAUSE: Duration = Duration::from_millis(20);
/// Lines that wait to be printed; ranks that print more wait too.
const LINES: usize = 1024;

/// How many queues the driver gives a process's streams: 8 otherwise, which is fewer than an exchange and what runs beside it have
/// streams. One that shares a queue waits for what is before it there.
const CONNECTIONS: &str = "CUDA_DEVICE_MAX_CONNECTIONS";

/// Options of `ferrowarp launch`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  ferrowarp launch -n 4 -- ferrowarp dist demo
  ferrowarp launch -n 2 -- target/release/solver --steps 1000

Each process gets torchrun's variables: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT; and, unless it is
set, CUDA_DEVICE_MAX_CONNECTIONS=32, so that streams do not wait for one another. Each line that it prints begins with its rank.
If one fails, the others have some seconds to end by themselves, and are then terminated, with all processes that they have
started; the exit status is that of the first one that failed, or 128 and the number of the signal that ended it. SIGINT, SIGTERM
and SIGHUP are passed on to all; a second one kills them. Standard input is empty.")]
pub(super) struct Args {
    /// How many processes
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    ranks: u32,
    /// Seconds in which the others may end by themselves when one has failed: they say whom they lost
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u32).range(0..=3600))]
    grace: u32,
    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<String>,
}

pub(super) fn run(args: &Args, out: &mut impl Write) -> Result<(), CliError> {
    let (sender, events) = sync_channel(LINES);
    let signals = sender.clone();
    // Nothing is left to do when the loop has ended.
    on_signal(move |signal| drop(signals.send(Event::Signal(signal))));
    let mut ranks = Ranks::start(args, &sender)?;
    drop(sender);
    let ended = ranks.look_after(Duration::from_secs(args.grace.into()), &events, out);
    ranks.end();
    ranks.print_rest(&events, out)?;
    match ended? {
        None => Ok(()),
        Some((rank, status)) => Err(CliError::RankFailed { rank, status }),
    }
}

enum Event {
    Line(Line),
    /// A rank's pipe has ended.
    Closed,
    Signal(i32),
}

/// What a rank has printed.
struct Line {
    rank: u32,
    is_error: bool,
    text: Vec<u8>,
}

impl Line {
    fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let mut line = format!("[{}] ", self.rank).into_bytes();
        line.extend(&self.text);
        line.push(b'\n');
        match self.is_error {
            // It says no more if standard error is closed.
            true => drop(io::stderr().write_all(&line)),
            false => {
                out.write_all(&line)?;
                out.flush()?;
            }
        }
        Ok(())
    }
}

/// The processes, each the first of a process group of its own. However this ends, no process of a group is left.
struct Ranks {
    ranks: Vec<Rank>,
    /// How many of their pipes are open.
    pipes: usize,
}

struct Rank {
    child: Child,
    /// Once it has ended. The process is not waited for until the very end, so that its group keeps its number.
    status: Option<ExitStatus>,
}

impl Ranks {
    fn start(args: &Args, events: &SyncSender<Event>) -> Result<Self, CliError> {
        let program = &args.command[0];
        let failed = |source| CliError::NotStarted { program: program.clone(), source };
        let (port, run) = free_port().map_err(failed)?;
        let mut all = Self { ranks: Vec::new(), pipes: 0 };
        for rank in 0..args.ranks {
            let mut command = Command::new(program);
            command.args(&args.command[1..]).process_group(0);
            command.env("RANK", rank.to_string()).env("LOCAL_RANK", rank.to_string());
            for name in ["WORLD_SIZE", "LOCAL_WORLD_SIZE"] {
                command.env(name, args.ranks.to_string());
            }
            command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
            command.env("FERROWARP_DIST_LAUNCHER", "launch").env("FERROWARP_DIST_ID", &run);
            if std::env::var_os(CONNECTIONS).is_none() {
                command.env(CONNECTIONS, "32");
            }
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            end_with_parent(&mut command);
            let mut child = command.spawn().map_err(failed)?;
            let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
            all.ranks.push(Rank { child, status: None });
            if let Some(stdout) = stdout {
                all.read_lines(rank, false, stdout, events);
            }
            if let Some(stderr) = stderr {
                all.read_lines(rank, true, stderr, events);
            }
        }
        Ok(all)
    }

    /// Sends the lines that come from `from`, on a thread of its own.
    fn read_lines(
        &mut self,
        rank: u32,
        is_error: bool,
        from: impl Read + Send + 'static,
        to: &SyncSender<Event>,
    ) {
        let to = to.clone();
        self.pipes += 1;
        thread::spawn(move || {
            let mut from = BufReader::new(from);
            while let Some(text) = next_line(&mut from) {
                if to.send(Event::Line(Line { rank, is_error, text })).is_err() {
                    return;
                }
            }
            // Without a receiver, no thread waits for it.
            let _ = to.send(Event::Closed);
        });
    }

    /// Prints lines and passes signals on until all have ended. Returns the first one that failed.
    fn look_after(
        &mut self,
        grace: Duration,
        events: &Receiver<Event>,
        out: &mut impl Write,
    ) -> Result<Option<(u32, ExitStatus)>, CliError> {
        let (mut failed, mut signals) = (None, 0);
        loop {
            match events.recv_timeout(PAUSE) {
                Ok(Event::Line(line)) => line.print(out)?,
                Ok(Event::Closed) => self.pipes -= 1,
                Ok(Event::Signal(number)) => {
                    signals += 1;
                    let signal = if signals > 1 {
                        Some(Signal::KILL)
                    } else {
                        Signal::from_named_raw(number)
                    };
                    self.signal(signal.unwrap_or(Signal::TERM));
                }
                Err(RecvTimeoutError::Timeout) => {}
                // All pipes are closed, and no signals are heeded; the processes may live on.
                Err(RecvTimeoutError::Disconnected) => thread::sleep(PAUSE),
            }
            let first = self.first_failure();
            if failed.is_none() {
                failed = first.map(|(rank, status)| (rank, status, Instant::now()));
            }
            if self.ranks.iter().all(|rank| rank.status.is_some()) {
                return Ok(failed.map(|(rank, status, _)| (rank, status)));
            }
            if let Some((_, _, since)) = failed {
                let waited = since.elapsed();
                match waited.checked_sub(grace) {
                    Some(more) if more >= TERMINATE => self.signal(Signal::KILL),
                    Some(_) => self.signal(Signal::TERM),
                    None => {}
                }
            }
        }
    }

    /// Prints what the ranks have printed last. A process that has left its group may have a pipe open still.
    fn print_rest(&mut self, events: &Receiver<Event>, out: &mut impl Write) -> io::Result<()> {
        const PATIENCE: Duration = Duration::from_secs(1);
        while self.pipes > 0 {
            match events.recv_timeout(PATIENCE) {
                Ok(Event::Line(line)) => line.print(out)?,
                Ok(Event::Closed) => self.pipes -= 1,
                Ok(Event::Signal(_)) => {}
                Err(_) => break,
            }
        }
        Ok(())
    }

    /// Notes which have ended, and returns one that did so just now with a failure.
    fn first_failure(&mut self) -> Option<(u32, ExitStatus)> {
        let mut failure = None;
        for (number, rank) in
            self.ranks.iter_mut().enumerate().filter(|(_, rank)| rank.status.is_none())
        {
            rank.status = rank.ended();
            let status = rank.status.filter(|status| !status.success());
            failure = failure.or(status.map(|status| (number as u32, status)));
        }
        failure
    }

    /// Sends a signal to all processes of the groups of ranks that have not ended.
    fn signal(&self, signal: Signal) {
        for rank in self.ranks.iter().filter(|rank| rank.status.is_none()) {
            rank.signal(signal);
        }
    }

    /// Kills what is left of all groups, and lets the system forget them.
    fn end(&mut self) {
        for rank in &mut self.ranks {
            rank.signal(Signal::KILL);
            // It has ended, or does so now.
            let _ = rank.child.wait();
        }
        self.ranks.clear();
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        self.end();
    }
}

impl Rank {
    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id().try_into().ok()?)
    }

    /// Its exit status, if it has ended. The process is not forgotten by that.
    fn ended(&self) -> Option<ExitStatus> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.pid()?), options).ok()??;
        // As `wait` reports them: the exit status in the second byte, a signal in the first.
        let raw = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => code << 8,
            (None, Some(signal)) => signal,
            (None, None) => return None,
        };
        Some(ExitStatus::from_raw(raw))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.pid() {
            // Of a group that is empty nothing is left to end.
            let _ = kill_process_group(group, signal);
        }
    }
}

/// Lets the system terminate the process when this one dies in a way that it cannot handle.
#[cfg(target_os = "linux")]
fn end_with_parent(command: &mut Command) {
    let terminate = || Ok(rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?);
    // SAFETY: the closure makes one system call.
    unsafe { command.pre_exec(terminate) };
}

#[cfg(not(target_os = "linux"))]
fn end_with_parent(_: &mut Command) {}

/// A port that no process listens on, for `MASTER_PORT`, and a name for the run that no other has.
fn free_port() -> io::Result<(u16, String)> {
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    Ok((port, format!("launch/{}/{now}", std::process::id())))
}

/// The next line, without its end.
fn next_line(from: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    from.read_until(b'\n', &mut text).ok().filter(|bytes| *bytes > 0)?;
    if text.last() == Some(&b'\n') {
        text.pop();
    }
    Some(text)
}
