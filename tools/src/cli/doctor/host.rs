//! The host system: device files and who may use them, WSL, NCCL.
//!
//! `root` is `/`, or in tests a folder in its place.

use std::fs;
use std::path::{Path, PathBuf};

use ferrowarp::memory::Platform;

use super::line::Line;
use crate::cli::host_pages::read;

/// Whether the PCI bus has a display controller of NVIDIA, or the machine is one of NVIDIA's boards. Under WSL the
/// bus is that of Windows, and only a library of the driver tells of one.
pub(super) fn has_nvidia_gpu(root: &Path, wsl: Option<u32>) -> bool {
    if wsl.is_some() {
        return root.join("usr/lib/wsl/lib/libcuda.so.1").exists();
    }
    let board = read(root, "proc/device-tree/compatible");
    let entries = fs::read_dir(root.join("sys/bus/pci/devices")).into_iter().flatten().flatten();
    let is_gpu = |folder: PathBuf| {
        let has = |name, start| read(&folder, name).is_some_and(|text| text.starts_with(start));
        has("vendor", "0x10de") && has("class", "0x03")
    };
    board.is_some_and(|text| text.contains("nvidia,tegra"))
        || entries.map(|entry| entry.path()).any(is_gpu)
}

/// 1 or 2 under the Windows Subsystem for Linux.
pub(super) fn wsl_version(root: &Path) -> Option<u32> {
    match Platform::of_linux("", &read(root, "proc/sys/kernel/osrelease")?) {
        Platform::Wsl1 => Some(1),
        Platform::Wsl2 => Some(2),
        _ => None,
    }
}

pub(super) fn wsl(root: &Path, version: Option<u32>) -> Line {
    const NAME: &str = "WSL2";
    const LIBRARY: &str = "/usr/lib/wsl/lib/libcuda.so.1";
    let exists = |name: &str| root.join(name.trim_start_matches('/')).exists();
    match version {
        None => Line::right(NAME, "this is not WSL"),
        Some(1) => {
            let fix = "`wsl --set-version NAME 2` on Windows, with the name of this distribution";
            Line::wrong(NAME, "this is WSL 1, which has no GPU and is not tested", fix)
        }
        Some(_) if !exists("/dev/dxg") || !exists(LIBRARY) => {
            let found =
                format!("WSL 2 without a GPU: it lacks /dev/dxg or {LIBRARY}; the emulator serves");
            let fix = "for a GPU, install the NVIDIA driver on Windows, then `wsl --update` and `wsl --shutdown` there";
            Line::missing(NAME, found, fix)
        }
        Some(_) => match linux_driver(root) {
            Some(file) => {
                let fix = "remove NVIDIA's driver packages inside WSL: `apt purge 'nvidia-driver-*' 'libnvidia-compute-*'`";
                Line::wrong(NAME, format!("/{file} hides the driver of Windows"), fix)
            }
            None => Line::right(NAME, format!("WSL 2, {LIBRARY}")),
        },
    }
}

/// A driver library of Linux itself, which cannot work under WSL and is found before the right one.
fn linux_driver(root: &Path) -> Option<&'static str> {
    let files = ["usr/lib/x86_64-linux-gnu/libcuda.so.1", "usr/lib64/libcuda.so.1"];
    let is_own = |file: &&str| {
        let target = fs::canonicalize(root.join(file));
        target.is_ok_and(|target| !target.to_string_lossy().contains("usr/lib/wsl"))
    };
    files.into_iter().find(is_own)
}

/// Whether this user may read and write a file.
#[cfg(unix)]
pub(super) fn may_read_and_write(file: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(file, Access::READ_OK | Access::WRITE_OK).is_ok()
}

#[cfg(not(unix))]
pub(super) fn may_read_and_write(_: &Path) -> bool {
    true
}

