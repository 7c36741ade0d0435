//! The example `service`, started as a user starts it, and asked over loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

/// How long the service may take for what takes it milliseconds, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn program() -> PathBuf {
    let own = env::current_exe().expect("this executable has a path");
    own.ancestors()
        .nth(2)
        .expect("it lies in a folder of the build")
        .join("examples")
        .join("service")
}

/// A service on a port of its own, which ends with the test.
struct Service {
    process: Child,
    address: SocketAddr,
    output: BufReader<std::process::ChildStdout>,
}

impl Drop for Service {
    fn drop(&mut self) {
        // Nothing is left to do where it has ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Service {
    fn start(running: usize, queue: usize) -> Self {
        let args =
            ["--port", "0", "--running", &running.to_string(), "--queue", &queue.to_string()];
        let mut process =
            Command::new(program()).args(args).stdout(Stdio::piped()).spawn().unwrap_or_else(
                |error| panic!("{}: {error}; `make service-test` builds it", program().display()),
            );
        let mut output = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).expect("the service prints where it is");
        let address =
            line.trim().rsplit_once("http://").expect("an address").1.parse().expect("an address");
        Self { process, address, output }
    }

    /// Sends a whole request, and returns the connection.
    fn send(&self, head: &str, body: &str) -> TcpStream {
        let mut connection = self.open(head, body.len());
        connection.write_all(body.as_bytes()).expect("sent");
        connection
    }

    /// Sends the head of a request whose body has `len` bytes.
    fn open(&self, head: &str, len: usize) -> TcpStream {
        let mut connection = TcpStream::connect(self.address).expect("the service listens");
        connection.set_read_timeout(Some(PATIENCE)).expect("set");
        let rest = format!("host: here\r\ncontent-type: application/json\r\ncontent-length: {len}");
        write!(connection, "{head} HTTP/1.1\r\n{rest}\r\nconnection: close\r\n\r\n").expect("sent");
        connection
    }

    /// The status and the whole answer.
    fn ask(&self, head: &str, body: &str) -> (u16, String) {
        answer(self.send(head, body))
    }

    fn post(&self, path: &str, body: &str) -> (u16, String) {
        self.ask(&format!("POST {path}"), body)
    }

    /// A number of the metrics.
    fn metric(&self, name: &str) -> u64 {
        let (_, text) = self.ask("GET /metrics", "");
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} is not in {text}")).trim().parse().expect("a number")
    }

    fn outcome(&self, name: &str) -> u64 {
        self.metric(&format!("service_requests_total{{outcome=\"{name}\"}}"))
    }

    /// Waits until no request is there, and no memory of one.
    fn wait_until_idle(&self) {
        let used = "service_device_bytes{state=\"used\"}";
        eventually("requests or their memory stay", || {
            self.metric("service_requests_taken") == 0 && self.metric(used) == 0
        });
    }

    /// Ends it as a supervisor does, and returns its status and what it printed last.
    #[cfg(unix)]
    fn terminate(mut self, signal: &str) -> (ExitStatus, String) {
        let process = self.process.id().to_string();
        assert!(
            Command::new("kill").args([signal, &process]).status().expect("kill runs").success()
        );
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).expect("text");
        (self.process.wait().expect("it ends"), rest)
    }
}

fn answer(mut connection: TcpStream) -> (u16, String) {
    let mut text = String::new();
    connection.read_to_string(&mut text).expect("an answer");
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("no status in {text:?}")), text)
}

fn body(answer: &str) -> Vec<f32> {
    let (_, body) = answer.split_once("\r\n\r\n").expect("a body");
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
}

#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn load(service: &Service, args: &[&str]) -> (Output, String) {
    let port = service.address.port().to_string();
    let output =
        Command::new(program()).args(["--port", &port]).args(args).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

#[test]
fn answers_are_right_and_wrong_requests_are_refused() {
    let service = Service::start(2, 4);
    for (numbers, sorted) in
        [("[]", vec![]), ("[1]", vec![1.0]), ("[3,-1,2.5]", vec![-1.0, 2.5, 3.0])]
    {
        let (status, text) = service.post("/sort", numbers);
        assert_eq!((status, body(&text)), (200, sorted), "{numbers}");
    }
    let (status, text) = service.post("/top/2", "[3,9,-1,4]");
    assert_eq!((status, body(&text)), (200, vec![9.0, 4.0]));
    let (status, text) = service.post("/top/5", "[3,9]");
    assert_eq!((status, body(&text)), (200, vec![9.0, 3.0]), "there are fewer than that");
    let (status, text) = service.post("/softmax", "[0,0,0,0]");
    assert_eq!((status, body(&text)), (200, vec![0.25; 4]));
    let (status, text) = service.post("/softmax", "[]");
    assert_eq!((status, body(&text)), (200, vec![]));

    assert_eq!(service.post("/sort", "[1,").0, 400);
    assert_eq!(service.post("/sort", "[\"one\"]").0, 422);
    assert_eq!(service.post("/dance", "[]").0, 404);
    assert_eq!(service.ask("GET /sort", "").0, 405);
    assert_eq!(service.ask("GET /health", "").0, 200);
    service.wait_until_idle();
    // Those that no route takes are refused before they are counted, or after: only the answers are certain.
    assert_eq!(service.outcome("answered"), 7);
}

