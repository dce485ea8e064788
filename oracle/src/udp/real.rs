//! A scenario's operations on real sockets.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use fourtuple_udp::scenario::{
    Addr, FilterChange, Number, Operation, OptionFields, Outcome, SocketEnd, SocketFields, Value,
};
use rustix::fs::Uid;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto};
use rustix::thread::CpuSet;

use super::sandbox::{Sandbox, Tap, read_sysctl, sysctl};
use super::{frame, generate, sys};
use crate::error::{During, Error, Result};

/// The port of the socket that tells when loopback has nothing more to process.
const END_PORT: u16 = 7;

/// One socket of the scenario.
struct Socket {
    file: OwnedFd,
    family: u8,
    /// The user to act as, if that must not be a privileged one.
    act_as: Option<u32>,
}

/// Real sockets in a namespace, by the numbers that the scenario gives them.
///
/// Belongs to the thread that made it.
pub struct Real {
    sandbox: Sandbox,
    sockets: BTreeMap<Number, Option<Socket>>,
    /// Sends packets with their own header by loopback, both families.
    raw: [OwnedFd; 2],
    /// Hears ICMP and ICMPv6.
    icmp: [OwnedFd; 2],
    /// Gets a datagram behind each one on loopback.
    end: OwnedFd,
    sent: u64,
    /// The CPU this thread stays on.
    cpu: Option<u16>,
    /// Settings a scenario changed, with the value before.
    changed: BTreeMap<String, String>,
}

impl Real {
    /// Takes the current thread into a new namespace.
    ///
    /// # Errors
    /// [`crate::Unavailable`] names what is missing.
    pub fn new() -> Result<Self> {
        let sandbox = Sandbox::new()?;
        let open = |family, kind, protocol| {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            rustix::net::socket_with(family, kind, flags, protocol).during("opening a raw socket")
        };
        let (v4, v6, raw) = (AddressFamily::INET, AddressFamily::INET6, SocketType::RAW);
        let end = open(v4, SocketType::DGRAM, None)?;
        let at = sys::address(Ipv4Addr::LOCALHOST.into(), END_PORT, 0);
        sys::bind(end.as_fd(), &at).during("binding the socket that ends a wait")?;
        let mut this = Self {
            raw: [open(v4, raw, Some(ipproto::RAW))?, open(v6, raw, Some(ipproto::RAW))?],
            icmp: [open(v4, raw, Some(ipproto::ICMP))?, open(v6, raw, Some(ipproto::ICMPV6))?],
            end,
            sandbox,
            sockets: BTreeMap::new(),
            sent: 0,
            cpu: None,
            changed: BTreeMap::new(),
        };
        this.wait_until_ready()?;
        Ok(this)
    }

