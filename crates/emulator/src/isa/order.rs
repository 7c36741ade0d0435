//! Memory order: the semantics and the scope of an access or a fence.

use super::Modifiers;

/// The memory-model semantics and the scope of an instruction, in a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order(u8);

/// What an instruction promises about the order of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semantics {
    /// No order; a concurrent conflicting access of another thread is a race.
    Weak,
    /// No order, but concurrent accesses of other threads are no race.
    Relaxed,
    /// Later accesses stay after it.
    Acquire,
    /// Earlier accesses stay before it.
    Release,
    /// Both.
    AcquireRelease,
    /// Both, in one order for all threads.
    SequentiallyConsistent,
}

/// The threads that an instruction's promise is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Those of the block.
    Block,
    /// Those of the cluster.
    Cluster,
    /// Those of the device.
    Device,
    /// All, and the host.
    System,
}

impl Order {
    /// A weak access.
    pub const WEAK: Self = Self(0);

    /// An order.
    pub const fn new(semantics: Semantics, scope: Scope) -> Self {
        Self(semantics as u8 | (scope as u8) << 4)
    }

    /// Semantics.
    pub fn semantics(self) -> Semantics {
        match self.0 & 15 {
            0 => Semantics::Weak,
            1 => Semantics::Relaxed,
            2 => Semantics::Acquire,
            3 => Semantics::Release,
            4 => Semantics::AcquireRelease,
            _ => Semantics::SequentiallyConsistent,
        }
    }

    /// Scope.
    pub fn scope(self) -> Scope {
        match self.0 >> 4 {
            0 => Scope::Block,
            1 => Scope::Cluster,
            2 => Scope::Device,
            _ => Scope::System,
        }
    }
}

/// The semantics and the scope that the modifiers spell, or those of the default.
fn spelled_or(modifiers: &Modifiers<'_>, semantics: Semantics, scope: Scope) -> Order {
    use Semantics::{Acquire, AcquireRelease, Relaxed, Release, SequentiallyConsistent};
    let semantics_words = [
        ("relaxed", Relaxed),
        ("acquire", Acquire),
        ("release", Release),
        ("acq_rel", AcquireRelease),
        ("sc", SequentiallyConsistent),
    ];
    let scope_words = [
        ("cta", Scope::Block),
        ("cluster", Scope::Cluster),
        ("gpu", Scope::Device),
        ("gl", Scope::Device),
        ("sys", Scope::System),
    ];
    let spelled = semantics_words.into_iter().find(|(word, _)| modifiers.has(word));
    let spelled_scope = scope_words.into_iter().find(|(word, _)| modifiers.has(word));
    Order::new(spelled.map_or(semantics, |own| own.1), spelled_scope.map_or(scope, |own| own.1))
}

/// What the modifiers spell; weak where they spell nothing.
pub fn spelled(modifiers: &Modifiers<'_>) -> Order {
    spelled_or(modifiers, Semantics::Weak, Scope::Block)
}

/// Of a load or a store. `.volatile` and `.mmio` are relaxed with the scope of the system.
pub fn access(modifiers: &Modifiers<'_>) -> Order {
    match modifiers.one_of(&["volatile", "mmio"]) {
        Some(_) => Order::new(Semantics::Relaxed, Scope::System),
        None => spelled(modifiers),
    }
}

/// Of a read-modify-write: relaxed with the scope of the device where nothing is spelled.
pub fn atomic(modifiers: &Modifiers<'_>) -> Order {
    spelled_or(modifiers, Semantics::Relaxed, Scope::Device)
}

/// Of `fence`: acquire-release with the scope of the system where nothing is spelled.
pub fn fence(modifiers: &Modifiers<'_>) -> Order {
    spelled_or(modifiers, Semantics::AcquireRelease, Scope::System)
}

/// Of `membar`: sequentially consistent with the scope of the device where none is spelled.
pub fn membar(modifiers: &Modifiers<'_>) -> Order {
    spelled_or(modifiers, Semantics::SequentiallyConsistent, Scope::Device)
}

/// Of what arrives at an mbarrier: a release to the block where nothing else is spelled.
pub fn arrival(modifiers: &Modifiers<'_>) -> Order {
    spelled_or(modifiers, Semantics::Release, Scope::Block)
}

/// Of a wait for an mbarrier: an acquire from the block where nothing else is spelled.
pub fn wait(modifiers: &Modifiers<'_>) -> Order {
    spelled_or(modifiers, Semantics::Acquire, Scope::Block)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::table::form_of;
    use crate::ptx::ast::Word;

    fn order(text: &str) -> (Semantics, Scope) {
        let mut words = text.split('.').map(Word::from);
        let (opcode, words) = (words.next().unwrap(), words.collect::<Vec<_>>());
        let (form, modifiers) = (form_of(&opcode, &words), Modifiers(&words));
        let order = (form.properties.order)(&modifiers);
        (order.semantics(), order.scope())
    }

    #[test]
    fn orders_have_the_manuals_defaults() {
        use Semantics::*;
        assert_eq!(order("ld.global.u32").0, Weak);
        assert_eq!(order("ld.volatile.global.u32"), (Relaxed, Scope::System));
        assert_eq!(order("ld.acquire.gpu.global.u32"), (Acquire, Scope::Device));
        assert_eq!(order("st.release.cta.shared.u32"), (Release, Scope::Block));
        assert_eq!(order("atom.global.add.u32"), (Relaxed, Scope::Device));
        assert_eq!(order("atom.acq_rel.sys.global.add.u32"), (AcquireRelease, Scope::System));
        assert_eq!(order("membar.gl"), (SequentiallyConsistent, Scope::Device));
        assert_eq!(order("fence.acq_rel.cta"), (AcquireRelease, Scope::Block));
        assert_eq!(order("fence.sc.cluster"), (SequentiallyConsistent, Scope::Cluster));
    }
}
