//! A PTX text and its parts.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::part::{Part, not_stopped_by_captures};
use super::{Image, Text};
use crate::context::Context;
use crate::error::{GpuError, GpuResult};

/// A text, and what it is for.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) arch: Cow<'static, str>,
    pub(super) text: Text,
    /// Whether it is part of the program.
    pub(super) is_image: bool,
}

/// The parts of a text on a device.
#[derive(Debug)]
pub(super) struct Program {
    source: Arc<Source>,
    /// Each is loaded alone. One, if the text does not say more.
    parts: Vec<Arc<Part>>,
    /// Which part has which kernel, where the text says it.
    by_kernel: HashMap<String, usize>,
}

impl Program {
    pub(super) fn of_image(context: &Arc<Context>, image: Image) -> Self {
        let (arch, text) = (image.arch.into(), Text::embedded(image.ptx));
        let source = Source { arch, text, is_image: true };
        Self::new(context, source, &[])
    }

    /// A text that is no part of the program. The parts that one of `others` has too are that one's.
    pub(super) fn of_text(
        context: &Arc<Context>,
        arch: String,
        text: Text,
        others: &[&Self],
    ) -> Self {
        let source = Source { arch: arch.into(), text, is_image: false };
        Self::new(context, source, others)
    }

    fn new(context: &Arc<Context>, source: Source, others: &[&Self]) -> Self {
        let source = Arc::new(source);
        let same_arch = others.iter().filter(|other| other.source.arch == source.arch);
        let theirs: HashMap<u64, &Arc<Part>> = same_arch
            .flat_map(|other| &other.parts)
            .filter_map(|part| Some((part.hash()?, part)))
            .collect();
        let index = source.text.parts().unwrap_or_default();
        let of_index = index.iter().enumerate().map(|(at, part)| {
            let known = theirs.get(&part.hash).map(|part| Arc::clone(part));
            known.unwrap_or_else(|| Arc::new(Part::new(context, &source, Some(at))))
        });
        let mut parts: Vec<Arc<Part>> = of_index.collect();
        if parts.is_empty() {
            parts.push(Arc::new(Part::new(context, &source, None)));
        }
        let kernels = index
            .iter()
            .enumerate()
            .flat_map(|(at, part)| part.kernels.iter().map(move |kernel| (kernel.clone(), at)));
        let by_kernel = kernels.collect();
        Self { source, parts, by_kernel }
    }

    pub(super) fn arch(&self) -> &str {
        &self.source.arch
    }

    pub(super) fn text(&self) -> &Text {
        &self.source.text
    }

    /// The part that has a kernel, or may have it.
    pub(super) fn part(&self, kernel: &str) -> Option<&Arc<Part>> {
        match self.text().parts() {
            Some(_) => self.by_kernel.get(kernel).map(|at| &self.parts[*at]),
            None => self.parts.first(),
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

    /// Whether the driver has any of it.
    pub(super) fn is_loaded(&self) -> bool {
        self.parts.iter().any(|part| part.is_loaded())
    }

    pub(super) fn load_all(&self) -> GpuResult<()> {
        let rest: Vec<&Part> =
            self.parts.iter().map(|part| &**part).filter(|part| !part.is_loaded()).collect();
        in_parallel(&rest, Part::load)
    }

    /// Loads the parts that are this text's alone, and looks up their kernels.
    pub(super) fn look_up_own(&self) -> GpuResult<()> {
        let own = self.parts.iter().filter(|part| part.is_of(&self.source));
        let own: Vec<&Part> = own.map(|part| &**part).collect();
        in_parallel(&own, Part::look_up_all)
    }
}

/// That a text has no such kernel, but others, those that begin most like it first.
pub(super) fn not_found(kernel: &str, mut candidates: Vec<String>) -> GpuError {
    let shared =
        |other: &str| kernel.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    candidates.sort_by(|a, b| shared(b).cmp(&shared(a)).then_with(|| a.cmp(b)));
    GpuError::NotFound { kernel: kernel.to_owned(), candidates }
}

/// Does `work` with each part, several at a time: a driver compiles on the thread that asks. After an error
/// no further one is begun.
fn in_parallel(parts: &[&Part], work: fn(&Part) -> GpuResult<()>) -> GpuResult<()> {
    let next = AtomicUsize::new(0);
    let run = || -> GpuResult<()> {
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            work(part).inspect_err(|_| next.store(parts.len(), Ordering::Relaxed))?;
        }
        Ok(())
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let others = (1..cores.min(parts.len())).map(|_| {
            scope.spawn(|| {
                not_stopped_by_captures();
                run()
            })
        });
        let others: Vec<_> = others.collect();
        let own = run();
        let ended = others.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        ended.fold(own, GpuResult::and)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_first() {
        let error = not_found("vecad", vec!["saxpy".to_owned(), "vecadd".to_owned()]);
        let GpuError::NotFound { candidates, .. } = error else { panic!("{error}") };
        assert_eq!(candidates, ["vecadd", "saxpy"]);
    }
}
