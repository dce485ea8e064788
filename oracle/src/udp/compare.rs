//! One scenario, by the kernel and by the table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use fourtuple_udp::scenario::{
    Addr, Number, Operation, OptionFields, Outcome, Runner, SocketFields, Value,
};
use fourtuple_udp::{Config, NetId, Profile, SocketId};

use super::generate::Scenario;
use super::real::Real;
use crate::error::{Error, Result};

/// Sockets that a flow's hash is measured with.
const RULER: u64 = 64;

/// The address searched for and the port, and the source.
type Flow = (IpAddr, u16, IpAddr, u16);

/// The 64th part of the range of hashes that each flow's is in, by the kernel's secret and by the
/// table's.
#[derive(Debug, Default)]
struct Flows {
    kernel: BTreeMap<Flow, u64>,
    table: BTreeMap<Flow, u64>,
}

/// An operation that the two answer differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpDifference {
    /// Everything up to that operation, for the scenario runner: the devices, and the ports that the
    /// kernel happened to choose as ranges of one port.
    pub script: Vec<Operation>,
    /// What the kernel said.
    pub kernel: Outcome,
    /// What the table said.
    pub table: Outcome,
    /// What is wrong, if the two answers do not show it.
    pub note: Option<String>,
    /// Operations up to that one, without what was added.
    pub(super) operations: usize,
}

impl UdpDifference {
    /// What differs without the details.
    #[must_use]
    pub fn headline(&self) -> String {
        let (op, kernel, table) = (&self.kernel.op, &self.kernel.result, &self.table.result);
        match &self.note {
            _ if kernel != table => format!("{op}: kernel {kernel}, table {table}"),
            Some(_) => format!("{op}: {kernel}, noted"),
            None if self.kernel.to != self.table.to => format!("{op}: other receivers"),
            None => format!("{op}: {kernel}, other ends"),
        }
    }
}

impl fmt::Display for UdpDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json = |outcome| serde_json::to_string(outcome).unwrap_or_default();
        for op in &self.script {
            writeln!(f, "{}", serde_json::to_string(op).unwrap_or_default())?;
        }
        writeln!(f, "kernel: {}", json(&self.kernel))?;
        write!(f, "table:  {}", json(&self.table))?;
        match &self.note {
            Some(note) => write!(f, "\nnote:   {note}"),
            None => Ok(()),
        }
    }
}

/// What came of a scenario.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// Operations put to both.
    pub(super) operations: u64,
    /// Of those, datagrams.
    pub(super) datagrams: u64,
    /// Of those, to a member of a group whose place in it was known beforehand.
    pub(super) predicted: u64,
    /// How often each answer came, by operation and result.
    pub(super) answers: BTreeMap<(String, String), u64>,
    pub(super) difference: Option<UdpDifference>,
}

/// Puts scenarios to both. Belongs to the thread that made it.
pub(super) struct UdpComparer {
    real: Real,
    flows: Flows,
}

