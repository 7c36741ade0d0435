//! Two versions of a module, compared while the program runs.

mod results;
mod split;
mod statistics;
mod verdict;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex};

use cuda_std::launch::{Args, Kernel, Launch, LaunchConfig};

use super::{HotModule, ModuleVersion};
use crate::error::{GpuError, GpuResult};
use crate::event::Event;
use crate::lock::lock;
use crate::recorder;
use crate::stream::{AsStream, Stream};
use results::{Check, Saved};
use split::Share;

pub use statistics::Interval;
pub use verdict::{Outcome, Timing, Verdict};

/// How many times of each version of a kernel count: the newest ones.
const MOST_SAMPLES: usize = 512;
/// How many launches of a kernel wait for the device to have run them. Beyond that launches are not timed.
const MOST_PENDING: usize = 1024;

/// Splits launches between two versions of a module, and measures both: see [`HotModule::compare`].
///
/// A launch on it runs one of the versions on the stream of the [`Gpu`](crate::Gpu) that the hot module was made of, or on
/// [`on`](Self::on)'s stream. Launches of one kernel with one grid, block and dynamic shared memory are a case of their
/// own, of which each version gets its share; so the times of a case are of like launches as far as the shapes tell.
///
/// A clone is the same comparison; any thread may use it.
#[derive(Clone)]
pub struct Comparison {
    inner: Arc<Compared>,
    /// The stream of the launches with the kernels of the baseline and of the candidate.
    streams: [Stream; 2],
    check: Option<Check>,
}

struct Compared {
    versions: [ModuleVersion; 2],
    share: Share,
    cases: Mutex<BTreeMap<Case, Measured>>,
}

/// The version that a launch runs.
const BASELINE: usize = 0;
const CANDIDATE: usize = 1;

type Extents = (u32, u32, u32);

