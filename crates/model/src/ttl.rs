//! Time to live: when an item expires, and whether it has.
//!
//! The rule is here and nowhere else. An item may have a time to live of its own, its container a default;
//! a container without a default switches off those of its items. An item is hidden from the second in
//! which it expires, whether or not it has been removed by then.

/// What an item says when it has no time to live of its own.
pub const TTL_OF_CONTAINER: i32 = 0;

/// The second from which an item counts as expired; `None` is never.
///
/// `ts` is the second of its last write, `ttl` its own time to live in seconds, -1 for never and
/// [`TTL_OF_CONTAINER`] for none of its own. `default_ttl` is the container's: `None` when nothing in it
/// expires, -1 when only items with a time to live of their own do.
#[must_use]
pub fn expires_at(ts: u32, ttl: i32, default_ttl: Option<i32>) -> Option<u64> {
    let default_ttl = default_ttl?;
    let seconds = if ttl == TTL_OF_CONTAINER { default_ttl } else { ttl };
    u64::try_from(seconds).ok().map(|seconds| u64::from(ts) + seconds)
}

/// Whether an item has not expired at the second `now`; see [`expires_at`].
#[must_use]
pub fn is_alive(now: u64, ts: u32, ttl: i32, default_ttl: Option<i32>) -> bool {
    expires_at(ts, ttl, default_ttl).is_none_or(|end| now < end)
}

/// The second under which the store notes an item with a time to live of its own; `None` without one.
#[must_use]
pub fn own_second(ts: u32, ttl: i32) -> Option<u32> {
    u32::try_from(ttl).ok().filter(|ttl| *ttl > 0).map(|ttl| ts.saturating_add(ttl))
}

/// What a reader of one container must know to leave expired items out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Liveness {
    /// The second at which is read.
    pub now: u64,
    /// The container's default.
    pub default_ttl: Option<i32>,
}

impl Liveness {
    /// False when nothing in the container expires.
    #[must_use]
    pub fn is_limited(self) -> bool {
        self.default_ttl.is_some()
    }

    /// Whether an item with these has not expired.
    #[must_use]
    pub fn is_alive(self, ts: u32, ttl: i32) -> bool {
        is_alive(self.now, ts, ttl, self.default_ttl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_ttl_wins_and_no_container_ttl_switches_all_off() {
        assert_eq!(expires_at(100, 0, None), None);
        assert_eq!(expires_at(100, 5, None), None);
        assert_eq!(expires_at(100, 5, Some(-1)), Some(105));
        assert_eq!(expires_at(100, 0, Some(-1)), None);
        assert_eq!(expires_at(100, 0, Some(7)), Some(107));
        assert_eq!(expires_at(100, -1, Some(7)), None);
    }

    #[test]
    fn an_item_is_gone_in_the_second_it_expires() {
        let at = |now| Liveness { now, default_ttl: Some(10) };
        assert!(at(109).is_alive(100, 0) && !at(110).is_alive(100, 0));
        assert!(at(u64::MAX).is_alive(100, -1));
        assert!(at(0).is_limited());
        let never = Liveness { now: u64::MAX, default_ttl: None };
        assert!(never.is_alive(100, 5) && !never.is_limited());
    }
}
