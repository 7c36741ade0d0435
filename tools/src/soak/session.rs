//! A run: threads that pick works, and a loop that watches them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ferrowarp::Gpu;
use serde::Serialize;

use super::counts::FlowCount;
use super::error::SoakError;
use super::memory::MemoryReport;
use super::random::Random;
use super::site::{Site, lock};
use super::works::{self, Work};

/// How often the run is looked at.
const TICK: Duration = Duration::from_millis(50);
/// After so long without the end of a work, the run hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// What to run.
#[derive(Clone, Debug)]
pub struct Soak {
    /// How long works are begun.
    pub time: Duration,
    /// Which works, in which order, with which numbers.
    pub seed: u64,
    /// The names of the works to pick from; all of them if there is none.
    pub works: Vec<String>,
    /// Threads that work.
    pub threads: usize,
    /// The time between two samples of the memory, and two lines of status.
    pub interval: Duration,
    /// Set from outside to end the run early.
    pub is_over: Arc<AtomicBool>,
}

/// How far a run is.
#[derive(Clone, Debug)]
pub struct Status {
    /// Since the start.
    pub elapsed: Duration,
    /// Works that have ended.
    pub works: u64,
    /// Values that were compared.
    pub values: u64,
    /// What began and ended.
    pub flows: Vec<FlowCount>,
    /// The memory.
    pub memory: MemoryReport,
}

/// How often a work was done.
#[derive(Clone, Debug, Serialize)]
pub struct WorkCount {
    /// Its name.
    pub name: &'static str,
    /// How often.
    pub count: u64,
}

/// What a run has done.
#[derive(Clone, Debug, Serialize)]
pub struct SoakReport {
    /// The device.
    pub device: String,
    /// The seed.
    pub seed: u64,
    /// How long it ran.
    pub seconds: f64,
    /// How often each work was done.
    pub works: Vec<WorkCount>,
    /// Values that were compared with the CPU's.
    pub values: u64,
    /// What began and ended.
    pub flows: Vec<FlowCount>,
    /// The memory of the process and of the device.
    pub memory: MemoryReport,
    /// Why it failed, if it did.
    pub miss: Option<String>,
}

/// Works that have ended, and those that run.
#[derive(Default)]
struct Ledger {
    done: BTreeMap<&'static str, u64>,
    running: Vec<(u64, &'static str)>,
}

/// A run and its ledger.
struct Run {
    site: Site,
    ledger: Mutex<Ledger>,
    soak: Soak,
    next_sample: Mutex<Duration>,
}

impl Soak {
    /// Runs for the time, or until a miss, and calls `tell` after each interval.
    ///
    /// # Errors
    /// A device that cannot be opened. What the run finds is in the report.
    pub fn run(&self, mut tell: impl FnMut(&Status)) -> Result<SoakReport, SoakError> {
        let gpu = Gpu::new()?;
        let site = Site::new(gpu, self.time, self.is_over.clone())?;
        let next_sample = Mutex::new(Duration::ZERO);
        let run = Arc::new(Run { site, ledger: Mutex::default(), soak: self.clone(), next_sample });
        let begin = |_| {
            let run = run.clone();
            thread::spawn(move || run.work())
        };
        let mut threads: Vec<_> = (0..self.threads.max(1)).map(begin).collect();
        let mut told = Instant::now();
        while !threads.is_empty() {
            thread::sleep(TICK);
            run.look(&mut threads);
            if run.site.waited() > PATIENCE {
                let waited = run.site.waited();
                run.site.fail(SoakError::Stuck { waited, works: run.running() });
                // They cannot be ended: the process does.
                break;
            }
            if told.elapsed() >= self.interval {
                told = Instant::now();
                tell(&run.status());
            }
        }
        if threads.is_empty() && lock(&run.site.miss).is_none() {
            let _ = run.site.take_sample().map_err(|miss| run.site.fail(miss));
        }
        Ok(run.report())
    }
}

impl Run {
    /// Picks works and does them until the run is over.
    fn work(&self) {
        while !self.site.is_over.load(Relaxed) && self.site.start.elapsed() < self.soak.time {
            let number = self.site.next.fetch_add(1, Relaxed);
            let mut random = Random::of(self.soak.seed, number);
            let work = if self.is_sample_due() {
                &works::SAMPLE
            } else {
                works::pick(&mut random, &self.soak.works)
            };
            lock(&self.ledger).running.push((number, work.name));
            let done = self.perform(work, &mut random);
            self.note(number, work);
            if let Err(miss) = done {
                let (work, seed, miss) = (work.name, self.soak.seed, Box::new(miss));
                self.site.fail(SoakError::InWork { number, work, seed, miss });
            }
        }
    }

