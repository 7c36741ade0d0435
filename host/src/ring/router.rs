//! Kernels that send messages to each other by name.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

use bytemuck::Pod;

use super::bridge::Bridge;
use super::kernel::{Launcher, PersistentKernel};
use super::memory::{OnDevice, Ring, ToDevice, ToHost};
use super::receiver::Receiver;
use super::sender::Sender;
use crate::error::{GpuError, GpuResult, KernelPanic};
use crate::event::Event;
use crate::lock::lock;
use crate::panic::Panics;
use crate::shared_memory::SharedMemory;
use crate::stream::{AsStream, Stream};

const JOINING: &str = "joining the kernels of a router";
const SENDING: &str = "sending through a router";

/// Persistent kernels that send messages to each other, each by the other's name (K2K).
///
/// The router has a [`Mailboxes`] for each name: a ring in the device's memory for what other kernels send, and one for
/// what the host sends. It is made with all names, then [`start`](Self::start) starts the kernels one by one, in any
/// order, and joins them:
///
/// ```no_run
/// use ferrowarp::{Bridge, Gpu, Grid1, Router};
/// use kernels_gpu::persistent::{route_add, route_parity};
///
/// let gpu = Gpu::new()?;
/// gpu.load_kernels()?; // none can be loaded beside a persistent kernel; see below
/// let names = ["parity", "even", "odd"];
/// let (mut router, receiver) = Router::new(&gpu, &names, 256, Bridge::Mapped)?;
/// router.start("parity", |launcher, mail| {
///     let (even, odd) = (mail.to("even")?, mail.to("odd")?);
///     route_parity::launch(launcher, Grid1::new(1), mail.from_host(), even, odd)
/// })?;
/// for (name, addend) in [("even", 100), ("odd", 200)] {
///     router.start(name, |launcher, mail| {
///         route_add::launch(launcher, Grid1::new(1), addend, mail.inbox(), mail.to_host())
///     })?;
/// }
/// router.send("parity", &3)?;
/// assert_eq!(receiver.recv()?, Some(203));
/// router.shut_down()?; // "parity" first, then the others, when each has sent on what it had
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
///
/// # Backpressure, and why it does not deadlock
///
/// A kernel that sends to a full mailbox waits for the one that receives there. The links of [`to`](Mailboxes::to) have
/// no circle, because one that would close a circle is an error. So each wait ends in a kernel that sends to the host or
/// to none, and all kernels move on as long as the host receives. A thread of the host that both sends and receives
/// must not wait for a free slot while answers wait for it: let it use [`Sender::try_send`] or futures, or receive on
/// another thread.
///
/// Kernels that send in a circle need a link of [`feedback_to`](Mailboxes::feedback_to), and a rule of their own, since
/// each could wait for the other with all mailboxes full: the kernel that admits messages into the circle admits no more
/// at once than a mailbox has slots. `kernels_gpu::persistent::route_rounds` shows that.
///
/// # The death of a kernel
///
/// When one kernel panics, all waits for messages from and to the router's kernels return that panic with the kernel's
/// name, after what had been received; all mailboxes are closed, so that the other kernels end, too. The host sees the
/// panic when it waits, in [`check`](Self::check) and in [`shut_down`](Self::shut_down).
///
/// A kernel that receives from its [`inbox`](Mailboxes::inbox) or [`from_host`](Mailboxes::from_host) publishes the id of its
/// grid, and the record of a panic has the id of the grid that panicked. So the name is right even where several names run the
/// same kernel. A kernel that receives from neither mailbox, or a name that stands for several launches, cannot be identified:
/// the error then lists all such names.
#[doc(alias = "K2K")]
pub struct Router<T: Pod> {
    on: Stream,
    nodes: Vec<Node<T>>,
    to_host: Ring<T, ToHost>,
    fate: Arc<Fate>,
    patience: Option<Duration>,
}

/// A name, its mailboxes, and its kernel once it was started.
struct Node<T: Pod> {
    name: String,
    sender: Sender<T>,
    requests: Ring<T, ToDevice>,
    inbox: Ring<T, OnDevice>,
    kernel: Option<PersistentKernel>,
    links: Links,
}

