//! What a server says of the resources that one asked to be told of.

use std::borrow::Cow;

use serde::Deserialize;
use serde::de::IgnoredAny;

use crate::encode::Interests;

/// Of two notices the parts that matter: that a resource was updated, and what a server agreed to tell.
#[derive(Debug, Default, PartialEq)]
pub struct SubscriptionNotice<'a> {
    /// Which resource.
    pub uri: Option<Cow<'a, str>>,
    /// To which request of ours it belongs; zero, which none of ours has, where it is none of them.
    pub listen: Option<u64>,
    /// The addresses that were agreed on.
    pub agreed: Option<Vec<String>>,
    /// The lists that were.
    pub lists: Interests,
}

#[derive(Deserialize)]
struct Written<'a> {
    #[serde(default, borrow)]
    uri: Option<Cow<'a, str>>,
    #[serde(default, rename = "_meta")]
    meta: Option<Meta>,
    #[serde(default)]
    notifications: Option<Agreed>,
}

#[derive(Deserialize)]
struct Meta {
    #[serde(default, rename = "io.modelcontextprotocol/subscriptionId")]
    subscription: Option<Id>,
}

/// Some turn the number that they were sent into a text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Id {
    Number(u64),
    Text(String),
    Other(IgnoredAny),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Agreed {
    #[serde(default)]
    resource_subscriptions: Option<Vec<String>>,
    #[serde(default)]
    tools_list_changed: Option<Said>,
    #[serde(default)]
    resources_list_changed: Option<Said>,
    #[serde(default)]
    prompts_list_changed: Option<Said>,
}

/// What is no yes is a no.
#[derive(Deserialize)]
#[serde(untagged)]
enum Said {
    Plainly(bool),
    Otherwise(IgnoredAny),
}

fn is_yes(said: Option<&Said>) -> bool {
    matches!(said, Some(Said::Plainly(true)))
}

impl Agreed {
    fn lists(&self) -> Interests {
        Interests {
            tools_list_changed: is_yes(self.tools_list_changed.as_ref()),
            resources_list_changed: is_yes(self.resources_list_changed.as_ref()),
            prompts_list_changed: is_yes(self.prompts_list_changed.as_ref()),
        }
    }
}

pub fn subscription_notice(params: &[u8]) -> Option<SubscriptionNotice<'_>> {
    let written: Written<'_> = serde_json::from_slice(params).ok()?;
    let id = written.meta.and_then(|meta| meta.subscription);
    let lists = written.notifications.as_ref().map(Agreed::lists);
    Some(SubscriptionNotice {
        uri: written.uri,
        listen: id.map(|id| match id {
            Id::Number(id) => id,
            Id::Text(text) => text.parse().unwrap_or_default(),
            Id::Other(_) => 0,
        }),
        agreed: written
            .notifications
            .and_then(|agreed| agreed.resource_subscriptions),
        lists: lists.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_are_read_as_far_as_they_matter() {
        let read = |text: &'static str| subscription_notice(text.as_bytes());
        let meta = "io.modelcontextprotocol/subscriptionId";
        assert_eq!(read("7"), None);
        let plain = read(r#"{"uri":"a:b","title":1}"#).unwrap();
        assert_eq!((plain.uri.as_deref(), plain.listen), (Some("a:b"), None));
        for (id, expected) in [("7", 7), ("\"7\"", 7), ("\"x\"", 0), ("[1]", 0)] {
            let text = format!(r#"{{"uri":"a\/b","_meta":{{"{meta}":{id}}}}}"#);
            let notice = subscription_notice(text.as_bytes()).unwrap();
            assert_eq!(
                (notice.uri.as_deref(), notice.listen),
                (Some("a/b"), Some(expected))
            );
        }
        let agreed = read(r#"{"notifications":{"resourceSubscriptions":["a","b"]}}"#).unwrap();
        assert_eq!(agreed.agreed.unwrap(), ["a", "b"]);
        assert_eq!(agreed.lists, Interests::default());
        let lists = read(
            r#"{"notifications":{"toolsListChanged":true,"resourcesListChanged":null,
                "promptsListChanged":"true","resourceSubscriptions":["a"]}}"#,
        )
        .unwrap();
        assert_eq!(lists.agreed.unwrap(), ["a"]);
        let tools_alone = Interests {
            tools_list_changed: true,
            ..Interests::default()
        };
        assert_eq!(lists.lists, tools_alone);
    }
}
