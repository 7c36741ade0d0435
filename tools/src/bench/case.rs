//! What is measured: an operation on an element type and a shape.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::check::Fault;
use ferrowarp::error::GpuResult;
use ferrowarp::{Backend, Gpu};

/// Makes a [`Rig`] on random data of a seed.
pub type SetUp = Box<dyn Fn(&Gpu, u32) -> GpuResult<Box<dyn Rig>>>;

/// One operation on one element type and shape.
pub struct Case {
    /// `family/form/element`: what peers call it too.
    pub name: String,
    /// The shape, outermost first: `[n]`, `[rows, cols]`.
    pub shape: Vec<usize>,
    /// What one run does.
    pub work: Work,
    /// The unit of its speed.
    pub unit: Unit,
    /// Peers by name, and how many times as fast as them ours should be.
    pub goals: Vec<(&'static str, f64)>,
    /// The speed that ours should have, in the case's unit, on devices whose names have the text in them.
    pub speed_goal: Option<(&'static str, f64)>,
    /// Whether a run is timed by the host's clock, from its call until the device has nothing more to do.
    pub is_timed_on_host: bool,
    set_up: SetUp,
    beside: Vec<(&'static str, SetUp)>,
}

/// What one run does, at the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// Bytes that must move: each input read once, each output written once.
    pub bytes: u64,
    /// Elements of the shape.
    pub elements: u64,
    /// Arithmetic operations, for the roofline: one an element unless the case says more.
    pub operations: u64,
}

impl Work {
    /// The speed of a run that takes this many milliseconds.
    #[must_use]
    pub fn speed(&self, unit: Unit, milliseconds: f64) -> f64 {
        let (amount, per_second) = match unit {
            Unit::Bandwidth => (self.bytes, 1e9),
            Unit::Elements => (self.elements, 1e9),
            Unit::Operations => (self.operations, 1e12),
        };
        amount as f64 / (milliseconds / 1e3) / per_second
    }
}

/// The unit of a speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// GB/s of the bytes that must move.
    Bandwidth,
    /// 10^9 elements a second.
    Elements,
    /// 10^12 operations a second.
    Operations,
}

impl Unit {
    /// The unit's sign.
    #[must_use]
    pub fn sign(self) -> &'static str {
        match self {
            Self::Bandwidth => "GB/s",
            Self::Elements => "G/s",
            Self::Operations => "Top/s",
        }
    }
}

impl Case {
    /// The case `family/form/element` on `shape`, which reads and writes `bytes` in all; `set_up` makes what runs it
    /// on random data of a seed, and is called once for each copy of the data.
    pub fn new(
        [family, form, element]: [&str; 3],
        shape: impl Into<Vec<usize>>,
        bytes: usize,
        set_up: impl Fn(&Gpu, u32) -> GpuResult<Box<dyn Rig>> + 'static,
    ) -> Self {
        let shape = shape.into();
        let elements = shape.iter().product::<usize>() as u64;
        Self {
            name: format!("{family}/{form}/{element}"),
            shape,
            work: Work { bytes: bytes as u64, elements, operations: elements },
            unit: Unit::Bandwidth,
            goals: Vec::new(),
            speed_goal: None,
            is_timed_on_host: false,
            set_up: Box::new(set_up),
            beside: Vec::new(),
        }
    }

    /// Times runs by the host's clock, one at a time and on one copy of the data: for operations that wait.
    #[must_use]
    pub fn timed_on_host(self) -> Self {
        Self { is_timed_on_host: true, ..self }
    }

    /// Adds a peer that runs in this process: another way to do it, or what limits it.
    #[must_use]
    pub fn beside(
        mut self,
        name: &'static str,
        set_up: impl Fn(&Gpu, u32) -> GpuResult<Box<dyn Rig>> + 'static,
    ) -> Self {
        self.beside.push((name, Box::new(set_up)));
        self
    }

    /// Tells the speed in elements a second, for the elements of the shape.
    #[must_use]
    pub fn in_elements(self) -> Self {
        Self { unit: Unit::Elements, ..self }
    }

    /// Tells the speed in operations a second.
    #[must_use]
    pub fn in_operations(self, operations: u64) -> Self {
        Self { unit: Unit::Operations, ..self.operations(operations) }
    }

