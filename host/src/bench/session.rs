//! A run of the benchmark: ours and theirs in turns, case by case.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::case::{Case, Scale};
use super::cases;
use super::check::Fault;
use super::error::BenchError;
use super::measure::{Batching, Ours, Plan};
use super::peers::{Listing, PeerError, Process, SOURCES, Source, Workshop};
use super::report::{PeerRow, Row};
use super::stats::Summary;
use crate::{Backend, Gpu};

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How large the cases are.
    pub scale: Scale,
    /// How much to measure.
    pub plan: Plan,
    /// Parts of names, one of which a case has; none for all cases.
    pub filters: Vec<String>,
    /// Whether peers run too.
    pub peers: bool,
}

impl Options {
    /// The cases that are chosen.
    ///
    /// # Errors
    /// [`NothingToRun`](BenchError::NothingToRun).
    pub fn cases(&self) -> Result<Vec<Case>, BenchError> {
        let mut cases = cases::all(&self.scale);
        cases.retain(|case| self.chooses(case));
        if cases.is_empty() {
            return Err(BenchError::NothingToRun { filters: self.filters.clone() });
        }
        Ok(cases)
    }

    fn chooses(&self, case: &Case) -> bool {
        let name = format!("{} {}", case.name, case.size());
        self.filters.is_empty() || self.filters.iter().any(|part| name.contains(part.as_str()))
    }
}

