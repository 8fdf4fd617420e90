//! A configured server before consent: valid, or with the error that makes it unusable.

use std::fs;
use std::path::{Path, PathBuf};

use super::approved_content::ApprovedContent;
use super::content_hash::ContentHash;
use super::pinned_program::PinnedProgram;
use super::review::ReviewFields;
use crate::diagnostic::SourcePos;
use crate::masked_entry::MaskedEntry;
use crate::scope::Scope;
use crate::server::{InheritEnv, ServerConfig, TransportConfig};
use crate::server_name::ServerName;
use crate::validate::EntryError;

/// One configured server, valid or not. Call [`decide_launch`](Self::decide_launch) to find out
/// whether it may run.
#[derive(Clone, Debug)]
pub struct ServerEntry {
    name: ServerName,
    scope: Scope,
    origin: SourcePos,
    masked_entry: MaskedEntry,
    config: Result<ServerConfig, EntryError>,
    /// The position in the settings that disables the server.
    disabled_by: Option<SourcePos>,
    /// How to enable the server, if the settings disable it.
    enable_hint: Option<String>,
    /// The content that an approval covers. Set for valid entries of a project, unless only the
    /// names were loaded.
    content: Option<ApprovedContent>,
}

impl ServerEntry {
    pub(crate) fn new(
        name: ServerName,
        scope: Scope,
        origin: SourcePos,
        masked_entry: MaskedEntry,
        config: Result<ServerConfig, EntryError>,
    ) -> Self {
        Self {
            name,
            scope,
            origin,
            masked_entry,
            config,
            disabled_by: None,
            enable_hint: None,
            content: None,
        }
    }

    pub(crate) fn with_content(mut self, content: Option<ApprovedContent>) -> Self {
        self.content = content;
        self
    }

    /// The server's name.
    pub fn name(&self) -> &ServerName {
        &self.name
    }

    /// The scope the entry was loaded from.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// The position of the entry in its file.
    pub fn origin(&self) -> &SourcePos {
        &self.origin
    }

    /// The entry as written, with secrets masked.
    pub fn masked_entry(&self) -> &MaskedEntry {
        &self.masked_entry
    }

    /// The first error of an invalid entry.
    pub fn problem(&self) -> Option<&EntryError> {
        self.config.as_ref().err()
    }

    pub(super) fn config(&self) -> Result<&ServerConfig, &EntryError> {
        self.config.as_ref()
    }

    /// Returns true if the entry or the settings disable the server.
    pub fn is_disabled(&self) -> bool {
        self.disabled_by.is_some() || self.is_disabled_in_entry()
    }

    /// Returns true if the entry itself contains `"disabled": true`.
    pub fn is_disabled_in_entry(&self) -> bool {
        self.config.as_ref().is_ok_and(|config| config.disabled)
    }

    /// The position in the settings that disables the server.
    pub fn disabled_by(&self) -> Option<&SourcePos> {
        self.disabled_by.as_ref()
    }

    /// Marks the server as disabled by the settings at `origin`. `hint` says how to enable it.
    pub fn set_disabled_by(&mut self, origin: SourcePos, hint: String) {
        self.disabled_by = Some(origin);
        self.enable_hint = Some(hint);
    }

    /// How to enable the server, if the settings disable it.
    pub fn enable_hint(&self) -> Option<&str> {
        self.enable_hint.as_deref()
    }

    /// Lets a stdio server inherit these variables of the host, in addition to those that its entry
    /// allows.
    pub fn inherit_variables(&mut self, names: &[String]) {
        if let Ok(ServerConfig {
            transport: TransportConfig::Stdio(stdio),
            ..
        }) = &mut self.config
        {
            match &mut stdio.inherit_env {
                InheritEnv::All => {}
                InheritEnv::Also(also) => also.extend_from_slice(names),
                default @ InheritEnv::Default => *default = InheritEnv::Also(names.to_vec()),
            }
        }
    }

    /// The transport type, such as `stdio` or `http`; `None` for an invalid entry.
    pub fn kind_name(&self) -> Option<&'static str> {
        let config = self.config.as_ref().ok()?;
        Some(config.transport.kind_name())
    }

    /// The fields to show before the user approves the entry, with secrets masked. Safe to store
    /// and print.
    ///
    /// `None` unless the entry is a valid entry of a project.
    pub fn review(&self) -> Option<&ReviewFields> {
        Some(&self.content.as_ref()?.review)
    }

    /// Like [`review`](Self::review), but without masks over literals from the project's file,
    /// because a literal that looks like a secret may be part of what runs. Values of the user's
    /// variables are not included.
    ///
    /// Show it to the user and do not store it.
    pub fn unmasked_review(&self) -> Option<&ReviewFields> {
        Some(&self.content.as_ref()?.unmasked_review)
    }

    /// The hash of the content that an approval of this entry covers.
    ///
    /// `None` if the entry is invalid or needs no approval, or if its program was not read or
    /// cannot be verified.
    pub fn content_hash(&self) -> Option<&ContentHash> {
        self.content.as_ref()?.hash.as_ref()
    }

    pub(super) fn pinned_program(&self) -> Option<&PinnedProgram> {
        self.content.as_ref()?.pinned_program.as_ref()
    }

    /// The canonical root of the project, for an entry of a project.
    pub fn project(&self) -> Option<PathBuf> {
        let file = self.origin.file.as_ref();
        let root = file.filter(|_| self.scope == Scope::Project)?.parent()?;
        let root = if root.as_os_str().is_empty() {
            Path::new(".")
        } else {
            root
        };
        fs::canonicalize(root).ok()
    }
}