    /// How many arithmetic operations a run takes, for the roofline, where it is not one an element.
    #[must_use]
    pub fn operations(mut self, operations: u64) -> Self {
        self.work.operations = operations;
        self
    }

    /// The goal to be `ratio` times as fast as `peer`.
    #[must_use]
    pub fn goal(mut self, peer: &'static str, ratio: f64) -> Self {
        self.goals.push((peer, ratio));
        self
    }

    /// The goal that holds where `condition` does, for goals of some sizes.
    #[must_use]
    pub fn goal_if(self, condition: bool, peer: &'static str, ratio: f64) -> Self {
        if condition { self.goal(peer, ratio) } else { self }
    }

    /// The goal to have a `speed`, in the case's unit, on devices whose names have `device` in them, where `condition`
    /// holds.
    #[must_use]
    pub fn speed_goal_if(mut self, condition: bool, device: &'static str, speed: f64) -> Self {
        if condition {
            self.speed_goal = Some((device, speed));
        }
        self
    }

    /// The family: the first part of the name, which the peers' files bear too.
    #[must_use]
    pub fn family(&self) -> &str {
        self.name.split('/').next().unwrap_or_default()
    }

    /// The shape for people: `2^28`, `32768x8192`.
    #[must_use]
    pub fn size(&self) -> String {
        size(&self.shape)
    }

    /// Makes one copy of the data and what runs on it.
    ///
    /// # Errors
    /// What the driver answers, out of memory for one.
    pub fn set_up(&self, gpu: &Gpu, seed: u32) -> GpuResult<Box<dyn Rig>> {
        (self.set_up)(gpu, seed)
    }

    /// The peers that run in this process, and what makes a copy of the data of each.
    pub fn peers_here(&self) -> impl Iterator<Item = (&'static str, &SetUp)> {
        self.beside.iter().map(|(name, set_up)| (*name, set_up))
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.size())
    }
}

/// A shape for people: powers of two from 1024 as such.
#[must_use]
pub fn size(shape: &[usize]) -> String {
    match shape {
        [n] if *n >= 1024 && n.is_power_of_two() => format!("2^{}", n.ilog2()),
        _ => shape.iter().map(usize::to_string).collect::<Vec<_>>().join("x"),
    }
}

/// An operation with its buffers, ready to be run again and again with the same result.
pub trait Rig {
    /// Fills the outputs with what no right result is.
    ///
    /// # Errors
    /// What the driver answers.
    fn poison(&mut self, gpu: &Gpu) -> GpuResult<()>;

    /// Makes the inputs what they are before each run that the host's clock times, off the clock.
    ///
    /// # Errors
    /// What the driver answers.
    fn prepare(&mut self, _gpu: &Gpu) -> GpuResult<()> {
        Ok(())
    }

    /// Queues the operation once; waits for nothing and allocates nothing, if the operation can.
    ///
    /// # Errors
    /// What the driver answers.
    fn run(&mut self, gpu: &Gpu) -> GpuResult<()>;

    /// Whether the outputs are right.
    ///
    /// # Errors
    /// What is wrong, or what the driver answers.
    fn check(&mut self, gpu: &Gpu) -> Result<(), Fault>;
}

struct Parts<S, P, R, C> {
    state: S,
    poison: P,
    run: R,
    check: C,
}

impl<S, P, R, C> Rig for Parts<S, P, R, C>
where
    P: FnMut(&mut S, &Gpu) -> GpuResult<()>,
    R: FnMut(&mut S, &Gpu) -> GpuResult<()>,
    C: FnMut(&mut S, &Gpu) -> Result<(), Fault>,
{
    fn poison(&mut self, gpu: &Gpu) -> GpuResult<()> {
        (self.poison)(&mut self.state, gpu)
    }

    fn run(&mut self, gpu: &Gpu) -> GpuResult<()> {
        (self.run)(&mut self.state, gpu)
    }

    fn check(&mut self, gpu: &Gpu) -> Result<(), Fault> {
        (self.check)(&mut self.state, gpu)
    }
}

