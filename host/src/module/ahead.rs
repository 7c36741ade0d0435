//! Module parts that the driver compiles while the rest of the PTX is read.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use ptx_format::index::ModulePart;

use super::arch::target;
use super::part::{LoadUnit, PartText, not_stopped_by_captures};
use crate::context::Context;

/// Parts that are being compiled, for a text that has equal parts.
#[derive(Debug, Default)]
pub(crate) struct HeadStart {
    parts: Vec<Arc<LoadUnit>>,
    threads: Vec<JoinHandle<()>>,
}

impl HeadStart {
    /// Begins to compile parts, each on a thread of its own.
    pub(crate) fn new(context: &Arc<Context>, parts: Vec<(ModulePart, String)>) -> Self {
        let part = |(part, ptx): (ModulePart, String)| {
            let arch = Arc::from(target(&ptx));
            Arc::new(LoadUnit::new(context, &arch, PartText::Alone(part, ptx)))
        };
        let parts: Vec<_> = parts.into_iter().map(part).collect();
        let load = |part: Arc<LoadUnit>| {
            move || {
                not_stopped_by_captures();
                // After an error, the use of the part loads it again and reports the error.
                let _ = part.load();
            }
        };
        // Without a thread the part is compiled when it is asked for.
        let begin = |part: &Arc<LoadUnit>| thread::Builder::new().spawn(load(part.clone())).ok();
        let threads = parts.iter().filter_map(begin).collect();
        Self { parts, threads }
    }

    /// The part with this hash.
    pub(super) fn part(&self, hash: u64) -> Option<&Arc<LoadUnit>> {
        self.parts.iter().find(|part| part.hash() == Some(hash))
    }
}

/// Waits until no part is being compiled.
impl Drop for HeadStart {
    fn drop(&mut self) {
        // A thread that panicked has said so; its part is not loaded.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

#[cfg(test)]
mod tests {
    use cuda_driver::injection;

    use super::*;
    use crate::module::{KernelModule, Text};
    use crate::{Backend, Gpu};

    /// One part: `edited` with a number in it. So one thread alone compiles it.
    fn text(number: &str) -> String {
        let body = format!(".reg .b32 %r<2>;\nmov.u32 %r1, {number};\nret;\n");
        let head = ".version 7.0\n.target sm_70\n.address_size 64\n";
        cuda_builder::with_parts(&format!("{head}.visible .entry edited()\n{{\n{body}}}\n"))
    }

    /// The part of a text, and what it is to be made from.
    fn part(ptx: &str, from: &str) -> (ModulePart, String) {
        let parts = |ptx| cuda_builder::parts(ptx).expect("the text has parts");
        (parts(ptx).remove(0), parts(from)[0].text(from))
    }

    /// How many parts this thread has compiled for a text of which these parts were compiled before.
    fn compiled(gpu: &Gpu, ptx: &str, ahead: Vec<(ModulePart, String)>) -> usize {
        let context = gpu.stream().inner().context();
        let mut ahead = HeadStart::new(context, ahead);
        // Otherwise it is open who comes first.
        ahead.threads.drain(..).for_each(|thread| thread.join().expect("a load does not panic"));
        let (module, calls) = injection::watch(|| {
            let text = Text::begun(ptx.to_owned(), ahead);
            let module = KernelModule::from_ptx(context, "sm_70", &text, &[]);
            module.look_up_all().expect("the kernels are right");
            module
        });
        let (_, expected) = part(ptx, ptx);
        assert_eq!(module.text_of("edited").as_deref(), Some(&*expected));
        module.unload_unused();
        calls.iter().filter(|call| call.function == "cuLibraryLoadData").count()
    }

    #[test]
    fn a_part_that_was_begun_is_not_compiled_again() {
        let gpu = Gpu::new().unwrap();
        if gpu.backend() != Backend::Emulator {
            return;
        }
        let ptx = text("2");
        assert_eq!(compiled(&gpu, &ptx, Vec::new()), 1);
        assert_eq!(compiled(&gpu, &ptx, vec![part(&ptx, &ptx)]), 0);
    }

    #[test]
    fn what_was_begun_of_another_text_is_of_no_use() {
        let gpu = Gpu::new().unwrap();
        if gpu.backend() != Backend::Emulator {
            return;
        }
        let (ptx, before) = (text("2"), text("1"));
        // Under its own number, and under that of the new one.
        assert_eq!(compiled(&gpu, &ptx, vec![part(&before, &before)]), 1);
        assert_eq!(compiled(&gpu, &ptx, vec![part(&ptx, &before)]), 1);
    }

    #[test]
    fn what_does_not_load_is_told_by_who_uses_it() {
        let gpu = Gpu::new().unwrap();
        let ptx = text("nothing");
        let context = gpu.stream().inner().context();
        let text = Text::begun(ptx.clone(), HeadStart::new(context, vec![part(&ptx, &ptx)]));
        let module = KernelModule::from_ptx(context, "sm_70", &text, &[]);
        let error = module.look_up_all().unwrap_err().to_string();
        assert!(error.contains("loading the kernel `edited`"), "{error}");
    }
}