/// What a kernel's launch has taken: indices of kernels that it sends to, and whether it receives.
#[derive(Clone, Debug, Default)]
struct Links {
    forward: Vec<usize>,
    feedback: Vec<usize>,
    from_host: bool,
    inbox: bool,
}

impl<T: Pod> Router<T> {
    /// A router for kernels of these names, whose mailboxes have at least `slots` slots (the next power of two), and the
    /// end at which the host receives what they send to it. `bridge` is how the host's messages get to the device.
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) if a name occurs twice; the errors of [`Ring::to_device`].
    pub fn new(
        on: &impl AsStream,
        names: &[&str],
        slots: usize,
        bridge: Bridge,
    ) -> GpuResult<(Self, Receiver<T>)> {
        let stream = on.as_stream();
        if let Some(twice) = (1..names.len()).find(|i| names[..*i].contains(&names[*i])) {
            let reason = format!("the name `{}` is given twice", names[twice]);
            return Err(GpuError::InvalidArgument { operation: "making a router", reason });
        }
        let nodes = names.iter().map(|name| Node::new(stream, name, slots, bridge));
        let nodes = nodes.collect::<GpuResult<Vec<_>>>()?;
        let (to_host, receiver) = Ring::to_host(stream, slots)?;
        let rings = nodes.iter().flat_map(Node::rings).chain([to_host.memory()]);
        let fate = Fate::of(rings.collect());
        let on = Stream::new(stream.inner().context(), stream.module())?;
        Ok((Self { on, nodes, to_host, fate, patience: None }, receiver))
    }

    /// Starts the kernel of this name: `launch` launches it, with the ends of rings that it takes from the
    /// [`Mailboxes`]. Other kernels that it sends to may be started before or after it.
    ///
    /// # Errors
    /// [`NotRouted`](GpuError::NotRouted) if the router was not made with this name;
    /// [`InvalidArgument`](GpuError::InvalidArgument) if the kernel was started before, or does not receive what another
    /// kernel sends to it; the errors of [`PersistentKernel::start`] and of `launch`. A kernel that was launched before the
    /// error is ended, and the rings are closed that it was launched with.
    pub fn start(
        &mut self,
        name: &str,
        launch: impl FnOnce(&Launcher, &Mailboxes<'_, T>) -> GpuResult<()>,
    ) -> GpuResult<()> {
        let own = self.index(name)?;
        if self.nodes[own].kernel.is_some() {
            return Err(joining(format!("`{name}` was started before")));
        }
        let mail = Mailboxes { router: self, own, links: RefCell::default() };
        let mut kernel = PersistentKernel::start(&self.on, |launcher| launch(launcher, &mail))?;
        let links = mail.links.into_inner();
        if let Some(sender) = self.senders(own).next().filter(|_| !links.inbox) {
            let sender = &sender.name;
            return Err(joining(format!(
                "`{sender}` sends to `{name}`, which does not take `inbox`"
            )));
        }
        if let Some(patience) = self.patience {
            kernel.set_shutdown_timeout(patience);
        }
        let node = &mut self.nodes[own];
        self.fate.add(Routed {
            name: name.to_owned(),
            end: kernel.event_after()?,
            mail: kernel.is_one_launch().then(|| node.rings().map(Arc::downgrade)),
        });
        (node.kernel, node.links) = (Some(kernel), links);
        Ok(())
    }

    /// The kernels that send to this one.
    fn senders(&self, to: usize) -> impl Iterator<Item = &Node<T>> {
        let sends =
            move |links: &Links| links.forward.contains(&to) || links.feedback.contains(&to);
        self.nodes.iter().filter(move |node| sends(&node.links))
    }

    fn index(&self, name: &str) -> GpuResult<usize> {
        let found = self.nodes.iter().position(|node| node.name == name);
        found.ok_or_else(|| GpuError::NotRouted {
            name: name.to_owned(),
            names: self.nodes.iter().map(|node| node.name.clone()).collect(),
        })
    }

    /// Sends a message to the kernel of this name, and waits for a free slot where there is none.
    ///
    /// # Errors
    /// As [`sender`](Self::sender); as [`Sender::send`].
    pub fn send(&self, name: &str, message: &T) -> GpuResult<()> {
        self.host_end(name)?.send(message)
    }

    /// The end at which the host sends to the kernel of this name: for futures, for a
    /// [`Caller`](super::Caller), and for sends without the search for the name.
    ///
    /// # Errors
    /// [`NotRouted`](GpuError::NotRouted) if the router was not made with this name;
    /// [`InvalidArgument`](GpuError::InvalidArgument) if its kernel does not receive from the host, or if not all kernels
    /// have been started.
    pub fn sender(&self, name: &str) -> GpuResult<Sender<T>> {
        self.host_end(name).cloned()
    }

    fn host_end(&self, name: &str) -> GpuResult<&Sender<T>> {
        let node = &self.nodes[self.index(name)?];
        let refused = |reason| Err(GpuError::InvalidArgument { operation: SENDING, reason });
        if let Some(absent) = self.nodes.iter().find(|node| node.kernel.is_none()) {
            return refused(format!("the kernel `{}` has not been started", absent.name));
        }
        if !node.links.from_host {
            return refused(format!("the kernel `{name}` does not take `from_host`"));
        }
        Ok(&node.sender)
    }

    /// Whether all kernels are well.
    ///
    /// # Errors
    /// The panic of one, with its name; the fault of the device.
    pub fn check(&self) -> GpuResult<()> {
        self.fate.check()
    }

    /// Sets how long each kernel may take to end: see [`PersistentKernel::set_shutdown_timeout`].
    pub fn set_shutdown_timeout(&mut self, patience: Duration) {
        self.patience = Some(patience);
        let kernels = self.nodes.iter_mut().filter_map(|node| node.kernel.as_mut());
        kernels.for_each(|kernel| kernel.set_shutdown_timeout(patience));
    }

    /// Ends the kernels in the order of their links: those first to which only the host sends. The mailboxes of a kernel
    /// are closed when all kernels have ended that send to it, so that it receives and sends on what they have sent.
    ///
    /// A kernel that others send to by [`feedback_to`](Mailboxes::feedback_to) ends before those, by itself: when the
    /// host's messages have ended and it awaits no more feedback.
    ///
    /// What was sent to the host can be received afterwards. Where the ring to the host is full and no code receives,
    /// all mailboxes are closed after the time that [`set_shutdown_timeout`](Self::set_shutdown_timeout) sets, and the
    /// messages in them are lost.
    ///
    /// # Errors
    /// The panic of a kernel, with its name; the errors of [`PersistentKernel::shut_down`].
    pub fn shut_down(mut self) -> GpuResult<()> {
        self.end()
    }

    fn end(&mut self) -> GpuResult<()> {
        let drained = self.drain();
        self.fate.close_all();
        let kernels = self.nodes.iter_mut().filter_map(|node| node.kernel.take());
        let ends: Vec<_> = kernels.map(PersistentKernel::shut_down).collect();
        // Its error names the kernel.
        self.fate.check()?;
        drained.and(ends.into_iter().collect())
    }

    /// Lets the kernels end in order, up to one that does not end in time.
    fn drain(&self) -> GpuResult<()> {
        for own in self.order() {
            let node = &self.nodes[own];
            node.requests.memory().close_requests();
            if !self.nodes.iter().any(|node| node.links.feedback.contains(&own)) {
                node.inbox.memory().close_senders();
            }
            if let Some(kernel) = &node.kernel
                && !kernel.ends_in_time()?
            {
                break;
            }
        }
        Ok(())
    }

    /// All kernels, each after those that send to it.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = Vec::new();
        let sends = |from: usize, to: usize| self.nodes[from].links.forward.contains(&to);
        let is_next = |own: &usize, order: &[usize]| {
            !order.contains(own)
                && (0..self.nodes.len()).all(|from| order.contains(&from) || !sends(from, *own))
        };
        while let Some(next) = (0..self.nodes.len()).find(|own| is_next(own, &order)) {
            order.push(next);
        }
        order
    }

    /// Whether what `from` sends can get to `to` by the links of the kernels that were started.
    fn leads(&self, from: usize, to: usize) -> bool {
        from == to || self.nodes[from].links.forward.iter().any(|next| self.leads(*next, to))
    }
}

