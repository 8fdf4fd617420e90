//! What a server offers besides tools, as it is now: it can change while the server runs. Its tasks too.
//!
//! A server in memory or over HTTP has one for all its connections and lives, as if it kept it in a
//! database; a process has its own. Invariant: nobody holds the lock while he waits for anything.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};

use super::tasks::Tasks;
use crate::script::Script;

/// What a server offers besides tools, as it is now.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    state: Mutex<State>,
    tasks: Tasks,
}

#[derive(Debug, Default)]
struct State {
    /// What the script said that was played last; another script replaces everything.
    origin: Option<CatalogEntries>,
    now: CatalogEntries,
    /// How far the resources have come that change by themselves, by their address.
    turns: HashMap<String, u64>,
    /// How many requests were begun, by method, and by method and name.
    counts: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct CatalogEntries {
    resources: Vec<Value>,
    templates: Vec<Value>,
    prompts: Vec<Value>,
}

impl Catalog {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder panics")
    }

    /// CatalogEntries what the script says, unless it is what the script before said: then what became of it.
    pub(super) fn fill(&self, script: &Script) {
        let offers = CatalogEntries {
            resources: script.resources.clone(),
            templates: script.resource_templates.clone(),
            prompts: script.prompts.clone(),
        };
        let mut state = self.state();
        if state.origin.as_ref() != Some(&offers) {
            state.origin = Some(offers.clone());
            state.now = offers;
        }
    }

    pub(super) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    pub(super) fn count(&self, key: &str) {
        *self.state().counts.entry(key.to_owned()).or_default() += 1;
    }

    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        self.state().counts.clone()
    }
}

/// Resources.
impl Catalog {
    pub(crate) fn resources(&self) -> Vec<Value> {
        self.state().now.resources.clone()
    }

    pub(super) fn templates(&self) -> Vec<Value> {
        self.state().now.templates.clone()
    }

    pub(crate) fn set_resources(&self, resources: &[Value]) {
        self.state().now.resources = resources.to_vec();
    }

    pub(crate) fn add_resource(&self, resource: Value) {
        self.state().now.resources.push(resource);
    }

    /// Says whether there was one.
    pub(crate) fn remove_resource(&self, uri: &str) -> bool {
        let resources = &mut self.state().now.resources;
        let before = resources.len();
        resources.retain(|resource| !has_uri(resource, uri));
        resources.len() < before
    }

    /// Changes what a resource holds. Says whether there is one.
    pub(crate) fn set_text(&self, uri: &str, text: &str) -> bool {
        let mut state = self.state();
        let mut resources = state.now.resources.iter_mut();
        let found = resources.find(|resource| has_uri(resource, uri));
        let Some(Value::Object(resource)) = found else {
            return false;
        };
        resource.remove("blob");
        resource.remove("contents");
        resource.insert("text".to_owned(), json!(text));
        true
    }

    /// Whether there is anything at that address.
    pub(super) fn has(&self, uri: &str) -> bool {
        let state = self.state();
        let mut resources = state.now.resources.iter();
        let mut templates = state.now.templates.iter();
        resources.any(|resource| has_uri(resource, uri))
            || templates.any(|template| stand_in(template, uri).is_some())
    }

    /// The contents of what is at that address; none if nothing is.
    pub(super) fn read(&self, uri: &str) -> Option<Value> {
        let mut state = self.state();
        let State { now, turns, .. } = &mut *state;
        let Some(resource) = now.resources.iter().find(|found| has_uri(found, uri)) else {
            let text = now
                .templates
                .iter()
                .find_map(|found| stand_in(found, uri))?;
            return Some(json!([{"uri": uri, "mimeType": "text/plain", "text": text}]));
        };
        if let Some(contents) = resource.get("contents") {
            return Some(contents.clone());
        }
        let mut content = json!({"uri": uri});
        let fields = content.as_object_mut()?;
        for key in ["mimeType", "text", "blob"] {
            fields.extend(
                resource
                    .get(key)
                    .map(|value| (key.to_owned(), value.clone())),
            );
        }
        if let Some(how) = resource.get("changes") {
            let turn = turns.entry(uri.to_owned()).or_default();
            *turn += u64::from(how == "onRead");
            let text = resource.get("text").and_then(Value::as_str);
            let text = format!("{} {turn}", text.unwrap_or_default());
            fields.insert("text".to_owned(), json!(text));
        }
        Some(json!([content]))
    }

