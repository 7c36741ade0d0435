//! Calls of MPI that are under way.

use std::ffi::c_int;
use std::thread;
use std::time::Duration;

use mpi::ffi;

use super::session::{check_code, lock};
use crate::error::DistError;

/// Calls that are under way. Dropping them leaves them so: their buffers must live.
#[derive(Default)]
pub(super) struct Requests(Vec<ffi::MPI_Request>);

impl Requests {
    /// Starts a call.
    ///
    /// # Safety
    /// MPI has begun, and the call's buffers live until it is done.
    pub(super) unsafe fn start(
        &mut self,
        name: &'static str,
        call: impl FnOnce(*mut ffi::MPI_Request) -> c_int,
    ) -> Result<(), DistError> {
        // SAFETY: a constant of MPI.
        let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
        let _session = lock();
        check_code(name, call(&mut request))?;
        self.0.push(request);
        Ok(())
    }

    /// Waits until all are done, as long as `check` has nothing against it.
    pub(super) fn wait(
        &mut self,
        check: impl Fn() -> Result<(), DistError>,
    ) -> Result<(), DistError> {
        /// More ranks than cores are usual: a thread that spins takes the time of those that it waits for.
        const SPINS: u32 = 50;
        let (mut spins, mut pause) = (0, Duration::from_micros(20));
        while !self.are_done()? {
            check()?;
            if spins < SPINS {
                spins += 1;
                thread::yield_now();
            } else {
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(1));
            }
        }
        self.0.clear();
        Ok(())
    }

    fn are_done(&mut self) -> Result<bool, DistError> {
        let mut are_done = 0;
        let _session = lock();
        // SAFETY: the requests are MPI's own, and MPI is called by this thread alone.
        let asked = unsafe {
            let count = self.0.len() as c_int;
            ffi::MPI_Testall(count, self.0.as_mut_ptr(), &mut are_done, ffi::RSMPI_STATUSES_IGNORE)
        };
        check_code("MPI_Testall", asked)?;
        Ok(are_done != 0)
    }
}
