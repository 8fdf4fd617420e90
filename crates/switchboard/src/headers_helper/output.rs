//! Parses what a `headersHelper` command prints: a JSON object of strings, or lines `Name: value`.
//!
//! Pure. Invariant: no error message contains the value of a header.

use serde_json::{Map, Value};
use switchboard_config::Secret;

use super::failed;
use switchboard_client::auth::is_protocol_header;
use switchboard_client::auth::{AuthError, Credential};

/// Parses the output into headers. Drops headers that the MCP transport sets itself, such as
/// `Content-Type`.
pub(super) fn parse_headers(output: &str) -> Result<Credential, AuthError> {
    let output = output.trim_start_matches('\u{feff}').trim();
    if output.is_empty() {
        return Err(failed("printed nothing".to_owned()));
    }
    let headers = if output.starts_with('{') {
        parse_json(output)?
    } else {
        parse_lines(output)?
    };
    let headers = headers.iter().filter(|(name, _)| !is_protocol_header(name));
    let credential = headers
        .into_iter()
        .try_fold(Credential::none(), |credential, (name, value)| {
            credential.header(name, value)
        });
    credential.map_err(|error| failed(format!("printed a header that cannot be sent: {error}")))
}

fn parse_json(output: &str) -> Result<Vec<(String, Secret)>, AuthError> {
    let object: Map<String, Value> = serde_json::from_str(output).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        failed(format!(
            "printed invalid JSON (line {line}, column {column})"
        ))
    })?;
    let headers = object.into_iter().map(|(name, value)| match value {
        Value::String(value) => Ok((name, Secret::from(value))),
        _ => Err(failed(
            "printed a JSON object with a value that is not a string".to_owned(),
        )),
    });
    headers.collect()
}

fn parse_lines(output: &str) -> Result<Vec<(String, Secret)>, AuthError> {
    let lines = output.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let headers = lines.map(|(index, line)| match line.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), Secret::from(value.trim()))),
        None => Err(failed(format!(
            "printed neither JSON nor `Name: value` in line {}",
            index + 1
        ))),
    });
    headers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_to_text(output: &str) -> Result<Vec<String>, String> {
        let credential = parse_headers(output).map_err(|error| error.to_string())?;
        let headers = credential.headers().iter();
        Ok(headers
            .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
            .collect())
    }

    #[test]
    fn headers_are_json_or_lines() {
        for (output, headers) in [
            (
                r#"{"Authorization":"Bearer t","X-A":"1"}"#,
                vec!["authorization=Bearer t", "x-a=1"],
            ),
            (
                "Authorization: Bearer t\r\nX-A:1\n\n",
                vec!["authorization=Bearer t", "x-a=1"],
            ),
            ("\u{feff}X-A: a:b", vec!["x-a=a:b"]),
            ("X-A: 1\nx-a: 2", vec!["x-a=2"]),
            ("Content-Type: text/plain\nX-A: 1", vec!["x-a=1"]),
            ("{}", vec![]),
        ] {
            let headers = headers.into_iter().map(str::to_owned).collect();
            assert_eq!(parse_to_text(output), Ok(headers), "{output}");
        }
    }

    #[test]
    fn other_output_is_rejected_without_quoting_it() {
        for output in [
            "",
            "  \n",
            "sesame-token-123",
            "X-A: 1\nsesame-token-123",
            r#"{"sesame-token-123": 1}"#,
            r#"{"X-A": "sesame-token-123""#,
            r#"["sesame-token-123"]"#,
            "{\"X-A\": \"sesame\\r\\nHost: token-123\"}",
            "X-A: sesame\rHost: token-123",
            "Host: sesame-token-123",
        ] {
            let error = parse_to_text(output).unwrap_err();
            assert!(error.starts_with("`headersHelper` printed"), "{error}");
            assert!(!error.contains("sesame"), "{error}");
        }
    }
}
