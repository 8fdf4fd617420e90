//! The first request to the CLI.

use serde_json::{Map, Value, json};

use super::Options;

impl Options {
    /// The request. `manifests` are what the servers of this program offer, by their names; those
    /// without one are asked by the CLI.
    pub(crate) fn initialize(&self, manifests: Map<String, Value>) -> Value {
        let mut request = Map::new();
        let mut put = |key: &str, value: Value| request.insert(key.to_owned(), value);
        put("subtype", json!("initialize"));
        put("hooks", self.hooked().declared().unwrap_or_default());
        if !self.agents.is_empty() {
            put("agents", Value::Object(self.agents.clone()));
        }
        let names: Vec<_> = self.sdk_names().collect();
        if !names.is_empty() {
            put("sdkMcpServers", json!(names));
            put("sdkMcpServerConfigs", self.sdk_settings());
            if !manifests.is_empty() {
                put("sdkMcpServerManifests", Value::Object(manifests));
            }
        }
        Value::Object(request)
    }

    fn sdk_names(&self) -> impl Iterator<Item = &str> {
        let servers = self.servers.iter();
        servers
            .filter(|(_, config)| config.instance().is_some())
            .map(|(name, _)| name.as_str())
    }

    /// What the CLI is to know of each server of this program: at least how long to wait for it.
    fn sdk_settings(&self) -> Value {
        let servers = self.servers.iter();
        let servers = servers.filter(|(_, config)| config.instance().is_some());
        let settings = servers.map(|(name, config)| {
            let config = config.patient(self.call_timeout);
            (name.clone(), config.settings().unwrap_or_default())
        });
        Value::Object(settings.collect())
    }
}
