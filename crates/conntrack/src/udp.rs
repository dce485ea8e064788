//! UDP and UDP-Lite: the stream rule and its time-outs.

use fourtuple_packet::{Instant, Span};

use crate::connection::{Connection, EventBits, Proto, Status};
use crate::protocol::{Handled, Hook};

/// Two-way traffic later than this after the first packet makes a stream (Linux since 5.1), so that a query and its
/// answer keep the short time-out.
const STREAM_AFTER: Span = Span::from_secs(2);

/// State for the first packet of a UDP tuple.
pub(crate) fn start(now: Instant) -> Proto {
    Proto::Udp { stream_after: now + STREAM_AFTER }
}

/// Handles a UDP packet whose lengths and checksum were checked.
pub(crate) fn handle(hook: &Hook<'_>, conn: &mut Connection) -> Handled {
    let Proto::Udp { stream_after } = conn.proto else {
        unreachable!("a UDP tuple has a UDP connection");
    };
    let settings = hook.settings;
    let mut timeout = settings.udp_timeout;
    if conn.status.has(Status::SEEN_REPLY) && hook.now > stream_after {
        timeout = settings.udp_timeout_stream;
        conn.set_once(Status::ASSURED, EventBits::ASSURED);
    }
    conn.refresh(hook.now, timeout.span());
    conn.account(hook.direction, hook.len);
    Handled::PLAIN
}

/// Handles a UDP-Lite packet whose lengths and checksum were checked: as UDP, without the two seconds.
pub(crate) fn handle_lite(hook: &Hook<'_>, conn: &mut Connection) -> Handled {
    let settings = hook.settings;
    let mut timeout = settings.udp_timeout;
    if conn.status.has(Status::SEEN_REPLY) {
        timeout = settings.udp_timeout_stream;
        conn.set_once(Status::ASSURED, EventBits::ASSURED);
    }
    conn.refresh(hook.now, timeout.span());
    conn.account(hook.direction, hook.len);
    Handled::PLAIN
}
