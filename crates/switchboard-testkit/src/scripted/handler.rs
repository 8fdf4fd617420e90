//! Runs the steps that the script has for one message.

mod outgoing;
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
use super::state::{CHUNK_BYTES, ServerState, StepsStopped};
use super::{ServerExit, notification_line};
use crate::script::Step;

/// Runs the steps for one message, or the start or EOF steps.
#[derive(Debug, Clone)]
pub(super) struct Handler {
    state: Arc<ServerState>,
    /// The request or notification; `None` for the start steps and the EOF steps.
    request: Option<Request>,
    /// How often the script's list of these steps has been started, this time included.
    occurrence: u64,
    /// True after the client cancelled the request.
    cancelled: watch::Receiver<bool>,
    /// The client's response to the last request for which this handler waited; see
    /// [`Step::Request`].
    last_response: Option<Value>,
    /// Where the handler writes; `None`: to stdout.
    output: Option<Arc<dyn HandlerOutput>>,
    /// Over HTTP, the session id of a legacy-era client, or a name that is unique to a modern-era
    /// request. Empty if there are no session ids.
    scope: String,
}

type Run<'a> = Pin<Box<dyn Future<Output = Result<(), StepsStopped>> + Send + 'a>>;

impl Handler {
    /// Creates a handler for the start or EOF steps, which no message triggers.
    pub(super) fn without_request(state: &Arc<ServerState>) -> Self {
        Self {
            state: Arc::clone(state),
            request: None,
            occurrence: 1,
            cancelled: watch::channel(false).1,
            last_response: None,
            output: None,
            scope: String::new(),
        }
    }

    pub(super) fn for_request(
        state: &Arc<ServerState>,
        request: Request,
        occurrence: u64,
        cancelled: watch::Receiver<bool>,
    ) -> Self {
        Self {
            request: Some(request),
            occurrence,
            cancelled,
            ..Self::without_request(state)
        }
    }

    /// Makes the handler write to `output` instead of stdout, for the client of session `scope`.
    pub(super) fn with_output(self, output: Arc<dyn HandlerOutput>, scope: &str) -> Self {
        Self {
            output: Some(output),
            scope: scope.to_owned(),
            ..self
        }
    }

    /// Runs the steps of a request, then removes the request from the in-flight table.
    pub(super) async fn run_request(&mut self, steps: &[Step]) {
        let _ = self.run(steps).await;
        if let Some(request) = &self.request {
            self.state.finish_request(&request.id);
        }
    }

    /// Runs steps in order. Stops before the next step if a step fails or the client cancels the
    /// request.
    pub(super) fn run<'a>(&'a mut self, steps: &'a [Step]) -> Run<'a> {
        Box::pin(async move {
            for step in steps {
                if *self.cancelled.borrow() {
                    return Err(StepsStopped);
                }
                self.run_step(step).await?;
            }
            Ok(())
        })
    }

    async fn run_step(&mut self, step: &Step) -> Result<(), StepsStopped> {
        match step {
            Step::Default
            | Step::Reply(_)
            | Step::Text(_)
            | Step::Error { .. }
            | Step::ReplyTwice(_)
            | Step::ReplyOfSize(_)
            | Step::ReplyWithResponse => self.run_reply_step(step).await,
            Step::Raw(_)
            | Step::Bytes { .. }
            | Step::Hex { .. }
            | Step::PrintEnv
            | Step::Stderr(_)
            | Step::StderrFlood { .. }
            | Step::Notify { .. }
            | Step::Publish { .. }
            | Step::Progress { .. }
            | Step::Request(_) => self.run_output_step(step).await,
            Step::DelayMs(_)
            | Step::Hang
            | Step::Repeat { .. }
            | Step::Background(_)
            | Step::After { .. }
            | Step::Until { .. }
            | Step::Once { .. } => self.run_flow_step(step).await,
            Step::SetTools(_)
            | Step::SetResources(_)
            | Step::SetPrompts(_)
            | Step::SetResource { .. }
            | Step::Flood(_)
            | Step::EndListens(_) => self.run_catalog_step(step).await,
            Step::CloseStdout
            | Step::CloseStdin
            | Step::StopReading
            | Step::Exit(_)
            | Step::Abort => self.run_stream_step(step).await,
            Step::Count(_)
            | Step::WriteFile { .. }
            | Step::WriteToInheritedFds
            | Step::IgnoreTerm
            | Step::StopSelf
            | Step::SpawnChild(_)
            | Step::ForkBomb { .. } => self.run_process_step(step).await,
        }
    }

