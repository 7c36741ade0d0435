//! The order of a read-modify-write, which LLVM 22 drops: it writes a bare `atom.add`, relaxed among the threads of
//! the device, for each of Rust's orders.
//!
//! The line of `core` that the instruction comes from still tells: its atomic operations are a `match` over the
//! orders, with a line for each.

use std::collections::BTreeMap;
use std::fs;

/// Rust's orders of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Relaxed,
    Acquire,
    Release,
    AcqRel,
    SeqCst,
}

impl Order {
    /// The order that `core` names in a line such as `AcqRel => intrinsics::atomic_xadd::<T, U, { AO::AcqRel }>(…)`.
    fn named(line: &str) -> Option<Self> {
        let (_, name) = line.split_once("AO::")?;
        let end = name.find(|c: char| !c.is_alphanumeric()).unwrap_or(name.len());
        match &name[..end] {
            "Relaxed" => Some(Order::Relaxed),
            "Acquire" => Some(Order::Acquire),
            "Release" => Some(Order::Release),
            "AcqRel" => Some(Order::AcqRel),
            "SeqCst" => Some(Order::SeqCst),
            _ => None,
        }
    }

    /// The lines in place of a bare `atom`; nothing for one that is right as it is. Processors before `sm_70` have
    /// fences alone.
    pub fn write(self, line: &str, is_old: bool) -> Option<String> {
        if self == Order::Relaxed {
            return None;
        }
        let acquires = self != Order::Release;
        let releases = self != Order::Acquire;
        if is_old {
            let fence = |wanted: bool| if wanted { "\tmembar.sys;\n" } else { "" };
            return Some(format!("{}{line}\n{}", fence(releases), fence(acquires)));
        }
        let word = match self {
            Order::Acquire => "acquire",
            Order::Release => "release",
            _ => "acq_rel",
        };
        let before = if self == Order::SeqCst { "\tfence.sc.sys;\n" } else { "" };
        Some(format!("{before}{}\n", line.replacen("atom.", &format!("atom.{word}.sys."), 1)))
    }
}

/// Whether an `atom` has neither an order nor a scope.
pub(super) fn is_bare(opcode: &str) -> bool {
    const SAID: [&str; 8] =
        ["relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys"];
    let mut parts = opcode.split('.');
    parts.next() == Some("atom") && !parts.any(|part| SAID.contains(&part))
}

/// The files of `core` with its atomic operations, read when the first instruction of theirs comes.
#[derive(Default)]
pub(super) struct Source {
    files: BTreeMap<String, Vec<Option<Order>>>,
}

impl Source {
    /// The order that a line of `core::sync::atomic` names.
    pub fn order(&mut self, file: &str, line: usize) -> Option<Order> {
        if !file.ends_with("core/src/sync/atomic.rs") {
            return None;
        }
        let read = |file: &str| fs::read_to_string(file).unwrap_or_default();
        let orders = |file: &str| read(file).lines().map(Order::named).collect();
        let known = self.files.entry(file.to_owned()).or_insert_with_key(|file| orders(file));
        *known.get(line.checked_sub(1)?)?
    }
}
