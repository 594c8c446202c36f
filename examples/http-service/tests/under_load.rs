//! The service as a process of its own, under load, until SIGTERM: nobody who
//! was accepted goes without an answer, and its counts are what its clients saw.
#![cfg(target_os = "linux")]

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

#[path = "../src/main.rs"]
#[allow(dead_code, reason = "its own main is another one's")]
mod http_service;

/// As a hang detector only.
const LONG: Duration = Duration::from_secs(60);
const PLAYS: &str = "TIDEGATE_HTTP_SERVICE_CHILD";
const CLIENTS: usize = 6;

/// Played by a child process.
#[test]
fn child_that_serves() {
    if std::env::var_os(PLAYS).is_none() {
        return;
    }
    let code = match http_service::serve_until_signal() {
        Ok(()) => 0,
        Err(error) => {
            println!("{error}");
            1
        }
    };
    std::process::exit(code);
}

/// The child, which does not outlive the test.
struct Service {
    process: Child,
    at: SocketAddr,
    said: BufReader<ChildStdout>,
}

impl Service {
    /// With two workers, two places and no time limit that the test could meet.
    fn start() -> Service {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "child_that_serves", "--nocapture"]).env(PLAYS, "1");
        child.env("HTTP_SERVICE_ADDRESS", "127.0.0.1:0");
        child.env("TIDEGATE_REQUESTS_WORKERS", "2").env("TIDEGATE_REQUESTS_QUEUE", "2");
        let mut process = child.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let line = line_with(&mut said, "listening on http://");
        let at = line.split_once("http://").unwrap().1.trim().parse().unwrap();
        Service { process, at, said }
    }

    fn terminate(&self) {
        let process = self.process.id().try_into().unwrap();
        // SAFETY: a plain system call. The process is our child and was not waited for, so the
        // number is no other's.
        assert_eq!(unsafe { libc::kill(process, libc::SIGTERM) }, 0);
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn line_with(said: &mut impl BufRead, text: &str) -> String {
    let line = said.lines().map_while(Result::ok).find(|line| line.contains(text));
    line.unwrap_or_else(|| panic!("the service ended without saying {text:?}"))
}

fn send(at: SocketAddr, path: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(at)?;
    stream.set_read_timeout(Some(LONG))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n")?;
    Ok(stream)
}

/// An answer, or none: nobody listens any more, or hung up before the first byte.
fn ask(at: SocketAddr, path: &str) -> Option<String> {
    let mut answer = Vec::new();
    let read = send(at, path).and_then(|mut stream| stream.read_to_end(&mut answer));
    match read {
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock) => panic!("no answer"),
        _ if answer.is_empty() => None,
        Err(error) => panic!("an answer was cut short: {error}"),
        Ok(_) => Some(String::from_utf8(answer).unwrap()),
    }
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap_or_default()
}

/// What clients saw.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    answered: u64,
    refused: u64,
}

impl Seen {
    fn count(&mut self, answer: &str) {
        match status(answer) {
            "200" => {
                assert!(answer.contains("worked for"), "{answer}");
                self.answered += 1;
            }
            "503" => {
                let head = answer.to_lowercase();
                assert!(head.contains("\r\nretry-after: 1\r\n"), "{answer}");
                let why = ["its queue is full", "it is closed"];
                assert!(why.iter().any(|reason| answer.contains(reason)), "{answer}");
                self.refused += 1;
            }
            _ => panic!("{answer}"),
        }
    }
}

/// Asks again and again until nobody listens. Says once that it had several answers and a
/// refusal: less would not be load.
fn load(at: SocketAddr, busy: mpsc::Sender<()>) -> Seen {
    let (mut seen, mut told) = (Seen::default(), false);
    while let Some(answer) = ask(at, "/work?ms=3") {
        seen.count(&answer);
        if !told && seen.answered >= 5 && seen.refused > 0 {
            told = true;
            busy.send(()).unwrap();
        }
    }
    seen
}

