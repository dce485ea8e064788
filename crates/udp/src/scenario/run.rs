//! Runs operations on a table.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::BufRead;
use std::net::{IpAddr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ops::ControlFlow;

use super::operation::{
    Addr, Endpoint, FilterChange, Number, Operation, OptionFields, SocketFields, Value,
};
use super::outcome::{Outcome, SocketEnd};
use super::read::{Fault, each};
use super::why;
use crate::trace::Event;
use crate::{
    Config, Datagram, Delivery, DeviceId, Errno, Family, Found, IcmpError, IcmpReport, NetId,
    Profile, SetOption, SockAddr, SocketId, SocketOptions, SourceChange, Tuple, UdpTable,
};

/// Why an operation makes no sense, as opposed to failing as the kernel would fail it.
pub type Cause = String;

/// An option that is on or off.
type Flag = fn(bool) -> SetOption;

/// A table, and the numbers that a scenario gives its sockets.
#[derive(Debug)]
pub struct Runner {
    table: UdpTable,
    numbers: HashMap<Number, Option<SocketId>>,
    /// The other way, with the order of creation.
    names: HashMap<SocketId, (usize, Number)>,
    /// Whether outcomes list every step of a look-up.
    pub steps: bool,
}

/// Runs a whole scenario.
///
/// # Errors
///
/// The first line that makes no sense, and why. For results up to there, and to go on behind it, see
/// [`Runner`] and [`each`].
pub fn run(reader: impl BufRead, profile: Profile) -> Result<Vec<Outcome>, Fault> {
    let mut runner = Runner::new(&Config::new(profile));
    let mut outcomes = Vec::new();
    let mut fault = None;
    each(reader, |line, text| match Operation::parse(text).and_then(|op| runner.apply(&op)) {
        Ok(outcome) => {
            outcomes.push(outcome);
            ControlFlow::Continue(())
        }
        Err(cause) => {
            fault = Some(Fault::new(line, cause));
            ControlFlow::Break(())
        }
    })?;
    fault.map_or(Ok(outcomes), Err)
}

const fn result_of(result: Result<(), Errno>) -> Cow<'static, str> {
    Cow::Borrowed(match result {
        Ok(()) => "ok",
        Err(errno) => errno.name(),
    })
}

fn outcome(op: &'static str, result: Result<(), Errno>) -> Outcome {
    Outcome { op: op.into(), result: result_of(result), ..Outcome::default() }
}

