//! As much of HTTP/1.1 as it takes to hand out one page.

use std::io::{self, Read};

use tidegate::Exporter;

/// The longest request, with its head and all.
const LONGEST: usize = 8 * 1024;

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Page,
    BadRequest,
    NotFound,
    WrongMethod,
    TooLarge,
}

impl Answer {
    /// All that is sent. The text is for the page; the others say what is wrong.
    pub(super) fn response(self, text: &str) -> Vec<u8> {
        let (status, more) = match self {
            Answer::Page => ("200 OK", ""),
            Answer::BadRequest => ("400 Bad Request", ""),
            Answer::NotFound => ("404 Not Found", ""),
            Answer::WrongMethod => ("405 Method Not Allowed", "Allow: GET\r\n"),
            Answer::TooLarge => ("431 Request Header Fields Too Large", ""),
        };
        let said = format!("{status}; there is GET /metrics\n");
        let (kind, body) = match self {
            Answer::Page => (Exporter::CONTENT_TYPE, text),
            _ => ("text/plain; charset=utf-8", said.as_str()),
        };
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}");
        format!("{head}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}").into_bytes()
    }
}

/// Reads until the end of the head, and no more than the limit. An error if the client is gone
/// before, or the reader has enough of it.
pub(super) fn read_request(from: &mut impl Read) -> io::Result<Answer> {
    let mut buffer = [0; LONGEST];
    let mut filled = 0;
    loop {
        match from.read(&mut buffer[filled..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => filled += more,
        }
        if has_ended(&buffer[..filled]) {
            return Ok(judge(&buffer[..filled]));
        }
        if filled == LONGEST {
            return Ok(Answer::TooLarge);
        }
    }
}

/// An empty line ends the head, with either kind of line end.
fn has_ended(head: &[u8]) -> bool {
    let lines: &[&[u8]] = &[b"\r\n\r\n", b"\n\n"];
    lines.iter().any(|end| head.windows(end.len()).any(|part| part == *end))
}

/// By its first line: nothing else makes a difference.
fn judge(head: &[u8]) -> Answer {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or(head);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
    match words[..] {
        [method, target, version] if is_token(method) && version.starts_with(b"HTTP/1.") => {
            let path = target.split(|byte| *byte == b'?').next().unwrap_or(target);
            match (path, method) {
                (b"/metrics", b"GET") => Answer::Page,
                (b"/metrics", _) => Answer::WrongMethod,
                _ => Answer::NotFound,
            }
        }
        _ => Answer::BadRequest,
    }
}

fn is_token(method: &[u8]) -> bool {
    !method.is_empty() && method.iter().all(u8::is_ascii_alphabetic)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a byte at a time.
    struct Dribble<'a>(&'a [u8]);

    impl Read for Dribble<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let len = buffer.len().min(1);
            self.0.read(&mut buffer[..len])
        }
    }

    #[test]
    fn requests_are_judged_by_their_first_line() {
        for (request, answer) in [
            ("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", Answer::Page),
            ("GET /metrics HTTP/1.0\n\n", Answer::Page),
            ("GET /metrics?a=b HTTP/1.1\r\n\r\n", Answer::Page),
            ("GET / HTTP/1.1\r\n\r\n", Answer::NotFound),
            ("GET /metrics/ HTTP/1.1\r\n\r\n", Answer::NotFound),
            ("GET /../metrics HTTP/1.1\r\n\r\n", Answer::NotFound),
            ("POST /metrics HTTP/1.1\r\n\r\nbody", Answer::WrongMethod),
            ("HEAD /metrics HTTP/1.1\r\n\r\n", Answer::WrongMethod),
            ("GET /metrics HTTP/2\r\n\r\n", Answer::BadRequest),
            ("GET /metrics\r\n\r\n", Answer::BadRequest),
            ("GET  /metrics HTTP/1.1\r\n\r\n", Answer::BadRequest),
            ("G\0T /metrics HTTP/1.1\r\n\r\n", Answer::BadRequest),
            (" /metrics HTTP/1.1\r\n\r\n", Answer::BadRequest),
            ("\r\n\r\n", Answer::BadRequest),
            ("\n\n", Answer::BadRequest),
        ] {
            let whole = read_request(&mut request.as_bytes());
            assert_eq!(whole.unwrap(), answer, "{request:?}");
            let dribbled = read_request(&mut Dribble(request.as_bytes()));
            assert_eq!(dribbled.unwrap(), answer, "{request:?}, a byte at a time");
        }
    }

    #[test]
    fn a_request_has_a_longest() {
        let of = |bytes: usize| {
            let mut request = b"GET /metrics HTTP/1.1\r\nA: ".to_vec();
            request.resize(bytes - 4, b'a');
            request.extend(b"\r\n\r\n");
            read_request(&mut &request[..]).unwrap()
        };
        assert_eq!(of(LONGEST), Answer::Page);
        assert_eq!(of(LONGEST + 1), Answer::TooLarge);
        assert_eq!(of(100 * LONGEST), Answer::TooLarge);
    }

    #[test]
    fn half_a_request_is_none() {
        for half in ["", "GET", "GET /metrics HTTP/1.1\r\n", "GET /metrics HTTP/1.1\r\n\r"] {
            let error = read_request(&mut half.as_bytes()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{half:?}");
        }
    }

    #[test]
    fn a_response_says_how_long_it_is() {
        let page = String::from_utf8(Answer::Page.response("a 1\n")).unwrap();
        assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
        assert!(page.contains("\r\nContent-Length: 4\r\n"), "{page}");
        assert!(page.contains("\r\nConnection: close\r\n"), "{page}");
        assert!(page.ends_with("\r\n\r\na 1\n"), "{page}");
        let wrong = String::from_utf8(Answer::WrongMethod.response("")).unwrap();
        assert!(wrong.starts_with("HTTP/1.1 405 ") && wrong.contains("\r\nAllow: GET\r\n"));
    }
}
