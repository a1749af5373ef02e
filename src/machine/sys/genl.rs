//! Generic netlink: families by name.

use std::io;

use rustix::io::Errno;

use super::netlink::{Attrs, Message, NlmF, Socket, attribute, attributes, text, u16_at, u32_at};

// linux/genetlink.h
const GENL_ID_CTRL: u16 = 16;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const CTRL_ATTR_MCAST_GROUPS: u16 = 7;
const CTRL_ATTR_MCAST_GRP_NAME: u16 = 1;
const CTRL_ATTR_MCAST_GRP_ID: u16 = 2;
/// Command, version 1, two reserved bytes.
const GENLMSGHDR: usize = 4;

/// The number under which this kernel registered a family.
///
/// # Errors
/// EOPNOTSUPP where it has none of that name.
pub(super) fn family(socket: &mut Socket, name: &str) -> io::Result<u16> {
    let body = registered(socket, name)?;
    let id = attribute(payload(&body), CTRL_ATTR_FAMILY_ID).and_then(|value| u16_at(value, 0));
    Ok(id.ok_or(Errno::PROTO)?)
}

/// The numbers of a family, and of the group to which it tells its news.
///
/// # Errors
/// EOPNOTSUPP where there is no family of that name, or none of its groups has that.
pub(super) fn group(socket: &mut Socket, name: &str, group: &str) -> io::Result<(u16, u32)> {
    let body = registered(socket, name)?;
    let attrs = payload(&body);
    let id = attribute(attrs, CTRL_ATTR_FAMILY_ID).and_then(|value| u16_at(value, 0));
    let groups = attribute(attrs, CTRL_ATTR_MCAST_GROUPS).unwrap_or_default();
    let mut named = attributes(groups).filter(|(_, one)| {
        attribute(one, CTRL_ATTR_MCAST_GRP_NAME).is_some_and(|name| text(name) == group)
    });
    let number = named.next().and_then(|(_, one)| attribute(one, CTRL_ATTR_MCAST_GRP_ID));
    Ok(id.zip(number.and_then(|value| u32_at(value, 0))).ok_or(Errno::OPNOTSUPP)?)
}

fn registered(socket: &mut Socket, name: &str) -> io::Result<Vec<u8>> {
    let attrs = Attrs::new().text(CTRL_ATTR_FAMILY_NAME, name);
    let answers = match socket.ask(request(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, &attrs)) {
        // The controller's word for a family that is not there.
        Err(e) if e.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => {
            return Err(Errno::OPNOTSUPP.into());
        }
        other => other?,
    };
    Ok(answers.into_iter().next().ok_or(Errno::PROTO)?)
}

/// A command of a family.
pub(super) fn request(family: u16, command: u8, attrs: &Attrs) -> Message {
    Message::new(family, NlmF::empty(), &[command, 1, 0, 0], attrs)
}

/// The attributes of an answer.
pub(super) fn payload(body: &[u8]) -> &[u8] {
    body.get(GENLMSGHDR..).unwrap_or_default()
}
