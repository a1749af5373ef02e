//! The person who makes a change, for the journal that somebody else may read later.

use std::path::Path;

use crate::machine::host::HostRead;

/// The kernel's word for processes that belong to no login (`AUDIT_UID_UNSET`).
const NO_LOGIN: &str = "4294967295";

/// Name of the login that the kernel's audit or sudo tells, and the address that it came from; `None`
/// where none is known, as at boot.
pub(super) fn who(host: &dyn HostRead) -> Option<String> {
    let told = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let login = host.text(Path::new("/proc/self/loginuid")).ok().filter(|uid| uid != NO_LOGIN);
    let name = login.and_then(|uid| name_of(host, &uid)).or_else(|| told("SUDO_USER"));
    let from = told("SSH_CONNECTION");
    let from = from.as_deref().and_then(|told| told.split_whitespace().next());
    match (name, from) {
        (None, None) => None,
        (name, None) => name,
        (name, Some(from)) => Some(format!("{} from {from}", name.as_deref().unwrap_or("someone"))),
    }
}

fn name_of(host: &dyn HostRead, uid: &str) -> Option<String> {
    let users = host.text(Path::new("/etc/passwd")).ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    })
}