fn joining(reason: String) -> GpuError {
    GpuError::InvalidArgument { operation: JOINING, reason }
}

impl<T: Pod> Node<T> {
    fn new(stream: &Stream, name: &str, slots: usize, bridge: Bridge) -> GpuResult<Self> {
        let (sender, requests) = Ring::to_device(stream, slots, bridge)?;
        let inbox = Ring::on_device(stream, slots)?;
        let (name, links) = (name.to_owned(), Links::default());
        Ok(Self { name, sender, requests, inbox, kernel: None, links })
    }

    fn rings(&self) -> [&Arc<SharedMemory>; 2] {
        [self.requests.memory(), self.inbox.memory()]
    }
}

/// The rings that a kernel of a [`Router`] can be launched with. What its launch takes here says how it is joined to the
/// others.
pub struct Mailboxes<'a, T: Pod> {
    router: &'a Router<T>,
    own: usize,
    links: RefCell<Links>,
}

impl<'a, T: Pod> Mailboxes<'a, T> {
    fn own(&self) -> &'a Node<T> {
        &self.router.nodes[self.own]
    }

    /// What the host sends to this kernel: for its `RingConsumer`.
    pub fn from_host(&self) -> &'a Ring<T, ToDevice> {
        self.links.borrow_mut().from_host = true;
        &self.own().requests
    }

    /// What other kernels send to this one: for its `RingConsumer`.
    pub fn inbox(&self) -> &'a Ring<T, OnDevice> {
        self.links.borrow_mut().inbox = true;
        &self.own().inbox
    }

    /// The host's mailbox: for its `RingProducer`.
    pub fn to_host(&self) -> &'a Ring<T, ToHost> {
        &self.router.to_host
    }

    /// The mailbox of the kernel of this name: for its `RingProducer`.
    ///
    /// # Errors
    /// [`NotRouted`](GpuError::NotRouted) if the router was not made with this name;
    /// [`InvalidArgument`](GpuError::InvalidArgument) if that kernel was started and does not receive from kernels, or
    /// if the link would close a circle: see [`feedback_to`](Self::feedback_to).
    pub fn to(&self, name: &str) -> GpuResult<&'a Ring<T, OnDevice>> {
        let index = self.receiver(name)?;
        if self.router.leads(index, self.own) {
            let own = &self.own().name;
            return Err(joining(format!(
                "a link from `{own}` to `{name}` would close a circle, in which all mailboxes could be full: use \
                 `feedback_to`, and limit the messages in the circle"
            )));
        }
        self.links.borrow_mut().forward.push(index);
        Ok(&self.router.nodes[index].inbox)
    }

    /// The mailbox of the kernel of this name, for messages that go back: the link may close a circle. It does not count
    /// for the order of the shutdown. The kernels have to see that the circle never is full of messages: see
    /// [`Router`].
    ///
    /// # Errors
    /// As [`to`](Self::to), but for the circle.
    pub fn feedback_to(&self, name: &str) -> GpuResult<&'a Ring<T, OnDevice>> {
        let index = self.receiver(name)?;
        self.links.borrow_mut().feedback.push(index);
        Ok(&self.router.nodes[index].inbox)
    }

    fn receiver(&self, name: &str) -> GpuResult<usize> {
        let index = self.router.index(name)?;
        let node = &self.router.nodes[index];
        if node.kernel.is_some() && !node.links.inbox {
            let own = &self.own().name;
            return Err(joining(format!("`{own}` sends to `{name}`, which does not take `inbox`")));
        }
        Ok(index)
    }
}

