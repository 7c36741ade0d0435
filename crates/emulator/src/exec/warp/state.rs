//! The lanes and the frames of a warp.

use super::group::{Group, Wait};
use super::rounds::Rounds;
use crate::fault::SourceLocation;
use crate::machine::{ClusterLanes, Frame, LANES, Program, Seen, WarpState};
use crate::program::is_library;
use std::sync::Arc;

/// A warp.
pub struct Warp {
    /// What operations can see.
    pub state: WarpState,
    /// Its lanes.
    pub groups: Vec<Group>,
    pub(super) frames: Vec<Option<Box<Frame>>>,
    pub(super) tick: u64,
    pub(super) favoured: Option<(u32, u64)>,
    pub(super) rounds: Rounds,
}

impl Warp {
    /// A warp with a frame for the kernel.
    pub fn new(program: &Arc<Program>) -> Self {
        let frame = Box::new(Frame::new(program, 0));
        Self {
            state: WarpState::default(),
            groups: Vec::new(),
            frames: vec![Some(frame)],
            tick: 0,
            favoured: None,
            rounds: Rounds::default(),
        }
    }

    /// Begins the warp `index` of a block of that shape.
    pub fn start(&mut self, index: u32, block: [u32; 3]) {
        let threads: u32 = block.iter().product();
        self.state.index = index;
        (self.state.alive, self.state.met, self.state.left) = (0, 0, None);
        for lane in 0..LANES as u32 {
            let thread = index * LANES as u32 + lane;
            let tid =
                [thread % block[0], thread / block[0] % block[1], thread / block[0] / block[1]];
            for (row, own) in self.state.tid.iter_mut().zip(tid) {
                row[lane as usize] = own;
            }
            self.state.alive |= u32::from(thread < threads) << lane;
        }
        self.groups.clear();
        (self.state.cluster, self.state.awaited.expired) = (ClusterLanes::default(), 0);
        self.frames.iter_mut().flatten().for_each(|frame| frame.shadow = None);
        let frame = self.frame(0);
        let pc = frame.program.functions[0].entry;
        let local_end = frame.local_end;
        self.state.reserve_local(local_end);
        let mask = self.state.alive;
        self.groups.push(Group {
            pc,
            frame: 0,
            mask,
            wait: Wait::Ready,
            votes: 0,
            seen: Seen::default(),
            stamp: 0,
        });
        (self.tick, self.favoured) = (0, None);
        self.forget_rounds();
    }

    /// A frame that is not running.
    pub fn frame(&mut self, index: u32) -> &mut Frame {
        self.frames[index as usize]
            .get_or_insert_with(|| unreachable!("a frame is lent to one run at a time"))
    }

    /// The source line of an operation: the innermost on the way of calls to it that lies in no library,
    /// or else its own.
    pub fn source<'a>(&self, program: &'a Program, at: (u32, u32)) -> Option<&'a SourceLocation> {
        let (mut frame, mut pc) = at;
        loop {
            match program.location(pc) {
                Some(own) if !is_library(&own.file) => return Some(own),
                _ => {}
            }
            match self.frames[frame as usize].as_ref() {
                Some(called) if called.depth > 0 => {
                    (frame, pc) = (called.parent, called.return_to - 1);
                }
                _ => return program.location(at.1),
            }
        }
    }
}
