//! An address that a server wants the person to visit.
//!
//! All of it is shown, with what is suspicious about it, and nothing is opened before the person said
//! yes. A yes is consent to go there, and no more than that.

use serde_json::Map;
use switchboard::{Address, ElicitAnswer};

use super::{Closed, Conversation};
use crate::browser::Browser;
use crate::render::style::Paint;

pub(super) async fn ask(
    talk: &mut Conversation,
    message: &str,
    address: &Address,
    browser: Option<&Browser>,
) -> Result<ElicitAnswer, Closed> {
    talk.introduce("asks you to visit an address", message)?;
    // In one piece, so that it can be copied.
    talk.show(&format!("\n{}\n", highlighted(talk, address)))?;
    let host = talk.style.paint(Paint::Bold, &address.host);
    talk.show(&format!("{}  {host}", talk.dim("host")))?;
    for warning in &address.warnings {
        talk.warn(&warning.to_string())?;
    }
    let question = match browser {
        Some(_) => "Open it in your browser?",
        None => "Will you go there? Nothing here can open it: copy it.",
    };
    if !talk.is_agreed(question).await? {
        return Ok(ElicitAnswer::Decline);
    }
    if let Some(browser) = browser {
        match browser.open(&address.url).await {
            Ok(()) => talk.note("if no browser opens, copy the address")?,
            Err(error) => talk.warn(&format!("no browser opened ({error}): copy the address"))?,
        }
    }
    talk.note(&format!(
        "{} goes on when you are done there; a call that it refused until then is made again when it \
         says so, or after 5 minutes. Ctrl-C gives the call up.",
        talk.server
    ))?;
    Ok(ElicitAnswer::Accept(Map::new()))
}

/// The address, its host brighter than the rest.
fn highlighted(talk: &Conversation, address: &Address) -> String {
    let Address { url, host, .. } = address;
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.clone();
    };
    match rest.strip_prefix(host.as_str()) {
        Some(rest) => format!("{scheme}://{}{rest}", talk.style.paint(Paint::Cyan, host)),
        None => url.clone(),
    }
}
