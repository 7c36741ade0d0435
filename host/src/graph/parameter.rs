//! New parameters for the nodes of a graph that is built.

use std::any::{TypeId, type_name};
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

use cuda_std::launch::{Args, Kernel, KernelValue, Launch, LaunchConfig, ParamKind};

use super::buffers::GraphBuffers;
use super::builder::GraphNode;
use super::operation::{KernelOperation, Operation, uses};
use super::replay::{Graph, Located};
use crate::error::{GpuContext, GpuError, GpuResult, GraphError};
use crate::launch::{Prepared, check_homes, prepare};
use crate::stream::Stream;

/// A kernel parameter of a node that is passed by value and can be set: see
/// [`Graph::parameter`].
pub struct Parameter<T> {
    graph: u64,
    node: usize,
    value: usize,
    of: PhantomData<fn(T)>,
}

impl<T> Clone for Parameter<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Parameter<T> {}

impl<T> fmt::Debug for Parameter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parameter<{}>(node {}, value {})", type_name::<T>(), self.node, self.value)
    }
}

impl<B: GraphBuffers> Graph<B> {
    /// The parameter of that name of the kernel that `node` runs, as it stands in the kernel's source.
    ///
    /// # Errors
    /// [`NoParameter`](GraphError::NoParameter), [`WrongType`](GraphError::WrongType),
    /// [`OtherGraph`](GraphError::OtherGraph), or [`Optimized`](GraphError::Optimized) for a node that was fused or
    /// removed.
    pub fn parameter<T: KernelValue>(
        &self,
        node: &GraphNode,
        name: &str,
    ) -> GpuResult<Parameter<T>> {
        let parts = self.parts();
        let at = parts.index(node)?;
        parts.check_parameters(at)?;
        let value = find::<T>(&parts.nodes[at].work, node.name(), name)?;
        Ok(Parameter { graph: parts.id, node: at, value, of: PhantomData })
    }

    /// Sets a parameter for later launches of the graph; those that are enqueued keep the value that they had.
    ///
    /// The node's kernel is one that safe code may launch, with any value of the type. The launch of an `unsafe` kernel is a promise
    /// about its values, which another value may break: [`set_unchecked`](Self::set_unchecked) repeats the promise.
    ///
    /// # Errors
    /// [`UnsafeKernel`](GraphError::UnsafeKernel), and nothing is changed; [`OtherGraph`](GraphError::OtherGraph), or what the
    /// driver returns.
    pub fn set<T: KernelValue>(&mut self, parameter: Parameter<T>, value: T) -> GpuResult<()> {
        let at = self.node_of(parameter)?;
        let node = &self.parts().nodes[at];
        if let Operation::Kernel(work) = &node.work
            && !work.kernel.contract.is_safe
        {
            let (node, kernel) = (node.info.name.clone(), work.kernel.name);
            return Err(GraphError::UnsafeKernel { node, kernel }.into());
        }
        // SAFETY: safe code may launch the kernel with any value of the parameter's type.
        unsafe { self.set_unchecked(parameter, value) }
    }

    /// As [`set`](Self::set), also for a kernel whose launch is `unsafe`: one that is an `unsafe fn`, as many of the library's own are, or that
    /// was described by hand.
    ///
    /// # Errors
    /// [`OtherGraph`](GraphError::OtherGraph), or what the driver returns.
    ///
    /// # Safety
    /// In each later launch of this graph, and of each graph to which it is added from now on, `value` and the node's other arguments meet
    /// the requirements in the documentation of the kernel.
    pub unsafe fn set_unchecked<T: KernelValue>(
        &mut self,
        parameter: Parameter<T>,
        value: T,
    ) -> GpuResult<()> {
        let at = self.node_of(parameter)?;
        let parts = self.parts_mut();
        if let Operation::Kernel(kernel) = &mut parts.nodes[at].work {
            kernel.replace_value(parameter.value, value);
        }
        let updated = parts.update(at);
        let updated = updated.with_gpu_context(|| parts.what(at, "giving", "a parameter"));
        self.told(updated)
    }

    /// The index of the node to which `parameter` belongs.
    fn node_of<T>(&self, parameter: Parameter<T>) -> Result<usize, GraphError> {
        match parameter.graph == self.parts().id {
            true => Ok(parameter.node),
            false => Err(GraphError::OtherGraph { node: format!("{parameter:?}") }),
        }
    }

