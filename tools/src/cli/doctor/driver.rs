//! The driver, the device, and kernels that use plain host memory (HMM).

use cuda_driver::{InstalledDriver, Unusable};
use ferrowarp::device::{Backend, DeviceInfo};
use ferrowarp::error::GpuError;

use super::line::Line;
use crate::cli::host_pages::{Lack, Machine, REQUIREMENTS};

/// The oldest compute capability that the shipped kernels run on.
const OLDEST: (u32, u32) = (8, 0);

/// Why the machine must have a driver, if it must.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needed {
    /// The machine has a GPU of NVIDIA.
    ByGpu,
    /// `FERROWARP_DEVICE=cuda`.
    ByVariable,
    /// The emulator serves.
    No,
}

impl Needed {
    pub(super) fn of(requested: Option<&str>, has_gpu: bool) -> Self {
        match requested {
            Some("emulator") => Self::No,
            Some("cuda") => Self::ByVariable,
            _ if has_gpu => Self::ByGpu,
            _ => Self::No,
        }
    }
}

pub(super) fn driver(
    installed: &Result<InstalledDriver, Unusable>,
    needed: Needed,
    wsl: Option<u32>,
) -> Line {
    const NAME: &str = "driver";
    let why = match installed {
        Ok(driver) => return Line::right(NAME, described(driver)),
        Err(why) => why,
    };
    match needed {
        Needed::No => Line::right(NAME, format!("not needed by the emulator ({why})")),
        Needed::ByGpu => {
            Line::wrong(NAME, format!("this machine has an NVIDIA GPU, but {why}"), fix(why, wsl))
        }
        Needed::ByVariable => {
            let fix = format!("{}; or unset FERROWARP_DEVICE to use the emulator", fix(why, wsl));
            Line::wrong(NAME, format!("FERROWARP_DEVICE is `cuda`, but {why}"), fix)
        }
    }
}

fn described(driver: &InstalledDriver) -> String {
    let (major, minor) = (driver.cuda_version / 1000, driver.cuda_version % 1000 / 10);
    let devices = if driver.devices == 1 { "device" } else { "devices" };
    format!("{}, CUDA {major}.{minor}, {} {devices}", driver.library, driver.devices)
}

/// What to do about a driver that cannot be used.
fn fix(why: &Unusable, wsl: Option<u32>) -> String {
    match why {
        Unusable::Refused { code, .. } => refused(*code).to_owned(),
        Unusable::NoDevice => refused(100).to_owned(),
        Unusable::Front(_) => {
            "set FERROWARP_CUDA_LIBRARY to the file of NVIDIA's library".to_owned()
        }
        Unusable::Incomplete(_) => "update the driver".to_owned(),
        _ => not_installed(wsl).to_owned(),
    }
}

fn not_installed(wsl: Option<u32>) -> &'static str {
    if wsl.is_some() {
        "install the NVIDIA driver on Windows (never one inside WSL), then run `wsl --update` and `wsl --shutdown` there"
    } else if cfg!(windows) {
        "install the NVIDIA driver: https://www.nvidia.com/drivers"
    } else if cfg!(target_os = "linux") {
        "install the NVIDIA driver (`apt install nvidia-driver`, `ubuntu-drivers install`); in a container, start it \
         with `--gpus all`; FERROWARP_CUDA_LIBRARY names a library in another folder"
    } else {
        "use Linux or Windows; here the emulator serves"
    }
}