/// What happens in a run, as it happens.
#[derive(Debug)]
pub enum Notice<'a> {
    /// Peers are compiled and started.
    Preparing,
    /// A peer's file has nothing to give.
    NoPeer(&'a Source, &'a PeerError),
    /// What a peer's file uses.
    Versions(&'a [String]),
    /// A case begins.
    Begins(&'a Case),
    /// A peer has no time for a case.
    NoTime(&'a Case, &'a str, &'a PeerError),
    /// A case's results.
    Row(&'a Row),
    /// A family's last case is done.
    FamilyEnds(&'a str),
}

/// A peers' file, compiled and asked what it knows.
struct Troupe {
    program: PathBuf,
    listing: Listing,
    process: Option<Process>,
    family: &'static str,
}

impl Troupe {
    /// The names of its peers that have the case.
    fn peers_of(&self, case: &Case) -> Vec<String> {
        let has = |(peer, name): &(String, String)| (*name == case.name).then(|| peer.clone());
        self.listing.cases.iter().filter_map(has).collect()
    }

    /// Gives the memory of a case back; a process that cannot is started anew for the next.
    fn release(&mut self) {
        if self.process.as_mut().is_some_and(|process| process.release().is_err()) {
            self.process = None;
        }
    }

    /// The process, started again if it ended.
    fn process(&mut self, workshop: &Workshop) -> Result<&mut Process, PeerError> {
        if self.process.as_mut().is_none_or(|process| process.is_over()) {
            self.process = Some(workshop.start(&self.program)?);
        }
        Ok(self.process.as_mut().expect("it was just started"))
    }
}

/// Runs the cases and tells `notice` what happens.
///
/// # Errors
/// The device's or the system's; a peer's are notices.
pub fn run(
    gpu: &Gpu,
    options: &Options,
    notice: &mut dyn FnMut(Notice<'_>),
) -> Result<Vec<Row>, BenchError> {
    let cases = options.cases()?;
    let workshop = Workshop::new().map_err(BenchError::Folder)?;
    let mut troupes = if options.peers && gpu.backend() == Backend::Cuda {
        notice(Notice::Preparing);
        start_all(&workshop, &cases, notice)
    } else {
        Vec::new()
    };
    let mut rows = Vec::new();
    for (i, case) in cases.iter().enumerate() {
        notice(Notice::Begins(case));
        rows.push(one(gpu, case, options.plan, &workshop, &mut troupes, notice)?);
        notice(Notice::Row(&rows[i]));
        if cases.get(i + 1).is_none_or(|next| next.family() != case.family()) {
            troupes.retain(|troupe| troupe.family != case.family());
            notice(Notice::FamilyEnds(case.family()));
        }
    }
    Ok(rows)
}

/// Compiles and starts the peers of the cases' families.
fn start_all(
    workshop: &Workshop,
    cases: &[Case],
    notice: &mut dyn FnMut(Notice<'_>),
) -> Vec<Troupe> {
    let families: BTreeSet<_> = cases.iter().map(Case::family).collect();
    let sources: Vec<_> = SOURCES.iter().filter(|s| families.contains(s.family)).collect();
    let start = |program: PathBuf, family| {
        let mut process = workshop.start(&program)?;
        let listing = process.list()?;
        Ok(Troupe { program, listing, process: Some(process), family })
    };
    let started = workshop.each(&sources, |source, program| start(program, source.family));
    let mut troupes = Vec::new();
    for (source, troupe) in started {
        match troupe {
            Ok(troupe) => {
                notice(Notice::Versions(&troupe.listing.versions));
                troupes.push(troupe);
            }
            Err(why) => notice(Notice::NoPeer(source, &why)),
        }
    }
    troupes
}

/// A peer that is ready for a case.
struct Rival {
    troupe: usize,
    name: String,
    samples: Vec<f64>,
}

fn one(
    gpu: &Gpu,
    case: &Case,
    plan: Plan,
    workshop: &Workshop,
    troupes: &mut [Troupe],
    notice: &mut dyn FnMut(Notice<'_>),
) -> Result<Row, BenchError> {
    let mut ours = Ours::new(gpu, case)?;
    let batching = ours.batching();
    let mut rivals = ready(case, batching, workshop, troupes, notice);
    let mut samples = Vec::new();
    for _ in 0..plan.sittings {
        samples.extend(ours.sitting(plan.rounds)?);
        keep(case, &mut rivals, troupes, notice, |process, rival| {
            let more = process.sitting(&rival.name, plan.rounds, batching)?;
            rival.samples.extend(more);
            Ok(())
        });
    }
    keep(case, &mut rivals, troupes, notice, |process, rival| process.check(&rival.name));
    troupes.iter_mut().for_each(Troupe::release);
    let times = |samples: &[f64]| Summary::of(samples).expect("each sitting has samples");
    let peers = rivals.into_iter().map(|Rival { name, samples, .. }| {
        let goal = case.goals.iter().find(|(peer, _)| *peer == name).map(|(_, ratio)| *ratio);
        PeerRow { name, times: times(&samples), goal }
    });
    Ok(Row {
        case: case.name.clone(),
        shape: case.shape.clone(),
        bytes: case.bytes,
        unit: case.unit,
        batching,
        ours: times(&samples),
        fault: verdict(ours.check())?,
        peers: peers.collect(),
    })
}

/// What is wrong with our results; a device that fails is an error.
fn verdict(check: Result<(), Fault>) -> Result<Option<String>, BenchError> {
    match check {
        Ok(()) => Ok(None),
        Err(Fault::Gpu(error)) => Err(error.into()),
        Err(fault) => Ok(Some(fault.to_string())),
    }
}

/// The peers that have the case and are ready for it.
fn ready(
    case: &Case,
    batching: Batching,
    workshop: &Workshop,
    troupes: &mut [Troupe],
    notice: &mut dyn FnMut(Notice<'_>),
) -> Vec<Rival> {
    let mut ready = Vec::new();
    for (index, troupe) in troupes.iter_mut().enumerate() {
        for name in troupe.peers_of(case) {
            let process = troupe.process(workshop);
            match process.and_then(|process| process.prepare(&name, case, batching)) {
                Ok(()) => ready.push(Rival { troupe: index, name, samples: Vec::new() }),
                Err(why) => notice(Notice::NoTime(case, &name, &why)),
            }
        }
    }
    ready
}

/// Lets each peer do `work`, and drops those that fail.
fn keep(
    case: &Case,
    rivals: &mut Vec<Rival>,
    troupes: &mut [Troupe],
    notice: &mut dyn FnMut(Notice<'_>),
    mut work: impl FnMut(&mut Process, &mut Rival) -> Result<(), PeerError>,
) {
    rivals.retain_mut(|rival| {
        let process = troupes[rival.troupe].process.as_mut().expect("it made the peer ready");
        let done = work(process, rival);
        if let Err(why) = &done {
            notice(Notice::NoTime(case, &rival.name, why));
        }
        done.is_ok()
    });
}
