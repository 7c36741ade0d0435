//! What the tests of execution share: kernels from text, buffers, launches.
#![allow(dead_code, clippy::result_large_err)]

pub mod eval;

use emulator::{Device, Launch, Profile, Stats, Trap};
use std::sync::Arc;

/// A device with one CPU thread.
pub fn device() -> Arc<Device> {
    Device::new(Profile { worker_threads: 1, ..Profile::hopper() })
}

/// The head of a module.
pub const HEAD: &str = ".version 8.6\n.target sm_90a\n.address_size 64\n";

/// A buffer on a device.
pub struct Buffer<'d> {
    device: &'d Device,
    pub address: u64,
    bytes: usize,
}

impl<'d> Buffer<'d> {
    /// A buffer of that many bytes, all 0xcd.
    pub fn new(device: &'d Device, bytes: usize) -> Self {
        let address = device.memory().alloc(bytes as u64).unwrap();
        device.memory().fill8(address, 0xcd, bytes as u64).unwrap();
        Self { device, address, bytes }
    }

    pub fn of(device: &'d Device, bytes: &[u8]) -> Self {
        let buffer = Self::new(device, bytes.len());
        device.memory().write(buffer.address, bytes).unwrap();
        buffer
    }

    pub fn of_u32(device: &'d Device, values: &[u32]) -> Self {
        Self::of(device, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    }

    pub fn of_f32(device: &'d Device, values: &[f32]) -> Self {
        Self::of(device, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    }

    pub fn of_u64(device: &'d Device, values: &[u64]) -> Self {
        Self::of(device, &values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>())
    }

    pub fn device(&self) -> &'d Device {
        self.device
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = vec![0; self.bytes];
        self.device.memory().read(self.address, &mut out).unwrap();
        out
    }

    pub fn u32s(&self) -> Vec<u32> {
        self.bytes().chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    pub fn f32s(&self) -> Vec<f32> {
        self.bytes().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    }

    pub fn u64s(&self) -> Vec<u64> {
        self.bytes().chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect()
    }
}

/// Launches the kernel `name` of a module with 64-bit parameters.
pub fn launch(
    device: &Device,
    text: &str,
    name: &str,
    grid: [u32; 3],
    block: [u32; 3],
    params: &[u64],
) -> Result<Stats, Trap> {
    let module = device.load(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let function = module.function(name).unwrap();
    let bytes: Vec<u8> = params.iter().flat_map(|p| p.to_le_bytes()).collect();
    device.launch(&Launch { grid, block, params: &bytes, ..Launch::new(&function) })
}