/// The fix for what `cuInit` returns.
fn refused(code: i32) -> &'static str {
    match code {
        34 => {
            "this is the stub of a CUDA toolkit: take its folder `stubs` out of LD_LIBRARY_PATH, and install the driver"
        }
        46 => "another process uses the device exclusively: `nvidia-smi` names it",
        100 => {
            "CUDA_VISIBLE_DEVICES may hide all devices; `nvidia-smi -L` lists those that the driver sees; in a \
             container, start it with `--gpus all`"
        }
        802 => {
            "start NVIDIA's fabric manager: `systemctl start nvidia-fabricmanager`, of the driver's own version"
        }
        803 => {
            "the library and the kernel module are of different versions: restart the machine after a driver update"
        }
        804 => {
            "remove the package `cuda-compat` or its folder from LD_LIBRARY_PATH: this GPU does not support it"
        }
        _ => {
            "`nvidia-modprobe -u -c 0` loads the module nvidia_uvm and makes its device files; `dmesg` has the module's \
             errors (`NVRM`)"
        }
    }
}

/// What work runs on.
pub(super) type Work = Result<(Backend, Vec<DeviceInfo>), GpuError>;

pub(super) fn device(work: &Work, passed_over: Option<&str>) -> Line {
    const NAME: &str = "device";
    match work {
        Err(error) => {
            Line::wrong(NAME, error.to_string(), "unset FERROWARP_DEVICE, or set it to `emulator`")
        }
        Ok((Backend::Emulator, _)) => {
            let why =
                passed_over.map_or("FERROWARP_DEVICE=emulator", |_| "there is no usable driver");
            Line::right(NAME, format!("the emulator, since {why}"))
        }
        Ok((Backend::Cuda, devices)) => gpus(NAME, devices),
    }
}

/// The name and the compute capability of each GPU, one of which must be new enough.
fn gpus(name: &'static str, devices: &[DeviceInfo]) -> Line {
    let all = devices.iter().map(|device| (&*device.name, device.compute_capability));
    let names: Vec<_> = all.clone().map(|(name, (x, y))| format!("{name} ({x}.{y})")).collect();
    let names = names.join(", ");
    if all.clone().any(|(_, capability)| capability >= OLDEST) {
        Line::right(name, names)
    } else {
        let found =
            format!("{names}: the shipped kernels need compute capability 8.0 (Ampere) or newer");
        Line::wrong(name, found, "FERROWARP_DEVICE=emulator runs them, and so does a newer GPU")
    }
}

pub(super) fn hmm(work: &Work, machine: &Machine) -> Line {
    const NAME: &str = "HMM";
    let Ok((Backend::Cuda, devices)) = work else {
        return Line::right(
            NAME,
            "not needed: without a GPU, kernels run in the host's own memory",
        );
    };
    if devices.iter().any(|device| device.pageable_memory_access) {
        return Line::right(NAME, "kernels can use plain host memory, such as a Vec's");
    }
    let lacks: Vec<Lack> = devices.first().map(|device| machine.lacks(device)).unwrap_or_default();
    let why: String = lacks.iter().map(|lack| format!("; {}", lack.found)).collect();
    let fix = lacks.last().map_or(REQUIREMENTS, |lack| lack.fix);
    Line::missing(NAME, format!("kernels cannot use plain host memory{why}; buffers work"), fix)
}

#[cfg(test)]
mod tests {
    use ferrowarp::memory::Platform;

    use super::super::line::State;
    use super::*;
    use crate::cli::host_pages::KernelModules;

    fn refusal(code: i32) -> Result<InstalledDriver, Unusable> {
        Err(Unusable::Refused { function: "cuInit", code, name: "X".into() })
    }

    #[test]
    fn a_driver_is_needed_where_there_is_a_gpu_or_one_is_demanded() {
        assert_eq!(Needed::of(None, true), Needed::ByGpu);
        assert_eq!(Needed::of(Some("emulator"), true), Needed::No);
        assert_eq!(Needed::of(Some("cuda"), false), Needed::ByVariable);
        assert_eq!(Needed::of(Some("auto"), false), Needed::No);
    }

