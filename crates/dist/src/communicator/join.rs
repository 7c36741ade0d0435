//! How ranks become a communicator: each says what it has, all choose alike.

use std::sync::Arc;
use std::time::Duration;

use ferrowarp::{Backend as Driver, Gpu};
use serde::{Deserialize, Serialize};

use super::{Communicator, DEADLINE};
use crate::alone::Alone;
use crate::environment::Launcher;
use crate::error::{DistError, DistResult};
use crate::fate::Fate;
use crate::transport::{Choice, Transport};
use crate::world::World;
use crate::{mpi, nccl};

/// What each rank says of itself.
#[derive(Debug, Serialize, Deserialize)]
struct Card {
    host: String,
    /// What tells the host from others, whatever their names.
    host_id: String,
    pci: String,
    /// What it can take part with, or why it cannot.
    means: Result<Means, String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Means {
    /// Rank 0's has the identity of the communicator.
    Nccl {
        id: Option<Vec<u8>>,
    },
    Mpi,
}

impl Communicator {
    /// A communicator of all ranks of the world, each with its device. All call it.
    ///
    /// `FERROWARP_DIST_BACKEND`, which is `nccl` or `mpi`, chooses the backend; otherwise NCCL is taken for real devices, and MPI
    /// for emulated ones and where there is no NCCL. [`World::alone`] needs neither.
    ///
    /// # Errors
    /// [`NoBackend`](DistError::NoBackend) says what to install; [`Unable`](DistError::Unable) if another rank has none;
    /// [`SharedDevice`](DistError::SharedDevice), [`RankLost`](DistError::RankLost),
    /// [`MissingRanks`](DistError::MissingRanks), or what NCCL or MPI answers.
    pub fn new(world: &World, gpu: &Gpu) -> DistResult<Self> {
        Self::with_backend(world, gpu, world.environment().settings.backend())
    }

    /// Like [`new`](Self::new), with a backend that the program chooses.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_backend(world: &World, gpu: &Gpu, choice: Choice) -> DistResult<Self> {
        let key = format!("communicator/{}", world.next_number());
        let members: Vec<u32> = (0..world.size()).collect();
        let peers = world.control().map(|control| control.peers().clone());
        let fate = Fate::new(members, peers, deadline()?);
        let transport: Box<dyn Transport> = match world.launcher() {
            Launcher::Alone => Box::new(Alone),
            _ => join(world, gpu, choice, &key, &fate)?,
        };
        Self::of(world, gpu, world.rank(), key, fate, transport)
    }
}

fn deadline() -> DistResult<Duration> {
    let name = "FERROWARP_DIST_DEADLINE";
    let Ok(value) = std::env::var(name) else { return Ok(DEADLINE) };
    let seconds = value.trim().parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok());
    seconds.ok_or(DistError::BadVariable { name, value, expected: "a number of seconds" })
}

/// Exchanges cards, and begins the backend that all can take part with.
fn join(
    world: &World,
    gpu: &Gpu,
    choice: Choice,
    key: &str,
    fate: &Arc<Fate>,
) -> DistResult<Box<dyn Transport>> {
    let own = means(world, gpu, choice);
    let card = Card::new(gpu, own.as_ref().map(Clone::clone).map_err(ToString::to_string));
    let text = serde_json::to_vec(&card).expect("names and numbers are JSON");
    let what = "the making of a communicator";
    let cards = world.exchange_among(what, key, fate.members(), text, world.timeout());
    let own = own?;
    let cards = parse(cards?)?;
    check_alike(&cards, &own)?;
    match own {
        Means::Nccl { .. } => {
            check_devices(&cards)?;
            let id = match &cards[0].means {
                Ok(Means::Nccl { id: Some(id) }) => id,
                _ => return Err(unable(0, "it has sent no identity of NCCL")),
            };
            nccl::join(world.rank(), world.size(), id, gpu, fate.clone())
        }
        Means::Mpi => mpi::join(world.rank(), world.size(), fate.clone()),
    }
}

