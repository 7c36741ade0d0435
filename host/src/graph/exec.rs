//! The driver's graph: its nodes, the one that is ready to be launched, and changes of that.

use std::ffi::c_char;
use std::ptr;
use std::sync::Arc;

use cuda_driver::LaunchAttribute;
use cuda_driver::sys;

use super::operation::{Operation, host_params};
use crate::context::Context;
use crate::error::{GpuContext, GpuResult};

/// The driver's data of an edge between two kernels (`CUgraphEdgeData`): from the port at which all blocks have ended or have
/// let the next kernel start (1, the first byte), of the programmatic type (1, the third).
const PROGRAMMATIC_EDGE: u64 = u64::from_le_bytes([1, 0, 1, 0, 0, 0, 0, 0]);

/// A graph of the driver, and what was made ready of it.
#[derive(Debug)]
pub(super) struct Driver {
    exec: sys::CUgraphExec,
    drawing: Drawing,
}

/// A graph of the driver, of which others are made.
#[derive(Debug)]
pub(super) struct Drawing {
    context: Arc<Context>,
    graph: sys::CUgraph,
    /// Of each node, by its number.
    nodes: Vec<sys::CUgraphNode>,
}

// SAFETY: the handles are used through the driver alone, which allows any thread as long as no two
// use a graph at the same time; what changes or launches one takes `&mut self`.
unsafe impl Send for Driver {}
// SAFETY: as above; nothing is done through a shared reference.
unsafe impl Sync for Driver {}

impl Driver {
    /// Makes the graph of `nodes`, in `sorted` order, each behind those in `before`.
    pub(super) fn new(
        context: &Arc<Context>,
        nodes: &[(&str, &Operation)],
        before: &[Vec<usize>],
        sorted: &[usize],
    ) -> GpuResult<Self> {
        let drawing = Drawing::new(context, nodes, before, sorted)?;
        let mut driver = Self { exec: ptr::null_mut(), drawing };
        driver.instantiate(nodes)?;
        Ok(driver)
    }

    fn instantiate(&mut self, nodes: &[(&str, &Operation)]) -> GpuResult<()> {
        let mut log = [0 as c_char; 256];
        let mut odd = ptr::null_mut();
        let (exec, graph) = (&mut self.exec, self.drawing.graph);
        let made = self.drawing.context.call("cuGraphInstantiate", || {
            let (log, bytes) = (log.as_mut_ptr(), log.len());
            // SAFETY: all places are writable, and the graph lives.
            unsafe { sys::cuGraphInstantiate_v2(exec, graph, &mut odd, log, bytes) }
        });
        let place = self.drawing.nodes.iter().position(|node| !odd.is_null() && *node == odd);
        let log: Vec<u8> = log.iter().map(|&c| c as u8).take_while(|&byte| byte != 0).collect();
        made.with_gpu_context(|| {
            let at = place.map_or(String::new(), |at| format!(" at node `{}`", nodes[at].0));
            let log = String::from_utf8_lossy(&log);
            let log = if log.is_empty() { String::new() } else { format!(" ({log})") };
            format!("making a graph ready{at}{log}")
        })
    }

