//! The operating system, as far as the memory of host and device depends on it.

use std::fs;
use std::sync::OnceLock;

use super::visibility::MemoryVisibility;

/// The operating system that this program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Platform {
    /// Linux on a machine of its own, or on a virtual one.
    Linux,
    /// The first Windows Subsystem for Linux, which has no GPU.
    Wsl1,
    /// The second Windows Subsystem for Linux, whose driver is that of Windows.
    Wsl2,
    /// Windows.
    Windows,
    /// macOS, which has no driver.
    MacOs,
    /// Another one, which has no driver.
    Other,
}

impl Platform {
    /// That of this process.
    #[must_use]
    pub fn detect() -> Self {
        static PLATFORM: OnceLock<Platform> = OnceLock::new();
        let read = |name| fs::read_to_string(name).unwrap_or_default();
        *PLATFORM.get_or_init(|| {
            Self::of_system(std::env::consts::OS, || {
                Self::of_linux(&read("/proc/version"), &read("/proc/sys/kernel/osrelease"))
            })
        })
    }

    /// Linux or one of its subsystems in Windows, by the texts of `/proc/version` and
    /// `/proc/sys/kernel/osrelease`: a kernel of Microsoft's, or one that calls itself WSL2.
    #[must_use]
    pub fn of_linux(version: &str, release: &str) -> Self {
        let has = |word| [version, release].iter().any(|text| text.to_lowercase().contains(word));
        // The second one has a kernel of its own, `…-microsoft-standard-WSL2`; the first one imitates 4.4.
        if has("wsl2") || has("microsoft-standard") {
            Self::Wsl2
        } else if has("microsoft") {
            Self::Wsl1
        } else {
            Self::Linux
        }
    }

    fn of_system(name: &str, linux: impl FnOnce() -> Self) -> Self {
        match name {
            "linux" => linux(),
            "windows" => Self::Windows,
            "macos" => Self::MacOs,
            _ => Self::Other,
        }
    }

    /// The most that a driver offers here, whatever the device.
    pub(super) fn best_visibility(self) -> MemoryVisibility {
        match self {
            Self::Linux => MemoryVisibility::System,
            Self::Wsl2 | Self::Windows => MemoryVisibility::Device,
            Self::Wsl1 | Self::MacOs | Self::Other => MemoryVisibility::Explicit,
        }
    }
}

/// Whether this process runs in the second Windows Subsystem for Linux.
#[must_use]
pub fn is_wsl2() -> bool {
    Platform::detect() == Platform::Wsl2
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEBIAN: (&str, &str) = (
        "Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org) (gcc-12) #1 SMP",
        "6.1.0-18-amd64\n",
    );
    const WSL2: (&str, &str) = (
        "Linux version 5.15.90.1-microsoft-standard-WSL2 (oe-user@oe-host) (gcc 9.3.0) #1 SMP",
        "5.15.90.1-microsoft-standard-WSL2\n",
    );
    const WSL1: (&str, &str) = (
        "Linux version 4.4.0-19041-Microsoft (Microsoft@Microsoft.com) (gcc version 5.4.0) #1",
        "4.4.0-19041-Microsoft\n",
    );

    #[test]
    fn a_linux_is_known_by_the_texts_of_its_kernel() {
        let of = |(version, release)| Platform::of_linux(version, release);
        assert_eq!([DEBIAN, WSL2, WSL1].map(of), [Platform::Linux, Platform::Wsl2, Platform::Wsl1]);
        // A kernel that its user has built, and a container that hides one of the files.
        assert_eq!(of(("", "6.6.36-mine-WSL2+")), Platform::Wsl2);
        assert_eq!([of((WSL2.0, "")), of(("", WSL2.1))], [Platform::Wsl2; 2]);
        assert_eq!(of(("", "")), Platform::Linux);
    }

    #[test]
    fn a_system_is_known_by_its_name() {
        let of = |name| Platform::of_system(name, || Platform::Wsl2);
        assert_eq!(of("linux"), Platform::Wsl2);
        assert_eq!(
            ["windows", "macos", "freebsd"].map(of),
            [Platform::Windows, Platform::MacOs, Platform::Other]
        );
    }

    #[test]
    fn this_process_has_the_platform_that_it_was_compiled_for() {
        let linux = [Platform::Linux, Platform::Wsl1, Platform::Wsl2];
        assert_eq!(linux.contains(&Platform::detect()), cfg!(target_os = "linux"));
        assert_eq!(is_wsl2(), Platform::detect() == Platform::Wsl2);
    }
}