/// A kernel of a router, and how its panic is recognised.
struct Routed {
    name: String,
    /// An event after it.
    end: Event,
    /// The memory of the mailboxes that it alone receives from; `None` where the name stands for several launches.
    mail: Option<[Weak<SharedMemory>; 2]>,
}

impl Routed {
    /// The low half of its grid's id, once the kernel runs, if it receives from one of its mailboxes.
    fn grid(&self) -> Option<u32> {
        let mail = self.mail.iter().flatten().filter_map(Weak::upgrade);
        mail.filter_map(|ring| ring.receiving_grid()).next()
    }

    /// Its panic, once it has ended. Where there is none of the grid that the kernel has published, or it has published
    /// none, it may be the panic of another launch of the same kernel and shape.
    ///
    /// # Errors
    /// The fault of the device.
    fn panic(&self) -> GpuResult<Option<KernelPanic>> {
        if !self.end.query()? {
            return Ok(None);
        }
        let panics = Panics::of(self.end.context());
        if let Some(own) = self.grid().and_then(|grid| panics.of_grid(grid)) {
            return Ok(Some(own));
        }
        match self.end.is_complete() {
            Err(GpuError::KernelPanic(panic)) => Ok(Some(*panic)),
            other => other.map(|_| None),
        }
    }
}