/// What this rank can take part with.
fn means(world: &World, gpu: &Gpu, choice: Choice) -> DistResult<Means> {
    let with_nccl = || -> DistResult<Means> {
        let id = if world.rank() == 0 {
            Some(nccl::new_identity()?)
        } else {
            nccl::check().map(|()| None)?
        };
        Ok(Means::Nccl { id })
    };
    let with_mpi = || mpi::check(world.rank(), world.size()).map(|()| Means::Mpi);
    let is_emulated = matches!(gpu.backend(), Driver::Emulator);
    match choice {
        Choice::Mpi => with_mpi(),
        Choice::Nccl if is_emulated => Err(DistError::NoBackend {
            device: device_name(gpu),
            reasons: vec!["NCCL needs real devices".to_owned()],
        }),
        Choice::Nccl => with_nccl(),
        Choice::Automatic if is_emulated => with_mpi().map_err(|error| DistError::NoBackend {
            device: device_name(gpu),
            reasons: vec!["NCCL needs real devices".to_owned(), error.to_string()],
        }),
        Choice::Automatic => with_nccl().or_else(|first| {
            with_mpi().map_err(|second| DistError::NoBackend {
                device: device_name(gpu),
                reasons: vec![first.to_string(), second.to_string()],
            })
        }),
    }
}

fn device_name(gpu: &Gpu) -> String {
    match gpu.backend() {
        Driver::Emulator => format!("{} (emulated)", gpu.name()),
        Driver::Cuda => gpu.name().to_owned(),
    }
}

impl Card {
    fn new(gpu: &Gpu, means: Result<Means, String>) -> Self {
        let (domain, bus, device) = gpu.info().pci;
        let pci = format!("{domain:04x}:{bus:02x}:{device:02x}");
        let (host, host_id) = (crate::control::host_name(), crate::control::host_id());
        Self { host, host_id, pci, means }
    }
}

fn parse(cards: Vec<Vec<u8>>) -> DistResult<Vec<Card>> {
    let parse = |(rank, text): (usize, Vec<u8>)| {
        serde_json::from_slice(&text)
            .map_err(|_| unable(rank, "it runs another version of this crate"))
    };
    cards.into_iter().enumerate().map(parse).collect()
}

fn unable(rank: usize, reason: &str) -> DistError {
    DistError::Unable { rank: rank as u32, reason: reason.to_owned() }
}

/// That all ranks have the same means.
fn check_alike(cards: &[Card], own: &Means) -> DistResult<()> {
    let is_nccl = |means: &Means| matches!(means, Means::Nccl { .. });
    for (rank, card) in cards.iter().enumerate() {
        match &card.means {
            Err(reason) => return Err(unable(rank, reason)),
            Ok(means) if is_nccl(means) != is_nccl(own) => {
                let name = |nccl| if nccl { "NCCL" } else { "MPI" };
                let (its, ours) = (name(is_nccl(means)), name(is_nccl(own)));
                let reason = format!(
                    "it has {its}, and this rank has {ours}; FERROWARP_DIST_BACKEND chooses one for all"
                );
                return Err(unable(rank, &reason));
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

/// That no two ranks have the same device.
fn check_devices(cards: &[Card]) -> DistResult<()> {
    for card in cards {
        let is_same = |other: &&Card| (&other.host_id, &other.pci) == (&card.host_id, &card.pci);
        let same = cards.iter().enumerate().filter(|(_, other)| is_same(other));
        let ranks: Vec<_> = same.map(|(rank, _)| rank as u32).collect();
        if ranks.len() > 1 {
            let (pci, host) = (card.pci.clone(), card.host.clone());
            return Err(DistError::SharedDevice { ranks, pci, host });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(host_id: &str, pci: &str, means: Result<Means, String>) -> Card {
        Card { host: "a".into(), host_id: host_id.into(), pci: pci.into(), means }
    }

    #[test]
    fn ranks_with_one_device_are_named() {
        let own = || Ok(Means::Nccl { id: None });
        let cards = [card("1", "01", own()), card("2", "01", own()), card("1", "02", own())];
        check_devices(&cards).unwrap();
        let cards = [card("1", "01", own()), card("1", "02", own()), card("1", "01", own())];
        let text = check_devices(&cards).unwrap_err().to_string();
        assert!(text.contains("ranks 0 and 2") && text.contains("PCI 01 of a"), "{text}");
    }

    #[test]
    fn a_rank_without_means_or_with_other_ones_is_named() {
        let cards = [card("1", "1", Ok(Means::Mpi)), card("1", "2", Err("nothing is here".into()))];
        let text = check_alike(&cards, &Means::Mpi).unwrap_err().to_string();
        assert!(text.contains("rank 1") && text.contains("nothing is here"), "{text}");
        let cards = [card("1", "1", Ok(Means::Mpi))];
        let text = check_alike(&cards, &Means::Nccl { id: None }).unwrap_err().to_string();
        assert!(text.contains("it has MPI, and this rank has NCCL"), "{text}");
    }
}