/// `name N` in the last line.
fn number(line: &str, name: &str) -> u64 {
    let mut words = line.split(' ').skip_while(|word| *word != name);
    words.nth(1).and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no {name} in {line:?}"))
}

/// A value of the page of metrics.
fn metric(at: SocketAddr, series: &str) -> u64 {
    let page = ask(at, "/metrics").expect("it listens");
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("no {series} in {page}"))
}

fn sigterm_under_load() {
    let mut service = Service::start();
    let at = service.at;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(status(&ask(at, path).unwrap()), "200", "{path}");
    }
    // One of the two workers is held, and with it the drain, until this client hangs up.
    let held = send(at, "/work?ms=60000").unwrap();
    while metric(at, "tidegate_running_tasks{pool=\"requests\"}") < 1 {
        thread::yield_now();
    }
    let (busy, loaded) = mpsc::channel();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let busy = busy.clone();
            thread::spawn(move || load(at, busy))
        })
        .collect();
    drop(busy);
    assert_eq!(loaded.iter().take(CLIENTS).count(), CLIENTS);

    service.terminate();
    line_with(&mut service.said, "draining");
    while status(&ask(at, "/readyz").expect("it listens while it drains")) != "503" {
        thread::yield_now();
    }
    assert_eq!(status(&ask(at, "/healthz").unwrap()), "200");
    let late = ask(at, "/work?ms=0").unwrap();
    assert!(late.contains("it is closed"), "{late}");
    drop(held);

    let mut seen = Seen::default();
    seen.count(&late);
    for client in clients {
        let Seen { answered, refused } = client.join().unwrap();
        seen = Seen { answered: seen.answered + answered, refused: seen.refused + refused };
    }
    let last = line_with(&mut service.said, "drained: ");
    println!("{last}");
    let served = Seen { answered: number(&last, "completed"), refused: number(&last, "refused") };
    assert_eq!(served, seen, "the service and its clients disagree");
    assert_eq!(number(&last, "cancelled"), 1, "the one whose client hung up");
    assert_eq!(number(&last, "accepted"), seen.answered + 1, "accepted and not answered");
    assert_eq!(service.process.wait().unwrap().code(), Some(0));
}

/// Until `/readyz` says so.
fn until_readiness_is(at: SocketAddr, expected: &str) -> String {
    loop {
        let answer = ask(at, "/readyz").expect("it listens");
        if status(&answer) == expected {
            return answer;
        }
        thread::yield_now();
    }
}

fn stalled() {
    let service = Service::start();
    let at = service.at;
    // Something has ended, so that a second of nothing is long.
    Seen::default().count(&ask(at, "/work?ms=0").unwrap());
    let held = [0, 1].map(|_| send(at, "/work?ms=60000").unwrap());
    while metric(at, "tidegate_running_tasks{pool=\"requests\"}") < 2 {
        thread::yield_now();
    }
    assert_eq!(status(&ask(at, "/readyz").unwrap()), "200", "busy is not stalled");
    let queued = [0, 1].map(|_| send(at, "/work?ms=0").unwrap());
    let answer = until_readiness_is(at, "503");
    assert!(answer.contains("stalled"), "{answer}");
    assert_eq!(status(&ask(at, "/healthz").unwrap()), "200", "it is alive");
    Seen::default().count(&ask(at, "/work?ms=0").unwrap());
    drop(held);
    until_readiness_is(at, "200");
    for mut client in queued {
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(status(&answer), "200", "{answer}");
    }
}

#[test]
fn readiness_ends_with_a_stall_and_comes_back() {
    in_time(stalled);
}

#[test]
fn sigterm_under_load_leaves_nobody_without_an_answer() {
    in_time(sigterm_under_load);
}

fn in_time(test: fn()) {
    let (ended, end) = mpsc::channel();
    let test = thread::spawn(move || {
        test();
        ended.send(()).unwrap();
    });
    match end.recv_timeout(LONG) {
        // A failure closes the channel.
        Ok(()) | Err(mpsc::RecvTimeoutError::Disconnected) => test.join().unwrap(),
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
    }
}
