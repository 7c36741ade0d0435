//! Whether kernels reach plain host memory (HMM, ATS), and what the machine lacks where they do not.

use std::fs;
use std::path::Path;

use ferrowarp::device::{Backend, DeviceInfo};
use ferrowarp::memory::{HostPages, Platform};

/// What a machine says of itself, as far as plain host memory in kernels depends on it.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub(super) platform: Platform,
    /// Version of the Linux kernel.
    pub(super) kernel: Option<[u32; 3]>,
    pub(super) modules: Option<KernelModules>,
}

/// What the kernel says of NVIDIA's modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelModules {
    /// They are the open ones.
    pub(super) open: bool,
    /// They were loaded without HMM.
    pub(super) hmm_disabled: bool,
    /// The driver's major version, such as 580.
    pub(super) driver: Option<u32>,
}

/// A requirement that is not met, and the fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lack {
    pub(super) found: String,
    pub(super) fix: &'static str,
}

impl Machine {
    /// This machine, or in tests a folder in its place. A build for another system reads nothing.
    pub(super) fn of(root: &Path, platform: Platform) -> Self {
        let release = read(root, "proc/sys/kernel/osrelease");
        let kernel = release.and_then(|release| version(&release));
        Self { platform, kernel, modules: kernel_modules(root) }
    }

    /// What HMM and ATS need and this machine, with that device, does not have.
    pub(super) fn lacks(&self, device: &DeviceInfo) -> Vec<Lack> {
        if self.platform != Platform::Linux {
            return vec![self.other_system()];
        }
        let all = [old_gpu(device), self.old_kernel(), self.old_driver(), self.unfit_modules()];
        all.into_iter().flatten().collect()
    }

    fn other_system(&self) -> Lack {
        let found = match self.platform {
            Platform::Wsl1 | Platform::Wsl2 => "this is WSL, whose driver has neither",
            Platform::Windows => "this is Windows, whose driver has neither",
            _ => "no driver has either on this system",
        };
        Lack::new(found, "use Linux on the machine itself; buffers work here")
    }

    fn old_kernel(&self) -> Option<Lack> {
        let [x, y, z] = self.kernel.filter(|kernel| !has_hmm(*kernel))?;
        Some(Lack::new(format!("the kernel is Linux {x}.{y}.{z}"), REQUIREMENTS))
    }

    fn old_driver(&self) -> Option<Lack> {
        let driver = self.modules?.driver.filter(|driver| *driver < 535)?;
        Some(Lack::new(format!("the driver is {driver}"), "update the driver to 535 or later"))
    }

    fn unfit_modules(&self) -> Option<Lack> {
        let open =
            "install the open kernel modules of driver 535 or later (`apt install nvidia-open`)";
        let on = "load the module nvidia_uvm with `uvm_disable_hmm=0` (a file in /etc/modprobe.d), and restart";
        let (found, fix) = match self.modules {
            None => ("the driver's kernel modules do not describe themselves", REQUIREMENTS),
            Some(KernelModules { hmm_disabled: true, .. }) => {
                ("the module nvidia_uvm was loaded with uvm_disable_hmm", on)
            }
            Some(KernelModules { open: false, .. }) => {
                ("the driver's kernel modules are the closed ones", open)
            }
            Some(_) => return None,
        };
        Some(Lack::new(found, fix))
    }

    /// A line on how kernels of the device reach plain host memory, or why they do not.
    pub(super) fn describe(&self, device: &DeviceInfo, backend: Backend) -> String {
        match HostPages::of(device, backend) {
            HostPages::Migrated => {
                "HMM: kernels use it in place, and the driver migrates its pages".into()
            }
            HostPages::Shared => "ATS: kernels use it in place, by the host's page tables".into(),
            HostPages::Emulated => {
                "emulated: kernels use the slices and values that they are lent".into()
            }
            _ => {
                let lacks = self.lacks(device);
                let why: Vec<_> = lacks.iter().map(|lack| &*lack.found).collect();
                let why = if why.is_empty() {
                    "the driver does not say why".into()
                } else {
                    why.join("; ")
                };
                format!("neither HMM nor ATS (attribute PAGEABLE_MEMORY_ACCESS is 0): {why}")
            }
        }
    }
}

/// What all of it takes.
pub(super) const REQUIREMENTS: &str = "it takes Linux 6.1.24, 6.2.11 or later, the open kernel modules of driver 535 or later, and Turing \
                      or newer";
impl Lack {
    fn new(found: impl Into<String>, fix: &'static str) -> Self {
        Self { found: found.into(), fix }
    }
}

fn old_gpu(device: &DeviceInfo) -> Option<Lack> {
    let (major, minor) = device.compute_capability;
    let found = || format!("the GPU has compute capability {major}.{minor}");
    ((major, minor) < (7, 5)).then(|| Lack::new(found(), "it takes Turing (7.5) or newer"))
}

/// Whether NVIDIA's modules have HMM on that kernel of kernel.org. A distribution may have brought it to an older one,
/// so that this explains what the driver says and decides nothing.
fn has_hmm(kernel: [u32; 3]) -> bool {
    match kernel {
        [6, 1, patch] => patch >= 24,
        [6, 2, patch] => patch >= 11,
        _ => kernel > [6, 2, 0],
    }
}

/// The first three numbers of a kernel's release, such as `6.1.0-18-amd64`.
fn version(release: &str) -> Option<[u32; 3]> {
    let end = release.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(release.len());
    let mut numbers = release[..end].split('.').map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten();
    Some([next()?, next()?, next().unwrap_or(0)])
}

