//! How rank 0 can be found: it listens somewhere, and the others try where that may be.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::environment::{Environment, MeetingPlace};
use crate::error::DistError;

/// Where rank 0 listens, and for which run: what a file holds, or MPI carries.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Address {
    /// The run, with a number that no other start of rank 0 has.
    pub(super) run: String,
    /// Names or addresses, each with the port; any of them may be out of a rank's reach.
    pub(super) hosts: Vec<(String, u16)>,
}

/// Rank 0's listener.
pub(super) struct Listening {
    pub(super) listener: TcpListener,
    pub(super) run: String,
    /// The file that says where; removed when it has done its service.
    pub(super) file: Option<PathBuf>,
}

/// Listens at the place.
pub(super) fn listen(environment: &Environment) -> Result<Listening, DistError> {
    let failed = |source| DistError::Listen { place: environment.place.to_string(), source };
    match &environment.place {
        MeetingPlace::Ports { host, first, count } => {
            let listener = bind_first(host, *first, *count).map_err(failed)?;
            Ok(Listening { listener, run: environment.run.clone(), file: None })
        }
        MeetingPlace::File { path, is_local } => {
            let (listener, address) = anywhere(&environment.run, *is_local).map_err(failed)?;
            write(path, &address).map_err(failed)?;
            Ok(Listening { listener, run: address.run, file: Some(path.clone()) })
        }
        MeetingPlace::Mpi => {
            let (listener, address) = anywhere(&environment.run, false).map_err(failed)?;
            let text = serde_json::to_vec(&address).expect("names and numbers are JSON");
            crate::mpi::share_address(Some(text))?;
            Ok(Listening { listener, run: address.run, file: None })
        }
    }
}

/// Where rank 0 may be found now. What MPI carries, it carries once: `known` holds it from then on.
pub(super) fn candidates(
    environment: &Environment,
    known: &mut Option<Address>,
) -> Result<Address, DistError> {
    match &environment.place {
        MeetingPlace::Ports { host, first, count } => {
            let ports = (0..*count).map(|at| (host.clone(), first + at));
            Ok(Address { run: environment.run.clone(), hosts: ports.collect() })
        }
        MeetingPlace::File { path, is_local } => {
            Ok(read(path, *is_local).unwrap_or(Address { run: String::new(), hosts: Vec::new() }))
        }
        MeetingPlace::Mpi => {
            if known.is_none() {
                let text = crate::mpi::share_address(None)?;
                *known = serde_json::from_slice(&text).ok();
            }
            let wrong = || DistError::Mpi {
                call: "MPI_Bcast",
                message: "rank 0 sent something else than its address".to_owned(),
            };
            known.clone().ok_or_else(wrong)
        }
    }
}

/// Listens on the first port that is free: for this host alone if that is what the others are told.
fn bind_first(host: &str, first: u16, count: u16) -> io::Result<TcpListener> {
    let mut last = io::Error::from(ErrorKind::AddrInUse);
    for port in (0..count).map(|at| first + at) {
        for ip in to_bind(host, port) {
            match TcpListener::bind(SocketAddr::new(ip, port)) {
                Ok(listener) => return Ok(listener),
                Err(error) => last = error,
            }
        }
    }
    Err(last)
}

/// The addresses to listen on, of which one is enough. A host's own name may be a loopback address to itself, and is another one to
/// others: so only a loopback address itself means this host alone.
fn to_bind(host: &str, port: u16) -> Vec<IpAddr> {
    let found = || (host, port).to_socket_addrs().into_iter().flatten().map(|address| address.ip());
    let is_loopback = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    if is_loopback {
        return found().collect();
    }
    let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    if found().any(|ip| ip.is_ipv6()) {
        // Where the system has both, it takes connections of both.
        return vec![IpAddr::V6(Ipv6Addr::UNSPECIFIED), any];
    }
    vec![any]
}

