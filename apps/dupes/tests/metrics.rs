//! The metrics of a run, over real sockets, also with clients that mean no good.

#[path = "../../../crates/tidegate/tests/support/exposition.rs"]
mod exposition;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use dupes::find::Pools;
use dupes::metrics::{Served, serve};
use dupes::tally::Tally;
use support::{LIMIT, in_time};
use tidegate::{Pool, Shutdown};

const GOOD: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";

fn anywhere() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

fn no_pools() -> Pools {
    Arc::new(Vec::new)
}

fn served() -> (Served, Arc<Tally>, Pool) {
    let pool = Pool::builder("walk").workers(1).queue(7).build().unwrap();
    let tally = Arc::new(Tally::default());
    let pools = vec![pool.clone()];
    let served = serve(anywhere(), Arc::new(move || pools.clone()), Arc::clone(&tally)).unwrap();
    (served, tally, pool)
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream
}

/// All that is answered; an error if the connection was reset.
fn ask(to: SocketAddr, request: &[u8]) -> io::Result<String> {
    let mut stream = connect(to);
    stream.write_all(request)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// With retries: seats come free a moment after a connection has ended.
fn ask_until_served(to: SocketAddr) -> String {
    let since = Instant::now();
    loop {
        match ask(to, GOOD) {
            Ok(answer) if is_whole(&answer) => return answer,
            _ => assert!(since.elapsed() < LIMIT, "never served"),
        }
        thread::yield_now();
    }
}

/// A page, and as long as it says.
fn is_whole(answer: &str) -> bool {
    let Some((head, body)) = answer.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    head.starts_with("HTTP/1.1 200 OK") && length == Some(body.len().to_string().as_str())
}

/// Until the other side ends, in whichever way.
fn until_cut(mut stream: &TcpStream) -> io::Result<usize> {
    stream.read_to_end(&mut Vec::new()).or_else(|error| match error.kind() {
        io::ErrorKind::ConnectionReset => Ok(0),
        _ => Err(error),
    })
}

#[test]
fn a_page_has_the_pools_and_the_tally() {
    let (served, tally, _pool) = served();
    Tally::add(&tally.files, 12);
    Tally::add(&tally.read_bytes_done, u64::MAX);
    let page = ask(served.addr(), GOOD).unwrap();
    assert!(is_whole(&page), "{page}");
    assert!(page.contains("\r\nConnection: close\r\n"), "{page}");
    assert!(page.contains("\r\nContent-Type: text/plain; version=0.0.4"), "{page}");
    assert!(page.contains("tidegate_queue_capacity{pool=\"walk\"} 7\n"), "{page}");
    assert!(page.contains("# HELP dupes_files_total "), "{page}");
    assert!(page.contains("# TYPE dupes_files_total counter\ndupes_files_total 12\n"), "{page}");
    assert!(page.ends_with("dupes_unstable_total 0\n"), "{page}");
    assert!(page.contains("\ndupes_read_bytes_total 18446744073709551615\n"), "{page}");
    Tally::add(&tally.files, 1);
    assert!(ask_until_served(served.addr()).contains("\ndupes_files_total 13\n"));
}

#[test]
fn other_requests_hear_what_is_wrong() {
    let (served, _tally, _pool) = served();
    for (request, status) in [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "404 "),
        ("GET /metricsx HTTP/1.1\r\n\r\n".to_owned(), "404 "),
        ("POST /metrics HTTP/1.1\r\nContent-Length: 9\r\n\r\nsomething".to_owned(), "405 "),
        ("\u{16}\u{3}\u{1} garbage \u{0}\r\n\r\n".to_owned(), "400 "),
        (format!("GET /metrics HTTP/1.1\r\nA: {}\r\n\r\n", "a".repeat(8 * 1024)), "431 "),
        (format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000)), "431 "),
    ] {
        let answer = ask(served.addr(), request.as_bytes()).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{request:.40}: {answer}");
    }
    assert!(is_whole(&ask_until_served(served.addr())));
}

#[test]
fn slow_clients_are_cut_off_and_take_no_more_than_their_seats() {
    let (served, _tally, _pool) = served();
    let since = Instant::now();
    let slow: Vec<TcpStream> = (0..8).map(|_| connect(served.addr())).collect();
    for mut stream in &slow {
        stream.write_all(b"GET /metrics HT").unwrap();
    }
    // Connections are taken in their order, so that this one finds all seats taken.
    let ninth = connect(served.addr());
    assert_eq!(until_cut(&ninth).unwrap(), 0, "above the limit");
    for stream in &slow {
        assert_eq!(until_cut(stream).unwrap(), 0, "they have not asked for anything");
    }
    assert!(since.elapsed() >= Duration::from_secs(2), "they had their time");
    assert!(is_whole(&ask_until_served(served.addr())));
}

