//! The load test: clients that send numbers to be sorted, and compare each answer with a sort of their own.

use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode, header::CONTENT_TYPE};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::sleep;

/// How long a client waits after a 503. A client outside of a test takes the seconds of `Retry-After`.
const PAUSE: Duration = Duration::from_millis(20);

type Failed = Box<dyn Error + Send + Sync>;

/// How much load, all of it bounded.
#[derive(Clone, Copy)]
pub struct Load {
    /// Connections, each with one request at a time.
    pub clients: usize,
    /// Requests of each client.
    pub requests: usize,
    /// Numbers in a request.
    pub size: usize,
    /// After this time no request begins.
    pub limit: Duration,
}

/// What one client saw.
#[derive(Default)]
struct Seen {
    /// How long each answer took.
    answers: Vec<Duration>,
    shed: usize,
    wrong: usize,
}

impl Load {
    /// Runs the clients, and prints what they saw.
    pub async fn run(self, address: SocketAddr) -> Result<(), Box<dyn Error>> {
        let start = Instant::now();
        let clients: Vec<_> = (0..self.clients)
            .map(|client| tokio::spawn(self.client(address, client as u32, start)))
            .collect();
        let mut all = Seen::default();
        for client in clients {
            let seen = client.await?.map_err(|error| error as Box<dyn Error>)?;
            all.answers.extend(seen.answers);
            (all.shed, all.wrong) = (all.shed + seen.shed, all.wrong + seen.wrong);
        }
        let seconds = start.elapsed().as_secs_f64();
        all.answers.sort_unstable();
        let [median, p99] =
            [50, 99].map(|percent| quantile(&all.answers, percent).as_secs_f64() * 1e3);
        let (answered, shed, wrong) = (all.answers.len(), all.shed, all.wrong);
        let rate = answered as f64 / seconds;
        println!("{} clients, {} numbers each time, {seconds:.2} s", self.clients, self.size);
        println!("{answered} answers, {rate:.0} a second; p50 {median:.2} ms, p99 {p99:.2} ms");
        println!("{shed} times refused with 503, {wrong} wrong answers");
        if wrong > 0 || answered == 0 {
            return Err("the load test found wrong answers, or none".into());
        }
        Ok(())
    }

    async fn client(
        self,
        address: SocketAddr,
        client: u32,
        start: Instant,
    ) -> Result<Seen, Failed> {
        let (mut seen, mut connection) = (Seen::default(), None);
        for number in 0..self.requests as u32 {
            if start.elapsed() >= self.limit {
                break;
            }
            let values = values(client * 7919 + number, self.size);
            let (begin, body) = (Instant::now(), serde_json::to_vec(&values)?);
            let (status, answer) = exchange(address, &mut connection, body).await?;
            match status {
                StatusCode::OK => seen.answers.push(begin.elapsed()),
                StatusCode::SERVICE_UNAVAILABLE => {
                    seen.shed += 1;
                    sleep(PAUSE).await;
                    continue;
                }
                other => {
                    return Err(format!("{other}: {}", String::from_utf8_lossy(&answer)).into());
                }
            }
            let mut expected = values;
            expected.sort_by(f32::total_cmp);
            seen.wrong += usize::from(serde_json::from_slice::<Vec<f32>>(&answer)? != expected);
        }
        Ok(seen)
    }
}

/// Sends a request on the connection, or on a new one where the server has closed it.
async fn exchange(
    address: SocketAddr,
    connection: &mut Option<SendRequest<Body>>,
    body: Vec<u8>,
) -> Result<(StatusCode, Vec<u8>), Failed> {
    let mut sender = match connection.take() {
        Some(open) => open,
        None => connect(address).await?,
    };
    if sender.ready().await.is_err() {
        sender = connect(address).await?;
    }
    let request =
        Request::post("/sort").header("host", "127.0.0.1").header(CONTENT_TYPE, "application/json");
    let response = sender.send_request(request.body(Body::from(body))?).await?;
    let status = response.status();
    let answer = to_bytes(Body::new(response.into_body()), usize::MAX).await?;
    *connection = Some(sender);
    Ok((status, answer.to_vec()))
}

async fn connect(address: SocketAddr) -> Result<SendRequest<Body>, Failed> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    // It ends with the sender. What goes wrong is the error of the request, too.
    tokio::spawn(async { drop(connection.await) });
    Ok(sender)
}

/// Whole numbers in disorder, other ones for each seed: a linear congruential generator.
fn values(seed: u32, len: usize) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from((state >> 16) as u16) - 32768.0
    };
    (0..len).map(|_| next()).collect()
}

/// The value that `percent` of the sorted ones do not exceed.
fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(at).copied().unwrap_or_default()
}
