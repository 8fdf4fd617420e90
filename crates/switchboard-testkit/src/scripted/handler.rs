//! Runs the steps of one message.

mod replies;
mod task;

use std::fmt::Display;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::listeners::UPDATED;
use super::message::Request;
use super::output::{Chunk, HandlerOutput};
use super::platform;
use super::state::{PIECE, ServerState, StepsStopped};
use super::{ServerExit, notification_line};
use crate::script::Step;

/// Runs the steps of one message.
#[derive(Debug, Clone)]
pub(super) struct Handler {
    shared: Arc<ServerState>,
    /// What is being answered; none at the start and at the end.
    request: Option<Request>,
    /// Which time it is that this list was started, from 1.
    round: u64,
    /// Becomes true when the client cancels the request.
    cancelled: watch::Receiver<bool>,
    /// The client's last awaited response.
    answer: Option<Value>,
    /// Where its words go; none: to stdout.
    outlet: Option<Arc<dyn HandlerOutput>>,
    /// The session of a legacy client; empty where a connection is one.
    scope: String,
}

type Run<'a> = Pin<Box<dyn Future<Output = Result<(), StepsStopped>> + Send + 'a>>;

impl Handler {
    /// A handler of steps that no message asked for.
    pub(super) fn unprompted(shared: &Arc<ServerState>) -> Self {
        Self {
            shared: Arc::clone(shared),
            request: None,
            round: 1,
            cancelled: watch::channel(false).1,
            answer: None,
            outlet: None,
            scope: String::new(),
        }
    }

    pub(super) fn for_request(
        shared: &Arc<ServerState>,
        request: Request,
        round: u64,
        cancelled: watch::Receiver<bool>,
    ) -> Self {
        Self {
            request: Some(request),
            round,
            cancelled,
            ..Self::unprompted(shared)
        }
    }

    /// Speaks through this and not to stdout, to the client of that session.
    pub(super) fn through(self, outlet: Arc<dyn HandlerOutput>, scope: &str) -> Self {
        Self {
            outlet: Some(outlet),
            scope: scope.to_owned(),
            ..self
        }
    }

    /// Runs the steps of a request, and forgets it.
    pub(super) async fn answer(&mut self, steps: &[Step]) {
        let _ = self.run(steps).await;
        if let Some(request) = &self.request {
            self.shared.finish(&request.id);
        }
    }

    /// Runs steps in order, until one stops the list.
    pub(super) fn run<'a>(&'a mut self, steps: &'a [Step]) -> Run<'a> {
        Box::pin(async move {
            for step in steps {
                if *self.cancelled.borrow() {
                    return Err(StepsStopped);
                }
                self.take(step).await?;
            }
            Ok(())
        })
    }

    async fn take(&mut self, step: &Step) -> Result<(), StepsStopped> {
        match step {
            Step::Default => self.be_polite().await,
            Step::Reply(result) => self.reply(result).await,
            Step::Text(text) => self.reply_text(text).await,
            Step::Error {
                code,
                message,
                data,
            } => self.reply_error(*code, message, data.as_ref()).await,
            Step::ReplyTwice(result) => {
                self.reply(result).await?;
                self.reply(result).await
            }
            Step::ReplyOfSize(size) => self.reply_of_size(*size).await,
            Step::ReplyWithResponse => {
                let answer = self.answer.clone().unwrap_or(Value::Null);
                self.reply_text(&answer.to_string()).await
            }
            Step::Raw(line) => self.write_line(&self.fill_in(line)).await,
            Step::Bytes { text, repeat } => {
                let text = self.fill_in(text);
                self.write(text.as_bytes(), *repeat).await
            }
            Step::Hex { data, repeat } => self.write(&data.0, *repeat).await,
            Step::PrintEnv => self.print_env().await,
            Step::Stderr(line) => {
                let line = format!("{}\n", self.fill_in(line));
                self.shared
                    .host
                    .stderr(line.as_bytes())
                    .await
                    .map_err(|_| StepsStopped)
            }
            Step::StderrFlood { bytes } => self.flood_stderr(*bytes).await,
            Step::Notify { method, params } => {
                let line = notification_line(method, params.as_ref());
                self.write_line(&line).await
            }
            Step::Publish { method, params } => self.publish(method, params.as_ref()).await,
            Step::Progress {
                progress,
                total,
                message,
            } => {
                self.report(progress, total.as_ref(), message.as_deref())
                    .await
            }
            Step::Request(request) => self.ask(request).await,
            Step::DelayMs(time) => {
                self.pause(tokio::time::sleep(Duration::from_millis(*time)))
                    .await
            }
            Step::Hang => self.pause(std::future::pending()).await,
            Step::Repeat { times, steps } => self.repeat(*times, steps).await,
            Step::Background(steps) => {
                self.spawn_background(steps.clone());
                Ok(())
            }
            Step::After { n, steps } if self.round >= *n => self.run(steps).await,
            Step::Until { n, steps } if self.round <= *n => self.run(steps).await,
            Step::After { .. } | Step::Until { .. } => Ok(()),
            Step::Once { marker, steps } => self.run_once(marker, steps).await,
            Step::CloseStdout => {
                match &self.outlet {
                    Some(outlet) => outlet.close(),
                    None => self.shared.close_output().await,
                }
                Ok(())
            }
            Step::CloseStdin => {
                self.shared.close_input();
                Ok(())
            }
            Step::StopReading => {
                self.shared.stop_reading();
                Ok(())
            }
            Step::SetTools(tools) => {
                self.shared.set_tools(tools);
                Ok(())
            }
            Step::SetResources(_)
            | Step::SetPrompts(_)
            | Step::SetResource { .. }
            | Step::Flood(_)
            | Step::EndListens(_) => self.change_offer(step).await,
            Step::Exit(code) => self.end(ServerExit::Exited(*code)),
            Step::Abort => {
                self.shared.host.kill_self();
                self.end(ServerExit::Killed)
            }
            _ => self.reach_out(step).await,
        }
    }