    /// Gives a node the parameters that `work` has now, for the launches to come.
    pub(super) fn update(&mut self, at: usize, work: &Operation) -> GpuResult<()> {
        let Drawing { context: own, nodes, .. } = &self.drawing;
        let (exec, node, context) = (self.exec, nodes[at], own.raw());
        match work {
            // A host callback reads its argument itself, and foreign work cannot be changed.
            Operation::Nothing | Operation::Host(_) | Operation::Foreign(_) => Ok(()),
            Operation::Kernel(kernel) => kernel.with_params(|params| {
                own.call("cuGraphExecKernelNodeSetParams", || {
                    // SAFETY: as for a new node; the node is of the graph that this was made from.
                    unsafe { sys::cuGraphExecKernelNodeSetParams(exec, node, params) }
                })
            }),
            Operation::Copy(copy) => own.call("cuGraphExecMemcpyNodeSetParams", || {
                let params = &copy.params();
                // SAFETY: as above.
                unsafe { sys::cuGraphExecMemcpyNodeSetParams(exec, node, params, context) }
            }),
            Operation::Fill(fill) => own.call("cuGraphExecMemsetNodeSetParams", || {
                let params = &fill.params();
                // SAFETY: as above.
                unsafe { sys::cuGraphExecMemsetNodeSetParams(exec, node, params, context) }
            }),
            Operation::Child(child) => {
                let inner = child.draw(own)?;
                own.call("cuGraphExecChildGraphNodeSetParams", || {
                    // SAFETY: as above; the node's graph was made of the same nodes in the same order.
                    unsafe { sys::cuGraphExecChildGraphNodeSetParams(exec, node, inner.graph) }
                })
            }
        }
    }

    /// Queues all of it.
    ///
    /// # Safety
    /// All that its nodes use lives until the stream has done them.
    pub(super) unsafe fn launch(&mut self, stream: sys::CUstream) -> GpuResult<()> {
        let context = &self.drawing.context;
        // SAFETY: the graph is ready, the stream lives, and the rest is the caller's promise.
        let launch = || unsafe { sys::cuGraphLaunch(self.exec, stream) };
        let launched = context.call_on_stream("cuGraphLaunch", launch);
        context.count_submission();
        launched
    }
}

// SAFETY: as for `Driver`: what adds nodes to one takes `&mut self` of who makes it.
unsafe impl Send for Drawing {}
// SAFETY: as above; nothing is done through a shared reference.
unsafe impl Sync for Drawing {}

impl Drawing {
    /// Makes the graph of `nodes`, in `sorted` order, each behind those in `before`.
    pub(super) fn new(
        context: &Arc<Context>,
        nodes: &[(&str, &Operation)],
        before: &[Vec<usize>],
        sorted: &[usize],
    ) -> GpuResult<Self> {
        let handles = vec![ptr::null_mut(); nodes.len()];
        let mut own = Self { context: context.clone(), graph: ptr::null_mut(), nodes: handles };
        // SAFETY: the place is writable; no flags are defined.
        let create = || unsafe { sys::cuGraphCreate(&mut own.graph, 0) };
        context.call("cuGraphCreate", create)?;
        for &at in sorted {
            let (name, work) = nodes[at];
            let what = || format!("adding node `{name}` to a graph");
            own.nodes[at] = match (work, before[at].as_slice()) {
                (Operation::Kernel(kernel), &[kernel_before])
                    if kernel.starts_early
                        && matches!(nodes[kernel_before].1, Operation::Kernel(_)) =>
                {
                    let node = own.add(work, &[]).with_gpu_context(what)?;
                    own.start_early(node, own.nodes[kernel_before]).with_gpu_context(what)?;
                    node
                }
                (_, before) => own.add(work, before).with_gpu_context(what)?,
            };
        }
        Ok(own)
    }

