//! What an organisation says about servers: which may be used, and which may not.

/// The administrator's word on servers. The default says nothing: everything may be used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerPolicy {
    /// Where there is a list, only servers that something in it fits may be used.
    pub allowed: Option<Vec<ServerMatch>>,
    /// Servers that may not be used, whatever else fits them.
    pub denied: Vec<ServerMatch>,
    /// Only the servers of the administrator's own file may be used.
    pub managed_only: bool,
    /// What servers may be at all.
    pub profile: Profile,
}

/// Which servers are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerMatch {
    /// The one of this name.
    Name(String),
    /// Those that are started by exactly this command and these arguments.
    Command(Vec<String>),
    /// Those at an address that this pattern fits; `*` stands for anything.
    Url(String),
}

/// For whom a host runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// For a person at their own machine: everything may be used.
    #[default]
    Local,
    /// For many, on a server: nothing external is ever executed.
    Server,
}
