//! The shared secret. It never travels: each side proves that it has it, over numbers that both
//! have chosen for this connection (HMAC-SHA256, RFC 2104).

use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::measure::load::partner::Secret;

/// The fewest bytes of a token: what is short can be guessed from one recorded greeting.
const LEAST: usize = 16;
/// The most.
const MOST: usize = 4096;

/// Fewest bits of a token, by the count of [`entropy`]: of tokens of 16 random hexadecimal digits one
/// in two thousand has fewer, and half of them have 50 or more.
const LEAST_BITS: f64 = 31.0;

/// The remedy for a token that can't be used.
pub const HINT: &str = "make one: (umask 077; head -c 24 /dev/urandom | base64 > token); and give \
     both sides the same file";

/// A shared secret.
#[derive(Clone)]
pub struct Token(Vec<u8>);

/// Party that proves: the same numbers prove nothing for the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prover {
    /// The party that asks.
    Controller,
    /// The party that answers.
    Agent,
}

impl Token {
    /// A token from a file or the environment: white space around it is not part of it. `from` is
    /// what errors call it.
    ///
    /// # Errors
    /// A usage error if the token is too short to be safe, or absurdly long.
    pub fn new(bytes: &[u8], from: &str) -> Result<Self> {
        let token = bytes.trim_ascii();
        let why = match token.len() {
            LEAST..=MOST if entropy(token) >= LEAST_BITS => return Ok(Self(token.to_vec())),
            LEAST..=MOST => "it repeats itself so much that it can be guessed".to_owned(),
            length => format!("{length} bytes: from {LEAST} to {MOST}"),
        };
        Err(Error::usage(format!("read the token from {from}"), why).hint(HINT))
    }

    fn mac(&self, who: Prover, agent: &str, controller: &str) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        // The lengths are fixed by `protocol::is_nonce`, so no two inputs run together.
        let label: &[u8] = match who {
            Prover::Controller => b"linerate-agent-1 controller ",
            Prover::Agent => b"linerate-agent-1 agent ",
        };
        for part in [label, agent.as_bytes(), b" ", controller.as_bytes()] {
            mac.update(part);
        }
        Some(mac)
    }

    /// Secret that the two sides of a run share.
    #[must_use]
    pub(super) fn secret(&self) -> Secret {
        let mac = Hmac::<Sha256>::new_from_slice(&self.0).ok();
        let made = mac.map(|mac| mac.chain_update(b"linerate-data-1").finalize().into_bytes());
        Secret(made.map(|made| made.to_vec()).unwrap_or_default())
    }

    /// Proof to the other side that this one has the token, in hexadecimal.
    #[must_use]
    pub fn proof(&self, who: Prover, agent: &str, controller: &str) -> String {
        let mac = self.mac(who, agent, controller);
        mac.map(|mac| hex(&mac.finalize().into_bytes())).unwrap_or_default()
    }

    /// True if `proof` is that of the other side; the check takes the same time for any `proof`.
    #[must_use]
    pub fn is_proof(&self, proof: &str, who: Prover, agent: &str, controller: &str) -> bool {
        let (Some(mac), Some(proof)) = (self.mac(who, agent, controller), unhex(proof)) else {
            return false;
        };
        mac.verify_slice(&proof).is_ok()
    }
}

/// Never shown, also not by accident.
impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(...)")
    }
}

/// Bits of all bytes, by how often each of them is among them. A byte that goes on as those before did
/// (`aaa`, `345`, or a pair that was there already) adds nothing.
fn entropy(bytes: &[u8]) -> f64 {
    let all = bytes.len() as f64;
    let (mut pairs, mut step) = (std::collections::BTreeSet::new(), None);
    let mut before: Option<u8> = None;
    let mut bits = 0.0;
    for byte in bytes {
        let pair = before.replace(*byte).map(|before| (before, *byte));
        let next = pair.map(|(before, byte)| i16::from(byte) - i16::from(before));
        let is_next = next.is_some() && next == std::mem::replace(&mut step, next);
        let is_known = pair.is_some_and(|pair| !pairs.insert(pair));
        if !is_next && !is_known {
            let times = bytes.iter().filter(|b| *b == byte).count() as f64;
            bits += (all / times).log2();
        }
    }
    bits
}

/// SHA-256 in hexadecimal.
pub(super) fn digest(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| char::from(DIGITS.get(usize::from(n)).copied().unwrap_or(b'0'));
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let nibble = |b: u8| char::from(b).to_digit(16).and_then(|d| u8::try_from(d).ok());
    let pairs = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(nibble(*high)? << 4 | nibble(*low)?),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_hmac_sha256_and_holds_for_one_connection_and_one_side() {
        let token = Token::new(b" 0f3a9c51d27be684\n", "x").unwrap();
        let (a, c) = ("a".repeat(64), "c".repeat(64));
        let proof = token.proof(Prover::Agent, &a, &c);
        assert!(token.is_proof(&proof, Prover::Agent, &a, &c));
        assert!(!token.is_proof(&proof, Prover::Controller, &a, &c), "reflected");
        assert!(!token.is_proof(&proof, Prover::Agent, &c, &a), "of another connection");
        let other = Token::new(b"0f3a9c51d27be685", "x").unwrap();
        assert!(!other.is_proof(&proof, Prover::Agent, &a, &c));
        for bad in ["", "zz", "abc", &proof[1..], "é"] {
            assert!(!token.is_proof(bad, Prover::Agent, &a, &c), "{bad}");
        }
        // RFC 4231, test case 1: the key is 20 bytes of 0x0b, the data "Hi There".
        let mut mac = Hmac::<Sha256>::new_from_slice(&[0x0b; 20]).unwrap();
        mac.update(b"Hi There");
        assert!(hex(&mac.finalize().into_bytes()).starts_with("b0344c61d8db38535ca8afceaf0bf12b"));
    }

    #[test]
    fn a_token_that_can_be_guessed_is_refused_and_none_is_shown() {
        assert!(Token::new(b"", "x").is_err());
        assert!(Token::new(b"   secret    \n", "x").is_err());
        for guessed in [
            "kkkkkkkkkkkkkkkk",
            "abababababababab",
            "1111222233334444",
            "0123456789abcdef",
            "passwordpassword",
            "linerate-linerate",
        ] {
            let error = Token::new(guessed.as_bytes(), "x").unwrap_err();
            assert!(error.to_string().contains("guessed"), "{guessed}: {error}");
        }
        assert_eq!(format!("{:?}", Token::new(b"0f3a9c51d27be684", "x").unwrap()), "Token(...)");
    }
}