    /// The resources that change as time goes by, and how often.
    pub(super) fn clocks(&self) -> Vec<(String, Duration)> {
        let period = |resource: &Value| {
            let every = resource.get("changes")?.get("everyMs")?.as_u64()?;
            let uri = resource.get("uri")?.as_str()?.to_owned();
            Some((uri, Duration::from_millis(every.max(1))))
        };
        self.state()
            .now
            .resources
            .iter()
            .filter_map(period)
            .collect()
    }

    pub(super) fn turn(&self, uri: &str) {
        *self.state().turns.entry(uri.to_owned()).or_default() += 1;
    }
}

/// Prompts.
impl Catalog {
    pub(super) fn prompts(&self) -> Vec<Value> {
        self.state().now.prompts.clone()
    }

    pub(crate) fn set_prompts(&self, prompts: &[Value]) {
        self.state().now.prompts = prompts.to_vec();
    }
}

fn has_uri(resource: &Value, uri: &str) -> bool {
    resource.get("uri").is_some_and(|found| found == uri)
}

/// What a template says at that address; none if the address is not one of its own.
fn stand_in(template: &Value, uri: &str) -> Option<String> {
    let pattern = template.get("uriTemplate")?.as_str()?;
    let variables = variables_in(pattern, uri)?;
    let Some(text) = template.get("text").and_then(Value::as_str) else {
        let named = variables
            .iter()
            .map(|(name, value)| format!("{name} = {value}"));
        return Some(named.collect::<Vec<_>>().join("\n"));
    };
    Some(fill_in(text, &variables))
}

/// The values of a template's variables in an address; none if it does not fit. `{name}` is one segment of
/// a path, `{+name}` may be several.
fn variables_in(template: &str, uri: &str) -> Option<BTreeMap<String, String>> {
    let mut variables = BTreeMap::new();
    let (mut template, mut uri) = (template, uri);
    while let Some((literal, rest)) = template.split_once('{') {
        let (name, rest) = rest.split_once('}')?;
        let behind = rest.split('{').next().unwrap_or_default();
        uri = uri.strip_prefix(literal)?;
        let end = match behind {
            "" => uri.len(),
            _ => uri.find(behind)?,
        };
        let (value, left) = uri.split_at(end);
        let is_plain = !name.starts_with('+');
        if value.is_empty() || (is_plain && value.contains('/')) {
            return None;
        }
        let name = name.trim_start_matches('+');
        variables.insert(name.to_owned(), value.to_owned());
        (template, uri) = (rest, left);
    }
    (template == uri).then_some(variables)
}

/// Puts values where `{name}` stands.
pub(super) fn fill_in(text: &str, values: &BTreeMap<String, String>) -> String {
    let mut filled = text.to_owned();
    for (name, value) in values {
        filled = filled.replace(&format!("{{{name}}}"), value);
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_fits_a_template_or_does_not() {
        let fits = |template: &str, uri: &str| {
            let variables = variables_in(template, uri)?;
            let pairs = variables
                .iter()
                .map(|(name, value)| format!("{name}={value}"));
            Some(pairs.collect::<Vec<_>>().join(" "))
        };
        for (template, uri, expected) in [
            ("demo://item/{id}", "demo://item/7", Some("id=7")),
            ("demo://item/{id}", "demo://item/", None),
            ("demo://item/{id}", "demo://item/7/8", None),
            ("demo://{+path}", "demo://a/b", Some("path=a/b")),
            ("demo://{a}/x/{b}", "demo://1/x/2", Some("a=1 b=2")),
            ("demo://{a}/x", "demo://1/y", None),
            ("demo://{a}/x", "demo://1/xy", None),
            ("demo://plain", "demo://plain", Some("")),
        ] {
            assert_eq!(fits(template, uri).as_deref(), expected, "{template} {uri}");
        }
    }
}
