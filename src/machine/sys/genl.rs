//! Generic netlink: families by name.

use std::io;

use rustix::io::Errno;

use super::netlink::{Attrs, Message, NlmF, Socket, attribute, u16_at};

// linux/genetlink.h
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// Command, version 1, two reserved bytes.
const GENLMSGHDR: usize = 4;

/// The number under which this kernel registered a family.
///
/// # Errors
/// EOPNOTSUPP where it has none of that name.
pub(super) fn family(socket: &mut Socket, name: &str) -> io::Result<u16> {
    let attrs = Attrs::new().text(CTRL_ATTR_FAMILY_NAME, name);
    let answers = match socket.ask(request(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, &attrs)) {
        // The controller's word for a family that is not there.
        Err(e) if e.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => {
            return Err(Errno::OPNOTSUPP.into());
        }
        other => other?,
    };
    let body = answers.first().map(|b| payload(b)).ok_or(Errno::PROTO)?;
    let id = attribute(body, CTRL_ATTR_FAMILY_ID).and_then(|value| u16_at(value, 0));
    Ok(id.ok_or(Errno::PROTO)?)
}

/// A command of a family.
pub(super) fn request(family: u16, command: u8, attrs: &Attrs) -> Message {
    Message::new(family, NlmF::empty(), &[command, 1, 0, 0], attrs)
}

/// The attributes of an answer.
pub(super) fn payload(body: &[u8]) -> &[u8] {
    body.get(GENLMSGHDR..).unwrap_or_default()
}
