//! Small kernels in a module of their own: what a node costs without what the shipped kernels bring along,
//! which is code that panics, a stack for it, and a module with variables.

use cuda_std::launch::{
    Args, Contract, DeviceRead, DeviceWrite, Kernel, Launch, LaunchConfig, Param, ParamKind,
};
use ferrowarp::graph::{Graph, GraphBuilder};
use ferrowarp::module::Image;
use ferrowarp::{Gpu, GpuError, GpuResult};

use super::{Buffers, ONE_BLOCK, Plan, buffers};

// SAFETY: the kernels stay inside the arrays that their launchers below give.
pub const IMAGES: &[Image] = &[unsafe { Image::from_ptx("sm_70", include_str!("alone.ptx")) }];

const fn pointer(name: &'static str) -> Param {
    Param { name, kind: ParamKind::Pointer, size_bytes: 8 }
}

const fn length(name: &'static str) -> Param {
    Param { name, kind: ParamKind::Length, size_bytes: 8 }
}

const fn kernel(name: &'static str, params: &'static [Param]) -> Kernel {
    Kernel { name, params, contract: Contract::NONE }
}

const SLICES: &[Param] = &[pointer("x_ptr"), length("x_len"), pointer("y_ptr"), length("y_len")];

static EMPTY: Kernel = kernel("empty", &[]);
static SLICES_UNUSED: Kernel = kernel("slices_unused", SLICES);
static COPY: Kernel = kernel("copy", SLICES);
static SAXPY: Kernel = kernel(
    "saxpy",
    &[
        Param { name: "alpha", kind: ParamKind::Value, size_bytes: 4 },
        pointer("x_ptr"),
        length("x_len"),
        pointer("y_ptr"),
        length("y_len"),
    ],
);

fn launch(
    on: &impl Launch<Error = GpuError>,
    kernel: &'static Kernel,
    alpha: Option<f32>,
    x: &impl DeviceRead<f32>,
    y: &mut impl DeviceWrite<f32>,
) -> GpuResult<()> {
    let mut args = Args::new();
    alpha.into_iter().for_each(|alpha| args.push_value(alpha));
    args.push_read(x);
    args.push_write(y);
    // SAFETY: the arguments are the kernel's, which stays inside the slices.
    unsafe { on.launch(kernel, LaunchConfig::from(ONE_BLOCK), &args) }
}

/// Kernels without arguments, each told to come after the one before.
fn empty(gpu: &Gpu, plan: Plan) -> GpuResult<Graph<Buffers>> {
    let builder = GraphBuilder::new(gpu);
    let mut last = None;
    for _ in 0..plan.nodes {
        let node = builder.node("empty");
        // SAFETY: the kernel takes nothing, and does nothing.
        unsafe { node.launch(&EMPTY, LaunchConfig::from(ONE_BLOCK), &Args::new()) }?;
        last.iter().try_for_each(|last| node.after(last))?;
        last = Some(node);
    }
    builder.build(buffers(gpu, 1)?)
}

fn chain(
    gpu: &Gpu,
    plan: Plan,
    kernel: &'static Kernel,
    alpha: Option<f32>,
) -> GpuResult<Graph<Buffers>> {
    let (x, mut y) = buffers(gpu, 1)?;
    let builder = GraphBuilder::new(gpu);
    (0..plan.nodes).try_for_each(|_| launch(&builder, kernel, alpha, &x, &mut y[0]))?;
    builder.build((x, y))
}

/// A graph of each, by its name.
pub fn graphs(gpu: &Gpu, plan: Plan) -> GpuResult<Vec<(&'static str, Graph<Buffers>)>> {
    Ok(vec![
        ("empty", empty(gpu, plan)?),
        ("slices unused", chain(gpu, plan, &SLICES_UNUSED, None)?),
        ("saxpy alone", chain(gpu, plan, &SAXPY, Some(0.5))?),
        ("copy alone", chain(gpu, plan, &COPY, None)?),
    ])
}
