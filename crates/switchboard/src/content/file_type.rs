//! What bytes are, as far as that can be told, and what a file of them may be called.
//!
//! What a server says of bytes is compared with how they begin; where the two differ, the bytes are
//! believed. Pure. Invariant: an extension is one of a fixed few, none of which makes a double click
//! run something: what could be run is a text (`.txt`) or just bytes (`.bin`).

use std::fmt;

/// A kind of file that we have a name for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileType {
    /// A picture.
    Png,
    /// A picture.
    Jpeg,
    /// A picture.
    Gif,
    /// A picture.
    Webp,
    /// Pages.
    Pdf,
    /// HTML, SVG or other markup, which a browser would carry out; kept as a text.
    Markup,
    /// Text of any other kind.
    Text,
    /// Data.
    Json,
    /// Sound.
    Mp3,
    /// Sound.
    Wav,
    /// Sound.
    Ogg,
    /// A film.
    Mp4,
    /// A film.
    Webm,
    /// Anything else.
    Unknown,
}

/// How far into the bytes it is looked for the beginning of markup.
const BLANKS: usize = 1024;

impl FileType {
    /// What the bytes are, and in words what was wrong with what was said of them.
    pub fn of(bytes: &[u8], said: Option<&str>) -> (Self, Option<String>) {
        let essence = said.map(essence);
        let said_type = essence.as_deref().map_or(Self::Unknown, Self::said);
        let found = Self::begins_like(bytes);
        let is_said = |what: &dyn fmt::Display| {
            let said = super::field(said.unwrap_or_default(), super::FIELD_BYTES);
            Some(format!("said to be {said}, but {what}"))
        };
        match (found, said_type) {
            (Some(found), said_type) if found == said_type => (found, None),
            // Text may begin with a tag, whatever it is a text of.
            (Some(Self::Markup), Self::Text | Self::Json) => (Self::Markup, None),
            (Some(found), _) if says_nothing(essence.as_deref()) => (found, None),
            (Some(found), _) => (found, is_said(&format!("it begins like {}", found.words()))),
            (None, said_type) if said_type.is_recognised() => {
                (Self::Unknown, is_said(&"it does not begin like that"))
            }
            (None, said_type) => (said_type, None),
        }
    }

    /// What a file of it ends with, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Jpeg => "jpg",
            Self::Gif => "gif",
            Self::Webp => "webp",
            Self::Pdf => "pdf",
            Self::Markup | Self::Text => "txt",
            Self::Json => "json",
            Self::Mp3 => "mp3",
            Self::Wav => "wav",
            Self::Ogg => "ogg",
            Self::Mp4 => "mp4",
            Self::Webm => "webm",
            Self::Unknown => "bin",
        }
    }

    /// Its name as a MIME type.
    pub fn mime_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
            Self::Pdf => "application/pdf",
            Self::Markup => "text/html",
            Self::Text => "text/plain",
            Self::Json => "application/json",
            Self::Mp3 => "audio/mpeg",
            Self::Wav => "audio/wav",
            Self::Ogg => "audio/ogg",
            Self::Mp4 => "video/mp4",
            Self::Webm => "video/webm",
            Self::Unknown => "application/octet-stream",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Markup => "HTML or other markup",
            other => other.mime_type(),
        }
    }

    /// Whether bytes of it can be told by how they begin.
    fn is_recognised(self) -> bool {
        matches!(
            self,
            Self::Png | Self::Jpeg | Self::Gif | Self::Webp | Self::Pdf
        )
    }

    fn said(essence: &str) -> Self {
        match essence {
            "image/png" => Self::Png,
            "image/jpeg" | "image/jpg" => Self::Jpeg,
            "image/gif" => Self::Gif,
            "image/webp" => Self::Webp,
            "application/pdf" => Self::Pdf,
            "text/html"
            | "application/xhtml+xml"
            | "image/svg+xml"
            | "text/xml"
            | "application/xml" => Self::Markup,
            "application/json" => Self::Json,
            "audio/mpeg" | "audio/mp3" => Self::Mp3,
            "audio/wav" | "audio/x-wav" | "audio/wave" => Self::Wav,
            "audio/ogg" => Self::Ogg,
            "video/mp4" => Self::Mp4,
            "video/webm" => Self::Webm,
            text if text.starts_with("text/") => Self::Text,
            data if data.ends_with("+json") => Self::Json,
            _ => Self::Unknown,
        }
    }

    fn begins_like(bytes: &[u8]) -> Option<Self> {
        const PICTURES: [(&[u8], FileType); 5] = [
            (b"\x89PNG\r\n\x1a\n", FileType::Png),
            (b"\xff\xd8\xff", FileType::Jpeg),
            (b"GIF87a", FileType::Gif),
            (b"GIF89a", FileType::Gif),
            (b"%PDF-", FileType::Pdf),
        ];
        let known = PICTURES
            .iter()
            .find(|(beginning, _)| bytes.starts_with(beginning));
        if let Some((_, known)) = known {
            return Some(*known);
        }
        if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            return Some(Self::Webp);
        }
        is_markup(bytes).then_some(Self::Markup)
    }
}

