//! Asks before opening a URL that a server wants visited.
//!
//! Shows the full URL, its host and warnings about it. Opens nothing before the user says yes. The
//! yes allows this program to open the URL and nothing else.

use serde_json::Map;
use switchboard::elicitation::{ElicitResponse, ElicitUrl};

use super::{OpenQuestion, QuestionCancelled};
use crate::browser::Browser;
use crate::render::style::Paint;

pub(super) async fn ask(
    question: &mut OpenQuestion,
    message: &str,
    address: &ElicitUrl,
    browser: Option<&Browser>,
) -> Result<ElicitResponse, QuestionCancelled> {
    question.introduce("asks you to open a URL", message)?;
    // The URL is not wrapped, so that it can be copied.
    question.print_line(&format!("\n{}\n", highlighted(question, address)))?;
    let host = question.style.paint(Paint::Bold, &address.host);
    question.print_line(&format!("{}  {host}", question.dim("host")))?;
    for warning in &address.warnings {
        question.print_warning(&warning.to_string())?;
    }
    let prompt = match browser {
        Some(_) => "Open it in your browser?",
        None => "No browser available. Open the URL yourself?",
    };
    if !question.confirm(prompt).await? {
        return Ok(ElicitResponse::Decline);
    }
    if let Some(browser) = browser {
        match browser.open(&address.url).await {
            Ok(()) => question.print_dimmed("if no browser opens, copy the URL")?,
            Err(error) => question.print_warning(&format!("{error}: copy the URL"))?,
        }
    }
    question.print_dimmed(&format!(
        "{} continues after you finish there. The call is retried when the server reports completion, \
         or after 5 minutes. Ctrl-C cancels it.",
        question.server
    ))?;
    Ok(ElicitResponse::Accept(Map::new()))
}

/// The URL with its host highlighted.
fn highlighted(question: &OpenQuestion, address: &ElicitUrl) -> String {
    let ElicitUrl { url, host, .. } = address;
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.clone();
    };
    match rest.strip_prefix(host.as_str()) {
        Some(rest) => {
            let host = question.style.paint(Paint::Cyan, host);
            format!("{scheme}://{host}{rest}")
        }
        None => url.clone(),
    }
}
