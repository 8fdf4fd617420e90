//! The neutral server over HTTP, for a client in this process.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A server process that ends when this is dropped.
pub struct RemoteServer {
    child: Child,
    url: String,
}

impl RemoteServer {
    pub fn start() -> Self {
        let mut child = Command::new(super::server())
            .args(["--transport", "http"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the neutral server is built beside the bench");
        let mut url = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut url)
            .expect("the server prints its URL");
        url.truncate(url.trim_end().len());
        Self { child, url }
    }

    pub fn url(&self) -> &str {
        &self.url
    }
}

impl Drop for RemoteServer {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().expect("the server ends with its input");
    }
}
