//! A PTX text as module parts, which are loaded in parallel.

use std::collections::{HashMap, HashSet};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use super::image::Image;
use super::part::{LoadUnit, PartText, not_stopped_by_captures};
use super::text::{Digest, Text};
use super::variables::{self, is_named};
use crate::context::Context;
use crate::error::{GpuError, GpuResult};
use crate::shipped;

/// The most threads that compile at a time. On 16 cores that took 3.7 s for the shipped kernels, 8 threads 6.0 s.
const MOST_THREADS: usize = 16;

/// The parts of a text on a device.
#[derive(Debug)]
pub(super) struct Program {
    arch: Arc<str>,
    digest: Digest,
    /// Each is loaded alone. One, if the text has no index of parts.
    parts: Vec<Arc<LoadUnit>>,
    /// The parts that no other program had before.
    own: Vec<Arc<LoadUnit>>,
    /// The part of each kernel, if the text has an index of parts.
    by_kernel: HashMap<String, usize>,
}

impl Program {
    pub(super) fn of_image(context: &Arc<Context>, image: Image) -> Self {
        Self::new(context, image.arch(), &Text::of_image(image.text()), &[])
    }

    /// Parts that one of `others` has too are shared with it. Of PTX that is not embedded in the
    /// program, only the other parts are kept.
    pub(super) fn new(context: &Arc<Context>, arch: &str, text: &Text, others: &[&Self]) -> Self {
        let same_arch = others.iter().filter(|other| *other.arch == *arch);
        let theirs: HashMap<u64, &Arc<LoadUnit>> = same_arch
            .flat_map(|other| &other.parts)
            .filter_map(|part| Some((part.hash()?, part)))
            .collect();
        let (arch, digest, index) = (Arc::from(arch), text.digest(), text.index.clone());
        let (mut parts, mut own) = (Vec::new(), Vec::new());
        let new = |text| Arc::new(LoadUnit::new(context, &arch, text));
        for (at, part) in index.iter().flat_map(|index| index.iter().enumerate()) {
            let known = theirs.get(&part.hash).map(|part| Arc::clone(part));
            parts.push(known.unwrap_or_else(|| {
                let cut = PartText::cut(text, at, part);
                let begun = text.ahead.part(part.hash);
                let begun = begun.filter(|begun| begun.is_of(&arch, &cut.ptx())).cloned();
                let part = begun.unwrap_or_else(|| new(cut));
                own.push(Arc::clone(&part));
                part
            }));
        }
        if index.is_none() {
            parts.push(new(PartText::Whole(text.whole())));
            own.clone_from(&parts);
        }
        let kernels = index
            .iter()
            .flat_map(|index| index.iter().enumerate())
            .flat_map(|(at, part)| part.kernels.iter().map(move |kernel| (kernel.clone(), at)));
        let by_kernel = kernels.collect();
        Self { arch, digest, parts, own, by_kernel }
    }

    pub(super) fn arch(&self) -> &str {
        &self.arch
    }

    pub(super) fn digest(&self) -> Digest {
        self.digest
    }

    /// The hashes of the parts, if the text has an index of parts.
    pub(super) fn hashes(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().filter_map(|part| part.hash())
    }

    /// The part that has a kernel, or may have it.
    pub(super) fn part(&self, kernel: &str) -> Option<&Arc<LoadUnit>> {
        match self.by_kernel.is_empty() {
            false => self.by_kernel.get(kernel).map(|at| &self.parts[*at]),
            true => self.parts.first(),
        }
    }

    /// Whether a kernel is in a part that the other text has too.
    pub(super) fn shares(&self, kernel: &str, other: &Self) -> bool {
        let parts = self.part(kernel).zip(other.part(kernel));
        parts.is_some_and(|(own, other)| Arc::ptr_eq(own, other))
    }

    pub(super) fn not_found(&self, kernel: &str) -> GpuError {
        not_found(kernel, self.by_kernel.keys().cloned().collect())
    }

    /// The names of its kernels, in the order of the text.
    pub(super) fn kernels(&self) -> Vec<String> {
        self.parts.iter().flat_map(|part| part.kernels().into_owned()).collect()
    }

    /// The address and the bytes of a variable. Kernels that share one are in one part; it is looked for in the parts
    /// that are loaded before the others.
    pub(super) fn variable(&self, name: &str) -> GpuResult<(u64, usize)> {
        let (loaded, others): (Vec<_>, Vec<_>) =
            self.parts.iter().partition(|part| part.is_loaded());
        let mut found = loaded.iter().chain(&others).map(|part| part.variable(name));
        match found.find_map(Result::transpose) {
            Some(found) => found,
            None => Err(self.no_variable(name)),
        }
    }

    fn no_variable(&self, name: &str) -> GpuError {
        let texts: Vec<_> = self.parts.iter().map(|part| part.text()).collect();
        let own =
            texts.iter().flat_map(|text| variables::names(text)).filter(|name| is_named(name));
        let mut candidates: Vec<String> = own.map(str::to_owned).collect();
        candidates.sort_unstable();
        candidates.dedup();
        nearest_first(name, &mut candidates);
        GpuError::NoGlobal { name: name.to_owned(), candidates }
    }

    /// Whether the driver has any of it.
    pub(super) fn is_loaded(&self) -> bool {
        self.parts.iter().any(|part| part.is_loaded())
    }

    pub(super) fn load_all(&self) -> GpuResult<()> {
        let rest: Vec<&LoadUnit> =
            self.parts.iter().map(|part| &**part).filter(|part| !part.is_resident()).collect();
        in_parallel(&rest, |part| part.make_resident())
    }

