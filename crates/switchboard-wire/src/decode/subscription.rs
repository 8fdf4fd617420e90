//! Decodes notifications of subscriptions: `resources/updated` and `subscriptions/acknowledged`.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::encode::ListChangeFilter;

/// The members of both notifications that the client uses.
#[derive(Debug, Default, PartialEq)]
pub struct SubscriptionNotification<'a> {
    /// The resource that was updated.
    pub uri: Option<Cow<'a, str>>,
    /// The id of the `subscriptions/listen` request that the notification belongs to. An id that is
    /// not an unsigned integer is decoded as 0, which no request has.
    pub listen_request: Option<u64>,
    /// The URIs that the server accepted.
    pub accepted_uris: Option<Vec<String>>,
    /// The list changes that the server accepted.
    pub accepted_lists: ListChangeFilter,
}

#[derive(Deserialize)]
struct RawParams<'a> {
    #[serde(default, borrow)]
    uri: Option<Cow<'a, str>>,
    #[serde(default, rename = "_meta")]
    meta: Option<RawMeta>,
    #[serde(default)]
    notifications: Option<RawAccepted>,
}

#[derive(Deserialize)]
struct RawMeta {
    #[serde(default, rename = "io.modelcontextprotocol/subscriptionId")]
    subscription: Option<RawId>,
}

/// Some servers send our integer ids back as strings.
#[derive(Deserialize)]
#[serde(untagged)]
enum RawId {
    Number(u64),
    String(String),
    Other(IgnoredAny),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawAccepted {
    #[serde(default)]
    resource_subscriptions: Option<Vec<String>>,
    #[serde(default)]
    tools_list_changed: LenientBool,
    #[serde(default)]
    resources_list_changed: LenientBool,
    #[serde(default)]
    prompts_list_changed: LenientBool,
}

/// A flag. Any value but `true` counts as false.
#[derive(Deserialize)]
#[serde(untagged)]
enum LenientBool {
    Bool(bool),
    Other(IgnoredAny),
}

impl Default for LenientBool {
    fn default() -> Self {
        Self::Bool(false)
    }
}

impl LenientBool {
    fn is_true(&self) -> bool {
        matches!(self, Self::Bool(true))
    }
}

impl RawAccepted {
    fn lists(&self) -> ListChangeFilter {
        ListChangeFilter {
            tools_list_changed: self.tools_list_changed.is_true(),
            resources_list_changed: self.resources_list_changed.is_true(),
            prompts_list_changed: self.prompts_list_changed.is_true(),
        }
    }
}

/// Decodes the params of either notification.
pub fn subscription_notification(params: &[u8]) -> Option<SubscriptionNotification<'_>> {
    let raw: RawParams<'_> = serde_json::from_slice(params).ok()?;
    let id = raw.meta.and_then(|meta| meta.subscription);
    let accepted_lists = raw.notifications.as_ref().map(RawAccepted::lists);
    Some(SubscriptionNotification {
        uri: raw.uri,
        listen_request: id.map(|id| match id {
            RawId::Number(id) => id,
            RawId::String(text) => text.parse().unwrap_or_default(),
            RawId::Other(_) => 0,
        }),
        accepted_uris: raw
            .notifications
            .and_then(|accepted| accepted.resource_subscriptions),
        accepted_lists: accepted_lists.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_are_decoded_leniently() {
        let decode = |text: &'static str| subscription_notification(text.as_bytes());
        let meta = "io.modelcontextprotocol/subscriptionId";
        assert_eq!(decode("7"), None);
        let without_id = decode(r#"{"uri":"a:b","title":1}"#).unwrap();
        assert_eq!(
            (without_id.uri.as_deref(), without_id.listen_request),
            (Some("a:b"), None)
        );
        for (id, expected) in [("7", 7), ("\"7\"", 7), ("\"x\"", 0), ("[1]", 0)] {
            let text = format!(r#"{{"uri":"a\/b","_meta":{{"{meta}":{id}}}}}"#);
            let notification = subscription_notification(text.as_bytes()).unwrap();
            assert_eq!(
                (notification.uri.as_deref(), notification.listen_request),
                (Some("a/b"), Some(expected))
            );
        }
        let uris = decode(r#"{"notifications":{"resourceSubscriptions":["a","b"]}}"#).unwrap();
        assert_eq!(uris.accepted_uris.unwrap(), ["a", "b"]);
        assert_eq!(uris.accepted_lists, ListChangeFilter::default());
        let lists = decode(
            r#"{"notifications":{"toolsListChanged":true,"resourcesListChanged":null,
                "promptsListChanged":"true","resourceSubscriptions":["a"]}}"#,
        )
        .unwrap();
        assert_eq!(lists.accepted_uris.unwrap(), ["a"]);
        let only_tools = ListChangeFilter {
            tools_list_changed: true,
            ..ListChangeFilter::default()
        };
        assert_eq!(lists.accepted_lists, only_tools);
    }
}
