//! Which requests are taken: at most as many as can run and wait. Every other one is refused at once, so that an overload
//! makes neither the queue nor the memory grow, and clients learn when to come back.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{StatusCode, header::RETRY_AFTER};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How long a request may take, from its head to its answer.
const PATIENCE: Duration = Duration::from_secs(20);
/// What is read of a request that is refused: a client that is still sending would see a broken connection in place of
/// the answer.
const REFUSED_BYTES: usize = 256 << 10;

/// How a request ended.
#[derive(Clone, Copy)]
enum Outcome {
    Answered,
    /// The request was wrong, or the device failed.
    Failed,
    /// There was no place, or the service was ending.
    Shed,
    /// The client closed its connection before the answer.
    Left,
    TimedOut,
}

const OUTCOMES: [(&str, Outcome); 5] = [
    ("answered", Outcome::Answered),
    ("failed", Outcome::Failed),
    ("shed", Outcome::Shed),
    ("left", Outcome::Left),
    ("timed_out", Outcome::TimedOut),
];

/// A place for each request that runs or waits, and what became of all requests.
pub struct Admission {
    places: Semaphore,
    all_places: usize,
    counts: [AtomicU64; OUTCOMES.len()],
    /// Has no permits, and is closed when the service ends.
    end: Semaphore,
}

/// A request that was taken. A client that leaves lets the server drop the request's future, and this with it.
struct Visit<'a> {
    admission: &'a Admission,
    outcome: Outcome,
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        self.admission.counts[self.outcome as usize].fetch_add(1, Relaxed);
    }
}

impl Admission {
    pub fn new(places: usize) -> Self {
        let counts = Default::default();
        Self { places: Semaphore::new(places), all_places: places, counts, end: Semaphore::new(0) }
    }

    /// Lets the request in, or refuses it.
    pub async fn admit(&self, request: Request, next: Next) -> Response {
        // The request is counted before its place is free again.
        let place = self.places.try_acquire();
        let mut visit = Visit { admission: self, outcome: Outcome::Left };
        if place.is_err() {
            visit.outcome = Outcome::Shed;
            return refused(request).await;
        }
        let Ok(response) = timeout(PATIENCE, next.run(request)).await else {
            visit.outcome = Outcome::TimedOut;
            return (StatusCode::GATEWAY_TIMEOUT, "the request took too long\n").into_response();
        };
        let is_right = response.status().is_success();
        visit.outcome = if is_right { Outcome::Answered } else { Outcome::Failed };
        response
    }

    /// From now on no request is let in.
    pub fn end(&self) {
        self.places.close();
        self.end.close();
    }

    pub fn is_ending(&self) -> bool {
        self.end.is_closed()
    }

    /// Waits for [`end`](Self::end).
    pub async fn ended(&self) {
        // It has no permits, so all that it can return is that it is closed.
        drop(self.end.acquire().await);
    }

    /// Counts of requests by outcome, and of those that run or wait now.
    pub fn metrics(&self) -> String {
        let mut text = "# TYPE service_requests_total counter\n".to_owned();
        for (name, outcome) in OUTCOMES {
            let count = self.counts[outcome as usize].load(Relaxed);
            // A String takes everything.
            let _ = writeln!(text, "service_requests_total{{outcome=\"{name}\"}} {count}");
        }
        let taken = self.all_places - self.places.available_permits();
        text + &format!("# TYPE service_requests_taken gauge\nservice_requests_taken {taken}\n")
    }

    /// "12 answered, 0 failed, …"
    pub fn summary(&self) -> String {
        let count = |outcome| self.counts[outcome as usize].load(Relaxed);
        OUTCOMES.map(|(name, outcome)| format!("{} {name}", count(outcome))).join(", ")
    }
}

async fn refused(request: Request) -> Response {
    // A body that is larger, slower or broken off is the client's own matter.
    let _ = timeout(Duration::from_secs(1), to_bytes(request.into_body(), REFUSED_BYTES)).await;
    (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "1")], "no place: come back later\n")
        .into_response()
}
