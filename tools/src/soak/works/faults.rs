//! Faults and misuse after which the device goes on: each is planted, and has to be reported as what it is.

use ferrowarp::error::{GpuError, GpuResult};
use ferrowarp::graph::GraphBuilder;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::memory::resource::{FailureAdaptor, LimitAdaptor};
use ferrowarp::{LaunchConfig, Linear, Stream, ops};
use kernels_gpu::elementwise::{saxpy, vecadd};

use super::super::counts::Flow;
use super::super::error::SoakError;
use super::super::random::Random;
use super::super::site::Site;

/// A fault: what it is, what plants it, and whether an error is its report.
struct Fault {
    name: &'static str,
    plant: fn(&Site, &Stream, &mut Random) -> GpuResult<()>,
    is_reported_by: fn(&GpuError) -> bool,
}

const FAULTS: [Fault; 9] = [
    Fault {
        name: "an allocation that fails",
        plant: failing_allocation,
        is_reported_by: is_out_of_memory,
    },
    Fault {
        name: "more memory than a limit",
        plant: over_a_limit,
        is_reported_by: is_out_of_memory,
    },
    Fault {
        name: "more memory than there is",
        plant: |_, on, _| DeviceBuffer::<u8>::zeroed(on, 1 << 50).map(drop),
        is_reported_by: is_out_of_memory,
    },
    Fault {
        name: "a copy of another length",
        plant: |site, on, random| {
            let len = random.len(1000);
            let mut buffer = DeviceBuffer::<u32>::zeroed_in(&site.memory, on, len)?;
            buffer.copy_from_host(&vec![0; len + 1])
        },
        is_reported_by: |error| matches!(error, GpuError::SizeMismatch { .. }),
    },
    Fault {
        name: "a block of 5000 threads",
        plant: |site, on, _| {
            let x = DeviceBuffer::<f32>::zeroed_in(&site.memory, on, 10)?;
            let mut out = DeviceBuffer::zeroed_in(&site.memory, on, 10)?;
            vecadd::launch(on, Linear::new(1, 5000), &x, &x, &mut out)
        },
        is_reported_by: |error| matches!(error, GpuError::LaunchTooLarge { value: 5000, .. }),
    },
    Fault {
        name: "a blur of no width",
        plant: |site, on, _| {
            let image = DeviceBuffer::<u8>::zeroed_in(&site.memory, on, 64)?;
            let mut out = DeviceBuffer::zeroed_in(&site.memory, on, 64)?;
            ops::blur(on, &image, &mut out, 8, 8, 0.0)
        },
        is_reported_by: |error| matches!(error, GpuError::InvalidArgument { .. }),
    },
    Fault {
        name: "a panic in a host callback",
        // Unlike `panic!` it prints nothing.
        plant: |_, on, _| {
            on.launch_host_func(|| std::panic::resume_unwind(Box::new("planted")))?.wait()
        },
        is_reported_by: |error| matches!(error, GpuError::HostPanic { .. }),
    },
    Fault {
        name: "a call of the driver in a host callback",
        plant: |site, on, _| {
            let gpu = site.gpu.clone();
            on.launch_host_func(move || gpu.create_stream().map(drop))?.wait()?
        },
        is_reported_by: |error| matches!(error, GpuError::InHostCallback { .. }),
    },
    Fault {
        name: "a parameter that a kernel has not",
        plant: no_parameter,
        is_reported_by: |error| matches!(error, GpuError::Graph(_)),
    },
];

/// Plants one, and then lets the stream show that it goes on.
pub(super) fn run(site: &Site, random: &mut Random) -> Result<(), SoakError> {
    let fault = &FAULTS[random.below(FAULTS.len())];
    // A stream of its own: a panic in a callback may be the next error of its stream.
    let stream = site.gpu.create_stream()?;
    site.counts.begin(Flow::Faults, 1);
    let report = (fault.plant)(site, &stream, random);
    expect(site, fault.name, report, fault.is_reported_by)?;
    let x = random.wholes(100);
    let on_x = DeviceBuffer::from_slice_in(&site.memory, &stream, &x)?;
    let mut sum = DeviceBuffer::zeroed_in(&site.memory, &stream, x.len())?;
    ops::vecadd(&stream, &on_x, &on_x, &mut sum)?;
    site.counts.same("a sum after a fault", &sum.to_vec()?, &reference::vecadd::vecadd(&x, &x))
}

/// Counts the fault as reported, if it is.
pub(super) fn expect(
    site: &Site,
    fault: &'static str,
    report: GpuResult<()>,
    is_it: impl Fn(&GpuError) -> bool,
) -> Result<(), SoakError> {
    let found = match report {
        Err(error) if is_it(error.root()) => {
            site.counts.end(Flow::Faults, 1);
            return Ok(());
        }
        Err(error) => error.to_string(),
        Ok(()) => "no error".to_owned(),
    };
    Err(SoakError::Unreported { fault, found })
}

fn is_out_of_memory(error: &GpuError) -> bool {
    matches!(error, GpuError::OutOfMemory { .. })
}

fn failing_allocation(site: &Site, on: &Stream, random: &mut Random) -> GpuResult<()> {
    let memory = FailureAdaptor::new(site.memory.clone());
    let through = random.below(4);
    memory.fail_after(through as u64);
    let made = (0..=through).map(|_| DeviceBuffer::<u32>::zeroed_in(&memory, on, 100));
    made.collect::<GpuResult<Vec<_>>>().map(drop)
}

fn over_a_limit(site: &Site, on: &Stream, random: &mut Random) -> GpuResult<()> {
    let limit = random.below(10_000) + 1;
    let memory = LimitAdaptor::new(site.memory.clone(), limit);
    let _half = DeviceBuffer::<u8>::zeroed_in(&memory, on, limit.div_ceil(2))?;
    DeviceBuffer::<u8>::zeroed_in(&memory, on, limit).map(drop)
}

fn no_parameter(site: &Site, on: &Stream, _: &mut Random) -> GpuResult<()> {
    let x = DeviceBuffer::<f32>::zeroed_in(&site.memory, on, 10)?;
    let mut y = DeviceBuffer::zeroed_in(&site.memory, on, 10)?;
    let builder = GraphBuilder::new(on);
    let node = builder.node("only");
    saxpy::launch(&node, LaunchConfig::for_num_elems(10), 1.0, &x, &mut y)?;
    builder.build((x, y))?.parameter::<f32>(&node, "beta").map(drop)
}
