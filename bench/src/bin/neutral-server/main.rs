//! An MCP server without an SDK: blocking, one line in, one line out.
//!
//! `echo` returns its `message`, `blob` returns `size` bytes of text, every other tool returns
//! about `size` bytes of structured content in a shape of [`bodies`]. With `--tools N` the server
//! lists N other tools instead of these. With `--hostile KIND` it misbehaves after its tools were
//! listed. With `--transport http` it listens on a URL.

mod bodies;
mod hostile;
mod http;

use std::io::{self, BufRead, Write};

use serde::Deserialize;
use serde_json::value::RawValue;

use bodies::Bodies;
use hostile::Hostile;

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    method: &'a str,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Call<'a> {
    name: &'a str,
    #[serde(borrow)]
    arguments: Arguments<'a>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(default)]
    size: usize,
}

#[derive(Default, Deserialize)]
struct Page<'a> {
    cursor: Option<&'a str>,
}

#[derive(Default)]
struct Server {
    /// Number of tools to list; `None` lists the callable tools.
    tools: Option<usize>,
    hostile: Option<Hostile>,
    bodies: Bodies,
}

fn main() -> io::Result<()> {
    let mut server = Server::default();
    let mut is_remote = false;
    let mut words = std::env::args().skip(1);
    while let (Some(option), Some(value)) = (words.next(), words.next()) {
        match option.as_str() {
            "--tools" => server.tools = Some(value.parse().expect("--tools takes a number")),
            "--hostile" => server.hostile = Some(Hostile::named(&value)),
            "--transport" => is_remote = value == "http",
            _ => panic!("unknown option {option}"),
        }
    }
    if is_remote {
        return http::serve(server);
    }
    server.serve()
}

impl Server {
    fn serve(&mut self) -> io::Result<()> {
        let mut input = io::BufReader::with_capacity(64 * 1024, io::stdin().lock());
        let mut output = io::BufWriter::with_capacity(64 * 1024, io::stdout().lock());
        let mut line = Vec::new();
        loop {
            line.clear();
            if input.read_until(b'\n', &mut line)? == 0 {
                return Ok(());
            }
            let Ok(request) = serde_json::from_slice::<Request<'_>>(&line) else {
                continue;
            };
            if let Some(id) = request.id {
                self.write_response(&mut output, id.get(), &request)?;
            }
            // Flush only when no request is buffered, so that the responses to requests that
            // arrived together are written at once.
            if input.buffer().is_empty() {
                output.flush()?;
            }
            if let (Some(hostile), "tools/list") = (self.hostile, request.method) {
                output.flush()?;
                hostile.after_listing(&mut output)?;
            }
        }
    }

    fn write_response(
        &mut self,
        output: &mut impl Write,
        id: &str,
        request: &Request<'_>,
    ) -> io::Result<()> {
        let params = request.params.map_or("{}", RawValue::get);
        match request.method {
            "initialize" => writeln!(
                output,
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"neutral","version":"1"}}}}}}"#
            ),
            "tools/list" => {
                let page: Page<'_> = serde_json::from_str(params).unwrap_or_default();
                let page = bodies::listing_page(self.tools, page.cursor);
                writeln!(output, r#"{{"jsonrpc":"2.0","id":{id},"result":{page}}}"#)
            }
            "tools/call" => match serde_json::from_str(params) {
                Ok(call) => self.call(output, id, &call),
                Err(_) => writeln!(
                    output,
                    r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"no such call"}}}}"#
                ),
            },
            _ => writeln!(
                output,
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no such method"}}}}"#
            ),
        }
    }

    fn call(&mut self, output: &mut impl Write, id: &str, call: &Call<'_>) -> io::Result<()> {
        let size = match self.hostile {
            Some(hostile) => hostile.before_call(call.arguments.size),
            None => call.arguments.size,
        };
        write!(output, r#"{{"jsonrpc":"2.0","id":{id},"result":{{"#)?;
        match call.name {
            "echo" if size == 0 => {
                let message = call.arguments.message.map_or("\"\"", RawValue::get);
                write!(output, r#""content":[{{"type":"text","text":{message}}}]"#)?;
            }
            "echo" | "blob" => {
                output.write_all(br#""content":[{"type":"text","text":""#)?;
                output.write_all(self.bodies.of("blob", size))?;
                output.write_all(br#""}]"#)?;
            }
            shape => {
                output.write_all(br#""content":[],"structuredContent":"#)?;
                output.write_all(self.bodies.of(shape, size))?;
            }
        }
        writeln!(output, "}}}}")
    }
}
