//! Any bytes: the parser reads them or says where it stopped, and what it read prints as the same module.

#![no_main]

use emulator::ptx::parse;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    match parse(&text) {
        Err(error) => assert!(error.line >= 1 && error.column >= 1),
        Ok(module) => {
            let printed = module.to_string();
            let again = parse(&printed).expect("what is printed is read").to_string();
            assert_eq!(again, printed);
        }
    }
});
