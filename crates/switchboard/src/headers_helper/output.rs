//! What a `headersHelper` prints: a JSON object of strings, or lines such as `Name: value`.
//!
//! Pure. Errors name places, never what stands there.

use serde_json::{Map, Value};
use switchboard_config::Secret;

use super::failed;
use switchboard_client::auth::is_protocol_header;
use switchboard_client::auth::{AuthError, Credential};

pub(super) fn parse(printed: &str) -> Result<Credential, AuthError> {
    let printed = printed.trim_start_matches('\u{feff}').trim();
    if printed.is_empty() {
        return Err(failed("printed nothing".to_owned()));
    }
    let headers = if printed.starts_with('{') {
        from_json(printed)?
    } else {
        from_lines(printed)?
    };
    let own = headers.iter().filter(|(name, _)| !is_protocol_header(name));
    let held = own
        .into_iter()
        .try_fold(Credential::none(), |held, (name, value)| {
            held.header(name, value)
        });
    held.map_err(|error| failed(format!("printed a header that cannot be sent: {error}")))
}

fn from_json(printed: &str) -> Result<Vec<(String, Secret)>, AuthError> {
    let object: Map<String, Value> = serde_json::from_str(printed).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        failed(format!(
            "printed JSON that breaks off or is wrong at line {line}, column {column}"
        ))
    })?;
    let headers = object.into_iter().map(|(name, value)| match value {
        Value::String(value) => Ok((name, Secret::from(value))),
        _ => Err(failed(
            "printed a JSON object with a value that is no string".to_owned(),
        )),
    });
    headers.collect()
}

fn from_lines(printed: &str) -> Result<Vec<(String, Secret)>, AuthError> {
    let lines = printed.lines().enumerate();
    let lines = lines.filter(|(_, line)| !line.trim().is_empty());
    let headers = lines.map(|(index, line)| match line.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), Secret::from(value.trim()))),
        None => Err(failed(format!(
            "printed something that is neither JSON nor `Name: value`, in line {}",
            index + 1
        ))),
    });
    headers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plainly(printed: &str) -> Result<Vec<String>, String> {
        let credential = parse(printed).map_err(|error| error.to_string())?;
        let headers = credential.headers().iter();
        Ok(headers
            .map(|(name, value)| format!("{name}={}", value.to_str().unwrap()))
            .collect())
    }

    #[test]
    fn headers_are_json_or_lines() {
        for (printed, headers) in [
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
            assert_eq!(plainly(printed), Ok(headers), "{printed}");
        }
    }

    #[test]
    fn anything_else_is_refused_without_being_quoted() {
        for printed in [
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
            let error = plainly(printed).unwrap_err();
            assert!(error.starts_with("`headersHelper` printed"), "{error}");
            assert!(!error.contains("sesame"), "{error}");
        }
    }
}