impl UdpComparer {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { real: Real::new()?, flows: Flows::default() })
    }

    /// Runs a scenario to its end or the first difference.
    pub(super) fn run(&mut self, operations: &[Operation]) -> Result<Compared> {
        self.measure(operations)?;
        let mut run = Run::new(&self.flows)?;
        let mut compared = Compared::default();
        for (n, op) in operations.iter().enumerate() {
            let kernel = self.real.apply(op)?;
            compared.operations += 1;
            compared.datagrams += u64::from(matches!(op, Operation::Send { .. }));
            let key = (kernel.op.to_string(), kernel.result.to_string());
            *compared.answers.entry(key).or_default() += 1;
            let (table, verdict) = run.step(op, &kernel)?;
            match verdict {
                Verdict::Same => {}
                Verdict::Unknowable => break,
                Verdict::Differs(note) => {
                    let script = std::mem::take(&mut run.script);
                    compared.difference =
                        Some(UdpDifference { script, kernel, table, note, operations: n + 1 });
                    break;
                }
            }
        }
        compared.predicted = run.predicted;
        self.real.reset()?;
        Ok(compared)
    }

    /// Measures the hash of each flow that is not known yet: of a group of 64 members that were bound
    /// one after the other, the one that gets the flow tells its upper bits. A group at the any
    /// address has hashes of its own, as the search for it has another address.
    fn measure(&mut self, operations: &[Operation]) -> Result<()> {
        let mut missing: BTreeMap<(IpAddr, u16), BTreeMap<Flow, &Operation>> = BTreeMap::new();
        for op in operations {
            for any in [false, true] {
                let Some(flow) = flow(op, any).filter(|flow| !flow.0.is_multicast()) else {
                    continue;
                };
                if !self.flows.kernel.contains_key(&flow) {
                    missing.entry((flow.0, flow.1)).or_default().insert(flow, op);
                }
            }
        }
        for ((addr, port), sends) in missing {
            self.real.reset()?;
            let mut table = prepared()?;
            if !self.ruler(&mut table, addr, port)? {
                continue;
            }
            for (flow, op) in sends {
                let real = self.real.apply(op)?;
                if let Some([member]) = real.to.as_deref() {
                    self.flows.kernel.insert(flow, *member);
                }
                if let Some([member]) = table.apply(op).map_err(Error::Decode)?.to.as_deref() {
                    self.flows.table.insert(flow, *member);
                }
            }
        }
        self.real.reset()
    }

    /// Binds the 64 sockets of both; false if the address is none to bind to.
    fn ruler(&mut self, table: &mut Runner, ip: IpAddr, port: u16) -> Result<bool> {
        for id in 0..RULER {
            let options = OptionFields { reuseport: Some(true), ..OptionFields::default() };
            let family = if ip.is_ipv4() { 4 } else { 6 };
            let socket = SocketFields { id, family, uid: 0, privileged: None, options };
            let link = matches!(ip, IpAddr::V6(v6) if v6.is_unicast_link_local());
            let addr = Addr { ip, scope: link.then(|| "d0".to_owned()) };
            for op in [Operation::Socket(socket), Operation::Bind { id, addr, port }] {
                table.apply(&op).map_err(Error::Decode)?;
                if self.real.apply(&op)?.result != "ok" {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}

/// A table with the devices of the sandbox.
fn prepared() -> Result<Runner> {
    let mut runner = Runner::new(&Config::new(Profile::Linux));
    for op in Scenario::devices() {
        runner.apply(&op).map_err(Error::Decode)?;
    }
    Ok(runner)
}

/// The flow of a datagram, in the search for its destination or for any address.
fn flow(op: &Operation, any: bool) -> Option<Flow> {
    let Operation::Send { src, sport, dst, dport, .. } = op else { return None };
    let searched = match dst.ip {
        IpAddr::V4(_) if any => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) if any => Ipv6Addr::UNSPECIFIED.into(),
        ip => ip,
    };
    Some((searched, *dport, src.ip, *sport))
}

enum Verdict {
    Same,
    /// Equal, but what comes next hangs on the member of a group that was chosen.
    Unknowable,
    Differs(Option<String>),
}

/// The table's side of a scenario.
struct Run<'a> {
    flows: &'a Flows,
    runner: Runner,
    /// What the runner was given.
    script: Vec<Operation>,
    /// Each socket's own range of ports.
    ranges: BTreeMap<Number, (u16, u16)>,
    /// Sockets that were asked to connect.
    connected: BTreeSet<Number>,
    /// Sockets that may prefer a CPU.
    choosy: BTreeSet<Number>,
    numbers: Vec<Number>,
    predicted: u64,
}

impl<'a> Run<'a> {
    fn new(flows: &'a Flows) -> Result<Self> {
        Ok(Self {
            flows,
            runner: prepared()?,
            script: Scenario::devices(),
            ranges: BTreeMap::new(),
            connected: BTreeSet::new(),
            choosy: BTreeSet::new(),
            numbers: Vec::new(),
            predicted: 0,
        })
    }

    fn apply(&mut self, op: &Operation) -> Result<Outcome> {
        self.script.push(op.clone());
        self.runner.apply(op).map_err(Error::Decode)
    }

    fn step(&mut self, op: &Operation, kernel: &Outcome) -> Result<(Outcome, Verdict)> {
        self.note(op);
        let table = match self.chosen_port(op, kernel) {
            None => self.apply(op)?,
            Some((id, port)) => {
                let (low, high) = self.range(id);
                let reserved = self.config().is_some_and(|c| c.reserved_ports.contains(&port));
                let table = self.apply_with_port(op, port)?;
                if !(low..=high).contains(&port) || reserved {
                    let note = format!("port {port} is not to be chosen from {low} to {high}");
                    return Ok((table, Verdict::Differs(Some(note))));
                }
                table
            }
        };
        let verdict = self.compare(op, kernel, &table);
        // A socket with a peer takes up the CPU that it last heard on.
        let heard = kernel.to.iter().chain(&table.to).flatten();
        self.choosy.extend(heard.filter(|id| self.connected.contains(id)));
        Ok((table, verdict))
    }

    fn config(&self) -> Option<std::sync::Arc<fourtuple_udp::NetConfig>> {
        self.runner.table().net_config(NetId::FIRST)
    }

    /// Keeps what cannot be asked of the table later.
    fn note(&mut self, op: &Operation) {
        let (id, options) = match op {
            Operation::Socket(fields) => {
                self.numbers.push(fields.id);
                (fields.id, &fields.options)
            }
            Operation::Set { id, options } => (*id, options),
            Operation::Connect { id, .. } => {
                self.connected.insert(*id);
                return;
            }
            _ => return,
        };
        if options.incoming_cpu.is_some() {
            self.choosy.insert(id);
        }
        if let Some(range) =
            options.local_port_range.filter(|(low, high)| *high == 0 || low <= high)
        {
            self.ranges.insert(id, range);
        }
    }

    /// The socket and the port, if the kernel chose one in this operation.
    fn chosen_port(&self, op: &Operation, kernel: &Outcome) -> Option<(Number, u16)> {
        let id = match op {
            Operation::Bind { id, port: 0, .. }
            | Operation::Autobind { id }
            | Operation::Connect { id, .. } => *id,
            _ => return None,
        };
        let port = kernel.local.as_ref()?.port;
        let before = self.runner.table().info(self.runner.socket(id)?).ok()?.local.1;
        (port != 0 && before == 0).then_some((id, port))
    }

    /// The range that a socket's port is chosen from.
    fn range(&self, id: Number) -> (u16, u16) {
        let (low, high) = self.config().map_or((0, 0), |config| config.port_range);
        let (own_low, own_high) = self.ranges.get(&id).copied().unwrap_or((0, 0));
        let within = |port: u16| port != 0 && (low..=high).contains(&port);
        (
            if within(own_low) { own_low } else { low },
            if within(own_high) { own_high } else { high },
        )
    }

    /// Applies an operation while there is only one port to choose: if the table takes it, the
    /// kernel's choice was free.
    fn apply_with_port(&mut self, op: &Operation, port: u16) -> Result<Outcome> {
        let (low, high) = self.config().map_or((0, 0), |config| config.port_range);
        let range = |low: u16, high: u16| Operation::Sysctl {
            name: "net.ipv4.ip_local_port_range".to_owned(),
            value: Value::Text(format!("{low} {high}")),
        };
        if low == high {
            return self.apply(op);
        }
        self.apply(&range(port, port))?;
        let table = self.apply(op)?;
        self.apply(&range(low, high))?;
        Ok(table)
    }

    fn compare(&mut self, op: &Operation, kernel: &Outcome, table: &Outcome) -> Verdict {
        let differs = Verdict::Differs(None);
        // The format does not say which CPU an ICMP error arrives on.
        if matches!(op, Operation::Icmp { .. }) && !self.choosy.is_empty() {
            return Verdict::Same;
        }
        // Members of a group can take such a datagram or error differently, and the choice among them
        // is the kernel's secret.
        let by_member = match op {
            Operation::Icmp { .. } => true,
            Operation::Send { dst, checksum, .. } => dst.ip.is_ipv6() && !checksum,
            _ => false,
        };
        if by_member && kernel.result != table.result && self.groups() {
            return Verdict::Same;
        }
        if kernel.result != table.result || kernel.errno != table.errno {
            return differs;
        }
        match op {
            Operation::Send { .. } => match &table.group {
                Some(group) => self.compare_group(op, kernel, table, group),
                None if kernel.to == table.to => Verdict::Same,
                None => differs,
            },
            Operation::Icmp { .. } => match (&kernel.to, &table.to) {
                // Of an ignored error the kernel does not tell whose it was.
                (None, _) => Verdict::Same,
                (Some(kernel), Some(table)) if kernel == table => Verdict::Same,
                (Some(kernel), Some(table)) if kernel.len() == 1 => {
                    let group = table.first().map(|&n| self.group(n)).unwrap_or_default();
                    if group.contains(&kernel[0]) { Verdict::Same } else { differs }
                }
                _ => differs,
            },
            Operation::Socket(_) | Operation::Close { .. } | Operation::Sysctl { .. } => {
                Verdict::Same
            }
            _ if kernel.local == table.local && kernel.peer == table.peer => Verdict::Same,
            _ => differs,
        }
    }

    /// Whether any group has more than one member.
    fn groups(&self) -> bool {
        let table = self.runner.table();
        table.sockets().any(|socket| table.group_of(socket).len() > 1)
    }

    /// The members of a socket's group, connected or not, in the group's order.
    fn group(&self, number: Number) -> Vec<Number> {
        let Some(socket) = self.runner.socket(number) else { return Vec::new() };
        let name = |member: &SocketId| {
            self.numbers.iter().copied().find(|&n| self.runner.socket(n) == Some(*member))
        };
        self.runner.table().group_of(socket).iter().filter_map(name).collect()
    }

    fn compare_group(
        &mut self,
        op: &Operation,
        kernel: &Outcome,
        table: &Outcome,
        group: &[Number],
    ) -> Verdict {
        let (Some([got]), Some([chosen])) = (kernel.to.as_deref(), table.to.as_deref()) else {
            return Verdict::Differs(None);
        };
        if !group.contains(got) {
            return Verdict::Differs(None);
        }
        let members = self.group(*chosen);
        if members.iter().any(|member| self.choosy.contains(member)) {
            return if got == chosen { Verdict::Same } else { Verdict::Unknowable };
        }
        let flow = flow(op, table.table.as_deref() == Some("hash2-any"));
        let mut verdict = Verdict::Same;
        for (who, parts, got) in
            [("kernel", &self.flows.kernel, got), ("table", &self.flows.table, chosen)]
        {
            let Some(&part) = flow.and_then(|flow| parts.get(&flow)) else { continue };
            self.predicted += u64::from(who == "kernel" && members.len() > 1);
            let expected = expected(&members, part, |member| group.contains(&member));
            if !expected.contains(got) {
                verdict = Verdict::Differs(Some(format!(
                    "of the group {members:?} the {who}'s hash of the flow, part {part} of {RULER}, \
                     chooses {expected:?}"
                )));
            }
        }
        verdict
    }
}

/// The members that hashes of a part of the range choose: the first from there on that is free.
fn expected(members: &[Number], part: u64, free: impl Fn(Number) -> bool) -> BTreeSet<Number> {
    let n = members.len() as u64;
    let (first, last) = (part * n / RULER, ((part + 1) * n).div_ceil(RULER) - 1);
    let probe = |index: u64| {
        (0..n).map(|k| members[((index + k) % n) as usize]).find(|&member| free(member))
    };
    (first..=last).filter_map(probe).collect()
}

/// Whether every number is a socket's, made before and only once.
pub(super) fn sensible(operations: &[Operation]) -> bool {
    let mut made = BTreeSet::new();
    operations.iter().all(|op| match op {
        Operation::Socket(fields) => made.insert(fields.id),
        _ => id(op).is_none_or(|id| made.contains(&id)),
    })
}

/// The socket that an operation is about.
pub(super) fn id(op: &Operation) -> Option<Number> {
    match op {
        Operation::Socket(fields) => Some(fields.id),
        Operation::Set { id, .. }
        | Operation::Bind { id, .. }
        | Operation::Autobind { id }
        | Operation::Connect { id, .. }
        | Operation::Disconnect { id }
        | Operation::Join { id, .. }
        | Operation::Leave { id, .. }
        | Operation::Source { id, .. }
        | Operation::Close { id } => Some(*id),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_range_chooses_one_member_or_two_neighbours() {
        let members = [10, 11, 12];
        assert_eq!(expected(&members, 0, |_| true), [10].into());
        assert_eq!(expected(&members, 63, |_| true), [12].into());
        // 21/64 to 22/64 holds 1/3.
        assert_eq!(expected(&members, 21, |_| true), [10, 11].into());
        assert_eq!(expected(&members, 0, |m| m != 10), [11].into());
        assert_eq!(expected(&members, 63, |m| m != 12), [10].into());
        assert_eq!(expected(&members, 5, |_| false), [].into());
    }

    #[test]
    fn numbers_must_be_made_before_they_are_used() {
        let line = |text| Operation::parse(text).unwrap();
        let socket = line(r#"{"op":"socket","id":1}"#);
        let close = line(r#"{"op":"close","id":1}"#);
        assert!(sensible(&[socket.clone(), close.clone(), close.clone()]));
        assert!(!sensible(&[close, socket.clone()]));
        assert!(!sensible(&[socket.clone(), socket]));
    }
}
