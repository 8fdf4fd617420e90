//! Servers that live in this process, by name.

use std::collections::BTreeMap;
use std::sync::Mutex;

pub(crate) use switchboard_wire::{
    InstanceKind as Kind, LocalCall, LocalServer, ProgressSink, ServerInstance, ServerNotification,
};

use crate::sync::lock;

/// The servers of the embedding program, by the names under which entries ask for them. Looked into
/// at every attempt to connect: what is provided later is found by the next one.
#[derive(Debug, Default)]
pub(crate) struct Instances(Mutex<BTreeMap<String, ServerInstance>>);

impl Instances {
    pub(crate) fn new(instances: BTreeMap<String, ServerInstance>) -> Self {
        Self(Mutex::new(instances))
    }

    /// Says what was there before.
    pub(crate) fn put(&self, name: String, instance: ServerInstance) -> Option<ServerInstance> {
        lock(&self.0).insert(name, instance)
    }

    pub(crate) fn take(&self, name: &str) -> Option<ServerInstance> {
        lock(&self.0).remove(name)
    }

    /// The one of this name, or the names of those that there are.
    pub(crate) fn named(&self, name: &str) -> Result<ServerInstance, Vec<String>> {
        let instances = lock(&self.0);
        let instance = instances.get(name).cloned();
        instance.ok_or_else(|| instances.keys().cloned().collect())
    }
}
