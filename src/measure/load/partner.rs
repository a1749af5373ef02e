//! Proof that the other end of a stream is this run's partner, before anything is sent to it.
//!
//! ```text
//!   lan                                       wan
//!    │ greeting, near ──────────────────────▶ │   anything else is ignored
//!    │ ◀───────────── far, proof of the WAN's │
//!    │ proof of the LAN's ──────────────────▶ │   (UDP: repeated until answered)
//! ```
//!
//! Proofs are HMAC-SHA256 over both sides' numbers, `near` and `far`, by a key that nobody learns from the
//! wire: it is made of the run's number, which only the controller and its agents know, and of their
//! token where they have one. Over UDP `far` is made of the address that the greeting came from, so a
//! proof holds for that address alone, and no answer is longer than its question.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use super::half::Side;
use super::udp::{HEADER, kind, message};
use crate::machine::host::clock;

/// Bytes of a side's number.
pub(super) const NONCE: usize = 16;
/// Bytes of a proof.
pub(super) const PROOF: usize = 32;
/// Size of every message over UDP: header, both numbers, proof.
const MESSAGE: usize = HEADER + 2 * NONCE + PROOF;

/// Kinds of messages over UDP, beside those of the load.
pub(super) const HELLO: u32 = 1;
const CHALLENGE: u32 = 6;
const ANSWER: u32 = 7;
const ACCEPTED: u32 = 8;

/// A number that one side has chosen.
pub(super) type Nonce = [u8; NONCE];

/// Secret that agents of one token share; empty without one.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(pub Vec<u8>);

/// Never shown, also not by accident.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(...)")
    }
}

/// Key of one run.
#[derive(Clone)]
pub struct Key([u8; PROOF]);

fn mac(key: &[u8], parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    parts.iter().for_each(|part| mac.update(part));
    Some(mac)
}

/// HMAC takes keys of any length.
fn hash(key: &[u8], parts: &[&[u8]]) -> [u8; PROOF] {
    mac(key, parts).map_or([0; PROOF], |mac| mac.finalize().into_bytes().into())
}

/// A fresh number.
pub(super) fn nonce() -> io::Result<Nonce> {
    let mut bytes = [0; NONCE];
    // So few bytes come whole, or not at all (getrandom(2)).
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes)
}

/// Time after which a greeting that nobody answered is sent again: over a long line many are under way.
const AGAIN: Duration = Duration::from_millis(100);

impl Key {
    /// The key of the run of that number.
    #[must_use]
    pub fn of(secret: &Secret, run: u64) -> Self {
        Self(hash(&secret.0, &[b"linerate-run-1 ", &run.to_be_bytes()]))
    }

    /// Number by which greetings name the run; it tells nothing of the key.
    pub(super) fn name(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = hash(&self.0, &[b"name"]);
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }

    /// Proof of `side` for the stream of that number.
    pub(super) fn proof(&self, side: Side, stream: u32, near: &Nonce, far: &Nonce) -> [u8; PROOF] {
        hash(&self.0, &[label(side), &stream.to_be_bytes(), near, far])
    }

    /// True if `proof` is that of `side`; the check takes the same time for any.
    pub(super) fn is_proof(
        &self,
        proof: &[u8],
        side: Side,
        stream: u32,
        near: &Nonce,
        far: &Nonce,
    ) -> bool {
        mac(&self.0, &[label(side), &stream.to_be_bytes(), near, far])
            .is_some_and(|mac| mac.verify_slice(proof).is_ok())
    }

    fn packet(&self, kind: u32, near: &Nonce, far: &Nonce, proof: &[u8]) -> Vec<u8> {
        let mut packet = message(kind, self.name()).to_vec();
        for part in [near, far, proof] {
            packet.extend_from_slice(part);
        }
        packet.resize(MESSAGE, 0);
        packet
    }

    /// The parts of a message of this run.
    fn parts<'a>(&self, packet: &'a [u8]) -> Option<(u32, Nonce, Nonce, &'a [u8])> {
        let (kind, name) = kind(packet).filter(|_| packet.len() == MESSAGE)?;
        let (near, rest) = packet.get(HEADER..)?.split_first_chunk()?;
        let (far, proof) = rest.split_first_chunk()?;
        (name == self.name()).then_some((kind, *near, *far, proof))
    }

    /// LAN: greets until the partner at the other end of the connected socket has proven itself and
    /// taken our proof. `go_on` is asked before each try; the socket has a time limit for reading.
    ///
    /// # Errors
    /// The first error of `go_on`, or that there are no random numbers.
    pub(super) fn greet<E: From<io::Error>>(
        &self,
        socket: &UdpSocket,
        mut go_on: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let near = nonce()?;
        let mut ours = self.packet(HELLO, &near, &[0; NONCE], &[]);
        let mut buffer = [0; MESSAGE + 1];
        let (mut due, mut met) = (Duration::ZERO, None);
        loop {
            go_on()?;
            let now = clock::monotonic();
            // A refusal (ICMP) of an earlier greeting may surface at any call: try again.
            if now >= due && socket.send(&ours).is_ok() {
                due = now + AGAIN;
            }
            let Ok(length) = socket.recv(&mut buffer) else { continue };
            let packet = buffer.get(..length).unwrap_or_default();
            let Some((kind, _, far, proof)) = self.parts(packet).filter(|p| p.1 == near) else {
                continue;
            };
            // The kind goes for the stream's number: a proof for one message is none for another.
            if !self.is_proof(proof, Side::Wan, kind, &near, &far) {
                continue;
            }
            match kind {
                // One is answered at once, whatever there were of them in a long line.
                CHALLENGE if met != Some(far) => {
                    (due, met) = (Duration::ZERO, Some(far));
                    let proof = self.proof(Side::Lan, ANSWER, &near, &far);
                    ours = self.packet(ANSWER, &near, &far, &proof);
                }
                ACCEPTED => return Ok(()),
                _ => {}
            }
        }
    }
}

