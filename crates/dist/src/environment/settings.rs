//! Variables that choose what carries the data, and how: all ranks have the same.

use std::collections::{BTreeMap, BTreeSet};

use super::Variables;
use crate::error::DistError;
use crate::transport::Choice;

const BACKEND: &str = "FERROWARP_DIST_BACKEND";
const PEERS: &str = "FERROWARP_DIST_PEERS";
/// NCCL's own. It trusts that they agree, and may hang where they do not. Others may differ from host to host, such as the names of
/// network interfaces.
const OF_NCCL: [&str; 6] =
    ["NCCL_ALGO", "NCCL_PROTO", "NCCL_NET", "NCCL_IB_DISABLE", "NCCL_BUFFSIZE", "NCCL_NTHREADS"];

/// What the variables choose that must be the same on all ranks. The ranks compare it when they meet, before any backend begins.
///
/// These are `FERROWARP_DIST_BACKEND` and `FERROWARP_DIST_PEERS`, and of NCCL `NCCL_ALGO`, `NCCL_PROTO`, `NCCL_NET`,
/// `NCCL_IB_DISABLE`, `NCCL_BUFFSIZE` and `NCCL_NTHREADS`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    choice: Choice,
    excludes_peers: bool,
    /// The variables that are set to something else than what is so without them.
    values: BTreeMap<String, String>,
}

impl Settings {
    pub(super) fn read(variables: &Variables<'_>) -> Result<Self, DistError> {
        let choice = match variables.text(BACKEND).as_deref() {
            None | Some("auto") => Choice::Automatic,
            Some("nccl") => Choice::Nccl,
            Some("mpi") => Choice::Mpi,
            Some(other) => return Err(bad(BACKEND, other, "`nccl` or `mpi`")),
        };
        let excludes_peers = match variables.text(PEERS).as_deref() {
            None | Some("1") => false,
            Some("0") => true,
            Some(other) => return Err(bad(PEERS, other, "0 or 1")),
        };
        let is_default = |name: &str| match name {
            BACKEND => choice == Choice::Automatic,
            PEERS => !excludes_peers,
            _ => false,
        };
        let names = [BACKEND, PEERS].into_iter().chain(OF_NCCL);
        let set = names.filter(|name| !is_default(name));
        let values = set.filter_map(|name| Some((name.to_owned(), variables.text(name)?)));
        Ok(Self { choice, excludes_peers, values: values.collect() })
    }

    /// The backend that is chosen.
    #[must_use]
    pub fn backend(&self) -> Choice {
        self.choice
    }

    /// Whether ranks of one host may map each other's memory.
    #[must_use]
    pub fn allows_peer_memory(&self) -> bool {
        !self.excludes_peers
    }

    /// What other ranks compare.
    pub(crate) fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(&self.values).expect("names and values are JSON")
    }

    /// An error for the first variable that is not the same on all ranks. `all`: what each has encoded.
    pub(crate) fn compare(all: &[Vec<u8>]) -> Result<(), DistError> {
        let decode = |text: &Vec<u8>| -> BTreeMap<String, String> {
            serde_json::from_slice(text).unwrap_or_default()
        };
        let all: Vec<_> = all.iter().map(decode).collect();
        let names: BTreeSet<_> = all.iter().flat_map(BTreeMap::keys).collect();
        names.into_iter().try_for_each(|name| compare_one(name, &all))
    }
}

fn compare_one(name: &str, all: &[BTreeMap<String, String>]) -> Result<(), DistError> {
    let mut values: Vec<(Option<String>, Vec<u32>)> = Vec::new();
    for (rank, own) in all.iter().enumerate() {
        let (rank, value) = (rank as u32, own.get(name));
        match values.iter_mut().find(|(known, _)| known.as_ref() == value) {
            Some((_, ranks)) => ranks.push(rank),
            None => values.push((value.cloned(), vec![rank])),
        }
    }
    match values.len() {
        0 | 1 => Ok(()),
        _ => Err(DistError::UnlikeSettings { name: name.to_owned(), values }),
    }
}

fn bad(name: &'static str, value: &str, expected: &'static str) -> DistError {
    DistError::BadVariable { name, value: value.to_owned(), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Settings, DistError> {
        let find = |name: &str| set.iter().find(|(own, _)| *own == name);
        let lookup = |name: &str| find(name).map(|(_, value)| (*value).to_owned());
        Settings::read(&Variables::new(&lookup))
    }

    fn compared(ranks: &[&[(&str, &str)]]) -> Result<(), DistError> {
        let all: Vec<_> = ranks.iter().map(|set| read(set).unwrap().encode()).collect();
        Settings::compare(&all)
    }

    #[test]
    fn values_are_read_and_wrong_ones_are_refused() {
        let settings = read(&[(BACKEND, " mpi "), (PEERS, "0")]).unwrap();
        assert_eq!((settings.backend(), settings.allows_peer_memory()), (Choice::Mpi, false));
        assert_eq!(read(&[(BACKEND, "auto"), (PEERS, "1")]).unwrap(), Settings::default());
        assert!(read(&[(BACKEND, "gloo")]).unwrap_err().to_string().contains("`gloo`"));
        assert!(read(&[(PEERS, "no")]).unwrap_err().to_string().contains("0 or 1"));
    }

    #[test]
    fn ranks_that_differ_are_named_with_their_values() {
        let proto = [("NCCL_PROTO", "LL")];
        compared(&[&proto, &proto]).unwrap();
        compared(&[&[], &[(BACKEND, "auto"), (PEERS, "1"), ("NCCL_PROTO", " ")]]).unwrap();
        let text = compared(&[&[], &[(PEERS, "0")], &[]]).unwrap_err().to_string();
        assert!(
            text.contains("FERROWARP_DIST_PEERS is not set on ranks 0 and 2, `0` on rank 1"),
            "{text}"
        );
        let other = [("NCCL_PROTO", "Simple")];
        let text = compared(&[&proto, &other, &[]]).unwrap_err().to_string();
        assert!(text.contains("`LL` on rank 0, `Simple` on rank 1, not set on rank 2"), "{text}");
    }
}