    /// Replaces the launch of `node`, with the same kernel: with other values, another grid, or
    /// other ranges of the buffers that it used. Nothing runs; the change is for later launches of the graph.
    ///
    /// ```no_run
    /// # use ferrowarp::{DeviceBuffer, Gpu, GpuResult, LaunchConfig};
    /// # use ferrowarp::graph::{Graph, GraphNode};
    /// # use kernels_gpu::elementwise::saxpy;
    /// # fn with(
    /// #     mut graph: Graph<(DeviceBuffer<f32>, DeviceBuffer<f32>)>, node: GraphNode,
    /// # ) -> GpuResult<()> {
    /// graph.relaunch(&node, |node, (x, y)| {
    ///     saxpy::launch(node, LaunchConfig::for_num_elems(x.len()), -1.0, x, y)
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`OtherKernel`](GraphError::OtherKernel), [`OtherMemory`](GraphError::OtherMemory),
    /// [`EmptyGrid`](GraphError::EmptyGrid), [`Optimized`](GraphError::Optimized), those of `launch`, or what the driver
    /// answers.
    pub fn relaunch(
        &mut self,
        node: &GraphNode,
        launch: impl FnOnce(&Relaunch, &mut B) -> GpuResult<()>,
    ) -> GpuResult<()> {
        let (parts, buffers) = self.parts_and_buffers();
        let at = parts.index(node)?;
        parts.check_relaunch(node)?;
        let name = node.name().to_owned();
        let relaunch =
            Relaunch { stream: parts.stream.clone(), name, launched: RefCell::default() };
        launch(&relaunch, buffers)?;
        self.refresh()?;
        let Some(launched) = relaunch.launched.into_inner() else { return Ok(()) };
        self.exchange(at, launched)
    }

    fn exchange(&mut self, at: usize, launched: Launched) -> GpuResult<()> {
        let Launched { kernel, args, prepared } = launched;
        let regions = self.regions().to_vec();
        let parts = self.parts_mut();
        let node = &mut parts.nodes[at];
        let name = &node.info.name;
        let Operation::Kernel(work) = &mut node.work else { return Err(no_kernel(name, kernel)) };
        if !std::ptr::eq(work.kernel, kernel) && work.kernel != kernel {
            let (node, expected, found) = (name.clone(), work.kernel.name, kernel.name);
            return Err(GraphError::OtherKernel { node, expected, found }.into());
        }
        let located = |part| Located::new(part, || name.clone(), &regions);
        let now = uses(kernel, &args).into_iter().map(located);
        let now = now.collect::<Result<Vec<_>, _>>()?;
        for own in &now {
            if !node.ordered.iter().any(|known| known.holds(own)) {
                let (node, argument) = (name.clone(), own.part.argument);
                return Err(GraphError::OtherMemory { node, argument }.into());
            }
        }
        let module = parts.stream.module();
        node.uses = now;
        **work = KernelOperation::new(kernel, prepared, &args, module);
        parts.note_launch(at);
        let updated = parts.update(at);
        let updated = updated.with_gpu_context(|| parts.what(at, "launching", "anew"));
        self.told(updated)
    }
}

/// Takes the new launch of a node: see [`Graph::relaunch`].
pub struct Relaunch {
    stream: Stream,
    name: String,
    launched: RefCell<Option<Launched>>,
}

struct Launched {
    kernel: &'static Kernel,
    args: Args<'static>,
    prepared: Prepared,
}

impl Launch for Relaunch {
    type Error = GpuError;

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> GpuResult<()> {
        check_homes(&self.stream, kernel, args)?;
        let prepared = prepare(&self.stream, kernel, config, args)?;
        let empty = || GraphError::EmptyGrid { node: self.name.clone() };
        let prepared = prepared.ok_or_else(empty)?;
        let args = args.keep();
        self.launched.replace(Some(Launched { kernel, args, prepared }));
        Ok(())
    }
}

fn no_kernel(node: &str, kernel: &'static Kernel) -> GpuError {
    GraphError::OtherKernel { node: node.to_owned(), expected: "no kernel", found: kernel.name }
        .into()
}

/// Which value of the node's kernel has that name, and the type `T`.
fn find<T: KernelValue>(work: &Operation, node: &str, name: &str) -> Result<usize, GraphError> {
    let (node, parameter) = (node.to_owned(), name.to_owned());
    let Operation::Kernel(kernel) = work else {
        return Err(GraphError::NoParameter { node, parameter, known: Vec::new() });
    };
    let params = kernel.kernel.params.iter().enumerate();
    let mut values = params.filter(|(_, param)| param.kind == ParamKind::Value);
    let Some((value, _)) = values.clone().find(|(_, param)| param.name == name) else {
        let known = values.by_ref().map(|(_, param)| param.name.to_owned()).collect();
        return Err(GraphError::NoParameter { node, parameter, known });
    };
    let (found, expected) = kernel.args.type_of(value).unwrap_or((TypeId::of::<()>(), "unknown"));
    if found != TypeId::of::<T>() {
        let found = type_name::<T>();
        return Err(GraphError::WrongType { node, parameter, expected, found });
    }
    Ok(value)
}
