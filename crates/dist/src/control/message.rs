//! What ranks and rank 0 say to each other: a line of JSON each.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Changes with what is said.
pub(super) const VERSION: u32 = 2;

/// More than any message has; what is longer is not one.
const MOST_BYTES: u64 = 64 << 20;

/// How a rank begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) version: u32,
    /// Which run it belongs to.
    pub(super) run: String,
    pub(super) rank: u32,
    pub(super) size: u32,
    pub(super) process: u32,
    pub(super) host: String,
}

/// That a rank does not make a call which all members of a communicator are to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    /// What tells the communicator from others.
    pub(crate) key: String,
    /// Who does not make it.
    pub(crate) rank: u32,
    /// The number of the call; `None` if the communicator has ended by it.
    pub(crate) call: Option<u64>,
    /// Why.
    pub(crate) reason: String,
}

/// From a rank to rank 0.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToServer {
    Hello(Hello),
    /// A value for an exchange among these ranks.
    Offer {
        key: String,
        members: Vec<u32>,
        value: Vec<u8>,
    },
    /// Who has not come: to an exchange, or to the meeting if there is no key.
    WhoIsMissing {
        key: Option<String>,
    },
    /// To be told to the other members of a communicator.
    RefuseCall {
        members: Vec<u32>,
        refusal: Refusal,
    },
    /// It is there.
    Beat,
    /// It ends, and this is not a loss.
    Leave,
}

/// From rank 0 to a rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum ToRank {
    Welcome,
    Refused {
        reason: String,
        is_another_run: bool,
    },
    /// All ranks have come.
    Started,
    /// The values of all members, in their order.
    Exchanged {
        key: String,
        values: Vec<Vec<u8>>,
    },
    Missing {
        key: Option<String>,
        ranks: Vec<u32>,
    },
    Lost {
        rank: u32,
        silent: bool,
    },
    Left {
        rank: u32,
    },
    CallRefused(Refusal),
    Beat,
}

/// Sends a message, whole.
pub(super) fn send(mut to: &TcpStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// The messages that come from a connection.
pub(super) struct Incoming(BufReader<TcpStream>);

impl Incoming {
    pub(super) fn new(from: TcpStream) -> Self {
        Self(BufReader::new(from))
    }

    /// The next one; `None` at the end of the connection.
    pub(super) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = Vec::new();
        (&mut self.0).take(MOST_BYTES).read_until(b'\n', &mut line)?;
        match line.last() {
            None => Ok(None),
            Some(b'\n') => Ok(Some(serde_json::from_slice(&line)?)),
            Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