    /// Loads the parts that are this text's alone, and looks up their kernels.
    pub(super) fn look_up_own(&self) -> GpuResult<()> {
        let own: Vec<&LoadUnit> = self.own.iter().map(|part| &**part).collect();
        in_parallel(&own, |part| part.look_up_all())
    }
}

/// The error for a missing kernel, with the kernels that there are, the longest common prefix
/// first.
pub(super) fn not_found(kernel: &str, mut candidates: Vec<String>) -> GpuError {
    nearest_first(kernel, &mut candidates);
    let hint = other_images(kernel, &candidates);
    GpuError::NotFound { kernel: kernel.to_owned(), candidates, hint }
}

/// Sorts names by the length of the prefix that they share with `name`, the longest first.
fn nearest_first(name: &str, candidates: &mut [String]) {
    let shared = |other: &str| name.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    candidates.sort_by(|a, b| shared(b).cmp(&shared(a)).then_with(|| a.cmp(b)));
}

/// Which images have a kernel that a module lacks, where shipped kernels and kernels of the program were
/// taken for each other.
fn other_images(kernel: &str, candidates: &[String]) -> Option<&'static str> {
    let shipped = shipped_kernels();
    let ships = |kernel: &str| shipped.contains(kernel);
    if ships(kernel) {
        return Some(
            "; it ships with this crate: take `gpu.load_module(ferrowarp::shipped::IMAGES)` for it",
        );
    }
    let has_only_shipped = !candidates.is_empty() && candidates.iter().all(|other| ships(other));
    has_only_shipped
        .then_some("; kernels of your own are in `Gpu::with_images(ferrowarp::include_kernels!())`")
}

/// The names of the kernels that ship with this crate, as the indexes of all images name them.
fn shipped_kernels() -> &'static HashSet<String> {
    static NAMES: OnceLock<HashSet<String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let indexes = shipped::IMAGES.iter().filter_map(|image| Text::of_image(image.text()).index);
        indexes.flat_map(|parts| parts.to_vec()).flat_map(|part| part.kernels).collect()
    })
}

/// Does `work` with each part on several threads, because the driver compiles on the calling
/// thread. After an error no further part is started; the error returned is that of the first
/// failing part in order.
fn in_parallel<T: Sync>(parts: &[T], work: impl Fn(&T) -> GpuResult<()> + Sync) -> GpuResult<()> {
    let next = AtomicUsize::new(0);
    let run = || work_off(parts, &next, &work);
    let run_beside = || {
        not_stopped_by_captures();
        run()
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(MOST_THREADS).min(parts.len());
    let failed = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run_beside)).collect();
        let own = run();
        let others =
            others.into_iter().map(|thread| thread.join().unwrap_or_else(|p| resume_unwind(p)));
        others.chain([own]).flatten().min_by_key(|(at, _)| *at)
    });
    failed.map_or(Ok(()), |(_, error)| Err(error))
}

/// Takes one part after the other until none is left, or one fails; then returns its index and the
/// error. Parts are started in order, so all parts before it are done or being done.
fn work_off<T>(
    parts: &[T],
    next: &AtomicUsize,
    work: impl Fn(&T) -> GpuResult<()>,
) -> Option<(usize, GpuError)> {
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        if let Err(error) = work(parts.get(at)?) {
            next.store(parts.len(), Ordering::Relaxed);
            return Some((at, error));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(at: usize) -> GpuResult<()> {
        Err(not_found(&at.to_string(), Vec::new()))
    }

    #[test]
    fn every_part_is_done_once() {
        for count in [0, 1, 2, 3, 100] {
            let done: Vec<_> = (0..count).map(|_| AtomicUsize::new(0)).collect();
            let add = |one: &AtomicUsize| {
                one.fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            in_parallel(&done, add).unwrap();
            assert!(done.into_iter().all(|one| one.into_inner() == 1));
        }
    }

    #[test]
    fn the_error_is_that_of_the_first_part_that_fails() {
        let parts: Vec<usize> = (0..50).collect();
        for _ in 0..20 {
            // The later one ends first wherever two threads are at work.
            let work = |&at: &usize| {
                match at {
                    10 => thread::sleep(std::time::Duration::from_millis(2)),
                    11 => {}
                    _ => return Ok(()),
                }
                fails(at)
            };
            let error = in_parallel(&parts, work).unwrap_err();
            let GpuError::NotFound { kernel, .. } = error else { panic!("{error}") };
            assert_eq!(kernel, "10");
        }
    }

    #[test]
    fn after_an_error_no_further_part_is_begun() {
        let parts: Vec<usize> = (0..10_000).collect();
        let begun = AtomicUsize::new(0);
        let work = |&at: &usize| {
            begun.fetch_add(1, Ordering::Relaxed);
            if at == 0 {
                return fails(at);
            }
            thread::sleep(std::time::Duration::from_micros(50));
            Ok(())
        };
        assert!(in_parallel(&parts, work).is_err());
        assert!(begun.into_inner() < parts.len());
    }

    #[test]
    fn the_nearest_name_is_first() {
        let error = not_found("vecad", vec!["saxpy".to_owned(), "vecadd".to_owned()]);
        let GpuError::NotFound { candidates, .. } = error else { panic!("{error}") };
        assert_eq!(candidates, ["vecadd", "saxpy"]);
    }

    #[cfg(feature = "ops")]
    #[test]
    fn whole_names_of_shipped_kernels_are_known() {
        assert!(shipped_kernels().contains("vecadd"));
        for other in ["vecad", "ecadd", "vecadd(", ""] {
            assert!(!shipped_kernels().contains(other), "{other}");
        }
    }
}
