//! An MCP server with no SDK in it: blocking, one line in, one line out.
//!
//! Tools: `echo` answers its `message`; `blob` answers `size` bytes of text; `dense` answers about
//! `size` bytes of structured content.

use std::collections::HashMap;
use std::io::{self, BufRead, Read, Write};

use serde::Deserialize;
use serde_json::value::RawValue;

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

const TOOLS: &str = r#"{"tools":[
{"name":"echo","description":"Answers its message","inputSchema":{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}},
{"name":"blob","inputSchema":{"type":"object","properties":{"size":{"type":"integer"}},"required":["size"]}},
{"name":"dense","inputSchema":{"type":"object","properties":{"size":{"type":"integer"}},"required":["size"]}}
]}"#;

fn main() -> io::Result<()> {
    let mut input = io::BufReader::with_capacity(64 * 1024, io::stdin().lock().take(u64::MAX));
    let mut output = io::BufWriter::with_capacity(64 * 1024, io::stdout().lock());
    let tools = TOOLS.replace('\n', "");
    let mut bodies = HashMap::new();
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
            answer(&mut output, id.get(), &request, &tools, &mut bodies)?;
        }
        // Answers to requests that came together leave together.
        if input.buffer().is_empty() {
            output.flush()?;
        }
    }
}

fn answer(
    output: &mut impl Write,
    id: &str,
    request: &Request<'_>,
    tools: &str,
    bodies: &mut HashMap<(bool, usize), String>,
) -> io::Result<()> {
    match request.method {
        "initialize" => writeln!(
            output,
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"neutral","version":"1"}}}}}}"#
        ),
        "tools/list" => writeln!(output, r#"{{"jsonrpc":"2.0","id":{id},"result":{tools}}}"#),
        "tools/call" => {
            let call = request
                .params
                .and_then(|params| serde_json::from_str::<Call<'_>>(params.get()).ok());
            let Some(call) = call else { return Ok(()) };
            let size = call.arguments.size;
            match call.name {
                "echo" => {
                    let message = call.arguments.message.map_or("\"\"", RawValue::get);
                    writeln!(
                        output,
                        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":{message}}}]}}}}"#
                    )
                }
                "blob" => {
                    let text = bodies
                        .entry((false, size))
                        .or_insert_with(|| "x".repeat(size));
                    write!(
                        output,
                        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#
                    )?;
                    output.write_all(text.as_bytes())?;
                    writeln!(output, r#""}}]}}}}"#)
                }
                _ => {
                    let text = bodies.entry((true, size)).or_insert_with(|| dense(size));
                    write!(
                        output,
                        r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":"#
                    )?;
                    output.write_all(text.as_bytes())?;
                    writeln!(output, "}}}}")
                }
            }
        }
        _ => writeln!(
            output,
            r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"no such method"}}}}"#
        ),
    }
}

fn dense(size: usize) -> String {
    let row = r#"{"id":12345,"ok":true,"tags":["a","b"],"at":[1.5,2.5]}"#;
    let rows = vec![row; (size / (row.len() + 1)).max(1)];
    format!(r#"{{"rows":[{}]}}"#, rows.join(","))
}