#[test]
fn a_client_that_dribbles_gets_no_more_time() {
    let (served, _tally, _pool) = served();
    let mut stream = connect(served.addr());
    let since = Instant::now();
    // A byte now and then, as long as somebody listens.
    while stream.write_all(b"a").is_ok() {
        assert!(since.elapsed() < LIMIT, "never cut off");
        thread::park_timeout(Duration::from_millis(20));
    }
    assert!(since.elapsed() >= Duration::from_secs(2), "it had its time");
}

#[test]
fn a_client_that_sends_without_end_is_cut_off() {
    let (served, _tally, _pool) = served();
    let mut flood = connect(served.addr());
    let since = Instant::now();
    while flood.write_all(&[b'a'; 4096]).is_ok() {
        assert!(since.elapsed() < LIMIT, "never cut off");
    }
    assert!(is_whole(&ask_until_served(served.addr())));
}

#[test]
fn fifty_clients_at_once_get_all_or_nothing() {
    let (served, _tally, _pool) = served();
    let (addr, start) = (served.addr(), Arc::new(Barrier::new(50)));
    let clients: Vec<_> = (0..50)
        .map(|_| {
            let start = Arc::clone(&start);
            thread::spawn(move || {
                start.wait();
                ask(addr, GOOD)
            })
        })
        .collect();
    let answers = in_time("fifty answers", move || {
        clients.into_iter().map(|client| client.join().unwrap()).collect::<Vec<_>>()
    });
    let whole = answers.iter().flatten().filter(|answer| is_whole(answer)).count();
    let empty = answers.iter().filter(|answer| answer.as_deref().unwrap_or("").is_empty()).count();
    assert_eq!(whole + empty, 50, "{answers:?}");
    assert!(whole >= 8, "{whole}: those with a seat");
    assert!(is_whole(&ask_until_served(addr)));
}

#[test]
fn its_end_does_not_wait_for_clients() {
    let (served, _tally, _pool) = served();
    let slow: Vec<TcpStream> = (0..8).map(|_| connect(served.addr())).collect();
    let ninth = connect(served.addr());
    assert_eq!(until_cut(&ninth).unwrap(), 0, "the others have their seats");
    let took = in_time("the end", move || {
        let since = Instant::now();
        drop(served);
        since.elapsed()
    });
    assert!(took < Duration::from_secs(1), "{took:?}");
    for stream in &slow {
        assert_eq!(until_cut(stream).unwrap(), 0);
    }
}

#[test]
fn scrapes_while_it_ends_get_all_or_nothing() {
    for _ in 0..10 {
        let (served, _tally, _pool) = served();
        let (addr, over) = (served.addr(), Arc::new(AtomicBool::new(false)));
        let clients: Vec<_> = (0..4)
            .map(|_| {
                let over = Arc::clone(&over);
                thread::spawn(move || {
                    let mut answers = Vec::new();
                    while !over.load(SeqCst) {
                        // Refused once it is over.
                        let Ok(mut stream) = TcpStream::connect(addr) else { break };
                        stream.set_read_timeout(Some(LIMIT)).unwrap();
                        let mut answer = String::new();
                        let asked = stream.write_all(GOOD);
                        if asked.and_then(|()| stream.read_to_string(&mut answer)).is_ok() {
                            answers.push(answer);
                        }
                    }
                    answers
                })
            })
            .collect();
        ask_until_served(addr);
        in_time("the end", move || drop(served));
        over.store(true, SeqCst);
        for client in clients {
            let answers = in_time("a client", move || client.join().unwrap());
            let odd = answers.iter().find(|answer| !answer.is_empty() && !is_whole(answer));
            assert_eq!(odd, None);
        }
    }
}

