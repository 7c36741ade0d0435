//! Loads PTX files and lists their kernels, or says why they cannot be loaded.

use emulator::{Device, Profile};

fn main() {
    let device = Device::new(Profile::hopper());
    let mut failed = false;
    for path in std::env::args().skip(1) {
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) => {
                failed = true;
                println!("{path}: {error}");
                continue;
            }
        };
        match device.load(&text) {
            Ok(module) => println!(
                "{path}: {} kernels: {}",
                module.functions().len(),
                module.functions().join(" ")
            ),
            Err(error) => {
                failed = true;
                println!("{path}: {error}");
            }
        }
    }
    std::process::exit(i32::from(failed));
}