/// The name of a kernel, the grid, the block and the bytes of dynamic shared memory.
type Case = (&'static str, Extents, Extents, u32);

/// What is known of a case.
#[derive(Default)]
struct Measured {
    launches: [u64; 2],
    times_ms: [VecDeque<f64>; 2],
    /// The version, and the events around its launch, oldest first.
    pending: VecDeque<(usize, Event, Event)>,
    checked: u64,
    mismatches: u64,
}

impl HotModule {
    /// Compares two versions of this module in the running program: of the launches on the result, `share` (0.1 for a
    /// tenth) run the version of the number `candidate`, and the others that of the number `baseline`. Both stay what they
    /// are, and stay loaded, whatever the module becomes.
    ///
    /// The split is deterministic: of the first *n* launches of a kernel with one shape, `n * share` are the candidate's,
    /// rounded down and spread evenly. Each launch lies between two events; its time is from the end of the
    /// stream's earlier work, or from the launch where there is none, to the end of the kernel, with its waits for
    /// buffers whose home is another stream. On the emulator it is wall time.
    ///
    /// ```no_run
    /// # use ferrowarp::{DeviceBuffer, Gpu, GpuResult, HotModule, LaunchConfig};
    /// # use ferrowarp::reload::Outcome;
    /// # use kernels_gpu::elementwise::saxpy;
    /// # fn example(hot: &HotModule, x: &DeviceBuffer<f32>, y: &mut DeviceBuffer<f32>) -> GpuResult<()> {
    /// let comparison = hot.compare(0.5, 1, hot.current().number())?.check_results(100);
    /// for _frame in 0..1000 {
    ///     saxpy::launch(&comparison, LaunchConfig::for_num_elems(x.len()), 2.0, x, y)?;
    /// }
    /// for verdict in comparison.verdicts()? {
    ///     println!("{verdict}");
    ///     assert_ne!(verdict.outcome(), Outcome::WrongResults);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) for a `share` that is not between 0 and 1, in steps of a millionth, or
    /// for one version twice; [`NoVersion`](GpuError::NoVersion) for a number that is not kept.
    pub fn compare(&self, share: f64, baseline: u64, candidate: u64) -> GpuResult<Comparison> {
        let share = Share::new(share)?;
        if baseline == candidate {
            let reason = format!("version {baseline} was given twice");
            return Err(GpuError::InvalidArgument { operation: "comparing two versions", reason });
        }
        let versions = [self.version(baseline)?, self.version(candidate)?];
        let streams = versions.each_ref().map(|version| version.as_stream().clone());
        let inner = Compared { versions, share, cases: Mutex::default() };
        Ok(Comparison { inner: Arc::new(inner), streams, check: None })
    }
}

impl Comparison {
    /// Also compares results, bit for bit: each `every` launches of a kernel with one shape, from the first one on, both
    /// versions run with the same arguments, and all memory that the launcher lends for writing is compared.
    ///
    /// Such a launch is not timed. It waits for the device, and takes memory for two copies of what the kernel writes. The
    /// memory has its former content before each version, and at the end the result of the version that the split names.
    /// Variables in the device's memory are not put back: a kernel that counts its launches in one counts two.
    #[must_use]
    pub fn check_results(self, every: u32) -> Self {
        self.check_results_with(every, |one, other| one == other)
    }

    /// As [`check_results`](Self::check_results), with a comparison of your own: of floats within a tolerance, say. It gets
    /// the bytes of each array that the kernel writes, the baseline's first.
    #[must_use]
    pub fn check_results_with(
        self,
        every: u32,
        is_same: impl Fn(&[u8], &[u8]) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { check: Some(Check::new(every, Arc::new(is_same))), ..self }
    }

    /// This comparison with launches on another stream.
    ///
    /// # Errors
    /// [`WrongDevice`](GpuError::WrongDevice) for a stream of another device.
    pub fn on(&self, stream: &impl AsStream) -> GpuResult<Self> {
        let [baseline, candidate] = &self.inner.versions;
        let streams = [baseline.on(stream)?, candidate.on(stream)?];
        Ok(Self { streams, ..self.clone() })
    }

    /// What was found until now for each kernel and shape, in the order of the kernels' names. Waits for the launches that
    /// are timed.
    ///
    /// # Errors
    /// The panic or fault of a kernel.
    pub fn verdicts(&self) -> GpuResult<Vec<Verdict>> {
        let mut cases = lock(&self.inner.cases);
        let verdict = |(case, measured): (&Case, &mut Measured)| {
            measured.collect(true)?;
            Ok(self.verdict(*case, measured))
        };
        cases.iter_mut().map(verdict).collect()
    }

    fn verdict(&self, (kernel, grid, block, shared_mem_bytes): Case, of: &Measured) -> Verdict {
        let times =
            [BASELINE, CANDIDATE].map(|which| Vec::from_iter(of.times_ms[which].iter().copied()));
        let timing = |which: usize| {
            let version = self.inner.versions[which].number();
            Timing::new(version, of.launches[which], &times[which])
        };
        Verdict {
            kernel,
            config: LaunchConfig { grid, block, shared_mem_bytes },
            baseline: timing(BASELINE),
            candidate: timing(CANDIDATE),
            difference_ms: Verdict::difference(&times[BASELINE], &times[CANDIDATE]),
            checked: of.checked,
            mismatches: of.mismatches,
        }
    }

    /// # Safety
    /// As [`Launch::launch`].
    unsafe fn launch_timed(
        &self,
        case: Case,
        which: usize,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> GpuResult<()> {
        let stream = &self.streams[which];
        // The first lookup of a kernel is no part of its time.
        stream.module().function(kernel)?;
        let start = stream.record_event()?;
        // SAFETY: the caller's promise.
        unsafe { stream.launch(kernel, config, args)? };
        let end = stream.record_event()?;
        let mut cases = lock(&self.inner.cases);
        let measured = cases.entry(case).or_default();
        if measured.pending.len() < MOST_PENDING {
            measured.pending.push_back((which, start, end));
        }
        measured.collect(false)
    }

    /// Launches both versions; the results of the one that `which` names stay.
    ///
    /// # Safety
    /// As [`Launch::launch`].
    unsafe fn launch_checked(
        &self,
        case: Case,
        which: usize,
        (kernel, config, args): (&'static Kernel, LaunchConfig, &Args),
        check: &Check,
    ) -> GpuResult<()> {
        let [baseline, candidate] = &self.streams;
        // SAFETY: the launch borrows the memory, for which its home orders all uses.
        let before = unsafe { Saved::of(baseline, args)? };
        // SAFETY: the caller's promise.
        unsafe { baseline.launch(kernel, config, args)? };
        // SAFETY: as above.
        let own = unsafe { Saved::of(baseline, args)? };
        // SAFETY: as above.
        unsafe { before.restore()? };
        // SAFETY: the caller's promise; what is written is as it was before the first launch.
        unsafe { candidate.launch(kernel, config, args)? };
        // SAFETY: as above.
        let other = unsafe { Saved::of(baseline, args)? };
        let is_same = check.is_same(&own.bytes()?, &other.bytes()?);
        if which == BASELINE {
            // SAFETY: as above.
            unsafe { own.restore()? };
        }
        let mut cases = lock(&self.inner.cases);
        let measured = cases.entry(case).or_default();
        measured.checked += 1;
        measured.mismatches += u64::from(!is_same);
        Ok(())
    }

    /// The number of the next launch of a case, and the version that it runs.
    fn next(&self, case: Case) -> (u64, usize) {
        let mut cases = lock(&self.inner.cases);
        let launches = &mut cases.entry(case).or_default().launches;
        let number = launches[BASELINE] + launches[CANDIDATE];
        let which = if self.inner.share.is_candidate(number) { CANDIDATE } else { BASELINE };
        launches[which] += 1;
        (number, which)
    }
}

impl Measured {
    /// Takes the times of the launches that have run; of all, if it waits.
    fn collect(&mut self, waits: bool) -> GpuResult<()> {
        while let Some((which, start, end)) = self.pending.front() {
            if !waits && !end.query()? {
                break;
            }
            let (which, time_ms) = (*which, end.milliseconds_since(start));
            self.pending.pop_front();
            let times = &mut self.times_ms[which];
            times.push_back(time_ms?);
            if times.len() > MOST_SAMPLES {
                times.pop_front();
            }
        }
        Ok(())
    }
}

impl Launch for Comparison {
    type Error = GpuError;

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> GpuResult<()> {
        if recorder::current().is_some() {
            let what = "a comparison in a graph, whose launches cannot be split: record a version of the module";
            return Err(GpuError::Unsupported { what });
        }
        if config.is_empty() {
            // Nothing runs; the arguments are checked.
            // SAFETY: the caller's promise.
            return unsafe { self.streams[BASELINE].launch(kernel, config, args) };
        }
        let case = (kernel.name, config.grid, config.block, config.shared_mem_bytes);
        let (number, which) = self.next(case);
        match self.check.as_ref().filter(|check| check.is_due(number)) {
            // SAFETY: the caller's promise.
            Some(check) => unsafe {
                self.launch_checked(case, which, (kernel, config, args), check)
            },
            // SAFETY: the caller's promise.
            None => unsafe { self.launch_timed(case, which, kernel, config, args) },
        }
    }
}

impl fmt::Debug for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [baseline, candidate] = &self.inner.versions;
        write!(f, "Comparison(version {} with {})", baseline.number(), candidate.number())
    }
}