    fn perform(&self, work: &Work, random: &mut Random) -> Result<(), SoakError> {
        if work.is_alone {
            let _alone = self.site.alone.write().unwrap_or_else(PoisonError::into_inner);
            return (work.run)(&self.site, random);
        }
        let _beside_others = self.site.alone.read().unwrap_or_else(PoisonError::into_inner);
        (work.run)(&self.site, random)
    }

    fn note(&self, number: u64, work: &Work) {
        let mut ledger = lock(&self.ledger);
        *ledger.done.entry(work.name).or_default() += 1;
        ledger.running.retain(|(running, _)| *running != number);
        self.site.note_progress();
    }

    /// Whether this caller is to take a sample now.
    fn is_sample_due(&self) -> bool {
        let mut next = lock(&self.next_sample);
        let now = self.site.start.elapsed();
        let is_due = now >= *next;
        if is_due {
            *next = now + self.soak.interval;
        }
        is_due
    }

    /// Takes out threads that have ended; a panic of one is a miss.
    fn look(&self, threads: &mut Vec<JoinHandle<()>>) {
        for ended in threads.extract_if(.., |thread| thread.is_finished()) {
            if let Err(panic) = ended.join() {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                self.site
                    .fail(SoakError::Panicked { message: text.unwrap_or("no text").to_owned() });
            }
        }
    }

    /// "12 (graphs), 13 (rings)"
    fn running(&self) -> String {
        let running = &lock(&self.ledger).running;
        let texts: Vec<_> =
            running.iter().map(|(number, name)| format!("{number} ({name})")).collect();
        texts.join(", ")
    }

    fn status(&self) -> Status {
        Status {
            elapsed: self.site.start.elapsed(),
            works: lock(&self.ledger).done.values().sum(),
            values: self.site.counts.values(),
            flows: self.site.counts.flows(),
            memory: lock(&self.site.watch).report(),
        }
    }

    fn report(&self) -> SoakReport {
        let Status { elapsed, values, flows, memory, .. } = self.status();
        let done = &lock(&self.ledger).done;
        SoakReport {
            device: self.site.gpu.name().to_owned(),
            seed: self.soak.seed,
            seconds: elapsed.as_secs_f64(),
            works: done.iter().map(|(&name, &count)| WorkCount { name, count }).collect(),
            values,
            flows,
            memory,
            miss: lock(&self.site.miss).as_ref().map(ToString::to_string),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soak() -> Soak {
        let time = Duration::from_secs(3600);
        Soak {
            time,
            seed: 1,
            works: Vec::new(),
            threads: 2,
            interval: time,
            is_over: Arc::default(),
        }
    }

    fn run() -> Run {
        let soak = soak();
        let site = Site::new(Gpu::new().unwrap(), soak.time, soak.is_over.clone()).unwrap();
        Run { site, ledger: Mutex::default(), soak, next_sample: Mutex::default() }
    }

    #[test]
    fn the_first_miss_ends_the_run_and_is_the_one_reported() {
        let run = run();
        run.site.fail(SoakError::Leaked { bytes: 1 });
        run.site.fail(SoakError::Leaked { bytes: 2 });
        run.work();
        let report = run.report();
        assert_eq!(report.miss.unwrap(), "1 bytes of the pool are in use while nothing runs");
        assert!(report.works.is_empty(), "no work begins after it");
    }

    #[test]
    fn a_panic_of_a_thread_is_a_miss() {
        let run = run();
        let mut threads =
            vec![thread::spawn(|| std::panic::resume_unwind(Box::new("out of bounds")))];
        while !threads.is_empty() {
            run.look(&mut threads);
        }
        let miss = run.report().miss.unwrap();
        assert_eq!(miss, "a thread of the soak panicked: out of bounds");
    }

    #[test]
    fn memory_that_is_kept_is_a_leak() {
        let run = run();
        let site = &run.site;
        let kept = ferrowarp::DeviceBuffer::<u8>::zeroed_in(&site.memory, &site.gpu, 100).unwrap();
        assert!(matches!(site.take_sample(), Err(SoakError::Leaked { bytes: 100.. })));
        drop(kept);
        site.take_sample().unwrap();
        let flows = site.counts.flows();
        assert_eq!((flows[0].begun, flows[0].ended), (1, 1));
        // A work that does not end what it began.
        site.counts.begin(super::super::counts::Flow::Messages, 1);
        assert!(matches!(site.take_sample(), Err(SoakError::Lost { what: "messages", .. })));
    }

    #[test]
    fn one_caller_takes_the_sample_of_an_interval() {
        let run = run();
        assert!(run.is_sample_due());
        assert!(!run.is_sample_due());
    }
}
