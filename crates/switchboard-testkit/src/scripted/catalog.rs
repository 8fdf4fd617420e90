//! The resources, templates, prompts and tasks of a server, which can change while it runs.
//!
//! All connections and restarts of an in-memory or HTTP server share one catalog; a child process
//! has its own. Invariant: the lock of the catalog is never held across an await.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};

use super::task_table::TaskTable;
use crate::script::Script;

/// The current resources, templates, prompts and tasks of a server.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    state: Mutex<State>,
    tasks: TaskTable,
}

#[derive(Debug, Default)]
struct State {
    /// The entries of the script that was loaded last. Loading a script with different entries
    /// replaces the current ones.
    from_script: Option<CatalogEntries>,
    current: CatalogEntries,
    /// How often each resource with `changes` has changed, by URI.
    change_counts: HashMap<String, u64>,
    /// Number of started requests, by method (`tools/call`) and by method and name (`tools/call
    /// echo`), and number of runs of the tool `research` (`ran research`).
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
        self.state.lock().expect("the lock is not poisoned")
    }

    /// Loads the entries of the script. If the previously loaded script had equal entries, the
    /// current entries stay, with all changes made to them.
    pub(super) fn load(&self, script: &Script) {
        let entries = CatalogEntries {
            resources: script.resources.clone(),
            templates: script.resource_templates.clone(),
            prompts: script.prompts.clone(),
        };
        let mut state = self.state();
        if state.from_script.as_ref() != Some(&entries) {
            state.from_script = Some(entries.clone());
            state.current = entries;
        }
    }

    pub(super) fn tasks(&self) -> &TaskTable {
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
        self.state().current.resources.clone()
    }

    pub(super) fn templates(&self) -> Vec<Value> {
        self.state().current.templates.clone()
    }

    pub(crate) fn set_resources(&self, resources: &[Value]) {
        self.state().current.resources = resources.to_vec();
    }

    pub(crate) fn add_resource(&self, resource: Value) {
        self.state().current.resources.push(resource);
    }

    /// Returns whether the resource existed.
    pub(crate) fn remove_resource(&self, uri: &str) -> bool {
        let resources = &mut self.state().current.resources;
        let before = resources.len();
        resources.retain(|resource| !has_uri(resource, uri));
        resources.len() < before
    }

    /// Changes the content of a resource. Returns whether the resource exists.
    pub(crate) fn set_text(&self, uri: &str, text: &str) -> bool {
        let mut state = self.state();
        let mut resources = state.current.resources.iter_mut();
        let found = resources.find(|resource| has_uri(resource, uri));
        let Some(Value::Object(resource)) = found else {
            return false;
        };
        resource.remove("blob");
        resource.remove("contents");
        resource.insert("text".to_owned(), json!(text));
        true
    }

    /// Returns whether a resource has this URI or a template matches it.
    pub(super) fn has(&self, uri: &str) -> bool {
        let state = self.state();
        let mut resources = state.current.resources.iter();
        let mut templates = state.current.templates.iter();
        resources.any(|resource| has_uri(resource, uri))
            || templates.any(|template| template_text(template, uri).is_some())
    }

    /// The `contents` that `resources/read` returns for this URI; `None` if no resource has this
    /// URI and no template matches it. Increments the counter of a resource that changes on each
    /// read.
    pub(super) fn read(&self, uri: &str) -> Option<Value> {
        let mut state = self.state();
        let State {
            current,
            change_counts,
            ..
        } = &mut *state;
        let Some(resource) = current.resources.iter().find(|found| has_uri(found, uri)) else {
            let text = current
                .templates
                .iter()
                .find_map(|found| template_text(found, uri))?;
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
        if let Some(trigger) = resource.get("changes") {
            let count = change_counts.entry(uri.to_owned()).or_default();
            *count += u64::from(trigger == "onRead");
            let text = resource.get("text").and_then(Value::as_str);
            let text = format!("{} {count}", text.unwrap_or_default());
            fields.insert("text".to_owned(), json!(text));
        }
        Some(json!([content]))
    }

    /// The resources that change periodically, with their periods.
    pub(super) fn clocks(&self) -> Vec<(String, Duration)> {
        let period = |resource: &Value| {
            let every = resource.get("changes")?.get("everyMs")?.as_u64()?;
            let uri = resource.get("uri")?.as_str()?.to_owned();
            Some((uri, Duration::from_millis(every.max(1))))
        };
        self.state()
            .current
            .resources
            .iter()
            .filter_map(period)
            .collect()
    }

    pub(super) fn advance(&self, uri: &str) {
        *self
            .state()
            .change_counts
            .entry(uri.to_owned())
            .or_default() += 1;
    }
}

/// Prompts.
impl Catalog {
    pub(super) fn prompts(&self) -> Vec<Value> {
        self.state().current.prompts.clone()
    }

    pub(crate) fn set_prompts(&self, prompts: &[Value]) {
        self.state().current.prompts = prompts.to_vec();
    }
}

fn has_uri(resource: &Value, uri: &str) -> bool {
    resource.get("uri").is_some_and(|found| found == uri)
}

/// The content that a template gives for this URI; `None` if the URI does not match the template.
fn template_text(template: &Value, uri: &str) -> Option<String> {
    let pattern = template.get("uriTemplate")?.as_str()?;
    let variables = match_template(pattern, uri)?;
    let Some(text) = template.get("text").and_then(Value::as_str) else {
        let named = variables
            .iter()
            .map(|(name, value)| format!("{name} = {value}"));
        return Some(named.collect::<Vec<_>>().join("\n"));
    };
    Some(fill_placeholders(text, &variables))
}

/// The values of a template's variables in a URI; `None` if the URI does not match. `{name}`
/// matches one path segment, `{+name}` one or more.
fn match_template(template: &str, uri: &str) -> Option<BTreeMap<String, String>> {
    let mut variables = BTreeMap::new();
    let (mut template, mut uri) = (template, uri);
    while let Some((literal, rest)) = template.split_once('{') {
        let (name, rest) = rest.split_once('}')?;
        let after = rest.split('{').next().unwrap_or_default();
        uri = uri.strip_prefix(literal)?;
        let end = match after {
            "" => uri.len(),
            _ => uri.find(after)?,
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

/// Replaces each `{name}` in `text` by the value of that name.
pub(super) fn fill_placeholders(text: &str, values: &BTreeMap<String, String>) -> String {
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
    fn uris_match_templates() {
        let fits = |template: &str, uri: &str| {
            let variables = match_template(template, uri)?;
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
