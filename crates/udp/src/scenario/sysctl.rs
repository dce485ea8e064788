//! Kernel settings by name.

use std::collections::BTreeSet;

use super::run::Cause;
use crate::{Errno, NetConfig};

/// Sets `name`. The outer error is an unknown name, the inner one what the kernel says to the value.
pub(super) fn apply(
    config: &mut NetConfig,
    name: &str,
    value: &str,
) -> Result<Result<(), Errno>, Cause> {
    let flag = |field: &mut bool| match value {
        "0" => {
            *field = false;
            Ok(())
        }
        _ => value.parse().map_err(|_| Errno::EINVAL).map(|n: u32| *field = n != 0),
    };
    let key = name.replace('/', ".");
    let known = key.strip_prefix("net.").unwrap_or(&key);
    Ok(match known {
        "ipv4.ip_local_port_range" => port_range(value).map(|r| config.port_range = r),
        "ipv4.ip_local_reserved_ports" => ports(value).map(|p| config.reserved_ports = p),
        "ipv4.ip_unprivileged_port_start" => {
            value.parse().map(|p| config.unprivileged_port_start = p).map_err(|_| Errno::EINVAL)
        }
        "ipv4.igmp_max_memberships" => {
            value.parse().map(|n| config.max_memberships = n).map_err(|_| Errno::EINVAL)
        }
        "ipv4.ip_nonlocal_bind" => flag(&mut config.nonlocal_bind4),
        "ipv6.ip_nonlocal_bind" => flag(&mut config.nonlocal_bind6),
        "ipv4.udp_l3mdev_accept" => flag(&mut config.udp_l3mdev_accept),
        "ipv4.tcp_l3mdev_accept" => flag(&mut config.tcp_l3mdev_accept),
        "ipv4.ip_early_demux" => flag(&mut config.ip_early_demux),
        "ipv4.udp_early_demux" => flag(&mut config.udp_early_demux),
        "ipv6.bindv6only" => flag(&mut config.bindv6only),
        _ => return Err(format!("unknown setting `{name}`")),
    })
}

/// `low high`; both from 1, not upside down.
fn port_range(value: &str) -> Result<(u16, u16), Errno> {
    let mut numbers = value.split_whitespace().map(str::parse::<u16>);
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Ok(low)), Some(Ok(high)), None) if low > 0 && low <= high => Ok((low, high)),
        _ => Err(Errno::EINVAL),
    }
}

/// `a,b-c`.
fn ports(value: &str) -> Result<BTreeSet<u16>, Errno> {
    let mut set = BTreeSet::new();
    for part in value.split(',').filter(|p| !p.is_empty()) {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (Ok(low), Ok(high)) = (low.parse::<u16>(), high.parse::<u16>()) else {
            return Err(Errno::EINVAL);
        };
        if low > high {
            return Err(Errno::EINVAL);
        }
        set.extend(low..=high);
    }
    Ok(set)
}
