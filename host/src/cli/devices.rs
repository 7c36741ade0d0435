//! `ferrowarp devices`: what work runs on, and why.

use std::env;
use std::io::Write;

use super::error::CliError;
use super::table::{Side, Table};
use crate::device::{Backend, DeviceInfo, backend, devices};
use crate::error::bytes;

pub(super) fn run(out: &mut impl Write) -> Result<(), CliError> {
    let devices = devices()?;
    writeln!(out, "{}\n", reason(backend()?, env::var("FERROWARP_DEVICE").ok().as_deref()))?;
    table(&devices).print(out)?;
    Ok(())
}

/// Which backend it is, and what made it so.
fn reason(backend: Backend, wish: Option<&str>) -> String {
    let wished = wish.is_some_and(|wish| matches!(wish, "cuda" | "emulator"));
    match (backend, wished) {
        (Backend::Cuda, false) => "Work runs on the NVIDIA driver, which has a device.".to_owned(),
        (Backend::Cuda, true) => {
            "Work runs on the NVIDIA driver: FERROWARP_DEVICE=cuda.".to_owned()
        }
        (Backend::Emulator, true) => {
            "Work runs on the emulator: FERROWARP_DEVICE=emulator.".to_owned()
        }
        (Backend::Emulator, false) => {
            let why = cuda_driver::cuda_passed_over().unwrap_or("there is no NVIDIA driver");
            format!("Work runs on the emulator: {why}.")
        }
    }
}

fn table(devices: &[DeviceInfo]) -> Table<8> {
    use Side::{Left, Right};
    let mut table = Table::new([
        ("#", Right),
        ("name", Left),
        ("compute", Left),
        ("SMs", Right),
        ("clock", Right),
        ("memory", Right),
        ("bandwidth", Right),
        ("shared/block", Right),
    ]);
    devices.iter().for_each(|device| table.add(row(device)));
    table
}

fn row(device: &DeviceInfo) -> [String; 8] {
    let (major, minor) = device.compute_capability;
    [
        device.ordinal.to_string(),
        device.name.clone(),
        format!("{major}.{minor}"),
        device.multiprocessors.to_string(),
        format!("{} MHz", device.clock_khz / 1000),
        bytes(device.total_memory_bytes),
        format!("{:.0} GB/s", device.peak_bandwidth_gb_per_s()),
        bytes(device.shared_mem_per_block_optin_bytes as usize),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_names_the_variable_when_it_decided() {
        assert!(
            reason(Backend::Emulator, Some("emulator")).ends_with("FERROWARP_DEVICE=emulator.")
        );
        assert!(reason(Backend::Emulator, Some("auto")).contains("no NVIDIA driver"));
        assert!(reason(Backend::Emulator, None).contains("no NVIDIA driver"));
        assert!(reason(Backend::Cuda, Some("cuda")).contains("FERROWARP_DEVICE=cuda"));
    }
}
