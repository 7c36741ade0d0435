//! The two that execute a case.

use std::ffi::CString;
use std::ptr::null_mut;
use std::sync::Arc;

use cuda_driver::*;
use emulator::{Device, Launch, Profile};

use crate::case::Case;

/// The results of a case: two words for each row.
pub type Results = Vec<[u64; 2]>;

/// Why a side does not take a case.
#[derive(Debug)]
pub struct Refused(pub String);

const HEAD: &str = ".version 8.6\n.target sm_90a\n.address_size 64\n";
const BLOCK: usize = 256;

fn bytes(rows: &[[u64; 4]]) -> Vec<u8> {
    rows.iter().flatten().flat_map(|word| word.to_le_bytes()).collect()
}

fn results(bytes: &[u8]) -> Results {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    bytes.chunks_exact(16).map(|pair| [word(&pair[..8]), word(&pair[8..])]).collect()
}

/// The emulator.
pub struct Emulated(Arc<Device>);

impl Emulated {
    /// With one thread: cases run side by side.
    pub fn new() -> Self {
        Self(Device::new(Profile { worker_threads: 1, ..Profile::hopper() }))
    }

    pub fn run(&self, case: &Case, rows: &[[u64; 4]]) -> Result<Results, Refused> {
        let refused = |error: &dyn std::fmt::Display| Refused(error.to_string());
        let text = HEAD.to_owned() + &case.kernel(0);
        let module = self.0.load(&text).map_err(|error| refused(&error))?;
        let function = module.function("k0").expect("the kernel's own name");
        let memory = self.0.memory();
        let sizes = [rows.len() * 32, rows.len() * 16, rows.len() * 16];
        let places = sizes.map(|bytes| memory.alloc(bytes as u64).expect("memory"));
        memory.write(places[0], &bytes(rows)).expect("a live buffer");
        places[1..].iter().for_each(|place| {
            memory.fill8(*place, 0, rows.len() as u64 * 16).expect("a live buffer");
        });
        let params: Vec<u8> = places.iter().flat_map(|place| place.to_le_bytes()).collect();
        let outcome = self.0.launch(&launch(&function, rows.len(), &params));
        let mut out = vec![0; sizes[1]];
        memory.read(places[1], &mut out).expect("a live buffer");
        places.iter().for_each(|place| memory.free(*place).expect("a live buffer"));
        outcome.map_err(|trap| refused(&trap))?;
        Ok(results(&out))
    }
}

fn launch<'a>(function: &'a emulator::Function, rows: usize, params: &'a [u8]) -> Launch<'a> {
    let (grid, block) = ([(rows / BLOCK) as u32, 1, 1], [BLOCK as u32, 1, 1]);
    Launch { grid, block, params, ..Launch::new(function) }
}

/// Runs a driver call that must succeed.
macro_rules! ok {
    ($name:ident($($arg:expr),* $(,)?)) => {{
        #[allow(clippy::macro_metavars_in_unsafe, reason = "the arguments are plain values")]
        // SAFETY: live places, and handles and addresses that the driver gave.
        let code = unsafe { $name($($arg),*) };
        assert_eq!(code, 0, "{}: {:?}", stringify!($name), take_detail());
    }};
}

/// The GPU, through the driver.
pub struct Gpu;

impl Gpu {
    pub fn new() -> Self {
        ok!(cuInit(0));
        assert_eq!(backend(), Some(Backend::Cuda), "there is no GPU; set FERROWARP_DEVICE=cuda");
        let mut context = null_mut();
        ok!(cuDevicePrimaryCtxRetain(Out::from(&mut context), 0));
        ok!(cuCtxSetCurrent(context));
        Self
    }

    /// Runs cases with their rows, compiled together; where one of them is refused, each by itself.
    pub fn run_all(&self, cases: &[(&Case, &[[u64; 4]])]) -> Vec<Result<Results, Refused>> {
        let text = |(number, (case, _)): (usize, &(&Case, &[[u64; 4]]))| case.kernel(number);
        match (Self::load(&cases.iter().enumerate().map(text).collect::<String>()), cases.len()) {
            (Ok(module), _) => {
                let run = |(number, (_, rows)): (usize, &(&Case, &[[u64; 4]]))| {
                    Ok(Self::run(module, number, rows))
                };
                let results = cases.iter().enumerate().map(run).collect();
                ok!(cuModuleUnload(module));
                results
            }
            (Err(_), 0) => Vec::new(),
            (Err(refused), 1) => vec![Err(refused)],
            (Err(_), count) => {
                let (first, second) = cases.split_at(count / 2);
                let mut results = self.run_all(first);
                results.extend(self.run_all(second));
                results
            }
        }
    }

    fn load(kernels: &str) -> Result<CUmodule, Refused> {
        let text = CString::new(HEAD.to_owned() + kernels).expect("no NUL");
        let mut module = null_mut();
        let image = HostPtr(text.as_ptr().cast_mut().cast());
        // SAFETY: a live place and a text that ends with NUL.
        match unsafe { cuModuleLoadData(Out::from(&mut module), image) } {
            0 => Ok(module),
            code => {
                let detail = take_detail().map(|detail| format!("{detail:?}")).unwrap_or_default();
                Err(Refused(format!("{code} {}", detail.replace('\n', " "))))
            }
        }
    }

    fn run(module: CUmodule, number: usize, rows: &[[u64; 4]]) -> Results {
        let name = CString::new(format!("k{number}")).expect("no NUL");
        let mut function = null_mut();
        ok!(cuModuleGetFunction(
            Out::from(&mut function),
            module,
            In::from(name.to_bytes_with_nul()).cast()
        ));
        let input = bytes(rows);
        let size = rows.len() * 16;
        let mut places = [0u64; 3];
        ok!(cuMemAlloc_v2(Out::from(&mut places[0]), input.len()));
        ok!(cuMemAlloc_v2(Out::from(&mut places[1]), size));
        ok!(cuMemAlloc_v2(Out::from(&mut places[2]), size));
        ok!(cuMemcpyHtoD_v2(places[0], HostPtr(input.as_ptr().cast_mut().cast()), input.len()));
        ok!(cuMemsetD8_v2(places[1], 0, size));
        ok!(cuMemsetD8_v2(places[2], 0, size));
        let arguments =
            places.each_ref().map(|place| HostPtr(std::ptr::from_ref(place).cast_mut().cast()));
        let blocks = (rows.len() / BLOCK) as u32;
        ok!(cuLaunchKernel(
            function,
            blocks,
            1,
            1,
            BLOCK as u32,
            1,
            1,
            0,
            null_mut(),
            In::from(&arguments[..]),
            In::NULL
        ));
        let mut out = vec![0u8; size];
        ok!(cuMemcpyDtoH_v2(HostPtr(out.as_mut_ptr().cast()), places[1], size));
        places.iter().for_each(|place| ok!(cuMemFree_v2(*place)));
        results(&out)
    }
}