pub(super) fn permissions(root: &Path, may_use: impl Fn(&Path) -> bool) -> Line {
    const NAME: &str = "permissions";
    let files = device_files(root);
    if let Some(missing) = missing_file(root, &files) {
        let fix = "`nvidia-modprobe -u -c 0` makes the device files; in a container, start it with `--gpus all`";
        return Line::wrong(
            NAME,
            format!("the driver's module is loaded, but {missing} is not there"),
            fix,
        );
    }
    let closed: Vec<_> = files.iter().filter(|file| !may_use(&root.join(file))).collect();
    if !closed.is_empty() {
        let closed: Vec<_> = closed.iter().map(|file| format!("/{file}")).collect();
        let fix = "join the group that owns them (`ls -l` names it: `sudo usermod -aG video,render $USER`), then log in again";
        return Line::wrong(NAME, format!("this user may not use {}", closed.join(", ")), fix);
    }
    match files.len() {
        0 => Line::right(NAME, "there are no device files of a GPU; the emulator needs none"),
        n => Line::right(NAME, format!("this user may use all {n} device files of the GPU")),
    }
}

/// The files in `/dev` that the driver opens: `nvidiactl`, `nvidia-uvm`, `nvidia0`, …, and `dxg` of WSL 2.
fn device_files(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.join("dev")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let mut files: Vec<_> =
        names.filter(|name| is_opened(name)).map(|name| format!("dev/{name}")).collect();
    files.sort();
    files
}

fn is_opened(name: &str) -> bool {
    let number = name.strip_prefix("nvidia").filter(|number| !number.is_empty());
    matches!(name, "nvidiactl" | "nvidia-uvm" | "dxg")
        || number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A file that must be there if the module is loaded.
fn missing_file(root: &Path, files: &[String]) -> Option<&'static str> {
    let loaded = root.join("proc/driver/nvidia/version").exists();
    let needed = ["/dev/nvidiactl", "/dev/nvidia-uvm"].into_iter();
    needed.filter(|_| loaded).find(|name| !files.iter().any(|file| name[1..] == **file))
}

/// The version of NCCL, or why there is none.
pub(super) fn nccl_version() -> Result<i32, String> {
    if !cfg!(target_os = "linux") {
        return Err("NVIDIA has it for Linux alone".to_owned());
    }
    // SAFETY: NCCL's initialisers only set up the library itself, as in every program that links it.
    let library = unsafe { libloading::Library::new("libnccl.so.2") };
    let library = library.map_err(|_| "libnccl.so.2 does not open".to_owned())?;
    // SAFETY: the function's signature in `nccl.h`: `ncclResult_t ncclGetVersion(int *version)`.
    let function =
        unsafe { library.get::<unsafe extern "C" fn(*mut i32) -> i32>(b"ncclGetVersion\0") };
    let function = function.map_err(|_| "libnccl.so.2 has no ncclGetVersion".to_owned())?;
    let mut version = 0;
    // SAFETY: the pointer is to a live i32.
    match unsafe { function(&mut version) } {
        0 => Ok(version),
        code => Err(format!("ncclGetVersion returned {code}")),
    }
}

