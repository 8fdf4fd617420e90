//! Detects the type of binary data and picks a harmless file extension.
//!
//! Pure: looks only at the bytes and at the MIME type that the server declared. If the bytes
//! contradict that MIME type, the type of the bytes is used.
//!
//! Invariant: every file gets an extension from the fixed list in [`FileType::extension`], which
//! has no extension of executable files. Scripts and programs are saved as `.txt` or `.bin`.

use std::fmt;

use switchboard_wire::text::one_line;

/// The type of binary data, which determines the extension of the file it is saved to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FileType {
    /// A PNG image.
    Png,
    /// A JPEG image.
    Jpeg,
    /// A GIF image.
    Gif,
    /// A WebP image.
    Webp,
    /// A PDF document.
    Pdf,
    /// HTML, SVG or other markup whose scripts a browser would run. Saved as text.
    Markup,
    /// Text that is neither markup nor JSON.
    Text,
    /// JSON.
    Json,
    /// MP3 audio.
    Mp3,
    /// WAV audio.
    Wav,
    /// Ogg audio.
    Ogg,
    /// MP4 video.
    Mp4,
    /// `WebM` video.
    Webm,
    /// Data of an unrecognized type. Saved with the extension `bin`.
    Unknown,
}

/// Only this many bytes are searched for the beginning of a tag that makes the data markup.
const MARKUP_SCAN_BYTES: usize = 1024;

impl FileType {
    /// Detects the type from the first bytes, else from the declared MIME type. Also returns a note
    /// if the bytes contradict the declared MIME type.
    pub fn detect(bytes: &[u8], declared: Option<&str>) -> (Self, Option<String>) {
        let essence = declared.map(essence);
        let declared_type = essence
            .as_deref()
            .map_or(Self::Unknown, Self::from_mime_type);
        let detected = Self::sniff(bytes);
        let note = |contradiction: &dyn fmt::Display| {
            let declared = one_line(declared.unwrap_or_default(), super::MAX_FIELD_BYTES);
            Some(format!("declared as {declared}, but {contradiction}"))
        };
        match (detected, declared_type) {
            (Some(detected), declared_type) if detected == declared_type => (detected, None),
            // A tag at the beginning does not contradict a declared text or JSON type.
            (Some(Self::Markup), Self::Text | Self::Json) => (Self::Markup, None),
            (Some(detected), _) if is_generic(essence.as_deref()) => (detected, None),
            (Some(detected), _) => {
                let contradiction = format!("the data looks like {}", detected.label());
                (detected, note(&contradiction))
            }
            (None, declared_type) if declared_type.has_magic_bytes() => {
                (Self::Unknown, note(&"the data has another format"))
            }
            (None, declared_type) => (declared_type, None),
        }
    }

    /// The file extension, without the dot.
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

    /// The MIME type of data of this type.
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

    fn label(self) -> &'static str {
        match self {
            Self::Markup => "HTML or other markup",
            other => other.mime_type(),
        }
    }

    /// Whether [`sniff`](Self::sniff) recognizes all data of this type by its first bytes.
    fn has_magic_bytes(self) -> bool {
        matches!(
            self,
            Self::Png | Self::Jpeg | Self::Gif | Self::Webp | Self::Pdf
        )
    }

    fn from_mime_type(essence: &str) -> Self {
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

    /// Detects PNG, JPEG, GIF, WebP, PDF and markup by the first bytes. Returns `None` for all
    /// other data.
    fn sniff(bytes: &[u8]) -> Option<Self> {
        const MAGIC_BYTES: [(&[u8], FileType); 5] = [
            (b"\x89PNG\r\n\x1a\n", FileType::Png),
            (b"\xff\xd8\xff", FileType::Jpeg),
            (b"GIF87a", FileType::Gif),
            (b"GIF89a", FileType::Gif),
            (b"%PDF-", FileType::Pdf),
        ];
        let known = MAGIC_BYTES
            .iter()
            .find(|(magic, _)| bytes.starts_with(magic));
        if let Some((_, known)) = known {
            return Some(*known);
        }
        if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
            return Some(Self::Webp);
        }
        is_markup(bytes).then_some(Self::Markup)
    }
}

/// The MIME type without parameters, in lower case.
fn essence(mime_type: &str) -> String {
    let essence = mime_type.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

/// Whether the server declared no MIME type, or one that is used for any binary data.
fn is_generic(essence: Option<&str>) -> bool {
    matches!(
        essence,
        None | Some("" | "application/octet-stream" | "binary/octet-stream")
    )
}

/// Whether the data begins with one of `TAGS`, after a byte order mark and white space. A browser
/// that guesses the type of the data would render such data as a web page.
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
    let start = bytes.get(..MARKUP_SCAN_BYTES).unwrap_or(bytes);
    let text = start.trim_ascii_start();
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
    fn matching_declared_type_is_kept() {
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
        for (bytes, declared, expected) in cases {
            assert_eq!(
                FileType::detect(bytes, Some(declared)),
                (expected, None),
                "{declared}"
            );
        }
    }

    #[test]
    fn magic_bytes_win_over_declared_type() {
        let (found, mismatch) = FileType::detect(PAGE, Some("image/png"));
        assert_eq!(found, FileType::Markup);
        assert_eq!(
            mismatch.unwrap(),
            "declared as image/png, but the data looks like HTML or other markup"
        );
        let (found, mismatch) = FileType::detect(b"MZ\x90\0", Some("image/png"));
        assert_eq!(found, FileType::Unknown);
        assert!(
            mismatch
                .unwrap()
                .ends_with("but the data has another format")
        );
        let (found, mismatch) = FileType::detect(PNG, Some("text/html"));
        assert_eq!((found, mismatch.is_some()), (FileType::Png, true));
    }

    #[test]
    fn polyglot_has_type_of_its_first_bytes() {
        let both = [b"GIF89a/*", PAGE].concat();
        assert_eq!(
            FileType::detect(&both, Some("image/gif")),
            (FileType::Gif, None)
        );
        let both = [PAGE, PNG].concat();
        let (found, mismatch) = FileType::detect(&both, Some("image/png"));
        assert_eq!((found.extension(), mismatch.is_some()), ("txt", true));
    }

    #[test]
    fn no_extension_is_executable() {
        let declared = [
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
        for declared in declared {
            let (found, _) = FileType::detect(b"MZ\x90\0", Some(declared));
            assert_eq!(found.extension(), "bin", "{declared}");
        }
        for declared in ["text/html", "image/svg+xml", "text/javascript"] {
            assert_eq!(FileType::detect(b"x", Some(declared)).0.extension(), "txt");
        }
    }

    #[test]
    fn undeclared_type_is_detected() {
        assert_eq!(FileType::detect(PNG, None), (FileType::Png, None));
        let octets = Some("application/octet-stream");
        assert_eq!(FileType::detect(PAGE, octets), (FileType::Markup, None));
        assert_eq!(FileType::detect(b"", None), (FileType::Unknown, None));
    }
}