fn label(side: Side) -> &'static [u8] {
    match side {
        Side::Lan => b"lan ",
        Side::Wan => b"wan ",
    }
}

/// WAN: what a socket answers to greetings.
pub(super) struct Door {
    key: Key,
    secret: Nonce,
}

/// Answer to a packet.
pub(super) enum Reply {
    /// Nobody of this run.
    Ignore,
    /// To be sent back: the greeting is to be proven.
    Challenge(Vec<u8>),
    /// To be sent back: it is the partner.
    Accepted(Vec<u8>),
}

impl Door {
    /// A door for the run of that key.
    ///
    /// # Errors
    /// There are no random numbers.
    pub(super) fn new(key: Key) -> io::Result<Self> {
        Ok(Self { key, secret: nonce()? })
    }

    /// The answer to a packet from that address.
    pub(super) fn reply(&self, packet: &[u8], from: SocketAddr) -> Reply {
        let Some((kind, near, far, proof)) = self.key.parts(packet) else { return Reply::Ignore };
        let mut own = [0; NONCE];
        let made = hash(&self.secret, &[from.to_string().as_bytes()]);
        own.iter_mut().zip(made).for_each(|(byte, of)| *byte = of);
        let told = |kind| {
            let proof = self.key.proof(Side::Wan, kind, &near, &own);
            self.key.packet(kind, &near, &own, &proof)
        };
        match kind {
            HELLO => Reply::Challenge(told(CHALLENGE)),
            ANSWER if far == own && self.key.is_proof(proof, Side::Lan, ANSWER, &near, &far) => {
                Reply::Accepted(told(ACCEPTED))
            }
            _ => Reply::Ignore,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(token: &[u8], run: u64) -> Key {
        Key::of(&Secret(token.to_vec()), run)
    }

    #[test]
    fn a_proof_holds_for_one_run_one_token_one_side_and_one_address() {
        let (near, far) = ([1; NONCE], [2; NONCE]);
        let proof = key(b"a", 1).proof(Side::Lan, 0, &near, &far);
        assert!(key(b"a", 1).is_proof(&proof, Side::Lan, 0, &near, &far));
        assert!(!key(b"a", 1).is_proof(&proof, Side::Wan, 0, &near, &far), "reflected");
        assert!(!key(b"a", 1).is_proof(&proof, Side::Lan, 1, &near, &far), "another stream");
        assert!(!key(b"a", 1).is_proof(&proof, Side::Lan, 0, &far, &near), "other numbers");
        assert!(!key(b"a", 2).is_proof(&proof, Side::Lan, 0, &near, &far), "another run");
        assert!(!key(b"b", 1).is_proof(&proof, Side::Lan, 0, &near, &far), "another token");
        let (here, there) = ("198.18.1.2:5".parse().unwrap(), "198.18.1.3:5".parse().unwrap());
        let door = Door::new(key(b"a", 1)).unwrap();
        let hello = key(b"a", 1).packet(HELLO, &near, &[0; NONCE], &[]);
        let Reply::Challenge(packet) = door.reply(&hello, here) else { panic!() };
        assert!(packet.len() <= hello.len(), "an answer that is longer amplifies");
        let (_, _, far, _) = key(b"a", 1).parts(&packet).unwrap();
        let proof = key(b"a", 1).proof(Side::Lan, ANSWER, &near, &far);
        let answer = key(b"a", 1).packet(ANSWER, &near, &far, &proof);
        assert!(matches!(door.reply(&answer, here), Reply::Accepted(_)));
        assert!(matches!(door.reply(&answer, there), Reply::Ignore), "from another address");
        let other = key(b"b", 1).packet(HELLO, &near, &[0; NONCE], &[]);
        assert!(matches!(door.reply(&other, here), Reply::Ignore), "of another token");
    }

    #[test]
    fn nothing_but_a_greeting_goes_to_an_end_that_proves_nothing() {
        let (lan, wan) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        lan.connect(wan.local_addr().unwrap()).unwrap();
        lan.set_read_timeout(Some(std::time::Duration::from_millis(1))).unwrap();
        // It sends every greeting back, and has the run's name but not its key.
        wan.set_nonblocking(true).unwrap();
        let mut tries = 0;
        let mut buffer = [0; 256];
        let ended = key(b"a", 1).greet::<io::Error>(&lan, || {
            tries += 1;
            while let Ok((length, from)) = wan.recv_from(&mut buffer) {
                assert_eq!(kind(&buffer).unwrap().0, HELLO);
                buffer[7] = ACCEPTED as u8;
                wan.send_to(&buffer[..length], from).unwrap();
            }
            if tries < 20 { Ok(()) } else { Err(io::ErrorKind::TimedOut.into()) }
        });
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
}
