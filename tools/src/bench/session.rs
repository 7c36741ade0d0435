//! A run of the benchmark: ours and theirs in turns, case by case.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::thread::{self, Scope, ScopedJoinHandle};

use super::case::{Case, Scale};
use super::cases;
use super::check::Fault;
use super::error::BenchError;
use super::measure::{Batching, Ours, Plan};
use super::peers::{Listing, PeerError, Process, Source, Workshop};
use super::report::{PeerRow, Row, Variant};
use super::stats::Summary;
use ferrowarp::{Gpu, GpuError, GpuResult};

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How large the cases are.
    pub scale: Scale,
    /// How much to measure.
    pub plan: Plan,
    /// Parts of names, one of which a case has; none for all cases.
    pub filters: Vec<String>,
    /// The peers' files: [`SOURCES`](super::peers::SOURCES), or none.
    pub peers: &'static [Source],
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
    /// A peer's file has nothing to give.
    NoPeer(&'a Source, &'a PeerError),
    /// What a peer's file uses.
    Versions(&'a [String]),
    /// A case begins.
    Begins(&'a Case),
    /// A peer has no time for a case.
    NoTime(&'a Case, &'a str, &'a PeerError),
    /// A case is not for this device.
    Unsupported(&'a Case, &'a GpuError),
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

/// A peers' file that is being compiled and started.
struct Arrival<'scope> {
    source: &'static Source,
    troupe: ScopedJoinHandle<'scope, Result<Troupe, PeerError>>,
}

/// Runs the cases and tells `notice` what happens. All peers are compiled and started at the same time; a family
/// begins when its own are ready.
///
/// # Errors
/// The device's or the system's; a peer's are notices.
pub fn run(
    gpu: &Gpu,
    options: &Options,
    notice: &mut dyn FnMut(Notice<'_>),
) -> Result<Vec<Row>, BenchError> {
    let cases = options.cases()?;
    let workshop = Workshop::new(gpu.compute_capability()).map_err(BenchError::Folder)?;
    thread::scope(|scope| {
        let mut coming = send_for(scope, &workshop, &cases, options.peers);
        let (mut rows, mut troupes) = (Vec::new(), Vec::new());
        for (i, case) in cases.iter().enumerate() {
            notice(Notice::Begins(case));
            troupes.extend(arrived(&mut coming, case.family(), notice));
            match one(gpu, case, options.plan, &workshop, &mut troupes, notice) {
                Ok(row) => {
                    notice(Notice::Row(&row));
                    rows.push(row);
                }
                Err(BenchError::Gpu(error)) if is_unsupported(&error) => {
                    notice(Notice::Unsupported(case, &error));
                }
                Err(error) => return Err(error),
            }
            if cases.get(i + 1).is_none_or(|next| next.family() != case.family()) {
                troupes.clear();
                notice(Notice::FamilyEnds(case.family()));
            }
        }
        Ok(rows)
    })
}

fn is_unsupported(error: &GpuError) -> bool {
    matches!(error.root(), GpuError::Unsupported { .. })
}

/// Compiles and starts the peers of the cases' families, each on a thread of its own.
fn send_for<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    workshop: &'env Workshop,
    cases: &[Case],
    peers: &'static [Source],
) -> Vec<Arrival<'scope>> {
    let families: BTreeSet<_> = cases.iter().map(Case::family).collect();
    let start = move |source: &Source| {
        let program = workshop.program(source)?;
        let mut process = workshop.start(&program)?;
        let listing = process.list()?;
        Ok(Troupe { program, listing, process: Some(process) })
    };
    let wanted = peers.iter().filter(|source| families.contains(source.family));
    wanted.map(|source| Arrival { source, troupe: scope.spawn(move || start(source)) }).collect()
}

/// Waits for the peers of a family.
fn arrived(
    coming: &mut Vec<Arrival<'_>>,
    family: &str,
    notice: &mut dyn FnMut(Notice<'_>),
) -> Vec<Troupe> {
    let mut troupes = Vec::new();
    for Arrival { source, troupe } in coming.extract_if(.., |one| one.source.family == family) {
        match troupe.join().expect("building and starting do not panic") {
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
    /// The variants of its call, by name, and their samples.
    variants: Vec<(String, Vec<f64>)>,
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
    let here = case
        .peers_here()
        .map(|(name, set_up)| Ok((name, Ours::with(gpu, case, set_up)?, Vec::<f64>::new())));
    let mut here = here.collect::<GpuResult<Vec<_>>>()?;
    let mut rivals = ready(case, batching, workshop, troupes, notice);
    let mut samples = Vec::new();
    for _ in 0..plan.sittings {
        samples.extend(ours.sitting(plan.rounds)?);
        for (_, peer, samples) in &mut here {
            samples.extend(peer.sitting(plan.rounds)?);
        }
        keep(case, &mut rivals, troupes, notice, |process, rival| {
            for (variant, (_, samples)) in rival.variants.iter_mut().enumerate() {
                samples.extend(process.sitting(&rival.name, variant, plan.rounds, batching)?);
            }
            Ok(())
        });
    }
    keep(case, &mut rivals, troupes, notice, |process, rival| process.check(&rival.name));
    troupes.iter_mut().for_each(Troupe::release);
    let times = |samples: &[f64]| Summary::of(samples).expect("each sitting has samples");
    let row = |name: &str, variants: Vec<Variant>| {
        let goal = case.goals.iter().find(|(peer, _)| *peer == name).map(|(_, ratio)| *ratio);
        PeerRow::fastest(name, variants, goal).expect("a peer has one variant at least")
    };
    let variant =
        |name: &str, samples: &[f64]| Variant { name: name.into(), times: times(samples) };
    let of_rivals = rivals.iter().map(|Rival { name, variants, .. }| {
        row(name, variants.iter().map(|(name, samples)| variant(name, samples)).collect())
    });
    let of_here = here.iter().map(|(name, _, samples)| row(name, vec![variant("", samples)]));
    let peers: Vec<PeerRow> = of_here.chain(of_rivals).collect();
    let mut fault = verdict(ours.check())?;
    for (name, peer, _) in &mut here {
        let wrong = verdict(peer.check())?.map(|why| format!("{name}: {why}"));
        fault = fault.or(wrong);
    }
    Ok(Row {
        case: case.name.clone(),
        shape: case.shape.clone(),
        work: case.work,
        unit: case.unit,
        batching,
        ours: times(&samples),
        goal: case
            .speed_goal
            .filter(|(device, _)| gpu.name().contains(device))
            .map(|(_, speed)| speed),
        fault,
        peers,
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
                Ok(variants) => {
                    let variants = variants.into_iter().map(|name| (name, Vec::new())).collect();
                    ready.push(Rival { troupe: index, name, variants });
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::peers::Language;
    use ferrowarp::Backend;

    /// A peer whose runs take 2 ms each, or 3 in one variant of two, one of whose cases fails at its second sitting.
    static FAKE: [Source; 2] = [
        Source {
            family: "copy",
            language: Language::Python,
            text: r#"
import json, sys
sittings = 0
for line in sys.stdin:
    request = json.loads(line)
    verb, peer = request["do"], request.get("peer")
    reply = {}
    if verb == "list":
        cases = [[name, "copy/array/f32"] for name in ("steady", "failing", "unready", "wrong")]
        reply = {"cases": cases, "versions": ["Fake 1.0"]}
    elif verb == "prepare" and peer == "unready":
        reply = {"error": "no memory"}
    elif verb == "prepare" and peer == "steady":
        reply = {"variants": ["slow", "quick"]}
    elif verb == "run":
        sittings += peer == "failing"
        slow = peer == "steady" and request["variant"] == 0
        reply = {"ms": [3.0 if slow else 2.0] * request["rounds"]}
        if peer == "failing" and sittings == 2:
            reply = {"error": "tired"}
    elif verb == "check" and peer == "wrong":
        reply = {"wrong": "all zero"}
    print(json.dumps(reply), flush=True)
"#,
        },
        Source { family: "reduce", language: Language::Python, text: "raise Exception('never')" },
    ];

    fn options(filters: &[&str]) -> Options {
        Options {
            scale: Scale::new(Backend::Emulator, false, Some(vec![100])),
            plan: Plan { sittings: 3, rounds: 2 },
            filters: filters.iter().map(|&filter| filter.to_owned()).collect(),
            peers: &FAKE,
        }
    }

    #[test]
    fn filters_look_at_names_and_sizes() {
        let names = |filters: &[&str]| {
            let cases = options(filters).cases();
            cases.map(|cases| cases.into_iter().map(|case| case.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["copy/array/f32"]).unwrap(), ["copy/array/f32"]);
        let two = names(&["copy/array/f32", "reduce/sum/f32"]).unwrap();
        assert_eq!(two, ["copy/array/f32", "reduce/sum/f32"]);
        assert!(names(&["f32 100"]).unwrap().contains(&two[0]));
        assert!(names(&[]).unwrap().len() > 1);
        let error = names(&["nothing", "such"]).unwrap_err().to_string();
        assert_eq!(error, "no case has nothing or such in its name; see --list");
    }

    #[test]
    fn peers_take_turns_and_those_that_fail_are_lines() {
        let gpu = Gpu::new().unwrap();
        let (mut lines, mut versions) = (Vec::new(), Vec::new());
        let rows = run(&gpu, &options(&["copy/array/f32"]), &mut |notice| match notice {
            Notice::NoPeer(source, why) => lines.push(format!("{}: {why}", source.family)),
            Notice::NoTime(_, peer, why) => lines.push(format!("{peer}: {why}")),
            Notice::Versions(known) => versions.extend(known.to_vec()),
            _ => {}
        });
        let rows = rows.unwrap();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].fault, None);
        assert_eq!(rows[0].ours.samples, 6);
        if lines == ["copy: python3 is not on this machine"] {
            return;
        }
        let said =
            ["unready: no memory", "failing: tired", "wrong: its own result is wrong: all zero"];
        assert_eq!(lines, said);
        assert_eq!(versions, ["Fake 1.0"]);
        let [peer] = &rows[0].peers[..] else { panic!("{:?}", rows[0].peers) };
        assert_eq!(
            (peer.title().as_str(), peer.times.median_ms, peer.times.samples),
            ("steady (quick)", 2.0, 6)
        );
        let [slower] = &peer.slower[..] else { panic!("{:?}", peer.slower) };
        assert_eq!((slower.name.as_str(), slower.times.median_ms), ("slow", 3.0));
    }

    #[test]
    fn a_peer_in_this_process_has_a_row_too() {
        let gpu = Gpu::new().unwrap();
        let rows = run(&gpu, &options(&["out_of_core/sum/u32"]), &mut |_| ()).unwrap();
        let [row] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((row.fault.as_deref(), row.batching.copies), (None, 1));
        let [bus] = &row.peers[..] else { panic!("{:?}", row.peers) };
        assert_eq!((bus.name.as_str(), bus.times.samples), ("bus", 6));
    }

    #[test]
    fn only_the_peers_of_chosen_families_are_started() {
        let gpu = Gpu::new().unwrap();
        let mut lines = 0;
        let options = options(&["reduce/sum/f32"]);
        let rows = run(&gpu, &options, &mut |notice| {
            lines += usize::from(
                matches!(notice, Notice::NoPeer(source, _) if source.family == "reduce"),
            );
        });
        assert_eq!((rows.unwrap().len(), lines), (1, 1));
    }
}