    /// Steps that concern what is offered besides tools, and who is told.
    async fn change_offer(&mut self, step: &Step) -> Result<(), StepsStopped> {
        let stock = self.shared.host.stock();
        match step {
            Step::SetResources(resources) => stock.set_resources(resources),
            Step::SetPrompts(prompts) => stock.set_prompts(prompts),
            Step::SetResource { uri, text } => {
                if !stock.set_text(uri, text) {
                    self.shared
                        .fault(&format!("setResource: there is no {uri}"));
                    return Err(StepsStopped);
                }
                let params = json!({"uri": uri});
                return self.shared.announce(UPDATED, Some(&params)).await;
            }
            Step::Flood(flood) => return self.shared.flood(flood).await,
            Step::EndListens(ending) => self.shared.end_listens(*ending),
            _ => {}
        }
        Ok(())
    }

    /// Steps that concern more than the two streams: the process, its children, its files.
    async fn reach_out(&mut self, step: &Step) -> Result<(), StepsStopped> {
        let host = &self.shared.host;
        match step {
            Step::WriteToInheritedFds => {
                host.use_descriptors();
                Ok(())
            }
            Step::IgnoreTerm => self.attempt("ignoreTerm", platform::ignore_term()),
            Step::StopSelf => self.attempt("stopSelf", platform::stop_self()),
            Step::SpawnChild(grandchild) => {
                let spawned = host.spawn_grandchild(*grandchild).await;
                self.attempt("spawnChild", spawned)
            }
            Step::ForkBomb { generations } => {
                self.attempt("forkBomb", platform::spawn_breeders(*generations))
            }
            Step::Count(name) => self.attempt("count", host.count(name)),
            Step::WriteFile { path, text } => {
                self.attempt("writeFile", platform::write_file(path, text))
            }
            _ => Ok(()),
        }
    }

    async fn write_line(&self, line: &str) -> Result<(), StepsStopped> {
        match &self.outlet {
            Some(outlet) => outlet.put(Chunk::Line(line.to_owned())).await,
            None => self.shared.write_line(line).await,
        }
    }

    /// Writes bytes so many times.
    async fn write(&self, bytes: &[u8], times: u64) -> Result<(), StepsStopped> {
        let Some(outlet) = &self.outlet else {
            return self.shared.write(bytes, times).await;
        };
        let per_piece = (PIECE / bytes.len().max(1)).max(1) as u64;
        let mut left = times;
        while left > 0 {
            let now = left.min(per_piece);
            let piece = bytes.repeat(usize::try_from(now).unwrap_or(1));
            outlet.put(Chunk::Bytes(piece)).await?;
            left -= now;
        }
        Ok(())
    }

    fn end(&self, how: ServerExit) -> Result<(), StepsStopped> {
        self.shared.end(how);
        Err(StepsStopped)
    }

    fn attempt(&self, what: &str, outcome: Result<(), impl Display>) -> Result<(), StepsStopped> {
        outcome.map_err(|error| {
            self.shared.fault(&format!("{what}: {error}"));
            StepsStopped
        })
    }

    /// Waits, unless the client cancels.
    async fn pause(&mut self, wait: impl Future<Output = ()>) -> Result<(), StepsStopped> {
        let cancelled = async {
            if self
                .cancelled
                .wait_for(|cancelled| *cancelled)
                .await
                .is_err()
            {
                // Nobody is left who could cancel.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = cancelled => Err(StepsStopped),
            () = wait => Ok(()),
        }
    }

    fn fill_in(&self, text: &str) -> String {
        let json = |value: Option<&Value>| value.unwrap_or(&Value::Null).to_string();
        let request = self.request.as_ref();
        text.replace("$ID", &json(request.map(|request| &request.id)))
            .replace("$TOKEN", &json(request.and_then(Request::progress_token)))
    }
}

/// Steps that hold steps.
impl Handler {
    async fn repeat(&mut self, times: Option<u64>, steps: &[Step]) -> Result<(), StepsStopped> {
        let mut done = 0;
        while times.is_none_or(|times| done < times) {
            self.run(steps).await?;
            done += 1;
            // A loop that never waits must not keep the others from running.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    fn spawn_background(&self, steps: Vec<Step>) {
        let mut beside = self.clone();
        self.shared.spawn(async move {
            let _ = beside.run(&steps).await;
        });
    }

    async fn run_once(&mut self, marker: &Path, steps: &[Step]) -> Result<(), StepsStopped> {
        match std::fs::File::create_new(marker) {
            Ok(_) => self.run(steps).await,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => self.attempt("once", Err(error)),
        }
    }
}