/// Listens on a port that the system chooses.
fn anywhere(run: &str, is_local: bool) -> io::Result<(TcpListener, Address)> {
    let ip = if is_local { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
    let listener = TcpListener::bind((ip, 0))?;
    let port = listener.local_addr()?.port();
    let loopback = Ipv4Addr::LOCALHOST.to_string();
    let mut hosts = Vec::new();
    if !is_local {
        hosts.extend(outside().map(|ip| ip.to_string()));
        hosts.extend(interfaces().iter().map(Ipv4Addr::to_string));
        hosts.push(host_name());
    }
    hosts.push(loopback);
    let mut seen = BTreeSet::new();
    hosts.retain(|host| seen.insert(host.clone()));
    let run = format!("{run}/{:016x}", random());
    Ok((listener, Address { run, hosts: hosts.into_iter().map(|host| (host, port)).collect() }))
}

/// This host's address on the way to others: of a socket that would send there. Nothing is sent.
fn outside() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // Of the range that is reserved for documentation, so that the default route is taken.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// The addresses of this host's interfaces, without loopback ones, where the system lists them.
fn interfaces() -> Vec<Ipv4Addr> {
    local_addresses(&fs::read_to_string("/proc/net/fib_trie").unwrap_or_default())
}

/// Those of Linux's routing table: an address stands in the line before the one that says that it is this host's.
fn local_addresses(trie: &str) -> Vec<Ipv4Addr> {
    let (mut last, mut found) = (None, Vec::new());
    for line in trie.lines().map(str::trim_start) {
        match line.strip_prefix("|-- ") {
            Some(address) => last = address.trim().parse::<Ipv4Addr>().ok(),
            None if line.starts_with("/32 host LOCAL") => found.extend(last.take()),
            None => {}
        }
    }
    found.retain(|ip| !ip.is_loopback());
    found.sort();
    found.dedup();
    found
}

/// What tells this host from others, whatever their names: a boot has a number of its own, which containers of one host share.
pub(crate) fn host_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    id.map_or_else(|_| host_name(), |id| id.trim().to_owned())
}

/// The name of this host, as the system knows it.
pub(crate) fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = name.or_else(|| std::env::var("HOSTNAME").ok());
    name.map_or_else(|| "localhost".to_owned(), |name| name.trim().to_owned())
}

/// A number that another start of the program does not find: the standard library's hash maps begin with one.
fn random() -> u64 {
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}

/// Puts the address into the file at once: no rank reads half of it.
fn write(path: &Path, address: &Address) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{:016x}", random()));
    let half = path.with_file_name(name);
    let mut file = fs::File::options().write(true).create_new(true).open(&half)?;
    let written = serde_json::to_writer(&mut file, address).map_err(io::Error::from);
    let renamed = written.and_then(|()| fs::rename(&half, path));
    renamed.inspect_err(|_| drop(fs::remove_file(&half)))
}

/// What the file says, if it is there and whole. In a folder that all users share, only a file of this user's is believed.
fn read(path: &Path, is_local: bool) -> Option<Address> {
    if is_local && !is_own(path) {
        return None;
    }
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

#[cfg(unix)]
fn is_own(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let user = fs::metadata("/proc/self").map(|own| own.uid());
    match (fs::symlink_metadata(path), user) {
        (Ok(file), Ok(user)) => file.uid() == user,
        // A system without /proc does not say who this user is.
        (Ok(_), Err(_)) => true,
        (Err(_), _) => false,
    }
}

#[cfg(not(unix))]
fn is_own(_: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_interfaces_are_found_in_the_routing_table() {
        let trie = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     +-- 10.77.0.0/24 2 0 2\n        \
                    |-- 10.77.0.0\n           /24 link UNICAST\n        |-- 10.77.0.1\n           /32 host LOCAL\n        \
                    |-- 10.77.0.255\n           /32 link BROADCAST\n     |-- 127.0.0.1\n        /32 host LOCAL\nLocal:\n     \
                    |-- 10.77.0.1\n        /32 host LOCAL\n";
        assert_eq!(local_addresses(trie), [Ipv4Addr::new(10, 77, 0, 1)]);
        assert_eq!(local_addresses(""), [Ipv4Addr::LOCALHOST; 0]);
    }

    #[test]
    fn only_a_loopback_address_means_this_host_alone() {
        assert_eq!(to_bind("127.0.0.1", 1), [IpAddr::V4(Ipv4Addr::LOCALHOST)]);
        assert!(to_bind("localhost", 1).iter().all(IpAddr::is_loopback));
        assert_eq!(to_bind("192.0.2.7", 1), [IpAddr::V4(Ipv4Addr::UNSPECIFIED)]);
        // Whatever the host is to itself.
        assert!(to_bind(&host_name(), 1).iter().all(IpAddr::is_unspecified));
        let both = [IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)];
        assert_eq!(to_bind("2001:db8::7", 1), both);
    }
}