    #[test]
    fn only_a_driver_that_is_needed_is_wrong() {
        let absent = || Err(Unusable::NotOpened(vec![]));
        assert_eq!(driver(&absent(), Needed::No, None).state, State::Right);
        let line = driver(&absent(), Needed::ByGpu, None);
        assert_eq!(line.state, State::Wrong);
        assert!(line.found.contains("has an NVIDIA GPU, but"), "{}", line.found);
        let line = driver(&absent(), Needed::ByVariable, None);
        assert!(line.fix.unwrap().contains("unset FERROWARP_DEVICE"));
        let line = driver(&absent(), Needed::ByGpu, Some(2));
        assert!(line.fix.unwrap().contains("wsl --update"));
    }

    #[test]
    fn each_code_of_the_driver_has_its_fix() {
        for (code, word) in [
            (34, "stub"),
            (46, "nvidia-smi"),
            (100, "CUDA_VISIBLE_DEVICES"),
            (802, "fabric manager"),
            (803, "restart"),
            (804, "cuda-compat"),
            (999, "nvidia-modprobe"),
        ] {
            let line = driver(&refusal(code), Needed::ByGpu, None);
            assert!(line.fix.as_ref().unwrap().contains(word), "{code}: {:?}", line.fix);
            assert!(line.found.contains(&format!("returned {code}")), "{}", line.found);
        }
    }

    #[test]
    fn the_device_is_the_emulator_or_the_reason_why_there_is_none() {
        let line = device(&Ok((Backend::Emulator, vec![])), Some("the driver finds no device"));
        assert_eq!(
            (line.state, &*line.found),
            (State::Right, "the emulator, since there is no usable driver")
        );
        let line = device(&Ok((Backend::Emulator, vec![])), None);
        assert!(line.found.ends_with("FERROWARP_DEVICE=emulator"), "{}", line.found);
        let line = device(&Err(GpuError::Forked), None);
        assert!(line.state == State::Wrong && line.fix.is_some());
    }

    #[test]
    fn a_machine_whose_gpus_are_all_too_old_is_wrong() {
        let of = |capability| changed(|device| device.compute_capability = capability);
        assert_eq!(gpus("device", &[of((7, 5)), of((8, 6))]).state, State::Right);
        let line = gpus("device", &[of((7, 5))]);
        assert_eq!(line.state, State::Wrong);
        assert!(line.found.contains("(7.5)") && line.fix.unwrap().contains("emulator"));
    }

    #[test]
    fn hmm_is_optional_and_its_fix_follows_from_the_machine() {
        let without = || changed(|device| device.pageable_memory_access = false);
        let line = |machine: &Machine| hmm(&Ok((Backend::Cuda, vec![without()])), machine);
        for (kernel, open, hmm_disabled, word) in [
            ([6, 12, 0], true, true, "uvm_disable_hmm=0"),
            ([6, 12, 0], false, false, "nvidia-open"),
            ([5, 15, 0], true, false, "6.1.24"),
            ([6, 12, 0], true, false, "Turing"),
        ] {
            let modules = Some(KernelModules { open, hmm_disabled, driver: Some(580) });
            let line = line(&Machine { platform: Platform::Linux, kernel: Some(kernel), modules });
            assert_eq!(line.state, State::Missing);
            assert!(line.fix.as_ref().unwrap().contains(word), "{:?}", line.fix);
        }
        let machine = Machine { platform: Platform::Wsl2, kernel: None, modules: None };
        let told = line(&machine);
        assert!(told.found.contains("WSL") && told.fix.unwrap().contains("use Linux"));
        let with = changed(|device| device.pageable_memory_access = true);
        assert_eq!(hmm(&Ok((Backend::Cuda, vec![with])), &machine).state, State::Right);
        assert_eq!(hmm(&Ok((Backend::Emulator, vec![])), &machine).state, State::Right);
    }

    /// A device of this machine with something changed.
    fn changed(change: impl FnOnce(&mut DeviceInfo)) -> DeviceInfo {
        let mut device = ferrowarp::device::devices().unwrap().remove(0);
        change(&mut device);
        device
    }
}
