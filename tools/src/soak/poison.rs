//! Faults that end a context. Nothing brings it back, so each is planted in a process of its own.

use std::env;
use std::process::{Command, Stdio};

use clap::ValueEnum;
use cuda_std::launch::{Launch, LaunchConfig};
use ferrowarp::Gpu;
use ferrowarp::error::{GpuError, GpuResult};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::reload::Watch;
use kernels_gpu::elementwise::vecadd;

use super::counts::Flow;
use super::error::SoakError;
use super::kernel::PTX;
use super::random::Random;
use super::site::Site;

/// Elements that the kernel is launched for.
const LEN: usize = 1000;
/// The line of the kernel that the faults stand before.
const STORE: &str = "    st.global.f32 [%to], %x;\n";

/// A fault of a kernel that ends the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Poison {
    /// A store to an address that nothing has.
    Address,
    /// A store to an address that is not a multiple of its size.
    Alignment,
    /// The instruction that ends a kernel.
    Trap,
}

impl Poison {
    const ALL: [Self; 3] = [Self::Address, Self::Alignment, Self::Trap];

    fn name(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Alignment => "alignment",
            Self::Trap => "trap",
        }
    }

    /// What the kernel does before its store.
    fn instruction(self) -> &'static str {
        match self {
            Self::Address => "    mov.u64 %to, 64;\n",
            Self::Alignment => "    add.u64 %to, %to, 2;\n",
            Self::Trap => "    trap;\n",
        }
    }

    /// Plants the fault in this process, and looks for its reports: from the next wait, and from all calls after it.
    ///
    /// # Errors
    /// [`Unreported`](SoakError::Unreported) if a report is missing; an error of what ran before the fault.
    pub fn plant(self) -> Result<(), SoakError> {
        let gpu = Gpu::new()?;
        let hot = Watch::nothing().start(&gpu)?;
        let x = vec![1.0f32; LEN];
        let on_x = DeviceBuffer::from_slice(&gpu, &x)?;
        let mut out = DeviceBuffer::zeroed(&gpu, LEN)?;
        // SAFETY: the text has `vecadd` for its launcher.
        unsafe { hot.load_ptx(PTX)? };
        add(&hot, &on_x, &mut out)?;
        if out.to_vec()? != vec![2.0; LEN] {
            return Err(SoakError::Wrong { what: "the sum before the fault", index: 0, len: LEN });
        }
        // SAFETY: the text has the same parameters. Its fault ends the kernel before it writes anything: no allocation
        // is at address 64, a store has to be aligned, and a trap comes before the store.
        unsafe { hot.load_ptx(PTX.replace(STORE, &format!("{}{STORE}", self.instruction())))? };
        let fault = add(&hot, &on_x, &mut out).and_then(|()| gpu.synchronize());
        let reports =
            [fault, gpu.synchronize(), out.to_vec().map(drop), gpu.create_stream().map(drop)];
        for report in reports {
            self.expect(report)?;
        }
        if gpu.is_lost() { Ok(()) } else { self.expect(Ok(())) }
    }

    fn expect(self, report: GpuResult<()>) -> Result<(), SoakError> {
        let found = match report {
            Err(error) if matches!(error.root(), GpuError::DeviceLost { .. }) => return Ok(()),
            Err(error) => error.to_string(),
            Ok(()) => "no error".to_owned(),
        };
        Err(SoakError::Unreported { fault: self.name(), found })
    }
}

fn add(
    on: &impl Launch<Error = GpuError>,
    x: &DeviceBuffer<f32>,
    out: &mut DeviceBuffer<f32>,
) -> GpuResult<()> {
    vecadd::launch(on, LaunchConfig::for_num_elems(x.len()), x, x, out)
}

/// Runs this program as a child that plants a fault, and reads from its status whether the fault was reported. The
/// device of this process goes on.
pub(super) fn run(site: &Site, random: &mut Random) -> Result<(), SoakError> {
    let poison = Poison::ALL[random.below(Poison::ALL.len())];
    let program = env::current_exe().map_err(SoakError::system("finding this program"))?;
    site.counts.begin(Flow::Contexts, 1);
    let mut command = Command::new(program);
    command.args(["soak", "--poison", poison.name()]).stdin(Stdio::null());
    let output = command.output().map_err(SoakError::system("starting a child process"))?;
    if !output.status.success() {
        let found = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(SoakError::Unreported { fault: poison.name(), found });
    }
    site.counts.end(Flow::Contexts, 1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_stands_before_the_store() {
        assert_eq!(PTX.matches(STORE).count(), 1);
        for poison in Poison::ALL {
            assert_eq!(poison.to_possible_value().unwrap().get_name(), poison.name());
        }
    }

    #[test]
    fn only_a_lost_device_is_a_report() {
        let unreported = |report| Poison::Trap.expect(report).unwrap_err().to_string();
        assert_eq!(unreported(Ok(())), "a planted fault, trap, was reported as: no error");
        assert!(unreported(Err(GpuError::Forked)).contains("forked"));
    }
}