fn kernel_modules(root: &Path) -> Option<KernelModules> {
    let text = read(root, "proc/driver/nvidia/version")?;
    let disabled = read(root, "sys/module/nvidia_uvm/parameters/uvm_disable_hmm");
    let hmm_disabled = disabled.is_some_and(|value| matches!(value.trim(), "Y" | "1"));
    Some(KernelModules {
        open: text.contains("Open Kernel Module"),
        hmm_disabled,
        driver: driver(&text),
    })
}

/// The major version in the line of the modules: `NVRM version: NVIDIA UNIX … Module  580.65.06  Release …`.
fn driver(text: &str) -> Option<u32> {
    let is_version =
        |word: &&str| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.');
    text.lines().next()?.split_whitespace().find(is_version)?.split('.').next()?.parse().ok()
}

pub(super) fn read(root: &Path, name: &str) -> Option<String> {
    fs::read_to_string(root.join(name)).ok()
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    const OPEN: &str = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (root@x)\nGCC version: 12.2.0";
    const CLOSED: &str =
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  525.105.17  Tue Mar 28 18:02:59 UTC 2023";

    /// A machine that has these files.
    fn files(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        root
    }

    fn machine(release: &str, modules: &str, disabled: &str) -> Machine {
        let root = files(&[
            ("proc/sys/kernel/osrelease", release),
            ("proc/driver/nvidia/version", modules),
            ("sys/module/nvidia_uvm/parameters/uvm_disable_hmm", disabled),
        ]);
        Machine::of(root.path(), Platform::Linux)
    }

    /// A device of this machine with these attributes.
    fn device(capability: (u32, u32), pageable: bool, host_tables: bool) -> DeviceInfo {
        let mut device = ferrowarp::device::devices().unwrap().remove(0);
        device.compute_capability = capability;
        (device.pageable_memory_access, device.uses_host_page_tables) = (pageable, host_tables);
        device
    }

    #[test]
    fn versions_are_read_from_the_kernels_texts() {
        assert_eq!(version("6.1.0-18-amd64\n"), Some([6, 1, 0]));
        assert_eq!(version("6.8-rc1"), Some([6, 8, 0]));
        assert_eq!([version("six"), version("6"), version("")], [None; 3]);
        assert_eq!([driver(OPEN), driver(CLOSED), driver("NVRM")], [Some(580), Some(525), None]);
        let modules = |text, disabled| machine("6.1.0", text, disabled).modules;
        let open = KernelModules { open: true, hmm_disabled: false, driver: Some(580) };
        assert_eq!(modules(OPEN, "N\n"), Some(open));
        let closed = KernelModules { open: false, hmm_disabled: true, driver: Some(525) };
        assert_eq!(modules(CLOSED, "Y\n"), Some(closed));
        assert_eq!(Machine::of(files(&[]).path(), Platform::Linux).modules, None);
    }

    #[test]
    fn hmm_is_in_kernels_from_6_1_24_on() {
        for (kernel, expected) in [
            ([5, 15, 200], false),
            ([6, 0, 30], false),
            ([6, 1, 23], false),
            ([6, 1, 24], true),
            ([6, 2, 10], false),
            ([6, 2, 11], true),
            ([6, 3, 0], true),
            ([7, 0, 0], true),
        ] {
            assert_eq!(has_hmm(kernel), expected, "{kernel:?}");
        }
    }

    #[test]
    fn each_requirement_is_named_where_it_is_not_met() {
        let without = device((9, 0), false, false);
        let lacks = |machine: &Machine, device: &DeviceInfo| {
            machine.lacks(device).into_iter().map(|lack| lack.found).collect::<Vec<_>>().join("; ")
        };
        let good = machine("6.12.1-amd64", OPEN, "N");
        assert_eq!(lacks(&good, &without), "");
        assert!(lacks(&good, &device((7, 0), false, false)).contains("capability 7.0"));
        assert!(lacks(&machine("5.15.0-91", OPEN, "N"), &without).contains("Linux 5.15.0"));
        assert!(lacks(&machine("6.12.1", OPEN, "Y"), &without).contains("uvm_disable_hmm"));
        let closed = lacks(&machine("6.12.1", CLOSED, "N"), &without);
        assert_eq!(closed, "the driver is 525; the driver's kernel modules are the closed ones");
        for (platform, word) in
            [(Platform::Wsl2, "WSL"), (Platform::Windows, "Windows"), (Platform::MacOs, "system")]
        {
            let lacks = lacks(&Machine { platform, ..good.clone() }, &without);
            assert!(lacks.contains(word) && !lacks.contains(';'), "{lacks}");
        }
    }

    #[test]
    fn a_line_says_which_it_is_or_why_not() {
        let good = machine("6.12.1", OPEN, "N");
        let line = |machine: &Machine, pageable, tables, backend| {
            machine.describe(&device((9, 0), pageable, tables), backend)
        };
        assert!(line(&good, true, false, Backend::Cuda).starts_with("HMM: "));
        assert!(line(&good, true, true, Backend::Cuda).starts_with("ATS: "));
        assert!(line(&good, false, false, Backend::Emulator).starts_with("emulated: "));
        let unknown = line(&good, false, false, Backend::Cuda);
        assert!(unknown.contains("PAGEABLE_MEMORY_ACCESS is 0): the driver does not"), "{unknown}");
        let why = line(&machine("5.15.0", CLOSED, "N"), false, false, Backend::Cuda);
        assert!(why.contains("Linux 5.15.0; the driver is 525; the driver's kernel"), "{why}");
    }
}