#[test]
fn a_request_without_a_place_is_shed_and_the_place_comes_back() {
    let service = Service::start(1, 0);
    let places = service.metric("service_requests_taken");
    assert_eq!(places, 0);
    // Each of these takes a place as soon as its head is there, and its body never comes.
    let mut visitors = Vec::new();
    eventually("the service sheds nothing", || {
        visitors.push(service.open("POST /sort", 100));
        thread::sleep(Duration::from_millis(20));
        service.post("/sort", "[2,1]").0 == 503
    });
    let (status, text) = service.post("/sort", "[2,1]");
    assert_eq!(status, 503, "{text}");
    assert!(text.to_lowercase().contains("retry-after: 1"), "{text}");
    assert_eq!(service.ask("GET /health", "").0, 200, "health needs no place");
    assert!(service.outcome("shed") >= 2);

    drop(visitors);
    eventually("the place does not come back", || service.post("/sort", "[2,1]").0 == 200);
    service.wait_until_idle();
}

#[test]
fn the_work_of_clients_that_leave_is_dropped() {
    let service = Service::start(1, 8);
    let numbers: Vec<String> = (0..100_000u32).map(|i| (i * 7919 % 100_003).to_string()).collect();
    let large = format!("[{}]", numbers.join(","));
    let visitors: Vec<TcpStream> = (0..8).map(|_| service.send("POST /sort", &large)).collect();
    eventually("no request was taken", || service.metric("service_requests_taken") > 0);
    drop(visitors);
    service.wait_until_idle();
    // What a GPU had answered before its client left is no work that was dropped.
    let (left, answered) = (service.outcome("left"), service.outcome("answered"));
    let lost = service.outcome("failed");
    assert!(
        left + answered + lost <= 8 && left + lost > 0,
        "{left} left, {answered} answered, {lost} failed"
    );
    // The device goes on after the work that was given up.
    let (status, text) = service.post("/sort", &large);
    assert_eq!(status, 200);
    assert!(body(&text).is_sorted(), "after the clients that left");
    service.wait_until_idle();
}

#[test]
fn a_load_test_finds_all_answers_right() {
    let service = Service::start(2, 64);
    let (output, text) =
        load(&service, &["--load", "8", "--requests", "5", "--size", "100", "--seconds", "60"]);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(
        text.contains("40 answers, ") && text.contains("0 times refused with 503, 0 wrong"),
        "{text}"
    );
    assert!(text.contains("p50 ") && text.contains("p99 "), "{text}");
    service.wait_until_idle();
    assert_eq!(service.outcome("answered"), 40);
}

#[test]
fn an_overload_is_shed_and_what_is_answered_is_right() {
    let service = Service::start(1, 1);
    let (output, text) = load(&service, &["--load", "64", "--requests", "4", "--size", "500"]);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains(" 0 wrong answers") && !text.contains("\n0 times refused"), "{text}");
    service.wait_until_idle();
    assert_eq!(service.outcome("answered") + service.outcome("shed"), 256);
}

#[cfg(unix)]
#[test]
fn a_signal_lets_it_finish_what_it_has() {
    for signal in ["-TERM", "-INT"] {
        let service = Service::start(1, 4);
        let numbers: Vec<String> = (0..5_000u32).map(|i| (i * 7919 % 5_003).to_string()).collect();
        let request = service.send("POST /sort", &format!("[{}]", numbers.join(",")));
        let is_there =
            || service.metric("service_requests_taken") + service.outcome("answered") > 0;
        eventually("the request was not taken", is_there);
        let address = service.address;
        let (status, rest) = service.terminate(signal);
        assert!(status.success(), "{signal}: {status}, {rest}");
        assert!(rest.contains("ended: 1 answered, 0 failed, 0 shed, 0 left"), "{signal}: {rest}");
        let (code, text) = answer(request);
        assert!(code == 200 && body(&text).is_sorted(), "{signal}: {text}");
        assert!(TcpStream::connect(address).is_err(), "{signal}: nothing listens any more");
    }
}