    /// Runs a step that responds to the request.
    async fn run_reply_step(&mut self, step: &Step) -> Result<(), StepsStopped> {
        match step {
            Step::Default => self.reply_default().await,
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
                let response = self.last_response.clone().unwrap_or(Value::Null);
                self.reply_text(&response.to_string()).await
            }
            _ => Ok(()),
        }
    }

    /// Runs a step that writes to the client or to stderr, but is not a response.
    async fn run_output_step(&mut self, step: &Step) -> Result<(), StepsStopped> {
        match step {
            Step::Raw(line) => self.write_line(&self.fill_placeholders(line)).await,
            Step::Bytes { text, repeat } => {
                let text = self.fill_placeholders(text);
                self.write(text.as_bytes(), *repeat).await
            }
            Step::Hex { data, repeat } => self.write(&data.0, *repeat).await,
            Step::PrintEnv => self.print_env().await,
            Step::Stderr(line) => {
                let line = format!("{}\n", self.fill_placeholders(line));
                let written = self.state.platform.stderr(line.as_bytes()).await;
                written.map_err(|_| StepsStopped)
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
                self.report_progress(progress, total.as_ref(), message.as_deref())
                    .await
            }
            Step::Request(request) => self.send_request(request).await,
            _ => Ok(()),
        }
    }

    /// Runs a step that waits or that contains other steps.
    async fn run_flow_step(&mut self, step: &Step) -> Result<(), StepsStopped> {
        match step {
            Step::DelayMs(time) => {
                let delay = tokio::time::sleep(Duration::from_millis(*time));
                self.wait_unless_cancelled(delay).await
            }
            Step::Hang => self.wait_unless_cancelled(std::future::pending()).await,
            Step::Repeat { times, steps } => self.repeat(*times, steps).await,
            Step::Background(steps) => {
                self.spawn_background(steps.clone());
                Ok(())
            }
            Step::After { n, steps } if self.occurrence >= *n => self.run(steps).await,
            Step::Until { n, steps } if self.occurrence <= *n => self.run(steps).await,
            Step::Once { marker, steps } => self.run_once(marker, steps).await,
            _ => Ok(()),
        }
    }

    /// Runs a step that changes tools, resources or prompts, or that sends to or ends
    /// subscriptions.
    async fn run_catalog_step(&mut self, step: &Step) -> Result<(), StepsStopped> {
        let catalog = self.state.platform.catalog();
        match step {
            Step::SetTools(tools) => self.state.set_tools(tools),
            Step::SetResources(resources) => catalog.set_resources(resources),
            Step::SetPrompts(prompts) => catalog.set_prompts(prompts),
            Step::SetResource { uri, text } => {
                if !catalog.set_text(uri, text) {
                    self.state
                        .script_error(&format!("setResource: unknown resource {uri}"));
                    return Err(StepsStopped);
                }
                let params = json!({"uri": uri});
                return self.state.announce(UPDATED, Some(&params)).await;
            }
            Step::Flood(flood) => return self.state.flood(flood).await,
            Step::EndListens(ending) => self.state.end_listens(*ending),
            _ => {}
        }
        Ok(())
    }

    /// Runs a step that closes a stream or ends the server.
    async fn run_stream_step(&mut self, step: &Step) -> Result<(), StepsStopped> {
        match step {
            Step::CloseStdout => match &self.output {
                Some(output) => output.close(),
                None => self.state.close_output().await,
            },
            Step::CloseStdin => self.state.close_input(),
            Step::StopReading => self.state.stop_reading(),
            Step::Exit(code) => return self.exit(ServerExit::Exited(*code)),
            Step::Abort => {
                self.state.platform.kill_self();
                return self.exit(ServerExit::Killed);
            }
            _ => {}
        }
        Ok(())
    }

    /// Runs a step that affects the process, child processes or files.
    async fn run_process_step(&mut self, step: &Step) -> Result<(), StepsStopped> {
        let platform = &self.state.platform;
        match step {
            Step::WriteToInheritedFds => {
                platform.write_to_inherited_fds();
                Ok(())
            }
            Step::IgnoreTerm => self.or_script_error("ignoreTerm", platform::ignore_term()),
            Step::StopSelf => self.or_script_error("stopSelf", platform::stop_self()),
            Step::SpawnChild(grandchild) => {
                let spawned = platform.spawn_grandchild(*grandchild).await;
                self.or_script_error("spawnChild", spawned)
            }
            Step::ForkBomb { generations } => {
                self.or_script_error("forkBomb", platform::spawn_fork_bomb(*generations))
            }
            Step::Count(name) => self.or_script_error("count", platform.count_step(name)),
            Step::WriteFile { path, text } => {
                self.or_script_error("writeFile", platform::write_file(path, text))
            }
            _ => Ok(()),
        }
    }

    async fn write_line(&self, line: &str) -> Result<(), StepsStopped> {
        match &self.output {
            Some(output) => output.put(Chunk::Line(line.to_owned())).await,
            None => self.state.write_line(line).await,
        }
    }

    /// Writes `bytes` `times` times in a row.
    async fn write(&self, bytes: &[u8], times: u64) -> Result<(), StepsStopped> {
        let Some(output) = &self.output else {
            return self.state.write(bytes, times).await;
        };
        let repeats_per_chunk = (CHUNK_BYTES / bytes.len().max(1)).max(1) as u64;
        let mut left = times;
        while left > 0 {
            let now = left.min(repeats_per_chunk);
            let chunk = bytes.repeat(usize::try_from(now).unwrap_or(1));
            output.put(Chunk::Bytes(chunk)).await?;
            left -= now;
        }
        Ok(())
    }

    fn exit(&self, exit: ServerExit) -> Result<(), StepsStopped> {
        self.state.set_exit(exit);
        Err(StepsStopped)
    }

    fn or_script_error(
        &self,
        step: &str,
        outcome: Result<(), impl Display>,
    ) -> Result<(), StepsStopped> {
        outcome.map_err(|error| {
            self.state.script_error(&format!("{step}: {error}"));
            StepsStopped
        })
    }

    /// Waits until `wait` completes or the client cancels the request.
    async fn wait_unless_cancelled(
        &mut self,
        wait: impl Future<Output = ()>,
    ) -> Result<(), StepsStopped> {
        let cancelled = async {
            if self
                .cancelled
                .wait_for(|cancelled| *cancelled)
                .await
                .is_err()
            {
                // The sender of the cancellation was dropped, so the request can no longer be
                // cancelled.
                std::future::pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            () = cancelled => Err(StepsStopped),
            () = wait => Ok(()),
        }
    }

    fn fill_placeholders(&self, text: &str) -> String {
        let json = |value: Option<&Value>| value.unwrap_or(&Value::Null).to_string();
        let request = self.request.as_ref();
        text.replace("$ID", &json(request.map(|request| &request.id)))
            .replace("$TOKEN", &json(request.and_then(Request::progress_token)))
    }
}

/// The steps that contain other steps.
impl Handler {
    async fn repeat(&mut self, times: Option<u64>, steps: &[Step]) -> Result<(), StepsStopped> {
        let mut done = 0;
        while times.is_none_or(|times| done < times) {
            self.run(steps).await?;
            done += 1;
            // Yield, so that a repetition without waits does not starve other tokio tasks.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    fn spawn_background(&self, steps: Vec<Step>) {
        let mut background = self.clone();
        self.state.spawn(async move {
            let _ = background.run(&steps).await;
        });
    }

    async fn run_once(&mut self, marker: &Path, steps: &[Step]) -> Result<(), StepsStopped> {
        match std::fs::File::create_new(marker) {
            Ok(_) => self.run(steps).await,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => self.or_script_error("once", Err(error)),
        }
    }
}
