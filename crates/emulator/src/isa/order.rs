//! How strong an access or a fence is.

use super::Modifiers;

/// The memory-model semantics and the scope of an instruction, in a byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order(u8);

/// What an instruction promises about the order of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Semantics {
    /// Nothing; a concurrent access by another thread is a race.
    Weak,
    /// Nothing, but other threads may touch the same cell.
    Relaxed,
    /// What follows stays behind it.
    Acquire,
    /// What came before stays before it.
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

    /// The order that an instruction's words give, by the defaults of the PTX manual.
    pub fn of(opcode: &str, modifiers: &Modifiers<'_>) -> Self {
        use Semantics::{Acquire, AcquireRelease, Relaxed, Release, SequentiallyConsistent, Weak};
        let words = [
            ("relaxed", Relaxed),
            ("acquire", Acquire),
            ("release", Release),
            ("acq_rel", AcquireRelease),
            ("sc", SequentiallyConsistent),
        ];
        let scopes = [
            ("cta", Scope::Block),
            ("cluster", Scope::Cluster),
            ("gpu", Scope::Device),
            ("gl", Scope::Device),
            ("sys", Scope::System),
        ];
        let said = words.into_iter().find(|(word, _)| modifiers.has(word)).map(|(_, own)| own);
        let scope = scopes.into_iter().find(|(word, _)| modifiers.has(word)).map(|(_, own)| own);
        match opcode {
            "membar" => Self::new(SequentiallyConsistent, scope.unwrap_or(Scope::Device)),
            "fence" => Self::new(said.unwrap_or(AcquireRelease), scope.unwrap_or(Scope::System)),
            "atom" | "red" | "multimem" => {
                Self::new(said.unwrap_or(Relaxed), scope.unwrap_or(Scope::Device))
            }
            "mbarrier" => {
                let waits = modifiers.has("test_wait") || modifiers.has("try_wait");
                let own = if waits { Acquire } else { Release };
                Self::new(said.unwrap_or(own), scope.unwrap_or(Scope::Block))
            }
            "cp" if modifiers.has("mbarrier") => Self::new(Release, Scope::Block),
            "ld" | "st" if modifiers.has("volatile") || modifiers.has("mmio") => {
                Self::new(said.unwrap_or(Relaxed), Scope::System)
            }
            _ => Self::new(said.unwrap_or(Weak), scope.unwrap_or(Scope::Block)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(text: &str) -> (Semantics, Scope) {
        let (opcode, rest) = text.split_once('.').unwrap();
        let words: Vec<String> = rest.split('.').map(str::to_owned).collect();
        let order = Order::of(opcode, &Modifiers(&words));
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
