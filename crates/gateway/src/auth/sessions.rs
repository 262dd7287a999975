//! Sessions of the explorer: what a page shows instead of a key.
//!
//! A token is 256 random bits. The server keeps its SHA-256 alone, in memory: whoever reads the map cannot use
//! what is in it, and looking a digest up tells nothing about a token by its time. A session made by this machine's own
//! user is good for this machine's own user. It ends by sign-out, after a time without use, after its life,
//! and with the server. Tickets are how `armilla explorer` hands a session to a browser: one use, one minute.

use super::{Access, Denied, unauthorized};
use crate::limits::{
    SESSION_IDLE_SECONDS, SESSION_LIFE_SECONDS, SESSIONS_MAX, SIGN_IN_ADDRESSES_MAX,
    SIGN_IN_FAILURES_MAX, TICKET_LIFE_SECONDS, TICKETS_MAX,
};
use crate::locality::Stranger;
use armilla_model::{Error, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use std::collections::HashMap;
use std::net::IpAddr;

/// Bytes of a token before it is written as text.
const TOKEN_LENGTH: usize = 32;
/// Failed sign-ins are counted in windows of this length.
const FAILURE_WINDOW_SECONDS: u64 = 60;

type Digest = [u8; 32];

/// All sessions and tickets of a server.
#[derive(Debug, Default)]
pub struct Sessions(Mutex<SessionState>);

#[derive(Debug, Default)]
struct SessionState {
    open: HashMap<Digest, OpenSession>,
    tickets: HashMap<Digest, u64>,
    failures: HashMap<IpAddr, Failures>,
}

#[derive(Debug)]
struct OpenSession {
    access: Access,
    /// Made by this machine's own user, and good for nobody else.
    is_local: bool,
    ends: u64,
    used: u64,
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    since: u64,
    count: u32,
}

/// A session that was just made.
#[derive(Debug)]
pub struct Opened {
    /// What the page sends back.
    pub token: String,
    /// What it allows.
    pub access: Access,
    /// When it ends at the latest, in seconds since 1970.
    pub ends: u64,
}

impl Sessions {
    /// Makes a session. When there are too many, the one that was not used for longest ends.
    ///
    /// # Errors
    ///
    /// When the system has no random numbers.
    pub fn open(&self, access: Access, is_local: bool, now: u64) -> Result<Opened> {
        let (token, digest) = random_token()?;
        let ends = now + SESSION_LIFE_SECONDS;
        let mut state = self.0.lock();
        state.open.retain(|_, session| session.is_alive(now));
        if state.open.len() >= SESSIONS_MAX {
            let oldest = state.open.iter().min_by_key(|(_, session)| session.used);
            if let Some(oldest) = oldest.map(|(digest, _)| *digest) {
                state.open.remove(&oldest);
            }
        }
        state.open.insert(digest, OpenSession { access, is_local, ends, used: now });
        Ok(Opened { token, access, ends })
    }

    /// What a token allows, and when its session ends.
    pub(super) fn find(
        &self,
        token: &str,
        locality: &Result<(), Stranger>,
        now: u64,
    ) -> Result<(Access, u64), Denied> {
        let ended = "The session has ended, or was never one of this server's. Sign in again.";
        let mut state = self.0.lock();
        let session = state.open.get_mut(&digest_of(token)).ok_or_else(|| unauthorized(ended))?;
        if !session.is_alive(now) {
            return Err(unauthorized(ended));
        }
        if let (true, Err(stranger)) = (session.is_local, locality) {
            return Err(unauthorized(format!(
                "The session was made on this machine and is good for its own user alone: {stranger}."
            )));
        }
        session.used = now;
        Ok((session.access, session.ends))
    }

    /// Ends the session of a token; false when there is none.
    pub(super) fn close(&self, token: &str) -> bool {
        self.0.lock().open.remove(&digest_of(token)).is_some()
    }

    /// Makes a ticket for one sign-in.
    ///
    /// # Errors
    ///
    /// When the system has no random numbers, or too many tickets are waiting.
    pub fn issue_ticket(&self, now: u64) -> Result<String> {
        let (token, digest) = random_token()?;
        let mut state = self.0.lock();
        state.tickets.retain(|_, until| *until > now);
        if state.tickets.len() >= TICKETS_MAX {
            let message = "Too many tickets are waiting to be used; try again in a minute.";
            return Err(Error::bad_request(message));
        }
        state.tickets.insert(digest, now + TICKET_LIFE_SECONDS);
        Ok(token)
    }

    /// Takes a ticket; false when it is not one, was used, or is too old.
    pub fn redeem(&self, ticket: &str, now: u64) -> bool {
        self.0.lock().tickets.remove(&digest_of(ticket)).is_some_and(|until| until > now)
    }

    /// How long an address has to wait before it may try to sign in again, in seconds.
    pub fn wait_of(&self, address: IpAddr, now: u64) -> Option<u64> {
        let state = self.0.lock();
        let failures = state.failures.get(&address)?;
        let until = failures.since + FAILURE_WINDOW_SECONDS;
        (failures.count >= SIGN_IN_FAILURES_MAX && until > now).then(|| until - now)
    }

    /// Counts a failed sign-in.
    pub fn note_failure(&self, address: IpAddr, now: u64) {
        let mut state = self.0.lock();
        if state.failures.len() >= SIGN_IN_ADDRESSES_MAX {
            state.failures.retain(|_, failures| failures.since + FAILURE_WINDOW_SECONDS > now);
        }
        let is_known = state.failures.contains_key(&address);
        if !is_known && state.failures.len() >= SIGN_IN_ADDRESSES_MAX {
            // More addresses than are kept fail within a minute: the first of them is forgotten.
            let first = state.failures.iter().min_by_key(|(_, failures)| failures.since);
            if let Some(first) = first.map(|(address, _)| *address) {
                state.failures.remove(&first);
            }
        }
        let failures = state.failures.entry(address).or_insert(Failures { since: now, count: 0 });
        if failures.since + FAILURE_WINDOW_SECONDS <= now {
            *failures = Failures { since: now, count: 0 };
        }
        failures.count += 1;
    }
}

impl OpenSession {
    fn is_alive(&self, now: u64) -> bool {
        now < self.ends && now < self.used + SESSION_IDLE_SECONDS
    }
}

fn random_token() -> Result<(String, Digest)> {
    let mut bytes = [0; TOKEN_LENGTH];
    let failed = |_| Error::Internal("The system has no random numbers for a session.".to_owned());
    SystemRandom::new().fill(&mut bytes).map_err(failed)?;
    let token = URL_SAFE_NO_PAD.encode(bytes);
    let digest = digest_of(&token);
    Ok((token, digest))
}

fn digest_of(token: &str) -> Digest {
    let mut out = [0; 32];
    out.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_000_000;

    fn is_open(sessions: &Sessions, token: &str, now: u64) -> bool {
        sessions.find(token, &Ok(()), now).is_ok()
    }

    #[test]
    fn sessions_end_by_idleness_life_and_sign_out() {
        let sessions = Sessions::default();
        let open = |now| sessions.open(Access::ReadWrite, true, now).unwrap().token;
        let token = open(NOW);
        assert!(is_open(&sessions, &token, NOW + SESSION_IDLE_SECONDS - 1));
        assert!(!is_open(&sessions, &token, NOW + 2 * SESSION_IDLE_SECONDS));
        let token = open(NOW);
        let mut now = NOW;
        while now + 60 < NOW + SESSION_LIFE_SECONDS {
            now += 60;
            assert!(is_open(&sessions, &token, now));
        }
        assert!(!is_open(&sessions, &token, NOW + SESSION_LIFE_SECONDS));
        let token = open(NOW);
        assert!(sessions.close(&token) && !sessions.close(&token));
        assert!(!is_open(&sessions, &token, NOW));
        assert!(!is_open(&sessions, "", NOW) && !is_open(&sessions, "x", NOW));
    }

    #[test]
    fn a_session_of_this_machine_is_good_for_nobody_else() {
        let sessions = Sessions::default();
        let local = sessions.open(Access::ReadWrite, true, NOW).unwrap().token;
        let remote = sessions.open(Access::ReadOnly, false, NOW).unwrap().token;
        let stranger = Err(Stranger::Forwarded);
        assert!(sessions.find(&local, &stranger, NOW).is_err());
        let (access, _) = sessions.find(&remote, &stranger, NOW).unwrap();
        assert_eq!(access, Access::ReadOnly);
    }

    #[test]
    fn of_too_many_the_one_unused_for_longest_ends() {
        let sessions = Sessions::default();
        let open = |now| sessions.open(Access::ReadWrite, true, now).unwrap().token;
        let tokens: Vec<_> = (0..SESSIONS_MAX as u64).map(|more| open(NOW + more)).collect();
        assert!(is_open(&sessions, &tokens[0], NOW + 100));
        open(NOW + 101);
        assert!(is_open(&sessions, &tokens[0], NOW + 101));
        assert!(!is_open(&sessions, &tokens[1], NOW + 101));
    }

    #[test]
    fn tickets_are_good_once_and_for_a_minute() {
        let sessions = Sessions::default();
        let ticket = sessions.issue_ticket(NOW).unwrap();
        assert!(!sessions.redeem("other", NOW));
        assert!(sessions.redeem(&ticket, NOW + 59) && !sessions.redeem(&ticket, NOW + 59));
        let late = sessions.issue_ticket(NOW).unwrap();
        assert!(!sessions.redeem(&late, NOW + TICKET_LIFE_SECONDS));
        for _ in 0..TICKETS_MAX {
            sessions.issue_ticket(NOW).unwrap();
        }
        assert!(sessions.issue_ticket(NOW).is_err());
        assert!(sessions.issue_ticket(NOW + TICKET_LIFE_SECONDS).is_ok());
    }

    #[test]
    fn failures_are_counted_by_address_and_minute() {
        let sessions = Sessions::default();
        let (one, other) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
        for _ in 0..SIGN_IN_FAILURES_MAX {
            assert_eq!(sessions.wait_of(one, NOW), None);
            sessions.note_failure(one, NOW);
        }
        assert_eq!(sessions.wait_of(one, NOW + 20), Some(40));
        assert_eq!(sessions.wait_of(other, NOW + 20), None);
        assert_eq!(sessions.wait_of(one, NOW + 60), None);
        for number in 0..2 * SIGN_IN_ADDRESSES_MAX as u32 {
            sessions.note_failure(IpAddr::from(number.to_be_bytes()), NOW);
        }
        assert!(sessions.0.lock().failures.len() <= SIGN_IN_ADDRESSES_MAX);
    }
}