/// A [`Rig`] of buffers and three functions on them: poison, run, check.
///
/// # Errors
/// None; the result is what a set-up gives.
pub fn rig<S: 'static>(
    state: S,
    poison: impl FnMut(&mut S, &Gpu) -> GpuResult<()> + 'static,
    run: impl FnMut(&mut S, &Gpu) -> GpuResult<()> + 'static,
    check: impl FnMut(&mut S, &Gpu) -> Result<(), Fault> + 'static,
) -> GpuResult<Box<dyn Rig>> {
    Ok(Box::new(Parts { state, poison, run, check }))
}

/// How large the cases are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    level: Level,
    sizes: Option<Vec<usize>>,
    /// Whether even a quick run has the sizes of a full one where a curve is drawn.
    has_curves: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Emulator,
    Quick,
    Full,
}

impl Scale {
    /// Sizes that suit the device; fewer if `quick`; other lengths of arrays if `sizes` gives them.
    #[must_use]
    pub fn new(backend: Backend, quick: bool, sizes: Option<Vec<usize>>) -> Self {
        let level = match backend {
            Backend::Emulator => Level::Emulator,
            Backend::Cuda if quick => Level::Quick,
            Backend::Cuda => Level::Full,
        };
        Self { level, sizes, has_curves: false }
    }

    /// All lengths of the ladder in a quick run too, as a picture of curves needs them.
    #[must_use]
    pub fn with_curves(self, has_curves: bool) -> Self {
        Self { has_curves, ..self }
    }

    /// One of three: for the emulator, for a quick run, for a full one.
    pub fn pick<T>(&self, emulator: T, quick: T, full: T) -> T {
        match self.level {
            Level::Emulator => emulator,
            Level::Quick => quick,
            Level::Full => full,
        }
    }

    /// Lengths of arrays for what should be seen at many sizes: 2^14 to 2^30 on a GPU.
    #[must_use]
    pub fn ladder(&self) -> Vec<usize> {
        let full = || (14..=30).step_by(2).map(|power| 1 << power).collect();
        let quick = if self.has_curves { full() } else { vec![1 << 20, 1 << 28] };
        self.sizes.clone().unwrap_or_else(|| self.pick(vec![1000, 4096], quick, full()))
    }

    /// The lengths that were given, or `lens`.
    #[must_use]
    pub fn lens_or(&self, lens: Vec<usize>) -> Vec<usize> {
        self.sizes.clone().unwrap_or(lens)
    }

    /// Lengths of arrays for side forms: one on the emulator and in a quick run, two in a full one.
    #[must_use]
    pub fn lens(&self) -> Vec<usize> {
        let suited = || self.pick(vec![4096], vec![1 << 28], vec![1 << 20, 1 << 28]);
        self.sizes.clone().unwrap_or_else(suited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_told_as_such() {
        assert_eq!(size(&[1 << 28]), "2^28");
        assert_eq!(size(&[1000]), "1000");
        assert_eq!(size(&[512]), "512");
        assert_eq!(size(&[32768, 8192]), "32768x8192");
    }

    #[test]
    fn a_speed_is_work_over_time() {
        let work = Work { bytes: 4 << 30, elements: 5_000_000, operations: 7_000_000_000 };
        assert!((work.speed(Unit::Bandwidth, 1000.0) - 4.294_967_296).abs() < 1e-9);
        assert!((work.speed(Unit::Elements, 1.0) - 5.0).abs() < 1e-9);
        assert!((work.speed(Unit::Operations, 1.0) - 7.0).abs() < 1e-9);
    }

    #[test]
    fn sizes_that_are_given_replace_all_lengths() {
        let scale = Scale::new(Backend::Cuda, false, Some(vec![77]));
        assert_eq!((scale.ladder(), scale.lens()), (vec![77], vec![77]));
        assert_eq!(Scale::new(Backend::Cuda, true, None).lens(), [1 << 28]);
        assert_eq!(Scale::new(Backend::Emulator, true, None).ladder(), [1000, 4096]);
        let quick = Scale::new(Backend::Cuda, true, None);
        assert_eq!(quick.ladder(), [1 << 20, 1 << 28]);
        let curves = quick.with_curves(true).ladder();
        assert_eq!((curves.len(), curves[0], curves[8]), (9, 1 << 14, 1 << 30));
    }
}