    fn add(&self, work: &Operation, before: &[usize]) -> GpuResult<sys::CUgraphNode> {
        let before: Vec<_> = before.iter().map(|&at| self.nodes[at]).collect();
        let (behind, count) = (before.as_ptr(), before.len());
        let (graph, context) = (self.graph, self.context.raw());
        let mut node = ptr::null_mut();
        let new = &mut node;
        let call =
            |operation, add: &mut dyn FnMut() -> sys::CUresult| self.context.call(operation, add);
        // The driver copies what it is given; `before` lives until it has.
        match work {
            Operation::Nothing => call("cuGraphAddEmptyNode", &mut || {
                // SAFETY: graph and nodes are this one's.
                unsafe { sys::cuGraphAddEmptyNode(new, graph, behind, count) }
            }),
            Operation::Kernel(kernel) => kernel.with_params(|params| {
                call("cuGraphAddKernelNode", &mut || {
                    // SAFETY: as above; the function is loaded, and the values are its parameters.
                    unsafe { sys::cuGraphAddKernelNode(new, graph, behind, count, params) }
                })
            }),
            Operation::Copy(copy) => call("cuGraphAddMemcpyNode", &mut || {
                let params = &copy.params();
                // SAFETY: as above; the graph keeps the memory at both addresses.
                unsafe { sys::cuGraphAddMemcpyNode(new, graph, behind, count, params, context) }
            }),
            Operation::Fill(fill) => call("cuGraphAddMemsetNode", &mut || {
                let params = &fill.params();
                // SAFETY: as above; the graph keeps the memory.
                unsafe { sys::cuGraphAddMemsetNode(new, graph, behind, count, params, context) }
            }),
            Operation::Host(function) => call("cuGraphAddHostNode", &mut || {
                let params = &host_params(function);
                // SAFETY: as above; the graph keeps the function until no replay can call it.
                unsafe { sys::cuGraphAddHostNode(new, graph, behind, count, params) }
            }),
            Operation::Child(child) => {
                let inner = child.draw(&self.context)?;
                self.add_child(new, inner.graph, &before)
            }
            Operation::Foreign(work) => self.add_child(new, work.graph(), &before),
        }?;
        if let Operation::Kernel(kernel) = work {
            let mut set = kernel.attributes.iter();
            set.try_for_each(|attribute| self.set_attribute(node, attribute))?;
        }
        Ok(node)
    }

    /// Lets the kernel of `node` begin when all blocks of the kernel of `before` have ended or have let the next kernel start; the
    /// kernel of `node` waits for the end of `before` itself. With a driver before CUDA 12.3 it begins at that end.
    fn start_early(&self, node: sys::CUgraphNode, before: sys::CUgraphNode) -> GpuResult<()> {
        let (graph, from, to) = (self.graph, [before], [node]);
        let early = self.context.call("cuGraphAddDependencies", || {
            let (from, to, edge) = (from.as_ptr(), to.as_ptr(), [PROGRAMMATIC_EDGE]);
            // SAFETY: graph and nodes are this one's, and there is one of each.
            unsafe { sys::cuGraphAddDependencies_v2(graph, from, to, edge.as_ptr(), 1) }
        });
        early.or_else(|_| {
            self.context.call("cuGraphAddDependencies", || {
                // SAFETY: as above.
                unsafe { sys::cuGraphAddDependencies(graph, from.as_ptr(), to.as_ptr(), 1) }
            })
        })
    }

    /// Adds a copy of `child`, which lives.
    fn add_child(
        &self,
        new: &mut sys::CUgraphNode,
        child: sys::CUgraph,
        before: &[sys::CUgraphNode],
    ) -> GpuResult<()> {
        let (behind, count) = (before.as_ptr(), before.len());
        self.context.call("cuGraphAddChildGraphNode", || {
            // SAFETY: graph and nodes are this one's; the driver makes a copy of the other graph.
            unsafe { sys::cuGraphAddChildGraphNode(new, self.graph, behind, count, child) }
        })
    }

    fn set_attribute(&self, node: sys::CUgraphNode, attribute: &LaunchAttribute) -> GpuResult<()> {
        self.context.call("cuGraphKernelNodeSetAttribute", || {
            // SAFETY: the node runs a kernel, and the value is of the union's size.
            unsafe { sys::cuGraphKernelNodeSetAttribute(node, attribute.id, &attribute.value) }
        })
    }
}

impl Drop for Driver {
    /// The driver lets a launch that still runs finish.
    fn drop(&mut self) {
        if !self.exec.is_null() {
            // SAFETY: it is this one's own, and is not used again.
            self.drawing.context.release(|| unsafe { sys::cuGraphExecDestroy(self.exec) });
        }
    }
}

impl Drop for Drawing {
    fn drop(&mut self) {
        if !self.graph.is_null() {
            // SAFETY: it is this one's own, and is not used again.
            self.context.release(|| unsafe { sys::cuGraphDestroy(self.graph) });
        }
    }
}
