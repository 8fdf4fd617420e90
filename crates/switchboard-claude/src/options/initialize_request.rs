//! Builds `initialize`, the first request to the CLI.

use serde_json::{Map, Value, json};

use super::Options;

impl Options {
    /// Builds the fields of the request. `manifests` contains the manifests of in-process servers
    /// by server name. The CLI sends `initialize` and `tools/list` to each in-process server
    /// without a manifest.
    pub(crate) fn initialize_request(&self, manifests: Map<String, Value>) -> Map<String, Value> {
        let mut request = Map::new();
        let mut put = |key: &str, value: Value| request.insert(key.to_owned(), value);
        put("subtype", json!("initialize"));
        put(
            "hooks",
            self.hooks_with_rules().to_json().unwrap_or_default(),
        );
        if !self.agents.is_empty() {
            put("agents", Value::Object(self.agents.clone()));
        }
        let names: Vec<_> = self.in_process_names().collect();
        if !names.is_empty() {
            put("sdkMcpServers", json!(names));
            put("sdkMcpServerConfigs", self.in_process_settings());
            if !manifests.is_empty() {
                put("sdkMcpServerManifests", Value::Object(manifests));
            }
        }
        request
    }

    fn in_process_names(&self) -> impl Iterator<Item = &str> {
        let servers = self.servers.iter();
        servers
            .filter(|(_, config)| config.instance().is_some())
            .map(|(name, _)| name.as_str())
    }

    /// Returns the settings of the in-process servers by server name. The settings of a server
    /// contain at least the timeout for tool calls.
    fn in_process_settings(&self) -> Value {
        let servers = self.servers.iter();
        let servers = servers.filter(|(_, config)| config.instance().is_some());
        let settings = servers.map(|(name, config)| {
            let config = config.with_default_timeout(self.call_timeout);
            (
                name.clone(),
                config.in_process_settings().unwrap_or_default(),
            )
        });
        Value::Object(settings.collect())
    }
}
