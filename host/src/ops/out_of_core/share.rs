//! Who works on what: the device takes tiles from the front of an array, the CPU chunks from its back.

use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::lock::lock;

/// Tiles that are not timed: the first ones wait for kernels to be loaded.
const WARM_UP: usize = 3;
/// Tiles between two looks at the clock.
const WINDOW: usize = 8;
/// The device's first tile beside which the CPU may work.
#[cfg(test)]
pub const FIRST_OF_BOTH: usize = WARM_UP + WINDOW + 1;

/// Elements of an array that neither side has taken yet.
pub struct Share {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    left: Range<usize>,
    cpu: Cpu,
    /// Elements that the CPU has finished.
    cpu_done: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Cpu {
    /// The device works alone for now.
    Waits,
    Works,
    /// It takes nothing more.
    Stopped,
}

impl Share {
    pub fn new(len: usize) -> Self {
        let state = State { left: 0..len, cpu: Cpu::Waits, cpu_done: 0 };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The next `most` elements, or fewer, for the device; `None` if there are none.
    pub fn take_front(&self, most: usize) -> Option<Range<usize>> {
        let left = &mut self.lock().left;
        let end = left.end.min(left.start + most);
        let taken = left.start..end;
        left.start = end;
        (!taken.is_empty()).then_some(taken)
    }

    /// The last `most` elements, or fewer, for the CPU, which waits until it may work; `None` if there are none for it.
    pub fn take_back(&self, most: usize) -> Option<Range<usize>> {
        let mut state = self.lock();
        while state.cpu == Cpu::Waits {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.cpu == Cpu::Stopped || state.left.is_empty() {
            return None;
        }
        let start = state.left.end.saturating_sub(most).max(state.left.start);
        let taken = start..state.left.end;
        state.left.end = start;
        Some(taken)
    }

    /// Counts elements that the CPU has finished.
    pub fn finish(&self, elements: usize) {
        self.lock().cpu_done += elements;
    }

    fn cpu_done(&self) -> usize {
        self.lock().cpu_done
    }

    fn let_cpu(&self, cpu: Cpu) {
        self.lock().cpu = cpu;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// Stops the CPU when it is dropped, also by a panic, so that its threads always end.
pub struct Stop<'a>(pub &'a Share);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.let_cpu(Cpu::Stopped);
    }
}

/// Finds out whether the CPU's share makes the whole faster: elements a second of the device alone, then of both.
pub struct Trial<'a> {
    share: &'a Share,
    tiles: usize,
    since: Instant,
    /// What the device has done since then, and what the CPU had done then.
    device: usize,
    cpu_before: usize,
    /// The device's rate without the CPU, once it is measured.
    alone: Option<f64>,
    is_over: bool,
}

impl<'a> Trial<'a> {
    pub fn new(share: &'a Share) -> Self {
        let since = Instant::now();
        Self { share, tiles: 0, since, device: 0, cpu_before: 0, alone: None, is_over: false }
    }

    /// The device has finished a tile of this many elements.
    pub fn tile_done(&mut self, elements: usize) {
        self.tile_done_at(elements, Instant::now());
    }

    fn tile_done_at(&mut self, elements: usize, now: Instant) {
        self.tiles += 1;
        self.device += elements;
        if self.tiles == WARM_UP {
            self.begin(now);
        } else if self.tiles == WARM_UP + WINDOW {
            self.judge(now);
            self.begin(now);
            self.tiles = WARM_UP;
        }
    }

    /// A window begins.
    fn begin(&mut self, now: Instant) {
        (self.since, self.device, self.cpu_before) = (now, 0, self.share.cpu_done());
    }

    /// The rate of a window decides.
    fn judge(&mut self, now: Instant) {
        let done = self.device + self.share.cpu_done() - self.cpu_before;
        let rate = done as f64 / (now - self.since).as_secs_f64().max(1e-9);
        match self.alone {
            None => {
                self.alone = Some(rate);
                self.share.let_cpu(Cpu::Works);
            }
            Some(alone) if rate < alone && !self.is_over => {
                self.is_over = true;
                self.share.let_cpu(Cpu::Stopped);
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn both_ends_meet_and_take_each_element_once() {
        let share = Share::new(10);
        share.let_cpu(Cpu::Works);
        assert_eq!((share.take_front(4), share.take_back(3)), (Some(0..4), Some(7..10)));
        assert_eq!((share.take_back(2), share.take_front(4)), (Some(5..7), Some(4..5)));
        assert_eq!((share.take_back(2), share.take_front(4)), (None, None));
    }

    #[test]
    fn of_nothing_there_is_nothing_to_take() {
        let share = Share::new(0);
        assert_eq!(share.take_front(4), None);
        drop(Stop(&share));
        assert_eq!(share.take_back(4), None);
    }

    /// Windows of tiles of 10 elements, each of this many milliseconds, and what the CPU finishes in each.
    fn after(windows: &[(u64, usize)]) -> Cpu {
        let share = Share::new(1000);
        let mut trial = Trial::new(&share);
        let mut now = Instant::now();
        (0..WARM_UP).for_each(|_| trial.tile_done_at(10, now));
        for &(milliseconds, by_cpu) in windows {
            share.finish(by_cpu);
            now += Duration::from_millis(milliseconds);
            (0..WINDOW).for_each(|_| trial.tile_done_at(10, now));
        }
        share.lock().cpu
    }

    #[test]
    fn the_cpu_waits_for_the_devices_rate_and_stops_where_both_are_slower() {
        assert!(after(&[]) == Cpu::Waits);
        assert!(after(&[(100, 0)]) == Cpu::Works);
        // 80 elements in 100 ms alone; 100 in 110 ms are more a second, 90 in 120 ms are fewer.
        assert!(after(&[(100, 0), (110, 20)]) == Cpu::Works);
        assert!(after(&[(100, 0), (120, 10)]) == Cpu::Stopped);
        assert!(after(&[(100, 0), (120, 10), (50, 0)]) == Cpu::Stopped);
        assert!(after(&[(100, 0), (110, 20), (200, 20)]) == Cpu::Stopped);
    }
}