#[test]
fn a_port_that_is_taken_is_an_error_that_names_it() {
    let (served, _tally, _pool) = served();
    let error = serve(served.addr(), no_pools(), Arc::default()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    let name = format!("can't serve metrics on {}: ", served.addr());
    assert!(error.to_string().starts_with(&name), "{error}");
}

#[test]
fn a_port_can_be_used_again_at_once() {
    let (served, _tally, _pool) = served();
    let addr = served.addr();
    ask_until_served(addr);
    drop(served);
    let again = serve(addr, no_pools(), Arc::default()).unwrap();
    assert!(ask_until_served(again.addr()).contains("\ndupes_files_total 0\n"));
}

#[test]
fn pools_that_have_ended_hurt_nobody() {
    let (served, _tally, pool) = served();
    pool.shutdown(Shutdown::light()).unwrap();
    ask_until_served(served.addr());
    drop(pool);
    let page = ask_until_served(served.addr());
    assert!(page.contains("\ndupes_files_total 0\n"), "{page}");
}

/// A run that has a long way to go, and where its metrics are.
struct Watched {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
    addr: SocketAddr,
    _dir: tempfile::TempDir,
}

impl Watched {
    fn start(address: &str) -> Watched {
        let dir = tempfile::tempdir().unwrap();
        // Two files that would take minutes to compare.
        for name in ["a", "b"] {
            fs::File::create(dir.path().join(name)).unwrap().set_len(1 << 40).unwrap();
        }
        let mut command = support::dupes_with_signals();
        command.args(["find", "--progress", "never", "--metrics", address]).arg(dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (lines, said) = in_time("where they are", move || {
            let said = lines.next().unwrap().unwrap();
            (lines, said)
        });
        let addr = said.strip_prefix("dupes: metrics on http://");
        let addr = addr.and_then(|rest| rest.strip_suffix("/metrics")?.parse().ok());
        Watched { child, lines, addr: addr.unwrap_or_else(|| panic!("{said}")), _dir: dir }
    }

    /// Its exit code, and what else it said.
    fn interrupt(mut self) -> (Option<i32>, Vec<String>) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        in_time("its end", move || {
            let code = self.child.wait().unwrap().code();
            (code, self.lines.map(Result::unwrap).collect())
        })
    }
}

/// Everything that only counts up, by its name and labels.
fn counters(page: &str) -> BTreeMap<(String, BTreeMap<String, String>), f64> {
    let (_, body) = page.split_once("\r\n\r\n").unwrap();
    let families = exposition::read(body).unwrap_or_else(|error| panic!("{error}\n{body}"));
    let counts = families.into_values().filter(|family| family.kind != "gauge");
    let samples = counts.flat_map(|family| family.samples);
    samples.map(|(name, labels, value)| ((name, labels), value)).collect()
}

#[test]
fn a_run_is_watched_until_its_end_and_nothing_is_counted_back() {
    let watched = Watched::start(":0");
    assert!(watched.addr.ip().is_loopback(), "{}: not for others unless told", watched.addr);
    let read = ("dupes_read_bytes_total".to_owned(), BTreeMap::new());
    let (since, mut before) = (Instant::now(), BTreeMap::<_, f64>::new());
    let (mut first, mut scrapes) = (None, 0);
    // Until it has been seen to get on.
    loop {
        let now = counters(&ask_until_served(watched.addr));
        for (what, value) in &before {
            assert!(now.get(what) >= Some(value), "{what:?}: {value} and then {:?}", now.get(what));
        }
        scrapes += 1;
        let first = *first.get_or_insert(now[&read]);
        if scrapes >= 20 && now[&read] > first {
            break;
        }
        before = now;
        assert!(since.elapsed() < LIMIT, "it stands still at {first}");
    }
    let files = ("dupes_files_total".to_owned(), BTreeMap::new());
    assert_eq!(before[&files], 2.0);
    for pool in ["walk", "random", "sequential"] {
        let of =
            |labels: &BTreeMap<String, String>| labels.get("pool").is_some_and(|of| of == pool);
        assert!(before.keys().any(|(_, labels)| of(labels)), "{pool} is missing");
    }
    let addr = watched.addr;
    let (code, _) = watched.interrupt();
    assert_eq!(code, Some(130));
    let error = TcpStream::connect(addr).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "it is served beyond the end");
}

/// Only who says so in full is heard from elsewhere: every address of this machine is another one.
#[test]
fn a_run_is_watched_on_this_machine_alone_unless_told() {
    let other = |port| SocketAddr::from(([127, 0, 0, 2], port));
    let watched = Watched::start(":0");
    let error = TcpStream::connect(other(watched.addr.port())).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    assert_eq!(watched.interrupt().0, Some(130));
    let watched = Watched::start("0.0.0.0:0");
    assert!(is_whole(&ask_until_served(other(watched.addr.port()))));
    assert_eq!(watched.interrupt().0, Some(130));
}

#[test]
fn a_run_whose_port_is_taken_does_not_begin_and_says_why() {
    let taken = TcpListener::bind(anywhere()).unwrap();
    let addr = taken.local_addr().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_dupes"));
    command.args(["find", "--metrics", &addr.to_string()]).arg(dir.path()).stdin(Stdio::null());
    let output = in_time("its end", move || command.output().unwrap());
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &b""[..]));
    let said = support::stderr(&output);
    assert!(said.starts_with(&format!("dupes: can't serve metrics on {addr}: ")), "{said}");
    assert!(said.contains("in use"), "{said}");
}