impl Runner {
    /// An empty table with a loopback device.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self {
            table: UdpTable::new(config),
            numbers: HashMap::new(),
            names: HashMap::new(),
            steps: false,
        }
    }

    /// The table.
    #[must_use]
    pub const fn table(&self) -> &UdpTable {
        &self.table
    }

    /// The socket of a number; `None` if there is none or it is closed.
    #[must_use]
    pub fn socket(&self, number: Number) -> Option<SocketId> {
        self.numbers.get(&number).copied().flatten()
    }

    /// Runs one operation.
    ///
    /// # Errors
    ///
    /// What makes no sense about it: a number that no socket has or that is used twice, a device that
    /// is not there, addresses of different families, an unknown setting.
    pub fn apply(&mut self, op: &Operation) -> Result<Outcome, Cause> {
        match op {
            Operation::Device { name, addresses } => self.device(name, addresses),
            Operation::Sysctl { name, value } => self.sysctl(name, value),
            Operation::Socket(fields) => self.create(fields),
            Operation::Set { id, options } => {
                let settings = self.settings(options)?;
                self.on("set", *id, |table, s| {
                    settings.into_iter().try_for_each(|option| table.set(s, option))
                })
            }
            Operation::Bind { id, addr, port } => {
                let addr = self.sock_addr(addr, *port)?;
                self.on("bind", *id, |table, s| table.bind(s, addr))
            }
            Operation::Autobind { id } => self.on("autobind", *id, UdpTable::autobind),
            Operation::Connect { id, addr, port } => {
                let addr = self.sock_addr(addr, *port)?;
                self.on("connect", *id, |table, s| table.connect(s, addr))
            }
            Operation::Disconnect { id } => self.on("disconnect", *id, UdpTable::disconnect),
            Operation::ConnectFrom { socket, local, peer } => {
                self.connect_from(socket, local, peer)
            }
            Operation::Close { id } => {
                let socket = self.number(*id)?;
                let result = socket.map_or(Err(Errno::EBADF), |s| self.table.close(s));
                self.numbers.insert(*id, None);
                Ok(Outcome { id: Some(*id), ..outcome("close", result) })
            }
            Operation::Join { .. } | Operation::Leave { .. } | Operation::Source { .. } => {
                self.membership(op)
            }
            Operation::Send { .. } | Operation::Icmp { .. } => self.packet(op),
        }
    }

    fn membership(&mut self, op: &Operation) -> Result<Outcome, Cause> {
        match op {
            Operation::Join { id, group, device } => {
                let device = self.group_device(group, device.as_deref())?;
                self.on("join", *id, |table, s| table.join(s, group.ip, device))
            }
            Operation::Leave { id, group, device } => {
                let device = self.group_device(group, device.as_deref())?;
                self.on("leave", *id, |table, s| table.leave(s, group.ip, device))
            }
            Operation::Source { id, group, device, change, source } => {
                let device = self.group_device(group, device.as_deref())?;
                let change = match change {
                    FilterChange::Block => SourceChange::Block(source.ip),
                    FilterChange::Unblock => SourceChange::Unblock(source.ip),
                    FilterChange::Add => SourceChange::Add(source.ip),
                    FilterChange::Drop => SourceChange::Drop(source.ip),
                };
                self.on("source", *id, |table, s| table.change_source(s, group.ip, device, change))
            }
            _ => Err("no operation on a membership".to_owned()),
        }
    }

    fn packet(&mut self, op: &Operation) -> Result<Outcome, Cause> {
        match op {
            Operation::Send { src, sport, dst, dport, device, n, cpu, checksum } => {
                if *n == 0 {
                    return Err("field `n` is 0: no datagram".to_owned());
                }
                let mut datagram =
                    self.datagram((src, *sport), (dst, *dport), device.as_deref())?;
                datagram.cpu = *cpu;
                datagram.checksum = *checksum;
                let (outcome, sockets) = self.send(&datagram);
                for socket in sockets {
                    self.table.note_received(socket, &datagram);
                }
                Ok(outcome)
            }
            Operation::Icmp { kind, code, src, sport, dst, dport, device, cpu } => {
                let mut quoted = self.datagram((src, *sport), (dst, *dport), device.as_deref())?;
                quoted.cpu = *cpu;
                Ok(self.icmp(&IcmpError { quoted, kind: *kind, code: *code }))
            }
            _ => Err("no packet".to_owned()),
        }
    }

    fn number(&self, id: Number) -> Result<Option<SocketId>, Cause> {
        self.numbers.get(&id).copied().ok_or_else(|| format!("no socket has the id {id}"))
    }

    /// An operation on a socket; the outcome tells both its ends.
    fn on(
        &mut self,
        op: &'static str,
        id: Number,
        f: impl FnOnce(&UdpTable, SocketId) -> Result<(), Errno>,
    ) -> Result<Outcome, Cause> {
        let socket = self.number(id)?;
        let result = socket.map_or(Err(Errno::EBADF), |s| f(&self.table, s));
        let mut outcome = Outcome { id: Some(id), ..outcome(op, result) };
        self.tell_ends(&mut outcome, socket);
        Ok(outcome)
    }

    fn tell_ends(&self, outcome: &mut Outcome, socket: Option<SocketId>) {
        let Some(info) = socket.and_then(|s| self.table.info(s).ok()) else {
            return;
        };
        let end = |(addr, port)| SocketEnd { addr, port };
        outcome.local = Some(end(info.local));
        outcome.peer = Some(info.peer.map(end));
    }

    fn device_named(&self, name: &str) -> Result<DeviceId, Cause> {
        let device = self.table.router().by_name(NetId::FIRST, name);
        device.ok_or_else(|| format!("no device has the name `{name}`"))
    }

    fn device_or_none(&self, name: Option<&str>) -> Result<Option<DeviceId>, Cause> {
        name.map(|name| self.device_named(name)).transpose()
    }

    fn group_device(&self, group: &Addr, device: Option<&str>) -> Result<Option<DeviceId>, Cause> {
        self.device_or_none(device.or(group.scope.as_deref()))
    }

    fn sock_addr(&self, addr: &Addr, port: u16) -> Result<SockAddr, Cause> {
        let scope = self.device_or_none(addr.scope.as_deref())?.map_or(0, DeviceId::index);
        Ok(match addr.ip {
            IpAddr::V4(ip) => SockAddr::V4(SocketAddrV4::new(ip, port)),
            IpAddr::V6(ip) => SockAddr::V6(SocketAddrV6::new(ip, port, 0, scope)),
        })
    }

    fn device(&mut self, name: &str, addresses: &[String]) -> Result<Outcome, Cause> {
        if self.table.router().by_name(NetId::FIRST, name).is_some() && name != "lo" {
            return Err(format!("device `{name}` is there already"));
        }
        let mut prefixes = Vec::new();
        for text in addresses {
            let bad = || format!("bad prefix {text:?}: expected address/length, as 10.1.0.1/24");
            let (addr, bits) = text.split_once('/').ok_or_else(bad)?;
            let addr: IpAddr = addr.parse().map_err(|_| bad())?;
            let bits: u8 = bits.parse().map_err(|_| bad())?;
            if bits > if addr.is_ipv4() { 32 } else { 128 } {
                return Err(bad());
            }
            prefixes.push((addr, bits));
        }
        let routes = self.table.router_mut();
        if name == "lo" {
            for &(addr, bits) in &prefixes {
                routes.add_address(NetId::FIRST, "lo", addr, bits);
            }
        } else {
            routes.add(NetId::FIRST, name, &prefixes);
        }
        Ok(outcome("device", Ok(())))
    }

    fn options(&self, fields: &SocketFields) -> Result<SocketOptions, Cause> {
        let family = match fields.family {
            4 => Family::V4,
            6 => Family::V6,
            other => return Err(format!("field `family` is {other}: expected 4 or 6")),
        };
        if self.numbers.contains_key(&fields.id) {
            return Err(format!("id {} is used twice", fields.id));
        }
        let mut options = SocketOptions::new(family);
        options.uid = fields.uid;
        options.privileged = fields.privileged;
        options.v6only = self.table.net_config(NetId::FIRST).is_some_and(|c| c.bindv6only);
        Ok(options)
    }

    fn register(&mut self, number: Number, socket: Option<SocketId>) {
        let order = self.numbers.len();
        self.numbers.insert(number, socket);
        if let Some(socket) = socket {
            self.names.insert(socket, (order, number));
        }
    }

    fn create(&mut self, fields: &SocketFields) -> Result<Outcome, Cause> {
        let options = self.options(fields)?;
        // On IPv4 sockets the format allows the option if it says what is true anyway.
        let mut given = fields.options.clone();
        if fields.family == 4 && given.v6only == Some(false) {
            given.v6only = None;
        }
        let settings = self.settings(&given)?;
        let mut result = Ok(());
        let mut socket = self.table.create(&options).ok();
        if let Some(s) = socket {
            result = settings.into_iter().try_for_each(|option| self.table.set(s, option));
            if result.is_err() {
                let _ = self.table.close(s);
                socket = None;
            }
        }
        self.register(fields.id, socket);
        Ok(Outcome { id: Some(fields.id), ..outcome("socket", result) })
    }

    fn connect_from(
        &mut self,
        fields: &SocketFields,
        local: &Endpoint,
        peer: &Endpoint,
    ) -> Result<Outcome, Cause> {
        let mut options = self.options(fields)?;
        let given = &fields.options;
        let (from, to) =
            (self.sock_addr(&local.addr, local.port)?, self.sock_addr(&peer.addr, peer.port)?);
        options.v6only = given.v6only.unwrap_or(options.v6only);
        options.reuseaddr = given.reuseaddr.unwrap_or(false);
        options.reuseport = given.reuseport.unwrap_or(false);
        options.broadcast = given.broadcast.unwrap_or(false);
        options.freebind = given.freebind.unwrap_or(false);
        options.device = self.device_or_none(given.device.as_ref().and_then(Option::as_deref))?;
        let result = self.table.connect_from(&options, from, to);
        self.register(fields.id, result.ok());
        let mut outcome =
            Outcome { id: Some(fields.id), ..outcome("connect-from", result.map(|_| ())) };
        self.tell_ends(&mut outcome, result.ok());
        Ok(outcome)
    }

    /// The options in the order of the format.
    fn settings(&self, o: &OptionFields) -> Result<Vec<SetOption>, Cause> {
        let device = |name: &Option<String>| self.device_or_none(name.as_deref());
        let mut out = Vec::new();
        let flags: [(Option<bool>, Flag); 14] = [
            (o.reuseaddr, SetOption::ReuseAddr),
            (o.reuseport, SetOption::ReusePort),
            (o.v6only, SetOption::V6Only),
            (o.broadcast, SetOption::Broadcast),
            (o.freebind, SetOption::FreeBind),
            (o.transparent, SetOption::Transparent),
            (o.bind_address_no_port, SetOption::BindAddressNoPort),
            (o.recverr, SetOption::RecvErr4),
            (o.recverr6, SetOption::RecvErr6),
            (o.multicast_all, SetOption::MulticastAll4),
            (o.multicast_all6, SetOption::MulticastAll6),
            (o.no_check6_rx, SetOption::NoCheck6Rx),
            (o.pmtu_dont, SetOption::PmtuDont4),
            (o.pmtu_dont6, SetOption::PmtuDont6),
        ];
        out.extend(flags.iter().filter_map(|(on, make)| on.map(make)));
        if let Some(name) = &o.device {
            out.push(SetOption::Device(device(name)?));
        }
        if let Some(cpu) = o.incoming_cpu {
            let bad = |_| format!("field `incoming_cpu` is {cpu}: expected -1 or a CPU's number");
            let cpu = if cpu == -1 { None } else { Some(u16::try_from(cpu).map_err(bad)?) };
            out.push(SetOption::IncomingCpu(cpu));
        }
        if let Some((low, high)) = o.local_port_range {
            out.push(SetOption::LocalPortRange(low, high));
        }
        if let Some(name) = &o.multicast_if {
            out.push(SetOption::MulticastIf4(device(name)?, std::net::Ipv4Addr::UNSPECIFIED));
        }
        if let Some(name) = &o.multicast_if6 {
            out.push(SetOption::MulticastIf6(device(name)?));
        }
        if let Some(name) = &o.unicast_if {
            out.push(SetOption::UnicastIf(device(name)?));
        }
        Ok(out)
    }

    fn sysctl(&mut self, name: &str, value: &Value) -> Result<Outcome, Cause> {
        let text = match value {
            Value::Number(n) => n.to_string(),
            Value::Text(text) => text.clone(),
        };
        let applied = self.table.change_net_config(NetId::FIRST, |config| {
            super::sysctl::apply(config, name, text.trim())
        });
        let result = applied.unwrap_or_else(|| Err("no namespace".to_owned()))?;
        Ok(outcome("sysctl", result))
    }

    fn datagram(
        &self,
        src: (&Addr, u16),
        dst: (&Addr, u16),
        device: Option<&str>,
    ) -> Result<Datagram, Cause> {
        let tuple = Tuple::new(SocketAddr::new(src.0.ip, src.1), SocketAddr::new(dst.0.ip, dst.1));
        let tuple = tuple.ok_or_else(|| {
            format!("source {} and destination {} are of different families", src.0, dst.0)
        })?;
        let mut datagram = Datagram::new(tuple);
        let scope = dst.0.scope.as_deref().or(src.0.scope.as_deref());
        datagram.device = self.device_or_none(device.or(scope))?;
        Ok(datagram)
    }

    /// The numbers of sockets, in order of creation.
    fn numbers_of(&self, sockets: &[SocketId]) -> Vec<Number> {
        let mut named: Vec<_> = sockets.iter().filter_map(|s| self.names.get(s)).collect();
        named.sort_unstable();
        named.into_iter().map(|&(_, number)| number).collect()
    }

    fn name(&self, socket: SocketId) -> String {
        self.names.get(&socket).map_or_else(|| "?".to_owned(), |(_, number)| number.to_string())
    }

    fn tell_steps(&self, outcome: &mut Outcome, events: &[Event]) {
        if self.steps {
            outcome.steps = events.iter().map(|e| why::step(e, &|s| self.name(s))).collect();
        }
    }

    fn tell_found(&self, outcome: &mut Outcome, found: &Found, events: &[Event]) {
        outcome.to = Some(self.numbers_of(&[found.socket]));
        outcome.table = Some(found.via.name().into());
        let mut size = 0;
        if found.by_group {
            let mut members: Vec<SocketId> = self.table.group_of(found.socket).to_vec();
            members.retain(|&m| self.table.info(m).is_ok_and(|i| !i.connected));
            size = members.len();
            outcome.group = Some(self.numbers_of(&members));
        }
        outcome.why = Some(why::found(found, events, size));
    }

    fn send(&self, datagram: &Datagram) -> (Outcome, Vec<SocketId>) {
        let mut events: Vec<Event> = Vec::new();
        let delivery = self.table.receive(datagram, &mut events);
        let mut out = outcome("send", Ok(()));
        let mut receivers = Vec::new();
        match delivery {
            Delivery::Unicast(found) => {
                receivers.push(found.socket);
                out.result = "delivered".into();
                self.tell_found(&mut out, &found, &events);
            }
            Delivery::Copies(sockets) => {
                out.result = "delivered".into();
                out.to = Some(self.numbers_of(&sockets));
                out.table = Some("copies".into());
                out.why = Some(format!("every socket that matches gets a copy: {}", sockets.len()));
                receivers = sockets;
            }
            Delivery::PortUnreachable => {
                out.result = "port-unreachable".into();
                out.why = Some(why::nobody(&events));
            }
            Delivery::Dropped(reason) => {
                out.result = "dropped".into();
                out.reason = Some(reason.name().into());
            }
        }
        self.tell_steps(&mut out, &events);
        (out, receivers)
    }

    fn icmp(&self, error: &IcmpError) -> Outcome {
        let mut events: Vec<Event> = Vec::new();
        let mut out = outcome("icmp", Ok(()));
        out.result = "no-socket".into();
        if let Some(delivery) = self.table.icmp_error_traced(error, &mut events) {
            out.to = Some(self.numbers_of(&[delivery.socket]));
            let (result, errno) = match delivery.report {
                IcmpReport::Ignored => ("ignored", None),
                IcmpReport::SocketError(errno) => ("socket-error", Some(errno)),
                IcmpReport::Queued(errno) => ("queued", Some(errno)),
            };
            out.result = result.into();
            out.errno = errno.map(|e| e.name().into());
        }
        self.tell_steps(&mut out, &events);
        out
    }
}
