//! `ferrowarp devices`: what work runs on, and why.

use std::env;
use std::io::{self, Write};
use std::path::Path;

use super::error::CliError;
use super::host_pages::Machine;
use super::table::{Side, Table};
use ferrowarp::device::{Backend, DeviceInfo, backend, devices};
use ferrowarp::memory::Platform;
use indicatif::HumanBytes;

pub(super) fn run(out: &mut impl Write) -> Result<(), CliError> {
    let devices = devices()?;
    let (wish, backend) = (env::var("FERROWARP_DEVICE").ok(), backend()?);
    let reason = reason(backend, wish.as_deref(), cuda_driver::cuda_passed_over());
    writeln!(out, "{reason}\n")?;
    table(&devices).print(out)?;
    let machine = Machine::of(Path::new("/"), Platform::detect());
    for device in &devices {
        describe(device, out)?;
        writeln!(out, "  host memory      {}", machine.describe(device, backend))?;
    }
    Ok(())
}

/// What does not fit the table.
fn describe(device: &DeviceInfo, out: &mut impl Write) -> io::Result<()> {
    let (domain, bus, slot) = device.pci;
    writeln!(out, "\n{}: {} at {domain:04x}:{bus:02x}:{slot:02x}", device.ordinal, device.name)?;
    let [x, y, z] = device.max_block_dim;
    let [grid_x, grid_y, grid_z] = device.max_grid_dim;
    let threads = device.max_threads_per_block;
    writeln!(
        out,
        "  block            {threads} threads, {x} × {y} × {z}; grid {grid_x} × {grid_y} × {grid_z}"
    )?;
    writeln!(
        out,
        "  multiprocessor   {} threads, {} blocks, {} registers, {} of shared memory",
        device.max_threads_per_multiprocessor,
        device.max_blocks_per_multiprocessor,
        device.registers_per_multiprocessor,
        HumanBytes(device.shared_mem_per_multiprocessor_bytes as u64),
    )?;
    writeln!(
        out,
        "  memory           {} of L2, {} of constants, {} bits at {} MHz, {} copies at once",
        HumanBytes(device.l2_bytes as u64),
        HumanBytes(device.constant_memory_bytes as u64),
        device.memory_bus_bits,
        device.memory_clock_khz / 1000,
        device.copy_engines,
    )?;
    writeln!(out, "  can              {}", abilities(device).join(", "))
}

/// What the device can do, in words.
fn abilities(device: &DeviceInfo) -> Vec<&'static str> {
    let all = [
        (device.concurrent_kernels, "several kernels at once"),
        (device.stream_priorities, "stream priorities"),
        (device.cooperative_launch, "cooperative launches"),
        (device.compute_capability >= (9, 0), "clusters"),
        (device.memory_pools, "memory pools"),
        (device.managed_memory, "managed memory"),
        (device.concurrent_managed_access, "managed memory while kernels run"),
        (device.ecc, "corrected memory"),
        (device.integrated, "memory shared with the host"),
    ];
    all.into_iter().filter(|(can, _)| *can).map(|(_, words)| words).collect()
}

/// Which backend it is, and what made it so.
fn reason(backend: Backend, wish: Option<&str>, passed_over: Option<&str>) -> String {
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
            let why = passed_over.unwrap_or("there is no NVIDIA driver");
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
        HumanBytes(device.total_memory_bytes as u64).to_string(),
        format!("{:.0} GB/s", device.peak_bandwidth_gb_per_s()),
        HumanBytes(device.shared_mem_per_block_optin_bytes as u64).to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_names_the_variable_when_it_decided() {
        assert!(
            reason(Backend::Emulator, Some("emulator"), None)
                .ends_with("FERROWARP_DEVICE=emulator.")
        );
        assert!(reason(Backend::Emulator, Some("auto"), None).contains("no NVIDIA driver"));
        assert!(reason(Backend::Emulator, None, Some("it has no device")).ends_with("no device."));
        assert!(reason(Backend::Cuda, Some("cuda"), None).contains("FERROWARP_DEVICE=cuda"));
    }
}