/// The names of the kernels that the panic can be of: the one that has published that grid, or else all that have published
/// none.
fn candidates(kernels: &[Routed], panic: &KernelPanic) -> Vec<String> {
    let of = |grid: Option<u32>| {
        let own = kernels.iter().filter(move |kernel| kernel.grid() == grid);
        own.map(|kernel| kernel.name.clone()).collect::<Vec<_>>()
    };
    let known = of(panic.grid);
    if known.is_empty() { of(None) } else { known }
}

/// What the kernels of a router share: the failure of one is that of all.
struct Fate {
    kernels: Mutex<Vec<Routed>>,
    rings: Vec<Weak<SharedMemory>>,
    /// The first panic, and whose it is: several names with `or` between where it is one of them.
    panic: OnceLock<(String, KernelPanic)>,
}

impl Fate {
    /// That of kernels with these rings, whose waits look at it from now on.
    fn of(rings: Vec<&Arc<SharedMemory>>) -> Arc<Self> {
        let weak = rings.iter().copied().map(Arc::downgrade).collect();
        let fate = Self { kernels: Mutex::default(), rings: weak, panic: OnceLock::new() };
        let fate = Arc::new(fate);
        for ring in rings {
            let fate = fate.clone();
            ring.set_watch(Box::new(move || fate.check()));
        }
        fate
    }

    fn add(&self, kernel: Routed) {
        lock(&self.kernels).push(kernel);
    }

    /// # Errors
    /// The first panic of a kernel, with its name, each time; the fault of the device.
    fn check(&self) -> GpuResult<()> {
        if self.panic.get().is_none() {
            self.look()?;
        }
        match self.panic.get() {
            Some((name, panic)) => {
                let panic = GpuError::from(panic.clone());
                Err(panic.context(format!("the kernel `{name}` of a router")))
            }
            None => Ok(()),
        }
    }

    /// Notes the first panic, and closes all rings after it.
    ///
    /// # Errors
    /// The fault of the device; the panic of another launch of the same kernel, which is not the router's.
    fn look(&self) -> GpuResult<()> {
        let kernels = lock(&self.kernels);
        let mut elsewhere = Ok(());
        for kernel in kernels.iter() {
            let Some(panic) = kernel.panic()? else { continue };
            let names = candidates(&kernels, &panic);
            if names.is_empty() {
                elsewhere = Err(panic.into());
                continue;
            }
            let _ = self.panic.set((names.join("` or `"), panic));
            self.close_all();
            return Ok(());
        }
        elsewhere
    }

    fn close_all(&self) {
        self.rings.iter().filter_map(Weak::upgrade).for_each(|ring| ring.close());
    }
}

impl<T: Pod> Drop for Router<T> {
    fn drop(&mut self) {
        if self.nodes.iter().any(|node| node.kernel.is_some()) {
            // The error is available from `shut_down`.
            let _ = self.end();
        }
    }
}

impl<T: Pod> fmt::Debug for Router<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Router")?;
        f.debug_list().entries(self.nodes.iter().map(|node| &node.name)).finish()
    }
}

impl<T: Pod> fmt::Debug for Mailboxes<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mailboxes({})", self.own().name)
    }
}
