//! Compiles the schemas of servers and validates values without blocking the runtime.
//!
//! A check that takes long runs on a thread for blocking work. The number of these threads is
//! bounded for each host. Invariant: a task that waits for a check can be cancelled at any time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use switchboard_client::session::run_blocking;
use switchboard_wire::schema::{CompiledSchema, Validation};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// How many checks of one host run at the same time.
const MAX_CONCURRENT_CHECKS: usize = 2;
/// How long a check waits for other checks and runs. The limits of [`CompiledSchema`] keep one check
/// below a second, so only a queue of many checks takes this long.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Limits the number of concurrent checks of one host.
#[derive(Debug)]
pub(crate) struct SchemaChecks(Arc<Semaphore>);

impl Default for SchemaChecks {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_CONCURRENT_CHECKS)))
    }
}

impl SchemaChecks {
    /// Validates a value on a thread for blocking work, for a value that
    /// [`CompiledSchema::validate_quickly`] does not validate.
    pub(crate) async fn validate(&self, schema: &Arc<CompiledSchema>, value: Value) -> Validation {
        let schema = Arc::clone(schema);
        let outcome = self.run(move || schema.validate(&value)).await;
        outcome.unwrap_or_else(|| {
            let reason = format!("the check did not end within {CHECK_TIMEOUT:?}");
            Validation::Unusable(reason)
        })
    }

    /// Compiles the schemas that are not compiled yet.
    pub(crate) async fn compile(&self, schemas: Vec<Arc<CompiledSchema>>) {
        for schema in schemas {
            self.run(move || drop(schema.unusable_reason().map(str::to_owned)))
                .await;
        }
    }

    /// Returns `None` if the work did not end in time. It then continues without a reader.
    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let slots = Arc::clone(&self.0);
        let run = async move {
            let slot = slots.acquire_owned().await.ok()?;
            let work = move || {
                let result = work();
                drop(slot);
                result
            };
            run_blocking(work).await.ok()
        };
        timeout(CHECK_TIMEOUT, run).await.ok()?
    }
}