    /// Waits until every device's refusals come out in both families: the kernel finishes addresses
    /// and queues in the background.
    fn wait_until_ready(&mut self) -> Result<()> {
        let started = Instant::now();
        for (device, src, dst) in generate::ANSWERED {
            let fields = format!(r#""src":"{src}","sport":9,"dst":"{dst}","dport":9"#);
            let line = format!(r#"{{"op":"send",{fields},"device":"{device}"}}"#);
            let op = Operation::parse(&line).map_err(Error::Decode)?;
            let mut run = 0;
            // Several in a row, as one may come out before a change.
            while run < 3 {
                run = if self.send(&op)?.result == "port-unreachable" { run + 1 } else { 0 };
                if started.elapsed() > Duration::from_secs(10) {
                    let late = io::Error::from(io::ErrorKind::TimedOut);
                    return Err(late).during(format!("waiting for an answer from {dst}"));
                }
                if run == 0 {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        }
        Ok(())
    }

    /// Closes all sockets and restores all settings.
    ///
    /// # Errors
    /// If a setting cannot be restored.
    pub fn reset(&mut self) -> Result<()> {
        self.sockets.clear();
        for (name, value) in std::mem::take(&mut self.changed) {
            sysctl(&name, &value).during(format!("restoring {name}"))?;
        }
        Ok(())
    }

    /// Runs one operation, and says what [`fourtuple_udp::scenario::Runner`] would say.
    ///
    /// # Errors
    /// If the operation makes no sense, as for the runner, or the sandbox fails.
    pub fn apply(&mut self, op: &Operation) -> Result<Outcome> {
        match op {
            // The devices are those of the sandbox.
            Operation::Device { .. } => Ok(outcome("device", Ok(()))),
            Operation::Sysctl { name, value } => self.sysctl(name, value),
            Operation::Socket(fields) => self.create(fields),
            Operation::Close { id } => {
                let closed = self.sockets.insert(*id, None).flatten();
                let result = closed.map(drop).ok_or(Errno::BADF);
                Ok(Outcome { id: Some(*id), ..outcome("close", result) })
            }
            Operation::Send { .. } => self.send(op),
            Operation::Icmp { .. } => self.icmp_error(op),
            Operation::ConnectFrom { .. } => {
                Err(Error::Decode("the kernel has no connect-from".to_owned()))
            }
            _ => self.on_socket(op),
        }
    }

    fn on_socket(&self, op: &Operation) -> Result<Outcome> {
        match op {
            Operation::Set { id, options } => self.on("set", *id, |s| self.options(s, options)),
            Operation::Bind { id, addr, port } => {
                let at = self.address(addr, *port)?;
                self.on("bind", *id, |s| sys::bind(s.file.as_fd(), &at))
            }
            Operation::Autobind { id } => self.on("autobind", *id, |s| {
                // Refused for its family, but only after a port was chosen.
                let none = [0xff_u8; 28];
                match sys::send_to(s.file.as_fd(), b"", &none) {
                    Err(Errno::AGAIN) => Err(Errno::AGAIN),
                    _ => Ok(()),
                }
            }),
            Operation::Connect { id, addr, port } => {
                let to = self.address(addr, *port)?;
                self.on("connect", *id, |s| sys::connect(s.file.as_fd(), &to))
            }
            Operation::Disconnect { id } => {
                self.on("disconnect", *id, |s| sys::connect(s.file.as_fd(), &[0; 16]))
            }
            Operation::Join { id, group, device } => {
                self.on("join", *id, |s| self.membership(s, group, device.as_deref(), true))
            }
            Operation::Leave { id, group, device } => {
                self.on("leave", *id, |s| self.membership(s, group, device.as_deref(), false))
            }
            Operation::Source { id, group, device, change, source } => {
                self.on("source", *id, |s| {
                    self.source(s, group, device.as_deref(), *change, source)
                })
            }
            other => Err(Error::Decode(format!("no operation on a socket: {other:?}"))),
        }
    }

    fn on(
        &self,
        op: &'static str,
        id: Number,
        action: impl FnOnce(&Socket) -> std::result::Result<(), Errno>,
    ) -> Result<Outcome> {
        let Some(socket) = self.sockets.get(&id) else {
            return Err(Error::Decode(format!("no socket has the id {id}")));
        };
        let Some(socket) = socket else {
            return Ok(Outcome { id: Some(id), ..outcome(op, Err(Errno::BADF)) });
        };
        let result = as_user(socket.act_as, || action(socket));
        let mut out = Outcome { id: Some(id), ..outcome(op, result) };
        let end = |(addr, port)| SocketEnd { addr, port };
        out.local = sys::name(socket.file.as_fd(), false).map(end);
        out.peer = Some(sys::name(socket.file.as_fd(), true).map(end));
        Ok(out)
    }

    fn create(&mut self, fields: &SocketFields) -> Result<Outcome> {
        let family = if fields.family == 6 { AddressFamily::INET6 } else { AddressFamily::INET };
        let owner = (fields.uid != 0).then_some(fields.uid);
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let file =
            as_user(owner, || rustix::net::socket_with(family, SocketType::DGRAM, flags, None))
                .during("opening a socket")?;
        let privileged = fields.privileged.unwrap_or(fields.uid == 0);
        let act_as = (!privileged).then_some(if fields.uid == 0 { 1000 } else { fields.uid });
        let socket = Socket { file, family: fields.family, act_as };
        let mut given = fields.options.clone();
        if fields.family == 4 && given.v6only == Some(false) {
            given.v6only = None;
        }
        let result = as_user(socket.act_as, || self.options(&socket, &given));
        self.sockets.insert(fields.id, result.is_ok().then_some(socket));
        Ok(Outcome { id: Some(fields.id), ..outcome("socket", result) })
    }

    /// The options in the order of the format.
    fn options(&self, socket: &Socket, o: &OptionFields) -> std::result::Result<(), Errno> {
        const SOCKET: i32 = libc::SOL_SOCKET;
        const IP: i32 = libc::IPPROTO_IP;
        const IPV6: i32 = libc::IPPROTO_IPV6;
        const UDP: i32 = libc::IPPROTO_UDP;
        let fd = socket.file.as_fd();
        let flags = [
            (o.reuseaddr, SOCKET, libc::SO_REUSEADDR),
            (o.reuseport, SOCKET, libc::SO_REUSEPORT),
            (o.v6only, IPV6, libc::IPV6_V6ONLY),
            (o.broadcast, SOCKET, libc::SO_BROADCAST),
            (o.freebind, IP, libc::IP_FREEBIND),
            (o.transparent, IP, libc::IP_TRANSPARENT),
            (o.bind_address_no_port, IP, libc::IP_BIND_ADDRESS_NO_PORT),
            (o.recverr, IP, libc::IP_RECVERR),
            (o.recverr6, IPV6, libc::IPV6_RECVERR),
            (o.multicast_all, IP, libc::IP_MULTICAST_ALL),
            (o.multicast_all6, IPV6, libc::IPV6_MULTICAST_ALL),
            (o.no_check6_rx, UDP, 102),
        ];
        for (on, level, name) in flags {
            if let Some(on) = on {
                sys::set_int(fd, level, name, i32::from(on))?;
            }
        }
        // "Don't" is 0, "want" is 1.
        if let Some(dont) = o.pmtu_dont {
            sys::set_int(fd, IP, libc::IP_MTU_DISCOVER, i32::from(!dont))?;
        }
        if let Some(dont) = o.pmtu_dont6 {
            sys::set_int(fd, IPV6, libc::IPV6_MTU_DISCOVER, i32::from(!dont))?;
        }
        if let Some(device) = &o.device {
            let name = device.as_deref().unwrap_or("");
            sys::set(fd, SOCKET, libc::SO_BINDTODEVICE, format!("{name}\0").as_bytes())?;
        }
        if let Some(cpu) = o.incoming_cpu {
            sys::set_int(fd, SOCKET, libc::SO_INCOMING_CPU, cpu)?;
        }
        if let Some((low, high)) = o.local_port_range {
            let range = u32::from(low) | u32::from(high) << 16;
            sys::set(fd, IP, 51, &range.to_ne_bytes())?;
        }
        let index = |name: &Option<String>| self.index(name.as_deref()).unwrap_or(0);
        if let Some(device) = &o.multicast_if {
            let mut request = vec![0; 8];
            request.extend(index(device).to_ne_bytes());
            sys::set(fd, IP, libc::IP_MULTICAST_IF, &request)?;
        }
        if let Some(device) = &o.multicast_if6 {
            sys::set(fd, IPV6, libc::IPV6_MULTICAST_IF, &index(device).to_ne_bytes())?;
        }
        if let Some(device) = &o.unicast_if {
            let (level, name) = if socket.family == 4 { (IP, 50) } else { (IPV6, 76) };
            sys::set(fd, level, name, &index(device).to_be_bytes())?;
        }
        Ok(())
    }

    fn membership(
        &self,
        socket: &Socket,
        group: &Addr,
        device: Option<&str>,
        join: bool,
    ) -> std::result::Result<(), Errno> {
        let index = self.index(device.or(group.scope.as_deref())).ok_or(Errno::NODEV)?;
        let fd = socket.file.as_fd();
        match group.ip {
            IpAddr::V4(v4) => {
                let mut request = v4.octets().to_vec();
                request.extend([0; 4]);
                request.extend(index.to_ne_bytes());
                let name = if join { libc::IP_ADD_MEMBERSHIP } else { libc::IP_DROP_MEMBERSHIP };
                sys::set(fd, libc::IPPROTO_IP, name, &request)
            }
            IpAddr::V6(v6) => {
                let mut request = v6.octets().to_vec();
                request.extend(index.to_ne_bytes());
                let name =
                    if join { libc::IPV6_ADD_MEMBERSHIP } else { libc::IPV6_DROP_MEMBERSHIP };
                sys::set(fd, libc::IPPROTO_IPV6, name, &request)
            }
        }
    }

    /// `struct group_source_req`, which serves both families.
    fn source(
        &self,
        socket: &Socket,
        group: &Addr,
        device: Option<&str>,
        change: FilterChange,
        source: &Addr,
    ) -> std::result::Result<(), Errno> {
        let name = match change {
            FilterChange::Block => 43,
            FilterChange::Unblock => 44,
            FilterChange::Add => 46,
            FilterChange::Drop => 47,
        };
        let index = self.index(device.or(group.scope.as_deref())).ok_or(Errno::NODEV)?;
        let mut request = index.to_ne_bytes().to_vec();
        request.extend([0; 4]);
        request.extend(sys::storage(group.ip));
        request.extend(sys::storage(source.ip));
        let level = if group.ip.is_ipv4() { libc::IPPROTO_IP } else { libc::IPPROTO_IPV6 };
        sys::set(socket.file.as_fd(), level, name, &request)
    }

    /// A device's index; 0 for none, `None` for an unknown name.
    fn index(&self, name: Option<&str>) -> Option<u32> {
        match name {
            None => Some(0),
            Some("lo") => Some(1),
            Some(name) => self.sandbox.taps.iter().find(|t| t.name == name).map(|t| t.index),
        }
    }

    fn address(&self, addr: &Addr, port: u16) -> Result<Vec<u8>> {
        let scope = self.index(addr.scope.as_deref());
        let scope = scope.ok_or_else(|| Error::Decode(format!("no such device: {addr}")))?;
        Ok(sys::address(addr.ip, port, scope))
    }

    fn sysctl(&mut self, name: &str, value: &Value) -> Result<Outcome> {
        let value = match value {
            Value::Number(n) => n.to_string(),
            Value::Text(text) => text.clone(),
        };
        if !self.changed.contains_key(name) {
            let before = read_sysctl(name).during(format!("reading {name}"))?;
            self.changed.insert(name.to_owned(), before);
        }
        match sysctl(name, &value) {
            Ok(()) => Ok(outcome("sysctl", Ok(()))),
            Err(error) => match Errno::from_io_error(&error) {
                Some(errno) => Ok(outcome("sysctl", Err(errno))),
                None => Err(error).during(format!("setting {name}")),
            },
        }
    }

    fn tap(&self, device: Option<&str>) -> Result<&Tap> {
        let tap = self.sandbox.taps.iter().find(|tap| Some(tap.name) == device);
        tap.ok_or_else(|| Error::Decode(format!("no device to send by: {device:?}")))
    }

    fn live(&self) -> impl Iterator<Item = (Number, BorrowedFd<'_>)> {
        self.sockets.iter().filter_map(|(id, s)| Some((*id, s.as_ref()?.file.as_fd())))
    }

    fn send(&mut self, op: &Operation) -> Result<Outcome> {
        let Operation::Send { src, sport, dst, dport, device, checksum, cpu, .. } = op else {
            return Err(Error::Decode("no datagram".to_owned()));
        };
        self.stay_on(cpu.unwrap_or(0))?;
        self.sent += 1;
        let data = self.sent.to_be_bytes();
        let packet = frame::datagram((src.ip, *sport), (dst.ip, *dport), &data, *checksum);
        let refused = if device.as_deref() == Some("lo") {
            self.by_loopback(dst.ip, &packet)?
        } else {
            self.by_tap(device.as_deref(), dst.ip, &packet)?
        };
        let mut to = Vec::new();
        for (id, fd) in self.live() {
            if received(fd, self.sent) {
                to.push(id);
            }
        }
        let mut out = outcome("send", Ok(()));
        if !to.is_empty() {
            out.result = "delivered".into();
            out.to = Some(to);
        } else {
            out.result = if refused { "port-unreachable" } else { "dropped" }.into();
        }
        Ok(out)
    }

    /// Moves the thread to a CPU, so that datagrams are processed there.
    fn stay_on(&mut self, cpu: u16) -> Result<()> {
        if self.cpu != Some(cpu) {
            let mut set = CpuSet::new();
            set.set(usize::from(cpu));
            rustix::thread::sched_setaffinity(None, &set).during(format!("moving to CPU {cpu}"))?;
            self.cpu = Some(cpu);
        }
        Ok(())
    }

    /// Writes a frame to a device and looks whether a refusal comes out of any.
    fn by_tap(&self, device: Option<&str>, dst: IpAddr, packet: &[u8]) -> Result<bool> {
        let mut buffer = [0; 2048];
        for tap in &self.sandbox.taps {
            while rustix::io::read(&tap.file, &mut buffer[..]).is_ok() {}
        }
        let tap = self.tap(device)?;
        let bytes = frame::ethernet(tap.mac, dst, packet);
        rustix::io::write(&tap.file, &bytes).during("writing a frame")?;
        let mut refused = false;
        for tap in &self.sandbox.taps {
            while let Ok(length) = rustix::io::read(&tap.file, &mut buffer[..]) {
                let packet = buffer.get(14..length).unwrap_or(&[]);
                refused |= frame::refused(packet) == Some(self.sent);
            }
        }
        Ok(refused)
    }

    /// Sends a packet by loopback, waits until it has been processed, and looks for a refusal.
    ///
    /// What this CPU sends by loopback it processes in order, so that the next datagram's arrival
    /// tells that this one, and the refusal it may have caused, are through.
    fn by_loopback(&self, dst: IpAddr, packet: &[u8]) -> Result<bool> {
        let mut buffer = [0; 2048];
        for fd in &self.icmp {
            while sys::receive(fd.as_fd(), &mut buffer).is_ok() {}
        }
        let raw = &self.raw[usize::from(dst.is_ipv6())];
        let sent = sys::send_to(raw.as_fd(), packet, &sys::address(dst, 0, 0));
        sent.during(format!("sending to {dst} by loopback"))?;
        for _ in 0..2 {
            self.wait_for_loopback()?;
        }
        let mut refused = false;
        while let Ok(length) = sys::receive(self.icmp[0].as_fd(), &mut buffer) {
            refused |= frame::refused(&buffer[..length]) == Some(self.sent);
        }
        while let Ok(length) = sys::receive(self.icmp[1].as_fd(), &mut buffer) {
            refused |= frame::refused6(&buffer[..length]) == Some(self.sent);
        }
        Ok(refused)
    }

    fn wait_for_loopback(&self) -> Result<()> {
        let localhost = IpAddr::from(Ipv4Addr::LOCALHOST);
        let last = frame::datagram((localhost, END_PORT), (localhost, END_PORT), b"end", true);
        let to = sys::address(localhost, 0, 0);
        sys::send_to(self.raw[0].as_fd(), &last, &to).during("sending the end of a wait")?;
        let started = Instant::now();
        let mut buffer = [0; 8];
        while sys::receive(self.end.as_fd(), &mut buffer).is_err() {
            if started.elapsed() > Duration::from_secs(5) {
                return Err(io::Error::from(io::ErrorKind::TimedOut))
                    .during("waiting for loopback");
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Sends an ICMP error into a device and looks which socket was told.
    fn icmp_error(&mut self, op: &Operation) -> Result<Outcome> {
        let Operation::Icmp { kind, code, src, sport, dst, dport, device, .. } = op else {
            return Err(Error::Decode("no ICMP error".to_owned()));
        };
        for (_, fd) in self.live() {
            while sys::take_record(fd).is_some() {}
            let _ = sys::take_error(fd);
        }
        let quoted = frame::datagram((src.ip, *sport), (dst.ip, *dport), &[0; 8], true);
        let from = frame::reporter(dst.ip, device.as_deref().unwrap_or("d0"));
        let packet = frame::icmp_error(from, src.ip, (*kind, *code), &quoted);
        let before = icmp_errors(src.ip)?;
        self.by_tap(device.as_deref(), src.ip, &packet)?;
        let mut out = outcome("icmp", Ok(()));
        let (mut to, mut errno, mut record) = (Vec::new(), None, false);
        for (id, fd) in self.live() {
            let queued = sys::take_record(fd);
            let error = sys::take_error(fd);
            if let Some(found) = queued.or(error) {
                to.push(id);
                errno = Some(found);
                record |= queued.is_some();
            }
        }
        out.result = match errno {
            Some(_) if record => "queued",
            Some(_) => "socket-error",
            None if icmp_errors(src.ip)? > before => "no-socket",
            None => "ignored",
        }
        .into();
        out.errno = errno.map(|errno| sys::errno_name(errno).into());
        out.to = (!to.is_empty()).then_some(to);
        Ok(out)
    }
}

/// Whether the datagram with this number is among what waits in the socket.
fn received(fd: BorrowedFd<'_>, number: u64) -> bool {
    let mut buffer = [0; 64];
    let mut found = false;
    loop {
        match sys::receive(fd, &mut buffer) {
            Ok(length) => found |= buffer[..length] == number.to_be_bytes(),
            Err(Errno::AGAIN) => return found,
            // A pending error comes first, and only once.
            Err(_) => {}
        }
    }
}

/// ICMP messages that nobody could be found for, by the namespace's counters.
fn icmp_errors(family: IpAddr) -> Result<u64> {
    let missing = || Error::Decode("ICMP counters not understood".to_owned());
    if family.is_ipv6() {
        let text = std::fs::read_to_string("/proc/thread-self/net/snmp6")
            .during("reading the ICMPv6 counters")?;
        let line = text.lines().find_map(|line| line.strip_prefix("Icmp6InErrors"));
        return line.and_then(|rest| rest.trim().parse().ok()).ok_or_else(missing);
    }
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp")
        .during("reading the ICMP counters")?;
    let mut lines = text.lines().filter(|line| line.starts_with("Icmp: "));
    let (names, values) = (lines.next().ok_or_else(missing)?, lines.next().ok_or_else(missing)?);
    let at = names.split(' ').position(|name| name == "InErrors").ok_or_else(missing)?;
    values.split(' ').nth(at).and_then(|value| value.parse().ok()).ok_or_else(missing)
}

/// Runs `action` with another effective user of this thread, and without that user's privileges.
fn as_user<T>(
    user: Option<u32>,
    action: impl FnOnce() -> std::result::Result<T, Errno>,
) -> std::result::Result<T, Errno> {
    let Some(user) = user else { return action() };
    let root = Uid::ROOT;
    rustix::thread::set_thread_res_uid(root, Uid::from_raw(user), root)?;
    let result = action();
    rustix::thread::set_thread_res_uid(root, root, root)?;
    result
}

fn outcome(op: &'static str, result: std::result::Result<(), Errno>) -> Outcome {
    let result = match result {
        Ok(()) => "ok".into(),
        Err(errno) => sys::errno_name(errno).into(),
    };
    Outcome { op: op.into(), result, ..Outcome::default() }
}