/// The type without its parameters, in small letters.
fn essence(said: &str) -> String {
    let essence = said.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

fn says_nothing(essence: Option<&str>) -> bool {
    matches!(
        essence,
        None | Some("" | "application/octet-stream" | "binary/octet-stream")
    )
}

/// Whether a browser that looks at the bytes would take them for a page.
fn is_markup(bytes: &[u8]) -> bool {
    const TAGS: [&str; 16] = [
        "<!doctype",
        "<html",
        "<head",
        "<body",
        "<script",
        "<iframe",
        "<svg",
        "<?xml",
        "<!--",
        "<title",
        "<style",
        "<table",
        "<div",
        "<h1",
        "<a ",
        "<p>",
    ];
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let beginning = bytes.get(..BLANKS).unwrap_or(bytes);
    let text = beginning.trim_ascii_start();
    let begins_with = |tag: &str| {
        let start = text.get(..tag.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(tag.as_bytes()))
    };
    TAGS.iter().any(|tag| begins_with(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n....";
    const PAGE: &[u8] = b"  \n<!DOCTYPE html><script>alert(1)</script>";

    #[test]
    fn what_is_said_truly_is_believed() {
        let cases: [(&[u8], &str, FileType); 9] = [
            (PNG, "image/png", FileType::Png),
            (b"\xff\xd8\xff\xe0", "IMAGE/JPEG", FileType::Jpeg),
            (b"GIF89a", "image/gif", FileType::Gif),
            (b"RIFF\0\0\0\0WEBP", "image/webp", FileType::Webp),
            (b"%PDF-1.7", "application/pdf; version=1", FileType::Pdf),
            (b"{}", "application/json", FileType::Json),
            (b"{}", "application/vnd.x+json", FileType::Json),
            (b"a,b", "text/csv", FileType::Text),
            (b"\0\0", "video/mp4", FileType::Mp4),
        ];
        for (bytes, said, expected) in cases {
            assert_eq!(FileType::of(bytes, Some(said)), (expected, None), "{said}");
        }
    }

    #[test]
    fn r7_bytes_are_believed_where_they_say_otherwise() {
        let (found, lie) = FileType::of(PAGE, Some("image/png"));
        assert_eq!(found, FileType::Markup);
        assert_eq!(
            lie.unwrap(),
            "said to be image/png, but it begins like HTML or other markup"
        );
        let (found, lie) = FileType::of(b"MZ\x90\0", Some("image/png"));
        assert_eq!(found, FileType::Unknown);
        assert!(lie.unwrap().ends_with("but it does not begin like that"));
        let (found, lie) = FileType::of(PNG, Some("text/html"));
        assert_eq!((found, lie.is_some()), (FileType::Png, true));
    }

    #[test]
    fn r7_two_things_at_once_are_what_they_begin_as() {
        let both = [b"GIF89a/*", PAGE].concat();
        assert_eq!(
            FileType::of(&both, Some("image/gif")),
            (FileType::Gif, None)
        );
        let both = [PAGE, PNG].concat();
        let (found, lie) = FileType::of(&both, Some("image/png"));
        assert_eq!((found.extension(), lie.is_some()), ("txt", true));
    }

    #[test]
    fn r4_nothing_that_a_double_click_runs_is_named_so() {
        let said = [
            "application/x-msdownload",
            "application/x-sh",
            "application/x-desktop",
            "application/java-archive",
            "application/hta",
            "application/vnd.ms-excel.sheet.macroEnabled.12",
            "../../.ssh/authorized_keys",
            "image/png\u{0}.exe",
            "CON",
            "nonsense",
        ];
        for said in said {
            let (found, _) = FileType::of(b"MZ\x90\0", Some(said));
            assert_eq!(found.extension(), "bin", "{said}");
        }
        for said in ["text/html", "image/svg+xml", "text/javascript"] {
            assert_eq!(FileType::of(b"x", Some(said)).0.extension(), "txt");
        }
    }

    #[test]
    fn what_nobody_names_is_what_it_begins_as() {
        assert_eq!(FileType::of(PNG, None), (FileType::Png, None));
        let octets = Some("application/octet-stream");
        assert_eq!(FileType::of(PAGE, octets), (FileType::Markup, None));
        assert_eq!(FileType::of(b"", None), (FileType::Unknown, None));
    }
}
