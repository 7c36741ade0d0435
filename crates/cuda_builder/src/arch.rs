//! The GPU architectures that a kernel crate can be compiled for.

use std::fmt;

/// Which GPUs the PTX of an architecture runs on, as its suffix says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suffix {
    /// This GPU and every later one.
    Base,
    /// This GPU and the later ones of its family (the same major version).
    Family,
    /// This GPU alone.
    Architecture,
}

use Suffix::{Architecture, Base, Family};

/// One row a variant: its name, its capability (major × 10 + minor), its suffix.
macro_rules! architectures {
    ($($variant:ident $capability:literal $suffix:ident),* $(,)?) => {
        /// A virtual GPU architecture: what the PTX may use, and so which GPUs it runs on.
        ///
        /// `Compute90` is compute capability 9.0. PTX without a suffix runs on that GPU and on all
        /// later ones; with `f`, on the later ones of the same family; with `a`, on that GPU alone.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum NvvmArch {
            $(
                #[doc = concat!("Compute capability ", $capability, " / 10 (",
                    stringify!($suffix), " variant).")]
                $variant,
            )*
        }

        impl NvvmArch {
            /// Every architecture, oldest first.
            pub const ALL: &'static [NvvmArch] = &[$(NvvmArch::$variant),*];

            fn row(self) -> (u32, Suffix) {
                match self {
                    $(NvvmArch::$variant => ($capability, $suffix),)*
                }
            }
        }
    };
}

architectures! {
    Compute50 50 Base,
    Compute52 52 Base,
    Compute53 53 Base,
    Compute60 60 Base,
    Compute61 61 Base,
    Compute62 62 Base,
    Compute70 70 Base,
    Compute72 72 Base,
    Compute73 73 Base,
    Compute75 75 Base,
    Compute80 80 Base,
    Compute86 86 Base,
    Compute87 87 Base,
    Compute88 88 Base,
    Compute89 89 Base,
    Compute90 90 Base,
    Compute90a 90 Architecture,
    Compute100 100 Base,
    Compute100f 100 Family,
    Compute100a 100 Architecture,
    Compute101 101 Base,
    Compute101f 101 Family,
    Compute101a 101 Architecture,
    Compute103 103 Base,
    Compute103f 103 Family,
    Compute103a 103 Architecture,
    Compute110 110 Base,
    Compute110f 110 Family,
    Compute110a 110 Architecture,
    Compute120 120 Base,
    Compute120f 120 Family,
    Compute120a 120 Architecture,
    Compute121 121 Base,
    Compute121f 121 Family,
    Compute121a 121 Architecture,
}

impl Default for NvvmArch {
    /// `Compute75`, rust-cuda's default.
    fn default() -> Self {
        NvvmArch::Compute75
    }
}

impl NvvmArch {
    /// The compute capability as one number: 90 for 9.0, 121 for 12.1.
    pub fn capability_value(&self) -> u32 {
        self.row().0
    }

    /// The major version of the compute capability: 9 for 9.0.
    pub fn major_version(&self) -> u32 {
        self.capability_value() / 10
    }

    /// The minor version of the compute capability: 6 for 8.6.
    pub fn minor_version(&self) -> u32 {
        self.capability_value() % 10
    }

    /// The name that `cfg(target_feature = "…")` knows it by: `compute_90a`.
    pub fn target_feature(&self) -> String {
        format!("compute_{}{}", self.capability_value(), self.letter())
    }

    /// The name that the compiler, the assembler and the PTX know it by: `sm_90a`.
    pub fn target_cpu(&self) -> String {
        format!("sm_{}{}", self.capability_value(), self.letter())
    }

    /// Every `target_feature` that code for this architecture may rely on, oldest first.
    ///
    /// These are all base variants up to its capability; an `f` variant has the family variants
    /// of its major version up to its capability beside them, and an `a` variant has itself too.
    pub fn all_target_features(&self) -> Vec<String> {
        let includes = |other: &&NvvmArch| self.includes(**other);
        Self::ALL.iter().filter(includes).map(NvvmArch::target_feature).collect()
    }

    /// Whether it has no suffix.
    pub fn is_base_variant(&self) -> bool {
        self.row().1 == Base
    }

    /// Whether its suffix is `f`.
    pub fn is_family_variant(&self) -> bool {
        self.row().1 == Family
    }

    /// Whether its suffix is `a`.
    pub fn is_architecture_variant(&self) -> bool {
        self.row().1 == Architecture
    }

    /// The variant of the same capability without a suffix.
    pub fn base_architecture(&self) -> NvvmArch {
        self.get_variants().into_iter().find(NvvmArch::is_base_variant).unwrap_or(*self)
    }

    /// Every variant of this one's capability, itself included.
    pub fn get_variants(&self) -> Vec<NvvmArch> {
        Self::variants_for_capability(self.capability_value())
    }

    /// Every variant of a capability (90, say); none where the capability is unknown.
    pub fn variants_for_capability(capability: u32) -> Vec<NvvmArch> {
        let same = |arch: &NvvmArch| arch.capability_value() == capability;
        Self::ALL.iter().copied().filter(same).collect()
    }

    fn includes(self, other: NvvmArch) -> bool {
        let not_later = other.capability_value() <= self.capability_value();
        match other.row().1 {
            Base => not_later,
            Family => {
                let same_family = other.major_version() == self.major_version();
                !self.is_base_variant() && same_family && not_later
            }
            Architecture => other == self,
        }
    }

    fn letter(self) -> &'static str {
        match self.row().1 {
            Base => "",
            Family => "f",
            Architecture => "a",
        }
    }
}

impl fmt::Display for NvvmArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.target_feature())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_35() {
        assert_eq!(NvvmArch::ALL.len(), 35);
        assert_eq!(NvvmArch::default(), NvvmArch::Compute75);
    }

    #[test]
    fn versions_come_from_the_capability() {
        let arch = NvvmArch::Compute121f;
        assert_eq!((arch.major_version(), arch.minor_version()), (12, 1));
        assert_eq!(
            (arch.target_feature(), arch.target_cpu()),
            ("compute_121f".into(), "sm_121f".into())
        );
        assert_eq!(arch.base_architecture(), NvvmArch::Compute121);
    }

    #[test]
    fn every_name_reads_back() {
        for arch in NvvmArch::ALL {
            assert_eq!(arch.to_string().parse::<NvvmArch>().unwrap(), *arch);
            assert_eq!(arch.target_cpu().parse::<NvvmArch>().unwrap(), *arch);
        }
        assert!("sm_42".parse::<NvvmArch>().is_err());
    }

    #[test]
    fn variants_share_a_capability() {
        let hopper = [NvvmArch::Compute90, NvvmArch::Compute90a];
        assert_eq!(NvvmArch::Compute90.get_variants(), hopper);
        assert_eq!(NvvmArch::variants_for_capability(42), []);
    }

    #[test]
    fn features_follow_ptx_compatibility() {
        let base = NvvmArch::Compute53.all_target_features();
        assert_eq!(base, ["compute_50", "compute_52", "compute_53"]);
        let family = NvvmArch::Compute103f.all_target_features();
        assert!(
            family.contains(&"compute_100f".into()) && !family.contains(&"compute_100a".into())
        );
        let architecture = NvvmArch::Compute103a.all_target_features();
        assert!(architecture.contains(&"compute_103f".into()));
        assert!(!architecture.contains(&"compute_90a".into()));
        assert!(!NvvmArch::Compute120.all_target_features().contains(&"compute_120f".into()));
    }
}