pub(super) fn nccl(version: Result<i32, String>) -> Line {
    const NAME: &str = "NCCL";
    match version {
        // Before 2.9 the factor was 1000.
        Ok(code) => {
            Line::right(NAME, format!("{}.{}.{}", code / 10_000, code / 100 % 100, code % 100))
        }
        Err(why) => Line::missing(
            NAME,
            format!("{why}; nothing that ships needs it"),
            "`apt install libnccl2` from NVIDIA's repository; or `pip install nvidia-nccl-cu12`, with its folder \
             `nvidia/nccl/lib` in LD_LIBRARY_PATH",
        ),
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::super::line::State;
    use super::*;

    /// A machine that has these files.
    fn machine(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = root.path().join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        root
    }

    const WSL2: (&str, &str) = ("proc/sys/kernel/osrelease", "5.15.90.1-microsoft-standard-WSL2\n");
    const DRIVER: (&str, &str) = ("usr/lib/wsl/lib/libcuda.so.1", "");

    fn wsl_of(files: &[(&str, &str)]) -> Line {
        let root = machine(files);
        wsl(root.path(), wsl_version(root.path()))
    }

    #[test]
    fn wsl_is_told_from_linux_by_its_kernel() {
        let version =
            |release| wsl_version(machine(&[("proc/sys/kernel/osrelease", release)]).path());
        assert_eq!(version("6.1.0-18-amd64\n"), None);
        assert_eq!(version("4.4.0-19041-Microsoft\n"), Some(1));
        assert_eq!(version(WSL2.1), Some(2));
        assert_eq!(wsl_of(&[]).found, "this is not WSL");
    }

    #[test]
    fn wsl_has_the_driver_of_windows_and_no_other() {
        let complete = [WSL2, DRIVER, ("dev/dxg", "")];
        assert_eq!(wsl_of(&complete).state, State::Right);
        assert_eq!(wsl_of(&complete[..2]).state, State::Missing);
        let own = ("usr/lib/x86_64-linux-gnu/libcuda.so.1", "");
        let line = wsl_of(&[&complete[..], &[own]].concat());
        assert_eq!(line.state, State::Wrong);
        assert!(line.found.starts_with("/usr/lib/x86_64-linux-gnu/libcuda.so.1"), "{}", line.found);
        let line = wsl_of(&[("proc/sys/kernel/osrelease", "4.4.0-19041-Microsoft")]);
        assert!(line.state == State::Wrong && line.fix.unwrap().contains("--set-version"));
    }

    const FILES: [(&str, &str); 5] = [
        (
            "proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65",
        ),
        ("dev/nvidia0", ""),
        ("dev/nvidiactl", ""),
        ("dev/nvidia-uvm", ""),
        ("dev/nvidia-caps", ""),
    ];

    #[test]
    fn device_files_are_there_and_open_to_this_user() {
        let line = |files: &[(&str, &str)], closed: &'static str| {
            permissions(machine(files).path(), |file| !file.ends_with(closed))
        };
        assert_eq!(line(&[], "").state, State::Right);
        assert!(line(&FILES, "none").found.contains("all 3 device files"));
        let denied = line(&FILES, "nvidia0");
        assert_eq!(
            (denied.state, &*denied.found),
            (State::Wrong, "this user may not use /dev/nvidia0")
        );
        assert!(denied.fix.unwrap().contains("usermod"));
        let missing = line(&FILES[..3], "none");
        assert!(missing.found.contains("/dev/nvidia-uvm is not there"), "{}", missing.found);
        assert!(missing.fix.unwrap().contains("nvidia-modprobe"));
    }

    #[test]
    fn a_gpu_is_a_display_controller_of_nvidia() {
        let has = |vendor, class| {
            let card =
                [("sys/bus/pci/devices/a/vendor", vendor), ("sys/bus/pci/devices/a/class", class)];
            has_nvidia_gpu(machine(&card).path(), None)
        };
        assert!(has("0x10de\n", "0x030200\n") && has("0x10de\n", "0x030000\n"));
        // Its audio device, and a card of another vendor.
        assert!(!has("0x10de\n", "0x040300\n") && !has("0x8086\n", "0x030000\n"));
        let board = ("proc/device-tree/compatible", "nvidia,p3737\0nvidia,tegra234\0");
        assert!(has_nvidia_gpu(machine(&[board]).path(), None));
        assert!(has_nvidia_gpu(machine(&[DRIVER]).path(), Some(2)));
        assert!(!has_nvidia_gpu(machine(&[]).path(), Some(2)));
    }

    #[test]
    fn nccl_is_optional() {
        assert_eq!(nccl(Ok(22_707)).found, "2.27.7");
        let line = nccl(Err("libnccl.so.2 does not open".into()));
        assert_eq!(line.state, State::Missing);
        assert!(line.fix.unwrap().contains("libnccl2"));
    }
}
